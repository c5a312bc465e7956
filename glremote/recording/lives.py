"""When a recording object is gone for good, so that the host may forget its handle.

Knows: what Python's garbage collector does. Does not know: what is recorded, or for whom.

The collector calls `__del__` of everything in a cycle before it takes any of it apart. So what a program, or moderngl,
does there may still use an object, release it, or keep it (gc_mode "context_gc" does), after the object's own `__del__`
has run. What the collector does not track it does not finalise: that goes when the last one that holds it goes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from glremote.protocol.commands import Command, Forget


class Life(msgspec.Struct, gc=False):
    """Held by a recording object that the host has heard of, and by nothing else."""

    handle: int
    free: Callable[[Command], None] | None
    """Appends the command: from any thread, at any time. It refers to no recorder, so that this is in no cycle."""

    def __del__(self) -> None:
        if self.free is not None:
            self.free(Forget(self.handle))

    def cancel(self) -> None:
        """The object was never made: there is nothing to be forgotten."""
        self.free = None
