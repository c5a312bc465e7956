"""How a process ends, for the sessions that it has open: said goodbye to, or, after a fork, left to the parent.

Knows: atexit's moment, multiprocessing's, and a fork's. Does not know: what a session is.

atexit calls last what was registered first, so this is registered when it is imported: what the program registers
behind that may still draw.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import math
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Protocol


class Ends(Protocol):
    """What ends with its process."""

    on_exit: Callable[[], None]

    def inherit(self) -> None:
        """In a forked child: it is the parent's."""
        ...


GOODBYE_TIMEOUT = 2.0
"""Seconds for what is not yet sent when a session ends ..."""
LEAST_PATIENCE = 0.1
"""... and of those that are left when the process ends, and others have taken that time."""
_deadline = math.inf
_open: dict[int, Ends] = {}
_beginning: set[Ends] = set()
"""Sessions that their hosts know, and that are not among them yet."""
_over = False
"""The process ends: no session is to begin that nobody would say goodbye for."""
_forked = "--multiprocessing-fork" not in sys.orig_argv
"""Whether this process, if multiprocessing started it, is a fork: of its parent's, or of the server that forks."""
_closes = 0
"""The process that `_close_with_worker` has seen to."""


@contextlib.contextmanager
def beginning(device: Ends) -> Iterator[None]:
    """While the host greets a session, until it has `begun`: the end of the process waits for that."""
    _beginning.add(device)
    try:
        yield
    finally:
        _beginning.discard(device)


def wait_if_over() -> None:
    """A thread that the process does not wait for, and that would begin a session, or use one that has ended, stays
    here: it is to end with the process, without a word."""
    while _over and threading.current_thread().daemon:
        time.sleep(1.0)


def begun(device: Ends) -> None:
    """From now on it is closed when the process ends."""
    _open[id(device)] = device
    _close_with_worker()


def ended(device: Ends) -> None:
    """It is closed."""
    _open.pop(id(device), None)


def _after_fork() -> None:
    global _forked, _over
    _forked, _over = True, False
    for device in {*_open.values(), *_beginning}:
        device.inherit()
    _open.clear()
    _beginning.clear()  # by threads that are not here


def _close_with_worker() -> None:
    """A forked process of multiprocessing's ends past atexit: there, close all behind its own finalisers."""
    global _closes
    if not _forked or _closes == os.getpid() or "multiprocessing.process" not in sys.modules:
        return
    _closes = os.getpid()
    from multiprocessing import process, util

    if process.parent_process() is not None:
        util.Finalize(None, _end, exitpriority=-100)


def end_process() -> None:
    """At the end of the process: close all, behind the finalisers of the program's objects, which may still draw."""
    if _open:
        _finalise_program()
    _end()


def _end() -> None:
    global _over
    _over = True
    deadline = time.monotonic() + GOODBYE_TIMEOUT
    while _beginning and time.monotonic() < deadline:
        time.sleep(0.01)
    close_all()


def _finalise_program() -> None:
    """Free what only `__main__` holds, as the interpreter does a moment later, when no context is left to be used.

    Whoever still needs the module's names keeps them, a thread or a function of atexit's; then nothing happens here.
    """
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            setattr(sys, name, None)
    if "__main__" not in sys.modules:
        return
    names = [name for name in ("__main__", "__mp_main__") if sys.modules.get(name) is sys.modules["__main__"]]
    main = weakref.ref(sys.modules["__main__"])
    for name in names:  # multiprocessing has the other for the same module, once something has imported it
        del sys.modules[name]
    gc.collect()
    if (module := main()) is not None:
        sys.modules.update(dict.fromkeys(names, module))


def close_all() -> None:
    """At the end of the process: say goodbye for every session that is still open.

    Those of hosts that do not take it keep the process no longer than one of them would.
    """
    global _deadline
    _deadline = time.monotonic() + GOODBYE_TIMEOUT
    try:
        for device in list(_open.values()):
            device.on_exit()
    finally:
        _deadline = math.inf


def patience() -> float:
    """Seconds for what a session has not sent yet when it ends."""
    return min(GOODBYE_TIMEOUT, max(LEAST_PATIENCE, _deadline - time.monotonic()))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

atexit.register(end_process)
