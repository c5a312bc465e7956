"""A worker's port: how packets reach it, and how it learns that its client's connection came or went.

Knows: frames on a stream of our own, between gateway and worker or within one process. Does not know: what is in a
packet. The gateway speaks the same frames (gateway.py): 4 bytes of length, 1 byte that says what it is, and the rest.
"""

from __future__ import annotations

import contextlib
import enum
import json
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from glremote.link.links import ROOM, Bytes, Frames, Link, LinkBroken, joined

from .near import Door

HEADER = struct.Struct(">IB")
LARGEST = 32 << 20
MOST_KINDS = 32
"""So many kinds of faults are counted apart, and the others together."""
LONGEST_KIND = 60
LONGEST_TALLY = 1 << 16
"""Bytes of all that is counted: far more than any has."""


class Is(enum.IntEnum):
    """What a frame is."""

    PACKET = 0
    """Either way: a packet of the session, unread by the gateway."""
    ATTACHED = 1
    """To the worker: a client's connection is there; its first packet says whether it begins or resumes."""
    DETACHED = 2
    """To the worker: the connection is gone."""
    READY = 3
    """From the worker, once: it has a context. The rest is the renderer's name, UTF-8."""
    ENDED = 4
    """From the worker, last: the session is over. The rest is the reason, UTF-8; empty after a goodbye."""
    TALLY = 9
    """From the worker, now and then: what it has done so far (Tally)."""


class Tally(NamedTuple):
    """What a worker has done since it began, for whoever looks at the host."""

    buffers: int = 0
    commands: int = 0
    data_up: int = 0
    """Bytes of buffers and their data, whichever way they came, unpacked."""
    data_down: int = 0
    """Bytes of answers."""
    microseconds: int = 0
    """That went into running buffers."""
    waiting: int = 0
    """Buffers that have come and have not run."""
    near: int = 0
    """1 where the client has come past the gateway."""
    faults: dict[str, int] = {}  # noqa: RUF012  # never changed
    """How many of each kind (the exception's type)."""

    def encode(self) -> bytes:
        """The rest of its frame."""
        return json.dumps(self).encode()

    @classmethod
    def decode(cls, data: Bytes) -> Tally:
        """Raises ValueError: a worker may be what a client has made of it."""
        if len(data) > LONGEST_TALLY:
            raise ValueError(f"no tally: {len(data)} bytes")
        try:
            *numbers, faults = json.loads(bytes(data))
            tally = cls._make((*numbers, faults))
        except (TypeError, RecursionError) as error:
            raise ValueError(f"no tally: {error}") from None
        if not isinstance(faults, dict) or len(faults) > MOST_KINDS or any(len(kind) > LONGEST_KIND for kind in faults):
            raise ValueError("no tally: faults are counts by kind")
        if not all(map(str.isprintable, faults)):  # what is none cannot even be shown everywhere
            raise ValueError("no tally: a kind is text")
        if not all(type(number) is int and 0 <= number < 1 << 63 for number in (*tally[:-1], *faults.values())):
            raise ValueError("no tally: a count is a whole number")
        return tally


class Event(NamedTuple):
    """A frame that came in, and which way: `near` past the gateway."""

    what: Is
    data: Bytes
    near: bool = False


class PortClosed(Exception):
    """The other end is gone: for a worker, that its gateway is."""


class Port:
    """A worker's end of the stream. Sending waits; receiving waits for at most `timeout` seconds.

    With a door (near.py) a client can come past the gateway; `near` says which way packets go.
    """

    def __init__(self, sock: socket.socket, door: Door | None = None) -> None:
        self.near = False
        self.on_wait: Callable[[], float | None] = lambda: None
        """Called where sending waits for whoever reads slowly, and again after as many seconds as it gives; `on_go`
        behind that."""
        self.on_go: Callable[[], None] = lambda: None
        self._socket = sock
        self._room = memoryview(bytearray(ROOM))
        self._frames = Frames(HEADER, LARGEST)
        self._events: deque[Event] = deque()
        self._door = door
        self._link: Link | None = None  # the near client's
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._writable = select.poll()
        self._writable.register(sock, select.POLLOUT)
        if door is not None:
            self._poll.register(door.socket, select.POLLIN)

    def send(self, what: Is, pieces: Sequence[Bytes] = ()) -> None:
        """Send one frame. Raises PortClosed when the gateway is gone; a near client that is gone shows in `receive`."""
        if what is Is.PACKET and self.near:
            if self._link is not None:
                try:
                    if self._link.send((pieces,)):
                        while self._link.has_unsent:
                            self._link.drain(self.on_wait())
                        self.on_go()
                except LinkBroken:
                    pass
            return
        try:
            for piece in joined((HEADER.pack(sum(map(len, pieces)), what), *pieces)):
                self._send_all(memoryview(piece))
        except OSError as error:
            raise PortClosed(str(error)) from None

    def _send_all(self, piece: memoryview) -> None:
        waited = False
        while True:
            sent = 0
            with contextlib.suppress(BlockingIOError):
                sent = self._socket.send(piece, socket.MSG_DONTWAIT)
                piece = piece[sent:]
            if not len(piece):
                break
            if waited and sent:  # it is taken, slowly
                self.on_go()
            waited, seconds = True, self.on_wait()
            self._writable.poll(None if seconds is None else seconds * 1000)
        if waited:
            self.on_go()

    def receive(self, timeout: float | None = None) -> Event | None:
        """The next frame, or None when none has come in time. Raises PortClosed."""
        if not self._events and self.near and self._link is not None:
            self._receive_near(self._link, timeout != 0)
        while not self._events:
            ready = {ready for ready, _ in self._poll.poll(None if timeout is None else timeout * 1000)}
            if not ready:
                return None
            if self._link is not None and self._link.fileno() in ready:
                self._receive_near(self._link, soon=False)
            if self._socket.fileno() in ready:
                self._receive_from_gateway()
            if self._door is not None and self._door.socket.fileno() in ready:
                self._admit(self._door)
        return self._events.popleft()

    def _receive_from_gateway(self) -> None:
        try:
            size = self._socket.recv_into(self._room)
            if not size:
                raise PortClosed("the other end closed the port")
            frames = self._frames.split(self._room[:size])
        except (OSError, LinkBroken) as error:
            raise PortClosed(str(error)) from None
        self._events.extend(Event(Is(fields[1]), content) for fields, content in frames)

    def _receive_near(self, link: Link, soon: bool) -> None:
        try:
            packets = link.receive_soon() if soon else link.receive()
        except LinkBroken:
            self._take_near(None)
            self._events.append(Event(Is.DETACHED, b"", near=True))
        else:
            for packet in packets:
                self._events.append(Event(Is.PACKET, packet, near=True))

    def _admit(self, door: Door) -> None:
        link = door.admit()
        if link is not None:
            self._take_near(link)

    def _take_near(self, link: Link | None) -> None:
        """The near client's link from now on, or that there is none."""
        if self._link is not None:
            self._poll.unregister(self._link.fileno())
            self._link.close()
        self._link = link
        if link is not None:
            self._poll.register(link.fileno(), select.POLLIN)

    def close(self) -> None:
        """Close our ends."""
        self._socket.close()
        if self._link is not None:
            self._link.close()
        if self._door is not None:
            self._door.close()
