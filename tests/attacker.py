"""A client that says what no client of ours says: raw websocket frames, raw messages, raw command buffers.

It is greeted as any other client is, and keeps no rule from then on that its user does not keep.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from glremote.device.opening import prove
from glremote.host.serving import LocalHost
from glremote.link import near
from glremote.link.links import Link
from glremote.link.websocket import connect
from glremote.protocol.buffers import encode as buffer_of
from glremote.protocol.commands import Command
from glremote.protocol.messages import (
    VERSION,
    Buffer,
    Greeting,
    Hello,
    Lost,
    Patch,
    Resume,
    Resumed,
    decode,
    encode,
)

DEADLINE = 30.0
"""Seconds after which something that must happen is held not to."""
BINARY, TEXT, CONTINUATION, CLOSE, PING, PONG = 2, 1, 0, 8, 9, 10


def frame(opcode: int, data: bytes = b"", fin: bool = True, reserved: int = 0) -> bytes:
    """A websocket frame of a client (RFC 6455, 5.2), masked with zeros."""
    size = len(data)
    if size < 126:
        length = bytes((0x80 | size,))
    else:
        length = b"\xfe" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xff" + size.to_bytes(8, "big")
    return bytes((0x80 * fin | reserved | opcode,)) + length + bytes(4) + data


class Attacker:
    """A session of its own on a host."""

    def __init__(self, host: LocalHost, hello: Hello | None = None) -> None:
        self.host = host
        self.number = 0
        """Of the last message that was sent."""
        self.link: Link = connect(host.url, host.token)
        self.websocket = self.link
        self.heard: list[Any] = []
        self.say(encode(hello or Hello(VERSION, "attacker", "5", 430)))
        self.greeting = self.next() if hello is None else None

    # --- saying

    def say(self, *packets: bytes) -> None:
        """Send packets, as far as the host takes them within the deadline."""
        self.link.send([[packet] for packet in packets])
        self.link.drain(DEADLINE)

    def raw(self, data: bytes) -> None:
        """Send bytes past the websocket."""
        self.link.socket.setblocking(True)
        self.link.socket.sendall(data)
        self.link.socket.setblocking(False)

    def numbered(self, kind: Any, *fields: Any, body: bytes = b"") -> bytes:
        """A message with the next number."""
        self.number += 1
        return encode(kind(self.number, *fields), body) + body

    def buffer(self, commands: Sequence[Command], epoch: int = 0) -> bytes:
        """A command buffer."""
        return self.numbered(Buffer, epoch, body=buffer_of(commands))

    def patch(self, offset: int, data: bytes) -> bytes:
        """A patch."""
        return self.numbered(Patch, offset, body=data)

    # --- hearing

    def next(self) -> Any:
        """The next message; Lost where the session is."""
        end = time.monotonic() + DEADLINE
        while not self.heard:
            assert time.monotonic() < end, "nothing came"
            for packet in self.link.receive(1.0):
                self.heard += [message for message, _ in decode(packet)]
        return self.heard.pop(0)

    def everything(self, seconds: float) -> list[Any]:
        """All messages, until none has come for so many seconds."""
        found, self.heard = self.heard, []
        last = time.monotonic()
        while time.monotonic() - last < seconds:
            for packet in self.link.receive(0.1):
                found += [message for message, _ in decode(packet)]
                last = time.monotonic()
        return found

    def until(self, kind: type[Any]) -> Any:
        """The next message of a kind, or that the session is lost."""
        while not isinstance(found := self.next(), kind | Lost):
            pass
        return found

    def lost(self) -> str:
        """Why the session is lost, which must come."""
        found = self.until(Lost)
        assert isinstance(found, Lost)
        return found.reason

    def go_near(self) -> None:
        """Go past the gateway from now on."""
        assert isinstance(self.greeting, Greeting)
        way = near.connect(self.greeting.near, self.greeting.stack_size)
        assert way is not None
        self.link = way[0]
        self.say(encode(Resume(0)))
        assert isinstance(self.next(), Resumed)

    def resume(self) -> Link:
        """A second link, which has proven the session's key, and resumes nothing yet."""
        assert isinstance(self.greeting, Greeting)
        link = connect(self.host.url, self.host.token, self.greeting.session)
        prove(link, self.host.url, self.greeting.key)
        return link
