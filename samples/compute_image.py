"""A compute shader that writes an image: a corner of the Mandelbrot set, as a landscape that is lit from the side."""

import moderngl
from PIL import Image

import glremote
from glremote.samples import SIZE
from glremote.samples.drawing import standalone
from glremote.shaders import include

REQUIRE = 430
GROUP = 16  # pixels of a work group, across and up; both sides of the picture are multiples

COMPUTE_SHADER = """
    #version 430
    #include "display.glsl"
    #include "palette.glsl"
    layout(local_size_x = 16, local_size_y = 16) in;
    layout(rgba8, binding = 0) writeonly uniform image2D picture;
    uniform vec2 centre;
    uniform float height;  // of the part of the plane that is shown

    vec2 times(vec2 a, vec2 b) {
        return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
    }

    vec3 landscape(vec2 c) {
        vec2 z = vec2(0.0), slope = vec2(0.0);  // slope: how z changes with c
        for (int i = 0; i < 300; i++) {
            slope = 2.0 * times(z, slope) + vec2(1.0, 0.0);
            z = times(z, z) + c;
            if (dot(z, z) > 10000.0) {
                float steps = float(i) + 1.0 - log2(0.5 * log(dot(z, z)));
                vec2 uphill = normalize(times(z, vec2(slope.x, -slope.y)));
                float light = max(dot(vec3(uphill, 1.1), normalize(vec3(-0.6, 0.6, 1.0))), 0.0) / 1.49;
                float edge = sqrt(dot(z, z) / dot(slope, slope)) * log(dot(z, z)) / height;
                vec3 colour = palette(0.60 + 0.17 * log(1.0 + 0.07 * steps) * 3.0);
                return colour * (0.06 + 1.15 * light * light) * smoothstep(0.0, 0.006, edge) + 0.25 * pow(light, 60.0);
            }
        }
        return vec3(0.004, 0.005, 0.012);
    }

    void main() {
        vec2 size = vec2(imageSize(picture));
        vec3 light = vec3(0.0);
        for (int i = 0; i < 4; i++) {  // four samples a pixel
            vec2 place = vec2(gl_GlobalInvocationID.xy) + vec2(i & 1, i >> 1) * 0.5 + 0.25;
            light += 0.25 * display(landscape(centre + (place - 0.5 * size) * height / size.y)).rgb;
        }
        imageStore(picture, ivec2(gl_GlobalInvocationID.xy), vec4(light, 1.0));
    }
"""


def render(ctx: moderngl.Context) -> Image.Image:
    include(ctx)
    texture = ctx.texture(SIZE, 4)
    texture.bind_to_image(0, read=False, write=True)
    compute = ctx.compute_shader(COMPUTE_SHADER)
    compute["centre"] = -0.74352, 0.13150
    compute["height"] = 0.0019
    compute.run(SIZE[0] // GROUP, SIZE[1] // GROUP)
    ctx.memory_barrier(moderngl.TEXTURE_UPDATE_BARRIER_BIT)
    return glremote.image(texture)


def main() -> None:
    render(standalone(REQUIRE)).save("compute_image.png")


if __name__ == "__main__":
    main()
