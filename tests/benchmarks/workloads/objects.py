"""Many small objects that live for one frame: buffers, textures, samplers, vertex arrays, framebuffers."""

from typing import Any

import moderngl
import numpy as np
from clock import Clock, sized

FRAMES, TILES, SIZE = sized(40, 3), sized(60, 4), (160, 160)

clock = Clock("objects")
ctx: Any = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
program = ctx.program(
    vertex_shader="""
        #version 330
        in vec2 corner;
        out vec2 spot;
        void main() { spot = corner * 4.0; gl_Position = vec4(corner, 0.0, 1.0); }
    """,
    fragment_shader="""
        #version 330
        uniform sampler2D tile;
        in vec2 spot;
        out vec4 pixel;
        void main() { pixel = texture(tile, spot); }
    """,
)
random = np.random.default_rng(31)
square = np.array([[0, 0], [1, 0], [0, 1], [1, 1]]) * 0.2
clock.lap("setup")
for _ in range(FRAMES):
    target = ctx.texture(SIZE, 4)
    framebuffer = ctx.framebuffer([target])
    framebuffer.use()
    framebuffer.clear()
    made = [framebuffer, target]
    for _ in range(TILES):
        corners = ctx.buffer((square + random.uniform(-1.0, 0.8, 2)).astype("f4"))
        texture = ctx.texture((8, 8), 3, random.integers(0, 256, 192, dtype="u1"))
        sampler = ctx.sampler(texture=texture, filter=(moderngl.NEAREST, moderngl.NEAREST))
        tile = ctx.vertex_array(program, corners, "corner", mode=moderngl.TRIANGLE_STRIP)
        sampler.use()
        tile.render()
        made += [tile, sampler, texture, corners]
    clock.saw(framebuffer.read())
    for one in made:
        one.release()
clock.lap("frames")
clock.report()
