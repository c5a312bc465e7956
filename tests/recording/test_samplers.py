"""Samplers: their parameters, and that a shader sees them."""

from __future__ import annotations

import struct
from typing import Any

import moderngl
import numpy as np
import pytest

import glremote
from tests.recording.fullscreen import pixel

IMAGE = "uniform sampler2D image;"
NUMBERS = ("anisotropy", "min_lod", "max_lod")


def seen(ctx: moderngl.Context, x: float) -> float:
    """What a shader samples at x of the texture on unit 0."""
    return pixel(ctx, IMAGE, f"texture(image, vec2({x}, 0.5))")[0]


def two_texels(ctx: moderngl.Context) -> moderngl.Texture:
    texture = ctx.texture((2, 1), 1, struct.pack("2f", 1.0, 3.0), dtype="f4")
    texture.use()
    return texture


def test_the_first_values(ctx: moderngl.Context) -> None:
    sampler: Any = ctx.mglo.sampler()[0]
    assert sampler.filter == (moderngl.LINEAR, moderngl.LINEAR)
    assert (sampler.repeat_x, sampler.repeat_y, sampler.repeat_z) == (True, True, True)
    assert (sampler.anisotropy, sampler.compare_func, sampler.border_color) == (0.0, "?", (0.0, 0.0, 0.0, 0.0))
    assert (sampler.min_lod, sampler.max_lod) == (-1000.0, 1000.0)


def test_arguments(ctx: moderngl.Context) -> None:
    sampler = ctx.sampler(
        repeat_x=False, repeat_z=False, filter=(9728, 9728), anisotropy=2.5, compare_func="<",
        border_color=(1, 2, 3, 4), min_lod=-1.1, max_lod=7,
    )  # fmt: skip
    assert (sampler.repeat_x, sampler.repeat_y, sampler.repeat_z) == (False, True, False)
    assert (sampler.filter, sampler.anisotropy, sampler.compare_func) == ((9728, 9728), 2.5, "<")
    assert sampler.border_color == (1.0, 2.0, 3.0, 4.0)
    assert (sampler.min_lod, sampler.max_lod) == (-1.100000023841858, 7.0)
    assert ctx.error == "GL_NO_ERROR"


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(ctx: moderngl.Context, name: str) -> None:
    sampler = ctx.sampler()
    for value, expected in ((2, 2.0), (True, 1.0), (1.1, 1.100000023841858), (np.float32(3.5), 3.5)):
        setattr(sampler, name, value)
        assert getattr(sampler, name) == expected
    for wrong, cause in (("x", "must be real number, not str"), (10**400, "int too large to convert to float")):
        with pytest.raises(SystemError) as caught:
            setattr(sampler, name, wrong)
        assert str(caught.value) == f"{vars(moderngl.Sampler)[name].fset!r} returned a result with an exception set"
        assert str(caught.value.__cause__) == cause
        assert getattr(sampler, name) == (1.0 if name == "anisotropy" else -1.0)
    setattr(sampler, name, 1e300)
    assert getattr(sampler, name) == (ctx.max_anisotropy if name == "anisotropy" else float("inf"))


WRONG = (
    ("repeat_x", (1, None, np.False_), "invalid value for texture_x"),
    ("repeat_y", (0, "x", 2.0), "invalid value for texture_y"),
    ("repeat_z", (1, (), np.True_), "invalid value for texture_z"),
    ("filter", (None, 9728, (9728,), (9728, 9729.0), "ab"), "invalid filter"),
    ("compare_func", (None, 1, b"<", "\ud800"), "invalid compare function"),
    ("border_color", (None, 1.0, (1, 2, 3), (1, 2, 3, "x"), "abcd", (1, 2, 3, 10**400)), "invalid border color"),
)


def test_wrong_values(ctx: moderngl.Context) -> None:
    sampler = ctx.sampler()
    for name, values, text in WRONG:
        before = getattr(sampler, name)
        for value in values:
            with pytest.raises(moderngl.Error) as caught:
                setattr(sampler, name, value)
            assert str(caught.value) == text
        assert getattr(sampler, name) == before
    assert ctx.error == "GL_NO_ERROR"


def test_compare_func(ctx: moderngl.Context) -> None:
    sampler = ctx.sampler()
    for func in ("<=", "<", ">=", ">", "==", "!=", "0", "1", "?"):
        sampler.compare_func = func
        assert sampler.compare_func == func
    sampler.compare_func = "=="
    sampler.compare_func = "equal"
    assert sampler.compare_func == "?"


def test_depth_is_compared(ctx: moderngl.Context) -> None:
    texture = ctx.depth_texture((1, 1), struct.pack("f", 0.5))
    sampler = ctx.sampler(compare_func=">", filter=(9728, 9728), texture=texture)
    sampler.use()
    color = "vec4(texture(image, vec3(0.5, 0.5, 0.25)), texture(image, vec3(0.5, 0.5, 0.75)), 0.0, 0.0)"
    assert pixel(ctx, "uniform sampler2DShadow image;", color)[:2] == (0.0, 1.0)
    sampler.compare_func = "<"
    assert pixel(ctx, "uniform sampler2DShadow image;", color)[:2] == (1.0, 0.0)


def test_is_seen_until_cleared(ctx: moderngl.Context) -> None:
    two_texels(ctx)
    sampler = ctx.sampler(filter=(9728, 9728), repeat_x=False)
    assert (seen(ctx, 0.5), seen(ctx, 1.25)) == (2.0, 1.0)
    sampler.use()
    assert (seen(ctx, 0.4), seen(ctx, 1.25)) == (1.0, 3.0)
    sampler.repeat_x = True
    assert seen(ctx, 1.25) == 1.0
    sampler.clear(location=np.int64(0))  # type: ignore[arg-type]
    assert seen(ctx, 0.5) == 2.0
    sampler.use()
    ctx.clear_samplers()
    assert seen(ctx, 0.5) == 2.0
    assert ctx.error == "GL_NO_ERROR"


def test_a_border_ends_repeating(ctx: moderngl.Context) -> None:
    two_texels(ctx)
    sampler = ctx.sampler(filter=(9728, 9728))
    sampler.use()
    sampler.border_color = 7.0, 0.0, 0.0, 1.0
    assert seen(ctx, 1.25) == 7.0
    assert sampler.repeat_x is True  # moderngl shows what was set last
    sampler.repeat_x = True
    assert seen(ctx, 1.25) == 1.0


def test_brings_its_texture(ctx: moderngl.Context) -> None:
    sampler = ctx.sampler(texture=ctx.texture((1, 1), 1, struct.pack("f", 5.0), dtype="f4"))
    sampler.use(3)
    assert pixel(ctx, IMAGE, "texture(image, uv)", image=3)[0] == 5.0


def test_locations(ctx: moderngl.Context) -> None:
    sampler = ctx.sampler()
    for call in (sampler.use, sampler.clear):
        with pytest.raises(TypeError, match=r"^'str' object cannot be interpreted as an integer$"):
            call("x")  # type: ignore[arg-type]
        call(-1)
        assert ctx.error == "GL_INVALID_VALUE"


def test_release(ctx: moderngl.Context) -> None:
    sampler = ctx.sampler()
    sampler.release()
    sampler.release()
    with pytest.raises(AttributeError, match="'InvalidObject' object has no attribute 'use'"):
        sampler.use()
    assert ctx.error == "GL_NO_ERROR"


def test_what_was_set_is_set_again_in_order(near_by: moderngl.Context) -> None:
    sampler: Any = near_by.mglo.sampler()[0]
    sampler.repeat_x = False
    sampler.border_color = 0.5, 0, 0, 1
    sampler.min_lod = 2
    sampler.repeat_x = True
    assert [(type(command).__name__, command.value) for command in sampler.restore()] == [
        ("SamplerBorderColor", (0.5, 0.0, 0.0, 1.0)),
        ("SamplerMinLod", 2.0),
        ("SamplerRepeatX", True),
    ]


def recorded(ctx: Any) -> int:
    """Commands so far."""
    ctx.finish()
    device: Any = glremote.device(ctx)
    return int(device.measure().commands)


def test_what_is_set_already_is_not_sent(remote: Any) -> None:
    before = recorded(remote)
    sampler = remote.sampler()
    assert recorded(remote) - before == 2 + 1  # it is made, and its filter is set; and finish
    before = recorded(remote)
    for value, sent in ((1.5, 1), (1.5, 0), (-1000.0, 1), (-1000.0, 0), (0.0, 1), (-0.0, 1)):
        sampler.min_lod = value
        assert recorded(remote) - before == sent + 1
        assert repr(sampler.min_lod) == repr(value)
        before = recorded(remote)


def test_what_is_set_again_is_what_it_was(ctx: moderngl.Context) -> None:
    two_texels(ctx)
    sampler = ctx.sampler(repeat_x=True, filter=(moderngl.NEAREST, moderngl.NEAREST))
    sampler.use()
    for repeat in (True, False, True, True, False, False, True):
        sampler.repeat_x = repeat
        assert seen(ctx, 1.25) == (1.0 if repeat else 3.0)
    sampler.border_color = (7.0, 0.0, 0.0, 0.0)
    assert seen(ctx, 1.25) == 7.0
    sampler.repeat_x = True  # as its getter says that it is, and OpenGL not
    assert seen(ctx, 1.25) == 1.0
