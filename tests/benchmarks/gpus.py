"""Two programs on one GPU and on two: the pictures that they draw in a second.

`python -m tests.benchmarks.gpus`, or `make bench-gpus`, on a machine with two GPUs. The host spreads the programs. Each
is a process of its own, bound by its GPU: it draws a picture that takes some milliseconds, and reads one pixel of it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from typing import TextIO
from urllib.parse import urlsplit

import click
import moderngl
from rich.console import Console
from rich.table import Table

import glremote
from glremote.host.serving import LocalHost
from glremote.protocol.devices import HostReport, decode

from .sessions import READY

SIZE = (1024, 1024)
VERTEX = "#version 330\nvoid main() { gl_Position = vec4(gl_VertexID % 2 * 4 - 1, gl_VertexID / 2 * 4 - 1, 0, 1); }"
FRAGMENT = """
#version 330
uniform float time;
uniform int steps;
out vec4 pixel;
void main() {
    vec2 z = vec2(0), c = gl_FragCoord.xy / 512 - vec2(1.5, 1) + 0.0001 * time;
    for (int i = 0; i < steps; ++i) {
        z = vec2(z.x * z.x - z.y * z.y, 2 * z.x * z.y) + c;
        z = mix(z, sin(z), step(4, dot(z, z)));
    }
    pixel = vec4(fract(z), 0, 1);
}
"""


def work(url: str, steps: int) -> None:
    """One program: says that it is ready, waits for two times, draws from the first to the second, tells how often."""
    ctx = glremote.create_context(url)
    fbo = ctx.simple_framebuffer(SIZE)
    fbo.use()
    program = ctx.program(vertex_shader=VERTEX, fragment_shader=FRAGMENT)
    program["steps"] = steps
    everywhere = ctx.vertex_array(program, [])
    everywhere.render(moderngl.TRIANGLES, 3)
    fbo.read((0, 0, 1, 1))
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    begin, end = json.loads(sys.stdin.readline())
    time.sleep(max(0.0, begin - time.time()))
    frames = 0
    while time.time() < end:
        program["time"] = frames
        everywhere.render(moderngl.TRIANGLES, 3)
        fbo.read((0, 0, 1, 1))
        frames += 1
    print(frames, flush=True)
    ctx.release()


def report(host: LocalHost) -> HostReport:
    """What the host tells of its devices."""
    address = urlsplit(host.url)
    with contextlib.closing(http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)) as connection:
        connection.request("GET", "/devices", headers={"Authorization": f"Bearer {host.token}"})
        return decode(connection.getresponse().read())


def measure(host: LocalHost, count: int, seconds: float, steps: int) -> tuple[float, list[int]]:
    """Pictures a second of so many programs together, and how many of them were on each device."""
    environment = {**os.environ, "GLREMOTE_TOKEN": host.token}
    command = [sys.executable, "-m", "tests.benchmarks.gpus", "--work", host.url, "--steps", str(steps)]
    with contextlib.ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        children = [
            stack.enter_context(subprocess.Popen(command, env=environment, **pipes))  # type: ignore[call-overload]
            for _ in range(count)
        ]
        for child in children:
            if child.stdout.readline() != READY:
                raise click.ClickException("a program did not get its context")
        begin = time.time() + 0.5
        for child in children:
            child.stdin.write(json.dumps([begin, begin + seconds]).encode() + b"\n")
            child.stdin.flush()
        places = [device.sessions for device in report(host).devices]
        frames = [int(child.stdout.readline()) for child in children]
    return sum(frames) / seconds, places


@click.command()
@click.option("--devices", default="0,1", show_default=True, help="The two GPUs, as `serve --devices` names them.")
@click.option("--seconds", type=float, default=5.0, show_default=True, help="How long each number of programs draws.")
@click.option("--steps", type=int, default=4000, show_default=True, help="How long a picture takes: steps of a pixel.")
@click.option("--json", "file", type=click.File("w"), help="Where all figures are to be written.")
@click.option("--work", "url", hidden=True)
def main(devices: str, seconds: float, steps: int, file: TextIO | None, url: str | None) -> None:
    """Measure one program, two on one GPU, and two on two."""
    if url is not None:
        work(url, steps)
        return
    first = devices.partition(",")[0]
    table = Table("programs", "GPUs", "on each", "pictures a second", "to one program's")
    rows = []
    for served, count in (first, 1), (first, 2), (devices, 2):
        with LocalHost("--devices", served) as host:
            rate, places = measure(host, count, seconds, steps)
            names = [device.described() for device in report(host).devices]
        rows.append({"programs": count, "devices": names, "sessions": places, "rate": rate})
        ratio = f"{rate / float(str(rows[0]['rate'])):.2f}"
        table.add_row(str(count), str(len(names)), ", ".join(map(str, places)), f"{rate:.1f}", ratio)
    Console().print(table)
    if file is not None:
        json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
