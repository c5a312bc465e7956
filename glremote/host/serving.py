"""A host on this machine for as long as a `with` block lasts: `glremote serve` as a child process.

Knows: how to start it with a token of its own, and how to see that it ends with us. Does not know: what it does. Also
how a child process finds the modules that this one finds.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import IO

from glremote.protocol.errors import HostUnreachable

READY = "glremote serves at "
"""What `serve` prints when it is ready, before its address."""
TOKEN_VARIABLE = "GLREMOTE_TOKEN"
LOOK_TOKEN_VARIABLE = "GLREMOTE_LOOK_TOKEN"
SECRET = {TOKEN_VARIABLE, LOOK_TOKEN_VARIABLE}
NO_TOKENS = {"GLREMOTE_TOKENS": ""}
"""For a host that admits its own token alone."""
START_TIMEOUT = 60.0
END_TIMEOUT = 10.0


def environment(token: str | None = None) -> dict[str, str]:
    """For a child that is python with -P: it finds what we find, whatever lies in the directory it is started in."""
    variables = {name: text for name, text in os.environ.items() if name not in SECRET}
    variables["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    if token is not None:
        variables[TOKEN_VARIABLE] = token  # an argument could be seen by others
    return variables


class LocalHost:
    """`with LocalHost() as host:` is a host at `host.url`, on a free loopback port, with the token `host.token`."""

    def __init__(self, *options: str, timeout: float = START_TIMEOUT) -> None:
        self.url = ""
        self.token = secrets.token_urlsafe(24)
        self._options = options
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the gateway's process."""
        assert self._process is not None, "the host is not running"
        return self._process.pid

    def said(self) -> str:
        """What the host has written to its standard error."""
        if self._said is None:
            return ""
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip()

    def __enter__(self) -> LocalHost:
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "glremote", "serve", "--port", "0", "--until-stdin-ends", *self._options],
            stdin=subprocess.PIPE,  # it ends with us, however we end
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=environment(self.token) | NO_TOKENS,
            start_new_session=True,  # Ctrl-C in a terminal is ours to handle
        )
        try:
            self.url = self._wait_until_ready(self._process)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        deadline = time.monotonic() + self._timeout
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise HostUnreachable(f"no host on this machine: not ready within {self._timeout:g} s. {self.said()}")
            data = os.read(process.stdout.fileno(), 4096)
            if not data:
                process.wait(END_TIMEOUT)
                why = self.said() or f"`glremote serve` exited with status {process.returncode}"
                raise HostUnreachable(f"no host on this machine: {why.removeprefix('glremote: ')}")
            line += data
        return line.decode().strip().removeprefix(READY)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)  # not SIGTERM, which would wait for the sessions
            try:
                process.wait(END_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]
        if self._said is not None:
            self._said.close()
            self._said = None
