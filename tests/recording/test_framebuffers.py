"""Framebuffers: what is cleared is read, in every format; masks, viewports and scissors hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import moderngl
import numpy as np
import pytest

import glremote
from tests.recording.fullscreen import triangle
from tests.recording.raising import raised

Error = moderngl.Error
Image = np.ndarray[Any, Any]
SIZE = 4, 3
TEXEL = {dtype: np.dtype(dtype.lstrip("n")) for dtype in ("f2", "f4", "nu1", "nu2", "ni1", "ni2")} | {
    "f1": np.dtype("u1")
}
"""What numpy calls a component that is read from floats."""


def filled(ctx: moderngl.Context, dtype: str, components: int = 4) -> tuple[Any, Image]:
    """A framebuffer of noise, and that: 0 and 1 where it is floats, so that no format rounds them."""
    random = np.random.default_rng(components)
    shape = (SIZE[1], SIZE[0], components)
    image = random.integers(0, 2 if dtype[0] == "f" else 100, shape).astype(dtype if dtype != "f1" else "u1")
    data = image * np.uint8(255) if dtype == "f1" else image
    return ctx.framebuffer(ctx.texture(SIZE, components, data, dtype=dtype)), image


def unpadded(data: bytes, dtype: np.dtype[Any], width: int, height: int, components: int, alignment: int) -> Image:
    """The pixels of rows that are padded to a multiple of `alignment`."""
    row = width * components * dtype.itemsize
    rows = np.frombuffer(data, "u1").reshape(height, -(-row // alignment) * alignment)
    return rows[:, :row].copy().view(dtype).reshape(height, width, components)


def pixels(fbo: moderngl.Framebuffer, attachment: int = 0) -> list[list[tuple[float, ...]]]:
    """Rows of pixels of 4 floats."""
    image = np.frombuffer(fbo.read(components=4, attachment=attachment, dtype="f4"), "f4")
    return [list(map(tuple, row)) for row in image.reshape(fbo.height, fbo.width, 4).tolist()]


def pair(ctx: moderngl.Context) -> Any:
    """A framebuffer of two attachments and depth, all floats."""
    colors = [ctx.texture((2, 2), 4, dtype="f4") for _ in range(2)]
    made = ctx.framebuffer(colors, ctx.depth_texture((2, 2)))
    made.clear()
    return made


# --- reading


def test_reads_floats_as_every_dtype(ctx: moderngl.Context) -> None:
    for stored in ("f1", "f2", "f4"):
        fbo, image = filled(ctx, stored)
        for dtype, kind in TEXEL.items():
            most = np.iinfo(kind).max if kind.kind in "iu" else 1
            for components in (1, 2, 3, 4):
                for alignment in (1, 2, 4, 8):
                    data = fbo.read(components=components, alignment=alignment, dtype=dtype)
                    found = unpadded(data, kind, *SIZE, components, alignment)
                    assert (found == image[..., :components].astype("f8") * most).all(), (
                        stored,
                        dtype,
                        components,
                        alignment,
                    )
    assert ctx.error == "GL_NO_ERROR"


def test_reads_integers(ctx: moderngl.Context) -> None:
    for stored in ("u1", "u2", "u4", "i1", "i2", "i4"):
        for components in (1, 2, 4):
            fbo, image = filled(ctx, stored, components)
            for dtype in {stored, stored[0] + "4"}:
                data = fbo.read(components=components, alignment=8, dtype=dtype)
                assert (unpadded(data, np.dtype(dtype), *SIZE, components, 8) == image).all()
    assert ctx.error == "GL_NO_ERROR"
    fbo, image = filled(ctx, "f4", 1)  # three components are not there
    found = np.frombuffer(fbo.read(components=4, dtype="f4"), "f4").reshape(*image.shape[:2], 4)
    assert (found == np.concatenate([image, image * 0, image * 0, image * 0 + 1], axis=2)).all()


def test_reads_a_part(ctx: moderngl.Context) -> None:
    fbo, image = filled(ctx, "f1")
    whole = image * np.uint8(255)
    parts: tuple[tuple[Any, Image], ...] = (
        (None, whole),
        ((2, 3), whole[:3, :2]),
        ([2, 1], whole[:1, :2]),
        ((1, 0, 3, 2), whole[:2, 1:4]),
        ((np.int64(3), 2, 1, 1), whole[2:, 3:]),
        ((0, 0), whole[:0]),
    )
    for viewport, expected in parts:
        assert fbo.read(viewport, 4) == expected.tobytes()
        memory = bytearray(expected.nbytes + 4)
        assert fbo.read_into(memory, viewport, 4, write_offset=2) == expected.nbytes
        assert memory == b"\0\0" + expected.tobytes() + b"\0\0"
    assert fbo.read() == whole[..., :3].tobytes()  # three components of one byte
    fbo = ctx.framebuffer(ctx.texture((1, 1), 4, np.array([-1, 0.5, 2, 1], "f4"), dtype="f4"))
    assert np.frombuffer(fbo.read(components=4, dtype="f4"), "f4").tolist() == [-1, 0.5, 2, 1]
    assert np.frombuffer(fbo.read(components=4, dtype="f4", clamp=True), "f4").tolist() == [0, 0.5, 1, 1]


def test_reads_depth(ctx: moderngl.Context) -> None:
    fbo = pair(ctx)
    fbo.clear(depth=0.25)
    fbo.clear(depth=1.0, viewport=(1, 0, 1, 2))
    read = fbo.read(components=1, attachment=-1, dtype="f4")
    assert np.frombuffer(read, "f4").tolist() == pytest.approx([0.25, 1.0] * 2)
    memory, buffer = bytearray(16), ctx.buffer(bytes(20))
    assert fbo.read_into(memory, attachment=-1, dtype="f4") == 16  # of one component, whatever is said
    fbo.read_into(buffer, attachment=-1, dtype="f4", write_offset=4)
    assert memory == read == buffer.read()[4:]
    assert fbo.read(components=3, attachment=-1, dtype="f4")[:16] == read
    assert np.frombuffer(fbo.read((2, 1), 1, -1, dtype="nu2"), "u2").tolist() == [0x4000, 0xFFFF]
    assert ctx.error == "GL_NO_ERROR"


def test_reads_into(ctx: moderngl.Context) -> None:
    fbo, image = filled(ctx, "f4")
    array = np.zeros((SIZE[1] + 1, SIZE[0], 4), "f4")
    assert fbo.read_into(array[1:], components=4, dtype="f4") == image.nbytes
    assert (array[1:] == image).all() and not array[0].any()
    buffer = ctx.buffer(bytes(image.nbytes + 16))
    assert fbo.read_into(buffer, components=4, dtype="f4", write_offset=16) == image.nbytes
    assert buffer.read() == bytes(16) + image.tobytes()
    assert ctx.error == "GL_NO_ERROR"
    assert fbo.read_into(ctx.buffer(reserve=8), components=4) == SIZE[0] * SIZE[1] * 4
    assert ctx.error == "GL_INVALID_OPERATION"  # it is too small, which OpenGL finds out


ALIGNMENT, VIEWPORT = "the alignment must be 1, 2, 4 or 8", "wrong values in the viewport"
SMALL, INDEX = "the buffer is too small", "'{}' object cannot be interpreted as an integer"
NOT_BYTES = "a bytes-like object is required, not '{}'"

WRONG_READS: tuple[tuple[type[Exception], str, Callable[[Any], Any]], ...] = (
    (Error, ALIGNMENT, lambda x: x.read(alignment=3)),
    (Error, ALIGNMENT, lambda x: x.read_into(None, 1, alignment=0, dtype="x")),
    (Error, "invalid dtype", lambda x: x.read(dtype="f8")),
    (Error, "invalid dtype", lambda x: x.read_into(None, 1, dtype="")),
    (TypeError, "argument 6 must be str, not None", lambda x: x.read(dtype=None)),
    (TypeError, "argument 7 must be str, not int", lambda x: x.read_into(None, dtype=1)),
    (ValueError, "embedded null character", lambda x: x.read_into(None, dtype="f1\0")),
    (UnicodeEncodeError, "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed",
     lambda x: x.read_into(None, dtype="\ud800")),
    (Error, VIEWPORT, lambda x: x.read_into(bytearray(99), 1)),
    (Error, VIEWPORT, lambda x: x.read_into(bytearray(99), (1, 2, 3))),
    (Error, VIEWPORT, lambda x: x.read_into(bytearray(99), (0, 0, 1.0, 1))),
    (Error, VIEWPORT, lambda x: x.read_into(bytearray(99), (0, 0, 1 << 63, 1))),
    (IndexError, "tuple index out of range", lambda x: x.read((1, 2, 3))),
    (TypeError, INDEX.format("float"), lambda x: x.read((0, 0, 1.0, 1))),
    (TypeError, INDEX.format("float"), lambda x: x.read(components=1.0)),
    (TypeError, INDEX.format("NoneType"), lambda x: x.read_into(None, attachment=None)),
    (TypeError, INDEX.format("str"), lambda x: x.read_into(bytearray(99), write_offset="1")),
    (TypeError, NOT_BYTES.format("NoneType"), lambda x: x.read_into(None)),
    (TypeError, NOT_BYTES.format("Texture"), lambda x: x.read_into(x.color_attachments[0])),
    (BufferError, "Object is not writable.", lambda x: x.read_into(bytes(99))),
    (ValueError, "ndarray is not C-contiguous", lambda x: x.read_into(np.zeros((9, 9))[:, ::2])),
    (Error, SMALL, lambda x: x.read_into(bytearray(35))),
    (Error, SMALL, lambda x: x.read_into(bytearray(36), write_offset=1)),
    (Error, SMALL, lambda x: x.read_into(bytearray(39), alignment=8)),
)  # fmt: skip


def test_wrong_reads(ctx: moderngl.Context) -> None:
    fbo = ctx.framebuffer(ctx.texture(SIZE, 4))
    for kind, text, call in WRONG_READS:
        assert raised(call, fbo) == (kind, text)
    assert ctx.error == "GL_NO_ERROR"
    for attachment in (1, 1 << 16, -2, -1):  # what is there, only OpenGL knows
        assert len(fbo.read(attachment=attachment)) == 36
        assert ctx.error != "GL_NO_ERROR"
        assert ctx.error == "GL_NO_ERROR"
    for more, size in (({"components": 5}, 60), ({"dtype": "u4"}, 144)):
        assert len(fbo.read(**more)) == size
        assert ctx.error != "GL_NO_ERROR"
    assert len(ctx.simple_framebuffer(SIZE, samples=4).read()) == 36
    assert ctx.error == "GL_INVALID_OPERATION"


def test_where_moderngl_would_write_before_the_memory(remote: moderngl.Context) -> None:
    fbo = remote.framebuffer(remote.texture(SIZE, 4))
    assert raised(fbo.read_into, bytearray(99), write_offset=-1) == (Error, SMALL)


# --- clearing


def test_clears_all_attachments(ctx: Any) -> None:
    fbo = pair(ctx)
    fbo.clear(0.25, 2.0, -1.0, 1.0, 0.5)
    assert pixels(fbo) == pixels(fbo, 1) == [[(0.25, 2.0, -1.0, 1.0)] * 2] * 2
    assert np.frombuffer(fbo.read(components=1, attachment=-1, dtype="f4"), "f4").tolist() == pytest.approx([0.5] * 4)
    fbo.clear(1.0, color=(0.5, 0.75))
    assert pixels(fbo) == [[(0.5, 0.75, 0.0, 0.0)] * 2] * 2
    fbo.use()
    ctx.clear(color=[1, 0, np.float32(0.5), True, 9])
    assert pixels(fbo, 1) == [[(1.0, 0.0, 0.5, 1.0)] * 2] * 2
    ctx.clear(0.1)
    assert pixels(fbo)[0][0][0] == np.float32(0.1)
    assert ctx.error == "GL_NO_ERROR"


def test_clears_a_part(ctx: Any) -> None:
    fbo = ctx.framebuffer(ctx.texture((3, 2), 1, dtype="f4"))
    fbo.use()

    def reds() -> list[list[float]]:
        return [[pixel[0] for pixel in row] for row in pixels(fbo)]

    fbo.clear()
    fbo.clear(1.0, viewport=(1, 1, 1, 1))
    fbo.clear(2.0, viewport=(1, 1))  # two numbers: at the origin
    fbo.clear(3.0, viewport=[2, 0, 9, 9])
    ctx.clear(4.0, viewport=(0, 1, 1, 0))
    assert reds() == [[2, 0, 3], [0, 1, 3]]
    fbo.viewport = 0, 0, 1, 1
    fbo.scissor = 1, 0, 1, 2
    fbo.clear(5.0)  # the scissor matters, the viewport does not
    assert reds() == [[2, 5, 3], [0, 5, 3]]
    fbo.clear(6.0, viewport=(0, 0, 3, 1))  # a viewport that is given goes before the scissor
    assert reds() == [[6, 6, 6], [0, 5, 3]]
    ctx.scissor = None
    ctx.clear()
    assert reds() == [[0] * 3] * 2
    assert ctx.error == "GL_NO_ERROR"


def test_a_clear_leaves_the_scissor_test_on(ctx: moderngl.Context) -> None:
    bound, other = ctx.framebuffer(ctx.texture((4, 1), 4)), ctx.framebuffer(ctx.texture((4, 1), 4))
    bound.clear()
    bound.use()
    other.scissor = 1, 0, 2, 1
    other.clear(1.0)
    triangle(ctx, "", "vec4(1.0)").render(vertices=3)  # moderngl leaves GL_SCISSOR_TEST as the other set it
    assert bound.read(components=1) == b"\0\xff\xff\0"


def test_masks(ctx: moderngl.Context) -> None:
    fbo = pair(ctx)
    assert (fbo.color_mask, fbo.depth_mask) == (((True,) * 4,) * 2, True)
    fbo.color_mask = (1, 0, "x", ()), [True, True, False, False]
    fbo.depth_mask = False
    assert (fbo.color_mask, fbo.depth_mask) == (((True, False, True, False), (True, True, False, False)), False)
    fbo.clear(1.0, 1.0, 1.0, 1.0, 0.0)
    assert (pixels(fbo)[0][0], pixels(fbo, 1)[0][0]) == ((1, 0, 1, 0), (1, 1, 0, 0))
    assert set(fbo.read(components=1, attachment=-1)) == {255}
    fbo.use()
    triangle(ctx, "layout(location=1) out vec4 second;", "second = vec4(2.0)").render(vertices=3)
    assert (pixels(fbo)[0][0], pixels(fbo, 1)[0][0]) == ((2, 0, 2, 0), (2, 2, 0, 0))
    fbo.color_mask = ((False,) * 4,)  # the first; it is bound, and the second stays
    triangle(ctx, "layout(location=1) out vec4 second;", "second = vec4(3.0)").render(vertices=3)
    assert (pixels(fbo)[0][0], pixels(fbo, 1)[0][0]) == ((2, 0, 2, 0), (3, 3, 0, 0))
    assert ctx.error == "GL_NO_ERROR"


def test_a_single_mask_holds_from_the_next_use_on(ctx: moderngl.Context) -> None:
    texture = ctx.texture((1, 1), 4)
    fbo = ctx.framebuffer(texture)
    fbo.use()
    array = triangle(ctx, "", "vec4(1.0)")
    fbo.color_mask = True, False, False, True
    array.render(vertices=3)
    assert (fbo.color_mask, fbo.read(components=4)) == ((True, False, False, True), b"\xff" * 4)
    texture.write(bytes(4))
    fbo.use()
    array.render(vertices=3)
    assert fbo.read(components=4) == b"\xff\0\0\xff"


def test_wrong_masks(ctx: moderngl.Context) -> None:
    single: Any = ctx.framebuffer(ctx.texture((1, 1), 4))
    double = pair(ctx)
    mask, no = (True,) * 4, (False,) * 4

    class Undecided:
        def __bool__(self) -> bool:
            raise ZeroDivisionError

    for wrong in (None, 1, True, (), (1, 0, 1), (1,) * 5, (mask, mask), np.eye(4), (1, 0, 1, Undecided())):
        assert raised(setattr, single, "color_mask", wrong) == (Error, "invalid color mask")
        assert single.color_mask == mask
    for item in (None, mask, (mask, 5), (mask, (1, 1))):
        assert raised(setattr, double, "color_mask", item) == (Error, "invalid color mask")
        assert double.color_mask == (mask, mask)
    assert raised(setattr, double, "color_mask", (no, 5)) == (Error, "invalid color mask")
    assert double.color_mask == (no, mask)  # those before the wrong one are set
    double.color_mask = (mask,) * 64
    text = "too many color masks (65), the maximum is 64"
    assert raised(setattr, double, "color_mask", (no,) * 65) == (Error, text)
    assert double.color_mask == (mask, mask)
    for value, name in ((1, "int"), (None, "NoneType"), (np.bool_(True), type(np.bool_(True)).__name__)):
        text = f"the depth_mask must be a bool not {'numpy.' if name not in ('int', 'NoneType') else ''}{name}"
        assert raised(setattr, double, "depth_mask", value) == (Error, text)
    assert ctx.error == "GL_NO_ERROR"


# --- viewport and scissor


def test_viewports_and_scissors(ctx: Any) -> None:
    one, two = (cast(Any, ctx.framebuffer(ctx.texture((4, 3), 4))) for _ in range(2))
    array = triangle(ctx, "", "vec4(1.0)")

    def drawn(fbo: Any) -> list[int]:
        fbo.clear(viewport=(9, 9))
        array.render(vertices=3)
        return [i for i, byte in enumerate(fbo.read(components=1)) if byte]

    assert (ctx.screen, ctx.viewport, ctx.scissor) == (None, (0, 0, 0, 0), (0, 0, 0, 0))
    array.render(vertices=3)
    assert ctx.error == "GL_INVALID_FRAMEBUFFER_OPERATION"  # there is none yet
    ctx.clear()
    assert ctx.error == "GL_INVALID_FRAMEBUFFER_OPERATION"
    assert (one.viewport, one.scissor) == ((0, 0, 4, 3), (0, 0, 4, 3))
    one.use()
    assert ctx.fbo is one
    ctx.viewport = 1.9, 1, np.int64(2), "1"  # moderngl makes them ints
    assert (one.viewport, ctx.viewport, drawn(one)) == ((1, 1, 2, 1), (1, 1, 2, 1), [5, 6])
    one.scissor = 2, 0, 2, 3
    assert (one.scissor, ctx.scissor, drawn(one)) == ((2, 0, 2, 3), (2, 0, 2, 3), [6])
    two.viewport, two.scissor = (0, 0, 1, 1), (0, 0, 9, 9)
    assert drawn(one) == [6]  # the other one is not bound
    two.use()
    assert (two.viewport, two.scissor, drawn(two)) == ((0, 0, 1, 1), (0, 0, 9, 9), [0])
    two.scissor = None
    assert two.scissor == (0, 0, 4, 3)
    one.use()
    assert (ctx.viewport, drawn(one)) == ((1, 1, 2, 1), [6])
    ctx.scissor = None
    assert (ctx.scissor, drawn(one)) == ((0, 0, 4, 3), [5, 6])
    assert ctx.error == "GL_NO_ERROR"


def test_wrong_viewports_and_scissors(ctx: moderngl.Context) -> None:
    fbo = ctx.framebuffer(ctx.texture((4, 3), 4))
    fbo.use()
    for thing in (fbo, ctx):
        for name in ("viewport", "scissor"):
            wrong: tuple[tuple[type[Exception], str, Any], ...] = (
                (TypeError, "cannot unpack non-iterable int object", 1),
                (ValueError, "not enough values to unpack (expected 4, got 2)", (2, 2)),
                (ValueError, "too many values to unpack (expected 4)", (0, 0, 2, 2, 2)),
                (TypeError, "int() argument must be a string, a bytes-like object or a real number, not 'NoneType'",
                 (0, 0, None, 2)),
                (Error, f"wrong values in the {name}", (0, 0, 1 << 63, 2)),
            )  # fmt: skip
            for kind, text, value in wrong:
                assert raised(setattr, thing, name, value) == (kind, text)
    assert (fbo.viewport, fbo.scissor) == ((0, 0, 4, 3), (0, 0, 4, 3))
    for value in (1, (1, 2, 3), (0, 0, 1.0, 1), "abcd"):
        assert raised(fbo.clear, viewport=tuple(value) if not isinstance(value, int) else [1]) == (Error, VIEWPORT)
        assert raised(ctx.clear, viewport=value) == (Error, VIEWPORT)
    for name in ("red", "depth"):
        assert raised(fbo.clear, **{name: "x"}) == (TypeError, "must be real number, not str")
    assert raised(fbo.clear, color=1) == (TypeError, "'int' object is not iterable")
    ctx.viewport = 0, 0, -1, 1
    assert (ctx.viewport, ctx.error) == ((0, 0, -1, 1), "GL_INVALID_VALUE")


# --- making


def test_what_it_is_made_of(ctx: moderngl.Context) -> None:
    texture, renderbuffer = ctx.texture((2, 2), 4), ctx.renderbuffer((2, 2), 3, dtype="f2")
    depth = ctx.depth_renderbuffer((2, 2))
    fbo = ctx.framebuffer([texture, renderbuffer], depth)
    assert (fbo.size, fbo.width, fbo.height, fbo.samples) == ((2, 2), 2, 2, 0)
    assert fbo.color_attachments == (texture, renderbuffer)
    assert fbo.color_attachments[0] is texture and fbo.depth_attachment is depth
    assert ctx.framebuffer(texture).color_attachments == (texture,)
    only: Any = ctx.framebuffer(depth_attachment=ctx.depth_texture((2, 2), samples=2))
    assert (only.samples, only.color_mask, only.depth_mask) == (2, (), True)
    only.clear(depth=0.5)
    simple = ctx.simple_framebuffer((3, 2), 2, 4, "f2")
    color = simple.color_attachments[0]
    assert (simple.size, simple.samples, color.components, color.dtype) == ((3, 2), 4, 2, "f2")
    assert (type(fbo.glo), fbo.glo != simple.glo, fbo.extra) == (int, True, None)
    assert raised(lambda: fbo.bits) == (Error, "only the default_framebuffer have bits")
    many = ctx.framebuffer([ctx.texture((1, 1), 1, dtype="f4") for _ in range(8)])
    many.clear(3.0)
    assert [many.read(components=1, attachment=n, dtype="f4") for n in range(8)] == [np.float32(3).tobytes()] * 8
    mixed = ctx.framebuffer([ctx.texture((1, 1), 4, dtype=dtype) for dtype in ("f1", "u1", "i4", "f2")])
    assert len(mixed.color_mask) == 4
    assert ctx.error == "GL_NO_ERROR"


COLOR, DEPTH = "invalid color attachment", "invalid depth attachment"
WRONG: tuple[tuple[type[Exception], str, Callable[[Any], Any]], ...] = (
    (Error, "missing attachments", lambda x: x.framebuffer()),
    (Error, COLOR, lambda x: x.framebuffer([x.texture((4, 4), 4), x.texture((4, 5), 4)])),
    (Error, COLOR, lambda x: x.framebuffer([x.texture((4, 4), 4), x.texture((4, 4), 4, samples=2)])),
    (Error, COLOR, lambda x: x.framebuffer([x.depth_texture((4, 4))])),
    (Error, COLOR, lambda x: x.framebuffer(x.depth_renderbuffer((4, 4)))),
    (Error, COLOR, lambda x: x.framebuffer([x.texture_cube((4, 4), 4)])),
    (Error, COLOR, lambda x: x.framebuffer([x.texture3d((4, 4, 4), 4)])),
    (Error, COLOR, lambda x: x.framebuffer([x.buffer(b"abc")])),
    (Error, COLOR, lambda x: x.framebuffer([x.texture((0, 4), 4)])),
    (Error, DEPTH, lambda x: x.framebuffer((), x.texture((4, 4), 4))),
    (Error, DEPTH, lambda x: x.framebuffer(x.texture((4, 4), 4), x.depth_texture((4, 5)))),
    (Error, DEPTH, lambda x: x.framebuffer(x.texture((4, 4), 4), x.depth_texture((4, 4), samples=4))),
    (Error, DEPTH, lambda x: x.framebuffer(x.texture((4, 4), 4), x.depth_texture_cube((4, 4)))),
    (TypeError, "'NoneType' object is not iterable", lambda x: x.framebuffer(None)),
    (TypeError, "'TextureArray' object is not iterable", lambda x: x.framebuffer(x.texture_array((4, 4, 1), 4))),
    (AttributeError, "'int' object has no attribute 'mglo'", lambda x: x.framebuffer([1])),
    (TypeError, "argument 1 must be 2-item sequence, not int", lambda x: x.empty_framebuffer(4)),
    (TypeError, "argument 1 must be sequence of length 2, not 3", lambda x: x.empty_framebuffer((4, 4, 4))),
    (TypeError, INDEX.format("float"), lambda x: x.empty_framebuffer((4, 4), 1.0)),
)


def test_what_cannot_be_made(ctx: moderngl.Context) -> None:
    for kind, text, call in WRONG:
        ctx.clear_errors()
        assert raised(call, ctx) == (kind, text)


def test_what_is_incomplete_raises_at_the_call(ctx: moderngl.Context) -> None:
    text = "the framebuffer is not complete (INCOMPLETE_ATTACHMENT)"
    most = ctx.info["GL_MAX_TEXTURE_SIZE"]
    for make in (
        lambda: ctx.framebuffer(ctx.texture((most + 1, 1), 4)),
        lambda: ctx.framebuffer(ctx.texture((2**32 - 1, 1), 4)),
        lambda: ctx.framebuffer(ctx.renderbuffer((1, 1 << 20))),
        lambda: ctx.framebuffer(ctx.texture((4, 4), 4, internal_format=1)),
        lambda: ctx.framebuffer([ctx.texture_array((4, 4, 1 << 20), 1)]),
        lambda: ctx.framebuffer(depth_attachment=ctx.depth_texture((1, most + 1))),
    ):
        assert raised(make) == (Error, text)
        ctx.clear_errors()
    assert raised(ctx.empty_framebuffer, (0, 4))[1].startswith("the framebuffer is not complete (INCOMPLETE_")
    fbo = ctx.framebuffer(ctx.texture((4, 4), 4))
    fbo.clear(1.0)
    assert fbo.read((1, 1)) == b"\xff\0\0"
    assert ctx.error == "GL_NO_ERROR"


def test_an_array_is_layered(ctx: moderngl.Context) -> None:
    array = ctx.texture_array((2, 2, 3), 1, bytes(12))
    fbo = ctx.framebuffer([array])
    fbo.clear(1.0)
    assert (fbo.size, array.read()) == ((2, 2), b"\xff" * 12)
    program = ctx.program(
        vertex_shader="#version 330\nvoid main() {}",
        geometry_shader="""#version 330
            layout(points) in;
            layout(points, max_vertices=2) out;
            void main() {
                for (int i = 0; i < 2; ++i) {
                    gl_Layer = 2 * i; gl_Position = vec4(0.5, 0.5, 0.0, 1.0); EmitVertex(); EndPrimitive();
                }
            }""",
        fragment_shader="#version 330\nout float color;\nvoid main() { color = 1.0; }",
    )
    fbo.clear()
    fbo.use()
    ctx.vertex_array(program, []).render(moderngl.POINTS, vertices=1)
    assert array.read() == b"\0\0\0\xff" + bytes(4) + b"\0\0\0\xff"
    two = [ctx.texture_array((2, 2, n), 4) for n in (2, 3)]
    assert len(ctx.framebuffer(two).color_attachments) == 2
    text = "the framebuffer is not complete (INCOMPLETE_LAYER_TARGETS)"
    assert raised(ctx.framebuffer, [array, ctx.texture((2, 2), 4)]) == (Error, text)
    assert raised(ctx.framebuffer, [array], ctx.depth_texture((2, 2))) == (Error, text)
    assert ctx.error == "GL_NO_ERROR"


def test_an_empty_one(ctx: moderngl.Context) -> None:
    fbo: Any = ctx.empty_framebuffer((4, 2), 0, 0)
    assert (fbo.size, fbo.samples, fbo.color_attachments, fbo.depth_attachment) == ((4, 2), 0, (), None)
    assert (fbo.color_mask, fbo.depth_mask, fbo.viewport, fbo.scissor) == ((), False, (0, 0, 4, 2), (0, 0, 4, 2))
    fbo.color_mask = ()
    fbo.use()
    fbo.clear()
    counter = ctx.buffer(bytes(4))
    counter.bind_to_storage_buffer(0)
    count = "layout(std430, binding=0) buffer Counter { uint count; };"
    shader = f"#version 430\n{count}\nvoid main() {{ atomicAdd(count, 1u); }}"
    ctx.vertex_array(ctx.program(VERTEX, shader), []).render(vertices=3)
    ctx.memory_barrier()
    assert int.from_bytes(counter.read(), "little") == 8
    assert ctx.empty_framebuffer((4, 4), samples=4).samples == 4
    assert ctx.error == "GL_NO_ERROR"
    fbo.read()
    assert ctx.error == "GL_INVALID_OPERATION"
    assert (ctx.empty_framebuffer((4, 4), samples=-1).samples, ctx.error) == (-1, "GL_INVALID_VALUE")


VERTEX = """#version 430
void main() { gl_Position = vec4(vec2(gl_VertexID & 1, gl_VertexID >> 1) * 4.0 - 1.0, 0.0, 1.0); }
"""


# --- what only the recording objects have


def test_common_ones_do_not_wait(remote: moderngl.Context) -> None:
    device: Any = glremote.device(remote)
    before = device.measure().waits
    for samples in (0, 2, 4):
        for dtype in ("f1", "f2", "f4"):
            remote.simple_framebuffer((5, 7), 4, samples, dtype).use()
            colors = [remote.texture((300, 200), n, samples=samples, dtype=dtype) for n in (1, 2, 4)]
            fbo = remote.framebuffer(colors, remote.depth_texture((300, 200), samples=samples))
            fbo.clear(viewport=(4, 4))
    integers = [remote.texture((8, 8), n, dtype=dtype) for n in (1, 2, 4) for dtype in ("u4", "i4")]
    remote.framebuffer(integers).scissor = 1, 1, 2, 2
    remote.framebuffer([remote.texture_array((8, 8, 6), 4)]).color_mask = (True,) * 4
    remote.framebuffer(depth_attachment=remote.depth_renderbuffer((8, 8))).depth_mask = False
    fbo.read_into(remote.buffer(reserve=300 * 200 * 3))
    remote.copy_framebuffer(remote.simple_framebuffer((8, 8)), remote.simple_framebuffer((8, 8), samples=4))
    fbo.release()
    assert device.measure().waits == before


@pytest.mark.parametrize("viewport", [None, (7, 5, 2000, 1500)])
def test_a_large_read_comes_in_parts(ctx: Any, viewport: Any) -> None:
    """More than one part, more than the whole stack, and rows that no part ends with."""
    data = np.random.default_rng(5).random((1700, 2501, 4), "f4")
    texture = ctx.texture((2501, 1700), 4, data, dtype="f4")
    fbo = ctx.framebuffer(texture)
    x, y, width, height = viewport or (0, 0, 2501, 1700)
    expected = data[y : y + height, x : x + width]
    assert fbo.read(viewport, components=4, dtype="f4") == expected.tobytes()
    padded = np.frombuffer(fbo.read(viewport, components=1, dtype="f1", alignment=8), "u1").reshape(height, -1)
    assert not glremote.device(ctx).remote or not padded[:, width:].any()  # plain moderngl shows what memory held
    buffer = ctx.buffer(data)
    assert buffer.read(offset=3) == data.tobytes()[3:]
    assert ctx.error == "GL_NO_ERROR"
