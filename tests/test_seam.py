"""The recording objects against the installed moderngl's C types, name by name (MODERNGL_SEAM.md section 0).

What a C type has, the recording class that stands in its place has too: a method where it has a method, something to
be set where it can be set. EXCEPTIONS is the one table of those that do not, each with its reason.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, GetSetDescriptorType, MethodDescriptorType
from typing import Any

import moderngl
import pytest
from moderngl import mgl  # type: ignore[attr-defined]

from glremote.recording import (
    buffers,
    context,
    framebuffers,
    programs,
    queries,
    samplers,
    scopes,
    textures,
    vertex_arrays,
)

RECORDING: dict[str, type] = {
    "Buffer": buffers.Buffer,
    "Context": context.Context,
    "Framebuffer": framebuffers.Framebuffer,
    "Program": programs.Program,
    "Query": queries.Query,
    "Renderbuffer": textures.Renderbuffer,
    "Sampler": samplers.Sampler,
    "Scope": scopes.Scope,
    "Texture": textures.Texture,
    "Texture3D": textures.Texture3D,
    "TextureArray": textures.TextureArray,
    "TextureCube": textures.TextureCube,
    "VertexArray": vertex_arrays.VertexArray,
}

EXCEPTIONS: dict[str, str] = {
    "Buffer.__buffer__": "OpenGL maps the buffer; there is no memory of it here (a name since Python 3.12)",
    "Buffer.__release_buffer__": "see Buffer.__buffer__",
}
"""What a recording class lacks, and why."""

IGNORED = {"__doc__", "__module__", "__new__", "__init__", "__slotnames__"}
"""The last is the copy module's, put there by whoever has tried to copy one."""


def objects(ctx: moderngl.Context) -> dict[str, Any]:
    """One object of each type of the seam."""
    texture = ctx.texture((4, 4), 4)
    framebuffer = ctx.framebuffer([texture])
    program = ctx.program(
        vertex_shader="#version 330\nin vec4 position;\nvoid main() { gl_Position = position; }",
        fragment_shader="#version 330\nout vec4 pixel;\nvoid main() { pixel = vec4(1.0); }",
    )
    buffer = ctx.buffer(reserve=64)
    found: dict[str, Any] = {
        "Buffer": buffer,
        "Context": ctx,
        "Framebuffer": framebuffer,
        "Program": program,
        "Query": ctx.query(samples=True),
        "Renderbuffer": ctx.renderbuffer((4, 4)),
        "Sampler": ctx.sampler(),
        "Scope": ctx.scope(framebuffer),
        "Texture": texture,
        "Texture3D": ctx.texture3d((4, 4, 4), 4),
        "TextureArray": ctx.texture_array((4, 4, 4), 4),
        "TextureCube": ctx.texture_cube((4, 4), 4),
        "VertexArray": ctx.vertex_array(program, buffer, "position"),
    }
    return {name: thing.mglo for name, thing in found.items()}


@pytest.fixture
def originals(new_context: Callable[..., moderngl.Context]) -> dict[str, Any]:
    """moderngl's own."""
    return objects(new_context("plain"))


@pytest.fixture
def recorded(near_by: moderngl.Context) -> dict[str, Any]:
    """Ours."""
    return objects(near_by)


def entries(kind: type) -> Iterator[tuple[str, Any]]:
    """The names of a C type, and what stands behind each."""
    return ((name, value) for name, value in vars(kind).items() if name not in IGNORED)


def settable(descriptor: GetSetDescriptorType) -> bool:
    """Whether a property of a C type has a setter, read off CPython's own record of it (PyGetSetDef in descrobject.h).

    Trying it would not do: some of moderngl's setters crash on what they do not expect.
    """
    assert isinstance(descriptor, GetSetDescriptorType)  # of anything else this would read what is not there
    word = ctypes.sizeof(ctypes.c_void_p)
    record = ctypes.c_void_p.from_address(id(descriptor) + object.__basicsize__ + 3 * word).value
    assert record is not None
    return ctypes.c_void_p.from_address(record + 2 * word).value is not None


def test_setters_are_told_from_what_has_none() -> None:
    class Slots:
        pass

    assert settable(type.__dict__["__abstractmethods__"])
    assert settable(vars(Slots)["__dict__"])
    assert not settable(vars(property)["__isabstractmethod__"])
    assert not settable(vars(type(len))["__self__"])


def test_the_types_are_those_of_the_seam(originals: dict[str, Any], recorded: dict[str, Any]) -> None:
    assert {name: type(thing).__name__ for name, thing in originals.items()} == {name: name for name in RECORDING}
    assert {type(thing).__module__ for thing in originals.values()} == {"mgl"}
    assert {name: type(thing) for name, thing in recorded.items()} == RECORDING
    assert {name: thing.name for name, thing in recorded.items()} == {name: f"mgl.{name}" for name in RECORDING}


def test_the_functions_are_those_of_the_seam() -> None:
    assert {name for name in dir(mgl) if not name.startswith("__")} == {
        "InvalidObject", "create_context", "expected_size", "strsize", "writable_bytes",
    }  # fmt: skip


@pytest.mark.parametrize("kind", RECORDING)
def test_nothing_is_missing(kind: str, originals: dict[str, Any], recorded: dict[str, Any]) -> None:
    ours = recorded[kind]
    missing = []
    for name, original in entries(type(originals[kind])):
        entry = f"{kind}.{name}"
        behind = getattr(type(ours), name, None)
        if entry in EXCEPTIONS:
            continue
        if behind is None:
            # A plain attribute will do where nobody sets it: moderngl itself would make one by setting it.
            if name not in vars(ours) or not isinstance(original, GetSetDescriptorType) or settable(original):
                missing.append(f"{entry} is missing")
        elif isinstance(original, MethodDescriptorType | BuiltinFunctionType):
            if not callable(behind):
                missing.append(f"{entry} is a method, and ours is not")
        elif isinstance(original, GetSetDescriptorType):
            if callable(behind):
                missing.append(f"{entry} is a property, and ours is a method")
        else:
            missing.append(f"{entry} is a {type(original).__name__}, which this test does not know")
    assert not missing, "\n".join([*missing, "add it to recording/, or to EXCEPTIONS with a reason"])


@pytest.mark.parametrize("kind", RECORDING)
def test_what_can_be_set_can_be_set(kind: str, originals: dict[str, Any], recorded: dict[str, Any]) -> None:
    """A property of ours has a setter where the original has one, and none where it has none."""
    different = []
    for name, original in entries(type(originals[kind])):
        if isinstance(original, GetSetDescriptorType) and f"{kind}.{name}" not in EXCEPTIONS:
            behind = getattr(type(recorded[kind]), name, None)
            wanted = settable(original)
            if isinstance(behind, property) and (behind.fset is not None) != wanted:
                different.append(f"{kind}.{name} {'can' if wanted else 'cannot'} be set")
    assert not different, "\n".join(different)


def test_every_exception_is_one(originals: dict[str, Any]) -> None:
    for entry in EXCEPTIONS:
        kind, name = entry.split(".")
        assert not hasattr(RECORDING[kind], name), f"{entry} is there now; take it out of EXCEPTIONS"
        assert hasattr(type(originals[kind]), name) or name.endswith("buffer__"), f"moderngl has no {entry}"


@pytest.mark.parametrize("kind", RECORDING)
def test_nothing_is_put_off(kind: str, originals: dict[str, Any]) -> None:
    for name, original in entries(type(originals[kind])):
        ours = getattr(RECORDING[kind], name, None)
        if isinstance(original, MethodDescriptorType) and inspect.isfunction(ours):
            assert "raise NotImplementedError" not in inspect.getsource(ours), f"{kind}.{name} does nothing"
