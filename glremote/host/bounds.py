"""Bounds: numbers of a client's that neither moderngl nor every driver checks before it goes to memory by them.

Knows: where moderngl 5.13 and Mesa compute with fixed widths, divide, or fill an array of fixed length. Does not know:
commands, objects or spans. What moderngl checks itself is left to it, so that its own exception is raised, and what
OpenGL refuses leaves OpenGL's own error: only what would pass both raises OutOfBounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from _moderngl import UNIFORM_LOOKUP_TABLE

LARGEST_OFFSET = 1 << 60
"""The sum of a few that are smaller does not leave a signed number of 64 bits."""
MOST_EMPTY = 1 << 20
"""Chunks of no bytes: nothing else bounds how many there are."""
LARGEST_SIDE = 1 << 20
"""Texels of a side that no driver gives: the greatest of today's have 32768."""
MOST_ATTACHMENTS = 64
"""Colour attachments that moderngl has room for in a framebuffer."""
MOST_VARYINGS = 64
"""Varyings that moderngl has room for on its stack."""
MOST_COMPONENTS = 16
"""Of a pixel: moderngl looks formats up by it. OpenGL has 4, and what lies behind its formats for those are others."""
MOST_LOCATIONS = 1024
"""Of one vertex attribute; drivers have 16 or 32 together."""
MOST_DIGITS = 7
"""Of a number in a vertex format."""
LARGEST_VERTEX = 1 << 28
"""Bytes of a vertex, by its format; OpenGL takes 2048."""

UNIFORM_SIZES: dict[int, int] = {kind: entry[2] for kind, entry in UNIFORM_LOOKUP_TABLE.items()}
"""Bytes of one element, by the type of a uniform: what glUniform reads."""
_NUMBERS = re.compile(r"[0-9 ]*[0-9]")


class OutOfBounds(Exception):
    """A number in a command would have the driver go to memory that is not the command's."""


def offsets(*numbers: int) -> None:
    """Offsets and sizes in bytes, of which moderngl and drivers compute sums."""
    for number in numbers:
        if not -LARGEST_OFFSET < number < LARGEST_OFFSET:
            raise OutOfBounds(f"{number} is no offset and no size; they are less than 2**60")


def chunks(chunk: int, start: int, step: int, count: int) -> None:
    """So many chunks of as many bytes, `step` from one to the next."""
    offsets(chunk, start, step, count, chunk * count, step * count)
    if chunk == 0 and count > MOST_EMPTY:
        raise OutOfBounds(f"{count} chunks of no bytes; {MOST_EMPTY} at most")


def area(viewport: tuple[int, ...] | None) -> None:
    """A rectangle or a box: its corner, then its sides."""
    if viewport is None:
        return
    half = len(viewport) // 2
    for corner, side in zip(viewport[:half], viewport[half:], strict=True):
        if side > LARGEST_SIDE or corner + side >= 1 << 31:
            raise OutOfBounds(f"no image has {side} texels from {corner} on: {viewport}")


def alignment(of_rows: int) -> None:
    """Of rows of texels: moderngl divides by it, and looks at it only where a texture is not of depths."""
    if of_rows == 0:
        raise OutOfBounds("an alignment of 0 bytes")


def most(count: int, greatest: int, what: str) -> None:
    """So many of something, where moderngl has room for `greatest`."""
    if count > greatest:
        raise OutOfBounds(f"{count} {what}; there is room for {greatest}")


def side(length: int) -> int:
    """A side of a new image: OpenGL refuses the greater ones all alike, and moderngl remembers what it was told."""
    return min(length, LARGEST_SIDE)


def indirect(offset: int, count: int, stride: int) -> None:
    """Commands in a buffer: where they end is computed in unsigned numbers, so one before its begin can come round."""
    offsets(offset, count, stride, count * stride)
    if offset < 0 <= offset + count * stride:
        raise OutOfBounds(f"{count} indirect commands of {stride} bytes from {offset} on begin before their buffer")


def vertex_format(text: str) -> None:
    """A vertex format: moderngl sums it up in 32 bits, and divides by that."""
    total = 0
    for number in _NUMBERS.findall(text):
        digits = number.replace(" ", "").lstrip("0")
        if len(digits) > MOST_DIGITS:
            raise OutOfBounds(f"a vertex format with a number of {len(digits)} digits")
        total += 8 * int(digits or "0")
    if total > LARGEST_VERTEX:
        raise OutOfBounds(f"a vertex format of more than {LARGEST_VERTEX} bytes")


def attributes(found: Iterable[Any]) -> None:
    """Attributes of a vertex array, which take one location after the other."""
    for attribute in found:
        if attribute is not None and attribute.rows_length > MOST_LOCATIONS:
            raise OutOfBounds(f"an attribute of {attribute.rows_length} locations")


def uniform(kind: int, array_length: int, element_size: int, size: int) -> None:
    """A uniform's value of `size` bytes."""
    if UNIFORM_SIZES.get(kind, element_size) != element_size or array_length * element_size != size:
        raise OutOfBounds(
            f"{size} bytes are not {array_length} uniforms of type 0x{kind:x}, of {element_size} bytes each"
        )
