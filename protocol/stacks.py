"""Stacks: a session's mirrored memory.

Knows: one arena of bytes that exists on both sides, and who may write where. Does not know: what the bytes mean, how
they travel, or when a command buffer is done (its owner says so with `pop`).

An arena has one writer for life. The writer pushes spans and sends patches; the reader applies patches and looks at
spans. Pushing is a ring: spans are handed out in order and freed in order, up to a mark. A mark is a position of the
ring counted from its beginning (it only grows); `mark % size` is the offset in the arena.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Annotated, NamedTuple

import msgspec

from .errors import ProtocolError

Offset = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]

ALIGNMENT = 16
"""Every span begins at a multiple of this, so that any scalar type of OpenGL is aligned in it."""
GROWS = 1 << 20
"""Bytes that are allocated at least, where the memory is."""
StackSize = Annotated[int, msgspec.Meta(ge=ALIGNMENT, lt=1 << 31, multiple_of=ALIGNMENT)]


class Span(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A piece of a stack: `size` bytes at `offset`."""

    offset: Offset
    size: Offset


class Fresh(NamedTuple):
    """A span that the reader does not have yet: where it begins in the ring, and what it is of, in which elements."""

    span: Span
    start: int
    subject: Hashable = None
    width: int = 4


def joined(fresh: Iterable[Fresh], largest: int) -> list[Span]:
    """Their spans, neighbours as one, none longer than `largest`."""
    found: list[list[int]] = []
    for span, *_ in fresh:
        if found and found[-1][1] <= span.offset < found[-1][1] + ALIGNMENT:
            found[-1][1] = span.offset + span.size
        elif span.size:
            found.append([span.offset, span.offset + span.size])
    return [Span(at, min(largest, end - at)) for start, end in found for at in range(start, end, largest)]


class Stack:
    """One arena of `size` bytes, seen from either side. It starts as zeros, and takes memory where it was touched."""

    def __init__(
        self, size: int, memory: memoryview | None = None, allocate: Callable[[int, int], None] | None = None
    ) -> None:
        """`memory`: where both sides see the same bytes, those; nothing need be patched then.

        `allocate`: called before bytes from one offset to another are written for the first time; raises where the
        system has no more memory.
        """
        self.size = size
        self.shared = memory is not None  # the peer sees the same bytes
        self.memory = memoryview(mmap.mmap(-1, size)) if memory is None else memory
        self.head = 0  # the writer's next span begins here
        self.tail = 0  # everything before this is free
        self.fresh: deque[Fresh] = deque()  # pushed, and not yet patched; where nothing is shared
        self._start = 0  # of what was reserved last
        self._allocate = allocate
        self._allocated = size if allocate is None else 0  # bytes from the front

    # --- the writer's side

    def reserve(self, size: int) -> Span | None:
        """A free span of `size` bytes, or None while there is no room; its bytes are whatever was there before."""
        if self.head == self.tail:  # empty: begin at the front, where memory has been touched already
            self.head = self.tail = -(-self.head // self.size) * self.size
        start, offset = self.head, self.head % self.size
        if offset + size > self.size:  # a span is in one piece: leave the rest of this lap
            start, offset = start - offset + self.size, 0
        end = start + (-(-size // ALIGNMENT) or 1) * ALIGNMENT
        if end - self.tail > self.size:
            return None
        if offset + size > self._allocated:
            self._grow(offset + size)
        self.head = end
        self._start = start
        return Span(offset, size)

    def _grow(self, end: int) -> None:
        end = min(max(end, 2 * self._allocated, GROWS), self.size)
        assert self._allocate is not None
        self._allocate(self._allocated, end)
        self._allocated = end

    def push(self, data: memoryview | bytes, subject: Hashable = None, width: int = 4) -> Span | None:
        """A span with a copy of `data` (bytes, or a contiguous view of bytes), or None while there is no room.

        What is pushed again of the same `subject` is likely to be alike; `width`: bytes of an element.
        """
        span = self.reserve(len(data))
        if span is not None:
            self.memory[span.offset : span.offset + span.size] = data
            if not self.shared:
                self.freshen(span, subject, width)  # after the copy: another thread may send what it finds here
        return span

    def freshen(self, span: Span, subject: Hashable = None, width: int = 4) -> None:
        """What was reserved last is filled, and the reader is to have it: where nothing is shared."""
        self.fresh.append(Fresh(span, self._start, subject, width))

    def take_fresh(self) -> list[Fresh]:
        """What is fresh since the last call."""
        return [self.fresh.popleft() for _ in range(len(self.fresh))]

    def pop(self, mark: int) -> None:
        """Free every span that was pushed before `mark`, a value that `head` had."""
        if mark > self.tail:
            self.tail = mark

    # --- the reader's side

    def apply(self, offset: int, data: memoryview | bytes | bytearray) -> None:
        """Make our arena equal to the other side's where it changed: a patch, applied whole or not at all."""
        if len(data) > self.size - offset:
            raise ProtocolError(f"a patch of {len(data)} bytes at {offset} does not fit a stack of {self.size} bytes")
        self.memory[offset : offset + len(data)] = data

    def view(self, span: Span) -> memoryview:
        """The bytes of a span, not copied; they stay as they are until the span is freed. Raises ProtocolError."""
        end = span.offset + span.size
        if end > self.size:
            raise ProtocolError(f"{span} is outside of a stack of {self.size} bytes")
        return self.memory[span.offset : end]
