"""What the host finds out once, so that the client need not ask: programs after linking, and the driver.

Knows: moderngl's context and its members. Does not know: sessions.
"""

from __future__ import annotations

from typing import Any

from _moderngl import UNIFORM_LOOKUP_TABLE

from glremote.protocol import reflection as r

DTYPES = ("f1", "f2", "f4", "u1", "u2", "u4", "i1", "i2", "i4", "ni1", "ni2", "nu1", "nu2")
LIMITS = (
    "max_samples", "max_integer_samples", "max_texture_units", "max_anisotropy", "max_label_length",
    "max_debug_message_length", "max_debug_group_stack_depth", "default_texture_unit",
)  # fmt: skip
STATE = ("line_width", "point_size", "patch_vertices")


def reflect(context: Any, program: int, members: Any, geometry: tuple[int | None, int | None, int]) -> r.Reflection:
    """A program, from what moderngl's `program` returned: OpenGL's name, three dictionaries, the geometry's facts."""
    by_name, locations, by_location = members
    places = {name: place for place, name in enumerate(locations)}
    found: list[r.Member] = [
        r.AttributeMember(places[name]) if _is_attribute(member) else _member(context, program, name, member)
        for name, member in by_name.items()
    ]
    every = (by_name[x] if _is_attribute(by_name[x]) else by_location[location] for x, location in locations.items())
    attributes = [r.Attribute(a.name, a.gl_type, a.location, a.array_length) for a in every]
    return r.Reflection(attributes, found, geometry)


def _is_attribute(member: Any) -> bool:
    return type(member).__name__ == "Attribute"


def _member(context: Any, program: int, name: str, member: Any) -> r.Member:
    kind = type(member).__name__
    if kind == "Varying":
        return r.Varying(name, member.number, member.array_length, member.dimension)
    if kind == "UniformBlock":
        return r.UniformBlock(name, member.index, member.size, context._get_ubo_binding(program, member.index))
    if kind == "StorageBlock":
        return r.StorageBlock(name, member.index, context._get_storage_block_binding(program, member.index))
    size = member.array_length * member.element_size
    initial = member.read() if member.gl_type in UNIFORM_LOOKUP_TABLE else bytes(size)
    return r.Uniform(name, member.gl_type, member.location, member.array_length, initial)


def examine(context: Any, version_code: int) -> r.Driver:
    """A fresh context's driver: everything that a client is told in the greeting."""
    limits = {name: getattr(context, name) for name in LIMITS}
    viewport = tuple(context.fbo.viewport)
    driver = r.Driver(
        version_code=version_code,
        info=dict(context.info),
        extensions=sorted(context.extensions),
        limits=limits,
        state={name: getattr(context, name) for name in STATE},
        default_framebuffer=viewport,
        complete=_complete(context, limits["max_samples"]),
    )
    context.clear_errors()
    return driver


def _complete(context: Any, max_samples: int) -> list[tuple[str, int, str, int]]:
    """Which single attachments make a complete framebuffer: tried, each with an object of 4x4 pixels."""
    samples = [0] + [1 << power for power in range(1, 7) if 1 << power <= max_samples]
    found = []
    for kind, renderbuffer in (("texture", False), ("renderbuffer", True)):
        for count in samples:
            for dtype in DTYPES:
                for components in (1, 2, 3, 4):
                    make = (context.texture, (4, 4), components, None, count, 1, dtype, 0, renderbuffer)
                    if _is_complete(context, make, depth=False):
                        found.append((kind, components, dtype, count))
            if _is_complete(context, (context.depth_texture, (4, 4), None, count, 4, renderbuffer), depth=True):
                found.append((kind, 1, "depth", count))
    for dtype in DTYPES:
        for components in (1, 2, 3, 4):
            if _is_complete(context, (context.texture_array, (4, 4, 2), components, None, 1, dtype), depth=False):
                found.append(("texture_array", components, dtype, 0))
    return found


def _is_complete(context: Any, make: tuple[Any, ...], depth: bool) -> bool:
    function, *arguments = make
    attachment, _ = function(*arguments)
    try:
        framebuffer = context.framebuffer((), attachment)[0] if depth else context.framebuffer((attachment,), None)[0]
    except Exception:
        return False
    finally:
        attachment.release()
    framebuffer.release()
    return True
