"""A finding: what is well, what is doubtful and what is missing, in a sentence, and the lines that mend it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple


class State(enum.Enum):
    """How it stands."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


class Finding(NamedTuple):
    """One."""

    state: State
    text: str
    mend: tuple[str, ...] = ()
    """Lines to be copied, each a command or what is to be written; all of them, in this order."""


class Section(NamedTuple):
    """Findings about one thing."""

    title: str
    findings: tuple[Finding, ...]


def ok(text: str) -> Finding:
    """All is well."""
    return Finding(State.OK, text)


def warning(text: str, *mend: str) -> Finding:
    """It works, and may not be what was wanted."""
    return Finding(State.WARNING, text, mend)


def missing(text: str, *mend: str) -> Finding:
    """It cannot work like this."""
    return Finding(State.MISSING, text, mend)


def well(sections: Iterable[Section]) -> bool:
    """Whether nothing is missing."""
    return all(finding.state is not State.MISSING for section in sections for finding in section.findings)
