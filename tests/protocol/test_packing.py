"""Packing: what arrives is what was sent, in fewer bytes; and what arrives otherwise is refused."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glremote.host.serving import environment
from glremote.protocol.errors import ProtocolError
from glremote.protocol.messages import LARGEST_BODY, Packed, Patch
from glremote.protocol.packing import Packer, checksum, unpack
from glremote.protocol.stacks import Stack
from tests.protocol.strategies import SETTINGS

SIZE = 4 << 20


class Sides:
    """A sender and a receiver that face each other."""

    def __init__(self, level: int, size: int = SIZE, budget: int | None = None) -> None:
        self.sender, self.receiver = Stack(size), Stack(size)
        self.packer = Packer(self.sender, budget)
        self.packer.level = level

    def send(self, data: bytes, subject: str | None = "a picture", width: int = 4, free: bool = True) -> list[Any]:
        """Push, patch and apply; the messages with the sizes of their bodies."""
        span = self.sender.push(data, subject, width)
        assert span is not None
        sent = []
        for kind, fields, body in self.packer.patches(self.sender.take_fresh()):
            if kind is Patch:
                self.receiver.apply(fields[0], body)
            else:
                unpack(self.receiver, Packed(1, *fields), body)
            sent.append((kind, len(body), *fields))
        assert bytes(self.receiver.view(span)) == data
        if free:
            self.sender.pop(self.sender.head)
        return sent


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that nothing makes fewer."""
    return np.random.default_rng(seed).bytes(size)


def scene(shift: int, size: int = 1 << 20) -> bytes:
    """A smooth picture with something that moves."""
    picture = np.tile(np.arange(256, dtype=np.uint8), size // 256)
    picture[1000 * shift : 1000 * shift + 500] ^= 0x55
    return picture.tobytes()


def total(sent: list[Any]) -> int:
    """Bytes of the bodies."""
    return sum(size for _, size, *_ in sent)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16])
def test_what_is_alike_is_sent_as_the_difference(level: int, width: int) -> None:
    sides = Sides(level)
    first, second, third, same = (total(sides.send(scene(step), width=width)) for step in (0, 1, 2, 2))
    assert first < 1 << 18
    assert third < second
    assert same == 0


def test_a_place_that_was_used_since_is_no_base() -> None:
    sides = Sides(2)
    for step in range(3):
        sides.send(scene(step), free=False)
    *_, base, _ = sides.send(scene(3), free=False)[0]
    assert base == 2 << 20
    sides.sender.pop(sides.sender.head)
    sides.send(noise(SIZE), None)  # over all of it
    assert sides.send(scene(3))[0][4] is None


def test_what_does_not_become_fewer_is_sent_as_it_is() -> None:
    sides = Sides(2)
    for seed in range(3):
        assert [kind for kind, *_ in sides.send(noise(3 * LARGEST_BODY + 7, seed))] == [Patch] * 4


@pytest.mark.parametrize("size", [512, 513, LARGEST_BODY - 1, LARGEST_BODY + 1, 2 * LARGEST_BODY + 5])
def test_any_size(size: int) -> None:
    sides = Sides(1)
    for step in range(4):
        sides.send(scene(step, 4 << 20)[:size], width=3)


def test_small_spans_travel_together_as_they_are() -> None:
    sides = Sides(2)
    for size in (16, 32, 7):
        assert sides.sender.push(bytes(size), "small")
    assert sides.sender.push(bytes(600), "large")
    kinds = [kind for kind, *_ in sides.packer.patches(sides.sender.take_fresh())]
    assert kinds == [Patch, Packed]


def test_no_more_is_kept_than_the_budget() -> None:
    sides = Sides(2, budget=2 << 20)
    for _ in range(3):
        for subject in "abcd":
            sides.send(scene(1), subject)
    assert sides.packer._bytes <= 2 << 20
    assert sum(len(kept.data or b"") for kept in sides.packer._kept.values()) == sides.packer._bytes


@SETTINGS
@given(st.binary(max_size=40))
def test_checksum(data: bytes) -> None:
    words = len(data) // 8 * 8
    expected = sum(int.from_bytes(data[at : at + 8], "little") for at in range(0, words, 8)) + sum(data[words:])
    assert checksum(data) == expected % (1 << 64)


def _packed(data: bytes) -> bytes:
    """A body that is in order."""
    packer = Packer(Stack(16))
    packer.level = 1
    return packer._compress(data, 1)


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (Packed(1, 0, 1000, None, 0), b""),
        (Packed(1, 0, 1000, None, 0), b"x" * 15),
        (Packed(1, 0, 1000, None, 0), b"x" * 100),
        (Packed(1, 0, 999, None, 0), _packed(bytes(1000))),
        (Packed(1, 0, 1000, None, 0), _packed(bytes(1000))[:-1]),
        (Packed(1, 0, 1000, None, 0), _packed(bytes(1000)) + b"x"),
        (Packed(1, 3097, 1000, None, 0), _packed(bytes(1000))),
        (Packed(1, 0, 1000, 3097, 0), _packed(bytes(1000))),
        (Packed(1, 0, (1 << 48) - 1, 0, 0), b""),
        (Packed(1, 0, 1000, 0, 1), b""),
        (Packed(1, 0, 1000, 0, 1), _packed(bytes(1000))),
        (Packed(1, 0, 1000, 0, -1), _packed(bytes(1000))),
    ],
)
def test_what_is_wrong_is_refused_and_changes_nothing(message: Packed, body: bytes) -> None:
    stack = Stack(4096)
    stack.memory[:] = bytes(range(256)) * 16
    stack.memory[:1000] = bytes(1000)
    before = bytes(stack.memory)
    with pytest.raises(ProtocolError):
        unpack(stack, message, body)
    assert bytes(stack.memory) == before


@SETTINGS
@given(st.data())
def test_damaged_bodies_are_refused_or_are_something(data: st.DataObject) -> None:
    """Blosc's frames have no checksum of their own; nothing worse happens than other bytes."""
    body = bytearray(_packed(scene(1, 4096)))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    stack = Stack(8192)
    with contextlib.suppress(ProtocolError):
        unpack(stack, Packed(1, 0, 4096, None, 0), bytes(body))
    assert bytes(stack.memory[4096:]) == bytes(4096)


def test_nothing_is_logged_of_what_is_imported() -> None:
    """A program that shows everything that is logged sees no more for our sake."""
    code = "import logging; logging.basicConfig(level=0); from glremote.protocol.packing import prepare; prepare()"
    done = subprocess.run([sys.executable, "-P", "-c", code], env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
