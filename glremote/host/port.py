"""A worker's port: how packets reach it, and how it learns that its client's connection came or went.

Knows: frames on a stream of our own, between gateway and worker or within one process. Does not know: what is in a
packet. The gateway speaks the same frames (gateway.py): 4 bytes of length, 1 byte that says what it is, and the rest.
"""

from __future__ import annotations

import contextlib
import enum
import select
import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from glremote.link.links import spin
from glremote.link.near import SPIN

from .near import Door

HEADER = struct.Struct(">IB")
NEAR_HEADER = struct.Struct(">I")
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
    """A frame that came in, and which way: `near` past the gateway."""

    what: Is
    data: Bytes
    near: bool = False


class PortClosed(Exception):
    """The other end is gone: for a worker, that its gateway is."""


class Frames:
    """Splits what a socket gives into frames, whose header begins with their length."""

    def __init__(self, header: struct.Struct) -> None:
        self._header = header
        self._buffer = bytearray()

    def split(self, data: bytes) -> list[tuple[tuple[int, ...], bytes]]:
        """The headers and contents of the frames that are complete with this data. Raises PortClosed."""
        self._buffer += data
        at, end = 0, len(self._buffer)
        frames: list[tuple[tuple[int, ...], bytes]] = []
        with memoryview(self._buffer) as view:
            while end - at >= self._header.size:
                fields = self._header.unpack_from(view, at)
                if fields[0] > LARGEST:
                    raise PortClosed(f"a frame of {fields[0]} bytes")
                if end - at - self._header.size < fields[0]:
                    break
                at += self._header.size
                frames.append((fields, bytes(view[at : at + fields[0]])))
                at += fields[0]
        del self._buffer[:at]
        return frames


class Port:
    """A worker's end of the stream. Sending waits; receiving waits for at most `timeout` seconds.

    With a door (near.py) a client can come past the gateway; `near` says which way packets go.
    """

    def __init__(self, sock: socket.socket, door: Door | None = None) -> None:
        self.near = False
        self._socket = sock
        self._frames = Frames(HEADER)
        self._events: deque[Event] = deque()
        self._door = door
        self._near_socket: socket.socket | None = None
        self._near_frames = Frames(NEAR_HEADER)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        if door is not None:
            self._poll.register(door.socket, select.POLLIN)

    def send(self, what: Is, pieces: Sequence[Bytes] = ()) -> None:
        """Send one frame. Raises PortClosed when the gateway is gone; a near client that is gone shows in `receive`."""
        size = sum(map(len, pieces))
        if what is Is.PACKET and self.near:
            if self._near_socket is not None:
                with contextlib.suppress(OSError):
                    self._send(self._near_socket, NEAR_HEADER.pack(size), size, pieces)
            return
        try:
            self._send(self._socket, HEADER.pack(size, what), size, pieces)
        except OSError as error:
            raise PortClosed(str(error)) from None

    @staticmethod
    def _send(sock: socket.socket, header: bytes, size: int, pieces: Sequence[Bytes]) -> None:
        if size < 1 << 16:
            sock.sendall(b"".join((header, *pieces)))
            return
        sock.sendall(header)
        for piece in pieces:
            sock.sendall(piece)

    def receive(self, timeout: float | None = None) -> Event | None:
        """The next frame, or None when none has come in time. Raises PortClosed."""
        while not self._events:
            ready = spin(self._poll, timeout, SPIN if self.near else 0.0)
            if not ready:
                return None
            if self._near_socket is not None and self._near_socket.fileno() in ready:
                self._receive_near(self._near_socket)
            if self._socket.fileno() in ready:
                self._receive_from_gateway()
            if self._door is not None and self._door.socket.fileno() in ready:
                self._admit(self._door)
        return self._events.popleft()

    def _receive_from_gateway(self) -> None:
        try:
            data = self._socket.recv(1 << 20)
        except OSError as error:
            raise PortClosed(str(error)) from None
        if not data:
            raise PortClosed("the other end closed the port")
        self._events.extend(Event(Is(fields[1]), content) for fields, content in self._frames.split(data))

    def _receive_near(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(1 << 20)
            if not data:
                raise PortClosed("the near client is gone")
            frames = self._near_frames.split(data)
        except (OSError, PortClosed):
            self._take_near(None)
            self._events.append(Event(Is.DETACHED, b"", near=True))
        else:
            self._events.extend(Event(Is.PACKET, content, near=True) for _, content in frames)

    def _admit(self, door: Door) -> None:
        admitted = door.admit()
        if admitted is not None:
            self._take_near(admitted)

    def _take_near(self, sock: socket.socket | None) -> None:
        """The near client's socket from now on, or that there is none."""
        if self._near_socket is not None:
            self._poll.unregister(self._near_socket)
            self._near_socket.close()
        self._near_socket = sock
        self._near_frames = Frames(NEAR_HEADER)
        if sock is not None:
            self._poll.register(sock, select.POLLIN)

    def close(self) -> None:
        """Close our ends."""
        for sock in (self._socket, self._near_socket):
            if sock is not None:
                sock.close()
        if self._door is not None:
            self._door.close()
