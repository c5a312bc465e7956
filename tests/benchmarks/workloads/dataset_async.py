"""The dataset again, by a program that knows glremote: it draws the next images while some are still on their way."""

from collections import deque
from typing import Any

import moderngl
from clock import Clock, sized
from pebbles import SIZE, Pebbles
from PIL import Image

import glremote

IMAGES, ON_THEIR_WAY = sized(200, 5), 16

clock = Clock("dataset_async")
ctx: Any = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
pebbles = Pebbles(ctx)
reads: deque[glremote.ReadFuture] = deque()


def take() -> None:
    """The oldest image."""
    picture = Image.frombytes("RGB", SIZE, reads.popleft().result(), "raw", "RGB", 0, -1)
    clock.saw(picture.tobytes(), waited=False)


clock.lap("setup")
for _ in range(IMAGES):
    pebbles.draw()
    reads.append(glremote.read_async(pebbles.framebuffer, components=3, alignment=1))
    if len(reads) > ON_THEIR_WAY:
        take()
while reads:
    take()
clock.lap("images")
clock.report()
