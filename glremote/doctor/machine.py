"""The few ways in which a machine is looked at: its files, its environment, and what only a process of it can try out.

Knows: how to read below a root, which folders libraries are in (ld.so(8)), and how to try something in a child process,
where a driver that crashes harms nobody. Does not know: what any of it means. A test gives another root, and functions
that answer as a machine would that is not there.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from glremote.protocol.devices import Device

CHILD_TIMEOUT = 60.0
"""Seconds that a child may take to load libraries."""
LIBRARY_FOLDERS = (
    "/lib", "/usr/lib", "/lib64", "/usr/lib64", "/lib/*-linux-gnu", "/usr/lib/*-linux-gnu", "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
)  # fmt: skip
LOADING = """
import ctypes, json, sys
why = {}
for name in sys.argv[1:]:
    try:
        ctypes.CDLL(name)
    except OSError as error:
        why[name] = str(error)
print(json.dumps(why))
"""


@dataclass(frozen=True)
class User:
    """Who asks."""

    number: int
    name: str


class Probed(NamedTuple):
    """What EGL has on this machine."""

    devices: tuple[Device, ...] = ()
    others: tuple[tuple[int, str, str], ...] = ()
    """Those that are not used: the place in EGL's order, the renderer as far as it is known, and why."""
    why: str = ""
    """Why there are none, where EGL lists none."""


def load(names: Iterable[str]) -> dict[str, str]:
    """Why a library cannot be loaded, of those that cannot be."""
    from glremote.host.probing import how

    names = list(names)
    done = _child("-c", LOADING, *names)
    if done.returncode and len(names) > 1:  # which of them it was shows where each is alone
        return {name: why for one in names for name, why in load([one]).items()}
    if done.returncode:
        return {name: _last_line(done.stderr) or f"it ended the process: {how(done.returncode)}" for name in names}
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def probe() -> Probed:
    """Have a context made on every device."""
    from glremote.host.probing import Probe

    found = Probe().found()
    others = tuple((one.index, one.renderer, one.why) for one in found.others)
    return Probed(found.devices, others, found.why)


def opening(path: str) -> int:
    """Why a device cannot be opened for reading and writing: an error number, or 0."""
    try:
        os.close(os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0)))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def walls() -> tuple[list[str], str]:
    """What a worker's walls lack here, a line each, and how a worker's memory is bounded."""
    from glremote.host.gateway.cgroups import outlook
    from glremote.host.walls import missing

    return missing(), outlook()


def descriptors() -> tuple[int, int]:
    """How many descriptors a process may have, and up to where its user may raise that."""
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)


def user() -> User:
    """Who runs this."""
    if not hasattr(os, "getuid"):
        return User(1000, "the user")
    import pwd  # not getpass, which believes the environment, and that may be another's

    number = os.getuid()
    with contextlib.suppress(KeyError):
        return User(number, pwd.getpwuid(number).pw_name)
    return User(number, str(number))


@dataclass(frozen=True)
class Machine:
    """This machine, unless something else is said."""

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    platform: str = sys.platform
    user: User = field(default_factory=user)
    load: Callable[[Iterable[str]], dict[str, str]] = load
    probe: Callable[[], Probed] = probe
    opening: Callable[[str], int] = opening
    walls: Callable[[], tuple[list[str], str]] = walls
    descriptors: Callable[[], tuple[int, int]] = descriptors

    def path(self, path: str) -> Path:
        """Where a path of the machine's is."""
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str | None:
        """What is in a file; None where it cannot be read."""
        try:
            return self.path(path).read_text("utf-8", "replace")
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        return self.path(path).exists()

    def glob(self, pattern: str) -> list[str]:
        """The machine's paths that fit, sorted."""
        found = (path.relative_to(self.root).as_posix() for path in self.root.glob(pattern.lstrip("/")))
        return sorted("/" + path for path in found)

    def library_folders(self) -> list[str]:
        """Where libraries are looked for, without those that are not there."""
        named = [folder for folder in self.environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
        configured = _configured(self, "/etc/ld.so.conf")
        usual = [path for pattern in LIBRARY_FOLDERS for path in self.glob(pattern)]
        return [folder for folder in dict.fromkeys((*named, *configured, *usual)) if self.path(folder).is_dir()]

    def libraries(self, pattern: str) -> list[str]:
        """The libraries whose names fit, once each: the paths of the machine's at which they are found first."""
        found: dict[str, str] = {}
        for folder in self.library_folders():
            for name in fnmatch.filter(_names(self.path(folder)), pattern):
                found.setdefault(name, f"{folder}/{name}")
        return sorted(found.values())


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _configured(machine: Machine, path: str, depth: int = 0) -> list[str]:
    """The folders in a file as /etc/ld.so.conf, and in those that it includes."""
    found: list[str] = []
    for line in (machine.text(path) or "").splitlines():
        word, _, rest = line.partition("#")[0].strip().partition(" ")
        if word == "include" and depth < 4:
            pattern = rest.strip() if rest.strip().startswith("/") else f"{os.path.dirname(path)}/{rest.strip()}"
            found += [folder for file in machine.glob(pattern) for folder in _configured(machine, file, depth + 1)]
        elif word.startswith("/"):
            found.append(word.rstrip("/"))
    return found


def _child(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Python again, which finds what we find; drivers are loaded there, and our tokens are none of theirs."""
    from glremote.host.serving import environment

    command = [sys.executable, "-P", *arguments]
    try:
        return subprocess.run(
            command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CHILD_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"it took longer than {CHILD_TIMEOUT:g} s")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""
