"""A link within one machine: small packets lie in shared memory, the others go through a connected socket.

Knows: how a packet is left for a peer that looks for it, and how a peer that sleeps is woken. Does not know: what is
in a packet, or whose memory it is.

Each direction has a mailbox: room for one packet. A packet is left there if the peer has taken every one before it, and
goes through the socket otherwise; so packets keep their order, and the one in the mailbox is always the oldest. Nobody
makes a system call while both are awake.

A peer says that it is awake before it looks again and again, and that it is not before it looks for the last time. A
sender leaves the packet first and looks then; if the peer is not awake it sends an empty packet through the socket. Of
two processors that each write one place and then read the other, one sees what the other wrote if a fence lies between
(Intel SDM, volume 3, 9.2.3.4); releasing or acquiring a lock is one. That writes are seen in their order is a property
of x86, so elsewhere everything goes through the socket.
"""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Sequence

from .links import Bytes, Link, LinkBroken, Packet, StreamCodec

SIZE = 1 << 16
"""Bytes of one mailbox."""
ORDERED = platform.machine().lower() in ("x86_64", "amd64")
PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
FEW = 3
"""Processors: those of the two sides, and one for a driver's threads."""
BELL: Packet = ()
"""An empty packet: there is something in the mailbox."""


class Mailbox:
    """One direction's. What the reader writes and what the writer writes lie on cache lines of their own."""

    def __init__(self, memory: memoryview) -> None:
        self.taken = memory[0:8].cast("Q")
        """By the reader, as an array of one number: how many packets it has taken, on either way."""
        self.awake = memory[8:16].cast("Q")
        """By the reader: 1 while it looks for the next packet."""
        self.sent = memory[64:72].cast("Q")
        """By the writer: how many packets it has sent, on either way."""
        self._number = memory[72:80].cast("Q")
        self._length = memory[80:88].cast("Q")
        self._room = memory[88:SIZE]

    def clear(self) -> None:
        """Begin again."""
        for place in (self.taken, self.awake, self.sent, self._number, self._length):
            place[0] = 0

    def put(self, number: int, packet: Packet) -> int:
        """Leave the packet of this number, counted from 1, here. Its size; 0 where it must go another way."""
        if self.taken[0] != number - 1:
            return 0
        size = sum(map(len, packet))
        if size > len(self._room):
            return 0
        self._room[:size] = b"".join(packet)
        self._length[0] = size
        self._number[0] = number
        return size

    def get(self, number: int) -> bytes | None:
        """The packet of this number, if it lies here; then it is taken."""
        if self._number[0] != number:
            return None
        packet = self._room[: self._length[0]].tobytes()
        self.taken[0] = number
        return packet


class SharedLink(Link):
    """A link over a connected socket beside two mailboxes: the one that is read, and the one that is written."""

    def __init__(self, sock: socket.socket, largest: int, inward: Mailbox, outward: Mailbox, spin: float) -> None:
        """`spin`: seconds for which `receive_soon` looks again and again, since a peer that sleeps is slow to wake.

        Where processors are few it does so only if the wait before was shorter than that: to look in vain takes one
        from a driver's threads.
        """
        super().__init__(sock, StreamCodec(largest))
        self._inward = inward
        self._outward = outward
        self._spin = spin
        self._sent = self._taken = 0
        self._waits_since = 0.0  # asleep, perhaps; 0 where something came since
        self._brisk = True  # the last wait was shorter than we spin

    def send(self, packets: Sequence[Packet] = ()) -> bool:
        rings = False
        with self._lock:
            if self._broken:
                raise LinkBroken(self._broken)
            for packet in packets:
                self._sent += 1
                if ORDERED and (size := self._outward.put(self._sent, packet)):
                    self.bytes_sent += size
                    rings = True
                else:
                    self._unsent += self.codec.wrap(packet)
                self._outward.sent[0] = self._sent
            if self._unsent:
                self._write()
        if rings and not self._outward.awake[0]:
            with self._lock:
                self._unsent += self.codec.wrap(BELL)
                self._write()
        return bool(self._unsent)

    def receive(self, timeout: float | None = 0) -> list[Bytes]:
        first = self._first()
        if first is None:
            packets: list[Bytes] = [packet for packet in super().receive(timeout) if packet]
            first = self._first()  # left there since, so that it is older than what the socket gave
            if packets:
                self._taken += len(packets)
                self._inward.taken[0] = self._taken
        else:
            packets = []
        if first is not None:
            packets.insert(0, first)
        if packets and self._waits_since:
            self._brisk = PROCESSORS > FEW or time.perf_counter() - self._waits_since < self._spin
            self._waits_since = 0.0
        return packets

    def _first(self) -> Bytes | None:
        with self._lock:  # which is the fence, too
            first = self._inward.get(self._taken + 1)
            if first is not None:
                self._taken += 1
                self.bytes_received += len(first)
        return first

    def receive_soon(self) -> list[Bytes]:
        if self._inward.sent[0] != self._taken:
            return self.receive()
        began = time.perf_counter()
        if self._brisk and (first := self._spun(began + self._spin)) is not None:
            with self._lock:  # the fence
                pass
            return [first] if self._inward.sent[0] == self._taken else [first, *self.receive()]
        self._waits_since = self._waits_since or began
        return self.receive()

    def _spun(self, end: float) -> Bytes | None:
        """What came until then, looking again and again. The caller looks once more: nobody rang."""
        sent, taken, awake = self._inward.sent, self._taken, self._inward.awake
        awake[0] = 1
        try:
            while sent[0] == taken and time.perf_counter() < end:
                os.sched_yield()  # to a driver's thread, perhaps, that computes what we wait for
            return self._first()  # before we say that we sleep, or whoever left it would ring
        finally:
            awake[0] = 0
