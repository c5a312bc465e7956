"""The devices of a host: which the next session goes to, and what is told of them.

Knows: those that are served (probing.py found them), how many sessions each has, and whether workers could be started
on it; gpus.py tells how it is now. Does not know: OpenGL, workers, or who may ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING

from glremote.host import gpus
from glremote.host.gpus import State
from glremote.protocol import devices as told
from glremote.protocol.devices import Device, HostReport
from glremote.protocol.messages import VERSION as PROTOCOL
from glremote.version import VERSION

from . import drivers
from .refusals import Why

if TYPE_CHECKING:
    from .tokens import Token

log = logging.getLogger("glremote.host")

FRESH = 1.0
"""Seconds for which what a GPU's driver told of its memory and load is told again."""
ASKING = 0.5
"""Seconds that an answer waits for the driver; behind that it tells what was known before."""
LONGEST_NAME = 80
"""Characters of a device's name that are said again."""


@dataclasses.dataclass(eq=False)
class Served:
    """One device. Where EGL listed none there is one of which nothing is known: it is as good as its workers."""

    place: int
    """Among those that are served, which begin with GPUs, in the order of their numbers."""
    device: Device | None = None
    failed: tuple[float, str] | None = None
    """Since when, and why, no worker could be started on it."""

    @property
    def label(self) -> str:
        """The shortest of its names."""
        return "-" if self.device is None else self.device.label

    def is_one_of(self, names: Sequence[str] | None) -> bool:
        """Whether it is one that is named; None: whichever it is."""
        return names is None or (self.device is not None and any(self.device.answers_to(name) for name in names))

    @property
    def header(self) -> str:
        """What the answer to a request for a websocket says; see DEVICE_HEADER."""
        return "" if self.device is None else self.device.header


class Devices:
    """All that a host serves. `sessions` tells the devices of all sessions that are there."""

    def __init__(
        self,
        found: Sequence[Device],
        sessions: Callable[[], Iterable[Served]],
        states: Callable[[Sequence[str]], Mapping[str, State]] = gpus.states,
    ) -> None:
        self.all = [Served(place, device) for place, device in enumerate(found)] or [Served(0)]
        self._sessions = sessions
        self._states = states
        self._known: Mapping[str, State] = {}
        self._known_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    @property
    def several(self) -> bool:
        """Whether it has to be said which."""
        return len(self.all) > 1

    def on(self, served: Served) -> int:
        """How many sessions are on it."""
        return sum(one is served for one in self._sessions())

    def choose(self, names: str | None, without: Collection[Served] = ()) -> Served | None:
        """For a new session: the one that has fewest, of those that are so named if any is; None: there is no such.

        Those that it was to be on before, and that have failed, are left out.
        """
        named = None if names is None else names.split(",")
        fitting = [served for served in self.all if served not in without and served.is_one_of(named)]
        return min(fitting, key=lambda one: (one.failed is not None, self.on(one), one.place), default=None)

    def refusal(self, names: str | None) -> tuple[Why, str] | None:
        """Why a session cannot be on a device of these names."""
        if self.choose(names) is not None:
            return None
        there_are = "; ".join(served.device.described() for served in self.all if served.device is not None)
        text = f"there is no device {names[:LONGEST_NAME] if names else names!a} here: {there_are or 'none has a name'}"
        return Why.DEVICE, text

    # --- what is told

    async def refresh(self) -> None:
        """Ask the drivers how their GPUs are, unless that was just done. One that is stuck holds nobody up."""
        if time.monotonic() - self._known_at >= FRESH and self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        if self._asking is not None:
            await asyncio.wait((self._asking,), timeout=ASKING)

    async def _ask(self) -> None:
        addresses = [served.device.pci for served in self.all if served.device is not None and served.device.pci]
        try:
            self._known = await drivers.begin(self._states, addresses)
        except Exception:
            log.exception("what GPUs tell of themselves could not be had")
        finally:
            self._known_at = time.monotonic()
            self._asking = None

    def now(self, served: Served) -> Device | None:
        """As it was when it was asked last, with the sessions of this moment."""
        device = served.device
        if device is None:
            return None
        state = self._known.get(device.pci or "", State(device.memory, device.memory_free, device.load))
        fields = {name: getattr(device, name) for name in device.__struct_fields__}
        trouble = None if served.failed is None else f"no worker can be started: {served.failed[1]}"
        return Device(**fields | state._asdict() | {"sessions": self.on(served), "trouble": trouble})

    async def report(
        self, token: Token, theirs: int, most: int, draining: bool, trouble: str | None = None, away: int = 0
    ) -> bytes:
        """For whoever has this token, and so many sessions now; the host may have `most`. `trouble` is all devices'.

        Of theirs some are `away`, and give their places to new ones.
        """
        await self.refresh()
        sessions = sum(1 for _ in self._sessions())
        if token.max_sessions is not None:
            most = min(most, sessions + max(0, token.max_sessions - theirs))
        most = max(most, sessions + away)
        moderngl = ""
        with contextlib.suppress(metadata.PackageNotFoundError):
            moderngl = metadata.version("moderngl")
        found = tuple(device for served in self.all if (device := self.now(served)) is not None)
        return told.encode(
            HostReport(
                software=VERSION, protocol=PROTOCOL, moderngl=moderngl, sessions=sessions, max_sessions=most,
                draining=draining, devices=found, trouble=trouble,
            )
        )  # fmt: skip
