"""How objects are read: what OpenGL does not write is zeros, and large reads are made in pieces.

Knows: the Fetch commands, and which of them write all of their memory. Does not know: where answers go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from glremote.protocol import commands as c

from . import bounds
from .objects import Objects, size_of
from .zeroing import cleared, filled

PART = 8 << 20
"""An answer above this size goes in parts, so that it never needs the whole stack at once."""
PIECE = 2 << 20
"""A read above this size is made in pieces, where it can be: the client takes one while OpenGL gives the next."""


class Reading(Objects):
    """The methods of reading.py."""

    def pieces(self, k: c.Fetch) -> Iterator[c.Fetch]:
        """A large read as several smaller ones, where their bytes lie one behind the other."""
        if isinstance(k, c.ReadBuffer):  # of larger pieces: NVIDIA's driver moves a buffer each time it is mapped
            for start in range(0, k.size, PART):
                yield c.ReadBuffer(k.ticket, min(PART, k.size - start), k.buffer, k.offset + start)
        elif isinstance(k, c.ReadFramebuffer) and self._is_whole(k) and (row := k.size // self._area(k)[3]) <= PIECE:
            x, y, columns, rows = self._area(k)
            some = PIECE // row
            for start in range(0, rows, some):
                count = min(some, rows - start)
                fields = (k.components, k.attachment, k.alignment, k.clamp, k.dtype)
                area = (x, y + start, columns, count)
                yield c.ReadFramebuffer(k.ticket, count * row, k.framebuffer, area, *fields)
        else:
            yield k

    def read_buffer(self, k: c.ReadBuffer, memory: memoryview) -> None:
        bounds.offsets(k.offset)
        if k.size:
            self[k.buffer].read_into(memory, k.size, k.offset, 0)
        else:  # read and read_into differ here: this one raises
            self[k.buffer].read(0, k.offset)

    def read_chunks(self, k: c.ReadBufferChunks, memory: memoryview) -> None:
        bounds.chunks(k.chunk_size, k.start, k.step, k.count)
        self[k.buffer].read_chunks_into(memory, k.chunk_size, k.start, k.step, k.count, 0)

    def read_framebuffer(self, k: c.ReadFramebuffer, memory: memoryview) -> None:
        bounds.most(k.components, bounds.MOST_COMPONENTS, "components")
        bounds.area(k.viewport)
        with filled(memory, self._is_whole(k)):
            self[k.framebuffer].read_into(
                memory, k.viewport, k.components, k.attachment, k.alignment, k.clamp, k.dtype, 0
            )

    def _area(self, k: c.ReadFramebuffer) -> tuple[int, int, int, int]:
        return k.viewport or (0, 0, *self.framebuffer(k.framebuffer)[:2])

    def _is_whole(self, k: c.ReadFramebuffer) -> bool:
        """Whether a read has no byte that is not a pixel's."""
        width, height = self.framebuffer(k.framebuffer)[:2]
        x, y, columns, rows = self._area(k)
        pixel = (1 if k.attachment == -1 else k.components) * size_of(k.dtype)
        within = x >= 0 and y >= 0 and x + columns <= width and y + rows <= height
        return within and k.size == columns * rows * pixel

    def read_texture(self, texture: int, memory: memoryview, *fields: int) -> None:
        """Read texels. OpenGL writes what a texture has, or another that is bound in its place where there is none.

        So where that may be more than the memory holds, they go through a buffer, whose size OpenGL minds.
        """
        cleared(memory)
        if texture not in self.unsure:
            self[texture].read_into(memory, *fields, 0)
        elif memory.nbytes:
            between, *_ = self.context.buffer(None, memory.nbytes, False)
            between.clear(-1, 0, None)
            self[texture].read_into(between, *fields, 0)
            between.read_into(memory, -1, 0, 0)
            between.release()


def subject(k: c.Fetch) -> tuple[Any, ...]:
    """What a read is of: answers to the same are likely to be alike."""
    return type(k), *(getattr(k, name) for name in k.__struct_fields__[1:])


def width(k: c.Fetch) -> int:
    """Bytes after which a read's bytes are alike: those of a number, or of a whole pixel of single bytes."""
    if not isinstance(k, c.ReadFramebuffer):
        return 4
    one = size_of(k.dtype)
    return k.components if one == 1 and k.attachment >= 0 and 1 <= k.components <= 4 else one
