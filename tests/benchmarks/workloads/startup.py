"""From nothing to one picture: a context, one program, one triangle that is read."""

from typing import Any

import moderngl
import numpy as np
from clock import Clock

clock = Clock("startup")
ctx: Any = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
clock.lap("context")
program = ctx.program(
    vertex_shader="""
        #version 330
        in vec2 position;
        out vec2 spot;
        void main() { spot = position; gl_Position = vec4(position, 0.0, 1.0); }
    """,
    fragment_shader="""
        #version 330
        in vec2 spot;
        out vec4 pixel;
        void main() { pixel = vec4(0.5 + 0.5 * spot, 0.4, 1.0); }
    """,
)
corners = ctx.buffer(np.array([-0.9, -0.7, 0.8, -0.8, 0.1, 0.9], dtype="f4"))
triangle = ctx.vertex_array(program, corners, "position")
framebuffer = ctx.simple_framebuffer((400, 300))
framebuffer.use()
framebuffer.clear(1.0, 1.0, 1.0)
triangle.render()
clock.saw(framebuffer.read())
clock.lap("picture")
clock.report()
