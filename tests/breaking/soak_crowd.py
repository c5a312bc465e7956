"""`make soak-crowd`: 32 sessions at once on one host, disturbed by chance for ten minutes.

It ends with status 1 at the first session that comes to anything else than it must, and where the gateway does not come
back to what it held before, or something is left on the machine.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import click
from rich.console import Console
from rich.table import Table

from tests.processes import Holding, holding

from .crowd import Crowd, Plan
from .disturbing import DISTURBANCES, deal, pack

SAYING = 15.0
"""Seconds between two lines that say how far it is."""
MEMORY, MEMORY_OF_A_SESSION = 4 << 20, 32 << 10
"""Bytes that the gateway may hold more at the end. What it uses stays the same but for the reasons of the last thousand
ends, but what is free between that, and not given back, grows by some 10 KB a session at first."""
THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Threads that it may have more: asyncio's pool, which grows to this when several are asked for at once."""


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    crowd: Crowd
    before: Holding
    after: Holding


def soak(plan: Plan, say: Callable[[str], object]) -> Outcome:
    """Disturb a crowd. AssertionError where anything comes to what it must not."""
    with Crowd(plan) as crowd:
        began = time.monotonic()
        before = crowd.warm_up()
        say(f"{time.monotonic() - began:.0f} s: the gateway has warmed up")
        crowd.fill()
        _disturb(crowd, began, say)
        say(f"{time.monotonic() - began:.0f} s: everybody finishes")
        crowd.finish()
        after = crowd.at_rest()
    begun = crowd.counts["near"] + crowd.counts["websocket"]
    most = before.memory + MEMORY + MEMORY_OF_A_SESSION * begun
    assert after.memory <= most, f"the gateway holds more than before: {before}, {after}"
    assert after.threads <= before.threads + THREADS, f"the gateway has more threads than before: {before}, {after}"
    assert after.descriptors <= before.descriptors, f"the gateway has more descriptors: {before}, {after}"
    assert after.processes == before.processes
    return Outcome(crowd, before, after)


def _disturb(crowd: Crowd, began: float, say: Callable[[str], object]) -> None:
    """For as long as is planned, and until everything was done once."""
    plan, cards = crowd.plan, deal(crowd)
    card, missing = next(cards), {one.name for one in pack(crowd)}
    due = said = time.monotonic()
    end = due + plan.seconds
    while missing or time.monotonic() < end:
        crowd.hear(max(0.0, due - time.monotonic()))
        if card.do(crowd, card.name):
            crowd.disturbed[card.name] += 1
            missing.discard(card.name)
            card = next(cards)
            due = time.monotonic() + crowd.chance.expovariate(1 / plan.between)
        else:
            due = time.monotonic() + 0.1  # soon there will be somebody
        if time.monotonic() > said + SAYING:
            said = time.monotonic()
            say(f"{said - began:.0f} s: {progress(crowd)}")


def progress(crowd: Crowd) -> str:
    """In a line."""
    now = sum(len(client.sessions) for client in crowd.clients)
    begun = crowd.counts["near"] + crowd.counts["websocket"]
    lost = crowd.lost.total() + crowd.counts["gone with their process"]
    line = f"{now} sessions, {begun} have begun, {crowd.disturbed.total()} disturbances, {lost} ended by them; "
    return f"{line}the gateway has {holding(crowd.host.pid).memory / 1e6:.0f} MB"


def tables(outcome: Outcome) -> list[Table]:
    """What is shown at the end."""
    crowd, counts = outcome.crowd, outcome.crowd.counts
    done = Table("what was done", "times", "sessions lost", "told within", "at most")
    for one in DISTURBANCES:
        if times := crowd.disturbed[one.name]:
            heard = crowd.heard[one.name] if one.name == "worker killed" else []
            figures = [f"{statistics.median(heard):.3f} s", f"{max(heard):.3f} s"] if heard else []
            done.add_row(one.name, str(times), str(crowd.lost[one.name] or ""), *figures)
    sessions = Table("sessions", "")
    sessions.add_row("began near", str(counts["near"]))
    sessions.add_row("began over the websocket", str(counts["websocket"]))
    sessions.add_row("came to the right digests to their end", str(counts["finished"]))
    sessions.add_row("were lost, and told why", str(crowd.lost.total()))
    sessions.add_row("went with their process", str(counts["gone with their process"]))
    sessions.add_row("rounds of those that were not killed", str(counts["rounds"]))
    gateway = Table("the gateway", "before", "after")
    before, after = outcome.before, outcome.after
    gateway.add_row("memory", f"{before.memory / 1e6:.1f} MB", f"{after.memory / 1e6:.1f} MB")
    for name in ("descriptors", "threads", "processes"):
        gateway.add_row(name, str(getattr(before, name)), str(getattr(after, name)))
    return [done, sessions, gateway]


@click.command()
@click.option("--seconds", type=float, default=600.0, show_default=True, help="How long it is disturbed.")
@click.option("--seed", type=int, default=None, help="Of what is done to whom.")
@click.option("--clients", type=int, default=16, show_default=True, help="How many processes, with two sessions each.")
def main(seconds: float, seed: int | None, clients: int) -> None:
    """Disturb a crowd of sessions on one host, and see that only those are lost that must be."""
    seed = random.randrange(1 << 32) if seed is None else seed
    given: dict[str, float] = {"between": 1.5, "pause": 0.5, "grace": 30.0, "buffer_seconds": 10.0, "patience": 25.0}
    plan = Plan(clients=clients, seconds=seconds, seed=seed, **given)  # type: ignore[arg-type]
    print(f"{plan.sessions} sessions, seed {seed}", flush=True)
    try:
        outcome = soak(plan, lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        sys.exit("interrupted; nothing was amiss so far")
    except AssertionError as error:
        print(f"seed {seed}: {error}", *getattr(error, "__notes__", ()), sep="\n")
        sys.exit(1)
    for table in tables(outcome):
        Console().print(table)


if __name__ == "__main__":
    main()
