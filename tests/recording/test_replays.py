"""Recorded calls that are replayed: what plain moderngl shows, where the same function is called again."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable
from typing import Any

import moderngl
import numpy as np
import pytest

import glremote
from glremote.host import keeping
from glremote.host.inprocess import InProcessHost
from glremote.protocol import commands as c

SIZE = (16, 16)


class Scene:
    """Objects of many kinds, and calls that set, write and draw with all of them."""

    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx
        self.prog = ctx.program(
            vertex_shader="""#version 330
                in vec2 at; uniform vec2 shift; uniform float turn; out vec2 uv;
                void main() { uv = at * 0.5 + turn; gl_Position = vec4(at * 0.7 + shift, 0.0, 1.0); }""",
            fragment_shader="""#version 330
                in vec2 uv; out vec4 colour; uniform sampler2D image; layout(std140) uniform Tint { vec4 tint; };
                void main() { colour = texture(image, uv * 3.0) * tint; }""",
        )
        self.quad = ctx.buffer(np.array([-1, -1, 1, -1, -1, 1, 1, 1], "f4"))
        self.tint = ctx.buffer(np.array([1.0, 0.5, 0.25, 0.5], "f4"))
        self.image = ctx.texture((2, 2), 4, bytes(range(0, 256, 16)))
        self.other = ctx.texture((2, 2), 4, bytes(16))
        self.vao = ctx.vertex_array(self.prog, [(self.quad, "2f", "at")], mode=moderngl.TRIANGLE_STRIP)
        self.fbo, self.behind = (
            ctx.framebuffer([ctx.texture(SIZE, 4)], ctx.depth_renderbuffer(SIZE)) for _ in range(2)
        )
        self.sampler = ctx.sampler(repeat_x=False, filter=(moderngl.NEAREST, moderngl.NEAREST))
        self.query = ctx.query(samples=True)
        self.fbo.use()  # the scope ends there
        self.scope = ctx.scope(self.behind, moderngl.CULL_FACE | moderngl.BLEND)
        self.counted = ctx.buffer(np.zeros(8, "u4"))

    def draw(self) -> None:
        """What is recorded."""
        ctx, image, fbo = self.ctx, self.image, self.fbo
        fbo.use()
        fbo.viewport = (1, 2, 13, 12)
        fbo.scissor = (0, 0, 15, 15)
        ctx.clear(0.25, 0.5, 0.75, 1.0)
        fbo.color_mask = (True, True, False, True)
        fbo.depth_mask = True
        ctx.enable(moderngl.BLEND)
        ctx.disable(moderngl.DEPTH_TEST)
        ctx.blend_func = moderngl.ONE, moderngl.ONE
        ctx.depth_func = "<="
        ctx.cull_face = "front"
        ctx.front_face = "ccw"
        ctx.line_width = 1.0
        ctx.polygon_offset = 0.0, 1.0
        image.filter = moderngl.NEAREST, moderngl.NEAREST
        image.repeat_x = True
        image.swizzle = "B"
        image.write(bytes(range(100, 116)))
        image.use(3)
        self.sampler.use(3)
        ctx.clear_samplers(4, 6)
        self.sampler.border_color = (0.5, 0.0, 0.0, 1.0)
        self.prog["image"] = 3
        self.prog["shift"] = (0.1, 0.2)
        self.prog["Tint"].binding = 2
        self.tint.bind_to_uniform_block(2)
        self.tint.write(np.array([0.75], "f4"), 4)
        self.vao.vertices = 4
        with self.query:
            self.vao.render()
        with self.scope:
            ctx.clear(0.0, 1.0, 0.0, 1.0)
            ctx.enable(moderngl.PROGRAM_POINT_SIZE)
        ctx.copy_buffer(self.counted, self.tint, 8, 0, 4)

    def disturb(self) -> None:
        """Set everything otherwise."""
        ctx, image = self.ctx, self.image
        self.behind.use()
        self.fbo.viewport, self.fbo.scissor = (0, 0, 3, 3), None
        self.fbo.color_mask = (False, True, True, True)
        self.fbo.depth_mask = False
        self.behind.clear(0.1, 0.2, 0.3, 1.0)
        ctx.enable_only(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
        ctx.blend_func = moderngl.ONE, moderngl.ZERO
        ctx.depth_func = ">"
        ctx.cull_face = "back"
        ctx.front_face = "cw"
        ctx.polygon_offset = 1.0, 0.0
        ctx.point_size = 3.0
        image.filter = moderngl.LINEAR, moderngl.LINEAR
        image.repeat_x = False
        image.swizzle = "RAAG"
        image.write(bytes(16))
        self.other.use(3)
        self.sampler.clear(3)
        self.sampler.repeat_y = False
        self.sampler.use(4)
        self.sampler.border_color = (0.0, 0.0, 0.0, 0.0)
        self.prog["image"] = 2
        self.prog["shift"] = (0.0, 0.0)
        self.prog["turn"] = 0.25
        self.prog["Tint"].binding = 1
        self.quad.bind_to_uniform_block(2)
        self.tint.write(bytes(16))
        self.vao.vertices = 3
        self.counted.clear()

    def seen(self) -> dict[str, Any]:
        """All that getters, pictures and another draw with the state as it is show."""
        ctx = self.ctx
        found: dict[str, Any] = {
            name: getattr(ctx.mglo, name)
            for name in ("depth_func", "cull_face", "front_face", "line_width", "point_size", "polygon_offset")
        }
        masks = ("viewport", "scissor", "color_mask", "depth_mask")
        found |= {f"fbo {name}": getattr(self.fbo, name) for name in masks}
        found |= {name: getattr(self.image, name) for name in ("filter", "repeat_x", "swizzle")}
        found |= {f"sampler {name}": getattr(self.sampler, name) for name in ("border_color", "repeat_y")}
        found |= {name: self.prog[name].value for name in ("image", "shift", "turn")}
        found |= {"block": self.prog["Tint"].binding, "vertices": self.vao.vertices, "samples": self.query.samples}
        found |= {"bound": (ctx.fbo is self.fbo, ctx.viewport), "error": ctx.error}
        found |= {"pictures": [hashlib.sha256(f.read(components=4)).hexdigest() for f in (self.fbo, self.behind)]}
        found |= {"buffers": [self.tint.read(), self.counted.read(), self.image.read()]}
        self.vao.render()
        found["drawn"] = [f.read(components=4) for f in (self.fbo, self.behind)]
        return found


def both(new_context: Callable[..., Any], way: str, steps: Callable[[Scene, Callable[[], None]], Any]) -> None:
    """The same steps on a host, where the second argument replays, and plainly, where it calls the function again."""
    theirs, ours = Scene(new_context("plain")), Scene(new_context(way))
    theirs.draw()
    with glremote.record(ours.ctx) as recorded:
        ours.draw()
    expected, found = steps(theirs, theirs.draw), steps(ours, recorded.replay)
    for theirs_seen, ours_seen in zip(expected, found, strict=True):
        assert {key: ours_seen[key] for key in theirs_seen if ours_seen[key] != theirs_seen[key]} == {}


remote_ways = pytest.mark.parametrize("way", ["in-process", "near", "websocket"])


@remote_ways
def test_a_replay_is_the_function_called_again(way: str, new_context: Callable[..., Any]) -> None:
    def steps(scene: Scene, again: Callable[[], None]) -> list[Any]:
        found = [scene.seen()]
        scene.disturb()
        found.append(scene.seen())
        again()
        found.append(scene.seen())
        again()
        again()
        return [*found, scene.seen()]

    both(new_context, way, steps)


def test_the_state_after_a_replay_is_what_a_fault_restores(new_context: Callable[..., Any]) -> None:
    """Flags, bindings and what no getter shows: after a fault the host is told all of it again."""

    def steps(scene: Scene, again: Callable[[], None]) -> list[Any]:
        scene.disturb()
        again()
        if isinstance(glremote.device(scene.ctx), glremote.RemoteDevice):
            handle = scene.quad.mglo.handle
            scene.ctx.mglo.recorder.record(c.BufferWrite(handle, scene.ctx.mglo.recorder.push(b"x"), 1 << 20))
            with pytest.raises(glremote.Fault):
                scene.ctx.finish()
        return [scene.seen()]

    both(new_context, "in-process", steps)


def test_a_block_that_is_undone_undoes_its_replays(new_context: Callable[..., Any]) -> None:
    """And those behind it still do what they do."""

    def steps(scene: Scene, again: Callable[[], None]) -> list[Any]:
        scene.disturb()
        if isinstance(glremote.device(scene.ctx), glremote.RemoteDevice):
            with pytest.raises(ZeroDivisionError), glremote.command_buffer(scene.ctx):
                again()
                raise ZeroDivisionError
            scene.ctx.fbo = scene.behind  # moderngl's own attribute, which no block undoes
        found = [scene.seen()]
        again()
        return [*found, scene.seen()]

    both(new_context, "in-process", steps)


def test_a_function_is_recorded_on_a_host_and_called_here(ctx: moderngl.Context) -> None:
    scene = Scene(ctx)
    recorded = glremote.record(ctx, scene.draw)
    first = scene.seen()
    scene.prog["turn"] = 0.5
    recorded.replay()
    assert scene.seen()["drawn"] != first["drawn"]
    scene.prog["turn"] = 0.0
    recorded.replay()
    assert scene.seen() == first
    recorded.release()
    recorded.release()
    with pytest.raises(glremote.CannotReplay, match="the recording was released"):
        recorded.replay()


def test_here_a_block_is_not_recorded(new_context: Callable[..., moderngl.Context]) -> None:
    with pytest.raises(NotImplementedError, match="give the calls as a function"):
        glremote.record(new_context("plain"))


def test_a_replay_is_part_of_a_command_buffer_in_its_order(remote: moderngl.Context) -> None:
    buffer, log = remote.buffer(b"----"), remote.buffer(reserve=12)
    with glremote.record(remote) as recorded:
        buffer.write(b"kept")
    before = glremote.device(remote).measure().buffers
    with glremote.command_buffer(remote):
        buffer.write(b"1111")
        remote.copy_buffer(log, buffer, 4, 0, 0)
        recorded.replay()
        remote.copy_buffer(log, buffer, 4, 0, 4)
        buffer.write(b"2222")
        remote.copy_buffer(log, buffer, 4, 0, 8)
    assert glremote.device(remote).measure().buffers == before + 1
    assert log.read() == b"1111kept2222"


def test_a_replay_costs_the_link_few_bytes(new_context: Callable[..., moderngl.Context]) -> None:
    ctx = new_context("websocket")
    scene = Scene(ctx)
    with glremote.record(ctx) as recorded:
        for _ in range(100):
            scene.vao.render()
    ctx.finish()
    before = glremote.device(ctx).measure().bytes_up
    for _ in range(1000):
        recorded.replay()
    ctx.finish()
    assert glremote.device(ctx).measure().bytes_up - before < 40 * 1000


# --- what cannot be


def test_what_cannot_be_replayed_raises_at_the_call(remote: Any) -> None:
    scene = Scene(remote)
    buffer = remote.buffer(b"abcd")
    made = [glremote.record(remote, lambda: None)]
    glos = dict(remote.mglo._glos)

    def nested() -> None:
        with glremote.record(remote):
            pass

    calls: list[Callable[[], Any]] = [
        lambda: remote.buffer(b"abc"), lambda: remote.texture((2, 2), 4), lambda: remote.sampler(),
        lambda: remote.framebuffer([scene.image]), lambda: remote.query(), lambda: remote.scope(scene.fbo),
        lambda: remote.vertex_array(scene.prog, []), lambda: glremote.read_async(buffer), made[0].replay, nested,
    ]  # fmt: skip
    with glremote.record(remote) as recorded:
        for call in calls:
            with pytest.raises(glremote.CannotReplay):
                call()
        for call in (buffer.read, remote.finish, scene.fbo.read):
            with pytest.raises(glremote.WouldWait, match=r"at the end of `with glremote.record\(...\)`"):
                call()
        with pytest.raises(glremote.CannotReplay, match="behind the block"):
            recorded.replay()
        buffer.write(b"wxyz")
    assert remote.mglo._glos == glos
    buffer.write(b"    ")
    recorded.replay()
    assert buffer.read() == b"wxyz"
    with (
        glremote.command_buffer(remote),
        pytest.raises(glremote.CannotReplay, match=r"`with glremote.record\(...\)` inside"),
        glremote.record(remote),
    ):
        pass


def test_a_recording_that_was_left_by_an_exception(remote: moderngl.Context) -> None:
    buffer, fbo = remote.buffer(b"before"), remote.simple_framebuffer((2, 2))
    remote.line_width = 1.0
    with pytest.raises(ZeroDivisionError), glremote.record(remote) as recorded:
        buffer.write(b"behind")
        fbo.use()
        remote.line_width = 2.0
        raise ZeroDivisionError
    assert (buffer.read(), remote.line_width, remote.fbo is fbo) == (b"before", 1.0, False)
    with pytest.raises(glremote.Fault, match=r"never made.*left by an exception"):
        recorded.replay()


def test_too_large_a_recording_leaves_everything_as_it_was(remote: moderngl.Context) -> None:
    buffer = remote.buffer(reserve=1 << 20)
    remote.line_width = 1.0
    with pytest.raises(glremote.BufferTooLarge, match=r"record\(...\)"), glremote.record(remote):
        remote.line_width = 2.0
        for _ in range(17):
            buffer.write(bytes([1]) * (1 << 20))
    assert (buffer.read(4), remote.line_width) == (bytes(4), 1.0)


def test_what_was_released_since_is_named(remote: moderngl.Context) -> None:
    scene = Scene(remote)
    with glremote.record(remote) as recorded:
        scene.draw()
        scene.quad.release()  # no command names it
    recorded.replay()
    scene.image.release()
    with pytest.raises(glremote.CannotReplay, match=r"a Texture was released that the recording uses, in TextureFilt"):
        recorded.replay()
    assert remote.error == "GL_NO_ERROR"


def test_what_a_recording_uses_lives_as_long(near_by: moderngl.Context) -> None:
    device: Any = near_by.mglo.device
    objects = device.road._connector.__self__.workers[device.greeting.session].interpreter
    buffer, target = near_by.buffer(b"abcd"), near_by.buffer(reserve=4)
    handle = buffer.mglo.handle
    with glremote.record(near_by) as recorded:
        near_by.copy_buffer(target, buffer)
    del buffer
    gc.collect()
    target.clear()
    recorded.replay()
    assert target.read() == b"abcd"
    kept = [key for key, thing in objects.items() if isinstance(thing, keeping.Kept)]
    assert len(kept) == 1 and handle in objects
    del recorded
    gc.collect()
    near_by.finish()
    assert handle not in objects and kept[0] not in objects


def test_a_fault_in_a_replay_names_the_call(near_by: moderngl.Context) -> None:
    buffer = near_by.buffer(reserve=64)
    with glremote.record(near_by) as recorded:
        near_by.line_width = 2.0
        buffer.write(b"abcd", 60)
    recorded.replay()
    buffer.orphan(32)
    recorded.replay()
    with pytest.raises(glremote.Fault, match=r"in BufferWrite\(.*, command 1 of those replayed by Replay\("):
        near_by.finish()
    buffer.orphan(64)
    near_by.line_width = 1.0
    recorded.replay()
    assert buffer.read(4, 60) == b"abcd"
    assert near_by.line_width == 2.0


def test_a_fault_in_the_block_leaves_no_recording(near_by: moderngl.Context) -> None:
    buffer = near_by.buffer(reserve=64)
    recorder: Any = near_by.mglo.recorder
    with glremote.record(near_by) as recorded:
        recorder.record(c.BufferWrite(buffer.mglo.handle, recorder.push(b"abcd"), 62))
    with pytest.raises(glremote.Fault, match="BufferWrite"):
        near_by.finish()
    with pytest.raises(glremote.Fault, match=r"this glremote\.Recording was never made"):
        recorded.replay()
    recorded.release()


def test_a_session_keeps_only_so_much(near_by: moderngl.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_KEPT", 40_000)
    buffer = near_by.buffer(reserve=1 << 14)
    recordings = []
    for value in range(2):
        with glremote.record(near_by) as recorded:
            buffer.write(bytes([value + 1]) * (1 << 14))
        recordings.append(recorded)
    with glremote.record(near_by) as third:
        buffer.write(bytes([3]) * (1 << 14))
    with pytest.raises(glremote.Fault, match=r"TooMuchKept: .*release those"):
        near_by.finish()
    assert buffer.read(1) == b"\3"  # it has run
    with pytest.raises(glremote.Fault, match="never made"):
        third.replay()
    recordings[0].release()
    with glremote.record(near_by) as fourth:
        buffer.write(bytes([4]) * (1 << 14))
    for recorded, shade in ((recordings[1], b"\2"), (fourth, b"\4")):
        recorded.replay()
        assert buffer.read(1) == shade


def test_a_read_ahead_does_not_show_what_was_before_a_replay(remote: moderngl.Context) -> None:
    fbo = remote.simple_framebuffer((2, 2))
    ring = remote.buffer(reserve=16)
    with glremote.record(remote) as recorded:
        ring.write(b"replayed")
    for _ in range(5):
        fbo.clear(1.0, 1.0, 1.0, 1.0)
        fbo.read_into(ring, components=4)
        assert ring.read() == b"\xff" * 16
    fbo.read_into(ring, components=4)
    recorded.replay()
    assert ring.read() == b"replayed" + b"\xff" * 8


def test_recordings_outlive_nothing(in_process_host: InProcessHost) -> None:
    """A context that is released takes them along, and they say so."""
    ctx = glremote.instance().connect(in_process_host.connect, "in-process", "a test", 430)
    buffer = ctx.buffer(b"abcd")
    with glremote.record(ctx) as recorded:
        buffer.write(b"x")
    ctx.release()
    with pytest.raises(glremote.DeviceLost):
        recorded.replay()
    recorded.release()


def test_a_buffer_that_a_replay_orphans_is_zeros(ctx: moderngl.Context) -> None:
    """Also where nothing but kept commands comes behind."""
    buffer, copy = ctx.buffer(b"x" * 64), ctx.buffer(b"y" * 64)

    def calls() -> None:
        buffer.orphan(64)
        buffer.write(b"abcd", 4)
        ctx.copy_buffer(copy, buffer)

    recorded = glremote.record(ctx, calls)
    buffer.write(b"x" * 64)
    copy.write(b"y" * 64)
    recorded.replay()
    if isinstance(glremote.device(ctx), glremote.RemoteDevice):  # plainly, whatever was in memory
        assert copy.read() == bytes(4) + b"abcd" + bytes(56)


def test_what_a_replay_has_set_is_set_for_what_is_recorded_behind_it(ctx: moderngl.Context) -> None:
    """A call that sets what is set is left out: it must not be taken for set by what was before the replay."""
    scene = Scene(ctx)
    recorded = glremote.record(ctx, scene.draw)
    pictures = []
    for _ in range(2):
        scene.prog["shift"] = (0.5, 0.5)
        scene.sampler.repeat_y = False
        recorded.replay()
        scene.prog["shift"] = (0.5, 0.5)
        scene.sampler.repeat_y = False
        pictures.append(scene.seen()["drawn"])
        scene.prog["shift"] = (0.1, 0.2)
        recorded.replay()
        pictures.append(scene.seen()["drawn"])
    assert pictures[0] == pictures[2] != pictures[1] == pictures[3]
