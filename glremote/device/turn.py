"""Whose turn it is to receive on a session's link: one thread at a time, a caller that waits or else the pump.

Knows: who receives, whether that thread sleeps, and for how long the pump leaves the link to the caller that comes
again. Does not know: links, or what arrives.

A caller that waits takes the receiving over and hands it back; for a moment (`LEASE`) the pump then leaves it alone.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Protocol

from glremote.protocol.errors import Error

from .waiting import CriticalSections

LEASE = 0.02
"""Seconds for which the pump leaves a link to the caller that last waited on it."""
LOOK_UP = 0.5
"""Seconds after which whoever receives looks up, whatever has come."""

Waiting = contextlib.AbstractContextManager[None]
"""What is entered to sleep in: there handlers of signals may run, if they may at all."""


class Receiver(Protocol):
    """Who receives."""

    lost: Error | None
    """Why nothing comes any more."""

    def receive(self, timeout: float, waiting: Waiting) -> None:
        """Receive once, for at most `timeout` seconds."""


class Turn:
    """The one turn of a session."""

    def __init__(self, receiver: Receiver) -> None:
        self.owner = 0
        """The thread whose turn it is."""
        self.asleep = False
        """It sleeps: nothing is half done, and a handler of a signal may receive further in."""
        self.sections = CriticalSections()
        self.lock = threading.Lock()
        """Whoever receives holds it, in whatever way."""
        self._receiver = receiver
        self._leased_until = 0.0

    @property
    def is_awake_here(self) -> bool:
        """Whether this very thread is taking a packet: a finaliser that runs now cannot wait."""
        return self.owner == threading.get_ident() and not self.asleep

    @property
    def leased(self) -> float:
        """Seconds for which the pump is to look elsewhere."""
        left = self._leased_until - time.monotonic()
        return max(left, LEASE) if left > 0 or self.lock.locked() else 0.0

    def until(self, finished: Callable[[], bool]) -> None:
        """Receive, or let others receive, until it holds or nothing comes any more. The caller is in `sections`."""
        while not self._received(finished) and self._receiver.lost is None:
            self.pause(0)  # somebody else receives

    def pause(self, seconds: float) -> None:
        """Sleep, while handlers of signals run."""
        with self.sections.interruptible:
            time.sleep(seconds)

    def once(self) -> bool:
        """For the pump: take what is there, unless somebody else receives; whether nobody did."""
        if not self.lock.acquire(blocking=False):
            return False
        self.owner = threading.get_ident()
        try:
            self._receiver.receive(0, contextlib.nullcontext())
        finally:
            self.owner = 0
            self.lock.release()
        return True

    def inherit(self) -> None:
        """In a forked child, where no other thread is."""
        self.lock = threading.Lock()
        self.sections.inherit()

    def _received(self, finished: Callable[[], bool]) -> bool:
        """Whether it holds, after receiving as long as it does not and nobody else receives."""
        lock = self.lock
        if self.owner == threading.get_ident():  # a signal's handler, while this thread sleeps further out
            self.asleep = False
            try:
                self._receive_until(finished)
            finally:
                self.asleep = True
            return True
        if not (lock.acquire(blocking=False) or lock.acquire(timeout=0.005)):
            return finished()
        self.owner = threading.get_ident()
        try:
            self._receive_until(finished)
        finally:
            self.owner = 0
            self._leased_until = time.monotonic() + LEASE
            lock.release()
        return True

    def _receive_until(self, finished: Callable[[], bool]) -> None:
        receiver, waiting = self._receiver, self.sections.interruptible
        while not finished() and receiver.lost is None:
            receiver.receive(LOOK_UP, waiting)
