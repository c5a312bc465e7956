"""Where a new context goes: the hosts that are associated, what a name of one means, and the next where one has failed.

Knows: the hosts' file and what was associated besides, the environment, and when which list is needed. Does not know:
the order among devices (device/choosing.py), or how a context is made.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from . import hosts as hosts_file
from .device import listing
from .device.choosing import Choice, DeviceRecord, Wanted, choose
from .hosts import LOCAL, TOKEN_VARIABLE, Host, NoHost, Settings
from .link.asking import ask
from .link.tls import CA_VARIABLE, PIN_VARIABLE
from .protocol.errors import CallError, DeviceLost, Error, LinkError, NoDevice, ProtocolError

log = logging.getLogger("glremote")

HOST_VARIABLE = "GLREMOTE_HOST"
LOCAL_VARIABLE = "GLREMOTE_LOCAL"
"""Overrules `local` of the hosts' file."""
CALL = "named in the call"
UUID = re.compile("GPU-[0-9a-f]{4}[0-9a-f-]*", re.IGNORECASE)
PORTLESS = re.compile(r"wss?://(\[[^]]*\]|[^/:]*)")
"""An address without a port."""
FORGIVEN = 5.0
"""Seconds for which a host that did not answer is not asked again by the choice, if there is another."""
FORGOTTEN = 10.0
"""Seconds after which a context that was made is among what its host tells, for whoever makes another meanwhile."""

T = TypeVar("T")
Make = Callable[[Host | None, Sequence[DeviceRecord], str], T]
"""Makes a context on a host, or here; on one of some devices, or on any that is there; for a reason."""


class Named(NamedTuple):
    """What was named."""

    host: Host | None
    """None: this machine."""
    device: str | None
    """One of its devices; None: any of them."""
    reason: str
    anywhere: bool = False
    """The device alone is named, by what no other has, and not its host."""


@dataclasses.dataclass
class _Promise:
    """A context that this program is making on a device."""

    place: str
    ended: float = math.inf


class Placing:
    """The hosts of one instance, and the choice among them."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._lock = threading.RLock()
        self._choosing = threading.RLock()  # one at a time, which may take as long as this machine's drivers
        self._promises: list[_Promise] = []  # contexts that are being made, or were a moment ago
        self._silent: dict[str, tuple[float, DeviceRecord]] = {}  # hosts that did not answer, and when
        self._here: list[DeviceRecord] | None = None  # this machine's devices, which stay what they are

    def inherit(self) -> None:
        """In a forked child: of the parent's threads none is here, to let go of a lock or to make a context."""
        self._lock, self._choosing, self._promises = threading.RLock(), threading.RLock(), []

    # --- the hosts

    @property
    def settings(self) -> Settings:
        """The file's, read when it is first asked for, and what was associated. Raises HostsFileError."""
        with self._lock:
            if self._settings is None:
                self._settings = hosts_file.read(hosts_file.default_file())
            return self._settings

    @property
    def local(self) -> str:
        """Where this machine's GPU stands among those of hosts. Raises ValueError."""
        order = os.environ.get(LOCAL_VARIABLE) or self.settings.local
        if order not in hosts_file.ORDERS:
            raise ValueError(f"{LOCAL_VARIABLE} is first or last, and not {order!r}")
        return order

    def associate(self, host: Host) -> None:
        """Know a host from now on, in the place of the one with its URL. Raises ValueError."""
        host.check_token()
        _ = host.trust
        with self._lock:
            settings = self.settings
            self._settings = dataclasses.replace(settings, hosts=hosts_file.with_host(settings.hosts, host))

    # --- names

    def named(
        self,
        host: str | None,
        device: str | int | DeviceRecord | None,
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        pin: str | None = None,
    ) -> Named | None:
        """What the arguments of a call name, else GLREMOTE_HOST; None where nothing is named. Raises ValueError."""
        reason, of_host, by_record = CALL, None, isinstance(device, DeviceRecord)
        if isinstance(device, DeviceRecord):
            if host or device.error is not None:
                raise ValueError(f"{device.title} cannot be taken: " + (device.error or "a host is named too"))
            host, device = device.url, device.handle
        if device is not None:
            of_host = str(device)
        if not host and of_host is not None:
            host, of_host = of_host, None
        elif not host:
            host, reason = os.environ.get(HOST_VARIABLE), HOST_VARIABLE
        if not host:
            return None
        if of_host is None and UUID.fullmatch(host) and not any(known.name == host for known in self.settings.hosts):
            return Named(None, host, reason, anywhere=True)
        found, suffix = self._resolve(host)
        if suffix is not None and of_host is not None:
            raise ValueError(f"{host!r} and {of_host!r} name two devices")
        known = None if found is None else _credentials(found, "" if by_record else host, token, ca, pin)
        return Named(known, of_host if suffix is None else suffix, reason)

    def _resolve(self, text: str) -> tuple[Host | None, str | None]:
        """The host that a text names, and the device behind it, as in "gpu-1/0"; None for this machine."""
        if text == LOCAL:
            return None, None
        if text.startswith((f"{LOCAL}/", f"{LOCAL}:")):
            return None, text[len(LOCAL) + 1 :]
        known = self.settings.hosts
        names = sorted(((name, host) for host in known for name in (host.name, host.url)), key=lambda one: -len(one[0]))
        for name, host in names:
            if text.rstrip("/") == name:
                return host, None
            between = "/" if PORTLESS.fullmatch(name) else ("/", ":")  # behind it a colon is another port's
            rest = text.removeprefix(name)
            if rest != text and rest.startswith(between) and len(rest) > 1:
                return host, rest[1:]
        if text.startswith(("ws://", "wss://")):
            return Host(text), None
        raise NoHost(text, [host.name for host in known])

    # --- the choice

    def devices(self) -> list[DeviceRecord]:
        """Every device of every host and of this machine, as they are now."""
        records = listing.list_all(self.settings.hosts)
        self._here = _known([record for record in records if record.is_local])
        return records

    def place(self, named: Named | None, wanted: Wanted, make: Make[T], local: bool = True) -> T:
        """Make a context where it belongs; what was named is never left for another. Raises what `make` raises.

        Without `local` it is not on this machine unless that is named.
        """
        plain = wanted == Wanted(version=wanted.version)
        if named is not None and named.anywhere:
            wanted, plain = dataclasses.replace(wanted, device=named.device), False
        elif named is not None:
            if plain and named.device is None:
                return make(named.host, (), named.reason)
            choice = self._choose_named(named, wanted)
            return make(named.host, choice.records, choice.reason)
        if local and plain and not self.settings.hosts:
            return make(None, (), f"no host is named in the call or in {HOST_VARIABLE}, and none is associated")
        asked, hosts, order = time.monotonic(), self.ask_hosts(), self.local
        failed: dict[str, str] = {}
        while True:
            with self._promise(
                lambda: self._choose(self._counted(hosts, asked), wanted, failed, order, local)
            ) as choice:
                record = choice.records[0]
                host = next((host for host in self.settings.hosts if host.url == record.url), None)
                try:
                    reason = choice.reason if named is None else f"{named.reason}; {choice.reason}"
                    made = make(None if host is None else _credentials(host), choice.records, reason)
                except CallError:
                    raise
                except Exception as error:
                    if not isinstance(error, Error) and type(error) is not Exception:  # that is glcontext's own
                        raise
                    of_host = isinstance(error, LinkError | ProtocolError) and not isinstance(error, DeviceLost)
                    failed.update({record.url if of_host else one.place: str(error) for one in choice.records})
                    log.warning("no context on %s: %s; trying the next", record.title, error)
                else:
                    log.info("a context on %s", reason)
                    return made

    def _choose_named(self, named: Named, wanted: Wanted) -> Choice:
        if named.host is None:
            records = self._devices_here()
            if not records:
                raise NoDevice(
                    "this machine has no device that OpenGL can be used on through EGL; `glremote doctor` says why"
                )
        else:
            host = named.host
            records = listing.records_of(host, ask(host.url, host.current_token, host.trust))
        choice = choose(records, dataclasses.replace(wanted, device=named.device))
        chosen = named.device is None and len(records) > 1
        return choice._replace(reason=f"{named.reason}; {choice.reason}" if chosen else named.reason)

    def _choose(
        self, hosts: Sequence[DeviceRecord], wanted: Wanted, failed: Mapping[str, str], order: str, local: bool
    ) -> Choice:
        """The best; this machine's devices, which take a second to find out, are looked at where one may be that."""
        if not local:
            return choose(hosts, wanted, order, failed)
        if order == "last":
            with contextlib.suppress(NoDevice):
                return choose(hosts, wanted, order, failed)
        return choose([*hosts, *self._devices_here()], wanted, order, failed)

    def _devices_here(self) -> list[DeviceRecord]:
        if self._here is None:
            here = listing.list_here()
            self._here = _known(here)
            return here
        return self._here

    def _counted(self, records: Sequence[DeviceRecord], asked: float) -> list[DeviceRecord]:
        """With the contexts of this program that were not all there when the hosts were asked."""
        places = [one.place for one in self._promises if one.ended > asked]
        return [record.with_sessions(places.count(record.place)) for record in records]

    @contextlib.contextmanager
    def _promise(self, choose_: Callable[[], Choice]) -> Iterator[Choice]:
        with self._choosing:
            choice = choose_()
            promise = _Promise(choice.records[0].place)
            with self._lock:
                self._promises.append(promise)
        try:
            yield choice
        finally:
            promise.ended = now = time.monotonic()
            with self._lock:
                self._promises = [one for one in self._promises if now - one.ended < FORGOTTEN]

    def ask_hosts(self) -> list[DeviceRecord]:
        """What hosts tell now; one that did not answer a moment ago is left alone, unless there are no others."""
        now = time.monotonic()
        with self._lock:
            silent = {url: record for url, (when, record) in self._silent.items() if now - when < FORGIVEN}
        hosts = self.settings.hosts
        silent = {host.url: silent[host.url] for host in hosts if host.url in silent}
        if len(silent) == len(hosts):
            silent = {}
        records = listing.list_hosts([host for host in hosts if host.url not in silent])
        with self._lock:
            self._silent |= {record.url: (now, record) for record in records if record.error is not None}
        return [*records, *silent.values()]


def _known(here: list[DeviceRecord]) -> list[DeviceRecord] | None:
    """This machine's devices; None where they could not be found out this time."""
    return None if any(record.error is not None for record in here) else here


def _credentials(
    host: Host,
    named: str = "",
    token: str | None = None,
    ca: str | os.PathLike[str] | None = None,
    pin: str | None = None,
) -> Host:
    """A host with what it is reached by: the call's; where it is named by its URL the environment's; else its own."""
    of_environment = os.environ.get(TOKEN_VARIABLE), os.environ.get(CA_VARIABLE), os.environ.get(PIN_VARIABLE)
    if not named.startswith(("ws://", "wss://")):
        of_environment = None, None, None
    if token is None:
        token = of_environment[0] or host.current_token
    if ca is None and pin is None and not any(of_environment[1:]):
        ca, pin = host.ca, host.pin
    return Host(host.url, host.name, token, None if ca is None else os.fspath(ca), pin)
