"""Queries: what they count, when they may be asked, and rendering that depends on them."""

from __future__ import annotations

import moderngl
import pytest

import glremote
from tests.recording.fullscreen import triangle

RED = "vec4(1.0, 0.0, 0.0, 1.0)"


@pytest.fixture
def fbo(ctx: moderngl.Context) -> moderngl.Framebuffer:
    """8 x 4 pixels, bound."""
    made = ctx.framebuffer(ctx.texture((8, 4), 4), ctx.depth_renderbuffer((8, 4)))
    made.use()
    made.clear()
    return made


def test_counts(ctx: moderngl.Context, fbo: moderngl.Framebuffer) -> None:
    query = ctx.query(samples=True, time=True, primitives=True)
    array = triangle(ctx, "", RED)
    with query as entered:
        array.render(vertices=3)
    assert entered is query
    assert (query.samples, query.primitives) == (32, 1)
    assert query.elapsed > 0
    fbo.scissor = 0, 0, 3, 2
    with query:
        array.render(vertices=3)
        array.render(vertices=6)  # the second triangle is outside
    assert (query.samples, query.primitives) == (12, 3)
    with query:
        pass
    assert (query.samples, query.primitives) == (0, 0)
    assert ctx.error == "GL_NO_ERROR"


def test_no_flags_are_all_flags(ctx: moderngl.Context, fbo: moderngl.Framebuffer) -> None:
    query = ctx.query()
    assert query.crender is None
    with query:
        triangle(ctx, "", RED).render(vertices=3)
    assert (query.samples, query.primitives, query.elapsed > 0) == (32, 1, True)


@pytest.mark.parametrize("flag", ("samples", "any_samples", "time", "primitives"))
def test_only_what_was_wanted(ctx: moderngl.Context, flag: str) -> None:
    query = ctx.query(**{flag: 1})  # type: ignore[arg-type]
    with query:
        pass
    for name, wanted, text in (
        ("samples", "samples", "samples_passed"),
        ("elapsed", "time", "time_elapsed"),
        ("primitives", "primitives", "primitives_generated"),
    ):
        if flag == wanted:
            assert getattr(query, name) >= 0
        else:
            with pytest.raises(moderngl.Error, match=f"^query created without the {text} flag$"):
                getattr(query, name)
    assert (query.crender is not None) == ("samples" in flag)
    if "samples" not in flag:
        with pytest.raises(moderngl.Error, match=r"^no samples$"):
            query.mglo.begin_render()


def test_before_the_first_end_all_is_zero(ctx: moderngl.Context) -> None:
    query = ctx.query()
    assert (query.samples, query.primitives, query.elapsed) == (0, 0, 0)


def wrong(text: str, call: object) -> None:
    with pytest.raises(moderngl.Error) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value) == text


def test_the_order_of_things(ctx: moderngl.Context) -> None:
    query = ctx.query(samples=True)
    mglo = query.mglo
    wrong("this query was not started", mglo.end)
    wrong("this query is not in conditional render mode", mglo.end_render)
    mglo.begin()
    wrong("this query is already running", mglo.begin)
    wrong("this query was not stopped", mglo.begin_render)
    wrong("this query was not stopped", lambda: query.samples)
    wrong("query created without the time_elapsed flag", lambda: query.elapsed)
    mglo.end()
    mglo.begin_render()
    wrong("this query is in conditional render mode", mglo.begin)
    wrong("this query is in conditional render mode", mglo.end)
    wrong("this query is already in conditional render mode", mglo.begin_render)
    assert query.samples == 0
    mglo.end_render()
    wrong("this query was not started", mglo.end)
    assert not hasattr(mglo, "release")


@pytest.mark.parametrize("flag", ("samples", "any_samples"))
@pytest.mark.parametrize("passes", (False, True))
def test_conditional_rendering(ctx: moderngl.Context, fbo: moderngl.Framebuffer, passes: bool, flag: str) -> None:
    query = ctx.query(**{flag: True})
    assert query.crender is not None
    array = triangle(ctx, "", RED)
    with query:
        array.render(vertices=3 if passes else 0)
    fbo.clear()
    ctx.finish()  # the result is there now: moderngl renders anyway where it is not
    with query.crender:
        array.render(vertices=3)
    assert (fbo.read() == b"\xff\0\0" * 32) is passes
    array.render(vertices=3)
    assert fbo.read() == b"\xff\0\0" * 32


def test_only_results_wait(near_by: moderngl.Context) -> None:
    traffic = glremote.device(near_by).traffic
    before = traffic.waits
    query = near_by.query(samples=True)
    assert query.samples == 0
    with query:
        pass
    assert query.crender is not None
    with query.crender:
        pass
    assert traffic.waits == before
    assert query.samples == 0
    assert traffic.waits == before + 1
