"""Sessions, from the gateway: packets are carried between a worker and whichever connection its client has.

Knows: websockets, and when a client that is gone is given up. Does not know: who may come in, or what is in a packet;
of all messages it writes only Lost and Notice itself, and those by which whoever comes back proves that the session is
theirs. That is done here, and not by the worker which greeted them, because a connection must not take the place of
another before, and because a worker may be busy for long. Each side is read only when what was read before is handed
over, so whoever does not read makes the other stop writing, and nothing gathers here. A session that goes past its
bytes-per-second is read later: see throttle.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from typing import TYPE_CHECKING

from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from glremote.host.port import Is, PortClosed, Tally
from glremote.link.links import Bytes
from glremote.link.websocket import KEEPALIVE
from glremote.protocol import proof
from glremote.protocol.errors import ProtocolError
from glremote.protocol.messages import VERSION, Challenge, Lost, Notice, Proof, Refused, decode, encode

from .connections import PORTION, Connection
from .devices import Served
from .throttle import Throttle
from .tokens import Token
from .workers import LONGEST_REASON, Worker, WorkerFailed

if TYPE_CHECKING:
    from . import Gateway

log = logging.getLogger("glremote.host")

CLOSE_TIMEOUT = 2.0
"""Seconds that a client may take to take leave; then the connection is cut."""
PING_INTERVAL = KEEPALIVE
PING_TIMEOUT = 15.0
"""Seconds without a sign of life. A client that is stopped for longer, as a whole, comes back within the grace time."""


PROOF_TIMEOUT = 10.0
"""Seconds that a client has to prove that the session is its own."""


class Session:
    """One session: its worker, at most one connection, and why it ended."""

    def __init__(self, gateway: Gateway, number: int, token: Token, served: Served, wanted: str | None = None) -> None:
        self.name = secrets.token_urlsafe(16)
        self.key = secrets.token_bytes(proof.SIZE)
        """The greeting carries it; see protocol/proof.py."""
        self.label = f"session {number}"
        self.token = token
        self.served = served
        """The device that it is on ..."""
        self.wanted = wanted
        """... and those that it may be on, by name; None: any."""
        self.connection: Connection | None = None
        self.task = asyncio.create_task(self._run(), name=self.label)
        self.began = time.time()
        self.peer = ""  # where its client is
        self.bytes_up = self.bytes_down = 0  # through the gateway
        self.tally = Tally()
        self.detached = 0.0
        """When it lost its connection, by time.monotonic, as all times here: uvloop's own are whole milliseconds."""
        self._gateway = gateway
        self._worker: Worker | None = None
        self._outliving: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self._reason: str | None = None  # why it ended; "" after a goodbye
        self._expiry: asyncio.TimerHandle | None = None
        self._introduced = False  # the worker knows the session's name
        self._attached = False  # the worker was told of a connection
        self._known = False  # a client can know the session's name, and come back
        self._reading_since: float | None = None  # nothing has come up since then, though we would take it
        self._throttle = Throttle(gateway.options.limits.changed(token.limits).bytes_per_second)
        self._void = asyncio.Event()  # what waits for its time belongs to a connection that was replaced
        self._telling: asyncio.Task[None] | None = None  # the client, that it is slowed down

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
        self._void.set()
        self._gateway.forget(self, reason)  # nobody comes back to it now
        if self._outliving is not None:
            self._outliving.cancel()
            self._outliving = None  # it holds the worker, and so memory and a descriptor
        if self._expiry is not None:
            self._expiry.cancel()
        figures = dict(zip(Tally._fields, self.tally, strict=True), bytes_up=self.bytes_up, bytes_down=self.bytes_down)
        log.info("%s ended%s", self.label, reason and f": {reason}", extra={"session": self.label, "fields": figures})
        await asyncio.gather(self._part(reason), self._worker.end() if self._worker else asyncio.sleep(0))
        self._started.set()

    async def _carry_down(self) -> str:
        """Carry what the worker sends, until its end; the reason of that."""
        try:
            self._worker = worker = await self._gateway.take_worker(self)
        except WorkerFailed as error:
            return f"the host has no worker for the session: {error}"
        worker.label = self.label
        self._started.set()
        self._outliving = asyncio.create_task(self._outlive(worker))
        numbers = itertools.count(1)
        try:
            while True:
                what, data = await worker.receive()
                if not next(numbers) % PORTION:  # what is there already is received and sent without another's turn
                    await asyncio.sleep(0)
                if what is Is.ENDED:
                    return bytes(data).decode(errors="replace")
                # A packet for a connection that is gone is dropped: the session's core sends it again.
                if what is Is.PACKET and self.connection is not None:
                    self._known = True
                    await self._send_down(data)
                elif what is Is.TALLY:
                    self.tally = Tally.decode(data)
        except ValueError as error:
            await worker.end()
            return f"the worker broke its protocol: {error}"
        except PortClosed:
            return await worker.end()

    async def _outlive(self, worker: Worker) -> None:
        """The session ends with its worker, also while its client takes nothing of what there is to be sent."""
        await worker.gone()
        await asyncio.sleep(CLOSE_TIMEOUT)
        self.end(await worker.end())

    async def _send_down(self, packet: Bytes) -> None:
        connection = self.connection
        await self._keep_to_rate(len(packet))
        if connection is not None and self.connection is connection:
            self.bytes_down += len(packet)
            with contextlib.suppress(ConnectionClosed):
                await connection.send(packet)

    async def _keep_to_rate(self, size: int) -> None:
        """Wait until a packet may go, and take it for gone; or until its connection is replaced, and the packet void.

        Meanwhile the client is pinged as ever, and its own pings are not missed: we do not read.
        """
        void = self._void
        async with self._throttle.turn:
            while not void.is_set() and (wait := self._throttle.wait()):
                if self._telling is None and self._known:
                    rate = f"{self._throttle.rate:,} bytes a second"
                    text = f"the host limits this context to {rate} (bytes-per-second): it goes on, more slowly"
                    self._telling = asyncio.create_task(self.tell(text))
                    log.info("%s is slowed down to %s", self.label, rate, extra={"session": self.label})
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await void.wait()
            if not void.is_set():
                self._throttle.take(size)

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

    async def resume(self, connection: Connection) -> None:
        """Be this connection's session once its client has proven the key; until then it changes nothing."""
        challenge = Challenge(secrets.token_bytes(proof.SIZE))
        try:
            async with asyncio.timeout(PROOF_TIMEOUT):
                await connection.send(encode(challenge))
                await connection.send(encode(proof.confirm(self.key, challenge, await _proof(connection))))
        except (ProtocolError, TimeoutError) as error:
            why = str(error) or f"the session's key was not proven within {PROOF_TIMEOUT:g} s"
            log.warning("%s: a connection was refused: %s", self.label, why, extra={"session": self.label})
            with contextlib.suppress(ConnectionClosed):
                await connection.send(encode(Refused("proof", why, VERSION)))
                await connection.close(CloseCode.POLICY_VIOLATION, "the session's key was not proven")
        except ConnectionClosed:
            pass
        else:
            if self._reason is None:  # else, coming again, the client is told why it ended
                await self.carry_up(connection)

    async def carry_up(self, connection: Connection) -> None:
        """Be this connection's session, in place of an older one's, and carry what its client sends."""
        connection.let_in()
        older, self.connection = self.connection, connection
        self._void.set()
        self._void = asyncio.Event()
        self.peer = _address(connection)
        if self._expiry is not None:
            self._expiry.cancel()
        pinging = asyncio.create_task(self._ping(connection))
        try:
            if older is not None:
                self._gateway.dismiss(older, "replaced by a newer connection of the session")
            await self._start_for(connection)
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

    async def _start_for(self, connection: Connection) -> None:
        """Wait for the worker, unless the client goes meanwhile: then nobody needs it, and its place is another's."""
        waiting = [asyncio.create_task(self._started.wait()), asyncio.create_task(connection.wait_closed())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()

    async def _receive(self, connection: Connection) -> bytes | str:
        self._reading_since = time.monotonic()
        try:
            return await connection.recv()
        finally:
            self._reading_since = None

    async def _send_up(self, connection: Connection, packet: bytes) -> None:
        if self.connection is connection:
            await self._keep_to_rate(len(packet))
        worker = self._living_worker()
        async with worker.lock:
            if self.connection is connection:
                self.bytes_up += len(packet)
                await worker.send(Is.PACKET, packet)

    async def _attach(self, connection: Connection) -> None:
        worker = self._living_worker()
        async with worker.lock:
            if self.connection is not connection:
                return
            if self._attached:
                await worker.send(Is.DETACHED)
            introduction = f"{self.name} {self._gateway.options.grace} {self.key.hex()}\n".encode()
            await worker.send(Is.ATTACHED, b"" if self._introduced else introduction)
            self._introduced = self._attached = True

    async def _detach(self, connection: Connection) -> None:
        """The connection is gone; the session stays for the grace time, if a client can know of it at all."""
        if self.connection is not connection or self._reason is not None:
            return
        self.connection, self.detached = None, time.monotonic()
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

    async def _ping(self, connection: Connection) -> None:
        """Cut a connection that gives no sign of life; not one that we do not read because its worker is busy."""
        while True:
            await asyncio.sleep(PING_INTERVAL)
            try:
                async with asyncio.timeout(PING_TIMEOUT):  # it waits where the client does not read
                    await connection.beat()
            except ConnectionClosed:
                return
            except TimeoutError:
                pass
            since = self._reading_since
            if since is not None and time.monotonic() - max(since, connection.heard) >= PING_TIMEOUT:
                why = "no sign of life from its client"
                log.warning("%s: %s for %g s", self.label, why, PING_TIMEOUT, extra={"session": self.label})
                connection.transport.abort()
                return


def _address(connection: Connection) -> str:
    """Where a connection comes from; nothing when it is gone already."""
    peer = connection.remote_address
    return str(peer[0]) if peer else ""


async def _proof(connection: Connection) -> Proof:
    """What answers our challenge. Raises ProtocolError and ConnectionClosed."""
    packet = await connection.recv()
    found = decode(packet) if isinstance(packet, bytes) else []
    if len(found) != 1 or not isinstance(found[0][0], Proof):
        raise ProtocolError("whoever comes back to a session begins with a Proof, and nothing else")
    return found[0][0]
