"""Stands where mgl.Texture, Texture3D, TextureArray, TextureCube and Renderbuffer stand. Shadow: what samplers set too.

Knows: how many bytes an image has, and how one that no command buffer holds is cut. Does not know: what OpenGL makes of
a format. Images are rows from the bottom up, each padded to a multiple of `alignment` bytes; then layer after layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from moderngl import LINEAR, LINEAR_MIPMAP_LINEAR, NEAREST, Error

from glremote.protocol import commands as c
from glremote.protocol.buffers import LARGEST_DATA

from . import arguments as a
from .buffers import Buffer
from .objects import Recorded, check_made
from .samplers import Sampled, comparison, filtering, real, repeat

if TYPE_CHECKING:
    from .context import Context

T = TypeVar("T", bound="AnyTexture")


class AnyTexture(Sampled):
    """What the four kinds share. `width` and `height` in texels, `layers` (or depth, or faces), `pixel` in bytes.

    `source`: the one that OpenGL has, where this is another object for it.
    """

    writes: ClassVar[Any]
    writes_from: ClassVar[Any]
    reads: ClassVar[Any]
    reads_into: ClassVar[Any]
    followed = frozenset((c.TextureSwizzle,))

    def __init__(
        self,
        context: Context,
        extent: c.Extent3,
        components: int,
        dtype: str,
        *,
        samples: int = 0,
        depth: bool = False,
        source: AnyTexture | None = None,
    ) -> None:
        initial = {
            c.TextureRepeatX: not depth,
            c.TextureRepeatY: not depth,
            c.TextureRepeatZ: True,
            c.TextureFilter: (LINEAR, LINEAR) if dtype.startswith("f") else (NEAREST, NEAREST),
            c.TextureSwizzle: "RGBA",
            c.TextureAnisotropy: 0.0,
            c.TextureCompareFunc: "<=" if depth else "?",
        }
        super().__init__(context, initial)
        self.source: AnyTexture | None = source and source.root
        self.glo: int = context.number("texture", self) if source is None else source.glo
        self.width, self.height, self.layers = (a.int32(number) for number in extent)
        self.components = components
        self.dtype = dtype
        self.samples = samples
        self.depth = depth
        self.pixel = components * a.SIZES[dtype]
        self.max_level = 0
        self.bindless = False  # it has a handle
        self.internal_format = 0  # the driver's own choice, where the caller made none

    @property
    def root(self) -> AnyTexture:
        """The one that OpenGL has: what OpenGL keeps is kept there, what moderngl keeps with each object."""
        return self.source or self

    def use(self, location: Any) -> None:
        """Bind it to a texture unit."""
        unit = a.uint32(location)
        command = c.TextureUse(self.handle, unit)
        self.recorder.record(command)
        self.context.bindings["texture", unit] = command

    def bind(self, unit: Any, read: Any, write: Any, level: Any, format: Any) -> None:
        """Bind a level to an image unit, as a format of OpenGL's or (0) as its own."""
        unit, read, write, level, format = a.uint32(unit), bool(read), bool(write), a.uint32(level), a.uint32(format)
        if not read and not write:
            raise Error("Illegal access mode. Read or write needs to be enabled.")
        command = c.TextureBindToImage(self.handle, unit, read, write, level, format)
        self.recorder.record(command)
        self.context.bindings["image", unit] = command

    def build_mipmaps(self, base: Any, max_level: Any) -> None:
        """Make the levels above `base`, and filter between levels."""
        base, max_level = a.uint32(base), a.uint32(max_level)
        if a.int32(base) > self.max_level:
            raise Error("invalid base")
        self.recorder.record(c.TextureBuildMipmaps(self.handle, base, max_level))
        self.keep(c.TextureFilter, (LINEAR_MIPMAP_LINEAR, LINEAR))
        self.max_level = a.int32(max_level)

    def get_handle(self, resident: Any = True) -> int:
        """The driver's number of a bindless texture, which is made resident or not; waits. 0 where it has none.

        OpenGL changes no texture that has one any more (ARB_bindless_texture).
        """
        number = int(self.recorder.ask(c.TextureGetHandle, self.handle, bool(resident)))
        self.root.bindless |= number != 0
        return number

    filter = filtering(c.TextureFilter)

    @property
    def swizzle(self) -> str:
        """Where red, green, blue and alpha are taken from: four of R, G, B, A, 0 and 1."""
        if self.depth:
            raise Error("cannot get swizzle of depth textures")
        if not 0 <= self.context.default_texture_unit < self.context.info_values["GL_MAX_COMBINED_TEXTURE_IMAGE_UNITS"]:
            self.context.enable_direct(0x7FFFFFFF)  # moderngl asks OpenGL, which answers GL_INVALID_ENUM
        return self.root.value(c.TextureSwizzle)  # type: ignore[no-any-return]

    @swizzle.setter
    def swizzle(self, value: Any) -> None:
        if self.depth:
            raise Error("cannot set swizzle for depth textures")
        text = a.c_string(value)
        if not text:
            raise Error("the swizzle is empty")
        for index, byte in enumerate(text.encode()):
            if index > 3:
                raise Error("the swizzle is too long")
            if byte > 127:  # PyErr_Format is handed a negative char
                raise OverflowError("character argument not in range(0x110000)")
            if chr(byte) not in "RrGgBbAa01":
                raise Error(f"'{chr(byte)}' is not a valid swizzle parameter")
        command = c.TextureSwizzle(self.handle, text)
        self.recorder.record(command)
        self.follow(command)

    def follow(self, command: c.Command) -> None:
        """See Seam.follow: letters that a swizzle does not have stay as they are."""
        assert type(command) is c.TextureSwizzle
        before, text = self.root.value(c.TextureSwizzle), command.value
        if not self.root.bindless:
            self.root.keep(c.TextureSwizzle, text.upper() + before[len(text) :])

    # --- texels

    def fill(self, data: a.Data, alignment: int) -> None:
        """Write all of a new texture."""
        raise NotImplementedError

    def _write(
        self,
        data: Any,
        viewport: c.Box | None,
        whole: c.Box,
        alignment: int,
        command: Callable[[Any, Any, c.Box | None], c.Do],
    ) -> None:
        """Write bytes, or what is in a buffer. `command` makes one of a class, a source and where to write."""
        check_made(data, self.context)
        if type(data) is Buffer:
            self.recorder.record(command(self.writes_from, data.handle, viewport))
            return
        box = viewport or whole
        found = a.sized(data, a.image_size(*box[3:], self.pixel, alignment))
        for piece, part in pieces(box, found):
            span = self.recorder.push(part, self.handle, piece, width=self.pixel)
            where = viewport if len(part) == len(found) else piece
            self.recorder.record(command(self.writes, span, where), len(part))

    def _read(self, size: int, *fields: int) -> bytes:
        return self.recorder.fetch(self.reads, size, self.handle, *fields)

    def _read_into(self, data: Any, size: int, write_offset: int, *fields: int) -> None:
        """Read into writable memory, where this waits, or into a buffer."""
        check_made(data, self.context)
        if type(data) is Buffer:
            self.recorder.record(self.reads_into(self.handle, data.handle, *fields, write_offset))
            data.ahead.fill(data)
            return
        memory = a.writable(data)
        if write_offset < 0 or len(memory) < write_offset + size:
            raise Error("the buffer is too small")
        sink = memory[write_offset : write_offset + size]
        self.recorder.fetch(self.reads, size, self.handle, *fields, sink=sink)


class DepthTexture(AnyTexture):
    """What the two kinds share that may hold depth."""

    anisotropy = real(c.TextureAnisotropy, "anisotropy", "max_anisotropy")

    @property
    def compare_func(self) -> str:
        """The comparison with depth, "?" for none; of depth textures only."""
        self._check_depth()
        return self.value(c.TextureCompareFunc)  # type: ignore[no-any-return]

    @compare_func.setter
    def compare_func(self, value: Any) -> None:
        self._check_depth()
        self.give(c.TextureCompareFunc, comparison(a.c_string(value)))

    def _check_depth(self) -> None:
        if not self.depth:
            raise Error("only depth textures have compare_func")


class Texture(DepthTexture):
    """A texture of width x height texels."""

    name = "mgl.Texture"
    writes, writes_from = c.TextureWrite, c.TextureWriteFrom
    reads, reads_into = c.ReadTexture, c.TextureReadInto
    repeat_x = repeat(c.TextureRepeatX, "x")
    repeat_y = repeat(c.TextureRepeatY, "y")

    def fill(self, data: a.Data, alignment: int) -> None:
        """Write all of a new texture."""
        self.write(data, None, 0, alignment)

    def write(self, data: Any, viewport: Any, level: Any, alignment: Any) -> None:
        """Write a rectangle of a level, or all of it."""
        level, alignment = a.int32(level), a.int32(alignment)
        whole = self._level(level, alignment, "written")
        area = None if viewport is None else plane(a.rect(viewport))

        def command(kind: Any, source: Any, box: c.Box | None) -> c.Do:
            return kind(self.handle, source, box and flat(box), a.uint32(level), alignment)  # type: ignore[no-any-return]

        self._write(data, area, whole, alignment, command)

    def read(self, level: Any, alignment: Any) -> bytes:
        """All texels of a level."""
        level, alignment = a.int32(level), a.int32(alignment)
        size = self._level_size(level, alignment)
        return self._read(size, a.uint32(level), alignment)

    def read_into(self, data: Any, level: Any, alignment: Any, write_offset: Any) -> None:
        """The same into writable memory or a buffer."""
        level, alignment, write_offset = a.int32(level), a.int32(alignment), a.ssize(write_offset)
        size = self._level_size(level, alignment)
        self._read_into(data, size, write_offset, a.uint32(level), alignment)

    def _level_size(self, level: int, alignment: int) -> int:
        return a.image_size(*self._level(level, alignment, "read")[3:], self.pixel, alignment)

    def _level(self, level: int, alignment: int, done: str) -> c.Box:
        """All of a level, if that can be read or written."""
        a.alignment(alignment)
        if level > self.max_level:
            raise Error("invalid level")
        if self.samples:
            raise Error(f"multisample textures cannot be {done} directly")
        divisor = 1 << (level & 31)  # as shifting an int does it on common machines
        return (0, 0, 0, max(1, self.width // divisor), max(1, self.height // divisor), 1)


class Volume(AnyTexture):
    """What the two kinds share that have a third dimension."""

    writes, writes_from = c.VolumeWrite, c.VolumeWriteFrom
    reads, reads_into = c.ReadVolume, c.VolumeReadInto
    repeat_x = repeat(c.TextureRepeatX, "x")
    repeat_y = repeat(c.TextureRepeatY, "y")

    def fill(self, data: a.Data, alignment: int) -> None:
        """Write all of a new texture."""
        self.write(data, None, alignment)

    def write(self, data: Any, viewport: Any, alignment: Any) -> None:
        """Write a box, or all."""
        alignment = a.alignment(alignment)
        area = None
        if viewport is not None and (area := a.box(viewport)) is None:
            raise Error("wrong values in the viewport")

        def command(kind: Any, source: Any, box: c.Box | None) -> c.Do:
            return kind(self.handle, source, box, alignment)  # type: ignore[no-any-return]

        self._write(data, area, (0, 0, 0, self.width, self.height, self.layers), alignment, command)

    def read(self, alignment: Any) -> bytes:
        """All texels."""
        alignment = a.alignment(alignment)
        return self._read(self._size(alignment), alignment)

    def read_into(self, data: Any, alignment: Any, write_offset: Any) -> None:
        """The same into writable memory or a buffer."""
        alignment, write_offset = a.int32(alignment), a.ssize(write_offset)
        self._read_into(data, self._size(a.alignment(alignment)), write_offset, alignment)

    def _size(self, alignment: int) -> int:
        return a.image_size(self.width, self.height, self.layers, self.pixel, alignment)


class Texture3D(Volume):
    """A texture of width x height x depth texels."""

    name = "mgl.Texture3D"
    repeat_z = repeat(c.TextureRepeatZ, "z")


class TextureArray(Volume):
    """Layers of width x height texels."""

    name = "mgl.TextureArray"
    anisotropy = real(c.TextureAnisotropy, "anisotropy", "max_anisotropy")


class TextureCube(DepthTexture):
    """Six faces of width x height texels."""

    name = "mgl.TextureCube"
    writes, writes_from = c.TextureCubeWrite, c.TextureCubeWriteFrom
    reads, reads_into = c.ReadTextureCube, c.TextureCubeReadInto

    def fill(self, data: a.Data, alignment: int) -> None:
        """Write all of a new texture."""
        size = len(data) // 6
        for face in range(6):
            self.write(face, data[face * size : (face + 1) * size], None, alignment)

    def write(self, face: Any, data: Any, viewport: Any, alignment: Any) -> None:
        """Write a rectangle of a face, or all of it."""
        face, alignment = self._face(a.checked_int32(face), a.int32(alignment))
        area = None if viewport is None else plane(a.rect(viewport))

        def command(kind: Any, source: Any, box: c.Box | None) -> c.Do:
            return kind(self.handle, face, source, box and flat(box), alignment)  # type: ignore[no-any-return]

        self._write(data, area, (0, 0, 0, self.width, self.height, 1), alignment, command)

    def read(self, face: Any, alignment: Any) -> bytes:
        """All texels of a face."""
        face, alignment = self._face(a.checked_int32(face), a.int32(alignment))
        return self._read(self._size(alignment), face, alignment)

    def read_into(self, data: Any, face: Any, alignment: Any, write_offset: Any) -> None:
        """The same into writable memory or a buffer."""
        face, alignment, write_offset = a.checked_int32(face), a.int32(alignment), a.ssize(write_offset)
        face, alignment = self._face(face, alignment)
        self._read_into(data, self._size(alignment), write_offset, face, alignment)

    def _face(self, face: int, alignment: int) -> tuple[int, int]:
        if not 0 <= face <= 5:
            raise Error("the face must be 0, 1, 2, 3, 4 or 5")
        return face, a.alignment(alignment)

    def _size(self, alignment: int) -> int:
        return a.image_size(self.width, self.height, 1, self.pixel, alignment)


class Renderbuffer(Recorded):
    """An image of width x height pixels that is only rendered to."""

    name = "mgl.Renderbuffer"

    def __init__(
        self, context: Context, extent: c.Extent2, components: int, dtype: str, samples: int, depth: bool
    ) -> None:
        super().__init__(context)
        self.glo = context.number("renderbuffer", self)
        self.width, self.height = a.int32(extent[0]), a.int32(extent[1])
        self.components = components
        self.dtype = dtype
        self.samples = samples
        self.depth = depth
        self.internal_format = 0


# --- boxes


def plane(rect: c.Rect | None) -> c.Box:
    """A rectangle as a box of one layer."""
    if rect is None:
        raise Error("wrong values in the viewport")
    return (*rect[:2], 0, *rect[2:], 1)


def flat(box: c.Box) -> c.Rect:
    """The rectangle of a box of one layer."""
    return (*box[:2], *box[3:5])


def pieces(box: c.Box, data: a.Data) -> Iterator[tuple[c.Box, a.Data]]:
    """Cut an image so that each piece fits a command buffer: whole layers, or rows where a layer is too large."""
    x, y, z, width, height, depth = box
    if len(data) <= LARGEST_DATA:
        yield box, data
        return
    layer = len(data) // depth
    if layer <= LARGEST_DATA:
        count = LARGEST_DATA // layer
        for first in range(0, depth, count):
            part = data[first * layer : (first + count) * layer]
            yield (x, y, z + first, width, height, len(part) // layer), part
        return
    row = layer // height
    count = max(1, LARGEST_DATA // row)
    for at in range(depth):
        for first in range(0, height, count):
            rows = min(count, height - first)
            start = at * layer + first * row
            yield (x, y + first, z + at, width, rows, 1), data[start : start + rows * row]
