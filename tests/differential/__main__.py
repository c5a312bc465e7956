"""`make soak`: random programs, plain and remote, until they are interrupted; every kind of difference is shown once.

Each is shown as a test that can be pasted into test_differential.py, with what the two sides came to.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
from collections import Counter

import click

from .comparing import Rejected, as_test, difference, shortened
from .programs import random_program
from .sides import Sides

BETWEEN = 10.0
"""Seconds between two lines that say how far it is."""


class Soak:
    """What was found so far."""

    def __init__(self, sides: Sides) -> None:
        self.sides = sides
        self.began = self.said = time.monotonic()
        self.counted: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()

    def one(self, seed: int) -> None:
        """Run one program."""
        lines = random_program(seed)
        self.counted["programs"] += 1
        self.counted["steps"] += len(lines)
        try:
            found = difference(self.sides, lines)
        except Rejected as why:
            self.counted[f"rejected: plain moderngl {why}"] += 1
            return
        if found is not None:
            self.kinds[found.kind()] += 1
            if self.kinds[found.kind()] == 1:
                print(f"\n# a difference, of seed {seed}\n{as_test(*shortened(self.sides, lines, found))}", flush=True)

    def say(self) -> None:
        """How far it is."""
        self.said = time.monotonic()
        seconds = self.said - self.began
        counts = ", ".join(f"{number} {what}" for what, number in self.counted.items())
        rate = self.counted["programs"] / seconds
        print(f"{seconds:.0f} s: {counts}; {rate:.1f} programs a second; {len(self.kinds)} differences", flush=True)


@click.command()
@click.option("--seconds", type=float, default=float("inf"), help="How long; until interrupted where it is not given.")
@click.option("--remote", type=click.Choice(["in-process", "served"]), default="in-process", help="Which remote way.")
@click.option("--seed", type=int, default=None, help="Of the first program; the next has the next.")
def main(seconds: float, remote: str, seed: int | None) -> None:
    """Run random programs, plain and remote, and show where they differ."""
    os.environ["GLREMOTE_CACHE"] = "0"  # no program is made twice
    first = random.randrange(1 << 32) if seed is None else seed
    print(f"the first program has the seed {first}", flush=True)
    with Sides(remote) as sides:
        soak = Soak(sides)
        try:
            for number in itertools.count(first):
                soak.one(number)
                now = time.monotonic()
                if now - soak.said > BETWEEN:
                    soak.say()
                if now - soak.began > seconds:
                    break
        except KeyboardInterrupt:
            pass
        soak.say()
    for kind, count in soak.kinds.most_common():
        print(f"{count:6} {kind}")
    sys.exit(bool(soak.kinds))


if __name__ == "__main__":
    main()
