"""The session's target: messages of a peer that keeps the order or does not, whose patches lie or do not.

Each input begins at a valid state: a session that has sent buffers, and whose peer has patched and asked.
"""

from __future__ import annotations

import random
from typing import Any

from glremote.protocol import messages as m
from glremote.protocol.errors import ProtocolError
from glremote.protocol.packing import Packer
from glremote.protocol.session import CREDIT_BYTES, CREDIT_MESSAGES, Session
from glremote.protocol.stacks import Offset, Stack

from .mutating import NUMBERS, bytes_gone_wrong, value_gone_wrong
from .record import CORPUS, read

STACK_SIZE = 1 << 13
PATTERN = bytes(range(256)) * (STACK_SIZE // 256)
SENT = 3


class Sessions:
    """Makes inputs, and runs them."""

    def __init__(self) -> None:
        self.memory = memoryview(bytearray(STACK_SIZE))
        self.recorded = [p for path in sorted(CORPUS.iterdir()) for p in read(path) if len(p) < 1 << 13]
        self.packed = list(self._every_packed())

    def _every_packed(self) -> list[tuple[tuple[Any, ...], bytes]]:
        """Fields and bodies of packed patches, of both levels, whole and as differences."""
        found = []
        for level in (1, 2):
            stack = Stack(STACK_SIZE)
            packer = Packer(stack)
            packer.level = level
            for shift in range(4):
                stack.push(bytes((at * at + shift * (at % 7 == 0)) % 251 for at in range(1000)), "of this", 4)
                for kind, fields, body in packer.patches(stack.take_fresh()):
                    if kind is m.Packed:
                        found.append((fields, bytes(body)))
                stack.pop(stack.head)
        assert any(fields[2] is not None for fields, _ in found), "no difference among them"
        return found

    def make(self, draw: random.Random) -> bytes:
        """Another input."""
        if draw.random() < 0.2:
            return bytes_gone_wrong(draw, draw.choice(self.recorded), self.recorded)
        packet = b""
        for number in range(1, draw.randrange(2, 7)):
            number = draw.choice((number, number, number, number, draw.choice(NUMBERS)))
            packet += self._message(draw, min(max(number, 1), (1 << 53) - 1))
        return packet if draw.random() < 0.7 else bytes_gone_wrong(draw, packet, self.recorded)

    def _message(self, draw: random.Random, number: int) -> bytes:
        kind = draw.randrange(6)
        body = b""
        message: m.Message
        if kind <= 2:
            (offset, size, base, checksum), body = draw.choice(self.packed)
            fields = [offset, size, base, checksum]
            if draw.random() < 0.5:
                at = draw.randrange(3)
                hints = (Offset, Offset, Offset | None)
                fields[at] = value_gone_wrong(draw, hints[at], fields[at])
            if draw.random() < 0.6:
                body = bytes_gone_wrong(draw, body, [data for _, data in self.packed if data])
            message = m.Packed(number, *fields)
        elif kind == 3:
            body = bytes(draw.randrange(300))
            message = m.Patch(number, draw.choice((draw.randrange(STACK_SIZE), abs(draw.choice(NUMBERS)) % (1 << 48))))
        elif kind == 4:
            message, body = m.Buffer(number, draw.choice((0, 1, -5))), b"\x90"
        else:
            message = m.Applied(draw.choice((0, 1, 2, 3, 3, 4, 1 << 52)))
        return m.encode(message, body) + body

    def run(self, data: bytes) -> None:
        """Raises whatever is no refusal, and where something was half done."""
        self.memory[:] = PATTERN
        session = Session(Stack(STACK_SIZE, memoryview(bytearray(64))), Stack(STACK_SIZE, self.memory))
        for _ in range(SENT):
            session.send(m.Answer, 1, 0, 0, None, None)
        before = session.received
        try:
            to_do = session.receive(data)
        except ProtocolError:
            self._whole_or_not_at_all(data)
            return
        assert session.applied <= session.received and session.received - before <= len(data)
        for message, _ in to_do:
            if isinstance(message, m.Buffer):
                session.done(message.number)
        session.acknowledge()
        assert len(session._kept) <= SENT and session._kept_bytes >= 0
        assert len(to_do) <= CREDIT_MESSAGES and sum(len(body) for _, body in to_do) <= CREDIT_BYTES

    def _whole_or_not_at_all(self, data: bytes) -> None:
        """The stack is as the patches before the refused message left it, each alone applied to a stack of its own."""
        expected = Stack(STACK_SIZE, memoryview(bytearray(PATTERN)))
        session = Session(Stack(STACK_SIZE, memoryview(bytearray(64))), expected)
        for _ in range(SENT):
            session.send(m.Answer, 1, 0, 0, None, None)
        try:
            found = m.decode(data)
        except ProtocolError:
            assert self.memory == PATTERN
            return
        for message, body in found:
            before = bytes(expected.memory)
            try:
                session.receive(m.encode(message, body) + bytes(body))
            except ProtocolError:
                assert expected.memory == before, "a refused patch was half applied"
                break
        assert self.memory == expected.memory


