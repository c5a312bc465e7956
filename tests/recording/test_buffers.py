"""Buffers: what is written is read, wherever it lies; and what is wrong raises what moderngl raises."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any, cast

import moderngl
import numpy as np
import pytest
from pyglm import glm

import glremote
from glremote.protocol.buffers import LARGEST_DATA
from tests.recording.raising import raised

Error = moderngl.Error
DATA = bytes(range(64))
RECORDS = np.array([(1.5, 2), (-1.0, 3)], dtype=[("a", "<f4"), ("b", "<i2")])


# --- making


def test_is_made_from_anything_contiguous(ctx: moderngl.Context) -> None:
    everything: tuple[Any, ...] = (
        b"abc", bytearray(b"abc"), memoryview(b"abcdef")[1:4], array.array("d", [1.0, 2.0]), np.arange(5),
        np.arange(6, dtype="f4").reshape(2, 3), np.array(3.5), np.float32(2.0), np.array([True, False]),
        np.array([1, 2], ">i4"), np.array([1j]), np.array(["ab"]), np.zeros(2, "V3"), np.array(["2020"], "M8[D]"),
        RECORDS, RECORDS[0], RECORDS[:1].reshape(()), memoryview(bytearray(16)).cast("f", (2, 2)),
    )  # fmt: skip
    for data in everything:
        buffer = ctx.buffer(data)
        expected = np.frombuffer(data, "u1").tobytes()
        assert (buffer.read(), buffer.size) == (expected, len(expected))
        buffer.write(bytes(buffer.size))
        buffer.write(data)
        assert buffer.read() == expected


def test_matrices_lie_in_memory_column_by_column(ctx: moderngl.Context) -> None:
    """PyGLM's say that their items have another order than memory has; moderngl takes memory as it is."""
    several = glm.array(glm.mat3(2.0), glm.mat3(3.0))
    things: tuple[Any, ...] = (glm.mat4(*range(16)), glm.mat2x3(*range(6)), glm.vec3(1, 2, 3), several)
    for thing in things:
        expected = thing.to_bytes()
        buffer = ctx.buffer(thing)
        assert buffer.read() == expected
        buffer.write(bytes(len(expected)))
        buffer.write(thing)
        assert buffer.read() == expected
        buffer.clear()
        if thing is several:
            with pytest.raises(BufferError, match="This type of buffer is not supported"):
                buffer.read_into(thing)
        else:
            buffer.read_into(thing)
            assert thing.to_bytes() == bytes(len(expected))


def test_what_it_is_made_from_is_copied_at_the_call(ctx: moderngl.Context) -> None:
    data = np.arange(4, dtype="u1")
    buffer = ctx.buffer(data)
    data[:] = 9
    assert buffer.read() == b"\0\1\2\3"
    buffer.write(data)
    data[:] = 7
    assert buffer.read() == b"\x09" * 4


def test_reserved_bytes(ctx: moderngl.Context) -> None:
    sizes: dict[Any, int] = {16: 16, np.int64(4): 4, True: 1, "7": 7, "10B": 10, "1KB": 1024, "2MB": 2 << 20}
    for reserve, size in sizes.items():
        buffer = ctx.buffer(reserve=reserve, dynamic=True)
        assert (buffer.size, buffer.dynamic) == (size, True)
        buffer.clear()
        assert buffer.read() == bytes(size)
    assert ctx.buffer(b"abc").dynamic is False
    assert ctx.error == "GL_NO_ERROR"


NOT_A_SIZE = "<built-in function strsize> returned NULL without setting an exception"
WRONG_MAKING: tuple[tuple[type[Exception], str, Callable[[Any], Any]], ...] = (
    (Error, "missing data or reserve", lambda x: x.buffer()),
    (Error, "data and reserve are mutually exclusive", lambda x: x.buffer(b"abc", 3)),
    (Error, "the buffer cannot be empty", lambda x: x.buffer(b"")),
    (Error, "the buffer cannot be empty", lambda x: x.buffer(np.zeros((0, 3)))),
    (TypeError, "a bytes-like object is required, not 'str'", lambda x: x.buffer("abc")),
    (TypeError, "a bytes-like object is required, not 'list'", lambda x: x.buffer([1, 2])),
    (TypeError, "a bytes-like object is required, not 'Buffer'", lambda x: x.buffer(x.buffer(b"abc"))),
    (ValueError, "ndarray is not C-contiguous", lambda x: x.buffer(np.zeros((4, 4))[:, ::2])),
    (ValueError, "ndarray is not C-contiguous", lambda x: x.buffer(np.zeros((4, 3)).T)),
    (BufferError, "memoryview: underlying buffer is not C-contiguous", lambda x: x.buffer(memoryview(DATA)[::2])),
    (TypeError, "'float' object cannot be interpreted as an integer", lambda x: x.buffer(reserve=1.5)),
    (TypeError, "'NoneType' object cannot be interpreted as an integer", lambda x: x.buffer(reserve=None)),
    (OverflowError, "Python int too large to convert to C ssize_t", lambda x: x.buffer(reserve=1 << 63)),
    *((SystemError, NOT_A_SIZE, lambda x, size=size: x.buffer(reserve=size))
      for size in ("", "0", "-1", "x", "1X", "1K", "1kb", "1 KB", "1.5KB")),
)  # fmt: skip


def test_what_cannot_be_made(ctx: moderngl.Context) -> None:
    for kind, text, call in WRONG_MAKING:
        assert raised(call, ctx) == (kind, text)
    assert ctx.error == "GL_NO_ERROR"


# --- writing and reading


def test_writes_and_reads_parts(ctx: moderngl.Context) -> None:
    buffer = ctx.buffer(DATA)
    assert buffer.read(4) == buffer.read(4, offset=0) == DATA[:4]
    assert buffer.read(offset=60) == buffer.read(-1, 60) == buffer.read(-9, 60) == DATA[60:]
    assert buffer.read(np.int32(4), np.int64(8)) == DATA[8:12]  # type: ignore[arg-type]
    buffer.write(b"xyz", 61)
    buffer.write(b"", 64)
    buffer.write(b"ab", offset=2)
    assert buffer.read() == DATA[:2] + b"ab" + DATA[4:61] + b"xyz"
    memory = bytearray(b"\xff" * 80)
    buffer.read_into(memory, 4, 8, 76)
    buffer.read_into(memory, write_offset=8)
    buffer.read_into(memory, size=0, offset=64, write_offset=80)
    assert memory == b"\xff" * 8 + buffer.read() + b"\xff" * 4 + DATA[8:12]
    words = np.zeros((4, 4), "u4")
    buffer.read_into(words[1:3], 32, 16)
    assert words.tobytes() == bytes(16) + DATA[16:48] + bytes(16)
    records = np.zeros(2, RECORDS.dtype)
    buffer.write(RECORDS)
    buffer.read_into(records, 12)
    assert records.tobytes() == RECORDS.tobytes()


@pytest.mark.parametrize("size", (LARGEST_DATA, (17 << 20) + 3))
def test_data_larger_than_a_command_buffer(ctx: moderngl.Context, size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    made, written = ctx.buffer(data), ctx.buffer(reserve=size)
    written.write(data[5:], 5)
    written.write(data[:5])
    memory = np.zeros(size, "u1")
    written.read_into(memory)
    assert made.read() == written.read() == memory.tobytes() == data
    assert ctx.error == "GL_NO_ERROR"


RANGE = "out of range offset = {} or size = {}"
SMALL = "the buffer is too small"
UNMAPPED = "cannot map the buffer"
NO, VALUE, OPERATION = "GL_NO_ERROR", "GL_INVALID_VALUE", "GL_INVALID_OPERATION"

WRONG_USING: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    (RANGE.format(-1, 2), NO, lambda x: x.write(b"ab", -1)),
    (RANGE.format(63, 2), NO, lambda x: x.write(b"ab", 63)),
    (RANGE.format(0, 65), NO, lambda x: x.write(bytes(65))),
    (RANGE.format(65, 0), NO, lambda x: x.write(b"", 65)),
    (RANGE.format(0, 65), NO, lambda x: x.read(65)),
    (RANGE.format(-1, 4), NO, lambda x: x.read(4, -1)),
    (RANGE.format(61, 4), NO, lambda x: x.read(4, 61)),
    (RANGE.format(65, 0), NO, lambda x: x.read(0, 65)),
    (RANGE.format(1, 64), NO, lambda x: x.read(64, (1 << 32) + 1)),  # printed through %d
    (UNMAPPED, OPERATION, lambda x: x.read(0)),
    (UNMAPPED, OPERATION, lambda x: x.read(-1, 64)),
    (UNMAPPED, VALUE, lambda x: x.read(-1, 65)),
    (RANGE.format(0, 65), NO, lambda x: x.read_into(bytearray(99), 65)),
    (RANGE.format(65, -1), NO, lambda x: x.read_into(bytearray(99), -1, 65)),
    (RANGE.format((1 << 32) + 1, 64), NO, lambda x: x.read_into(bytearray(99), 64, (1 << 32) + 1)),
    (RANGE.format(0, 4), NO, lambda x: x.read_into(bytearray(99), 4, 0, -1)),
    (SMALL, NO, lambda x: x.read_into(bytearray(63))),
    (SMALL, NO, lambda x: x.read_into(bytearray(64), write_offset=1)),
    (SMALL, NO, lambda x: x.read_into(bytearray(), 1)),
    ("invalid count 0", NO, lambda x: x.write_chunks(b"", 0, 4, 0)),
    ("invalid count -1", NO, lambda x: x.write_chunks(b"", 0, 4, -1)),
    ("data (5 bytes) cannot be divided to 2 equal chunks", NO, lambda x: x.write_chunks(b"abcde", 0, 4, 2)),
    ("data (5 bytes) cannot be divided to 0 equal chunks", NO, lambda x: x.write_chunks(b"abcde", 0, 4, 1 << 32)),
    *(("buffer overflow", NO, lambda x, wrong=wrong: x.write_chunks(bytes(8), *wrong))
      for wrong in ((-65, 8, 1), (60, 8, 1), (0, 3, 2), (0, 0, 1), (53, 8, 2), (0, -4, 2), (0, 1 << 40, 2))),
    *(("size error", NO, lambda x, wrong=wrong: x.read_chunks(*wrong))
      for wrong in ((-1, 0, 4, 1), (4, -65, 4, 1), (4, 61, 4, 1), (4, 0, 3, 2), (4, 60, 4, 2), (4, 0, -4, 2))),
    ("size error", NO, lambda x: x.read_chunks_into(bytearray(9), 4, 0, 4, -1)),
    (SMALL, NO, lambda x: x.read_chunks_into(bytearray(7), 4, 0, 4, 2)),
    (SMALL, NO, lambda x: x.read_chunks_into(bytearray(8), 4, 0, 4, 2, -1)),
    ("the chunk cannot be empty", NO, lambda x: x.clear(chunk=b"")),
    ("the chunk does not fit the size", NO, lambda x: x.clear(chunk=b"abc")),
    ("the chunk does not fit the size", NO, lambda x: x.clear(-1, 63, b"ab")),
    *((UNMAPPED, OPERATION, lambda x, wrong=wrong: x.clear(*wrong)) for wrong in ((0,), (-1, 64), (0, 0, b"ab"))),
    *((UNMAPPED, VALUE, lambda x, wrong=wrong: x.clear(*wrong))
      for wrong in ((65,), (-1, 65), (4, -1), (4, 62, b"ab"))),
)  # fmt: skip


def test_what_is_out_of_range(ctx: moderngl.Context) -> None:
    buffer = ctx.buffer(DATA)
    for text, error, call in WRONG_USING:
        assert raised(call, buffer) == (Error, text)
        assert ctx.error == error
    assert buffer.read() == DATA


def test_what_is_no_memory(ctx: moderngl.Context) -> None:
    buffer = ctx.buffer(DATA)
    readonly = np.zeros(64, "u1")
    readonly.flags.writeable = False
    for memory, kind, text in (
        (None, TypeError, "a bytes-like object is required, not 'NoneType'"),
        ("x" * 64, TypeError, "a bytes-like object is required, not 'str'"),
        (bytes(64), BufferError, "Object is not writable."),
        (memoryview(bytes(64)), BufferError, "memoryview: underlying buffer is not writable"),
        (memoryview(bytearray(128))[::2], BufferError, "memoryview: underlying buffer is not C-contiguous"),
        (memoryview(bytes(128))[::2], BufferError, "memoryview: underlying buffer is not writable"),
        (readonly, ValueError, "buffer source array is read-only"),
        (np.zeros(128, "u1")[::2], ValueError, "ndarray is not C-contiguous"),
        (np.float64(1.0), BufferError, "scalar buffer is readonly"),
    ):
        assert raised(buffer.read_into, memory) == (kind, text)
        assert raised(buffer.read_chunks_into, memory, 1, 0, 1, 1) == (kind, text)
    assert ctx.error == "GL_NO_ERROR"


def test_chunks(ctx: moderngl.Context) -> None:
    buffer = ctx.buffer(bytes(16))
    for data, start, step, count, expected in (
        (b"abcd", 0, 4, 2, b"ab\0\0cd" + bytes(10)),
        (b"abcd", -4, -4, 2, bytes(8) + b"cd\0\0ab\0\0"),
        (b"abcd", 3, 1, 4, b"\0\0\0abcd" + bytes(9)),
        (b"abcd", -1, -1, 4, bytes(12) + b"dcba"),
        (b"abcd", 12, -99, 1, bytes(12) + b"abcd"),
        (DATA[:16], 0, 16, 1, DATA[:16]),
        (b"", 16, 4, 1, bytes(16)),
    ):
        buffer.clear()
        buffer.write_chunks(data, start, step, count)
        assert buffer.read() == expected
        size = len(data) // count
        assert buffer.read_chunks(size, start, step, count) == data
        memory = bytearray(20)
        buffer.read_chunks_into(memory, size, start, step, count, 2)
        assert memory == (b"\0\0" + data).ljust(20, b"\0")
    assert buffer.read_chunks(4, 4, 4, 0) == b""
    assert ctx.error == "GL_NO_ERROR"


def test_a_negative_number_of_chunks(ctx: moderngl.Context) -> None:
    buffer = ctx.buffer(DATA[:32])
    wrong = raised(buffer.read_chunks, 3, 9, -7, -1)
    assert wrong == (SystemError, "Negative size passed to PyBytes_FromStringAndSize")
    assert raised(buffer.read_chunks, 3, 9, 7, -2) == (moderngl.Error, "size error")
    assert buffer.read_chunks(0, 9, -7, -1) == buffer.read_chunks(0, 0, 0, -5) == b""
    assert raised(buffer.read_chunks_into, bytearray(9), 3, 9, -7, -1) == (moderngl.Error, "size error")
    assert (buffer.read(), ctx.error) == (DATA[:32], "GL_NO_ERROR")


def test_clear(ctx: moderngl.Context) -> None:
    buffer = ctx.buffer(b"x" * 16)
    buffer.clear(4, 2)
    assert buffer.read() == b"xx\0\0\0\0" + b"x" * 10
    buffer.clear(offset=10, chunk=np.array([258], "<u2"))
    assert buffer.read() == b"xx\0\0\0\0xxxx" + b"\2\1" * 3
    buffer.clear(chunk=b"abcd")
    assert buffer.read() == b"abcd" * 4
    buffer.clear()
    assert buffer.read() == bytes(16)


def test_orphan(ctx: moderngl.Context) -> None:
    buffer = ctx.buffer(b"x" * 16)
    for size, expected in ((-1, 16), (0, 16), (8, 8), (np.int64(100), 100)):
        buffer.orphan(size)  # type: ignore[arg-type]
        assert buffer.size == expected
        buffer.write(bytes(expected))
        assert buffer.read() == bytes(expected)
        assert raised(buffer.write, b"x", buffer.size) == (Error, RANGE.format(buffer.size, 1))
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        buffer.orphan(1.0)  # type: ignore[arg-type]
    assert ctx.error == "GL_NO_ERROR"


def test_what_is_orphaned_is_zeros(remote: moderngl.Context) -> None:
    """Plain moderngl leaves there what was in memory."""
    buffer = remote.buffer(b"\xff" * 64)
    buffer.orphan()
    assert buffer.read() == bytes(64)
    buffer.write(b"\xff" * 64)
    buffer.orphan(4096)
    assert buffer.read() == bytes(4096)
    assert remote.error == "GL_NO_ERROR"


# --- copying


def test_copies(ctx: moderngl.Context) -> None:
    source = ctx.buffer(DATA)
    ranges: tuple[tuple[tuple[int, ...], bytes], ...] = (
        ((32,), DATA[:32]),
        ((-1, 32), DATA[32:]),
        ((-1, 60, 4), bytes(4) + DATA[60:] + bytes(24)),
        ((4, 8, 28), bytes(28) + DATA[8:12]),
        ((0, 64, 32), bytes(32)),
    )
    for arguments, expected in ranges:
        target = ctx.buffer(bytes(32))
        ctx.copy_buffer(target, source, *arguments)
        assert target.read() == expected
    ctx.copy_buffer(source, source, 16, 0, 48)
    assert source.read() == DATA[:48] + DATA[:16]
    assert ctx.error == "GL_NO_ERROR"
    ctx.copy_buffer(source, source, 16, 0, 8)
    assert ctx.error == "GL_INVALID_VALUE"  # the ranges overlap
    for wrong in ((4, -1), (4, 0, -1)):
        assert raised(ctx.copy_buffer, target, source, *wrong) == (Error, "buffer underflow")
    for size, *offsets in ((-1,), (33,), (4, 61), (4, 0, 29)):
        assert raised(ctx.copy_buffer, target, source, size, *offsets) == (Error, "buffer overflow")
    texture: Any = ctx.texture((4, 4), 4)
    text = "argument {} must be mgl.Buffer, not mgl.Texture"
    assert raised(ctx.copy_buffer, texture, source) == (TypeError, text.format(1))
    assert raised(ctx.copy_buffer, source, texture) == (TypeError, text.format(2))


# --- binding


def test_ranges_for_a_storage_block(ctx: moderngl.Context) -> None:
    shader = ctx.compute_shader("""#version 430
        layout(local_size_x=1) in;
        layout(std430, binding=3) buffer In { uint values[]; };
        layout(std430, binding=4) buffer Out { uint seen[]; };
        void main() { seen[0] = uint(values.length()); seen[1] = values[0]; }""")
    values, seen = ctx.buffer(np.arange(256, dtype="u4")), ctx.buffer(reserve=8)
    seen.bind_to_storage_buffer(4)
    for arguments, expected in (((), (256, 0)), ((256,), (192, 64)), ((512, 16), (4, 128))):
        values.bind_to_storage_buffer(3, *arguments)
        shader.run()
        ctx.memory_barrier()
        assert tuple(np.frombuffer(seen.read(), "u4")) == expected
    assert ctx.error == "GL_NO_ERROR"


def test_ranges_for_a_uniform_block(ctx: moderngl.Context) -> None:
    shader = ctx.compute_shader("""#version 430
        layout(local_size_x=1) in;
        layout(std140, binding=2) uniform In { vec4 value; };
        layout(std430, binding=4) buffer Out { vec4 seen; };
        void main() { seen = value; }""")
    values, seen = ctx.buffer(np.arange(256, dtype="f4")), ctx.buffer(reserve=16)
    seen.bind_to_storage_buffer(4)
    for arguments, first in (((), 0), ((256,), 64), ((512, 16), 128)):
        values.bind_to_uniform_block(2, *arguments)
        shader.run()
        ctx.memory_barrier()
        assert seen.read() == np.arange(first, first + 4, dtype="f4").tobytes()
    assert ctx.error == "GL_NO_ERROR"


@pytest.mark.parametrize("method", ("bind_to_uniform_block", "bind_to_storage_buffer"))
def test_what_cannot_be_bound(ctx: moderngl.Context, method: str) -> None:
    bind = getattr(ctx.buffer(reserve=512), method)
    for wrong in ((1 << 16,), (-1,), (0, 512), (0, 0, 0), (0, 1, 16)):
        bind(*wrong)
        assert ctx.error == "GL_INVALID_VALUE"
    bind((1 << 32) + 1, size=16)  # taken modulo 2**32
    assert ctx.error == "GL_NO_ERROR"
    for what in ((1.0,), (0, None), (0, 0, "1")):
        with pytest.raises(TypeError, match="object cannot be interpreted as an integer"):
            bind(*what)


def test_pairs_for_scopes_and_vertex_arrays(ctx: moderngl.Context) -> None:
    buffer = ctx.buffer(DATA)
    assert buffer.assign(3) == (buffer, 3)
    assert buffer.bind("a", "b", layout="2f") == (buffer, "2f", "a", "b")


# --- what only the recording objects have


def test_nothing_but_reading_waits(remote: moderngl.Context) -> None:
    device, size = cast(Any, glremote.device(remote)), cast(Any, "1KB")
    before = device.measure().waits
    buffer, other = remote.buffer(DATA), remote.buffer(reserve=size)
    buffer.write(b"abc", 3)
    buffer.write_chunks(b"abcd", -4, -4, 2)
    buffer.clear(4)
    remote.copy_buffer(other, buffer)
    other.orphan(64)
    other.bind_to_uniform_block()
    other.bind_to_storage_buffer()
    buffer.release()
    for _ in range(3):
        assert device.measure().waits == before
        before += 1
        other.read()
