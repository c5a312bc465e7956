"""Packets through shared memory and a socket beside it: all of them, once, in their order, and nobody oversleeps."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time

import pytest

from glremote.link import mailbox
from glremote.link.links import Link, LinkBroken
from glremote.link.mailbox import SIZE, Mailbox, SharedLink

LARGEST = 1 << 20
LONG = 20.0


def pair(spin: float) -> tuple[SharedLink, SharedLink, memoryview]:
    """Two links that face each other, and the memory between them."""
    memory = memoryview(bytearray(2 * SIZE))
    one, other = Mailbox(memory[:SIZE]), Mailbox(memory[SIZE:])
    near, far = socket.socketpair()
    return SharedLink(near, LARGEST, one, other, spin), SharedLink(far, LARGEST, other, one, spin), memory


def wait(link: Link) -> list[bytes]:
    """The next packets; sleeps as a caller of the device does."""
    while not (packets := link.receive_soon()):
        assert link.poll(LONG), "nobody rang"
    return [bytes(packet) for packet in packets]


def content(number: int) -> list[bytes]:
    """Packet `number`, in pieces: one in ten is too large for a mailbox."""
    chance = random.Random(number)
    size = chance.choice((SIZE, 3 * SIZE)) if chance.random() < 0.1 else chance.randrange(1, 400)
    return [struct.pack("I", number), bytes([number % 251]) * (size // 2), bytes([number % 241]) * (size - size // 2)]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("spin", [0.0, 0.0002])
def test_packets_arrive_once_and_in_order(spin: float, ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bursts, so that a packet follows another that was taken, or was not, by somebody who is awake or asleep."""
    monkeypatch.setattr(mailbox, "ORDERED", ordered)
    one, other, _ = pair(spin)
    count = 3000
    got: list[bytes] = []

    def receive() -> None:
        while len(got) < count:
            got.extend(wait(other))

    receiver = threading.Thread(target=receive)
    receiver.start()
    chance, number = random.Random(7), 0
    while number < count:
        burst = range(number, min(count, number + chance.choice((1, 1, 1, 2, 5))))
        one.send([content(n) for n in burst])
        one.drain()
        number = burst.stop
        time.sleep(chance.choice((0.0, 0.0, 0.0, 0.0001, 0.001)))
    receiver.join(LONG)
    assert not receiver.is_alive() and got == [b"".join(content(n)) for n in range(count)]


def test_asking_and_answering() -> None:
    """Each side sends when it has received, as a program that reads does."""
    one, other, _ = pair(0.0002)
    count = 2000

    def answer() -> None:
        for _ in range(count):
            (packet,) = wait(other)
            other.send([[packet, b"!"]])

    threading.Thread(target=answer, daemon=True).start()
    for number in range(count):
        one.send([content(number)])
        one.drain()
        assert wait(one) == [b"".join(content(number)) + b"!"]


def test_a_small_packet_is_left_in_memory_and_a_sleeper_is_rung() -> None:
    one, other, memory = pair(0.0)
    one.send([[b"early"]])
    assert b"early" in bytes(memory)
    assert other.poll(LONG), "it did not ring"
    one.send([[b"second"], [b"third"]])
    assert wait(other) == [b"early"]
    assert wait(other) == [b"second", b"third"]
    assert other.receive() == []
    assert one.bytes_sent > 16 and one.bytes_sent == other.bytes_received


def test_nobody_is_rung_who_is_awake() -> None:
    one, other, memory = pair(0.0)
    Mailbox(memory[SIZE:]).awake[0] = 1
    one.send([[b"early"]])
    assert not other.poll(0.01)
    assert other.receive() == [b"early"]


def test_what_lies_in_memory_is_received_before_the_end() -> None:
    one, other, _ = pair(0.0)
    one.send([[b"last"]])
    one.close()
    assert other.receive() == [b"last"]
    with pytest.raises(LinkBroken, match="closed"):
        wait(other)


def test_a_length_beyond_the_mailbox_is_cut() -> None:
    """The other process may write what it likes; nothing outside of the mailbox is read."""
    one, other, memory = pair(0.0)
    one.send([[b"packet"]])
    memory[SIZE + 80 : SIZE + 88] = struct.pack("Q", 2**63)
    (packet,) = other.receive()
    assert len(packet) < SIZE and bytes(packet[:6]) == b"packet"


def test_a_mailbox_begins_again() -> None:
    one, other, memory = pair(0.0)
    one.send([[b"packet"]])
    assert other.receive() == [b"packet"]
    for start in (0, SIZE):
        Mailbox(memory[start : start + SIZE]).clear()
    assert not any(memory[:88]) and not any(memory[SIZE : SIZE + 88])
