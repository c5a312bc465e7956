"""Runs workloads in rounds, every way in turn, and what is made of the runs: ratios, medians, quartiles.

Knows: that machines drift, so that a ratio is of runs of one round, and that a host needs a moment after each session.
Does not know: how a run is started, or how the figures are shown.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .ways import PLAIN, VIRGL, Run, RunFailed, Way

FOLDER = Path(__file__).with_name("workloads")
WORKLOADS = {
    "draws": "many small draws a frame",
    "dataset": "200 small images to Pillow",
    "dataset_async": "the same with read_async",
    "readback": "1080p frames read whole",
    "frame4k": "4K frames read whole",
    "floats": "float32 and depth read",
    "ring": "frames read into buffers, those read later",
    "upload": "8 MB of vertices a frame",
    "overlay": "a texture uploaded a frame",
    "particles": "transform feedback and queries",
    "compute": "3,000 small round trips",
    "objects": "objects that live for a frame",
    "startup": "from nothing to one picture",
}
"""Every script in workloads/, in the order of the table."""

CONTROL = "control"
"""The name of the second plain run of a round."""
PAUSE = 0.3
"""Seconds in which a host starts another worker in advance, and a machine of few processors has none to spare."""

Quartiles = tuple[float, float, float]


@dataclass
class Measured:
    """One workload's runs, by the name of the way and round by round, and why a way failed."""

    name: str
    runs: dict[str, list[Run]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def once(self, way: Way, name: str, timeout: float) -> None:
        """Run it once more, unless it failed before."""
        if name in self.failures:
            return
        time.sleep(PAUSE)
        try:
            run = way.run(FOLDER / f"{self.name}.py", timeout)
        except RunFailed as error:
            self.failures[name] = str(error)
        else:
            self.runs.setdefault(name, []).append(run)

    def median(self, name: str, figure: Callable[[Run], float]) -> float:
        """Of a figure of all runs of a way."""
        return statistics.median(figure(run) for run in self.runs[name])

    def ratios(self, name: str, figure: Callable[[Run], float] = lambda run: run.total_s) -> Quartiles:
        """To plain's of the same round: the mean of both plain runs; the control's is to the other plain run."""
        plain = [figure(run) for run in self.runs[PLAIN.name]]
        control = [figure(run) for run in self.runs[CONTROL]]
        base = plain if name == CONTROL else [(one + two) / 2 for one, two in zip(plain, control, strict=True)]
        found = [figure(run) / one for run, one in zip(self.runs[name], base, strict=False)]
        return quartiles(found)

    def differs(self, name: str) -> bool:
        """Whether a way came to other results than the first plain run."""
        return any(run.digest != self.runs[PLAIN.name][0].digest for run in self.runs.get(name, ()))

    @property
    def wrong(self) -> list[str]:
        """The ways that came to other results, or to none."""
        return [name for name in self.runs if self.differs(name)] + list(self.failures)

    @property
    def is_wrong(self) -> bool:
        """Whether one of plain moderngl's or glremote's did; what Mesa's does is not ours to mend."""
        return any(name != VIRGL for name in self.wrong)

    def figures(self) -> dict[str, Any]:
        """All of it, for JSON."""
        ratios = {name: self.ratios(name) for name in self.runs if name != PLAIN.name}
        runs = {name: [asdict(run) for run in runs] for name, runs in self.runs.items()}
        return {"ratios": ratios, "runs": runs, "failures": self.failures, "wrong": self.wrong}


def quartiles(values: Sequence[float]) -> Quartiles:
    """The lower quartile, the median and the upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    lower, middle, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, middle, upper


def measure(
    name: str, ways: Sequence[Way], rounds: int, far: Sequence[Way], far_rounds: int, timeout: float
) -> Measured:
    """All runs of one workload; over distant lines it is run behind the others."""
    measured = Measured(name)
    for _ in range(rounds):
        measured.once(PLAIN, PLAIN.name, timeout)
        for way in ways:
            measured.once(way, way.name, timeout)
        measured.once(PLAIN, CONTROL, timeout)
    if PLAIN.name not in measured.runs or CONTROL not in measured.runs:
        raise RunFailed(f"{name} fails plainly: {measured.failures}")
    for _ in range(far_rounds):
        for way in far:
            measured.once(way, way.name, timeout)
    return measured
