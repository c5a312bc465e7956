"""What `with glremote.command_buffer(ctx)` keeps while it lasts: the size of the buffer, and how everything was before.

And `with glremote.record(ctx)`: also its commands, and what they set.

Knows: encoded sizes, and the attributes of whatever shadows state of the host's. Does not know: when it is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from glremote.device.waiting import Pending
from glremote.protocol import buffers
from glremote.protocol.commands import Command, Do
from glremote.protocol.errors import BufferTooLarge

from .traces import Trace


class Shadowed(Protocol):
    """What shadows state that it set on the host."""

    def restore(self) -> Iterator[Command]:
        """The commands that set it again."""
        ...


class Block:
    """A command buffer that is being recorded as one: its size, and what every shadow was before it."""

    name = "glremote.command_buffer(...)"

    def __init__(self, shadowed: list[Shadowed]) -> None:
        self.asked: list[Pending] = []  # whose answers come after the block
        self.counted = 0
        self.size = 0
        self._before = [
            (thing, {k: v.copy() if isinstance(v, dict | list) else v for k, v in vars(thing).items()})
            for thing in shadowed
        ]

    def undo(self) -> None:
        """Make every shadow what it was."""
        for thing, before in self._before:
            released = vars(thing).get("released", False)  # a release is never dropped
            vars(thing).clear()
            vars(thing).update(before)
            if released:
                vars(thing)["released"] = True

    def grow(self, commands: deque[Command], data: int) -> None:
        """Count what was recorded since the last time; BufferTooLarge at the call that passes the greatest size."""
        end = len(commands)  # a finaliser may append meanwhile, on any thread
        for at in range(self.counted, end):
            self.size += len(buffers.encode([commands[at]]))
        self.counted = end
        if self.size > buffers.LARGEST:
            raise self.too_large(data)

    def too_large(self, data: int) -> BufferTooLarge:
        """With so many bytes of data."""
        return BufferTooLarge(
            f"the calls inside `with {self.name}` take {self.size} bytes of commands and {data} of "
            f"data; one buffer holds {buffers.LARGEST} and {buffers.LARGEST_DATA}; make the block shorter"
        )


class KeptBlock(Block):
    """A block that the host keeps, to be replayed: it makes nothing, and asks for nothing."""

    name = "glremote.record(...)"

    def __init__(self, shadowed: list[Shadowed]) -> None:
        super().__init__(shadowed)
        self.commands: list[Do] = []
        self.traces = [Trace(thing) for thing in shadowed]
        self._ended = False

    def grow(self, commands: deque[Command], data: int) -> None:
        """The same, and remember what is to be replayed."""
        start = self.counted
        super().grow(commands, data)
        new = (commands[at] for at in range(start, self.counted))
        self.commands += (command for command in new if isinstance(command, Do))

    def end(self) -> None:
        """Everything is recorded: the traces have what was set."""
        if not self._ended:
            self._ended = True
            self.traces = [trace for trace in self.traces if trace.end()]

    def undo(self) -> None:
        """Make every shadow what it was."""
        self.end()
        super().undo()
