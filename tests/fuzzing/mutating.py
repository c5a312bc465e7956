"""Inputs gone wrong: bytes, and commands. Fast, and the same for the same seed."""

from __future__ import annotations

import random
from functools import cache
from types import NoneType
from typing import Any, get_args

import msgspec

from glremote.protocol import commands as c
from glremote.protocol.stacks import Span

INTERESTING = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 64, 127, 128, 255, 256, 1024, 65535, 65536, (1 << 20), (1 << 24))
EDGES = tuple(
    (1 << power) + near
    for power in (15, 16, 30, 31, 32, 47, 48, 53, 60, 62, 63)
    for near in (-1, 0, 1)
)
NUMBERS = (*INTERESTING, *EDGES, *(-number for number in (*INTERESTING[1:], *EDGES)))
"""Where widths end, and small ones."""
PACKED_NUMBERS = tuple(
    msgspec.msgpack.encode(number) for number in NUMBERS if -(1 << 63) <= number < 1 << 64
)
PIECES = (
    *PACKED_NUMBERS, b"\xc0", b"\xc3", b"\x90", b"\x91" * 40, b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xcb\x7f\xf8\0\0\0\0\0\0", b"\xa4text", b"\xd4\0\0",
)  # fmt: skip
"""MessagePack that means something: numbers, nothing, containers and texts that claim to be long, not-a-number."""
TEXTS = ("", "f1", "f2", "f4", "u4", "i1", "nu2", "4f", "2f 3f1/i", "3x4 f", "0", "<=", "RGBA", "²", "\0", "x" * 300)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return c.hints(kind)


def hints(kind: Any) -> dict[str, Any]:
    """The fields of a command with their types, which take long to find out."""
    return _hints(kind)


def bytes_gone_wrong(draw: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Some edits of the bytes; some of them put pieces of other inputs there."""
    edited = bytearray(data)
    for _ in range(1 + int(draw.expovariate(0.7))):
        at = draw.randrange(len(edited) + 1)
        kind = draw.randrange(7)
        if kind == 0 and at < len(edited):
            edited[at] ^= 1 << draw.randrange(8)
        elif kind == 1 and at < len(edited):
            edited[at] = draw.randrange(256)
        elif kind == 2:
            edited[at : at + draw.choice((0, 1, 1, 5, 9))] = draw.choice(PIECES)
        elif kind == 3:
            del edited[at : at + draw.choice((1, 1, 2, 4, 16, 100))]
        elif kind == 4:
            other = draw.choice(others)
            start = draw.randrange(len(other) + 1)
            edited[at:at] = other[start : start + draw.choice((1, 4, 16, 64, 400))]
        elif kind == 5:
            piece = edited[at : at + draw.choice((1, 4, 16, 64))]
            edited[at:at] = piece * draw.choice((1, 1, 2, 30))
        else:
            size = draw.choice((2, 4, 8))
            edited[at : at + size] = draw.choice(NUMBERS).to_bytes(9, "big", signed=True)[-size:]
    return bytes(edited)


def number(draw: random.Random, hint: Any, value: int) -> int:
    """A number of this type, often one at an edge."""
    found = draw.choice((value + draw.choice((-1, 1)), draw.choice(NUMBERS), -value, 2 * value, draw.randrange(40)))
    if hasattr(hint, "__metadata__"):
        meta = hint.__metadata__[0]
        return min(max(found, int(meta.ge)), int(meta.lt) - 1)
    return min(max(found, -(1 << 63)), (1 << 63) - 1)


def value_gone_wrong(draw: random.Random, hint: Any, value: Any) -> Any:
    """Another value of the same type."""
    arguments = get_args(hint)
    if NoneType in arguments:
        inner = next(argument for argument in arguments if argument is not NoneType)
        if value is None or draw.random() < 0.2:
            return None
        return value_gone_wrong(draw, inner, value)
    if hint is Span:
        offset = draw.choice((0, value.offset, draw.randrange(1 << 16)))
        return Span(offset, draw.choice((value.size, 0, 1, draw.randrange(1 << 14), value.size + 1)))
    if isinstance(value, msgspec.Struct):
        return command_gone_wrong(draw, value)
    if isinstance(value, tuple):
        if not value:
            return value
        at = draw.randrange(len(value))
        inner = arguments[0] if arguments[-1] is Ellipsis else arguments[at]
        changed = (*value[:at], value_gone_wrong(draw, inner, value[at]), *value[at + 1 :])
        if arguments[-1] is Ellipsis and draw.random() < 0.3:
            return draw.choice((changed[1:], changed * 2, changed * 40))
        return changed
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return number(draw, hint, value)
    if isinstance(value, float):
        return draw.choice((0.0, -1.0, 1e38, -1e300, float("inf"), float("nan"), 0.5))
    if isinstance(value, str):
        return draw.choice((*TEXTS, value + "1", value[:-1], value * 3))
    if isinstance(value, bytes):
        return draw.choice((b"", value[:-1], value + b"\0", value * 2, bytes(len(value)), value[::-1]))
    if isinstance(value, dict):
        return {} if draw.random() < 0.5 else {**value, draw.choice(TEXTS): draw.choice((0, 1, -1, 100))}
    return value


def command_gone_wrong(draw: random.Random, command: Any) -> Any:
    """The same command with another value in one of its fields."""
    found = hints(type(command))
    if not found:
        return command
    name = draw.choice(list(found))
    fields = {field: getattr(command, field) for field in found}
    fields[name] = value_gone_wrong(draw, found[name], fields[name])
    return type(command)(**fields)


