"""What one session may use: past a limit it is told which, its value and what was asked, and nobody else notices."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import moderngl
import pytest

import glremote
from glremote.host.limits import PROGRAM, SMALL, LimitExceeded, Limits, Usage, read, taken, tidy, written
from glremote.host.serving import LocalHost
from glremote.protocol import commands as c
from glremote.protocol.reflection import is_software
from glremote.protocol.stacks import Span

LOOP = """#version 430
layout (local_size_x = 64) in;
layout (std430, binding = 0) buffer Data { float items[]; };
uniform int loops;
void main() {
    float x = items[gl_GlobalInvocationID.x % 64u];
    for (int i = 0; i < loops; i++) x = sin(x) * 1.5 + cos(x * float(i));
    items[gl_GlobalInvocationID.x % 64u] = x;
}
"""


# --- what is counted


@pytest.mark.parametrize(
    ("command", "size"),
    [
        (c.MakeBuffer(2, None, 100, False), 100),
        (c.MakeBuffer(2, Span(0, 64), 0, False), 64),
        (c.MakeTexture(2, (10, 20), 4, None, 0, 1, "f1", 0), 800),
        (c.MakeTexture(2, (10, 20), 3, None, 4, 1, "f4", 0), 10 * 20 * 3 * 4 * 4),
        (c.MakeTexture(2, (0xFFFFFFFF, 0xFFFFFFFF), 4, None, 0, 1, "f4", 0), 0xFFFFFFFF**2 * 16),
        (c.MakeTexture3D(2, (4, 5, 6), 2, None, 1, "f2"), 4 * 5 * 6 * 4),
        (c.MakeTextureCube(2, (8, 8), 4, None, 1, "u1", 0), 8 * 8 * 4 * 6),
        (c.MakeDepthRenderbuffer(2, (8, 8), 2), 8 * 8 * 4 * 2),
        (c.MakeProgram(2, (b"abc", b"de", None, None, None, None, None, None), (), {}, False), PROGRAM + 5),
        (c.MakeSampler(2), SMALL),
    ],
)  # fmt: skip
def test_what_an_object_takes(command: Any, size: int) -> None:
    assert taken(command) == size


def test_usage_counts_what_is_there() -> None:
    usage = Usage(Limits(objects=2, memory=10000, object_bytes=8000))
    usage.add(c.MakeBuffer(2, None, 6000, False))
    usage.add(c.MakeBuffer(3, None, 4000, False))
    with pytest.raises(LimitExceeded, match=r"^objects is limited to 2 here, and MakeBuffer, with .* asks for 3$"):
        usage.add(c.MakeBuffer(4, None, 1, False))
    usage.release(2)
    assert usage.total == 4000
    usage.forget(2)
    usage.add(c.MakeSampler(5))
    usage.forget(5)  # and OpenGL still has it
    with pytest.raises(LimitExceeded, match=r"asks for 3$"):
        usage.add(c.MakeSampler(6))
    usage.take_back(5)
    with pytest.raises(LimitExceeded, match=r"^object-bytes is limited to 8000 here, and MakeBuffer asks for 8001$"):
        usage.add(c.MakeBuffer(4, None, 8001, False))
    with pytest.raises(LimitExceeded, match=r"^memory is limited to 10000 here, and .* estimate asks for 11000$"):
        usage.add(c.MakeBuffer(4, None, 7000, False))
    usage.resize(3, 3000, "BufferOrphan")
    usage.add(c.MakeBuffer(4, None, 7000, False))
    for handle in 3, 4:
        usage.release(handle)
        usage.forget(handle)
    usage.add(c.MakeScope(7, 1, 0, (), (), ()))
    usage.forget(7)
    assert (usage.total, len(usage._sizes)) == (0, 0)


def test_limits_are_written_and_read() -> None:
    limits = Limits(objects=5, memory=3 << 30, buffer_seconds=1.5)
    assert Limits().changed(written(limits)) == limits
    assert limits.changed("objects=6,read-seconds=2") == Limits(
        objects=6, memory=3 << 30, buffer_seconds=1.5, read_seconds=2.0
    )
    assert read("memory=2g, object-bytes=16K,buffer-seconds=0.5") == {
        "memory": 2 << 30, "object_bytes": 16 << 10, "buffer_seconds": 0.5,
    }  # fmt: skip
    assert read("") == {}
    assert tidy(" memory=2g,objects = 5,, memory=3G,read_seconds=2") == "memory=3G,objects=5,read-seconds=2"


@pytest.mark.parametrize(
    "text",
    ["memory", "memory=", "memory=-1", "speed=5", "objects=1.5", "buffer-seconds=inf", "idle-seconds=3e6"],
)
def test_what_is_no_limit(text: str) -> None:
    for reads in (read, tidy, Limits().changed):
        with pytest.raises(ValueError, match=r"is no (limit|value)"):
            reads(text)


# --- on a real host


@pytest.fixture(scope="module")
def host() -> Iterator[LocalHost]:
    """A host with narrow limits."""
    narrow = "objects=20,memory=4m,object-bytes=1m,source-bytes=2k,buffer-seconds=2,idle-seconds=3"
    with LocalHost("--limit", narrow) as found:
        yield found


@pytest.fixture(params=["near", "websocket"])
def ctx(request: pytest.FixtureRequest, host: LocalHost) -> Iterator[moderngl.Context]:
    """A context of that host."""
    made = glremote.create_context(host.url, token=host.token, near=request.param == "near", require=430)
    yield made
    made.release()


def test_too_many_objects(ctx: moderngl.Context) -> None:
    kept: list[moderngl.Buffer] = []
    with pytest.raises(glremote.Fault, match=r"objects is limited to 20 here, and MakeBuffer.* asks for 21"):
        for _ in range(21):
            kept.append(ctx.buffer(reserve=4))
            ctx.finish()
    for buffer in kept[:18]:
        buffer.release()
    for _ in range(3):
        buffers = [ctx.buffer(b"abcd") for _ in range(15)]
        assert buffers[-1].read() == b"abcd"
        for buffer in buffers:
            buffer.release()
        del buffer, buffers
        ctx.finish()


def test_too_much_memory(ctx: moderngl.Context) -> None:
    with pytest.raises(glremote.Fault, match=r"object-bytes is limited to 1048576 here, and MakeTexture asks for 4194"):
        ctx.texture((1024, 1024), 4)
        ctx.finish()
    with pytest.raises(glremote.Fault, match=r"memory is limited to 4194304 here, and MakeBuffer, with .* 4718590"):
        for _ in range(5):
            ctx.buffer(reserve=943_718)
            ctx.finish()
    ctx.gc_mode = "auto"
    buffer = ctx.buffer(b"abcd")
    with pytest.raises(glremote.Fault, match=r"object-bytes is limited to 1048576 here, and BufferOrphan asks for"):
        buffer.orphan(2 << 20)
        ctx.finish()


def test_a_source_that_is_too_long(ctx: moderngl.Context) -> None:
    with pytest.raises(glremote.Fault, match=r"source-bytes is limited to 2048 here, and MakeProgram asks for 3"):
        ctx.compute_shader(LOOP + "//" + "x" * 3000)
    assert ctx.compute_shader(LOOP)["loops"].value == 0


def test_work_without_end_ends_its_session_alone(ctx: moderngl.Context, host: LocalHost) -> None:
    other = glremote.create_context(host.url, token=host.token, require=430)
    buffer = other.buffer(bytes(256))
    shader: Any = ctx.compute_shader(LOOP)
    ctx.buffer(bytes(256)).bind_to_storage_buffer(0)
    shader["loops"].value = 1_000_000
    began = time.monotonic()
    with pytest.raises(glremote.DeviceLost, match=r"longer than the 2 s that buffer-seconds allows here"):
        shader.run(65535)
        while time.monotonic() < began + 20:
            ctx.finish()
    assert time.monotonic() - began < 8
    assert buffer.read() == bytes(256)
    other.release()


def test_a_loop_without_end(ctx: moderngl.Context) -> None:
    if is_software(str(ctx.info["GL_RENDERER"])):
        pytest.skip("llvmpipe cuts loops short by itself")
    shader: Any = ctx.compute_shader(LOOP.replace("i < loops", "x != 7.0"))
    ctx.buffer(bytes(256)).bind_to_storage_buffer(0)
    with pytest.raises(glremote.DeviceLost, match="longer than the 2 s that buffer-seconds allows here"):
        shader.run(64)
        ctx.finish()


def test_a_program_that_compiles_for_minutes_ends_its_session(ctx: moderngl.Context) -> None:
    """Each macro doubles the one before."""
    doubled = "".join(f"#define A{n} (x = A{n - 1} + A{n - 1})\n" for n in range(1, 17))
    source = (
        "#version 430\nlayout (local_size_x = 1) in;\nlayout (std430, binding = 0) buffer Data { float d[]; };\n"
        f"#define A0 sin(d[gl_GlobalInvocationID.x] + x)\n{doubled}void main() {{ float x = d[0]; d[1] = A16; }}"
    )
    began = time.monotonic()
    with pytest.raises(glremote.DeviceLost, match="longer than the 2 s that buffer-seconds allows here"):
        ctx.compute_shader(source)
    assert time.monotonic() - began < 8


@pytest.mark.parametrize("instances", [2**31 - 1, 2**30])
def test_as_many_instances_as_there_can_be(ctx: moderngl.Context, instances: int) -> None:
    vertex = "#version 430\nvoid main() { gl_Position = vec4(gl_VertexID % 2, gl_VertexID / 2, 0, 1); }"
    draw = ctx.program(vertex, "#version 430\nout vec4 color; void main() { color = vec4(1); }")
    ctx.simple_framebuffer((4, 4)).use()
    try:
        ctx.vertex_array(draw, []).render(moderngl.TRIANGLES, 3, instances=instances)
        ctx.finish()
    except glremote.DeviceLost as error:
        assert "longer than the 2 s that buffer-seconds allows here" in str(error)
    else:
        assert not is_software(str(ctx.info["GL_RENDERER"])), "some GPUs do it in time"


def test_counts_in_an_indirect_buffer(ctx: moderngl.Context) -> None:
    vertex = "#version 430\nvoid main() { gl_Position = vec4(gl_VertexID % 2, gl_VertexID / 2, 0, 1); }"
    draw = ctx.program(vertex, "#version 430\nout vec4 color; void main() { color = vec4(1); }")
    ctx.simple_framebuffer((4, 4)).use()
    counts = ctx.buffer(b"".join(n.to_bytes(4, "little") for n in (2**31, 2**31, 0, 0, 0)))
    with pytest.raises(glremote.DeviceLost, match="longer than the 2 s that buffer-seconds allows here"):
        ctx.vertex_array(draw, []).render_indirect(counts, moderngl.TRIANGLES, count=1)
        ctx.finish()


def test_many_short_buffers_may_take_longer(ctx: moderngl.Context) -> None:
    buffer = ctx.buffer(bytes(64))
    end = time.monotonic() + 3
    while time.monotonic() < end:
        assert buffer.read() == bytes(64)


def test_a_silent_client(ctx: moderngl.Context) -> None:
    ctx.finish()
    time.sleep(1.5)
    ctx.finish()
    time.sleep(4)
    with pytest.raises(glremote.DeviceLost, match=r"silent for longer than the 3 s that idle-seconds allows here"):
        for _ in range(50):
            ctx.finish()
            time.sleep(0.1)
