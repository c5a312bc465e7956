"""How programs end, that have contexts on several hosts and here: nothing is left at a host, and nobody is warned."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from glremote.host.serving import LocalHost, environment
from glremote.hosts import Host, add
from glremote.link.asking import ask

MOMENT = 30.0
"""Seconds within which a host has freed everything; its grace is longer."""

BEGIN = """
import atexit, gc, multiprocessing, os, signal, sys, threading, time, warnings
import glremote
warnings.filterwarnings("ignore", message="the context is on this machine")
names = sys.argv[1:]
made = [glremote.create_context(device=name) for name in (*names, *names, "local")]
assert sorted(glremote.device(ctx).remote for ctx in made) == [False] + [True] * 4
buffers = [ctx.buffer(b"four") for ctx in made]
print("made", flush=True)
"""
ENDINGS = {
    "falls off its end": "",
    "exits": "sys.exit(3)",
    "raises": "def f(ctx, buffer):\n    raise ValueError\nf(made[0], buffers[0])",
    "is interrupted": "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)",
    "is terminated, and says so": "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nsignal.raise_signal(15)",
    "releases some": "made[0].release()\nmade[3].release()\nbuffers[1].release()",
    "forgets them": "del made[:], buffers[:]\ngc.collect()",
    "has answers on their way": "futures = [glremote.read_async(buffer) for buffer in buffers]",
    "draws when it is told of its end": """
@atexit.register
def last():
    print(*(buffer.read() for buffer in buffers))
""",
    "draws in finalisers, in rings": """
class Ring:
    def __init__(self, ctx, buffer):
        self.ctx, self.buffer, self.ring = ctx, buffer, self
    def __del__(self):
        assert self.buffer.read() == b"four"
        self.buffer.release()
        self.ctx.release()
rings = [Ring(*both) for both in zip(made, buffers)]
del made, buffers
""",
    "keeps them in another module": """
import types
other = sys.modules["other"] = types.ModuleType("other")
other.made, other.buffers = made, buffers
class Kept: contexts = made
glremote.kept = Kept
del made, buffers
""",
    "draws in a thread that ends later": """
def draw():
    time.sleep(0.5)
    print(*(buffer.read() for buffer in buffers[:4]))
threading.Thread(target=draw).start()
""",
    "draws in a thread that is left": """
def draw(buffer):
    try:
        while True:
            buffer.read()
    except glremote.Error:
        pass
for buffer in buffers[:4]:
    threading.Thread(target=draw, args=(buffer,), daemon=True).start()
time.sleep(0.2)
""",
    "draws in threads that are left, and looks at nothing": """
def draw(ctx, buffer):
    while True:
        buffer.write(b"more")
        assert glremote.read_async(buffer).result() == buffer.read() == b"more"
for both in zip(made[:4], buffers):
    threading.Thread(target=draw, args=both, daemon=True).start()
time.sleep(0.2)
""",
    "makes contexts in threads that are left": """
def make(name):
    while True:
        ctx = glremote.create_context(device=name)
        ctx.buffer(b"four").read()
        ctx.release()
for name in names * 3:
    threading.Thread(target=make, args=(name,), daemon=True).start()
time.sleep(0.5)
""",
    "writes much in finalisers": """
class Last:
    def __init__(self, ctx):
        self.buffer = ctx.buffer(reserve=16 << 20)
    def __del__(self):
        self.buffer.write(bytes(range(16)) * (1 << 20))
        assert self.buffer.read(4, offset=64) == bytes(range(4))
last = [Last(ctx) for ctx in made]
""",
    "has asked for devices": """
glremote.instance().associate("ws://127.0.0.1:9", name="nobody")
assert len(glremote.instance().devices()) >= 3
""",
}
STATUS = {"exits": 3, "raises": 1, "is interrupted": -2}


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[LocalHost, LocalHost]]:
    """Two hosts with nobody else on them."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(LocalHost("--warm", "2")), stack.enter_context(LocalHost("--warm", "2"))


@pytest.mark.parametrize("how", ENDINGS)
def test_a_program_that(how: str, two: tuple[LocalHost, LocalHost], tmp_path: Path) -> None:
    for host, name in zip(two, ("one", "two"), strict=True):
        add(tmp_path / "hosts.toml", Host(host.url, name, host.token))
    (tmp_path / "program.py").write_text(BEGIN + ENDINGS[how])
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "program.py", "one", "two"],
        env=environment() | {"GLREMOTE_HOSTS": str(tmp_path / "hosts.toml")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout.startswith("made\n"), done.stderr
    assert done.returncode == STATUS.get(how, 0), done.stderr
    assert "Warning" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr
    expected = {"raises": "ValueError", "is interrupted": "KeyboardInterrupt"}.get(how, "")
    assert done.stderr.strip().rpartition("\n")[2] == expected, done.stderr
    if how.startswith("draws when") or how.endswith("ends later"):
        assert done.stdout.split()[1:] == ["b'four'"] * (4 if how.endswith("later") else 5)
    deadline = time.monotonic() + MOMENT
    while any(ask(host.url, host.token).report.sessions for host in two):
        assert time.monotonic() < deadline, "sessions are left"
        time.sleep(0.05)
