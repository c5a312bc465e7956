"""What a read does not write is zeros, whichever way it is seen to."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import moderngl
import pytest

from glremote.host.interpreter import FETCHES, Interpreter
from glremote.host.zeroing import filled
from glremote.protocol import commands as c
from glremote.protocol.stacks import Stack

SIZE = 64


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("size", [0, 1, 31, 32, SIZE])
def test_what_is_not_written_is_cleared(whole: bool, size: int) -> None:
    memory = memoryview(bytearray(os.urandom(size)))
    with filled(memory, whole):
        pass
    assert bytes(memory) == bytes(size)


@pytest.mark.parametrize("picture", [bytes(SIZE), bytes([255]) * SIZE, os.urandom(SIZE)])
def test_what_is_written_stays(picture: bytes) -> None:
    memory = memoryview(bytearray(SIZE))
    with filled(memory, whole=True):
        memory[:] = picture
    assert bytes(memory) == picture


@pytest.fixture
def interpreter(new_context: Callable[..., moderngl.Context]) -> Interpreter:
    """One on a context of its own, with a framebuffer (handle 2) of a picture of 8 x 4 in white."""
    host = Interpreter(new_context("plain").mglo, Stack(1 << 16), None)  # type: ignore[arg-type]
    host.run(c.MakeRenderbuffer(1, (8, 4), 4, 0, "f1"))
    host.run(c.MakeFramebuffer(2, (1,), None))
    host.run(c.FramebufferClear(2, 1.0, 1.0, 1.0, 1.0, 0.0, None))
    return host


WHITE, BLACK = b"\xff", b"\0"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ((None, 4, 0, 1, True, "f1"), WHITE * 128),
        (((2, 1, 6, 3), 4, 0, 1, True, "f1"), WHITE * 72),
        ((None, 4, 0, 1, False, "u1"), BLACK * 128),  # no integers are in it
        ((None, 4, 1, 1, True, "f1"), BLACK * 128),  # nor is there such an attachment
        (((0, 0, 5, 4), 1, 0, 8, True, "f1"), (WHITE * 5 + BLACK * 3) * 4),  # rows are padded
        (((4, 2, 8, 4), 1, 0, 1, True, "f1"), (WHITE * 4 + BLACK * 4) * 2 + BLACK * 16),  # it reaches beyond
        (((-4, 0, 8, 4), 1, 0, 1, True, "f1"), (BLACK * 4 + WHITE * 4) * 4),
    ],
)  # fmt: skip
def test_a_read_shows_pixels_and_zeros(interpreter: Interpreter, fields: Any, expected: bytes) -> None:
    memory = memoryview(bytearray(os.urandom(len(expected))))
    FETCHES[c.ReadFramebuffer](interpreter, c.ReadFramebuffer(1, len(expected), 2, *fields), memory)
    assert bytes(memory) == expected


def test_a_framebuffer_whose_image_is_gone_reads_as_zeros(interpreter: Interpreter) -> None:
    interpreter.run(c.FramebufferUse(2))
    interpreter.run(c.Release(1))
    memory = memoryview(bytearray(os.urandom(128)))
    FETCHES[c.ReadFramebuffer](interpreter, c.ReadFramebuffer(1, 128, 2, None, 4, 0, 1, True, "f1"), memory)
    assert bytes(memory) == bytes(128)


def test_a_framebuffer_that_another_object_released_reads_as_zeros(interpreter: Interpreter) -> None:
    """OpenGL reads what was bound before, which is smaller, and writes that much."""
    interpreter.run(c.MakeDetectedFramebuffer(3, 2))
    interpreter.run(c.Release(3))
    interpreter.run(c.MakeRenderbuffer(4, (4, 2), 4, 0, "f1"))
    interpreter.run(c.MakeFramebuffer(5, (4,), None))
    interpreter.run(c.FramebufferClear(5, 1.0, 1.0, 1.0, 1.0, 0.0, None))
    interpreter.run(c.FramebufferUse(5))
    memory = memoryview(bytearray(os.urandom(32)))
    FETCHES[c.ReadFramebuffer](interpreter, c.ReadFramebuffer(1, 32, 2, None, 1, 0, 1, True, "f1"), memory)
    assert bytes(memory) in (BLACK * 32, (WHITE * 4 + BLACK * 4) * 2 + BLACK * 16)


def test_a_texture_that_became_smaller_reads_as_zeros_beyond(interpreter: Interpreter) -> None:
    """To copy a framebuffer to a texture gives the texture its size."""
    interpreter.run(c.MakeTexture(3, (8, 4), 4, None, 0, 1, "f1", 0))
    interpreter.run(c.MakeFramebuffer(4, (3,), None))
    interpreter.run(c.MakeRenderbuffer(5, (4, 2), 4, 0, "f1"))
    interpreter.run(c.MakeFramebuffer(6, (5,), None))
    interpreter.run(c.FramebufferClear(6, 1.0, 1.0, 1.0, 1.0, 0.0, None))
    interpreter.run(c.CopyFramebuffer(3, 6))
    memory = memoryview(bytearray(os.urandom(32)))
    FETCHES[c.ReadFramebuffer](interpreter, c.ReadFramebuffer(1, 32, 4, None, 1, 0, 1, True, "f1"), memory)
    assert bytes(memory) == (WHITE * 4 + BLACK * 4) * 2 + BLACK * 16


def test_an_image_that_is_said_to_be_larger_than_it_is_reads_as_zeros_beyond(interpreter: Interpreter) -> None:
    interpreter.run(c.MakeTexture(3, (4, 4), 1, None, 0, 1, "f1", 0))
    interpreter.run(c.MakeExternalTexture(4, 3, (8, 4), 1, 0, "f1"))
    interpreter.run(c.MakeFramebuffer(5, (4,), None))
    interpreter.run(c.FramebufferClear(5, 1.0, 1.0, 1.0, 1.0, 0.0, None))
    memory = memoryview(bytearray(os.urandom(32)))
    FETCHES[c.ReadFramebuffer](interpreter, c.ReadFramebuffer(1, 32, 5, None, 1, 0, 1, True, "f1"), memory)
    assert bytes(memory) == (WHITE * 4 + BLACK * 4) * 4
