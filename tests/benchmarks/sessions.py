"""Many programs on one host at once: frames of all together, how they are shared, and what an idle session takes.

`python -m tests.benchmarks.sessions`, or `make bench-sessions`. Each program is a process of its own that draws and
reads a small frame as often as it can, for the same seconds as the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import click
import moderngl
from rich.console import Console
from rich.table import Table

import glremote
from glremote.host.serving import LocalHost

COUNTS = (1, 8, 32)
READY = b"ready\n"


def work(url: str) -> None:
    """One program: says that it is ready, waits for two times, works from the first to the second, tells how often.

    Without a URL it works in plain moderngl.
    """
    ctx = glremote.create_context(url) if url else moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
    fbo = ctx.simple_framebuffer((128, 128))
    fbo.use()
    triangle = ctx.vertex_array(
        ctx.program(
            vertex_shader="#version 330\nvoid main() { gl_Position = vec4(gl_VertexID % 2, gl_VertexID / 2, 0, 1); }",
            fragment_shader="#version 330\nout vec4 color; void main() { color = vec4(1); }",
        ),
        [],
    )
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    begin, end = json.loads(sys.stdin.readline())
    time.sleep(max(0.0, begin - time.time()))
    frames = 0
    while time.time() < end:
        fbo.clear()
        triangle.render(moderngl.TRIANGLES, 3)
        fbo.read()
        frames += 1
    print(frames, flush=True)
    ctx.release()


def measure(url: str, token: str, count: int, seconds: float) -> list[int]:
    """Frames of each of so many programs at once."""
    environment = {**os.environ, "GLREMOTE_TOKEN": token}
    command = [sys.executable, "-m", __spec__.name if __spec__ else "tests.benchmarks.sessions", "--work", url]
    with contextlib.ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        children = [
            stack.enter_context(subprocess.Popen(command, env=environment, **pipes))  # type: ignore[call-overload]
            for _ in range(count)
        ]
        for child in children:
            if child.stdout.readline() != READY:
                raise click.ClickException("a program did not get its context")
        begin = time.time() + 1.0
        for child in children:
            child.stdin.write(json.dumps([begin, begin + seconds]).encode() + b"\n")
            child.stdin.flush()
        return [int(child.stdout.readline()) for child in children]


def idle_megabytes(url: str, token: str, count: int) -> tuple[float, float]:
    """What a session that does nothing takes: near, and over the websocket. What several share counts once."""
    found = []
    for near in (True, False):
        contexts = [glremote.create_context(url, token=token, near=near) for _ in range(count)]
        for ctx in contexts:
            ctx.finish()
        found.append(sum(_proportional(process) for process in _workers()) / max(1, len(_workers())))
        for ctx in contexts:
            ctx.release()
        time.sleep(0.5)
    return found[0], found[1]


def _workers() -> list[Path]:
    """The processes of sessions, and those that wait for one; Linux only."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"glremote.host.process" in (process / "cmdline").read_bytes():
                found.append(process)
    return found


def _proportional(process: Path) -> float:
    """Megabytes of a process: its own pages, and its share of the others (proc(5), Pss)."""
    for line in (process / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


@click.command()
@click.option("--seconds", type=float, default=5.0, show_default=True, help="How long each count of programs works.")
@click.option("--work", "url", hidden=True)
def main(seconds: float, url: str | None) -> None:
    """Measure 1, 8 and 32 programs at once: plain ones, and on a host of this machine."""
    if url is not None:
        work(url)
        return
    table = Table(caption="frames a second of all programs, and the slowest program's as a share of the mean's")
    for name in ("programs", "plain", "slowest", "on a host", "slowest"):
        table.add_column(name, justify="right")
    with LocalHost("--max-sessions", str(max(COUNTS) + 8)) as host:
        for count in COUNTS:
            row = [str(count)]
            for url in ("", host.url):
                frames = measure(url, host.token, count, seconds)
                row += [f"{sum(frames) / seconds:.0f}", f"{min(frames) * count / sum(frames):.0%}"]
            table.add_row(*row)
        near, far = idle_megabytes(host.url, host.token, 8)
    console = Console()
    console.print(table)
    console.print(f"a session that does nothing takes {near:.0f} MB near, and {far:.0f} MB over the websocket")


if __name__ == "__main__":
    main()
