"""Commands whose numbers are held against bounds.py before OpenGL gets them, where more than one line is needed for it.

Knows: what such a command is to moderngl. Does not know: what commands come before or behind it.
"""

from __future__ import annotations

from glremote.protocol import commands as c

from . import bounds
from .objects import Objects

DRAW, GROUPS, COUNT = 20, 12, 4
"""Bytes of an indirect command for vertices and for work groups, and of a number of commands."""
ALL = 1 << 32
"""More commands than a buffer holds: as many as are in it."""


class Checked(Objects):
    """Part of an Interpreter."""

    def set_uniform(self, k: c.SetUniform) -> None:
        if bounds.UNIFORM_SIZES.get(k.gl_type) != k.element_size or k.array_length * k.element_size != len(k.data):
            bounds.uniform(k.gl_type, k.array_length, k.element_size, len(k.data))
        self.context._write_uniform(
            self.names[k.program], k.location, k.gl_type, k.array_length, k.element_size, k.data
        )

    def write_chunks(self, k: c.BufferWriteChunks) -> None:
        bounds.chunks(k.data.size // k.count if k.count > 0 else 0, k.start, k.step, k.count)
        self[k.buffer].write_chunks(self.data(k.data), k.start, k.step, k.count)

    def read_framebuffer_into(self, k: c.FramebufferReadInto) -> None:
        bounds.area(k.viewport)
        bounds.most(k.components, bounds.MOST_COMPONENTS, "components")
        bounds.offsets(k.write_offset)
        self[k.framebuffer].read_into(
            self[k.buffer], k.viewport, k.components, k.attachment, k.alignment, k.clamp, k.dtype, k.write_offset
        )

    def run_indirect(self, k: c.RunComputeIndirect) -> None:
        bounds.indirect(k.offset, 1, GROUPS)
        self[k.program].run_indirect(self[k.buffer], k.offset)

    def render_indirect(self, k: c.RenderIndirect) -> None:
        bounds.indirect(DRAW * k.first, k.count if k.count >= 0 else ALL, DRAW)
        self[k.vertex_array].render_indirect(self[k.buffer], k.mode, k.count, k.first)

    def draw_mesh_tasks_indirect(self, k: c.DrawMeshTasksIndirect) -> None:
        bounds.indirect(k.offset, k.drawcount, k.stride or GROUPS)
        self[k.program].draw_mesh_tasks_indirect(self[k.buffer], k.offset, k.drawcount, k.stride)

    def draw_mesh_tasks_indirect_count(self, k: c.DrawMeshTasksIndirectCount) -> None:
        bounds.indirect(k.offset, k.maxdrawcount, k.stride or GROUPS)
        bounds.indirect(k.drawcount_offset, 1, COUNT)
        self[k.program].draw_mesh_tasks_indirect_count(
            self[k.buffer], k.offset, k.drawcount_offset, k.maxdrawcount, k.stride
        )

    def set_index_buffer(self, k: c.VertexArrayIndexBuffer) -> None:
        if k.vertex_array not in self.indexed:
            raise bounds.OutOfBounds("a vertex array that was made without indices would read them from no buffer")
        self[k.vertex_array].index_buffer = self[k.buffer]

    def bind_attribute(self, k: c.VertexArrayBind) -> None:
        bounds.vertex_format(k.format)
        bounds.offsets(k.offset)
        self[k.vertex_array].bind(
            k.location, k.cls, self[k.buffer], k.format, k.offset, k.stride, k.divisor, k.normalize
        )
