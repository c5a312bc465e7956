"""What a program holds: moderngl's own objects, with the attributes that moderngl itself gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import moderngl

NewContext = Callable[..., moderngl.Context]
VERTEX = "#version 330\nin vec2 p;\nvoid main() { gl_Position = vec4(p, 0.0, 1.0); }"
FRAGMENT = "#version 330\nout vec4 color;\nvoid main() { color = vec4(1.0); }"
COMPUTE = "#version 430\nlayout(local_size_x=1) in;\nvoid main() {}"


def objects(ctx: Any) -> list[Any]:
    """One of everything that a context makes, in the order of KINDS."""
    program, buffer, texture = ctx.program(VERTEX, FRAGMENT), ctx.buffer(b"abcdefgh"), ctx.texture((4, 4), 4)
    framebuffer = ctx.framebuffer(texture)
    query = ctx.query(samples=True)
    return [
        buffer, ctx.compute_shader(COMPUTE), query.crender, framebuffer, program, query, ctx.renderbuffer((4, 4)),
        ctx.sampler(), ctx.scope(framebuffer), texture, ctx.texture3d((4, 4, 4), 4), ctx.texture_array((4, 4, 4), 4),
        ctx.texture_cube((4, 4), 4), ctx.vertex_array(program, [(buffer, "2f", "p")]), ctx.depth_texture((4, 4)),
        ctx.depth_texture_cube((4, 4)), ctx.depth_renderbuffer((4, 4)), ctx.empty_framebuffer((4, 4)),
    ]  # fmt: skip


KINDS = (
    moderngl.Buffer, moderngl.ComputeShader, moderngl.ConditionalRender, moderngl.Framebuffer, moderngl.Program,
    moderngl.Query, moderngl.Renderbuffer, moderngl.Sampler, moderngl.Scope, moderngl.Texture, moderngl.Texture3D,
    moderngl.TextureArray, moderngl.TextureCube, moderngl.VertexArray, moderngl.Texture, moderngl.TextureCube,
    moderngl.Renderbuffer, moderngl.Framebuffer,
)  # fmt: skip


def test_attributes(ctx: Any, new_context: NewContext) -> None:
    plain = new_context("plain")
    assert vars(ctx).keys() == vars(plain).keys()
    for name, value in vars(plain).items():
        if name != "mglo":
            assert (getattr(ctx, name), type(getattr(ctx, name))) == (value, type(value)), name


def test_objects_are_moderngls_own(ctx: Any, new_context: NewContext) -> None:
    found = objects(ctx)
    names = [vars(thing).keys() for thing in found]
    assert names == [vars(thing).keys() for thing in objects(new_context("plain"))]
    assert type(ctx) is moderngl.Context
    pairs: Any = zip(found, KINDS, strict=True)
    for thing, kind in pairs:
        assert type(thing) is kind
        assert repr(thing).startswith(f"<moderngl.{kind.__name__} object at 0x")
        assert getattr(thing, "ctx", ctx) is ctx
        assert thing == thing and len({thing, ctx}) == 2
        if not isinstance(thing, moderngl.ConditionalRender):
            assert thing.extra is None
        thing.extra, thing.mine = 1, 2
        assert (thing.extra, thing.mine) == (1, 2)


def test_the_default_context(ctx: Any, new_context: NewContext) -> None:
    assert moderngl.get_context() is ctx
    later = new_context("in-process")
    assert moderngl.get_context() is later
    ctx.release()
    assert moderngl.get_context() is later  # it was not the default any more
    later.release()
    assert moderngl._store.default_context is None  # type: ignore[attr-defined]
