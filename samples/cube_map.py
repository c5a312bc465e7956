"""A cube map: a sky that the GPU paints onto six faces, seen behind a knot of polished metal and mirrored in it."""

import moderngl
import numpy as np
from PIL import Image

from glremote.samples.drawing import canvas, fullscreen, layer, mesh_array, mesh_program, picture, standalone
from glremote.samples.geometry import look_at, perspective, rotation, torus_knot

REQUIRE = 330
FACE_SIZE = (384, 384)

FACES = (  # of OpenGL's cube, as columns of a matrix: to the right, up, and ahead
    ((0, 0, -1), (0, -1, 0), (1, 0, 0)),
    ((0, 0, 1), (0, -1, 0), (-1, 0, 0)),
    ((1, 0, 0), (0, 0, 1), (0, 1, 0)),
    ((1, 0, 0), (0, 0, -1), (0, -1, 0)),
    ((1, 0, 0), (0, -1, 0), (0, 0, 1)),
    ((-1, 0, 0), (0, -1, 0), (0, 0, -1)),
)

PAINT_SHADER = """
    #version 330
    #include "noise.glsl"
    #include "sky.glsl"
    uniform mat3 face;
    uniform vec3 sun;
    in vec2 uv;
    out vec4 light;
    void main() {
        vec3 d = normalize(face * vec3(uv * 2.0 - 1.0, 1.0));
        vec3 colour = sky(d, sun);
        if (d.y > 0.0) {
            vec3 p = vec3(d.xz / (d.y + 0.12), 1.0) * 1.1;  // on a flat layer above
            float cloud = smoothstep(0.46, 0.80, fbm(p + 0.8 * fbm(p * 0.7, 3), 6)) * smoothstep(0.0, 0.10, d.y);
            float glow = pow(max(dot(d, sun), 0.0), 5.0);
            colour = mix(colour, mix(vec3(0.50, 0.36, 0.45), vec3(2.6, 1.5, 0.8), glow), 0.85 * cloud);
        } else {
            float ripple = fbm(vec3(d.xz / (0.02 - d.y), 1.0) * vec3(3.0, 8.0, 1.0), 4) - 0.5;
            vec3 up = normalize(vec3(d.x, -d.y + 0.05 + 0.1 * ripple, d.z));
            colour = mix(vec3(0.010, 0.030, 0.050), sky(up, sun), 0.15 + 0.75 * pow(1.0 + d.y, 6.0));
        }
        light = vec4(colour, 1.0);
    }
"""

SKY_SHADER = """
    #version 330
    #include "display.glsl"
    uniform samplerCube room;
    uniform mat4 to_world;
    in vec2 uv;
    out vec4 pixel;
    void main() {
        vec4 far = to_world * vec4(uv * 2.0 - 1.0, 1.0, 1.0);
        pixel = display(textureLod(room, far.xyz, 0.0).rgb);
    }
"""

METAL_SHADER = """
    #version 330
    #include "display.glsl"
    uniform samplerCube room;
    uniform vec3 eye;
    in vec3 position, normal;
    in vec2 uv;
    out vec4 pixel;
    void main() {
        vec3 n = normalize(normal), to_eye = normalize(eye - position), silver = vec3(0.90, 0.86, 0.80);
        vec3 fresnel = silver + (1.0 - silver) * pow(1.0 - clamp(dot(n, to_eye), 0.0, 1.0), 5.0);
        pixel = display(fresnel * textureLod(room, reflect(-to_eye, n), 0.0).rgb);
    }
"""


def paint(ctx: moderngl.Context, sun: tuple[float, float, float]) -> moderngl.TextureCube:
    """The sky in a cube map. The faces go from framebuffer to buffer to cube map without leaving the GPU."""
    room = ctx.texture_cube(FACE_SIZE, 4, dtype="f2")
    (face, _), pixels = layer(ctx, FACE_SIZE), ctx.buffer(reserve=FACE_SIZE[0] * FACE_SIZE[1] * 8)
    face.use()
    ctx.enable_only(moderngl.NOTHING)
    painter = fullscreen(ctx, PAINT_SHADER)
    painter.program["sun"] = sun
    for i, axes in enumerate(FACES):
        painter.program["face"] = np.ravel(axes)
        painter.render()
        face.read_into(pixels, components=4, dtype="f2")
        room.write(i, pixels)
    return room


def render(ctx: moderngl.Context) -> Image.Image:
    room = paint(ctx, (-0.42, 0.16, -0.893))
    room.use()
    eye, target = (0.0, -0.6, 4.9), (0.0, 0.0, 0.0)
    lens = perspective(46, 1.6, 0.1, 20)

    framebuffer = canvas(ctx)
    behind = fullscreen(ctx, SKY_SHADER)
    behind.program["to_world"] = np.linalg.inv(look_at((0, 0, 0), tuple(np.subtract(target, eye))) @ lens).ravel()
    behind.render()
    ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
    knot = mesh_array(ctx, mesh_program(ctx, METAL_SHADER), torus_knot(2, 3, tube=0.42, columns=288, rows=32))
    knot.program["camera"] = (look_at(eye, target) @ lens).ravel()
    knot.program["model"] = rotation(0.35, (1, 0.6, 0)).ravel()
    knot.program["eye"] = eye
    knot.render()
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("cube_map.png")


if __name__ == "__main__":
    main()
