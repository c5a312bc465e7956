"""Worker processes, from the gateway: how one is started, spoken to and ended.

Knows: processes, and the frames of a worker's port (host/port.py). Does not know: websockets or sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from dataclasses import dataclass, field

from glremote.host.near import SWITCH as NEAR
from glremote.host.port import HEADER, LARGEST, Is, PortClosed
from glremote.host.serving import environment
from glremote.link.links import Bytes, joined

log = logging.getLogger("glremote.host")

WORKER_TIMEOUT = 25.0
"""Seconds that a worker may take to make its context: less than the client waits for its greeting."""
WORKER_PATIENCE = 2.0
"""Seconds that a worker may take to exit once its port is closed; then it is killed."""
ROOM = 1 << 16
"""Bytes that are received at once."""
LONGEST_REASON = 2000


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `glremote serve` can be told."""

    token: str = field(repr=False)
    bind: str = "127.0.0.1"
    port: int = 8765
    max_sessions: int = 16
    warm: int = 2
    grace: float = 60.0
    device_index: int | None = None
    drain: float = 0.0
    """Seconds that the sessions have for their end after SIGTERM."""
    look_token: str | None = field(default=None, repr=False)
    """What /healthz, /metrics and / ask for; beyond loopback they are closed without one."""
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
        self.renderer = ""
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
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise WorkerFailed(f"a worker process could not be started: {error.strerror}") from None
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
            worker.renderer = bytes(data).decode(errors="replace")
            log.info("%s renders with %s", worker.label, worker.renderer, extra={"session": worker.label})
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
        try:
            for piece in joined((HEADER.pack(len(data), what), data)):
                await self._loop.sock_sendall(self._socket, piece)
        except OSError as error:
            raise PortClosed(str(error)) from None

    async def receive(self) -> tuple[Is, Bytes]:
        """The next frame. Raises PortClosed at the end, and at what is no frame."""
        buffer = self._buffer
        try:
            while len(buffer) < HEADER.size:
                data = await self._loop.sock_recv(self._socket, ROOM)
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
            log.warning("%s did not end by itself, and was killed", self.label, extra={"session": self.label})
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
        while data := await self._process.stderr.read(ROOM):
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
            log.warning("%s: %s", self.label, text, extra={"session": self.label})
