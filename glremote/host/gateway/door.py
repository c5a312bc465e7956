"""The door: listens, and opens websockets, so that whoever was not admitted yet costs next to nothing.

Knows: TCP, TLS and HTTP's upgrade, and how many may stand before the door, how long, and how much they may say. Does
not know: tokens or sessions.

Until its first byte comes a visitor is a socket and a small task: no TLS, no buffer. All until it is admitted has one
deadline and a few KiB. Where too many stand there, the one that came first goes: who means well is admitted within
milliseconds, so whoever has stood there longest is likely not to; and a newcomer gets in through any crowd.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import http
import ipaddress
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import WebSocketException
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from glremote.link.reaching import TIMING_HEADER
from glremote.protocol.devices import DEVICE_HEADER
from glremote.protocol.messages import LARGEST_PACKET

from .devices import Served
from .sessions import CLOSE_TIMEOUT, Connection
from .tokens import Token

log = logging.getLogger("glremote.host")

OPEN_TIMEOUT = 5.0
"""Seconds from the first sign of a visitor until it must be admitted, TLS and all."""
LARGEST_REQUEST = 1 << 14
"""Bytes that it may send until then, beside TLS's own. (websockets takes 128 headers of 8 KiB at most.)"""
MOST_VISITORS = 256
"""So many at a time may not be admitted yet."""
MOST_OF_AN_ADDRESS = 64
"""So many of them from one address; of IPv6 the first 64 bits are one."""
BACKLOG = 1024
"""Connections that the system keeps until we take them."""
MOST_FRAMES = 8
"""How many websocket frames may wait for a worker before the gateway stops reading from their client."""
WRITE_LIMIT = (1 << 20, 1 << 18)
"""How many bytes may wait for a client before the gateway stops reading from its worker, and starts again."""
SHORT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
TLS_HELLO = b"\x16"
"""The first byte of whoever speaks TLS; no request of HTTP begins so."""

Admit = Callable[["Visitor", Request], Awaitable[Response] | Response | None]
"""Before the websocket opens: None, or what is answered instead, a refusal or a page."""


class Visitor(Connection):
    """A connection, before and after it is admitted."""

    address = ""
    asked_at = 0.0
    """When its request began to come, at the latest (the event loop's time)."""
    token: Token | None = None
    """What it was admitted with."""
    served: Served | None = None
    """The device of its session."""
    _said = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As websockets' own, without a task that waits for its request: the door's does."""
        super(ServerConnection, self).connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """As websockets' own, unless it is too much."""
        if self.state is State.CONNECTING:
            self._said += len(data)
            if self._said > LARGEST_REQUEST:
                status = http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                self.transport.write(response(status, f"a request has at most {LARGEST_REQUEST} bytes"))
                self.transport.close()
                return
        super().data_received(data)


class Door:
    """Listens at an address; who is admitted is given to `connected`, for as long as it stays."""

    def __init__(
        self, admit: Admit, connected: Callable[[Visitor], Awaitable[None]], tls: ssl.SSLContext | None
    ) -> None:
        self._admit = admit
        self._connected = connected
        self._tls = tls
        self._sockets: list[socket.socket] = []
        self._listening: list[asyncio.Task[None]] = []
        self._visits: set[asyncio.Task[None]] = set()
        self._waiting: dict[str, dict[asyncio.Task[None], None]] = {}  # those not admitted, by address, oldest first
        self._log = logging.getLogger("glremote.host.websockets")
        self._log.setLevel(logging.WARNING)

    async def open(self, bind: str, port: int) -> tuple[str, int]:
        """Listen; the address and the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(bind, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        trouble: OSError | None = None
        for family, _, _, _, address in dict.fromkeys(found):
            here = (address[0], self._sockets[0].getsockname()[1] if self._sockets else port)
            try:
                self._sockets.append(socket.create_server(here, family=family, backlog=BACKLOG))
            except OSError as error:  # "localhost" has addresses of a kind that this machine may lack
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    self.close()
                    raise
                trouble = error
        if not self._sockets:
            raise trouble or OSError(errno.EADDRNOTAVAIL, f"{bind} has no address")
        for sock in self._sockets:
            sock.setblocking(False)
            self._listening.append(asyncio.create_task(self._listen(sock)))
        host, listens = self._sockets[0].getsockname()[:2]
        return host, listens

    def close(self) -> None:
        """Listen no more, and send away whoever is not admitted."""
        for task in self._listening:
            task.cancel()
        for sock in self._sockets:
            sock.close()
        for visits in list(self._waiting.values()):
            for visit in list(visits):
                visit.cancel()

    @property
    def addresses(self) -> list[str]:
        """Where it listens."""
        return [sock.getsockname()[0] for sock in self._sockets]

    def is_serving(self) -> bool:
        """What a ServerConnection asks its server: whether it may be admitted."""
        return bool(self._listening) and not self._listening[0].cancelling()

    # --- who comes

    async def _listen(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        complained = False
        while True:
            try:
                sock, peer = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in SHORT_OF_DESCRIPTORS:
                    if not complained:
                        log.error("no connection can be taken now: %s", error.strerror)
                    complained = True
                    self._make_room(1, 1)
                await asyncio.sleep(0.1)  # or else an error that stays would keep everybody else from running
                continue
            complained = False
            address = address_of(peer[0])
            self._make_room(MOST_VISITORS, MOST_OF_AN_ADDRESS, address)
            visit = asyncio.create_task(self._visit(sock, address))
            self._visits.add(visit)
            self._waiting.setdefault(address, {})[visit] = None
            visit.add_done_callback(self._visits.discard)
            visit.add_done_callback(functools.partial(self._came_in, address))

    def _make_room(self, most: int, most_of_one: int, address: str = "") -> None:
        """For one more: of this address, if it has so many, else of the one that has most, the oldest goes."""
        if len(self._waiting.get(address, ())) < most_of_one:
            if sum(map(len, self._waiting.values())) < most:
                return
            address = max(self._waiting, key=lambda one: len(self._waiting[one]))
        oldest = next(iter(self._waiting[address]))
        self._came_in(address, oldest)
        oldest.cancel()

    def _came_in(self, address: str, visit: asyncio.Task[None]) -> None:
        """It waits no more: it is admitted, or gone."""
        if visits := self._waiting.get(address):
            visits.pop(visit, None)
            if not visits:
                del self._waiting[address]

    async def _visit(self, sock: socket.socket, address: str) -> None:
        """All of a connection, from its first byte to its end."""
        connection: Visitor | None = None
        try:
            async with asyncio.timeout(OPEN_TIMEOUT):
                connection = await self._open(sock, address)
                if connection is not None:
                    await connection.handshake(self._admit, _introduce, "glremote")  # type: ignore[arg-type]
            if connection is None or connection.state is not State.OPEN:
                return
            visit = asyncio.current_task()
            assert visit is not None
            self._came_in(address, visit)
            async with connection:
                await self._connected(connection)
        except (OSError, EOFError, WebSocketException) as error:  # TLS's and the deadline's are OSErrors
            log.debug("a connection from %s was not opened: %s", address, error)
        except Exception:
            log.exception("the gateway failed with a connection from %s", address)
        finally:
            if connection is not None:
                connection.transport.abort()
            sock.close()

    async def _open(self, sock: socket.socket, address: str) -> Visitor | None:
        """The connection, when its first byte has come; None where it cannot be one. Raises OSError."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await _readable(sock)
        first = sock.recv(1, socket.MSG_PEEK)
        if not first:
            return None
        if (first == TLS_HELLO) != (self._tls is not None):
            await self._explain(sock)
            return None
        timeout: dict[str, Any] = {} if self._tls is None else {"ssl_handshake_timeout": OPEN_TIMEOUT}
        connection = self._visitor(address)
        # uvloop gives its own protocol back where there is TLS, and not the one that it was given
        loop = asyncio.get_running_loop()
        if self._tls is None:
            connection.asked_at = loop.time()
        await loop.connect_accepted_socket(lambda: connection, sock, ssl=self._tls, **timeout)
        if self._tls is not None:
            connection.asked_at = loop.time()
        return connection

    async def _explain(self, sock: socket.socket) -> None:
        """To one who speaks TLS where we do not, or the reverse; to the former this is no TLS, which says it too."""
        wrong, right = ("ws", "wss") if self._tls is not None else ("wss", "ws")
        said = response(http.HTTPStatus.FORBIDDEN, f"this host serves {right}:// at this port, and not {wrong}://")
        sock.recv(LARGEST_REQUEST)  # what was not taken would make the system drop what we say
        await asyncio.get_running_loop().sock_sendall(sock, said)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)

    def _visitor(self, address: str) -> Visitor:
        protocol = ServerProtocol(max_size=2 * LARGEST_PACKET, logger=self._log)
        visitor = Visitor(
            protocol,
            self,  # type: ignore[arg-type] # of its server it asks is_serving alone
            ping_interval=None,  # Session._ping
            close_timeout=CLOSE_TIMEOUT,
            max_queue=MOST_FRAMES,
            write_limit=WRITE_LIMIT,
        )
        visitor.address = address
        return visitor


def _introduce(connection: ServerConnection, request: Request, response: Response) -> None:
    """Say on which device its session is, and how long the request was here: all else that it took is the distance."""
    assert isinstance(connection, Visitor)
    if connection.served is not None and (device := connection.served.header):
        response.headers[DEVICE_HEADER] = device
    seconds = connection.loop.time() - connection.asked_at
    response.headers[TIMING_HEADER] = f"admit;dur={1000 * seconds:.3f}"


async def _readable(sock: socket.socket) -> None:
    """Wait until something can be read, without memory for it."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sock, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock)


def address_of(host: str) -> str:
    """What is counted as one address: of IPv6 the network that one subscriber has."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def response(status: http.HTTPStatus, text: str) -> bytes:
    """An answer where there is no websocket yet to give it."""
    body = text + "\n"
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nServer: glremote\r\nConnection: close\r\n"
    return f"{head}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
