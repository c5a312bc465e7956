"""Packing: a patch in fewer bytes, compressed, and as the difference from what the receiver's stack holds elsewhere.

Knows: what was sent of each subject before (the same read, the same write), and where the receiver still has it. Does
not know: whether a link is slow (its owner sets `level`), sockets or clocks.

A stack is a ring that the receiver holds too, so what was sent lies there until something else is pushed over it. From
the second time that something of a subject is sent a copy is kept here, and what comes next may be sent as the
difference (XOR) from it: of two pictures of one scene most is equal. Whichever is smaller is sent. Compression is
Blosc's, which puts the first bytes of all elements side by side, then the second, and so on
(https://www.blosc.org); a frame of its says which compressor made it, and how long the result is. Nothing is ever lost.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import ProtocolError
from .messages import LARGEST_BODY, Bytes, Packed, Patch
from .stacks import Fresh, Stack, joined

if TYPE_CHECKING:
    import numpy as np

LEVELS: tuple[tuple[bytes, int], ...] = ((b"", 0), (b"lz4", 1), (b"zstd", 1))
"""Blosc's compressor and its level, of each level of packing: none, fast, small."""
SMALLEST = 512
"""Bytes of a span below which packing is not worth the message."""
SUBJECTS = 4096
"""So many are remembered, the last that were sent."""
SHUFFLE = 1


class Kept(NamedTuple):
    """What was sent last of a subject: where it began in the ring, and a copy if it was sent twice."""

    start: int
    size: int
    data: bytes | None


class Packer:
    """The sender's side, of one stack. `budget`: bytes of what is kept, as many as the stack has if it is not given."""

    def __init__(self, stack: Stack, budget: int | None = None, smallest: int = SMALLEST) -> None:
        self.level = 0
        self._smallest = smallest
        self._stack = stack
        self._budget = stack.size if budget is None else budget
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._bytes = 0

    def patches(self, fresh: Sequence[Fresh]) -> Iterator[tuple[Any, tuple[Any, ...], Bytes]]:
        """Messages that make the receiver's stack equal where it is fresh: kind, fields behind the number, body."""
        small: list[Fresh] = []
        for entry in fresh:
            if entry.span.size < self._smallest:
                small.append(entry)
                continue
            yield from self._plain(small)
            small = []
            yield from self._packed(entry)
        yield from self._plain(small)

    def _plain(self, fresh: Sequence[Fresh]) -> Iterator[tuple[Any, tuple[Any, ...], Bytes]]:
        for span in joined(fresh, LARGEST_BODY):
            yield Patch, (span.offset,), self._stack.view(span)

    def _packed(self, entry: Fresh) -> Iterator[tuple[Any, tuple[Any, ...], Bytes]]:
        offset, size = entry.span.offset, entry.span.size
        data: Any = self._stack.view(entry.span)
        base = self._base(entry)
        if base is not None:
            data = bytes(data)
            if data == base.data:
                yield Packed, (offset, size, base.start % self._stack.size, checksum(data)), b""
                self._keep(entry, data)
                return
        differs = base is not None
        for at in range(0, size, LARGEST_BODY):
            piece = data[at : at + LARGEST_BODY]
            old = b"" if base is None or base.data is None else base.data[at : at + LARGEST_BODY]
            whole = self._compress(piece, entry.width) if not differs or at == 0 else b""
            less = self._compress(_xor(piece, old), entry.width) if differs else b""
            if at == 0 and differs:
                differs = len(less) < len(whole)  # as the first piece, so the others
            body = less if differs else whole
            if len(body) >= len(piece):
                yield Patch, (offset + at,), piece
            elif differs and base is not None:
                place = base.start % self._stack.size + at
                yield Packed, (offset + at, len(piece), place, checksum(piece)), body
            else:
                yield Packed, (offset + at, len(piece), None, 0), body
        self._keep(entry, data)

    def _compress(self, data: Bytes | np.ndarray[Any, Any], width: int) -> bytes:
        name, level = LEVELS[self.level]
        return bytes(_blosc().compress(_array(data, width), name, level, SHUFFLE))

    def _base(self, entry: Fresh) -> Kept | None:
        """What of the same subject the receiver still has, whole, until this is applied."""
        kept = self._kept.get(entry.subject)
        if kept is None or kept.data is None or kept.size != entry.span.size:
            return None
        behind = kept.start + self._stack.size  # the ring has come round to it
        return kept if entry.start + entry.span.size <= behind or entry.start == behind else None

    def _keep(self, entry: Fresh, data: Bytes) -> None:
        if entry.subject is None:
            return
        before = self._kept.pop(entry.subject, None)
        self._bytes -= len(before.data) if before is not None and before.data is not None else 0
        again = before is not None and before.size == entry.span.size and before.size <= self._budget
        self._kept[entry.subject] = Kept(entry.start, entry.span.size, bytes(data) if again else None)
        self._bytes += entry.span.size if again else 0
        while self._bytes > self._budget or len(self._kept) > SUBJECTS:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped.data) if dropped.data is not None else 0


def unpack(stack: Stack, message: Packed, body: Bytes) -> None:
    """The receiver's side: put what a message says into the stack. Raises ProtocolError, and then has put nothing."""
    size, base = message.size, message.base
    if size > stack.size - message.offset or (base is not None and size > stack.size - base):
        raise ProtocolError(f"{size} bytes at {message.offset}, from {base}: outside of a stack of {stack.size} bytes")
    if not len(body):
        if base is None:
            raise ProtocolError("a packed patch of nothing")
        data: Any = bytes(stack.memory[base : base + size])
    else:
        data = _decompress(body, size)
        if base is not None:
            data = _xor(data, stack.memory[base : base + size])
    if base is not None and checksum(data) != message.checksum:
        raise ProtocolError("a packed patch differs from what it was made of: the two stacks are not equal")
    stack.apply(message.offset, memoryview(data))


def _decompress(body: Bytes, size: int) -> np.ndarray[Any, Any]:
    import numpy as np

    blosc = _blosc()
    if size > LARGEST_BODY or len(body) < 16 or blosc._cbuffer_sizes(body)[:2] != (size, len(body)):
        raise ProtocolError(f"a body of {len(body)} bytes is not {size} bytes, packed")
    data = np.zeros(size, np.uint8)  # whatever a frame leaves out shows nothing of ours
    try:
        blosc.decompress(body, data)
    except RuntimeError as error:
        raise ProtocolError(f"a packed patch: {error}") from None
    return data


def checksum(data: Bytes | np.ndarray[Any, Any]) -> int:
    """The sum of all whole 64-bit words and of the bytes behind them, modulo 2**64."""
    import numpy as np

    array = np.frombuffer(data, np.uint8)
    words = len(array) // 8 * 8
    total = int(array[:words].view(np.uint64).sum()) + int(array[words:].sum())
    return total & 0xFFFFFFFFFFFFFFFF


def _xor(one: Bytes | np.ndarray[Any, Any], other: Bytes) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.bitwise_xor(np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8))


def _array(data: Bytes | np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
    """The same bytes as elements of `width` bytes, where they can be that."""
    import numpy as np

    array = np.frombuffer(data, np.uint8)
    return array.view(f"S{width}") if len(array) % width == 0 else array


def prepare() -> None:
    """Import what packing needs, where there is time for it."""
    _blosc()


@cache
def _blosc() -> Any:
    """Imported late: that is slow, and near nobody needs it. It logs what it registers, which is no program's news."""
    log = logging.getLogger("numcodecs")
    log.addFilter(_nothing)
    try:
        from numcodecs import blosc
    finally:
        log.removeFilter(_nothing)
    return blosc


def _nothing(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG
