"""What tests ask about processes, of /proc: a bare machine has no `ps`."""

from __future__ import annotations

import contextlib
from pathlib import Path


def children(parent: int) -> list[int]:
    """The processes that a process started and has not reaped."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.name))
    return found
