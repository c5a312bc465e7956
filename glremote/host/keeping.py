"""Kept commands: what a session's `Replay` runs again, and the data that they name.

Knows: what a command names, and how much a session may keep. Does not know: what a command does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from glremote.protocol.buffers import Names, encode
from glremote.protocol.commands import Do
from glremote.protocol.stacks import Span, Stack

MOST_KEPT = 64 << 20
"""Bytes that the kept commands of a session take at most, with their data."""
OVERHEAD = 256
"""Bytes of a command in memory, about, besides those it is encoded in."""


class TooMuchKept(Exception):
    """A session would keep more than its host allows."""


class InReplay(Exception):
    """A kept command failed: which, and what it raised."""

    def __init__(self, index: int, command: Do, error: Exception) -> None:
        super().__init__(index, command, error)
        self.index, self.command, self.error = index, command, error


class Kept:
    """Commands that a buffer ran, ready to be run again. It stands in the place of the stack that their spans name."""

    def __init__(self, commands: list[Do], stack: Stack, others: Iterable[Kept]) -> None:
        spans = Names(commands).spans
        self.size = len(encode(commands)) + OVERHEAD * (len(commands) + 1) + sum(span.size for span in spans)
        total = self.size + sum(other.size for other in others)
        if total > MOST_KEPT:
            raise TooMuchKept(
                f"the recordings of the session would take {total} bytes on the host; it keeps {MOST_KEPT}; "
                "release those that are not replayed any more"
            )
        self.commands: list[Do] | None = commands
        self._data = {span: bytes(stack.view(span)) for span in spans}

    def view(self, span: Span) -> memoryview:
        """The bytes of a span, as they were when the commands were kept."""
        return memoryview(self._data[span])

    def run(self, call: Callable[[Any], None]) -> None:
        """Call with each command, in order; InReplay says which one failed."""
        if self.commands is None:
            raise ValueError("the recording was released")
        at = 0
        try:
            for command in self.commands:
                call(command)
                at += 1
        except Exception as error:
            raise InReplay(at, self.commands[at], error) from error

    def release(self) -> None:
        """Give the commands and their data back."""
        self.commands, self.size = None, 0
        self._data.clear()
