"""Reading ahead: what a program fills with `read_into` and reads some frames later is fetched when it is filled.

Programs use a ring of such buffers so that nobody waits for the pixels; over a network the read would wait all the
same, a round trip each. Knows: of one buffer, whether its last reads could have been foreseen, and what writes it. Does
not know: what is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glremote.device.waiting import Pending

if TYPE_CHECKING:
    from .buffers import Buffer

PAIRS = 2
"""So often a buffer is filled and read before the next time is foreseen."""


class Ahead:
    """Of one buffer that OpenGL has."""

    def __init__(self) -> None:
        self._pairs = 0
        self.filled = 0
        """The handle by which it was, if it was neither read nor changed since."""
        self._pending: Pending | None = None
        self._stored = False  # a shader may write it at any time

    def fill(self, buffer: Buffer) -> None:
        """A read_into of it was recorded."""
        if self._pending is not None:  # the last one went unread
            self._pairs = 0
        self._pending = None
        self.filled = buffer.handle
        if self._pairs >= PAIRS and not self._stored:
            self._pending = buffer.fetch_ahead()

    def change(self) -> None:
        """Something else is about to write it: what was fetched is not what a read would give."""
        self.filled = 0
        self._pending = None

    def store(self) -> None:
        """It is bound where shaders write."""
        self._stored = True
        self.change()

    def take(self, buffer: Buffer, size: int, offset: int) -> bytes | None:
        """It is read: all of it, if that was fetched; None where it is to be asked for."""
        if (self.filled, size, offset) != (buffer.handle, buffer.length, 0):
            return None
        self.filled = 0
        self._pairs += 1
        pending, self._pending = self._pending, None
        return None if pending is None else buffer.recorder.taken(pending)
