"""`glremote gallery`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import click

from glremote.protocol.errors import Error

from .options import Failure, check_host, token_for, token_option, trust_options


@click.command()
@click.option("--host", metavar="URL", envvar="GLREMOTE_HOST", help="ws://HOST:PORT  [default: GLREMOTE_HOST, or none]")
@token_option
@trust_options
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("gallery"),
    show_default=True,
    help="Where the pictures and index.html go.",
)
def gallery(host: str | None, token_file: Path | None, ca: str | None, pin: str | None, out: Path) -> None:
    """Render every sample on a host, and make a page of the pictures.

    Where no host is named, one is started on this machine for as long as it takes. The path of the page is printed
    last.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from glremote.gallery import make_gallery
    from glremote.host.serving import LocalHost

    if host:
        check_host(host, token_file, ca, pin)
    elif ca or pin:
        raise click.UsageError("--ca-file and --pin are for the host that --host names.")
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    try:
        with contextlib.ExitStack() as stack:
            url, token = host, token_for(host, token_file)
            if not url:
                local = stack.enter_context(LocalHost())
                url, token = local.url, local.token
            progress = stack.enter_context(Progress(*columns, console=Console(stderr=True)))
            task = progress.add_task("", total=None)

            def show(done: int, total: int, name: str) -> None:
                progress.update(task, completed=done, total=total, description=name)

            page = make_gallery(out, url, token, show, ca, pin)
    except Error as error:
        raise Failure(str(error)) from None
    except ExceptionGroup as failed:
        if os.environ.get("GLREMOTE_DEBUG"):
            raise
        raise Failure("\n".join([failed.message, *map(_line, failed.exceptions)])) from None
    print(page)


def _line(error: BaseException) -> str:
    return " ".join([f"  {type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
