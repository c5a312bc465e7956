"""Faults and epochs: what fails on the host after its call has returned is raised once, at the next call."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator

import moderngl
import numpy as np
import pytest

import glremote
from glremote.host.inprocess import InProcessHost
from glremote.host.interpreter import Interpreter
from glremote.protocol import commands as c


class Saboteur:
    """Makes the n-th command that the host runs from now on fail (frees apart, which cannot)."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._run = interpreter.run
        self._left = 0
        self.failed: c.Command | None = None
        interpreter.run = self._run_or_fail  # type: ignore[method-assign]

    def fail(self, nth: int) -> None:
        """Of the commands from now on, the first is number 1."""
        self._left, self.failed = nth, None

    def _run_or_fail(self, command: c.Command) -> None:
        if self._left and not isinstance(command, c.Free):
            self._left -= 1
            if not self._left:
                self.failed = command
                raise moderngl.Error("sabotage")
        self._run(command)


@pytest.fixture
def host() -> Iterator[InProcessHost]:
    """A host of its own for each test."""
    made = InProcessHost()
    yield made
    made.close()


@pytest.fixture
def ctx(host: InProcessHost) -> Iterator[moderngl.Context]:
    """A context on that host."""
    made = glremote.instance().connect(host.connect, "in-process", "a test", 430)
    yield made
    made.release()


@pytest.fixture
def saboteur(ctx: moderngl.Context, host: InProcessHost) -> Saboteur:
    """For the host of that context."""
    (worker,) = host.workers.values()
    return Saboteur(worker.interpreter)


def scene(ctx: moderngl.Context) -> Callable[[], bytes]:
    """Objects of many kinds, and a function that sets state, draws with all of it, and reads the picture."""
    prog = ctx.program(
        vertex_shader="""#version 330
            in vec2 at; uniform vec2 shift; out vec2 uv;
            void main() { uv = at * 0.5 + 0.5; gl_Position = vec4(at * 0.7 + shift, 0.0, 1.0); }""",
        fragment_shader="""#version 330
            in vec2 uv; out vec4 colour; uniform sampler2D image; layout(std140) uniform Tint { vec4 tint; };
            void main() { colour = texture(image, uv * 3.0) * tint; }""",
    )
    quad = ctx.buffer(np.array([-1, -1, 1, -1, -1, 1, 1, 1], "f4"))
    tint = ctx.buffer(np.array([1.0, 0.5, 0.25, 0.5], "f4"))
    image = ctx.texture((2, 2), 4, bytes(range(0, 256, 16)))
    vao = ctx.vertex_array(prog, [(quad, "2f", "at")], mode=moderngl.TRIANGLE_STRIP)
    fbo = ctx.framebuffer([ctx.texture((16, 16), 4)], ctx.depth_renderbuffer((16, 16)))
    sampler = ctx.sampler(repeat_x=False, filter=(moderngl.NEAREST, moderngl.NEAREST))
    query = ctx.query(samples=True)

    def draw() -> bytes:
        fbo.use()
        fbo.viewport = (1, 2, 13, 12)
        fbo.scissor = (0, 0, 15, 15)
        ctx.clear(0.25, 0.5, 0.75, 1.0)
        fbo.color_mask = (True, True, False, True)
        ctx.enable_only(moderngl.BLEND)
        ctx.blend_func = moderngl.ONE, moderngl.ONE
        image.filter = moderngl.NEAREST, moderngl.NEAREST
        image.swizzle = "BGRA"
        image.use(3)
        sampler.use(3)
        prog["image"].value = 3  # type: ignore[union-attr]
        prog["shift"].value = (0.1, 0.2)  # type: ignore[union-attr]
        prog["Tint"].binding = 2  # type: ignore[union-attr]
        tint.bind_to_uniform_block(2)
        with query:
            vao.render()
        return fbo.read(components=4)

    return draw


def test_fault_at_every_command(ctx: moderngl.Context, saboteur: Saboteur) -> None:
    """Whichever fails: one fault that names it; then all state is again what the program set, and the picture right."""
    draw = scene(ctx)
    right = draw()
    for nth in itertools.count(1):
        saboteur.fail(nth)
        try:
            picture = draw()
        except moderngl.Error as error:
            assert saboteur.failed is not None
            if isinstance(saboteur.failed, c.Fetch):  # the answer carries it: no fault
                assert str(error) == "sabotage"
            else:
                assert isinstance(error, glremote.Fault)
                assert "sabotage" in str(error)
                assert type(saboteur.failed).__name__ in str(error)
            assert draw() == right, saboteur.failed
            assert ctx.error == "GL_NO_ERROR"
        else:
            assert saboteur.failed is None
            assert picture == right
            break
    assert nth > 15


def test_fault_at_every_command_of_making(ctx: moderngl.Context, saboteur: Saboteur) -> None:
    """The same while objects are made: what was never made says so, and made again it works."""
    right = scene(ctx)()
    for nth in itertools.count(1):
        saboteur.fail(nth)
        try:
            picture = scene(ctx)()
        except moderngl.Error as error:
            assert saboteur.failed is not None
            assert "sabotage" in str(error)
            assert scene(ctx)() == right, saboteur.failed
        else:
            assert picture == right
            break
    assert nth > 30


def test_the_text_names_command_buffer_and_line(ctx: moderngl.Context, saboteur: Saboteur) -> None:
    ctx.finish()
    saboteur.fail(1)
    ctx.buffer(b"abc")
    with pytest.raises(glremote.Fault) as raised:
        ctx.finish()
    text = str(raised.value)
    assert "sabotage" in text
    assert "MakeBuffer(" in text
    assert "of buffer" in text
    assert f"recorded at {__file__}:" in text


def test_with_debug_every_command_has_its_line(host: InProcessHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLREMOTE_DEBUG", "1")
    ctx = glremote.instance().connect(host.connect, "in-process", "a test")
    (worker,) = host.workers.values()
    saboteur = Saboteur(worker.interpreter)
    saboteur.fail(2)
    ctx.enable(moderngl.BLEND)
    ctx.line_width = 2.0  # this one fails
    ctx.disable(moderngl.BLEND)
    with pytest.raises(glremote.Fault, match=rf"recorded at {__file__}:\d+") as raised:
        ctx.finish()
    line = int(str(raised.value).split(f"{__file__}:")[1].split()[0])
    with open(__file__) as source:
        assert "this one fails" in source.readlines()[line - 1]
    ctx.release()


def test_never_made_objects_name_the_fault(ctx: moderngl.Context, saboteur: Saboteur) -> None:
    prog = ctx.program(vertex_shader="#version 330\nin vec2 at; void main() { gl_Position = vec4(at, 0, 1); }")
    saboteur.fail(1)
    buffer = ctx.buffer(b"a" * 64)
    later = ctx.buffer(b"b" * 64)
    with pytest.raises(glremote.Fault):
        later.read()
    for use in (
        lambda: buffer.read(),
        lambda: buffer.write(b"x"),
        lambda: later.size,
        lambda: ctx.copy_buffer(buffer, later),
        lambda: ctx.vertex_array(prog, [(buffer, "2f", "at")]),
    ):
        with pytest.raises(glremote.Fault, match=r"never made(.|\n)*sabotage"):
            use()
    buffer.release()
    later.release()
    again = ctx.buffer(b"c" * 64)
    assert again.read() == b"c" * 64


def test_dropped_commands_did_not_run_and_frees_did(ctx: moderngl.Context, saboteur: Saboteur) -> None:
    kept, freed = ctx.buffer(b"kept"), ctx.buffer(b"gone")
    ctx.finish()
    saboteur.fail(1)
    ctx.enable(moderngl.BLEND)
    kept.write(b"lost")
    freed.release()
    with pytest.raises(glremote.Fault, match="its data is lost"):
        ctx.finish()
    assert kept.read() == b"kept"


def test_raised_once_and_never_from_release(ctx: moderngl.Context, saboteur: Saboteur) -> None:
    buffer = ctx.buffer(b"abc")
    ctx.finish()
    saboteur.fail(1)
    ctx.enable(moderngl.BLEND)
    future = glremote.read_async(buffer)
    with pytest.raises(glremote.Fault):
        future.result()  # the read was dropped: its future has the fault too
    buffer.release()
    with pytest.raises(glremote.Fault):
        ctx.finish()
    ctx.finish()


def test_not_raised_in_place_of_an_exception(ctx: moderngl.Context, saboteur: Saboteur) -> None:
    """`__exit__` during another exception keeps that one; the fault comes at the next call."""
    fbo = ctx.simple_framebuffer((4, 4))
    scope = ctx.scope(fbo)
    query = ctx.query(samples=True)
    ctx.finish()
    saboteur.fail(1)
    ctx.enable(moderngl.BLEND)
    device = glremote.device(ctx)
    with pytest.raises(ZeroDivisionError), scope, query:
        ctx.mglo.recorder.flush()
        device.wait_until(lambda: ctx.mglo.recorder._fault is not None)  # type: ignore[union-attr]
        raise ZeroDivisionError
    with pytest.raises(glremote.Fault):
        ctx.finish()
    ctx.finish()


def test_unraised_fault_is_written_at_exit() -> None:
    program = """
import sys, moderngl, glremote
from glremote.host.inprocess import InProcessHost
host = InProcessHost()
ctx = glremote.instance().connect(host.connect, "in-process", "a test")
(worker,) = host.workers.values()
run = worker.interpreter.run
def fail(command):
    raise moderngl.Error("sabotage")
worker.interpreter.run = fail
ctx.enable(moderngl.BLEND)
recorder = ctx.mglo.recorder
recorder.flush()
recorder.device.wait_until(lambda: recorder._fault is not None)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "a fault that was not raised: sabotage" in done.stderr


def test_unraised_fault_is_written_at_release(
    ctx: moderngl.Context, saboteur: Saboteur, capsys: pytest.CaptureFixture[str]
) -> None:
    saboteur.fail(1)
    ctx.enable(moderngl.BLEND)
    recorder = ctx.mglo.recorder
    recorder.flush()
    recorder.device.wait_until(lambda: recorder._fault is not None)
    ctx.release()
    assert "sabotage" in capsys.readouterr().err
