"""An indexed mesh with depth: a knot whose near parts hide the far ones, each vertex stored once and used six times."""

import moderngl
from PIL import Image

from glremote.samples.drawing import backdrop, canvas, mesh_array, mesh_program, picture, standalone
from glremote.samples.geometry import look_at, perspective, rotation, torus_knot

REQUIRE = 330

FRAGMENT_SHADER = """
    #version 330
    #include "display.glsl"
    #include "lighting.glsl"
    #include "palette.glsl"
    uniform vec3 eye;
    in vec3 position, normal;
    in vec2 uv;
    out vec4 pixel;
    void main() {
        pixel = display(studio(palette(uv.x), 0.0, 0.25, normalize(normal), normalize(eye - position)));
    }
"""


def render(ctx: moderngl.Context) -> Image.Image:
    program = mesh_program(ctx, FRAGMENT_SHADER)
    knot = mesh_array(ctx, program, torus_knot(2, 5, tube=0.26, columns=320))

    framebuffer = canvas(ctx)
    backdrop(ctx, (0.10, 0.13, 0.22))
    ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
    eye = (0.0, 0.0, 4.6)
    program["camera"] = (look_at(eye, (0, 0, 0)) @ perspective(40, 1.6, 0.1, 20)).ravel()
    program["model"] = (rotation(0.5, (0, 0, 1)) @ rotation(-0.6, (1, 0.4, 0))).ravel()
    program["eye"] = eye
    knot.render()
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("indexed_mesh.png")


if __name__ == "__main__":
    main()
