"""How textures and renderbuffers are made: the seam's `texture`, `texture3d` and so on.

Knows: what their arguments may be, in moderngl's order of checking. Does not know: what the objects can do.
Data that no command buffer holds is written in pieces once the texture is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from moderngl import Error

from glremote.protocol import commands as c
from glremote.protocol.buffers import LARGEST_DATA
from glremote.protocol.stacks import Span

from . import arguments as a
from .textures import AnyTexture, Renderbuffer, Texture, Texture3D, TextureArray, TextureCube

if TYPE_CHECKING:
    from .context import Context

T = TypeVar("T", bound="AnyTexture")


def texture(
    context: Context,
    size: Any,
    components: Any,
    data: Any,
    samples: Any,
    alignment: Any,
    dtype: Any,
    internal_format: Any,
    renderbuffer: Any,
) -> tuple[Texture | Renderbuffer, int]:
    """`Context.texture` of the seam: the object and its glo."""
    width, height = a.extent(size, 2)
    components, samples, alignment = a.int32(components), a.int32(samples), a.int32(alignment)
    dtype, internal_format, renderbuffer = a.text(dtype, 6), a.uint32(internal_format), bool(renderbuffer)
    _check_components(components)
    _check_samples(context, samples)
    a.alignment(alignment)
    _check_no_data(data, samples, renderbuffer)
    a.dtype(dtype, 6)
    extent = width, height
    if renderbuffer:
        image = Renderbuffer(context, extent, components, dtype, samples, False)
        context.recorder.make(image, c.MakeRenderbuffer(image.handle, extent, components, samples, dtype))
        return image, image.glo
    found, span = _pushed(context, data, (width, height, 1), components * a.SIZES[dtype], alignment)
    made = Texture(context, (width, height, 1), components, dtype, samples=samples)
    made.internal_format = internal_format
    command = c.MakeTexture(made.handle, extent, components, span, samples, alignment, dtype, internal_format)
    return _made(made, command, found)


def depth_texture(
    context: Context, size: Any, data: Any, samples: Any, alignment: Any, renderbuffer: Any
) -> tuple[Texture | Renderbuffer, int]:
    """`Context.depth_texture` of the seam: the object and its glo.

    Where moderngl would divide by an alignment of zero, or have OpenGL read beyond the data, ours is refused.
    """
    width, height = a.extent(size, 2)
    samples, alignment, renderbuffer = a.int32(samples), a.int32(alignment), bool(renderbuffer)
    _check_samples(context, samples)
    _check_no_data(data, samples, renderbuffer)
    extent = width, height
    if renderbuffer:
        image = Renderbuffer(context, extent, 1, "f4", samples, True)
        context.recorder.make(image, c.MakeDepthRenderbuffer(image.handle, extent, samples))
        return image, image.glo
    a.alignment(alignment)
    found, span = _pushed(context, data, (width, height, 1), 4, alignment)
    made = Texture(context, (width, height, 1), 1, "f4", samples=samples, depth=True)
    return _made(made, c.MakeDepthTexture(made.handle, extent, span, samples, alignment), found)


def texture3d(
    context: Context, size: Any, components: Any, data: Any, alignment: Any, dtype: Any
) -> tuple[Texture3D, int]:
    """`Context.texture3d` of the seam: the object and its glo."""
    return _volume(Texture3D, c.MakeTexture3D, context, size, components, data, alignment, dtype)


def texture_array(
    context: Context, size: Any, components: Any, data: Any, alignment: Any, dtype: Any
) -> tuple[TextureArray, int]:
    """`Context.texture_array` of the seam: the object and its glo."""
    return _volume(TextureArray, c.MakeTextureArray, context, size, components, data, alignment, dtype)


def _volume(
    kind: type[T], command: Any, context: Context, size: Any, components: Any, data: Any, alignment: Any, dtype: Any
) -> tuple[T, int]:
    width, height, layers = a.extent(size, 3)
    components, alignment, dtype = a.int32(components), a.int32(alignment), a.text(dtype, 5)
    pixel = _check_format(components, alignment, dtype)
    extent = width, height, layers
    found, span = _pushed(context, data, extent, pixel, alignment)
    made = kind(context, extent, components, dtype)
    return _made(made, command(made.handle, extent, components, span, alignment, dtype), found)


def texture_cube(
    context: Context, size: Any, components: Any, data: Any, alignment: Any, dtype: Any, internal_format: Any
) -> tuple[TextureCube, int]:
    """`Context.texture_cube` of the seam: the object and its glo."""
    width, height = a.extent(size, 2)
    components, alignment = a.int32(components), a.int32(alignment)
    dtype, internal_format = a.text(dtype, 5), a.uint32(internal_format)
    pixel = _check_format(components, alignment, dtype)
    found, span = _pushed(context, data, (width, height, 6), pixel, alignment)
    made = TextureCube(context, (width, height, 6), components, dtype)
    made.internal_format = internal_format
    command = c.MakeTextureCube(made.handle, (width, height), components, span, alignment, dtype, internal_format)
    return _made(made, command, found)


def depth_texture_cube(context: Context, size: Any, data: Any, alignment: Any) -> tuple[TextureCube, int]:
    """`Context.depth_texture_cube` of the seam: the object and its glo."""
    width, height = a.extent(size, 2)
    alignment = a.alignment(alignment)
    found, span = _pushed(context, data, (width, height, 6), 4, alignment)
    made = TextureCube(context, (width, height, 6), 1, "f4", depth=True)
    return _made(made, c.MakeDepthTextureCube(made.handle, (width, height), span, alignment), found)


def _pushed(
    context: Context, data: Any, extent: c.Extent3, pixel: int, alignment: int
) -> tuple[a.Data | None, Span | None]:
    """The bytes of a new texture, and their span if they fit one. It comes before the object, since it may raise."""
    if data is None:
        return None, None
    width, height, layers = (a.int32(number) for number in extent)
    found = a.sized(data, a.image_size(width, height, layers, pixel, alignment))
    return found, context.recorder.push(found) if len(found) <= LARGEST_DATA else None


def _made(made: T, command: Any, found: a.Data | None) -> tuple[T, int]:
    """Record the Make, and the writes of data that does not fit it."""
    made.recorder.make(made, command, command.data.size if command.data else 0)
    if found is not None and command.data is None:
        made.fill(found, command.alignment)
    return made, made.glo


def _check_components(components: int) -> None:
    if not 1 <= components <= 4:
        raise Error("the components must be 1, 2, 3 or 4")


def _check_format(components: int, alignment: int, dtype: str) -> int:
    """Bytes of a pixel."""
    _check_components(components)
    a.alignment(alignment)
    return components * a.SIZES[a.dtype(dtype, 5)]


def _check_samples(context: Context, samples: int) -> None:
    if samples & (samples - 1) or samples > context.limits["max_samples"]:
        raise Error("the number of samples is invalid")


def _check_no_data(data: Any, samples: int, renderbuffer: bool) -> None:
    if data is not None and samples:
        raise Error("multisample textures are not writable directly")
    if data is not None and renderbuffer:
        raise Error("renderbuffers are not writable directly")
