"""A geometry shader: every point of a meadow grows into a bent blade of grass, and some of them into a flower."""

import moderngl
from PIL import Image

from glremote.samples.drawing import canvas, evening, picture, standalone
from glremote.samples.geometry import look_at, perspective
from glremote.shaders import include

REQUIRE = 330
BLADES = 26000

VERTEX_SHADER = """
    #version 330
    #include "noise.glsl"
    out vec4 root;  // where, and a random number
    void main() {
        uint seed = uint(gl_VertexID) * 4u;
        float away = 1.6 + 26.0 * pow(random(seed), 1.7);  // the farther the sparser
        float side = (random(seed + 1u) - 0.5) * (2.0 + 1.25 * away);
        float hill = 1.1 * (noise(vec3(side * 0.16, away * 0.16, 2.0)) - 0.5);
        root = vec4(side, hill, -away, random(seed + 2u));
    }
"""

GEOMETRY_SHADER = """
    #version 330
    #include "noise.glsl"
    layout(points) in;
    layout(triangle_strip, max_vertices = 23) out;
    uniform mat4 camera;
    in vec4 root[];
    out vec3 colour;

    void grow(vec3 at, vec3 paint) {
        gl_Position = camera * vec4(at, 1.0);
        colour = mix(paint, vec3(0.50, 0.27, 0.20), smoothstep(5.0, 30.0, -at.z));  // the haze of the evening
        EmitVertex();
    }

    void main() {
        vec3 foot = root[0].xyz;
        float chance = root[0].w, turn = 40.0 * chance, wind = noise(foot * 0.6 + 5.0);
        float height = (0.35 + 0.5 * fract(chance * 7.0)) * (0.6 + 0.8 * noise(foot * 0.5));
        vec3 across = vec3(cos(turn), 0.0, 0.4 * sin(turn)) * (0.016 - 0.0004 * foot.z);
        vec3 lean = vec3(0.30 + 0.45 * wind, 0.0, 0.25 * sin(turn)) * height;
        bool flower = fract(chance * 131.0) < 0.075 && foot.z < -2.2;
        float bright = 0.55 + 0.9 * fract(chance * 57.0);
        vec3 tip = foot;
        for (int i = 0; i <= 4; i++) {
            float up = float(i) / 4.0;
            tip = foot + vec3(0.0, height * up * (flower ? 1.25 : 1.0), 0.0) + lean * up * up * (flower ? 0.5 : 1.0);
            vec3 green = mix(vec3(0.10, 0.19, 0.03), vec3(0.40, 0.30, 0.06), wind);
            vec3 paint = bright * mix(vec3(0.006, 0.020, 0.008), green, up * up);
            if (i < 4)
                grow(tip - across * (1.0 - up), paint);
            grow(tip + across * (1.0 - up), paint);
        }
        EndPrimitive();
        if (!flower)
            return;
        vec3 petals[3] = vec3[](vec3(0.95, 0.10, 0.06), vec3(0.95, 0.75, 0.85), vec3(0.42, 0.16, 0.85));
        vec3 paint = petals[int(fract(foot.x * 0.11 + foot.z * 0.07 + 0.6 * chance + 1.0) * 3.0)];
        for (int i = 0; i < 7; i++) {  // a fan of petals, as a strip that comes back to the middle
            float a = 6.2831853 * float(i) / 6.0 + turn;
            grow(tip + (0.06 - 0.0012 * foot.z) * vec3(cos(a), sin(a) * 0.8, 0.1), paint * (0.9 + 0.5 * sin(a)));
            grow(tip + vec3(0.0, 0.0, 0.02), paint * 0.35);
        }
        EndPrimitive();
    }
"""

FRAGMENT_SHADER = """
    #version 330
    #include "display.glsl"
    in vec3 colour;
    out vec4 pixel;
    void main() {
        pixel = display(colour);
    }
"""


def render(ctx: moderngl.Context) -> Image.Image:
    include(ctx)
    program = ctx.program(vertex_shader=VERTEX_SHADER, geometry_shader=GEOMETRY_SHADER, fragment_shader=FRAGMENT_SHADER)
    meadow = ctx.vertex_array(program, [], mode=moderngl.POINTS)
    eye, sun = (0.0, 1.25, 0.6), (-0.28, 0.13, -0.951)
    camera = look_at(eye, (0, 0.85, -4)) @ perspective(44, 1.6, 0.1, 60)

    framebuffer = canvas(ctx)
    evening(ctx, camera, eye, sun)
    ctx.enable_only(moderngl.DEPTH_TEST)
    program["camera"] = camera.ravel()
    meadow.render(vertices=BLADES)
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("geometry_shader.png")


if __name__ == "__main__":
    main()
