"""Looking in: what a person, a load balancer and Prometheus can see of a host, on its own port.

Knows: the pages and who may see them, and how what a gateway knows is shown: /healthz in a word, /metrics in
Prometheus' text format, / for a person. Does not know: how a request comes, or what a session does. It only reads.

Nothing here tells a secret: a session is shown by its number, and not by the name with which it can be resumed.
"""

from __future__ import annotations

import base64
import hmac
import html
import http
import ipaddress
import logging
import math
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from websockets.datastructures import Headers
from websockets.http11 import Request

from glremote.host.port import MOST_KINDS, Tally
from glremote.protocol.devices import Device
from glremote.version import VERSION

from .refusals import Why
from .tokens import Guesses

if TYPE_CHECKING:
    from . import Gateway
    from .sessions import Session

log = logging.getLogger("glremote.host")

PAGES = {"/healthz", "/metrics", "/", "/status"}
METHODS = ("GET", "HEAD")
"""By which a page can be asked for."""
REMEMBERED = 12
"""How many sessions that have ended the status page shows."""
REFRESH = 3
"""Seconds after which the status page loads itself again."""
SPARE_DESCRIPTORS = 24
"""New sessions are refused when fewer are left: a session takes five, and refusals and these pages need some too."""

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
}


class Page(NamedTuple):
    """What is answered."""

    status: http.HTTPStatus
    text: str
    kind: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class Ended(NamedTuple):
    """A session that has ended, for the page."""

    label: str
    began: float
    ended: float
    reason: str


class Looking:
    """What is counted over a host's whole life, and the pages that show it."""

    def __init__(self, gateway: Gateway) -> None:
        self.began = time.time()
        self.sessions = 0
        self.refused: Counter[tuple[str, str]] = Counter()  # by reason and status
        for why in Why:
            self.refuse(why, why.status, 0)
        self.endings: Counter[str] = Counter({"goodbye": 0, "lost": 0})
        self.ended: deque[Ended] = deque(maxlen=REMEMBERED)
        self._gateway = gateway
        self._guesses = Guesses()  # of the token for looking; those of the others are the gateway's to count
        self._done = Figures()  # of sessions that have ended
        self._registry: Any = None

    @property
    def prepared(self) -> bool:
        """Whether `page` answers at once."""
        return self._registry is not None

    def prepare(self) -> None:
        """What takes a while, in a thread of its own: only a host that is looked into imports this."""
        from prometheus_client import CollectorRegistry, ProcessCollector

        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(self)
        self._registry = registry

    def describe(self) -> list[Any]:
        """Prometheus' collector, when it is registered: nothing is collected for that."""
        return []

    def forget(self, session: Session, reason: str) -> None:
        """A session is ending: what it did stays counted."""
        self._done.add(session)
        self.endings["lost" if reason else "goodbye"] += 1
        self.ended.appendleft(Ended(session.label, session.began, time.time(), reason))

    def refuse(self, why: Why, status: http.HTTPStatus | None, count: int = 1) -> None:
        """Somebody did not get a websocket, and was answered so."""
        self.refused[why.label, "none" if status is None else str(status.value)] += count

    def page(self, request: Request, open_to_all: bool, address: str) -> Page:
        """The answer to a request for one of PAGES that came from there; `prepare` was called."""
        path = request.path.partition("?")[0]
        if request.method not in METHODS:
            text = f"this page is to be looked at: {' or '.join(METHODS)}\n"
            return Page(http.HTTPStatus.METHOD_NOT_ALLOWED, text, headers=(("Allow", ", ".join(METHODS)),))
        if (refusal := self._refusal(request.headers, open_to_all, address)) is not None:
            return refusal
        if path == "/healthz":
            trouble = self._gateway.trouble()
            status = http.HTTPStatus.SERVICE_UNAVAILABLE if trouble else http.HTTPStatus.OK
            return Page(status, (trouble or "ok") + "\n")
        if path == "/metrics":
            return self._metrics()
        return Page(http.HTTPStatus.OK, status_page(self._gateway, self), "text/html; charset=utf-8")

    def _refusal(self, headers: Headers, open_to_all: bool, address: str) -> Page | None:
        """Why a page is not shown, or None. `open_to_all`: the host listens on loopback alone."""
        token = self._gateway.options.look_token
        if token is None:
            return closed(headers, open_to_all)
        given = _given(" ".join(headers.get_all("Authorization")))
        if given and (wait := self._guesses.wait(address)):
            text = f"too many wrong tokens for looking came from this address; try again in {wait:.0f} s\n"
            return Page(http.HTTPStatus.TOO_MANY_REQUESTS, text, headers=(("Retry-After", f"{math.ceil(wait)}"),))
        if hmac.compare_digest(given, token.encode()):
            return None
        if given:
            self._guesses.wrong(address)
            log.warning("a wrong token for looking came from %s", address)
        text = "the token for looking is needed: as a Bearer token, or as the password of any user\n"
        asks = ("WWW-Authenticate", 'Basic realm="glremote", charset="UTF-8"'), ("WWW-Authenticate", "Bearer")
        return Page(http.HTTPStatus.UNAUTHORIZED, text, headers=asks)

    def total(self) -> Figures:
        """Of all sessions, past and present."""
        total = Figures()
        total.__dict__.update(self._done.__dict__, faults=Counter(self._done.faults))
        for session in self._gateway.sessions:
            total.add(session)
        return total

    def _metrics(self) -> Page:
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

        return Page(http.HTTPStatus.OK, generate_latest(self._registry).decode(), CONTENT_TYPE_PLAIN_0_0_4)

    def collect(self) -> Iterator[Any]:
        """Prometheus' collector: everything, as it is now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        def counter(name: str, text: str, values: Mapping[Any, float], *labels: str) -> Any:
            family = CounterMetricFamily(f"glremote_{name}", text, labels=labels)
            for key, value in values.items():
                family.add_metric(key if len(labels) > 1 else [key] * len(labels), value)
            return family

        def gauge(name: str, text: str, values: Mapping[str, float], label: str = "") -> Any:
            family = GaugeMetricFamily(f"glremote_{name}", text, labels=[label] if label else [])
            for key, value in values.items():
                family.add_metric([key] if label else [], value)
            return family

        gateway, total = self._gateway, self.total()
        states = Counter({state: 0 for state in ("starting", "greeting", "connected", "away", "ending")})
        states.update(session.state for session in gateway.sessions)
        waiting = {
            "buffers": sum(session.tally.waiting for session in gateway.sessions),
            "bytes_to_clients": sum(session.unsent for session in gateway.sessions),
        }
        yield gauge("sessions", "Sessions now, by state.", states, "state")
        by_device = {served.label: gateway.devices.on(served) for served in gateway.devices.all}
        yield gauge("device_sessions", "Sessions now, by device.", by_device, "device")
        yield gauge("sessions_limit", "The most sessions at a time.", {"": gateway.options.max_sessions})
        yield gauge("sessions_near", "Sessions whose client has come past the gateway.",
                    {"": sum(session.tally.near for session in gateway.sessions)})  # fmt: skip
        yield counter("sessions_begun", "Sessions that have begun.", {"": self.sessions})
        yield counter("sessions_ended", "Sessions that have ended, by how.", self.endings, "how")
        yield counter("refused", "Connections that got no websocket and no page, by why, and by the HTTP status.",
                      self.refused, "reason", "status")  # fmt: skip
        yield counter("buffers", "Command buffers that were run.", {"": total.buffers})
        yield counter("commands", "Commands in these buffers.", {"": total.commands})
        yield counter("buffer_seconds", "Seconds that workers spent on buffers.", {"": total.seconds})
        yield counter("websocket_bytes", "Bytes of packets through the gateway.",
                      {"up": total.bytes_up, "down": total.bytes_down}, "direction")  # fmt: skip
        yield counter("data_bytes", "Bytes of buffers with their data, and of answers, unpacked, near too.",
                      {"up": total.data_up, "down": total.data_down}, "direction")  # fmt: skip
        yield counter("faults", "Commands that failed, by the exception's type.", total.faults, "kind")
        yield gauge("waiting", "What waits in queues.", waiting, "queue")
        yield gauge("workers_warm", "Workers that are ready for a session.", {"": gateway.warm_workers})
        yield gauge("draining", "1 when no new sessions are taken, since the host goes down.", {"": gateway.draining})
        yield gauge("healthy", "1 when a new session can begin.", {"": not gateway.trouble()})
        yield gauge("start_time_seconds", "When the host began, in seconds since 1970.", {"": self.began})


class Figures:
    """Sums over sessions."""

    def __init__(self) -> None:
        self.buffers = self.commands = self.bytes_up = self.bytes_down = self.data_up = self.data_down = 0
        self.seconds = 0.0
        self.faults: Counter[str] = Counter()

    def add(self, session: Session) -> None:
        """One session more."""
        tally = session.tally
        self.buffers += tally.buffers
        self.commands += tally.commands
        self.bytes_up += session.bytes_up
        self.bytes_down += session.bytes_down
        self.data_up += tally.data_up
        self.data_down += tally.data_down
        self.seconds += tally.microseconds / 1e6
        for kind, count in tally.faults.items():
            self.faults[kind if kind in self.faults or len(self.faults) < MOST_KINDS else "others"] += count


# --- who may look


def closed(headers: Headers, open_to_all: bool) -> Page | None:
    """Why a page is not shown by a host without a token for it, or None."""
    if not open_to_all:
        text = "beyond loopback this page needs a token of its own, and the host has none: see --look-token-file\n"
        return Page(http.HTTPStatus.FORBIDDEN, text)
    if not _is_loopback_name(" ".join(headers.get_all("Host"))):
        text = "without a token this page is for loopback alone, under its own name: see --look-token-file\n"
        return Page(http.HTTPStatus.FORBIDDEN, text)
    return None


def _given(authorization: str) -> bytes:
    """The token in the header, as a Bearer token or as Basic's password; b"" where there is none."""
    scheme, _, rest = authorization.partition(" ")
    encoded = rest.strip().encode(errors="surrogateescape")
    if scheme.lower() == "bearer":
        return encoded
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(encoded, validate=True).partition(b":")[2]
    except ValueError:
        return b""


def _is_loopback_name(host: str) -> bool:
    """Whether a Host header means loopback. Another name that leads here may be a web page's trick (DNS rebinding)."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.lower() == "localhost" or is_loopback(name.strip("[]"))


def is_loopback(address: str) -> bool:
    """Whether an address reaches nobody but this machine."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


# --- descriptors


def descriptors() -> tuple[int, int] | None:
    """How many descriptors this process has open, and how many it may have; None where that cannot be told."""
    try:
        import resource

        return len(os.listdir("/proc/self/fd")), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except (ImportError, FileNotFoundError):
        return None
    except OSError:  # the list itself needs one
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return limit, limit


def no_descriptors() -> str | None:
    """Why no session can begin, where descriptors are short."""
    found = descriptors()
    if found is None or found[1] - found[0] >= SPARE_DESCRIPTORS:
        return None
    return f"no descriptors left: {found[0]} of {found[1]} are open; raise the limit of the host (ulimit -n)"


# --- the page for a person


def status_page(gateway: Gateway, looking: Looking) -> str:
    """The status page."""
    now, total, found = time.time(), looking.total(), descriptors()
    trouble = gateway.trouble()
    sessions = list(gateway.sessions)
    facts = {
        "Host": socket.gethostname(),
        "Renderer": gateway.renderer or "not known yet",
        "Running for": duration(now - looking.began),
        "Sessions": f"{len(sessions)} of {gateway.options.max_sessions}",
        "Workers warm": f"{gateway.warm_workers} of {gateway.options.warm * len(gateway.devices.all)}",
        "Descriptors": f"{found[0]:,} of {found[1]:,}" if found else "not known",
        "glremote": VERSION,
    }
    totals = {
        "Sessions begun": f"{looking.sessions:,}",
        "Buffers": f"{total.buffers:,}",
        "Commands": f"{total.commands:,}",
        "Time in buffers": duration(total.seconds),
        "Data up": size(total.data_up),
        "Data down": size(total.data_down),
        "Websocket up": size(total.bytes_up),
        "Websocket down": size(total.bytes_down),
        "Faults": f"{total.faults.total():,}",
        "Refused": f"{looking.refused.total():,}",
    }
    return Template(_template()).substitute(
        host=html.escape(socket.gethostname()),
        refresh=REFRESH,
        state="trouble" if trouble else "well",
        word="draining" if gateway.draining else "trouble" if trouble else "serving",
        trouble=f'<p class="trouble" role="status">{html.escape(trouble)}</p>' if trouble else "",
        iso=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        date=time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now)),
        facts=_terms(facts),
        totals=_terms(totals),
        sessions="\n".join(_row(session, now) for session in sessions)
        or '<tr class="none"><td colspan="11">No sessions now.</td></tr>',
        devices=_section("Devices", "\n".join(
            f"<li><span>{html.escape(device.described())}</span> {_state(device)}</li>"
            for served in gateway.devices.all if (device := gateway.devices.now(served)) is not None
        )),
        faults=_section("Faults by kind", "\n".join(
            f"<li><span>{html.escape(kind)}</span> <b>{count:,}</b></li>" for kind, count in total.faults.most_common()
        )),
        ended=_section("Ended lately", "\n".join(
            f"<li><span>{html.escape(one.label)}, {duration(now - one.ended)} ago, after "
            f"{duration(one.ended - one.began)}</span> {html.escape(one.reason or 'it said goodbye')}</li>"
            for one in looking.ended
        )),
    )  # fmt: skip


def _template() -> str:
    return resources.files(__package__).joinpath("status.html").read_text(encoding="utf-8")


def _terms(facts: dict[str, str]) -> str:
    return "\n".join(f"<div><dt>{term}</dt><dd>{html.escape(text)}</dd></div>" for term, text in facts.items())


def _section(title: str, items: str) -> str:
    return f'<section><h2>{title}</h2>\n<ul class="card">\n{items}\n</ul></section>' if items else ""


def _state(device: Device) -> str:
    """How it is now, as far as that is told."""
    parts = [f"{device.sessions} session{'' if device.sessions == 1 else 's'}"]
    if device.load is not None:
        parts.append(f"{device.load:.0%} busy")
    if device.memory is not None and device.memory_free is not None:
        parts.append(f"{size(device.memory_free)} of {size(device.memory)} free")
    return ", ".join(parts)


def _row(session: Session, now: float) -> str:
    tally: Tally = session.tally
    faults = sum(tally.faults.values())
    cells = {
        "Session": session.label,
        "State": f"{session.state}, {tally.waiting} waiting" if tally.waiting else session.state,
        "Age": duration(now - session.began),
        "From": session.peer,
        "Device": session.served.label,
        "Way": "near" if tally.near else "websocket",
        "Buffers": f"{tally.buffers:,}",
        "Commands": f"{tally.commands:,}",
        "Data up": size(tally.data_up),
        "Data down": size(tally.data_down),
        "Faults": f"{faults:,}",
    }
    own = f"; its token's limits: {session.token.limits}" if session.token.limits else ""
    title = html.escape(f"over the websocket {size(session.bytes_up)} up, {size(session.bytes_down)} down{own}")
    numbers = {"Age", "Buffers", "Commands", "Data up", "Data down", "Faults"}
    data = "".join(
        f'<td data-name="{name}"{" class=number" if name in numbers else ""}>{html.escape(text)}'
        f"{f'<small>{html.escape(session.renderer)}</small>' if name == 'Session' else ''}</td>"
        for name, text in cells.items()
    )
    return f'<tr class="{session.state}" title="{title}">{data}</tr>'


def duration(seconds: float) -> str:
    """As 12 s, 3 min 20 s, 5 h 7 min or 2 d 3 h."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole // 60 % 60} min"
    return f"{whole // 86400} d {whole // 3600 % 24} h"


def size(count: float) -> str:
    """As 999 B or 1.23 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"
