"""Stands where mgl.VertexArray stands. Shadow: the numbers of vertices and instances that are rendered by default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moderngl import Error

from glremote.protocol import commands as c

from . import arguments as a
from .buffers import Buffer
from .formats import parse
from .objects import Recorded, check_made, instance, type_name
from .programs import Program

if TYPE_CHECKING:
    from .context import Context

POINTS, LINES, LINE_LOOP, LINE_STRIP, TRIANGLES, TRIANGLE_STRIP, TRIANGLE_FAN = range(7)
LINES_ADJACENCY, LINE_STRIP_ADJACENCY, TRIANGLES_ADJACENCY, TRIANGLE_STRIP_ADJACENCY = range(10, 14)

EXPECTED = {
    POINTS: ((POINTS,), "POINTS as input. Change the transform mode."),
    LINES: (
        (LINES, LINE_STRIP, LINE_LOOP, LINES_ADJACENCY),
        "LINES, LINE_STRIP, GL_LINE_LOOP or GL_LINES_ADJACENCY as input. Change the rendering mode.",
    ),
    LINES_ADJACENCY: (
        (LINES_ADJACENCY, LINE_STRIP_ADJACENCY),
        "LINES_ADJACENCY or LINE_STRIP_ADJACENCY as input. Change the rendering mode.",
    ),
    TRIANGLES: (
        (TRIANGLES, TRIANGLE_STRIP, TRIANGLE_FAN),
        "GL_TRIANGLES, GL_TRIANGLE_STRIP or GL_TRIANGLE_FAN as input. Change the rendering mode.",
    ),
    TRIANGLES_ADJACENCY: (
        (TRIANGLES_ADJACENCY, TRIANGLE_STRIP_ADJACENCY),
        "GL_TRIANGLES_ADJACENCY or GL_TRIANGLE_STRIP_ADJACENCY as input. Change the rendering mode.",
    ),
}
"""What a geometry shader's input admits as the mode of a transform, and how moderngl says so."""


class VertexArray(Recorded):
    """A program, the buffers that feed it, and perhaps an index buffer."""

    name = "mgl.VertexArray"

    def __init__(self, context: Context, program: Program) -> None:
        super().__init__(context)
        self.glo = context.number("vertex_array", self)
        self.program = program
        self.index: Buffer | None = None
        self._vertices = -1
        self._instances = 1
        self._set: dict[str, c.Command] = {}

    def render(self, mode: Any, vertices: Any, first: Any, instances: Any) -> None:
        """Draw; negative numbers of vertices or instances mean the defaults."""
        mode, vertices, first, instances = a.int32(mode), a.int32(vertices), a.int32(first), a.int32(instances)
        if vertices < 0 and self._vertices < 0:
            raise Error("cannot detect the number of vertices")
        self.recorder.record(c.Render(self.handle, mode, vertices, first, instances))

    def render_indirect(self, buffer: Any, mode: Any, count: Any, first: Any) -> None:
        """Draw what a buffer says, in records of 20 bytes."""
        buffer = instance(buffer, Buffer, 1, self.context)
        mode, count, first = a.int32(mode), a.int32(count), a.int32(first)
        self.recorder.record(c.RenderIndirect(self.handle, buffer.handle, mode, count, first))

    def transform(
        self, outputs: Any, mode: Any, vertices: Any, first: Any, instances: Any, buffer_offset: Any
    ) -> None:
        """Run the vertex and geometry shaders, and store their varyings in buffers."""
        if type(outputs) is not list:
            raise TypeError(f"argument 1 must be list, not {type_name(outputs)}")
        mode, vertices, first = a.int32(mode), a.int32(vertices), a.int32(first)
        instances, buffer_offset = a.int32(instances), a.int32(buffer_offset)
        if not self.program.num_varyings:
            raise Error("the program has no varyings")
        for index, output in enumerate(outputs):
            check_made(output, self.context)
            if not isinstance(output, Buffer):
                raise Error(f"invalid output buffer at index {index} (released or not a buffer)")
        if vertices < 0 and self._vertices < 0:
            raise Error("cannot detect the number of vertices")
        self._check_mode(mode)
        for output in outputs:
            output.ahead.change()
        handles = tuple(output.handle for output in outputs)
        self.recorder.record(c.Transform(self.handle, handles, mode, vertices, first, instances, buffer_offset))

    def _check_mode(self, mode: int) -> None:
        input_, output, vertices = self.program.geometry
        if vertices and output is not None and output > -1:
            if input_ not in EXPECTED:
                raise Error(f"Unexpected geometry shader input mode: {input_}")
            modes, expected = EXPECTED[input_]
            if mode not in modes:
                raise Error(f"Geometry shader expects {expected}")
        elif not (POINTS <= mode <= TRIANGLE_FAN or LINES_ADJACENCY <= mode <= TRIANGLE_STRIP_ADJACENCY):
            raise Error(f"Primitive mode not supported: {mode}")

    def bind(
        self,
        location: Any,
        kind: Any,
        buffer: Any,
        format: Any,
        offset: Any,
        stride: Any,
        divisor: Any,
        normalize: Any,
    ) -> None:
        """Feed one attribute from a buffer; `kind` begins with f, i or d."""
        location, kind = a.int32(location), a.text(kind, 2)
        buffer, format, offset = instance(buffer, Buffer, 3, self.context), a.text(format, 4), a.ssize(offset)
        stride, divisor, normalize = a.int32(stride), a.int32(divisor), bool(normalize)
        if kind[:1] == "f" and normalize:
            raise Error("invalid normalize")
        found = parse(format)
        if found is None or found.divisor or len(found.nodes) != 1 or format.lstrip().lstrip("0123456789")[:1] == "x":
            raise Error("invalid format")
        if kind[:1] not in ("f", "i", "d"):
            raise Error("invalid type")
        self._record(
            f"bind {location}",
            c.VertexArrayBind(self.handle, location, kind, buffer.handle, format, offset, stride, divisor, normalize),
        )

    def _record(self, what: str, command: c.Command) -> None:
        self.recorder.record(command)
        self._set[what] = command

    def _set_index_buffer(self, value: Any) -> None:
        check_made(value, self.context)
        if type(value) is not Buffer:
            raise Error(f"the index_buffer must be a Buffer not {type_name(value)}")
        self._record("index_buffer", c.VertexArrayIndexBuffer(self.handle, value.handle))
        self.index = value
        self._vertices = a.int32(value.length // 4)

    index_buffer = property(None, _set_index_buffer, doc="The index buffer; can be set, and not read, as at the seam.")

    @property
    def vertices(self) -> int:
        """How many vertices are rendered by default; -1 where that cannot be told."""
        return self._vertices

    @vertices.setter
    def vertices(self, value: Any) -> None:
        found = _unsigned(value, "vertices")
        self._record("vertices", c.VertexArrayVertices(self.handle, found & 0xFFFFFFFF))
        self._vertices = a.int32(found)

    @property
    def instances(self) -> int:
        """How many instances are rendered by default."""
        return self._instances

    @instances.setter
    def instances(self, value: Any) -> None:
        found = _unsigned(value, "instances")
        self._record("instances", c.VertexArrayInstances(self.handle, found & 0xFFFFFFFF))
        self._instances = a.int32(found)

    @property
    def subroutines(self) -> Any:
        """moderngl's Python has them, and its C code lost them."""
        raise AttributeError("'mgl.VertexArray' object has no attribute 'subroutines'")

    @subroutines.setter
    def subroutines(self, value: Any) -> None:
        raise AttributeError("'mgl.VertexArray' object has no attribute 'subroutines'")

    def restore(self) -> Iterator[c.Command]:
        """See Recorded.restore."""
        yield from self._set.values()


def _unsigned(value: Any, what: str) -> int:
    """PyLong_AsUnsignedLong."""
    if not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise Error(f"invalid value for {what}")
    return value


def vertex_array(
    context: Context, program: Any, content: Any, index_buffer: Any, index_element_size: Any
) -> tuple[VertexArray, int]:
    """`Context.vertex_array` of the seam: the object and its glo. `content`: (buffer, format, attribute...) tuples."""
    program = instance(program, Program, 1)
    index_element_size = a.int32(index_element_size)
    check_made(index_buffer)
    if program.context is not context:
        raise Error("the program belongs to a different context")
    if index_buffer is not None and getattr(index_buffer, "context", None) is not context:
        raise Error("the index_buffer belongs to a different context")
    parsed = [_check_content(context, i, item) for i, item in enumerate(content)]
    if index_buffer is not None and type(index_buffer) is not Buffer:
        raise Error(f"the index_buffer must be a Buffer not {type_name(index_buffer)}")
    if index_element_size not in (1, 2, 4):
        raise Error(f"index_element_size must be 1, 2, or 4, not {index_element_size}")
    made = VertexArray(context, program)
    made._vertices = _count(content, parsed, index_buffer, index_element_size)
    items = tuple(
        c.VertexContent(buffer.handle, format.split("\0")[0], tuple(map(_attribute, attributes)))
        for buffer, format, *attributes in content
    )
    made.index = index_buffer
    index = None if index_buffer is None else index_buffer.handle
    context.recorder.make(made, c.MakeVertexArray(made.handle, program.handle, items, index, index_element_size))
    return made, made.glo


def _check_content(context: Context, i: int, item: Any) -> Any:
    buffer, format, *attributes = item
    check_made(buffer)
    if type(buffer) is not Buffer:
        raise Error(f"content[{i}][0] must be a Buffer not {type_name(buffer)}")
    if type(format) is not str:
        raise Error(f"content[{i}][1] must be a string not {type_name(format)}")
    if buffer.context is not context:
        raise Error(f"content[{i}][0] belongs to a different context")
    parsed = parse(format)
    if parsed is None:
        raise Error(f"content[{i}][1] is an invalid format")
    if not attributes:
        raise Error(f"content[{i}][2] must not be empty")
    if len(attributes) != len(parsed.nodes):
        raise Error(f"content[{i}][1] and content[{i}][2] size mismatch {len(parsed.nodes)} != {len(attributes)}")
    return parsed


def _count(content: Any, parsed: Any, index_buffer: Any, index_element_size: int) -> int:
    """The number of vertices as moderngl counts it: the fewest of any buffer, begun by the first one only."""
    if index_buffer is not None:
        return a.int32(index_buffer.length // index_element_size)
    count = -1
    for i, (item, format) in enumerate(zip(content, parsed, strict=True)):
        here = a.int32(item[0].length // format.size)
        if not format.divisor and (i == 0 or count > here):
            count = here
    return count


def _attribute(attribute: Any) -> c.VertexAttribute | None:
    if attribute is None:
        return None
    return c.VertexAttribute(
        a.int32(attribute.location), a.int32(attribute.rows_length), a.int32(attribute.scalar_type)
    )
