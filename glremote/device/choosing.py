"""The choice of a device: which of those that are listed a new context is to be on, and why.

Knows: what is listed of each, what is asked for, and the order among those that will do. Does not know: how the list
came to be, or how a context is made. Records go in, a record and its reason come out; nothing else is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from glremote.hosts import LOCAL
from glremote.protocol.devices import SOFTWARE, Device
from glremote.protocol.errors import NoDevice


class DeviceRecord(Device, frozen=True, kw_only=True):
    """A device as `glremote.instance().devices()` lists it; or, with an `error` and little else, a host without one."""

    host: str
    """What its host is called; "local" for this machine."""
    url: str
    name: str = ""
    renderer: str = ""
    version: int = 0
    distance: float | None = None
    """Milliseconds for a round trip to its host."""
    error: str | None = None
    """Why nothing is known of it: the host does not answer, or refuses."""
    glremote: str | None = None
    """The version of glremote on its host."""
    host_sessions: int = 0
    """The host's sessions, on all of its devices ..."""
    max_sessions: int | None = None
    """... and how many there may be."""
    draining: bool = False
    """Its host is going down, and takes no new sessions."""

    def __repr__(self) -> str:
        now = f"OpenGL {_dotted(self.version)}, {self.sessions} sessions, {self.distance or 0.0:.1f} ms"
        said = self.error or self.state or now
        return f"<DeviceRecord {self.title}: {said}>"

    @property
    def is_local(self) -> bool:
        """Whether it is this machine's."""
        return self.url == LOCAL

    @property
    def handle(self) -> str | None:
        """What it is named by towards its host; None where the driver has told nothing that would do."""
        if self.software:
            return SOFTWARE
        return self.uuid or self.pci or (None if self.number is None else str(self.number))

    @property
    def place(self) -> str:
        """What there is one of, as far as is known."""
        return f"{self.url}/{self.handle}"

    @property
    def state(self) -> str | None:
        """Why no session can begin on it now, though its host answers; None: one can."""
        if self.draining:
            return "its host is going down"
        if self.max_sessions is not None and self.host_sessions >= self.max_sessions:
            return f"its host has no room: {self.host_sessions} of at most {self.max_sessions} sessions"
        return self.trouble

    @property
    def title(self) -> str:
        """What people call it, and `device=` takes; and what it is."""
        if self.error is not None:
            return self.host
        place = self.host if self.label == "-" else f"{self.host}/{self.label}"
        return f"{place} ({self.name or self.renderer})"

    def with_sessions(self, more: int) -> DeviceRecord:
        """The same, with so many sessions more."""
        return DeviceRecord(**self.fields() | {"sessions": self.sessions + more}) if more else self

    def fields(self) -> dict[str, Any]:
        """All of it by name, as `glremote devices --json` shows it."""
        return {name: getattr(self, name) for name in ("host", "url", *self.__struct_fields__)}


@dataclass(frozen=True)
class Wanted:
    """What a context needs. `url` and `device` are the host and the device that were named, if they were."""

    version: int = 0
    """The least OpenGL, as 430."""
    extensions: tuple[str, ...] = ()
    memory: int = 0
    """Bytes that are free."""
    software: bool = True
    """Whether a software renderer will do."""
    url: str | None = None
    device: str | None = None


class Choice(NamedTuple):
    """What was chosen."""

    records: tuple[DeviceRecord, ...]
    """The first of them; those of its host behind it would do as well, so that the host may choose among all."""
    reason: str


class _Rank(NamedTuple):
    """The place of a device among those that will do: the least comes first, field by field."""

    order: int
    software: bool
    busy: float
    distance: float


WHY = (
    "hosts come before this machine",
    "a GPU comes before a software renderer",
    "the least busy of {n} ({sessions} sessions)",
    "the nearest of {n} ({distance:.1f} ms)",
)
"""What is said of the device that is better than the next in a field of _Rank."""


def choose(
    records: Sequence[DeviceRecord], wanted: Wanted, local: str = "last", failed: Mapping[str, str] | None = None
) -> Choice:
    """The device that is named, else of those that will do the least busy, else the nearest.

    This machine's GPU is behind all hosts, or before them where `local` is "first"; its software renderer is the last.
    `failed` says of hosts by their URL, and of devices by their place, why they were chosen before and are no more.
    Raises NoDevice.
    """
    failed = failed or {}
    named = [record for record in records if wanted.url in (None, record.url)]
    unfit = {place: why for place, record in enumerate(named) if (why := _why_not(record, wanted, failed))}
    fit = [record for place, record in enumerate(named) if place not in unfit]
    if not fit:
        listed = [f"{named[place].title}: {why}" for place, why in unfit.items()]
        raise NoDevice("\n  ".join(["no device is as it is asked for:", *(listed or ["there is none"])]))
    fit.sort(key=lambda record: _rank(record, local))
    chosen, ranks = fit[0], [_rank(record, local) for record in fit]
    alike = [one for one, rank in zip(fit, ranks, strict=True) if one.url == chosen.url and rank == ranks[0]]
    reasons = [f"{chosen.title}: {_reason(chosen, ranks)}"]
    names = {name: one.host if name == one.url else one.title for one in named for name in (one.url, one.place)}
    reasons += [f"{names[name]} was chosen before and failed: {why}" for name, why in failed.items() if name in names]
    return Choice(tuple(alike), "; ".join(reasons))


def _why_not(record: DeviceRecord, wanted: Wanted, failed: Mapping[str, str]) -> str | None:
    if record.error is not None:
        return record.error
    if wanted.device is not None and not record.answers_to(wanted.device):
        return f"it is {record.label!r}, and not {wanted.device!r}"
    if (why := failed.get(record.url) or failed.get(record.place)) is not None:
        return why
    if record.state is not None and (record.state != record.trouble or wanted.device is None):
        return record.state  # who names it has it, if it works again
    if record.software and not wanted.software:
        return "it is a software renderer"
    if record.version < wanted.version:
        return f"it has OpenGL {_dotted(record.version)}, and not {_dotted(wanted.version)}"
    if missing := [name for name in wanted.extensions if name not in record.extensions]:
        return f"it has no {', '.join(missing)}"
    if wanted.memory:
        return _too_small(record, wanted.memory)
    return None


def _too_small(record: DeviceRecord, memory: int) -> str | None:
    has = record.memory if record.memory_free is None else record.memory_free
    if has is None:
        return "its driver does not tell how much memory it has"
    return f"it has {has / 2**30:.1f} GiB of memory free, and not {memory / 2**30:.1f}" if has < memory else None


def _rank(record: DeviceRecord, local: str) -> _Rank:
    order = 0 if not record.is_local else -1 if local == "first" and not record.software else 1
    # Its own sessions, and what else keeps it busy: as much as a session, or half of one; less is nothing.
    busy = record.sessions + round(2 * (record.load or 0.0)) / 2
    return _Rank(order, record.software, busy, record.distance or 0.0)


def _reason(chosen: DeviceRecord, ranks: Sequence[_Rank]) -> str:
    """What sets it apart from the next; of several things the first that does."""
    if len(ranks) == 1:
        return "the only one that will do"
    if ranks[0].order < 0:
        return "this machine's GPU comes first"
    apart = next((place for place, parts in enumerate(zip(*ranks[:2], strict=True)) if parts[0] != parts[1]), None)
    if apart is not None:
        return WHY[apart].format(n=len(ranks), sessions=chosen.sessions, distance=chosen.distance or 0.0)
    return f"the first of {len(ranks)} that are alike"


def _dotted(version: int) -> str:
    return f"{version // 100}.{version // 10 % 10}"
