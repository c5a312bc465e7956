"""A link: packets over a connected socket.

Knows: sockets, and a codec that turns packets into bytes of the wire and back. Does not know: what is in a packet, who
waits for what, or how to connect again. Sending never waits: what the socket does not take is kept and goes out with
the next call. Any thread may send; one thread at a time receives.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

Bytes = bytes | bytearray | memoryview
Packet = Sequence[Bytes]
"""What is sent as one packet, in pieces."""

JOINED = 1 << 16
"""Pieces that are together shorter than this are joined: one system call is dearer than the copy."""

PATIENCE = 0.2
"""Seconds after which whoever drains a link looks whether it was closed meanwhile."""
ROOM = 1 << 18
"""Bytes that are received at once, into memory that is there: to get so much anew costs more than the call."""


BEATS = 3
"""So many signs of life in a row may stay without anything that comes; then the link has stalled."""


def joined(pieces: Sequence[Bytes]) -> Sequence[Bytes]:
    """Pieces that are small together as one."""
    return (b"".join(pieces),) if sum(map(len, pieces)) <= JOINED else pieces


class LinkBroken(Exception):
    """The connection is gone; the text says how."""


class Codec(Protocol):
    """Packets to bytes and back. It is called by one thread at a time."""

    largest: int

    def wrap(self, packet: Packet) -> Sequence[Bytes]:
        """The bytes that carry this packet, in pieces of which none is empty."""
        ...

    def unwrap(self, data: Bytes) -> tuple[list[Bytes], list[Bytes]]:
        """The packets that are complete with this data, and bytes to be sent because of it. Raises LinkBroken."""
        ...

    def beat(self) -> Sequence[Bytes]:
        """The bytes of a sign of life that the other side answers; none where there is no such thing."""
        ...


class Frames:
    """Splits a stream of our own into frames: a header whose first field is the length of what follows, and that."""

    def __init__(self, header: struct.Struct, largest: int) -> None:
        self._header = header
        self._largest = largest
        self._rest = bytearray()
        self._wanted = header.size

    def split(self, data: Bytes) -> list[tuple[tuple[int, ...], bytes]]:
        """The headers and contents of the frames that are complete with this data. Raises LinkBroken."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return []
            data, self._rest = self._rest, bytearray()
        frames: list[tuple[tuple[int, ...], bytes]] = []
        at, end, size = 0, len(data), self._header.size
        view = memoryview(data)
        while end - at >= size:
            fields = self._header.unpack_from(view, at)
            behind = at + size + fields[0]
            if fields[0] > self._largest:
                raise LinkBroken(f"a packet of {fields[0]} bytes; the greatest has {self._largest}")
            if behind > end:
                self._wanted = behind - at
                break
            frames.append((fields, bytes(view[at + size : behind])))
            at = behind
        else:
            self._wanted = size
        if at < end:
            self._rest += view[at:]
        return frames


class StreamCodec:
    """A packet on a stream of our own, within the process or the machine: its length in 4 bytes, then itself."""

    HEADER = struct.Struct(">I")

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self._frames = Frames(self.HEADER, largest)

    def wrap(self, packet: Packet) -> Sequence[Bytes]:
        return joined((self.HEADER.pack(sum(map(len, packet))), *packet))

    def unwrap(self, data: Bytes) -> tuple[list[Bytes], list[Bytes]]:
        return [content for _, content in self._frames.split(data)], []

    def beat(self) -> Sequence[Bytes]:
        return ()


class Link:
    """A connected, non-blocking socket with its codec."""

    def __init__(self, sock: socket.socket, codec: Codec) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.codec = codec
        self.distance = 0.0
        """Seconds that the other side's first word took to come."""
        self.device = ""
        """Which one the other side says that a new session is on (protocol/devices.py)."""
        self.bytes_sent = 0
        self.bytes_received = 0
        self.keepalive: float | None = None
        """Seconds between two signs of life, where the other side gives them too."""
        self._heard = self._beaten = time.monotonic()
        self._asked = 0.0  # when we gave the first sign of life since anything came
        self._why: str | None = None
        self.early: deque[Bytes] = deque()  # packets that came while the link was opened
        self._unsent: deque[Bytes] = deque()
        self._room = memoryview(bytearray(ROOM))
        self._lock = threading.Lock()
        self._broken: str | None = None
        self._poller: Any = None
        self._polled = (False, -1)  # what it was made for

    @property
    def has_unsent(self) -> bool:
        """Whether the socket has not taken all that was sent."""
        return bool(self._unsent)

    def send(self, packets: Sequence[Packet] = ()) -> bool:
        """Send packets, and what is left of earlier ones, as far as the socket takes it now. Whether more is left.

        Raises LinkBroken on a link that was closed; that a connection broke shows in `receive`.
        """
        with self._lock:
            if self._broken:
                raise LinkBroken(self._broken)
            for packet in packets:
                self._unsent += self.codec.wrap(packet)
            self._write()
        return bool(self._unsent)

    def drain(self, timeout: float | None = None) -> None:
        """Wait until the socket has taken all that was sent, or `timeout` seconds have passed. Raises LinkBroken."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._unsent and (deadline is None or time.monotonic() < deadline):
            if hasattr(select, "poll"):
                poller = select.poll()
                poller.register(self.socket.fileno(), select.POLLOUT)
                poller.poll(PATIENCE * 1000)
            else:
                select.select([], [self.socket.fileno()], [], PATIENCE)
            self.send()

    def receive(self, timeout: float | None = 0) -> list[Bytes]:
        """Packets as soon as there are any; none when `timeout` seconds have passed. Raises LinkBroken at the end."""
        if self.early:
            return [self.early.popleft()]
        if timeout != 0 and not self.poll(timeout):
            return []
        with self._lock:
            if self._broken:
                raise LinkBroken(self._broken)
            if self._unsent:
                self._write()
            try:
                size = self.socket.recv_into(self._room)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return []
            except (OSError, ValueError) as error:
                raise self._break(self._why or f"the connection broke: {error}") from None
            if not size:
                raise self._break(self._why or "the connection was closed")
            self._heard, self._asked = time.monotonic(), 0.0
            self.bytes_received += size
            packets, reply = self.codec.unwrap(self._room[:size])
            if reply:
                self._unsent += reply
                self._write()
            return packets

    def receive_soon(self) -> list[Bytes]:
        """Packets that are there, or that come so soon that sleeping is not worth while."""
        return self.receive()

    def poll(self, timeout: float | None, beside: Link | None = None) -> set[int]:
        """Wait until there is something to receive (or to send, if anything is left to be sent), also on a link beside.

        The descriptors that are ready; none after `timeout` seconds. Raises LinkBroken.
        """
        if self._broken or self.socket.fileno() < 0:
            raise LinkBroken(self._broken or "the link was closed")
        if self.early or (isinstance(self.socket, ssl.SSLSocket) and self.socket.pending()):
            return {self.socket.fileno()}
        other = -1 if beside is None else beside.fileno()
        if not hasattr(select, "poll"):
            reading = [self.socket.fileno()] if other < 0 else [self.socket.fileno(), other]
            readable, writable, _ = select.select(reading, reading[:1] if self._unsent else [], [], timeout)
            return {*readable, *writable}
        wanted = (bool(self._unsent), other)
        poller, self._poller = self._poller, None  # a handler of a signal that polls meanwhile makes another
        if poller is None or self._polled != wanted:  # select() takes no descriptor above 1023
            poller, self._polled = select.poll(), wanted
            poller.register(self.socket.fileno(), select.POLLIN | (select.POLLOUT if self._unsent else 0))
            if other >= 0:
                poller.register(other, select.POLLIN)
        try:
            return {ready for ready, _ in poller.poll(None if timeout is None else max(0, timeout * 1000))}
        finally:
            self._poller, self._polled = poller, wanted

    def keep_alive(self) -> float | None:
        """Give a sign of life when it is due, break a link that has stalled; seconds until it is to be called again.

        It has stalled when nothing came for as long as several signs of ours take, be it that we stood still meanwhile,
        and nothing is there that we have not taken. That the link broke shows in `receive`.
        """
        if self.keepalive is None or self._broken:
            return None
        now = time.monotonic()
        if now - self._beaten >= self.keepalive:
            with contextlib.suppress(LinkBroken):
                if now - (self._asked or now) >= BEATS * self.keepalive and not self.poll(0):
                    self._why = f"nothing came for {now - self._heard:.1f} s, the link has stalled"
                    with contextlib.suppress(OSError):
                        self.socket.shutdown(socket.SHUT_RDWR)
            with self._lock:
                self._beaten, self._asked = now, self._asked or now
                self._unsent += self.codec.beat()
                self._write()
        return max(0.0, self._beaten + self.keepalive - now)

    def fileno(self) -> int:
        """For select; -1 once it is closed."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close the socket; what was not sent is lost."""
        self._broken = self._broken or "the link was closed"
        with contextlib.suppress(OSError):
            self.socket.close()

    def _write(self) -> None:
        while self._unsent:
            piece = self._unsent[0]
            try:
                sent = self.socket.send(piece)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError:  # what has arrived is to be received all the same: the end shows there
                self._unsent.clear()
                return
            self.bytes_sent += sent
            if sent == len(piece):
                self._unsent.popleft()
            else:
                self._unsent[0] = memoryview(piece)[sent:]

    def _break(self, why: str) -> LinkBroken:
        self._broken = why
        self._unsent.clear()
        return LinkBroken(why)


def stream_pair(largest: int) -> tuple[Link, Link]:
    """Two links that face each other within this process: real bytes through a real socket."""
    one, other = socket.socketpair()
    return Link(one, StreamCodec(largest)), Link(other, StreamCodec(largest))
