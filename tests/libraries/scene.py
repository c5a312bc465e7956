"""A program that loads glTF scenes with moderngl-window and draws them: `python scene.py FOLDER`.

The window is made without a WindowConfig. The pictures go to standard output, byte for byte.
"""

from __future__ import annotations

import sys
from pathlib import Path

import moderngl
import moderngl_window
from moderngl_window import resources, screenshot
from moderngl_window.conf import settings
from moderngl_window.meta import SceneDescription
from moderngl_window.scene.camera import OrbitCamera

FOLDER = Path(sys.argv[1])
SIZE = (80, 60)


def main() -> None:
    """Two scenes, three frames each, then a screenshot."""
    settings.WINDOW.update({"class": "moderngl_window.context.headless.Window", "backend": "egl", "size": SIZE})
    settings.SCREENSHOT_PATH = None
    window = moderngl_window.create_window_from_settings()
    ctx = window.ctx
    resources.register_dir(FOLDER)
    out = sys.stdout.buffer
    for name in ("scene.gltf", "scene.glb"):
        scene = resources.scenes.load(SceneDescription(path=name))
        camera = OrbitCamera(aspect_ratio=SIZE[0] / SIZE[1], near=0.1, far=100.0, radius=scene.diagonal_size * 1.2)
        for frame in range(3):
            window.clear(0.0, 0.1 * frame, 0.2, 1.0)
            ctx.enable(moderngl.DEPTH_TEST)
            camera.angle_x += 15.0 * frame
            scene.draw(camera.projection.matrix, camera.matrix, time=float(frame))
            scene.draw_bbox(camera.projection.matrix, camera.matrix, children=True, color=(1.0, 0.5, 0.0))
            if frame == 2:
                scene.draw_wireframe(camera.projection.matrix, camera.matrix, color=(0.0, 1.0, 0.5, 1.0))
            window.swap_buffers()
            out.write(window.fbo.read(components=4))
            out.write(window.fbo.read(attachment=-1, components=1, dtype="f4"))
        out.write(str((ctx.error, scene.diagonal_size, [node.name for node in scene.nodes])).encode())
        scene.destroy()
    window.clear(1.0, 0.0, 0.5)
    screenshot.create(window.fbo, name=str(FOLDER / "shot.png"))
    out.write((FOLDER / "shot.png").read_bytes())
    window.destroy()


if __name__ == "__main__":
    main()
