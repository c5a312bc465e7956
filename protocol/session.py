"""The core of a session: numbers, keeping, acknowledging and resuming. Either side has one; they face each other.

Knows: one numbered sequence each way, what was sent and is not yet applied, and how to go on after a break. Does not
know: sockets, threads, clocks, or what a command does. It takes packets and gives packets.

Rules. Every Patch, Buffer, Answer and Fault has the next number of its direction. The receiver takes them in order and
says up to which number it has *applied* them (a patch is in its stack, a buffer has run, an answer was handed on);
until then the sender keeps them, and the spans they name. After a break each side tells the last number it applied and
sends again what the other has not; what comes twice is dropped by its number before anything is touched. So every
buffer runs once and every answer arrives. Credit bounds how far a sender runs ahead: `has_room` is false while too much
is kept.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from .buffers import LARGEST
from .errors import ProtocolError
from .messages import (
    LARGEST_BODY,
    LARGEST_PACKET,
    Answer,
    Applied,
    Buffer,
    Bytes,
    Fault,
    Message,
    Numbered,
    Packed,
    Patch,
    decode,
    encode,
)
from .packing import Packer, unpack
from .stacks import Stack, joined

CREDIT_MESSAGES = 1024
CREDIT_BYTES = 16 * LARGEST
"""How much a sender may keep, patches apart, which the stack bounds. A buffer of the greatest size always fits."""
ACKNOWLEDGE_MESSAGES = 64
ACKNOWLEDGE_SHARE = 8
"""A receiver acknowledges at the latest after this many messages, or an eighth of its stack in spans."""

HOLDS = 4
"""A buffer that waits holds its packet in memory, unless that is so many times as large: then its body is copied."""

_PATCHES = frozenset((Patch, Packed))
_NUMBERED = _PATCHES | {Buffer, Answer, Fault}


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A message that the peer has not applied yet. `mark`: once it has, our spans before this mark are free."""

    number: int
    pieces: tuple[Bytes, ...]
    size: int
    mark: int
    cost: int  # of our credit


class Session:
    """One side of a session: `writes` is the stack that this side pushes to, the peer's patches fill `reads`."""

    def __init__(self, writes: Stack, reads: Stack) -> None:
        self.writes = writes
        self.reads = reads
        self.packer = Packer(writes)
        self.connected = True
        self.sent = 0  # the last number we gave
        self.received = 0  # the last number of the peer's that we took
        self.given = 0  # ... that the owner was given to do
        self.applied = 0  # ... that is done here
        # what the owner was given and has not done: number, bytes, and bytes of the patches before it
        self._waiting: deque[tuple[int, int, int]] = deque()
        self._waiting_bytes = 0
        self.told = 0  # ... that we acknowledged
        self._freed = 0  # bytes of spans that are done since we acknowledged
        self._patched = 0  # bytes of patches that we have not acknowledged
        self._patched_done = 0  # of these, before something that is done
        self._patched_since = 0  # of these, behind what the owner was given last
        self.resends = 0  # how many messages went out again, for whoever counts
        self._kept: deque[Kept] = deque()
        self._kept_bytes = 0
        self.outgoing: deque[tuple[tuple[Bytes, ...], int]] = deque()
        """What is to be sent now: pieces, and their size."""

    # --- sending

    def send_patches(self) -> None:
        """Patch what was pushed to our stack since the last time. Call it before sending what names those spans.

        Where the stack is shared memory nothing is fresh: the message that names a span is all the notice that the
        other side needs.
        """
        fresh = self.writes.take_fresh()
        if self.packer.level:
            for kind, fields, body in self.packer.patches(fresh):
                self.send(kind, *fields, body=body)
            return
        for span in joined(fresh, LARGEST_BODY):
            self.send(Patch, span.offset, body=self.writes.view(span))

    def send(self, kind: type[Numbered], *fields: Any, body: Bytes = b"", mark: int = 0) -> int:
        """Send the next numbered message; its number. The body is not copied: it must stay as it is until applied."""
        number = self.sent + 1
        head = encode(kind(number, *fields), body)
        self.sent = number
        size = len(head) + len(body)
        pieces: tuple[Bytes, ...] = (head, body) if len(body) else (head,)
        cost = 0 if kind in _PATCHES else size
        self._kept.append(Kept(number, pieces, size, mark, cost))
        self._kept_bytes += cost
        if self.connected:
            self.outgoing.append((pieces, size))
        return number

    def tell(self, message: Message) -> None:
        """Send a message that has no number: it is not kept, and lost with the connection."""
        if self.connected:
            head = encode(message)
            self.outgoing.append(((head,), len(head)))

    def has_room(self) -> bool:
        """Whether the credit allows another buffer or answer of the greatest size."""
        return len(self._kept) < CREDIT_MESSAGES and self._kept_bytes <= CREDIT_BYTES - LARGEST

    def packets(self) -> list[list[Bytes]]:
        """Take what is to be sent now: packets, each a list of pieces to be sent one behind the other."""
        packets: list[list[Bytes]] = []
        room = 0
        while self.outgoing:
            pieces, size = self.outgoing.popleft()
            if size > room:
                packets.append([])
                room = LARGEST_PACKET
            packets[-1] += pieces
            room -= size
        return packets

    # --- receiving

    def receive(self, packet: Bytes) -> list[tuple[Message, memoryview]]:
        """Take a packet: patches are applied, acknowledgements obeyed; the rest is returned for the owner to do.

        The owner calls `done` with the number of each Buffer, Answer or Fault when it is done. Raises ProtocolError.
        """
        to_do: list[tuple[Message, memoryview]] = []
        for found in decode(packet):
            message, body = found
            kind = type(message)
            if len(body) and kind is not Buffer and kind not in _PATCHES:
                raise ProtocolError(f"{kind.__name__} has no body")
            if kind in _NUMBERED:
                number = message.number
                if number <= self.received or not self.connected:  # it comes again once we have resumed
                    continue
                if number != self.received + 1:
                    raise ProtocolError(f"message {number} after {self.received}")
                if kind in _PATCHES:
                    size = len(body) if kind is Patch else message.size
                    if self._patched + size > self.reads.size:
                        raise ProtocolError(f"message {number} patches what its sender cannot know to be free")
                    if kind is Patch:
                        self.reads.apply(message.offset, body)
                    else:
                        unpack(self.reads, message, body)
                    self._patched += size
                    self._patched_since += size
                    if self.applied == self.received:  # nothing before it is still to be done
                        self.applied = number
                else:
                    to_do.append(found if len(packet) <= HOLDS * len(body) else (message, memoryview(bytes(body))))
                    self._wait(number, len(body))
                    self.given = number
                self.received = number
            elif kind is Applied:
                self._drop(message.number)
            else:
                to_do.append(found)
        return to_do

    def _wait(self, number: int, size: int) -> None:
        """Something is given to the owner: the peer may run ahead of it by its credit, and no further."""
        if len(self._waiting) >= CREDIT_MESSAGES or self._waiting_bytes + size > CREDIT_BYTES:
            raise ProtocolError(
                f"message {number} is beyond its sender's credit: {len(self._waiting)} messages, "
                f"{self._waiting_bytes} bytes, wait to be done; {CREDIT_MESSAGES} and {CREDIT_BYTES} may"
            )
        self._waiting.append((number, size, self._patched_since))
        self._waiting_bytes += size
        self._patched_since = 0

    def done(self, number: int, size: int = 0) -> None:
        """The message of this number, and every one before it, is applied; with the `size` bytes of its spans."""
        while self._waiting and self._waiting[0][0] <= number:
            _, held, patched = self._waiting.popleft()
            self._waiting_bytes -= held
            self._patched_done += patched
        self._freed += size
        # Behind the last that was to be done there are patches only, and those are applied as they come.
        self.applied = self.received if number >= self.given else max(self.applied, number)

    def acknowledge(self, at_once: bool = True) -> None:
        """Tell the peer what is applied, if there is news: at once, or only when much has gathered."""
        much = self.applied - self.told >= ACKNOWLEDGE_MESSAGES or self._freed * ACKNOWLEDGE_SHARE >= self.reads.size
        if self.applied > self.told and (at_once or much):
            self.tell(Applied(self._tell()))

    def resuming(self) -> int:
        """What Resume or Resumed says is applied."""
        return self._tell()

    def _tell(self) -> int:
        """What is applied, which the peer is told now."""
        self.told = self.applied
        self._freed = 0
        if self.applied == self.received:
            self._patched = self._patched_since = 0
        else:
            self._patched -= self._patched_done
        self._patched_done = 0
        return self.told

    def _drop(self, number: int) -> None:
        if number > self.sent:
            raise ProtocolError(f"message {number} is said to be applied, and {self.sent} was the last")
        mark = 0
        while self._kept and self._kept[0].number <= number:
            kept = self._kept.popleft()
            mark = max(mark, kept.mark)
            self._kept_bytes -= kept.cost
        self.writes.pop(mark)

    # --- breaking and resuming

    def disconnect(self) -> None:
        """The connection is gone: nothing goes out until `resume`, and everything is kept."""
        self.connected = False
        self.outgoing.clear()

    def resume(self, applied: int) -> None:
        """A new connection: the peer has applied our messages up to this number, and gets the others again."""
        self._drop(applied)
        self.connected = True
        self.outgoing.extend((kept.pieces, kept.size) for kept in self._kept)
        self.resends += len(self._kept)
