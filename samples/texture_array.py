"""A texture array: one texture of nine layers paints an island of blocks, each block naming the layers of its sides."""

import moderngl
import numpy as np
import numpy.typing as npt
from PIL import Image

from glremote.samples.drawing import backdrop, canvas, mesh_array, picture, standalone
from glremote.samples.geometry import box, look_at, perspective
from glremote.shaders import include

REQUIRE = 330
TEXELS = 16  # of a block's side

VERTEX_SHADER = """
    #version 330
    uniform mat4 camera;
    in vec3 in_position, in_normal;
    in vec2 in_uv;
    in vec3 place;  // these three are the block's
    in vec2 layers;
    in float shade;
    out vec3 normal, layer_uv;
    out float light;
    void main() {
        normal = in_normal;
        layer_uv = vec3(in_uv, in_normal.y > 0.5 ? layers.x : layers.y);
        light = shade;
        gl_Position = camera * vec4(place + in_position, 1.0);
    }
"""

FRAGMENT_SHADER = """
    #version 330
    #include "display.glsl"
    uniform sampler2DArray blocks;
    in vec3 normal, layer_uv;
    in float light;
    out vec4 pixel;
    void main() {
        vec3 colour = pow(texture(blocks, layer_uv).rgb, vec3(2.2));
        float sun = max(dot(normal, normalize(vec3(0.55, 0.8, 0.25))), 0.0);
        pixel = display(colour * (vec3(0.26, 0.32, 0.44) + light * sun * vec3(1.35, 1.15, 0.85)));
    }
"""

WATER, SAND, GRASS, GRASSY, EARTH, ROCK, SNOW, TRUNK, LEAVES = range(9)
COLOURS = (
    (38, 104, 176), (222, 200, 146), (92, 140, 58), (122, 90, 62), (122, 90, 62), (124, 122, 128), (236, 240, 246),
    (92, 66, 44), (44, 96, 48),
)  # fmt: skip
GRAIN = (5, 7, 10, 11, 11, 9, 4, 9, 18)


def paint() -> npt.NDArray[np.uint8]:
    """The layers, (9, TEXELS, TEXELS, 3): speckled colours, and grass that hangs over the edge of earth."""
    random = np.random.default_rng(7)
    grain = random.normal(0, 1, (9, TEXELS, TEXELS, 1)) * np.reshape(GRAIN, (9, 1, 1, 1))
    image = np.reshape(COLOURS, (9, 1, 1, 3)) + grain
    hanging = np.arange(TEXELS)[:, None] >= TEXELS - 3 - random.integers(0, 3, TEXELS)
    image[GRASSY][hanging] = image[GRASS][hanging]
    bytes_: npt.NDArray[np.uint8] = np.clip(image, 0, 255).astype("u1")
    return bytes_


def island(size: int) -> npt.NDArray[np.float32]:
    """The blocks, (n, 6): where, the layers of the top and of the sides, and how much sun falls on it."""
    random = np.random.default_rng(3)
    x, z = np.meshgrid(np.arange(size) - size / 2 + 0.5, np.arange(size) - size / 2 + 0.5, indexing="ij")
    hills = np.zeros((size, size))
    for wave in (3.0, 6.0, 12.0):
        for angle, phase in random.uniform(0, 2 * np.pi, (4, 2)):
            hills += 0.35 / wave * np.cos(wave * 2.6 / size * (x * np.cos(angle) + z * np.sin(angle)) + phase)
    away = np.hypot(x, z) / (size / 2)
    height = np.rint(np.clip(13 * (0.62 + 1.5 * hills) * (1 - away**2.5) - 1, 0, 12)).astype(int)
    blocks = []
    for i, j in np.argwhere(away < 1):
        top = height[i, j]
        ahead = [height[min(i + k, size - 1), j] - k for k in (1, 2, 3)]  # towards the sun
        shade = 0.35 if max(ahead) > top else 1.0
        around = height[max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2].min()
        for y in range(min(top, around), top + 1):
            kind = WATER if top == 0 else SAND if top == 1 else SNOW if y > 8 else ROCK if y > 5 else GRASS
            side = {GRASS: GRASSY if y == top else EARTH}.get(kind, kind)
            blocks.append((x[i, j], y - (0.15 if kind == WATER else 0), z[i, j], kind, side, shade))
        if kind == GRASS and shade == 1.0 and random.random() < 0.07:
            blocks += [(x[i, j], top + y, z[i, j], TRUNK, TRUNK, shade) for y in (1, 2)]
            for crown in np.argwhere(np.ones((3, 3, 3))) - 1:
                if np.abs(crown).sum() < (3 if crown[1] < 1 else 2):
                    blocks.append((x[i, j] + crown[0], top + 4 + crown[1], z[i, j] + crown[2], LEAVES, LEAVES, shade))
    return np.array(blocks, dtype="f4")


def render(ctx: moderngl.Context) -> Image.Image:
    include(ctx)
    layers = paint()
    texture = ctx.texture_array((TEXELS, TEXELS, len(layers)), 3, layers.tobytes())
    texture.build_mipmaps()
    texture.filter = moderngl.LINEAR_MIPMAP_LINEAR, moderngl.NEAREST
    program = ctx.program(vertex_shader=VERTEX_SHADER, fragment_shader=FRAGMENT_SHADER)
    places = island(34)
    blocks = mesh_array(ctx, program, box(), (ctx.buffer(places), "3f 2f 1f /i", "place", "layers", "shade"))

    framebuffer = canvas(ctx)
    backdrop(ctx, (0.30, 0.42, 0.56))
    ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
    program["camera"] = (look_at((34, 30, 38), (0, 3.0, 0)) @ perspective(29, 1.6, 1, 120)).ravel()
    texture.use()
    blocks.render(instances=len(places))
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("texture_array.png")


if __name__ == "__main__":
    main()
