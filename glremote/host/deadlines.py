"""How long things may take in a worker: a command buffer, a program, a read. Past that the kernel ends the process.

Knows: the kernel's timers, one for each of these limits, with a signal for each. Does not know: what a worker does, or
who looks after its process.

The kernel does it because nothing of Python runs within OpenGL. And which limit it was, the signal says that ended the
worker: a process that is stuck in a driver cannot tell, and need not.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from .limits import Limits

SetTimer = Callable[[float], Any]
"""Has the kernel end this process after so many seconds; 0: no longer."""
ENDINGS = {
    "buffer_seconds": ("SIGALRM", "a command buffer"),
    "compile_seconds": ("SIGVTALRM", "compiling and linking a program"),
    "read_seconds": ("SIGPROF", "a read"),
}
"""For each limit its signal, whose default action ends a process, and what it is a limit of."""
SOONEST = 1e-6
"""Seconds that a timer is set to where the time is over already; 0 would switch it off."""


def why(number: int, limits: Limits) -> str | None:
    """Why a worker with these limits was ended by the signal of this number; None where no limit has it."""
    for name, (ending, what) in ENDINGS.items():
        if number == getattr(signal, ending) and (seconds := getattr(limits, name)):
            return f"{what} took longer than the {seconds:g} s that {name.replace('_', '-')} allows here"
    return None


class Watchdog:
    """Of command buffers, one at a time.

    The timer is set anew when a quarter of it has passed, so a buffer has at least three quarters of its seconds, and
    to begin one costs next to nothing.
    """

    def __init__(self, seconds: float, set_timer: SetTimer) -> None:
        self._seconds = seconds
        self._set_timer = set_timer
        self._set_at = -math.inf

    def busy(self) -> None:
        """A buffer begins, or goes on."""
        if self._seconds and (now := time.monotonic()) - self._set_at > self._seconds / 4:
            self._set_timer(self._seconds)
            self._set_at = now

    def idle(self) -> None:
        """Nothing runs, or we wait for the client."""
        if self._set_at > -math.inf:
            self._set_timer(0.0)
            self._set_at = -math.inf


class Deadline:
    """Of things that begin and end, several at a time. With 0 seconds no timer is ever set."""

    def __init__(self, seconds: float, set_timer: SetTimer) -> None:
        self._seconds = seconds
        self._set_timer = set_timer
        self._due: list[float] = []  # what is first ends first; by a clock that stands still while we wait
        self._stood = 0.0
        self._standing_since: float | None = None

    def begin(self) -> float:
        """Something begins; what `end` is to be given."""
        if not self._seconds:
            return 0.0
        due = time.monotonic() - self._stood + self._seconds
        self._due.append(due)
        if len(self._due) == 1:
            self._set()
        return due

    def end(self, due: float) -> None:
        """It has ended."""
        if self._seconds:
            self._due.remove(due)
            self._set()

    def stand(self) -> None:
        """We wait for the client, which does not count."""
        if self._due and self._standing_since is None:
            self._standing_since = time.monotonic()
            self._set_timer(0.0)

    def go_on(self) -> None:
        """We do not wait any more."""
        if self._standing_since is not None:
            self._stood += time.monotonic() - self._standing_since
            self._standing_since = None
            self._set()

    def _set(self) -> None:
        left = self._due[0] - time.monotonic() + self._stood if self._due else 0.0
        self._set_timer(max(left, SOONEST) if self._due else 0.0)


def no_timer(name: str) -> SetTimer:
    """Where there is no process of the worker's own to be ended."""
    return lambda seconds: None


class Deadlines:
    """Those of one worker; `timer` gives the timer of each limit that is set."""

    def __init__(self, limits: Limits, timer: Callable[[str], SetTimer] = no_timer) -> None:
        def of(name: str) -> tuple[float, SetTimer]:
            seconds = getattr(limits, name)
            return seconds, (timer if seconds else no_timer)(name)

        self.buffers = Watchdog(*of("buffer_seconds"))
        self.programs = Deadline(*of("compile_seconds"))
        self.reads = Deadline(*of("read_seconds"))

    def stand(self) -> None:
        """We wait for the client: that is no part of a buffer, nor of a read."""
        self.buffers.idle()
        self.reads.stand()

    def go_on(self) -> None:
        """We do not wait any more."""
        self.buffers.busy()
        self.reads.go_on()


# --- the kernel's timers


class _Event(ctypes.Structure):
    """struct sigevent (sigevent(3type)), which has 64 bytes."""

    _fields_ = (("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("how", ctypes.c_int), ("_", ctypes.c_int * 12))


class _Times(ctypes.Structure):
    """struct itimerspec: for a timer that goes off once, and when."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("every", "every_nanoseconds", "seconds", "nanoseconds"))


def kernel_timer(name: str) -> SetTimer:
    """The timer of this limit, whose signal ends this process. Raises OSError.

    setitimer(2) has one timer of real time only; the others are of timer_create(2), and made where they are asked for.
    """
    number = getattr(signal, ENDINGS[name][0])
    signal.signal(number, signal.SIG_DFL)  # whoever started the gateway may have had it ignored, or held back
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
    if name == "buffer_seconds":
        return partial(signal.setitimer, signal.ITIMER_REAL)
    library = ctypes.CDLL(None, use_errno=True)
    timer = ctypes.c_void_p()
    event = _Event(signal=number)
    if library.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)):
        raise OSError(ctypes.get_errno(), f"no timer for {name}: {os.strerror(ctypes.get_errno())}")
    times, settime = _Times(), library.timer_settime
    reference = ctypes.byref(times)

    def set_timer(seconds: float) -> None:
        times.seconds, times.nanoseconds = int(seconds), int(seconds % 1 * 1e9)
        settime(timer, 0, reference, None)

    return set_timer
