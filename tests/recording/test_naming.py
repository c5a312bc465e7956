"""OpenGL's names: labels, debug scopes, other objects for a name, and the framebuffer behind one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import moderngl
import pytest

import glremote
from tests.recording.raising import raised

Error = moderngl.Error
GL_BUFFER, GL_VERTEX_ARRAY = 0x82E0, 0x8074
NewContext = Callable[..., moderngl.Context]


@pytest.fixture
def modern(ctx: Any) -> Any:
    """A context that has labels."""
    if not ctx.supports_labels:
        pytest.skip("this driver's OpenGL 3.3 has no labels")
    return ctx


def labelled(ctx: Any) -> dict[str, Any]:
    """One of everything that can have a label."""
    texture = ctx.texture((4, 4), 4)
    program = ctx.program(
        vertex_shader="#version 330\nin vec4 p; void main() { gl_Position = p; }",
        fragment_shader="#version 330\nout vec4 c; void main() { c = vec4(1.0); }",
    )
    return {
        "buffer": ctx.buffer(reserve=4), "texture": texture, "texture3d": ctx.texture3d((2, 2, 2), 1),
        "texture_array": ctx.texture_array((2, 2, 2), 1), "texture_cube": ctx.texture_cube((2, 2), 1),
        "renderbuffer": ctx.renderbuffer((2, 2)), "framebuffer": ctx.framebuffer(texture), "program": program,
        "vertex_array": ctx.vertex_array(program, []), "sampler": ctx.sampler(),
    }  # fmt: skip


def test_labels(modern: Any) -> None:
    things = labelled(modern)
    for name, thing in things.items():
        assert thing.label is None
        thing.label = f"the {name}, größer"
    assert {name: thing.label for name, thing in things.items()} == {name: f"the {name}, größer" for name in things}
    things["buffer"].label = "until here\0and no further"
    assert things["buffer"].label == "until here"
    for nothing in ("", None):
        things["buffer"].label = "again"
        things["buffer"].label = nothing
        assert things["buffer"].label is None
    assert modern.error == "GL_NO_ERROR"


def test_a_label_that_is_wrong(modern: Any) -> None:
    buffer = modern.buffer(reserve=4)
    most = modern.max_label_length
    kind, text = raised(setattr, buffer, "label", "x" * (most + 1))
    assert kind is Error and text == f"Context's max label length is {most}, got one of length {most + 1}"
    assert raised(setattr, buffer, "label", 5) == (TypeError, "Expected value to be a str or None, got int")
    buffer.release()
    assert raised(getattr, buffer, "label") == (Error, "glGetObjectLabel failed with 0x501")
    assert raised(setattr, buffer, "label", "x") == (Error, "glObjectLabel failed with 0x501")
    assert raised(modern.mglo.get_label, GL_BUFFER, 999) == (Error, "glGetObjectLabel failed with 0x501")
    assert raised(modern.mglo.set_label, 1, 1, "x") == (Error, "glObjectLabel failed with 0x500")
    assert modern.error == "GL_NO_ERROR"


def test_a_label_raises_the_error_that_is_pending(modern: Any) -> None:
    """moderngl asks OpenGL whether there was an error, and takes what was there before for its own."""
    buffer = modern.buffer(reserve=4)
    modern.enable_direct(1)
    assert raised(getattr, buffer, "label") == (Error, "glGetObjectLabel failed with 0x500")
    assert modern.error == "GL_NO_ERROR"
    modern.enable_direct(1)
    assert raised(setattr, buffer, "label", "set all the same") == (Error, "glObjectLabel failed with 0x500")
    assert buffer.label == "set all the same"


def test_debug_scopes(modern: Any) -> None:
    with modern.debug_scope("outer"), modern.debug_scope("inner", 7, source="external"):
        modern.disable(moderngl.BLEND)
    assert raised(modern.mglo.pop_debug_scope) == (Error, "glPopDebugGroup failed with 0x504")
    most = modern.max_debug_message_length
    kind, text = raised(modern.debug_scope("x" * most).__enter__)
    assert kind is Error and text == f"Context's max debug message length is {most}, got one of length {most}"
    depth = modern.max_debug_group_stack_depth
    for _ in range(depth - 1):
        modern.mglo.push_debug_scope(0x824A, 1, "deeper")
    kind, text = raised(modern.mglo.push_debug_scope, 0x824A, 1, b"too deep")
    assert kind is Error and text == f"Context's max debug group stack depth is {depth}, cannot push more scopes"
    for _ in range(depth - 1):
        modern.mglo.pop_debug_scope()
    assert raised(modern.mglo.push_debug_scope, 7, 1, "x") == (Error, "glPushDebugGroup failed with 0x500")
    assert raised(modern.mglo.push_debug_scope, 0x824A, 1, 5)[0] is TypeError
    assert modern.error == "GL_NO_ERROR"


def test_detect_framebuffer(ctx: Any) -> None:
    assert (ctx.detect_framebuffer().glo, ctx.detect_framebuffer(0).mglo is ctx.mglo.fbo) == (0, True)
    one, two = ctx.texture((8, 4), 4), ctx.renderbuffer((8, 4))
    made = ctx.framebuffer([one, two], ctx.depth_renderbuffer((8, 4)))
    made.color_mask = (False,) * 4, (True,) * 4
    made.viewport = made.scissor = 1, 1, 2, 2
    made.use()
    for found in (ctx.detect_framebuffer(), ctx.detect_framebuffer(made.glo)):
        assert (found.glo, found.size, found.samples) == (made.glo, (8, 4), 0)
        assert (found.viewport, found.scissor) == ((0, 0, 8, 4), (0, 0, 8, 4))
        assert (found.color_mask, found.depth_mask) == (((True,) * 4,) * 2, True)
        assert found.color_attachments is None and found.mglo is not made.mglo
    found.clear(1.0, 0.0, 0.0, 1.0)
    assert made.read(components=4, viewport=(1, 1, 2, 2)) == b"\xff\0\0\xff" * 4  # the scissor of what was used last
    found.color_mask = ((True,) * 4, (False,) * 4)
    assert made.color_mask == ((False,) * 4, (True,) * 4)
    found.use()
    assert ctx.detect_framebuffer().glo == made.glo
    plain = ctx.framebuffer(ctx.texture((2, 3), 4))
    assert ctx.detect_framebuffer(plain.glo).color_mask == (True,) * 4
    for wrong in ("x", 1.5, 2**64):
        assert raised(ctx.detect_framebuffer, wrong) == (Error, "the glo must be an integer")
    assert ctx.detect_framebuffer(2**32).glo == 0
    assert ctx.error == "GL_NO_ERROR"


def test_external_buffer(ctx: Any) -> None:
    buffer = ctx.buffer(b"abcdef")
    other = ctx.external_buffer(buffer.glo, 4)
    assert (other.size, other.glo, other.dynamic, other.read()) == (4, buffer.glo, False, b"abcd")
    other.write(b"XY", 1)
    assert buffer.read() == b"aXYdef"
    other.release()
    assert buffer.read() == b"aXYdef"
    again = ctx.external_buffer(buffer.glo, 6)
    buffer.release()
    assert raised(again.read)[0] is Error
    assert ctx.error != "GL_NO_ERROR"


def test_an_external_buffer_of_more_than_there_is(ctx: Any) -> None:
    buffer = ctx.buffer(b"abcdef")
    more = ctx.external_buffer(buffer.glo, 1000)
    for call in (more.read, more.clear, lambda: more.write_chunks(b"ab", 0, 4, 1)):
        assert raised(call) == (Error, "cannot map the buffer")
        assert ctx.error == "GL_INVALID_VALUE"
    less = ctx.external_buffer(buffer.glo, 2)
    less.clear(6, chunk=b"xyz")  # moderngl does not compare with the size here
    assert (less.read(), buffer.read()) == (b"xy", b"xyzxyz")
    more.orphan(8)
    more.write(b"12345678")
    assert (more.read(), buffer.read(), buffer.size) == (b"12345678", b"123456", 6)
    buffer.orphan()
    assert raised(more.clear) == (Error, "cannot map the buffer")


def test_an_external_buffer_that_gives_up_what_it_says_it_has(ctx: Any) -> None:
    buffer = ctx.buffer(b"abcdef")
    ctx.external_buffer(buffer.glo, 2**31).orphan()  # a negative size: OpenGL refuses it
    assert (ctx.error, ctx.error, buffer.read()) == ("GL_INVALID_VALUE", "GL_NO_ERROR", b"abcdef")
    buffer.clear()
    ctx.external_buffer(buffer.glo, 0).orphan()
    assert ctx.error == "GL_NO_ERROR"
    assert raised(buffer.clear) == (Error, "cannot map the buffer")
    assert ctx.error == "GL_INVALID_VALUE"


def test_what_opengl_keeps_of_a_texture_all_its_objects_share(ctx: Any) -> None:
    texture = ctx.texture((2, 1), 4, b"abcdefgh")
    texture.swizzle = "BGR"
    other = ctx.external_texture(texture.glo, (2, 1), 4, 0, "f1")
    assert other.swizzle == "BGRA"
    other.swizzle = "01"
    other.filter = moderngl.NEAREST, moderngl.NEAREST
    assert (texture.swizzle, texture.filter) == ("01RA", (moderngl.LINEAR, moderngl.LINEAR))


def test_the_numbers_of_objects_go_on_after_another_object_for_one(remote: Any) -> None:
    first = remote.buffer(reserve=4)
    assert remote.external_buffer(first.glo, 4).glo == first.glo
    assert remote.buffer(reserve=4).glo == first.glo + 1


def test_no_framebuffer_is_bound_once_that_is_released(ctx: Any) -> None:
    framebuffer = ctx.framebuffer(ctx.texture((2, 3), 4))
    framebuffer.use()
    assert ctx.detect_framebuffer().glo == framebuffer.glo
    framebuffer.release()
    assert ctx.detect_framebuffer().glo == 0


def test_external_texture(ctx: Any) -> None:
    texture = ctx.texture((2, 1), 4, b"abcdefgh")
    other = ctx.external_texture(texture.glo, (2, 1), 4, 0, "f1")
    assert (other.size, other.components, other.samples, other.dtype) == ((2, 1), 4, 0, "f1")
    assert (other.glo, other.filter, other.swizzle) == (texture.glo, (moderngl.LINEAR, moderngl.LINEAR), "RGBA")
    assert other.read() == b"abcdefgh"
    other.write(b"ABCDEFGH")
    assert texture.read() == b"ABCDEFGH"
    other.release()
    assert texture.read() == b"ABCDEFGH"
    nearest = ctx.external_texture(texture.glo, (2, 1), 4, 0, "u1")
    assert nearest.filter == (moderngl.NEAREST, moderngl.NEAREST)
    assert raised(ctx.external_texture, texture.glo, (2, 1), 4, 0, "x") == (Error, "invalid dtype")
    assert raised(ctx.external_texture, texture.glo, 2, 4, 0, "f1")[0] is TypeError
    assert ctx.error == "GL_NO_ERROR"


def test_no_read_writes_beyond_its_memory(remote: Any) -> None:
    """Plain moderngl writes all that OpenGL has: of the larger one, or of what is bound in a released one's place."""
    large = remote.texture((64, 64), 4, b"\7" * (64 * 64 * 4))
    less = remote.external_texture(large.glo, (1, 1), 4, 0, "f1")
    assert (less.read(), remote.error) == (bytes(4), "GL_INVALID_OPERATION")
    small = remote.texture((1, 1), 4, b"abcd")
    released = small.mglo
    small.release()
    large.read()
    assert (released.read(0, 1), remote.error) == (bytes(4), "GL_INVALID_OPERATION")


@pytest.mark.parametrize("call", ["external_buffer", "external_texture", "detect_framebuffer"])
def test_a_name_that_is_none_of_ours(remote: Any, call: str) -> None:
    """Not what moderngl does: it takes any number, and OpenGL complains later, or worse."""
    more = {"external_buffer": (4,), "external_texture": ((2, 2), 4, 0, "f1"), "detect_framebuffer": ()}[call]
    with pytest.raises(glremote.ForeignName, match=rf"{call}\(77\).*does not exist on the host"):
        getattr(remote, call)(77, *more)
    assert remote.error == "GL_NO_ERROR"
