"""8 MB of fresh vertices a frame: a swarm that is moved in numpy, of which a small picture is read."""

from typing import Any

import moderngl
import numpy as np
from clock import Clock, sized

FRAMES, POINTS, DRAWN, SIZE = sized(40, 3), sized(500_000, 5_000), 3_000, (96, 96)

clock = Clock("upload")
ctx: Any = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
program = ctx.program(
    vertex_shader="""
        #version 330
        in vec4 point;
        out float warmth;
        void main() { warmth = point.w; gl_Position = vec4(point.xyz, 1.0); }
    """,
    fragment_shader="""
        #version 330
        in float warmth;
        out vec4 pixel;
        void main() { pixel = vec4(warmth, 0.3, 1.0 - warmth, 1.0); }
    """,
)
points = np.random.default_rng(5).uniform(-0.9, 0.9, (POINTS, 4)).astype("f4")
buffer = ctx.buffer(reserve=points.nbytes, dynamic=True)
swarm = ctx.vertex_array(program, [(buffer, "4f", "point")], mode=moderngl.POINTS)
framebuffer = ctx.simple_framebuffer(SIZE)
framebuffer.use()
clock.lap("setup")
for frame in range(FRAMES):
    points *= np.float32(0.99 if frame % 2 else 1.005)
    buffer.orphan()
    buffer.write(points)
    ctx.clear()
    swarm.render(vertices=DRAWN)
    clock.saw(framebuffer.read(components=4))
clock.lap("frames")
clock.report()
