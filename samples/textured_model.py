"""A textured and lit model: a porcelain vase turned on a lathe, glazed with a pattern that Pillow has painted."""

import moderngl
import numpy as np
from PIL import Image, ImageDraw

from glremote.samples.drawing import backdrop, canvas, mesh_array, mesh_program, picture, standalone
from glremote.samples.geometry import Doubles, ground, lathe, look_at, perspective, rotation

REQUIRE = 330

FRAGMENT_SHADER = """
    #version 330
    #include "display.glsl"
    #include "lighting.glsl"
    uniform sampler2D glaze;
    uniform vec3 eye;
    in vec3 position, normal;
    in vec2 uv;
    out vec4 pixel;
    void main() {
        vec3 n = normalize(gl_FrontFacing ? normal : -normal);
        vec3 painted = pow(texture(glaze, uv * vec2(3.0, 1.0)).rgb, vec3(2.2));
        vec3 albedo = gl_FrontFacing ? painted : vec3(0.10, 0.12, 0.16);  // clay inside
        pixel = display(studio(albedo, 0.0, 0.13, n, normalize(eye - position)));
    }
"""

TABLE_SHADER = """
    #version 330
    #include "display.glsl"
    in vec3 position, normal;
    in vec2 uv;
    out vec4 pixel;
    void main() {
        float away = length(position.xz);
        vec2 shadow = (position.xz - vec2(0.55, -0.5)) * mat2(0.74, 0.67, -0.67, 0.74);
        float light = 1.0 - 0.75 * exp(-0.7 * dot(shadow, shadow * vec2(0.9, 3.0)));
        light *= 1.0 - 0.8 * exp(-4.0 * away * away);
        pixel = display(mix(vec3(0.54, 0.32, 0.20) * light, vec3(0.012, 0.007, 0.005), smoothstep(0.0, 11.0, away)));
    }
"""


def profile(v: Doubles) -> tuple[Doubles, Doubles]:
    """The vase from its foot to its lip."""
    knots = [0.0, 0.04, 0.10, 0.25, 0.45, 0.60, 0.74, 0.86, 0.95, 1.0]
    radii = [0.42, 0.44, 0.44, 0.70, 0.92, 0.86, 0.52, 0.28, 0.34, 0.46]
    smooth = np.mean([np.interp(v + shift, knots, radii) for shift in np.linspace(-0.07, 0.07, 15)], axis=0)
    return smooth, 2.3 * v


def glaze() -> Image.Image:
    """A third of the way around the vase, foot to lip, in cobalt and gold on white."""
    image = Image.new("RGB", (512, 512), (244, 242, 235))
    draw = ImageDraw.Draw(image)
    cobalt, gold = (24, 52, 140), (196, 142, 52)
    for top, height, colour in ((0, 22, cobalt), (96, 5, cobalt), (150, 8, gold), (164, 4, cobalt), (392, 4, cobalt)):
        draw.rectangle((0, top, 511, top + height), colour)
    draw.rectangle((0, 440, 511, 511), cobalt)
    draw.rectangle((0, 430, 511, 434), gold)
    for i in range(8):  # leaves around the neck, waves around the foot
        x = 64 * i
        draw.polygon([(x + 8, 94), (x + 32, 30), (x + 56, 94)], cobalt)
        draw.polygon([(x + 22, 90), (x + 32, 56), (x + 42, 90)], (244, 242, 235))
        draw.ellipse((x + 25, 112, x + 39, 138), gold)
        draw.arc((x, 400, x + 64, 440), 180, 360, cobalt, 5)
    for flower in range(2):  # around the belly
        x, y = 128 + 256 * flower, 278
        for radius, petal, colour in ((84, 25, cobalt), (56, 17, (86, 124, 205)), (30, 8, (244, 242, 235))):
            for turn in np.arange(12) * np.pi / 6 + (0 if radius == 56 else np.pi / 12):
                px, py = x + radius * np.sin(turn), y + radius * np.cos(turn)
                draw.ellipse((px - petal, py - petal, px + petal, py + petal), colour)
        draw.ellipse((x - 19, y - 19, x + 19, y + 19), gold)
        for side in (-128, 128):
            draw.polygon([(x + side - 22, y), (x + side, y - 74), (x + side + 22, y), (x + side, y + 74)], gold)
            draw.polygon([(x + side - 11, y), (x + side, y - 40), (x + side + 11, y), (x + side, y + 40)], cobalt)
    return image.resize((384, 384), Image.Resampling.LANCZOS).transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def render(ctx: moderngl.Context) -> Image.Image:
    painted = glaze()
    texture = ctx.texture(painted.size, 3, painted.tobytes())
    texture.build_mipmaps()
    texture.anisotropy = 8.0
    vase = mesh_array(ctx, mesh_program(ctx, FRAGMENT_SHADER), lathe(profile, 72, 72))
    table = mesh_array(ctx, mesh_program(ctx, TABLE_SHADER), ground(60))

    framebuffer = canvas(ctx)
    backdrop(ctx, (0.018, 0.010, 0.007))
    ctx.enable_only(moderngl.DEPTH_TEST)
    eye = (0.0, 2.5, 5.2)
    for thing in (table, vase):
        thing.program["camera"] = (look_at(eye, (0, 1.08, 0)) @ perspective(32, 1.6, 0.1, 30)).ravel()
        thing.program["model"] = rotation(0.5, (0, 1, 0)).ravel()
    vase.program["eye"] = eye
    texture.use()
    table.render()
    vase.render()
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("textured_model.png")


if __name__ == "__main__":
    main()
