"""The two sides that a random program runs on, each a child process: plain moderngl, and a remote context.

Knows: how a child is started, asked, timed and started again. Does not know: what a program does. A child may crash or
hang, since plain moderngl may; which of the two it was is told.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from types import TracebackType

from glremote.host.serving import environment

from .running import Outcome

LIMIT = 10.0
"""Seconds that a program may take."""
PROGRAMS = 150
"""After so many a child is started afresh: plain moderngl gives memory back only when its process ends."""
DETERMINISTIC = {"LP_NUM_THREADS": "0", "PYTHONHASHSEED": "0"}
"""llvmpipe draws on the calling thread, so that what it is asked first it does first."""
FILLED = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "MALLOC_PERTURB_": "85"}
"""glibc fills new memory with a byte's complement: what a host never wrote would be seen."""
ZEROS = FILLED | {"MALLOC_PERTURB_": "255"}
"""And here with zeros: what plain moderngl never writes reads as a host's memory must."""


class Gone(Exception):
    """A child crashed or ran out of time; its text says which."""


class Side:
    """One child process. `name`: see `contexts` in running.py."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._child: subprocess.Popen[bytes] | None = None
        self._ran = 0

    def start(self) -> subprocess.Popen[bytes]:
        """The child, started if there is none."""
        if self._child is None:
            variables = environment() | DETERMINISTIC | (ZEROS if self.name == "plain" else FILLED)
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.differential.running", self.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=variables,
            )
            self._ran = 0
        return self._child

    def begin(self, lines: list[str]) -> None:
        """Hand it a program."""
        if self._ran >= PROGRAMS:
            self.close()
        child = self.start()
        assert child.stdin is not None
        self._ran += 1
        with contextlib.suppress(BrokenPipeError):  # `end` tells of it
            child.stdin.write(json.dumps(lines).encode() + b"\n")
            child.stdin.flush()

    def end(self, limit: float = LIMIT) -> list[Outcome]:
        """What the program came to. Raises Gone."""
        child = self.start()
        assert child.stdout is not None
        answer = b""
        while not answer.endswith(b"\n"):
            if not select.select([child.stdout], [], [], limit)[0]:
                self.close()
                raise Gone("hangs")
            piece = os.read(child.stdout.fileno(), 1 << 20)
            if not piece:
                status = child.wait()
                self._child = None
                raise Gone(f"ended with status {status}")
            answer += piece
        _, outcomes = json.loads(answer)
        return list(outcomes)

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()


class Sides:
    """Both. `with Sides("in-process") as sides:` ends them with the block."""

    def __init__(self, remote: str) -> None:
        self.plain, self.remote = Side("plain"), Side(remote)

    def __enter__(self) -> Sides:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.plain.close()
        self.remote.close()

    def run(self, lines: list[str]) -> Iterator[list[Outcome] | Gone]:
        """What a program comes to on either side, the plain one first."""
        both = (self.plain, self.remote)
        for side in both:
            side.begin(lines)
        for side in both:
            try:
                yield side.end()
            except Gone as gone:
                yield gone
