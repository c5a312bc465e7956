"""How far OpenGL is with what it was told, by fences: since when the command buffer runs that it is at now.

Knows: fences, and whom to tell (deadlines.py). Does not know: commands. A GPU works on long after the calls have
returned, so what a buffer asked for is over when a fence behind it has passed, and not when its last command was run.
"""

from __future__ import annotations

import time
from collections import deque

from .deadlines import Buffers
from .gl import OpenGL

OFTEN = 0.1
"""Seconds after which there is another fence, as long as OpenGL keeps up; where it does not, each buffer has one."""
SLICE = 0.05
"""Seconds of a wait between two looks at which fence has passed."""


class Progress:
    """Of one context. `at_work`: fences also while there is something to run, and not only at rest.

    A software renderer would begin to draw at each, where it would have drawn all at once.
    """

    def __init__(self, gl: OpenGL, buffers: Buffers, at_work: bool) -> None:
        self._gl = gl
        self._buffers = buffers
        self._at_work = at_work
        self._fences: deque[int] = deque()
        self._fenced = 0.0  # when the last was made
        self._behind = False  # there may be work behind the last

    def begin(self) -> None:
        """A buffer is about to run."""
        while self._fences and self._passed(0.0):
            pass
        if not self._fences:
            self._buffers.busy()
        self._behind = True

    def end(self) -> None:
        """All of it was handed to OpenGL."""
        if self._at_work and (self._fences or time.monotonic() - self._fenced > OFTEN):
            self._fence()

    def catch_up(self) -> None:
        """Wait for the buffers before this one, so that what it waits for is its own."""
        while self._fences:
            self._passed(SLICE)

    def settled(self, seconds: float) -> bool:
        """Whether all is done, or the next of it within so many seconds and then all: only then we are at rest."""
        if self._behind:
            self._fence()
        return not self._fences or (self._passed(seconds) and not self._fences)

    def _fence(self) -> None:
        self._fences.append(self._gl.fence())
        self._fenced, self._behind = time.monotonic(), False

    def _passed(self, seconds: float) -> bool:
        """Whether the oldest fence passes within so many seconds; then what is behind it runs."""
        if not self._gl.passed(self._fences[0], seconds):
            return False
        self._fences.popleft()
        self._buffers.busy()
        return True
