"""Two hundred small images, one after the other, each handed to Pillow."""

from typing import Any

import moderngl
from clock import Clock, sized
from pebbles import SIZE, Pebbles
from PIL import Image

IMAGES = sized(200, 5)

clock = Clock("dataset")
ctx: Any = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
pebbles = Pebbles(ctx)
clock.lap("setup")
for _ in range(IMAGES):
    pebbles.draw()
    pixels = pebbles.framebuffer.read(components=3, alignment=1)
    picture = Image.frombytes("RGB", SIZE, pixels, "raw", "RGB", 0, -1)
    clock.saw(picture.tobytes())
clock.lap("images")
clock.report()
