"""The client imports and works where there is no memfd, no Unix socket, no fork and no EGL: on Windows and on macOS.

A child process takes away what such a system lacks before it imports glremote; then it renders on a host, which is an
ordinary one, over a websocket.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from glremote.host.serving import LocalHost, environment

HIDE = '''
import os, select, socket, sys

class Hidden:
    """Modules that this system does not have."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"no module named {name!r} on this system", name=name)

def hide(modules, **names):
    for name in modules:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Hidden(modules))
    for module, attributes in names.items():
        for name in attributes:
            vars(sys.modules[module]).pop(name, None)

def pair(*_):
    """socket.socketpair as it is where there are no Unix sockets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]
'''

MACOS = '''
hide(["glcontext.egl", "glcontext.x11"], os=["memfd_create", "MFD_CLOEXEC", "MFD_ALLOW_SEALING", "posix_fallocate"],
     select=["epoll"], socket=["SO_PEERCRED"])
'''

WINDOWS = '''
hide(["glcontext.egl", "glcontext.x11", "fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"],
     os=["memfd_create", "MFD_CLOEXEC", "MFD_ALLOW_SEALING", "posix_fallocate", "fork", "forkpty", "register_at_fork",
         "getuid", "geteuid", "setsid", "getppid", "fchmod", "mkfifo", "killpg"],
     select=["epoll", "poll"],
     socket=["AF_UNIX", "send_fds", "recv_fds", "SO_PEERCRED", "SCM_RIGHTS", "CMSG_LEN"])
socket.socketpair = pair
'''

RENDER = '''
import glremote, moderngl

ctx = glremote.create_context(sys.argv[1])
assert isinstance(ctx, moderngl.Context) and glremote.device(ctx).remote
framebuffer = ctx.simple_framebuffer((2, 2))
framebuffer.clear(1.0, 0.2, 0.0, 1.0)
assert framebuffer.read() == bytes((255, 51, 0)) * 4, framebuffer.read()
assert glremote.read_async(ctx.buffer(b"far away")).result() == b"far away"
image = glremote.image(framebuffer)
assert image.size == (2, 2) and image.getpixel((1, 1))[:3] == (255, 51, 0)
ctx.release()
print("rendered")
'''

UNREACHABLE = '''
import glremote

try:
    glremote.create_context(sys.argv[1], token="a token")
except glremote.HostUnreachable as error:
    assert sys.argv[1] in str(error), error
    print("unreachable")
'''

NO_EGL = '''
import glremote

try:
    glremote.create_context("local")
except Exception as error:
    print("no context here:", type(error).__name__)
'''

IMPORTED = '''
import glremote, glremote.cli, glremote.running

for name in ("asyncio", "uvloop", "glremote.host", "rich", "PIL.ImageShow"):
    assert name not in sys.modules, f"a client has no use for {name}"
print("imported")
'''

systems = pytest.mark.parametrize("system", [MACOS, WINDOWS], ids=["macOS", "Windows"])


def run(script: str, *arguments: str, token: str | None = None) -> str:
    """The last line that a script prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, *arguments],
        env=environment(token) | {"GLREMOTE_NEAR": "0"},  # as on another machine, where no path leads past the gateway
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().rpartition("\n")[2]


@systems
def test_a_client_renders_on_a_host(system: str, served: LocalHost) -> None:
    assert run(HIDE + system + RENDER, served.url, token=served.token) == "rendered"


@systems
def test_a_host_that_is_not_there(system: str) -> None:
    assert run(HIDE + system + UNREACHABLE, "ws://127.0.0.1:1") == "unreachable"


@systems
def test_a_local_context_is_refused_in_the_systems_own_words(system: str) -> None:
    assert run(HIDE + system + NO_EGL).startswith("no context here: ")


@systems
def test_a_client_imports_what_it_needs(system: str) -> None:
    assert run(HIDE + system + IMPORTED) == "imported"
