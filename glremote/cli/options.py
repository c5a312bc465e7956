"""What several commands have: options, and how something is said.

Tokens come from a file or from GLREMOTE_TOKEN, never from an argument, which every user of the machine can read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glremote.protocol.errors import Error

from .tables import visible

if TYPE_CHECKING:
    from glremote.hosts import Host
    from glremote.placing import Named


class Failure(click.ClickException):
    """What is said before the program exits."""

    def show(self, file: Any = None) -> None:
        click.echo("\n".join(map(visible, f"glremote: {self.message}".split("\n"))), err=True)


def tell(line: str) -> None:
    """Say something on standard error."""
    click.echo(line, err=True)


def token_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option --token-file."""
    option = click.option(
        "--token-file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="The file that holds the host's token.  [default: the token in GLREMOTE_TOKEN]",
    )
    return option(command)


def read_token(file: Path | None, variable: str = "GLREMOTE_TOKEN") -> str | None:
    """The token from the file, else from the variable of the environment, else None."""
    try:
        token = file.read_text().strip() if file else os.environ.get(variable, "").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"cannot read the token: {error}") from None
    source = f"the file {file}" if file else variable
    if file and not token:
        raise Failure(f"there is no token in {source}: it is empty")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise Failure(f"what is in {source} is no token: letters, digits and signs in one line, without spaces")
    return token or None


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --ca-file and --pin, of which GLREMOTE_CA_FILE and GLREMOTE_PIN are the defaults."""
    ca = click.option(
        "--ca-file",
        "ca",
        metavar="FILE",
        help="Certificates (PEM) of the authorities that vouch for a wss:// host.  [default: GLREMOTE_CA_FILE, "
        "else the system's]",
    )
    pin = click.option(
        "--pin", metavar="sha256:DIGITS", help="The wss:// host's own certificate.  [default: GLREMOTE_PIN]"
    )
    return ca(pin(command))


def associated() -> tuple[Host, ...]:
    """The hosts of the hosts' file."""
    from glremote import hosts

    try:
        return hosts.read(hosts.default_file()).hosts
    except Error as error:
        raise Failure(str(error)) from None


def named(host: str | None, file: Path | None, ca: str | None, pin: str | None) -> Named | None:
    """What HOST names, and how it is reached: for every command as `create_context` has it; not a device alone.

    Raises ValueError and Error.
    """
    from glremote.placing import Placing

    found = Placing().named(host, None, token_for(host, file), ca, pin)
    if found is not None and found.anywhere:
        raise ValueError(f"{host!r} is a device, on whichever host: name one too, as in NAME/{host}")
    return found


def check_host(host: str, file: Path | None, ca: str | None, pin: str | None) -> tuple[Host, str | None]:
    """The host that is named, by its URL or its name, and which of its devices. Says now what would fail later."""
    try:
        found = named(host, file, ca, pin)
        if found is None or found.host is None:
            raise Failure(f"{host!r} is this machine, and no host: give ws://HOST:PORT or wss://HOST:PORT")
        _ = found.host.trust
    except (Error, ValueError) as error:
        raise Failure(str(error)) from None
    return found.host, found.device


def token_for(host: str | None, file: Path | None) -> str | None:
    """The token from the file, else from the environment for a host that is named by its URL: others have their own."""
    token = read_token(file)
    return token if file is not None or (host or "").startswith(("ws://", "wss://")) else None
