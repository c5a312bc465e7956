"""The gateway: admits clients on one port, gives each session a worker process, and carries packets between the two.

Knows: HTTP's upgrade, tokens, who may come in, and which workers are warm. Does not know: OpenGL, or what is in a
packet. Sessions are in sessions.py, worker processes in workers.py, pages for whoever looks in in looking.py.

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
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from websockets.asyncio.server import Server, ServerConnection
from websockets.asyncio.server import serve as serve_websockets
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from glremote.link.websocket import PATH, SESSION_HEADER
from glremote.protocol.messages import LARGEST_PACKET

from .looking import HEADERS as PAGE_HEADERS
from .looking import PAGES, Looking, is_loopback, no_descriptors
from .sessions import CLOSE_TIMEOUT, Session
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
TRY_AGAIN = 10.0
"""Seconds after which a worker is started again to see whether one can be, when someone asks and none could."""
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
        self.draining = False
        self.renderer = ""
        self._no_worker: tuple[float, str] | None = None  # since when, and why, none could be started
        self._on_loopback = False
        self._empty = asyncio.Event()
        self.looking = Looking(self)

    async def open(self) -> str:
        """Listen, and start the first workers; the address. Raises OSError and WorkerFailed."""
        websockets_log = logging.getLogger("glremote.host.websockets")
        websockets_log.setLevel(logging.WARNING)
        self._server = await serve_websockets(
            self._connected,
            self.options.bind,
            self.options.port,
            process_request=self._admit,
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
        self._on_loopback = all(is_loopback(sock.getsockname()[0]) for sock in self._server.sockets)
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

    async def drain(self, seconds: float) -> None:
        """Take no new sessions, tell those that are there, and give them so many seconds."""
        if not seconds:
            return
        self.draining = True
        text = f"the host is going down: this session is ended in {seconds:g} s"
        log.info("going down: no new sessions, and %d have %g s", len(self._sessions), seconds)
        for session in self._sessions.values():
            self._keep(asyncio.create_task(session.tell(text)))
        if self._sessions:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds)

    # --- for whoever looks in

    @property
    def sessions(self) -> Iterable[Session]:
        """Those that are there."""
        return self._sessions.values()

    @property
    def warm_workers(self) -> int:
        """How many workers are ready."""
        return sum(_is_ready(starting) for starting in self._warm)

    def trouble(self) -> str | None:
        """Why no new session can begin, though there may be room for one; or None."""
        if self.draining or self._closing:
            return "the host is going down"
        if (short := no_descriptors()) is not None:
            return short
        if self._no_worker is None:
            return None
        since, why = self._no_worker
        if time.monotonic() - since > TRY_AGAIN and all(starting.done() for starting in self._warm):
            self._warm = deque(filter(_is_ready, self._warm))
            self._warm.append(asyncio.create_task(self._start_worker()))
        return f"no worker can be started: {why}"

    # --- workers

    async def _start_worker(self) -> Worker:
        try:
            worker = await Worker.start(self.options)
        except WorkerFailed as error:
            self._no_worker = time.monotonic(), str(error)
            raise
        self._no_worker = None
        self.renderer = worker.renderer
        return worker

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
            worker = await self._start_worker()
        if self._warm:
            asyncio.get_running_loop().call_later(WARM_LATER, self._warm_up)
        else:
            self._warm_up()
        return worker

    def _warm_up(self) -> None:
        while len(self._warm) < self.options.warm and not (self._closing or self.draining):
            self._warm.append(asyncio.create_task(self._start_worker()))

    # --- admitting

    def _admit(self, connection: ServerConnection, request: Request) -> Awaitable[Response] | Response | None:
        """Before the websocket opens: None, a page, or the refusal, whose line the client shows after our address."""
        if request.path.partition("?")[0] in PAGES and "Upgrade" not in request.headers:
            return self._show(connection, request)
        refusal = self._refusal(request)
        if refusal is None:
            return None  # and `_connected` follows at once, so a place that was found is not taken by another
        status, text = refusal
        self.looking.refused[status.value] += 1
        response = connection.respond(status, text + "\n")
        if status is http.HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    async def _show(self, connection: ServerConnection, request: Request) -> Response:
        if not self.looking.prepared:
            await asyncio.to_thread(self.looking.prepare)
        page = self.looking.page(request, self._on_loopback)
        response = connection.respond(page.status, page.text)
        del response.headers["Content-Type"]
        for name, value in (("Content-Type", page.kind), *PAGE_HEADERS.items(), *page.headers):
            response.headers[name] = value
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
        if self.draining:
            return http.HTTPStatus.SERVICE_UNAVAILABLE, "the host is going down, and takes no new sessions"
        if (short := no_descriptors()) is not None:
            return http.HTTPStatus.SERVICE_UNAVAILABLE, f"no room for another session: {short}"
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
        """Whether another session may begin; one that has no connection gives its place away, the oldest first."""
        if len(self._sessions) < self.options.max_sessions:
            return True
        for session in self._sessions.values():
            if session.connection is None:
                self.forget(session, why := "it had no connection, and a new session needed its place")
                session.end(why)
                return True
        return False

    async def _connected(self, connection: ServerConnection) -> None:
        """A websocket is open: its whole life."""
        assert connection.request is not None
        if name := connection.request.headers.get(SESSION_HEADER):
            session = self._sessions.get(name)
            if session is None:  # it ended in this moment; coming again, the client is told why
                return
        elif self._closing:
            return
        else:
            session = Session(self, next(self._numbers))
            self._sessions[session.name] = session
            self._keep(session.task)
            self.looking.sessions += 1
            peer = str((connection.remote_address or ("",))[0])
            log.info("%s began", session.label, extra={"session": session.label, "fields": {"from": peer}})
        await session.carry_up(connection)

    def forget(self, session: Session, reason: str) -> None:
        """A session is ending: nobody can come back to it."""
        if self._sessions.pop(session.name, None) is not None:
            self.looking.forget(session, reason)
            if not self._sessions:
                self._empty.set()
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


def _is_ready(starting: asyncio.Task[Worker]) -> bool:
    return starting.done() and not starting.cancelled() and starting.exception() is None


async def serve(options: Options, ready: Callable[[str], None]) -> None:
    """Be a host until SIGINT, or until SIGTERM and the sessions' time is over, or a second one comes.

    `ready` gets its address. Raises OSError (the port) and WorkerFailed.
    """
    loop = asyncio.get_running_loop()
    stop, drain = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    loop.add_signal_handler(signal.SIGTERM, lambda: stop.set() if drain.is_set() else drain.set())
    if (lifeline := options.lifeline) is not None:
        loop.add_reader(lifeline, lambda: None if os.read(lifeline, 4096) else stop.set())
    gateway = Gateway(options)
    opening = asyncio.create_task(gateway.open())
    stopping, draining = asyncio.create_task(stop.wait()), asyncio.create_task(drain.wait())
    try:
        await asyncio.wait((opening, stopping, draining), return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            ready(opening.result())
            await asyncio.wait((stopping, draining), return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                await asyncio.wait(
                    (stopping, asyncio.create_task(gateway.drain(options.drain))), return_when=asyncio.FIRST_COMPLETED
                )
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
