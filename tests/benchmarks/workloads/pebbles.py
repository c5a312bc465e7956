"""The scene of the two workloads that make a dataset: a lit pebble, another at every call."""

from typing import Any

import moderngl
import numpy as np

SIZE = (192, 192)
ROUND, HIGH = 48, 24

VERTEX = """
#version 330
uniform vec4 lumps;
uniform vec2 turn;
in vec2 where;
out vec3 outward;
void main() {
    vec2 a = where * vec2(6.2831853, 3.1415927);
    vec3 point = vec3(sin(a.y) * cos(a.x), cos(a.y), sin(a.y) * sin(a.x));
    outward = mat3(turn.x, 0.0, -turn.y, 0.0, 1.0, 0.0, turn.y, 0.0, turn.x) * point;
    float radius = 0.6 + 0.1 * sin(dot(lumps, vec4(point * 3.0, 1.0)));
    gl_Position = vec4(outward.xy * radius, outward.z * 0.5, 1.0);
}
"""
FRAGMENT = """
#version 330
uniform vec3 stone;
in vec3 outward;
out vec4 pixel;
void main() { pixel = vec4(stone * (0.25 + max(0.0, dot(normalize(outward), vec3(0.48, 0.6, -0.64)))), 1.0); }
"""


class Pebbles:
    """Draws pebbles in a framebuffer of its own."""

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        self._program = ctx.program(vertex_shader=VERTEX, fragment_shader=FRAGMENT)
        grid = np.stack(np.meshgrid(np.linspace(0, 1, ROUND + 1), np.linspace(0, 1, HIGH + 1)), axis=-1)
        first = (np.arange(HIGH)[:, None] * (ROUND + 1) + np.arange(ROUND)).ravel()
        faces = np.stack([first, first + 1, first + ROUND + 1, first + 1, first + ROUND + 2, first + ROUND + 1], axis=1)
        points, order = ctx.buffer(grid.astype("f4")), ctx.buffer(faces.astype("u4"))
        self._pebble = ctx.vertex_array(self._program, [(points, "2f", "where")], index_buffer=order)
        self.framebuffer = ctx.framebuffer([ctx.texture(SIZE, 3)], ctx.depth_renderbuffer(SIZE))
        self.framebuffer.use()
        ctx.enable(moderngl.DEPTH_TEST)
        self._random = np.random.default_rng(77)

    def draw(self) -> None:
        """The next one."""
        angle = self._random.uniform(0.0, 6.28)
        self._program["turn"].value = (np.cos(angle), np.sin(angle))
        self._program["lumps"].write(self._random.uniform(-3.0, 3.0, 4).astype("f4"))
        self._program["stone"].value = tuple(self._random.uniform(0.3, 0.9, 3))
        self._ctx.clear(0.85, 0.85, 0.8, 1.0)
        self._pebble.render()
