"""The link cut after every k-th byte of a session that draws, uploads and reads; stalled, slowed, two failures at once.

Each round comes to the digest of an undisturbed one, and each of its buffers ran once: sessions.py says how that is
known. `make soak` goes on with bytes by chance.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.breaking.sessions import BreakingSession
from tests.relay import Fault, Line

EVERY = 8
"""The link is cut after every so many bytes."""
RESUMING = 1100
"""Bytes that resuming takes, HTTP's upgrade included."""


@pytest.fixture(scope="module")
def session() -> Iterator[BreakingSession]:
    """One session that breaks hundreds of times."""
    with BreakingSession() as session:
        yield session


def test_cut_after_every_kth_byte(session: BreakingSession) -> None:
    before = session.faults
    places = range(1, session.bytes, EVERY)
    for byte in places:
        session.round(Fault(byte))
    assert session.faults - before >= 0.9 * len(places) > 300  # a round may take a few bytes less than the longest


def test_cut_while_it_is_resuming(session: BreakingSession) -> None:
    before, places = session.faults, range(1, RESUMING, 4 * EVERY)
    for byte in places:
        session.round(Fault(session.bytes // 2), Fault(byte))
    assert session.faults - before == 2 * len(places)


@pytest.mark.parametrize("seed", range(8))
def test_cut_again_and_again(session: BreakingSession, seed: int) -> None:
    chance = random.Random(seed)
    faults = [Fault(chance.randrange(1, session.bytes)), Fault(1), Fault(chance.randrange(1, RESUMING)), Fault(1)]
    assert session.round(*faults) == 4


@pytest.mark.parametrize("seed", range(4))
def test_stalled_and_cut_when_it_goes_on(session: BreakingSession, seed: int) -> None:
    byte = random.Random(seed).randrange(1, session.bytes - 100)
    assert session.round(Fault(byte, stall=0.3), Fault(1)) == 2


def test_slow_link_cut_anywhere() -> None:
    """So far away that data is packed: differences from what the other side holds, which a cut must not part."""
    chance = random.Random(1)
    with BreakingSession(Line(0.006, 20)) as session:
        for _ in range(15):
            session.round(Fault(chance.randrange(1, session.bytes)), Fault(chance.randrange(1, 2 * RESUMING)))
        assert session.faults > 20
