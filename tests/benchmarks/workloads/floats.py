"""Measurements, no pictures: four channels of float32 and the depth are read of every frame."""

from typing import Any

import moderngl
import numpy as np
from clock import Clock, sized

FRAMES, SIZE = sized(40, 3), (sized(512, 32), sized(512, 32))

clock = Clock("floats")
ctx: Any = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
program = ctx.program(
    vertex_shader="""
        #version 330
        uniform float time;
        in vec3 position;
        out vec3 spot;
        void main() {
            spot = position + vec3(0.0, 0.0, 0.2 * time);
            gl_Position = vec4(position.xy, 0.5 * spot.z, 1.0);
        }
    """,
    fragment_shader="""
        #version 330
        in vec3 spot;
        out vec4 measured;
        void main() { measured = vec4(spot * 100.0, dot(spot, spot)); }
    """,
)
corners = np.random.default_rng(4).uniform(-1.0, 1.0, (60, 3)).astype("f4")
facets = ctx.vertex_array(program, ctx.buffer(corners), "position")
framebuffer = ctx.framebuffer([ctx.texture(SIZE, 4, dtype="f4")], ctx.depth_texture(SIZE))
framebuffer.use()
ctx.enable(moderngl.DEPTH_TEST)
clock.lap("setup")
for frame in range(FRAMES):
    ctx.clear()
    program["time"].value = frame / FRAMES
    facets.render()
    clock.saw(framebuffer.read(components=4, dtype="f4"))
    clock.saw(framebuffer.read(components=1, attachment=-1, dtype="f4"))
clock.lap("frames")
clock.report()
