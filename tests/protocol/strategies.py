"""Random commands and command buffers, made from the type hints of the table itself; and bytes gone wrong.

A command is *well formed* when every field has its type: `commands(kind)`. A buffer is *valid* when a host must
accept it: its handles live and are of the right kind, its spans lie within the stack, its reads are not too large:
`buffers()`.
"""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin

import msgspec
from hypothesis import settings
from hypothesis import strategies as st

from glremote.protocol import commands as c
from glremote.protocol.stacks import Span

settings.register_profile("glremote", derandomize=True, deadline=None, database=None, max_examples=100)
SETTINGS = settings.get_profile("glremote")
"""Of every test here that draws: the same examples each time, and no clock."""

STACK_SIZE = 1 << 12
LARGEST_FETCH = 1 << 16
FREE = 1 << 62
"""Where a number has no limit of its own, it is a Py_ssize_t of the seam: twice this."""

Strategy = st.SearchStrategy[Any]
SCALARS: dict[Any, Strategy] = {
    bool: st.booleans(),
    int: st.integers(-2 * FREE, 2 * FREE - 1),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=8),
    bytes: st.binary(max_size=8),
    NoneType: st.none(),
}


@cache
def value(hint: Any) -> Strategy:
    """Values of a type."""
    if hint in SCALARS:
        return SCALARS[hint]
    if hasattr(hint, "__metadata__"):
        meta = hint.__metadata__[0]
        step = meta.multiple_of or 1
        return st.integers(-(-meta.ge // step), (meta.lt - 1) // step).map(lambda number: number * step)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return st.tuples(*map(value, c.hints(hint).values())).map(lambda fields: hint(*fields))
    arguments = get_args(hint)
    if get_origin(hint) is dict:
        return st.dictionaries(*map(value, arguments), max_size=3)
    if get_origin(hint) is list:
        return st.lists(value(arguments[0]), max_size=3)
    if get_origin(hint) is not tuple:
        return st.one_of(*map(value, arguments))
    if arguments[-1] is Ellipsis:
        return st.lists(value(arguments[0]), max_size=3).map(tuple)
    return st.tuples(*map(value, arguments))


def commands(kind: type[c.Command]) -> Strategy:
    """Well formed commands of one class."""
    return value(kind)


def every_command() -> Strategy:
    """Well formed commands of every class."""
    return st.sampled_from(list(c.COMMANDS.values())).flatmap(commands)


def kinds_of(hint: Any) -> frozenset[str] | None:
    """The kinds of object that a handle of this type may name; None where it is no such handle."""
    return (hint.__metadata__[0].extra or {}).get("kinds") if hasattr(hint, "__metadata__") else None


class Handles:
    """Which handles live, and of which kind, as a host sees it; and how a well formed command becomes a valid one."""

    def __init__(self) -> None:
        self.kinds: dict[int, str] = {c.DEFAULT_FRAMEBUFFER: "framebuffer"}
        self.next = c.DEFAULT_FRAMEBUFFER + 1
        self.kept: int | None = 0  # commands that can be kept so far, None where one cannot

    def run(self, command: c.Command) -> c.Command | None:
        """The command, made valid, has run; None where there is nothing that it could name."""
        fields = {name: self.fit(hint, getattr(command, name)) for name, hint in c.hints(type(command)).items()}
        if isinstance(command, c.Make):
            fields["handle"] = self.next
        if isinstance(command, c.Fetch):
            fields["size"] = command.size % (LARGEST_FETCH + 1)
        if NOTHING in fields.values() or (isinstance(command, c.KeepCommands) and self.kept is None):
            return None
        if isinstance(command, c.KeepCommands):
            fields["count"] = self.kept
        if isinstance(command, c.Make | c.Ask | c.Fetch | c.Replay):
            self.kept = None
        elif self.kept is not None and isinstance(command, c.Do):
            self.kept += 1
        valid = type(command)(**fields)
        if isinstance(valid, c.Make):
            self.kinds[valid.handle] = valid.makes
            self.next += 1
        elif isinstance(valid, c.Forget):
            del self.kinds[valid.object]
            self.kinds = {handle: kind for handle, kind in self.kinds.items() if kind != "commands"}  # may name it
        return valid

    def fit(self, hint: Any, value: Any) -> Any:
        """A value of this type that a host accepts, made of any value; NOTHING where there is none."""
        arguments = get_args(hint)
        if NoneType in arguments:
            (other,) = (h for h in arguments if h is not NoneType)
            fitting = value if value is None else self.fit(other, value)
            return None if fitting is NOTHING else fitting
        if (kinds := kinds_of(hint)) is not None:
            found = [handle for handle, kind in self.kinds.items() if kind in kinds]
            return found[value % len(found)] if found else NOTHING
        if hint is Span:
            offset = value.offset % (STACK_SIZE + 1)
            return Span(offset, value.size % (STACK_SIZE + 1 - offset))
        if isinstance(value, msgspec.Struct):
            fields = [self.fit(h, getattr(value, name)) for name, h in c.hints(type(value)).items()]
            return NOTHING if NOTHING in fields else type(value)(*fields)
        if get_origin(hint) is not tuple:
            return value
        if arguments[-1] is Ellipsis:
            return tuple(item for item in (self.fit(arguments[0], v) for v in value) if item is not NOTHING)
        items = tuple(self.fit(h, v) for h, v in zip(arguments, value, strict=True))
        return NOTHING if NOTHING in items else items


NOTHING: Any = object()


def run_all(found: list[c.Command]) -> list[c.Command]:
    """A valid buffer, the first of a session, of well formed commands."""
    handles = Handles()
    return [valid for command in found if (valid := handles.run(command)) is not None]


MAKES = st.tuples(*(commands(kind) for kind in c.COMMANDS.values() if issubclass(kind, c.Make))).map(list)
"""One object of each class, in an order in which each finds what it needs."""


def buffers() -> st.SearchStrategy[list[c.Command]]:
    """Valid command buffers, the first of a session; every other one makes an object of each class first."""
    more = st.lists(every_command(), max_size=10)
    return st.one_of(more, st.builds(list.__add__, MAKES, more)).map(run_all)


EDITS = ("flip", "delete", "insert", "repeat", "cut")


def mutated(data: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    """The bytes with some edits, each at a place between 0.0 and 1.0 of the whole."""
    for edit, place, piece in edits:
        at = int(place * len(data))
        if edit == "flip" and at < len(data):
            data = data[:at] + bytes([data[at] ^ (piece[0] or 1)]) + data[at + 1 :]
        elif edit == "delete":
            data = data[:at] + data[at + len(piece) :]
        elif edit == "insert":
            data = data[:at] + piece + data[at:]
        elif edit == "repeat":
            data = data[: at + len(piece)] + data[at:]
        elif edit == "cut":
            data = data[:at]
    return data


EDIT_LISTS = st.lists(
    st.tuples(st.sampled_from(EDITS), st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=6)),
    min_size=1,
    max_size=4,
)
