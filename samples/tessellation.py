"""Tessellation: flat squares become mountains, cut finer the nearer they are; on the right, the cuts are drawn."""

import moderngl
import numpy as np
from PIL import Image

from glremote.samples.drawing import canvas, evening, picture, standalone
from glremote.samples.geometry import look_at, perspective
from glremote.shaders import include

REQUIRE = 400
SQUARES = 24  # along a side

VERTEX_SHADER = """
    #version 400
    in vec2 in_corner;
    out vec2 corner;
    void main() {
        corner = in_corner;
    }
"""

CONTROL_SHADER = """
    #version 400
    layout(vertices = 4) out;
    uniform vec3 eye;
    in vec2 corner[];
    out vec2 corners[];
    float cuts(vec2 a, vec2 b) {  // of an edge; both squares that share it come to the same number
        return clamp(110.0 / distance(eye, vec3(0.5 * (a + b), 0.0).xzy), 2.0, 40.0);
    }
    void main() {
        corners[gl_InvocationID] = corner[gl_InvocationID];
        if (gl_InvocationID == 0) {
            gl_TessLevelOuter[0] = cuts(corner[0], corner[3]);
            gl_TessLevelOuter[1] = cuts(corner[0], corner[1]);
            gl_TessLevelOuter[2] = cuts(corner[1], corner[2]);
            gl_TessLevelOuter[3] = cuts(corner[3], corner[2]);
            gl_TessLevelInner[0] = max(gl_TessLevelOuter[1], gl_TessLevelOuter[3]);
            gl_TessLevelInner[1] = max(gl_TessLevelOuter[0], gl_TessLevelOuter[2]);
        }
    }
"""

TERRAIN = """
    float terrain(vec2 p, int octaves) {  // how high the ground is
        float sum = 0.0, weight = 3.4;
        vec3 q = vec3(p * 0.17, 3.0);
        for (int i = 0; i < octaves; i++, weight *= 0.43, q = vec3(mat2(1.6, 1.2, -1.2, 1.6) * q.xy, q.z + 7.0)) {
            float ridge = 1.0 - abs(2.0 * noise(q) - 1.0);
            sum += weight * ridge * ridge;
        }
        return sum - 4.0 + 3.0 * smoothstep(1.5, 11.0, abs(p.x + 1.5 * sin(0.35 * p.y)));  // and a valley between
    }
"""

EVALUATION_SHADER = """
    #version 400
    #include "noise.glsl"
    #include "terrain"
    layout(quads, fractional_even_spacing, ccw) in;
    uniform mat4 camera;
    in vec2 corners[];
    out vec3 position;
    out vec2 cell;  // a whole number at every cut
    void main() {
        vec2 t = gl_TessCoord.xy;
        vec2 p = mix(mix(corners[0], corners[1], t.x), mix(corners[3], corners[2], t.x), t.y);
        position = vec3(p.x, max(terrain(p, 6), -1.2), p.y);
        cell = t * vec2(gl_TessLevelInner[0], gl_TessLevelInner[1]);
        gl_Position = camera * vec4(position, 1.0);
    }
"""

FRAGMENT_SHADER = """
    #version 400
    #include "display.glsl"
    #include "noise.glsl"
    #include "sky.glsl"
    #include "terrain"
    uniform vec3 eye, sun;
    in vec3 position;
    in vec2 cell;
    out vec4 pixel;
    void main() {
        vec2 step = vec2(0.04, 0.0);
        float height = terrain(position.xz, 7);
        vec3 n = vec3(height - terrain(position.xz + step.xy, 7), 0.04, height - terrain(position.xz + step.yx, 7));
        n = position.y > -1.199 ? normalize(n) : vec3(0.0, 1.0, 0.0);
        vec3 ray = normalize(position - eye);

        vec3 ground = mix(vec3(0.10, 0.12, 0.04), vec3(0.22, 0.17, 0.13), smoothstep(-1.1, -0.2, position.y));
        ground = mix(vec3(0.16, 0.13, 0.12), ground, smoothstep(0.55, 0.80, n.y));
        ground = mix(ground, vec3(0.85, 0.87, 0.92), smoothstep(-0.2, 0.5, position.y) * smoothstep(0.42, 0.62, n.y));
        vec3 above = mix(0.3, 1.0, n.y) * vec3(0.16, 0.20, 0.34);
        vec3 colour = ground * (vec3(3.0, 2.0, 1.25) * max(dot(n, sun), 0.0) + above);
        float mirror = 0.15 + 0.7 * pow(1.0 - max(-ray.y, 0.0), 5.0);
        if (position.y <= -1.199)
            colour = mix(vec3(0.01, 0.04, 0.06), sky(reflect(ray, n), sun), mirror);

        vec2 lines = abs(fract(cell + 0.5) - 0.5) / fwidth(cell);
        float wire = (1.0 - smoothstep(0.5, 1.5, min(lines.x, lines.y))) * smoothstep(660.0, 900.0, gl_FragCoord.x);
        colour = mix(colour, vec3(1.0, 0.55, 0.15), 0.65 * wire * exp(-0.06 * distance(eye, position)));
        float haze = 1.0 - exp(-pow(distance(eye, position) / 27.0, 2.0));
        pixel = display(mix(colour, sky(normalize(vec3(ray.x, 0.16, ray.z)), sun), haze));
    }
"""


def render(ctx: moderngl.Context) -> Image.Image:
    include(ctx)
    ctx.includes["terrain"] = TERRAIN
    program = ctx.program(
        vertex_shader=VERTEX_SHADER,
        tess_control_shader=CONTROL_SHADER,
        tess_evaluation_shader=EVALUATION_SHADER,
        fragment_shader=FRAGMENT_SHADER,
    )
    x, z = np.meshgrid(np.arange(SQUARES), np.arange(SQUARES))
    corners = np.stack([x, z], axis=-1)[..., None, :] + np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    corners = (corners / SQUARES * 40 - np.array([20, 38])).astype("f4")  # 40 wide, mostly ahead
    patches = ctx.vertex_array(program, ctx.buffer(corners), "in_corner", mode=moderngl.PATCHES)

    eye, sun = (0.0, 1.9, 1.0), (-0.84, 0.36, -0.406)
    camera = look_at(eye, (0.3, 0.95, -5)) @ perspective(46, 1.6, 0.1, 80)
    framebuffer = canvas(ctx)
    evening(ctx, camera, eye, sun)
    ctx.enable_only(moderngl.DEPTH_TEST)
    ctx.patch_vertices = 4
    program["camera"] = camera.ravel()
    program["eye"] = eye
    program["sun"] = sun
    patches.render()
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("tessellation.png")


if __name__ == "__main__":
    main()
