"""Going to a host step by step, as a client does, until the step that fails: what is said of each, and what to do.

Knows: names, ports, TLS, tokens and greetings, in the order in which a client needs them. Does not know: how any of it
is shown. A session begins at the end and says goodbye at once; it takes a place for that moment.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import ipaddress
import shlex
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from glremote.device.opening import greet, tell
from glremote.link.links import Link
from glremote.link.tls import Trust, Untrusted, explain
from glremote.link.websocket import PATH, connect
from glremote.protocol import devices, handshake
from glremote.protocol.errors import Error, VersionMismatch
from glremote.protocol.messages import Goodbye, Greeting
from glremote.protocol.reflection import is_software
from glremote.version import VERSION

from .finding import Finding, missing, ok, warning
from .findings import dotted, named

PORT = 8765
LIKE = "glremote doctor wss://HOST:8765"
TIMEOUT = 5.0
"""Seconds for each step."""
SLOW = 0.1
"""Seconds of distance from which each wait is felt."""
SOON = 14 * 86400
"""Seconds before its end in which a certificate had better be renewed."""
OLDEST = 330
"""What moderngl requires unless told otherwise."""


class Cannot(Exception):
    """The step failed, and with it all that would come after."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding


class Way(NamedTuple):
    """To which host, and with what."""

    url: str
    host: str
    port: int
    path: str
    token: str | None
    trust: Trust | None

    @property
    def where(self) -> str:
        """Host and port, as they are written."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def there(self) -> str:
        """Where the host is; behind a loopback address it may be the other end of a tunnel."""
        return "there" if self.is_near else f"on {self.host}"

    def again(self, url: str = "", trust: str | None = None) -> str:
        """The line that asks anew, of another address or with another trust."""
        url = url or self.url
        if trust is None and self.trust is not None and url.startswith("wss://"):
            ca = f" --ca-file {shlex.quote(self.trust.ca)}" if self.trust.ca else ""
            trust = ca + (f" --pin {self.trust.pin}" if self.trust.pin else "")
        return f"glremote doctor {url}{trust or ''}"

    @property
    def other_scheme(self) -> str:
        """The address, with TLS if this is without, and the reverse."""
        return f"{'wss' if self.trust is None else 'ws'}://{self.where}"

    @property
    def is_near(self) -> bool:
        """Whether it leads to this machine."""
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"


def reach(url: str, token: str | None, trust: Trust | None, moderngl: str) -> Iterator[Finding]:
    """Every step on the way to a host, up to the one that fails; `moderngl` is the version that is here."""
    try:
        way = _way(url, token, trust)
        yield from _name(way)
        yield from _port(way)
        yield from _tls(way)
        yield from _token(way)
        yield from _devices(way)
        yield from _session(way, moderngl)
    except Cannot as failed:
        yield failed.finding


def _way(url: str, token: str | None, trust: Trust | None) -> Way:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Cannot(missing(f"{url!r} is no address of a host: {error}", LIKE)) from None
    if "://" not in url and url and url.isprintable():
        raise Cannot(_no_scheme(url))
    if parts.scheme not in ("ws", "wss") or not parts.hostname or not url.isprintable() or " " in url:
        raise Cannot(missing(f"{url!r} is no address of a host", LIKE))
    if parts.username is not None or parts.password is not None:  # and so the text does not show them
        text = f"an address with a user and a password (at {parts.hostname}) is not taken: a token stands in a file"
        line = f"glremote doctor {parts.scheme}://{parts.hostname}:{port or PORT} --token-file FILE"
        raise Cannot(missing(text, line))
    usual = 443 if parts.scheme == "wss" else 80
    return Way(url, parts.hostname, port or usual, parts.path if parts.path not in ("", "/") else PATH, token, trust)


def _no_scheme(url: str) -> Finding:
    lines = f"glremote doctor wss://{url}", f"glremote doctor ws://{url}  # without TLS"
    return missing(f"{url!r} is no host of `glremote hosts`, and does not say how it is spoken to", *lines)


# --- name and port


def _name(way: Way) -> Iterator[Finding]:
    try:
        found = socket.getaddrinfo(way.host, way.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        text = f"the name {way.host} is not known here ({getattr(error, 'strerror', None) or error})"
        raise Cannot(missing(
            f"{text}: is it spelled right? Give the host's IP address instead, or make the name known",
            f"echo 'ADDRESS {way.host}' | sudo tee -a /etc/hosts",
        )) from None  # fmt: skip
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if addresses != [way.host]:
        yield ok(f"the name {way.host} is known: {', '.join(addresses)}")


def _port(way: Way) -> Iterator[Finding]:
    began = time.monotonic()
    try:
        sock = _connected(way)
    except OSError as error:
        raise Cannot(_no_connection(way, error)) from None
    seconds = time.monotonic() - began
    sock.close()
    yield ok(f"port {way.port} is open; the connection took {1000 * seconds:.1f} ms")


def _connected(way: Way) -> socket.socket:
    sock = socket.create_connection((way.host, way.port), TIMEOUT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _no_connection(way: Way, error: OSError) -> Finding:
    serve = "glremote serve" if way.is_near else "glremote serve --bind 0.0.0.0 --tls-cert cert.pem --tls-key key.pem"
    if isinstance(error, ConnectionRefusedError):
        if way.is_near:
            tunnel = f"ssh -N -L {way.port}:127.0.0.1:8765 GPU-MACHINE  # where the host is another machine"
            text = f"nobody listens at port {way.port} of this machine: is a host running here, or a tunnel open?"
            return missing(text, f"{serve} --port {way.port}", tunnel)
        text = f"{way.host} is there, and nobody listens at its port {way.port}, or only for itself: start a host there"
        return missing(text, f"{serve} --port {way.port}  # {way.there}")
    if isinstance(error, TimeoutError):
        text = f"nothing came back from {way.where} within {TIMEOUT:g} s: a firewall on the way drops it, or it is off"
        return missing(text, f"sudo ufw allow {way.port}/tcp  # {way.there}, where that is its firewall")
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        text = f"there is no way to {way.host} from here ({error.strerror}): is it on, and this machine in its network?"
        return missing(text, f"ping {way.host}")
    return missing(f"{way.where} cannot be connected to: {error.strerror or error}", f"ping {way.host}")


# --- TLS


def _tls(way: Way) -> Iterator[Finding]:
    if way.trust is None:
        text = "it is not encrypted (ws://)"
        if way.is_near:
            yield ok(f"{text}, and stays on this machine or in a tunnel")
        else:
            serve = f"glremote serve --tls-cert cert.pem --tls-key key.pem  # {way.there}, and wss:// here"
            yield warning(f"{text}: whoever listens on the network sees the token and all data", serve)
        return
    with _secured(way) as sock:
        version = sock.version()
        left = _seconds_left(sock.getpeercert())
    by = [f"an authority in {way.trust.ca}"] if way.trust.ca else [] if way.trust.pin else ["the system's authorities"]
    by += ["its pin"] if way.trust.pin else []
    yield ok(f"{version} is spoken, and the certificate is trusted by {' and '.join(by)}")
    if left is not None and left < SOON:
        renew = f"sudo certbot renew  # {way.there}, if it is certbot's"
        yield warning(f"the certificate ends in {left / 86400:.0f} days", renew)


def _secured(way: Way) -> ssl.SSLSocket:
    """A connection with TLS, to a host that is trusted."""
    trust = way.trust or Trust()
    sock = secured = None
    try:
        sock = _connected(way)
        secured = trust.context.wrap_socket(sock, server_hostname=way.host)
        trust.check(secured.getpeercert(binary_form=True))
        return secured
    except Untrusted as error:
        found = Cannot(missing(str(error), *_other_trust(way)))
    except TimeoutError:
        text = f"connected, and TLS was not spoken within {TIMEOUT:g} s: is it a host, and one with TLS?"
        found = Cannot(missing(text, way.again(way.other_scheme)))
    except ssl.SSLCertVerificationError as error:
        found = Cannot(missing(explain(error), *_other_trust(way)))
    except ssl.SSLError as error:
        found = Cannot(missing(explain(error), way.again(way.other_scheme)))
    except (OSError, ValueError) as error:
        found = Cannot(missing(f"the connection broke while TLS began: {error}", way.again(way.other_scheme)))
    for one in (secured, sock):
        if one is not None:
            one.close()
    raise found


def _other_trust(way: Way) -> tuple[str, ...]:
    """How the certificate that is there would be trusted, by whoever has seen to it that it is the host's."""
    return (
        f"openssl x509 -in cert.pem -noout -subject -enddate -ext subjectAltName  # {way.there}: what it has",
        f"{way.again(trust=' --ca-file cert.pem')}  # its own certificate, or its authority's, brought from there",
        f"{way.again(trust=' --pin sha256:...')}  # as `glremote serve` shows it there",
    )


def _seconds_left(certificate: Any) -> float | None:
    """Of its life; None where it was not looked at, being pinned."""
    return ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time() if certificate else None


# --- token


def _token(way: Way) -> Iterator[Finding]:
    """Asked as a websocket is, but for the wish to have one: so nothing begins."""
    answer = _ask(way, way.path)
    if answer.server != "glremote":
        who = f", and says that it is {answer.server}" if answer.server else ""
        text = f"what listens at {way.where} is no glremote host: it answers {answer.status} to {way.path}{who}"
        raise Cannot(missing(text, f"glremote serve --port 0  # {way.there}: at a port that nobody has"))
    if answer.status == http.HTTPStatus.UPGRADE_REQUIRED:
        yield ok("the token is admitted")
        return
    raise Cannot(_refused(way, answer))


def _refused(way: Way, answer: Answer) -> Finding:
    said = f"the host refuses ({answer.status}): {answer.text}"
    if answer.status == http.HTTPStatus.UNAUTHORIZED:
        return missing(
            said,
            f"glremote token create --name NAME  # {way.there}, as the user that serves",
            f"{way.again()} --token-file FILE  # with the token in it",
        )
    if answer.status == http.HTTPStatus.TOO_MANY_REQUESTS:
        return missing(said, f"sleep 60; {way.again()}")
    if answer.status == http.HTTPStatus.SERVICE_UNAVAILABLE and "no room" in answer.text:
        return missing(f"the token is admitted, and {said}", f"glremote serve --max-sessions 64  # {way.there}")
    if answer.status == http.HTTPStatus.SERVICE_UNAVAILABLE:
        return missing(said, f"journalctl -u glremote -n 50  # {way.there}: its log says why")
    if answer.status == http.HTTPStatus.NOT_FOUND:
        return missing(said, f"{way.again(way.url.partition(':')[0] + '://' + way.where)}  # without a path")
    return missing(said, way.again(way.other_scheme))


class Answer(NamedTuple):
    """To a GET."""

    status: int
    server: str
    text: str


def _ask(way: Way, path: str) -> Answer:
    """A GET with the token. Raises Cannot."""
    connection = http.client.HTTPConnection(way.host, way.port, timeout=TIMEOUT)
    headers = {"User-Agent": "glremote"} | ({"Authorization": f"Bearer {way.token}"} if way.token else {})
    try:
        connection.sock = _connected(way) if way.trust is None else _secured(way)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        text = answer.read(1 << 20).decode(errors="replace").strip()
        return Answer(answer.status, answer.getheader("Server", ""), text)
    except TimeoutError:
        text = f"connected, and no answer came within {TIMEOUT:g} s: the host hangs, or what listens there is none"
        raise Cannot(missing(text, f"systemctl restart glremote  # {way.there}, where it is a service")) from None
    except (http.client.HTTPException, OSError) as error:
        why = str(error) or type(error).__name__
        text = f"what answers at {way.where} is no glremote host: {why}"
        raise Cannot(missing(text, f"{way.again(way.other_scheme)}  # or another port")) from None
    finally:
        connection.close()


# --- glremote


def _session(way: Way, moderngl: str) -> Iterator[Finding]:
    """A session begins, and ends: its worker and driver work, and both sides speak the same."""
    link: Link | None = None
    try:
        link = connect(way.url, way.token, trust=way.trust)
        began = time.monotonic()
        greeting = greet(link, way.url, handshake.hello(VERSION, moderngl, OLDEST, link.distance))
        seconds = time.monotonic() - began
        tell(link, Goodbye())
    except VersionMismatch as error:
        upgrade = "pip install --upgrade ./glremote  # in the clone's folder, on the side that is named"
        raise Cannot(missing(str(error).removeprefix(f"{way.url}: "), upgrade)) from None
    except (Error, ValueError) as error:
        raise Cannot(_no_session(way, error)) from None
    except Exception as error:  # glcontext's, where the host's driver makes no such context
        raise Cannot(_no_session(way, error)) from None
    finally:
        if link is not None:
            link.close()
    yield from _greeted(greeting, moderngl, seconds)
    yield from _distance(link.distance)


def _no_session(way: Way, error: Exception) -> Finding:
    text = f"a session does not begin: {str(error).removeprefix(f'{way.url}: ')}"
    return missing(text, f"glremote doctor  # {way.there}, as the user that serves")


def _greeted(greeting: Greeting, moderngl: str, seconds: float) -> Iterator[Finding]:
    yield ok(
        f"a session begins, after {seconds:.2f} s: glremote {greeting.software} there and {VERSION} here, version "
        f"{greeting.version} of the protocol"
    )
    if greeting.moderngl != moderngl:
        text = f"moderngl is {greeting.moderngl} there and {moderngl} here: what they say may differ"
        yield warning(text, f"pip install moderngl=={moderngl}  # there")
    renderer = str(greeting.driver.info.get("GL_RENDERER", "unknown"))
    drawn = f"it draws with {renderer}, OpenGL {dotted(greeting.driver.version_code)}"
    if is_software(renderer):
        yield warning(f"{drawn}: in software", "glremote doctor  # there: why no GPU does it")
    else:
        yield ok(drawn)


def _distance(seconds: float) -> Iterator[Finding]:
    text = f"the distance is {1000 * seconds:.1f} ms"
    if seconds < SLOW:
        yield ok(text)
        return
    yield warning(
        f"{text}: a program waits that long for each read; see `waits` of glremote.device(ctx)",
        "future = glremote.read_async(framebuffer)  # reads that do not wait",
    )


def _devices(way: Way) -> Iterator[Finding]:
    """What the host tells of its GPUs; one of an earlier version tells nothing."""
    with contextlib.suppress(Cannot, Error):
        answer = _ask(way, devices.PATH)
        if answer.status == http.HTTPStatus.OK:
            report = devices.decode(answer.text.encode())
            for device in report.devices:
                text = f"it has {named(device)}, with {device.sessions} session{'s' * (device.sessions != 1)}"
                if device.trouble is None:
                    yield ok(text)
                else:
                    mend = f"glremote doctor  # {way.there}, as the user that serves"
                    yield warning(f"{text}: {device.trouble}", mend)
            if report.draining:
                yield warning("it goes down, and takes no new sessions")
