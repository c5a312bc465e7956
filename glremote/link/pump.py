"""The pump: the one thread of a process that keeps its links moving while nobody waits on them.

Knows: a selector, a clock, and members that say what they want. Does not know: what a member does when it is called.

It starts with the first member and lives as long as the process. A member that is busy with a caller of its own says
so by wanting nothing to be read; the pump looks again when the time that the member named has passed, or when poked.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

log = logging.getLogger("glremote")

T = TypeVar("T")


class Member(Protocol):
    """What the pump looks after."""

    def tick(self) -> Watch:
        """Do what is due, and say what to wait for."""
        ...

    def ready(self) -> None:
        """A descriptor can be read or written."""
        ...


class Watch(NamedTuple):
    """What to wait for: descriptors to be read, others to be written, seconds until the next tick (None: a poke)."""

    reading: tuple[int, ...] = ()
    writing: tuple[int, ...] = ()
    due: float | None = None


class Pump:
    """Use `pump()`; there is one."""

    def __init__(self) -> None:
        self._members: dict[Member, None] = {}
        self._lock = threading.Lock()
        self._near, self._far = socket.socketpair()
        for end in (self._near, self._far):
            end.setblocking(False)
        threading.Thread(target=self._run, name="glremote pump", daemon=True).start()

    def add(self, member: Member) -> None:
        """Look after a member from now on."""
        with self._lock:
            self._members[member] = None
        self.poke()

    def remove(self, member: Member) -> None:
        """Forget a member."""
        with self._lock:
            self._members.pop(member, None)
        self.poke()

    def poke(self) -> None:
        """Tick every member now."""
        with contextlib.suppress(BlockingIOError, OSError):
            self._near.send(b"\0")

    def _run(self) -> None:
        while True:
            self._look()

    def _look(self) -> None:
        """Tick every member once, and wait. No name of this function's outlives it: it would keep a member alive."""
        with self._lock:
            members = list(self._members)
        timeout: float | None = None
        with selectors.DefaultSelector() as selector:
            selector.register(self._far, selectors.EVENT_READ)
            for member in members:
                watch = self._guard(member.tick) or Watch()
                timeout = min((due for due in (timeout, watch.due) if due is not None), default=None)
                for descriptor in {*watch.reading, *watch.writing} - {-1}:
                    events = selectors.EVENT_READ * (descriptor in watch.reading)
                    events |= selectors.EVENT_WRITE * (descriptor in watch.writing)
                    with contextlib.suppress(OSError, ValueError, KeyError):  # closed since: the next tick says so
                        selector.register(descriptor, events, member)
            del members
            for key, _ in selector.select(timeout):
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        self._far.recv(1 << 16)
                else:
                    self._guard(key.data.ready)

    @staticmethod
    def _guard(call: Callable[[], T]) -> T | None:
        """One member's fault must not stop the others; a member is to catch its own."""
        try:
            return call()
        except Exception:
            log.exception("a member of the pump failed")
            return None


_pump: Pump | None = None
_starting = threading.Lock()


def pump() -> Pump:
    """The pump of this process, started when it is first asked for."""
    global _pump
    with _starting:
        if _pump is None:
            _pump = Pump()
        return _pump


def _after_fork() -> None:
    """A child has no pump thread: the next context starts one, and the members that were inherited are nobody's."""
    global _pump, _starting
    _pump, _starting = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
