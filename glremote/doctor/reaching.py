"""Going to a host step by step, as a client does, until the step that fails: what is said of each, and what to do.

Knows: names, ports, TLS, tokens and greetings, in the order in which a client needs them. Does not know: how any of it
is shown. A session begins at the end and says goodbye at once; it takes a place for that moment.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import shlex
import socket
import ssl
import time
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

from glremote.device.choosing import Wanted, choose
from glremote.device.listing import records_of
from glremote.device.opening import greet, tell
from glremote.hosts import PORT, Host
from glremote.link import tls
from glremote.link.asking import Answer as Report
from glremote.link.links import Link
from glremote.link.reaching import (
    BEHIND,
    NO_UPGRADE,
    NOT_A_WORD,
    NOT_PASSED_ON,
    TIMING_HEADER,
    connected,
    headers,
    is_host,
    moved,
    parsed,
    secured,
    shown,
    stranger,
)  # fmt: skip
from glremote.link.tls import Trust, Untrusted, explain
from glremote.link.websocket import PATH, connect
from glremote.protocol import devices, handshake
from glremote.protocol.errors import Error, NoDevice, NotAdmitted, VersionMismatch
from glremote.protocol.messages import Goodbye, Greeting
from glremote.protocol.reflection import is_software
from glremote.version import VERSION

from .finding import Finding, missing, ok, warning
from .findings import dotted, named
from .way import Cannot, Way

TIMEOUT = 5.0
"""Seconds for each step."""
SLOW_TO_CONNECT = 0.9
"""Seconds after which an address has been given up for the next."""
SLOW = 0.1
"""Seconds of distance from which each wait is felt."""
SOON = 14 * 86400
"""Seconds before its end in which a certificate had better be renewed."""
OLDEST = 330
"""What moderngl requires unless told otherwise."""


def reach(host: Host, device: str | None, moderngl: str) -> Iterator[Finding]:
    """Every step on the way to a host, up to the one that fails; `moderngl` is the version that is here."""
    uri = parsed(host.url)
    path = uri.path if uri.path not in ("", "/") else PATH
    way = Way(host.url, host.name, uri.host, uri.port, path, host.current_token, host.trust, device)
    try:
        yield from _name(way)
        yield from _port(way)
        yield from _tls(way)
        yield from _token(way)
        report = yield from _devices(way)
        yield from _session(way, _chosen(way, host, report), moderngl)
    except Cannot as failed:
        yield failed.finding


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
        sock = connected(way.host, way.port, TIMEOUT)
    except OSError as error:
        raise Cannot(_no_connection(way, error)) from None
    seconds = time.monotonic() - began
    address = sock.getpeername()[0]
    sock.close()
    yield ok(f"port {way.port} is open; the connection took {1000 * seconds:.1f} ms")
    if seconds > SLOW_TO_CONNECT:
        text = f"it is {address} that answers; another of its addresses does not, and each connection waits for that"
        yield warning(text, f"glremote doctor {way.at(address, way.port)}  # by this address alone")


def _no_connection(way: Way, error: OSError) -> Finding:
    serve = "glremote serve" if way.is_near else "glremote serve --bind 0.0.0.0 --tls-cert cert.pem --tls-key key.pem"
    if isinstance(error, ConnectionRefusedError):
        usual = way.usual_port()
        if way.is_near:
            tunnel = f"ssh -N -L {way.port}:127.0.0.1:{PORT} GPU-MACHINE  # where the host is another machine"
            text = f"nobody listens at port {way.port} of this machine: is a host running here, or a tunnel open?"
            return missing(text, *usual, f"{serve} --port {way.port}", tunnel)
        text = f"{way.host} is there, and nobody listens at its port {way.port}, or only for itself: start a host there"
        return missing(text, *usual, f"{serve} --port {way.port}  # {way.there}")
    if isinstance(error, TimeoutError):
        text = f"nothing came back from {way.where} within {TIMEOUT:g} s: a firewall on the way drops it, or it is off"
        firewall = f"sudo ufw allow {way.port}/tcp  # {way.there}, where that is its firewall"
        return missing(text, *way.usual_port(), firewall)
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
    try:
        return secured(connected(way.host, way.port, TIMEOUT), way.host, way.trust or Trust())
    except Untrusted as error:
        found = missing(str(error), f"openssl x509 -in cert.pem -outform DER | sha256sum  # {way.there}", way.pinned)
    except TimeoutError:
        text = f"connected, and TLS was not spoken within {TIMEOUT:g} s: is it a host, and one with TLS?"
        found = missing(text, way.again(way.other_scheme))
    except ssl.SSLError as error:
        found = missing(explain(error), *_for_tls(way, error))
    except (OSError, ValueError) as error:
        found = missing(f"the connection broke while TLS began: {error}", way.again(way.other_scheme))
    raise Cannot(found)


def _for_tls(way: Way, error: ssl.SSLError) -> tuple[str, ...]:
    """What mends it; a certificate is to be pinned by whoever has seen to it that it is the host's."""
    if isinstance(error, ssl.SSLCertVerificationError):
        look = f"openssl x509 -in cert.pem -noout -subject -enddate -ext subjectAltName  # {way.there}: what it has"
        if error.verify_code in (tls.EXPIRED, tls.NOT_YET_VALID):
            renew = f"sudo certbot renew  # {way.there}, if it is certbot's"
            return look, "date -u  # here and there: it must be the same", renew, way.pinned
        if error.verify_code in (tls.WRONG_NAME, tls.WRONG_ADDRESS):
            return look, f"{way.again(way.at('NAME', way.port))}  # by a name that is in it", way.pinned
        ca = way.again(trust=" --ca-file cert.pem")
        return look, f"{ca}  # its own certificate, or its authority's, brought from there", way.pinned
    if tls.is_one(error, tls.TOO_OLD):
        return (f"ssl_protocols TLSv1.2 TLSv1.3;  # {way.there}, where that is nginx",)
    if tls.is_one(error, tls.WANTS_OURS):
        return (f"ssl_verify_client off;  # {way.there}, where that is nginx",)
    return (way.again(way.other_scheme),)


def _seconds_left(certificate: Any) -> float | None:
    """Of its life; None where it was not looked at, being pinned."""
    return ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time() if certificate else None


# --- token


def _token(way: Way) -> Iterator[Finding]:
    """Asked as a websocket is, but for the wish to have one: so nothing begins."""
    answer = _ask(way, way.path)
    if answer.status == http.HTTPStatus.UPGRADE_REQUIRED:
        yield ok("the token is admitted")
        return
    if answer.is_host:
        raise Cannot(_refused(way, answer))
    text = stranger(answer.status, answer.server, answer.location)
    if address := moved(answer.location):
        mend = [f"glremote doctor {shlex.quote(address)}"]
    elif answer.status in BEHIND:
        mend = [f"systemctl status glremote  # behind {way.where}"]
    else:
        mend = [*_elsewhere(way)]
    raise Cannot(missing(f"{way.where}{way.path}: {text}", *mend))


def _elsewhere(way: Way) -> Iterator[str]:
    """Where a host may be, if another has that port."""
    if way.port != PORT:
        yield f"{way.again(way.at(way.host, PORT))}  # at the port that hosts have"
    yield f"glremote serve --port 0  # {way.there}: at a port that nobody has"


def _refused(way: Way, answer: Answer) -> Finding:
    said = f"the host refuses ({answer.status}): {shown(answer.text)}"
    again = way.again()
    if answer.status == http.HTTPStatus.UNAUTHORIZED:
        return missing(
            said,
            f"glremote token create --name NAME  # {way.there}, as the user that serves",
            f"{again} --token-file FILE  # with the token in it",
            *way.kept(" --token-file FILE"),
        )
    if answer.status == http.HTTPStatus.TOO_MANY_REQUESTS:
        return missing(said, f"sleep 60; {again}")
    if answer.status in NO_UPGRADE:
        return missing(f"{NOT_PASSED_ON} (HTTP {answer.status})", *_passed_on(way))
    if "no room" in answer.text:
        return missing(f"the token is admitted, and {said}", f"glremote serve --max-sessions 64  # {way.there}")
    if "going down" in answer.text:
        return missing(f"the token is admitted, and {said}", f"sleep 60; {again}  # when it has come up again")
    if answer.status == http.HTTPStatus.NOT_FOUND:
        below = f"{way.again(way.url + PATH)}  # where a proxy has the host below that"
        return missing(said, f"{way.again(way.at(way.host, way.port))}  # without a path", below)
    if "this host serves" in answer.text:
        return missing(said, way.again(way.other_scheme))
    return missing(said, f"journalctl -u glremote -n 50  # {way.there}: its log says why")


def _passed_on(way: Way) -> tuple[str, ...]:
    where = f"# {way.there}, where that is nginx"
    headers = ("Upgrade $http_upgrade", "Connection upgrade")
    return (f"proxy_http_version 1.1;  {where}", *(f"proxy_set_header {header};  {where}" for header in headers))


class Answer(NamedTuple):
    """To a GET."""

    status: int
    server: str
    location: str
    text: str
    is_host: bool


def _ask(way: Way, path: str) -> Answer:
    """A GET with the token. Raises Cannot."""
    connection = http.client.HTTPConnection(way.host, way.port, timeout=TIMEOUT)
    try:
        sock = connected(way.host, way.port, TIMEOUT) if way.trust is None else _secured(way)
        connection.sock = sock
        connection.request("GET", path, headers=headers(way.url, way.token))
        answer = connection.getresponse()
        text = answer.read(1 << 20).decode(errors="replace")
        server, location = answer.getheader("Server", ""), answer.getheader("Location", "")
        own = is_host(server, answer.getheader(TIMING_HEADER, ""))
        return Answer(answer.status, server, location, text, own)
    except NotAdmitted as error:
        raise Cannot(missing(str(error).removeprefix(f"{way.url}: "), f"{way.again()} --token-file FILE")) from None
    except TimeoutError:
        text = f"connected, and no answer came within {TIMEOUT:g} s: the host hangs, or what listens there is none"
        raise Cannot(missing(text, f"systemctl restart glremote  # {way.there}, where it is a service")) from None
    except (ConnectionError, ssl.SSLEOFError):  # http.client's too, for an answer without a byte
        text = f"what answers at {way.where} is no glremote host: {NOT_A_WORD}"
        raise Cannot(missing(text, f"glremote serve  # {way.there}, or where the tunnel leads")) from None
    except ssl.SSLError as error:  # a refusal in TLS may come as late as this
        raise Cannot(missing(explain(error), *_for_tls(way, error))) from None
    except (http.client.HTTPException, OSError) as error:
        text = f"what answers at {way.where} is no glremote host: {shown(str(error)) or type(error).__name__}"
        raise Cannot(missing(text, *_elsewhere(way))) from None
    finally:
        connection.close()


# --- glremote


def _devices(way: Way) -> Generator[Finding, None, devices.HostReport | None]:
    """What the host tells of its GPUs; one of an earlier version tells nothing."""
    with contextlib.suppress(Cannot, Error):
        answer = _ask(way, way.path.rpartition("/")[0] + devices.PATH)
        if answer.status == http.HTTPStatus.OK:
            report = devices.decode(answer.text.encode())
            for device in report.devices:
                text = f"it has {named(device)}, with OpenGL {dotted(device.version)}; sessions: {device.sessions}"
                if device.trouble is None:
                    yield ok(text)
                else:
                    look = f"glremote doctor  # {way.there}, as the user that serves"
                    yield warning(f"{text}; none can begin on it now: {shown(device.trouble)}", look)
            if report.trouble is not None:
                log = f"journalctl -u glremote -n 50  # {way.there}: its log says more"
                yield warning(f"no session can begin there now: {shown(report.trouble)}", log)
            return report
    return None


def _chosen(way: Way, host: Host, report: devices.HostReport | None) -> str | None:
    """The handle of the device that is named."""
    if way.device is None:
        return None
    try:
        records = [] if report is None else records_of(host, Report(report, 0.0))
        return choose(records, Wanted(device=way.device)).records[0].handle
    except NoDevice as error:
        text = " ".join(str(error).split())
        raise Cannot(missing(text, "glremote devices  # which shows those that there are")) from None


def _session(way: Way, device: str | None, moderngl: str) -> Iterator[Finding]:
    """A session begins, and ends: its worker and driver work, and both sides speak the same."""
    link: Link | None = None
    try:
        link = connect(way.url, way.token, trust=way.trust, device=device)
        began = time.monotonic()
        greeting = greet(link, way.url, handshake.hello(VERSION, moderngl, OLDEST, link.distance))
        seconds = time.monotonic() - began
        tell(link, Goodbye())
    except VersionMismatch as error:
        text = str(error).removeprefix(f"{way.url}: ")
        side = "here" if "upgrade glremote on the client" in text or "on this client" in text else way.there
        upgrade = f"git -C glremote pull && pip install --upgrade ./glremote  # {side}, beside the clone"
        raise Cannot(missing(text, upgrade)) from None
    except Exception as error:  # of glcontext's too, where the host's driver makes no such context
        raise Cannot(_no_session(way, error)) from None
    finally:
        if link is not None:
            link.close()
    yield from _greeted(greeting, moderngl, seconds)
    yield from _distance(link.distance)


def _no_session(way: Way, error: Exception) -> Finding:
    text = f"a session does not begin: {str(error).removeprefix(f'{way.url}: ')}"
    if NOT_PASSED_ON in text:
        return missing(text, *_passed_on(way))
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
    drawn = f"it draws with {renderer}"
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
