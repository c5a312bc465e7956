"""A relay on this machine that makes a connection to it as slow as one to a distant machine, or as unreliable.

Each direction has a clock of its own, which says until when the line is busy with what was sent before; every piece
arrives when the line is through with its last byte, and half the round trip later. Delay does not limit the rate. What
is on its way is bounded as in a router: who sends further ahead has to wait. Faults count the bytes of both directions
and all connections together, from the last fault on: exactly so many are delivered, and then it happens.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType

PIECE = 16 * 1024
AHEAD = 0.25
"""Seconds of traffic that the line takes before it is through with it."""


@dataclass(frozen=True)
class Line:
    """How slow: seconds for a round trip, and megabits per second each way."""

    round_trip: float
    mbit: float

    def __str__(self) -> str:
        return f"{1000 * self.round_trip:g} ms, {self.mbit:g} Mbit/s"


FAST = Line(0.0, float("inf"))


@dataclass(frozen=True)
class Fault:
    """What happens behind so many bytes: a cut, or the present connections deliver nothing for `stall` seconds."""

    after: int
    stall: float = 0.0


class Relay:
    """`with Relay(line, port) as relay:` takes connections at `relay.port` to that other port, both of this machine."""

    def __init__(self, line: Line, to: int) -> None:
        self._line = line
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.delivered = 0
        """Bytes, both ways, since the last fault."""
        self.happened: list[Fault] = []
        self._due: deque[Fault] = deque()
        self._sockets: list[socket.socket] = []
        self._state = threading.Condition()
        self._delivering = 0
        self._stalled: list[socket.socket] = []
        self._stalled_until = 0.0

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, name="relay", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def break_after(self, faults: Iterable[Fault]) -> None:
        """Let these faults happen, one behind the other, from now on and in place of those that have not happened."""
        with self._state:
            self._due = deque(faults)
            self.delivered = 0
            self.happened.clear()

    def cut(self) -> None:
        """Break every connection."""
        with self._state:
            sockets, self._sockets = self._sockets, []
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def deliver(self, sink: socket.socket, data: bytes) -> None:
        """Deliver what has arrived, as far as the faults let it. Raises OSError when the connection is cut."""
        while data:
            piece, fault = self._take(sink, data)
            try:
                sink.sendall(piece)
            finally:
                with self._state:
                    self._delivering -= 1
                    self._state.notify_all()
            data = data[len(piece) :]
            if fault is None:
                continue
            if fault.stall:
                time.sleep(fault.stall)
            else:
                with self._state:  # the other direction's bytes were counted too
                    self._state.wait_for(lambda: not self._delivering, timeout=1.0)
                self.cut()
                raise ConnectionAbortedError("cut")

    def _take(self, sink: socket.socket, data: bytes) -> tuple[bytes, Fault | None]:
        """What of it is delivered before the next fault, and that if it is due then."""
        with self._state:
            while sink in self._stalled and (left := self._stalled_until - time.monotonic()) > 0:
                self._state.wait(left)
            self._delivering += 1
            room = self._due[0].after - self.delivered if self._due else len(data) + 1
            if room > len(data):
                self.delivered += len(data)
                return data, None
            self.delivered = 0
            fault = self._due.popleft()
            self.happened.append(fault)
            if fault.stall:
                self._stalled, self._stalled_until = list(self._sockets), time.monotonic() + fault.stall
            return data[: max(room, 0)], fault

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                try:
                    far = socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    near.close()
                    continue
                with self._state:
                    self._sockets += near, far
                for one in (near, far):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, sink in ((near, far), (far, near)):
                    way = _Way(self, self._line, source, sink)
                    for work in (way.take, way.deliver):
                        threading.Thread(target=work, name="relay", daemon=True).start()


class _Way:
    """One direction of one connection; each of its two functions has a thread."""

    def __init__(self, relay: Relay, line: Line, source: socket.socket, sink: socket.socket) -> None:
        self._relay = relay
        self._line = line
        self._source = source
        self._sink = sink
        self._travelling: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def take(self) -> None:
        """Take what comes, and say when it arrives; the end of it is an empty piece."""
        seconds_per_byte = 8 / (self._line.mbit * 1e6)
        busy_until = 0.0
        data = b"\n"
        while data:
            try:
                data = self._source.recv(PIECE)
            except OSError:
                data = b""
            now = time.monotonic()
            busy_until = max(busy_until, now) + len(data) * seconds_per_byte
            self._travelling.put((busy_until + self._line.round_trip / 2, data))
            if busy_until - now > AHEAD:
                time.sleep(busy_until - now - AHEAD)

    def deliver(self) -> None:
        """Pass on each piece when it is due."""
        with contextlib.suppress(OSError):  # the other end is gone
            while True:
                due, data = self._travelling.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    self._sink.shutdown(socket.SHUT_WR)
                    return
                self._relay.deliver(self._sink, data)
        with contextlib.suppress(OSError):  # it is to hear that nobody listens any more
            self._source.shutdown(socket.SHUT_RDWR)
