"""The link cut after every k-th byte of a session that draws, uploads and reads; stalled, slowed, two failures at once.

Each round comes to the digest of an undisturbed one, and each of its buffers ran once: sessions.py says how that is
known. `make soak` goes on with bytes by chance.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from glremote.device import opening
from glremote.link import websocket
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


def test_a_link_that_stalls_is_broken_and_made_again(caplog: pytest.LogCaptureFixture) -> None:
    """The program sees a pause and a line in the log, whichever direction had the next byte."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(websocket, "KEEPALIVE", 0.2)
        with BreakingSession() as session:
            for byte in (50, 300, session.bytes // 2, session.bytes - 100):
                caplog.clear()
                began, before = time.monotonic(), session.relay.connections
                assert session.round(Fault(byte, stall=60.0)) == 1
                assert 0.5 < time.monotonic() - began < 20.0
                assert session.relay.connections == before + 1
                assert [record.levelname for record in caplog.records] == ["WARNING"]
                assert "the link has stalled; resuming" in caplog.text


def test_a_link_that_stalls_while_it_is_resuming(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(websocket, "KEEPALIVE", 0.2)
        patch.setattr(opening, "PROOF_TIMEOUT", 1.0)
        with BreakingSession() as session:
            for byte in (1, 400, 560, 700, 800):  # HTTP's request and response, the proofs, Resume
                assert session.round(Fault(session.bytes // 2), Fault(byte, stall=60.0)) == 2


def test_slow_work_and_a_breakpoint_are_no_stall() -> None:
    """A program that stands still, or a host that works, for many times what a stalled link is allowed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(websocket, "KEEPALIVE", 0.1)
        with BreakingSession() as session:
            time.sleep(2.0)
            work = session.ctx.compute_shader("""#version 430
                layout(local_size_x=64) in; layout(std430, binding=2) buffer Result { uint result[]; };
                void main() {
                    uint x = gl_GlobalInvocationID.x;
                    for (uint i = 0u; i < 20000u; i++) x = x * 1664525u + 1013904223u;
                    result[gl_LocalInvocationID.x] = x;
                }""")
            result = session.ctx.buffer(reserve=256)
            result.bind_to_storage_buffer(2)
            seconds, times = 0.0, 1
            while seconds < 2.0:
                times *= 2
                began = time.monotonic()
                for _ in range(times):
                    work.run(256)
                result.read()
                seconds = time.monotonic() - began
            session.round()
            assert session.relay.connections == 1


def test_slow_link_cut_anywhere() -> None:
    """So far away that data is packed: differences from what the other side holds, which a cut must not part."""
    chance = random.Random(1)
    with BreakingSession(Line(0.006, 20)) as session:
        for _ in range(15):
            session.round(Fault(chance.randrange(1, session.bytes)), Fault(chance.randrange(1, 2 * RESUMING)))
        assert session.faults > 20
