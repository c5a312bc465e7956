"""A worker: one session, one context, one thread; in a process of its own, or a thread of the client's for tests.

Knows: the session's core, epochs, where answers go, and when to acknowledge. Does not know: sockets (port.py), its
process (process.py), tokens, or what a command does (interpreter.py).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import moderngl

from glremote.link.pace import Pace
from glremote.protocol import buffers, handshake
from glremote.protocol.buffers import Checker, decode, text
from glremote.protocol.commands import Ask, Command, Fetch, Free
from glremote.protocol.errors import ProtocolError
from glremote.protocol.messages import (
    VERSION,
    Answer,
    Buffer,
    Fault,
    Goodbye,
    Hello,
    Refused,
    Resume,
    Resumed,
    encode,
    value_bytes,
)  # fmt: skip
from glremote.protocol.packing import prepare
from glremote.protocol.reflection import Driver, is_software
from glremote.protocol.session import Session
from glremote.protocol.stacks import Span, Stack
from glremote.version import VERSION as SOFTWARE

from .deadlines import Deadlines
from .interpreter import Interpreter, Part, describe
from .keeping import InReplay
from .limits import Limits
from .near import Door
from .port import LONGEST_KIND, MOST_KINDS, Event, Is, Port, PortClosed, Tally
from .progress import SLICE
from .reading import PART, subject, width
from .reflecting import examine

log = logging.getLogger("glremote.host")

MODERNGL: str = moderngl.__version__  # type: ignore[attr-defined]
MakeContext = Callable[[int], tuple[Any, int]]
"""Makes a context of at least a version (330 is 3.3): moderngl's C object, and the version it has."""
DEFAULT_REQUIRE = 330
STACK_SIZE = 32 << 20
QUIET = 0.002
"""Seconds without an event after which all that is done is acknowledged; a busy client hears of it with other news."""
TALLY_INTERVAL = 0.25
"""Seconds that are between two words to the gateway of what was done, at least."""
SPARE_HANDLES = 1 << 20
"""Handles that may live beside those of as many objects as there may be: of what was never made, since a fault came
first, as the client learns only then."""
LONGEST_TEXT = 40_000
"""Bytes of an exception's text that are passed on; compilers can be eloquent, and a message's head has an end."""


class Worker:
    """Serves one session on one context (moderngl's C object) through one port.

    The context is made at once, since that takes time, for moderngl's default version. A client that requires another
    gets another: which version a driver gives depends on which was asked for.
    """

    def __init__(
        self,
        port: Port,
        make_context: MakeContext,
        door: Door | None = None,
        limits: Limits | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self.port = port
        self.name, self.grace, self.key = "", 0.0, b""
        self.door = door
        if door is None:
            self.session = Session(writes=Stack(STACK_SIZE), reads=Stack(STACK_SIZE))
        else:
            self.session = Session(door.writes, door.reads)
        self.session.connected = False
        self.session.writes.shared = False  # until a client comes near
        self.pace = Pace()
        self.limits = limits or Limits()
        most = self.limits.objects + SPARE_HANDLES if self.limits.objects else None
        self.checker = Checker(self.session.reads, most_handles=most)
        self._deadlines = deadlines or Deadlines(self.limits)
        port.on_wait, port.on_go = self._stand, self._deadlines.go_on
        self._make_context = make_context
        self._make(DEFAULT_REQUIRE)
        buffers.prepare()
        self.buffers_run = 0
        self._commands_run = self._data_up = self._data_down = 0
        self._seconds = 0.0
        self._faults: dict[str, int] = {}
        self._told = Tally()
        self._told_at = time.perf_counter()
        self._greeted = False
        self._buffers: deque[tuple[Buffer, memoryview]] = deque()
        self._epoch = 0
        self._failed: str | None = None  # why the present epoch's commands are dropped
        self._over: str | None = None  # why the session has ended; "" after a goodbye

    def _make(self, require: int) -> None:
        context, version_code = self._make_context(require)
        self._require = require
        self.driver: Driver = examine(context, version_code)
        maps = version_code >= 440 or "GL_ARB_buffer_storage" in self.driver.extensions
        is_gpu = not is_software(str(self.driver.info["GL_RENDERER"]))
        self.interpreter = Interpreter(
            context, self.session.reads, self, maps and is_gpu, is_gpu, self.limits, self._deadlines
        )

    def run(self) -> str:
        """Serve until the session is over; why, "" after a goodbye. Raises PortClosed when the gateway is gone."""
        try:
            while self._over is None:
                if self._buffers:
                    self._run_one()
                elif self.interpreter.readbacks:
                    self._deliver_or_take()
                elif (event := self.port.receive(QUIET)) is not None:
                    self._take(event)
                elif self.interpreter.progress.settled(QUIET / 2):
                    self._rest()
        except ProtocolError as error:
            log.warning("%s", error)
            self._over = str(error)
        self._report()
        self.port.send(Is.ENDED, [self._over.encode()])
        return self._over

    def _tally(self) -> Tally:
        return Tally(
            self.buffers_run,
            self._commands_run,
            self._data_up,
            self._data_down,
            int(self._seconds * 1e6),
            len(self._buffers),
            int(self.port.near),
            self._faults,
        )

    def _report(self) -> None:
        """Tell the gateway what was done; nobody waits for this."""
        tally = self._tally()
        self._told, self._told_at = tally._replace(faults=dict(self._faults)), time.perf_counter()
        self.port.send(Is.TALLY, [tally.encode()])

    def _count_fault(self, kind: str) -> None:
        kind = kind[:LONGEST_KIND]
        if kind not in self._faults and len(self._faults) >= MOST_KINDS - 1:
            kind = "others"
        self._faults[kind] = self._faults.get(kind, 0) + 1

    def _deliver_or_take(self) -> None:
        """There is nothing to run, and a read is on its way: answer it, or take what comes first."""
        self._take(self.port.receive(0))
        if not self._buffers and self._over is None and self.interpreter.deliver(QUIET / 2):
            self._send()

    def _rest(self) -> None:
        """There is nothing to do: tell the gateway what was done, once that may be told, and wait for the client."""
        self.session.acknowledge()
        self._send()
        self._deadlines.buffers.idle()
        if self.pace.level and not self.port.near:
            prepare()  # while the client has nothing for us
        if self._tally() != self._told:
            event = self.port.receive(max(0.0, self._told_at + TALLY_INTERVAL - time.perf_counter()))
            if event is not None:
                self._take(event)
                return
            self._report()
        event = self.port.receive(self._patience())
        if event is None:
            idle = self.limits.idle_seconds
            self._over = f"its client was silent for longer than the {idle:g} s that idle-seconds allows here"
        self._take(event)

    def _patience(self) -> float | None:
        """Seconds that the client may be silent; None: any."""
        return (self.limits.patience(self.port.near) or None) if self._greeted else None

    # --- coming in

    def _take(self, event: Event | None) -> None:
        if event is None:
            return
        if event.what is Is.PACKET:
            for message, body in self.session.receive(event.data):
                if isinstance(message, Buffer):
                    self._buffers.append((message, body))
                    continue
                if isinstance(message, Hello | Resume):
                    if self._greeted and self.session.connected and event.near == self.port.near:
                        raise ProtocolError(f"{type(message).__name__} on a link that carries the session already")
                    self.port.near = event.near
                    self.session.writes.shared |= event.near
                self._message(message)
        elif event.what is Is.DETACHED:
            if event.near == self.port.near:
                self.session.disconnect()
        elif event.what is Is.ATTACHED:
            if not self.port.near:
                self.session.disconnect()
            if event.data:
                self.name, grace, key = bytes(event.data).decode().split()
                self.grace, self.key = float(grace), bytes.fromhex(key)

    def _message(self, message: Any) -> None:
        if isinstance(message, Hello) and not self._greeted:
            self._greet(message)
        elif isinstance(message, Resume):
            if not self._greeted:
                self._reply(Refused("session", "this session was never greeted", VERSION))
                return
            self._reply(Resumed(self.session.resuming()))
            self.session.resume(message.applied)
            self._send()
        elif isinstance(message, Goodbye):
            self._over = ""
        else:
            raise ProtocolError(f"{type(message).__name__} out of place")

    def _greet(self, hello: Hello) -> None:
        if hello.version == VERSION and hello.require != self._require:
            self.interpreter.context.release()
            try:
                self._make(hello.require)
            except Exception as error:
                self._reply(Refused("context", str(error), VERSION))
                self._over = str(error)
                return
        answer = handshake.greet(
            hello,
            SOFTWARE,
            MODERNGL,
            self.name,
            STACK_SIZE,
            self.grace,
            self.driver,
            None if self.door is None else self.door.offer,
            self.key,
        )
        self._reply(answer)
        if isinstance(answer, Refused):
            self._over = answer.reason
        else:
            self._greeted = self.session.connected = True
            self._told_at = time.perf_counter()
            self.pace = Pace(hello.distance, time.perf_counter())
            self.session.packer.level = self.pace.level

    def _reply(self, message: Any) -> None:
        self.port.send(Is.PACKET, [encode(message)])

    # --- running

    def _run_one(self) -> None:
        """Run the next buffer."""
        began = time.perf_counter()
        self.interpreter.progress.begin()
        buffer, body = self._buffers.popleft()
        commands = decode(body)
        self.checker.check(commands)
        if buffer.epoch != self._epoch:
            self._epoch, self._failed = buffer.epoch, None
            self.interpreter.begin_epoch()
        self.interpreter.buffer = commands
        at = 0
        while at < len(commands):
            if self._failed is None:
                at = self._run_from(buffer, at) + 1
            else:
                self._drop(commands[at])
                at += 1
        self.interpreter.progress.end()
        while self.interpreter.readbacks and self.interpreter.deliver(0):
            pass
        self.buffers_run += 1
        self._send()
        self.session.done(buffer.number, self.checker.data + len(body))
        self.session.acknowledge(at_once=False)  # it goes with what is sent next
        self._commands_run += len(commands)
        self._data_up += self.checker.data + len(body)
        now = time.perf_counter()
        self._seconds += now - began
        if now - self._told_at > 2 * TALLY_INTERVAL:  # it is never at rest
            self._report()

    def _run_from(self, buffer: Buffer, start: int) -> int:
        """Run commands up to the first that fails, or all; the place of the last that ran."""
        interpreter = self.interpreter
        try:
            interpreter.run_buffer(start)
        except (PortClosed, ProtocolError):
            raise
        except Exception as error:
            command = interpreter.buffer[interpreter.at]
            if isinstance(command, Ask | Fetch):
                self.error(command.ticket, error)
            else:
                self._fault(buffer, interpreter.at, command, error)
        return interpreter.at

    def _fault(self, buffer: Buffer, index: int, command: Command, error: Exception) -> None:
        named = text(command)
        if isinstance(error, InReplay):
            named = f"{text(error.command)}, command {error.index} of those replayed by {named}"
            error = error.error
        kind, why = describe(error)
        self._count_fault(kind)
        self._failed = f"{kind}: {why}"
        self._wait_for_room()
        fields = buffer.epoch, buffer.number, index, named, (kind, _shortened(why)), self.interpreter.last_made
        self.session.send(Fault, *fields)

    def _drop(self, command: Command) -> None:
        """What follows a fault in its epoch does not run; frees do, and questions are answered with the fault."""
        if isinstance(command, Free):
            self.interpreter.run(command)
        elif isinstance(command, Ask | Fetch):
            self._raised(command.ticket, "Dropped", f"dropped, since an earlier command failed: {self._failed}")

    # --- answers: see interpreter.Answers

    def value(self, ticket: int, value: Any) -> None:
        """The answer of an Ask."""
        data = value_bytes(value)
        self.data(ticket, len(data), ((len(data), lambda memory: memory.__setitem__(slice(None), data)),))

    def data(self, ticket: int, total: int, parts: Iterable[Part], of: Fetch | None = None) -> None:
        """The answer of a Fetch: written straight into the stack; what is larger than a part is sent from there."""
        start = 0
        for size, fill in parts:
            span = self._reserve(size) if size <= PART else None
            memory = memoryview(bytearray(size)) if span is None else self.session.writes.view(span)
            try:
                fill(memory)
            except Exception as error:
                self.error(ticket, error)
                return
            if span is None:
                self._copied(ticket, total, memory, of)
            else:
                self._part(ticket, start, total, span, of)
            start += size
            if start < total:
                self._send()

    def _copied(self, ticket: int, total: int, whole: memoryview, of: Fetch | None) -> None:
        """What could be had in one piece only."""
        for start in range(0, len(whole), PART):
            piece = whole[start : start + PART]
            span = self._reserve(len(piece))
            self.session.writes.view(span)[:] = piece
            self._part(ticket, start, total, span, of)
            self._send()

    def error(self, ticket: int, error: Exception) -> None:
        """The exception that an Ask or a Fetch is answered with."""
        kind, why = describe(error)
        self._count_fault(kind)
        self._raised(ticket, kind, why)

    def goes_on(self, command: Command) -> bool:
        """Whether there is something to be run behind the command that runs now."""
        if command is not self.interpreter.buffer[-1]:
            return True
        if not self._buffers:
            self._take(self.port.receive(0))
        return bool(self._buffers)

    def _raised(self, ticket: int, kind: str, why: str) -> None:
        self._wait_for_room()
        self.session.send(Answer, ticket, 0, 0, None, (kind, _shortened(why)), mark=self.session.writes.head)

    def _part(self, ticket: int, start: int, total: int, span: Span, of: Fetch | None) -> None:
        self._data_down += span.size
        if not self.session.writes.shared:
            what = () if of is None else ((start, *subject(of)), width(of))
            self.session.writes.freshen(span, *what)
            began = time.perf_counter()
            self.session.send_patches()
            now = time.perf_counter()
            self.session.packer.level = self.pace.packed(span.size, now - began, now)
        self.session.send(Answer, ticket, start, total, span, None, mark=self.session.writes.head)

    def _reserve(self, size: int) -> Span:
        if not self.session.has_room():
            self._wait_for_room()
        while (span := self.session.writes.reserve(size)) is None:
            self._wait_for_peer()
        return span

    def _wait_for_room(self) -> None:
        while not self.session.has_room():
            self._wait_for_peer()

    def _wait_for_peer(self) -> None:
        """Stand still until the client has taken something; buffers that come meanwhile wait their turn."""
        self.session.acknowledge()
        self._send()
        began = time.perf_counter()
        self._take(self.port.receive(self._stand()))
        self._deadlines.go_on()
        self.pace.waited(time.perf_counter() - began)
        if self._over is not None:
            raise PortClosed("the client said goodbye while an answer was on its way")

    def _stand(self) -> float | None:
        """We wait for the client, which is no part of what runs: but not before OpenGL has done what it was told.

        After how many seconds that is to be looked at again; None: it need not.
        """
        if not self.interpreter.progress.settled(0.0):
            return SLICE
        self._deadlines.stand()
        return None

    def _send(self) -> None:
        packets = self.session.packets()
        if not packets:
            return
        began = time.perf_counter()
        for packet in packets:
            self.port.send(Is.PACKET, packet)
        self.pace.waited(time.perf_counter() - began)


def _shortened(text_: str) -> str:
    return text_.encode(errors="replace")[:LONGEST_TEXT].decode(errors="ignore")
