"""Stands where mgl.Program stands. Shadow: the values of uniforms and the bindings of blocks, begun by reflection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from _moderngl import (
    UNIFORM_LOOKUP_TABLE,
    Error,
    make_attribute,
    make_storage_block,
    make_uniform,
    make_uniform_block,
    make_varying,
    resolve_includes,
)  # fmt: skip

from glremote.protocol import commands as c
from glremote.protocol import reflection as r
from glremote.protocol.buffers import LARGEST
from glremote.protocol.errors import TooLarge

from . import arguments as a
from . import known
from .buffers import Buffer
from .objects import Recorded, instance

if TYPE_CHECKING:
    from .context import Context

BOOLS = frozenset((0x8B56, 0x8B57, 0x8B58, 0x8B59))
"""GL_BOOL and its vectors: what is not zero reads back as 1 (OpenGL 4.6 core, 7.6.1)."""
LARGEST_SOURCES = LARGEST * 3 // 4
"""Bytes of a program's sources together: they go inside one command."""
LARGEST_NAMES = LARGEST // 8
"""Bytes of the names of its varyings and fragment outputs, in the same command."""
SAMPLERS = frozenset(kind for kind, (_, count, _, fmt) in UNIFORM_LOOKUP_TABLE.items() if fmt == "1i") - {
    0x1404, 0x8B56,
}  # fmt: skip
"""Samplers and images: a unit that the driver does not have is an OpenGL error, and changes nothing."""


PLAIN = frozenset(UNIFORM_LOOKUP_TABLE) - SAMPLERS - BOOLS
"""What reads back as it was written."""


class ProgramNumber(int):
    """A program's glo as its uniforms have it: they keep the program, and find it without a search."""

    program: Program


class Program(Recorded):
    """A linked program. `glo` is how its members name it."""

    name = "mgl.Program"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.glo = context.number("program", self)
        self.num_varyings = 0
        self.geometry: tuple[int | None, int | None, int] = (None, None, 0)
        self.values: dict[int, bytes] = {}  # by location
        self.opaque: set[int] = set()  # the locations of samplers and images
        self.writes: dict[int, c.Do] = {}  # the last of each location
        self.uniform_bindings: dict[int, int] = {}
        self.storage_bindings: dict[int, int] = {}
        self.binds: dict[tuple[str, int], c.Command] = {}

    def run(self, x: Any, y: Any, z: Any) -> None:
        """Run a compute shader over that many groups."""
        self.recorder.record(c.RunCompute(self.handle, a.uint32(x), a.uint32(y), a.uint32(z)))

    def run_indirect(self, buffer: Any, offset: Any = 0) -> None:
        """Run a compute shader over as many groups as a buffer says at an offset."""
        buffer = instance(buffer, Buffer, 1, self.context)
        self.recorder.record(c.RunComputeIndirect(self.handle, buffer.handle, a.ssize(offset)))

    def draw_mesh_tasks(self, first: Any, count: Any) -> None:
        """Draw with a mesh shader, in that many workgroups."""
        self.recorder.record(c.DrawMeshTasks(self.handle, a.uint32(first), a.uint32(count)))

    def draw_mesh_tasks_indirect(self, buffer: Any, offset: Any = 0, drawcount: Any = 1, stride: Any = 0) -> None:
        """Draw what a buffer says."""
        buffer, offset = instance(buffer, Buffer, 1, self.context), a.ssize(offset)
        drawcount, stride = a.ssize(drawcount), a.ssize(stride)
        self.recorder.record(c.DrawMeshTasksIndirect(self.handle, buffer.handle, offset, drawcount, stride))

    def draw_mesh_tasks_indirect_count(
        self, buffer: Any, offset: Any, drawcount_offset: Any, maxdrawcount: Any, stride: Any = 0
    ) -> None:
        """Draw what a buffer says, as often as a buffer says."""
        buffer = instance(buffer, Buffer, 1, self.context)
        fields = a.ssize(offset), a.ssize(drawcount_offset), a.ssize(maxdrawcount), a.ssize(stride)
        self.recorder.record(c.DrawMeshTasksIndirectCount(self.handle, buffer.handle, *fields))

    def set_uniform_handle(self, location: int, value: int) -> None:
        """Record a bindless texture's handle as the value of a uniform; as an integer its lower half reads back."""
        command = c.SetUniformHandle(self.handle, location, value)
        self.recorder.record(command)
        if "GL_ARB_bindless_texture" in self.context.extensions and location in self.opaque and not self.released:
            self.values[location] = value.to_bytes(8, "little")[:4] + self.values[location][4:]
            self.writes[location] = command

    def write_uniform(self, location: int, gl_type: int, array_length: int, element_size: int, data: bytes) -> None:
        """Record a uniform's new value, and remember it unless the driver refuses it."""
        command = c.SetUniform(self.handle, location, gl_type, array_length, element_size, data)
        if self.writes.get(location) == command and self.recorder.skips and not self.released:
            return  # what the driver refused is not among the writes
        self.recorder.record(command, len(data))
        if self.released:
            return
        if gl_type not in PLAIN:
            if gl_type not in UNIFORM_LOOKUP_TABLE or (gl_type in SAMPLERS and not self._units_exist(data)):
                return
            if gl_type in BOOLS:
                words = (data[i : i + 4] for i in range(0, len(data), 4))
                data = b"".join(b"\1\0\0\0" if any(word) else b"\0\0\0\0" for word in words)
        self.values[location] = data
        self.writes[location] = command

    def _units_exist(self, data: bytes) -> bool:
        # of images too: moderngl's info has no GL_MAX_IMAGE_UNITS, which is the same number in Mesa
        most = self.context.info_values["GL_MAX_COMBINED_TEXTURE_IMAGE_UNITS"]
        units = (int.from_bytes(data[i : i + 4], "little", signed=True) for i in range(0, len(data), 4))
        return all(0 <= unit < most for unit in units)

    def bind_uniform_block(self, index: int, binding: int) -> None:
        """Record a uniform block's new binding."""
        self._bind("uniform", c.SetUniformBlockBinding, self.uniform_bindings, index, binding)

    def bind_storage_block(self, index: int, binding: int) -> None:
        """Record a storage block's new binding."""
        self._bind("storage", c.SetStorageBlockBinding, self.storage_bindings, index, binding)

    def _bind(self, target: str, kind: Any, bindings: dict[int, int], index: int, binding: int) -> None:
        command = kind(self.handle, index, binding)
        self.recorder.record(command)
        limit = "GL_MAX_UNIFORM_BUFFER_BINDINGS" if target == "uniform" else "GL_MAX_SHADER_STORAGE_BUFFER_BINDINGS"
        most = self.context.info_values.get(limit)
        if index in bindings and (most is None or binding < most):
            bindings[index] = binding
            self.binds[target, index] = command

    def restore(self) -> Iterator[c.Command]:
        """See Recorded.restore."""
        yield from self.writes.values()
        yield from self.binds.values()


def program(context: Context, *arguments: Any) -> tuple[Program, Any, tuple[()], Any, int]:
    """`Context.program` of the seam: the object, its members, no subroutines, the geometry's facts, and its glo.

    Waits for the driver, which compiles, links and reflects; raises its log as moderngl does. What the same driver has
    told of the same program before is known, also from an earlier run: nothing waits then, and the host checks it.
    """
    *shaders, varyings, fragment_outputs, interleaved = arguments
    try:
        names = tuple(varyings)
    except TypeError:
        raise Error("invalid varyings") from None
    sources: Any = tuple(None if shader is None else _source(context, shader) for shader in shaders)
    if not all(isinstance(name, str) for name in names):
        raise Error("invalid varyings")
    outputs: dict[str, int] = {}
    if isinstance(fragment_outputs, dict):  # what is no dictionary is overlooked
        for name, location in fragment_outputs.items():
            if not isinstance(name, str):
                raise TypeError("bad argument type for built-in operation")
            outputs[str(name)] = a.long(location)
    if sum(len(name.encode()) for name in (*names, *outputs)) > LARGEST_NAMES:  # what is no UTF-8 raises here
        raise TooLarge(f"the varyings and fragment outputs have names of more than {LARGEST_NAMES} bytes together")
    weight = sum(len(source or b"") for source in sources)
    if weight > LARGEST_SOURCES:
        raise TooLarge(f"the sources of the program have {weight} bytes; a host takes at most {LARGEST_SOURCES}")
    made = Program(context)
    context.recorder.make(made, c.MakeProgram(made.handle, sources, names, outputs, bool(interleaved)), weight)
    reflection = _reflection(context, made, (sources, names, tuple(outputs.items()), bool(interleaved)))
    members = _members(context, made, reflection)
    return made, members, (), reflection.geometry, made.glo


def _reflection(context: Context, made: Program, program: Any) -> r.Reflection:
    """The program's reflection, as known or as the host tells it; raises what compiling or linking raised."""
    key = known.key(context.device, program)
    found = known.find(key)
    if found is not None:
        context.recorder.record(c.CheckReflection(made.handle, found.hash))
    else:
        found = known.keep(key, bytes(context.recorder.ask(c.ReflectProgram, made.handle, answer=r.Encoded)))
    return found.reflection


def _source(context: Context, shader: Any) -> bytes:
    if hasattr(shader, "to_shader_source"):
        shader = shader.to_shader_source()
    if isinstance(shader, str):
        return str(resolve_includes(context, shader)).encode()
    if isinstance(shader, bytes):
        return bytes(memoryview(shader))
    raise Error("wrong shader source type")


def _members(context: Context, made: Program, reflection: r.Reflection) -> tuple[dict[str, Any], dict[str, int], Any]:
    """moderngl's three dictionaries: members by name, locations of attributes by name, attributes by location."""
    members: dict[str, Any] = {}
    made.geometry = reflection.geometry
    attributes = [
        make_attribute(found.name, found.gl_type, made.glo, found.location, found.array_length)
        for found in reflection.attributes
    ]
    locations = {attribute.name: attribute.location for attribute in attributes}
    for member in reflection.members:
        if isinstance(member, r.AttributeMember):
            attribute = attributes[member.index]
            members[attribute.name] = attribute
        elif isinstance(member, r.Varying):
            members[member.name] = make_varying(member.name, member.number, member.array_length, member.dimension)
            made.num_varyings += 1
        elif isinstance(member, r.Uniform):
            made.values[member.location] = member.initial
            if member.gl_type in SAMPLERS:
                made.opaque.add(member.location)
            number = ProgramNumber(made.glo)
            number.program = made
            members[member.name] = make_uniform(
                member.name, member.gl_type, number, member.location, member.array_length, context
            )
        elif isinstance(member, r.UniformBlock):
            made.uniform_bindings[member.index] = member.binding
            members[member.name] = make_uniform_block(member.name, made.glo, member.index, member.size, context)
        else:
            made.storage_bindings[member.index] = member.binding
            members[member.name] = make_storage_block(member.name, made.glo, member.index, context)
    for thing in members.values():
        context.program_of[thing] = made
    return members, locations, {attribute.location: attribute for attribute in attributes}
