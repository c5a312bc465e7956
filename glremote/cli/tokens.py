"""`glremote token create`, `list` and `revoke`."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .options import Failure, tell


def tokens_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option --tokens-file, for the commands that change the file or show it."""
    option = click.option(
        "--tokens-file",
        "file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Where the tokens are kept.  [default: GLREMOTE_TOKENS, else a file in your folder for settings]",
    )
    return option(command)


def read_lifetime(ctx: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """The value of --expires, in seconds."""
    if text is None:
        return None
    found = re.fullmatch("([1-9][0-9]{0,5})([smhd])", text)
    if found is None:
        raise click.BadParameter(f"{text!r} is no time: give a number and s, m, h or d, as in 30d")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]


def read_limits(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> str:
    """The values of --limit, as they are kept."""
    from glremote.host.limits import tidy

    try:
        return tidy(",".join(given))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@contextlib.contextmanager
def _tokens_file(file: Path | None) -> Any:
    from glremote.host.gateway import tokens

    path = file or tokens.default_file()
    if path is None:
        raise Failure("GLREMOTE_TOKENS is empty, and so names no file; name one there or with --tokens-file")
    try:
        yield tokens.TokensFile(path)
    except tokens.TokensError as error:
        raise Failure(str(error)) from None


@click.group()
def token() -> None:
    """Make, show and revoke the tokens that `serve` admits.

    Only their hashes are kept, in a file of yours. A host that is running sees every change within seconds.
    """


@token.command("create")
@tokens_option
@click.option("--name", help="What it is called, without spaces.  [default: its id]")
@click.option("--max-sessions", type=click.IntRange(1), help="How many contexts at a time.  [default: the host's]")
@click.option(
    "--expires", metavar="TIME", callback=read_lifetime, help="After so long, as in 30d or 12h.  [default: never]"
)
@click.option(
    "--limit",
    "limits",
    metavar="NAME=VALUE",
    multiple=True,
    callback=read_limits,
    help="What each of its contexts may use, instead of what `serve --limit` says. Can be given again.",
)
def create_token(
    file: Path | None, name: str | None, max_sessions: int | None, expires: float | None, limits: str
) -> None:
    """Make a token, and print it. It is shown this once."""
    with _tokens_file(file) as tokens:
        print(tokens.create(name, max_sessions, expires, limits))


@token.command("list")
@tokens_option
def list_tokens(file: Path | None) -> None:
    """Show what is known of each token, which is not the token itself."""
    with _tokens_file(file) as tokens:
        rows = [("NAME", "ID", "SESSIONS", "CREATED", "EXPIRES", "LIMITS")]
        for one in tokens.tokens():
            end = "never" if one.expires is None else _date(one.expires) + (" (over)" if one.has_expired() else "")
            limits = one.limits.replace(",", " ") or "the host's"
            rows.append((one.name, one.id, str(one.max_sessions or "any"), _date(one.created), end, limits))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@token.command("revoke")
@tokens_option
@click.argument("name", metavar="NAME|ID")
def revoke_token(file: Path | None, name: str) -> None:
    """Admit a token no more; its sessions end within seconds."""
    with _tokens_file(file) as tokens:
        revoked = tokens.revoke(name)
    tell(f"{revoked.name} ({revoked.id}) is revoked")


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
