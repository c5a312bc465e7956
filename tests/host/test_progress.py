"""Since when the buffer runs that OpenGL is at: fences behind buffers, on a GPU that does one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from glremote.host import progress
from glremote.host.progress import OFTEN, Progress


class Machine:
    """Stands in for OpenGL and a clock: each buffer takes its seconds, and a fence passes when those before it have."""

    def __init__(self) -> None:
        self.now = 100.0
        self.free = 0.0  # when the GPU has done all that it was told
        self.fences = 0
        self.told: list[float] = []  # when a buffer was said to run from

    def work(self, seconds: float) -> None:
        self.free = max(self.free, self.now) + seconds

    def fence(self) -> float:
        self.fences += 1
        return self.free

    def passed(self, fence: float, seconds: float) -> bool:
        if fence > self.now + seconds:
            self.now += seconds
            return False
        self.now = max(self.now, fence)
        return True

    def busy(self) -> None:
        self.told.append(round(self.now, 3))

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(progress, "time", made)
    return made


def made(machine: Any, at_work: bool = True) -> Progress:
    return Progress(machine, machine, at_work)


def run(progress: Progress, machine: Machine, seconds: float) -> None:
    progress.begin()
    machine.work(seconds)
    progress.end()


def test_each_buffer_has_its_own_time(machine: Machine) -> None:
    """All of them were handed over at once."""
    of = made(machine)
    for _ in range(4):
        run(of, machine, 1.0)
    assert machine.told == [100.0], "the first runs, the others wait for it"
    of.catch_up()
    assert machine.told == [100.0, 101.0, 102.0, 103.0, 104.0]
    assert of.settled(0.0)


def test_what_has_no_end_runs_since_it_began(machine: Machine) -> None:
    of = made(machine)
    run(of, machine, 1e9)
    for _ in range(20):
        machine.now += 0.3
        run(of, machine, 0.001)
        assert not of.settled(0.01)
    assert machine.told == [100.0]


def test_it_is_not_at_rest_before_the_gpu_is(machine: Machine) -> None:
    for at_work in (True, False):
        of, began = made(machine, at_work), machine.now
        run(of, machine, 1.0)
        while not of.settled(0.1):
            pass
        assert machine.now == pytest.approx(began + 1.0, abs=0.11)
        assert of.settled(0.0)


def test_fences_are_few_where_the_gpu_keeps_up(machine: Machine) -> None:
    of = made(machine)
    for _ in range(100):
        run(of, machine, 0.0)
        machine.now += OFTEN / 10
    assert machine.fences == pytest.approx(10, abs=2)
    assert machine.told[-1] == pytest.approx(machine.now, abs=OFTEN / 5)
    machine.fences = 0
    software = made(machine, at_work=False)
    for _ in range(100):
        run(software, machine, 0.0)
        machine.now += OFTEN / 10
    assert machine.fences == 0
