"""What tests ask about processes, of /proc: a bare machine has no `ps`."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


def children(parent: int) -> list[int]:
    """The processes that a process started and has not reaped."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.name))
    return found


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended; an orphan's zombie may stay where nothing reaps it."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def told(variable: str, value: str) -> set[int]:
    """The processes, but this one, that were started with this environment variable."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"{variable}={value}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
    return {pid for pid in found - {os.getpid()} if runs(pid)}


# --- what a process holds


class Holding(NamedTuple):
    """What a process has of its machine."""

    memory: int
    """Bytes."""
    descriptors: int
    threads: int
    processes: int
    """Its children."""


def holding(pid: int) -> Holding:
    """What a process has now."""
    folder = Path(f"/proc/{pid}")
    memory = int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return Holding(memory, len(os.listdir(folder / "fd")), len(os.listdir(folder / "task")), len(children(pid)))


def held() -> int:
    """What this process holds of sessions: descriptors, threads, and mappings of their stacks."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().splitlines()
    stacks = sum("glremote stacks" in line for line in maps)
    return len(os.listdir("/proc/self/fd")) + threading.active_count() + stacks


# --- doors


def listening() -> dict[str, str]:
    """The Unix sockets at which workers of this machine wait for a near client, by their inode."""
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines() if "@glremote-" in line]
    return {line[6]: line[7] for line in lines}


def doors(workers: Iterable[int]) -> dict[str, int]:
    """Those of these processes, and whose each is."""
    names, found = listening(), {}
    for pid in workers:
        with contextlib.suppress(OSError):  # ended since
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):  # closed since
                    if (name := names.get(os.readlink(link).strip("socket:[]"))) is not None:
                        found[name] = pid
    return found
