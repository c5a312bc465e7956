"""Threads: a context in each of several at once, and objects that are collected on any of them at any time."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import moderngl
import pytest

import glremote
from glremote.host.serving import LocalHost
from tests.conftest import REMOTE_WAYS
from tests.recording.fullscreen import triangle

THREADS = 4
ROUNDS = 30


def draw(ctx: moderngl.Context, number: int, begin: threading.Barrier) -> int:
    """Renders, reads, faults and computes for some rounds; how many were right."""
    fbo = ctx.simple_framebuffer((2, 2))
    fbo.use()
    array = triangle(ctx, "uniform float shade;", "vec4(shade, 0.0, 0.0, 1.0)")
    buffer = ctx.buffer(reserve=4)
    right = 0
    begin.wait(60)
    for step in range(ROUNDS):
        shade = (number * ROUNDS + step) % 256
        array.program["shade"] = shade / 255
        array.render(vertices=3)
        buffer.write(bytes([number, step, 1, 2]))
        later = glremote.read_async(buffer)
        right += fbo.read(components=4) == bytes([shade, 0, 0, 255]) * 4
        right += later.result() == bytes([number, step, 1, 2])
    return right + (ctx.error == "GL_NO_ERROR")


@pytest.mark.parametrize("way", ("plain", *REMOTE_WAYS))
def test_a_context_in_each_thread(way: str, request: pytest.FixtureRequest) -> None:
    begin = threading.Barrier(THREADS)

    def work(number: int) -> int:
        ctx = make(way, request)
        try:
            return draw(ctx, number, begin)
        finally:
            ctx.release()

    request.getfixturevalue("served"), request.getfixturevalue("in_process_host")  # no fixture is made in a thread
    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(work, range(THREADS))) == [2 * ROUNDS + 1] * THREADS


def make(way: str, request: pytest.FixtureRequest) -> moderngl.Context:
    """As new_context in conftest.py makes one, but without what threads share: the environment."""
    if way == "plain":
        return moderngl.create_context(require=430, standalone=True, backend="egl")  # type: ignore[arg-type]
    if way == "in-process":
        host = request.getfixturevalue("in_process_host")
        return glremote.instance().connect(host.connect, "in-process", "a test", 430)
    served: LocalHost = request.getfixturevalue("served")
    return glremote.create_context(served.url, token=served.token, require=430, near=way == "near")


def test_one_context_handed_from_thread_to_thread(remote: moderngl.Context) -> None:
    begin = threading.Barrier(1)
    for number in range(3):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(draw, remote, number, begin).result(60) == 2 * ROUNDS + 1
    assert draw(remote, 3, begin) == 2 * ROUNDS + 1


@pytest.mark.parametrize("mode", ("auto", "context_gc"))
@pytest.mark.parametrize("record", ("plainly", "in blocks", "in blocks that are left"))
def test_objects_are_collected_on_other_threads_meanwhile(remote: Any, mode: str, record: str) -> None:
    """Each is freed once, nothing else is, and what is recorded meanwhile is not disturbed."""
    remote.gc_mode = mode
    fbo = remote.simple_framebuffer((1, 1))
    fbo.use()
    array = triangle(remote, "uniform float shade;", "vec4(shade, 0.0, 0.0, 1.0)")
    kept = remote.buffer(reserve=1024)
    dropped: list[list[Any]] = [cycle(remote) for _ in range(160)]
    stop = threading.Event()

    def collect() -> None:
        while dropped and not stop.is_set():
            dropped.pop()
            gc.collect(0)

    freed = 0
    threads = [threading.Thread(target=collect) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for step in range(256):
            with block(remote, record):
                array.program["shade"] = step / 255
                array.render(vertices=3)
                for at in range(0, 1024, 16):
                    kept.write(bytes([step] * 16), at)
                if record == "in blocks that are left":
                    raise ZeroDivisionError
            freed += remote.gc()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    dropped.clear()
    gc.collect()
    freed += remote.gc()
    left = record == "in blocks that are left"
    assert fbo.read(components=4) == (bytes(4) if left else b"\xff\0\0\xff")
    assert kept.read() == (bytes(1024) if left else b"\xff" * 1024)
    assert (freed, len(remote.objects)) == (0 if mode == "auto" else 160 * 3, 0)
    assert remote.error == "GL_NO_ERROR"


def test_a_block_that_is_left_is_not_sent_by_whoever_was_about_to_send(near_by: Any) -> None:
    """The pump may hold the lock, and wait for Python's, for as long as a block lasts."""
    buffer = near_by.buffer(b"before")
    near_by.finish()
    recorder = near_by.mglo.recorder
    inside, over = threading.Event(), threading.Event()

    def send() -> None:
        with recorder._sending:
            inside.set()
            over.wait(0.3)
            recorder._send(recorder._mark)

    thread = threading.Thread(target=send)
    with contextlib.suppress(ZeroDivisionError), glremote.command_buffer(near_by):
        buffer.write(b"behind")
        thread.start()
        inside.wait()
        raise ZeroDivisionError
    thread.join()
    assert buffer.read() == b"before"


def cycle(ctx: moderngl.Context) -> list[Any]:
    """Three objects that only the garbage collector frees."""
    made: list[Any] = [ctx.buffer(b"abc"), ctx.texture((2, 2), 4), ctx.sampler()]
    made.append(made)
    return made


class block:
    """A `with` block in which calls are recorded, and whether they go to one command buffer."""

    def __init__(self, ctx: moderngl.Context, record: str) -> None:
        self._block = glremote.command_buffer(ctx) if record != "plainly" else None

    def __enter__(self) -> None:
        if self._block is not None:
            self._block.__enter__()

    def __exit__(self, *error: Any) -> bool:
        if self._block is not None:
            self._block.__exit__(*error)
        return error[0] is ZeroDivisionError


def test_what_is_dropped_elsewhere_disturbs_no_other_context(remote: Any, new_context: Callable[..., Any]) -> None:
    other = new_context("in-process")
    things = [other.buffer(b"abc"), other.texture((2, 2), 4)]

    def drop() -> None:
        things.clear()
        gc.collect()

    thread = threading.Thread(target=drop)
    thread.start()
    buffer = remote.buffer(b"here")
    thread.join()
    assert (buffer.read(), other.buffer(b"there").read()) == (b"here", b"there")
