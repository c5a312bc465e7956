"""What a host tells about a driver and about a program, so that the client need not ask again.

Knows: the records. Does not know: how the host finds them out, or what the client answers from them.
"""

from __future__ import annotations

import hashlib

import msgspec


def is_software(renderer: str) -> bool:
    """Whether the renderer of this name (GL_RENDERER) draws without a GPU."""
    return renderer.lower().startswith(("llvmpipe", "softpipe", "swrast", "software"))


class Attribute(msgspec.Struct, array_like=True, frozen=True):
    """An active vertex attribute."""

    name: str
    gl_type: int
    location: int
    array_length: int


class Varying(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """An output that transform feedback captures."""

    name: str
    number: int
    array_length: int
    dimension: int


class Uniform(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """A uniform outside of blocks. `initial` is its value after linking, `array_length * element_size` bytes."""

    name: str
    gl_type: int
    location: int
    array_length: int
    initial: bytes


class UniformBlock(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """A uniform block: its index, its size in bytes, and its binding after linking."""

    name: str
    index: int
    size: int
    binding: int


class StorageBlock(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """A shader storage block: its index, and its binding after linking."""

    name: str
    index: int
    binding: int


class AttributeMember(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """The place of an attribute among the members; `index` is its place among the attributes."""

    index: int


Member = Varying | Uniform | UniformBlock | StorageBlock | AttributeMember


class Reflection(msgspec.Struct, array_like=True, frozen=True):
    """A linked program: its members in moderngl's order, and all its attributes (a member of the same name hides one).

    Those that OpenGL itself feeds, like gl_VertexID, all have the location -1.

    `geometry` is moderngl's (input, output, vertices), (None, None, 0) without a geometry shader.
    """

    attributes: list[Attribute]
    members: list[Member]
    geometry: tuple[int | None, int | None, int]


Encoded = msgspec.Raw
"""A Reflection as the bytes that the host encoded it to: what is kept is hashed, and must not be encoded anew."""


def fingerprint(encoded: bytes) -> bytes:
    """The hash of a Reflection that CheckReflection carries: the SHA-256 of the host's answer to ReflectProgram."""
    return hashlib.sha256(encoded).digest()


Info = bool | int | float | str | tuple[int | float, ...]


class Driver(msgspec.Struct, frozen=True):
    """What a context of this driver answers without asking, and how it begins."""

    version_code: int
    info: dict[str, Info]
    extensions: list[str]
    limits: dict[str, int | float | None]
    """The `max_...` and `default_texture_unit` properties of moderngl's context, by name."""
    state: dict[str, Info]
    """The properties of a fresh context that moderngl reads from OpenGL, by name."""
    default_framebuffer: tuple[int, int, int, int]
    """Its viewport."""
    complete: list[tuple[str, int, str, int]]
    """The attachments that make a complete framebuffer: kind, components, dtype (or "depth"), samples."""
