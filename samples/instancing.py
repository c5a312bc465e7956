"""Instancing: one sphere, drawn 2,400 times by a single call, each with a place, a size and a colour of its own."""

import moderngl
import numpy as np
from PIL import Image

from glremote.samples.drawing import backdrop, canvas, mesh_array, picture, standalone
from glremote.samples.geometry import look_at, perspective, sphere
from glremote.shaders import include

REQUIRE = 330

VERTEX_SHADER = """
    #version 330
    #include "palette.glsl"
    uniform mat4 camera;
    in vec3 in_position, in_normal;
    in vec3 centre;  // these three are the instance's
    in float radius;
    in float hue;
    out vec3 position, normal, colour;
    void main() {
        position = centre + radius * in_position;
        normal = in_normal;
        colour = palette(hue) * smoothstep(-0.9, 0.5, centre.y);
        gl_Position = camera * vec4(position, 1.0);
    }
"""

FRAGMENT_SHADER = """
    #version 330
    #include "display.glsl"
    #include "lighting.glsl"
    uniform vec3 eye;
    in vec3 position, normal, colour;
    out vec4 pixel;
    void main() {
        pixel = display(studio(colour, 0.0, 0.35, normalize(normal), normalize(eye - position)));
    }
"""


def render(ctx: moderngl.Context) -> Image.Image:
    include(ctx)
    program = ctx.program(vertex_shader=VERTEX_SHADER, fragment_shader=FRAGMENT_SHADER)

    n = np.arange(2400)  # a sunflower's seeds: the golden angle apart, on waves that run outwards
    angle, away = n * np.pi * (3 - np.sqrt(5)), 0.085 * np.sqrt(n + 0.5)
    height = 0.36 * np.cos(2.9 * away) * np.exp(-0.1 * away)
    centres = [away * np.cos(angle), height, away * np.sin(angle)]
    instances = np.column_stack([*centres, np.full(len(n), 0.085), 0.36 - 1.0 * height]).astype("f4")
    spheres = mesh_array(
        ctx, program, sphere(1.0, 16, 10), (ctx.buffer(instances), "3f 1f 1f /i", "centre", "radius", "hue")
    )

    framebuffer = canvas(ctx)
    backdrop(ctx, (0.05, 0.09, 0.16))
    ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
    eye = (0.0, 2.7, 5.2)
    program["camera"] = (look_at(eye, (0, -0.35, 0.0)) @ perspective(36, 1.6, 0.1, 20)).ravel()
    program["eye"] = eye
    spheres.render(instances=len(instances))
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("instancing.png")


if __name__ == "__main__":
    main()
