"""A handler of a signal, or a finaliser, runs wherever Python is: also in the middle of what glremote does."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

import moderngl
import pytest

import glremote
from glremote.recording.recorder import Recorder

LONG = """#version 430
layout (local_size_x = 1) in;
layout (std430, binding = 0) buffer Sum { uint sum; };
void main() { uint x = 1u; for (int i = 0; i < 60000000; ++i) x = x * 1664525u + 1013904223u; sum = x | 1u; }
"""


def test_a_handler_reads_while_the_program_waits(ctx: moderngl.Context) -> None:
    small, answer = ctx.buffer(b"1234"), ctx.buffer(reserve=4)
    work = ctx.compute_shader(LONG)
    heard: list[bytes] = []

    def handle(number: int, frame: FrameType | None) -> None:
        small.write(b"5678")
        heard.append(small.read())

    previous = signal.signal(signal.SIGALRM, handle)
    try:
        answer.bind_to_storage_buffer(0)
        work.run()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert any(answer.read())
        while not heard:
            signal.pause()
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert heard == [b"5678"]
    assert small.read() == b"5678"


def test_a_handler_that_reads_runs_at_any_time(ctx: moderngl.Context) -> None:
    """As often as a timer can: between calls, and within each of them."""
    counted, small = ctx.buffer(bytes(4)), ctx.buffer(bytes(4))
    heard: list[bytes] = []
    inside: list[None] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if not inside:  # another signal may come before this one is done
            inside.append(None)
            small.write(b"%4d" % len(heard))
            heard.append(small.read())
            inside.pop()

    previous = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
    step = 0
    try:
        while len(heard) < 100:
            step += 1
            counted.write(step.to_bytes(4, "little"))
            assert counted.read() == step.to_bytes(4, "little")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert heard == [b"%4d" % number for number in range(len(heard))]


def test_what_cannot_wait_says_so(remote: moderngl.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    device: Any = glremote.device(remote)
    buffer = remote.buffer(b"1234")
    raised: list[str] = []

    def interrupted(packet: Any, take: Any = device._take) -> None:
        with pytest.raises(glremote.WouldWait) as info:
            buffer.read()
        raised.append(str(info.value))
        take(packet)

    monkeypatch.setattr(device, "_take", interrupted)
    assert buffer.read() == b"1234"
    monkeypatch.undo()
    assert set(raised) == {"ReadBuffer needs an answer, in a finaliser, where none can come"}
    assert buffer.read() == b"1234"


def test_what_a_finaliser_records_goes_behind_what_is_being_sent(remote: moderngl.Context) -> None:
    buffer = remote.buffer(b"....")
    recorder: Recorder = buffer.mglo.recorder
    submit = recorder._submit

    def interrupted(taken: list[Any], mark: int) -> None:
        recorder._submit = submit  # type: ignore[method-assign]
        buffer.write(b"2")
        recorder.flush()
        with pytest.raises(glremote.WouldWait):
            buffer.read()
        submit(taken, mark)

    buffer.write(b"1")
    recorder._submit = interrupted  # type: ignore[method-assign]
    recorder.flush()
    assert buffer.read() == b"2..."
