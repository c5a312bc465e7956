"""Occlusion queries and conditional rendering: of a city's buildings the GPU draws those that show, and tells nobody.

On the left what a camera in the street sees; on the right the city from above, where only what was drawn stands up.
"""

import moderngl
import numpy as np
import numpy.typing as npt
from PIL import Image

from glremote.samples.drawing import canvas, evening, mesh_array, mesh_program, picture, standalone
from glremote.samples.geometry import box, ground, look_at, orthographic, perspective
from glremote.shaders import include

REQUIRE = 330
BLOCKS = 13  # along a side

VERTEX_SHADER = """
    #version 330
    uniform vec4 buildings[169];  // x, z, width, height
    uniform int first;
    uniform float tall;  // 1, or almost 0 for a ground plan
    uniform mat4 camera;
    in vec3 in_position, in_normal;
    in vec2 in_uv;
    out vec3 position, normal;
    out vec2 window;
    flat out int number;
    void main() {
        number = first + gl_InstanceID;
        vec4 b = buildings[number];
        position = vec3(b.x, 0.0, b.y) + (in_position + vec3(0.0, 0.5, 0.0)) * vec3(b.z, b.w * tall, b.z);
        normal = in_normal;
        window = in_uv * floor(vec2(b.z, b.w) * 9.0);
        gl_Position = camera * vec4(position, 1.0);
    }
"""

BUILDING_SHADER = """
    #version 330
    #include "display.glsl"
    #include "noise.glsl"
    #include "sky.glsl"
    uniform vec3 eye, sun;
    uniform float fog, tall;
    in vec3 position, normal;
    in vec2 window;
    flat in int number;
    out vec4 pixel;
    void main() {
        if (tall < 0.5) {
            pixel = display(vec3(0.035, 0.045, 0.075));
            return;
        }
        vec3 n = normalize(normal), ray = normalize(position - eye);
        vec3 wall = mix(vec3(0.34, 0.20, 0.15), vec3(0.42, 0.40, 0.42), random(uint(number)));
        vec2 pane = abs(fract(window) - 0.5), size = 1.0 - smoothstep(0.25, 0.31, pane);
        float glass = abs(n.y) < 0.5 ? size.x * size.y : 0.0;
        glass *= 1.0 - smoothstep(0.25, 0.6, max(fwidth(window.x), fwidth(window.y)));
        bool lamp = random(ivec3(floor(window), number * 4 + int(round(n.x + 2.0 * n.z)))) < 0.30;
        vec3 light = wall * (vec3(0.10, 0.12, 0.20) * (0.8 + 0.3 * n.y) + vec3(2.2, 1.1, 0.5) * max(dot(n, sun), 0.0));
        vec3 mirror = sky(normalize(reflect(ray, n) + vec3(0.0, 0.15, 0.0)), sun) * 0.35;
        light = mix(light, lamp ? vec3(1.9, 1.05, 0.35) : mirror, glass);
        float far = 1.0 - exp(-fog * distance(eye, position));
        pixel = display(mix(light, sky(vec3(ray.x, 0.05, ray.z), sun), far));
    }
"""

GROUND_SHADER = """
    #version 330
    #include "display.glsl"
    uniform mat4 street;  // the other camera
    uniform float fog;  // none from above
    in vec3 position;
    out vec4 pixel;
    void main() {
        vec4 seen = street * vec4(position, 1.0);
        float inside = step(abs(seen.x), seen.w) * step(0.0, seen.w) * step(fog, 0.0);
        pixel = display(mix(vec3(0.030, 0.032, 0.045), vec3(0.55, 0.26, 0.09) / (1.0 + 0.15 * seen.w), inside));
    }
"""


def city() -> npt.NDArray[np.float32]:
    """The buildings, (n, 4): x, z, width and height. The camera's street runs between them along the z axis."""
    random = np.random.default_rng(5)
    x, z = (axis.ravel() for axis in np.meshgrid(np.arange(BLOCKS) - BLOCKS // 2 + 0.5, -np.arange(BLOCKS) - 1.0))
    height = random.uniform(0.45, 1.3, x.size) + 2.6 * random.random(x.size) ** 4
    height *= 0.45 + 0.55 * np.minimum(1.0, -z / 6)  # the nearer, the lower
    return np.column_stack([1.5 * x, 1.5 * z, random.uniform(0.8, 1.1, x.size), height]).astype("f4")


def ask(ctx: moderngl.Context, boxes: moderngl.VertexArray, count: int) -> list[moderngl.Query]:
    """Depth first; then each building once more, which changes nothing: does a sample of it pass?"""
    depth = ctx.framebuffer(depth_attachment=ctx.depth_texture((800, 800)))
    depth.use()
    depth.clear()
    ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
    boxes.program["first"] = 0
    boxes.render(instances=count)
    depth.depth_mask = False
    ctx.depth_func = "<="
    queries = []
    for number in range(count):
        boxes.program["first"] = number
        query = ctx.query(any_samples=True)
        with query:
            boxes.render(instances=1)
        queries.append(query)
    ctx.depth_func = "<"
    # A conditional draw does not wait for its query: what has no result yet, it draws. Nobody here waits either, but
    # copying a pixel into a buffer makes the driver get that far.
    depth.read_into(ctx.buffer(reserve=4), (1, 1), components=1, attachment=-1, dtype="f4")
    return queries


def render(ctx: moderngl.Context) -> Image.Image:
    include(ctx)
    buildings, eye, sun = city(), (0.0, 0.95, 1.6), (-0.30, 0.17, -0.939)
    street = look_at(eye, (0.45, 1.1, -6)) @ perspective(50, 1.0, 0.05, 60)
    above = look_at((2, 26, 8), (0, 0, -8.7)) @ orthographic(18.6, 31, 1, 90)
    boxes = mesh_array(ctx, ctx.program(vertex_shader=VERTEX_SHADER, fragment_shader=BUILDING_SHADER), box())
    floor = mesh_array(ctx, mesh_program(ctx, GROUND_SHADER), ground(90))
    floor.program["model"] = np.eye(4).ravel()
    floor.program["street"] = street.ravel()
    for name, value in (
        ("buildings", buildings),
        ("tall", 1.0),
        ("eye", eye),
        ("sun", sun),
        ("camera", street.ravel()),
    ):
        boxes.program[name] = value
    queries = ask(ctx, boxes, len(buildings))

    framebuffer = canvas(ctx)
    for viewport, camera, fog in (((0, 0, 800, 800), street, 0.045), ((800, 0, 480, 800), above, 0.0)):
        framebuffer.viewport = viewport
        evening(ctx, camera, eye, sun)
        ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
        for thing in (floor, boxes):
            thing.program["camera"] = camera.ravel()
            thing.program["fog"] = fog
        floor.render()
        if camera is above:  # the ground plan of all
            boxes.program["first"] = 0
            boxes.program["tall"] = 0.01
            boxes.render(instances=len(buildings))
            boxes.program["tall"] = 1.0
        for number, query in enumerate(queries):
            boxes.program["first"] = number
            with query.crender:  # type: ignore[union-attr]
                boxes.render(instances=1)
    framebuffer.clear(0.85, 0.85, 0.85, 1.0, viewport=(798, 0, 4, 800))
    return picture(ctx, framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("occlusion.png")


if __name__ == "__main__":
    main()
