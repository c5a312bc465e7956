"""Vertex arrays: what feeds an attribute in which format, how many vertices there are, and all ways to draw them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import moderngl
import numpy as np
import pytest
from moderngl import LINES, POINTS, TRIANGLE_STRIP, TRIANGLES, detect_format

import glremote
from tests.recording.raising import raised

Error = moderngl.Error
NewContext = Callable[..., moderngl.Context]

DRAW = (
    "#version 330\nin vec2 p; in float shade; out float s; uniform int n;\n"
    "void main() { gl_Position = vec4(p + 0.25 * float(gl_InstanceID), 0.0, 1.0); s = 1.0 - shade; }",
    "#version 330\nin float s; out float color;\nvoid main() { color = s; }",
)
CORNERS = struct.pack("8f", -1, -1, 1, -1, -1, 1, 1, 1)
RECORD = struct.Struct("5I")


def fed(ctx: Any, kind: str, format: str, data: bytes, vertices: int = 2, **more: Any) -> Any:
    """What a shader sees of an attribute of a type of GLSL: the bytes of as many vertices."""
    name, _, length = kind.partition("[")
    many = f"[{length}" if length else ""
    out = f"flat out {name} b{many};" if name[0] in "iud" else f"out {name} b{many};"
    program = ctx.program(f"#version 430\nin {name} a{many}; {out}\nvoid main() {{ b = a; }}", varyings=["b"])
    array = ctx.vertex_array(program, [(ctx.buffer(data), format, "a")])
    attribute = program["a"]
    size = attribute.dimension * attribute.array_length * (8 if name[0] == "d" else 4)
    output = ctx.buffer(bytes(size * vertices))
    array.transform(output, vertices=vertices, **more)
    return output.read()


@pytest.fixture
def bound(ctx: moderngl.Context) -> Any:
    """A context with a framebuffer, without which a transform is an error of OpenGL."""
    ctx.simple_framebuffer((4, 4)).use()
    return ctx


# --- formats


def test_formats(bound: Any) -> None:
    def check(kind: str, format: str, given: str, data: Any, expected: str = "f4") -> None:
        values = np.array(data, given)
        assert fed(bound, kind, format, values.tobytes()) == values.astype(expected).tobytes(), (kind, format)

    for format, given in {
        "2f": "f4", "2f4": "f4", "2f2": "f2", "2f8": "f8", "2i": "i4", "2i1": "i1", "2i2": "i2", "2i4": "i4",
        "2u": "u4", "2u1": "u1", "2u2": "u2", "2u4": "u4", "2f /v": "f4", "  2f": "f4", "02f": "f4",
    }.items():  # fmt: skip
        check("vec2", format, given, [[1, 2], [-3, 4]] if given[0] != "u" else [[1, 2], [3, 4]])
    for format, given in {"3i": "i4", "3i1": "i1", "3i2": "i2", "3u1": "u1"}.items():
        check("ivec3", format, given, [[1, 2, 3], [4, 5, 6]], "i4")
    check("uvec2", "2u", "u4", [[1 << 31, 2], [3, (1 << 32) - 1]], "u4")
    check("float", "f", "f4", [0.1, -0.2])
    for kind, format in {
        "mat4": "16f", "mat2x3": "6f", "mat4x2": "8f", "mat3": "9f", "float[3]": "3f", "vec2[2]": "4f",
    }.items():  # fmt: skip
        count = int(format[:-1])
        check(kind, format, "f4", np.arange(2 * count))
    for kind, format in {"double": "f8", "dvec3": "3f8", "dmat2": "4f8", "dmat3x2": "6f8"}.items():
        count = int(format[:-2] or 1)
        check(kind, format, "f8", np.arange(2 * count) + 0.1, "f8")
    assert fed(bound, "vec3", "3f1", b"\0\xff\xff" * 2) == struct.pack("3f", 0, 1, 1) * 2  # normalised
    assert fed(bound, "vec4", "2f", struct.pack("4f", 1, 2, 3, 4)) == struct.pack("8f", 1, 2, 0, 1, 3, 4, 0, 1)
    assert bound.error == "GL_NO_ERROR"


def test_padding_and_several_attributes(bound: Any) -> None:
    program = bound.program(
        "#version 330\nin vec2 a; in float b; out vec3 c;\nvoid main() { c = vec3(a, b); }", varyings=["c"]
    )
    floats = np.arange(24, dtype="f4")

    def seen(content: Any, **more: Any) -> list[list[float]]:
        output = bound.buffer(bytes(36))
        bound.vertex_array(program, content, **more).transform(output, vertices=3)
        found: list[list[float]] = np.frombuffer(output.read(), "f4").reshape(3, 3).tolist()
        return found

    buffer, other = bound.buffer(floats), bound.buffer(floats[::-1].copy())
    for format, first, second, stride in (
        ("2f f", 0, 2, 3), ("2f 4x f", 0, 3, 4), ("x4 2f f 2x4", 1, 3, 6), ("8x 2f4 4x1 f/v", 2, 5, 6),
    ):  # fmt: skip
        expected = [[n * stride + first, n * stride + first + 1, n * stride + second] for n in range(3)]
        assert seen([(buffer, format, "a", "b")]) == expected
    assert seen([(buffer, "f 2f", "b", "a")]) == [[1, 2, 0], [4, 5, 3], [7, 8, 6]]
    assert seen([(buffer, "2f", "a"), (other, "4x f", "b")]) == [[0, 1, 22], [2, 3, 20], [4, 5, 18]]
    places = program["a"].location, program["b"].location
    assert seen([(buffer, "2f f", *places)]) == seen([buffer.bind("a", "b")]) == seen([(buffer, None, "a", "b")])
    assert seen([(buffer, "f 2f", "nothing", "a")], skip_errors=True)[0][:2] == [1, 2]
    assert seen([(buffer, "2f f", 99, "b")], skip_errors=True)[0][2] == 2
    assert bound.error == "GL_NO_ERROR"


def test_instances(bound: Any) -> None:
    program = bound.program("#version 330\nin float a, b; out vec2 c;\nvoid main() { c = vec2(a, b); }", varyings=["c"])
    buffer = bound.buffer(np.arange(8, dtype="f4"))
    for format, expected in (("f", [0, 1, 0, 1]), ("f/v", [0, 1, 0, 1]), ("f/i", [0, 0, 1, 1]), ("f/r", [0] * 4)):
        array = bound.vertex_array(program, [(buffer, "f", "a"), (buffer, format, "b")])
        assert (array.vertices, array.instances) == (8, 1)
        output = bound.buffer(bytes(32))
        array.transform(output, vertices=2, instances=2)
        assert np.frombuffer(output.read(), "f4").reshape(4, 2).tolist() == list(
            map(list, zip([0, 1, 0, 1], expected, strict=True))
        )
        array.instances = 2
        array.transform(output, vertices=1, first=3)
        assert np.frombuffer(output.read(16), "f4")[::2].tolist() == [3, 3]
    assert bound.error == "GL_NO_ERROR"


FORMATS = (
    "", " ", "/v", "2", "2f 2", "f2f", "2f3", "2i8", "2u8", "2d", "F", "-2f", "2f/", "2f/x", "2f/vv", "2f//", "2f\t",
    "2f,2f", "1f1f", "2f \u00e9",
)  # fmt: skip


def test_what_is_no_format(bound: Any) -> None:
    program, buffer = bound.program(*DRAW), bound.buffer(CORNERS)
    for format in FORMATS:
        kind, text = raised(bound.vertex_array, program, [(buffer, format, "p")])
        empty = "content[0][1] and content[0][2] size mismatch 0 != 1"
        assert (kind, text) == (Error, empty if format in ("", " ", "/v") else "content[0][1] is an invalid format")
    assert raised(bound.vertex_array, program, [(buffer, "4x", "p")]) == (Error, empty)
    assert bound.vertex_array(program, [(buffer, "2f\0what", "p")]).vertices == 4
    assert bound.error == "GL_NO_ERROR"


def test_where_moderngl_would_divide_by_zero(near_by: moderngl.Context) -> None:
    program, buffer = near_by.program(*DRAW), near_by.buffer(CORNERS)
    for format in ("600000000f", "2147483648f", "2147483647x 2f"):
        text = "content[0][1] is an invalid format"
        assert raised(near_by.vertex_array, program, [(buffer, format, "p")]) == (Error, text)


# --- making


def test_how_many_vertices_there_are(bound: Any) -> None:
    program, short, long = bound.program(*DRAW), bound.buffer(CORNERS), bound.buffer(bytes(100))
    for content, expected in (
        ([], -1),
        ([(long, "2f", "p")], 12),
        ([(long, "2f f", "p", "shade")], 8),
        ([(long, "2f", "p"), (short, "f", "shade")], 8),
        ([(short, "2f", "p"), (long, "f", "shade")], 4),
        ([(long, "2f", "p"), (short, "f/i", "shade")], 12),
        ([(short, "f/i", "shade"), (long, "2f", "p")], -1),  # the first decides that nobody knows
        ([(long, "2f 100x", "p")], 0),
    ):
        array = bound.vertex_array(program, content)
        assert (array.vertices, array.index_buffer, array.index_element_size) == (expected, None, 4)
        if expected < 0:
            assert raised(array.render) == (Error, "cannot detect the number of vertices")
    for size, count in ((1, 7), (2, 3), (4, 1)):
        array = bound.vertex_array(program, [(long, "2f", "p")], bound.buffer(bytes(7)), size)
        assert (array.vertices, array.index_element_size) == (count, size)
    array = bound.vertex_array(program, [(short, "2f", "p")])
    short.orphan(400)
    assert array.vertices == 4  # as it was made
    assert bound.error == "GL_NO_ERROR"


def test_what_it_is_made_of(bound: Any) -> None:
    program, buffer = bound.program(*DRAW), bound.buffer(CORNERS)
    index = bound.buffer(bytes(4))
    captured = bound.program("#version 330\nin float a; out float b;\nvoid main() { b = a; }", varyings=["b"])
    array = bound.vertex_array(program, buffer, "p", index_buffer=index, index_element_size=2, mode=LINES)
    assert array.program is program and array.index_buffer is index
    assert (array.mode, array.vertices, array.scope, array.extra, type(array.glo)) == (LINES, 2, None, None, int)
    assert bound.simple_vertex_array(program, buffer, "p", "shade").vertices == 2
    assert bound.vertex_array(program, buffer, "p").mode == TRIANGLES
    assert bound.vertex_array(captured, []).mode == POINTS  # without a fragment shader
    array.mode = 99
    assert array.mode == 99
    for name in ("program", "index_buffer", "index_element_size"):
        assert raised(setattr, array, name, None)[0] is AttributeError
    text = "'mgl.VertexArray' object has no attribute 'subroutines'"
    for kind, said in (raised(lambda: array.subroutines), raised(setattr, array, "subroutines", ())):
        assert kind is AttributeError and said.startswith(text)  # from Python 3.13 on, setting says more
    assert detect_format(program, ["shade", "p"]) == "1f 2f"
    assert detect_format(program, (program["p"].location,), "struct") == "2f"
    assert raised(detect_format, program, ["p"], "x") == (ValueError, "invalid format mode: x")
    assert raised(detect_format, program, ["x"]) == (KeyError, "'x'")
    assert bound.error == "GL_NO_ERROR"


ELSEWHERE = "the index_buffer belongs to a different context"
WRONG: tuple[tuple[type[Exception], str, Callable[[Any, Any, Any], Any]], ...] = (
    (KeyError, "'nothing'", lambda x, p, b: x.vertex_array(p, [(b, "2f", "nothing")])),
    (KeyError, "99", lambda x, p, b: x.vertex_array(p, [(b, "2f", 99)])),
    (KeyError, "'n'", lambda x, p, b: x.vertex_array(p, [(b, "2f", "n")])),
    (Error, "content[0][2] must not be empty", lambda x, p, b: x.vertex_array(p, [(b, "2f")])),
    (Error, "content[1][1] and content[1][2] size mismatch 2 != 1",
     lambda x, p, b: x.vertex_array(p, [(b, "2f", "p"), (b, "f f", "shade")])),
    (Error, "content[0][1] and content[0][2] size mismatch 1 != 2",
     lambda x, p, b: x.vertex_array(p, [(b, "2f", "p", "shade")])),
    (Error, "content[0][1] must be a string not bytes", lambda x, p, b: x.vertex_array(p, [(b, b"2f", "p")])),
    (Error, "content[0][1] must be a string not numpy.str_",
     lambda x, p, b: x.vertex_array(p, [(b, np.str_("2f"), "p")])),
    (Error, "content[0][0] must be a Buffer not mgl.Texture",
     lambda x, p, b: x.vertex_array(p, [(x.texture((1, 1), 4), "2f", "p")])),
    (AttributeError, "'int' object has no attribute 'mglo'", lambda x, p, b: x.vertex_array(p, [(1, "2f", "p")])),
    (ValueError, "not enough values to unpack (expected at least 2, got 1)", lambda x, p, b: x.vertex_array(p, [(b,)])),
    (TypeError, "argument 1 must be mgl.Program, not mgl.Buffer",
     lambda x, p, b: x.mglo.vertex_array(b.mglo, (), None, 4)),
    (Error, "the index_buffer must be a Buffer not mgl.Texture",
     lambda x, p, b: x.vertex_array(p, [], x.texture((1, 1), 4))),
    (AttributeError, "'bytes' object has no attribute 'mglo'", lambda x, p, b: x.vertex_array(p, [], b"abc")),
    (Error, "index_element_size must be 1, 2, or 4, not 3", lambda x, p, b: x.vertex_array(p, [], b, 3)),
    (Error, "index_element_size must be 1, 2, or 4, not 0", lambda x, p, b: x.vertex_array(p, [], None, 0)),
    (Error, "index_element_size must be 1, 2, or 4, not -1", lambda x, p, b: x.vertex_array(p, [], b, -1)),
    (TypeError, "'float' object cannot be interpreted as an integer", lambda x, p, b: x.vertex_array(p, [], b, 4.0)),
    (SyntaxError, "Change simple_vertex_array to vertex_array", lambda x, p, b: x.simple_vertex_array(p, [b], "p")),
    (Error, "content[0][2] must not be empty", lambda x, p, b: x.mglo.vertex_array(p.mglo, ((b.mglo, ""),), None, 4)),
)  # fmt: skip


def test_what_cannot_be_made(bound: Any) -> None:
    program, buffer = bound.program(*DRAW), bound.buffer(CORNERS)
    for kind, text, call in WRONG:
        assert raised(call, bound, program, buffer) == (kind, text)
    buffer.release()
    text = "content[0][0] must be a Buffer not InvalidObject"
    assert raised(bound.vertex_array, program, [(buffer, "2f", "p")]) == (Error, text)
    assert raised(bound.vertex_array, program, [], buffer) == (Error, ELSEWHERE)
    assert bound.error == "GL_NO_ERROR"


def test_of_another_context(near_by: moderngl.Context, new_context: NewContext) -> None:
    other = new_context("in-process")
    program, buffer = near_by.program(*DRAW), near_by.buffer(CORNERS)
    for ctx, content, index, text in (
        (other, [], None, "the program belongs to a different context"),
        (near_by, [], other.buffer(CORNERS), ELSEWHERE),
        (near_by, [(other.buffer(CORNERS), "2f", "p")], None, "content[0][0] belongs to a different context"),
        (other, [(buffer, "2f", "p")], buffer, "the program belongs to a different context"),
    ):
        assert raised(ctx.vertex_array, program, content, index) == (Error, text)


# --- drawing


def test_drawing_is_that_of_plain_moderngl(ctx: moderngl.Context, new_context: NewContext) -> None:
    def drawn(ctx: Any) -> list[Any]:
        fbo = ctx.framebuffer(ctx.texture((16, 16), 1))
        fbo.use()
        program = ctx.program(*DRAW)
        points = np.random.default_rng(5).uniform(-1, 1, (6, 3)).astype("f4")
        arrays = [ctx.vertex_array(program, [(ctx.buffer(points), "2f f", "p", "shade")])]
        for size in (1, 2, 4):
            last = (1 << 8 * size) - 1 if size == 4 else 3  # OpenGL restarts at it where it is the greatest of 4 bytes
            indices = np.array([0, 1, 2, last, 3, 4, 5, 1, 0], f"u{size}")
            arrays.append(ctx.vertex_array(program, arrays[0]._content, ctx.buffer(indices), size))
        found: list[Any] = []
        for array in arrays:
            for mode in (*range(7), *range(10, 14), 99, -1):
                for vertices, first, instances in ((-1, 0, -1), (3, 1, 1), (0, 0, 1), (4, 2, 3), (-1, 0, 0)):
                    fbo.clear()
                    array.render(mode, vertices, first, instances)
                    found.append((fbo.read(components=1), ctx.error, array.vertices))
            array.instances, array.vertices = 2, 4
            fbo.clear()
            array.render(TRIANGLE_STRIP)
            found.append(fbo.read(components=1))
            commands = ctx.buffer(RECORD.pack(4, 1, 0, 0, 0) + RECORD.pack(3, 2, 1, 0, 0) + bytes(19))
            for count, first in ((-1, 0), (1, 0), (1, 1), (-1, 1), (0, 0), (2, 0), (3, 0)):
                fbo.clear()
                array.render_indirect(commands, TRIANGLE_STRIP, count, first)
                found.append((fbo.read(components=1), ctx.error))
        return found

    found = drawn(ctx)
    assert sum(isinstance(item, tuple) and any(item[0]) for item in found) > 100
    assert found == drawn(new_context("plain"))


@pytest.mark.parametrize("size", (1, 2, 4))
def test_indices(ctx: Any, size: int) -> None:
    fbo = ctx.framebuffer(ctx.texture((2, 2), 1))
    fbo.use()
    fbo.clear()
    content = [(ctx.buffer(CORNERS), "2f", "p")]
    array = ctx.vertex_array(ctx.program(*DRAW), content, ctx.buffer(np.array([0, 1, 2, 2, 1, 3], f"u{size}")), size)
    array.render(vertices=3, first=3)
    assert sum(map(bool, fbo.read(components=1))) in (1, 3)
    array.render()
    assert fbo.read(components=1) == b"\xff" * 4
    fbo.clear()
    if size == 4:
        array.mglo.index_buffer = ctx.buffer(np.array([2, 1, 3], "u4")).mglo
        assert array.vertices == 3
        assert raised(setattr, array.mglo, "index_buffer", None) == (
            Error, "the index_buffer must be a Buffer not NoneType"
        )  # fmt: skip
    assert ctx.error == "GL_NO_ERROR"


def test_wrong_arguments(bound: Any) -> None:
    array = bound.vertex_array(bound.program(*DRAW), [(bound.buffer(CORNERS), "2f", "p")])
    index = "'{}' object cannot be interpreted as an integer"
    for name in ("mode", "vertices", "first", "instances"):
        assert raised(array.render, **{name: "x"}) == (TypeError, index.format("str"))
    assert raised(array.render, vertices=None) == (TypeError, index.format("NoneType"))
    text = "argument 1 must be mgl.Buffer, not mgl.Texture"
    assert raised(array.render_indirect, bound.texture((1, 1), 4)) == (TypeError, text)
    for name in ("vertices", "instances"):
        first = getattr(array, name)
        for kind, text, value in (
            (Error, f"invalid value for {name}", -1),
            (Error, f"invalid value for {name}", 1 << 64),
            (TypeError, "int() argument must be a string, a bytes-like object or a real number, not 'NoneType'", None),
            (ValueError, "invalid literal for int() with base 10: 'x'", "x"),
        ):
            assert raised(setattr, array, name, value) == (kind, text)
        assert getattr(array, name) == first
        for given, expected in ((0, 0), ("7", 7), (2.9, 2), (1 << 31, -(1 << 31)), ((1 << 32) + 3, 3)):
            setattr(array, name, given)
            assert getattr(array, name) == expected
    assert bound.error == "GL_NO_ERROR"


def test_bind(bound: Any) -> None:
    program = bound.program(
        "#version 430\nin vec2 f; in ivec2 i; in dvec2 d; out vec2 a; flat out ivec2 b; flat out dvec2 c;\n"
        "void main() { a = f; b = i; c = d; }",
        varyings=["a", "b", "c"], varyings_capture_mode="separate",
    )  # fmt: skip
    floats, ints = bound.buffer(np.arange(8, dtype="f4")), bound.buffer(np.arange(8, dtype="i4"))
    doubles = bound.buffer(np.arange(8, dtype="f8"))
    array = bound.vertex_array(program, [])
    f, i, d = (program[name].location for name in "fid")
    array.bind(f, "f", floats, "2f", 4, 8)
    array.bind(i, "int", ints, "2i", offset=8, stride=12)
    array.bind(d, "d", doubles, "2f8", divisor=1)
    outputs = [bound.buffer(bytes(64)) for _ in range(3)]
    array.transform(outputs, vertices=2)
    assert np.frombuffer(outputs[0].read(16), "f4").tolist() == [1, 2, 3, 4]
    assert np.frombuffer(outputs[1].read(16), "i4").tolist() == [2, 3, 5, 6]
    assert np.frombuffer(outputs[2].read(32), "f8").tolist() == [0, 1, 0, 1]
    for kind, text, arguments in (
        (Error, "invalid normalize", (f, "f", floats, "2f", 0, 0, 0, True)),
        (Error, "invalid format", (f, "f", floats, "2f f")),
        (Error, "invalid format", (f, "f", floats, "2f/i")),
        (Error, "invalid format", (f, "f", floats, "x")),
        (Error, "invalid format", (f, "f", floats, "4x 2f")),
        (Error, "invalid format", (f, "f", floats, "")),
        (Error, "invalid type", (f, "x", floats, "2f")),
        (Error, "invalid type", (f, "", floats, "2f")),
        (TypeError, "argument 2 must be str, not bytes", (f, b"f", floats, "2f")),
        (TypeError, "argument 4 must be str, not None", (f, "f", floats, None)),
        (TypeError, "argument 3 must be mgl.Buffer, not mgl.Program", (f, "f", program, "2f")),
        (TypeError, "'str' object cannot be interpreted as an integer", ("f", "f", floats, "2f")),
    ):
        assert raised(array.bind, *arguments) == (kind, text)
    assert bound.error == "GL_NO_ERROR"
    array.bind(1 << 10, "f", floats, "2f")
    assert bound.error == "GL_INVALID_VALUE"


# --- transform


def test_transform(bound: Any) -> None:
    program = bound.program("#version 330\nin float a; out float b;\nvoid main() { b = 2.0 * a; }", varyings=["b"])
    source = bound.buffer(np.arange(6, dtype="f4"))
    array = bound.vertex_array(program, [(source, "f", "a")])
    indexed = bound.vertex_array(program, [(source, "f", "a")], bound.buffer(b"\5\0\3\1"), 1)

    def seen(array: Any, size: int = 6, **more: Any) -> Any:
        output = bound.buffer(bytes(4 * size))
        array.transform(output, **more)
        return np.frombuffer(output.read(), "f4").tolist()

    assert seen(array) == [0, 2, 4, 6, 8, 10]
    assert seen(array, vertices=2, first=3) == [6, 8, 0, 0, 0, 0]
    assert seen(array, vertices=2, instances=2) == [0, 2, 0, 2, 0, 0]
    assert seen(array, buffer_offset=8) == [0, 0, 0, 2, 4, 6]
    assert seen(array, mode=LINES, vertices=4) == [0, 2, 4, 6, 0, 0]
    assert seen(array, mode=moderngl.LINE_STRIP, vertices=3) == [0, 2, 2, 4, 0, 0]
    assert seen(array, mode=moderngl.TRIANGLE_FAN, vertices=4)[3:] == [0, 4, 6]
    assert seen(array, 4) == [0, 2, 4, 6]
    assert seen(indexed) == [10, 0, 6, 2, 0, 0]
    assert seen(indexed, first=2, vertices=2) == [6, 2, 0, 0, 0, 0]
    assert bound.error == "GL_NO_ERROR"
    fbo = bound.fbo
    fbo.clear()
    quad = bound.vertex_array(bound.program(*DRAW), [(bound.buffer(CORNERS), "2f", "p")])
    quad.render(TRIANGLE_STRIP)
    assert fbo.read(components=1)[:4] == b"\xff" * 4  # it left no RASTERIZER_DISCARD behind
    fbo.clear()
    bound.enable(moderngl.RASTERIZER_DISCARD)
    seen(array)
    quad.render(TRIANGLE_STRIP)
    assert fbo.read(components=1)[:4] == bytes(4)
    wrong = "invalid output buffer at index {} (released or not a buffer)"
    released = bound.buffer(bytes(4))
    released.release()
    for kind, text, array_, output, more in (
        (Error, "the program has no varyings", quad, source, {}),
        (Error, wrong.format(0), array, bound.texture((1, 1), 4), {}),
        (Error, wrong.format(1), array, (source, released), {}),
        (AttributeError, "'int' object has no attribute 'mglo'", array, 1, {}),
        (Error, "cannot detect the number of vertices", bound.vertex_array(program, []), source, {}),
        (Error, "Primitive mode not supported: 7", array, source, {"mode": 7}),
        (Error, "Primitive mode not supported: -1", array, source, {"mode": -1}),
        (TypeError, "'str' object cannot be interpreted as an integer", array, source, {"buffer_offset": "x"}),
    ):
        assert raised(array_.transform, output, **more) == (kind, text)
    assert bound.error == "GL_NO_ERROR"


GEOMETRY = """#version 330
layout({}) in; layout(points, max_vertices=1) out; in float b[]; out float c;
void main() {{ c = b[0] + b[b.length() - 1]; EmitVertex(); EndPrimitive(); }}"""
MODES = {
    "points": ({0}, 1, "POINTS as input. Change the transform mode."),
    "lines": (
        {1, 2, 3, 10}, 2, "LINES, LINE_STRIP, GL_LINE_LOOP or GL_LINES_ADJACENCY as input. Change the rendering mode."
    ),
    "lines_adjacency": ({10, 11}, 4, "LINES_ADJACENCY or LINE_STRIP_ADJACENCY as input. Change the rendering mode."),
    "triangles": (
        {4, 5, 6}, 3, "GL_TRIANGLES, GL_TRIANGLE_STRIP or GL_TRIANGLE_FAN as input. Change the rendering mode."
    ),
    "triangles_adjacency": (
        {12, 13}, 6, "GL_TRIANGLES_ADJACENCY or GL_TRIANGLE_STRIP_ADJACENCY as input. Change the rendering mode."
    ),
}  # fmt: skip
"""By the input of a geometry shader: the modes that it admits, the vertices of one of the first, and what it says."""


def test_transform_through_a_geometry_shader(bound: Any) -> None:
    vertex = "#version 330\nin float a; out float b;\nvoid main() { b = a; }"
    source = bound.buffer(np.arange(1, 13, dtype="f4"))
    for name, (admitted, count, text) in MODES.items():
        program = bound.program(vertex, geometry_shader=GEOMETRY.format(name), varyings=["c"])
        array, output = bound.vertex_array(program, [(source, "f", "a")]), bound.buffer(bytes(48))
        for mode in range(15):
            if mode not in admitted:
                expected = (Error, f"Geometry shader expects {text}")
                assert raised(array.transform, output, mode, vertices=count) == expected
        array.transform(output, min(admitted), vertices=count)
        last = {"lines_adjacency": 4, "triangles_adjacency": 6}.get(name, count)
        assert np.frombuffer(output.read(4), "f4").tolist() == [1 + last]
    assert bound.error == "GL_NO_ERROR"


def test_drawing_does_not_wait(remote: moderngl.Context) -> None:
    remote.simple_framebuffer((4, 4)).use()
    program: Any = remote.program(*DRAW)
    captured = remote.program("#version 330\nin float a; out float b;\nvoid main() { b = a; }", varyings=("b",))
    device: Any = glremote.device(remote)
    before = device.measure().waits
    buffer = remote.buffer(CORNERS)
    array = remote.vertex_array(program, [(buffer, "2f", "p")], remote.buffer(bytes(8)), 2)
    for _ in range(50):
        array.vertices = array.vertices
        array.render(instances=3)
        array.render_indirect(remote.buffer(RECORD.pack(1, 1, 0, 0, 0)))
        array.bind(0, "f", buffer, "2f")
    remote.vertex_array(captured, [(buffer, "f", "a")]).transform(remote.buffer(reserve=64))
    array.release()
    assert device.measure().waits == before
