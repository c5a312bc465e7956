"""Reads that follow one another overlap on a GPU: the same pixels, whatever happens meanwhile.

Software renderers have nothing that could overlap, so here the interpreter is told that they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import moderngl
import pytest

import glremote
from glremote.host import readbacks
from glremote.host.deadlines import Several
from glremote.host.gl import OpenGL
from glremote.host.inprocess import InProcessHost
from glremote.host.worker import Worker
from glremote.protocol import commands as c
from glremote.protocol.stacks import Span

SIZE = (64, 32)
COPY_WRITE_BUFFER = 0x8F37


@pytest.fixture
def workers() -> list[Worker]:
    """Those of the contexts that `remote` made."""
    return []


@pytest.fixture
def remote(workers: list[Worker], monkeypatch: pytest.MonkeyPatch) -> Iterator[moderngl.Context]:
    """A context on a host whose driver is said to overlap."""
    monkeypatch.setattr("glremote.host.worker.is_software", lambda renderer: False)
    host = InProcessHost(wrap=workers.append)
    ctx = glremote.instance().connect(host.connect, "in-process", "a test", 430)
    yield ctx
    ctx.release()
    host.close()


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the reads that were begun before something else was run."""
    sizes: list[int] = []
    begin = readbacks.Readbacks.begin

    def counted(self: Any, command: Any, framebuffer: Any, due: float) -> bool:
        sizes.append(command.size)
        return begin(self, command, framebuffer, due)

    monkeypatch.setattr(readbacks.Readbacks, "begin", counted)
    monkeypatch.setattr(readbacks, "LEAST", 64)
    monkeypatch.setattr("glremote.host.interpreter.LEAST", 64)
    return sizes


def in_one_buffer(ctx: moderngl.Context, calls: Callable[[], Any]) -> list[bytes]:
    """What the reads give that are asked for in one command buffer, so that each is followed by another."""
    with glremote.command_buffer(ctx):
        futures = calls()
        ctx.memory_barrier()
    return [future.result() for future in futures]


@pytest.mark.parametrize("dtype", ["f1", "f2", "f4", "u1", "i2", "u4"])
@pytest.mark.parametrize("components", [1, 3, 4])
def test_each_frame_is_the_one_that_was_read(
    remote: moderngl.Context, begun: list[int], dtype: str, components: int
) -> None:
    fbo = remote.framebuffer([remote.texture(SIZE, components, dtype=dtype)])

    def calls() -> list[Any]:
        futures = []
        for frame in range(12):
            fbo.clear(frame / 16, frame + 0.5, 1.0, 0.25)
            futures.append(glremote.read_async(fbo, components=components, dtype=dtype, alignment=1))
        return futures

    found = in_one_buffer(remote, calls)
    assert len(begun) >= 12
    for frame, pixels in enumerate(found):
        fbo.clear(frame / 16, frame + 0.5, 1.0, 0.25)
        assert pixels == fbo.read(components=components, dtype=dtype, alignment=1), frame
    assert remote.error == "GL_NO_ERROR"


def test_frames_of_a_program_that_never_waits(remote: moderngl.Context, begun: list[int]) -> None:
    """Here the host sees that more has come."""
    fbo = remote.simple_framebuffer((256, 256))
    futures = []
    for frame in range(200):
        fbo.clear(frame / 255, frame / 255, frame / 255, frame / 255)
        futures.append(glremote.read_async(fbo, components=4))
    assert [future.result() for future in futures] == [bytes([frame]) * (4 << 16) for frame in range(200)]
    assert begun


def test_parts_of_the_image_and_what_would_be_converted(remote: moderngl.Context, begun: list[int]) -> None:
    fbo = remote.framebuffer([remote.texture(SIZE, 4)], remote.depth_texture(SIZE))
    fbo.clear(0.2, 0.4, 0.6, 0.8, depth=0.5)
    fbo.clear(1.0, 0.0, 0.0, 0.0, viewport=(8, 8, 8, 8), depth=0.25)
    reads: list[dict[str, Any]] = [
        {"viewport": (4, 4, 16, 16), "components": 4},
        {"attachment": -1, "components": 1, "dtype": "f4"},
        {"viewport": (0, 0, 64, 32), "components": 2},
        {"components": 4, "dtype": "f4"},
    ]
    found = in_one_buffer(remote, lambda: [glremote.read_async(fbo, **read) for read in reads])
    assert found == [fbo.read(**read) for read in reads]
    assert begun == [16 * 16 * 4, 64 * 32 * 2], "what is converted may be rounded otherwise there"


def test_what_opengl_refuses_is_zeros_and_leaves_its_error(
    remote: moderngl.Context, new_context: Callable[..., moderngl.Context], begun: list[int]
) -> None:
    def refused(ctx: moderngl.Context) -> Any:
        """Samples cannot be read."""
        return ctx.framebuffer([ctx.renderbuffer(SIZE, 4, samples=4)])

    fbo = refused(remote)
    (pixels,) = in_one_buffer(remote, lambda: [glremote.read_async(fbo, components=4)])
    assert (begun, pixels) == ([len(pixels)], bytes(len(pixels)))
    plain = new_context("plain")
    refused(plain).read(components=4)
    assert remote.error == plain.error == "GL_INVALID_OPERATION"


def test_more_than_there_is_room_for(
    remote: moderngl.Context, workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readbacks, "MOST", 3 * 4 * SIZE[0] * SIZE[1])
    images = [remote.framebuffer([remote.texture((SIZE[0], SIZE[1] * scale), 4)]) for scale in (1, 2, 3, 4)]

    def calls() -> list[Any]:
        futures = []
        for frame in range(40):
            fbo = images[frame % 4]
            fbo.clear(frame / 255, frame / 255, frame / 255, frame / 255)
            futures.append(glremote.read_async(fbo, components=4))
        return futures

    for frame, pixels in enumerate(in_one_buffer(remote, calls)):
        assert pixels == bytes([frame]) * (4 * SIZE[0] * SIZE[1] * (frame % 4 + 1))
    (worker,) = workers
    held = worker.interpreter.readbacks
    assert len(held) == 0
    assert sum(len(buffer.memory) for buffer in held._free) == held._size <= readbacks.MOST


def test_the_time_of_a_read_goes_on_until_it_is_answered(
    remote: moderngl.Context, workers: list[Worker], begun: list[int]
) -> None:
    told: list[float] = []
    (worker,) = workers
    worker.interpreter.deadlines.reads = reads = Several(True, told.append)
    fbo = remote.framebuffer([remote.texture(SIZE, 4)])
    before = len(told)
    images = in_one_buffer(remote, lambda: [glremote.read_async(fbo, components=n) for n in (4, 2, 3, 4)])
    assert len(images) == len(begun) == 4
    assert told[before] > 0
    assert (told[-1], reads._began) == (0.0, [])
    assert len(fbo.read(components=4)) == len(images[0])
    assert (told[-1], reads._began) == (0.0, [])


def test_what_is_released_behind_a_read_does_not_reach_it(remote: moderngl.Context, begun: list[int]) -> None:
    with glremote.command_buffer(remote):
        fbo = remote.simple_framebuffer(SIZE)
        fbo.clear(1.0, 0.0, 1.0, 0.0)
        first = glremote.read_async(fbo, components=4)
        fbo.clear()
        fbo.release()
        other = remote.simple_framebuffer(SIZE)
        other.clear(0.0, 1.0, 0.0, 1.0)
    assert first.result() == b"\xff\0\xff\0" * (SIZE[0] * SIZE[1])
    assert other.read(components=4) == b"\0\xff\0\xff" * (SIZE[0] * SIZE[1])
    assert len(begun) == 1


def test_a_read_that_was_begun_before_a_fault_is_answered(remote: moderngl.Context, begun: list[int]) -> None:
    fbo = remote.simple_framebuffer(SIZE)
    buffer: Any = remote.buffer(b"abcd")
    with glremote.command_buffer(remote):
        fbo.clear(1.0, 0.0, 1.0, 0.0)
        first = glremote.read_async(fbo, components=4)
        buffer.mglo.recorder.record(c.BufferWriteChunks(buffer.mglo.handle, Span(0, 4), 0, 0, 3))
        second = glremote.read_async(fbo, components=4)
    assert first.result() == b"\xff\0\xff\0" * (SIZE[0] * SIZE[1])
    assert isinstance(second.exception(), glremote.Fault)
    with pytest.raises(glremote.Fault, match="BufferWriteChunks"):
        remote.finish()
    assert len(begun) == 1


def test_the_end_with_reads_on_their_way(workers: list[Worker], remote: moderngl.Context) -> None:
    fbo = remote.simple_framebuffer((512, 512))
    futures = [glremote.read_async(fbo, components=4) for _ in range(50)]
    remote.release()
    for future in futures:
        if future.exception() is None:
            assert future.result() == bytes(4 << 18)
        else:
            assert isinstance(future.exception(), glremote.DeviceLost)


def test_pixel_buffers_leave_nothing_behind(new_context: Callable[..., moderngl.Context]) -> None:
    ctx: Any = new_context("plain")
    gl = OpenGL(ctx.mglo)
    ctx.enable_direct(0x7FFFFFFF)  # an error that is pending
    made = gl.pixel_buffer(4096)
    assert made is not None
    gl.write(made, bytes(range(256)) * 16, 0)
    assert gl.passed(gl.fence(), 1.0)
    assert bytes(made.memory) == bytes(range(256)) * 16
    seen = ctx.buffer(reserve=4096)
    ctx.copy_buffer(seen, ctx.external_buffer(made.name, 4096))
    assert seen.read() == bytes(range(256)) * 16
    gl.delete(made)
    assert gl.pixel_buffer(1 << 62) is None
    assert ctx.error == "GL_INVALID_ENUM"
    assert ctx.error == "GL_NO_ERROR"
