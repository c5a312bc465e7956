"""A shadow map: the depths that the sun sees, in a texture that compares by itself, tell light from shade."""

import moderngl
import numpy as np
from PIL import Image

from glremote.samples.drawing import canvas, evening, mesh_array, mesh_program, picture, standalone
from glremote.samples.geometry import (
    Mesh,
    ground,
    join,
    look_at,
    orthographic,
    perspective,
    place,
    sphere,
    translation,
    turned,
)

REQUIRE = 330
SHADOW_SIZE = (1536, 1536)

DEPTH_SHADER = """
    #version 330
    void main() {}
"""

SCENE_SHADER = """
    #version 330
    #include "display.glsl"
    #include "lighting.glsl"
    #include "sky.glsl"
    #include "noise.glsl"
    uniform sampler2DShadow shadow;
    uniform mat4 sun_camera;
    uniform vec3 eye, sun;
    in vec3 position, normal;
    in vec2 uv;
    out vec4 pixel;
    void main() {
        vec3 n = normalize(normal), to_eye = normalize(eye - position);
        vec3 place = (sun_camera * vec4(position + 0.03 * n, 1.0)).xyz * 0.5 + 0.5;  // a little off the surface
        float light = 0.0;
        for (int i = 0; i < 16; i++)  // each lookup is itself four comparisons, smoothly joined
            light += texture(shadow, place + vec3((vec2(i & 3, i >> 2) - 1.5) / 1536.0, -0.0005)) / 16.0;
        float grain = fbm(position * vec3(3.0, 9.0, 3.0), 3);
        vec3 stone = mix(vec3(0.58, 0.52, 0.45), vec3(0.72, 0.66, 0.58), grain);
        if (position.y < 0.005)
            stone = mix(vec3(0.12, 0.13, 0.05), vec3(0.26, 0.22, 0.09), grain);  // dry grass
        vec3 ambient = stone * mix(vec3(0.14, 0.11, 0.10), vec3(0.16, 0.22, 0.38), 0.5 + 0.5 * n.y);
        vec3 colour = ambient + light * vec3(2.3, 1.55, 0.9) * lit(stone, 0.0, 0.6, n, to_eye, sun);
        vec3 haze = sky(vec3(-to_eye.x, 0.0, -to_eye.z), sun);
        pixel = display(mix(colour, haze, smoothstep(12.0, 70.0, distance(eye, position))));
    }
"""


def temple() -> Mesh:
    """Ten columns in a round, on two steps and under a ring, with a globe in the middle."""
    base = turned([(3.3, 0.0), (3.3, 0.2), (2.9, 0.2), (2.9, 0.4), (0.5, 0.4), (0.5, 1.0), (0.0, 1.0)])
    ring = turned([(1.95, 3.0), (2.75, 3.0), (2.75, 3.4), (2.9, 3.4), (2.9, 3.55), (1.95, 3.55), (1.95, 3.0)])
    shaft = [(0.36, 0.4), (0.36, 0.52), (0.30, 0.52), (0.30, 0.63), (0.24, 0.72), (0.20, 2.7), (0.22, 2.8), (0.33, 2.9)]
    column = turned([*shaft, (0.33, 3.0)], 28)
    turns = (np.arange(10) + 0.5) * 2 * np.pi / 10
    columns = [place(column, translation(2.35 * np.sin(turn), 0, 2.35 * np.cos(turn))) for turn in turns]
    return join([base, ring, place(sphere(0.62), translation(0, 1.58, 0)), *columns])


def render(ctx: moderngl.Context) -> Image.Image:
    building = temple()
    caster = mesh_array(ctx, mesh_program(ctx, DEPTH_SHADER), building)
    shown = mesh_array(ctx, mesh_program(ctx, SCENE_SHADER), join([building, ground(160)]))
    sun, eye = (-0.80, 0.42, 0.43), (0.0, 2.9, 12.0)
    sun_camera = look_at((-8.0, 4.2, 4.3), (0, 0, 0)) @ orthographic(9, 8, 0.1, 30)
    camera = look_at(eye, (0.8, 1.6, 0)) @ perspective(29, 1.6, 0.1, 200)

    depth = ctx.depth_texture(SHADOW_SIZE)
    depth.compare_func = "<="
    depth.repeat_x = depth.repeat_y = False  # what lies outside is lit
    shadow = ctx.framebuffer(depth_attachment=depth)
    shadow.use()
    shadow.clear()
    ctx.enable_only(moderngl.DEPTH_TEST)
    caster.program["camera"] = sun_camera.ravel()
    caster.program["model"] = np.eye(4).ravel()
    caster.render()

    framebuffer = canvas(ctx)
    evening(ctx, camera, eye, sun)
    ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
    depth.use()
    for name, value in (("camera", camera.ravel()), ("model", np.eye(4).ravel()), ("sun_camera", sun_camera.ravel())):
        shown.program[name] = value
    shown.program["eye"] = eye
    shown.program["sun"] = sun
    shown.render()
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("shadow_map.png")


if __name__ == "__main__":
    main()
