"""Textures and renderbuffers: what is written is read, and what is wrong raises what moderngl raises."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import moderngl
import numpy as np
import pytest

import glremote
from glremote.protocol import commands as c
from glremote.protocol.buffers import LARGEST_DATA
from glremote.recording import textures
from tests.recording.fullscreen import pixel

ALL_DTYPES = ("f1", "f2", "f4", "u1", "u2", "u4", "i1", "i2", "i4", "nu1", "nu2", "ni1", "ni2")
READABLE_DTYPES = ALL_DTYPES[:-2]
"""Signed bytes of an unsigned normalized format do not come back as they went."""
MAKERS: dict[str, Callable[..., Any]] = {
    "texture": lambda ctx, **more: ctx.texture((4, 4), 4, **more),
    "texture3d": lambda ctx, **more: ctx.texture3d((4, 2, 2), 4, **more),
    "texture_array": lambda ctx, **more: ctx.texture_array((4, 2, 2), 4, **more),
    "texture_cube": lambda ctx, **more: ctx.texture_cube((4, 4), 4, **more),
}
"""Every kind of texture; 64 bytes each, the cube a face."""
kinds = pytest.mark.parametrize("kind", MAKERS)
DATA = bytes(range(64))


def face(texture: Any) -> tuple[int, ...]:
    """What read and write take first: the face of a cube."""
    return (2,) if isinstance(texture, moderngl.TextureCube) else ()


def read_into(texture: Any, memory: Any, **more: Any) -> None:
    texture.read_into(memory, *face(texture), **more)


def noise(size: int, dtype: str = "u1") -> bytes:
    random = np.random.default_rng(size)
    if dtype[0] == "f" and dtype != "f1":
        return random.random(size // int(dtype[1]), "f4").astype(dtype).tobytes()
    return random.bytes(size)


# --- data


@pytest.mark.parametrize("components", (1, 2, 3, 4))
def test_what_is_written_is_read(ctx: moderngl.Context, components: int) -> None:
    for dtype in READABLE_DTYPES:
        data = noise(6 * components * int(dtype[-1]), dtype)
        assert ctx.texture((3, 2), components, data, dtype=dtype).read() == data
        assert ctx.texture3d((3, 1, 2), components, data, dtype=dtype).read() == data
        assert ctx.texture_array((1, 3, 2), components, data, dtype=dtype).read() == data
        cube = ctx.texture_cube((1, 1), components, data, dtype=dtype)
        assert b"".join(cube.read(n) for n in range(6)) == data
    assert ctx.error == "GL_NO_ERROR"


@kinds
def test_writes_a_part(ctx: moderngl.Context, kind: str) -> None:
    texture = MAKERS[kind](ctx, data=bytes(64) if kind != "texture_cube" else bytes(6 * 64))
    texture.write(*face(texture), DATA[:16], viewport=(2, 2) if kind in ("texture", "texture_cube") else (2, 2, 1))
    at = (1, 1, 2, 1) if kind in ("texture", "texture_cube") else (1, 1, 1, 2, 1, 1)
    texture.write(*face(texture), DATA[56:], viewport=at)
    image = np.frombuffer(texture.read(*face(texture)), "u1").reshape(-1, 4, 4).copy()
    first = 4 if kind in ("texture", "texture_cube") else 2
    expected = np.zeros((2, first, 4, 4) if first == 2 else (1, first, 4, 4), "u1")
    expected[0, :2, :2] = np.frombuffer(DATA[:16], "u1").reshape(2, 2, 4)
    expected[at[2] if first == 2 else 0, 1, 1:3] = np.frombuffer(DATA[56:], "u1").reshape(2, 4)
    assert image.tobytes() == expected.tobytes()


@pytest.mark.parametrize("alignment", (1, 2, 4, 8))
def test_rows_are_padded(ctx: moderngl.Context, alignment: int) -> None:
    row = -(-3 // alignment) * alignment
    data = b"".join(bytes((n, n + 1, n + 2)).ljust(row, b"\xff") for n in range(4))
    texels = b"".join(bytes((n, n + 1, n + 2)) for n in range(4))
    texture = ctx.texture((3, 4), 1, data, alignment=alignment)
    array = ctx.texture_array((3, 2, 2), 1, data, alignment=alignment)
    assert texture.read() == array.read() == texels
    assert len(texture.read(alignment=alignment)) == len(array.read(alignment=alignment)) == len(data)
    texture.write(data[row:] + data[:row], alignment=alignment)
    assert texture.read() == texels[3:] + texels[:3]


@kinds
def test_a_write_takes_the_bytes_at_the_call(ctx: moderngl.Context, kind: str) -> None:
    texture = MAKERS[kind](ctx)
    array = np.frombuffer(DATA, "u1").copy()
    texture.write(*face(texture), array)
    array[:] = 0
    assert texture.read(*face(texture)) == DATA


def test_data_is_any_contiguous_buffer(ctx: moderngl.Context) -> None:
    texture = ctx.texture((4, 4), 4, np.zeros((4, 4), "u4"))
    assert texture.read() == bytes(64)
    for data in (bytearray(DATA), memoryview(DATA), np.frombuffer(DATA, "f4").reshape(2, 8)):
        texture.write(data)
        assert texture.read() == DATA
        texture.write(bytes(64))
    with pytest.raises(ValueError, match="ndarray is not C-contiguous"):
        texture.write(np.zeros((4, 32), "u1")[:, ::2])
    with pytest.raises(TypeError, match="a bytes-like object is required, not 'str'"):
        texture.write("x" * 64)
    with pytest.raises(TypeError, match="a bytes-like object is required, not 'NoneType'"):
        texture.write(None)


@kinds
def test_through_buffers(ctx: moderngl.Context, kind: str) -> None:
    texture, source, target = MAKERS[kind](ctx), ctx.buffer(DATA), ctx.buffer(bytes(80))
    texture.write(*face(texture), source)
    read_into(texture, target, write_offset=16)
    assert target.read() == bytes(16) + DATA
    flat = kind in ("texture", "texture_cube")
    texture.write(*face(texture), ctx.buffer(bytes(64)), viewport=(1, 2, 1, 1) if flat else (1, 0, 1, 1, 1, 1))
    at = 36
    assert texture.read(*face(texture)) == DATA[:at] + bytes(4) + DATA[at + 4 :]
    assert ctx.error == "GL_NO_ERROR"


@kinds
def test_a_buffer_that_is_too_small_is_an_error_of_opengl(ctx: moderngl.Context, kind: str) -> None:
    texture, small = MAKERS[kind](ctx), ctx.buffer(reserve=8)
    texture.write(*face(texture), small)
    assert ctx.error == "GL_INVALID_OPERATION"
    read_into(texture, small)
    assert ctx.error == "GL_INVALID_OPERATION"


@kinds
def test_reads_into_memory(ctx: moderngl.Context, kind: str) -> None:
    texture = MAKERS[kind](ctx)
    texture.write(*face(texture), DATA)
    memory = bytearray(b"\xff" * 100)
    read_into(texture, memory, write_offset=20)
    assert memory == b"\xff" * 20 + DATA + b"\xff" * 16
    array = np.zeros((4, 4), "f4")
    read_into(texture, array)
    assert array.tobytes() == DATA
    with pytest.raises(moderngl.Error, match=r"^the buffer is too small$"):
        read_into(texture, memory, write_offset=37)
    with pytest.raises(BufferError, match=r"^Object is not writable\.$"):
        read_into(texture, bytes(64))
    array.flags.writeable = False
    with pytest.raises(ValueError, match="buffer source array is read-only"):
        read_into(texture, array)


@pytest.mark.parametrize(
    "make",
    (
        pytest.param(lambda ctx, data: ctx.texture((2101, 2121), 4, data), id="rows"),
        pytest.param(lambda ctx, data: ctx.texture((4201, 4243), 1, data, alignment=4), id="padded rows"),
        pytest.param(lambda ctx, data: ctx.texture_array((1001, 1003, 6), 3, data), id="layers"),
        pytest.param(lambda ctx, data: ctx.texture_array((2101, 2121, 2), 4, data), id="rows of layers"),
        pytest.param(lambda ctx, data: ctx.texture3d((301, 307, 53), 4, data), id="volume"),
        pytest.param(lambda ctx, data: ctx.texture_cube((901, 901), 4, data), id="faces"),
    ),
)
def test_data_larger_than_a_command_buffer(
    ctx: moderngl.Context, make: Callable[[moderngl.Context, bytes | None], Any]
) -> None:
    empty = make(ctx, None)
    faces = [(n,) for n in range(6)] if isinstance(empty, moderngl.TextureCube) else [()]
    alignment = 4 if empty.components == 1 else 1
    size = sum(len(empty.read(*face, alignment=alignment)) for face in faces)
    assert size > LARGEST_DATA
    data = noise(size)
    part = size // len(faces)

    def texels(texture: Any) -> list[bytes]:
        return [texture.read(*face) for face in faces]

    made = make(ctx, data)
    for index, face in enumerate(faces):
        empty.write(*face, data[index * part : (index + 1) * part], alignment=alignment)
    assert texels(made) == texels(empty)
    if alignment == 1:
        assert b"".join(texels(made)) == data
    assert ctx.error == "GL_NO_ERROR"


def test_writes_a_large_part(ctx: moderngl.Context) -> None:
    texture = ctx.texture((2300, 2300), 4)
    data = np.frombuffer(noise(2101 * 2121 * 4), "u4").reshape(2121, 2101)
    texture.write(data, viewport=(100, 101, 2101, 2121))
    image = np.frombuffer(texture.read(), "u4").reshape(2300, 2300)
    assert (image[101 : 101 + 2121, 100 : 100 + 2101] == data).all()


# --- what is wrong


ALIGNMENT = "the alignment must be 1, 2, 4 or 8"
VIEWPORT = "wrong values in the viewport"
FACE = "the face must be 0, 1, 2, 3, 4 or 5"
UNWRITABLE = "not writable directly"
MULTISAMPLE = "multisample textures cannot be"
ACCESS = "Illegal access mode. Read or write needs to be enabled."
Error = moderngl.Error

WRONG: tuple[tuple[type[Exception], str, Callable[[Any], Any]], ...] = (
    (TypeError, "argument 1 must be 2-item sequence, not int", lambda x: x.texture(4, 4)),
    (TypeError, "argument 1 must be sequence of length 3, not 2", lambda x: x.texture3d((4, 4), 4)),
    (TypeError, "'float' object cannot be interpreted as an integer", lambda x: x.texture((4, 4.0), 4)),
    (TypeError, "argument 6 must be str, not int", lambda x: x.texture((4, 4), 4, dtype=1)),
    (TypeError, "argument 5 must be str, not None", lambda x: x.texture_cube((4, 4), 4, dtype=None)),
    (ValueError, "embedded null character", lambda x: x.texture((4, 4), 4, dtype="f1\0")),
    (Error, "the components must be 1, 2, 3 or 4", lambda x: x.texture((4, 4), 0, dtype="x", alignment=3)),
    (Error, "the components must be 1, 2, 3 or 4", lambda x: x.texture3d((4, 4, 4), 5)),
    (Error, "the components must be 1, 2, 3 or 4", lambda x: x.texture_array((4, 4, 4), -1)),
    (Error, "the components must be 1, 2, 3 or 4", lambda x: x.texture_cube((4, 4), 5)),
    (Error, "the number of samples is invalid", lambda x: x.texture((4, 4), 4, samples=3)),
    (Error, "the number of samples is invalid", lambda x: x.texture((4, 4), 4, samples=1024)),
    (Error, "the number of samples is invalid", lambda x: x.depth_texture((4, 4), samples=-1)),
    (Error, "the number of samples is invalid", lambda x: x.renderbuffer((4, 4), samples=5)),
    (Error, ALIGNMENT, lambda x: x.texture((4, 4), 4, alignment=3)),
    (Error, ALIGNMENT, lambda x: x.texture_array((4, 4, 1), 4, alignment=16)),
    (Error, ALIGNMENT, lambda x: x.depth_texture_cube((4, 4), alignment=0)),
    (Error, f"multisample textures are {UNWRITABLE}", lambda x: x.texture((4, 4), 4, DATA, samples=2)),
    (Error, f"multisample textures are {UNWRITABLE}", lambda x: x.depth_texture((4, 4), DATA, samples=2)),
    (Error, f"renderbuffers are {UNWRITABLE}", lambda x: x.texture((4, 4), 4, DATA, renderbuffer=True)),
    (Error, f"renderbuffers are {UNWRITABLE}", lambda x: x.depth_texture((4, 4), DATA, renderbuffer=True)),
    (Error, "invalid dtype", lambda x: x.texture((4, 4), 4, dtype="f8")),
    (Error, "invalid dtype", lambda x: x.renderbuffer((4, 4), 4, dtype="u8")),
    (Error, "data size mismatch 1 != 64", lambda x: x.texture((4, 4), 4, b"x")),
    (Error, "data size mismatch 64 != 128", lambda x: x.texture3d((4, 4, 2), 4, DATA)),
    (Error, "data size mismatch 64 != 384", lambda x: x.texture_cube((4, 4), 4, DATA)),
    (Error, "data size mismatch 64 != 36", lambda x: x.depth_texture((3, 3), DATA)),
    (Error, "data size mismatch 1 != -4", lambda x: x.texture((2**32 - 1, 1), 4, b"x")),
    (Error, "data size mismatch 0 != 64", lambda x: x.texture((4, 4), 4).write(b"")),
    (Error, "data size mismatch 64 != 32", lambda x: x.texture((4, 4), 4).write(DATA, (4, 2))),
    (Error, VIEWPORT, lambda x: x.texture((4, 4), 4).write(DATA, 4)),
    (Error, VIEWPORT, lambda x: x.texture((4, 4), 4).write(DATA, (0, 0, 4))),
    (Error, VIEWPORT, lambda x: x.texture3d((4, 4, 1), 4).write(DATA, (0, 0, 4, 4))),
    (Error, VIEWPORT, lambda x: x.texture_cube((4, 4), 4).write(0, DATA, (0, 0, 4.0, 4))),
    (Error, ALIGNMENT, lambda x: x.texture((4, 4), 4).write(DATA, 5, 5, 5)),
    (Error, "invalid level", lambda x: x.texture((4, 4), 4).write(b"", 5, 1)),
    (Error, "invalid level", lambda x: x.texture((4, 4), 4).read(1)),
    (Error, "invalid level", lambda x: x.texture((4, 4), 4).read_into(None, 1)),
    (Error, "invalid base", lambda x: x.texture((4, 4), 4).build_mipmaps(1)),
    (Error, FACE, lambda x: x.texture_cube((4, 4), 4).read(6, 3)),
    (Error, FACE, lambda x: x.texture_cube((4, 4), 4).write(-1, DATA)),
    (Error, FACE, lambda x: x.texture_cube((4, 4), 4).read_into(None, 6)),
    (OverflowError, "signed integer is greater than maximum", lambda x: x.texture_cube((4, 4), 4).read(2**31)),
    (Error, f"{MULTISAMPLE} read directly", lambda x: x.texture((4, 4), 4, samples=2).read()),
    (Error, f"{MULTISAMPLE} written directly", lambda x: x.texture((4, 4), 4, samples=2).write(DATA)),
    (Error, ACCESS, lambda x: x.texture((4, 4), 4).bind_to_image(0, False, False)),
)


def test_wrong_arguments_raise_at_the_call(ctx: moderngl.Context) -> None:
    for kind, text, call in WRONG:
        with pytest.raises(kind) as caught:
            call(ctx)
        assert (type(caught.value), str(caught.value)) == (kind, text)
        assert ctx.error == "GL_NO_ERROR"


BINDLESS = """#version 430
#extension GL_ARB_bindless_texture : require
layout(local_size_x=1) in;
layout(bindless_sampler) uniform sampler2D image;
layout(std430, binding=0) buffer Seen { vec4 seen; };
void main() { seen = texelFetch(image, ivec2(1, 0), 0); }"""


def test_get_handle(ctx: Any) -> None:
    handles = [make(ctx).get_handle() for make in MAKERS.values()]
    assert all(bool(handle) == ("GL_ARB_bindless_texture" in ctx.extensions) for handle in handles)


def test_bindless_textures(ctx: Any) -> None:
    if "GL_ARB_bindless_texture" not in ctx.extensions:
        pytest.skip("this driver has no bindless textures")
    texture, out = ctx.texture((2, 1), 4, b"abcd\xff\0\xff\0"), ctx.buffer(reserve=16)
    texture.filter = moderngl.NEAREST, moderngl.NEAREST
    shader = ctx.compute_shader(BINDLESS)
    out.bind_to_storage_buffer(0)
    shader["image"].handle = texture.get_handle()
    shader.run()
    ctx.memory_barrier()
    assert struct.unpack("4f", out.read()) == (1.0, 0.0, 1.0, 0.0)
    assert texture.get_handle(False) == texture.get_handle()
    texture.swizzle = "AB"
    assert (texture.swizzle, ctx.error) == ("RGBA", "GL_INVALID_OPERATION")  # nothing changes it any more
    shader["image"].handle = (7 << 32) + 5
    assert shader["image"].value == 5
    assert ctx.error == "GL_NO_ERROR"


# --- levels


def test_mipmaps(ctx: moderngl.Context) -> None:
    texture = ctx.texture((4, 6), 1, bytes([8]) * 24)
    assert texture.filter == (moderngl.LINEAR, moderngl.LINEAR)
    texture.build_mipmaps()
    assert texture.filter == (moderngl.LINEAR_MIPMAP_LINEAR, moderngl.LINEAR)
    assert [texture.read(level) for level in range(3)] == [bytes([8]) * n for n in (24, 6, 1)]
    texture.write(bytes(range(6)), level=1)
    texture.write(b"\xff", viewport=(1, 2, 1, 1), level=1)
    assert texture.read(1, alignment=2) == b"\0\1\2\3\4\xff"
    memory = bytearray(8)
    texture.read_into(memory, level=1, write_offset=2)
    assert memory == b"\0\0\0\1\2\3\4\xff"
    assert ctx.error == "GL_NO_ERROR"
    assert len(texture.read(50)) == 1  # moderngl lets pass what is below 1000
    assert ctx.error == "GL_INVALID_VALUE"
    with pytest.raises(moderngl.Error, match=r"^invalid level$"):
        texture.read(1001)
    texture.build_mipmaps(0, 1)
    with pytest.raises(moderngl.Error, match=r"^invalid level$"):
        texture.read(2)
    with pytest.raises(moderngl.Error, match=r"^invalid base$"):
        texture.build_mipmaps(2, 3)


@kinds
def test_mipmaps_are_sampled(ctx: moderngl.Context, kind: str) -> None:
    texture = MAKERS[kind](ctx, data=(b"\x00\x00\x00\x00\xff\xff\xff\xff" * 48)[: 384 if "cube" in kind else 64])
    texture.build_mipmaps()
    assert texture.filter == (moderngl.LINEAR_MIPMAP_LINEAR, moderngl.LINEAR)
    texture.use(1)
    dimensions, at = {"texture": ("2D", "uv"), "texture_cube": ("Cube", "vec3(1, 0, 0)")}.get(
        kind, ("3D" if kind == "texture3d" else "2DArray", "vec3(uv, 0)")
    )
    seen = pixel(ctx, f"uniform sampler{dimensions} image;", f"textureLod(image, {at}, 1.0)", image=1)
    assert abs(seen[0] - 0.5) < 0.01
    assert ctx.error == "GL_NO_ERROR"


# --- parameters of sampling


@kinds
def test_the_first_filter(ctx: moderngl.Context, kind: str) -> None:
    for dtype in ALL_DTYPES:
        texture = MAKERS[kind](ctx, dtype=dtype)
        expected = moderngl.LINEAR if dtype.startswith("f") else moderngl.NEAREST
        assert texture.filter == (expected, expected)


@kinds
def test_filter(ctx: moderngl.Context, kind: str) -> None:
    texture = MAKERS[kind](ctx)
    texture.filter = [np.int64(moderngl.NEAREST), moderngl.LINEAR]
    assert texture.filter == (moderngl.NEAREST, moderngl.LINEAR)
    for wrong in (None, 9728, (9728,), (9728, 9729, 9728), (9728, 9729.0), ("a", "b"), (1 << 64, 9729)):
        with pytest.raises(moderngl.Error, match=r"^invalid filter$"):
            texture.filter = wrong
    assert texture.filter == (moderngl.NEAREST, moderngl.LINEAR)
    assert ctx.error == "GL_NO_ERROR"
    texture.filter = 1, 2
    assert texture.filter == (1, 2)  # moderngl shows what it handed to OpenGL
    assert ctx.error == "GL_INVALID_ENUM"


@pytest.mark.parametrize(
    ("kind", "axes"), (("texture", "xy"), ("texture3d", "xyz"), ("texture_array", "xy"), ("texture_cube", ""))
)
def test_repeat(ctx: moderngl.Context, kind: str, axes: str) -> None:
    texture = MAKERS[kind](ctx)
    for axis in "xyz":
        name = f"repeat_{axis}"
        if axis not in axes:
            assert not hasattr(texture.mglo, name)
            continue
        assert getattr(texture, name) is True
        setattr(texture, name, False)
        assert getattr(texture, name) is False
        for wrong in (1, None, np.True_):
            with pytest.raises(moderngl.Error, match=f"^invalid value for texture_{axis}$"):
                setattr(texture, name, wrong)
        assert getattr(texture, name) is False
        setattr(texture, name, True)
        assert getattr(texture, name) is True


def test_repeat_and_filter_are_seen(ctx: moderngl.Context) -> None:
    texture = ctx.texture((2, 1), 1, struct.pack("2f", 1.0, 3.0), dtype="f4")
    texture.use()

    def seen(x: float) -> float:
        return pixel(ctx, "uniform sampler2D image;", f"texture(image, vec2({x}, 0.5))")[0]

    assert seen(0.5) == 2.0
    assert seen(1.25) == 1.0
    texture.repeat_x = False
    assert seen(1.25) == 3.0
    texture.filter = moderngl.NEAREST, moderngl.NEAREST
    assert seen(0.4) == 1.0
    texture.swizzle = "1"
    assert seen(0.9) == 1.0


def test_to_ask_for_the_swizzle_binds_the_texture_to_the_default_unit(ctx: Any) -> None:
    texture, depth = ctx.texture((2, 2), 4), ctx.depth_texture((2, 2))
    ctx.default_texture_unit = -1
    assert (texture.swizzle, ctx.error, ctx.error) == ("RGBA", "GL_INVALID_ENUM", "GL_NO_ERROR")
    assert (texture.repeat_x, texture.filter[0] > 0, depth.compare_func, ctx.error) == (True, True, "<=", "GL_NO_ERROR")
    ctx.default_texture_unit = 0
    assert (texture.swizzle, ctx.error) == ("RGBA", "GL_NO_ERROR")


@kinds
def test_swizzle(ctx: moderngl.Context, kind: str) -> None:
    texture = MAKERS[kind](ctx)
    assert texture.swizzle == "RGBA"
    for text, expected in (
        ("bgr", "BGRA"), ("a", "AGRA"), ("01", "01RA"), ("rgba", "RGBA"), ("1\0x", "1GBA"), ("RRR1", "RRR1")
    ):  # fmt: skip
        texture.swizzle = text
        assert texture.swizzle == expected
    for text, message in (
        ("", "the swizzle is empty"),
        ("\0r", "the swizzle is empty"),
        ("rgbar", "the swizzle is too long"),
        ("rx", "'x' is not a valid swizzle parameter"),
        ("xrgba", "'x' is not a valid swizzle parameter"),
    ):
        with pytest.raises(moderngl.Error) as caught:
            texture.swizzle = text
        assert str(caught.value) == message
    assert texture.swizzle == "RRR1"


@pytest.mark.parametrize("kind", ("texture", "texture_array", "texture_cube"))
def test_anisotropy(ctx: moderngl.Context, kind: str) -> None:
    texture = MAKERS[kind](ctx)
    assert texture.anisotropy == 0.0
    for value, expected in ((0, 1.0), (1.1, 1.100000023841858), (1e9, ctx.max_anisotropy), (float("nan"), 1.0)):
        texture.anisotropy = value
        assert texture.anisotropy == expected
    texture.anisotropy = np.float32(2.0)
    with pytest.raises(SystemError) as caught:
        texture.anisotropy = "x"
    setter = vars(type(texture))["anisotropy"].fset
    assert str(caught.value) == f"{setter!r} returned a result with an exception set"
    assert str(caught.value.__cause__) == "must be real number, not str"
    assert texture.anisotropy == 1.0


def depth_textures(ctx: moderngl.Context) -> tuple[moderngl.Texture, moderngl.TextureCube]:
    return ctx.depth_texture((4, 4)), ctx.depth_texture_cube((4, 4))


def test_compare_func(ctx: moderngl.Context) -> None:
    for texture in depth_textures(ctx):
        assert texture.compare_func == "<="
        for func in ("<", ">=", ">", "==", "!=", "0", "1", "?", "<="):
            texture.compare_func = func
            assert texture.compare_func == func
        texture.compare_func = ">\0x"
        assert texture.compare_func == ">"
        texture.compare_func = "what"
        assert texture.compare_func == "?"
        with pytest.raises(TypeError, match=r"^bad argument type for built-in operation$"):
            texture.compare_func = None  # type: ignore[assignment]
        for attempt in (lambda t=texture: t.swizzle, lambda t=texture: setattr(t, "swizzle", "r")):
            with pytest.raises(moderngl.Error, match=r"^cannot (get swizzle of|set swizzle for) depth textures$"):
                attempt()
    for kind in ("texture", "texture_cube"):
        color = MAKERS[kind](ctx)
        with pytest.raises(moderngl.Error, match=r"^only depth textures have compare_func$"):
            color.compare_func = "<"
        with pytest.raises(moderngl.Error, match=r"^only depth textures have compare_func$"):
            _ = color.compare_func


# --- depth, samples, renderbuffers


def test_depth(ctx: moderngl.Context) -> None:
    values = np.linspace(0.0, 1.0, 16, dtype="f4")
    texture, cube = depth_textures(ctx)
    assert (texture.repeat_x, texture.repeat_y, texture.filter) == (False, False, (9729, 9729))
    assert (texture.depth, texture.components, texture.dtype) == (True, 1, "f4")
    texture.write(values)
    cube.write(3, values)
    for data in (texture.read(), cube.read(3), ctx.depth_texture((4, 4), values).read()):
        assert np.abs(np.frombuffer(data, "f4") - values).max() < 1e-6
    buffer = ctx.buffer(reserve=64)
    texture.read_into(buffer)
    assert buffer.read() == texture.read()


def test_a_depth_cube_with_data(ctx: moderngl.Context) -> None:
    values = np.repeat(np.linspace(0.0, 1.0, 6, dtype="f4"), 4)
    cube = ctx.depth_texture_cube((2, 2), values)
    found = np.frombuffer(b"".join(cube.read(n) for n in range(6)), "f4")
    assert np.abs(found - values).max() < 1e-6


def test_samples(ctx: moderngl.Context) -> None:
    texture = ctx.texture((4, 4), 4, samples=4)
    resolved = ctx.framebuffer(ctx.texture((4, 4), 4))
    multisample = ctx.framebuffer(texture)
    assert (texture.samples, multisample.samples) == (4, 4)
    multisample.clear(1.0, 0.5, 0.0, 1.0)
    ctx.copy_framebuffer(resolved, multisample)
    assert resolved.read(components=4)[:4] in (b"\xff\x7f\x00\xff", b"\xff\x80\x00\xff")
    assert texture.swizzle == "RGBA"
    assert ctx.error == "GL_NO_ERROR"
    texture.repeat_x = False
    assert ctx.error == "GL_INVALID_ENUM"
    assert texture.repeat_x is False


def test_renderbuffers(ctx: moderngl.Context) -> None:
    color, depth = ctx.renderbuffer((4, 2), 2, dtype="f4"), ctx.depth_renderbuffer((4, 2))
    assert (color.size, color.components, color.dtype, color.samples) == ((4, 2), 2, "f4", 0)
    assert (color.depth, depth.depth, color.glo > 0, depth.glo != color.glo) == (False, True, True, True)
    fbo = ctx.framebuffer(color, depth)
    fbo.clear(0.25, 2.0, depth=0.5)
    assert fbo.read(components=2, dtype="f4") == struct.pack("2f", 0.25, 2.0) * 8
    also = ctx.texture((4, 2), 4, renderbuffer=True)  # type: ignore[call-arg]
    assert type(also.mglo) is type(color.mglo)
    assert ctx.error == "GL_NO_ERROR"
    color.release()
    color.release()
    assert color.glo > 0


def test_internal_format(ctx: moderngl.Context) -> None:
    srgb = 0x8C43  # GL_SRGB8_ALPHA8
    texture = ctx.texture((1, 1), 4, b"\xbc\xbc\xbc\xff", internal_format=srgb)
    texture.use()
    assert abs(pixel(ctx, "uniform sampler2D image;", "texture(image, uv)")[0] - 0.5028) < 0.002
    cube = ctx.texture_cube((1, 1), 4, b"\xbc\xbc\xbc\xff" * 6, internal_format=srgb)
    cube.use(1)
    assert ctx.error == "GL_NO_ERROR"


# --- using


@pytest.mark.parametrize("way", ("read", "write", "both"))
@kinds
def test_images_of_a_compute_shader(ctx: moderngl.Context, kind: str, way: str) -> None:
    image, at = {"texture": ("image2D", "ivec2(1, 2)"), "texture_cube": ("imageCube", "ivec3(1, 2, 2)")}.get(
        kind, ("image3D" if kind == "texture3d" else "image2DArray", "ivec3(1, 0, 1)")
    )
    texture = MAKERS[kind](ctx)
    texture.write(*face(texture), DATA)
    shader = ctx.compute_shader(f"""#version 430
        layout(local_size_x=1) in;
        layout(binding=3, rgba8) uniform {image} image;
        layout(binding=0) buffer Seen {{ vec4 seen; }};
        void main() {{
            seen = {"imageLoad(image, " + at + ")" if way != "write" else "vec4(0.0)"};
            {"imageStore(image, " + at + ", vec4(1.0, 0.0, 1.0, 0.0));" if way != "read" else ""}
        }}""")
    seen = ctx.buffer(reserve=16)
    seen.bind_to_storage_buffer(0)
    texture.bind_to_image(3, read=way != "write", write=way != "read")
    shader.run()
    ctx.memory_barrier()
    start = 36
    data = texture.read(*face(texture))
    texel = DATA[start : start + 4] if way == "read" else b"\xff\x00\xff\x00"
    assert data == DATA[:start] + texel + DATA[start + 4 :]
    if way != "write":
        assert [round(x * 255) for x in struct.unpack("4f", seen.read())] == list(DATA[start : start + 4])
    assert ctx.error == "GL_NO_ERROR"


def test_an_image_of_another_format(ctx: moderngl.Context) -> None:
    texture = ctx.texture((1, 1), 4, b"\1\2\3\4")
    shader = ctx.compute_shader("""#version 430
        layout(local_size_x=1) in;
        layout(binding=0, r32ui) uniform uimage2D image;
        void main() { imageAtomicAdd(image, ivec2(0), 0x01010101u); }""")
    texture.bind_to_image(0, format=0x8236)  # GL_R32UI
    shader.run()
    ctx.memory_barrier()
    assert texture.read() == b"\2\3\4\5"


def test_units(ctx: moderngl.Context) -> None:
    one, two = ctx.texture((1, 1), 1, b"\x01", dtype="u1"), ctx.texture((1, 1), 1, b"\x02", dtype="u1")
    one.use()
    two.use(location=np.int64(1))  # type: ignore[arg-type]
    color = "vec4(texture(first, uv).r, texture(second, uv).r, 0.0, 1.0)"
    assert pixel(ctx, "uniform usampler2D first, second;", color, second=1) == (1.0, 2.0, 0.0, 1.0)


@kinds
def test_release(ctx: moderngl.Context, kind: str) -> None:
    texture = MAKERS[kind](ctx)
    texture.release()
    texture.release()
    assert texture.glo > 0
    with pytest.raises(AttributeError, match="'InvalidObject' object has no attribute 'read'"):
        texture.read(*face(texture))
    assert ctx.error == "GL_NO_ERROR"


# --- what only the recording objects have


def test_nothing_but_reading_waits(near_by: moderngl.Context) -> None:
    traffic = glremote.device(near_by).traffic
    before = traffic.waits
    for make in MAKERS.values():
        texture = make(near_by)
        texture.write(*face(texture), DATA)
        texture.use()
        texture.swizzle = texture.swizzle[::-1]
        texture.build_mipmaps()
        read_into(texture, near_by.buffer(reserve=64))
        texture.release()
    assert traffic.waits == before


@pytest.mark.parametrize(
    ("box", "size", "expected"),
    (
        ((1, 2, 3, 4, 4, 4), 64, [(1, 2, 3, 4, 4, 4)]),
        ((1, 2, 3, 4, 4, 4), 64 << 20, [(1, 2, n, 4, 4, 1) for n in (3, 4, 5, 6)]),
        ((1, 2, 3, 4, 4, 5), 20 << 20, [(1, 2, 3, 4, 4, 4), (1, 2, 7, 4, 4, 1)]),
        ((1, 2, 0, 4, 5, 1), 20 << 20, [(1, 2, 0, 4, 4, 1), (1, 6, 0, 4, 1, 1)]),
        ((0, 0, 0, 4, 3, 2), 60 << 20, [(0, y, z, 4, 1, 1) for z in (0, 1) for y in (0, 1, 2)]),
    ),
)
def test_pieces(box: Any, size: int, expected: list[Any]) -> None:
    data = memoryview(bytes(size))
    found = list(textures.pieces(box, data))
    assert [piece for piece, _ in found] == expected
    assert sum(len(part) for _, part in found) == size


def test_what_was_set_is_set_again(near_by: moderngl.Context) -> None:
    texture = near_by.texture((4, 4), 4)
    texture.swizzle = "1"
    texture.repeat_x = False
    texture.swizzle = "bg"
    texture.build_mipmaps()
    mglo: Any = texture.mglo
    assert [(type(command).__name__, command.value) for command in mglo.restore()] == [
        ("TextureRepeatX", False),
        ("TextureSwizzle", "BGBA"),
        ("TextureFilter", (moderngl.LINEAR_MIPMAP_LINEAR, moderngl.LINEAR)),
    ]
    texture.release()
    assert list(mglo.restore()) == []


def test_what_a_fault_dropped_is_set_again(near_by: moderngl.Context) -> None:
    texture = near_by.texture((2, 1), 1, struct.pack("2f", 1.0, 3.0), dtype="f4")
    texture.use()
    sampler = near_by.sampler()
    mglo: Any = texture.mglo
    mglo.recorder.record(c.TextureSwizzle(mglo.handle, "wrong"))  # ours would not record it
    texture.filter = moderngl.NEAREST, moderngl.NEAREST
    texture.repeat_x = False
    sampler.filter = moderngl.LINEAR, moderngl.LINEAR
    sampler.border_color = 7.0, 0.0, 0.0, 1.0
    with pytest.raises(moderngl.Error, match="'w' is not a valid swizzle parameter"):
        near_by.finish()
    color = "vec4(texture(image, vec2(0.4, 0.5)).r, texture(image, vec2(1.4, 0.5)).r, 0.0, 0.0)"
    assert pixel(near_by, "uniform sampler2D image;", color)[:2] == (1.0, 3.0)
    sampler.use()
    assert pixel(near_by, "uniform sampler2D image;", color)[1] == 7.0
    assert near_by.error == "GL_NO_ERROR"


def test_a_block_that_is_left_sets_nothing(near_by: moderngl.Context) -> None:
    texture = near_by.texture((2, 2), 4, DATA[:16])
    with pytest.raises(ZeroDivisionError), glremote.command_buffer(near_by):
        texture.filter = 9728, 9728
        texture.build_mipmaps()
        texture.write(bytes(16))
        raise ZeroDivisionError
    assert (texture.filter, texture.read()) == ((9729, 9729), DATA[:16])
    with pytest.raises(moderngl.Error, match=r"^invalid level$"):
        texture.read(1)
