"""Compares what a program comes to on both sides, and makes one that differs as short as it gets.

Knows: what a difference is, and how it is shown as a test. Does not know: how programs are made, or run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .running import Outcome
from .sides import Gone, Sides

SHOWN = 300
"""Characters of what a step came to."""


class Difference(NamedTuple):
    """The step at which two runs part, and what it came to."""

    line: str
    plain: Outcome
    remote: Outcome

    def kind(self) -> str:
        """What it is about, without numbers: two of one kind are shown once."""
        what = re.sub(r"\(.*", "", self.line.split(" = ")[0])
        plain, remote = " ".join(self.plain), " ".join(self.remote)
        start = max(0, _common(plain, remote) - 30)
        return re.sub(r"\d+", "", f"{what}: {plain[start:][:40]} / {remote[start:][:40]}")

    def __str__(self) -> str:
        plain, remote = " ".join(self.plain), " ".join(self.remote)
        start = max(0, _common(plain, remote) - 60)
        return f"{self.line}\n    plain:  {plain[start:][:SHOWN]}\n    remote: {remote[start:][:SHOWN]}"


def _common(one: str, other: str) -> int:
    """With how many equal characters two texts begin."""
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)


class Rejected(Exception):
    """Plain moderngl crashes or hangs: nothing can be compared."""


def difference(sides: Sides, lines: list[str]) -> Difference | None:
    """The first difference of a program, if there is any. Raises Rejected."""
    plain, remote = sides.run(lines)
    if isinstance(plain, Gone):
        raise Rejected(str(plain))
    if isinstance(remote, Gone):
        return Difference("the whole program", ["value", "runs"], ["raised", str(remote)])
    for line, here, there in zip(lines, plain, remote, strict=True):
        if here != there:
            return Difference(line, here, there)
    return None


def shortened(sides: Sides, lines: list[str], found: Difference) -> tuple[list[str], Difference]:
    """Leave out lines while a difference of the same kind remains."""

    def differs(candidate: list[str]) -> Difference | None:
        try:
            other = difference(sides, candidate)
        except Rejected:
            return None
        return other if other is not None and other.kind() == found.kind() else None

    if found.line in lines:
        lines, found = _tried(lines[: lines.index(found.line) + 1], differs) or (lines, found)
    size = len(lines) // 2
    while size:
        for candidate in _without(lines, size):
            shorter = _tried(candidate, differs)
            if shorter is not None:
                lines, found = shorter
                break
        else:
            size //= 2
    return lines, found


def _tried(
    candidate: list[str], differs: Callable[[list[str]], Difference | None]
) -> tuple[list[str], Difference] | None:
    other = differs(candidate)
    return None if other is None else (candidate, other)


def _without(lines: list[str], size: int) -> Iterator[list[str]]:
    for end in range(len(lines), 0, -size):
        yield lines[: max(0, end - size)] + lines[end:]


def as_test(lines: list[str], found: Difference) -> str:
    """The program as a test of test_differential.py, where it can be pasted."""
    steps = "\n".join(f"        {line!r}," for line in lines)
    return f"def test_found(sides: Sides) -> None:\n    check(sides, [\n{steps}\n    ])\n\n{found}\n"
