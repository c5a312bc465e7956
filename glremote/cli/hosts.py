"""`glremote hosts add`, `list` and `remove`."""

from __future__ import annotations

from pathlib import Path

import click

from glremote.protocol.errors import Error

from .options import Failure, read_token, tell, token_option, trust_options
from .tables import show


def _file() -> Path:
    from glremote.hosts import VARIABLE, default_file

    path = default_file()
    if path is None:
        raise Failure(f"{VARIABLE} is empty, and so names no file; name one there")
    return path


@click.group()
def hosts() -> None:
    """Add, show and remove the hosts whose devices contexts may be on.

    They are kept in a file of yours, with their tokens: glremote/hosts.toml in your folder for settings, or where
    GLREMOTE_HOSTS says. `glremote devices` shows what each has.
    """


@hosts.command("add")
@click.argument("url", metavar="URL")
@click.option("--name", help="What it is called, without spaces, / and :.  [default: HOST:PORT]")
@token_option
@trust_options
def add_host(url: str, name: str | None, token_file: Path | None, ca: str | None, pin: str | None) -> None:
    """Add a host, ws://HOST:PORT or wss://HOST:PORT; one that is there is replaced. Nothing is sent to it."""
    from glremote.hosts import Host, add

    path = _file()
    try:
        host = Host(url, name or "", read_token(token_file), ca, pin)
        host.check_token()
        _ = host.trust
        before = add(path, host)
    except (Error, ValueError) as error:
        raise Failure(str(error)) from None
    done = "is added" if before is None else "is replaced" if before.name == host.name else f"replaces {before.name}"
    tell(f"{host.name} {done}" + ("" if host.token else ", without a token"))


@hosts.command("list")
def list_hosts() -> None:
    """Show the hosts, and not their tokens."""
    from glremote.hosts import read

    try:
        known = read(_file()).hosts
    except Error as error:
        raise Failure(str(error)) from None
    rows = [
        (host.name, host.url, "its own" if host.token else "GLREMOTE_TOKEN", host.pin or host.ca or "")
        for host in known
    ]
    show(("NAME", "URL", "TOKEN", "TRUST"), rows)


@hosts.command("remove")
@click.argument("name", metavar="NAME|URL")
def remove_host(name: str) -> None:
    """Forget a host, and its token."""
    from glremote.hosts import remove

    try:
        host = remove(_file(), name)
    except Error as error:
        raise Failure(str(error)) from None
    tell(f"{host.name} ({host.url}) is removed")
