"""Who is ended where something takes too long, and who is not since another had the GPU."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from glremote.host.gateway import watching
from glremote.host.gateway.watching import Watch
from glremote.host.gateway.workers import LOOKING

GPU, SOFTWARE = "NVIDIA H200/PCIe/SSE2", "llvmpipe (LLVM 15.0.6, 256 bits)"


@dataclass
class Stand:
    """Stands in for a worker: its buffer began at a time, and may take so many seconds.

    One that is stuck in its driver is not gone when it is killed.
    """

    process: int
    began: float = 0.0
    limit: float = 3.0
    renderer: str = GPU
    device: int = 0
    stalled: float = 0.0
    alive: bool = True
    is_stuck: bool = False
    is_dying: bool = False
    killed: list[float] = field(default_factory=list)

    def running(self, name: str, now: float) -> float:
        return now - self.began if self.began else 0.0

    def late(self, now: float) -> str:
        return "late" if self.running("", now) - self.stalled > self.limit else ""

    def kill(self, why: str) -> None:
        self.killed.append(Clock.now)
        self.is_dying = self.alive = self.is_stuck


class Clock:
    """The time of the watch."""

    now = 0.0

    @classmethod
    def monotonic(cls) -> float:
        return cls.now

    time = monotonic


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock.now = 100.0
    monkeypatch.setattr(watching, "time", Clock)


def look(
    seconds: float, *workers: Any, shares: dict[int, int] | None = None,
    ask: Callable[[float], dict[int, int]] | None = None,
) -> Watch:  # fmt: skip
    """Watch over some for so long."""
    watch = Watch(ask or (lambda since: shares or {}))
    for worker in workers:
        watch.add(worker)

    async def looks() -> None:
        for _ in range(round(seconds / LOOKING)):
            Clock.now += LOOKING
            await watch.look()

    asyncio.run(looks())
    return watch


def test_what_takes_too_long_is_ended_soon() -> None:
    endless, idle, quick = Stand(1, began=100.0), Stand(2), Stand(3, began=101.9)
    look(3.0, endless, idle, quick)
    assert endless.killed == []
    look(0.5, endless, idle, quick)
    assert endless.killed == [103.25]
    assert idle.killed == quick.killed == []


def test_what_takes_too_long_is_ended_though_the_driver_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is asked once, and then held not to tell."""
    monkeypatch.setattr(watching, "ASKING", 0.01)
    stuck, over = threading.Event(), threading.Event()
    calls: list[float] = []

    def ask(since: float) -> dict[int, int]:
        calls.append(since)
        stuck.wait(20)
        over.set()
        return {}

    endless, waits = Stand(1, began=100.0), Stand(2, began=100.25)
    look(3.5, endless, waits, ask=ask)
    assert (endless.killed, waits.killed, len(calls), over.is_set()) == ([103.25], [], 1, False)
    stuck.set()


@pytest.mark.parametrize("began", [99.9, 101.5])
def test_who_waits_for_the_gpu_is_not_ended_with_whoever_has_it(began: float) -> None:
    """Whether its buffer began before the endless one or behind."""
    endless, waits = Stand(1, began=100.0, is_stuck=True), Stand(2, began=began)
    watch = look(12.0, endless, waits, shares={1: 100, 2: 0, 7: 3})
    assert endless.killed == [103.25]
    assert waits.killed == [], "also while the other's process is still there"
    endless.alive = False
    for _ in range(round(3 / LOOKING)):
        Clock.now += LOOKING
        asyncio.run(watch.look())
    assert len(waits.killed) == 1, "its own time goes on then"


def test_where_the_driver_does_not_tell_the_first_is_to_blame() -> None:
    endless, waits = Stand(1, began=100.0), Stand(2, began=100.5)
    look(4.0, endless, waits)
    assert endless.killed == [103.25]
    assert waits.killed == []


def test_where_nobody_has_the_gpu_nobody_waits_for_it() -> None:
    """They compile, say, or a driver hangs."""
    one, other = Stand(1, began=100.0), Stand(2, began=100.5)
    look(4.0, one, other, shares={1: 4, 2: 1})
    assert one.killed
    assert other.killed


@pytest.mark.parametrize("shares", [{1: 100, 2: 0, 3: 100, 4: 0}, {}])
def test_nobody_waits_for_another_gpu(shares: dict[int, int]) -> None:
    """Of each GPU one is to blame, though both are stuck at the same time, and whoever waits behind it is not."""
    endless, waits = Stand(1, began=100.0), Stand(2, began=100.5)
    other, waits_there = Stand(3, began=100.25, device=1, is_stuck=True), Stand(4, began=100.5, device=1)
    look(3.75, endless, waits, other, waits_there, shares=shares)
    assert (endless.killed, other.killed) == ([103.25], [103.5])
    assert waits.killed == waits_there.killed == []
    alone = Stand(5, began=Clock.now)
    look(4.0, other, alone)
    assert alone.killed, "what is stuck on another GPU is in nobody's way"


def test_nobody_waits_for_another_s_threads() -> None:
    one, other = Stand(1, began=100.0, renderer=SOFTWARE), Stand(2, began=100.5, renderer=SOFTWARE)
    look(4.0, one, other)
    assert one.killed
    assert other.killed


def test_a_buffer_that_follows_has_all_its_time() -> None:
    """What the one before was granted is not the next one's."""
    long, waits = Stand(1, began=100.0, limit=60.0), Stand(2, began=100.0)
    look(6.0, long, waits, shares={1: 100})
    assert waits.stalled > 4
    long.began, waits.began = 0.0, Clock.now
    look(4.0, long, waits)
    assert waits.killed == [109.25]


def test_those_that_are_gone_are_not_looked_after() -> None:
    gone = Stand(1, began=100.0, alive=False)
    watch = look(5.0, gone)
    assert gone.killed == []
    assert watch._workers == []
