"""Runs a random program on one context, plain or remote, and tells what each of its steps came to.

A program is a list of lines of Python; each is one step. Knows: the names they may use, and how a value or an exception
is told so that two runs can be compared. Does not know: where the lines come from. As a script it is the child process
that does so for sides.py: a program a line on its standard input, as JSON, and what it came to on its standard output.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import hashlib
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import moderngl
import numpy as np

import glremote
from glremote.host.inprocess import InProcessHost
from glremote.host.serving import LocalHost
from tests.differential.shaders import COMPUTE, SHADERS

Outcome = list[str]
"""["value", text] or ["raised", type, text]."""
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")

SIZED = ("width", "height", "size")
SAMPLED = ("repeat_x", "repeat_y", "filter", "swizzle", "anisotropy", "compare_func", "components", "dtype", "depth")
PROPERTIES = {
    moderngl.Buffer: ("size", "dynamic"),
    moderngl.Texture: (*SIZED, *SAMPLED, "samples"),
    moderngl.Texture3D: (
        *SIZED, "repeat_x", "repeat_y", "repeat_z", "filter", "swizzle", "components", "dtype", "depth"
    ),
    moderngl.TextureArray: (
        *SIZED, "layers", "repeat_x", "repeat_y", "filter", "swizzle", "anisotropy", "components", "dtype"
    ),
    moderngl.TextureCube: ("size", "filter", "swizzle", "anisotropy", "compare_func", "components", "dtype", "depth"),
    moderngl.Renderbuffer: (*SIZED, "samples", "components", "depth", "dtype"),
    moderngl.Framebuffer: (
        *SIZED, "samples", "viewport", "scissor", "color_mask", "depth_mask", "bits", "color_attachments",
        "depth_attachment",
    ),
    moderngl.Sampler: (
        "repeat_x", "repeat_y", "repeat_z", "filter", "anisotropy", "compare_func", "border_color", "min_lod",
        "max_lod", "texture",
    ),
    moderngl.Query: ("samples", "primitives", "crender"),
    moderngl.VertexArray: (
        "mode", "program", "index_buffer", "index_element_size", "vertices", "instances", "subroutines", "scope",
    ),
    moderngl.Program: (
        "is_transform", "geometry_input", "geometry_output", "geometry_vertices", "subroutines",
        "_attribute_locations",
    ),
    moderngl.ComputeShader: (),
    moderngl.Context: (
        "fbo", "gc_mode", "line_width", "point_size", "patch_vertices", "polygon_offset", "wireframe", "front_face",
        "cull_face", "default_texture_unit", "viewport", "scissor", "max_samples", "max_integer_samples",
        "max_texture_units", "max_anisotropy", "screen", "depth_func", "blend_func", "blend_equation",
        "depth_clamp_range", "multisample", "provoking_vertex", "version_code", "extensions",
        "supports_labels", "supports_debug_scopes", "max_label_length", "max_debug_message_length",
        "max_debug_group_stack_depth",
    ),
}  # fmt: skip
"""What `properties` looks at, by type."""
MEMBERS = {
    "Uniform": ("value", "location", "array_length", "element_size", "dimension", "gl_type", "matrix", "name"),
    "UniformBlock": ("value", "index", "size", "name"),
    "StorageBlock": ("value", "index", "name"),
    "Attribute": ("location", "array_length", "dimension", "shape", "name"),
    "Varying": ("number", "array_length", "dimension", "name"),
}
"""The same of a program's members."""


def data(size: int, seed: int = 1) -> bytes:
    """So many bytes from 0 to 63: as floats of any size they are small and finite."""
    return bytes((seed * 37 + place * (2 * seed + 5)) & 63 for place in range(size))


def floats(*values: float) -> bytes:
    """As 32-bit floats."""
    return np.array(values, "f4").tobytes()


def integers(*values: int) -> bytes:
    """As unsigned 32-bit integers."""
    return np.array(values, "u4").tobytes()


def properties(thing: Any) -> dict[str, Any]:
    """All that an object says of itself."""
    if isinstance(thing, moderngl.Program | moderngl.ComputeShader):
        found = {name: {of: attempt(getattr, thing[name], of) for of in members(thing[name])} for name in thing}
        return found | {name: attempt(getattr, thing, name) for name in PROPERTIES[type(thing)]}
    return {name: attempt(getattr, thing, name) for name in PROPERTIES.get(type(thing), ())}


def members(member: Any) -> tuple[str, ...]:
    """The properties of a program's member."""
    return MEMBERS.get(type(member).__name__, ())


def contents(thing: Any) -> Any:
    """All that it holds: bytes, texels, pixels."""
    if isinstance(thing, moderngl.Texture):
        return [attempt(thing.read, level) for level in range(3)]
    if isinstance(thing, moderngl.TextureCube):
        return [attempt(thing.read, face) for face in range(6)]
    if isinstance(thing, moderngl.Framebuffer):
        colors = [
            attempt(thing.read, components=image.components, attachment=index, dtype=image.dtype)
            for index, image in enumerate(thing.color_attachments or ())
        ]
        depth = thing.depth_attachment and attempt(thing.read, components=1, attachment=-1, dtype="f4")
        return colors, depth
    return thing.read() if hasattr(thing, "read") else None


def attempt(call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    """What it returns, or the exception."""
    try:
        return call(*arguments, **more)
    except Exception as error:
        return error


class Names:
    """What the lines of one program may use."""

    def __init__(self, ctx: moderngl.Context) -> None:
        self.known: dict[str, Any] = {
            "ctx": ctx, "moderngl": moderngl, "np": np, "data": data, "floats": floats, "integers": integers,
            "properties": properties, "contents": contents, "attempt": attempt, "COMPUTE": COMPUTE,
            **{name.upper(): shaders.sources for name, shaders in SHADERS.items()},
        }  # fmt: skip

    def run(self, line: str) -> Outcome:
        """Run one step."""
        statement = ast.parse(line).body[0]
        try:
            if isinstance(statement, ast.Expr):
                return ["value", self.told(eval(line, self.known))]
            exec(line, self.known)
            return ["value", ""]
        except Exception as error:
            return self.raised(error)

    def raised(self, error: BaseException) -> Outcome:
        """An exception's type and text."""
        return ["raised", f"{type(error).__module__}.{type(error).__name__}", ADDRESS.sub("0x", str(error))]

    def told(self, value: Any) -> str:
        """A value as text: exact, and with nothing in it that only this run has."""
        if isinstance(value, BaseException):
            return " ".join(self.raised(value))
        if isinstance(value, bytes | bytearray | memoryview | np.ndarray):
            found = bytes(value)
            digest = "" if len(found) <= 64 else hashlib.sha1(found).hexdigest()[:12]
            return f"{type(value).__name__} {len(found)}: {found[:64].hex()} {digest}"
        if isinstance(value, list | tuple):
            return f"{type(value).__name__}({', '.join(map(self.told, value))})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key}: {self.told(item)}" for key, item in value.items()) + "}"
        if isinstance(value, set):
            return self.told(sorted(value))
        if value is None or isinstance(value, bool | int | float | str | np.generic):
            return f"{type(value).__name__} {value!r}"
        names = [name for name, thing in self.known.items() if thing is value]
        return f"{type(value).__module__}.{type(value).__name__} {' '.join(names)}"


def run(ctx: moderngl.Context, lines: list[str]) -> list[Outcome]:
    """Run a program, and tell what each step came to.

    Its objects end with it: in plain moderngl the finaliser of one would free another's in the next context.
    """
    names = Names(ctx)
    outcomes = [names.run(line) for line in lines]
    names.known.clear()
    gc.collect()
    return outcomes


@contextlib.contextmanager
def contexts(side: str) -> Iterator[Callable[[], moderngl.Context]]:
    """Makes contexts: "plain" moderngl's own, "in-process" or "served" remote ones."""
    if side == "plain":
        yield lambda: moderngl.create_context(require=430, standalone=True, backend="egl")  # type: ignore[arg-type]
    elif side == "in-process":
        host = InProcessHost()
        yield lambda: glremote.instance().connect(host.connect, "in-process", "a test", 430)
        host.close()
    else:
        with LocalHost("--max-sessions", "64") as served:
            yield lambda: glremote.create_context(served.url, token=served.token, require=430)


def main(side: str) -> None:
    """Run what comes on standard input until it ends."""
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a driver prints is no answer
    gc.disable()
    gc.freeze()
    with contexts(side) as make:
        for number in itertools.count():
            line = sys.stdin.readline()
            if not line:
                return
            ctx = make()
            try:
                outcomes = run(ctx, json.loads(line))
            finally:
                with contextlib.suppress(Exception):
                    ctx.release()
            print(json.dumps([number, outcomes]), file=said, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
