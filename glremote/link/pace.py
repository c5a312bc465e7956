"""Pace: how much a sender should pack what it sends, from where its time goes.

Knows: seconds spent packing and seconds spent waiting for the link. Does not know: how packing is done, or any clock
but the one it is told. It needs no figure of the link's: where packing takes most of the time the link could carry
more, and where waiting for it does it could be spared more. Where neither does, it does not matter.
"""

from __future__ import annotations

FAR = 0.002
"""Seconds of distance from which on a link is packed at once, without waiting to see."""
WINDOW = 4 << 20
"""Bytes that are sent between two decisions."""
MOST = 0.6
"""The share of time that is too much."""
STRONGEST = 2
HOLD = 64
"""Decisions for which a level that was found too low is not tried again; twice as many each time."""


class Pace:
    """`level` is how much to pack: 0 not at all, then faster, then smaller."""

    def __init__(self, distance: float = 0.0, now: float = 0.0) -> None:
        self.level = STRONGEST if distance >= FAR else 0
        self._hold, self._held = HOLD, 0
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._since = now
        self._packing = self._waiting = 0.0
        self._bytes = 0

    def waited(self, seconds: float) -> None:
        """So long the link did not take more."""
        self._waiting += seconds

    def packed(self, size: int, seconds: float, now: float) -> int:
        """So many bytes were packed, which took so long; the level from now on."""
        self._bytes += size
        self._packing += seconds
        if self._bytes >= WINDOW:
            total = now - self._since
            if self._waiting > MOST * total and self.level < STRONGEST:
                self.level += 1
                self._held, self._hold = self._hold, 2 * self._hold
            elif self._held:
                self._held -= 1
            elif self._packing > MOST * total and self.level > 0:
                self.level -= 1
            self._begin(now)
        return self.level
