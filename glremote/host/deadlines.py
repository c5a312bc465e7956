"""How long things may take in a worker: a command buffer, a program, a read, its client's silence. The gateway ends one
that takes longer.

Knows: since when each of these runs, which a worker writes into memory that it shares with its gateway: within OpenGL
nothing of Python runs, so a worker can neither look at a clock there nor answer. Does not know: what a worker does, or
what is done about it (gateway/watching.py).
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable

from .limits import Limits

SetBegan = Callable[[float], None]
"""Is told since when something runs, by time.monotonic; 0: nothing does."""
KINDS = {
    "buffer_seconds": "a command buffer took",
    "compile_seconds": "compiling and linking a program took",
    "read_seconds": "a read took",
    "idle_seconds": "its client was silent for",
}
"""What each limit is a limit of, as it is said; in this order the shared memory has a number for each."""
PAGE = mmap.PAGESIZE


class Page:
    """The shared memory: one side writes, the other reads. `descriptor` is of a file that nobody can make smaller."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, PAGE)
        self._began = memoryview(self._memory).cast("d")

    @classmethod
    def make(cls) -> Page:
        """A new one, at which nothing runs. Raises OSError."""
        import fcntl

        descriptor = os.memfd_create("glremote deadlines", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(descriptor, PAGE)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return cls(descriptor)

    def close(self) -> None:
        """Close the descriptor; the memory stays."""
        os.close(self.descriptor)

    def release(self) -> None:
        """Give the memory back, which has a descriptor of its own: nothing runs any more."""
        self._began.release()
        self._memory.close()

    def began(self, name: str) -> float:
        """Since when what a limit is of runs, by time.monotonic; 0: nothing does."""
        return 0.0 if self._memory.closed else float(self._began[list(KINDS).index(name)])

    def setter(self, name: str) -> SetBegan:
        """Writes it."""
        place, began = list(KINDS).index(name), self._began

        def set_began(now: float) -> None:
            began[place] = now

        return set_began


class Buffers:
    """Command buffers, one at a time."""

    def __init__(self, set_began: SetBegan) -> None:
        self._set_began = set_began
        self._began = 0.0
        self._standing_since = 0.0

    def busy(self) -> None:
        """One begins, or the next."""
        self._began, self._standing_since = time.monotonic(), 0.0
        self._set_began(self._began)

    def idle(self) -> None:
        """Nothing runs."""
        self._began = self._standing_since = 0.0
        self._set_began(0.0)

    def stand(self) -> None:
        """We wait for the client, which does not count."""
        if self._began and not self._standing_since:
            self._standing_since = time.monotonic()
            self._set_began(0.0)

    def go_on(self) -> None:
        """We do not wait any more."""
        if self._standing_since:
            self._began += time.monotonic() - self._standing_since
            self._standing_since = 0.0
            self._set_began(self._began)


class Several:
    """Things that begin and end, several at a time. Where they have no limit nothing is kept of them."""

    def __init__(self, limited: bool, set_began: SetBegan) -> None:
        self._limited = limited
        self._set_began = set_began
        self._began: list[float] = []  # what is first ends first; by a clock that stands still while we wait
        self._stood = 0.0
        self._standing_since: float | None = None

    def begin(self) -> float:
        """Something begins; what `end` is to be given."""
        if not self._limited:
            return 0.0
        began = time.monotonic() - self._stood
        self._began.append(began)
        if len(self._began) == 1:
            self._set()
        return began

    def end(self, began: float) -> None:
        """It has ended."""
        if self._limited:
            self._began.remove(began)
            self._set()

    def stand(self) -> None:
        """We wait for the client, which does not count."""
        if self._began and self._standing_since is None:
            self._standing_since = time.monotonic()
            self._set_began(0.0)

    def go_on(self) -> None:
        """We do not wait any more."""
        if self._standing_since is not None:
            self._stood += time.monotonic() - self._standing_since
            self._standing_since = None
            self._set()

    def _set(self) -> None:
        self._set_began(self._began[0] + self._stood if self._began else 0.0)


class Silence:
    """A client's, while we can do nothing without it. At rest a worker looks at its clock itself."""

    def __init__(self, set_began: SetBegan) -> None:
        self._set_began = set_began
        self._begun = False

    def begin(self) -> None:
        """We wait, or still do."""
        if not self._begun:
            self._begun = True
            self._set_began(time.monotonic())

    def end(self) -> None:
        """It has taken something, or said something."""
        if self._begun:
            self._begun = False
            self._set_began(0.0)


def nobody_looks(began: float) -> None:
    """Where a worker has no process of its own that could be ended."""


class Deadlines:
    """Those of one worker."""

    def __init__(self, limits: Limits, page: Page | None = None) -> None:
        def of(name: str) -> SetBegan:
            return nobody_looks if page is None else page.setter(name)

        self.buffers = Buffers(of("buffer_seconds"))
        self.programs = Several(bool(limits.compile_seconds), of("compile_seconds"))
        self.reads = Several(bool(limits.read_seconds), of("read_seconds"))
        self.silence = Silence(of("idle_seconds"))

    def stand(self) -> None:
        """We wait for the client: that is no part of a buffer, nor of a read."""
        self.buffers.stand()
        self.reads.stand()
        self.silence.begin()

    def go_on(self) -> None:
        """We do not wait any more."""
        self.buffers.go_on()
        self.reads.go_on()
        self.silence.end()
