"""Post-processing in several passes: what is brighter than white is taken out, blurred ever wider, and added as a glow.

The blur is separable: along the rows, then along the columns. Each of its four levels has half the size of the last.
"""

import moderngl
from PIL import Image

import glremote
from glremote.samples import SIZE
from glremote.samples.drawing import fullscreen, layer, mesh_array, mesh_program, standalone
from glremote.samples.geometry import look_at, perspective, rotation, sphere, torus

REQUIRE = 330

SCENE_SHADER = """
    #version 330
    #include "lighting.glsl"
    uniform vec3 eye, glow;
    in vec3 position, normal;
    in vec2 uv;
    out vec4 light;
    void main() {
        vec3 n = normalize(normal), to_eye = normalize(eye - position), bronze = vec3(0.72, 0.50, 0.34);
        vec3 core = vec3(1.1, 0.83, 0.5) * lit(bronze, 1.0, 0.42, n, to_eye, normalize(-position));
        vec3 metal = 0.12 * studio(bronze, 1.0, 0.25, n, to_eye) + core / dot(position, position);
        light = vec4(glow == vec3(0.0) ? metal : glow * (0.2 + 0.8 * dot(n, to_eye)), 1.0);
    }
"""

BRIGHT_SHADER = """
    #version 330
    uniform sampler2D source;
    uniform float threshold;
    in vec2 uv;
    out vec4 light;
    void main() {
        light = vec4(max(texture(source, uv).rgb - threshold, 0.0), 1.0);
    }
"""

BLUR_SHADER = """
    #version 330
    uniform sampler2D source;
    uniform vec2 direction;  // from pixel to pixel
    in vec2 uv;
    out vec4 light;
    void main() {
        vec4 sum = vec4(0.0);
        for (int i = -6; i <= 6; i++)
            sum += exp(-float(i * i) / 12.0) * vec4(texture(source, uv + float(i) * direction).rgb, 1.0);
        light = vec4(sum.rgb / sum.a, 1.0);
    }
"""

FINAL_SHADER = """
    #version 330
    #include "display.glsl"
    uniform sampler2D scene, glow[4];
    in vec2 uv;
    out vec4 pixel;
    void main() {
        vec4 sum = texture(glow[0], uv) + texture(glow[1], uv) + texture(glow[2], uv) + texture(glow[3], uv);
        pixel = display(texture(scene, uv).rgb + 0.4 * sum.rgb);
    }
"""


def draw_scene(ctx: moderngl.Context) -> moderngl.Texture:
    """A gyroscope around a small sun, in linear light, twice as wide and high as the picture."""
    size = 2 * SIZE[0], 2 * SIZE[1]
    scene = ctx.texture(size, 4, dtype="f2")
    framebuffer = ctx.framebuffer([scene], ctx.depth_renderbuffer(size))
    framebuffer.use()
    framebuffer.clear(0.006, 0.008, 0.018, 1.0)
    ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
    program = mesh_program(ctx, SCENE_SHADER)
    program["eye"] = eye = (0.0, 0.0, 6.0)
    program["camera"] = (look_at(eye, (0, 0, 0)) @ perspective(36, 1.6, 0.1, 20)).ravel()
    things = [(sphere(0.2), rotation(0, (0, 1, 0)), (9.0, 5.5, 2.6))]
    neon = [(0.15, 0.9, 5.0), (0.1, 2.4, 2.0), (3.6, 1.5, 0.12), (4.5, 0.25, 0.5)]
    for i, colour in enumerate(neon):
        turn = rotation(1.15 - 0.22 * i, (1, 0, 0)) @ rotation(2.4 * i + 0.5, (0, 0, 1))
        radius = 0.58 + 0.36 * i
        things.append((torus(radius, 0.09, 80, 12), turn, (0.0, 0.0, 0.0)))
        for edge in (-0.1, 0.1):
            things.append((torus(radius + edge, 0.018, 80, 6), turn, colour))
    for mesh, model, glow in things:
        program["model"] = model.ravel()
        program["glow"] = glow
        mesh_array(ctx, program, mesh).render()
    return scene


def render(ctx: moderngl.Context) -> Image.Image:
    scene = draw_scene(ctx)
    ctx.enable_only(moderngl.NOTHING)
    bright, blur, final = (fullscreen(ctx, shader) for shader in (BRIGHT_SHADER, BLUR_SHADER, FINAL_SHADER))

    scene.use(0)
    for i in range(4):  # each level from the one before, at half its size
        size = SIZE[0] >> i, SIZE[1] >> i
        (level, result), (across, halfway) = layer(ctx, size), layer(ctx, size)
        level.use()
        bright.program["threshold"] = 1.0 if i == 0 else 0.0
        bright.render()
        for source, target, direction in ((result, across, (1 / size[0], 0)), (halfway, level, (0, 1 / size[1]))):
            source.use(0)
            target.use()
            blur.program["direction"] = direction
            blur.render()
        result.use(0)
        result.use(1 + i)

    picture = ctx.simple_framebuffer(SIZE)
    picture.use()
    scene.use(0)
    final.program["glow"] = [1, 2, 3, 4]
    final.render()
    return glremote.image(picture)


def main() -> None:
    render(standalone(REQUIRE)).save("bloom.png")


if __name__ == "__main__":
    main()
