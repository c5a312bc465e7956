"""How far a host is, and how fast the line to it: measured with what a program would do there.

Knows: contexts, and what cannot be packed. Does not know: how it is shown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import moderngl

ROUND_TRIPS = 10
ENOUGH = 0.3
"""Seconds of moving bytes, after which the rate is known."""
FIRST, MOST = 1 << 16, 64 << 20
"""Bytes that are moved first, and at most."""


@dataclass(frozen=True)
class Measured:
    """Seconds, and bytes a second."""

    round_trips: tuple[float, ...]
    up: float
    down: float


def measure(ctx: moderngl.Context) -> Measured:
    """Measure through a context on a host; the bytes are random, and so are as many on the line."""
    ctx.finish()
    trips = tuple(_seconds(ctx.finish) for _ in range(ROUND_TRIPS))
    least = min(trips)
    size = FIRST
    while True:
        data = os.urandom(size)
        buffer = ctx.buffer(reserve=size)
        ctx.finish()

        def write(buffer: moderngl.Buffer = buffer, data: bytes = data) -> None:
            buffer.write(data)
            ctx.finish()

        up = _seconds(write)
        down = _seconds(buffer.read)
        buffer.release()
        if min(up, down) >= ENOUGH or size >= MOST:
            return Measured(trips, size / max(up - least, 1e-6), size / max(down - least, 1e-6))
        size *= 4 if min(up, down) < ENOUGH / 4 else 2


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
