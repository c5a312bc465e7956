"""Links that break in the middle of buffers and answers: every buffer runs once, every answer arrives."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator

import moderngl
import numpy as np
import pytest

import glremote
from glremote.host.serving import LocalHost
from glremote.link import websocket
from glremote.link.links import Link
from glremote.protocol.errors import DeviceLost, NotAdmitted
from tests.conftest import know_nothing
from tests.faulty import CuttingHost, cut, cut_after

STEPS = 6


def work(ctx: moderngl.Context) -> str:
    """Draws, uploads and reads; a digest of all that came back."""
    digest = hashlib.sha256()
    fbo = ctx.simple_framebuffer((64, 64))
    fbo.use()
    prog = ctx.program(
        vertex_shader="""#version 330
            in vec2 at; uniform vec2 shift; void main() { gl_Position = vec4(at + shift, 0.0, 1.0); }""",
        fragment_shader="""#version 330
            out vec4 colour; uniform vec4 tint; void main() { colour = tint; }""",
    )
    corners = ctx.buffer(np.array([-0.5, -0.5, 0.5, -0.5, 0.0, 0.5], "f4"))
    counted = ctx.buffer(np.zeros(STEPS, "u4"))
    vao = ctx.vertex_array(prog, [(corners, "2f", "at")])
    for step in range(STEPS):
        ctx.clear(0.1 * step, 0.0, 0.0, 1.0)
        corners.write(np.array([-0.5, -0.5, 0.5, -0.5, 0.1 * step, 0.5], "f4"))
        prog["tint"].value = (1.0, step / STEPS, 0.0, 1.0)  # type: ignore[union-attr]
        prog["shift"].value = (0.1, 0.0)  # type: ignore[union-attr]
        vao.render()
        ctx.copy_buffer(counted, corners, size=4, read_offset=16, write_offset=4 * step)
        digest.update(fbo.read(components=4))
        digest.update(corners.read())
    digest.update(counted.read())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def undisturbed() -> tuple[str, int, int]:
    """The digest, the bytes of the greeting, and all bytes."""
    know_nothing()
    host = CuttingHost([])
    ctx = glremote.instance().connect(host.connect, "in-process", "a test")
    traffic = glremote.device(ctx).measure()
    greeting = traffic.bytes_up + traffic.bytes_down
    digest = work(ctx)
    traffic = glremote.device(ctx).measure()
    result = digest, greeting, traffic.bytes_up + traffic.bytes_down
    ctx.release()
    host.close()
    return result


@pytest.mark.parametrize("seed", range(40))
def test_in_process_link_cut_anywhere(undisturbed: tuple[str, int, int], seed: int) -> None:
    digest, greeting, total = undisturbed
    chance = random.Random(seed)
    budgets = [chance.randrange(greeting + 1, total), *(chance.randrange(1, 20_000) for _ in range(3))]
    host = CuttingHost(budgets)
    ctx = glremote.instance().connect(host.connect, "in-process", "a test")
    assert work(ctx) == digest
    (worker,) = host.workers.values()
    assert worker.buffers_run == glremote.device(ctx).measure().buffers  # each that was sent, once
    assert host.connections > 1
    ctx.release()
    host.close()


def test_every_byte_of_a_small_exchange(undisturbed: tuple[str, int, int]) -> None:
    """A write and a read of a few bytes, cut after each byte that they take."""
    _, greeting, _ = undisturbed
    data = bytes(range(32))
    for byte in range(1, 400):
        host = CuttingHost([greeting + byte])
        ctx = glremote.instance().connect(host.connect, "in-process", "a test")
        buffer = ctx.buffer(data)
        buffer.write(b"new", 3)
        assert buffer.read() == data[:3] + b"new" + data[6:]
        reached = host.connections > 1
        ctx.release()
        host.close()
        if not reached:  # the whole exchange takes fewer bytes
            break
    assert byte > 50


def replays(ctx: moderngl.Context, times: int) -> int:
    """Replay what counts how often it runs; the count, less the first time."""
    counter = ctx.buffer(np.zeros(1, "u4"))
    count = ctx.compute_shader("""#version 430
        layout(local_size_x=1) in; layout(std430, binding=1) buffer Counter { uint count; };
        void main() { count += 1u; }""")
    with glremote.record(ctx) as recorded:
        counter.bind_to_storage_buffer(1)
        count.run()
        ctx.memory_barrier()
    for _ in range(times):
        recorded.replay()
        ctx.mglo.recorder.flush()
    return int(np.frombuffer(counter.read(), "u4")[0]) - 1


@pytest.mark.parametrize("seed", range(12))
def test_replays_run_once_where_the_link_is_cut(seed: int) -> None:
    chance = random.Random(seed)
    host = CuttingHost([])
    ctx = glremote.instance().connect(host.connect, "in-process", "a test", 430)
    traffic = glremote.device(ctx).measure()
    begin = traffic.bytes_up + traffic.bytes_down
    assert replays(ctx, 50) == 50
    traffic = glremote.device(ctx).measure()
    end = traffic.bytes_up + traffic.bytes_down
    ctx.release()
    host.close()
    know_nothing()
    host = CuttingHost([chance.randrange(begin + 1, end), *(chance.randrange(1, 2000) for _ in range(4))])
    ctx = glremote.instance().connect(host.connect, "in-process", "a test", 430)
    assert replays(ctx, 50) == 50
    assert host.connections > 1
    ctx.release()
    host.close()


@pytest.fixture
def far() -> Iterator[LocalHost]:
    """A host whose clients all go over the websocket."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLREMOTE_NEAR", "0")
        with LocalHost() as host:
            yield host


def test_websocket_cut_anywhere(far: LocalHost, undisturbed: tuple[str, int, int]) -> None:
    digest, greeting, total = undisturbed
    chance = random.Random(1)
    for _ in range(12):
        budgets = [chance.randrange(greeting + 1000, total), *(chance.randrange(500, 20_000) for _ in range(3))]
        ctx = glremote.instance().connect(_cutting(far, budgets), far.url, "a test")
        assert work(ctx) == digest
        assert len(budgets) < 4
        ctx.release()


def _cutting(host: LocalHost, budgets: list[int]) -> Callable[[str | None], Link]:
    def connect(session: str | None) -> Link:
        link = websocket.connect(host.url, host.token, session)
        cut(link, budgets)
        return link

    return connect


@pytest.mark.parametrize("packets", [1, 2, 3, 5, 8])
def test_near_link_cut_falls_back_to_the_websocket(
    undisturbed: tuple[str, int, int], served: LocalHost, packets: int
) -> None:
    digest, *_ = undisturbed
    ctx = glremote.create_context(served.url, token=served.token)
    device = glremote.device(ctx)
    assert isinstance(device, glremote.RemoteDevice)
    if not device.near:
        pytest.skip("this system has no memfd")
    cut_after(device.road.link, packets)
    assert work(ctx) == digest
    device.wait_until(lambda: device.road.lifeline is None)  # it is the link now
    assert work(ctx) == digest
    ctx.release()


def test_lifeline_cut_is_made_again(undisturbed: tuple[str, int, int]) -> None:
    digest, *_ = undisturbed
    with LocalHost() as host:
        ctx = glremote.create_context(host.url, token=host.token)
        device = glremote.device(ctx)
        assert isinstance(device, glremote.RemoteDevice)
        first = device.road.lifeline
        if not device.near:
            pytest.skip("this system has no memfd")
        assert first is not None
        first.socket.shutdown(2)
        assert work(ctx) == digest
        device.wait_until(lambda: device.road.lifeline not in (None, first))
        assert glremote.device(ctx).measure().waits > 0
        assert work(ctx) == digest
        assert first.fileno() < 0
        ctx.release()


def test_session_that_has_ended_cannot_be_resumed() -> None:
    host = CuttingHost([])
    ctx = glremote.instance().connect(host.connect, "in-process", "a test")
    device = glremote.device(ctx)
    assert isinstance(device, glremote.RemoteDevice)
    buffer = ctx.buffer(b"abc")
    name = device.greeting.session
    host.close()
    with pytest.raises(DeviceLost):
        buffer.read()
    with pytest.raises(DeviceLost):
        ctx.buffer(b"abc")
    with pytest.raises(NotAdmitted):
        host.connect(name)
    buffer.release()  # silent, as is the context's
    ctx.release()
