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


def spin(poller: Any, timeout: float | None, seconds: float) -> set[int]:
    """Poll; at first, for so many seconds, without sleeping: to be woken costs more than a short answer takes."""
    if seconds and timeout != 0:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            if ready := poller.poll(0):
                return {descriptor for descriptor, _ in ready}
    return {descriptor for descriptor, _ in poller.poll(None if timeout is None else max(0, timeout * 1000))}


class LinkBroken(Exception):
    """The connection is gone; the text says how."""


class Codec(Protocol):
    """Packets to bytes and back. It is called by one thread at a time."""

    largest: int

    def wrap(self, packet: Packet) -> list[Bytes]:
        """The bytes that carry this packet."""
        ...

    def unwrap(self, data: Bytes) -> tuple[list[Bytes], list[Bytes]]:
        """The packets that are complete with this data, and bytes to be sent because of it. Raises LinkBroken."""
        ...


class StreamCodec:
    """A packet on a stream of our own, within the process: its length in 4 bytes, then itself."""

    HEADER = struct.Struct(">I")

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self._buffer = bytearray()
        self._wanted = 0

    def wrap(self, packet: Packet) -> list[Bytes]:
        return [self.HEADER.pack(sum(map(len, packet))), *packet]

    def unwrap(self, data: Bytes) -> tuple[list[Bytes], list[Bytes]]:
        self._buffer += data
        if len(self._buffer) < self._wanted:
            return [], []
        packets: list[Bytes] = []
        at, end = 0, len(self._buffer)
        with memoryview(self._buffer) as view:
            self._wanted = 0
            while end - at >= 4:
                (length,) = self.HEADER.unpack_from(view, at)
                if length > self.largest:
                    raise LinkBroken(f"a packet of {length} bytes; the greatest has {self.largest}")
                if end - at - 4 < length:
                    self._wanted = length + 4
                    break
                packets.append(bytes(view[at + 4 : at + 4 + length]))
                at += 4 + length
        del self._buffer[:at]
        return packets, []


class Link:
    """A connected, non-blocking socket with its codec."""

    def __init__(self, sock: socket.socket, codec: Codec) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.codec = codec
        self.spin = 0.0
        """Seconds for which `poll` does not sleep."""
        self.bytes_sent = 0
        self.bytes_received = 0
        self.early: deque[Bytes] = deque()  # packets that came while the link was opened
        self._unsent: deque[memoryview] = deque()
        self._lock = threading.Lock()
        self._broken: str | None = None
        self._poller: Any = None
        self._polled = (False, -1)  # what it was made for

    @property
    def has_unsent(self) -> bool:
        """Whether the socket has not taken all that was sent."""
        return bool(self._unsent)

    def send(self, packets: Sequence[Packet] = ()) -> None:
        """Send packets, and what is left of earlier ones, as far as the socket takes it now.

        Raises LinkBroken on a link that was closed; that a connection broke shows in `receive`.
        """
        with self._lock:
            if self._broken:
                raise LinkBroken(self._broken)
            for packet in packets:
                self._queue(self.codec.wrap(packet))
            self._write()

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
                data = self.socket.recv(1 << 20)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return []
            except (OSError, ValueError) as error:
                raise self._break(f"the connection broke: {error}") from None
            if not data:
                raise self._break("the connection was closed")
            self.bytes_received += len(data)
            packets, reply = self.codec.unwrap(data)
            if reply:
                self._queue(reply)
                self._write()
            return packets

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
        if self._poller is None or self._polled != wanted:  # select() takes no descriptor above 1023
            self._poller, self._polled = select.poll(), wanted
            self._poller.register(self.socket.fileno(), select.POLLIN | (select.POLLOUT if self._unsent else 0))
            if other >= 0:
                self._poller.register(other, select.POLLIN)
        return spin(self._poller, timeout, self.spin)

    def fileno(self) -> int:
        """For select; -1 once it is closed."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close the socket; what was not sent is lost."""
        self._broken = self._broken or "the link was closed"
        with contextlib.suppress(OSError):
            self.socket.close()

    def _queue(self, pieces: Sequence[Bytes]) -> None:
        if len(pieces) > 1 and sum(map(len, pieces)) <= JOINED:
            pieces = [b"".join(pieces)]
        self._unsent.extend(memoryview(piece).cast("B") for piece in pieces if len(piece))

    def _write(self) -> None:
        while self._unsent:
            try:
                sent = self.socket.send(self._unsent[0])
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError:  # what has arrived is to be received all the same: the end shows there
                self._unsent.clear()
                return
            self.bytes_sent += sent
            if sent == len(self._unsent[0]):
                self._unsent.popleft()
            else:
                self._unsent[0] = self._unsent[0][sent:]

    def _break(self, why: str) -> LinkBroken:
        self._broken = why
        self._unsent.clear()
        return LinkBroken(why)


def stream_pair(largest: int) -> tuple[Link, Link]:
    """Two links that face each other within this process: real bytes through a real socket."""
    one, other = socket.socketpair()
    return Link(one, StreamCodec(largest)), Link(other, StreamCodec(largest))
