"""The programs that random programs use: a fixed handful, with what feeds them.

Knows: sources, and which values their uniforms take. Does not know: what is drawn with them. Nothing here is left to
the driver: what is read is bound by the steps that draw, and no two invocations write the same place.
"""

from __future__ import annotations

from typing import NamedTuple

LAYOUTS = {
    "captured": ("1f2 2f2", "f1 2f1", "1f 4x 2f", "x4 1f 2f4", "1i 2u2", "2x 1i1 2i2 3x", "f 2f1/i", "1u4 x 2u1 /v"),
    "flat": ("2f 3f1", "2f2 3f2", "2i1 3u1", "2f 3f1 x", "3x 2f 3f /i"),
    "mixed": ("2i1 u1 4f1 4f2 2f8", "2i2 u2 4f 4f 2f8 4x", "2i4 1u4 4f2 4f2 2f8"),
    "types": ("f2", "f1", "1i", "x8 f", "u1 /r"),
}
"""Other formats that feed all attributes of a program, none with longer vertices than its own and 8 bytes."""


class Shaders(NamedTuple):
    """One program: the arguments that make it, its attributes with their formats, and values of its members."""

    sources: dict[str, object]
    attributes: dict[str, str] = {}  # noqa: RUF012
    uniforms: dict[str, tuple[str, ...]] = {}  # noqa: RUF012
    modes: tuple[str, ...] = ("0", "1", "3", "4", "5", "6")
    integer: bool = False
    captures: bool = False
    outputs: int = 1


CORNER = """#version 430
out vec2 uv;
void main() {
    uv = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2.0;
    gl_Position = vec4(uv * 2.0 - 1.0, 0.5, 1.0);
}"""
FLAT = """#version 430
in vec2 position;
in vec3 shade;
uniform vec2 move;
uniform float size = 1.0;
out vec3 s;
void main() {
    s = shade;
    gl_Position = vec4(position * size + move, 0.25, 1.0);
    gl_PointSize = 2.0;
}"""
TYPES = """#version 430
struct Pair { vec2 first; float second; };
in float a;
uniform bool yes;
uniform bvec3 which;
uniform int one = 7;
uniform ivec3 three;
uniform uint plain_;
uniform uvec2 two;
uniform vec4 four = vec4(1.0, 2.0, 3.0, 4.0);
uniform mat2 small;
uniform mat3x2 odd;
uniform mat4 large;
uniform double exact;
uniform dvec2 exacts;
uniform float list[3];
uniform vec2 lists[2];
uniform ivec2 whole[2];
uniform Pair pairs[2];
out vec4 b;
out vec2 c;
void main() {
    b = vec4(float(yes) + float(which.x) + float(which.z), float(one + three.y), float(plain_ + two.x), a);
    b += four + vec4(small[1], odd[2]) + large[3];
    c = vec2(exacts) + vec2(exact) + lists[1] + pairs[1].first + vec2(pairs[0].second) + vec2(list[2], list[0]);
    c += vec2(whole[1]);
    gl_Position = vec4(0.0);
}"""

SHADERS = {
    "flat": Shaders(
        {
            "vertex_shader": FLAT,
            "fragment_shader": "#version 430\nin vec3 s; uniform vec4 tint = vec4(1.0); out vec4 color;\n"
            "void main() { color = vec4(s, 1.0) * tint; }",
        },
        {"position": "2f", "shade": "3f"},
        {
            "move": ("(0.25, -0.5)", "(0, 0)"), "size": ("0.5", "1", "-2.0"),
            "tint": ("(1, 0.5, 0.25, 1)", "(0, 0, 0, 0)"),
        },
    ),
    "textured": Shaders(
        {
            "vertex_shader": CORNER,
            "fragment_shader": "#version 430\nin vec2 uv; out vec4 color;\n"
            "layout(binding = 0) uniform sampler2D picture;\nlayout(binding = 1) uniform sampler2DArray layers;\n"
            "layout(binding = 2) uniform sampler3D volume;\nlayout(binding = 3) uniform samplerCube cube;\n"
            "layout(binding = 4) uniform sampler2DShadow shadow;\n"
            "void main() { color = texture(picture, uv * 1.5 - 0.25) + 0.5 * texture(layers, vec3(uv, 1.0))\n"
            "+ 0.25 * texture(volume, vec3(uv, uv.x)) + 0.125 * texture(cube, vec3(uv - 0.5, 0.25))\n"
            "+ 0.0625 * textureLod(picture, uv, 1.0) + 0.5 * texture(shadow, vec3(uv, 0.25)); }",
        },
        {},
        {"picture": ("0", "5"), "layers": ("1",), "volume": ("2", "6")},
    ),
    "two": Shaders(
        {
            "vertex_shader": CORNER,
            "fragment_shader": "#version 430\nin vec2 uv; out vec4 first; out vec4 second;\n"
            "void main() { first = vec4(uv, 0.0, 1.0); second = vec4(1.0, uv, 0.5);\n"
            "gl_FragDepth = uv.x * 0.5; }",
            "fragment_outputs": {"first": 0, "second": 1},
        },
        outputs=2,
    ),
    "counted": Shaders(
        {
            "vertex_shader": CORNER,
            "fragment_shader": "#version 430\nin vec2 uv; uniform uint more = 3u; out uvec4 color;\n"
            "void main() { color = uvec4(uint(uv.x * 8.0), uint(uv.y * 8.0), more, 1u); }",
        },
        {},
        {"more": ("5", "2**32 - 1", "0")},
        integer=True,
    ),
    "blocks": Shaders(
        {
            "vertex_shader": CORNER,
            "fragment_shader": "#version 430\nin vec2 uv; out vec4 color;\n"
            "layout(std140, binding = 1) uniform Colors { vec4 a; vec4 b[2]; };\n"
            "layout(std430, binding = 2) buffer Numbers { uint n[4]; };\n"
            "void main() { color = (uv.x < 0.5 ? a : b[1]) + vec4(float(n[1] & 1u), 0.0, float(n[3] & 1u), 1.0); }",
        },
        {},
        {"Colors": ("1",), "Numbers": ("2",)},
    ),
    "captured": Shaders(
        {
            "vertex_shader": "#version 430\nin float a; in vec2 b; uniform float k = 2.0; out float c; out vec2 d;\n"
            "void main() { c = a * k; d = b + vec2(gl_VertexID, gl_InstanceID); gl_Position = vec4(a, b, 1.0); }",
            "varyings": ("c", "d"),
        },
        {"a": "1f", "b": "2f"},
        {"k": ("3.5", "-1")},
        modes=("0",),
        captures=True,
        outputs=0,
    ),
    "mixed": Shaders(
        {
            "vertex_shader": "#version 430\nin ivec2 i; in uint u; in mat2 m; in vec2 v[2]; in dvec2 d;\n"
            "flat out ivec2 j; flat out uint w; out vec4 n; out vec2 x[2]; out vec2 e;\n"
            "void main() { j = i; w = u; n = vec4(m[0], m[1]); x[0] = v[1]; x[1] = v[0]; e = vec2(d); }",
            "varyings": ["j", "w", "n", "x", "e"],
        },
        {"i": "2i", "u": "1u", "m": "4f", "v": "4f", "d": "2f8"},
        modes=("0", "1"),
        captures=True,
        outputs=0,
    ),
    "types": Shaders(
        {"vertex_shader": TYPES, "varyings": ["b", "c"]},
        {"a": "1f"},
        {
            "yes": ("True", "0", "7"), "which": ("(True, False, 5)",), "one": ("-3", "2**31 - 1"),
            "three": ("(1, -2, 3)",), "plain_": ("2**32 - 1", "4"), "two": ("(1, 2)",),
            "four": ("(0.1, 0.2, 0.3, 0.4)", "range(4)"), "small": ("(1, 2, 3, 4)",), "odd": ("range(6)",),
            "large": ("tuple(range(16))", "np.eye(4).ravel()"), "exact": ("0.1", "3"), "exacts": ("(0.1, 0.2)",),
            "list": ("(1, 2, 3)", "[0.5, 1.5, 2.5]"), "lists": ("((1, 2), (3, 4))",),
            "whole": ("[(1, 2), (-3, 4)]",), "pairs[0].first": ("(5, 6)",), "pairs[1].second": ("2.5",),
        },
        modes=("0",),
        captures=True,
        outputs=0,
    ),
    "grown": Shaders(
        {
            "vertex_shader": "#version 430\nin vec2 position; void main() { gl_Position = vec4(position, 0.0, 1.0); }",
            "geometry_shader": "#version 430\nlayout(points) in; layout(triangle_strip, max_vertices = 3) out;\n"
            "uniform float far = 0.5; out float g;\nvoid main() { for (int i = 0; i < 3; i++) {\n"
            "g = float(i); gl_Position = gl_in[0].gl_Position + vec4(far * float(i & 1), far * float(i >> 1), 0, 0);\n"
            "EmitVertex(); } EndPrimitive(); }",
            "fragment_shader": "#version 430\nin float g; out vec4 color;\nvoid main() { color = vec4(g, 1, 0, 1); }",
        },
        {"position": "2f"},
        {"far": ("0.25", "1.0")},
        modes=("0", "0", "4"),
    ),
    "split": Shaders(
        {
            "vertex_shader": "#version 430\nin vec2 position; out vec2 p; void main() { p = position; }",
            "geometry_shader": "#version 430\nlayout(lines) in; layout(points, max_vertices = 2) out;\n"
            "in vec2 p[]; out vec2 q;\nvoid main() { q = p[0] + p[1]; EmitVertex(); q = p[0] - p[1]; EmitVertex(); }",
            "varyings": "q",
            "varyings_capture_mode": "separate",
        },
        {"position": "2f"},
        modes=("1", "2", "3", "10"),
        captures=True,
        outputs=0,
    ),
    "patched": Shaders(
        {
            "vertex_shader": "#version 430\nin vec2 position; void main() { gl_Position = vec4(position, 0.0, 1.0); }",
            "tess_control_shader": "#version 430\nlayout(vertices = 3) out; uniform float level = 2.0;\nvoid main() {\n"
            "gl_out[gl_InvocationID].gl_Position = gl_in[gl_InvocationID].gl_Position;\n"
            "gl_TessLevelOuter[0] = gl_TessLevelOuter[1] = gl_TessLevelOuter[2] = level; gl_TessLevelInner[0] = 1.0; }",
            "tess_evaluation_shader": "#version 430\nlayout(triangles) in;\nvoid main() { gl_Position =\n"
            "gl_TessCoord.x * gl_in[0].gl_Position + gl_TessCoord.y * gl_in[1].gl_Position\n"
            "+ gl_TessCoord.z * gl_in[2].gl_Position; }",
            "fragment_shader": "#version 430\nout vec4 color;\nvoid main() { color = vec4(0.5, 1, 0, 1); }",
        },
        {"position": "2f"},
        {"level": ("1", "3.0")},
        modes=("14", "14", "4"),
    ),
}
"""Those that draw or capture."""

COMPUTE = {
    "numbers": "#version 430\nlayout(local_size_x = 4) in;\nlayout(std430, binding = 3) buffer Numbers { uint n[]; };\n"
    "uniform uint add = 1u;\nvoid main() { uint i = gl_GlobalInvocationID.x;\n"
    "if (i < uint(n.length()) && gl_GlobalInvocationID.yz == uvec2(0)) n[i] = n[i] * 3u + add; }",
    "image": "#version 430\nlayout(local_size_x = 2, local_size_y = 2) in;\n"
    "layout(rgba8, binding = 0) uniform image2D picture;\nuniform float level = 0.5;\n"
    "void main() { ivec2 p = ivec2(gl_GlobalInvocationID.xy);\n"
    "if (all(lessThan(p, imageSize(picture)))) imageStore(picture, p, vec4(vec2(p) / 8.0, level, 1.0)); }",
}
"""Compute shaders by name."""

BROKEN = (
    "ctx.program()",
    "ctx.program(vertex_shader='#version 430\\nvoid main() { gl_Position = nothing; }')",
    "ctx.program(vertex_shader='#version 430\\nvoid main() { gl_Position = vec4(0); }', fragment_shader='no shader')",
    "ctx.program(vertex_shader='#version 430\\nout vec2 a; void main() { gl_Position = vec4(0); }',"
    " fragment_shader='#version 430\\nin vec3 a; out vec4 c; void main() { c = vec4(a, 1); }')",
    "ctx.program(vertex_shader='#include \"it\"')",
    "ctx.program(vertex_shader=5)",
    "ctx.program(vertex_shader=b'#version 430\\nvoid main() { gl_Position = vec4(0); }', varyings=['gl_Position'])",
    "ctx.program(vertex_shader='#version 430\\nvoid main() { gl_Position = vec4(0); }', varyings=['nothing'])",
    "ctx.program(vertex_shader='#version 430\\nvoid main() { gl_Position = vec4(0); }', varyings=[1])",
    "ctx.program(vertex_shader='#version 430\\nvoid main() { gl_Position = vec4(0); }', varyings_capture_mode='x')",
    "ctx.compute_shader('#version 430\\nvoid main() {}')",
    "ctx.compute_shader('#version 430\\nlayout(local_size_x = 1) in; void main() { x(); }')",
    "ctx.compute_shader(None)",
)
"""Steps whose sources no driver compiles or links, or which moderngl refuses."""
