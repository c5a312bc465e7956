"""A fixed share of what `make fuzz` does, and every input that was ever found to do harm, once more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from glremote.protocol import buffers, messages
from glremote.protocol.errors import ProtocolError
from glremote.protocol.session import CREDIT_MESSAGES, Session
from glremote.protocol.stacks import Stack

from .__main__ import FINDS, TARGETS, fuzz
from .interpreter import STATE, Runner
from .record import CORPUS, read

SHARE = {"decoder": 10_000, "session": 6_000, "interpreter": 60}
MOST_GROWTH = 32.0
"""Megabytes."""


@pytest.mark.parametrize("target", SHARE)
def test_a_fixed_share_does_no_harm(target: str) -> None:
    said: list[str] = []
    count, finds = fuzz(target, SHARE[target], 60.0, seed=1, say=said.append)
    assert not finds, "\n".join(said)
    assert count == SHARE[target]
    assert float(said[-1].split()[-4]) < MOST_GROWTH, said[-1]


@pytest.mark.parametrize("path", sorted(FINDS.glob("*")), ids=lambda path: path.name)
def test_what_was_found_does_no_harm_any_more(path: Path) -> None:
    what = TARGETS[path.name.split("-")[0]]()
    try:
        what.run(path.read_bytes())
    finally:
        if hasattr(what, "close"):
            what.close()


@pytest.fixture
def runner() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.close()


def test_the_state_that_inputs_begin_at_is_valid(runner: Runner) -> None:
    """All of its commands run: what follows finds an object of each kind."""
    runner.run(buffers.encode(STATE))


def test_a_crash_of_the_driver_s_process_is_seen(runner: Runner) -> None:
    runner.run(buffers.encode(STATE))
    assert runner.child is not None
    runner.child.process.kill()
    with pytest.raises(AssertionError, match="ended with -9"):
        runner.run(buffers.encode(STATE))
    runner.run(buffers.encode(STATE))  # another child


def test_the_corpus_is_what_sessions_said() -> None:
    for path in CORPUS.iterdir():
        assert [message for packet in read(path) for message, _ in messages.decode(packet)]


def test_a_peer_that_minds_no_credit_is_refused() -> None:
    session = Session(Stack(1 << 12), Stack(1 << 12))
    message = messages.encode(messages.Buffer(1, 0), b"\x90")
    assert session.receive(message + b"\x90")
    with pytest.raises(ProtocolError, match="credit"):
        for number in range(2, CREDIT_MESSAGES + 100):
            session.receive(messages.encode(messages.Buffer(number, 0), b"\x90") + b"\x90")
    assert session.given == CREDIT_MESSAGES


def test_credit_comes_back_as_buffers_are_done() -> None:
    session = Session(Stack(1 << 12), Stack(1 << 12))
    for number in range(1, 3 * CREDIT_MESSAGES):
        ((_, _),) = session.receive(messages.encode(messages.Buffer(number, 0), b"\x90") + b"\x90")
        if number > 100:
            session.done(number - 100)
    assert session.given == 3 * CREDIT_MESSAGES - 1


def test_a_small_buffer_does_not_hold_a_large_packet() -> None:
    session = Session(Stack(1 << 20), Stack(1 << 20))
    patch = bytes(1 << 19)
    packet = messages.encode(messages.Patch(1, 0), patch) + patch
    packet += messages.encode(messages.Buffer(2, 0), b"\x90") + b"\x90"
    ((_, body),) = session.receive(packet)
    assert bytes(memoryview(body).obj) == b"\x90"


def test_a_packet_of_more_than_the_greatest_is_refused() -> None:
    one = messages.encode(messages.Applied(0))
    with pytest.raises(ProtocolError, match="the greatest has"):
        messages.decode(one * (messages.LARGEST_PACKET // len(one) + 1))
