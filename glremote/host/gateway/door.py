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
import time
from collections.abc import Awaitable, Callable

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import HeaderLineTooLong, RequestLineTooLong, TooManyHeaders, WebSocketException
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from glremote.link.reaching import TIMING_HEADER
from glremote.protocol.devices import DEVICE_HEADER
from glremote.protocol.messages import LARGEST_PACKET

from .certificates import Certificate
from .connections import Connection
from .devices import Served
from .refusals import Why
from .sessions import CLOSE_TIMEOUT
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
MOST_FRAMES = 2
"""How many websocket frames may wait for a worker before the gateway stops reading from their client: each may have
twice the size of a packet."""
WRITE_LIMIT = (1 << 20, 1 << 18)
"""How many bytes may wait for a client before the gateway stops reading from its worker, and starts again."""
BLANK_LINE = b"\r\n\r\n"
"""Behind it a request has nothing but its body, and none that is for us has one."""
SHORT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
TLS_HELLO = b"\x16"
"""The first byte of whoever speaks TLS; no request of HTTP begins so."""

Admit = Callable[["Visitor", Request], Awaitable[Response] | Response | None]
"""Before the websocket opens: None, or what is answered instead, a refusal or a page."""
Refused = Callable[[Why, "http.HTTPStatus | None"], None]
"""Told of everybody who is refused otherwise, and of the status that was answered."""


class Visitor(Connection):
    """A connection, before and after it is let in: until then it may say so much, and no more than one request."""

    address = ""
    asked_at = 0.0
    """When its request began to come, at the latest (time.monotonic): the loop of uvloop counts whole milliseconds."""
    token: Token | None = None
    """What it was admitted with."""
    wanted: str | None = None
    """The devices that its session may be on, by name; None: any."""
    served: Served | None = None
    """The device of its session."""
    why: Why | None = None
    """It was refused for this while it spoke."""
    limited = True
    """It has not been let in."""
    _said = 0
    _end = b""  # of what it said

    def data_received(self, data: bytes) -> None:
        """As websockets' own, unless it is too much or too early."""
        self._said += len(data)
        if self.limited and self._said > LARGEST_REQUEST:
            self._refuse(Why.TOO_LARGE, f"a request has at most {LARGEST_REQUEST} bytes")
        elif self.state is not State.CONNECTING:
            super().data_received(data)
        elif self.response is None:
            said = self._end + data
            if self.request is not None or 0 <= said.find(BLANK_LINE) < len(said) - len(BLANK_LINE):
                self._refuse(Why.EARLY, "nothing may follow a request until it is answered")
            else:
                self._end = said[-len(BLANK_LINE) :]
                super(Connection, self).data_received(data)

    def _refuse(self, why: Why, text: str) -> None:
        self.why = why
        if self.state is State.CONNECTING and self.response is None:
            assert why.status is not None
            self.transport.write(response(why.status, text))
        self.transport.close()


class Door:
    """Listens at an address; who is admitted is given to `connected`, for as long as it stays."""

    def __init__(
        self,
        admit: Admit,
        connected: Callable[[Visitor], Awaitable[None]],
        refused: Refused,
        tls: Certificate | None,
    ) -> None:
        self._admit = admit
        self._connected = connected
        self._refused = refused
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
        self._refused(Why.CROWD, None)

    def _let_in(self, connection: Visitor, visit: asyncio.Task[None]) -> None:
        """It has become its session's."""
        connection.limited = False
        self._came_in(connection.address, visit)

    def _came_in(self, address: str, visit: asyncio.Task[None]) -> None:
        """It waits no more: it is let in, or gone."""
        if visits := self._waiting.get(address):
            visits.pop(visit, None)
            if not visits:
                del self._waiting[address]

    async def _visit(self, sock: socket.socket, address: str) -> None:
        """All of a connection, from its first byte to its end."""
        connection: Visitor | None = None
        deadline = asyncio.timeout(OPEN_TIMEOUT)
        try:
            async with deadline:
                connection = await self._open(sock, address)
                if connection is not None:
                    await connection.handshake(self._admit, _finish, "glremote")  # type: ignore[arg-type]
            if connection is None or connection.state is not State.OPEN:
                return
            visit = asyncio.current_task()
            assert visit is not None
            connection.let_in = functools.partial(self._let_in, connection, visit)
            await self._connected(connection)
            await connection.close()
        except (OSError, EOFError, WebSocketException) as error:  # TLS's and the deadline's are OSErrors
            log.debug("a connection from %s was not opened: %s", address, error)
            if isinstance(error, ssl.SSLError) and connection is None:
                self._refused(Why.TLS, None)
        except Exception:
            log.exception("the gateway failed with a connection from %s", address)
        finally:
            if deadline.expired() and (connection is None or connection.response is None):
                self._refused(Why.DEADLINE, None)
            elif connection is not None:
                self._count(connection)
            if connection is not None:
                connection.transport.abort()
            sock.close()

    def _count(self, connection: Visitor) -> None:
        """Tell why it became no websocket, unless it did, or `admit` knows."""
        error, answer = connection.protocol.handshake_exc, connection.response
        if connection.why is not None:
            self._refused(connection.why, connection.why.status)
        elif isinstance(error, HeaderLineTooLong | TooManyHeaders):
            self._refused(Why.TOO_LARGE, Why.TOO_LARGE.status)
        elif isinstance(error, RequestLineTooLong):
            self._refused(Why.TOO_LARGE, http.HTTPStatus.REQUEST_URI_TOO_LONG)
        elif answer is None:
            if error is not None and not isinstance(error.__cause__, EOFError):  # else it went by itself
                self._refused(Why.NO_REQUEST, None)
        elif connection.protocol.accept_called and answer.status_code != http.HTTPStatus.SWITCHING_PROTOCOLS:
            self._refused(Why.NO_WEBSOCKET, http.HTTPStatus(answer.status_code))

    async def _open(self, sock: socket.socket, address: str) -> Visitor | None:
        """The connection, when its first byte has come; None where it cannot be one. Raises OSError."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await _readable(sock)
        first = sock.recv(1, socket.MSG_PEEK)
        if not first:
            return None
        if (first == TLS_HELLO) != (self._tls is not None):
            self._refused(Why.SCHEME, http.HTTPStatus.FORBIDDEN)
            await self._explain(sock)
            return None
        connection = self._visitor(address)
        # uvloop gives its own protocol back where there is TLS, and not the one that it was given
        loop = asyncio.get_running_loop()
        if self._tls is None:
            connection.asked_at = time.monotonic()
            await loop.connect_accepted_socket(lambda: connection, sock)
        else:
            context, seconds = self._tls.context(), OPEN_TIMEOUT
            await loop.connect_accepted_socket(lambda: connection, sock, ssl=context, ssl_handshake_timeout=seconds)
            connection.asked_at = time.monotonic()
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


def _finish(connection: ServerConnection, request: Request, response: Response) -> None:
    """Say on which device its session is, and how long the request was here: what else it took is the distance.

    To HEAD only the head is sent.
    """
    assert isinstance(connection, Visitor)
    if connection.served is not None and (device := connection.served.header):
        response.headers[DEVICE_HEADER] = device
    seconds = time.monotonic() - connection.asked_at
    response.headers[TIMING_HEADER] = f"admit;dur={1000 * seconds:.3f}"
    if request.method == "HEAD":
        response.body = b""


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
