"""Sessions, from the gateway: packets are carried between a worker and whichever connection its client has.

Knows: websockets, and when a client that is gone is given up. Does not know: who may come in, or what is in a packet;
of all messages it writes two itself, Lost and Notice. Each side is read only when what was read before is handed over,
so whoever does not read makes the other stop writing, and nothing gathers here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from typing import TYPE_CHECKING

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from glremote.host.port import Is, PortClosed, Tally
from glremote.protocol.messages import Lost, Notice, encode

from .workers import LONGEST_REASON, Worker, WorkerFailed

if TYPE_CHECKING:
    from . import Gateway

log = logging.getLogger("glremote.host")

CLOSE_TIMEOUT = 2.0
"""Seconds that a client may take to take leave; then the connection is cut."""
PING_INTERVAL = 20.0
PING_TIMEOUT = 60.0
"""Seconds without a sign of life; generous, since a client may be busy in a call that holds its interpreter lock."""


class Session:
    """One session: its worker, at most one connection, and why it ended."""

    def __init__(self, gateway: Gateway, number: int) -> None:
        self.name = secrets.token_urlsafe(16)
        self.label = f"session {number}"
        self.connection: ServerConnection | None = None
        self.task = asyncio.create_task(self._run(), name=self.label)
        self.began = time.time()
        self.peer = ""  # where its client is
        self.bytes_up = self.bytes_down = 0  # through the gateway
        self.tally = Tally()
        self._gateway = gateway
        self._worker: Worker | None = None
        self._started = asyncio.Event()
        self._reason: str | None = None  # why it ended; "" after a goodbye
        self._expiry: asyncio.TimerHandle | None = None
        self._introduced = False  # the worker knows the session's name
        self._attached = False  # the worker was told of a connection
        self._known = False  # a client can know the session's name, and come back
        self._reading_since: float | None = None  # nothing has come up since then, though we would take it

    def end(self, reason: str) -> None:
        """End the session, unless it is ending already."""
        if self._reason is None:
            self._reason = reason
            self.task.cancel()

    @property
    def state(self) -> str:
        """In a word or two, for whoever looks."""
        if self._reason is not None:
            return "ending"
        if not self._started.is_set():
            return "starting"
        if self.connection is None:
            return "away"
        return "connected" if self._known else "greeting"

    @property
    def renderer(self) -> str:
        """The name of what it renders with, once it has a worker."""
        return self._worker.renderer if self._worker is not None else ""

    @property
    def unsent(self) -> int:
        """How many bytes wait for the client to take them."""
        return self.connection.transport.get_write_buffer_size() if self.connection is not None else 0

    async def tell(self, text: str) -> None:
        """Tell the client's user something, if there is a client that was greeted."""
        if self._known and (connection := self.connection) is not None:
            with contextlib.suppress(ConnectionClosed):
                await connection.send(encode(Notice(text)))

    # --- the session's own task

    async def _run(self) -> None:
        try:
            reason = await self._carry_down()
        except asyncio.CancelledError:
            reason = self._reason or ""
        except Exception as error:
            log.exception("%s: the gateway failed", self.label, extra={"session": self.label})
            reason = f"the gateway failed: {error!r}"
        self._reason = reason = reason[:LONGEST_REASON]
        self._gateway.forget(self, reason)  # nobody comes back to it now
        if self._expiry is not None:
            self._expiry.cancel()
        figures = dict(zip(Tally._fields, self.tally, strict=True), bytes_up=self.bytes_up, bytes_down=self.bytes_down)
        log.info("%s ended%s", self.label, reason and f": {reason}", extra={"session": self.label, "fields": figures})
        await asyncio.gather(self._part(reason), self._worker.end() if self._worker else asyncio.sleep(0))
        self._started.set()

    async def _carry_down(self) -> str:
        """Carry what the worker sends, until its end; the reason of that."""
        try:
            self._worker = worker = await self._gateway.take_worker()
        except WorkerFailed as error:
            return f"the host has no worker for the session: {error}"
        worker.label = self.label
        self._started.set()
        try:
            while True:
                what, data = await worker.receive()
                if what is Is.ENDED:
                    return bytes(data).decode(errors="replace")
                # A packet for a connection that is gone is dropped: the session's core sends it again.
                if what is Is.PACKET and self.connection is not None:
                    self._known = True
                    self.bytes_down += len(data)
                    with contextlib.suppress(ConnectionClosed):
                        await self.connection.send(data)
                elif what is Is.TALLY:
                    self.tally = Tally.decode(data)
        except ValueError as error:
            await worker.end()
            return f"the worker broke its protocol: {error}"
        except PortClosed:
            return await worker.end()

    async def _part(self, reason: str) -> None:
        """Tell the client why, if there is anything to tell, and close its connection."""
        if (connection := self.connection) is None:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                if reason:
                    await connection.send(encode(Lost(reason)))
                await connection.close()
        except (TimeoutError, ConnectionClosed):
            connection.transport.abort()

    # --- a connection's task

    async def carry_up(self, connection: ServerConnection) -> None:
        """Be this connection's session, in place of an older one's, and carry what its client sends."""
        older, self.connection = self.connection, connection
        self.peer = _address(connection)
        if self._expiry is not None:
            self._expiry.cancel()
        pinging = asyncio.create_task(self._ping(connection))
        try:
            if older is not None:
                self._gateway.dismiss(older, "replaced")
            await self._started.wait()
            await self._attach(connection)
            while self.connection is connection:
                packet = await self._receive(connection)
                if isinstance(packet, str):
                    await connection.close(CloseCode.UNSUPPORTED_DATA, "packets are binary messages, and this was text")
                    break
                await self._send_up(connection, packet)
        except ConnectionClosed:
            pass
        except PortClosed:
            await connection.wait_closed()  # the session's own task tells why, and closes it
        finally:
            pinging.cancel()
            await self._detach(connection)

    async def _receive(self, connection: ServerConnection) -> bytes | str:
        self._reading_since = asyncio.get_running_loop().time()
        try:
            return await connection.recv()
        finally:
            self._reading_since = None

    async def _send_up(self, connection: ServerConnection, packet: bytes) -> None:
        # Buffers are to be timed from here (handed over) to `_carry_down` (done), so that a worker that hangs is ended.
        worker = self._living_worker()
        async with worker.lock:
            if self.connection is connection:
                self.bytes_up += len(packet)
                await worker.send(Is.PACKET, packet)

    async def _attach(self, connection: ServerConnection) -> None:
        worker = self._living_worker()
        async with worker.lock:
            if self.connection is not connection:
                return
            if self._attached:
                await worker.send(Is.DETACHED)
            grace = self._gateway.options.grace
            await worker.send(Is.ATTACHED, b"" if self._introduced else f"{self.name} {grace}\n".encode())
            self._introduced = self._attached = True

    async def _detach(self, connection: ServerConnection) -> None:
        """The connection is gone; the session stays for the grace time, if a client can know of it at all."""
        if self.connection is not connection or self._reason is not None:
            return
        self.connection = None
        grace = self._gateway.options.grace if self._known else 0.0
        why = f"nobody came back to it within {grace:g} s"
        self._expiry = asyncio.get_running_loop().call_later(grace, self.end, why)
        with contextlib.suppress(PortClosed):
            worker = self._living_worker()
            async with worker.lock:
                if self.connection is None and self._attached:
                    self._attached = False
                    await worker.send(Is.DETACHED)

    def _living_worker(self) -> Worker:
        if self._worker is None or self._reason is not None:
            raise PortClosed("the session is over")
        return self._worker

    async def _ping(self, connection: ServerConnection) -> None:
        """Cut a connection that gives no sign of life; not one that we do not read because its worker is busy."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(PING_INTERVAL)
            try:
                async with asyncio.timeout(PING_TIMEOUT):
                    await (await connection.ping())
            except ConnectionClosed:
                return
            except TimeoutError:
                if self._reading_since is not None and loop.time() - self._reading_since >= PING_TIMEOUT:
                    why = "no sign of life from its client"
                    log.info("%s: %s for %g s", self.label, why, PING_TIMEOUT, extra={"session": self.label})
                    connection.transport.abort()
                    return


def _address(connection: ServerConnection) -> str:
    """Where a connection comes from; nothing when it is gone already."""
    peer = connection.remote_address
    return str(peer[0]) if peer else ""
