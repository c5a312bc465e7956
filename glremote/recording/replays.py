"""`glremote.record`: one command buffer that the host keeps, and runs again when it is told its number.

Knows: what a replay needs of the objects that the commands name, and what it changes in the shadows. Does not know: how
commands are kept, or run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import moderngl

from glremote.protocol import commands as c
from glremote.protocol.buffers import Names, text
from glremote.protocol.errors import CannotReplay

from .blocks import KeptBlock
from .buffers import Buffer
from .faults import Fault, is_made
from .framebuffers import Framebuffer
from .objects import Recorded
from .recorder import SHARE
from .traces import Trace

if TYPE_CHECKING:
    from .context import Context


class KeptCommands(Recorded):
    """The commands of a block, kept on the host. What they name lives as long as this."""

    name = "glremote.Recording"

    def __init__(self, context: Context, facade: moderngl.Context) -> None:
        super().__init__(context)
        self._facade = facade
        self._framebuffer: Any = None  # moderngl's own, which a replay makes `ctx.fbo`
        self._weight = 0
        self._named: list[tuple[Recorded, c.Command]] = []  # each object, with the first command that names it
        self._traces: list[Trace] | None = None  # None until the block has ended
        self._followed: list[tuple[Any, c.Command]] = []

    def keep(self, block: KeptBlock) -> None:
        """The end of the block: record that its buffer is kept."""
        with self.recorder.device.sections:
            block.end()
        self._traces = block.traces
        self._weight = SHARE * len(block.commands)  # buffers are sent as often as if they were recorded again
        if any(type(command) is Framebuffer.uses for command in block.commands):
            self._framebuffer = self._facade.fbo
        objects = self.recorder.objects
        for handle, command in Names(block.commands).handles.items():
            if (thing := objects.get(handle)) is not None:  # all but the default framebuffer
                self._named.append((thing, command))
        for command in block.commands:
            first = getattr(command, command.__struct_fields__[0]) if command.__struct_fields__ else 0
            owners: tuple[Any, ...] = (self.context, objects.get(first))
            for thing in owners:
                if thing is not None and type(command) in thing.followed:
                    self._followed.append((thing, command))
        self.recorder.make(self, c.KeepCommands(self.handle, len(block.commands)))

    def replay(self) -> None:
        """Run the commands once more: part of the command buffer that is recorded now, in its order."""
        if self.recorder.keeps:
            raise CannotReplay("a replay inside `with glremote.record(...)`; call it behind the block")
        if self._traces is None or self.released:
            raise CannotReplay("the recording was released" if self.released else "the recording has not ended")
        for thing, command in self._named:
            if thing.released:
                kind = thing.name.removeprefix("mgl.")
                raise CannotReplay(f"a {kind} was released that the recording uses, in {text(command)}")
        self.recorder.record(c.Replay(self.handle), self._weight)
        for thing, _ in self._named:
            if type(thing) is Buffer:
                thing.ahead.change()
        if self._framebuffer is not None:
            self._facade.fbo = self._framebuffer
        for trace in self._traces:
            trace.apply()
        for thing, command in self._followed:
            thing.follow(command)


@contextmanager
def record(context: Context, facade: moderngl.Context) -> Iterator[KeptCommands]:
    """One command buffer of what is recorded inside, which is kept; an exception leaves it unsent."""
    recorder = context.recorder
    recorder.check_outside()
    made, bound = KeptCommands(context, facade), facade.fbo
    try:
        with recorder.block(KeptBlock):
            block = recorder.keeps
            assert block is not None
            yield made
            made.keep(block)
    except BaseException:
        facade.fbo = bound
        if is_made(made):
            made.never_made(Fault("`with glremote.record(...)` was left by an exception"))
        raise
