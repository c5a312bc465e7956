"""Draws the reference pictures of the samples anew, in plain moderngl: `python -m tests.gallery.remake`.

Look at what changed (`git diff --stat tests/gallery`, and the pictures) before committing it. A reference is a sample's
picture at a quarter of its size; driver.txt names the driver that drew them all.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import moderngl
from PIL import Image

from glremote import samples

FOLDER = Path(__file__).parent
LARGEST = 40_000  # bytes, of a reference


def small(picture: Image.Image) -> Image.Image:
    """A sample's picture as its reference has it: 160 x 100, RGB, each pixel the mean of 4 x 4."""
    return picture.convert("RGB").reduce(4)


def driver(ctx: moderngl.Context) -> str:
    """The lines of driver.txt."""
    return f"{ctx.info['GL_RENDERER']}\n{ctx.info['GL_VERSION']}\n"


def main() -> None:
    for name in samples.NAMES:
        sample = importlib.import_module(f"{samples.__name__}.{name}")
        ctx = moderngl.create_context(require=sample.REQUIRE, standalone=True, backend="egl")  # type: ignore[arg-type]
        path = FOLDER / f"{name}.png"
        small(sample.render(ctx)).save(path, optimize=True)
        ctx.release()
        print(f"{path.stat().st_size:6} {path}")
        if path.stat().st_size > LARGEST:
            raise SystemExit(f"{path} has more than {LARGEST} bytes: choose a plainer picture")
    ctx = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
    (FOLDER / "driver.txt").write_text(driver(ctx), encoding="utf-8")
    ctx.release()


if __name__ == "__main__":
    main()
