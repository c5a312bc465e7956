"""Reaching a host: its address, TCP, TLS, the token in a request, and what a refusal says.

Knows: what every request to a host has in common. Does not know: whether a websocket or a page is asked for.
"""

from __future__ import annotations

import errno
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
TIMING_HEADER = "Server-Timing"
"""How long the host had a request before it answered (W3C Server Timing), which is no distance."""
_TIMING = re.compile(r"(?:^|, )admit;dur=(\d{1,6}(?:\.\d{1,6})?)(?:$|,)")
_WITH_USER = re.compile(r"wss?://[^/?#]*@(\[[^]]*\]|[^/?#:]*)")
BEHIND = (502, 503, 504)
"""How a proxy says that it does not get through to whom it stands before."""
NO_UPGRADE = (426, 505)
"""How a host answers to what asked for a websocket here, and does not there."""
NOT_PASSED_ON = "a proxy on the way does not pass on that a websocket is asked for"
NOT_A_WORD = "it hung up without a word; behind a tunnel or a proxy nobody may be listening"
LONGEST = 400
"""Characters of what a stranger says that are shown."""
CONNECT_TIMEOUT = 4.0
"""Seconds from nothing to an open websocket."""


def parsed(url: str) -> WebSocketURI:
    """The parts of a host's address. Raises HostUnreachable for what is none."""
    if found := _WITH_USER.match(url):  # first, so that no text shows them
        raise HostUnreachable(
            f"a host's address with a user and a password (at {found[1]}) is not taken; give ws://HOST:PORT and a token"
        )
    try:
        uri = parse_uri(url)
        if not url.isprintable() or " " in url:
            raise ValueError("it has spaces, or characters that cannot be seen")
        uri.host.encode("idna")  # as the look-up will; UnicodeError is a ValueError
    except (InvalidURI, ValueError) as error:
        raise HostUnreachable(f"{url!r} is no host: {error}; give ws://HOST:PORT or wss://HOST:PORT") from None
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
    found = _TIMING.search(_said(response, TIMING_HEADER))
    return float(found[1]) / 1000 if found else 0.0


def is_host(server: str, timing: str) -> bool:
    """Whether a glremote host answers, by two of the answer's headers: a proxy before it calls itself the server."""
    return server == "glremote" or _TIMING.search(timing) is not None


def moved(location: str) -> str:
    """Where a header Location leads, as the address of a host; "" where it is none."""
    if not re.match(r"https?://\S+$", location):
        return ""
    address = re.sub("^http", "ws", shown(location))
    return f"{address}glremote" if address.endswith("/") else address  # a folder, and the host is below it


def stranger(status: int, server: str, location: str) -> str:
    """What it means that something answers which is no glremote host."""
    who = f"HTTP {status} from {shown(server)}" if server else f"HTTP {status}"
    if address := moved(location):
        return f"what answers there sends us on ({who}), and nobody follows: give {address}"
    if status in BEHIND:
        return f"a proxy there does not reach a glremote host behind it ({who}); is `glremote serve` running?"
    return f"what answers there is no glremote host ({who})"


def shown(text: str) -> str:
    """What somebody else says, in one line of ours."""
    line = " ".join(text.split())[:LONGEST]
    return "".join(character if character.isprintable() else "?" for character in line)


def connected(host: str, port: int, timeout: float) -> socket.socket:
    """A connection to the first of a name's addresses that takes one; none may use up the others' time.

    Raises OSError.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # what can be no name
        raise socket.gaierror(socket.EAI_NONAME, str(error)) from None
    deadline = time.monotonic() + timeout
    trouble = OSError("the name has no address")
    for number, (family, kind, protocol, _, address) in enumerate(found):
        sock = None
        try:
            sock = socket.socket(family, kind, protocol)
            sock.settimeout(max(0.01, (deadline - time.monotonic()) / (len(found) - number)))
            sock.connect(address)
            sock.settimeout(max(0.01, deadline - time.monotonic()))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except BaseException as error:
            if sock is not None:
                sock.close()
            if not isinstance(error, OSError):
                raise
            trouble = error
    raise trouble


def secured(sock: socket.socket, name: str, trust: Trust) -> ssl.SSLSocket:
    """TLS on a socket, with a host that is trusted: nothing is said to another, and so no token either.

    Raises Untrusted, OSError (ssl.SSLError is one) and ValueError, and the socket is closed.
    """
    ours: socket.socket = sock
    try:
        ours = inside = trust.context.wrap_socket(sock, server_hostname=name)
        trust.check(inside.getpeercert(binary_form=True))
        return inside
    except BaseException:
        ours.close()
        raise


def open_socket(url: str, uri: WebSocketURI, trust: Trust | None, timeout: float) -> socket.socket:
    """A connection to the host, in TLS if it is wss://. Raises HostUnreachable."""
    try:
        sock = connected(uri.host, uri.port, timeout)
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        kind = NobodyListens if isinstance(error, ConnectionRefusedError) else HostUnreachable
        raise kind(f"{url}: no host answers there ({reason}); {_question(error)}") from None
    try:
        return secured(sock, uri.host, trust or Trust()) if uri.secure else sock
    except Untrusted as error:
        why = str(error)
    except TimeoutError:
        why = "connected, and TLS was not spoken in time"
    except (OSError, ValueError) as error:
        why = broken(error, "while TLS began")
    raise HostUnreachable(f"{url}: {why}")


def _question(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "is the name spelled right, and known on this machine?"
    if isinstance(error, TimeoutError):
        return "is the machine on, and does every firewall on the way let this port through?"
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return "is the machine on, and this one in its network?"
    return "is `glremote serve` running, and the port reachable?"


def broken(error: Exception, when: str) -> str:
    """Why a connection has ended; in TLS also that it was refused, which is told as late as this."""
    return explain(error) if isinstance(error, ssl.SSLError) else f"the connection broke {when}: {error}"


def check_refusal(url: str, response: Response) -> None:
    """Raise what a gateway refuses with, in its own words, or what a stranger's answer comes to."""
    status, server = response.status_code, _said(response, "Server")
    if not is_host(server, _said(response, TIMING_HEADER)):
        raise HostUnreachable(f"{url}: {stranger(status, server, _said(response, 'Location'))}")
    said = shown((response.body or b"").decode(errors="replace")) or response.reason_phrase
    if status in REFUSALS:
        raise NotAdmitted(f"{url}: {said}")
    if status in NO_UPGRADE:
        raise HostUnreachable(f"{url}: {NOT_PASSED_ON} (HTTP {status})")
    if status == LATER:
        raise HostUnreachable(f"{url}: {said}")


def _said(response: Response, name: str) -> str:
    """A header, or what several of its name say."""
    return ", ".join(response.headers.get_all(name))
