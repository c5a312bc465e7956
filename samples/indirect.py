"""Indirect drawing: five shapes in one pair of buffers, drawn by one call whose numbers lie in a third buffer."""

import moderngl
import numpy as np
from PIL import Image

from glremote.samples.drawing import backdrop, canvas, mesh_array, picture, standalone
from glremote.samples.geometry import (
    box,
    join,
    look_at,
    orthographic,
    place,
    rotation,
    scaling,
    sphere,
    torus,
    torus_knot,
    turned,
)
from glremote.shaders import include

REQUIRE = 430
COLUMNS, ROWS = 23, 19

VERTEX_SHADER = """
    #version 430
    #include "palette.glsl"
    uniform mat4 camera;
    in vec3 in_position, in_normal;
    in vec4 place;  // these two are the instance's: where and how large, and which way it is turned
    in float turn;
    out vec3 normal, colour;
    void main() {
        mat3 turned = mat3(cos(turn), 0.0, sin(turn), 0.0, 1.0, 0.0, -sin(turn), 0.0, cos(turn));
        normal = turned * in_normal;
        colour = palette(0.32 + 0.032 * place.x - 0.026 * place.z);
        gl_Position = camera * vec4(place.xyz + place.w * (turned * in_position), 1.0);
    }
"""

FRAGMENT_SHADER = """
    #version 430
    #include "display.glsl"
    #include "lighting.glsl"
    uniform vec3 to_eye;
    in vec3 normal, colour;
    out vec4 pixel;
    void main() {
        pixel = display(studio(0.75 * colour, 0.0, 0.22, normalize(normal), to_eye));
    }
"""


def render(ctx: moderngl.Context) -> Image.Image:
    shapes = [
        sphere(0.46, 36, 18),
        place(torus(0.35, 0.15, 40, 16), rotation(0.9, (1, 0, 0))),
        place(box(0.68, 0.68, 0.68), rotation(0.5, (1, 0, 1))),
        turned([(0, -0.45), (0.5, -0.45), (0.5, -0.38), (0.04, 0.55), (0, 0.57)], 40),
        place(torus_knot(2, 3, 0.34, 120, 12), scaling(0.3, 0.3, 0.3)),
    ]
    x, z = (axis.ravel() for axis in np.meshgrid(np.arange(COLUMNS) - COLUMNS // 2, np.arange(ROWS) - ROWS // 2))
    kinds = (x + 2 * z) % len(shapes)
    order = np.argsort(kinds, kind="stable")  # the instances of a shape follow one another
    size = 0.86 + 0.12 * np.cos(0.9 * x) * np.cos(0.9 * z)
    places = np.column_stack([x, 0.8 * size - 0.8, z, size, 0.4 * x + 0.7 * z])[order].astype("f4")

    commands = np.zeros((len(shapes), 5), "u4")  # indices, instances, first index, first vertex, first instance
    commands[:, 0] = [len(shape.indices) for shape in shapes]
    commands[:, 1] = np.bincount(kinds, minlength=len(shapes))
    commands[1:, 2] = np.cumsum(commands[:-1, 0])
    commands[1:, 4] = np.cumsum(commands[:-1, 1])  # first vertex stays 0: `join` has counted it into the indices

    include(ctx)
    program = ctx.program(vertex_shader=VERTEX_SHADER, fragment_shader=FRAGMENT_SHADER)
    board = mesh_array(ctx, program, join(shapes), (ctx.buffer(places), "4f 1f /i", "place", "turn"))
    eye = np.array([5.0, 11.0, 8.5])
    program["camera"] = (look_at(tuple(eye), (0, 0, 0)) @ orthographic(14.4, 9.0, 0.1, 40)).ravel()
    program["to_eye"] = eye / np.linalg.norm(eye)

    framebuffer = canvas(ctx)
    backdrop(ctx, (0.030, 0.034, 0.055))
    ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
    board.render_indirect(ctx.buffer(commands))
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("indirect.png")


if __name__ == "__main__":
    main()
