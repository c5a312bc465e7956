"""A worker's port: how packets reach it, and how it learns that its client's connection came or went.

Knows: frames on a stream of our own, between gateway and worker or within one process. Does not know: what is in a
packet. The gateway speaks the same frames (gateway.py): 4 bytes of length, 1 byte that says what it is, and the rest.
"""

from __future__ import annotations

import enum
import select
import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

HEADER = struct.Struct(">IB")
LARGEST = 32 << 20

Bytes = bytes | bytearray | memoryview


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


class Event(NamedTuple):
    """A frame that came in."""

    what: Is
    data: Bytes


class PortClosed(Exception):
    """The other end is gone: for a worker, that its gateway is."""


class Port:
    """A worker's end of the stream. Sending waits; receiving waits for at most `timeout` seconds."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray()
        self._events: deque[Event] = deque()

    def send(self, what: Is, pieces: Sequence[Bytes] = ()) -> None:
        """Send one frame. Raises PortClosed."""
        header = HEADER.pack(sum(map(len, pieces)), what)
        try:
            if sum(map(len, pieces)) < 1 << 16:
                self._socket.sendall(b"".join((header, *pieces)))
                return
            self._socket.sendall(header)
            for piece in pieces:
                self._socket.sendall(piece)
        except OSError as error:
            raise PortClosed(str(error)) from None

    def receive(self, timeout: float | None = None) -> Event | None:
        """The next frame, or None when none has come in time. Raises PortClosed."""
        while not self._events:
            if timeout is not None and not select.select([self._socket], [], [], timeout)[0]:
                return None
            try:
                data = self._socket.recv(1 << 20)
            except OSError as error:
                raise PortClosed(str(error)) from None
            if not data:
                raise PortClosed("the other end closed the port")
            self._buffer += data
            self._split()
        return self._events.popleft()

    def _split(self) -> None:
        at, end = 0, len(self._buffer)
        with memoryview(self._buffer) as view:
            while end - at >= HEADER.size:
                length, what = HEADER.unpack_from(view, at)
                if length > LARGEST:
                    raise PortClosed(f"a frame of {length} bytes")
                if end - at - HEADER.size < length:
                    break
                at += HEADER.size
                self._events.append(Event(Is(what), bytes(view[at : at + length])))
                at += length
        del self._buffer[:at]

    def close(self) -> None:
        """Close our end."""
        self._socket.close()
