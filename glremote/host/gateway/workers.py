"""Worker processes, from the gateway: how one is started, spoken to and ended.

Knows: processes, and the frames of a worker's port (host/port.py). Does not know: websockets or sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from glremote.host import walls
from glremote.host.deadlines import KINDS, Page
from glremote.host.limits import Limits, written
from glremote.host.near import SWITCH as NEAR
from glremote.host.port import HEADER, LARGEST, Is, PortClosed
from glremote.host.serving import environment
from glremote.link.links import Bytes, joined
from glremote.protocol.devices import Device

from .caches import Caches
from .certificates import Certificate
from .cgroups import Group, Groups
from .devices import Served

log = logging.getLogger("glremote.host")

WORKER_TIMEOUT = 25.0
"""Seconds that a worker may take to make its context: less than the client waits for its greeting."""
WORKER_PATIENCE = 2.0
"""Seconds that a worker may take to exit once its port is closed; then it is killed."""
DYING = 0.25
"""Seconds for which the end of a session waits for the end of a process that we have killed."""
LOOKING = 0.25
"""Seconds between two looks at a worker's memory."""
TRIMMING = 60.0
"""Seconds between two looks at what is in its cache folder."""
ROOM = 1 << 16
"""Bytes that are received at once."""
LONGEST_REASON = 2000
OF_THE_GPU = ("buffer_seconds", "read_seconds")
"""Limits of what waits for others on a GPU."""
LINES = 25
"""Of what a worker writes so many are logged before everybody else has a turn."""


def _megabytes() -> int:
    """Of this machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1_000_000


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `glremote serve` can be told."""

    token: str | None = field(default=None, repr=False)
    """One that is admitted, beside those of the file."""
    tokens_file: Path | None = None
    tls: Certificate | None = None
    origins: tuple[str, ...] = ()
    """Of web pages that are admitted, with a token as anybody else."""
    bind: str = "127.0.0.1"
    port: int = 8765
    max_sessions: int = 16
    warm: int = 2
    grace: float = 60.0
    devices: tuple[Device, ...] = ()
    """What it renders with (probing.py); empty: whatever EGL gives."""
    drain: float = 0.0
    """Seconds that the sessions have for their end after SIGTERM."""
    look_token: str | None = field(default=None, repr=False)
    """What /healthz, /metrics and / ask for; beyond loopback they are closed without one."""
    limits: Limits = field(default_factory=Limits)
    near: bool = True
    """Whether a client on this machine may go to its worker past the gateway (near.py)."""
    worker_memory: int = field(default_factory=lambda: _megabytes() // 2)
    """MB (of a million bytes) that a worker process may hold; one that has more is ended."""
    cache: Path | None = None
    """Where each token has a folder for what drivers keep; without it workers have no walls (walls.py)."""
    lifeline: int | None = None
    """A descriptor: when nothing more can be read from it, the gateway ends."""
    worker_command: tuple[str, ...] = (sys.executable, "-P", "-m", "glremote.host.process")


def resident(process: int) -> int:
    """Bytes of a process in memory (proc_pid_statm(5)); 0 where that cannot be told."""
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


class WorkerFailed(Exception):
    """A worker process did not get as far as its context; the text says why."""


@dataclass(frozen=True)
class Place:
    """Where workers are put: the folders that they may write to, and the groups that bound their memory."""

    caches: Caches | None = None
    groups: Groups | None = None


class Worker:
    """A worker process, and our end of its port. Whoever sends holds `lock`; one task receives."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        sock: socket.socket,
        options: Options,
        cache: Path | None,
        group: Group | None,
        page: Page,
        served: Served,
        leaving: contextlib.ExitStack,
    ) -> None:
        self._options = options
        self.device = served.place
        """By its place among those that are served: who is on another is not in its way."""
        self.label = f"worker {process.pid}"
        self.process = process.pid
        self.stalled = 0.0
        """Seconds of the buffer that runs in which others held the GPU; see watching.py."""
        self._page = page
        self.renderer = ""
        self.lock = asyncio.Lock()
        self._process = process
        self._socket = sock
        self._group = group
        self._leaving = leaving  # what is to be done when the process has ended
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._last_line = ""
        self._listening = asyncio.create_task(self._listen())
        self._ended_for = ""  # why we, or the kernel, have killed it
        self._reaping: asyncio.Task[str] | None = None
        self._watching = [asyncio.create_task(self._watch_memory(options.worker_memory))]
        if cache is not None:
            self._watching.append(asyncio.create_task(self._watch_cache(cache)))

    @classmethod
    async def start(cls, options: Options, owner: str, place: Place, served: Served) -> Worker:
        """A worker that has its context on a device, and the cache folder of its owner, a token; or WorkerFailed."""
        worker = await cls._spawn(options, owner, place, served)
        try:
            async with asyncio.timeout(WORKER_TIMEOUT):
                what, data = await worker.receive()
            if what is not Is.READY:
                raise PortClosed("it is no worker")
            worker.renderer = bytes(data).decode(errors="replace")
            where = "" if served.device is None or served.device.number is None else f", device {served.label}"
            text = "%s renders with %s%s"
            log.info(text, worker.label, worker.renderer, where, extra={"session": worker.label})
            return worker
        except BaseException as error:
            if not isinstance(error, PortClosed):  # nobody waits for it any more
                with contextlib.suppress(ProcessLookupError):
                    worker._process.kill()
            how = await worker.end()
            if not isinstance(error, PortClosed | TimeoutError):
                raise
            if isinstance(error, TimeoutError):
                how = f"a worker process had no context within {WORKER_TIMEOUT:g} s"
            raise WorkerFailed(worker._ended_for or worker._last_line or how) from None

    @classmethod
    async def _spawn(cls, options: Options, owner: str, place: Place, served: Served) -> Worker:
        """One that has only begun. Raises WorkerFailed."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise WorkerFailed(f"a worker process could not be started: {error.strerror}") from None
        with contextlib.ExitStack() as inherited, contextlib.ExitStack() as leaving:
            inherited.enter_context(theirs)
            leaving.callback(ours.close)
            ours.setblocking(False)
            arguments = ["--fd", str(theirs.fileno()), "--limits", written(options.limits)]
            try:
                page = Page.make()
            except OSError as error:
                raise WorkerFailed(f"no memory to be shared with a worker process: {error.strerror}") from None
            inherited.callback(page.close)
            leaving.callback(page.release)
            arguments += ["--deadlines", str(page.descriptor)]
            if served.device is not None:
                arguments += ["--device-index", str(served.device.index)]
            cache = None
            if place.caches is not None:
                try:
                    cache = place.caches.take(owner)
                except OSError as error:
                    raise WorkerFailed(f"no cache folder for its driver: {error}") from None
                leaving.callback(place.caches.give_back, cache)
                arguments += ["--cache", str(cache)]
            group = _bound(place.groups, options.worker_memory, leaving)
            try:
                process = await asyncio.create_subprocess_exec(
                    *options.worker_command, *arguments,
                    pass_fds=(theirs.fileno(), page.descriptor), start_new_session=True,
                    env=environment() | walls.SINGLE_THREADED | ({} if options.near else {NEAR: "0"}),
                    stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
                )  # fmt: skip
            except OSError as error:
                why = f"{options.worker_command[0]}: {error.strerror}"
                raise WorkerFailed(f"a worker process could not be started: {why}") from None
            if group is not None:
                _enter(group, process.pid)  # long before it is READY, and given anything of a client's
            return cls(process, ours, options, cache, group, page, served, leaving.pop_all())

    @property
    def limits(self) -> Limits:
        """What its session may use."""
        return self._options.limits

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

    @property
    def is_dying(self) -> bool:
        """Whether we are ending it, and the process is not gone yet: a driver may keep it for seconds."""
        return (bool(self._ended_for) or self._reaping is not None) and self.alive

    def running(self, name: str, now: float) -> float:
        """Seconds since what a limit is of began (deadlines.py); 0 where nothing runs."""
        began = self._page.began(name)
        return now - began if began else 0.0

    def late(self, now: float) -> str:
        """Why it takes too long, if it does; what others had of the GPU meanwhile does not count."""
        for name, what in KINDS.items():
            limit = getattr(self.limits, name)
            ours = self.running(name, now) - (self.stalled if name in OF_THE_GPU else 0.0)
            if limit and ours > (self.limits.patience(near=False) if name == "idle_seconds" else limit):
                return f"{what} longer than the {limit:g} s that {name.replace('_', '-')} allows here"
        return ""

    def kill(self, why: str) -> None:
        """End the process, in whatever it is; its session is told why at once, also where that takes time."""
        if not self._ended_for:
            self._ended_for = why
            log.warning("%s: %s", self.label, why, extra={"session": self.label})
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    async def end(self) -> str:
        """Close the port, see to it that the process ends, and tell how it did, or why we have killed it.

        It may be called again.
        """
        if self._reaping is None:
            self._reaping = asyncio.create_task(self._reap())
        if self._ended_for:
            await asyncio.wait((self._reaping,), timeout=DYING)
            return self._ended_for
        return await asyncio.shield(self._reaping)

    async def gone(self) -> None:
        """Wait until the process has ended, whether or not anybody ends it."""
        await self._process.wait()

    async def ended(self) -> None:
        """Wait until the process is gone, if we are ending it."""
        if self._reaping is not None:
            await asyncio.shield(self._reaping)

    async def _reap(self) -> str:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            async with asyncio.timeout(WORKER_PATIENCE):
                await self._process.wait()
        except TimeoutError:
            if not self._ended_for:
                log.warning("%s did not end by itself, and was killed", self.label, extra={"session": self.label})
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        async with self.lock:  # a socket must not be closed under somebody who sends
            self._socket.close()
        for watching in self._watching:
            watching.cancel()
        self._ended_for = self._ended_for or self._out_of_memory()
        self._leaving.close()
        await asyncio.wait((self._listening,), timeout=1.0)
        return self._ended_for or self._how()

    def _how(self) -> str:
        """How the process has ended, where it was not us."""
        status = self._process.returncode or 0
        if status < 0:
            names = {number.value: number.name for number in signal.Signals}
            return f"the worker process was killed by {names.get(-status, f'signal {-status}')}"
        return f"the worker process exited with status {status}" + (f": {self._last_line}" if self._last_line else "")

    def _out_of_memory(self) -> str:
        """What to say where the kernel has killed the process for its memory; "" where it has not."""
        if self._group is None:
            return ""
        killed, for_its_bound = self._group.ended()
        if not killed:
            return ""
        most, text = self._options.worker_memory, "the host had no memory left, and its kernel ended the worker process"
        if for_its_bound:
            text = _too_much(max(self._group.most(), most * 1_000_000), most)
        log.warning("%s: %s", self.label, text, extra={"session": self.label})
        return text

    async def _watch_memory(self, most: int) -> None:
        """Kill the process when it holds more memory than it may. Address-space limits would break GPU drivers.

        Also where a group bounds it: that does not count what it shares with others who were first, nor is a group
        certain to stay as it was made, since the system can change it.
        """
        while not self.alive or (held := resident(self._process.pid)) <= most * 1_000_000:
            await asyncio.sleep(LOOKING)
        self.kill(_too_much(held, most))

    async def _watch_cache(self, cache: Path) -> None:
        """Keep what the driver keeps within its limit."""
        while True:
            if taken := await asyncio.to_thread(walls.trim, cache):
                what = "of the oldest files were taken out of its cache folder"
                log.info("%s: %d %s", self.label, taken, what, extra={"session": self.label})
            await asyncio.sleep(TRIMMING)

    async def _listen(self) -> None:
        """Pass on what the process writes to its standard error; should it fail, the last line is why."""
        assert self._process.stderr is not None
        rest = b""
        while data := await self._process.stderr.read(ROOM):
            *lines, rest = (rest + data).split(b"\n")
            for number, line in enumerate(lines, 1):
                self._log(line)
                if not number % LINES:
                    await asyncio.sleep(0)
            if len(rest) > LONGEST_REASON:
                self._log(rest)
                rest = b""
        self._log(rest)

    def _log(self, line: bytes) -> None:
        text = "".join(c if c.isprintable() else " " for c in line.decode(errors="replace")).strip()[:LONGEST_REASON]
        if text:
            self._last_line = text
            log.warning("%s: %s", self.label, text, extra={"session": self.label})


def _too_much(held: int, most: int) -> str:
    return (
        f"the worker process held {held // 1_000_000} MB of memory, and may hold {most}; "
        "release what is not needed, or serve with a greater --worker-memory"
    )


def _bound(groups: Groups | None, megabytes: int, leaving: contextlib.ExitStack) -> Group | None:
    """A group for a worker, if there can be one; without it memory is looked at all the same."""
    if groups is None:
        return None
    try:
        group = groups.add(megabytes * 1_000_000)
    except OSError as error:
        log.warning("no cgroup bounds the memory of a worker: %s", error)
        return None
    leaving.callback(groups.remove, group)
    return group


def _enter(group: Group, process: int) -> None:
    try:
        group.enter(process)
    except ProcessLookupError:
        pass  # it has ended; its last line tells why
    except OSError as error:
        log.warning("no cgroup bounds the memory of worker %d: %s", process, error)
