"""Several colour attachments: one pass draws colours, normals and positions at once, a second one lights them.

The attachments of the first pass are shown below, the second pass behind them.
"""

import moderngl
import numpy as np
from PIL import Image

from glremote.samples.drawing import canvas, fullscreen, mesh_array, mesh_program, picture, standalone
from glremote.samples.geometry import (
    ground,
    look_at,
    perspective,
    rotation,
    scaling,
    sphere,
    torus,
    torus_knot,
    translation,
)

REQUIRE = 330

GEOMETRY_SHADER = """
    #version 330
    uniform vec3 paint;
    in vec3 position, normal;
    in vec2 uv;
    layout(location = 0) out vec4 out_albedo;
    layout(location = 1) out vec4 out_normal;
    layout(location = 2) out vec4 out_position;
    void main() {
        if (length(position.xz) > 4.4)
            discard;  // the floor is a round stage
        vec2 tile = floor(position.xz * 1.5);
        float checker = position.y < 0.001 ? 0.75 + 0.25 * mod(tile.x + tile.y, 2.0) : 1.0;
        out_albedo = vec4(paint * checker, 1.0);
        out_normal = vec4(normalize(normal), 1.0);
        out_position = vec4(position, 1.0);
    }
"""

LIGHT_SHADER = """
    #version 330
    #include "display.glsl"
    #include "lighting.glsl"
    #include "palette.glsl"
    const int LAMPS = 12;
    uniform sampler2D albedo, normals, positions;
    uniform vec3 eye;
    in vec2 uv;
    out vec4 pixel;
    void main() {
        vec3 colour = texture(albedo, uv).rgb, n = texture(normals, uv).xyz, p = texture(positions, uv).xyz;
        vec3 to_eye = normalize(eye - p), light = colour * vec3(0.05, 0.06, 0.09);
        for (int i = 0; i < LAMPS; i++) {
            float turn = 6.2831853 * float(i) / float(LAMPS);
            vec3 lamp = vec3(sin(turn), 0.0, cos(turn)) * (i % 2 == 0 ? 1.9 : 3.4) + vec3(0.0, 0.9, 0.0);
            vec3 way = lamp - p;
            vec3 strength = 1.5 * palette(turn * 0.31831) / (0.25 + dot(way, way));
            light += strength * lit(colour, 0.0, 0.4, n, to_eye, normalize(way));
        }
        pixel = display(light + vec3(0.012, 0.014, 0.022));
    }
"""

SHOW_SHADER = """
    #version 330
    uniform sampler2D attachment;
    uniform float scale, offset;
    in vec2 uv;
    out vec4 pixel;
    void main() {
        pixel = vec4(texture(attachment, uv).rgb * scale + offset, 1.0);
    }
"""


def render(ctx: moderngl.Context) -> Image.Image:
    program = mesh_program(ctx, GEOMETRY_SHADER)
    knot = scaling(0.62, 0.62, 0.62) @ rotation(1.2, (1, 0.3, 0)) @ translation(0, 1.15, 0)
    scene = [
        (mesh_array(ctx, program, ground(9)), np.eye(4, dtype="f4"), (0.4, 0.4, 0.4)),
        (mesh_array(ctx, program, torus_knot(tube=0.34, columns=160)), knot, (0.9, 0.85, 0.75)),
    ]
    ball, ring = mesh_array(ctx, program, sphere(0.42)), mesh_array(ctx, program, torus(0.5, 0.17))
    for i, turn in enumerate(np.linspace(0.8, 2 * np.pi - 0.8, 9)):
        place = translation(2.6 * np.sin(turn), 0.42 if i % 3 else 0.17, 2.6 * np.cos(turn))
        scene.append((ball if i % 3 else ring, place, (0.85, 0.75 - 0.4 * (i % 2), 0.5 + 0.3 * (i % 3 == 0))))

    framebuffer = canvas(ctx)
    textures = [ctx.texture(framebuffer.size, 4, dtype=dtype) for dtype in ("f1", "f2", "f4")]
    attachments = ctx.framebuffer(textures, ctx.depth_renderbuffer(framebuffer.size))
    attachments.use()
    attachments.clear()
    ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
    eye = (0.0, 3.9, 7.6)
    program["camera"] = (look_at(eye, (0, -0.3, 0)) @ perspective(31, 1.6, 0.1, 60)).ravel()
    for thing, model, paint in scene:
        program["model"] = model.ravel()
        program["paint"] = paint
        thing.render()

    framebuffer.use()
    ctx.enable_only(moderngl.NOTHING)
    light = fullscreen(ctx, LIGHT_SHADER)
    light.program["eye"] = eye
    for unit, (texture, name) in enumerate(zip(textures, ("albedo", "normals", "positions"), strict=True)):
        texture.use(unit)
        light.program[name] = unit
    light.render()

    show = fullscreen(ctx, SHOW_SHADER)
    for unit, (scale, offset) in enumerate(((1.0, 0.0), (0.5, 0.5), (0.12, 0.4))):
        x, y, width, height = 110 + 370 * unit, 36, 320, 200
        framebuffer.clear(0.9, 0.9, 0.9, 1.0, viewport=(x - 4, y - 4, width + 8, height + 8))
        framebuffer.viewport = x, y, width, height
        show.program["attachment"] = unit
        show.program["scale"] = scale
        show.program["offset"] = offset
        show.render()
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("colour_attachments.png")


if __name__ == "__main__":
    main()
