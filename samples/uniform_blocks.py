"""Uniform blocks: a camera, three lamps and 32 materials, laid out by std140 in one buffer and bound as three."""

import moderngl
import numpy as np
from PIL import Image

from glremote.samples.drawing import backdrop, canvas, mesh_array, picture, standalone
from glremote.samples.geometry import look_at, perspective, sphere
from glremote.shaders import include

REQUIRE = 330

BLOCKS = """
    struct Lamp { vec3 position; float strength; vec3 colour; };
    struct Material { vec3 albedo; float metal; vec2 place; float roughness; };
    layout(std140) uniform Camera { mat4 camera; vec3 eye; };
    layout(std140) uniform Lamps { Lamp lamps[3]; };
    layout(std140) uniform Materials { Material materials[32]; };
"""

VERTEX_SHADER = """
    #version 330
    #include "blocks"
    in vec3 in_position, in_normal;
    out vec3 position, normal;
    flat out int material;
    void main() {
        material = gl_InstanceID;
        position = 0.46 * in_position + vec3(materials[material].place, 0.0);
        normal = in_normal;
        gl_Position = camera * vec4(position, 1.0);
    }
"""

FRAGMENT_SHADER = """
    #version 330
    #include "blocks"
    #include "display.glsl"
    #include "lighting.glsl"
    in vec3 position, normal;
    flat in int material;
    out vec4 pixel;
    void main() {
        Material m = materials[material];
        vec3 n = normalize(normal), to_eye = normalize(eye - position);
        vec3 light = 0.3 * studio(m.albedo, m.metal, m.roughness, n, to_eye);
        for (int i = 0; i < 3; i++) {
            vec3 way = lamps[i].position - position;
            vec3 colour = lamps[i].colour * lamps[i].strength / dot(way, way);
            light += colour * lit(m.albedo, m.metal, m.roughness, n, to_eye, normalize(way));
        }
        pixel = display(light);
    }
"""

# The same blocks for numpy. A vec3 takes 12 bytes and is followed at once by a float; a struct fills up to 16 bytes.
CAMERA = np.dtype([("camera", "f4", (4, 4)), ("eye", "f4", 3), ("pad", "f4")])
LAMP = np.dtype([("position", "f4", 3), ("strength", "f4"), ("colour", "f4", 3), ("pad", "f4")])
MATERIAL = np.dtype([("albedo", "f4", 3), ("metal", "f4"), ("place", "f4", 2), ("roughness", "f4"), ("pad", "f4")])
ROWS = (  # from the top: a linear colour, and whether it is a metal's
    ((1.00, 0.71, 0.29), 1.0),
    ((0.95, 0.40, 0.26), 1.0),
    ((0.01, 0.16, 0.20), 0.0),
    ((0.36, 0.02, 0.05), 0.0),
)


def render(ctx: moderngl.Context) -> Image.Image:
    camera, lamps, materials = np.zeros(1, CAMERA), np.zeros(3, LAMP), np.zeros((4, 8), MATERIAL)
    camera["eye"] = eye = (0.0, 0.0, 11.0)
    camera["camera"] = look_at(eye, (0, 0, 0)) @ perspective(27, 1.6, 0.1, 20)
    lamps["position"] = (-5, 4, 4), (6, 1, 3), (0, -6, 5)
    lamps["strength"] = 40, 34, 20
    lamps["colour"] = (1.0, 0.80, 0.55), (0.35, 0.55, 1.0), (0.85, 0.25, 0.60)
    materials["albedo"] = np.array([albedo for albedo, _ in ROWS])[:, None]
    materials["metal"] = np.array([metal for _, metal in ROWS])[:, None]
    materials["roughness"] = np.linspace(0.12, 0.9, 8)
    materials["place"][..., 0] = np.linspace(-3.5, 3.5, 8)
    materials["place"][..., 1] = np.linspace(1.6, -1.6, 4)[:, None]

    include(ctx)
    ctx.includes["blocks"] = BLOCKS
    program = ctx.program(vertex_shader=VERTEX_SHADER, fragment_shader=FRAGMENT_SHADER)
    buffer = ctx.buffer(reserve=1024 + materials.nbytes)
    for binding, (name, block) in enumerate((("Camera", camera), ("Lamps", lamps), ("Materials", materials))):
        offset = 512 * binding  # a multiple of what any driver asks of an offset, 256
        buffer.write(block, offset)
        buffer.bind_to_uniform_block(binding, offset, block.nbytes)
        program[name] = binding

    framebuffer = canvas(ctx)
    backdrop(ctx, (0.045, 0.050, 0.075))
    ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
    mesh_array(ctx, program, sphere(1.0, 64, 32)).render(instances=materials.size)
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("uniform_blocks.png")


if __name__ == "__main__":
    main()
