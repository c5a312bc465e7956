"""`make soak`: random programs, plain and remote, until they are interrupted; every difference is shown once.

Each is shown as a test that can be pasted into test_differential.py, with what the two sides came to.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter

import click
from hypothesis import HealthCheck, Phase, given, seed, settings

from .comparing import Rejected, as_test, difference, shortened
from .making import programs
from .sides import Sides

EXAMPLES = 100
"""Of one run of hypothesis; the next begins with another seed."""
BETWEEN = 10.0
"""Seconds between two lines that say how far it is."""


class Soak:
    """What was found so far."""

    def __init__(self, sides: Sides, until: float) -> None:
        self.sides = sides
        self.began = self.said = time.monotonic()
        self.until = until
        self.counted: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()

    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.until

    def one(self, lines: list[str]) -> None:
        """Run one program."""
        if self.over():
            return
        self.counted["programs"] += 1
        self.counted["steps"] += len(lines)
        try:
            found = difference(self.sides, lines)
        except Rejected as why:
            self.counted[f"rejected: plain moderngl {why}"] += 1
            found = None
        if found is not None:
            self.kinds[found.kind()] += 1
            if self.kinds[found.kind()] == 1:
                print(f"\n# a difference\n{as_test(*shortened(self.sides, lines, found))}", flush=True)
        if time.monotonic() - self.said > BETWEEN:
            self.said = time.monotonic()
            self.say()

    def say(self) -> None:
        """One line."""
        seconds = time.monotonic() - self.began
        counts = ", ".join(f"{number} {what}" for what, number in self.counted.items())
        rate = self.counted["programs"] / seconds
        print(f"{seconds:.0f} s: {counts}, {rate:.1f} programs a second, {len(self.kinds)} differences", flush=True)

    def run(self, number: int) -> None:
        """One run of hypothesis."""

        @seed(number)
        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(programs())
        def one(lines: list[str]) -> None:
            self.one(lines)

        one()


@click.command()
@click.option("--seconds", type=float, default=float("inf"), help="How long; until interrupted where it is not given.")
@click.option("--remote", type=click.Choice(["in-process", "served"]), default="in-process", help="Which remote context.")
@click.option("--seed", "first", type=int, default=None, help="Of the first run.")
def main(seconds: float, remote: str, first: int | None) -> None:
    """Run random programs, plain and remote, and show where they differ."""
    number = random.randrange(1 << 32) if first is None else first
    with Sides(remote) as sides:
        soak = Soak(sides, time.monotonic() + seconds)
        try:
            while not soak.over():
                print(f"seed {number}", flush=True)
                soak.run(number)
                number += 1
        except KeyboardInterrupt:
            pass
        soak.say()
    for kind, count in soak.kinds.most_common():
        print(f"{count:6} {kind}")
    sys.exit(bool(soak.kinds))


main()
