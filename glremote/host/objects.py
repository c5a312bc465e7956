"""What a session has on its host: moderngl's objects by handle, and what must be known of them beside.

Knows: handles, OpenGL's names, and spans. Does not know: commands; making.py, reading.py and interpreter.py do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from glremote.protocol import commands as c
from glremote.protocol.stacks import Span, Stack

from .gl import OpenGL
from .keeping import Kept

Memory = memoryview | None
NO_NAME = 0xFFFFFFFF
"""What OpenGL has not given to any object; it counts from 1."""


class NotThere(Exception):
    """A command names an object whose making failed or was dropped."""


class ByHandle(dict[int, Any]):
    """What a session has by its handle; NotThere for what it has not."""

    def __missing__(self, handle: int) -> Any:
        raise NotThere(f"the object with handle {handle} was never made")


class Image(NamedTuple):
    """Its size in pixels, and moderngl's dtype of it; of a framebuffer those of all colour attachments."""

    width: int = 0
    height: int = 0
    dtypes: tuple[str, ...] = ()
    attached: tuple[int, ...] = ()
    """Handles of a framebuffer's images."""


NO_IMAGE = Image()


class Objects(ByHandle):
    """moderngl's objects by handle, on one context: its C object; `stack` holds what spans name."""

    def __init__(self, context: Any, stack: Stack) -> None:
        super().__init__({c.DEFAULT_FRAMEBUFFER: context.fbo})
        self.context = context
        self.gl = OpenGL(context)
        self.stack: Stack | Kept = stack
        self.buffer: Sequence[c.Command] = ()  # the commands of the buffer that is run
        self.at = 0  # which of them runs
        self.last_made = c.DEFAULT_FRAMEBUFFER  # the handle of what was made last
        self.names = ByHandle({c.DEFAULT_FRAMEBUFFER: 0})  # OpenGL's
        self.members: dict[int, Any] = {}  # of each program, for reflection
        self.images: dict[int, Image] = {}  # what can be attached to framebuffers
        self.framebuffers: dict[int, Image] = {}  # by OpenGL's name, since several objects may have the same
        self.begun: dict[Any, str] = {}  # queries that run, and how each is ended
        self.unsure: set[int] = set()  # what was released, and textures that are as large as the client says
        self.indexed: set[int] = set()  # vertex arrays with indices
        self.indices: set[int] = set()  # OpenGL's names of the buffers that have, or had, some array's
        self.unwritten: dict[int, int] = {}  # new buffers, and how many bytes of them were written from the start
        self.failures: dict[int, Exception] = {}  # what making a program or a framebuffer raised, until it is asked for

    def data(self, span: Span | None) -> Memory:
        """The bytes of a span; pixels and vertices go to OpenGL from there."""
        return None if span is None else self.stack.view(span)

    def framebuffer(self, handle: int) -> Image:
        """What is known of a framebuffer that OpenGL has."""
        return self.framebuffers.get(self.names.get(handle, NO_NAME), NO_IMAGE)

    def no_image(self, texture: int) -> None:
        """Forget what is known of a texture of this name, and of what it is attached to."""
        gone = {handle for handle in self.images if self.names.get(handle) == texture}
        for handle in gone:
            del self.images[handle]
        for name, image in list(self.framebuffers.items()):
            if gone.intersection(image.attached):
                del self.framebuffers[name]

    def name(self, handle: int | None) -> int:
        """OpenGL's name of an object; one that nothing has where the client knows none."""
        return NO_NAME if handle is None else int(self.names[handle])


def size_of(dtype: str) -> int:
    """Bytes of a component: the last letter of every dtype."""
    return int(dtype[-1]) if dtype[-1:].isdecimal() else 1
