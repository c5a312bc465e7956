"""The vocabulary: every command, one class each, and the verbs that say how a command behaves.

Knows: names, numbers, fields and their types. Does not know: who records a command, who runs it, or how it travels.

A command is a small typed record of one call at moderngl's seam (moderngl 5.13), and its fields are that call's
arguments. Its verb is its base class. Encoding, decoding and the check of every type are msgspec's; what a field refers
to (a buffer, a texture, a span of the stack) stands on the field's type, and `checks` reads it from there. Numbers are
never used twice: a command that goes leaves a gap, and one whose fields change gets a new number.

Bulk data is not inside a command: a `Span` names its place in the upward stack. Values (a uniform, a GLSL source) are.
"""

# mypy wants `frozen=True` repeated on every subclass; msgspec inherits it.
# mypy: disable-error-code="misc"

from __future__ import annotations

import hashlib
import pkgutil
from functools import cache
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

import msgspec

from .stacks import Offset, Span

# --- field types: what a number means stands on its type

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]
UInt32 = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Size = int
"""A `Py_ssize_t` of the seam: bytes; negative numbers often mean "the rest"."""
Handle = Annotated[int, msgspec.Meta(ge=1, lt=1 << 53)]
Ticket = Annotated[int, msgspec.Meta(ge=1, lt=1 << 53)]
Enum = Int32
"""An OpenGL enumerant, passed on unread."""
Extent2 = tuple[UInt32, UInt32]
Extent3 = tuple[UInt32, UInt32, UInt32]
Rect = tuple[Int32, Int32, Int32, Int32]
"""x, y, width, height in pixels from the lower left corner."""
Box = tuple[Int32, Int32, Int32, Int32, Int32, Int32]
"""x, y, z, width, height, depth in texels."""
Mask = tuple[bool, bool, bool, bool]
Source = bytes | None


def _of(*kinds: str) -> msgspec.Meta:
    """On a handle: the kinds of object that it may name."""
    return msgspec.Meta(ge=1, lt=1 << 53, extra={"kinds": frozenset(kinds)})


_TEXTURES = ("texture", "texture3d", "texture_array", "texture_cube")
BufferHandle = Annotated[int, _of("buffer")]
TextureHandle = Annotated[int, _of("texture")]
Texture3DHandle = Annotated[int, _of("texture3d")]
TextureArrayHandle = Annotated[int, _of("texture_array")]
TextureCubeHandle = Annotated[int, _of("texture_cube")]
VolumeHandle = Annotated[int, _of("texture3d", "texture_array")]
AnyTextureHandle = Annotated[int, _of(*_TEXTURES)]
AttachmentHandle = Annotated[int, _of("texture", "texture_array", "renderbuffer")]
CopyHandle = Annotated[int, _of("framebuffer", "texture")]
RenderbufferHandle = Annotated[int, _of("renderbuffer")]
FramebufferHandle = Annotated[int, _of("framebuffer")]
ProgramHandle = Annotated[int, _of("program")]
VertexArrayHandle = Annotated[int, _of("vertex_array")]
QueryHandle = Annotated[int, _of("query")]
SamplerHandle = Annotated[int, _of("sampler")]
ScopeHandle = Annotated[int, _of("scope")]
CommandsHandle = Annotated[int, _of("commands")]
KINDS = (
    *_TEXTURES, "buffer", "renderbuffer", "framebuffer", "program", "vertex_array", "query", "sampler", "scope",
    "commands",
)  # fmt: skip
"""The 13 kinds of object that a handle may name."""
AnyHandle = Annotated[int, _of(*KINDS)]

DEFAULT_FRAMEBUFFER = 1
"""The handle of the framebuffer that a context begins with; no Make makes it."""


class VertexAttribute(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Where one attribute of a vertex array goes: the three properties that moderngl asks of an attribute."""

    location: Int32
    rows_length: Int32
    scalar_type: Enum


class VertexContent(msgspec.Struct, array_like=True, frozen=True):
    """One buffer of a vertex array: its format, and for each node of the format an attribute, or None to skip it."""

    buffer: BufferHandle
    format: str
    attributes: tuple[VertexAttribute | None, ...]


# --- verbs


class Command(msgspec.Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """What all commands are: frozen, dumb, and printed on one line."""

    makes: ClassVar[str] = ""
    skips: ClassVar[bool] = False
    """Whether it is not sent where it sets what is set: it cannot fail then, and nothing else writes that state."""


class Make(Command):
    """Makes an object under the handle the client chose. No answer."""

    handle: Handle


class Do(Command):
    """Changes something. No answer."""


class Free(Command):
    """Gives something back. No answer, and never dropped, not even after a fault."""

    object: AnyHandle


class Ask(Command):
    """Wants a small value: answered, under its ticket, with the value or with the exception that moderngl raised."""

    ticket: Ticket


class Fetch(Command):
    """Wants bytes: answered, under its ticket, with exactly `size` bytes or with the exception that moderngl raised."""

    ticket: Ticket
    size: Offset


# --- context


class EnableOnly(Do, tag=1):
    """`Context.enable_only`"""

    flags: Int32


class Enable(Do, tag=2):
    """`Context.enable`"""

    flags: Int32


class Disable(Do, tag=3):
    """`Context.disable`"""

    flags: Int32


class EnableDirect(Do, tag=4):
    """`Context.enable_direct`"""

    enum: Int32


class DisableDirect(Do, tag=5):
    """`Context.disable_direct`"""

    enum: Int32


class LineWidth(Do, tag=6):
    """`Context.line_width = value`"""

    value: float


class PointSize(Do, tag=7):
    """`Context.point_size = value`"""

    value: float


class DepthFunc(Do, tag=8):
    """`Context.depth_func = value`"""

    value: str


class BlendFunc(Do, tag=9):
    """`Context.blend_func = value`: source and destination of colour, then of alpha"""

    value: tuple[Enum, Enum, Enum, Enum]


class BlendEquation(Do, tag=10):
    """`Context.blend_equation = value`: of colour and of alpha"""

    value: tuple[Enum, Enum]


class DepthClampRange(Do, tag=11):
    """`Context.depth_clamp_range = value`"""

    value: tuple[float, float] | None


class Multisample(Do, tag=12):
    """`Context.multisample = value`"""

    value: bool


class ProvokingVertex(Do, tag=13):
    """`Context.provoking_vertex = value`"""

    value: Enum


class PolygonOffset(Do, tag=14):
    """`Context.polygon_offset = (factor, units)`"""

    value: tuple[float, float]


class DefaultTextureUnit(Do, tag=15):
    """`Context.default_texture_unit = value`"""

    value: Int32


class Wireframe(Do, tag=16):
    """`Context.wireframe = value`"""

    value: bool


class FrontFace(Do, tag=17):
    """`Context.front_face = value`"""

    value: str


class CullFace(Do, tag=18):
    """`Context.cull_face = value`"""

    value: str


class PatchVertices(Do, tag=19):
    """`Context.patch_vertices = value`"""

    value: Int32


class MemoryBarrier(Do, tag=20):
    """`Context.memory_barrier`"""

    barriers: UInt32
    by_region: bool


class ClearSamplers(Do, tag=21):
    """`Context.clear_samplers`"""

    start: Int32
    end: Int32


class ClearErrors(Do, tag=22):
    """`Context.clear_errors`"""


class CopyBuffer(Do, tag=23):
    """`Context.copy_buffer`"""

    dst: BufferHandle
    src: BufferHandle
    size: Size
    read_offset: Size
    write_offset: Size


class CopyFramebuffer(Do, tag=24):
    """`Context.copy_framebuffer`"""

    dst: CopyHandle
    src: FramebufferHandle


class GetError(Ask, tag=25):
    """`Context.error`: the name of one pending OpenGL error"""


class Finish(Ask, tag=26):
    """`Context.finish`: answered with None when all work is done"""


class SetLabel(Ask, tag=27):
    """`label = value` of any object, None where this session has none: also answered with an error that was pending"""

    identifier: UInt32
    object: AnyHandle | None
    label: bytes | None


class GetLabel(Ask, tag=28):
    """`label` of any object, None where this session has none: also answered with an error that was pending"""

    identifier: UInt32
    object: AnyHandle | None


class PushDebugScope(Ask, tag=29):
    """`Context.debug_scope`, entering: also answered with an error that was pending"""

    source: UInt32
    id: UInt32
    message: bytes


class PopDebugScope(Ask, tag=30):
    """`Context.debug_scope`, leaving: also answered with an error that was pending"""


# --- buffers


class MakeBuffer(Make, tag=40):
    """`Context.buffer`: with data, or with `reserve` bytes of zeros"""

    makes = "buffer"
    data: Span | None
    reserve: Size
    dynamic: bool


class BufferWrite(Do, tag=41):
    """`Buffer.write`"""

    buffer: BufferHandle
    data: Span
    offset: Size


class BufferWriteChunks(Do, tag=42):
    """`Buffer.write_chunks`"""

    buffer: BufferHandle
    data: Span
    start: Size
    step: Size
    count: Size


class BufferClear(Do, tag=43):
    """`Buffer.clear`"""

    buffer: BufferHandle
    length: Size
    offset: Size
    chunk: Span | None


class BufferOrphan(Do, tag=44):
    """`Buffer.orphan`"""

    buffer: BufferHandle
    length: Size


class BufferBindUniformBlock(Do, tag=45):
    """`Buffer.bind_to_uniform_block`"""

    buffer: BufferHandle
    binding: UInt32
    offset: Size
    length: Size


class BufferBindStorageBuffer(Do, tag=46):
    """`Buffer.bind_to_storage_buffer`"""

    buffer: BufferHandle
    binding: UInt32
    offset: Size
    length: Size


class ReadBuffer(Fetch, tag=47):
    """`Buffer.read`"""

    buffer: BufferHandle
    offset: Size


class MakeExternalBuffer(Make, tag=49):
    """`Context.external_buffer`: another object for the OpenGL buffer of `buffer`"""

    makes = "buffer"
    buffer: BufferHandle
    size: Int32


class ReadBufferChunks(Fetch, tag=48):
    """`Buffer.read_chunks`: `size` is `chunk_size * count`"""

    buffer: BufferHandle
    chunk_size: Size
    start: Size
    step: Size
    count: Size


# --- textures and renderbuffers


class MakeTexture(Make, tag=60):
    """`Context.texture`"""

    makes = "texture"
    extent: Extent2
    components: UInt32
    data: Span | None
    samples: UInt32
    alignment: UInt32
    dtype: str
    internal_format: UInt32


class MakeDepthTexture(Make, tag=61):
    """`Context.depth_texture`"""

    makes = "texture"
    extent: Extent2
    data: Span | None
    samples: UInt32
    alignment: UInt32


class MakeTexture3D(Make, tag=62):
    """`Context.texture3d`"""

    makes = "texture3d"
    extent: Extent3
    components: UInt32
    data: Span | None
    alignment: UInt32
    dtype: str


class MakeTextureArray(Make, tag=63):
    """`Context.texture_array`"""

    makes = "texture_array"
    extent: Extent3
    components: UInt32
    data: Span | None
    alignment: UInt32
    dtype: str


class MakeTextureCube(Make, tag=64):
    """`Context.texture_cube`"""

    makes = "texture_cube"
    extent: Extent2
    components: UInt32
    data: Span | None
    alignment: UInt32
    dtype: str
    internal_format: UInt32


class MakeDepthTextureCube(Make, tag=65):
    """`Context.depth_texture_cube`"""

    makes = "texture_cube"
    extent: Extent2
    data: Span | None
    alignment: UInt32


class MakeRenderbuffer(Make, tag=66):
    """`Context.renderbuffer`, or `Context.texture(renderbuffer=True)`"""

    makes = "renderbuffer"
    extent: Extent2
    components: UInt32
    samples: UInt32
    dtype: str


class MakeDepthRenderbuffer(Make, tag=67):
    """`Context.depth_renderbuffer`, or `Context.depth_texture(renderbuffer=True)`"""

    makes = "renderbuffer"
    extent: Extent2
    samples: UInt32


class TextureWrite(Do, tag=68):
    """`Texture.write`"""

    texture: TextureHandle
    data: Span
    viewport: Rect | None
    level: UInt32
    alignment: UInt32


class VolumeWrite(Do, tag=69):
    """`Texture3D.write` and `TextureArray.write`"""

    texture: VolumeHandle
    data: Span
    viewport: Box | None
    alignment: UInt32


class TextureCubeWrite(Do, tag=70):
    """`TextureCube.write`"""

    texture: TextureCubeHandle
    face: Int32
    data: Span
    viewport: Rect | None
    alignment: UInt32


class TextureWriteFrom(Do, tag=71):
    """`Texture.write` from a buffer"""

    texture: TextureHandle
    buffer: BufferHandle
    viewport: Rect | None
    level: UInt32
    alignment: UInt32


class VolumeWriteFrom(Do, tag=72):
    """`Texture3D.write` and `TextureArray.write` from a buffer"""

    texture: VolumeHandle
    buffer: BufferHandle
    viewport: Box | None
    alignment: UInt32


class TextureCubeWriteFrom(Do, tag=73):
    """`TextureCube.write` from a buffer"""

    texture: TextureCubeHandle
    face: Int32
    buffer: BufferHandle
    viewport: Rect | None
    alignment: UInt32


class ReadTexture(Fetch, tag=74):
    """`Texture.read`"""

    texture: TextureHandle
    level: UInt32
    alignment: UInt32


class ReadVolume(Fetch, tag=75):
    """`Texture3D.read` and `TextureArray.read`"""

    texture: VolumeHandle
    alignment: UInt32


class ReadTextureCube(Fetch, tag=76):
    """`TextureCube.read`"""

    texture: TextureCubeHandle
    face: Int32
    alignment: UInt32


class TextureReadInto(Do, tag=77):
    """`Texture.read_into` a buffer"""

    texture: TextureHandle
    buffer: BufferHandle
    level: UInt32
    alignment: UInt32
    write_offset: Size


class VolumeReadInto(Do, tag=78):
    """`Texture3D.read_into` and `TextureArray.read_into` a buffer"""

    texture: VolumeHandle
    buffer: BufferHandle
    alignment: UInt32
    write_offset: Size


class TextureCubeReadInto(Do, tag=79):
    """`TextureCube.read_into` a buffer"""

    texture: TextureCubeHandle
    buffer: BufferHandle
    face: Int32
    alignment: UInt32
    write_offset: Size


class TextureGetHandle(Ask, tag=90):
    """`Texture.get_handle`, of every kind of texture"""

    texture: AnyTextureHandle
    resident: bool


class MakeExternalTexture(Make, tag=91):
    """`Context.external_texture`: another object for the OpenGL texture of `texture`"""

    makes = "texture"
    texture: AnyTextureHandle
    extent: Extent2
    components: UInt32
    samples: UInt32
    dtype: str


class TextureUse(Do, tag=80):
    """`Texture.use`, of every kind of texture"""

    texture: AnyTextureHandle
    location: UInt32


class TextureBindToImage(Do, tag=81):
    """`Texture.bind_to_image`, of every kind of texture"""

    texture: AnyTextureHandle
    unit: UInt32
    read: bool
    write: bool
    level: UInt32
    format: UInt32


class TextureBuildMipmaps(Do, tag=82):
    """`Texture.build_mipmaps`, of every kind of texture"""

    texture: AnyTextureHandle
    base: UInt32
    max_level: UInt32


class TextureRepeatX(Do, tag=83):
    """`Texture.repeat_x = value`, of every kind of texture that has it"""

    texture: AnyTextureHandle
    value: bool


class TextureRepeatY(Do, tag=84):
    """`Texture.repeat_y = value`, of every kind of texture that has it"""

    texture: AnyTextureHandle
    value: bool


class TextureRepeatZ(Do, tag=85):
    """`Texture3D.repeat_z = value`"""

    texture: Texture3DHandle
    value: bool


class TextureFilter(Do, tag=86):
    """`Texture.filter = (min, mag)`, of every kind of texture"""

    texture: AnyTextureHandle
    value: tuple[Enum, Enum]


class TextureSwizzle(Do, tag=87):
    """`Texture.swizzle = value`, of every kind of texture"""

    texture: AnyTextureHandle
    value: str


class TextureAnisotropy(Do, tag=88):
    """`Texture.anisotropy = value`, of every kind of texture that has it"""

    texture: AnyTextureHandle
    value: float


class TextureCompareFunc(Do, tag=89):
    """`Texture.compare_func = value`, of depth textures"""

    texture: AnyTextureHandle
    value: str


# --- framebuffers


class MakeFramebuffer(Make, tag=100):
    """`Context.framebuffer`; one that is not complete is told by CheckFramebuffer"""

    makes = "framebuffer"
    color_attachments: tuple[AttachmentHandle, ...]
    depth_attachment: AttachmentHandle | None


class MakeEmptyFramebuffer(Make, tag=101):
    """`Context.empty_framebuffer`; one that is not complete is told by CheckFramebuffer"""

    makes = "framebuffer"
    extent: Extent2
    layers: UInt32
    samples: UInt32


class CheckFramebuffer(Ask, tag=102):
    """Answered with None, or with what making this framebuffer raised"""

    framebuffer: FramebufferHandle


class MakeDetectedFramebuffer(Make, tag=112):
    """`Context.detect_framebuffer`: another object for the OpenGL framebuffer of `framebuffer`, with fresh masks"""

    makes = "framebuffer"
    framebuffer: FramebufferHandle


class DetectedFramebuffer(Ask, tag=113):
    """Width, height and number of colour attachments, as `Context.detect_framebuffer` found them"""

    framebuffer: FramebufferHandle


class FramebufferClear(Do, tag=103):
    """`Framebuffer.clear`"""

    framebuffer: FramebufferHandle
    red: float
    green: float
    blue: float
    alpha: float
    depth: float
    viewport: Rect | None


class FramebufferUse(Do, tag=104):
    """`Framebuffer.use`"""

    framebuffer: FramebufferHandle


class FramebufferViewport(Do, tag=105):
    """`Framebuffer.viewport = value`"""

    framebuffer: FramebufferHandle
    value: Rect


class FramebufferScissor(Do, tag=106):
    """`Framebuffer.scissor = value`"""

    framebuffer: FramebufferHandle
    value: Rect | None


class FramebufferColorMask(Do, tag=107):
    """`Framebuffer.color_mask = value`: one mask, or one for each attachment"""

    framebuffer: FramebufferHandle
    value: tuple[Mask, ...]


class FramebufferDepthMask(Do, tag=108):
    """`Framebuffer.depth_mask = value`"""

    framebuffer: FramebufferHandle
    value: bool


class FramebufferBits(Ask, tag=109):
    """`Framebuffer.bits`"""

    framebuffer: FramebufferHandle


class ReadFramebuffer(Fetch, tag=110):
    """`Framebuffer.read`"""

    framebuffer: FramebufferHandle
    viewport: Rect | None
    components: UInt32
    attachment: Int32
    alignment: UInt32
    clamp: bool
    dtype: str


class FramebufferReadInto(Do, tag=111):
    """`Framebuffer.read_into` a buffer"""

    framebuffer: FramebufferHandle
    buffer: BufferHandle
    viewport: Rect | None
    components: UInt32
    attachment: Int32
    alignment: UInt32
    clamp: bool
    dtype: str
    write_offset: Size


# --- programs


class MakeProgram(Make, tag=120):
    """`Context.program` and `Context.compute_shader`; what it raised is told by ReflectProgram, or by CheckReflection.

    `sources`: vertex, fragment, geometry, tessellation control and evaluation, compute, task and mesh shader.
    GLSL is UTF-8, its includes resolved; SPIR-V is told by its magic number, as moderngl tells it.
    """

    makes = "program"
    sources: tuple[Source, Source, Source, Source, Source, Source, Source, Source]
    varyings: tuple[str, ...]
    fragment_outputs: dict[str, Int32]
    interleaved: bool


class ReflectProgram(Ask, tag=121):
    """Answered with the program's Reflection, or with what making it raised"""

    program: ProgramHandle


class CheckReflection(Do, tag=131):
    """Right behind MakeProgram, by a client that knows the Reflection already: a fault unless this is its hash.

    What making the program raised is that fault too.
    """

    program: ProgramHandle
    hash: bytes


class SetUniform(Do, tag=122):
    """`Uniform.write`: `data` is what glUniform takes, `array_length * element_size` bytes"""

    skips = True
    program: ProgramHandle
    location: Int32
    gl_type: Enum
    array_length: Int32
    element_size: Int32
    data: bytes


class SetUniformBlockBinding(Do, tag=123):
    """`UniformBlock.binding = value`"""

    program: ProgramHandle
    index: UInt32
    binding: UInt32


class SetStorageBlockBinding(Do, tag=124):
    """`StorageBlock.binding = value`"""

    program: ProgramHandle
    index: UInt32
    binding: UInt32


class SetUniformHandle(Do, tag=127):
    """`Uniform.handle = value`: the number of a bindless texture, modulo 2**64"""

    program: ProgramHandle
    location: UInt32
    value: int


class DrawMeshTasks(Do, tag=128):
    """`Program.draw_mesh_tasks`"""

    program: ProgramHandle
    first: UInt32
    count: UInt32


class DrawMeshTasksIndirect(Do, tag=129):
    """`Program.draw_mesh_tasks_indirect`"""

    program: ProgramHandle
    buffer: BufferHandle
    offset: Size
    drawcount: Size
    stride: Size


class DrawMeshTasksIndirectCount(Do, tag=130):
    """`Program.draw_mesh_tasks_indirect_count`"""

    program: ProgramHandle
    buffer: BufferHandle
    offset: Size
    drawcount_offset: Size
    maxdrawcount: Size
    stride: Size


class RunCompute(Do, tag=125):
    """`ComputeShader.run`"""

    program: ProgramHandle
    x: UInt32
    y: UInt32
    z: UInt32


class RunComputeIndirect(Do, tag=126):
    """`ComputeShader.run_indirect`"""

    program: ProgramHandle
    buffer: BufferHandle
    offset: Size


# --- vertex arrays


class MakeVertexArray(Make, tag=140):
    """`Context.vertex_array`"""

    makes = "vertex_array"
    program: ProgramHandle
    content: tuple[VertexContent, ...]
    index_buffer: BufferHandle | None
    index_element_size: UInt32


class Render(Do, tag=141):
    """`VertexArray.render`"""

    vertex_array: VertexArrayHandle
    mode: Int32
    vertices: Int32
    first: Int32
    instances: Int32


class RenderIndirect(Do, tag=142):
    """`VertexArray.render_indirect`"""

    vertex_array: VertexArrayHandle
    buffer: BufferHandle
    mode: Int32
    count: Int32
    first: Int32


class Transform(Do, tag=143):
    """`VertexArray.transform`"""

    vertex_array: VertexArrayHandle
    outputs: tuple[BufferHandle, ...]
    mode: Int32
    vertices: Int32
    first: Int32
    instances: Int32
    buffer_offset: Int32


class VertexArrayBind(Do, tag=144):
    """`VertexArray.bind`"""

    vertex_array: VertexArrayHandle
    location: Int32
    cls: str
    buffer: BufferHandle
    format: str
    offset: Size
    stride: Int32
    divisor: Int32
    normalize: bool


class VertexArrayIndexBuffer(Do, tag=145):
    """the seam's `VertexArray.index_buffer = buffer`"""

    vertex_array: VertexArrayHandle
    buffer: BufferHandle


class VertexArrayVertices(Do, tag=146):
    """`VertexArray.vertices = value`"""

    vertex_array: VertexArrayHandle
    value: UInt32


class VertexArrayInstances(Do, tag=147):
    """`VertexArray.instances = value`"""

    vertex_array: VertexArrayHandle
    value: UInt32


# --- queries


class MakeQuery(Make, tag=160):
    """`Context.query`"""

    makes = "query"
    samples: bool
    any_samples: bool
    time: bool
    primitives: bool


class QueryBegin(Do, tag=161):
    """`Query.__enter__`"""

    query: QueryHandle


class QueryEnd(Do, tag=162):
    """`Query.__exit__`"""

    query: QueryHandle


class QueryBeginRender(Do, tag=163):
    """`ConditionalRender.__enter__`"""

    query: QueryHandle


class QueryEndRender(Do, tag=164):
    """`ConditionalRender.__exit__`"""

    query: QueryHandle


class QuerySamples(Ask, tag=165):
    """`Query.samples`"""

    query: QueryHandle


class QueryPrimitives(Ask, tag=166):
    """`Query.primitives`"""

    query: QueryHandle


class QueryElapsed(Ask, tag=167):
    """`Query.elapsed`: nanoseconds"""

    query: QueryHandle


# --- samplers


class MakeSampler(Make, tag=180):
    """`Context.sampler`"""

    makes = "sampler"


class SamplerUse(Do, tag=181):
    """`Sampler.use`"""

    sampler: SamplerHandle
    location: UInt32


class SamplerClear(Do, tag=182):
    """`Sampler.clear`"""

    sampler: SamplerHandle
    location: UInt32


class SamplerRepeatX(Do, tag=183):
    """`Sampler.repeat_x = value`"""

    skips = True
    sampler: SamplerHandle
    value: bool


class SamplerRepeatY(Do, tag=184):
    """`Sampler.repeat_y = value`"""

    skips = True
    sampler: SamplerHandle
    value: bool


class SamplerRepeatZ(Do, tag=185):
    """`Sampler.repeat_z = value`"""

    skips = True
    sampler: SamplerHandle
    value: bool


class SamplerFilter(Do, tag=186):
    """`Sampler.filter = (min, mag)`"""

    sampler: SamplerHandle
    value: tuple[Enum, Enum]


class SamplerCompareFunc(Do, tag=187):
    """`Sampler.compare_func = value`"""

    skips = True
    sampler: SamplerHandle
    value: str


class SamplerAnisotropy(Do, tag=188):
    """`Sampler.anisotropy = value`"""

    skips = True
    sampler: SamplerHandle
    value: float


class SamplerBorderColor(Do, tag=189):
    """`Sampler.border_color = value`"""

    sampler: SamplerHandle
    value: tuple[float, float, float, float]


class SamplerMinLod(Do, tag=190):
    """`Sampler.min_lod = value`"""

    skips = True
    sampler: SamplerHandle
    value: float


class SamplerMaxLod(Do, tag=191):
    """`Sampler.max_lod = value`"""

    skips = True
    sampler: SamplerHandle
    value: float


# --- scopes


class MakeScope(Make, tag=200):
    """`Context.scope`; its samplers are used by commands of their own"""

    makes = "scope"
    framebuffer: FramebufferHandle
    enable_flags: Int32 | None
    textures: tuple[tuple[AnyTextureHandle, Int32], ...]
    uniform_buffers: tuple[tuple[BufferHandle, Int32], ...]
    storage_buffers: tuple[tuple[BufferHandle, Int32], ...]


class ScopeBegin(Do, tag=201):
    """`Scope.__enter__`"""

    scope: ScopeHandle


class ScopeEnd(Do, tag=202):
    """`Scope.__exit__`"""

    scope: ScopeHandle


# --- every kind


class Release(Free, tag=220):
    """`release` of any object: OpenGL's object goes, moderngl's can still be named"""


class Forget(Free, tag=221):
    """The client can no longer name this object: its handle goes. An object that was not released stays in OpenGL."""


# --- kept commands


class KeepCommands(Make, tag=230):
    """The end of `with glremote.record(ctx)`: keeps the Dos before it in its buffer, of which there are `count`.

    There is nothing else before it but Frees, which are not kept, and no Replay.
    """

    makes = "commands"
    count: UInt32


class Replay(Do, tag=231):
    """`Recording.replay`: runs kept commands once more"""

    commands: CommandsHandle


# --- the table, read off the classes above


def _leaves(cls: type[Command]) -> list[type[Command]]:
    return [leaf for sub in cls.__subclasses__() for leaf in (_leaves(sub) or [sub])]


COMMANDS: dict[int, type[Command]] = {leaf.__struct_config__.tag: leaf for leaf in _leaves(Command)}
"""Every command by its number."""

AnyCommand: Any = Union[tuple(COMMANDS.values())]  # noqa: UP007


RETIRED = "retired "
"""Begins the lines of rows.txt whose commands are gone; their numbers are never used again."""


def row(command: type[Command]) -> str:
    """A command as one line of text, as in rows.txt: its number, verb, name, and fields with their types."""
    verb = command.__mro__[1].__name__
    fields = ", ".join(f"{name}: {_text(hint)}" for name, hint in hints(command).items())
    return f"{command.__struct_config__.tag} {verb} {command.__name__}({fields})"


def hints(command: type[msgspec.Struct]) -> dict[str, Any]:
    """The encoded fields of a command, in order, with their types (annotations kept)."""
    found = get_type_hints(command, include_extras=True)
    return {name: found[name] for name in command.__struct_fields__}


def _text(hint: Any) -> str:
    """A type as text that does not depend on the Python version: part of the row's hash."""
    if hasattr(hint, "__metadata__"):
        meta = hint.__metadata__[0]
        kinds = (meta.extra or {}).get("kinds")
        if kinds:
            return "any" if len(kinds) == len(KINDS) else "|".join(sorted(kinds))
        return f"int{(meta.lt - min(meta.ge, 0)).bit_length() - 1}{'s' if meta.ge < 0 else ''}"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"{hint.__name__}({', '.join(_text(h) for h in hints(hint).values())})"
    arguments = get_args(hint)
    if hint is Ellipsis:
        return "..."
    if not arguments:
        return "None" if hint is type(None) else str(hint.__name__)
    inner = [_text(a) for a in arguments]
    origin = get_origin(hint)
    return f"{origin.__name__}[{', '.join(inner)}]" if origin in (tuple, list, dict) else "|".join(inner)



@cache
def rows() -> dict[int, int]:
    """A hash of each row, by number. A client works with any host that has the client's rows unchanged.

    The rows are read from rows.txt, where tests see to it that they stand: to read them off the classes takes 30 ms.
    """
    lines = (pkgutil.get_data(str(__package__), "rows.txt") or b"").decode().splitlines()
    return {
        int(line.split()[0]): int.from_bytes(hashlib.sha256(line.encode()).digest()[:4], "big")
        for line in lines
        if not line.startswith(RETIRED)
    }
