"""What is said of OpenGL's names: labels, other objects for a name, the framebuffer behind one, debug scopes.

Knows: which object of this context a `glo` names. Does not know: what another library made; that has no name here.
Labels and debug scopes wait: moderngl asks OpenGL for errors there, and raises what is pending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moderngl import Error

from glremote.protocol import commands as c
from glremote.protocol.errors import ForeignName

from . import arguments as a
from .buffers import Buffer
from .framebuffers import Framebuffer
from .objects import Recorded
from .textures import Texture

if TYPE_CHECKING:
    from .context import Context

KINDS = {
    0x82E0: "buffer", 0x82E2: "program", 0x82E6: "sampler", 0x1702: "texture", 0x8074: "vertex_array",
    0x8D40: "framebuffer", 0x8D41: "renderbuffer",
}  # fmt: skip
"""GL_BUFFER, GL_PROGRAM, GL_SAMPLER, GL_TEXTURE, GL_VERTEX_ARRAY, GL_FRAMEBUFFER, GL_RENDERBUFFER."""


def set_label(context: Context, identifier: Any, glo: Any, label: Any) -> None:
    """`Context.set_label` of the seam. Raises what OpenGL says of it, or said before."""
    identifier, handle = a.uint32(identifier), _handle(context, identifier, glo)
    context.recorder.ask(c.SetLabel, identifier, handle, None if label is None else _text(label))


def get_label(context: Context, identifier: Any, glo: Any) -> str | None:
    """`Context.get_label` of the seam: None where there is none."""
    identifier, handle = a.uint32(identifier), _handle(context, identifier, glo)
    return context.recorder.ask(c.GetLabel, identifier, handle, answer=str | None)  # type: ignore[no-any-return]


def push_debug_scope(context: Context, source: Any, id: Any, message: Any) -> None:
    """`Context.push_debug_scope` of the seam."""
    context.recorder.ask(c.PushDebugScope, a.uint32(source), a.uint32(id), _text(message))


def external_buffer(context: Context, glo: Any, size: Any) -> tuple[Buffer, int, int]:
    """`Context.external_buffer` of the seam: the object, its size and glo. Releasing it frees nothing."""
    glo, size = a.uint32(glo), a.int32(size)
    source: Any = _named(context, "buffer", glo, "external_buffer")
    made = Buffer(context, size, source)
    context.recorder.make(made, c.MakeExternalBuffer(made.handle, source.handle, size))
    return made, size, glo


def external_texture(
    context: Context, glo: Any, size: Any, components: Any, samples: Any, dtype: Any
) -> tuple[Texture, int]:
    """`Context.external_texture` of the seam: the object and its glo. Releasing it frees nothing."""
    glo, (width, height) = a.uint32(glo), a.extent(size, 2, position=2)
    components, samples, dtype = a.uint32(components), a.uint32(samples), a.dtype(a.text(dtype, 5), 5)
    source: Any = _named(context, "texture", glo, "external_texture")
    made = Texture(context, (width, height, 1), a.int32(components), dtype, samples=a.int32(samples), source=source)
    command = c.MakeExternalTexture(made.handle, source.handle, (width, height), components, samples, dtype)
    context.recorder.make(made, command)
    return made, glo


def detect_framebuffer(context: Context, glo: Any) -> tuple[Framebuffer, tuple[int, int], int, int]:
    """`Context.detect_framebuffer` of the seam: the object, its size, samples and glo. None: the one that is bound."""
    context.check()
    try:
        found = _bound(context) if glo is None else a.long(glo)
    except (TypeError, OverflowError):
        raise Error("the glo must be an integer") from None
    if not found:
        default = context.default
        return default, (default.width, default.height), default.samples, 0
    source: Any = _named(context, "framebuffer", found, "detect_framebuffer")
    handle = context.recorder.handle()
    made = Framebuffer.detected(context, handle, found)
    context.recorder.make(made, c.MakeDetectedFramebuffer(handle, source.handle))
    width, height, count = context.recorder.ask(c.DetectedFramebuffer, handle, answer=tuple[int, int, int])
    made.begin((0, 0, width, height), 0, count, True)  # moderngl does not ask how many samples it has
    made.multisampled = source.multisampled
    return made, (width, height), 0, found


def _bound(context: Context) -> int:
    """What is bound: releasing that binds number 0 (OpenGL 4.6 core, 9.2)."""
    return 0 if context.bound.released else context.bound.glo


def _named(context: Context, kind: str, glo: int, call: str) -> Recorded:
    found = context.numbered.get((kind, glo))
    if found is None:
        raise ForeignName(
            f"{call}({glo}): no {kind} of this context has that number; what another library or context made does not "
            "exist on the host"
        )
    return found


def _handle(context: Context, identifier: int, glo: Any) -> int | None:
    kind, glo = KINDS.get(identifier, ""), a.uint32(glo)
    if kind == "framebuffer" and glo == 0:
        return c.DEFAULT_FRAMEBUFFER
    found = context.numbered.get((kind, glo))
    return found.handle if found is not None and found.life is not None else None


def _text(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(a.data(value))
