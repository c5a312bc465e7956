"""A websocket as the gateway reads it: a few frames at a time, and none while too much waits to be read by its client.

Knows: where frames begin and end (RFC 6455, 5.2), when anything came last, and when reading pauses. Does not know: who
may come in, or what a packet is for.

websockets parses all that has arrived at once, and answers each ping, whether its answers are read or not. 256 KiB of
empty frames are some 40,000, and take a second in which nobody else has a turn; answers that nobody reads are memory.
So what has arrived is handed to it in portions, between which everybody else has a turn; and nothing is read from the
socket before it is handed over, so that the rest stays with the client.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from websockets.asyncio.server import ServerConnection

from glremote.protocol.messages import LARGEST_PACKET

PORTION = 32
"""Frames that are parsed at once."""
MOST_UNREAD = 2 * LARGEST_PACKET
"""Bytes that wait for a client before the gateway stops reading from it: more than packets ever are, since those wait
for each other. So these are answers to pings."""
_MASK = 4
_LONGER = {126: 2, 127: 8}
"""How many bytes more tell a frame's length, by what is said instead of it."""


class Portions:
    """Says where portions of a stream of frames end, in each of which so many frames begin at most."""

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self._head = bytearray()  # of the frame that has begun, as far as it came
        self._left = 0  # bytes of its rest

    def end(self, data: bytes, at: int) -> int:
        """Where the portion ends that begins at this place of the data; at the data's end if it is not full."""
        begun, size = 0, len(data)
        while at < size:
            if self._left:
                step = min(self._left, size - at)
                self._left -= step
                at += step
                continue
            if not self._head:
                if begun == self._frames:
                    break
                begun += 1
            self._head.append(data[at])
            at += 1
            self._read_head()
        return at

    def _read_head(self) -> None:
        head = self._head
        if len(head) < 2:
            return
        length = head[1] & 0x7F
        longer = _LONGER.get(length, 0)
        if len(head) == 2 + longer:
            self._left = (int.from_bytes(head[2:]) if longer else length) + (_MASK if head[1] & 0x80 else 0)
            head.clear()


class Connection(ServerConnection):
    """Once it is open, it takes turns with the others."""

    heard = 0.0
    """When anything came last, be it only a ping or a part of a packet."""
    let_in: Callable[[], None] = staticmethod(lambda: None)
    """To be called when it has become its session's."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As websockets' own, without a task that waits for its request: the door's does. And it is we who pause."""
        super(ServerConnection, self).connection_made(transport)
        self.recv_messages.pause = self.recv_messages.resume = self._go_on
        self._portions = Portions(PORTION)
        self._arrived: deque[bytes] = deque()
        self._at = 0  # what of the first is handed over
        self._turn: asyncio.Handle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._arrived.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self.heard = time.monotonic()
        self._arrived.append(data)
        if len(self._arrived) == 1 and self._turn is None and not self._full:
            self._hand_over()
        else:
            self._go_on()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        super().resume_writing()
        self._go_on()

    async def beat(self) -> None:
        """Have the client give a sign of life. websockets' own `ping` keeps whatever is never answered."""
        async with self.send_context():
            self.protocol.send_ping(b"")

    def _go_on(self) -> None:
        """Hand over what has arrived, and then read more; or neither, for now."""
        if self.transport.is_closing():
            return
        full = self._full
        if self._arrived and not full and self._turn is None:
            self._turn = self.loop.call_soon(self._hand_over)
        if full or self._arrived:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    @property
    def _full(self) -> bool:
        """Whether there is enough that waits to be taken, up or down."""
        return self.recv_messages.paused or self.transport.get_write_buffer_size() > MOST_UNREAD

    def _hand_over(self) -> None:
        """Let websockets have a portion."""
        self._turn = None
        if not self._arrived:
            return
        data, at = self._arrived[0], self._at
        end = self._portions.end(data, at)
        if end == len(data):
            self._arrived.popleft()
            self._at = 0
        else:
            self._at = end
        super().data_received(data if end - at == len(data) else data[at:end])
        self._go_on()
