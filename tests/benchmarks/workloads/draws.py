"""Many small draws: confetti, every piece with a place, a turn and a colour of its own, set and drawn one by one."""

from typing import Any

import moderngl
import numpy as np
from clock import Clock, sized

FRAMES, PIECES, SIZE = sized(10, 2), sized(2000, 50), (320, 240)

clock = Clock("draws")
ctx: Any = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
program = ctx.program(
    vertex_shader="""
        #version 330
        uniform vec4 place;
        in vec2 corner;
        void main() {
            vec2 turned = vec2(corner.x * place.z - corner.y * place.w, corner.x * place.w + corner.y * place.z);
            gl_Position = vec4(place.xy + turned, 0.0, 1.0);
        }
    """,
    fragment_shader="""
        #version 330
        uniform vec3 paper;
        out vec4 pixel;
        void main() { pixel = vec4(paper, 1.0); }
    """,
)
place, paper = program["place"], program["paper"]
corners = ctx.buffer(np.array([-0.03, -0.015, 0.03, -0.015, -0.03, 0.015, 0.03, 0.015], dtype="f4"))
piece = ctx.vertex_array(program, corners, "corner", mode=moderngl.TRIANGLE_STRIP)
framebuffer = ctx.simple_framebuffer(SIZE)
framebuffer.use()
random = np.random.default_rng(2024)
starts = random.uniform(-1.0, 1.0, (PIECES, 2))
papers = [tuple(colour) for colour in random.uniform(0.2, 1.0, (PIECES, 3)).tolist()]
clock.lap("setup")
for frame in range(FRAMES):
    ctx.clear(0.02, 0.02, 0.05)
    for number in range(PIECES):
        x, y = starts[number]
        angle = 0.1 * frame + number
        place.value = (x, y - 0.02 * frame, np.cos(angle), np.sin(angle))
        paper.value = papers[number]
        piece.render()
    clock.saw(framebuffer.read())
clock.lap("frames")
clock.report()
