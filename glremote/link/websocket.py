"""The client's end of a websocket: opening one, and its codec.

Knows: TCP, TLS, HTTP's upgrade and websocket frames, through websockets' sans-I/O protocol. Does not know: sessions. No
proxy is asked, no extension offered (so nothing is deflated), and every size is bounded.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Sequence

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import WebSocketURI

from glremote.protocol.devices import DEVICE_HEADER
from glremote.protocol.errors import HostUnreachable
from glremote.protocol.messages import LARGEST_PACKET

from .links import Bytes, Link, LinkBroken, Packet, joined
from .reaching import (
    CONNECT_TIMEOUT,
    NOT_A_WORD,
    broken,
    check_refusal,
    headers,
    open_socket,
    parsed,
    seconds_at_the_host,
)
from .tls import Trust

PATH = "/glremote"
SESSION_HEADER = "Glremote-Session"
"""Names the session that a connection resumes; without it a new one begins."""
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
    device: str | None = None,
) -> Link:
    """Open a websocket to the host at `url` (ws:// or wss://), for a new session or the named one.

    `device` names that of a new session, or several; without it the host chooses. `trust` is for wss://; without it,
    the system's authorities. `timeout` is seconds for all of it. Raises HostUnreachable or NotAdmitted, naming the host
    and what to do.
    """
    uri = parsed(url)
    said = headers(url, token)
    deadline = time.monotonic() + timeout
    protocol = ClientProtocol(
        WebSocketURI(uri.secure, uri.host, uri.port, uri.path if uri.path not in ("", "/") else PATH, uri.query),
        max_size=LARGEST_PACKET * 2,
        logger=log,
    )
    request = protocol.connect()
    if session:
        said[SESSION_HEADER] = session
    elif device:
        said[DEVICE_HEADER] = device
    for name, value in said.items():
        request.headers[name] = value
    sock = open_socket(url, uri, trust, timeout)
    began = time.monotonic()
    try:
        protocol.send_request(request)
        response, early = _upgrade(url, sock, protocol, deadline)
    except BaseException:
        sock.close()
        raise
    link = Link(sock, WebSocketCodec(protocol, LARGEST_PACKET * 2))
    link.keepalive, link.device = KEEPALIVE, response.headers.get(DEVICE_HEADER, "")
    link.distance = max(0.0, time.monotonic() - began - seconds_at_the_host(response))
    link.early.extend(frame.data for frame in early if frame.opcode is Opcode.BINARY)
    return link


def _upgrade(
    url: str, sock: socket.socket, protocol: ClientProtocol, deadline: float
) -> tuple[Response, Sequence[Frame]]:
    """Send the request and wait for the response; that, and the frames that came right behind it."""
    response: Response | None = None
    frames: list[Frame] = []
    said = False
    try:
        sock.sendall(b"".join(protocol.data_to_send()))
        while response is None and protocol.handshake_exc is None:
            sock.settimeout(max(0.01, deadline - time.monotonic()))
            data = sock.recv(1 << 16)
            if data:
                said = True
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
        raise HostUnreachable(f"{url}: connected, and no glremote host answered within {CONNECT_TIMEOUT:g} s") from None
    except OSError as error:
        raise HostUnreachable(f"{url}: {broken(error, 'while it was opened')}") from None
    if response is not None and protocol.handshake_exc is None:
        return response, frames
    if response is not None and isinstance(protocol.handshake_exc, InvalidStatus):
        check_refusal(url, response)
    why = protocol.handshake_exc if said else NOT_A_WORD
    raise HostUnreachable(f"{url}: what answers there is no glremote host ({why})")
