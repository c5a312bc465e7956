"""Programs: every stage, from every kind of source; members as the driver reflects them, and its log."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import moderngl
import numpy as np
import pytest

import glremote
from tests.recording.raising import raised

Error = moderngl.Error
NewContext = Callable[..., moderngl.Context]

VERTEX = "#version 330\nin vec4 p;\nvoid main() { gl_Position = p; }"
FRAGMENT = "#version 330\nout vec4 color;\nvoid main() { color = vec4(1.0); }"
CORNERS = "#version 330\nvoid main() { gl_Position = vec4(vec2(gl_VertexID & 1, gl_VertexID >> 1) * 4.0 - 1.0, 0, 1); }"
RICH_VERTEX = """#version 430
struct Lamp { vec3 at; float range[2]; };
in vec2 in_vert; in mat3x2 in_matrix; in ivec3 in_int; in uint in_uint; in float in_array[2]; in float unused;
uniform Lamp lamps[2]; uniform mat4 camera; uniform vec2 offsets[3];
uniform Block { vec4 tint; mat4 more; }; uniform Blocks { vec4 tints[2]; } blocks[2];
layout(std430, binding=3) buffer Storage { float values[]; };
out vec3 shade;
void main() {
    gl_Position = camera * vec4(in_vert + in_matrix * vec3(1.0) + offsets[2], in_array[1], 1.0)
        + tint * float(in_int.x) + blocks[0].tints[0] + blocks[1].tints[1] + float(in_uint) + more[1];
    shade = lamps[0].at * lamps[1].range[1] + lamps[1].at * lamps[0].range[0] + values[1];
}"""
RICH_FRAGMENT = """#version 430
in vec3 shade; out vec4 color; uniform sampler2D image; uniform usampler3D volume; uniform bool on; uniform dvec2 d;
layout(rgba8) uniform image2D target;
void main() {
    color = texture(image, shade.xy) + vec4(texture(volume, shade)) + float(d.y);
    if (on) imageStore(target, ivec2(0), color);
}"""
CONTROL = """#version 430
layout(vertices=3) out; uniform float level;
void main() {
    gl_out[gl_InvocationID].gl_Position = gl_in[gl_InvocationID].gl_Position;
    gl_TessLevelOuter[0] = gl_TessLevelOuter[1] = gl_TessLevelOuter[2] = gl_TessLevelInner[0] = level;
}"""
EVALUATION = """#version 430
layout(triangles) in;
void main() { gl_Position = gl_in[0].gl_Position * gl_TessCoord.x + gl_in[1].gl_Position * gl_TessCoord.y
    + gl_in[2].gl_Position * gl_TessCoord.z; }"""
GEOMETRY = """#version 330
layout({input}) in; layout({output}, max_vertices={count}) out; out float b;
void main() {{
    for (int i = 0; i < {count}; ++i) {{ b = float(i); gl_Position = gl_in[0].gl_Position; EmitVertex(); }}
}}"""
CAPTURED = """#version 430
in float a; out float b; out vec2 c; flat out ivec3 d; out float e[2];
void main() { b = a; c = vec2(a, -a); d = ivec3(a); e[0] = a; e[1] = a + 1.0; }"""
COMPUTE = """#version 430
layout(local_size_x=1) in; uniform uint k; layout(std430, binding=0) buffer Out { uint o[]; };
void main() { o[gl_WorkGroupID.x] = k + gl_WorkGroupID.x + 10u * gl_WorkGroupID.y + 100u * gl_WorkGroupID.z; }"""


def described(program: Any) -> list[Any]:
    """A program as it shows itself: members in order with all their attributes, and its own properties."""

    def member(thing: Any) -> Any:
        facts = {name: value for name, value in vars(thing).items() if name not in ("program_obj", "ctx")}
        return type(thing), repr(thing), thing.mglo is thing, facts

    found: list[Any] = [(name, member(program[name])) for name in program]
    for name in ("geometry_input", "geometry_output", "geometry_vertices", "is_transform", "subroutines"):
        found.append((name, getattr(program, name, None)))
    found.append(getattr(program, "_attribute_locations", None))
    found.extend((k, member(v)) for k, v in getattr(program, "_attribute_types", {}).items())
    return [*found, type(program.glo), program.extra, program.ctx.version_code]


MAKERS: dict[str, Callable[[Any], Any]] = {
    "plain shaders": lambda ctx: ctx.program(VERTEX, FRAGMENT),
    "no fragment shader": lambda ctx: ctx.program(VERTEX),
    "no vertex shader": lambda ctx: ctx.program(None, FRAGMENT),
    "much": lambda ctx: ctx.program(RICH_VERTEX, RICH_FRAGMENT),
    "tessellation": lambda ctx: ctx.program(
        VERTEX, FRAGMENT, tess_control_shader=CONTROL, tess_evaluation_shader=EVALUATION
    ),
    "varyings": lambda ctx: ctx.program(CAPTURED, varyings=["c", "b", "d", "e[1]"]),
    "one varying": lambda ctx: ctx.program(CAPTURED, varyings="b"),
    "separate varyings": lambda ctx: ctx.program(CAPTURED, varyings=("b", "e"), varyings_capture_mode="separate"),
    "a gap": lambda ctx: ctx.program(CAPTURED, varyings=["b", "gl_SkipComponents2", "c"]),
    "a varying named as an attribute": lambda ctx: ctx.program(CAPTURED.replace("b", "a0"), varyings=["a0"]),
    "attributes that OpenGL feeds": lambda ctx: ctx.program(
        "#version 330\nin float a; out float b;\nvoid main() { b = a + float(gl_VertexID + gl_InstanceID); }",
        varyings=["b"],
    ),
    "own attribute locations": lambda ctx: ctx.program(RICH_VERTEX, RICH_FRAGMENT, attributes=["in_vert", "x"]),
    "compute": lambda ctx: ctx.compute_shader(COMPUTE),
}  # fmt: skip
GEOMETRIES = {
    "points": "points", "lines": "line_strip", "lines_adjacency": "points", "triangles": "triangle_strip",
    "triangles_adjacency": "line_strip",
}  # fmt: skip


def geometry(ctx: Any, input: str, count: int = 3) -> Any:
    """A program with a geometry shader."""
    source = GEOMETRY.format(input=input, output=GEOMETRIES[input], count=count)
    return ctx.program(VERTEX, FRAGMENT, source, varyings=["b"])


MAKERS |= {name: partial(geometry, input=name) for name in GEOMETRIES}


def test_reflection(ctx: moderngl.Context, new_context: NewContext) -> None:
    found = {name: described(make(ctx)) for name, make in MAKERS.items()}
    assert ctx.error == "GL_NO_ERROR"
    plain = new_context("plain")
    for name, make in MAKERS.items():
        assert found[name] == described(make(plain)), name


def test_what_members_there_are(ctx: Any) -> None:
    program = ctx.program(RICH_VERTEX, RICH_FRAGMENT)
    kinds = [type(program[name]).__name__ for name in program]
    assert sorted(kinds, key=["Attribute", "Varying", "Uniform", "UniformBlock", "StorageBlock"].index) == kinds
    assert {"lamps[0].at", "lamps[1].range", "offsets", "Block", "Storage", "in_array"} <= set(program)
    assert "unused" not in program and "tint" not in program and 1 not in program
    assert program.get("unused", None) is None and program.get("camera", 5) is program["camera"]
    assert (repr(program["in_vert"])[:12], repr(program["Storage"])) == ("<Attribute: ", "<StorageBlock: 0>")
    for key in ("unused", "tint", "", 5, None):
        assert raised(program.__getitem__, key) == (KeyError, repr(key))
        assert raised(program.__setitem__, key, 1) == (KeyError, repr(key))
    assert raised(program.get, "camera")[0] is TypeError  # the default has no default
    assert raised(len, program) == (TypeError, "object of type 'Program' has no len()")
    program["in_vert"] = 1
    assert program["in_vert"].value == 1  # an attribute in Python only
    compute = ctx.compute_shader(COMPUTE)
    assert sorted(compute) == ["Out", "k"] and compute.get("x", 7) == 7
    assert not hasattr(compute, "geometry_input") and not hasattr(compute, "is_transform")
    assert ctx.error == "GL_NO_ERROR"


def test_geometry(ctx: moderngl.Context) -> None:
    def facts(program: Any) -> tuple[Any, ...]:
        return program.geometry_input, program.geometry_output, program.geometry_vertices, program.is_transform

    assert facts(geometry(ctx, "lines_adjacency")) == (moderngl.LINES_ADJACENCY, moderngl.POINTS, 3, False)
    assert facts(geometry(ctx, "triangles", 4)) == (moderngl.TRIANGLES, moderngl.TRIANGLES, 4, False)
    assert facts(ctx.program(VERTEX)) == (None, None, 0, True)


# --- sources


class Source:
    """Something that gives a source."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def to_shader_source(self) -> Any:
        if isinstance(self.source, Exception):
            raise self.source
        return self.source


class Bytes(bytes):
    """No bytes of Python's own."""


def test_kinds_of_sources(ctx: moderngl.Context) -> None:
    expected = described(ctx.program(VERTEX, FRAGMENT))
    for vertex in (
        VERTEX.encode(), Bytes(VERTEX.encode()), Source(VERTEX), Source(VERTEX.encode()), "\n \t" + VERTEX + "\n\n",
        VERTEX + "\n// \u00e9\u6f22", VERTEX.encode() + b"\n// \xff", VERTEX.encode() + b"\0 what is this",
    ):  # fmt: skip
        assert described(ctx.program(vertex, Source(FRAGMENT))) == expected
    wrong: tuple[tuple[type[Exception], str, Any], ...] = (
        (Error, "wrong shader source type", 5),
        (Error, "wrong shader source type", bytearray(VERTEX.encode())),
        (Error, "wrong shader source type", [VERTEX]),
        (Error, "wrong shader source type", Source(None)),
        (Error, "wrong shader source type", Source(Source(VERTEX))),
        (ZeroDivisionError, "no source", Source(ZeroDivisionError("no source"))),
    )
    for kind, text, source in wrong:
        assert raised(ctx.program, source, FRAGMENT) == (kind, text)
        assert raised(ctx.compute_shader, source) == (kind, text)
    assert ctx.error == "GL_NO_ERROR"


def test_includes(ctx: Any) -> None:
    assert ctx.includes == {} and ctx.includes is ctx.includes
    ctx.includes["one"] = "vec4 one() { return vec4(1.0); }"
    ctx.includes["two"] = '#include "one"'
    fragment = '#version 330\n#include   "one"\nout vec4 color;\nvoid main() { color = one(); }'
    assert list(ctx.program(VERTEX, fragment)) == ["p"]
    missing = (KeyError, "'cannot include \"three\"'")
    assert raised(ctx.program, VERTEX, '#version 330\n// #include "three"') == missing
    assert raised(ctx.compute_shader, '#version 430\n#include "three"\nvoid main() {}') == missing
    assert raised(ctx.program, '#version 330\n#include "two"', FRAGMENT)[0] is Error  # one inside of another stays
    assert raised(ctx.program, b'#version 330\n#include "one"', FRAGMENT)[0] is Error  # and so does one in bytes
    del ctx.includes["one"]
    assert raised(ctx.program, VERTEX, fragment)[0] is KeyError
    ctx.includes["one"] = 5
    assert raised(ctx.program, VERTEX, fragment)[0] is TypeError


STAGES = {
    "vertex_shader": "=============", "fragment_shader": "===============", "geometry_shader": "===============",
    "tess_control_shader": "===================", "tess_evaluation_shader": "======================",
    "compute_shader": "==============",
}  # fmt: skip
REFUSED = (
    "", "error", "\n\n#version 330\n\nerror", b"\n\n#version 330\n\nerror", "#version 999\nvoid main() {}",
    "#version 430\nvoid main() { undefined(); }", "#version 430\nin vec4 p;\nvoid main() { float x = p; }",
)  # fmt: skip
def test_logs_are_the_drivers(ctx: moderngl.Context, new_context: NewContext) -> None:
    def log(call: Any, *arguments: Any, **more: Any) -> str:
        try:
            call(*arguments, **more)
        except Error as error:
            return str(error)
        assert "llvmpipe" not in ctx.info["GL_RENDERER"]
        return "taken"  # other drivers are lenient

    def logs(ctx: Any) -> list[str]:
        found = []
        for stage in STAGES:
            for source in REFUSED:
                sources = {"vertex_shader": VERTEX, "fragment_shader": FRAGMENT, stage: source}
                text = log(ctx.compute_shader, source) if stage == "compute_shader" else log(ctx.program, **sources)
                compiler = f"GLSL Compiler failed\n\n{stage}\n{STAGES[stage]}\n"
                assert text.startswith((compiler, "GLSL Linker failed\n\nProgram\n=======\n")) or text == "taken"
                found.append(text)
        for arguments in (
            (VERTEX, None, GEOMETRY.format(input="points", output="points", count=1).replace("{ b", "{ c")),
            ("#version 330\nout vec2 v; void main() { v = vec2(0); }",
             "#version 330\nin vec4 v; out vec4 c; void main() { c = v; }"),
        ):  # fmt: skip
            found.append(log(ctx.program, *arguments))
        found.append(log(ctx.program, CAPTURED, varyings=["nothing"]))
        found.append(log(ctx.program, CAPTURED, varyings=["b", "b"]))
        return found

    found = logs(ctx)
    assert log(ctx.program).startswith("GLSL Linker failed\n\nProgram\n=======\n")  # NVIDIA's log is unwritten memory
    assert ctx.mglo.__class__.__module__ == "mgl" or log(ctx.program).isascii()
    ctx.clear_errors()
    assert list(ctx.program(VERTEX, FRAGMENT)) == ["p"]
    assert ctx.error == "GL_NO_ERROR"
    assert "0:3(1)" in found[2] or ctx.info["GL_RENDERER"][:8] != "llvmpipe"  # counted from the text that was stripped
    assert found == logs(new_context("plain"))


WRONG: tuple[tuple[type[Exception], str, dict[str, Any]], ...] = (
    (ValueError, "varyings_capture_mode must be interleaved or separate", {"varyings_capture_mode": "both"}),
    (Error, "invalid varyings", {"varyings": ["b", None]}),
    (Error, "invalid varyings", {"varyings": [b"b"]}),
    (TypeError, "'int' object is not iterable", {"varyings": 5}),
    (TypeError, "bad argument type for built-in operation", {"fragment_outputs": {1: 1}}),
    (TypeError, "'float' object cannot be interpreted as an integer", {"fragment_outputs": {"x": 1.5}}),
    (OverflowError, "Python int too large to convert to C long", {"fragment_outputs": {"x": 1 << 63}}),
)


def test_wrong_arguments(ctx: moderngl.Context) -> None:
    for kind, text, more in WRONG:
        if "fragment_outputs" in more and not glremote.device(ctx).remote:
            continue  # moderngl raises it only after it has passed a null name to OpenGL, where some drivers crash
        assert raised(ctx.program, CAPTURED, **more) == (kind, text)
        ctx.clear_errors()
    for odd in ([("x", 1)], "x", 1, ()):  # what is no dictionary is overlooked
        ctx.program(VERTEX, FRAGMENT, fragment_outputs=odd)  # type: ignore[arg-type]
    assert ctx.error == "GL_NO_ERROR"


# --- what it does


def test_fragment_outputs(ctx: moderngl.Context) -> None:
    fragment = "#version 330\nout float a, b;\nvoid main() { a = 1.0; b = 2.0; }"
    fbo = ctx.framebuffer([ctx.texture((1, 1), 1, dtype="f4") for _ in range(3)])
    fbo.use()
    outputs: tuple[tuple[Any, dict[int, float]], ...] = (  # what goes nowhere is undefined
        ({"a": 0, "b": 1}, {0: 1.0, 1: 2.0}),
        ({"a": 2, "b": np.int64(0)}, {0: 2.0, 2: 1.0}),
        ({"b": True, "a": 0, "nothing": 5}, {0: 1.0, 1: 2.0}),
    )
    for places, expected in outputs:
        ctx.vertex_array(ctx.program(CORNERS, fragment, fragment_outputs=places), []).render(vertices=3)
        for attachment, value in expected.items():
            assert fbo.read(components=1, attachment=attachment, dtype="f4") == struct.pack("f", value)
    assert ctx.error == "GL_NO_ERROR"


@pytest.mark.parametrize("mode", ("interleaved", "separate"))
def test_varyings(ctx: moderngl.Context, mode: str) -> None:
    ctx.simple_framebuffer((1, 1)).use()  # without one a transform is an error of OpenGL
    program: Any = ctx.program(CAPTURED, varyings=("c", "b"), varyings_capture_mode=mode)
    assert [(v.name, v.number, v.dimension) for v in (program["c"], program["b"])] == [("c", 0, 0), ("b", 1, 0)]
    array = ctx.vertex_array(program, [(ctx.buffer(struct.pack("2f", 1.0, 2.0)), "f", "a")])
    outputs = [ctx.buffer(bytes(32)) for _ in range(2 if mode == "separate" else 1)]
    array.transform(outputs)
    found = [np.frombuffer(output.read(), "f4").tolist() for output in outputs]
    if mode == "separate":
        assert found == [[1, -1, 2, -2, 0, 0, 0, 0], [1, 2, 0, 0, 0, 0, 0, 0]]
    else:
        assert found == [[1, -1, 1, 2, -2, 2, 0, 0]]
    assert ctx.error == "GL_NO_ERROR"


def test_tessellation_and_geometry_draw(ctx: moderngl.Context) -> None:
    fbo = ctx.framebuffer(ctx.texture((2, 2), 1))
    fbo.use()
    count = GEOMETRY.format(input="triangles", output="triangle_strip", count=3).replace("gl_in[0]", "gl_in[i]")
    for shader in (None, count):
        fbo.clear()
        program = ctx.program(CORNERS, FRAGMENT, shader, CONTROL, EVALUATION)
        program["level"] = 3.0
        ctx.vertex_array(program, []).render(moderngl.PATCHES, vertices=3)
        assert fbo.read(components=1) == b"\xff" * 4
    assert ctx.error == "GL_NO_ERROR"


def test_compute(ctx: Any) -> None:
    shader, out = ctx.compute_shader(COMPUTE), ctx.buffer(bytes(16))
    out.bind_to_storage_buffer(0)
    shader["k"] = 7

    def seen() -> list[int]:
        ctx.memory_barrier()
        data = out.read()
        out.clear()
        return list(struct.unpack("4I", data))

    shader.run(3)
    assert seen() == [7, 8, 9, 0]
    shader.run(group_x=np.int32(1), group_y=1)
    assert seen() == [7, 0, 0, 0]
    shader.run(0)
    shader.run(1, 0, 1)
    assert seen() == [0] * 4
    groups = ctx.buffer(struct.pack("6I", 9, 2, 1, 1, 4, 1))
    shader.run_indirect(groups, 4)
    assert seen() == [7, 8, 0, 0]
    assert ctx.error == "GL_NO_ERROR"
    shader.run(1, 1 << 20)
    assert ctx.error == "GL_INVALID_VALUE"
    shader.run_indirect(groups, 3)
    assert ctx.error == "GL_INVALID_VALUE"
    shader.run_indirect(groups, 16)
    assert ctx.error == "GL_INVALID_OPERATION"
    assert raised(shader.run, 1.0) == (TypeError, "'float' object cannot be interpreted as an integer")
    assert raised(shader.run_indirect, None) == (AttributeError, "'NoneType' object has no attribute 'mglo'")
    text = "argument 1 must be mgl.Buffer, not mgl.Texture"
    assert raised(shader.run_indirect, ctx.texture((1, 1), 4)) == (TypeError, text)
    assert raised(shader.run_indirect, groups, "1")[0] is TypeError


def test_a_program_waits_once(remote: moderngl.Context) -> None:
    """And one that the driver has told of before, not at all."""
    device: Any = glremote.device(remote)
    before = device.measure().waits
    program = remote.program(RICH_VERTEX, RICH_FRAGMENT)
    assert device.measure().waits == before + 1
    for name in program:
        member: Any = program[name]
        if hasattr(member, "binding"):
            member.binding = member.binding
        elif hasattr(member, "write"):
            member.write(member.read())
    shader = remote.compute_shader(COMPUTE)
    shader["k"] = 1
    shader.run()
    program.release()
    again: Any = remote.program(RICH_VERTEX, RICH_FRAGMENT)
    assert list(again) == list(program) and device.measure().waits == before + 2
    known: Any = program
    assert all(again[name].read() == known[name].read() for name in again if hasattr(again[name], "write"))
    with pytest.raises(Error):
        remote.program(RICH_VERTEX, "what does not compile")
    with pytest.raises(Error):
        remote.program(RICH_VERTEX, "what does not compile")
    assert device.measure().waits == before + 4


def test_text_that_no_command_holds(remote: moderngl.Context) -> None:
    """A host takes no command of any size; the context works on."""
    for source, names, said in (
        ("#version 330\nvoid main() {}", ("x" * (1 << 18),), "names of more than"),
        ("#version 330\nvoid main() {} //" + "x" * (1 << 20), (), "sources of the program have 10486.. bytes"),
    ):
        with pytest.raises(glremote.TooLarge, match=said):
            remote.program(source, varyings=names)
    assert remote.error == "GL_NO_ERROR"


# --- mesh shaders, and handles as uniforms

MESH = """#version 450
#extension GL_NV_mesh_shader : require
layout(local_size_x=1) in;
layout(triangles, max_vertices=3, max_primitives=1) out;
void main() {
    gl_MeshVerticesNV[0].gl_Position = vec4(-1.0, -1.0, 0.0, 1.0);
    gl_MeshVerticesNV[1].gl_Position = vec4(3.0, -1.0, 0.0, 1.0);
    gl_MeshVerticesNV[2].gl_Position = vec4(-1.0, 3.0, 0.0, 1.0);
    gl_PrimitiveIndicesNV[0] = 0; gl_PrimitiveIndicesNV[1] = 1; gl_PrimitiveIndicesNV[2] = 2;
    gl_PrimitiveCountNV = 1;
}"""


def test_mesh_shaders(ctx: Any) -> None:
    if "GL_NV_mesh_shader" not in ctx.extensions:
        pytest.skip("this driver has no mesh shaders")
    program = ctx.program(mesh_shader=MESH, fragment_shader="#version 450\nout vec4 c; void main() { c = vec4(1.0); }")
    fbo = ctx.simple_framebuffer((4, 4), 1)
    fbo.use()
    tasks, count = ctx.buffer(struct.pack("4I", 1, 0, 1, 0)), ctx.buffer(struct.pack("3I", 1, 0, 1))
    for draw in (
        lambda: program.draw_mesh_tasks(0, 1),
        lambda: program.draw_mesh_tasks_indirect(tasks),
        lambda: program.draw_mesh_tasks_indirect_count(count, 0, 0, 1),
    ):
        fbo.clear()
        draw()
        assert ctx.error in ("GL_NO_ERROR", "GL_INVALID_OPERATION")  # the last asks for a parameter buffer
    fbo.clear()
    program.draw_mesh_tasks(0, 1)
    assert fbo.read(components=1) == b"\xff" * 16


def test_wrong_arguments_of_mesh_tasks_and_handles(ctx: Any) -> None:
    program = ctx.program(VERTEX, SAMPLING)
    assert raised(program.draw_mesh_tasks, "x", 1)[0] is TypeError
    assert raised(program.mglo.draw_mesh_tasks_indirect, 5) == (TypeError, "argument 1 must be mgl.Buffer, not int")
    assert raised(program.mglo.draw_mesh_tasks_indirect_count, 5, 0, 0, 1)[0] is TypeError
    image = program["image"]
    assert raised(setattr, image, "handle", "x") == (TypeError, "argument 3 must be int, not str")
    assert raised(setattr, image, "handle", np.int64(5)) == (TypeError, "argument 3 must be int, not numpy.int64")
    image.handle = -1
    image.handle = 1 << 70
    image.handle = True
    assert raised(lambda: image.handle) == raised(lambda: ctx.program(VERTEX, SAMPLING)["image"].handle)


SAMPLING = "#version 330\nuniform sampler2D image; out vec4 c; void main() { c = texture(image, vec2(0.0)); }"
