"""`glremote doctor`."""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from glremote.protocol.errors import Error, LinkError

from .options import Failure, named, token_option, trust_options
from .tables import visible

if TYPE_CHECKING:
    from rich.console import Console

    from glremote.doctor.finding import Finding

COLOURS = {"ok": "green", "warning": "yellow", "missing": "bold red"}
INDENT = max(map(len, COLOURS)) + 4
WIDEST = 100
"""Characters of a line of text on a terminal; what mends is never broken into lines, so that it can be copied."""


@click.command()
@click.argument("host", metavar="[HOST]", required=False)
@token_option
@trust_options
@click.pass_context
def doctor(ctx: click.Context, host: str | None, token_file: Path | None, ca: str | None, pin: str | None) -> None:
    """Say what this machine lacks to render, or why a host cannot be reached.

    Without HOST: OpenGL's libraries and drivers, GPUs and who may open them, what EGL draws with, and what a host has
    here. With it (ws://HOST:PORT, wss://HOST:PORT, the name of a host of `glremote hosts`, or one of its devices as in
    NAME/0): the way from here to it, its name, port, TLS, token, version and distance, until a step fails. Below what
    is missing are the lines that mend it. The exit status is 1 if something is missing, else 0.
    """
    from rich.console import Console

    from glremote.doctor.reaching import reach
    from glremote.doctor.way import no_host, token_kept
    from glremote.hosts import NoHost

    console = Console(highlight=False, soft_wrap=False)
    if host is None:
        if ca or pin or token_file:
            raise click.UsageError("--token-file, --ca-file and --pin are for a host: give HOST too.")
        ctx.exit(_this_machine(console))
    try:
        found = named(host, token_file, ca, pin)
        there = None if found is None else found.host
        _ = there and there.trust
    except (NoHost, LinkError) as error:
        ctx.exit(_way(console, [no_host(error)]))
    except (Error, ValueError) as error:
        raise Failure(str(error)) from None
    if found is None or there is None:
        ctx.exit(_this_machine(console))
    steps = reach(there, found.device, importlib.metadata.version("moderngl"))
    ctx.exit(_way(console, itertools.chain(token_kept(token_file), steps)))


def _this_machine(console: Console) -> int:
    from glremote.doctor.finding import well
    from glremote.doctor.findings import examine, verdict
    from glremote.doctor.machine import Machine

    waiting = console.status("A context is made on each device") if console.is_terminal else contextlib.nullcontext()
    with waiting:
        sections = examine(Machine())
    for section in sections:
        console.print(f"[bold]{section.title}[/bold]")
        for finding in section.findings:
            _show(console, finding)
        console.print()
    for line in verdict(sections):
        _text(console, line)
    return 0 if well(sections) else 1


def _way(console: Console, steps: Iterable[Finding]) -> int:
    from glremote.doctor.finding import State

    missing = False
    for finding in steps:
        _show(console, finding)
        missing = missing or finding.state is State.MISSING
    console.print()
    _text(console, "The way to it ends there." if missing else "A program here can render there.")
    return int(missing)


def _show(console: Console, finding: Finding) -> None:
    """A line, broken where a terminal ends, and below it what mends it, as it is to be copied."""
    from rich.text import Text

    state = finding.state.value
    for number, line in enumerate(_lines(console, finding.text)):
        head = (f"  {state:{INDENT - 2}}", COLOURS[state]) if not number else (" " * INDENT, "")
        console.print(Text.assemble(head, line), soft_wrap=True)
    for line in finding.mend:
        console.print(Text(" " * INDENT + "  " + line, style="cyan"), soft_wrap=True)


def _text(console: Console, text: str) -> None:
    from rich.text import Text

    for line in _lines(console, text, 0):
        console.print(Text(line), soft_wrap=True)


def _lines(console: Console, text: str, indent: int = INDENT) -> Iterable[str]:
    """On a terminal, text in its width; elsewhere a line is one."""
    import textwrap

    text = visible(text)
    if not console.is_terminal:
        return [text]
    width = min(console.width, WIDEST) - indent
    return textwrap.wrap(text, max(20, width), break_long_words=False, break_on_hyphens=False) or [""]
