"""Lifetimes: what is released, collected or gone says so as moderngl says it, and the rest works on."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import struct
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import moderngl
import pytest

import glremote
from glremote.host.inprocess import InProcessHost
from tests.recording.fullscreen import triangle
from tests.recording.raising import raised

Error = moderngl.Error
COLOR = "#version 330\nuniform vec4 tint = vec4(1.0);\nout vec4 color;\nvoid main() { color = tint; }"
VERTEX = "#version 330\nvoid main() { gl_Position = vec4(vec2(gl_VertexID & 1, gl_VertexID >> 1) * 4.0 - 1.0, 0, 1); }"
POINT = "#version 330\nin vec2 p;\nvoid main() { gl_Position = vec4(p, 0.0, 1.0); }"


def invalid(name: str) -> tuple[type[Exception], str]:
    return AttributeError, f"'InvalidObject' object has no attribute '{name}'"


def target(ctx: moderngl.Context) -> moderngl.Framebuffer:
    """A framebuffer of one pixel, which is bound."""
    made = ctx.framebuffer(ctx.texture((1, 1), 4))
    made.clear()
    made.use()
    return made


# --- release

USES: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "read": (lambda m: m["buffer"].read(), lambda m: m["texture"].read()),
    "read_into": (lambda m: m["buffer"].read_into(bytearray(8)), lambda m: m["framebuffer"].read()),
    "write": (lambda m: m["buffer"].write(b"a"), lambda m: m["texture"].write(b"")),
    "clear": (lambda m: m["buffer"].clear(), lambda m: m["framebuffer"].clear(), lambda m: m["sampler"].clear()),
    "orphan": (lambda m: m["buffer"].orphan(),),
    "bind_to_uniform_block": (lambda m: m["buffer"].bind_to_uniform_block(),),
    "use": (lambda m: m["texture"].use(), lambda m: m["framebuffer"].use(), lambda m: m["sampler"].use()),
    "build_mipmaps": (lambda m: m["texture"].build_mipmaps(),),
    "bind": (lambda m: m["texture"].bind_to_image(0), lambda m: m["vertex_array"].bind(0, "f", m["scope"], "f")),
    "render": (lambda m: m["vertex_array"].render(),),
    "transform": (lambda m: m["vertex_array"].transform([]),),
    "run": (lambda m: m["compute_shader"].run(),),
    "begin": (lambda m: m["scope"].__enter__(),),
    "size": (lambda m: m["buffer"].size,),
    "viewport": (lambda m: m["framebuffer"].viewport,),
    "vertices": (lambda m: m["vertex_array"].vertices,),
    "filter": (lambda m: m["texture"].filter, lambda m: m["sampler"].filter),
}
"""What asks for an entry of the seam, by its name."""


def everything(ctx: Any) -> dict[str, Any]:
    program, buffer, texture = ctx.program(POINT, COLOR), ctx.buffer(bytes(8)), ctx.texture((4, 4), 4)
    framebuffer = ctx.framebuffer(texture)
    return {
        "buffer": buffer, "texture": texture, "framebuffer": framebuffer, "program": program,
        "vertex_array": ctx.vertex_array(program, [(buffer, "2f", "p")]), "sampler": ctx.sampler(),
        "compute_shader": ctx.compute_shader("#version 430\nlayout(local_size_x=1) in;\nvoid main() {}"),
        "scope": ctx.scope(framebuffer), "renderbuffer": ctx.renderbuffer((4, 4)),
    }  # fmt: skip


def test_released_objects(ctx: Any) -> None:
    made = everything(ctx)
    for thing in made.values():
        thing.release()
        thing.release()
        assert isinstance(thing.mglo, moderngl.InvalidObject)
    assert ctx.error == "GL_NO_ERROR"
    for name, calls in USES.items():
        for call in calls:
            assert raised(call, made) == invalid(name)
    buffer, texture, framebuffer, array = (made[n] for n in ("buffer", "texture", "framebuffer", "vertex_array"))
    assert (texture.size, texture.components, framebuffer.size, buffer.dynamic) == ((4, 4), 4, (4, 4), False)
    assert (framebuffer.color_attachments, framebuffer.depth_attachment) == (None, None)
    assert (array.program, array.index_buffer, array.mode) == (None, None, moderngl.TRIANGLES)
    assert all(type(thing.glo) is int for name, thing in made.items() if name not in ("sampler", "scope"))
    assert list(made["program"]) == ["p", "tint"]
    assert ctx.error == "GL_NO_ERROR"


def test_what_others_do_with_a_released_object(ctx: Any) -> None:
    made = everything(ctx)
    for name in ("buffer", "texture", "framebuffer", "program"):
        made[name].release()
    other = ctx.framebuffer(ctx.texture((4, 4), 4))
    buffer, text = ctx.buffer(b"a"), "argument {} must be mgl.{}, not InvalidObject"
    for call, arguments, kind, message in (
        (ctx.copy_buffer, (made["buffer"], buffer), TypeError, text.format(1, "Buffer")),
        (ctx.copy_buffer, (buffer, made["buffer"]), TypeError, text.format(2, "Buffer")),
        (ctx.copy_framebuffer, (other, made["framebuffer"]), TypeError, text.format(2, "Framebuffer")),
        (ctx.copy_framebuffer, (made["texture"], other), Error, "the dst must be a Framebuffer or Texture"),
        (ctx.scope, (made["framebuffer"],), TypeError, text.format(1, "Framebuffer")),
        (ctx.framebuffer, ([made["texture"]],), Error, "invalid color attachment"),
        (ctx.vertex_array, (made["program"], []), TypeError, text.format(1, "Program")),
        (made["vertex_array"].render_indirect, (made["buffer"],), TypeError, text.format(1, "Buffer")),
        (made["vertex_array"].bind, (0, "f", made["buffer"], "2f"), TypeError, text.format(3, "Buffer")),
        (made["compute_shader"].run_indirect, (made["buffer"],), TypeError, text.format(1, "Buffer")),
        (other.read_into, (made["buffer"],), TypeError, "a bytes-like object is required, not 'InvalidObject'"),
    ):
        assert raised(call, *arguments) == (kind, message)
    assert ctx.error == "GL_NO_ERROR"


def test_released_while_it_is_bound(ctx: Any) -> None:
    fbo = target(ctx)
    fbo.release()
    assert ctx.fbo is fbo and ctx.viewport == (0, 0, 1, 1)  # OpenGL has none now, and moderngl still has it
    ctx.scissor = 0, 0, 1, 1
    assert ctx.error == "GL_NO_ERROR"
    ctx.clear(1.0)
    assert ctx.error in ("GL_INVALID_OPERATION", "GL_INVALID_FRAMEBUFFER_OPERATION")
    other = target(ctx)
    ctx.clear_errors()
    ctx.clear(1.0)
    assert other.read() == b"\xff\0\0"
    sampled, texture = target(ctx), ctx.texture((1, 1), 4, b"\xff" * 4)
    texture.use()
    array = triangle(ctx, "uniform sampler2D image;", "texture(image, uv)")
    array.render(vertices=3)
    assert sampled.read() == b"\xff" * 3
    texture.release()  # OpenGL takes it out of the unit, whose texture is black then
    array.render(vertices=3)
    assert sampled.read() == bytes(3)
    attached = ctx.texture((1, 1), 4, bytes(4))
    last = ctx.framebuffer(attached)
    attached.release()
    last.clear(1.0)
    assert last.read() == b"\xff\0\0"  # the framebuffer keeps it
    assert ctx.error == "GL_NO_ERROR"


def test_a_released_program(ctx: Any) -> None:
    fbo, program = target(ctx), ctx.program(VERTEX, COLOR)
    array = ctx.vertex_array(program, [])
    array.render(vertices=3)
    program.release()
    array.render(vertices=3)  # it is in use, so OpenGL keeps it
    assert (fbo.read(components=4), ctx.error) == (b"\xff" * 4, "GL_NO_ERROR")
    assert (array.program is program, program["tint"].location, program.get("nothing", 5)) == (True, 0, 5)
    triangle(ctx, "", "vec4(0.0)").render(vertices=3)
    array.render(vertices=3)
    assert ctx.error == "GL_INVALID_VALUE"
    unused = ctx.program(VERTEX, COLOR)
    unused.release()
    unused["tint"] = 1, 2, 3, 4
    assert ctx.error == "GL_INVALID_VALUE"
    ctx.clear_errors()
    fbo.clear()
    triangle(ctx, "", "vec4(1.0)").render(vertices=3)
    assert (fbo.read(components=4), ctx.error) == (b"\xff" * 4, "GL_NO_ERROR")


def test_what_a_vertex_array_needs_may_go(ctx: Any) -> None:
    fbo = target(ctx)
    corners = ctx.buffer(struct.pack("6f", -1, -1, 3, -1, -1, 3))
    array = ctx.vertex_array(ctx.program(POINT, COLOR), [(corners, "2f", "p")])
    ctx.vertex_array(array.program, [])  # which is bound now, and not the other
    corners.release()
    array.render(vertices=3)  # the vertex array keeps it
    assert (fbo.read(), ctx.error) == (b"\xff" * 3, "GL_NO_ERROR")


# --- collecting


def test_what_is_dropped_stays_in_opengl(ctx: Any) -> None:
    texture = ctx.texture((1, 1), 4, b"\xff" * 4)
    texture.use()
    fbo = target(ctx)
    array = triangle(ctx, "uniform sampler2D image;", "texture(image, uv)")
    del texture
    gc.collect()
    array.render(vertices=3)
    assert fbo.read(components=4) == b"\xff" * 4
    source = ctx.buffer(b"abcd")
    ctx.copy_buffer(source, ctx.buffer(b"xy"))  # recorded, and gone
    assert (source.read(), ctx.gc(), list(ctx.objects)) == (b"xycd", 0, [])
    assert ctx.error == "GL_NO_ERROR"


@pytest.mark.parametrize("mode", ("auto", "context_gc"))
def test_what_is_dropped_is_released(ctx: Any, mode: str) -> None:
    ctx.gc_mode = mode
    assert ctx.gc_mode == mode
    texture = ctx.texture((1, 1), 4, b"\xff" * 4)
    fbo = target(ctx)
    array = triangle(ctx, "uniform sampler2D image;", "texture(image, uv)")
    texture.use()
    mglo = texture.mglo
    del texture
    array.render(vertices=3)
    if mode == "auto":
        assert (fbo.read(), len(ctx.objects)) == (bytes(3), 0)
    else:
        assert (fbo.read(), list(ctx.objects)) == (b"\xff" * 3, [mglo])
        assert (ctx.gc(), len(ctx.objects)) == (1, 0)
        array.render(vertices=3)
        assert fbo.read() == bytes(3)
    made = everything(ctx)
    made.clear()
    assert len(ctx.objects) == (0 if mode == "auto" else 9)
    assert ctx.gc() == (0 if mode == "auto" else 9)
    assert (ctx.gc(), ctx.error) == (0, "GL_NO_ERROR")
    ctx.gc_mode = None
    assert (fbo.read(), ctx.gc_mode) == (bytes(3), None)


class Mesh:
    """What many programs have: it frees what it holds, and is in a cycle."""

    saved: ClassVar[list[Any]] = []

    def __init__(self, *things: Any) -> None:
        self.things = things
        self.me = self

    def __del__(self) -> None:
        buffer, texture, kept = self.things
        if buffer.ctx.gc_mode != "auto":  # in which it is released already
            buffer.write(b"xyz")
        buffer.release()
        texture.release()
        self.saved.append(kept)


@pytest.mark.parametrize("mode", (None, "auto", "context_gc"))
def test_a_finaliser_uses_what_is_collected_with_it(ctx: Any, mode: str | None) -> None:
    """The garbage collector finalises the older ones first, which here is what the younger one's finaliser uses."""
    ctx.gc_mode = mode
    mesh = Mesh(ctx.buffer(b"abc"), ctx.texture((1, 1), 4), ctx.buffer(b"kept"))
    del mesh
    gc.collect()
    (kept,) = Mesh.saved
    Mesh.saved.clear()
    assert (ctx.gc(), ctx.error) == ((3 if mode == "context_gc" else 0), "GL_NO_ERROR")
    if mode is None:
        assert kept.read() == b"kept"
    assert ctx.buffer(b"more").read() == b"more"


def test_what_could_not_be_made_is_dropped_with_the_exception(ctx: Any) -> None:
    ctx.gc_mode = "context_gc"
    gc.disable()  # no cycle keeps it
    try:
        for wrong in ({"anisotropy": "a"}, {"min_lod": "a"}, {"repeat_x": 1}, {"filter": 5}, {"border_color": 5}):
            with contextlib.suppress(SystemError, moderngl.Error):
                ctx.sampler(**wrong)
            assert ctx.gc() == 1, wrong
    finally:
        gc.enable()


def test_collected_on_another_thread(remote: Any) -> None:
    remote.gc_mode = "auto"
    fbo = target(remote)
    kept = remote.buffer(b"abcd")
    made = [everything(remote) for _ in range(20)]
    for thread in [threading.Thread(target=made.pop) for _ in range(20)]:
        thread.start()
        kept.write(b"efgh")
        remote.clear(1.0)
        thread.join()
    gc.collect()
    remote.finish()
    assert (fbo.read(), kept.read(), remote.error) == (b"\xff\0\0", b"efgh", "GL_NO_ERROR")


def test_the_host_forgets_what_nobody_can_name(near_by: Any, in_process_host: InProcessHost) -> None:
    device: Any = glremote.device(near_by)
    interpreter = in_process_host.workers[device.greeting.session].interpreter
    for release in (True, False):
        made = everything(near_by)
        near_by.finish()
        assert len({type(thing).__name__ for thing in interpreter.values()}) == 8
        for thing in made.values() if release else ():
            thing.release()
        thing = None
        made.clear()
        gc.collect()
        near_by.finish()
        assert [type(thing).__name__ for thing in interpreter.values()] == ["Framebuffer"]  # the default one


def test_nothing_is_pickled_or_copied(ctx: Any) -> None:
    """Neither to another process, nor within an object of the program's that is copied deeply."""
    made = everything(ctx) | {"context": ctx}
    for thing in made.values():
        text = f"cannot pickle 'mgl.{KINDS.get(type(thing).__name__, type(thing).__name__)}' object"
        for call in (pickle.dumps, copy.copy):
            assert raised(call, thing.mglo) == (TypeError, text)
        assert raised(copy.deepcopy, [thing])[0] is TypeError
        assert copy.copy(thing).mglo is thing.mglo
    assert ctx.error == "GL_NO_ERROR"


KINDS = {"ComputeShader": "Program"}


# --- the context


def test_a_released_context(ctx: Any) -> None:
    fbo, made = target(ctx), everything(ctx)
    scope = ctx.scope(fbo)
    ctx.release()
    ctx.release()
    ctx.clear_errors()
    for name, entry in {
        "buffer": lambda: ctx.buffer(b"a"), "texture": lambda: ctx.texture((1, 1), 4), "enable": lambda: ctx.enable(1),
        "copy_buffer": lambda: ctx.copy_buffer(fbo, fbo), "framebuffer": ctx.framebuffer, "finish": ctx.finish,
        "scope": lambda: ctx.scope(fbo), "fbo": ctx.clear, "__enter__": ctx.__enter__,
    }.items():  # fmt: skip
        assert raised(entry) == invalid(name)
    for name in ("error", "info", "extensions", "includes", "max_samples", "line_width"):
        assert raised(getattr, ctx, name) == invalid(name)
    for name in ("viewport", "scissor"):
        assert raised(getattr, ctx, name) == invalid("fbo")
    gone = Error, "the context was released"
    for call in (fbo.clear, fbo.use, fbo.read, scope.__enter__, scope.__exit__, lambda: fbo.bits):
        assert raised(call) == gone
    assert raised(fbo.read_into, bytearray(4)) == gone
    masks: dict[str, Any] = {"viewport": (0, 0, 1, 1), "scissor": None, "color_mask": (1,) * 4, "depth_mask": True}
    for name, value in masks.items():
        assert raised(setattr, fbo, name, value) == gone
    assert (fbo.viewport, fbo.size, made["buffer"].size, made["vertex_array"].vertices) == ((0, 0, 1, 1), (1, 1), 8, 1)
    assert (made["texture"].filter, ctx.gc(), ctx.screen) == ((9729, 9729), 0, None)
    fbo.release()


def test_objects_of_a_released_context(remote: Any) -> None:
    made = everything(remote)
    program = made["program"]
    remote.release()
    for call in (
        made["buffer"].read, made["buffer"].clear, made["texture"].read, made["texture"].use,
        made["vertex_array"].render, made["compute_shader"].run, lambda: program.__setitem__("tint", (1, 1, 1, 1)),
    ):  # fmt: skip
        kind, text = raised(call)
        assert issubclass(kind, glremote.DeviceLost) and issubclass(kind, Error) and text == "the context was released"
    assert program["tint"].value == (1.0,) * 4  # what was known stays known
    for thing in made.values():
        thing.release()
    made.clear()
    gc.collect()


def test_objects_of_another_context_are_refused(remote: Any, new_context: Any) -> None:
    """Their numbers mean other objects here, or none, and the session would be lost."""
    other = new_context("in-process")
    made, theirs, fbo = everything(remote), everything(other), target(remote)
    array, program, buffer = made["vertex_array"], made["program"], made["buffer"]
    feedback = remote.vertex_array(remote.program(POINT, varyings=["gl_Position"]), [])
    attempts: dict[str, tuple[Callable[[], Any], ...]] = {
        "Buffer": (
            lambda: remote.copy_buffer(theirs["buffer"], buffer), lambda: remote.copy_buffer(buffer, theirs["buffer"]),
            lambda: fbo.read_into(theirs["buffer"]), lambda: made["texture"].read_into(theirs["buffer"]),
            lambda: made["texture"].write(theirs["buffer"]), lambda: array.render_indirect(theirs["buffer"]),
            lambda: array.bind(0, "f", theirs["buffer"], "2f"),
            lambda: setattr(array.mglo, "index_buffer", theirs["buffer"].mglo),
            lambda: made["compute_shader"].run_indirect(theirs["buffer"]), lambda: feedback.transform(theirs["buffer"]),
            lambda: remote.scope(fbo, uniform_buffers=[(theirs["buffer"], 0)]),
        ),
        "Texture": (
            lambda: remote.framebuffer(theirs["texture"]), lambda: remote.copy_framebuffer(theirs["texture"], fbo),
            lambda: remote.scope(fbo, textures=[(theirs["texture"], 0)]),
        ),
        "Framebuffer": (
            lambda: remote.copy_framebuffer(theirs["framebuffer"], fbo), lambda: remote.scope(theirs["framebuffer"]),
            lambda: remote.copy_framebuffer(fbo, theirs["framebuffer"]),
        ),
        "Renderbuffer": (lambda: remote.framebuffer([theirs["renderbuffer"]]),),
        "Sampler": (lambda: remote.scope(fbo, samplers=[(theirs["sampler"], 0)]),),
        "program": (lambda: remote.vertex_array(theirs["program"], []),),
        "index_buffer": (lambda: remote.vertex_array(program, [], theirs["buffer"]),),
    }  # fmt: skip
    for kind, calls in attempts.items():
        for call in calls:
            assert raised(call) == (Error, f"the {kind} belongs to a different context")
    assert (fbo.read(), remote.error, other.error) == (bytes(3), "GL_NO_ERROR", "GL_NO_ERROR")


def test_contexts_are_apart(remote: Any, new_context: Any) -> None:
    other = new_context("in-process")
    one, two = remote.buffer(b"one"), other.buffer(b"two")
    other.release()
    assert one.read() == b"one"
    assert issubclass(raised(two.read)[0], glremote.DeviceLost)
    assert (remote.error, remote.buffer(b"more").read()) == ("GL_NO_ERROR", b"more")


def test_a_member_keeps_its_program(remote: Any) -> None:
    """And the context does not keep programs that nobody can reach."""
    program = everything(remote)["program"]
    before = len(remote.mglo.program_of)
    tint, gone = program["tint"], weakref.ref(program.mglo)
    del program
    gc.collect()
    tint.value = (0.5, 0.5, 0.5, 1.0)
    assert tint.value == (0.5, 0.5, 0.5, 1.0) and gone() is not None
    del tint
    gc.collect()
    assert gone() is None and len(remote.mglo.program_of) < before
