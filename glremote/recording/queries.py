"""Stands where mgl.Query stands. Shadow: whether it runs; results are the host's.

Knows: in which order a query may be begun, ended and rendered by. Does not know: what it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moderngl import Error

from glremote.protocol import commands as c

from .objects import Recorded

if TYPE_CHECKING:
    from .context import Context

INACTIVE, ACTIVE, RENDERING, CUT = range(4)
"""CUT: a fault ended it, on the host too; the end that is still to come, of a `with` block, does nothing."""


class Query(Recorded):
    """Up to four queries of OpenGL that run together; where none is wanted, all four."""

    name = "mgl.Query"

    def __init__(self, context: Context, flags: tuple[bool, bool, bool, bool]) -> None:
        super().__init__(context)
        self.has_samples, self.has_any_samples, self.has_time, self.has_primitives = flags
        self.state = INACTIVE
        self.ended = False

    @property
    def release(self) -> Any:
        """moderngl has none: a query lives until its session ends."""
        raise AttributeError("'mgl.Query' object has no attribute 'release'")

    def begin(self) -> None:
        """Start counting."""
        if self.state not in (INACTIVE, CUT):
            running = self.state == ACTIVE
            raise Error("this query is already running" if running else "this query is in conditional render mode")
        self.recorder.record(c.QueryBegin(self.handle))
        self.state = ACTIVE

    def end(self) -> None:
        """Stop counting; from now on there are results."""
        if self.state == CUT:
            self.state = INACTIVE
            return
        if self.state != ACTIVE:
            idle = self.state == INACTIVE
            raise Error("this query was not started" if idle else "this query is in conditional render mode")
        self.recorder.record_end(c.QueryEnd(self.handle))
        self.state, self.ended = INACTIVE, True

    def begin_render(self) -> None:
        """From now on render only if samples passed."""
        if self.state not in (INACTIVE, CUT):
            running = self.state == ACTIVE
            raise Error("this query was not stopped" if running else "this query is already in conditional render mode")
        if not (self.has_any_samples or self.has_samples):
            raise Error("no samples")
        self.recorder.record(c.QueryBeginRender(self.handle))
        self.state = RENDERING

    def end_render(self) -> None:
        """Render unconditionally again."""
        if self.state == CUT:
            self.state = INACTIVE
            return
        if self.state != RENDERING:
            raise Error("this query is not in conditional render mode")
        self.recorder.record_end(c.QueryEndRender(self.handle))
        self.state = INACTIVE

    def restore(self) -> Iterator[c.Command]:
        """See Recorded.restore. A query that runs cannot be resumed: the host ends it when it begins the epoch."""
        if self.state in (ACTIVE, RENDERING):
            self.state = CUT
        return iter(())

    @property
    def samples(self) -> int:
        """Samples that passed; waits."""
        return self._result(c.QuerySamples, self.has_samples, "samples_passed")

    @property
    def primitives(self) -> int:
        """Primitives that were generated; waits."""
        return self._result(c.QueryPrimitives, self.has_primitives, "primitives_generated")

    @property
    def elapsed(self) -> int:
        """Nanoseconds, modulo 2**32; waits."""
        return self._result(c.QueryElapsed, self.has_time, "time_elapsed")

    def _result(self, kind: type[c.Ask], wanted: bool, flag: str) -> int:
        if not wanted:
            raise Error(f"query created without the {flag} flag")
        if self.state == ACTIVE:
            raise Error("this query was not stopped")
        if not self.ended:
            return 0
        return self.recorder.ask(kind, self.handle, answer=int)  # type: ignore[no-any-return]


def query(context: Context, samples: Any, any_samples: Any, time: Any, primitives: Any) -> Query:
    """`Context.query` of the seam: the object."""
    flags = bool(samples), bool(any_samples), bool(time), bool(primitives)
    made = Query(context, flags if any(flags) else (True, True, True, True))
    context.recorder.make(made, c.MakeQuery(made.handle, *flags))
    return made
