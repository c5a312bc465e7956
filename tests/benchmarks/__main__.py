"""`make bench`: every workload plainly, on virgl and on hosts of ours in turn, and a table of how they compare.

The exit status is 1 if one of our hosts came to other results than plain moderngl, or to none.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import track

from glremote.host.serving import LocalHost
from tests.relay import Line, Relay

from .measuring import WORKLOADS, Measured, measure
from .table import NEAR, WEBSOCKET, table
from .ways import VIRGL_SERVER, RunFailed, Way, remote, virgl

LINES = Line(0.040, 100), Line(0.005, 1000)
"""What --far has between client and host."""


def read_names(context: click.Context, option: click.Parameter, text: str) -> list[str]:
    """The value of --only."""
    names = text.split(",") if text else list(WORKLOADS)
    if unknown := [name for name in names if name not in WORKLOADS]:
        raise click.BadParameter(f"{', '.join(unknown)}: there are {', '.join(WORKLOADS)}")
    return names


@click.command()
@click.option("--only", callback=read_names, default="", help="Names of workloads, with commas between them.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--far", is_flag=True, help="Over slow lines too; they take some minutes.")
@click.option("--far-rounds", type=click.IntRange(1), default=1, show_default=True)
@click.option("--timeout", type=float, default=300.0, show_default=True, help="Seconds for one run.")
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write all figures there.")
def main(only: list[str], rounds: int, far: bool, far_rounds: int, timeout: float, file: Path | None) -> None:
    """Compare glremote with plain moderngl, and with Mesa's own remote driver where it is installed."""
    console = Console(width=None if sys.stdout.isatty() else 240)
    with contextlib.ExitStack() as stack:
        mesa = stack.enter_context(virgl())
        if mesa is None:
            console.print(f"{VIRGL_SERVER} is not installed, so there is no column of it (on Debian: virgl-server)")
        host = stack.enter_context(LocalHost())
        distant = [_distant(stack, host, line) for line in LINES] if far else []
        near = remote(NEAR, host.url, host.token, near=True)
        ways = [way for way in (mesa, near, remote(WEBSOCKET, host.url, host.token)) if way is not None]
        rows: list[Measured] = []
        try:
            for name in track(only, console=Console(stderr=True)):
                rows.append(measure(name, ways, rounds, distant, far_rounds, timeout))
                if file is not None:  # again and again: it is not lost when the rest is interrupted
                    _write(file, rows, rounds)
        except RunFailed as error:
            raise click.ClickException(str(error)) from None
    console.print(table(rows, [way.name for way in distant]))
    sys.exit(_tell_what_is_wrong(rows, console))


def _distant(stack: contextlib.ExitStack, host: LocalHost, line: Line) -> Way:
    port = urlsplit(host.url).port
    assert port is not None
    relay = stack.enter_context(Relay(line, port))
    return remote(str(line), f"ws://127.0.0.1:{relay.port}", host.token)


def _write(file: Path, rows: Sequence[Measured], rounds: int) -> None:
    machine = {"processors": os.cpu_count(), "rounds": rounds}
    file.write_text(json.dumps({**machine, "workloads": {row.name: row.figures() for row in rows}}, indent=1))


def _tell_what_is_wrong(rows: Sequence[Measured], console: Console) -> bool:
    for row in rows:
        for name in row.wrong:
            why = row.failures.get(name, "its results are not those of plain moderngl")
            console.print(f"{row.name}, {name}: {escape(why)}", style="red")
    return any(row.is_wrong for row in rows)


if __name__ == "__main__":
    main()
