"""Stands where mgl.Scope stands. Shadow: what it bound and enabled, and what was bound and enabled before.

Knows: what a scope may bind. Does not know: how what it binds is made; its samplers are moderngl's own Python objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moderngl import Error

from glremote.protocol import commands as c

from . import arguments as a
from .buffers import Buffer
from .framebuffers import Framebuffer
from .objects import Recorded, check_made, instance
from .textures import Texture, Texture3D, TextureCube

if TYPE_CHECKING:
    from .context import Context

INVALID = 0x40000000
"""The enable flags of a scope that was given none: none of the five is on inside."""
Bindings = tuple[tuple[int, int], ...]


class Scope(Recorded):
    """A framebuffer, enable flags and bindings, which `begin` sets.

    `end` sets the framebuffer that was bound when the scope was made, and the flags that there were when it began.
    """

    name = "mgl.Scope"
    followed = frozenset((c.ScopeBegin, c.ScopeEnd, "old_flags"))

    def __init__(
        self, context: Context, framebuffer: Framebuffer, flags: int | None, samplers: tuple[tuple[Any, int], ...]
    ) -> None:
        super().__init__(context)
        self.framebuffer, self.old_framebuffer = framebuffer, context.bound
        self.flags, self.old_flags = INVALID if flags is None else flags, 0
        self.samplers = samplers

    def begin(self) -> None:
        """Bind and enable; then each sampler's `use`, which records for itself."""
        self.context.check()
        command = c.ScopeBegin(self.handle)
        self.recorder.record(command)
        self.follow(command)
        self.context.bound = self.framebuffer
        for sampler, location in self.samplers:
            sampler.use(location)

    def end(self) -> None:
        """Bind and enable what was before."""
        self.context.check()
        command = c.ScopeEnd(self.handle)
        self.recorder.record_end(command)
        self.follow(command)
        self.context.bound = self.old_framebuffer

    def follow(self, command: c.Command) -> None:
        """See Seam.follow: the flags."""
        if type(command) is c.ScopeBegin:
            self.old_flags, self.context.enable_flags = self.context.enable_flags, self.flags
        else:
            self.context.enable_flags = self.old_flags


def scope(
    context: Context,
    framebuffer: Any,
    enable_flags: Any,
    textures: Any,
    uniform_buffers: Any,
    storage_buffers: Any,
    samplers: Any,
) -> Scope:
    """`Context.scope` of the seam: the object. Bindings are (object, location) pairs; texture arrays are refused."""
    context.check()
    framebuffer = instance(framebuffer, Framebuffer, 1, context)
    textures = _items(textures, "invalid textures")
    uniform_buffers = _items(uniform_buffers, "invalid uniform buffers")
    storage_buffers = _items(storage_buffers, "invalid storage buffers")
    samplers = _items(samplers, "invalid samplers")
    flags = None
    if enable_flags is not None:
        found = a.numbers((enable_flags,), (1,))
        if found is None:
            raise Error("invalid enable_flags")
        (flags,) = found
    bound: list[Bindings] = [
        tuple((x.handle, location) for x, location in (_binding(context, item, kinds, otherwise) for item in items))
        for items, kinds, otherwise in (
            (textures, (Texture, Texture3D, TextureCube), "invalid textures"),
            (uniform_buffers, (Buffer,), "invalid uniform buffers"),
            (storage_buffers, (Buffer,), "invalid storage buffers"),
        )
    ]
    used = tuple(_binding(context, item, (), "invalid samplers") for item in samplers)
    for handle, _ in bound[2]:
        stored: Any = context.recorder.objects[handle]
        stored.ahead.store()
    made = Scope(context, framebuffer, flags, used)
    context.recorder.make(made, c.MakeScope(made.handle, framebuffer.handle, flags, *bound))
    return made


def _items(value: Any, otherwise: str) -> tuple[Any, ...]:
    """A sequence as a tuple."""
    try:
        return tuple(value)
    except Exception:
        raise Error(otherwise) from None


def _binding(context: Context, item: Any, kinds: tuple[type, ...], otherwise: str) -> tuple[Any, int]:
    """(object of one of the kinds, location); no kinds: any object."""
    pair = _items(item, otherwise)
    if len(pair) != 2:
        raise Error(otherwise)
    check_made(getattr(pair[0], "mglo", pair[0]), context)  # a sampler comes as moderngl's own object
    location = a.numbers(pair[1:], (1,))
    if (kinds and type(pair[0]) not in kinds) or location is None:
        raise Error(otherwise)
    return pair[0], location[0]
