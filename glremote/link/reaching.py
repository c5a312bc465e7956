"""Reaching a host: its address, TCP, TLS, the token in a request, and what a refusal says.

Knows: what every request to a host has in common. Does not know: whether a websocket or a page is asked for.
"""

from __future__ import annotations

import re
import socket
import ssl
import time

from websockets.exceptions import InvalidURI
from websockets.http11 import Response
from websockets.uri import WebSocketURI, parse_uri

from glremote.protocol.errors import HostUnreachable, NobodyListens, NotAdmitted

from .tls import Trust, Untrusted, explain

REFUSALS = (401, 403, 404, 410, 503)
"""How a gateway refuses; the body says why."""
LATER = 429
"""How it refuses for a while, whoever it is."""
LONGEST_REFUSAL = 1000
"""Characters."""
TIMING_HEADER = "Server-Timing"
"""How long the host had a request before it answered (W3C Server Timing), which is no distance."""
_TIMING = re.compile(r"admit;dur=(\d{1,6}(?:\.\d{1,6})?)$")
CONNECT_TIMEOUT = 4.0
"""Seconds from nothing to an open websocket."""


def parsed(url: str) -> WebSocketURI:
    """The parts of a host's address. Raises HostUnreachable for what is none."""
    try:
        uri = parse_uri(url)
        if not url.isprintable() or " " in url:
            raise ValueError("it has characters that cannot be seen")
        uri.host.encode("idna")  # as the look-up will; UnicodeError is a ValueError
    except (InvalidURI, ValueError) as error:
        raise HostUnreachable(f"{url!r} is no host: {error}; give ws://HOST:PORT or wss://HOST:PORT") from None
    if uri.username is not None or uri.password is not None:  # and so the text does not show them
        raise HostUnreachable(
            f"a host's address with a user and a password (at {uri.host}) is not taken; give ws://HOST:PORT and a token"
        )
    return uri


def headers(url: str, token: str | None) -> dict[str, str]:
    """What every request says of us. Raises NotAdmitted for what can be no token."""
    said = {"User-Agent": "glremote"}
    if token:
        if not (token.isascii() and token.isprintable()):
            raise NotAdmitted(f"{url}: the token has characters other than printable ASCII; no host has such a token")
        said["Authorization"] = f"Bearer {token}"
    return said


def seconds_at_the_host(response: Response) -> float:
    """As the host says; nothing where it does not."""
    found = _TIMING.match(response.headers.get(TIMING_HEADER, ""))
    return float(found[1]) / 1000 if found else 0.0


def open_socket(url: str, uri: WebSocketURI, trust: Trust | None, timeout: float) -> socket.socket:
    """A connection to the host, in TLS if it is wss://. Raises HostUnreachable."""
    try:
        sock = _connected(uri, timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        kind = NobodyListens if isinstance(error, ConnectionRefusedError) else HostUnreachable
        raise kind(
            f"{url}: no host answers there ({reason}); is `glremote serve` running, and the port reachable?"
        ) from None
    return _secured(url, sock, uri.host, trust or Trust()) if uri.secure else sock


def _connected(uri: WebSocketURI, timeout: float) -> socket.socket:
    """To the first of the host's addresses that answers; each has its share of the time. Raises OSError."""
    addresses = socket.getaddrinfo(uri.host, uri.port, type=socket.SOCK_STREAM)
    deadline = time.monotonic() + timeout
    trouble = OSError("it has no address")
    for place, (family, kind, protocol, _, address) in enumerate(addresses):
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError as error:  # of a kind that this machine has not
            trouble = error
            continue
        try:
            sock.settimeout(max(0.01, (deadline - time.monotonic()) / (len(addresses) - place)))
            sock.connect(address)
            sock.settimeout(max(0.01, deadline - time.monotonic()))
            return sock
        except OSError as error:
            trouble = error
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise trouble


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


def check_refusal(url: str, response: Response) -> None:
    """Raise what a gateway refuses with, in its own words: a line. A stranger's answer passes."""
    status, said = response.status_code, (response.body or b"").decode(errors="replace").strip()
    if len(said) > LONGEST_REFUSAL or not said.isprintable() or "\ufffd" in said:
        said = ""  # the page of another server, or of a proxy in front of a host that is not there
    if said and status in REFUSALS:
        raise NotAdmitted(f"{url}: {said}")
    if said and status == LATER and response.headers.get("Server") == "glremote":
        raise HostUnreachable(f"{url}: {said}")
