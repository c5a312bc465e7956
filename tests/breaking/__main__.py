"""`make soak-breaking`: a session whose link is cut and stalled at bytes by chance, until it is interrupted.

It ends with status 1 at the first round that comes to another digest than undisturbed, or whose buffers did not run
once.
"""

from __future__ import annotations

import itertools
import logging
import random
import sys
import time

import click

from tests.relay import FAST, Line

from .sessions import BreakingSession, some_faults

ROUNDS = 300
"""Of one session, before another is made, perhaps with another line."""
BETWEEN = 10.0
"""Seconds between two lines that say how far it is."""


@click.command()
@click.option("--seconds", type=float, default=float("inf"), help="How long; until interrupted where it is not given.")
@click.option("--seed", type=int, default=None, help="Of the first session; the next has the next.")
def main(seconds: float, seed: int | None) -> None:
    """Break the link of sessions, and see that nothing is lost and nothing done twice."""
    logging.getLogger("glremote").setLevel(logging.ERROR)  # each break is a line
    seed = random.randrange(1 << 32) if seed is None else seed
    began = said = time.monotonic()
    faults = rounds = 0
    try:
        for number in itertools.count(seed):
            chance = random.Random(number)
            line = chance.choice((FAST, FAST, Line(0.005, 100), Line(0.03, 10)))
            print(f"a session of seed {number}, over {line}", flush=True)
            with BreakingSession(line) as session:
                for _ in range(ROUNDS):
                    planned = some_faults(chance, session.bytes)
                    faults += session.round(*planned)
                    rounds += 1
                    now = time.monotonic()
                    if now - said > BETWEEN:
                        said = now
                        print(f"{now - began:.0f} s: {rounds} rounds, {faults} faults", flush=True)
                    if now - began > seconds:
                        raise KeyboardInterrupt
    except KeyboardInterrupt:
        print(f"{time.monotonic() - began:.0f} s: {rounds} rounds, {faults} faults; each buffer ran once")
    except Exception as error:
        print(f"session {number}, after {rounds} rounds: {type(error).__name__}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
