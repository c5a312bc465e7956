"""A ring of buffers: a frame is read into one, and that is read some frames later, when the driver is long done."""

from typing import Any

import moderngl
import numpy as np
from clock import Clock, sized

FRAMES, LATER, SIZE = sized(60, 6), 3, (sized(1280, 64), sized(720, 36))

clock = Clock("ring")
ctx: Any = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
program = ctx.program(
    vertex_shader="""
        #version 330
        uniform float time;
        in vec3 blade;
        out float tip;
        void main() {
            float angle = blade.z + time;
            tip = blade.y;
            gl_Position = vec4(mat2(cos(angle), sin(angle), -sin(angle), cos(angle)) * blade.xy, 0.0, 1.0);
        }
    """,
    fragment_shader="""
        #version 330
        in float tip;
        out vec4 pixel;
        void main() { pixel = vec4(tip, 0.5 * tip, 1.0 - tip, 1.0); }
    """,
)
blades = [[x, y, 0.628 * number] for number in range(10) for x, y in ((-0.05, 0.1), (0.05, 0.1), (0.0, 0.9))]
mill = ctx.vertex_array(program, ctx.buffer(np.array(blades, dtype="f4")), "blade")
framebuffer = ctx.simple_framebuffer(SIZE)
framebuffer.use()
ring = [ctx.buffer(reserve=3 * SIZE[0] * SIZE[1]) for _ in range(LATER)]
clock.lap("setup")
for frame in range(FRAMES + LATER):
    buffer = ring[frame % LATER]
    if frame >= LATER:
        clock.saw(buffer.read())
    if frame < FRAMES:
        ctx.clear(0.1, 0.1, 0.1)
        program["time"].value = 0.02 * frame
        mill.render()
        framebuffer.read_into(buffer)
clock.lap("frames")
clock.report()
