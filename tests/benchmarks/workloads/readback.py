"""Frames of 1920 x 1080 RGBA, each read whole: a lighthouse's beam turns over a quiet gradient."""

from typing import Any

import moderngl
import numpy as np
from clock import Clock, sized

FRAMES, SIZE = sized(40, 3), (sized(1920, 64), sized(1080, 36))

clock = Clock("readback")
ctx: Any = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
program = ctx.program(
    vertex_shader="""
        #version 330
        in vec2 position;
        out vec2 spot;
        void main() { spot = position; gl_Position = vec4(position, 0.0, 1.0); }
    """,
    fragment_shader="""
        #version 330
        uniform vec2 beam;
        in vec2 spot;
        out vec4 pixel;
        void main() {
            float light = max(0.0, dot(spot, beam)) * max(0.0, 1.0 - 4.0 * abs(spot.x * beam.y - spot.y * beam.x));
            pixel = vec4(vec3(0.1, 0.15, 0.3) + 0.1 * spot.y + light * vec3(1.0, 0.9, 0.6), 1.0);
        }
    """,
)
everywhere = ctx.vertex_array(program, ctx.buffer(np.array([-1, -1, 3, -1, -1, 3], dtype="f4")), "position")
framebuffer = ctx.simple_framebuffer(SIZE)
framebuffer.use()
clock.lap("setup")
for frame in range(FRAMES):
    program["beam"].value = (np.cos(0.05 * frame), np.sin(0.05 * frame))
    everywhere.render()
    clock.saw(framebuffer.read(components=4))
clock.lap("frames")
clock.report()
