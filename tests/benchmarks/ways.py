"""The ways to run a workload: plainly, on virgl, and on a host of ours. Each run is a process of its own.

Knows: the commands and environments, and how a run's figures are read off what it prints. Does not know: which
workloads there are, or what is made of the figures.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from glremote.device.devices import Traffic

ROOT = Path(__file__).resolve().parents[2]
VIRGL = "virgl"
VIRGL_SERVER = "virgl_test_server"
VIRGL_SOCKET = "/tmp/.virgl_test"
START_TIMEOUT = 10.0


@dataclass(frozen=True)
class Run:
    """What one run told: seconds within the process and of the whole process, answers waited for, and traffic."""

    total_s: float
    process_s: float
    digest: str
    reads: int
    phases: dict[str, float]
    traffic: Traffic


class RunFailed(Exception):
    """A workload did not end well; the text is what it wrote."""


@dataclass(frozen=True)
class Way:
    """How a script is run."""

    name: str
    command: tuple[str, ...] = (sys.executable,)
    variables: Mapping[str, str] = field(default_factory=dict)

    def run(self, script: Path, timeout: float, **variables: str) -> Run:
        """Run it to its end, with further variables of the environment."""
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("GLREMOTE_")}
        environment = {**inherited, "PYTHONPATH": str(ROOT), **self.variables, **variables}
        began = time.perf_counter()
        try:
            done = subprocess.run(
                [*self.command, str(script)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            raise RunFailed(f"it was not done within {timeout:g} s") from None
        process_s = time.perf_counter() - began
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not said:
            raise RunFailed(f"exit status {done.returncode}\n{done.stderr[-2000:]}")
        own = {name: said[0][name] for name in ("total_s", "digest", "reads", "phases")}
        return Run(process_s=process_s, traffic=Traffic(**(said[1] if len(said) > 1 else {})), **own)


PLAIN = Way("plain")


def remote(name: str, url: str, token: str, near: bool = False) -> Way:
    """On a host."""
    command = (sys.executable, "-m", "tests.benchmarks.remotely", url)
    return Way(name, command, {"GLREMOTE_TOKEN": token, "GLREMOTE_NEAR": "1" if near else "0"})


@contextlib.contextmanager
def virgl() -> Iterator[Way | None]:
    """On a server of Mesa's own remote driver, which lives as long as the block; None where it is not installed.

    The client finds it at one path only, before Mesa 23; so one that is there already is used, and not replaced.
    """
    if shutil.which(VIRGL_SERVER) is None:
        yield None
        return
    way = Way(VIRGL, variables={"LIBGL_ALWAYS_SOFTWARE": "1", "GALLIUM_DRIVER": "virpipe"})
    if _listens(VIRGL_SOCKET):
        yield way
        return
    nothing = subprocess.DEVNULL
    server = subprocess.Popen([VIRGL_SERVER, "--use-egl-surfaceless"], stdin=nothing, stdout=nothing, stderr=nothing)
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while not _listens(VIRGL_SOCKET) and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        yield way
    finally:
        server.terminate()
        server.wait()
        Path(VIRGL_SOCKET).unlink(missing_ok=True)


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(path) == 0
