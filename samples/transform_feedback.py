"""Transform feedback: 12,000 particles follow a strange attractor from buffer to buffer, and every step adds light."""

import moderngl
import numpy as np
from PIL import Image

from glremote.samples.drawing import develop, exposure, standalone
from glremote.samples.geometry import look_at, perspective
from glremote.shaders import include

REQUIRE = 330
PARTICLES, STEPS, SKIPPED = 12000, 240, 20

MOVE_SHADER = """
    #version 330
    in vec3 in_position;
    out vec3 out_position;
    vec3 velocity(vec3 p) {  // Halvorsen's attractor, which looks the same along all three axes
        return -1.89 * p - 4.0 * p.yzx - 4.0 * p.zxy - p.yzx * p.yzx;
    }
    void main() {
        const float dt = 0.008;
        vec3 a = velocity(in_position), b = velocity(in_position + 0.5 * dt * a);
        vec3 c = velocity(in_position + 0.5 * dt * b), d = velocity(in_position + dt * c);
        out_position = in_position + dt / 6.0 * (a + 2.0 * b + 2.0 * c + d);
    }
"""

POINT_SHADER = """
    #version 330
    #include "palette.glsl"
    uniform mat4 camera;
    in vec3 in_position;
    out vec3 colour;
    void main() {
        gl_Position = camera * vec4(in_position, 1.0);
        colour = palette(0.02 + 0.06 * distance(in_position, vec3(-2.4)));
    }
"""

LIGHT_SHADER = """
    #version 330
    in vec3 colour;
    out vec4 light;
    void main() {
        light = vec4(0.05 * colour, 1.0);
    }
"""


def render(ctx: moderngl.Context) -> Image.Image:
    include(ctx)
    move = ctx.program(vertex_shader=MOVE_SHADER, varyings=("out_position",))
    draw = ctx.program(vertex_shader=POINT_SHADER, fragment_shader=LIGHT_SHADER)
    thread = np.linspace((-5, 0, -2), (3, 0, -2), PARTICLES // 3)  # three threads, which the flow spins into ribbons
    start = np.concatenate([np.roll(thread, turn, axis=1) for turn in range(3)]).astype("f4")
    here, there = ctx.buffer(start), ctx.buffer(reserve=start.nbytes)
    # Forth and back: each buffer is what one array reads and the other one's results go to.
    moves = [(ctx.vertex_array(move, a, "in_position"), b) for a, b in ((here, there), (there, here))]
    draws = [ctx.vertex_array(draw, b, "in_position", mode=moderngl.POINTS) for b in (there, here)]

    texture = exposure(ctx)
    draw["camera"] = (look_at((20, 12, 14), (-2.6, -2.4, -1.3), (0.3, 0, 1)) @ perspective(39, 1.6, 1, 100)).ravel()
    for i in range(STEPS):
        vertex_array, results = moves[i % 2]
        vertex_array.transform(results)
        if i >= SKIPPED:  # until then they are still on their way
            draws[i % 2].render()
    return develop(ctx, texture)


def main() -> None:
    render(standalone(REQUIRE)).save("transform_feedback.png")


if __name__ == "__main__":
    main()
