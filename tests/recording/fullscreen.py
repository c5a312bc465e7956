"""A triangle over the whole framebuffer, for tests that look at what a fragment shader sees."""

from __future__ import annotations

import struct

import moderngl

VERTEX = """#version 330
out vec2 uv;
void main() {
    uv = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2.0;
    gl_Position = vec4(uv * 2.0 - 1.0, 0.0, 1.0);
}
"""


def triangle(ctx: moderngl.Context, declarations: str, color: str) -> moderngl.VertexArray:
    """Render it with `render(vertices=3)`. `color`: a vec4 in GLSL, which may use `uv`, from 0 to 1."""
    fragment = f"#version 330\nin vec2 uv;\nout vec4 color;\n{declarations}\nvoid main() {{ color = {color}; }}\n"
    return ctx.vertex_array(ctx.program(VERTEX, fragment), [])


def pixel(ctx: moderngl.Context, declarations: str, color: str, **uniforms: int) -> tuple[float, ...]:
    """Red, green, blue and alpha of a single pixel that it renders."""
    fbo = ctx.framebuffer(ctx.texture((1, 1), 4, dtype="f4"))
    fbo.use()
    fbo.clear()
    array = triangle(ctx, declarations, color)
    for name, value in uniforms.items():
        array.program[name] = value
    array.render(vertices=3)
    return struct.unpack("4f", fbo.read(components=4, dtype="f4"))
