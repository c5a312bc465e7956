"""What nearly every picture does first and last: a canvas, a background, meshes in buffers, the picture at last."""

from typing import Any

import moderngl
import numpy as np
from PIL import Image

import glremote
from glremote.samples import SIZE
from glremote.samples.geometry import Floats, Mesh, Point
from glremote.shaders import include, load

_BACKDROP = """
    #version 330
    #include "display.glsl"
    uniform vec3 colour;
    in vec2 uv;
    out vec4 pixel;
    void main() {
        float distance = length((uv - vec2(0.5, 0.55)) * vec2(1.2, 1.0));
        pixel = display(colour * mix(1.0, 0.12, smoothstep(0.0, 0.85, distance)));
    }
"""

_SKY = """
    #version 330
    #include "display.glsl"
    #include "sky.glsl"
    uniform mat4 to_world;
    uniform vec3 eye, sun;
    in vec2 uv;
    out vec4 pixel;
    void main() {
        vec4 far = to_world * vec4(uv * 2.0 - 1.0, 1.0, 1.0);
        pixel = display(sky(normalize(far.xyz / far.w - eye), sun));
    }
"""

_AVERAGE = """
    #version 330
    uniform sampler2D canvas;
    out vec4 pixel;
    void main() {
        vec3 light = vec3(0.0);
        for (int i = 0; i < 4; i++)
            light += pow(texelFetch(canvas, 2 * ivec2(gl_FragCoord.xy) + ivec2(i & 1, i >> 1), 0).rgb, vec3(2.2));
        pixel = vec4(pow(light / 4.0, vec3(1.0 / 2.2)), 1.0);
    }
"""

_DEVELOP = """
    #version 330
    #include "display.glsl"
    uniform sampler2D light;
    in vec2 uv;
    out vec4 pixel;
    void main() {
        vec3 sum = texture(light, uv).rgb + vec3(0.003, 0.004, 0.010);
        for (int i = 0; i < 48; i++) {  // a spiral around the pixel
            float turn = 2.3999632 * float(i);
            vec2 at = uv + 0.0035 * sqrt(float(i) + 0.5) * vec2(cos(turn), sin(turn)) * vec2(0.625, 1.0);
            sum += texture(light, at).rgb * 0.022;
        }
        pixel = display(sum);
    }
"""


def standalone(require: int) -> moderngl.Context:
    """A context on this machine and without a window, for a sample that is run by itself."""
    return moderngl.create_context(require=require, standalone=True, backend="egl")  # type: ignore[arg-type]


def canvas(ctx: moderngl.Context) -> moderngl.Framebuffer:
    """A black framebuffer with depth, now in use, in which a pixel of the picture is 2 by 2 pixels."""
    size = 2 * SIZE[0], 2 * SIZE[1]
    framebuffer = ctx.framebuffer([ctx.texture(size, 4)], ctx.depth_renderbuffer(size))
    framebuffer.use()
    framebuffer.clear(alpha=1.0)
    return framebuffer


def picture(ctx: moderngl.Context, canvas: moderngl.Framebuffer) -> Image.Image:
    """What lies on a canvas, averaged (as light, not as bytes) to the picture's size: the one read of a sample."""
    small = ctx.simple_framebuffer(SIZE)
    small.use()
    ctx.enable_only(moderngl.NOTHING)
    texture = canvas.color_attachments[0]
    assert isinstance(texture, moderngl.Texture)
    texture.use()
    fullscreen(ctx, _AVERAGE).render()
    return glremote.image(small)


def exposure(ctx: moderngl.Context) -> moderngl.Texture:
    """A black layer for `develop`, twice as wide and high as the picture and now in use; every draw adds its light."""
    light, texture = layer(ctx, (2 * SIZE[0], 2 * SIZE[1]))
    light.use()
    light.clear()
    ctx.enable_only(moderngl.BLEND)
    ctx.blend_func = moderngl.ONE, moderngl.ONE
    return texture


def develop(ctx: moderngl.Context, light: moderngl.Texture) -> Image.Image:
    """The picture of a texture of linear light, on a night sky and with a soft glow: the one read of a sample."""
    framebuffer = ctx.simple_framebuffer(SIZE)
    framebuffer.use()
    ctx.enable_only(moderngl.NOTHING)
    light.use()
    fullscreen(ctx, _DEVELOP).render()
    return glremote.image(framebuffer)


def layer(
    ctx: moderngl.Context, size: tuple[int, int] = SIZE, dtype: str = "f2"
) -> tuple[moderngl.Framebuffer, moderngl.Texture]:
    """A framebuffer to draw to and the RGBA texture behind it, for a shader to read; not yet cleared."""
    texture = ctx.texture(size, 4, dtype=dtype)
    texture.repeat_x = texture.repeat_y = False
    return ctx.framebuffer([texture]), texture


def fullscreen(ctx: moderngl.Context, fragment_shader: str) -> moderngl.VertexArray:
    """A pass over every pixel; the shader gets `uv`, and may include what lies in glremote.shaders."""
    include(ctx)
    program = ctx.program(vertex_shader=load("fullscreen.vert.glsl"), fragment_shader=fragment_shader)
    vertex_array = ctx.vertex_array(program, [])
    vertex_array.vertices = 3
    return vertex_array


def backdrop(ctx: moderngl.Context, colour: Point) -> None:
    """Paint the framebuffer in use with a linear colour that darkens towards the corners."""
    ctx.enable_only(moderngl.NOTHING)
    vertex_array = fullscreen(ctx, _BACKDROP)
    vertex_array.program["colour"] = colour
    vertex_array.render()


def evening(ctx: moderngl.Context, camera: Floats, eye: Point, sun: Point) -> None:
    """Paint the framebuffer in use with the sky of sky.glsl, as a camera sees it; the sun's direction has length 1."""
    ctx.enable_only(moderngl.NOTHING)
    vertex_array = fullscreen(ctx, _SKY)
    vertex_array.program["to_world"] = np.linalg.inv(camera).ravel()
    vertex_array.program["eye"] = eye
    vertex_array.program["sun"] = sun
    vertex_array.render()


def mesh_program(ctx: moderngl.Context, fragment_shader: str) -> moderngl.Program:
    """A program for meshes; the shader gets `position`, `normal` and `uv`, and may include glremote.shaders."""
    include(ctx)
    return ctx.program(vertex_shader=load("mesh.vert.glsl"), fragment_shader=fragment_shader)


def mesh_array(ctx: moderngl.Context, program: moderngl.Program, mesh: Mesh, *more: Any) -> moderngl.VertexArray:
    """A mesh in buffers, for a program that takes `in_position`, `in_normal`, `in_uv`, or some of them.

    `more` are further entries of a vertex array's content, such as what differs from instance to instance.
    """
    formats, names = [], []
    for name, floats in (("in_position", 3), ("in_normal", 3), ("in_uv", 2)):
        used = name in program  # skip_errors would do, but sets a GL error where the program has gl_InstanceID
        formats.append(f"{floats}f" if used else f"{4 * floats}x")
        names += [name] if used else []
    vertices = (ctx.buffer(mesh.vertices), " ".join(formats), *names)
    return ctx.vertex_array(program, [vertices, *more], ctx.buffer(mesh.indices))
