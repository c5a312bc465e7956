"""Stands where mgl.Buffer stands. Shadow: its length; the contents are the host's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moderngl import Error

from glremote.device.waiting import Pending
from glremote.protocol import commands as c
from glremote.protocol.buffers import LARGEST_DATA

from . import arguments as a
from .ahead import Ahead
from .objects import Recorded

if TYPE_CHECKING:
    from .context import Context


PIECE = 2 << 20
"""Bytes that are written at once: the host gives OpenGL one piece while we copy the next."""


class Buffer(Recorded):
    """A buffer of `length` bytes. `source`: the one that OpenGL has, where this is another object for it."""

    name = "mgl.Buffer"

    def __init__(self, context: Context, length: int, source: Buffer | None = None) -> None:
        super().__init__(context)
        self.length = length
        self.source: Buffer | None = source and source.root
        self.ahead: Ahead = Ahead() if source is None else source.root.ahead
        self.there = length  # bytes that OpenGL has, where it is for this object that it has them
        self.glo: int = context.number("buffer", self) if source is None else source.glo

    @property
    def root(self) -> Buffer:
        """The one that OpenGL has."""
        return self.source or self

    def size(self) -> int:
        """Bytes."""
        return self.length

    def write(self, data: Any, offset: Any) -> None:
        """Write bytes at an offset; what is larger than a command buffer holds goes in consecutive ones."""
        offset = a.ssize(offset)
        found = a.data(data)
        if offset < 0 or len(found) + offset > self.length:
            raise a.out_of_range(offset, len(found))
        self.push(found, offset)

    def push(self, data: a.Data, offset: int) -> None:
        """Record the writes of data that fits."""
        self.ahead.change()
        for start in range(0, len(data) or 1, PIECE):
            piece = data[start : start + PIECE]
            span = self.recorder.push(piece, self.handle, offset + start)
            self.recorder.record(c.BufferWrite(self.handle, span, offset + start), len(piece))

    def read(self, size: Any, offset: Any) -> bytes:
        """`size` bytes from an offset; all that follow when it is negative."""
        size, offset = a.ssize(size), a.ssize(offset)
        if size < 0:
            size = self.length - offset
        if offset < 0 or offset + size > self.length:
            raise a.out_of_range(offset, size)
        if size < 0:
            raise self._unmappable(size)
        found = self.ahead.take(self, size, offset) if self.ahead.filled else None
        return self.recorder.fetch(c.ReadBuffer, size, self.handle, offset) if found is None else found

    def fetch_ahead(self) -> Pending | None:
        """All of it, before it is asked for: see ahead.py."""
        return self.recorder.fetch_ahead(c.ReadBuffer, self.length, self.handle, 0)

    def read_into(self, data: Any, size: Any, offset: Any, write_offset: Any) -> None:
        """The same into writable memory."""
        size, offset, write_offset = a.ssize(size), a.ssize(offset), a.ssize(write_offset)
        if size < 0:
            size = self.length - offset
        if offset < 0 or size < 0 or write_offset < 0 or offset + size > self.length:
            raise Error(f"out of range offset = {offset} or size = {size}")
        memory = a.writable(data)
        if len(memory) < write_offset + size:
            raise Error("the buffer is too small")
        if size:
            sink = memory[write_offset : write_offset + size]
            if (found := self.ahead.take(self, size, offset)) is not None:
                sink[:] = found
            else:
                self.recorder.fetch(c.ReadBuffer, size, self.handle, offset, sink=sink)

    def write_chunks(self, data: Any, start: Any, step: Any, count: Any) -> None:
        """Write `count` equal chunks of data, each `step` bytes behind the last."""
        start, step, count = a.ssize(start), a.ssize(step), a.ssize(count)
        if count <= 0:
            raise Error(f"invalid count {count}")
        found = a.data(data)
        size = len(found) // count
        if len(found) != size * count:
            sizes = f"data ({a.printf(len(found))} bytes)"
            raise Error(f"{sizes} cannot be divided to {a.printf(count)} equal chunks")
        start = self._start(start)
        if self._outside(start, size, step, count):
            raise Error("buffer overflow")
        self._check_mapping(0, self.length)
        self.ahead.change()
        span = self.recorder.push(found, self.handle, start, step)
        self.recorder.record(c.BufferWriteChunks(self.handle, span, start, step, count), len(found))

    def read_chunks(self, chunk_size: Any, start: Any, step: Any, count: Any) -> bytes:
        """`count` chunks of `chunk_size` bytes, each `step` bytes behind the last."""
        chunk_size, start, step, count = a.ssize(chunk_size), a.ssize(start), a.ssize(step), a.ssize(count)
        start = self._start(start)
        if chunk_size < 0 or self._outside(start, chunk_size, step, count):
            raise Error("size error")
        size = chunk_size * count
        if size < 0:
            raise SystemError("Negative size passed to PyBytes_FromStringAndSize")
        if count < 0:
            return b""
        return self.recorder.fetch(c.ReadBufferChunks, size, self.handle, chunk_size, start, step, count)

    def read_chunks_into(
        self, data: Any, chunk_size: Any, start: Any, step: Any, count: Any, write_offset: Any
    ) -> None:
        """The same into writable memory."""
        chunk_size, start, step, count = a.ssize(chunk_size), a.ssize(start), a.ssize(step), a.ssize(count)
        write_offset = a.ssize(write_offset)
        start = self._start(start)
        if chunk_size < 0 or count < 0 or self._outside(start, chunk_size, step, count):
            raise Error("size error")
        memory = a.writable(data)
        size = chunk_size * count
        if write_offset < 0 or len(memory) < write_offset + size:
            raise Error("the buffer is too small")
        sink = memory[write_offset : write_offset + size]
        self.recorder.fetch(c.ReadBufferChunks, size, self.handle, chunk_size, start, step, count, sink=sink)

    def _start(self, start: int) -> int:
        return self.length + start if start < 0 else start

    def _outside(self, start: int, size: int, step: int, count: int) -> bool:
        last = start + count * step - step
        return start < 0 or size > abs(step) or start + size > self.length or last < 0 or last + size > self.length

    def clear(self, size: Any, offset: Any, chunk: Any) -> None:
        """Fill bytes with a repeated chunk, or with zeros."""
        size, offset = a.ssize(size), a.ssize(offset)
        length = self.length - offset if size < 0 else size
        span, weight = None, 0
        if chunk is not None:
            found = a.data(chunk)
            if not len(found):
                raise Error("the chunk cannot be empty")
            if length % len(found):
                raise Error("the chunk does not fit the size")
            weight = len(found)
        self._check_mapping(offset, length)
        if chunk is not None:
            span = self.recorder.push(found)
        self.ahead.change()
        self.recorder.record(c.BufferClear(self.handle, size, offset, span), weight)

    def _check_mapping(self, offset: int, length: int) -> None:
        """Raise where OpenGL refuses to map a range."""
        if offset < 0 or length <= 0 or offset + length > self.root.there:
            raise self._unmappable(length)

    def _unmappable(self, length: int) -> Error:
        """A range that OpenGL refuses to map: with an error of its own, which it gets from what is as wrong."""
        if length:
            self.recorder.record(c.BufferBindUniformBlock(self.handle, 0xFFFFFFFF, 0, 1))  # GL_INVALID_VALUE
        else:
            self.recorder.fetch(c.ReadBuffer, 0, self.handle, 0)  # GL_INVALID_OPERATION, and it raises
        return Error("cannot map the buffer")

    def orphan(self, size: Any) -> None:
        """Give the contents up, and take another size when it is positive."""
        size = a.ssize(size)
        self.ahead.change()
        self.recorder.record(c.BufferOrphan(self.handle, size))
        if size > 0:
            self.length = size
        if self.length >= 0:  # OpenGL refuses the others
            self.root.there = self.length

    def bind_to_uniform_block(self, binding: Any, offset: Any, size: Any) -> None:
        """Bind a range to a uniform buffer binding."""
        self._bind(c.BufferBindUniformBlock, "uniform", binding, offset, size)

    def bind_to_storage_buffer(self, binding: Any, offset: Any, size: Any) -> None:
        """Bind a range to a shader storage buffer binding."""
        self.ahead.store()
        self._bind(c.BufferBindStorageBuffer, "storage", binding, offset, size)

    def _bind(self, kind: Any, target: str, binding: Any, offset: Any, size: Any) -> None:
        binding, offset, size = a.uint32(binding), a.ssize(offset), a.ssize(size)
        command = kind(self.handle, binding, offset, size)
        self.recorder.record(command)
        self.context.bindings[target, binding] = command

    def restore(self) -> Iterator[c.Command]:
        """Nothing: a buffer's bindings are the context's, and its contents cannot be had again."""
        return iter(())


def buffer(context: Context, data: Any, reserve: Any, dynamic: Any) -> tuple[Buffer, int, int]:
    """`Context.buffer` of the seam: the object, its size and its glo."""
    reserve, dynamic = a.ssize(reserve), bool(dynamic)
    if data is None and not reserve:
        raise Error("missing data or reserve")
    if data is not None and reserve:
        raise Error("data and reserve are mutually exclusive")
    found = None if data is None else a.data(data)
    length = reserve if found is None else len(found)
    if not length:
        raise Error("the buffer cannot be empty")
    made = Buffer(context, length)
    recorder = context.recorder
    if found is None:
        recorder.make(made, c.MakeBuffer(made.handle, None, reserve, dynamic))
    elif length <= LARGEST_DATA:
        span = recorder.push(found)
        recorder.make(made, c.MakeBuffer(made.handle, span, 0, dynamic), length)
    else:
        recorder.make(made, c.MakeBuffer(made.handle, None, length, dynamic))
        made.push(found, 0)
    return made, length, made.glo
