"""Large pictures: frames of 3840 x 2160, 33 MB each, of a few hundred overlapping discs."""

from typing import Any

import moderngl
import numpy as np
from clock import Clock, sized

FRAMES, DISCS, SIZE = sized(8, 2), sized(200, 10), (sized(3840, 128), sized(2160, 72))

clock = Clock("frame4k")
ctx: Any = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
program = ctx.program(
    vertex_shader="""
        #version 330
        uniform float time;
        in vec2 rim;
        in vec4 disc;
        in vec3 colour;
        flat out vec3 shade;
        void main() {
            shade = colour;
            vec2 centre = disc.xy + 0.1 * vec2(cos(time + disc.w), sin(time + disc.w));
            gl_Position = vec4(centre + rim * disc.z * vec2(0.5625, 1.0), 0.0, 1.0);
        }
    """,
    fragment_shader="""
        #version 330
        flat in vec3 shade;
        out vec4 pixel;
        void main() { pixel = vec4(shade, 1.0); }
    """,
)
random = np.random.default_rng(12)
angles = np.linspace(0.0, 2.0 * np.pi, 33)
fan = np.vstack([[0.0, 0.0], np.stack([np.cos(angles), np.sin(angles)], axis=1)])
discs = random.uniform([-1.0, -1.0, 0.02, 0.0], [1.0, 1.0, 0.12, 6.28], (DISCS, 4))
each = np.hstack([discs, random.uniform(0.0, 1.0, (DISCS, 3))])
content = [(ctx.buffer(fan.astype("f4")), "2f", "rim"), (ctx.buffer(each.astype("f4")), "4f 3f/i", "disc", "colour")]
picture = ctx.vertex_array(program, content, mode=moderngl.TRIANGLE_FAN)
framebuffer = ctx.simple_framebuffer(SIZE)
framebuffer.use()
clock.lap("setup")
for frame in range(FRAMES):
    framebuffer.clear(0.95, 0.93, 0.9)
    program["time"].value = 0.3 * frame
    picture.render(instances=DISCS)
    clock.saw(framebuffer.read(components=4))
clock.lap("frames")
clock.report()
