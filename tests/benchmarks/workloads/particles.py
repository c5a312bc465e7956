"""Particles by transform feedback; each frame asks how many went through, and how many samples were drawn."""

from typing import Any

import moderngl
import numpy as np
from clock import Clock, sized

FRAMES, PARTICLES, SIZE = sized(120, 4), sized(20_000, 500), (320, 240)

clock = Clock("particles")
ctx: Any = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
move = ctx.program(
    vertex_shader="""
        #version 330
        in vec4 particle;
        out vec4 moved;
        void main() {
            vec2 speed = particle.zw - 0.004 * particle.xy;
            moved = vec4(particle.xy + speed, speed);
        }
    """,
    varyings=["moved"],
)
show = ctx.program(
    vertex_shader="""
        #version 330
        in vec4 particle;
        void main() { gl_Position = vec4(particle.xy, 0.0, 1.0); }
    """,
    fragment_shader="""
        #version 330
        out vec4 pixel;
        void main() { pixel = vec4(0.2, 0.15, 0.1, 1.0); }
    """,
)
swarm = np.random.default_rng(9).normal(0.0, [0.5, 0.5, 0.03, 0.03], (PARTICLES, 4)).astype("f4")
buffers = [ctx.buffer(swarm), ctx.buffer(reserve=swarm.nbytes)]
moves = [ctx.vertex_array(move, [(buffer, "4f", "particle")]) for buffer in buffers]
shows = [ctx.vertex_array(show, [(buffer, "4f", "particle")]) for buffer in buffers]
went, seen = ctx.query(primitives=True), ctx.query(samples=True)
framebuffer = ctx.simple_framebuffer(SIZE)
framebuffer.use()
ctx.enable(moderngl.BLEND)
ctx.blend_func = moderngl.ONE, moderngl.ONE
clock.lap("setup")
for frame in range(FRAMES):
    now, then = frame % 2, 1 - frame % 2
    with went:
        moves[now].transform(buffers[then], moderngl.POINTS)
    ctx.clear()
    with seen:
        shows[then].render(moderngl.POINTS)
    clock.saw(went.primitives)
    clock.saw(seen.samples)
clock.saw(framebuffer.read())
clock.saw(buffers[0].read())
clock.lap("frames")
clock.report()
