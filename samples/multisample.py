"""Multisample resolve: the same fine lines with one sample a pixel (left) and with four, averaged by a copy (right)."""

import moderngl
import numpy as np
from PIL import Image

import glremote
from glremote.samples import SIZE
from glremote.samples.drawing import fullscreen, layer, standalone
from glremote.samples.geometry import Floats
from glremote.shaders import include

REQUIRE = 330

VERTEX_SHADER = """
    #version 330
    #include "palette.glsl"
    in vec2 in_position;
    in float in_hue;
    out vec3 colour;
    void main() {
        gl_Position = vec4(in_position * vec2(0.625, 1.0), 0.0, 1.0);
        colour = palette(in_hue);
    }
"""

FRAGMENT_SHADER = """
    #version 330
    #include "display.glsl"
    in vec3 colour;
    out vec4 pixel;
    void main() {
        pixel = display(colour * 1.6);
    }
"""

COMPARE_SHADER = """
    #version 330
    uniform sampler2D aliased, resolved;
    out vec4 pixel;
    void main() {
        vec2 place = gl_FragCoord.xy, centre = vec2(320.0, 200.0);
        bool left = place.x < centre.x;
        vec2 side = vec2(left ? -1.0 : 1.0, 1.0), lens = centre + side * vec2(232.0, -112.0);
        float away = distance(place, lens);
        if (away < 76.0)  // a lens that shows every pixel as 6 by 6
            place = centre + side * vec2(86.0, 82.0) + (place - lens) / 6.0;
        pixel = left ? texelFetch(aliased, ivec2(place), 0) : texelFetch(resolved, ivec2(place), 0);
        float line = min(abs(away - 77.0) - 1.2, away > 76.0 ? abs(gl_FragCoord.x - centre.x) - 0.8 : 9.0);
        pixel.rgb = mix(pixel.rgb, vec3(0.92), clamp(0.5 - line, 0.0, 1.0));
    }
"""


def string_art(nails: int) -> Floats:
    """Lines from every nail of a circle to the one three times as far around; x, y and hue for each of their ends."""
    nail = np.arange(nails)
    ends = np.column_stack([nail, 3 * nail]).ravel() * 2 * np.pi / nails + np.pi / 2
    hue = 0.5 + 0.5 * np.cos(2 * np.repeat(nail, 2) * 2 * np.pi / nails)
    return np.column_stack([0.94 * np.cos(ends), 0.94 * np.sin(ends), 0.02 + 0.6 * hue]).astype("f4")


def render(ctx: moderngl.Context) -> Image.Image:
    include(ctx)
    program = ctx.program(vertex_shader=VERTEX_SHADER, fragment_shader=FRAGMENT_SHADER)
    vertex_array = ctx.vertex_array(program, ctx.buffer(string_art(240)), "in_position", "in_hue")
    ctx.enable_only(moderngl.NOTHING)

    (aliased, one), (resolved, four) = layer(ctx, dtype="f1"), layer(ctx, dtype="f1")
    multisampled = ctx.framebuffer([ctx.renderbuffer(SIZE, 4, samples=4)])
    for framebuffer in (aliased, multisampled):
        framebuffer.use()
        framebuffer.clear(0.05, 0.06, 0.10, 1.0)
        vertex_array.render(moderngl.LINES)
    ctx.copy_framebuffer(resolved, multisampled)

    compared = ctx.simple_framebuffer(SIZE)
    compared.use()
    compare = fullscreen(ctx, COMPARE_SHADER)
    for unit, (name, texture) in enumerate((("aliased", one), ("resolved", four))):
        texture.use(unit)
        compare.program[name] = unit
    compare.render()
    return glremote.image(compared)


def main() -> None:
    render(standalone(REQUIRE)).save("multisample.png")


if __name__ == "__main__":
    main()
