"""Control groups (Linux's cgroup v2), from the gateway: each worker in one of its own, whose memory the kernel bounds.

Knows: which group this process is in, whether it is ours to divide (systemd's `Delegate=`, or a container that may
write its own), and the files by which groups are made and bounded (Linux's Documentation/admin-guide/cgroup-v2.rst).
Does not know: what a worker is, but for the number of its process.

A group that hands a controller down to groups below it may hold no process itself; so the gateway goes one down too. It
moves nobody else: a group that others are in stays as it is. One gateway divides a group, and holds a lock on it for as
long as it runs; what it finds below is left over from one that was killed, and is removed.

The kernel counts more than what is resident: files that were read or written (it gives these up before it ends a
process), shared memory, for whoever touched it first, and its own for a process. What a driver takes from the kernel
without having it counted is in neither.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import re
import time
from pathlib import Path

CONTROLLER = "memory"
GATEWAY = "glremote-gateway"
WORKER = "glremote-worker-"
"""Names of groups; a worker's has a number too."""
PATIENCE = 1.0
"""Seconds that processes which were left over may take to die, as the gateway starts."""


class NotOurs(Exception):
    """The kernel bounds no worker here; the text says why."""


def begin() -> tuple[Groups | None, str]:
    """Groups for workers, where that can be, and a line that says what holds for their memory."""
    try:
        groups = Groups(_ours())
    except NotOurs as error:
        return None, _sampled(error)
    return groups, _bounded(groups.parent)


def outlook() -> str:
    """The line that `begin` would give for a host in this process's group; it changes nothing."""
    try:
        parent = _ours()
        if why := obstacle(parent):
            raise NotOurs(why)
    except NotOurs as error:
        return _sampled(error)
    return _bounded(parent)


def _bounded(parent: Path) -> str:
    return f"each worker's memory is bounded by the kernel, by a cgroup of its own in {parent}"


def _sampled(why: object) -> str:
    return f"each worker's memory is looked at four times a second, and no cgroup bounds it: {why}"


# --- which group, and whose


def _ours() -> Path:
    """The folder of the group that a gateway in this process would divide. Raises NotOurs."""
    try:
        group = group_of(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    except OSError as error:
        raise NotOurs(f"there is none on this system ({error.strerror})") from None
    return group.parent if group.name == GATEWAY else group  # started anew by somebody whom it had taken along


def group_of(membership: str, mounts: str) -> Path:
    """The folder of a process's group, of its /proc/PID/cgroup and /proc/PID/mountinfo. Raises NotOurs."""
    paths = [line[3:] for line in membership.splitlines() if line.startswith("0::")]
    if not paths or paths[0].startswith("/.."):
        raise NotOurs("this process is in none of version 2 that can be seen")
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.split(" ", 1)[0] == "cgroup2":
            root, place = map(_unescaped, fields.split()[3:5])
            path = os.path.relpath(paths[0], root)  # a mount can show a part of the tree
            if path != ".." and not path.startswith("../"):
                return Path(place, path)
    raise NotOurs("version 2 is mounted nowhere that this process can see")


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def obstacle(group: Path) -> str | None:
    """Why a group cannot be divided by a gateway in it, or None; it changes nothing."""
    try:
        if CONTROLLER not in (group / "cgroup.controllers").read_text().split():
            return f"there is no controller for memory in {group}"
        written = (group, group / "cgroup.procs", group / "cgroup.subtree_control")
        if not all(os.access(path, os.W_OK) for path in written) or not _is_delegated(group):
            return f"{group} is not delegated to this user, as systemd's Delegate=memory does it"
        others = set((group / "cgroup.procs").read_text().split()) - {str(os.getpid())}
        if others and (group / "cgroup.type").exists():  # the root of all groups has none, and may have processes
            return f"there are other processes in {group}"
    except OSError as error:
        return f"{group}: {error.strerror}"
    return None


def _is_delegated(group: Path) -> bool:
    """A unit of systemd's is its own to divide, also where root could, unless it has marked it.

    It marks it for root alone where it is old; but then only what is delegated is another user's. See "Delegation" in
    its CGROUP_DELEGATION.md.
    """
    if group.suffix not in (".service", ".scope") or os.stat(group).st_uid == os.geteuid() != 0:
        return True
    for mark in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(group, mark) == b"1":
                return True
    return False


# --- dividing it


class Groups:
    """Groups below one that is divided. Raises NotOurs where it cannot be."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent
        if why := obstacle(parent):
            raise NotOurs(why)
        self._numbers = itertools.count(1)
        self._left: list[Group] = []  # that could not be removed until now
        self._enabled = self._moved = False
        self._lock = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._left = [Group(path) for path in parent.glob(WORKER + "*")]
            self._clear(PATIENCE)
            self._divide()
            self.remove(self.add(1 << 30))  # whether it can be done
        except OSError as error:
            self.close()
            busy = isinstance(error, BlockingIOError)
            raise NotOurs(f"{parent}: {'another host divides it' if busy else error.strerror}") from None

    def _divide(self) -> None:
        handed_down = self.parent / "cgroup.subtree_control"
        if CONTROLLER in handed_down.read_text().split():
            return
        try:
            _write(handed_down, f"+{CONTROLLER}")
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            with contextlib.suppress(FileExistsError):
                _make(self.parent / GATEWAY)
            self._moved = True
            _write(self.parent / GATEWAY / "cgroup.procs", str(os.getpid()))
            _write(handed_down, f"+{CONTROLLER}")
        self._enabled = True

    def add(self, most: int) -> Group:
        """A group for a process that may have so many bytes. Raises OSError."""
        self._clear()
        while True:
            group = Group(self.parent / f"{WORKER}{next(self._numbers)}")
            with contextlib.suppress(FileExistsError):  # somebody is in it who does not die
                _make(group.path)
                break
        try:
            for name, value in (("memory.swap.max", 0), ("memory.oom.group", 1)):
                with contextlib.suppress(FileNotFoundError):  # no swap, or a kernel before 4.19
                    _write(group.path / name, str(value))
            _write(group.path / "memory.max", str(most))
        except OSError:
            self.remove(group)
            raise
        return group

    def remove(self, group: Group) -> None:
        """Remove a group whose process has ended, now or later; what that has started ends too."""
        if not group.remove():
            self._left.append(group)

    def _clear(self, patience: float = 0.0) -> None:
        deadline = time.monotonic() + patience
        while True:
            self._left = [group for group in self._left if not group.remove()]
            if not self._left or time.monotonic() >= deadline:
                return
            time.sleep(0.02)

    def close(self) -> None:
        """Leave the parent as it was. Nobody is to be in a group any more."""
        self._clear(PATIENCE)
        if self._enabled:
            with contextlib.suppress(OSError):
                _write(self.parent / "cgroup.subtree_control", f"-{CONTROLLER}")
        if self._moved:
            with contextlib.suppress(OSError):
                _write(self.parent / "cgroup.procs", str(os.getpid()))
                _unmake(self.parent / GATEWAY)
        self._enabled = self._moved = False
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class Group:
    """One process's group."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def enter(self, process: int) -> None:
        """Take a process in. What it has taken before is counted where it was. Raises OSError."""
        _write(self.path / "cgroup.procs", str(process))

    def ended(self) -> tuple[bool, bool]:
        """Whether the kernel has ended a process of it for want of memory, and whether it was for the group's bound."""
        try:
            pairs = (line.split() for line in (self.path / "memory.events").read_text().splitlines())
            events = {name: int(count) for name, count in pairs}
        except (OSError, ValueError):
            return False, False
        return events.get("oom_kill", 0) > 0, events.get("oom", 0) > 0

    def most(self) -> int:
        """How many bytes it had at most; 0 where the kernel does not tell (before 5.19)."""
        try:
            return int((self.path / "memory.peak").read_text())
        except (OSError, ValueError):
            return 0

    def remove(self) -> bool:
        """Whether it is gone; where processes are in it still, they are dying then (Linux 5.14 and newer)."""
        try:
            _unmake(self.path)
        except FileNotFoundError:
            return True
        except OSError:
            with contextlib.suppress(OSError):
                _write(self.path / "cgroup.kill", "1")
            return False
        return True


def _make(path: Path) -> None:
    path.mkdir()


def _unmake(path: Path) -> None:
    path.rmdir()


def _write(path: Path, text: str) -> None:
    """In one call, as the kernel wants it; a file that it does not have is not made."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
