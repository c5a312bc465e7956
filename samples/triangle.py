"""A coloured triangle: three vertices with a colour each, blended by the GPU; drawn 48 times, ever smaller."""

import moderngl
import numpy as np
from PIL import Image

from glremote.samples.drawing import canvas, picture, standalone
from glremote.shaders import include

REQUIRE = 330

VERTEX_SHADER = """
    #version 330
    uniform float angle, radius;
    in vec2 in_position;
    in vec3 in_colour;
    out vec3 colour;
    void main() {
        mat2 turn = mat2(cos(angle), sin(angle), -sin(angle), cos(angle));
        gl_Position = vec4(turn * in_position * radius * vec2(0.625, 1.0) - vec2(0.0, 0.22), 0.0, 1.0);
        colour = in_colour;
    }
"""

FRAGMENT_SHADER = """
    #version 330
    #include "display.glsl"
    uniform float brightness;
    in vec3 colour;
    out vec4 pixel;
    void main() {
        pixel = display(colour * brightness);
    }
"""


def render(ctx: moderngl.Context) -> Image.Image:
    include(ctx)
    program = ctx.program(vertex_shader=VERTEX_SHADER, fragment_shader=FRAGMENT_SHADER)
    corners = np.array(
        [
            # x, y, then red, green, blue: linear light, not what a paint program shows
            [0.0, 1.0, 1.0, 0.10, 0.12],
            [-0.866, -0.5, 0.04, 0.75, 0.30],
            [0.866, -0.5, 0.06, 0.20, 1.0],
        ],
        dtype="f4",
    )
    triangle = ctx.vertex_array(program, ctx.buffer(corners), "in_position", "in_colour")

    framebuffer = canvas(ctx)
    framebuffer.clear(0.05, 0.05, 0.08, 1.0)
    ctx.enable_only(moderngl.NOTHING)
    step, radius = np.radians(6.0), 1.12
    for i in range(48):
        program["angle"] = i * step
        program["radius"] = radius
        program["brightness"] = 1.0 if i % 2 == 0 else 0.35
        triangle.render()
        radius *= 0.5 / np.cos(np.radians(60.0) - step)  # the corners of the next one lie on the sides of this one
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("triangle.png")


if __name__ == "__main__":
    main()
