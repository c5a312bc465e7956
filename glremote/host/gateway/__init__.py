"""The gateway: admits clients on one port, gives each session a worker process, and carries packets between the two.

Knows: HTTP's upgrade, tokens, who may come in, and which workers are warm. Does not know: OpenGL, or what is in a
packet. Sessions are in sessions.py, worker processes in workers.py.

A `Session` is a task: it carries what its worker sends down to the client, and lives until the worker's end or until
nobody came back in time. A connection is a task too: it carries what its client sends up. Each reads only when what it
read before is handed over, so whoever does not read makes the other stop writing, and nothing gathers here.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import http
import itertools
import logging
import os
import signal
from collections import deque
from collections.abc import Callable

from websockets.asyncio.server import Server, ServerConnection
from websockets.asyncio.server import serve as serve_websockets
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from glremote.link.websocket import PATH, SESSION_HEADER
from glremote.protocol.messages import LARGEST_PACKET

from .sessions import CLOSE_TIMEOUT, Connection, Session
from .workers import Options, Worker, WorkerFailed

__all__ = ["Gateway", "Options", "WorkerFailed", "run", "serve"]

log = logging.getLogger("glremote.host")

OPEN_TIMEOUT = 10.0
"""Seconds that a client may take to open its websocket."""
MOST_FRAMES = 8
"""How many websocket frames may wait for a worker before the gateway stops reading from their client."""
WRITE_LIMIT = (1 << 20, 1 << 18)
"""How many bytes may wait for a client before the gateway stops reading from its worker, and starts again."""
WARM_LATER = 3.0
"""Seconds after which a warm worker that was taken is replaced, if others are left: starting one takes a processor from
the session that has just begun. At the end of a session it is replaced at once."""
REMEMBERED = 1000
"""Of so many sessions that have ended it is known why, for a client that comes back later."""


class Gateway:
    """All sessions of a host, its port, and the workers that are kept warm."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._server: Server | None = None
        self._sessions: dict[str, Session] = {}
        self._ended: dict[str, str] = {}
        self._warm: deque[asyncio.Task[Worker]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._closing = False

    async def open(self) -> str:
        """Listen, and start the first workers; the address. Raises OSError and WorkerFailed."""
        websockets_log = logging.getLogger("glremote.host.websockets")
        websockets_log.setLevel(logging.WARNING)
        self._server = await serve_websockets(
            self._connected,
            self.options.bind,
            self.options.port,
            process_request=self._admit,
            create_connection=Connection,
            compression=None,
            server_header="glremote",
            open_timeout=OPEN_TIMEOUT,
            close_timeout=CLOSE_TIMEOUT,
            ping_interval=None,  # Session._ping
            max_size=2 * LARGEST_PACKET,
            max_queue=MOST_FRAMES,
            write_limit=WRITE_LIMIT,
            logger=websockets_log,
        )
        host, port = self._server.sockets[0].getsockname()[:2]
        self._warm_up()
        if self._warm:
            first = self._warm[0]
            await asyncio.wait((first,))
            if not first.cancelled() and (error := first.exception()) is not None:
                raise error
        return f"ws://[{host}]:{port}" if ":" in host else f"ws://{host}:{port}"

    async def close(self) -> None:
        """Stop accepting, tell every client, end every worker."""
        self._closing = True
        if self._server is not None:
            self._server.close(close_connections=False)
        for session in list(self._sessions.values()):
            session.end("the host is shutting down")
        for starting in self._warm:
            starting.cancel()
        started = await asyncio.gather(*self._warm, return_exceptions=True)
        ending = [worker.end() for worker in started if isinstance(worker, Worker)]
        await asyncio.gather(*ending, *self._tasks, return_exceptions=True)

    # --- workers

    async def take_worker(self) -> Worker:
        """A worker for a session; another one is started in its place. Raises WorkerFailed."""
        worker = None
        while self._warm and worker is None:
            with contextlib.suppress(WorkerFailed):  # the next attempt may succeed, or tells why not
                worker = await self._warm.popleft()
            if worker is not None and not worker.alive:
                await worker.end()
                worker = None
        if worker is None:
            worker = await Worker.start(self.options)
        if self._warm:
            asyncio.get_running_loop().call_later(WARM_LATER, self._warm_up)
        else:
            self._warm_up()
        return worker

    def _warm_up(self) -> None:
        while len(self._warm) < self.options.warm and not self._closing:
            self._warm.append(asyncio.create_task(Worker.start(self.options)))

    # --- admitting

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Before the websocket opens: None, or the refusal, whose one line the client shows after our address."""
        refusal = self._refusal(request)
        if refusal is None:
            return None  # and `_connected` follows at once, so a place that was found is not taken by another
        status, text = refusal
        response = connection.respond(status, text + "\n")
        if status is http.HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    def _refusal(self, request: Request) -> tuple[http.HTTPStatus, str] | None:
        if request.path.partition("?")[0] != PATH:
            return http.HTTPStatus.NOT_FOUND, f"this is a glremote host, and serves nothing but {PATH}"
        if request.headers.get_all("Origin"):
            return http.HTTPStatus.FORBIDDEN, "requests with an Origin, which are a web browser's, are not served"
        given = " ".join(request.headers.get_all("Authorization"))
        scheme, _, token = given.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            how = "name the file that holds it with --token-file, or set GLREMOTE_TOKEN"
            return http.HTTPStatus.UNAUTHORIZED, f"a token is needed, and none was given; {how}"
        encoded = token.strip().encode(errors="surrogateescape")
        if not hmac.compare_digest(encoded, self.options.token.encode()):
            how = "take the one that `glremote serve` shows or was given"
            return http.HTTPStatus.UNAUTHORIZED, f"the token is not this host's; {how}"
        if names := request.headers.get_all(SESSION_HEADER):
            return self._cannot_resume(names[0])
        return None if self._has_place() else (
            http.HTTPStatus.SERVICE_UNAVAILABLE,
            f"no room for another session: all {self.options.max_sessions} are in use; "
            "release a context, or serve with a greater --max-sessions",
        )  # fmt: skip

    def _cannot_resume(self, name: str) -> tuple[http.HTTPStatus, str] | None:
        if name in self._sessions:
            return None
        why = self._ended.get(name, "")
        return http.HTTPStatus.GONE, "the session has ended" + (f": {why}" if why else "")

    def _has_place(self) -> bool:
        """Whether another session may begin; of those without a connection, the one that lacks it longest gives its
        place away."""
        if len(self._sessions) < self.options.max_sessions:
            return True
        detached = [session for session in self._sessions.values() if session.connection is None]
        if not detached:
            return False
        session = min(detached, key=lambda session: session.detached)
        self.forget(session, why := "it had no connection, and a new session needed its place")
        session.end(why)
        return True

    async def _connected(self, connection: ServerConnection) -> None:
        """A websocket is open: its whole life."""
        assert connection.request is not None
        if name := connection.request.headers.get(SESSION_HEADER):
            session = self._sessions.get(name)
            if session is None:  # it ended in this moment; coming again, the client is told why
                return
            await session.resume(connection)
            return
        if self._closing:
            return
        session = Session(self, next(self._numbers))
        self._sessions[session.name] = session
        self._keep(session.task)
        log.info("%s began", session.label)
        await session.carry_up(connection)

    def forget(self, session: Session, reason: str) -> None:
        """A session is ending: nobody can come back to it."""
        if self._sessions.pop(session.name, None) is not None:
            self._warm_up()
            self._ended[session.name] = reason
            if len(self._ended) > REMEMBERED:
                del self._ended[next(iter(self._ended))]

    def dismiss(self, connection: ServerConnection, reason: str) -> None:
        """Close a connection without waiting for it; cut it if that takes long."""

        async def close() -> None:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await connection.close(CloseCode.POLICY_VIOLATION, reason)
            except TimeoutError:
                connection.transport.abort()

        self._keep(asyncio.create_task(close()))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def serve(options: Options, ready: Callable[[str], None]) -> None:
    """Be a host until SIGTERM or SIGINT; `ready` gets its address. Raises OSError (the port) and WorkerFailed."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if (lifeline := options.lifeline) is not None:
        loop.add_reader(lifeline, lambda: None if os.read(lifeline, 4096) else stop.set())
    gateway = Gateway(options)
    opening = asyncio.create_task(gateway.open())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((opening, stopping), return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            ready(opening.result())
            await stopping
    finally:
        if lifeline is not None:
            loop.remove_reader(lifeline)
        opening.cancel()
        await gateway.close()


def run(options: Options, ready: Callable[[str], None]) -> None:
    """`serve`, on the fastest event loop that is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(options, ready))
    else:
        uvloop.run(serve(options, ready))
