"""Vertex formats: moderngl's little language ("3f 2f1/i"), read as its C code reads it (FormatIterator)."""

from __future__ import annotations

from typing import NamedTuple

SIZES = {
    "f": 4, "f1": 1, "f2": 2, "f4": 4, "f8": 8,
    "i": 4, "i1": 1, "i2": 2, "i4": 4,
    "u": 4, "u1": 1, "u2": 2, "u4": 4,
    "x": 1, "x1": 1, "x2": 2, "x4": 4, "x8": 8,
}  # fmt: skip
LARGEST = 0x7FFFFFFF
"""Bytes of a vertex. moderngl counts on in an int, which overflows, and then divides by what may be zero."""
PER_INSTANCE = 1
PER_RENDER = 0x7FFFFFFF


class Node(NamedTuple):
    """One item: so many scalars of a type, `size` bytes together; x is padding."""

    kind: str
    scalars: int
    size: int


class Format(NamedTuple):
    """All items of a format that are not padding, the bytes of one vertex, and the divisor (0: per vertex)."""

    nodes: list[Node]
    size: int
    divisor: int


def parse(text: str) -> Format | None:
    """A format, or None where moderngl calls it invalid."""
    nodes: list[Node] = []
    size = 0
    count = 0
    at = 0
    text = text.split("\0")[0]
    while at < len(text) and text[at] != "/":
        char = text[at]
        at += 1
        if char.isascii() and char.isdigit():
            count = count * 10 + int(char)
        elif char in "fiux":
            kind = char
            if at < len(text) and text[at] not in " /":
                kind += text[at]
                at += 1
                if at < len(text) and text[at] not in " /":
                    return None
            if kind not in SIZES:
                return None
            node = Node(kind, count or 1, SIZES[kind] * (count or 1))
            count = 0
            size += node.size
            if char != "x":
                nodes.append(node)
        elif char != " ":
            return None
    if count or size > LARGEST:
        return None
    divisor = {"": 0, "/v": 0, "/i": PER_INSTANCE, "/r": PER_RENDER}.get(text[at:])
    return None if divisor is None else Format(nodes, size, divisor)
