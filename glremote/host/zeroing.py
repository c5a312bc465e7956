"""What OpenGL leaves in new memory is not ours to show: buffers, textures and renderbuffers begin as zeros.

Knows: where zeros come from, however many. What could not be made (no memory, formats that do not go together) has left
its error, and OpenGL keeps the first: writing to it adds none.
"""

from __future__ import annotations

import contextlib
import mmap
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ZEROS = bytes(1 << 20)
UNTOUCHED = secrets.token_bytes(16)
"""Lies at both ends of memory in which nothing was written yet: no picture has it there."""


def zeros(size: int) -> memoryview | mmap.mmap | None:
    """So many zeros; None where no machine has as many, and no driver makes a texture of them.

    Above a megabyte they are pages that are never written, which the system backs with one page of zeros.
    """
    if size <= len(ZEROS):
        return memoryview(ZEROS)[:size]
    with contextlib.suppress(OSError, OverflowError):
        return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ)
    return None


def cleared(memory: memoryview) -> memoryview:
    """The same memory, zeros: what OpenGL leaves out of an image must not show what was there before."""
    for start in range(0, len(memory), len(ZEROS)):
        piece = memory[start : start + len(ZEROS)]
        piece[:] = ZEROS[: len(piece)] if len(piece) < len(ZEROS) else ZEROS
    return memory


@contextmanager
def filled(memory: memoryview, whole: bool) -> Iterator[None]:
    """Around a read into memory: what it does not write is zeros.

    `whole`: it writes all, unless an error has it write nothing. Then the memory is cleared behind it, and only where
    nothing was written: to clear all first costs a tenth of a read.
    """
    if not whole or len(memory) < 2 * len(UNTOUCHED):
        cleared(memory)
        yield
        return
    memory[: len(UNTOUCHED)] = memory[-len(UNTOUCHED) :] = UNTOUCHED
    yield
    if is_untouched(memory):
        cleared(memory)


def is_untouched(memory: memoryview) -> bool:
    """Whether nothing was written over what lies at both ends."""
    return memory[: len(UNTOUCHED)] == memory[-len(UNTOUCHED) :] == UNTOUCHED


def zero_buffer(buffer: Any, start: int = 0) -> None:
    """A buffer (moderngl's C object) from some byte on."""
    if buffer.size() <= start:  # another object for a buffer may say that it has none: nothing can be mapped then
        return
    with contextlib.suppress(Exception):  # out of memory: OpenGL's own error stands, as in a local context
        buffer.clear(buffer.size() - start, start, None)
