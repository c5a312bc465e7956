"""Workers that are started, and some that are warm: they have their context before a session comes that needs one.

Knows: for which token, and on which device, each warm worker is. Does not know: sessions, or who may come in.

A worker has the cache folder of one token, which its walls let it write to before its session is known, that token's
limits, and one device; so some are warm for whoever came last, on each device.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from glremote.host.limits import Limits

from .devices import Devices, Served
from .tokens import Token
from .watching import Watch
from .workers import Options, Place, Worker, WorkerFailed

log = logging.getLogger("glremote.host")

WARM_LATER = 3.0
"""Seconds after which a warm worker that was taken is replaced, if others are left: starting one takes a processor from
the session that has just begun. At the end of a session it is replaced at once."""
TRY_AGAIN = 10.0
"""Seconds after which a worker is started again to see whether one can be, when someone asks and none could."""


@dataclass(frozen=True, eq=False)
class Starting:
    """A worker that is warm, or about to be; or it could not be started."""

    owner: str
    """The token, by digest."""
    served: Served
    task: asyncio.Task[Worker]

    @property
    def is_ready(self) -> bool:
        """Whether it is warm."""
        return self.task.done() and not self.task.cancelled() and self.task.exception() is None


class Warming:
    """All starting of workers. `limits_of` tells those of a token's sessions, by its digest."""

    def __init__(
        self, options: Options, devices: Devices, place: Place, watch: Watch, limits_of: Callable[[str], Limits]
    ) -> None:
        self.place = place
        self.owner = ""
        """The token that began a session last."""
        self.renderer = ""
        self.stopped = False
        """Nobody comes any more."""
        self._options = options
        self._devices = devices
        self._watch = watch
        self._limits_of = limits_of
        self._warm: list[Starting] = []
        self._ending: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        """Start the first. Raises WorkerFailed where none can be started on any device."""
        self.fill()
        firsts = [warm for warm in self._warm if warm is self._on(warm.served)[0]]
        if firsts:
            await asyncio.wait([warm.task for warm in firsts])
        errors = {warm.served: error for warm in firsts if (error := _failure(warm.task)) is not None}
        if errors and len(errors) == len(firsts):
            raise next(iter(errors.values()))
        for served, error in errors.items():
            log.error("no worker can be started on device %s: %s", served.label, error)

    async def end(self) -> None:
        """End all that no session has taken."""
        self.stopped = True
        for warm in self._warm:
            warm.task.cancel()
        started = await asyncio.gather(*(warm.task for warm in self._warm), return_exceptions=True)
        ending = [worker.end() for worker in started if isinstance(worker, Worker)]
        await asyncio.gather(*ending, *self._ending, return_exceptions=True)

    @property
    def ready(self) -> int:
        """How many are warm."""
        return sum(warm.is_ready for warm in self._warm)

    def fill(self) -> None:
        """Have as many on each device as are to be warm."""
        for served in self._devices.all:
            while len(self._on(served)) < self._options.warm and not self.stopped:
                self._add(served)

    async def take(self, token: Token, served: Served) -> Worker:
        """A worker for a session of this token; another one is started in its place. Raises WorkerFailed."""
        self.owner = owner = token.digest
        limits = self._options.limits.changed(token.limits)
        worker = None
        while worker is None and (found := next((w for w in self._on(served) if w.owner == owner), None)):
            self._warm.remove(found)
            with contextlib.suppress(WorkerFailed):  # the next attempt may succeed, or tells why not
                worker = await found.task
            if worker is not None and not (worker.alive and worker.limits == limits):
                await worker.end()
                worker = None
        if worker is None:
            worker = await self._start(owner, served, limits)
            if len(of_others := self._on(served)) == self._options.warm > 0:
                self._drop(of_others[0])
        if self._on(served):
            asyncio.get_running_loop().call_later(WARM_LATER, self.fill)
        else:
            self.fill()
        return worker

    def forget_all_but(self, kept: Collection[str]) -> None:
        """End those that are for other tokens than these."""
        if gone := [warm for warm in self._warm if warm.owner not in kept]:
            for warm in gone:
                self._drop(warm)
            self.fill()

    def trouble(self) -> str | None:
        """Why no worker can be started on any device; where that is some time ago it is tried again."""
        self.try_again()
        failed = [served.failed for served in self._devices.all if served.failed is not None]
        return f"no worker can be started: {max(failed)[1]}" if len(failed) == len(self._devices.all) else None

    def try_again(self) -> None:
        """Where no worker could be started some time ago, and none is being started."""
        for served in self._devices.all:
            overdue = served.failed is not None and time.monotonic() - served.failed[0] > TRY_AGAIN
            if overdue and not self.stopped and all(warm.task.done() for warm in self._on(served)):
                self._warm = [warm for warm in self._warm if warm.served is not served or warm.is_ready]
                self._add(served)

    def _on(self, served: Served) -> list[Starting]:
        return [warm for warm in self._warm if warm.served is served]

    def _add(self, served: Served) -> None:
        self._warm.append(Starting(self.owner, served, asyncio.create_task(self._start(self.owner, served))))

    def _drop(self, warm: Starting) -> None:
        self._warm.remove(warm)
        task = asyncio.create_task(_end_when_started(warm.task))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _start(self, owner: str, served: Served, limits: Limits | None = None) -> Worker:
        options = dataclasses.replace(self._options, limits=limits or self._limits_of(owner))
        try:
            worker = await Worker.start(options, owner, self.place, served)
        except WorkerFailed as error:
            served.failed = time.monotonic(), str(error)
            raise
        served.failed = None
        self.renderer = worker.renderer
        self._watch.add(worker)
        return worker


def _failure(task: asyncio.Task[Worker]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


async def _end_when_started(starting: asyncio.Task[Worker]) -> None:
    with contextlib.suppress(WorkerFailed):
        await (await starting).end()
