"""The context's own state: what a setter changes in a picture, what its getter gives, and what is wrong."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import moderngl
import numpy as np
import pytest
from moderngl import BLEND, CULL_FACE, DEPTH_TEST, PROGRAM_POINT_SIZE, RASTERIZER_DISCARD

import glremote
from tests.recording.fullscreen import triangle
from tests.recording.raising import raised

Error = moderngl.Error
NewContext = Callable[..., moderngl.Context]
MULTISAMPLE = 0x809D


class Scene:
    """Two triangles, one of them behind and partly outside of the depth range, a line and some points."""

    def __init__(self, ctx: Any) -> None:
        program = ctx.program(
            "#version 330\nin vec3 p; in vec4 tint; out vec4 smoothed; flat out vec4 provoking;\n"
            "void main() { gl_Position = vec4(p, 1.0); gl_PointSize = 5.0; smoothed = provoking = tint; }",
            "#version 330\nin vec4 smoothed; flat in vec4 provoking; out vec4 color;\n"
            "void main() { color = mix(smoothed, provoking, 0.5); }",
        )
        corners = np.array(
            [(-0.9, -0.9, 0.2, 1, 0, 0, 0.5), (0.9, -0.8, 0.3, 0, 1, 0, 0.5), (-0.8, 0.9, 0.4, 0, 0, 1, 0.5),
             (-0.9, 0.7, 0.1, 1, 1, 0, 0.7), (0.9, 0.9, -1.5, 0, 1, 1, 0.7), (0.8, -0.9, 0.6, 1, 0, 1, 0.7)], "f4"
        )  # fmt: skip
        self.array = ctx.vertex_array(program, [(ctx.buffer(corners), "3f 4f", "p", "tint")])
        self.fbo = ctx.framebuffer(ctx.texture((16, 16), 4, samples=4), ctx.depth_texture((16, 16), samples=4))
        self.resolved = ctx.framebuffer(ctx.texture((16, 16), 4))
        self.ctx = ctx

    def drawn(self) -> bytes:
        """Its picture, resolved from 4 samples."""
        self.ctx.fbo = None
        self.fbo.use()
        self.fbo.clear(0.1, 0.2, 0.3, 0.4)
        for mode, vertices, first in ((4, 6, 0), (0, 3, 1), (1, 2, 4)):
            self.array.render(mode, vertices, first)
        self.ctx.copy_framebuffer(self.resolved, self.fbo)
        return bytes(self.resolved.read(components=4))


STATES: dict[str, tuple[int, dict[str, Any]]] = {
    "blend": (BLEND, {}), "blend as ever": (BLEND, {"blend_func": moderngl.DEFAULT_BLENDING}),
    "add": (BLEND, {"blend_func": moderngl.ADDITIVE_BLENDING}), "by list": (BLEND, {"blend_func": [1, 0x301]}),
    "apart": (BLEND, {"blend_func": (1, 0, moderngl.ZERO, moderngl.ONE)}),
    "subtract": (BLEND, {"blend_equation": moderngl.FUNC_SUBTRACT, "blend_func": (1, 1)}),
    "min and max": (BLEND, {"blend_equation": (moderngl.MIN, moderngl.MAX)}),
    "just max": (BLEND, {"blend_equation": (moderngl.MAX,)}),
    "depth": (DEPTH_TEST, {}), "greater": (DEPTH_TEST, {"depth_func": ">"}), "never": (DEPTH_TEST, {"depth_func": "0"}),
    "always": (DEPTH_TEST, {"depth_func": "1"}), "unequal": (DEPTH_TEST, {"depth_func": "!="}),
    "clamped": (0, {"depth_clamp_range": (0.0, 1.0)}),
    "clamped back to front": (DEPTH_TEST, {"depth_clamp_range": (1, np.float32(0.0))}),
    "unclamped": (0, {"depth_clamp_range": None}),
    "cull back": (CULL_FACE, {"cull_face": "back"}), "cull front": (CULL_FACE, {"cull_face": "front"}),
    "cull both": (CULL_FACE, {"cull_face": "front_and_back"}),
    "clockwise": (CULL_FACE, {"cull_face": "back", "front_face": "cw"}),
    "wireframe": (0, {"wireframe": True}), "first vertex": (0, {"provoking_vertex": moderngl.FIRST_VERTEX_CONVENTION}),
    "one sample": (0, {"multisample": False}), "wide lines": (0, {"line_width": 5.0}),
    "large points": (0, {"point_size": 4}), "points of the program": (PROGRAM_POINT_SIZE, {"point_size": 1.0}),
    "offset": (DEPTH_TEST, {"polygon_offset": (2.0, 1e6)}), "no offset": (DEPTH_TEST, {"polygon_offset": (0, 0)}),
    "nothing": (RASTERIZER_DISCARD, {}), "all": (BLEND | DEPTH_TEST | CULL_FACE, {"cull_face": "back"}),
}  # fmt: skip


def test_state_shows(ctx: moderngl.Context, new_context: NewContext) -> None:
    def pictures(ctx: Any) -> dict[str, bytes]:
        scene, found = Scene(ctx), {}
        first = {
            "blend_func": moderngl.DEFAULT_BLENDING, "blend_equation": moderngl.FUNC_ADD, "depth_func": "<=",
            "depth_clamp_range": None, "cull_face": "back", "front_face": "ccw", "wireframe": False,
            "provoking_vertex": moderngl.LAST_VERTEX_CONVENTION, "multisample": True, "line_width": 1.0,
            "point_size": 1.0, "polygon_offset": (0.0, 0.0),
        }  # fmt: skip
        found[""] = scene.drawn()
        for name, (flags, values) in STATES.items():
            ctx.enable_only(flags)
            for attribute, value in values.items():
                setattr(ctx, attribute, value)
            found[name] = scene.drawn()
            ctx.enable_only(moderngl.NOTHING)
            for attribute in values:
                setattr(ctx, attribute, first[attribute])
        assert scene.drawn() == found[""]
        return found

    found = pictures(ctx)
    assert ctx.error == "GL_NO_ERROR"
    assert len(set(found.values())) > 20
    assert found == pictures(new_context("plain"))


def test_flags(ctx: Any) -> None:
    fbo = ctx.framebuffer(ctx.texture((1, 1), 1, dtype="f4"))
    fbo.use()
    ctx.blend_func = moderngl.ONE, moderngl.ONE
    array = triangle(ctx, "", "vec4(1.0)")

    def drawn() -> float:
        fbo.clear(1.0)
        array.render(vertices=3)
        return float(struct.unpack("f", fbo.read(components=1, dtype="f4"))[0])

    for method, flags, expected in (
        (ctx.enable, BLEND, 2.0), (ctx.disable, DEPTH_TEST, 2.0), (ctx.enable, DEPTH_TEST | CULL_FACE, 2.0),
        (ctx.disable, BLEND | DEPTH_TEST, 1.0), (ctx.enable_only, BLEND, 2.0), (ctx.enable, np.int64(0), 2.0),
        (ctx.enable_only, moderngl.NOTHING, 1.0), (ctx.enable_direct, 0x0BE2, 2.0), (ctx.disable_direct, 0x0BE2, 1.0),
        (ctx.enable, True, 2.0), (ctx.disable, -1, 1.0), (ctx.enable_only, 1 << 30 | BLEND, 2.0),
    ):  # fmt: skip
        method(flags)
        assert drawn() == expected
    assert ctx.error == "GL_NO_ERROR"
    for method in (ctx.enable, ctx.disable, ctx.enable_only, ctx.enable_direct, ctx.disable_direct):
        assert raised(method, 1.0) == (TypeError, "'float' object cannot be interpreted as an integer")
        assert raised(method, 1 << 31) == (OverflowError, "signed integer is greater than maximum")
        assert raised(method, -(1 << 31) - 1) == (OverflowError, "signed integer is less than minimum")
        assert raised(method, 1 << 63) == (OverflowError, "Python int too large to convert to C long")
    ctx.enable_direct(1)
    assert ctx.error == "GL_INVALID_ENUM"


# --- getters and wrong values

WRITE_ONLY = ("depth_func", "blend_func", "blend_equation", "depth_clamp_range", "multisample", "provoking_vertex")
VALUES: dict[str, tuple[tuple[Any, Any], ...]] = {
    "line_width": ((2, 2.0), (0.1, 0.10000000149011612), (1e9, 1e9), (0, 1e9), (-1, 1e9), (True, 1.0)),
    "point_size": ((np.float32(3.5), 3.5), (0, 3.5), (-math.inf, 3.5), (1.0, 1.0)),
    "patch_vertices": ((4, 4), (np.int64(5), 5), (-1, 5), (1 << 20, 5), (True, 1), (3, 3)),
    "polygon_offset": (((1, 2), (1.0, 2.0)), ([0.1, "3"], (0.10000000149011612, 3.0)), ((1e40, 0), (math.inf, 0.0))),
    "wireframe": ((True, True), (False, False)),
    "front_face": (("cw", "cw"), ("ccw", "ccw"), ("cw\0?", "cw")),
    "cull_face": (("front", "front"), ("back", "back"), ("front_and_back", "front_and_back")),
    "default_texture_unit": ((3, 3), (-1, -1), (np.int32(7), 7), (1 << 31, -(1 << 31))),
}


def test_getters(ctx: Any) -> None:
    first = {name: getattr(ctx, name) for name in VALUES}
    assert first == {
        "line_width": 1.0, "point_size": 1.0, "patch_vertices": 3, "polygon_offset": (0.0, 0.0), "wireframe": False,
        "front_face": "ccw", "cull_face": "front_and_back", "default_texture_unit": ctx.max_texture_units - 1,
    }  # fmt: skip
    for name, values in VALUES.items():
        for given, expected in values:
            setattr(ctx, name, given)
            found = getattr(ctx, name)
            assert (found, type(found)) == (expected, type(expected)), (name, given)
            ctx.clear_errors()
    if "llvmpipe" in ctx.info["GL_RENDERER"]:  # another driver may refuse it
        ctx.line_width = math.nan
        assert math.isnan(ctx.line_width)
    for name in WRITE_ONLY:
        assert raised(getattr, ctx, name) == (NotImplementedError, "")
    for value in (0, -1.0):
        ctx.line_width = value
        ctx.point_size = value
        assert (ctx.error, ctx.error) == ("GL_INVALID_VALUE", "GL_NO_ERROR")


class Unwilling:
    """No number, and it says so in its own way, which moderngl's parsers of tuples overlook."""

    def __index__(self) -> int:
        raise ZeroDivisionError("no number")


SILENT = "error return without exception set"
REAL, INDEX = "must be real number, not {}", "'{}' object cannot be interpreted as an integer"
WRONG: tuple[tuple[type[Exception], str, str, Any], ...] = (
    (TypeError, REAL.format("str"), "line_width", "x"),
    (TypeError, REAL.format("NoneType"), "point_size", None),
    (OverflowError, "int too large to convert to float", "line_width", 10**400),
    (TypeError, INDEX.format("float"), "patch_vertices", 3.0),
    (SystemError, SILENT, "patch_vertices", 0),
    (OverflowError, "Python int too large to convert to C long", "patch_vertices", 1 << 63),
    (SystemError, SILENT, "depth_func", "x"),
    (SystemError, SILENT, "depth_func", ""),
    (TypeError, "bad argument type for built-in operation", "depth_func", None),
    (UnicodeEncodeError, "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed",
     "depth_func", "\ud800"),
    (TypeError, "'int' object is not iterable", "blend_func", 1),
    (Error, "invalid blend func", "blend_func", (1, 2, 3)),
    (Error, "invalid blend func", "blend_func", (1.0, 1)),
    (Error, "invalid blend func", "blend_func", (Unwilling(), 1)),
    (ZeroDivisionError, "no number", "default_texture_unit", Unwilling()),
    (Error, "invalid blend func", "blend_func", (1 << 63, 1)),
    (Error, "invalid blend equation", "blend_equation", [moderngl.MIN]),
    (Error, "invalid blend equation", "blend_equation", ()),
    (Error, "invalid blend equation", "blend_equation", None),
    (SystemError, SILENT, "depth_clamp_range", (0.0,)),
    (SystemError, SILENT, "depth_clamp_range", [0.0, 1.0]),
    (SystemError, SILENT, "multisample", 1),
    (SystemError, SILENT, "multisample", np.bool_(True)),
    (SystemError, SILENT, "provoking_vertex", 1),
    (TypeError, INDEX.format("str"), "provoking_vertex", "x"),
    (TypeError, "cannot unpack non-iterable int object", "polygon_offset", 1),
    (ValueError, "not enough values to unpack (expected 2, got 1)", "polygon_offset", (1,)),
    (ValueError, "could not convert string to float: 'x'", "polygon_offset", (1, "x")),
    (Error, "invalid value for wireframe", "wireframe", 1),
    (Error, "invalid front_face", "front_face", None),
    (Error, "invalid front_face", "front_face", "CW"),
    (Error, "invalid cull_face", "cull_face", "x"),
    (TypeError, INDEX.format("float"), "default_texture_unit", 1.0),
    (ValueError, "('Valid  gc modes:', [None, 'context_gc', 'auto'])", "gc_mode", "x"),
)  # fmt: skip


def test_wrong_values(ctx: Any) -> None:
    for kind, text, name, value in WRONG:
        assert raised(setattr, ctx, name, value) == (kind, text), (name, value)
        assert ctx.error == "GL_NO_ERROR"
    for name in ("max_samples", "max_texture_units", "screen", "info", "extensions", "includes", "error", "objects"):
        assert raised(setattr, ctx, name, 1)[0] is AttributeError
    for name, value in (("blend_func", (1, 0x9999)), ("blend_equation", 0x9999)):
        setattr(ctx, name, value)
        assert ctx.error == "GL_INVALID_ENUM"


def test_what_moderngl_overlooks(ctx: Any) -> None:
    with pytest.raises(SystemError) as caught:
        ctx.depth_clamp_range = 0.5, "x"
    setter = vars(moderngl.Context)["depth_clamp_range"].fset
    assert str(caught.value) == f"{setter!r} returned a result with an exception set"
    assert repr(caught.value.__cause__) == "TypeError('must be real number, not str')"
    assert ctx.mglo.depth_clamp_range == (0.5, -1.0)  # it is set all the same


# --- what it tells


@pytest.mark.parametrize("samples", [0, 4])
def test_info_tells_of_the_framebuffer_that_is_bound(ctx: Any, samples: int) -> None:
    framebuffer = ctx.framebuffer(ctx.renderbuffer((4, 4), samples=samples))
    ctx.detect_framebuffer(framebuffer.glo).use()
    assert ctx.info["GL_SAMPLE_BUFFERS"] == (samples > 0)
    ctx.simple_framebuffer((4, 4)).use()
    assert ctx.info["GL_SAMPLE_BUFFERS"] == (samples > 0)  # as it was when it was first asked for


def test_what_the_driver_is(ctx: Any, new_context: NewContext) -> None:
    names = (
        "max_samples", "max_integer_samples", "max_texture_units", "max_anisotropy", "max_label_length",
        "max_debug_message_length", "max_debug_group_stack_depth", "version_code", "supports_labels",
        "supports_debug_scopes", "default_texture_unit",
    )  # fmt: skip
    found = {name: getattr(ctx, name) for name in names}
    info, extensions = ctx.info, ctx.extensions
    kinds = {
        name: (type(value), list(map(type, value)) if type(value) is tuple else None) for name, value in info.items()
    }
    listed = list(info)
    info["mine"] = 1
    extensions.add("mine")
    assert ctx.info is info and ctx.info["mine"] == 1  # one dictionary, which may be changed
    assert ctx.extensions is extensions and type(extensions) is set
    del info["mine"]
    extensions.remove("mine")
    ctx.core_profile_check()
    plain: Any = new_context("plain")
    assert found == {name: getattr(plain, name) for name in names}
    assert (info, listed, extensions) == (plain.info, list(plain.info), plain.extensions)
    assert kinds == {
        name: (type(value), list(map(type, value)) if type(value) is tuple else None)
        for name, value in plain.info.items()
    }


def test_a_fresh_context(ctx: Any) -> None:
    assert (ctx.screen, ctx.fbo, ctx.extra, ctx.gc_mode, list(ctx.objects)) == (None, None, None, None, [])
    assert ctx.error == "GL_NO_ERROR"
    with ctx as entered:
        assert entered is ctx
        assert ctx.buffer(b"abc").read() == b"abc"
    with ctx:
        assert ctx.error == "GL_NO_ERROR"


def test_errors_are_told_one_by_one(ctx: moderngl.Context) -> None:
    for _ in range(2):
        ctx.enable_direct(1)
        ctx.line_width = -1
        assert [ctx.error for _ in range(3)] == ["GL_INVALID_ENUM", "GL_NO_ERROR", "GL_NO_ERROR"]  # the first one stays
        ctx.line_width = -1
        ctx.enable_direct(1)
        assert [ctx.error for _ in range(2)] == ["GL_INVALID_VALUE", "GL_NO_ERROR"]
    ctx.enable_direct(1)
    ctx.clear_errors()
    assert ctx.error == "GL_NO_ERROR"
    ctx.enable_direct(1)
    ctx.finish()
    ctx.buffer(b"abc").read()
    assert ctx.error == "GL_INVALID_ENUM"


# --- copies and the like


def test_copies_of_framebuffers(ctx: moderngl.Context) -> None:
    def made(size: tuple[int, int], *dtypes: str, samples: int = 0, depth: bool = False) -> Any:
        colors = [ctx.texture(size, 4, samples=samples, dtype=dtype) for dtype in dtypes]
        fbo = ctx.framebuffer(colors, ctx.depth_texture(size, samples=samples) if depth else None)
        fbo.clear()
        return fbo

    def texels(fbo: Any, attachment: int = 0) -> set[tuple[float, ...]]:
        data = fbo.read(components=4, attachment=attachment, dtype="f4")
        return set(map(tuple, np.frombuffer(data, "f4").reshape(-1, 4).tolist()))

    color = (0.25, 0.5, 0.75, 1.0)
    for samples in (0, 4):
        source, target = made((4, 4), "f4", "f4", samples=samples, depth=True), made((4, 4), "f4", "f4", depth=True)
        source.clear(*color, depth=0.5)
        ctx.copy_framebuffer(target, source)
        assert texels(target) == texels(target, 1) == {color}
        depth = np.frombuffer(target.read(components=1, attachment=-1, dtype="f4"), "f4")
        assert depth.tolist() == pytest.approx([0.5] * 16)
    assert ctx.error == "GL_NO_ERROR"
    small, large = made((2, 3), "f4"), made((3, 2), "f4")
    small.clear(*color)
    ctx.copy_framebuffer(large, small)  # the lower left, as far as both reach
    reds = np.frombuffer(large.read(components=1, dtype="f4"), "f4").reshape(2, 3)
    assert reds.tolist() == [[0.25, 0.25, 0.0]] * 2
    texture = ctx.texture((3, 2), 4)
    ctx.copy_framebuffer(texture, small)
    texture.use()
    seen = ctx.framebuffer(ctx.texture((2, 2), 4, dtype="f4"))
    seen.use()
    triangle(ctx, "uniform sampler2D image;", "texture(image, uv)").render(vertices=3)
    ((red, green, blue, alpha),) = texels(seen)
    assert (red, green, blue, alpha) == pytest.approx(color, abs=1 / 255)
    assert ctx.error == "GL_NO_ERROR"


def test_colors_cannot_be_copied_after_depths_were_read(near_by: moderngl.Context) -> None:
    """As OpenGL says it: moderngl reads depths with no buffer for colours. Plainly, Mesa's drivers die of it."""
    texture, target = near_by.texture((4, 4), 4), near_by.texture((4, 4), 4, b"\x11" * 64)
    source = near_by.framebuffer(texture, near_by.depth_texture((4, 4)))
    source.clear(1.0, 1.0, 1.0, 1.0, 0.5)
    source.read(attachment=-1, dtype="f4")
    near_by.copy_framebuffer(target, source)
    assert near_by.error == "GL_INVALID_OPERATION"
    assert target.read() == b"\x11" * 64
    source.read(attachment=0)
    near_by.copy_framebuffer(target, source)
    assert near_by.error == "GL_NO_ERROR"
    assert target.read() == b"\xff" * 64


WRONG_COPIES: tuple[tuple[type[Exception], str, Callable[[Any, Any], Any]], ...] = (
    (Error, "Destination and source framebuffers have different number of color attachments!",
     lambda x, f: x.copy_framebuffer(x.framebuffer([x.texture((4, 4), 4)] * 2), f)),
    (Error, "multisample texture targets are not accepted",
     lambda x, f: x.copy_framebuffer(x.texture((4, 4), 4, samples=4), f)),
    (Error, "multisample framebuffer source with texture targets are not accepted",
     lambda x, f: x.copy_framebuffer(x.texture((4, 4), 4), x.simple_framebuffer((4, 4), samples=2))),
    (Error, "the dst must be a Framebuffer or Texture", lambda x, f: x.copy_framebuffer(x.renderbuffer((4, 4)), f)),
    (Error, "the dst must be a Framebuffer or Texture", lambda x, f: x.copy_framebuffer(x.buffer(b"abc"), f)),
    (Error, "the dst must be a Framebuffer or Texture",
     lambda x, f: x.copy_framebuffer(x.texture_array((4, 4, 1), 4), f)),
    (TypeError, "argument 2 must be mgl.Framebuffer, not mgl.Texture",
     lambda x, f: x.copy_framebuffer(f, x.texture((4, 4), 4))),
    (AttributeError, "'NoneType' object has no attribute 'mglo'", lambda x, f: x.copy_framebuffer(f, None)),
)  # fmt: skip


def test_wrong_copies(ctx: Any) -> None:
    fbo = ctx.framebuffer(ctx.texture((4, 4), 4))
    for kind, text, call in WRONG_COPIES:
        assert raised(call, ctx, fbo) == (kind, text)
    assert ctx.error == "GL_NO_ERROR"


def test_barriers_and_samplers(ctx: Any) -> None:
    for arguments in ((), (0x2000,), (moderngl.ALL_BARRIER_BITS, False), (0x20, True), (-1,), (0x20, "x")):
        ctx.memory_barrier(*arguments)
        assert ctx.error == "GL_NO_ERROR"
    assert raised(ctx.memory_barrier, 1.0) == (TypeError, INDEX.format("float"))
    ctx.memory_barrier(1 << 30)
    ctx.memory_barrier(1, by_region=True)
    assert (ctx.error, ctx.error) == ("GL_INVALID_VALUE", "GL_NO_ERROR")
    for start, end in ((0, -1), (3, -1), (0, 5), (-4, 1 << 20), (7, 2), (0, -2)):
        ctx.clear_samplers(start, end)
    assert raised(ctx.clear_samplers, 1.0) == (TypeError, INDEX.format("float"))
    assert raised(ctx.clear_samplers, 0, 1 << 31) == (OverflowError, "signed integer is greater than maximum")
    assert ctx.error == "GL_NO_ERROR"


def test_setting_does_not_wait(remote: Any) -> None:
    device: Any = glremote.device(remote)
    before = device.measure().waits
    for name, values in VALUES.items():
        for value, _ in values:
            setattr(remote, name, value)
            getattr(remote, name)
    for _, states in STATES.values():
        for name, value in states.items():
            setattr(remote, name, value)
    remote.enable_only(BLEND)
    remote.memory_barrier()
    remote.clear_samplers()
    remote.clear_errors()
    assert (remote.viewport, remote.scissor, remote.info["GL_RENDERER"] != "") == ((0,) * 4, (0,) * 4, True)
    assert device.measure().waits == before
    assert remote.error == "GL_NO_ERROR"
    assert device.measure().waits == before + 1
