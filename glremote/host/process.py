"""A worker as a process of its own: `python -m glremote.host.process`, which the gateway starts.

Knows: what it inherits, its walls and the order in which they go up, and that it ends with the gateway. Does not know:
what a session is (worker.py).
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from functools import partial
from pathlib import Path

from glremote import packages

from . import walls
from .deadlines import Deadlines, Page
from .egl import make_context
from .limits import Limits
from .near import Door
from .port import Is, Port, PortClosed
from .worker import STACK_SIZE, Worker

NO_EGL = "no OpenGL through EGL on this machine: {error}; {advice}"
KEPT_OUT = "the walls around a worker keep it from its work: {error}; `glremote serve --no-walls` does without them"
NO_WALLS = "the walls around a worker could not be put up: {error}; `glremote serve --no-walls` does without them"


def main(arguments: list[str]) -> int:
    """`python -m glremote.host.process --fd N [--deadlines N] [--device-index I] [--limits TEXT] [--cache DIR]`.

    Serve one session, which comes through an inherited socket; what runs, and since when, is written into memory that
    was inherited too (deadlines.py). With a cache folder the walls (walls.py) go up before the first byte is read.
    """
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the gateway's to handle
    cache = options.get("--cache")
    if cache is not None:
        walls.keep_in(Path(cache))
        try:
            walls.forbid_files(Path(cache))
        except OSError as error:
            print(NO_WALLS.format(error=error.strerror), file=sys.stderr, flush=True)
            return 4
    door = Door.open(STACK_SIZE)
    port = Port(socket.socket(fileno=int(options["--fd"])), door)
    index = options.get("--device-index")
    limits = Limits().changed(options.get("--limits", ""))
    page = None
    if "--deadlines" in options:
        page = Page(int(options["--deadlines"]))
        page.close()
    make = partial(make_context, device_index=None if index is None else int(index))
    try:
        worker = Worker(port, make, door, limits, Deadlines(limits, page))
    except Exception as error:
        why = KEPT_OUT if cache is not None and isinstance(error, PermissionError) else NO_EGL
        print(why.format(error=error, advice=packages.advice()), file=sys.stderr, flush=True)
        port.close()
        return 3
    if cache is not None:
        try:
            walls.forbid_calls()
        except OSError as error:
            print(NO_WALLS.format(error=error.strerror), file=sys.stderr, flush=True)
            port.close()
            return 4
    try:
        port.send(Is.READY, [str(worker.driver.info["GL_RENDERER"]).encode()])
        worker.run()
    except PortClosed:
        return 0
    finally:
        port.close()
    return 0


def _die_with_parent() -> None:
    """Linux: be killed when the gateway dies, however it dies (prctl(2), PR_SET_PDEATHSIG)."""
    if sys.platform == "linux":
        import ctypes

        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
