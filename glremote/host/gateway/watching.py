"""The watch over how long things take: a worker that takes too long is ended, and who only waits for it is not.

Knows: since when each worker runs what it runs, and who has the GPU, where its driver tells (gpus.py). Does not know:
sessions, or what a worker does.

A GPU goes on to the next only between draws and dispatches, so while one of them has no end nobody else gets anywhere:
all who have something to do run out of time together with the one to blame. So the time that another has the GPU for
is not counted, and one at a time is to blame: the rest go on once it is gone. Where the driver does not tell who has
the GPU, that is held to be the one that began first. Who is on another GPU is in nobody's way. A software renderer runs
in each worker's own threads, and nobody waits for another.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from glremote.host import gpus
from glremote.protocol.reflection import is_software

from . import drivers
from .workers import LOOKING, Worker

log = logging.getLogger("glremote.host")

STALL = 1.0
"""Seconds that a buffer runs before we ask who has the GPU meanwhile: most are over long before."""
LATELY = 1.5
"""Seconds to look back at who had it; drivers take about six samples a second."""
ASKING = 0.5
"""Seconds that the others wait for a driver's answer; behind that it is as one that does not tell."""
MOST_OF_IT = 50
"""Percent of a GPU's time from which on others are held to wait for whoever has it."""


class Watch:
    """Over the workers of one gateway."""

    def __init__(self, shares: Callable[[float], dict[int, int]] = gpus.shares) -> None:
        self._workers: list[Worker] = []
        self._shares = shares
        self._asking: asyncio.Future[dict[int, int]] | None = None
        self._looked = time.monotonic()

    def add(self, worker: Worker) -> None:
        """Look after one more, until its process is gone."""
        self._workers.append(worker)

    async def run(self) -> None:
        """Look, again and again."""
        while True:
            await asyncio.sleep(LOOKING)
            try:
                await self.look()
            except Exception:  # whatever it was, the others are to be looked after
                log.exception("the gateway failed to look after its workers")

    async def look(self) -> None:
        """Count what others had of the GPU, and end what takes too long."""
        self._workers = [worker for worker in self._workers if worker.alive]
        now = time.monotonic()
        since, self._looked = now - self._looked, now
        living = [worker for worker in self._workers if not worker.is_dying]
        for worker in living:
            if worker.running("buffer_seconds", now) < STALL:
                worker.stalled = 0.0
        waiting = await self._waiting([worker for worker in living if worker.running("buffer_seconds", now) >= STALL])
        for worker in waiting:
            worker.stalled += since
        for worker in living:
            if why := worker.late(now):
                worker.kill(why)

    async def _waiting(self, running: Sequence[Worker]) -> Sequence[Worker]:
        """Those that get nowhere since another has their GPU."""
        by_device: dict[int, list[Worker]] = {}
        for worker in running:
            if not is_software(worker.renderer):
                by_device.setdefault(worker.device, []).append(worker)
        # a worker that is dying has its GPU until its process is gone
        blocked = {worker.device for worker in self._workers if worker.is_dying}
        shares: dict[int, int] = {}
        if any(len(those) > 1 for device, those in by_device.items() if device not in blocked):
            shares = await self._ask()
        waiting: list[Worker] = []
        for device, those in by_device.items():
            waiting += those if device in blocked else _behind(those, shares)
        return waiting

    async def _ask(self) -> dict[int, int]:
        """Who has the GPUs; nothing where the driver is stuck, which nobody asks again while it is."""
        asking = self._asking = self._asking or drivers.begin(self._shares, time.time() - LATELY)
        if not (await asyncio.wait((asking,), timeout=ASKING))[0]:
            return {}
        self._asking = None
        return asking.result()

    async def ended(self) -> None:
        """Wait until all that were ended are gone."""
        await asyncio.gather(*(worker.ended() for worker in self._workers))


def _behind(running: Sequence[Worker], shares: dict[int, int]) -> Sequence[Worker]:
    """Those of one GPU that wait for another of them, by what each process had of it lately."""
    if len(running) < 2:
        return ()
    if shares.keys() & {worker.process for worker in running}:
        first = max(running, key=lambda worker: shares.get(worker.process, 0))
        if shares.get(first.process, 0) < MOST_OF_IT:
            return ()
    else:
        now = time.monotonic()
        first = max(running, key=lambda worker: worker.running("buffer_seconds", now))
    return [worker for worker in running if worker is not first]
