"""The front: command buffers, reads without waiting, and where a context is; plain moderngl's contexts included."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import warnings
from collections.abc import Callable

import moderngl
import numpy as np
import pytest

import glremote
from glremote.protocol import buffers
from glremote.protocol import commands as c

NewContext = Callable[..., moderngl.Context]


def test_the_package_s_names_are_there() -> None:
    assert callable(glremote.device)  # and not the folder of that name, which is imported before it
    for name in glremote.__all__:
        assert getattr(glremote, name).__doc__, name


def test_command_buffer_is_one_buffer(remote: moderngl.Context) -> None:
    buffer = remote.buffer(reserve=1 << 16)
    remote.finish()
    before = glremote.device(remote).measure().buffers
    with glremote.command_buffer(remote):
        for at in range(2000):
            buffer.write(at.to_bytes(4, "little"), 4 * at)
    assert glremote.device(remote).measure().buffers == before + 1
    assert np.frombuffer(buffer.read(8000), "u4").tolist() == list(range(2000))


def test_command_buffer_left_by_an_exception_ran_nothing(ctx: moderngl.Context) -> None:
    """On a local context calls are made at once, so that there it says nothing."""
    fbo = ctx.simple_framebuffer((4, 4))
    fbo.use()
    ctx.clear(1.0, 0.0, 0.0, 1.0)
    buffer = ctx.buffer(b"before")
    ctx.finish()
    device = glremote.device(ctx)
    with pytest.raises(ZeroDivisionError), glremote.command_buffer(ctx):
        ctx.clear(0.0, 1.0, 0.0, 1.0)
        ctx.viewport = (1, 1, 2, 2)
        buffer.write(b"behind")
        never = ctx.buffer(b"never")
        raise ZeroDivisionError
    if device.remote:
        assert fbo.read((1, 1), components=4) == b"\xff\0\0\xff"
        assert buffer.read() == b"before"
        assert ctx.viewport == (0, 0, 4, 4)
        with pytest.raises(glremote.Fault, match="never made"):
            never.read()
    assert ctx.error == "GL_NO_ERROR"


def test_calls_that_wait_raise_inside(remote: moderngl.Context) -> None:
    buffer = remote.buffer(b"abc")
    query = remote.query(samples=True)
    with query:
        pass
    for call in (buffer.read, remote.finish, lambda: remote.error, lambda: query.samples):
        with glremote.command_buffer(remote):
            with pytest.raises(glremote.WouldWait, match="behind the block"):
                call()
            buffer.write(b"xyz")
        assert buffer.read() == b"xyz"
    assert not remote.mglo.device.outstanding()


def test_nested_blocks_are_one(remote: moderngl.Context) -> None:
    buffer = remote.buffer(b"abcd")
    remote.finish()
    before = glremote.device(remote).measure().buffers
    with glremote.command_buffer(remote):
        buffer.write(b"1", 0)
        with glremote.command_buffer(remote):
            buffer.write(b"2", 1)
        buffer.write(b"3", 2)
    assert glremote.device(remote).measure().buffers == before + 1
    assert buffer.read() == b"123d"


def test_too_large_raises_at_the_call(remote: moderngl.Context) -> None:
    buffer = remote.buffer(reserve=buffers.LARGEST_DATA + 16)
    half = bytes(buffers.LARGEST_DATA // 2)
    with pytest.raises(glremote.BufferTooLarge, match="make the block shorter"), glremote.command_buffer(remote):
        buffer.write(half)
        buffer.write(half)
        buffer.write(b"one more")
        pytest.fail("the call before was one too many")
    with pytest.raises(glremote.BufferTooLarge), glremote.command_buffer(remote):
        for _ in range(buffers.LARGEST // len(buffers.encode([c.BufferOrphan(2, -1)])) + 1):
            buffer.orphan()
    assert buffer.read(16, 0) == bytes(16)


@pytest.mark.parametrize("left", [False, True])
def test_many_large_blocks(remote: moderngl.Context, left: bool) -> None:
    """Each waits for room in the stack; what is left by an exception gives its room back."""
    size = buffers.LARGEST_DATA
    buffer = remote.buffer(reserve=size)
    for number in range(6):
        data = bytes([number + 1]) * (size // 2)
        try:
            with glremote.command_buffer(remote):
                buffer.write(data)
                buffer.write(data, size // 2)
                if left:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            assert left
    assert buffer.read(16, size - 16) == bytes([0 if left else 6]) * 16
    buffer.write(b"z" * size)
    assert buffer.read(16, size - 16) == b"z" * 16


def test_a_device_that_is_lost_while_a_buffer_is_sent(remote: moderngl.Context) -> None:
    """The call that sent it returns, and the next one raises."""
    buffer = remote.buffer(bytes(1 << 20))
    remote.finish()
    device = remote.mglo.device
    submit = device.submit

    def lose(*arguments: object) -> int:
        device.close()
        return int(submit(*arguments))

    device.submit = lose
    buffer.write(bytes(1 << 20))
    with pytest.raises(glremote.DeviceLost):
        buffer.write(b"abc")


def test_a_future_of_the_block_raises_inside(remote: moderngl.Context) -> None:
    buffer = remote.buffer(b"abc")
    earlier = glremote.read_async(buffer)
    with glremote.command_buffer(remote):
        inside = glremote.read_async(buffer)
        assert earlier.result() == b"abc"
        for wait in (inside.result, inside.exception, lambda: inside.result(5)):
            with pytest.raises(glremote.WouldWait, match="behind the block"):
                wait()
    assert inside.result() == b"abc"


def test_refused_buffer_ran_nothing(near_by: moderngl.Context) -> None:
    """A buffer that the protocol does not allow, sent past the recorder: none of its commands has run."""
    buffer = near_by.buffer(b"before")
    near_by.finish()
    device = near_by.mglo.device
    host_objects = device.road._connector.__self__.workers[device.greeting.session].interpreter
    on_host = host_objects[buffer.mglo.handle]
    ran: list[c.Command] = []
    host_objects.run = ran.append
    span = near_by.mglo.device.stack.push(b"behind")
    body = buffers.encode([c.BufferWrite(buffer.mglo.handle, span, 0), c.Render(buffer.mglo.handle, 4, 3, 0, 1)])
    near_by.mglo.device.submit(body, 2, 0, 0)
    with pytest.raises(glremote.DeviceLost, match=r"command 1 of the buffer, Render.*is buffer, not vertex_array"):
        near_by.finish()
    assert not ran
    assert on_host.size() == 6


def test_read_async(ctx: moderngl.Context) -> None:
    fbo = ctx.simple_framebuffer((32, 16))
    fbo.use()
    buffer = ctx.buffer(reserve=4)
    texture = ctx.texture((2, 2), 1, b"abcd")
    futures = []
    for shade in range(10):
        ctx.clear(shade / 15, 0.0, 0.0, 1.0)
        buffer.write(bytes([shade] * 4))
        futures.append((glremote.read_async(fbo, components=4), glremote.read_async(buffer, 2, 1)))
    assert glremote.read_async(texture).result() == b"abcd"
    for shade, (pixels, data) in enumerate(futures):
        assert pixels.result() == bytes([17 * shade, 0, 0, 255]) * 512
        assert data.result(timeout=10) == bytes([shade] * 2)
        assert data.exception() is None


def test_read_async_does_not_wait(remote: moderngl.Context) -> None:
    buffer = remote.buffer(b"abc" * 1000)
    before = glremote.device(remote).measure().waits
    futures = [glremote.read_async(buffer) for _ in range(20)]
    assert glremote.device(remote).measure().waits == before
    assert {future.result(timeout=10) for future in futures} == {b"abc" * 1000}


def test_read_async_raises_at_once_what_the_arguments_decide(ctx: moderngl.Context) -> None:
    with pytest.raises(moderngl.Error, match="out of range"):
        glremote.read_async(ctx.buffer(b"abc"), 4)


def test_read_async_awaited(ctx: moderngl.Context) -> None:
    buffer = ctx.buffer(b"awaited")

    async def read() -> bytes:
        return await glremote.read_async(buffer)

    assert asyncio.run(read()) == b"awaited"


def test_more_reads_than_the_host_may_have_on_their_way(remote: moderngl.Context) -> None:
    """Recording waits for room instead of anybody's memory growing; taking no answer stops nothing."""
    buffer = remote.buffer(bytes(1 << 20))
    futures = [glremote.read_async(buffer) for _ in range(100)]
    assert buffer.read(3) == bytes(3)
    assert all(len(future.result()) == 1 << 20 for future in futures)


def test_device(ctx: moderngl.Context, request: pytest.FixtureRequest) -> None:
    device = glremote.device(ctx)
    assert device.renderer == ctx.info["GL_RENDERER"]
    assert device.remote == ("plain" not in request.node.name)
    assert device.host
    assert device.reason
    assert device.measure().waits >= 0
    shown = f"{device.renderer}, connected: {device.reason}", f"{device.renderer}, near: {device.reason}"
    assert repr(device).rstrip(">").endswith((*shown, f"LocalDevice {device.renderer}: {device.reason}"))


def test_local_context_warns_of_a_software_renderer() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ctx = glremote.create_context("local", require=330)
    texts = [str(warning.message) for warning in warned if warning.category is UserWarning]
    if "llvmpipe" in ctx.info["GL_RENDERER"]:
        (text,) = texts
        assert "software renderer, llvmpipe" in text and 'create_context("ws://' in text
    else:
        assert not texts
    assert type(ctx.mglo).__module__ == "mgl"
    assert glremote.device(ctx).reason == "named in the call"
    ctx.release()


def test_host_of_the_environment(monkeypatch: pytest.MonkeyPatch, served: object) -> None:
    monkeypatch.setenv("GLREMOTE_HOST", served.url)  # type: ignore[attr-defined]
    monkeypatch.setenv("GLREMOTE_TOKEN", served.token)  # type: ignore[attr-defined]
    ctx = glremote.create_context()
    assert glremote.device(ctx).host == served.url  # type: ignore[attr-defined]
    assert glremote.device(ctx).reason == "GLREMOTE_HOST"
    ctx.release()


@pytest.mark.parametrize("host", ["", "http://127.0.0.1:1", "gpu-1"])
def test_no_host(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLREMOTE_HOST", host or "nonsense")
    with pytest.raises(ValueError, match="is no host: give ws://HOST:PORT"):
        glremote.create_context(host or None)


def test_more_than_the_stack_in_flight(remote: moderngl.Context) -> None:
    """Recording waits where the stack is full, and nothing is mixed up."""
    buffer = remote.buffer(reserve=4 << 20)
    pattern = np.arange(1 << 20, dtype="u4")
    for step in range(40):
        buffer.write(pattern + step)
    assert np.array_equal(np.frombuffer(buffer.read(), "u4"), pattern + 39)


def test_large_answer_in_parts(ctx: moderngl.Context) -> None:
    data = np.random.default_rng(5).integers(0, 256, (40 << 20) + 5, "u1")
    buffer = ctx.buffer(data)
    assert buffer.read() == data.tobytes()
    into = bytearray(len(data))
    buffer.read_into(into)
    assert into == data.tobytes()


def test_what_is_recorded_is_sent_when_nothing_follows(near_by: moderngl.Context) -> None:
    """An idle program's last calls reach the host though it asks for nothing."""
    near_by.finish()
    device = near_by.mglo.device
    (worker,) = [w for w in device.road._connector.__self__.workers.values() if w.name == device.greeting.session]
    ran = threading.Event()
    run = worker.interpreter.run

    def run_and_tell(command: c.Command) -> None:
        run(command)
        ran.set()

    worker.interpreter.run = run_and_tell
    near_by.enable(moderngl.BLEND)
    assert ran.wait(30)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads on this system")
def test_ctrl_c_in_a_blocking_read_leaves_the_context_usable(near_by: moderngl.Context) -> None:
    buffer = near_by.buffer(b"abc")
    device = near_by.mglo.device
    (worker,) = [w for w in device.road._connector.__self__.workers.values() if w.name == device.greeting.session]
    run, go_on = worker.interpreter.run, threading.Event()

    def interrupted(command: c.Command) -> None:
        if isinstance(command, c.ReadBuffer) and not go_on.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            go_on.wait(30)
        run(command)

    worker.interpreter.run = interrupted
    with pytest.raises(KeyboardInterrupt):
        buffer.read()
    go_on.set()
    assert buffer.read() == b"abc"
    buffer.write(b"xyz")
    assert buffer.read() == b"xyz"
    assert near_by.error == "GL_NO_ERROR"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_child_is_told(remote: moderngl.Context) -> None:
    buffer = remote.buffer(b"abc")
    large = remote.buffer(reserve=8 << 20)
    reading, writing = os.pipe()
    futures = [glremote.read_async(large) for _ in range(4)]
    child = os.fork()
    if not child:
        signal.alarm(60)
        for wait in (futures[-1].result, buffer.read):
            try:
                wait()
            except glremote.Inherited as error:
                said = str(error)
            except BaseException as error:
                said = repr(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    assert "make a context in each process" in said
    assert all(future.result() == bytes(8 << 20) for future in futures)
    assert buffer.read() == b"abc"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_is_forked_while_the_main_thread_waits_has_its_ctrl_c(near_by: moderngl.Context) -> None:
    statuses: list[int] = []

    def fork() -> None:
        child = os.fork()
        if not child:
            os._exit(signal.getsignal(signal.SIGINT) is not before)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    before = signal.getsignal(signal.SIGINT)
    with near_by.mglo.device.sections:
        assert signal.getsignal(signal.SIGINT) is not before
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
    assert statuses == [0]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_future_s_callback_may_use_the_context(remote: moderngl.Context) -> None:
    """Whoever receives calls it, and holds no lock then."""
    buffer = remote.buffer(b"abc")
    other = remote.buffer(b"xyz")
    copied = threading.Event()

    def copy(future: glremote.ReadFuture) -> None:
        other.write(future.result())
        copied.set()

    glremote.read_async(buffer).add_done_callback(copy)  # type: ignore[arg-type]
    assert copied.wait(30)
    assert other.read() == b"abc"
