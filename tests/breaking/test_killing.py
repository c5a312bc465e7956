"""A worker or its gateway is killed: the client hears of it within a second, and nothing of either stays behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import moderngl
import pytest

import glremote
from glremote.host.serving import LocalHost
from tests.processes import children, doors, held, listening, runs

DEADLINE = 10.0
"""Seconds after which something that must happen is held not to."""

ways = pytest.mark.parametrize("near", [True, False], ids=["near", "websocket"])


def eventually(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it never held"
        time.sleep(0.01)


def new_context(host: LocalHost, near: bool) -> moderngl.Context:
    """A context on a host, which goes near if it is to."""
    for _ in range(5):
        ctx = glremote.create_context(host.url, token=host.token, near=near)
        device = glremote.device(ctx)
        assert isinstance(device, glremote.RemoteDevice)
        if device.near == near:
            return ctx
        ctx.release()  # the machine was so busy that the worker did not open in time
    raise AssertionError("no context was near")


def lost_within(ctx: moderngl.Context, kill: Callable[[], object], waiting: bool) -> tuple[float, str]:
    """How many seconds a program that reads again and again, or that reads next, takes to hear of it; and what."""
    buffer = ctx.buffer(bytes(range(64)))
    assert buffer.read() == bytes(range(64))
    killed = 0.0

    def soon() -> None:
        nonlocal killed
        killed = time.monotonic()
        kill()

    timer = threading.Timer(0.2, soon)
    timer.start()
    if not waiting:
        timer.join()
    deadline = time.monotonic() + DEADLINE
    with pytest.raises(glremote.DeviceLost) as caught:
        while time.monotonic() < deadline:
            assert buffer.read() == bytes(range(64))
    return time.monotonic() - killed, str(caught.value)


@ways
@pytest.mark.parametrize("waiting", [True, False], ids=["reading", "next call"])
def test_a_killed_worker(near: bool, waiting: bool) -> None:
    with LocalHost("--warm", "0") as host:
        new_context(host, near).release()  # what a process takes once, it has now
        eventually(lambda: not children(host.pid))
        before, descriptors = held(), len(os.listdir(f"/proc/{host.pid}/fd"))
        ctx, other = new_context(host, near), new_context(host, near)
        first, second = sorted(children(host.pid))
        theirs = {*doors([first, second])}
        assert len(theirs) == 2
        seconds, why = lost_within(ctx, lambda: os.kill(first, signal.SIGKILL), waiting)
        assert seconds < 1.0 and "SIGKILL" in why
        assert other.buffer(b"still here").read() == b"still here"
        eventually(lambda: children(host.pid) == [second])
        for context in ctx, other:
            context.release()
        del ctx, other, context
        eventually(lambda: not children(host.pid) and not theirs & {*listening().values()})
        eventually(lambda: len(os.listdir(f"/proc/{host.pid}/fd")) <= descriptors)
        eventually(lambda: held() <= before)


@ways
@pytest.mark.parametrize("waiting", [True, False], ids=["reading", "next call"])
def test_a_killed_gateway(near: bool, waiting: bool) -> None:
    with LocalHost("--warm", "1") as host:
        new_context(host, near).release()
    before = held()
    with LocalHost("--warm", "1") as host:
        ctx = new_context(host, near)
        eventually(lambda: len(children(host.pid)) == 2)
        workers = children(host.pid)
        theirs = {*doors(workers)}
        assert theirs  # one at least: the warm worker may still be starting
        seconds, why = lost_within(ctx, lambda: os.kill(host.pid, signal.SIGKILL), waiting)
        assert seconds < 1.0 and "the host has ended" in why
        eventually(lambda: not any(map(runs, workers)))
        ctx.release()
    del ctx
    eventually(lambda: not theirs & {*listening().values()})
    eventually(lambda: held() <= before)
