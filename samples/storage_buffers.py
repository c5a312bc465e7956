"""Storage buffers: 61,440 stars of two galaxies, moved by a compute shader and drawn from the buffer they are in."""

import moderngl
from PIL import Image

from glremote.samples.drawing import develop, exposure, standalone
from glremote.samples.geometry import look_at, perspective
from glremote.shaders import include

REQUIRE = 430
STARS, STEPS, GROUP = 61440, 285, 64

BUFFERS = """
    struct Star { vec4 place; vec4 colour; };
    layout(std430, binding = 0) buffer Path { vec4 cores[]; };  // two for every step
    layout(std430, binding = 1) buffer Stars { Star stars[]; };
"""

PATH_SHADER = """
    #version 430
    #include "buffers"
    layout(local_size_x = 1) in;
    uniform int steps;
    uniform float dt;
    void main() {  // the cores fall past each other; one invocation writes all of their way
        vec3 apart = vec3(2.4, 1.5, 0.5), speed = vec3(-0.98, 0.10, -0.05);
        for (int i = 0; i < steps; i++) {
            cores[2 * i] = vec4(-0.5 * apart, 1.0);
            cores[2 * i + 1] = vec4(0.5 * apart, 1.0);
            speed -= dt * 2.0 * apart / pow(dot(apart, apart) + 0.02, 1.5);
            apart += dt * speed;
        }
    }
"""

STAR_SHADER = """
    #version 430
    #include "buffers"
    #include "noise.glsl"
    layout(local_size_x = 64) in;
    uniform int steps;
    uniform float dt;
    void main() {
        uint i = gl_GlobalInvocationID.x;
        if (i >= uint(stars.length()))
            return;
        int home = int(i & 1u);
        float away = 0.06 + 1.0 * pow(random(3u * i), 1.4), turn = 6.2831853 * random(3u * i + 1u);
        float tilt = home == 0 ? 0.35 : -0.9;
        mat3 disc = mat3(1.0, 0.0, 0.0, 0.0, cos(tilt), sin(tilt), 0.0, -sin(tilt), cos(tilt));
        vec3 out_ = disc * vec3(cos(turn), sin(turn), 0.08 * (random(3u * i + 2u) - 0.5));
        vec3 along = disc * vec3(-sin(turn), cos(turn), 0.0);
        vec3 drift = (cores[2 + home] - cores[home]).xyz / dt;
        vec3 place = cores[home].xyz + away * out_;
        vec3 speed = drift + along * away * pow(away * away + 0.01, -0.75);
        for (int step = 0; step < steps; step++) {
            for (int core = 0; core < 2; core++) {
                vec3 way = cores[2 * step + core].xyz - place;
                speed += dt * way * pow(dot(way, way) + 0.01, -1.5);
            }
            place += dt * speed;
        }
        vec3 young = home == 0 ? vec3(0.25, 0.45, 1.0) : vec3(0.9, 0.25, 0.55), old = vec3(1.0, 0.65, 0.30);
        stars[i] = Star(vec4(place, 1.0), vec4(mix(old, young, smoothstep(0.05, 0.75, away)), 1.0));
    }
"""

VERTEX_SHADER = """
    #version 430
    #include "buffers"
    uniform mat4 camera;
    out vec3 colour;
    void main() {
        gl_Position = camera * stars[gl_VertexID].place;
        colour = stars[gl_VertexID].colour.rgb;
    }
"""

POINT_SHADER = """
    #version 430
    in vec3 colour;
    out vec4 light;
    void main() {
        light = vec4(0.7 * colour, 1.0);
    }
"""


def render(ctx: moderngl.Context) -> Image.Image:
    include(ctx)
    ctx.includes["buffers"] = BUFFERS
    path, stars = ctx.buffer(reserve=2 * STEPS * 16), ctx.buffer(reserve=STARS * 32)
    path.bind_to_storage_buffer(0)
    stars.bind_to_storage_buffer(1)
    for source, groups in ((PATH_SHADER, 1), (STAR_SHADER, STARS // GROUP)):
        compute = ctx.compute_shader(source)
        compute["steps"] = STEPS
        compute["dt"] = 0.012
        compute.run(groups)
        ctx.memory_barrier(moderngl.SHADER_STORAGE_BARRIER_BIT)

    texture = exposure(ctx)
    program = ctx.program(vertex_shader=VERTEX_SHADER, fragment_shader=POINT_SHADER)
    program["camera"] = (look_at((0.1, 0, 6), (0.1, 0, 0)) @ perspective(36, 1.6, 0.1, 20)).ravel()
    ctx.vertex_array(program, [], mode=moderngl.POINTS).render(vertices=STARS)
    return develop(ctx, texture)


def main() -> None:
    render(standalone(REQUIRE)).save("storage_buffers.png")


if __name__ == "__main__":
    main()
