"""Worker processes: each makes a context of its own, however it was started; one that was inherited says what to do.

The programs are processes: what is started anew imports the program again, and that is not pytest.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from glremote.host.serving import LocalHost, environment
from glremote.hosts import Host, add

DEADLINE = 100.0
METHODS = multiprocessing.get_all_start_methods()

MAKES = """
import concurrent.futures, multiprocessing, sys
import moderngl
from moderngl import create_standalone_context as taken_out

def draw(number):
    make = taken_out if number % 2 else moderngl.create_context
    ctx = make(backend="egl") if number % 2 else make(standalone=True, backend="egl")
    framebuffer = ctx.simple_framebuffer((2, 2))
    framebuffer.clear(number / 255, 1.0, 0.0, 1.0)
    kind = type(ctx.mglo).__module__
    if number < 4:
        ctx.release()
    return kind, framebuffer.read(components=4).hex() if number >= 4 else "released"

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    own = moderngl.create_context(standalone=True, backend="egl")
    kept = own.buffer(b"kept")
    with context.Pool(2) as pool:
        print(pool.map(draw, range(4)))
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        print(list(pool.map(draw, range(4, 7))))
    print(kept.read(), own.error)
"""


def python(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run python to its end; it names no host but the one that is given."""
    inherited = environment().items()
    clean = {name: text for name, text in inherited if name == "GLREMOTE_CACHE" or not name.startswith("GLREMOTE_")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=clean | variables, capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    ("method", "program"), [*((method, ("makes.py",)) for method in METHODS), ("spawn", ("-m", "makes"))]
)
def test_run_makes_the_contexts_of_a_pool_on_the_host(
    method: str, program: tuple[str, ...], served: LocalHost, tmp_path: Path
) -> None:
    (tmp_path / "makes.py").write_text(MAKES)
    drawn = [f"{n:02x}ff00ff" * 4 for n in range(4, 7)]

    def expected(kind: str) -> str:
        return f"{[(kind, 'released')] * 4}\n{[(kind, pixels) for pixels in drawn]}\nb'kept' GL_NO_ERROR\n"

    if method == "spawn":  # with plain moderngl a driver does not outlive a fork
        assert python(*program, method, cwd=tmp_path).stdout == expected("mgl")
    run = "-m", "glremote", "run", "--host", served.url
    done = python(*run, *program, method, cwd=tmp_path, GLREMOTE_TOKEN=served.token)
    assert done.stdout == expected("glremote.recording.context"), done.stderr


NAMED = """
import multiprocessing, sys
import glremote

def draw(number):
    with glremote.create_context() as ctx:
        return ctx.buffer(bytes([number])).read(), glremote.device(ctx).remote

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(pool.map(draw, range(3)))
"""


@pytest.mark.parametrize("method", METHODS)
def test_workers_make_contexts_on_the_host_of_the_environment(method: str, served: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "named.py").write_text(NAMED)
    done = python("named.py", method, cwd=tmp_path, GLREMOTE_HOST=served.url, GLREMOTE_TOKEN=served.token)
    assert done.stdout == f"{[(bytes([n]), True) for n in range(3)]}\n", done.stderr


INHERITS = """
import gc, multiprocessing, sys
import glremote, moderngl

ctx = moderngl.create_context()
buffer, texture, query = ctx.buffer(b"abc"), ctx.texture((2, 2), 4), ctx.query(samples=True)
program = ctx.program(vertex_shader="#version 330\\nuniform float x;\\nvoid main() { gl_Position = vec4(x); }")
array = ctx.vertex_array(program, [])
with query:
    pass
future = glremote.read_async(buffer)
dropped = ctx.buffer(b"dropped")

def block():
    with glremote.command_buffer(ctx):
        buffer.write(b"xyz")

def use(name):
    try:
        return repr(eval(name))
    except glremote.Inherited as error:
        return "make a context in each process" in str(error)

USES = [
    "buffer.read()", "buffer.write(b'x')", "buffer.clear()", "buffer.orphan()", "texture.read()", "texture.use()",
    "ctx.buffer(b'abc')", "ctx.texture((2, 2), 4)", "ctx.program(vertex_shader='')", "ctx.framebuffer(texture)",
    "ctx.clear()", "ctx.finish()", "ctx.error", "ctx.enable(1)", "ctx.screen.read()", "moderngl.get_context().clear()",
    "array.render(vertices=3)", "program.__setitem__('x', 1.0)", "query.samples", "query.__enter__()", "block()",
    "future.result()", "glremote.read_async(texture)", "setattr(ctx, 'viewport', (0, 0, 1, 1))",
]

def child(found):
    global dropped
    del dropped
    gc.collect()
    found.put([name for name in USES if use(name) is not True])
    known = program["x"].value, buffer.size, ctx.screen.size, ctx.info["GL_RENDERER"] == renderer
    buffer.release()
    ctx.release()
    ctx.release()
    new = moderngl.create_context(standalone=True)
    found.put((*known, new.buffer(b"new").read()))

if __name__ == "__main__":
    renderer = ctx.info["GL_RENDERER"]
    context = multiprocessing.get_context("fork")
    found = context.Queue()
    process = context.Process(target=child, args=(found,))
    process.start()
    print(found.get(timeout=60), found.get(timeout=60))
    process.join()
    print(process.exitcode, future.result(), buffer.read(), dropped.read(), ctx.error)
"""


@pytest.mark.skipif("fork" not in METHODS, reason="no fork on this system")
def test_a_context_that_was_inherited_says_what_to_do(served: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "inherits.py").write_text(INHERITS)
    for near in ("1", "0"):
        run = "-m", "glremote", "run", "--host", served.url, "--screen", "4x4", "inherits.py"
        done = python(*run, cwd=tmp_path, GLREMOTE_TOKEN=served.token, GLREMOTE_NEAR=near)
        assert done.stdout == "[] (0.0, 3, (4, 4), True, b'new')\n0 b'abc' b'abc' b'dropped' GL_NO_ERROR\n", done.stderr


FORKS = """
import os, signal, sys, threading, time
import glremote
from glremote.device.choosing import Choice

instance = glremote.instance()
record = instance.devices()[0]
assert record.error is None, record
held = threading.Event()

def hold():
    with instance._placing._promise(lambda: Choice((record,) * 3, "")), instance._placing._lock:
        with sys.modules["glremote.instance"]._lock:
            held.set()
            time.sleep(100)

threading.Thread(target=hold, daemon=True).start()
held.wait()
if not (child := os.fork()):
    signal.alarm(60)
    with glremote.create_context() as ctx:
        print(ctx.buffer(b"new").read(), len(instance.devices()) > 1, glremote.device(ctx).listed.sessions, flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif("fork" not in METHODS, reason="no fork on this system")
def test_a_fork_while_another_thread_makes_a_context(tmp_path: Path) -> None:
    """The child has the locks of that thread, and not the thread."""
    (tmp_path / "forks.py").write_text(FORKS)
    with LocalHost("--warm", "1") as host:
        add(tmp_path / "hosts.toml", Host(host.url, "served", host.token))
        done = python("forks.py", cwd=tmp_path, GLREMOTE_HOSTS=str(tmp_path / "hosts.toml"))
    assert done.stdout == "b'new' True 0\n0\n", done.stderr


FORKS_SOON = """
import os, threading, time
import glremote
from glremote.device import ending

def sockets():
    found = 0
    for one in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{one}").startswith("socket:")
        except OSError:
            pass  # the folder's own
    return found

before = sockets()
made = []
thread = threading.Thread(target=lambda: made.append(glremote.create_context()))
thread.start()
while not ending._beginning:
    time.sleep(0.001)
if not (child := os.fork()):
    print(sockets() - before, flush=True)
    os._exit(0)
os.waitpid(child, 0)
thread.join()
print(made[0].buffer(b"abc").read())
"""


@pytest.mark.skipif("fork" not in METHODS, reason="no fork on this system")
def test_a_fork_while_a_session_is_greeted(tmp_path: Path) -> None:
    """The child keeps nothing of it: else the host would not see that the parent has gone."""
    (tmp_path / "forks.py").write_text(FORKS_SOON)
    with LocalHost("--warm", "0") as host:
        done = python("forks.py", cwd=tmp_path, GLREMOTE_HOST=host.url, GLREMOTE_TOKEN=host.token)
    assert done.stdout == "0\nb'abc'\n", done.stderr


LEAVES = """
import multiprocessing, sys
import moderngl

def leave(number):
    moderngl.create_context(standalone=True).finish()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    for number in range(3):
        process = context.Process(target=leave, args=(number,))
        process.start()
        process.join()
        print(process.exitcode)
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_that_ends_frees_its_place(method: str, tmp_path: Path) -> None:
    """It says goodbye, though it releases nothing, and though a fork ends past atexit."""
    (tmp_path / "leaves.py").write_text(LEAVES)
    with LocalHost("--warm", "1") as host:
        run = "-m", "glremote", "run", "--host", host.url, "leaves.py", method
        assert python(*run, cwd=tmp_path, GLREMOTE_TOKEN=host.token).stdout == "0\n0\n0\n"
        said = host.said()
    assert said.count(" began") == said.count(" ended") == 3, said
