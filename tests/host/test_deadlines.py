"""How long things may take: a worker is ended in the middle of a call, and its client is told for which limit."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import moderngl
import pytest

import glremote
from glremote.host import deadlines
from glremote.host.deadlines import KINDS, Buffers, Page, Several
from glremote.host.serving import LocalHost, environment
from glremote.protocol.reflection import is_software


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets seconds pass on the clock of the deadlines."""
    now = [1000.0]

    class Clock:
        monotonic = staticmethod(lambda: now[0])

    def passes(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(deadlines, "time", Clock)
    return passes


def test_each_of_several_has_its_own_begin(passes: Callable[[float], None]) -> None:
    told: list[float] = []
    reads = Several(True, told.append)
    first = reads.begin()
    passes(4)
    second = reads.begin()
    assert told == [1000.0], "the first is due first"
    passes(1)
    reads.end(first)
    passes(1)
    third = reads.begin()
    reads.end(third)
    reads.end(second)
    assert told == [1000.0, 1004.0, 1004.0, 0.0]


def test_to_wait_for_the_client_does_not_count(passes: Callable[[float], None]) -> None:
    told: list[float] = []
    reads = Several(True, told.append)
    reads.stand()  # nothing has begun
    reads.go_on()
    assert told == []
    began = reads.begin()
    passes(3)
    reads.stand()
    passes(50)
    reads.stand()  # also where one wait is within another
    passes(50)
    reads.go_on()
    reads.go_on()
    passes(6)
    later = reads.begin()
    reads.end(began)
    assert told == [1000.0, 0.0, 1100.0, 1109.0]
    reads.end(later)
    assert Several(False, told.append).begin() == 0.0
    assert told == [1000.0, 0.0, 1100.0, 1109.0, 0.0]


def test_a_buffer_that_waits_for_its_client_does_not_begin_again(passes: Callable[[float], None]) -> None:
    told: list[float] = []
    buffers = Buffers(told.append)
    buffers.stand()
    buffers.go_on()
    assert told == [], "nothing runs"
    buffers.busy()
    passes(2)
    buffers.stand()
    passes(30)
    buffers.stand()
    buffers.go_on()
    buffers.go_on()
    assert told == [1000.0, 0.0, 1030.0]
    buffers.stand()
    buffers.busy()
    buffers.go_on()
    buffers.idle()
    assert told[3:] == [0.0, 1032.0, 0.0]


def test_two_processes_see_the_same() -> None:
    """Also one that is in the middle of a call: nothing of it has to run."""
    page = Page.make()
    busy = (
        "import sys, time; from glremote.host.deadlines import *; page = Page(int(sys.argv[1])); page.close()\n"
        "all = Deadlines(Limits(read_seconds=1), page); all.buffers.busy(); all.programs.begin(); all.reads.begin()\n"
        "print(time.monotonic(), flush=True); sys.stdin.read(); all.stand()"
    )
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", busy, str(page.descriptor)], env=environment(), text=True,
        pass_fds=[page.descriptor], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        end = float(process.stdout.readline())
        assert began < page.began("buffer_seconds") <= page.began("read_seconds") <= end
        assert page.began("compile_seconds") == 0, "it has no limit"
        process.stdin.close()
        process.wait(60)
        assert {page.began(name) for name in list(KINDS)[:3]} == {0}
        assert page.began("idle_seconds") >= end, "it waits for its client"
    with pytest.raises(PermissionError):  # what is read from memory that is gone ends a process
        os.ftruncate(page.descriptor, 0)
    before = len(os.listdir("/proc/self/fd"))
    page.close()
    page.release()
    assert len(os.listdir("/proc/self/fd")) == before - 2
    assert page.began("buffer_seconds") == 0


# --- on a real host

EVERYWHERE = "#version 430\nvoid main() { gl_Position = vec4(gl_VertexID % 2 * 4 - 1, gl_VertexID / 2 * 4 - 1, 0, 1); }"
LONG = """#version 430
out vec4 color;
void main() {
    float x = gl_FragCoord.x;
    for (int i = 0; i < 60000; i++) x = sin(x) * 1.5 + cos(x * float(i));
    color = vec4(x);
}
"""
ENDLESS = """#version 430
layout (local_size_x = 64) in;
layout (std430, binding = 0) buffer Data { float items[]; };
void main() { float x = items[0]; while (x != 7.0) x = sin(x); items[0] = x; }
"""
NOISE = """#version 430
layout (local_size_x = 512) in;
layout (std430, binding = 0) buffer Data { uint items[]; };
void main() {
    uint x = gl_GlobalInvocationID.x * 747796405u + 2891336453u;
    x = ((x >> ((x >> 28u) + 4u)) ^ x) * 277803737u;
    items[gl_GlobalInvocationID.x] = (x >> 22u) ^ x;
}
"""


def slow_to_compile(doublings: int) -> str:
    """A shader in which each macro doubles the one before."""
    doubled = "".join(f"#define A{n} (x = A{n - 1} + A{n - 1})\n" for n in range(1, doublings + 1))
    return (
        "#version 430\nlayout (local_size_x = 1) in;\nlayout (std430, binding = 0) buffer Data { float d[]; };\n"
        f"#define A0 sin(d[gl_GlobalInvocationID.x] + x)\n{doubled}"
        f"void main() {{ float x = d[0]; d[1] = A{doublings}; }}"
    )


@pytest.fixture(scope="module")
def host() -> Iterator[LocalHost]:
    """A host whose buffers have all the time that they want, and programs and reads have not."""
    with LocalHost("--limit", "buffer-seconds=60", "--limit", "compile-seconds=2,read-seconds=2") as found:
        yield found


@pytest.fixture(params=["near", "websocket"])
def ctx(request: pytest.FixtureRequest, host: LocalHost) -> Iterator[moderngl.Context]:
    """A context of that host."""
    made = glremote.create_context(host.url, token=host.token, near=request.param == "near", require=430)
    yield made
    made.release()


def test_a_program_that_compiles_for_long(ctx: moderngl.Context) -> None:
    said = r"compiling and linking a program took longer than the 2 s that compile-seconds allows here"
    with pytest.raises(glremote.DeviceLost, match=said):
        ctx.compute_shader(slow_to_compile(16))


def test_a_read_that_waits_for_long(ctx: moderngl.Context) -> None:
    framebuffer = ctx.simple_framebuffer((512, 512))
    framebuffer.use()
    if is_software(str(ctx.info["GL_RENDERER"])):
        ctx.vertex_array(ctx.program(EVERYWHERE, LONG), []).render(moderngl.TRIANGLES, 3)
    else:
        ctx.buffer(bytes(256)).bind_to_storage_buffer(0)
        ctx.compute_shader(ENDLESS).run(64)
    with pytest.raises(glremote.DeviceLost, match=r"a read took longer than the 2 s that read-seconds allows here"):
        framebuffer.read()


@pytest.mark.parametrize("ctx", ["near"], indirect=True)
def test_what_keeps_to_them_is_not_ended(ctx: moderngl.Context) -> None:
    """No time goes on when its program or its read is over, be it well or not: what follows takes twice as long."""
    buffer = ctx.buffer(b"four")
    for source in ("#version 430\nvoid main() { }", "#version 430\nvoid main() { nothing = 1; }"):
        with contextlib.suppress(moderngl.Error):
            ctx.program(vertex_shader=source)
        assert buffer.read() == b"four"
        ctx.simple_framebuffer((4, 4)).read(attachment=5)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        ctx.finish()


def test_work_that_nobody_waits_for() -> None:
    """Neither the client waits, nor the worker, whose calls have returned: but OpenGL is at it."""
    with LocalHost("--limit", "buffer-seconds=2") as strict:
        ctx = glremote.create_context(strict.url, token=strict.token, require=430)
        framebuffer = ctx.simple_framebuffer((512, 512))
        framebuffer.use()
        if is_software(str(ctx.info["GL_RENDERER"])):
            ctx.vertex_array(ctx.program(EVERYWHERE, LONG), []).render(moderngl.TRIANGLES, 3)
        else:
            ctx.buffer(bytes(256)).bind_to_storage_buffer(0)
            ctx.compute_shader(ENDLESS).run(64)
        end = time.monotonic() + 60
        with pytest.raises(glremote.DeviceLost, match="a command buffer took longer than the 2 s that buffer-seconds"):
            while time.monotonic() < end:
                ctx.clear()
                time.sleep(0.1)


def test_a_read_that_waits_for_its_client() -> None:
    """The gateway takes 24 MiB in about five seconds, and the worker waits for it: no part of the read's two."""
    with LocalHost("--limit", "read-seconds=2,bytes-per-second=4m") as slow:
        ctx: Any = glremote.create_context(slow.url, token=slow.token, near=False, require=430)
        buffer = ctx.buffer(reserve=24 << 20)
        buffer.bind_to_storage_buffer(0)
        noise = ctx.compute_shader(NOISE)
        for _ in range(4):  # the last is in none of the spans that the client has
            noise.run((24 << 20) // 4 // 512)
        ctx.finish()
        began = time.monotonic()
        assert len(buffer.read()) == 24 << 20
        assert time.monotonic() - began > 4
        ctx.release()
