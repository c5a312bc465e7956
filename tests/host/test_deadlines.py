"""How long things may take: the kernel ends a process in the middle of a call, and its signal says for which limit."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import moderngl
import pytest

import glremote
from glremote.host import deadlines
from glremote.host.deadlines import ENDINGS, SOONEST, Deadline, Watchdog, why
from glremote.host.limits import Limits
from glremote.host.serving import LocalHost, environment
from glremote.protocol.reflection import is_software

WITHIN_C = """
import ctypes, sys
from glremote.host.deadlines import kernel_timer
set_timer = kernel_timer(sys.argv[1])
for seconds in sys.argv[2:]:
    set_timer(float(seconds))
ctypes.PyDLL(None).usleep(3_000_000 if float(seconds) else 300_000)  # it holds the interpreter's lock, as moderngl does
"""


def test_the_watchdog_is_set_now_and_then() -> None:
    told: list[float] = []
    watchdog = Watchdog(0.2, told.append)
    watchdog.idle()
    watchdog.busy()
    watchdog.busy()
    assert told == [0.2]
    time.sleep(0.06)
    watchdog.busy()
    watchdog.idle()
    watchdog.idle()
    assert told == [0.2, 0.2, 0.0]


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


def test_each_of_several_has_its_own_deadline(passes: Callable[[float], None]) -> None:
    told: list[float] = []
    deadline = Deadline(10.0, told.append)
    first = deadline.begin()
    passes(4)
    second = deadline.begin()
    assert told == [10.0], "the first is due first"
    passes(1)
    deadline.end(first)
    passes(1)
    third = deadline.begin()
    deadline.end(third)
    deadline.end(second)
    assert told == [10.0, 9.0, 8.0, 0.0]


def test_to_wait_for_the_client_does_not_count(passes: Callable[[float], None]) -> None:
    told: list[float] = []
    deadline = Deadline(10.0, told.append)
    deadline.stand()  # nothing has begun
    deadline.go_on()
    assert told == []
    due = deadline.begin()
    passes(3)
    deadline.stand()
    passes(50)
    deadline.stand()  # also where one wait is within another
    passes(50)
    deadline.go_on()
    deadline.go_on()
    passes(6)
    later = deadline.begin()
    deadline.end(due)
    assert told == [10.0, 0.0, 7.0, 10.0]
    deadline.end(later)
    assert Deadline(0.0, told.append).begin() == 0.0
    assert told == [10.0, 0.0, 7.0, 10.0, 0.0]


def test_what_is_late_already_ends_at_once(passes: Callable[[float], None]) -> None:
    told: list[float] = []
    deadline = Deadline(1.0, told.append)
    first = deadline.begin()
    deadline.begin()
    passes(2)
    deadline.end(first)
    assert told == [1.0, SOONEST]


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("seconds", [["0.2"], ["30", "0.2"], ["0.2", "0"]])
def test_the_kernel_ends_a_process_within_c(name: str, seconds: list[str]) -> None:
    def deaf() -> None:
        number = getattr(signal, ENDINGS[name][0])
        signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, (number,))

    line = [sys.executable, "-P", "-c", WITHIN_C, name, *seconds]
    status = subprocess.run(line, env=environment(), preexec_fn=deaf, timeout=60).returncode
    if seconds[-1] == "0":
        assert status == 0
        return
    said = why(-status, Limits(buffer_seconds=1, compile_seconds=2, read_seconds=3))
    assert said is not None, status
    assert said.startswith(ENDINGS[name][1])
    assert name.replace("_", "-") in said
    assert why(-status, Limits(buffer_seconds=0)) is None, "the limit was not set, so it was somebody else"


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
