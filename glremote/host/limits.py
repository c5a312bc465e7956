"""What one session may use of its host: objects, memory, sizes, seconds, bytes. The host's, never the client's.

Knows: the limits, and what each Make takes. Does not know: who made what, or what is done to a session that goes past
one. A session's memory is an estimate: drivers pad, compress and copy as they like, and tell nobody.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from glremote.protocol import commands as c
from glremote.protocol.messages import LARGEST_PACKET

from .objects import size_of

PROGRAM = 1 << 16
"""Bytes that a program takes beside its sources, about."""
SMALL = 1 << 10
"""Bytes that any other object takes, about."""
NOTHING_NEW = (c.MakeExternalBuffer, c.MakeExternalTexture, c.MakeDetectedFramebuffer, c.MakeScope, c.KeepCommands)
"""These make nothing in OpenGL."""
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
MOST_SECONDS = 2_000_000
"""poll(2) waits no longer, which is some 23 days."""
MOST = 1 << 53
HELD = 2 * LARGEST_PACKET
"""Bytes that a packet may wait for in the gateway, where bytes per second are limited: a packet before it, each way."""


class LimitExceeded(Exception):
    """A session asked for more than its host allows; the text names the limit, its value and what was asked."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of one session; 0 is any.

    Unless it is told otherwise a host lets OpenGL say what is too large, in its own words.
    """

    objects: int = 1_000_000
    """Objects that exist at once; one that is forgotten and was not released exists in OpenGL."""
    memory: int = 0
    """Bytes of all objects together, as estimated here."""
    object_bytes: int = 0
    """Bytes of one object."""
    source_bytes: int = 1 << 20
    """Bytes of one program's sources."""
    buffer_seconds: float = 60.0
    """Seconds that one command buffer may take, its reads and programs included."""
    compile_seconds: float = 0.0
    """Seconds that one program may take to be compiled and linked; what its buffer may take bounds it anyway."""
    read_seconds: float = 0.0
    """Seconds that one read may take, with the work that it waits for; what its buffer may take bounds it anyway."""
    bytes_per_second: int = 0
    """Bytes that go through the gateway, both ways together; what comes faster waits."""
    idle_seconds: float = 0.0
    """Seconds without a word from its client after which a session ends."""

    def patience(self, near: bool) -> float:
        """Seconds that a client may be silent; 0 is any. What a gateway holds back at its rate, the client has said."""
        slowed = self.bytes_per_second and self.idle_seconds and not near
        return self.idle_seconds + (HELD / self.bytes_per_second if slowed else 0.0)

    def changed(self, text: str) -> Limits:
        """These, but for what `NAME=VALUE,...` says. Raises ValueError."""
        return dataclasses.replace(self, **read(text))  # type: ignore[arg-type]

    def check(self, name: str, asked: int, what: str) -> None:
        """LimitExceeded where more is asked than the limit of this name."""
        limit = getattr(self, name)
        if limit and asked > limit:
            raise LimitExceeded(f"{name.replace('_', '-')} is limited to {limit} here, and {what} asks for {asked}")


def read(text: str) -> dict[str, int | float]:
    """What `NAME=VALUE,...` says, as Limits has it; ValueError says what is wrong."""
    kinds = {name: type(value) for name, value in dataclasses.asdict(Limits()).items()}
    found: dict[str, int | float] = {}
    for item in filter(None, text.split(",")):
        name, equals, value = item.partition("=")
        name = name.strip().replace("-", "_")
        if name not in kinds or not equals:
            names = ", ".join(kind.replace("_", "-") for kind in kinds)
            raise ValueError(f"{item.strip()!r} is no limit; write NAME=VALUE with a NAME of {names}")
        number, unit = value.strip().lower(), ""
        if kinds[name] is int and number[-1:] in UNITS:
            number, unit = number[:-1], number[-1:]
        try:
            found[name] = kinds[name](number) * UNITS[unit]
            if not 0 <= found[name] <= (MOST_SECONDS if kinds[name] is float else MOST):
                raise ValueError
        except ValueError:
            raise ValueError(f"{value.strip()!r} is no value for the limit {item.partition('=')[0].strip()}") from None
    return found


def tidy(text: str) -> str:
    """The same as `NAME=VALUE,...`, each name once and as it is written above; ValueError as from `read`."""
    read(text)
    pairs = [item.partition("=") for item in text.split(",") if item]
    named = {name.strip().replace("_", "-"): value.strip() for name, _, value in pairs}
    return ",".join(f"{name}={value}" for name, value in named.items())


def written(limits: Limits) -> str:
    """What `read` reads: how a gateway tells its workers."""
    return ",".join(f"{name}={value}" for name, value in dataclasses.asdict(limits).items())


def taken(k: c.Make) -> int:
    """Bytes of the object that a command makes."""
    if isinstance(k, c.MakeBuffer):
        return k.reserve if k.data is None else k.data.size
    if isinstance(k, c.MakeProgram):
        return PROGRAM + sum(len(source or b"") for source in k.sources)
    extent: tuple[int, ...] | None = getattr(k, "extent", None)
    if isinstance(k, NOTHING_NEW):
        return 0
    if extent is None or isinstance(k, c.MakeEmptyFramebuffer):
        return SMALL
    pixel = getattr(k, "components", 1) * size_of(getattr(k, "dtype", "f4"))
    images = 6 if isinstance(k, c.MakeTextureCube | c.MakeDepthTextureCube) else 1
    return math.prod(extent) * pixel * images * max(1, getattr(k, "samples", 1))


class Usage:
    """What one session has."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.total = 0
        self._sizes: dict[int, int] = {}  # by handle
        self._free: set[int] = set()  # those that OpenGL does not have, or has no longer

    def add(self, k: c.Make) -> None:
        """An object is about to be made. Raises LimitExceeded, and then it does not count."""
        name = type(k).__name__
        if isinstance(k, c.MakeProgram):
            self.limits.check("source_bytes", sum(len(source or b"") for source in k.sources), name)
        self.limits.check("objects", len(self._sizes) + 1, f"{name}, with those that there are,")
        size = taken(k)
        self.resize(k.handle, size, name)
        if not size:
            self._free.add(k.handle)

    def resize(self, handle: int, size: int, name: str) -> None:
        """An object is about to have so many bytes. Raises LimitExceeded, and then it has what it had."""
        self.limits.check("object_bytes", size, name)
        total = self.total + size - self._sizes.get(handle, 0)
        self.limits.check("memory", total, f"{name}, with what there is, by the host's estimate")
        self._sizes[handle] = size
        self.total = total

    def release(self, handle: int) -> None:
        """OpenGL has it no longer; the client can still name it."""
        if handle in self._sizes:
            self.total -= self._sizes[handle]
            self._sizes[handle] = 0
            self._free.add(handle)

    def forget(self, handle: int) -> None:
        """The client can no longer name it; OpenGL still has it, unless it was released."""
        if handle in self._free:
            self._free.discard(handle)
            self._sizes.pop(handle, None)

    def take_back(self, handle: int) -> None:
        """It was not made after all."""
        self.release(handle)
        self.forget(handle)
