"""The worker's walls, from within: real workers that try what they must not, and that draw what they are to draw."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import moderngl
import numpy as np
import pytest

import glremote
from glremote.host import walls
from glremote.host.gateway.tokens import digest
from glremote.host.gateway.workers import resident
from glremote.host.serving import LocalHost, environment
from tests.processes import children

DEADLINE = 30.0
"""Seconds after which something that must happen is held not to."""

HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h")
ON_X86 = platform.machine() == "x86_64"

pytestmark = pytest.mark.skipif(bool(walls.missing()), reason=f"this machine lacks walls: {walls.missing()}")

PROGRAM = """
import ctypes, json, os, signal, socket, subprocess, sys, threading
from pathlib import Path
from glremote.host import process, worker

given, attempts = json.loads(sys.argv.pop())
library = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    # A system call by its number on x86_64, past all wrappers; raises what it says.
    outcome = library.syscall(ctypes.c_long(number), *(
        ctypes.c_long(a) if isinstance(a, int) else a for a in arguments
    ))
    if outcome < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return outcome

def try_all(self):
    for what, attempt in attempts.items():
        try:
            said = ["done", repr(eval(attempt))]
        except OSError as error:
            said = [type(error).__name__, error.errno]
        print(json.dumps([what, said]), flush=True)
    os._exit(0)

worker.Worker.run = try_all  # where it would take its client's first byte
sys.exit(process.main(sys.argv[1:]))
"""

Outcomes = dict[str, list[Any]]
"""By what was tried: "done" and what came of it, or an OSError's name and number."""


def within(cache: Path | None, attempts: dict[str, str], /, **given: Any) -> Outcomes:
    """Evaluate expressions in a worker process, where it would begin to serve; without a cache it has no walls."""
    ours, theirs = socket.socketpair()
    settings = ["--fd", str(theirs.fileno()), *([] if cache is None else ["--cache", str(cache)])]
    with ours, theirs:
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM, *settings, json.dumps([given, attempts])],
            pass_fds=[theirs.fileno()], env=environment() | walls.SINGLE_THREADED, capture_output=True,
            text=True, timeout=DEADLINE, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines()))


# --- what is refused

FILES = {
    "write in /tmp": "Path('/tmp/glremote-was-here').write_bytes(b'x')",
    "write in the home": "Path(given['home'], 'glremote-was-here').write_bytes(b'x')",
    "write in another token's cache": "Path(given['other'], 'file').write_bytes(b'x')",
    "write over a file": "Path(given['file']).write_bytes(b'x')",
    "append to a file": "open(given['file'], 'ab').write(b'x')",
    "cut a file short": "os.truncate(given['file'], 0)",
    "cut a file short by opening": "os.open(given['file'], os.O_RDONLY | os.O_TRUNC)",
    "delete a file": "os.unlink(given['file'])",
    "rename a file": "os.rename(given['file'], given['file'] + '2')",
    "change a file's mode": "os.chmod(given['file'], 0o777)",
    "change a file's times": "os.utime(given['file'])",
    "change a file's attributes": "os.setxattr(given['file'], 'user.x', b'x')",
    "move a file into the cache": "os.rename(given['file'], given['cache'] + '/file')",
    "link a file into the cache": "os.link(given['file'], given['cache'] + '/file')",
    "make a symbolic link": "os.symlink('/etc', given['cache'] + '/link')",
    "make a folder": "os.mkdir('/tmp/glremote-was-here')",
    "write in shared memory": "open('/dev/shm/glremote-was-here', 'w')",
    "read another token's cache": "Path(given['other'], 'secret').read_bytes()",
    "list another token's cache": "os.listdir(given['other'])",
    "read a file of the user's": "Path(given['file']).read_bytes()",
    "list the home": "os.listdir(given['home'])",
    "list /tmp": "os.listdir('/tmp')",
    "read the passwords": "open('/etc/shadow').read()",
    "read what another process was told": "open(f'/proc/{given[\"process\"]}/environ', 'rb').read()",
    "read another process's memory as a file": "open(f'/proc/{given[\"process\"]}/mem', 'rb').read(1)",
    "see another process's files": "os.listdir(f'/proc/{given[\"process\"]}/fd')",
}
CALLS = {
    "a socket to an address": "socket.create_connection(('127.0.0.1', given['port']), 5)",
    "a socket of the internet": "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
    "a socket of the internet's sixth version": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
    "a socket on this machine": "socket.socket(socket.AF_UNIX)",
    "a socket to the kernel": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "connecting what is there": "socket.socketpair()[0].connect('\\0glremote-nobody')",
    "a socket by io_uring": "call(425, 8, ctypes.create_string_buffer(120))",
    "a program": "os.execv('/bin/true', ['true'])",
    "a program by a descriptor": "os.execve(os.open('/bin/true', os.O_RDONLY), ['true'], {})",
    "a child": "os.fork()",
    "a child by its call": "call(57)",
    "a child by vfork": "call(58)",
    "a child by clone": "call(56, signal.SIGCHLD, 0, 0, 0, 0)",
    "a child that is a program": "subprocess.run(['/bin/true'])",
    "a child by posix_spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "a namespace": "call(272, 0x10000000)",
    "ptrace": "call(101, 16, given['process'], 0, 0)",
    "reading another process's memory": (
        "call(310, given['process'], (ctypes.c_void_p * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8), 1,"
        " (ctypes.c_void_p * 2)(given['address'], 8), 1, 0)"
    ),
    "writing another process's memory": (
        "call(311, given['process'], (ctypes.c_void_p * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8), 1,"
        " (ctypes.c_void_p * 2)(given['address'], 8), 1, 0)"
    ),
    "another process's descriptors": "call(438, 0, 0, 0)",
    "a handle of another process": "os.pidfd_open(given['process'])",
    "a signal": "os.kill(given['process'], 0)",
    "a signal to a thread of another": "call(234, given['process'], given['process'], 0)",
    "limits of another process": "call(302, given['process'], 7, 0, ctypes.create_string_buffer(16))",
    "outliving the gateway": "call(157, 1, 0)",
    "mounting": "call(165, b'none', b'/mnt', b'tmpfs', 0, 0)",
    "memory under a key": "call(29, 0x1234, 4096, 0o1600)",
}
BY_NUMBER = [what for what, body in CALLS.items() if body.startswith("call(")]


WITHOUT_HARM = (
    "write in another token's cache", "write over a file", "cut a file short", "change a file's mode",
    "make a symbolic link", "read another token's cache", "read a file of the user's", "list /tmp",
    "read what another process was told", "a socket to an address", "a socket of the internet",
    "a socket on this machine", "a child that is a program", "reading another process's memory", "a signal",
    "a handle of another process",
)  # fmt: skip
"""What can be tried without walls too, to see that it is these that hold."""


class Attempted(NamedTuple):
    """What everything came to: with walls, and without."""

    walled: Outcomes
    free: Outcomes


@pytest.fixture(scope="module")
def attempted(tmp_path_factory: pytest.TempPathFactory) -> Attempted:
    """Every attempt, made in one worker with walls; and those without harm in one without."""
    folder = tmp_path_factory.mktemp("walls")
    cache, other = walls.cache_folder(folder, "a token"), walls.cache_folder(folder, "another token")
    (other / "secret").write_bytes(b"native code")
    (file := folder / "file").write_bytes(b"kept")
    memory = ctypes.create_string_buffer(b"a secret", 8)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        given = {
            "home": os.path.expanduser("~"), "other": str(other), "file": str(file), "cache": str(cache),
            "process": os.getpid(), "address": ctypes.addressof(memory), "port": listening.getsockname()[1],
        }  # fmt: skip
        walled = within(
            cache, FILES | (CALLS if ON_X86 else {w: b for w, b in CALLS.items() if "call(" not in b}), **given
        )
        assert file.read_bytes() == b"kept"
        assert [path.name for path in other.iterdir()] == ["secret"]
        assert memory.raw == b"a secret"
        harmless = {
            what: (FILES | CALLS)[what] for what in WITHOUT_HARM if ON_X86 or "call(" not in CALLS.get(what, "")
        }
        free = within(None, harmless, **given)
    return Attempted(walled, free)


@pytest.mark.parametrize("what", FILES)
def test_files_are_out_of_reach(attempted: Attempted, what: str) -> None:
    _, number = attempted.walled[what]
    assert number in ((errno.EXDEV, errno.EACCES) if what.endswith("into the cache") else (errno.EACCES, errno.EPERM))


@pytest.mark.parametrize("what", CALLS)
def test_calls_that_lead_outside_are_refused(attempted: Attempted, what: str) -> None:
    if "call(" in CALLS[what] and not ON_X86:
        pytest.skip("its number is another on this processor")
    assert attempted.walled[what] == ["PermissionError", errno.EPERM]


@pytest.mark.parametrize("what", WITHOUT_HARM)
def test_it_is_the_walls_that_refuse(attempted: Attempted, what: str) -> None:
    if what not in attempted.free:
        pytest.skip("its number is another on this processor")
    assert attempted.free[what][0] == "done"


# --- what is let through

ALLOWED = {
    "all threads": "{line for task in Path('/proc/self/task').iterdir()"
    " for line in (task / 'status').read_text().splitlines() if line.startswith(('Seccomp:', 'NoNewPrivs:'))}",
    "threads": "[t.start() or t.join() for t in [threading.Thread(target=got.append, args=(1,))]] and got",
    "writing": "Path(given['cache'], 'file').write_bytes(b'native code')",
    "a folder": "Path(given['cache'], 'folder').mkdir()",
    "renaming": "os.rename(given['cache'] + '/file', given['cache'] + '/other')",
    "reading back": "Path(given['cache'], 'other').read_bytes()",
    "deleting": "os.unlink(given['cache'] + '/other')",
    "importing": "__import__('wave').__name__",
    "itself": "len(Path('/proc/self/statm').read_text()) > 0",
    "where its home is": "os.path.expanduser('~') == given['cache']",
}


def test_what_a_session_needs_goes_on(tmp_path: Path) -> None:
    cache = walls.cache_folder(tmp_path, "a token")
    got = within(cache, {"got": "globals().update(got=[])"} | ALLOWED, cache=str(cache))
    assert {what: said for what, said in got.items() if said[0] != "done"} == {}
    assert got["threads"][1] == "[1]"
    assert got["reading back"][1] == repr(b"native code")
    assert got["where its home is"][1] == "True"
    assert eval(got["all threads"][1]) == {"Seccomp:\t2", "NoNewPrivs:\t1"}
    assert list(cache.glob("o*")) == []


def test_what_is_installed_beside_python_is_imported_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `pip install --target` installs it; a folder on the path that nothing was installed into stays closed."""
    for folder, module in ("site", "installed"), ("home", "private"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{module}.py").write_text("")
        monkeypatch.syspath_prepend(tmp_path / folder)
    (tmp_path / "site" / "installed-1.0.dist-info").mkdir()
    cache = walls.cache_folder(tmp_path, "a token")
    tried = {name: f"__import__('{name}').__name__" for name in ("installed", "private")}
    got = within(cache, tried | {"read": "Path(given['file']).read_text()"}, file=str(tmp_path / "home/private.py"))
    refused = ["PermissionError", errno.EACCES]
    assert got == {"installed": ["done", "'installed'"], "private": refused, "read": refused}


def test_walls_that_cannot_be_put_up_are_an_error_that_says_so(tmp_path: Path) -> None:
    """Landlock would not hold for a thread that has begun."""
    program = (
        "import sys, threading; from glremote.host import process\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "sys.exit(process.main(sys.argv[1:]))"
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            [sys.executable, "-P", "-c", program, "--fd", str(theirs.fileno()), "--cache", str(tmp_path)],
            pass_fds=[theirs.fileno()],
            env=environment() | walls.SINGLE_THREADED,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
    assert done.returncode == 4
    assert "could not be put up: Landlock would not hold for 1 threads" in done.stderr
    assert "--no-walls" in done.stderr


@pytest.mark.parametrize("column", [0, 1])
def test_the_numbers_are_linuxs(column: int) -> None:
    """Some calls are newer than a system's header; what it has not, aarch64 has not either."""
    header = Path(HEADERS[column])
    if not header.exists():
        pytest.skip("this system has no headers")
    lines = (line.split() for line in header.read_text().splitlines())
    known = {words[1][5:]: int(words[2]) for words in lines if len(words) == 3 and words[2].isdecimal()}
    table = {name: numbers[column] for name, numbers in (walls._FORBIDDEN | walls._SEEN_TO).items()}
    assert {name: table[name] for name in table if name in known} == {
        name: known[name] for name in table if name in known
    }
    assert {name for name, number in table.items() if number == -1}.isdisjoint(known)
    assert sum(number != -1 and name not in known for name, number in table.items()) < 8


# --- the cache folder


def test_folders_of_two_tokens_differ_and_are_their_users_alone(tmp_path: Path) -> None:
    one, two = (walls.cache_folder(tmp_path / "caches", token) for token in ("one", "two"))
    assert one != two
    assert walls.cache_folder(tmp_path / "caches", "one") == one
    assert [path.stat().st_mode & 0o777 for path in (one, two)] == [0o700, 0o700]
    assert "one" not in str(one.name)


def test_what_is_oldest_is_taken_out_of_a_cache_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for number in range(10):
        (path := tmp_path / "deep" / str(number)).write_bytes(bytes(8192))
        os.utime(path, (number, number))
    (tmp_path / "deep" / "link").symlink_to("/etc/passwd")
    assert walls.trim(tmp_path, 12 * 8192) == 0
    assert walls.trim(tmp_path, 5 * 8192) >= 5
    assert not (tmp_path / "deep" / "4").exists()
    assert (tmp_path / "deep" / "9").exists()
    assert Path("/etc/passwd").exists()


def test_files_without_bytes_count_too(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).touch()
    assert walls.trim(tmp_path, 5 * walls.FILE_COST) == 5


# --- within the walls it draws as ever


def picture(ctx: moderngl.Context) -> bytes:
    """Something that has the driver compile, draw, compute and read."""
    program = ctx.program(
        vertex_shader="""#version 330
            in vec2 at; out vec2 place; void main() { place = at; gl_Position = vec4(at, 0.0, 1.0); }""",
        fragment_shader="""#version 330
            in vec2 place; out vec4 colour;
            void main() { colour = vec4(sin(place * 40.0), place.x * place.y, 1.0); }""",
    )
    compute = ctx.compute_shader("""#version 430
        layout(local_size_x=64) in; layout(std430, binding=0) buffer Data { float data[]; };
        void main() { data[gl_GlobalInvocationID.x] = sqrt(float(gl_GlobalInvocationID.x)); }""")
    data = ctx.buffer(reserve=4096 * 4)
    data.bind_to_storage_buffer(0)
    compute.run(64)
    corners = ctx.buffer(np.array([-1, -1, 1, -1, -1, 1, 1, 1], "f4"))
    target = ctx.simple_framebuffer((320, 200), 4)
    target.use()
    ctx.vertex_array(program, corners, "at").render(moderngl.TRIANGLE_STRIP)
    pixels: bytes = target.read(components=4) + data.read()
    return pixels


@pytest.fixture(scope="module")
def host() -> Iterator[LocalHost]:
    """A host that starts a worker for a session, and no others."""
    with LocalHost("--warm", "0") as host:
        yield host


@pytest.mark.parametrize("require", [330, 430])  # the worker has one of 330, and makes the other within its walls
@pytest.mark.parametrize("near", [True, False])
def test_pictures_are_those_of_plain_moderngl(
    new_context: Callable[..., moderngl.Context],
    monkeypatch: pytest.MonkeyPatch,
    host: LocalHost,
    near: bool,
    require: int,
) -> None:
    expected = picture(new_context("plain", 430))
    monkeypatch.setenv("GLREMOTE_NEAR", "1" if near else "0")
    ctx = glremote.create_context(host.url, token=host.token, require=require)
    device = glremote.device(ctx)
    assert isinstance(device, glremote.RemoteDevice)
    assert device.near == near
    worker = Path(f"/proc/{max(children(host.pid))}/status").read_text()
    assert "Seccomp:\t2" in worker
    assert picture(ctx) == expected
    ctx.release()


def test_a_driver_keeps_its_code_in_the_tokens_folder(tmp_path: Path) -> None:
    with LocalHost("--cache", str(tmp_path / "caches")) as host:
        ctx = glremote.create_context(host.url, token=host.token, require=430)
        picture(ctx)
        ctx.release()
        folder = walls.cache_folder(tmp_path / "caches", digest(host.token))
    assert list((tmp_path / "caches").glob("token-*")) == [folder]
    assert any(path.is_file() for path in folder.rglob("*"))


def test_without_walls_where_they_are_not_wanted() -> None:
    with LocalHost("--no-walls", "--warm", "1") as host:
        glremote.create_context(host.url, token=host.token).release()
        assert "workers have no walls" in host.said()
        assert all("Seccomp:\t0" in Path(f"/proc/{p}/status").read_text() for p in children(host.pid))


# --- memory


@pytest.mark.parametrize("near", ["1", "0"])
def test_a_worker_that_holds_too_much_memory_ends_its_session_alone(near: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLREMOTE_NEAR", near)
    with LocalHost("--worker-memory", "700") as host:
        ctx, other = (glremote.create_context(host.url, token=host.token) for _ in range(2))
        kept = other.buffer(b"abc")
        with pytest.raises(glremote.DeviceLost, match=r"held \d+ MB of memory, and may hold 700; .*--worker-memory"):
            hold_ever_more(ctx)
        assert kept.read() == b"abc"
        other.release()


def hold_ever_more(ctx: moderngl.Context) -> None:
    """Two thousand million bytes at most, written so that they are held."""
    held = []
    for _ in range(125):
        held.append(ctx.buffer(b"x" * 16_000_000))
        held[-1].read(4)
        time.sleep(0.05)


def test_how_much_a_process_holds() -> None:
    before = resident(os.getpid())
    held = b"x" * 50_000_000
    assert 40_000_000 < resident(os.getpid()) - before < 80_000_000
    del held
    assert resident(1 << 30) == 0


# --- what is not there is said


def test_a_system_without_walls_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    (line,) = walls.missing()
    assert "riscv64" in line
    monkeypatch.setattr(sys, "platform", "darwin")
    (line,) = walls.missing()
    assert "darwin has neither" in line


def test_a_kernel_that_refuses_is_told_of() -> None:
    """One without Landlock and seccomp, as a process sees it that may not use them: it forbids itself both first."""
    program = (
        "import ctypes; from glremote.host import walls\n"
        "walls._FORBIDDEN.update(landlock_create_ruleset=(444, 444), seccomp=(317, 277))\n"
        "assert walls.forbid_calls()\n"
        "print(*walls.missing(), sep='\\n')\n"
        "print(walls.forbid_calls())"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], env=environment(), capture_output=True, text=True)
    assert done.stderr == ""
    landlock, seccomp, again = done.stdout.splitlines()
    assert landlock.startswith("this kernel has no Landlock (Operation not permitted)")
    assert seccomp.startswith("seccomp is not to be had (Operation not permitted)")
    assert again == "False"
