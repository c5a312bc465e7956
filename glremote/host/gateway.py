"""The gateway: admits clients on one port, gives each session a worker process, and carries packets between the two.

Knows: HTTP's upgrade and websockets, tokens, processes, and the frames of a worker's port (port.py). Does not know:
OpenGL, or what is in a packet; of all messages it writes one itself, Lost.

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
import secrets
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from websockets.asyncio.server import Server, ServerConnection
from websockets.asyncio.server import serve as serve_websockets
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from glremote.link.websocket import PATH, SESSION_HEADER
from glremote.protocol.messages import LARGEST_PACKET, Lost, encode

from .near import SWITCH as NEAR
from .port import HEADER, LARGEST, Bytes, Is, PortClosed
from .serving import environment

log = logging.getLogger("glremote.host")

OPEN_TIMEOUT = 10.0
"""Seconds that a client may take to open its websocket."""
CLOSE_TIMEOUT = 2.0
"""Seconds that a client may take to take leave; then the connection is cut."""
PING_INTERVAL = 20.0
PING_TIMEOUT = 60.0
"""Seconds without a sign of life; generous, since a client may be busy in a call that holds its interpreter lock."""
WORKER_TIMEOUT = 25.0
"""Seconds that a worker may take to make its context: less than the client waits for its greeting."""
WORKER_PATIENCE = 2.0
"""Seconds that a worker may take to exit once its port is closed; then it is killed."""
MOST_FRAMES = 8
"""How many websocket frames may wait for a worker before the gateway stops reading from their client."""
WRITE_LIMIT = (1 << 20, 1 << 18)
"""How many bytes may wait for a client before the gateway stops reading from its worker, and starts again."""
JOINED = 1 << 16
LONGEST_REASON = 2000
REMEMBERED = 1000
"""Of so many sessions that have ended it is known why, for a client that comes back later."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `glremote serve` can be told."""

    token: str = field(repr=False)
    bind: str = "127.0.0.1"
    port: int = 8765
    max_sessions: int = 16
    warm: int = 1
    grace: float = 60.0
    device_index: int | None = None
    near: bool = True
    """Whether a client on this machine may go to its worker past the gateway (near.py)."""
    lifeline: int | None = None
    """A descriptor: when nothing more can be read from it, the gateway ends."""
    worker_command: tuple[str, ...] = (sys.executable, "-P", "-m", "glremote.host.worker")


class WorkerFailed(Exception):
    """A worker process did not get as far as its context; the text says why."""


class Worker:
    """A worker process, and our end of its port. Whoever sends holds `lock`; one task receives."""

    def __init__(self, process: asyncio.subprocess.Process, sock: socket.socket) -> None:
        self.label = f"worker {process.pid}"
        self.lock = asyncio.Lock()
        self._process = process
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._last_line = ""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, options: Options) -> Worker:
        """A worker that has its context. Raises WorkerFailed."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        settings = [] if options.device_index is None else ["--device-index", str(options.device_index)]
        variables = environment() if options.near else environment() | {NEAR: "0"}
        try:
            process = await asyncio.create_subprocess_exec(
                *options.worker_command, "--fd", str(theirs.fileno()), *settings,
                pass_fds=(theirs.fileno(),), env=variables, start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):
                why = f"{options.worker_command[0]}: {error.strerror}"
                raise WorkerFailed(f"a worker process could not be started: {why}") from None
            raise
        finally:
            theirs.close()
        worker = cls(process, ours)
        try:
            async with asyncio.timeout(WORKER_TIMEOUT):
                what, data = await worker.receive()
            if what is not Is.READY:
                raise PortClosed("it is no worker")
            log.info("%s renders with %s", worker.label, bytes(data).decode(errors="replace"))
            return worker
        except BaseException as error:
            how = await worker.end()
            if not isinstance(error, PortClosed | TimeoutError):
                raise
            if isinstance(error, TimeoutError):
                how = f"a worker process had no context within {WORKER_TIMEOUT:g} s"
            raise WorkerFailed(worker._last_line or how) from None

    @property
    def alive(self) -> bool:
        """Whether the process has not ended, as far as is known."""
        return self._process.returncode is None

    async def send(self, what: Is, data: Bytes = b"") -> None:
        """Send a frame; waits until the worker's socket has taken it. Raises PortClosed."""
        header = HEADER.pack(len(data), what)
        try:
            for piece in (header + data,) if len(data) < JOINED else (header, data):
                await self._loop.sock_sendall(self._socket, piece)
        except OSError as error:
            raise PortClosed(str(error)) from None

    async def receive(self) -> tuple[Is, Bytes]:
        """The next frame. Raises PortClosed at the end, and at what is no frame."""
        buffer = self._buffer
        try:
            while len(buffer) < HEADER.size:
                data = await self._loop.sock_recv(self._socket, JOINED)
                if not data:
                    raise PortClosed("the worker closed its port")
                buffer += data
            length, what = HEADER.unpack_from(buffer)
            if length > LARGEST:
                raise PortClosed(f"a frame of {length} bytes")
            frame, at = bytearray(length), min(length, len(buffer) - HEADER.size)
            frame[:at] = buffer[HEADER.size : HEADER.size + at]
            del buffer[: HEADER.size + at]
            with memoryview(frame) as view:
                while at < length:
                    count = await self._loop.sock_recv_into(self._socket, view[at:])
                    if not count:
                        raise PortClosed("the worker closed its port within a frame")
                    at += count
            return Is(what), frame
        except (OSError, ValueError) as error:
            raise PortClosed(str(error)) from None

    async def end(self) -> str:
        """Close the port, see to it that the process ends, and tell how it did. It may be called again."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            async with asyncio.timeout(WORKER_PATIENCE):
                await self._process.wait()
        except TimeoutError:
            log.warning("%s did not end by itself, and was killed", self.label)
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        async with self.lock:  # a socket must not be closed under somebody who sends
            self._socket.close()
        await asyncio.wait((self._listening,), timeout=1.0)
        status = self._process.returncode or 0
        if status < 0:
            names = {number.value: number.name for number in signal.Signals}
            return f"the worker process was killed by {names.get(-status, f'signal {-status}')}"
        return f"the worker process exited with status {status}" + (f": {self._last_line}" if self._last_line else "")

    async def _listen(self) -> None:
        """Pass on what the process writes to its standard error; should it fail, the last line is why."""
        assert self._process.stderr is not None
        rest = b""
        while data := await self._process.stderr.read(JOINED):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._log(line)
            if len(rest) > LONGEST_REASON:
                self._log(rest)
                rest = b""
        self._log(rest)

    def _log(self, line: bytes) -> None:
        text = "".join(c if c.isprintable() else " " for c in line.decode(errors="replace")).strip()[:LONGEST_REASON]
        if text:
            self._last_line = text
            log.warning("%s: %s", self.label, text)


class Session:
    """One session: its worker, at most one connection, and why it ended."""

    def __init__(self, gateway: Gateway, number: int) -> None:
        self.name = secrets.token_urlsafe(16)
        self.label = f"session {number}"
        self.connection: ServerConnection | None = None
        self.task = asyncio.create_task(self._run(), name=self.label)
        self._gateway = gateway
        self._worker: Worker | None = None
        self._started = asyncio.Event()
        self._reason: str | None = None  # why it ended; "" after a goodbye
        self._expiry: asyncio.TimerHandle | None = None
        self._introduced = False  # the worker knows the session's name
        self._attached = False  # the worker was told of a connection
        self._known = False  # a client can know the session's name, and come back
        self._reading_since: float | None = None  # nothing has come up since then, though we would take it

    def end(self, reason: str) -> None:
        """End the session, unless it is ending already."""
        if self._reason is None:
            self._reason = reason
            self.task.cancel()

    # --- the session's own task

    async def _run(self) -> None:
        try:
            reason = await self._carry_down()
        except asyncio.CancelledError:
            reason = self._reason or ""
        except Exception as error:
            log.exception("%s: the gateway failed", self.label)
            reason = f"the gateway failed: {error!r}"
        self._reason = reason = reason[:LONGEST_REASON]
        self._gateway.forget(self, reason)  # nobody comes back to it now
        if self._expiry is not None:
            self._expiry.cancel()
        log.info("%s ended%s", self.label, reason and f": {reason}")
        await asyncio.gather(self._part(reason), self._worker.end() if self._worker else asyncio.sleep(0))
        self._started.set()

    async def _carry_down(self) -> str:
        """Carry what the worker sends, until its end; the reason of that."""
        try:
            self._worker = worker = await self._gateway.take_worker()
        except WorkerFailed as error:
            return f"the host has no worker for the session: {error}"
        worker.label = self.label
        self._started.set()
        try:
            while True:
                what, data = await worker.receive()
                if what is Is.ENDED:
                    return bytes(data).decode(errors="replace")
                # A packet for a connection that is gone is dropped: the session's core sends it again.
                if what is Is.PACKET and self.connection is not None:
                    self._known = True
                    with contextlib.suppress(ConnectionClosed):
                        await self.connection.send(data)
        except PortClosed:
            return await worker.end()

    async def _part(self, reason: str) -> None:
        """Tell the client why, if there is anything to tell, and close its connection."""
        if (connection := self.connection) is None:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                if reason:
                    await connection.send(encode(Lost(reason)))
                await connection.close()
        except (TimeoutError, ConnectionClosed):
            connection.transport.abort()

    # --- a connection's task

    async def carry_up(self, connection: ServerConnection) -> None:
        """Be this connection's session, in place of an older one's, and carry what its client sends."""
        older, self.connection = self.connection, connection
        if self._expiry is not None:
            self._expiry.cancel()
        pinging = asyncio.create_task(self._ping(connection))
        try:
            if older is not None:
                self._gateway.dismiss(older, "replaced")
            await self._started.wait()
            await self._attach(connection)
            while self.connection is connection:
                packet = await self._receive(connection)
                if isinstance(packet, str):
                    await connection.close(CloseCode.UNSUPPORTED_DATA, "packets are binary messages, and this was text")
                    break
                await self._send_up(connection, packet)
        except ConnectionClosed:
            pass
        except PortClosed:
            await connection.wait_closed()  # the session's own task tells why, and closes it
        finally:
            pinging.cancel()
            await self._detach(connection)

    async def _receive(self, connection: ServerConnection) -> bytes | str:
        self._reading_since = asyncio.get_running_loop().time()
        try:
            return await connection.recv()
        finally:
            self._reading_since = None

    async def _send_up(self, connection: ServerConnection, packet: bytes) -> None:
        # Buffers are to be timed from here (handed over) to `_carry_down` (done), so that a worker that hangs is ended.
        worker = self._living_worker()
        async with worker.lock:
            if self.connection is connection:
                await worker.send(Is.PACKET, packet)

    async def _attach(self, connection: ServerConnection) -> None:
        worker = self._living_worker()
        async with worker.lock:
            if self.connection is not connection:
                return
            if self._attached:
                await worker.send(Is.DETACHED)
            grace = self._gateway.options.grace
            await worker.send(Is.ATTACHED, b"" if self._introduced else f"{self.name} {grace}\n".encode())
            self._introduced = self._attached = True

    async def _detach(self, connection: ServerConnection) -> None:
        """The connection is gone; the session stays for the grace time, if a client can know of it at all."""
        if self.connection is not connection or self._reason is not None:
            return
        self.connection = None
        grace = self._gateway.options.grace if self._known else 0.0
        why = f"nobody came back to it within {grace:g} s"
        self._expiry = asyncio.get_running_loop().call_later(grace, self.end, why)
        with contextlib.suppress(PortClosed):
            worker = self._living_worker()
            async with worker.lock:
                if self.connection is None and self._attached:
                    self._attached = False
                    await worker.send(Is.DETACHED)

    def _living_worker(self) -> Worker:
        if self._worker is None or self._reason is not None:
            raise PortClosed("the session is over")
        return self._worker

    async def _ping(self, connection: ServerConnection) -> None:
        """Cut a connection that gives no sign of life; not one that we do not read because its worker is busy."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(PING_INTERVAL)
            try:
                async with asyncio.timeout(PING_TIMEOUT):
                    await (await connection.ping())
            except ConnectionClosed:
                return
            except TimeoutError:
                if self._reading_since is not None and loop.time() - self._reading_since >= PING_TIMEOUT:
                    log.info("%s: no sign of life from its client for %g s", self.label, PING_TIMEOUT)
                    connection.transport.abort()
                    return


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
            log.info("%s began", session.label)
        await session.carry_up(connection)

    def forget(self, session: Session, reason: str) -> None:
        """A session is ending: nobody can come back to it."""
        if self._sessions.pop(session.name, None) is not None:
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
