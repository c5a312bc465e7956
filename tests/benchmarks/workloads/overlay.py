"""A panel that Pillow draws anew for every frame, uploaded as a texture and blended over the scene."""

from typing import Any

import moderngl
import numpy as np
from clock import Clock, sized
from PIL import Image, ImageDraw

FRAMES, SIZE, PANEL = sized(80, 3), (640, 360), (512, 128)
VERTEX = """
    #version 330
    uniform vec4 box;
    in vec2 corner;
    out vec2 spot;
    void main() { spot = corner; gl_Position = vec4(mix(box.xy, box.zw, corner), 0.0, 1.0); }
"""

clock = Clock("overlay")
ctx: Any = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
scene = ctx.program(
    vertex_shader=VERTEX,
    fragment_shader="""
        #version 330
        uniform float time;
        in vec2 spot;
        out vec4 pixel;
        void main() { pixel = vec4(spot, fract(4.0 * spot.x + time), 1.0); }
    """,
)
above = ctx.program(
    vertex_shader=VERTEX,
    fragment_shader="""
        #version 330
        uniform sampler2D panel;
        in vec2 spot;
        out vec4 pixel;
        void main() { pixel = texture(panel, vec2(spot.x, 1.0 - spot.y)); }
    """,
)
corners = ctx.buffer(np.array([0, 0, 1, 0, 0, 1, 1, 1], dtype="f4"))
behind, front = (ctx.vertex_array(p, corners, "corner", mode=moderngl.TRIANGLE_STRIP) for p in (scene, above))
scene["box"].value = (-1.0, -1.0, 1.0, 1.0)
above["box"].value = (-0.9, -0.9, 0.7, -0.2)
texture = ctx.texture(PANEL, 4)
framebuffer = ctx.simple_framebuffer(SIZE)
framebuffer.use()
clock.lap("setup")
for frame in range(FRAMES):
    panel = Image.new("RGBA", PANEL, (0, 0, 0, 140))
    pen = ImageDraw.Draw(panel)
    pen.text((12, 10), f"frame {frame} of {FRAMES}", fill="white")
    pen.line([(x, 90 + (x * (frame + 3)) % 30) for x in range(12, 500, 6)], fill=(120, 220, 160), width=2)
    texture.write(panel.tobytes())
    scene["time"].value = frame / 50
    ctx.disable(moderngl.BLEND)
    behind.render()
    ctx.enable(moderngl.BLEND)
    texture.use()
    front.render()
    clock.saw(framebuffer.read())
clock.lap("frames")
clock.report()
