"""Scissor and viewport: eight tiles of one framebuffer, each cleared by itself, the knots cut off at their edges."""

import moderngl
from PIL import Image

from glremote.samples.drawing import canvas, mesh_array, mesh_program, picture, standalone
from glremote.samples.geometry import look_at, perspective, rotation, torus_knot

REQUIRE = 330
COLUMNS, ROWS = 4, 2

# A background and three inks for each tile: deep, middle, light.
PALETTES = (
    ("#f6d13c", "#7a1f5c", "#e8386d", "#ffd9c7"),
    ("#1d8a99", "#3a0f3d", "#ff6b4a", "#ffe9a8"),
    ("#f25f4c", "#11204d", "#2f6df0", "#b8f0ff"),
    ("#2b2d6e", "#064a4a", "#18c29c", "#f3ffd0"),
    ("#8bd3c7", "#5a1230", "#ef4565", "#fff0e0"),
    ("#f7a6b8", "#14335c", "#1f9bd1", "#fdf6c8"),
    ("#3d1f5b", "#8a2d0c", "#ffa01f", "#fff3b0"),
    ("#e9e3d0", "#14142b", "#7a5cff", "#ffc2f0"),
)

INK_SHADER = """
    #version 330
    uniform vec3 eye, deep, middle, light;
    in vec3 position, normal;
    in vec2 uv;
    out vec4 pixel;
    void main() {  // three flat inks, as a screen print has them, with dots between
        vec3 n = normalize(normal);
        float lit = dot(n, normalize(vec3(-0.5, 0.8, 0.7)));
        vec2 dot_ = fract(mat2(0.707, 0.707, -0.707, 0.707) * gl_FragCoord.xy / 11.0) - 0.5;
        float screen = 0.9 * (length(dot_) - 0.38);
        vec3 colour = lit < -0.05 + 0.8 * screen ? deep : middle;
        colour = lit > 0.80 + 0.5 * screen ? light : colour;
        pixel = vec4(dot(n, normalize(eye - position)) < 0.24 ? 0.35 * deep : colour, 1.0);
    }
"""


def colour(text: str) -> tuple[float, float, float]:
    """#rrggbb as three numbers from 0 to 1."""
    red, green, blue = (byte / 255 for byte in bytes.fromhex(text[1:]))
    return red, green, blue


def render(ctx: moderngl.Context) -> Image.Image:
    program = mesh_program(ctx, INK_SHADER)
    knot = mesh_array(ctx, program, torus_knot(2, 3, 0.4, 160, 20))
    program["eye"] = eye = (0.0, 0.0, 5.0)
    program["camera"] = (look_at(eye, (0, 0, 0)) @ perspective(40, 1.0, 0.1, 20)).ravel()

    framebuffer = canvas(ctx)
    ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
    width, height = framebuffer.width // COLUMNS, framebuffer.height // ROWS
    for i, (background, *inks) in enumerate(PALETTES):
        x, y = i % COLUMNS * width, (ROWS - 1 - i // COLUMNS) * height
        framebuffer.scissor = x, y, width, height
        framebuffer.clear(*colour(background), 1.0)
        framebuffer.viewport = x + width // 2 - 230, y + height // 2 - 230, 460, 460  # larger than the tile
        for name, ink in zip(("deep", "middle", "light"), inks, strict=True):
            program[name] = colour(ink)
        program["model"] = (rotation(0.785 * i, (0, 0, 1)) @ rotation(0.5 * i - 0.8, (0.3, 1, 0))).ravel()
        knot.render()
    framebuffer.scissor = None  # type: ignore[assignment]
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("tiles.png")


if __name__ == "__main__":
    main()
