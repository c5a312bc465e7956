"""The command line, as processes: what they print, where, and how they exit. Python itself is the oracle of `run`."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import glremote
from glremote import cli
from glremote.host.serving import LocalHost, environment
from glremote.link.websocket import connect

DEADLINE = 60.0
NOWHERE = "ws://127.0.0.1:9"
"""No host answers there; what makes no context does not find out."""


def command(*arguments: str, **variables: str) -> dict[str, Any]:
    """The arguments of subprocess.Popen for `glremote ...`; the environment names no host and no token."""
    inherited = environment().items()
    kept = ("GLREMOTE_CACHE", "GLREMOTE_TOKENS", "GLREMOTE_HOSTS")
    clean = {name: text for name, text in inherited if name in kept or not name.startswith("GLREMOTE_")}
    return {"args": [sys.executable, "-m", "glremote", *arguments], "env": clean | variables, "text": True}


def glremote_(*arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `glremote ...` to its end."""
    return subprocess.run(
        **command(*arguments, **variables), cwd=cwd, capture_output=True, stdin=subprocess.DEVNULL, timeout=DEADLINE
    )


def one_line(done: subprocess.CompletedProcess[str], status: int = 1) -> str:
    """The one line that a failure is to say, without its beginning."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("glremote: ")
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("glremote: ").strip()


# --- help


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("serve",), ("run",), ("gallery",), ("token",), ("token", "create"), ("doctor",), ("hosts",),
        ("hosts", "add"), ("devices",), ("ping",),
    ],
)
def test_help(arguments: tuple[str, ...]) -> None:
    short, long = glremote_(*arguments, "-h"), glremote_(*arguments, "--help")
    assert short.returncode == long.returncode == 0
    assert short.stdout == long.stdout
    assert short.stdout.startswith(" ".join(["Usage: glremote", *arguments]))


def test_help_imports_nothing_heavy() -> None:
    heavy = {"asyncio", "rich", "uvloop", "glremote.host", "glremote.gallery", "glremote.samples"}
    code = "import sys, glremote; before = set(sys.modules); import glremote.cli; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-P", "-c", code], env=environment(), capture_output=True, text=True)
    assert "glremote.cli" in done.stdout, done.stderr
    assert not heavy & set(done.stdout.split())


# --- serve


@pytest.fixture
def serving() -> Iterator[Any]:
    """Starts `glremote serve`, and waits for its first line; ends it when the test is over."""
    started: list[subprocess.Popen[str]] = []

    def serve(*arguments: str, **variables: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            **command("serve", "--port", "0", *arguments, **variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline()

    yield serve
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End a host as its user would; what it wrote after its first line."""
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    return said


def test_serve_prints_one_line_and_makes_a_token(serving: Any) -> None:
    process, line = serving()
    url = re.fullmatch(r"glremote serves at (ws://127\.0\.0\.1:\d+)\n", line)
    assert url, line
    rest, said = ended(process)
    assert rest == ""
    assert "The token" in said
    assert f"glremote run --host {url[1]}" in said
    assert "Warning" not in said


def test_the_token_that_serve_shows_is_its_token(serving: Any) -> None:
    process, line = serving()
    assert process.stderr is not None
    while "GLREMOTE_TOKEN=" not in (said := process.stderr.readline()):
        assert said
    connect(line.split()[-1], said.rpartition("=")[2].strip()).close()


def test_serve_takes_a_token_and_does_not_show_it(serving: Any, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-the-file\n")
    for arguments, variables, token in (
        (["--token-file", str(file)], {"GLREMOTE_TOKEN": "from-the-environment"}, "from-the-file"),
        ([], {"GLREMOTE_TOKEN": "from-the-environment"}, "from-the-environment"),
    ):
        process, line = serving(*arguments, **variables)
        connect(line.split()[-1], token).close()
        _, said = ended(process)
        assert "token" not in said.lower()
        assert "from-the" not in said


def test_serve_warns_of_others(serving: Any) -> None:
    process, line = serving("--bind", "0.0.0.0", "--insecure")
    assert line.startswith("glremote serves at ws://0.0.0.0:")
    _, said = ended(process)
    assert f"ws://{socket.gethostname()}:" in said
    assert "not encrypted" in said


@pytest.mark.parametrize("content", ["", " \n", "two words", "two\nlines", "\xe4", None])
def test_serve_refuses_what_is_no_token(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    assert str(file) in one_line(glremote_("serve", "--port", "0", "--token-file", str(file)))


def test_serve_names_a_port_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = one_line(glremote_("serve", "--port", str(port)))
    assert f"port {port} of 127.0.0.1 is in use" in said
    assert "--port" in said


@pytest.mark.parametrize("address", ["192.0.2.1", "nowhere.invalid"])
def test_serve_names_an_address_that_is_not_ours(address: str) -> None:
    assert address in one_line(glremote_("serve", "--port", "0", "--bind", address, "--insecure"))


def test_serve_says_what_to_install_where_there_is_no_driver() -> None:
    done = glremote_("serve", "--port", "0", __EGL_VENDOR_LIBRARY_FILENAMES="/nowhere")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "apt-get install" in done.stderr.splitlines()[-1]


# --- run: what does not need a host

SHOW = "import sys, os; print(sys.argv, __name__, __file__, sys.path[0], os.getcwd())\n"
RAISES = """
def f():
    raise KeyError("x")
try:
    f()
except KeyError as error:
    raise ValueError("y") from error
"""
AT_EXIT = """
import atexit
class A:
    def __repr__(self): return "an A"
    def __del__(self): print("gone")
a = A()
atexit.register(lambda: print(a))
"""
PROGRAMS = {
    "arguments": SHOW,
    "status": "import sys; sys.exit(7)",
    "said": "import sys; sys.exit('why')",
    "none": "import sys; print('out'); sys.exit(None)",
    "raises": RAISES,
    "interrupted": "raise KeyboardInterrupt",
    "syntax": "x = (",
    "neighbour": "import arguments",
    "pickles": "import pickle\nclass A: pass\nassert type(pickle.loads(pickle.dumps(A()))) is A",
    "main": "import __main__; print(__main__.__file__, sorted(vars(__main__).keys() - {'__annotations__'}))",
    "at_exit": AT_EXIT,
    "thread": "import threading; x = 1; threading.Timer(0.05, lambda: print(x)).start()",
    "hook": "import sys; sys.excepthook = lambda *what: print('mine', what[1])\nraise ValueError('z')",
    "changes": "import os; os.chdir('/'); print(__file__)",
    "imports": "import no_such_module",
    "future": "def f(x: no_such_name): pass",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of programs."""
    folder = tmp_path_factory.mktemp("programs")
    for name, text in PROGRAMS.items():
        (folder / f"{name}.py").write_text(text)
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(SHOW)
    (package / "module.py").write_text(SHOW)
    with zipfile.ZipFile(folder / "packed.zip", "w") as packed:
        packed.writestr("__main__.py", "import sys, other; print(sys.argv, __name__, other.x)")
        packed.writestr("other.py", "x = 1")
        packed.extractall(folder / "unpacked")
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        *([f"{name}.py"] for name in PROGRAMS),
        ["arguments.py", "a", "--host", "b", "-m", "c", "-h", "--", "d"],
        ["package/module.py", "a"],
        ["unpacked", "a"],
        ["packed.zip", "a"],
        ["-m", "package", "a", "--token-file", "b", "-h"],
        ["-m", "package.module", "--", "-m"],
        ["-mpackage.module", "a"],
        ["-m", "arguments"],
        ["-m", "raises"],
        ["-m", "status"],
    ],
    ids=" ".join,
)
def test_run_does_as_python_does(folder: Path, arguments: list[str]) -> None:
    clean = command()["env"]
    python = [sys.executable, *arguments]
    plain = subprocess.run(python, cwd=folder, env=clean, capture_output=True, text=True, timeout=DEADLINE)
    ours = glremote_("run", "--host", NOWHERE, *arguments, cwd=folder)
    assert ours.returncode == plain.returncode
    assert ours.stdout == plain.stdout
    if arguments != ["-m", "raises"]:  # there python shows frames of its own, and we leave out ours
        assert ours.stderr == plain.stderr


def test_run_of_what_is_not_there(folder: Path) -> None:
    assert one_line(glremote_("run", "--host", NOWHERE, "no.py", cwd=folder), 2) == (
        f"can't open file '{folder / 'no.py'}': [Errno 2] No such file or directory"
    )
    assert one_line(glremote_("run", "--host", NOWHERE, "-m", "no_such_module")) == "No module named no_such_module"


def test_run_wants_a_host_and_a_program(folder: Path) -> None:
    done = glremote_("run", "arguments.py", cwd=folder)
    assert done.returncode == 2
    assert "--host ws://HOST:PORT, or set GLREMOTE_HOST" in done.stderr
    assert glremote_("run", "arguments.py", cwd=folder, GLREMOTE_HOST=NOWHERE).returncode == 0
    done = glremote_("run", "--host", NOWHERE)
    assert done.returncode == 2
    assert "SCRIPT" in done.stderr
    assert "'gpu-1:8765'" in one_line(glremote_("run", "--host", "gpu-1:8765", "arguments.py", cwd=folder))


# --- run: on a host

RENDER = """
import json, moderngl, sys, glremote
ctx = moderngl.create_context(standalone=True)
framebuffer = ctx.simple_framebuffer((2, 2))
framebuffer.clear(1.0, 0.0, 0.0, 1.0)
print(json.dumps([type(ctx).__module__, glremote.device(ctx).host, framebuffer.read(components=4).hex()]))
"""


def test_run_renders_on_the_host(served: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "render.py").write_text(RENDER)
    (tmp_path / "token").write_text(served.token)
    expected = ["moderngl", served.url, "ff0000ff" * 4]
    done = glremote_("run", "--host", served.url, "--token-file", "token", "render.py", cwd=tmp_path)
    assert json.loads(done.stdout) == expected, done.stderr
    done = glremote_("run", "-m", "render", cwd=tmp_path, GLREMOTE_HOST=served.url, GLREMOTE_TOKEN=served.token)
    assert json.loads(done.stdout) == expected, done.stderr


WINDOW = """
import moderngl, sys
arguments = eval(sys.argv[1])
ctx = getattr(moderngl, arguments.pop("make"))(**arguments)
assert moderngl.get_context() is ctx
if ctx.screen is None:
    ctx.simple_framebuffer((3, 2)).use()
else:
    assert ctx.screen.size == (1280, 720)
    assert (ctx.fbo.mglo, ctx.fbo.glo) == (ctx.screen.mglo, 0)
ctx.clear(0.0, 1.0, 0.0, 1.0)
print(ctx.screen is None, type(ctx.mglo).__module__, ctx.fbo.read((1, 1)).hex())
"""


@pytest.mark.parametrize(
    ("arguments", "standalone"),
    [
        ({"make": "create_context", "standalone": True, "backend": "egl"}, True),
        ({"make": "create_context", "standalone": True}, True),
        ({"make": "create_standalone_context"}, True),
        ({"make": "create_standalone_context", "backend": "egl", "require": 330}, True),
        ({"make": "create_context"}, False),
        ({"make": "create_context", "require": 330}, False),
        ({"make": "get_context"}, False),
    ],
)
def test_run_makes_every_context_on_the_host(
    arguments: dict[str, object], standalone: bool, served: LocalHost, tmp_path: Path
) -> None:
    (tmp_path / "window.py").write_text(WINDOW)
    done = glremote_(
        "run", "--host", served.url, "window.py", repr(arguments), cwd=tmp_path, GLREMOTE_TOKEN=served.token
    )
    assert done.stdout == f"{standalone} glremote.recording.context 00ff00\n", done.stderr


LOGS_EVERYTHING = """
import logging, moderngl
logging.basicConfig(level=logging.DEBUG)
ctx = moderngl.create_context(standalone=True)
print(ctx.buffer(b"four").read())
logging.debug("the program's own")
"""


@pytest.mark.parametrize("near", ["0", "1"])
def test_a_program_s_log_has_nothing_of_the_link(served: LocalHost, tmp_path: Path, near: str) -> None:
    (tmp_path / "logs.py").write_text(LOGS_EVERYTHING)
    given = {"GLREMOTE_TOKEN": served.token, "GLREMOTE_NEAR": near}
    ours = glremote_("run", "--host", served.url, "logs.py", cwd=tmp_path, **given)
    assert (ours.stdout, ours.stderr) == ("b'four'\n", "DEBUG:root:the program's own\n")


FINALISED_AT_THE_END = """
import sys, moderngl
class Recorder:
    def __init__(self):
        self.ctx = moderngl.create_context(standalone=True, backend="egl")
        self.buffer = self.ctx.buffer(b"last")
    def __del__(self):
        self.ctx.finish()
        print(self.buffer.read(), name)
        self.buffer.release()
        self.ctx.release()
name = "the program's"
recorder = Recorder()
if sys.argv[1:2] == ["ring"]:
    recorder.ring = recorder
if sys.argv[2:] == ["fail"]:
    raise ValueError
sys.exit(3)
"""


@pytest.mark.parametrize("how", [["alone"], ["ring"], ["ring", "fail"]])
def test_finalisers_at_the_end_of_the_program(served: LocalHost, tmp_path: Path, how: list[str]) -> None:
    (tmp_path / "ends.py").write_text(FINALISED_AT_THE_END)
    python = [sys.executable, "ends.py", *how]
    plain = subprocess.run(python, cwd=tmp_path, env=command()["env"], capture_output=True, text=True, timeout=DEADLINE)
    ours = glremote_("run", "--host", served.url, "ends.py", *how, cwd=tmp_path, GLREMOTE_TOKEN=served.token)
    assert ours.returncode == plain.returncode
    assert ours.stdout == plain.stdout == "b'last' the program's\n", ours.stderr
    assert "Exception ignored" not in ours.stderr


LIKE_A_WINDOW = """
import moderngl, sys
if sys.argv[1:]:  # plainly: a context that is current, as a window's is
    of_a_window = moderngl.create_context(standalone=True, backend="egl")
    moderngl._store.default_context = None
try:
    moderngl.create_context(require=990)
except ValueError as error:
    print(str(error).partition(", got")[0])
moderngl._store.default_context = None
ctx = moderngl.create_context()
screen = ctx.screen
print(ctx.fbo is screen, ctx.detect_framebuffer().size == ctx.detect_framebuffer(0).size == screen.size)
print(moderngl.get_context() is ctx, ctx.extra, sorted(vars(ctx)), sorted(vars(screen)), sorted(screen.bits))
print(screen.color_attachments, screen.depth_attachment, screen.glo, screen.samples, screen.extra, screen.ctx is ctx)
print(screen.color_mask, screen.depth_mask, screen.scissor == screen.viewport == (0, 0, *screen.size))
print(ctx.viewport == screen.viewport, ctx.fbo.size == screen.size, ctx.mglo.fbo is ctx.fbo.mglo)
screen.release()
print(type(screen.mglo).__name__, ctx.viewport == ctx.fbo.viewport)
moderngl.init_context()
print(moderngl.get_context() is ctx)
for settings in ({"share": True}, {"context": None}):
    try:
        moderngl.create_context(**settings)
    except Exception:
        print("not so")
for standalone in (True, False):
    try:
        moderngl.create_context(standalone=standalone, backend="none")
    except ValueError as error:
        print(error)
"""


TWO_OF_ONE_WINDOW = """
import moderngl, sys
if sys.argv[1:]:
    of_a_window = moderngl.create_context(standalone=True, backend="egl")
    moderngl._store.default_context = None
again = {"context": of_a_window.mglo._context} if sys.argv[1:] else {}
one = moderngl.create_context()
texture = one.texture((2, 2), 4)
fbo = one.framebuffer(texture)
fbo.use()
other = moderngl.create_context(**again)
print(other is one, moderngl.get_context() is other, other.fbo.glo == fbo.glo, other.screen.glo, other.fbo.size)
SHADERS = (
    "#version 330\\nvoid main() { gl_Position = vec4(gl_VertexID % 2 * 4 - 1, gl_VertexID / 2 * 4 - 1, 0, 1); }",
    "#version 330\\nout vec4 color; void main() { color = vec4(0.2, 0.4, 0.6, 0.5); }",
)
program = other.program(*SHADERS)
array = other.vertex_array(program, [])
one.enable_only(moderngl.BLEND)
one.blend_func = moderngl.ONE, moderngl.ONE
for _ in range(2):
    array.render(vertices=3)
print(fbo.read(components=4).hex(), other.fbo.read(components=4) == texture.read())
try:
    moderngl.create_context(require=990, **again)
except ValueError as error:
    print(str(error).partition(", got")[0])
other.release()
print(moderngl._store.default_context, one.buffer(b"1234").read(), fbo.read() != b"", one.error)
one.release()
"""


@pytest.mark.parametrize("script", [LIKE_A_WINDOW, TWO_OF_ONE_WINDOW], ids=("one", "two"))
def test_contexts_are_as_a_window_s(script: str, served: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "window.py").write_text(script)
    python = [sys.executable, "window.py", "plainly"]
    plain = subprocess.run(python, cwd=tmp_path, env=command()["env"], capture_output=True, text=True, timeout=DEADLINE)
    ours = glremote_("run", "--host", served.url, "window.py", cwd=tmp_path, GLREMOTE_TOKEN=served.token)
    assert ours.stdout == plain.stdout != "", ours.stderr + plain.stderr


SIZE = "import moderngl; screen = moderngl.get_context().screen; print(screen.size, len(screen.read()))"


@pytest.mark.parametrize("said", [("--screen", "40x30"), ("--screen=40X30",)])
def test_run_with_a_screen_of_another_size(said: tuple[str, ...], served: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "size.py").write_text(SIZE)
    for program in (("size.py",), ("-m", "size")):
        done = glremote_("run", "--host", served.url, *said, *program, cwd=tmp_path, GLREMOTE_TOKEN=served.token)
        assert done.stdout == "(40, 30) 3600\n", done.stderr


@pytest.mark.parametrize("said", ["", "640", "640x", "0x480", "640x-1", "640x480x3", "6.4x4", "axb", "\u0661x1"])
def test_run_refuses_what_is_no_size(said: str, folder: Path) -> None:
    done = glremote_("run", "--host", NOWHERE, "--screen", said, "arguments.py", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'--screen'" in done.stderr and "give WIDTHxHEIGHT in pixels, as in 1920x1080" in done.stderr


def test_a_screen_that_the_host_cannot_make(served: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "size.py").write_text(SIZE)
    arguments = "run", "--host", served.url, "--screen", "999999x8", "size.py"
    said = one_line(glremote_(*arguments, cwd=tmp_path, GLREMOTE_TOKEN=served.token))
    assert said.startswith(f"{served.url}: a screen of 999999x8 pixels is too large; it has at most ")


def test_run_says_in_one_line_why_there_is_no_context(served: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "render.py").write_text(RENDER)
    assert f"{NOWHERE}: no host answers" in one_line(glremote_("run", "--host", NOWHERE, "render.py", cwd=tmp_path))
    none = glremote_("run", "--host", served.url, "render.py", cwd=tmp_path)
    assert f"{served.url}: a token is needed" in one_line(none)
    wrong = glremote_("run", "--host", served.url, "render.py", cwd=tmp_path, GLREMOTE_TOKEN="wrong")
    assert f"{served.url}: the token is not this host's" in one_line(wrong)


def test_a_host_that_is_lost_in_the_middle_keeps_its_traceback(tmp_path: Path) -> None:
    lose = "import os; os.kill(int(sys.argv[1]), 9)\nwhile True:\n    framebuffer.read()  # here\n"
    (tmp_path / "lost.py").write_text(RENDER + lose)
    with LocalHost("--grace", "0.1") as host:
        arguments = "run", "--host", host.url, "lost.py", str(host.pid)
        done = glremote_(*arguments, cwd=tmp_path, GLREMOTE_TOKEN=host.token)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "framebuffer.read()  # here" in done.stderr
    assert "DeviceLost: " in done.stderr.splitlines()[-1]


# --- gallery, and the host that it starts


def test_gallery_starts_a_host_and_prints_the_page_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def make_gallery(out: Path, url: str, token: str, progress: Any, ca: None, pin: None) -> Path:
        seen.append(url)
        progress(0, 1, "triangle")
        connect(url, token).close()
        progress(1, 1, "")
        return out / "index.html"

    monkeypatch.setattr("glremote.gallery.make_gallery", make_gallery)
    monkeypatch.delenv("GLREMOTE_HOST", raising=False)
    result = CliRunner().invoke(cli.commands, ["gallery", "--out", str(tmp_path)], catch_exceptions=False)
    assert result.stdout == f"{tmp_path / 'index.html'}\n"
    with pytest.raises(glremote.HostUnreachable):
        connect(seen[0])


def test_gallery_says_what_went_wrong(tmp_path: Path) -> None:
    done = glremote_("gallery", "--host", NOWHERE, "--out", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"glremote: {NOWHERE}: no host answers" in done.stderr


def test_a_local_host_that_cannot_start_says_why() -> None:
    local_host = LocalHost("--bind", "192.0.2.1", "--insecure")
    with pytest.raises(glremote.HostUnreachable, match=r"192\.0\.2\.1 is no address"), local_host:
        pass


def test_a_local_host_ends_with_whoever_started_it() -> None:
    code = (
        "import os, sys; from glremote.host.serving import LocalHost\n"
        "with LocalHost() as host:\n    print(host.url, host.token, flush=True); sys.stdin.read()"
    )
    starter = subprocess.Popen(
        [sys.executable, "-P", "-c", code], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    url, token = starter.stdout.readline().split()
    link = connect(url, token)
    starter.kill()
    starter.communicate()
    with pytest.raises(Exception, match="closed"):
        while True:
            link.receive(DEADLINE)
    link.close()
    assert not os.path.exists(f"/proc/{starter.pid}")
