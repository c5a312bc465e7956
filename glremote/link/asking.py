"""Asking a host for its devices: one page over HTTP, with the token of a session, and no session for it.

Knows: the request, its answer and its deadline. Does not know: which hosts there are, or what the answer is good for.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

from websockets.exceptions import WebSocketException
from websockets.http11 import Response
from websockets.streams import StreamReader
from websockets.uri import WebSocketURI

from glremote.protocol import devices
from glremote.protocol.errors import HostUnreachable, ProtocolError

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


@dataclass(frozen=True)
class Answer:
    """What a host says, and how far it is: seconds for a round trip."""

    report: devices.HostReport
    distance: float


def ask(url: str, token: str | None = None, trust: Trust | None = None, timeout: float = CONNECT_TIMEOUT) -> Answer:
    """Ask the host at `url` (ws:// or wss://). `timeout` is seconds for all of it but the look-up of a name.

    Raises HostUnreachable or NotAdmitted, naming the host and what to do.
    """
    uri = parsed(url)
    said = headers(url, token)
    deadline = time.monotonic() + timeout
    with open_socket(url, uri, trust, timeout) as sock:
        began = time.monotonic()
        response, came = _exchange(url, sock, _request(uri, said), deadline, timeout)
    if response.status_code == 404 and "glremote" in response.headers.get_all("Server"):
        raise HostUnreachable(
            f"{url}: glremote on this host is older than this, and tells nothing of its devices; upgrade it there"
        )
    check_refusal(url, response)
    try:
        if response.status_code != 200:
            raise ProtocolError(f"HTTP status {response.status_code}")
        return Answer(devices.decode(_body(response)), max(0.0, came - began - seconds_at_the_host(response)))
    except ProtocolError as error:
        raise HostUnreachable(f"{url}: what answers there is no glremote host ({error})") from None


def _request(uri: WebSocketURI, said: dict[str, str]) -> bytes:
    path = uri.path.rpartition("/")[0] + devices.PATH  # beside the websocket's, also behind a proxy
    host = f"[{uri.host}]" if ":" in uri.host else uri.host
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}:{uri.port}", "Connection: close"]
    lines.append(f"Accept-Encoding: {devices.PACKING}")
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in said.items()), "", ""]).encode("ascii")


def _body(response: Response) -> bytes:
    """Raises ProtocolError."""
    body = bytes(response.body)
    return devices.unpack(body) if response.headers.get("Content-Encoding", "").lower() == devices.PACKING else body


def _exchange(url: str, sock: socket.socket, request: bytes, deadline: float, timeout: float) -> tuple[Response, float]:
    """The answer, and when it began to come: a long one takes round trips of its own. The parser bounds its size."""
    reader = StreamReader()
    parser = Response.parse(reader.read_line, reader.read_exact, reader.read_to_eof)
    came = 0.0
    try:
        next(parser)
        sock.settimeout(max(0.01, deadline - time.monotonic()))
        sock.sendall(request)
        while True:
            sock.settimeout(max(0.001, deadline - time.monotonic()))
            data = sock.recv(1 << 16)
            if data:
                came = came or time.monotonic()
                reader.feed_data(data)
            else:
                reader.feed_eof()
            next(parser)
            if time.monotonic() > deadline:
                raise TimeoutError
    except StopIteration as parsed_:
        return parsed_.value, came
    except TimeoutError:
        raise HostUnreachable(f"{url}: connected, and no glremote host answered within {timeout:g} s") from None
    except OSError as error:
        raise HostUnreachable(f"{url}: {broken(error, 'while it was asked')}") from None
    except (ValueError, LookupError, EOFError, NotImplementedError, WebSocketException) as error:
        why = error if came else NOT_A_WORD
        raise HostUnreachable(f"{url}: what answers there is no glremote host ({why})") from None
