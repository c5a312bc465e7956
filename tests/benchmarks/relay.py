"""A relay on this machine that makes a connection to it as slow as one to a distant machine.

Each direction has a clock of its own, which says until when the line is busy with what was sent before; every piece
arrives when the line is through with its last byte, and half the round trip later. Delay does not limit the rate. What
is on its way is bounded as in a router: who sends further ahead has to wait.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
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


class Relay:
    """`with Relay(line, port) as relay:` takes connections at `relay.port` to that other port, both of this machine."""

    def __init__(self, line: Line, to: int) -> None:
        self._line = line
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, name="relay", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._sockets += near, far
                for one in (near, far):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, sink in ((near, far), (far, near)):
                    way = _Way(self._line, source, sink)
                    for work in (way.take, way.deliver):
                        threading.Thread(target=work, name="relay", daemon=True).start()


class _Way:
    """One direction of one connection; each of its two functions has a thread."""

    def __init__(self, line: Line, source: socket.socket, sink: socket.socket) -> None:
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
                self._sink.sendall(data)
        with contextlib.suppress(OSError):  # it is to hear that nobody listens any more
            self._source.shutdown(socket.SHUT_RDWR)
