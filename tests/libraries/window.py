"""A program on moderngl-window's headless window: geometry, textures, programs and text, for a few frames.

`python window.py FOLDER [SAMPLES]`; the files in FOLDER are those that test_moderngl_window.py writes. The pictures go
to standard output, byte for byte.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import moderngl
import moderngl_window
from moderngl_window import geometry
from moderngl_window.context.base import WindowConfig
from moderngl_window.scene.camera import KeyboardCamera
from moderngl_window.text.bitmapped.text_2d import TextWriter2D
from moderngl_window.timers.clock import Timer
from pyglm import glm

FOLDER = Path(sys.argv[1])
FRAMES = 3
SIZE = (96, 64)


class Window(WindowConfig):
    """Draws with everything that moderngl-window makes."""

    gl_version = (4, 3)
    window_size = SIZE
    aspect_ratio: Any = None
    resource_dir: Any = FOLDER
    log_level = 40

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        keys: Any = self.wnd.keys
        self.camera = KeyboardCamera(keys, fov=60.0, aspect_ratio=self.wnd.aspect_ratio, near=0.1, far=50.0)
        self.camera.set_position(0.0, 1.0, 4.0)
        self.quad = geometry.quad_fs()
        self.small_quad = geometry.quad_2d(size=(0.5, 0.5), pos=(0.6, 0.6))
        self.cube = geometry.cube(size=(1.5, 1.5, 1.5))
        self.sphere = geometry.sphere(radius=0.9, sectors=16, rings=12)
        self.bounds = geometry.bbox(size=(2.0, 2.0, 2.0))
        self.picture = self.load_texture_2d("picture.png", mipmap=True, anisotropy=4.0)
        self.layers = self.load_texture_array("layers.png", layers=3)
        face = "face.png"
        self.sky = self.load_texture_cube(face, face, face, "other.png", face, face, mipmap_levels=(0, 2))
        self.lit = self.load("lit.glsl", defines={"LAYER": "2"})
        self.flat = self.load(vertex_shader="flat_vertex.glsl", fragment_shader="flat_fragment.glsl")
        self.around = self.load("around.glsl")
        self.lines = self.load("lines.glsl")
        self.lines["projection"].write(self.camera.projection.matrix)
        self.lines["camera"].write(self.camera.matrix)
        self.mover = self.load(vertex_shader="mover.glsl", varyings=["moved"])
        self.adder = self.load_compute_shader("adder.glsl", defines={"STEP": "7"})
        self.text = TextWriter2D()
        self.text.text = "frame 0"
        self.numbers = self.ctx.buffer(bytes(256))
        self.moved = self.ctx.buffer(reserve=self.sphere.vertex_count * 12)
        self.resolved = self.ctx.simple_framebuffer(SIZE)
        self.frame = 0

    def load(self, *arguments: Any, **given: Any) -> Any:
        """A program, of whose members a type checker need not know the kinds."""
        return self.load_program(*arguments, **given)

    def on_render(self, time: float, frame_time: float) -> None:
        """One frame; what it shows depends on its number alone."""
        self.frame += 1
        turn = glm.rotate(glm.mat4(1.0), 0.4 * self.frame, glm.vec3(0.3, 1.0, 0.0))
        self.ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
        self.wnd.clear(0.1 * self.frame, 0.2, 0.3, 1.0)
        self.picture.use(0)
        self.layers.use(1)
        self.sky.use(2)
        self.ctx.disable(moderngl.DEPTH_TEST)
        self.flat["picture"].value = 0
        self.quad.render(self.flat)
        self.ctx.enable(moderngl.DEPTH_TEST)
        for thing, program, move in ((self.cube, self.lit, -1.2), (self.sphere, self.around, 1.2)):
            program["projection"].write(self.camera.projection.matrix)
            program["camera"].write(self.camera.matrix)
            program["model"].write(glm.translate(glm.mat4(1.0), glm.vec3(move, 0.0, 0.0)) * turn)
            thing.render(program)
        self.lit["layers"], self.around["sky"] = 1, 2
        self.ctx.wireframe = True
        self.bounds.render(self.lines)
        self.ctx.wireframe = False
        self.small_quad.render(self.flat)
        self.text.text = f"frame {self.frame}"
        self.text.draw((4.0, 20.0), size=12.0)
        self.sphere.transform(self.mover, self.moved)
        self.numbers.bind_to_storage_buffer(0)
        self.adder.run(64)
        self.show()
        if self.frame == FRAMES:
            self.wnd.close()

    def show(self) -> None:
        """The picture of the window, and what was computed."""
        self.ctx.copy_framebuffer(self.resolved, self.wnd.fbo)
        out = sys.stdout.buffer
        out.write(self.resolved.read(components=4))
        out.write(self.moved.read())
        out.write(self.numbers.read())
        out.write(str((self.ctx.error, self.wnd.viewport, self.wnd.buffer_size, self.wnd.gl_version)).encode())


if __name__ == "__main__":
    samples = sys.argv[2:3] or ["0"]
    arguments = ["--window", "headless", "--backend", "egl", "--samples", *samples]
    moderngl_window.run_window_config(Window, timer=Timer(), args=arguments)
