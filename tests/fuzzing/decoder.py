"""The decoder's target: bytes become messages, commands, frames or packets of a mailbox, or are refused in words."""

from __future__ import annotations

import random
import struct

from glremote.link.links import Frames, LinkBroken
from glremote.link.mailbox import SIZE, Mailbox
from glremote.protocol import buffers, messages
from glremote.protocol.buffers import Checker
from glremote.protocol.errors import ProtocolError
from glremote.protocol.messages import Buffer
from glremote.protocol.stacks import Stack

from .mutating import NUMBERS, bytes_gone_wrong, command_gone_wrong
from .record import CORPUS, read

PACKET, COMMANDS, FRAMES, MAILBOX = range(4)
HEADER = struct.Struct(">IB")
LARGEST = 1 << 16
STACK_SIZE = 1 << 20


class Decoder:
    """Makes inputs, and runs them. The first byte of an input says what the others are."""

    def __init__(self) -> None:
        files = sorted(CORPUS.iterdir())
        self.packets = [packet for path in files for packet in read(path) if len(packet) < 1 << 14]
        found = (item for path in files for packet in read(path) for item in messages.decode(packet))
        self.bodies = [bytes(body) for message, body in found if isinstance(message, Buffer) and len(body) < 1 << 14]
        self.stack = Stack(STACK_SIZE)
        self.memory = memoryview(bytearray(SIZE))
        buffers.prepare()

    def make(self, draw: random.Random) -> bytes:
        """Another input."""
        kind = draw.choice((PACKET, PACKET, COMMANDS, COMMANDS, COMMANDS, FRAMES, MAILBOX))
        if kind == PACKET:
            data = bytes_gone_wrong(draw, draw.choice(self.packets), self.packets)
        elif kind == COMMANDS and draw.random() < 0.3:
            found = buffers.decode(draw.choice(self.bodies))
            at = draw.randrange(len(found))
            data = buffers.encode([*found[:at], command_gone_wrong(draw, found[at]), *found[at + 1 :]])
        elif kind == COMMANDS:
            data = bytes_gone_wrong(draw, draw.choice(self.bodies), self.bodies)
        elif kind == FRAMES:
            some = draw.choices(self.packets, k=3)
            whole = b"".join(HEADER.pack(len(packet), draw.randrange(5)) + packet for packet in some)
            data = bytes_gone_wrong(draw, whole, self.packets)
        else:
            data = b"".join((draw.choice(NUMBERS) % (1 << 64)).to_bytes(8, "little") for _ in range(6))
        return bytes((kind,)) + data

    def run(self, data: bytes) -> None:
        """Raises whatever is no refusal."""
        kind, data = data[0], data[1:]
        (self._packet, self._commands, self._frames, self._mailbox)[kind](data)

    def _packet(self, data: bytes) -> None:
        try:
            found = messages.decode(data)
        except ProtocolError:
            return
        size = 0
        for message, body in found:
            size += len(messages.encode(message, body)) + len(body)
            if isinstance(message, Buffer):
                self._commands(bytes(body))
        assert len(found) <= len(data) and size <= 10 * len(data) + 1000

    def _commands(self, data: bytes) -> None:
        checker = Checker(self.stack)
        try:
            found = buffers.decode(data)
            encoded = buffers.encode(found)
            assert buffers.encode(buffers.decode(encoded)) == encoded
            checker.check(found)
        except ProtocolError:
            return
        assert checker.data <= buffers.LARGEST_DATA

    def _frames(self, data: bytes) -> None:
        """In pieces as in one."""
        whole, broken = self._split(data, len(data) or 1)
        pieces, also_broken = self._split(data, len(data) // 5 + 1)
        assert broken == also_broken and (broken or pieces == whole)

    def _split(self, data: bytes, step: int) -> tuple[list[tuple[tuple[int, ...], bytes]], bool]:
        frames = Frames(HEADER, LARGEST)
        found: list[tuple[tuple[int, ...], bytes]] = []
        try:
            for at in range(0, len(data), step):
                found += frames.split(data[at : at + step])
        except LinkBroken:
            return found, True
        assert len(found) == self._whole(data)
        return found, False

    def _whole(self, data: bytes) -> int:
        """How many frames lie in this, before one that is too large or not whole."""
        at = count = 0
        while len(data) - at >= HEADER.size:
            at += HEADER.size + HEADER.unpack_from(data, at)[0]
            if at > len(data):
                break
            count += 1
        return count

    def _mailbox(self, data: bytes) -> None:
        self.memory[: len(data[:16])] = data[:16]
        self.memory[64 : 64 + len(data[16:48])] = data[16:48]
        box = Mailbox(self.memory)
        number = int.from_bytes(data[40:48], "little")
        found = box.get(number)
        assert found is None or len(found) <= SIZE
        assert box.put(number, (bytes(64), bytes(SIZE))) == 0
