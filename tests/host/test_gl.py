"""Raw OpenGL leaves nothing behind: what is zeroed was full before, and all state is as it was."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_int32, c_ubyte
from typing import Any

import moderngl
import pytest

from glremote.host.gl import RENDERBUFFER, TEXTURE_2D_MULTISAMPLE, OpenGL
from glremote.host.zeroing import zeros

SIZE = (5, 3)
SCISSOR_TEST, RASTERIZER_DISCARD, COLOR_MASK, DEPTH_MASK, DRAW, READ = 0x0C11, 0x8C89, 0x0C23, 0x0B72, 0x8CA6, 0x8CAA
DTYPES = ("f1", "f2", "f4", "u1", "u2", "u4", "i1", "i2", "i4")
VERTEX = "#version 330\nvoid main() { gl_Position = vec4(gl_VertexID % 2, gl_VertexID / 2, 0, 0.25); }"
FRAGMENT = "#version 330\nout %s color; void main() { color = %s(1); }"
KINDS = {"f": "vec4", "u": "uvec4", "i": "ivec4"}


@pytest.fixture
def plain(new_context: Callable[..., moderngl.Context]) -> moderngl.Context:
    """moderngl's own context, as the interpreter has one."""
    return new_context("plain")


def state(gl: OpenGL) -> list[Any]:
    """All that zeroing an image touches."""
    color, depth, numbers = (c_ubyte * 4)(), c_ubyte(), []
    gl.glGetBooleani_v(COLOR_MASK, 0, byref(color))
    gl.glGetBooleanv(DEPTH_MASK, byref(depth))
    for name in DRAW, READ:
        number = c_int32()
        gl.glGetIntegerv(name, byref(number))
        numbers.append(number.value)
    return [*color, depth.value, *numbers, gl.glIsEnabled(SCISSOR_TEST), gl.glIsEnabled(RASTERIZER_DISCARD)]


def odd(ctx: moderngl.Context) -> None:
    """Have nothing drawn: masks, a scissor, discarded primitives."""
    fbo = ctx.framebuffer(ctx.renderbuffer(SIZE), ctx.depth_renderbuffer(SIZE))
    fbo.color_mask, fbo.depth_mask, fbo.scissor = (False, True, False, False), False, (1, 1, 1, 1)
    fbo.use()
    ctx.enable_direct(RASTERIZER_DISCARD)


@pytest.mark.parametrize("samples", [0, 4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_images_become_zeros(plain: moderngl.Context, dtype: str, samples: int) -> None:
    ctx, gl = plain, OpenGL(plain.mglo)
    images: list[Any] = [ctx.renderbuffer(SIZE, 4, samples=samples, dtype=dtype)]
    if samples:
        images.append(ctx.texture(SIZE, 4, samples=samples, dtype=dtype))
    for image in images:
        fbo, single = ctx.framebuffer(image), ctx.framebuffer(ctx.renderbuffer(SIZE, 4, dtype=dtype))
        draw = ctx.program(VERTEX, FRAGMENT % ((KINDS[dtype[0]],) * 2))
        fbo.use()
        ctx.vertex_array(draw, []).render(moderngl.TRIANGLE_STRIP, 4)

        def pixels(fbo: moderngl.Framebuffer = fbo, single: moderngl.Framebuffer = single) -> bytes:
            single.use()  # a copy keeps to the scissor of what is in use
            ctx.copy_framebuffer(single, fbo)
            return single.read(components=4, dtype=dtype)

        assert any(pixels())
        odd(ctx)
        before = state(gl)
        target = RENDERBUFFER if isinstance(image, moderngl.Renderbuffer) else TEXTURE_2D_MULTISAMPLE
        gl.zero(target, image.glo)
        assert state(gl) == before
        ctx.disable_direct(RASTERIZER_DISCARD)
        assert not any(pixels())
    assert ctx.error == "GL_NO_ERROR"


@pytest.mark.parametrize("samples", [0, 4])
def test_depth_becomes_zeros(plain: moderngl.Context, samples: int) -> None:
    ctx, gl = plain, OpenGL(plain.mglo)
    images: list[Any] = [ctx.depth_renderbuffer(SIZE, samples=samples)]
    if samples:
        images.append(ctx.depth_texture(SIZE, samples=samples))
    for image in images:
        fbo = ctx.framebuffer(ctx.renderbuffer(SIZE, samples=samples), image)
        single = ctx.framebuffer(ctx.renderbuffer(SIZE), ctx.depth_texture(SIZE))
        fbo.clear(depth=0.5)
        odd(ctx)
        before = state(gl)
        gl.zero(RENDERBUFFER if isinstance(image, moderngl.Renderbuffer) else TEXTURE_2D_MULTISAMPLE, image.glo)
        assert state(gl) == before
        ctx.disable_direct(RASTERIZER_DISCARD)
        single.use()
        ctx.copy_framebuffer(single, fbo)
        assert not any(single.depth_attachment.read())  # type: ignore[union-attr]
    assert ctx.error == "GL_NO_ERROR"


def test_an_image_that_could_not_be_made_adds_no_error(plain: moderngl.Context) -> None:
    gl = OpenGL(plain.mglo)
    image = plain.renderbuffer((1 << 20, 1))
    assert plain.error == "GL_INVALID_VALUE"
    gl.zero(RENDERBUFFER, image.glo)
    assert plain.error == "GL_NO_ERROR"


def test_what_is_made_within_a_condition_is_zeros_and_the_condition_goes_on(ctx: moderngl.Context) -> None:
    target = ctx.framebuffer(ctx.renderbuffer(SIZE))
    target.use()
    nothing = ctx.query(samples=True)
    with nothing:
        pass
    assert nothing.samples == 0  # what has no result yet is no condition
    with nothing.crender:  # type: ignore[union-attr]
        made = ctx.framebuffer(ctx.renderbuffer(SIZE, dtype="f4"))
        target.clear(1.0)
    assert not any(target.read())
    assert not any(made.read(dtype="f4"))


def test_zeros_take_no_memory() -> None:
    for size in (0, 1, 1 << 20, (1 << 20) + 1):
        assert bytes(zeros(size)) == bytes(size)  # type: ignore[arg-type]
    assert len(zeros(1 << 36)) == 1 << 36  # type: ignore[arg-type]
    assert zeros(1 << 60) is None


@pytest.mark.parametrize("samples", [0, 4])
def test_a_condition_that_opengl_refused_adds_no_error(ctx: moderngl.Context, samples: int) -> None:
    queries: list[Any] = [ctx.query(any_samples=True) for _ in range(2)]
    for query in queries:
        query.crender.__enter__()  # none has run
    assert ctx.error == "GL_INVALID_OPERATION"
    ctx.renderbuffer(SIZE, samples=samples)
    assert ctx.error == "GL_NO_ERROR"
    target = ctx.simple_framebuffer(SIZE)
    target.clear(1.0)
    assert any(target.read())
    for query in queries:
        query.crender.__exit__(None, None, None)
    ctx.clear_errors()


def test_a_pending_error_stays_pending(plain: moderngl.Context) -> None:
    ctx, gl = plain, OpenGL(plain.mglo)
    nowhere = ctx.detect_framebuffer(0)
    for cause, error in (
        (lambda: ctx.enable_direct(0xFFFF), "GL_INVALID_ENUM"),
        (lambda: ctx.renderbuffer((1 << 20, 1)), "GL_INVALID_VALUE"),
        (gl.glEndConditionalRender, "GL_INVALID_OPERATION"),
        (nowhere.clear, "GL_INVALID_FRAMEBUFFER_OPERATION"),
        (lambda: None, "GL_NO_ERROR"),
    ):
        ctx.clear_errors()
        cause()
        with gl.errors_apart():
            gl.glEnable(0xFFFF)
            gl.glEndConditionalRender()
        assert (ctx.error, ctx.error) == (error, "GL_NO_ERROR")
