"""Scopes: what holds inside, what is restored behind, and what may be bound."""

from __future__ import annotations

import struct
from typing import Any

import moderngl
import pytest

import glremote
from tests.recording.fullscreen import triangle


def target(ctx: moderngl.Context) -> moderngl.Framebuffer:
    made = ctx.framebuffer(ctx.texture((2, 1), 1, dtype="f4"))
    made.clear()
    return made


def value(fbo: moderngl.Framebuffer) -> float:
    return float(struct.unpack_from("f", fbo.read(components=1, dtype="f4"))[0])


def test_the_framebuffer_inside_and_behind(ctx: moderngl.Context) -> None:
    outer, inner, other = target(ctx), target(ctx), target(ctx)
    array = triangle(ctx, "", "vec4(1.0)")
    outer.use()
    scope = ctx.scope(inner)
    other.use()
    with scope as entered:
        array.render(vertices=3)
        assert ctx.fbo is other  # of Python's only: the one that is bound is another
    assert entered is scope
    assert [value(fbo) for fbo in (outer, inner, other)] == [0.0, 1.0, 0.0]
    array.render(vertices=3)
    assert [value(fbo) for fbo in (outer, inner, other)] == [1.0, 1.0, 0.0]  # that of the making, not of the entering
    assert ctx.error == "GL_NO_ERROR"


def test_the_viewport_is_that_of_the_framebuffer_inside(ctx: moderngl.Context) -> None:
    outer, inner = target(ctx), target(ctx)
    inner.viewport = 1, 0, 1, 1
    outer.use()
    assert ctx.viewport == (0, 0, 2, 1)
    with ctx.scope(inner):
        triangle(ctx, "", "vec4(1.0)").render(vertices=3)
        assert ctx.viewport == (1, 0, 1, 1)
    assert ctx.viewport == (0, 0, 2, 1)
    assert inner.read(components=1, dtype="f4") == struct.pack("2f", 0.0, 1.0)


def test_enable_flags(ctx: moderngl.Context) -> None:
    fbo = target(ctx)
    fbo.use()
    ctx.blend_func = moderngl.ONE, moderngl.ONE
    array = triangle(ctx, "", "vec4(1.0)")
    ctx.enable(moderngl.BLEND)
    with ctx.scope(fbo, enable=moderngl.BLEND):
        for _ in range(3):
            array.render(vertices=3)
    assert value(fbo) == 3.0
    with ctx.scope(fbo, moderngl.NOTHING):
        array.render(vertices=3)
        assert value(fbo) == 1.0
        with ctx.scope(fbo, moderngl.BLEND):
            array.render(vertices=3)
        assert value(fbo) == 2.0
        array.render(vertices=3)
    assert value(fbo) == 1.0
    array.render(vertices=3)
    assert value(fbo) == 2.0  # behind it blends as before
    with ctx.scope(fbo):  # no flags are given: none is on
        array.render(vertices=3)
        assert value(fbo) == 1.0
    scope = ctx.scope(fbo, moderngl.BLEND)
    ctx.disable(moderngl.BLEND)
    with scope:
        array.render(vertices=3)
    array.render(vertices=3)
    assert value(fbo) == 1.0  # the flags of the entering, not of the making
    assert ctx.error == "GL_NO_ERROR"


def test_buffers(ctx: moderngl.Context) -> None:
    fbo = target(ctx)
    declarations = """layout(std140) uniform Block { vec4 first; };"""
    array = triangle(ctx, declarations, "first")
    array.program["Block"] = 2
    one, two = (ctx.buffer(struct.pack("4f", x, x, x, x)) for x in (1.0, 2.0))
    two.bind_to_uniform_block(2)
    with ctx.scope(fbo, uniform_buffers=((one, 2),)):
        array.render(vertices=3)
    assert value(fbo) == 1.0
    fbo.use()
    array.render(vertices=3)
    assert value(fbo) == 1.0  # it stays bound
    shader = ctx.compute_shader("""#version 430
        layout(local_size_x=1) in;
        layout(binding=4) buffer Block { float first; };
        void main() { first += 1.0; }""")
    with ctx.scope(fbo, storage_buffers=((two, 4),)):
        shader.run()
    assert two.read() == struct.pack("4f", 3.0, 2.0, 2.0, 2.0)
    assert ctx.error == "GL_NO_ERROR"


def test_samplers(ctx: moderngl.Context) -> None:
    fbo = target(ctx)
    texture = ctx.texture((2, 1), 1, struct.pack("2f", 1.0, 3.0), dtype="f4")
    sampler = ctx.sampler(filter=(9728, 9728), texture=texture)
    array = triangle(ctx, "uniform sampler2D image;", "texture(image, vec2(0.4, 0.5))")
    array.program["image"] = 5
    with ctx.scope(fbo, samplers=(sampler.assign(5),)):
        array.render(vertices=3)
    assert value(fbo) == 1.0
    assert ctx.error == "GL_NO_ERROR"


def test_textures_are_bound_as_moderngl_binds_them(ctx: moderngl.Context) -> None:
    """It gives the number of the unit to glActiveTexture, which wants GL_TEXTURE0 + number."""
    fbo = target(ctx)
    texture = ctx.texture((1, 1), 1, struct.pack("f", 4.0), dtype="f4")
    with ctx.scope(fbo, textures=((texture, 0),)):
        assert ctx.error == "GL_INVALID_ENUM"
    with ctx.scope(fbo, textures=((texture, 0x84C0 + 3),)):
        array = triangle(ctx, "uniform sampler2D image;", "texture(image, uv)")
        array.program["image"] = 3
        array.render(vertices=3)
    assert value(fbo) == 4.0
    others: tuple[Any, ...] = ctx.texture3d((1, 1, 1), 1), ctx.texture_cube((1, 1), 1)
    for other in others:
        with ctx.scope(fbo, textures=((other, 0x84C0),)):
            assert ctx.error == "GL_NO_ERROR"


def test_wrong_arguments(ctx: moderngl.Context) -> None:
    fbo, texture, buffer, sampler = target(ctx), ctx.texture((1, 1), 1), ctx.buffer(reserve=16), ctx.sampler()
    array = ctx.texture_array((1, 1, 1), 1)
    wrong: tuple[tuple[str, dict[str, Any]], ...] = (
        ("invalid enable_flags", {"enable": "x"}),
        ("invalid enable_flags", {"enable": 1 << 64}),
        ("invalid textures", {"textures": [(array, 0)]}),
        ("invalid textures", {"textures": [(buffer, 0)]}),
        ("invalid textures", {"textures": [(texture, "x")]}),
        ("invalid uniform buffers", {"uniform_buffers": [(texture, 0)]}),
        ("invalid uniform buffers", {"uniform_buffers": [(buffer, 0.5)]}),
        ("invalid storage buffers", {"storage_buffers": [(texture, 0)]}),
        ("invalid samplers", {"samplers": [(sampler, None)]}),
        ("invalid samplers", {"samplers": [sampler]}),
        ("invalid samplers", {"samplers": [(sampler, 0, 0)]}),
        ("invalid samplers", {"samplers": None}),
        ("invalid samplers", {"samplers": None, "enable": "x", "textures": [(array, 0)]}),
        ("invalid enable_flags", {"enable": "x", "textures": [(array, 0)]}),
    )
    for text, arguments in wrong:
        with pytest.raises(moderngl.Error) as caught:
            ctx.scope(fbo, **arguments)
        assert str(caught.value) == text
    with pytest.raises(TypeError, match=r"^argument 1 must be mgl\.Framebuffer, not mgl\.Texture$"):
        ctx.scope(texture)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^argument 1 must be mgl\.Framebuffer, not mgl\.Context$"):
        ctx.scope(ctx)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="A framebuffer must be specified"):
        ctx.scope()


def test_a_sampler_that_cannot_be_used(ctx: moderngl.Context) -> None:
    class Broken:
        def use(self, location: int) -> None:
            raise KeyError(location)

    scope = ctx.scope(target(ctx), samplers=((Broken(), 7),))  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="7"):
        scope.mglo.begin()


def test_release(ctx: moderngl.Context) -> None:
    scope = ctx.scope(target(ctx))
    scope.release()
    scope.release()
    with pytest.raises(AttributeError, match="'InvalidObject' object has no attribute 'begin'"), scope:
        pass


def test_after_the_context_was_released(ctx: moderngl.Context) -> None:
    fbo, mglo = target(ctx), ctx.mglo
    scope = ctx.scope(fbo)
    ctx.release()
    for call in (scope.mglo.begin, scope.mglo.end, lambda: mglo.scope(fbo.mglo, None, (), (), (), ())):
        with pytest.raises(moderngl.Error, match=r"^the context was released$"):
            call()


def test_scopes_do_not_wait(near_by: moderngl.Context) -> None:
    fbo = near_by.framebuffer(near_by.texture((1, 1), 4))
    traffic = glremote.device(near_by).traffic
    before = traffic.waits
    with near_by.scope(fbo, moderngl.BLEND, samplers=((near_by.sampler(), 0),)):
        pass
    assert traffic.waits == before
