"""How fast bytes go: a store of them that fills at a rate, for one session, both ways together.

Knows: bytes and seconds. Does not know: what is carried, or who waits.

This one limit slows down where the others refuse or end. They bound what a session has or does at one time, and who
goes past them can ask for less. A rate is passed by programs that do nothing wrong, for a while: whoever has computed
for an hour must not lose it because the last minute was a busy one, and to be slower is all that the line's other users
need. And so no packet is ever too large: it may go when the store is not empty, whatever its size, and what it takes
beyond the store is made up for by those behind it.
"""

from __future__ import annotations

import asyncio
import time

BURST = 1.0
"""Seconds: what is not used in them can be used later at once."""
LEAST = 1 << 16
"""Bytes that the store holds at least, so that a session begins without a pause at any rate."""


class Throttle:
    """For `rate` bytes a second; 0 is any."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._most = max(rate * BURST, LEAST)
        self._left = self._most
        self._left_at = time.monotonic()
        self.turn = asyncio.Lock()
        """Whoever waits holds it, so that neither way keeps the other from ever going."""

    def wait(self) -> float:
        """Seconds until the next packet may go; 0: now."""
        if not self.rate:
            return 0.0
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._left_at) * self.rate)
        self._left_at = now
        return max(0.0, -self._left / self.rate)

    def take(self, size: int) -> None:
        """A packet of so many bytes goes."""
        self._left -= size
