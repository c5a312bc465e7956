"""Pictures and arrays of what a context holds.

Knows: the public attributes and `read` methods of moderngl's objects, how OpenGL lays out what they give, and what
users of Pillow and numpy expect instead. Does not know: whether a context is local or remote; moderngl itself, which is
not imported (objects are told apart by the names of their classes).

`request` says what to ask an object for and how to understand the answer; `array` and `image` ask, wait, and decode.
One call of either waits for the host once.

Which row comes first. OpenGL's rows go from the bottom to the top; here the top row comes first, as everywhere else in
Python. The faces of a cube map are the exception: OpenGL itself puts their top row first (the face as it is seen from
inside the cube), so that they are left as they are. `flip` overrides it: True reverses the rows, False leaves them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {  # moderngl's name of a type -> numpy's
    "f1": np.dtype("uint8"),  # 0..255 for 0..1
    "f2": np.dtype("float16"),
    "f4": np.dtype("float32"),
    "u1": np.dtype("uint8"),
    "u2": np.dtype("uint16"),
    "u4": np.dtype("uint32"),
    "i1": np.dtype("int8"),
    "i2": np.dtype("int16"),
    "i4": np.dtype("int32"),
    "nu1": np.dtype("uint8"),  # nu, ni: the greatest integer for 1.0
    "nu2": np.dtype("uint16"),
    "ni1": np.dtype("int8"),
    "ni2": np.dtype("int16"),
}
INTEGERS = frozenset({"u1", "u2", "u4", "i1", "i2", "i4"})  # integers to a shader too; all others are floats there
WHITE = {"f1": 255, "nu1": 255, "u1": 255, "nu2": 65535, "u2": 65535, "ni1": 127, "ni2": 32767, "f2": 1, "f4": 1}

_REVERSED = slice(None, None, -1)


@dataclass(frozen=True)
class Request:
    """What to ask of `source`, as `source.read(**arguments)`, and how to understand the bytes that come back."""

    source: Any
    arguments: dict[str, Any]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pick: tuple[int | slice, ...] = ()
    """An index into the array of that shape, which puts the top row first and takes the layer that was asked for."""

    @property
    def size(self) -> int:
        """How many bytes the answer has."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def decode(self, data: bytes | bytearray | memoryview) -> Pixels:
        """The answer as an array: contiguous, writable, a copy. ValueError if `data` is not what was asked for."""
        return np.frombuffer(data, self.dtype).reshape(self.shape)[self.pick].copy()


@dataclass(frozen=True, kw_only=True)
class Options:
    """What can be said about a read; `array` describes each. Every kind of source takes some of them."""

    attachment: int = 0
    viewport: Sequence[int] | None = None
    components: int | None = None
    dtype: Any = None
    level: int = 0
    layer: int | None = None
    face: int | None = None
    size: int = -1
    offset: int = 0
    shape: int | Sequence[int] | None = None
    flip: bool | None = None


def array(
    source: Any,
    *,
    attachment: int = 0,
    viewport: Sequence[int] | None = None,
    components: int | None = None,
    dtype: Any = None,
    level: int = 0,
    layer: int | None = None,
    face: int | None = None,
    size: int = -1,
    offset: int = 0,
    shape: int | Sequence[int] | None = None,
    flip: bool | None = None,
) -> Pixels:
    """What a framebuffer, a texture or a buffer holds, as a numpy array of the same type; a writable, contiguous copy.

    Framebuffer            (height, width, components), or (height, width) of one component
        attachment         which colour attachment; -1 is the depth, of float32
        viewport           (x, y, width, height), counted from the bottom left as in moderngl, or (width, height)
        components         how many, 1 to 4; as many as the attachment has, if not given
        dtype              a type of moderngl's ("f1", "f4", ...) that OpenGL is to convert to; the attachment's own
    Texture                as a framebuffer
        level              which mipmap level
    TextureArray           (layers, height, width, components), or without the last for one component
    Texture3D              (depth, height, width, components), likewise
        layer              one layer only, and without the first dimension (all are read all the same)
    TextureCube            (6, height, width, components), likewise
        face               one face only, 0 to 5 for +x -x +y -y +z -z, and without the first dimension
    Buffer                 (items,) of uint8
        dtype              numpy's type of an item
        size, offset       which bytes, as in `Buffer.read`
        shape              a shape for the items, as in numpy's `reshape`

    The top row comes first, which is the row that moderngl's own `read` gives last; a cube's faces are as OpenGL has
    them, and a buffer has no rows. `flip=False` leaves the rows in OpenGL's order, `flip=True` reverses them.

    TypeError if it is none of these, or does not take an option that was given; ValueError if an option's value does
    not fit. What moderngl and the driver refuse, `read` raises.
    """
    options = Options(
        attachment=attachment,
        viewport=viewport,
        components=components,
        dtype=dtype,
        level=level,
        layer=layer,
        face=face,
        size=size,
        offset=offset,
        shape=shape,
        flip=flip,
    )
    if face is None and _kind(source) == "TextureCube":
        return _all_faces(source, options)
    wanted = _request(source, options)
    return wanted.decode(wanted.source.read(**wanted.arguments))


def image(
    source: Any,
    *,
    attachment: int = 0,
    face: int | None = None,
    layer: int | None = None,
    components: int | None = None,
    level: int = 0,
    flip: bool | None = None,
) -> Image.Image:
    """A framebuffer or a texture as a picture, the right way up. The options are those of `array`.

    Of an array, a 3D texture or a cube it needs `layer` or `face`. One to four components give the modes L, LA, RGB and
    RGBA, 8 bits each. What has more bits is clipped to 0..1 and rounded (u2 is white at 65535); a framebuffer's driver
    does that, before anything is sent. A depth attachment or texture gives mode F, unchanged.

    TypeError and ValueError as for `array`; ValueError for integers that are no brightness (u4 and the signed ones).
    """
    options = Options(attachment=attachment, components=components, level=level, layer=layer, face=face, flip=flip)
    kind = _kind(source)
    if kind == "Buffer":
        raise TypeError("a Buffer has no width and height: use PIL.Image.fromarray(glremote.array(buffer, shape=...))")
    if kind in ("Texture3D", "TextureArray") and layer is None:
        raise ValueError(f"a {kind} is more than one picture: pass one of its layers, 0 to {source.size[2] - 1}")
    dtype = _pixel_dtype(source, attachment)
    if kind == "Framebuffer" and dtype is not None and dtype not in INTEGERS:
        options = replace(options, dtype="f1")
        dtype = "f1"
    if dtype is not None and dtype not in WHITE:
        raise ValueError(f"integers of dtype {dtype!r} are no colours: make a picture of what glremote.array gives")
    wanted = _request(source, options)
    pixels = wanted.decode(source.read(**wanted.arguments))
    return Image.fromarray(pixels if dtype is None else _eight_bits(pixels, WHITE[dtype]))


def request(source: Any, **options: Any) -> Request:
    """How to read `source` with the options of `array`, for those who do not want to wait.

    A TextureCube needs `face` here: moderngl reads its faces one by one. TypeError and ValueError as for `array`.
    """
    return _request(source, Options(**options))


def _request(source: Any, options: Options) -> Request:
    kind = _kind(source)
    read, takes = _READS[kind]
    for option in fields(Options):
        value = getattr(options, option.name)
        given = value is not None if option.default is None else value != option.default
        if given and option.name not in takes:
            raise TypeError(f"a {kind} is read without {option.name}=; it takes {', '.join(takes)}")
    return read(source, options)


def _framebuffer(source: Any, options: Options) -> Request:
    _refuse_samples(source, "ctx.copy_framebuffer(ctx.simple_framebuffer(size), framebuffer)")
    depth = options.attachment == -1
    attached = _attached(source, options.attachment)
    own = "f4" if depth else getattr(attached, "dtype", "f1")
    dtype = own if options.dtype is None else options.dtype
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"dtype={dtype!r} is none of moderngl's types: {', '.join(DTYPES)}")
    if attached is not None and (dtype in INTEGERS) != (own in INTEGERS):
        raise ValueError(f"OpenGL does not convert an attachment of dtype {own!r} to {dtype!r}: integers stay integers")
    components = options.components
    if components is None:
        components = 1 if depth else getattr(attached, "components", 4)
    if not 1 <= components <= (1 if depth else 4):
        raise ValueError(f"components={components}: must be {'1, of a depth attachment' if depth else '1 to 4'}")
    viewport = _viewport(source, options.viewport)
    arguments = {"viewport": viewport, "components": components, "attachment": options.attachment, "dtype": dtype}
    return Request(source, arguments, DTYPES[dtype], _shape(viewport[3], viewport[2], components), _rows(options))


def _texture(source: Any, options: Options) -> Request:
    _refuse_samples(source, "ctx.copy_framebuffer(ctx.simple_framebuffer(size), ctx.framebuffer([texture]))")
    width, height = source.size
    levels = max(width, height).bit_length()
    if not 0 <= options.level < levels:
        raise ValueError(f"level={options.level}: a texture of {width} x {height} has levels 0 to {levels - 1}")
    shape = _shape(max(height >> options.level, 1), max(width >> options.level, 1), source.components)
    return Request(source, {"level": options.level}, DTYPES[source.dtype], shape, _rows(options))


def _layers(source: Any, options: Options) -> Request:
    width, height, layers = source.size
    layer = options.layer
    if layer is not None and not 0 <= layer < layers:
        raise ValueError(f"layer={layer}: a {_kind(source)} of {layers} layers has 0 to {layers - 1}")
    shape = (layers, *_shape(height, width, source.components))
    return Request(source, {}, DTYPES[source.dtype], shape, (slice(None) if layer is None else layer, *_rows(options)))


def _cube(source: Any, options: Options) -> Request:
    if options.face is None or not 0 <= options.face < 6:
        raise ValueError(f"face={options.face}: one face of a TextureCube is 0 to 5, for +x -x +y -y +z -z")
    width, height = source.size
    shape = _shape(height, width, source.components)
    return Request(source, {"face": options.face}, DTYPES[source.dtype], shape, _rows(options, default=False))


def _buffer(source: Any, options: Options) -> Request:
    dtype = np.dtype("uint8" if options.dtype is None else options.dtype)
    size = source.size - options.offset if options.size < 0 else options.size
    if options.offset < 0 or size < 0 or options.offset + size > source.size:
        raise ValueError(f"size={options.size}, offset={options.offset}: not within a buffer of {source.size} bytes")
    if size % dtype.itemsize:
        raise ValueError(f"{size} bytes are no whole number of {dtype}, which has {dtype.itemsize} bytes: pass size=")
    items = size // dtype.itemsize
    shape = (items,) if options.shape is None else _reshaped(items, options.shape)
    return Request(source, {"size": size, "offset": options.offset}, dtype, shape)


_READS: dict[str, tuple[Callable[[Any, Options], Request], tuple[str, ...]]] = {  # and the options that each takes
    "Framebuffer": (_framebuffer, ("attachment", "viewport", "components", "dtype", "flip")),
    "Texture": (_texture, ("level", "flip")),
    "Texture3D": (_layers, ("layer", "flip")),
    "TextureArray": (_layers, ("layer", "flip")),
    "TextureCube": (_cube, ("face", "flip")),
    "Buffer": (_buffer, ("dtype", "size", "offset", "shape")),
}


def _all_faces(source: Any, options: Options) -> Pixels:
    """The six faces of a cube, collected in a buffer first: one wait instead of six."""
    one = _request(source, replace(options, face=0))
    faces = source.ctx.buffer(reserve=6 * one.size)
    try:
        for face in range(6):
            source.read_into(faces, face, write_offset=face * one.size)
        data = faces.read()
    finally:
        faces.release()
    return replace(one, shape=(6, *one.shape), pick=(slice(None), *one.pick)).decode(data)


def _kind(source: Any) -> str:
    """The name of moderngl's class, if it is one that can be read."""
    for cls in type(source).__mro__:
        if cls.__module__ == "moderngl" and cls.__name__ in _READS:
            return cls.__name__
    if type(source).__name__ == "Renderbuffer":
        raise TypeError("a Renderbuffer cannot be read by itself: pass the framebuffer that it is attached to")
    raise TypeError(f"expected a moderngl {', '.join(_READS)}, not {type(source).__name__}")


def _attached(framebuffer: Any, attachment: int) -> Any:
    """The texture or renderbuffer at that place; None if it is not known (ctx.screen, detect_framebuffer)."""
    if framebuffer.color_attachments is None:
        return None
    if attachment == -1:
        if framebuffer.depth_attachment is None:
            raise ValueError("attachment=-1: the framebuffer has no depth attachment")
        return framebuffer.depth_attachment
    colours = len(framebuffer.color_attachments)
    if not 0 <= attachment < colours:
        raise ValueError(f"attachment={attachment}: the framebuffer has {colours} colour attachments (-1 is the depth)")
    return framebuffer.color_attachments[attachment]


def _pixel_dtype(source: Any, attachment: int) -> str | None:
    """moderngl's name of the type of a source's colours; None for depths."""
    if _kind(source) == "Framebuffer":
        return None if attachment == -1 else getattr(_attached(source, attachment), "dtype", "f1")
    return None if getattr(source, "depth", False) is True else source.dtype  # the depth of a Texture3D is a number


def _refuse_samples(source: Any, resolve: str) -> None:
    if source.samples:
        what = f"a {_kind(source)} with {source.samples} samples a pixel"
        raise ValueError(f"{what} cannot be read: resolve it first, with {resolve}")


def _viewport(framebuffer: Any, viewport: Sequence[int] | None) -> tuple[int, int, int, int]:
    width, height = framebuffer.size
    given = (width, height) if viewport is None else tuple(int(value) for value in viewport)
    x, y, w, h = given if len(given) == 4 else (0, 0, *given) if len(given) == 2 else (0, 0, 0, 0)
    if x < 0 or y < 0 or w < 1 or h < 1 or x + w > width or y + h > height:
        raise ValueError(f"viewport={viewport}: not (x, y, width, height) or (width, height) within {width} x {height}")
    return x, y, w, h


def _shape(height: int, width: int, components: int) -> tuple[int, ...]:
    return (height, width) if components == 1 else (height, width, components)


def _rows(options: Options, default: bool = True) -> tuple[slice]:
    flip = default if options.flip is None else options.flip
    return (_REVERSED if flip else slice(None),)


def _reshaped(items: int, shape: int | Sequence[int]) -> tuple[int, ...]:
    """The shape, with its -1 worked out; numpy's own ValueError if it does not fit."""
    return np.broadcast_to(np.uint8(0), items).reshape(shape).shape


def _eight_bits(pixels: Pixels, white: int) -> npt.NDArray[np.uint8]:
    """Brightness from 0 to `white` as 0..255: clipped, rounded, and NaN is 0."""
    if white == 255:
        return pixels
    shares = np.nan_to_num(pixels.astype(np.float32) / white, nan=0.0, posinf=1.0, neginf=0.0)
    return (np.clip(shares, 0.0, 1.0) * 255 + 0.5).astype(np.uint8)
