"""Readbacks on their way: OpenGL copies pixels into a pixel buffer while it goes on with what follows.

Knows: ReadFramebuffer into pixel buffers, the fence behind each, and how many there may be. Does not know: where
answers go, or what else there is to run.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from glremote.protocol.commands import ReadFramebuffer

from .gl import OpenGL, PixelBuffer
from .zeroing import UNTOUCHED, is_untouched

LEAST = 1 << 16
"""Bytes below which a read is not worth a pixel buffer."""
MOST = 80 << 20
"""Bytes of all pixel buffers of a session: two readbacks of a frame of 4K."""


class Readback(NamedTuple):
    """One that was begun."""

    command: ReadFramebuffer
    buffer: PixelBuffer
    fence: int
    began: float
    """See deadlines.py."""

    @property
    def pixels(self) -> memoryview:
        """What was read: zeros where OpenGL refused to."""
        found = self.buffer.memory[: self.command.size]
        return memoryview(bytes(len(found))) if is_untouched(found) else found


class Readbacks:
    """Of one context (moderngl's C object)."""

    def __init__(self, context: Any, gl: OpenGL) -> None:
        self._context = context
        self._gl = gl
        self._begun: deque[Readback] = deque()
        self._free: list[PixelBuffer] = []
        self._size = 0  # of all pixel buffers

    def __len__(self) -> int:
        """How many are on their way."""
        return len(self._begun)

    def begin(self, command: ReadFramebuffer, framebuffer: Any, began: float) -> bool:
        """Begin a read that writes all of its bytes; False while there is no room. Raises what moderngl raises."""
        buffer = self._buffer(command.size)
        if buffer is None:
            return False
        try:
            self._gl.write(buffer, UNTOUCHED, 0)
            self._gl.write(buffer, UNTOUCHED, command.size - len(UNTOUCHED))
            whole = self._context.external_buffer(buffer.name, len(buffer.memory))[0]
            k = command
            framebuffer.read_into(whole, k.viewport, k.components, k.attachment, k.alignment, k.clamp, k.dtype, 0)
            self._begun.append(Readback(command, buffer, self._gl.fence(), began))
        except Exception:
            self._free.append(buffer)
            raise
        return True

    def arrived(self, seconds: float) -> Readback | None:
        """The oldest, if its pixels are there within so many seconds. Then they are the caller's until `done`."""
        if not self._begun or not self._gl.passed(self._begun[0].fence, seconds):
            return None
        first = self._begun.popleft()
        return first

    def done(self, readback: Readback) -> None:
        """Its pixels were taken."""
        self._free.append(readback.buffer)

    def _buffer(self, size: int) -> PixelBuffer | None:
        """One of ours that is free and as large, or a new one."""
        for buffer in self._free:
            if size <= len(buffer.memory) <= 2 * size:
                self._free.remove(buffer)
                return buffer
        while self._free and self._size + size > MOST:
            unused = self._free.pop(0)
            self._size -= len(unused.memory)
            self._gl.delete(unused)
        if self._size + size > MOST:
            return None
        made = self._gl.pixel_buffer(size)
        if made is not None:
            self._size += size
        return made
