"""A ring of read_into and read overlaps by itself, and what is read is always what is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import moderngl
import pytest

import glremote
from glremote.device.remote import RemoteDevice

RING = 3


@pytest.fixture(autouse=True)
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every host is far."""
    monkeypatch.setattr(RemoteDevice, "far", True)


STORES = """#version 430
layout (local_size_x = 1) in;
layout (std430, binding = 0) buffer Out { uint first; };
void main() { first = 0x04030201u; }
"""


def shades(ctx: Any, frames: int, read: Callable[[Any], bytes], step: int = 1) -> list[int]:
    """Clear to another shade each frame, into a ring; the shade that is read of each, some frames later."""
    fbo = ctx.simple_framebuffer((4, 4))
    ring = [ctx.buffer(reserve=64) for _ in range(RING)]
    found = []
    for frame in range(frames):
        if frame >= RING:
            data = read(ring[frame % RING])
            assert len(set(data)) == 1
            found.append(data[0])
        fbo.clear(*[frame * step / 255] * 4)
        fbo.read_into(ring[frame % RING], components=4)
    return found


def into_memory(buffer: Any) -> bytes:
    memory = bytearray(64)
    buffer.read_into(memory)
    return bytes(memory)


@pytest.mark.parametrize("read", [lambda buffer: buffer.read(), into_memory, lambda x: glremote.read_async(x).result()])
def test_a_ring(ctx: moderngl.Context, read: Callable[[Any], bytes]) -> None:
    assert shades(ctx, 20, read) == list(range(17))


def test_a_ring_asks_for_nothing_from_the_third_time_on(remote: moderngl.Context) -> None:
    """What it reads is on its way already."""
    asked: list[Any] = []
    recorder: Any = remote.mglo.recorder

    def fetch(*arguments: Any, fetch: Any = recorder.fetch, **options: Any) -> bytes:
        asked.append(arguments)
        return bytes(fetch(*arguments, **options))

    recorder.fetch = fetch
    shades(remote, 30, lambda buffer: buffer.read())
    assert len(asked) == 2 * RING


CHANGES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "write": lambda ctx, buffer, fbo: buffer.write(b"\1\2\3\4"),
    "write_chunks": lambda ctx, buffer, fbo: buffer.write_chunks(b"\1\2\3\4" * 2, 0, 32, 2),
    "clear": lambda ctx, buffer, fbo: buffer.clear(chunk=b"\1\2\3\4"),
    "orphan and write": lambda ctx, buffer, fbo: (buffer.orphan(), buffer.clear(chunk=b"\1\2\3\4")),
    "copy_buffer": lambda ctx, buffer, fbo: ctx.copy_buffer(buffer, ctx.buffer(b"\1\2\3\4" * 16)),
    "a texture": lambda ctx, buffer, fbo: ctx.texture((4, 4), 4, b"\1\2\3\4" * 16).read_into(buffer),
    "another object for it": lambda ctx, buffer, fbo: ctx.external_buffer(buffer.glo, 64).write(b"\1\2\3\4"),
    "transform": lambda ctx, buffer, fbo: captured(ctx, buffer, fbo),
    "a shader": lambda ctx, buffer, fbo: stored(ctx, buffer),
    "a shader of a scope": lambda ctx, buffer, fbo: stored_in_scope(ctx, buffer, fbo),
}


def captured(ctx: Any, buffer: Any, fbo: Any) -> None:
    fbo.use()
    program = ctx.program("#version 330\nin int a; flat out int b;\nvoid main() { b = a; }", varyings=["b"])
    ctx.vertex_array(program, ctx.buffer(b"\1\2\3\4"), "a").transform(buffer, vertices=1)


def stored(ctx: Any, buffer: Any) -> None:
    buffer.bind_to_storage_buffer(0)
    ctx.compute_shader(STORES).run()
    ctx.memory_barrier()


def stored_in_scope(ctx: Any, buffer: Any, fbo: Any) -> None:
    with ctx.scope(fbo, storage_buffers=[(buffer, 0)]):
        ctx.compute_shader(STORES).run()
    ctx.memory_barrier()


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_written_since_is_what_is_read(ctx: Any, change: str) -> None:
    fbo, buffer = ctx.simple_framebuffer((4, 4)), ctx.buffer(reserve=64)
    for frame in range(5):
        fbo.clear(*[frame / 255] * 4)
        fbo.read_into(buffer, components=4)
        if frame < 4:
            assert buffer.read() == bytes([frame]) * 64
    CHANGES[change](ctx, buffer, fbo)
    assert buffer.read(4) == b"\1\2\3\4"
    assert buffer.read()[:4] == b"\1\2\3\4"


def test_one_that_goes_unread_is_not_fetched_again(remote: moderngl.Context) -> None:
    fbo, buffer = remote.simple_framebuffer((64, 64)), remote.buffer(reserve=64 * 64 * 4)
    for _ in range(3):
        fbo.read_into(buffer, components=4)
        buffer.read()
    device: Any = glremote.device(remote)
    commands = device.measure().commands
    for _ in range(20):
        fbo.read_into(buffer, components=4)
    remote.finish()
    assert device.measure().commands - commands <= 20 + 1 + 2  # the one that was foreseen, and finish


def test_parts_and_blocks_are_read_as_ever(ctx: Any) -> None:
    fbo, buffer = ctx.simple_framebuffer((4, 4)), ctx.buffer(reserve=64)
    for frame in range(8):
        fbo.clear(*[frame / 255] * 4)
        with glremote.command_buffer(ctx):
            fbo.read_into(buffer, components=4)
        assert buffer.read(8, 4) == bytes([frame]) * 8
        assert buffer.read() == buffer.read() == bytes([frame]) * 64


def test_near_nothing_is_fetched_ahead(near_by: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteDevice, "far", False)
    device: Any = glremote.device(near_by)
    assert shades(near_by, 12, lambda buffer: buffer.read()) == list(range(9))
    assert device.measure().waits >= 9


def test_a_replay_that_fills_the_buffer_is_what_is_read(remote: Any) -> None:
    fbo, buffer = remote.simple_framebuffer((4, 4)), remote.buffer(reserve=64)
    with glremote.record(remote) as recorded:
        fbo.clear(1.0, 1.0, 1.0, 1.0)
        fbo.read_into(buffer, components=4)
    for frame in range(5):
        fbo.clear(*[frame / 255] * 4)
        fbo.read_into(buffer, components=4)
        if frame < 4:
            assert buffer.read() == bytes([frame]) * 64
    recorded.replay()
    assert buffer.read() == b"\xff" * 64
