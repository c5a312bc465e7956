"""The client's end of a websocket: opening one, and its codec.

Knows: TCP, TLS, HTTP's upgrade and websocket frames, through websockets' sans-I/O protocol. Does not know: sessions. No
proxy is asked, no extension offered (so nothing is deflated), and every size is bounded.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import ssl
import time
from collections.abc import Sequence

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, InvalidURI
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import WebSocketURI, parse_uri

from glremote.protocol.errors import HostUnreachable, NobodyListens, NotAdmitted
from glremote.protocol.messages import LARGEST_PACKET

from .links import Bytes, Link, LinkBroken, Packet, joined
from .tls import Trust, Untrusted, explain

PATH = "/glremote"
SESSION_HEADER = "Glremote-Session"
"""Names the session that a connection resumes; without it a new one begins."""
REFUSALS = (401, 403, 404, 410, 503)
"""How a gateway refuses; the body says why."""
LATER = 429
"""How it refuses for a while, whoever it is."""
TIMING_HEADER = "Server-Timing"
"""How long the host had a request before it answered (W3C Server Timing), which is no distance."""
_TIMING = re.compile(r"admit;dur=(\d{1,6}(?:\.\d{1,6})?)$")
CONNECT_TIMEOUT = 4.0
"""Seconds from nothing to an open websocket."""
KEEPALIVE = 5.0
"""Seconds between two signs of life, which either side gives for itself: websocket pings."""
log = logging.getLogger("glremote.websockets")
# Below this websockets tells of every frame, and of the header with the token: nothing for the program's own log.
log.setLevel(logging.WARNING)


class WebSocketCodec:
    """A packet is one binary message; its large pieces are fragments of it, so that nothing is joined."""

    def __init__(self, protocol: ClientProtocol, largest: int) -> None:
        self.largest = largest
        self._protocol = protocol
        self._fragments: list[Bytes] = []

    def wrap(self, packet: Packet) -> Sequence[Bytes]:
        if self._protocol.state is not State.OPEN:  # the host said so behind a packet; that it did shows in `receive`
            return ()
        pieces = joined(packet)
        last = len(pieces) - 1
        for index, piece in enumerate(pieces):
            send = self._protocol.send_continuation if index else self._protocol.send_binary
            send(piece, fin=index == last)
        return joined([piece for piece in self._protocol.data_to_send() if piece])

    def unwrap(self, data: Bytes) -> tuple[list[Bytes], list[Bytes]]:
        self._protocol.receive_data(bytes(data))
        packets: list[Bytes] = []
        for frame in self._protocol.events_received():
            if isinstance(frame, Frame) and frame.opcode in (Opcode.BINARY, Opcode.CONT):
                self._fragments.append(frame.data)
                if frame.fin:
                    packets.append(self._fragments[0] if len(self._fragments) == 1 else b"".join(self._fragments))
                    self._fragments = []
            elif isinstance(frame, Frame) and frame.opcode is Opcode.TEXT:
                raise LinkBroken("the host sent text")
        reply: list[Bytes] = [piece for piece in self._protocol.data_to_send() if piece]
        if not packets and self._protocol.state is not State.OPEN:
            raise LinkBroken(f"the host closed the websocket: {_closing(self._protocol)}")
        return packets, reply

    def beat(self) -> Sequence[Bytes]:
        if self._protocol.state is not State.OPEN:
            return ()
        self._protocol.send_ping(b"")
        return [piece for piece in self._protocol.data_to_send() if piece]


def _closing(protocol: ClientProtocol) -> str:
    if protocol.parser_exc is not None:
        return str(protocol.parser_exc)
    return str(protocol.close_rcvd or "without a reason")


def connect(
    url: str,
    token: str | None = None,
    session: str | None = None,
    trust: Trust | None = None,
    timeout: float = CONNECT_TIMEOUT,
) -> Link:
    """Open a websocket to the host at `url` (ws:// or wss://), for a new session or the named one.

    `trust` is for wss://; without it, the system's authorities. `timeout` is seconds for all of it. Raises
    HostUnreachable or NotAdmitted, naming the host and what to do.
    """
    uri = _parsed(url)
    if token and not (token.isascii() and token.isprintable()):
        raise NotAdmitted(f"{url}: the token has characters other than printable ASCII; no host has such a token")
    deadline = time.monotonic() + timeout
    protocol = ClientProtocol(
        WebSocketURI(uri.secure, uri.host, uri.port, uri.path if uri.path not in ("", "/") else PATH, uri.query),
        max_size=LARGEST_PACKET * 2,
        logger=log,
    )
    request = protocol.connect()
    request.headers["User-Agent"] = "glremote"
    if token:
        request.headers["Authorization"] = f"Bearer {token}"
    if session:
        request.headers[SESSION_HEADER] = session
    sock = _open(url, uri, trust, timeout)
    began = time.monotonic()
    try:
        protocol.send_request(request)
        response, early = _upgrade(url, sock, protocol, deadline)
    except BaseException:
        sock.close()
        raise
    link = Link(sock, WebSocketCodec(protocol, LARGEST_PACKET * 2))
    link.keepalive = KEEPALIVE
    link.distance = max(0.0, time.monotonic() - began - _seconds_at_the_host(response))
    link.early.extend(frame.data for frame in early if frame.opcode is Opcode.BINARY)
    return link


def _seconds_at_the_host(response: Response) -> float:
    """As the host says; nothing where it does not."""
    found = _TIMING.match(response.headers.get(TIMING_HEADER, ""))
    return float(found[1]) / 1000 if found else 0.0


def _parsed(url: str) -> WebSocketURI:
    try:
        uri = parse_uri(url)
        if not url.isprintable():
            raise ValueError("it has characters that cannot be seen")
    except (InvalidURI, ValueError) as error:
        raise HostUnreachable(f"{url!r} is no host: {error}; give ws://HOST:PORT or wss://HOST:PORT") from None
    if uri.username is not None or uri.password is not None:  # and so the text does not show them
        raise HostUnreachable(
            f"a host's address with a user and a password (at {uri.host}) is not taken; give ws://HOST:PORT and a token"
        )
    return uri


def _open(url: str, uri: WebSocketURI, trust: Trust | None, timeout: float) -> socket.socket:
    try:
        sock = socket.create_connection((uri.host, uri.port), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        kind = NobodyListens if isinstance(error, ConnectionRefusedError) else HostUnreachable
        raise kind(
            f"{url}: no host answers there ({reason}); is `glremote serve` running, and the port reachable?"
        ) from None
    return _secured(url, sock, uri.host, trust or Trust()) if uri.secure else sock


def _secured(url: str, sock: socket.socket, name: str, trust: Trust) -> ssl.SSLSocket:
    """TLS on a socket, with a host that is trusted: nothing is said to another, and so no token either."""
    secured = None
    try:
        secured = trust.context.wrap_socket(sock, server_hostname=name)
        trust.check(secured.getpeercert(binary_form=True))
        return secured
    except Untrusted as error:
        why = str(error)
    except TimeoutError:
        why = "connected, and TLS was not spoken in time"
    except ssl.SSLError as error:
        why = explain(error)
    except (OSError, ValueError) as error:
        why = f"the connection broke while TLS began: {error}"
    (secured or sock).close()
    raise HostUnreachable(f"{url}: {why}")


def _upgrade(
    url: str, sock: socket.socket, protocol: ClientProtocol, deadline: float
) -> tuple[Response, Sequence[Frame]]:
    """Send the request and wait for the response; that, and the frames that came right behind it."""
    response: Response | None = None
    frames: list[Frame] = []
    try:
        sock.sendall(b"".join(protocol.data_to_send()))
        while response is None and protocol.handshake_exc is None:
            sock.settimeout(max(0.01, deadline - time.monotonic()))
            data = sock.recv(1 << 16)
            if data:
                protocol.receive_data(data)
            else:
                protocol.receive_eof()
            for event in protocol.events_received():
                if isinstance(event, Response):
                    response = event
                else:
                    frames.append(event)  # type: ignore[arg-type]
            if not data:
                break
    except TimeoutError:
        raise HostUnreachable(f"{url}: connected, and no glremote host answered within {CONNECT_TIMEOUT} s") from None
    except OSError as error:
        raise HostUnreachable(f"{url}: the connection broke while it was opened: {error}") from None
    if response is not None and protocol.handshake_exc is None:
        return response, frames
    status = response.status_code if response else None
    if response is not None and isinstance(protocol.handshake_exc, InvalidStatus) and status in REFUSALS:
        with contextlib.suppress(ValueError):
            said = response.body.decode().strip() if response.body else response.reason_phrase
            raise NotAdmitted(f"{url}: {said}")
    if response is not None and status == LATER and response.headers.get("Server") == "glremote" and response.body:
        raise HostUnreachable(f"{url}: {response.body.decode(errors='replace').strip()}")
    raise HostUnreachable(f"{url}: what answers there is no glremote host ({protocol.handshake_exc})")
