"""`glremote serve`."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import re
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import Failure, read_token, tell, token_option
from .unit import ServeCommand, installing, printed

if TYPE_CHECKING:
    from glremote.host import gateway
    from glremote.host.gateway.tokens import Token
    from glremote.host.probing import Probe
    from glremote.protocol.devices import Device


def read_limits(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> Any:
    """The limits of a session, as they are given."""
    from glremote.host.limits import Limits

    try:
        return Limits().changed(",".join(given))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(cls=ServeCommand)
@click.option("--bind", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="The port; 0: any that is free."
)
@token_option
@click.option(
    "--devices",
    metavar="NAMES",
    default="all",
    show_default=True,
    help="What to render with: `all` GPUs (the software renderer where there is none), or some by number, UUID or PCI "
    "address, with commas between them; `software` is the software renderer. Contexts are spread over them.",
)
@click.option(
    "--max-sessions", type=click.IntRange(1), default=16, show_default=True, help="How many contexts at a time."
)
@click.option(
    "--grace",
    metavar="SECONDS",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="How long a context is kept for a client whose connection broke.",
)
@click.option(
    "--warm", type=click.IntRange(0), default=2, show_default=True, help="How many workers are ready, on each device."
)
@click.option(
    "--no-near", "near", flag_value=False, default=True, help="Let no client on this machine pass by the websocket."
)
@click.option(
    "--drain",
    metavar="SECONDS",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="How long contexts may go on after SIGTERM; then, or at a second one, they are ended.",
)
@click.option(
    "--look-token-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The file that holds the token for /, /healthz and /metrics.  [default: GLREMOTE_LOOK_TOKEN, or none]",
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="How lines are logged, on standard error.",
)
@click.option(
    "--limit",
    "limits",
    metavar="NAME=VALUE",
    multiple=True,
    callback=read_limits,
    help="What each context may use: objects, memory, object-bytes, source-bytes, bytes-per-second (k, m and g are "
    "units), buffer-seconds, compile-seconds, read-seconds, idle-seconds; 0 is any. A token can have others (`token "
    "create --limit`). Can be given again.",
)
@click.option(
    "--worker-memory",
    metavar="MB",
    type=click.IntRange(1),
    help="A context whose worker process holds more memory is ended.  [default: half of this machine's]",
)
@click.option(
    "--cache",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where drivers keep their native code, a folder for each token.  [default: glremote/drivers in this user's "
    "folder for caches; for a token that is made for the run, one that goes with it]",
)
@click.option(
    "--no-walls",
    "walls",
    flag_value=False,
    default=True,
    help="Let workers do whatever this user may do, for a driver that cannot work otherwise.",
)
@click.option(
    "--tokens-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The file of `glremote token`.  [default: GLREMOTE_TOKENS, else one in your folder for settings]",
)
@click.option(
    "--tls-cert", metavar="FILE", type=click.Path(path_type=Path), help="This host's certificate (PEM): serve wss://."
)
@click.option("--tls-key", metavar="FILE", type=click.Path(path_type=Path), help="The certificate's key (PEM).")
@click.option(
    "--insecure", is_flag=True, help="Let other machines connect also without TLS, or with a token made for this run."
)
@click.option(
    "--allow-origin",
    "origins",
    metavar="ORIGIN",
    multiple=True,
    callback=lambda ctx, option, given: tuple(map(read_origin, given)),
    help="Admit web pages from here, with a token, as in https://example.org. May be given more than once.",
)
@click.option(
    "--print-unit",
    is_flag=True,
    help="Print a unit of systemd that serves with these options as this user, and do nothing else.",
)
@click.option("--until-stdin-ends", is_flag=True, hidden=True)
def serve(**given: Any) -> None:
    """Serve this machine's GPUs to glremote programs.

    Listens on this machine alone unless --bind says otherwise; at another address it starts only with TLS and with a
    token that you chose. Prints one line with its address when it is ready. Admits the tokens of `glremote token` and
    the one in --token-file or GLREMOTE_TOKEN; where there is none it makes one and shows it. Ctrl-C ends it, and all
    contexts on it; after SIGTERM it takes no new ones, and ends when the others have or --drain is over. A browser
    shows what it does.
    """
    if given.pop("print_unit"):
        _print_unit(**given)
        return
    with contextlib.ExitStack() as stack:
        stack.callback(_lose_unwritten)
        _serve_with(stack, given)


def _serve_with(stack: contextlib.ExitStack, given: dict[str, Any]) -> None:
    """All of it; what is to be done at the end is in `stack`."""
    from glremote.host.probing import Probe

    probe = stack.enter_context(contextlib.closing(Probe()))  # meanwhile there is much to import
    from glremote.host import gateway
    from glremote.host.gateway import logs, tokens

    if given["worker_memory"] is None:
        del given["worker_memory"]
    token = read_token(given.pop("token_file"))
    file = given.pop("tokens_file") or tokens.default_file()
    known = _tokens_in(file)
    made = token is None and all(one.has_expired() for one in known)
    certificate, key, insecure = given.pop("tls_cert"), given.pop("tls_key"), given.pop("insecure")
    tls = _tls(certificate, key)
    _check_bind(given["bind"], insecure, tls is None, made)
    lifeline = sys.stdin.fileno() if given.pop("until_stdin_ends") else None
    look_token = read_token(given.pop("look_token_file"), "GLREMOTE_LOOK_TOKEN")
    if look_token is not None and (look_token == token or tokens.find(look_token, known) is not None):
        raise Failure("the token for looking is the host's own: whoever may look could render; take another")
    logs.begin(given.pop("log_format"))
    stays = not made and lifeline is None
    given["cache"] = _cache(stack, given.pop("walls"), given.pop("cache"), stays)
    given["devices"] = _devices(probe, given["devices"])
    own = secrets.token_urlsafe(tokens.TOKEN_BYTES) if made else token
    options = gateway.Options(token=own, tokens_file=file, look_token=look_token, tls=tls, lifeline=lifeline, **given)
    _serve(options, made, certificate)


def _lose_unwritten() -> None:
    """What a log that is full has not taken is lost; at exit Python would try again, and make its status 120."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stderr.fileno())


def _devices(probe: Probe, wanted: str) -> tuple[Device, ...]:
    """Those that are meant. A GPU that cannot be served, though all were meant, is said."""
    from glremote.host.probing import selected

    found = probe.found()
    try:
        devices = selected(found, wanted)
    except LookupError as error:
        raise Failure(f"nothing can be rendered here: {error}") from None
    served = {device.pci for device in found.devices}
    for one in found.others:
        if one.pci is not None and one.pci not in served:
            tell(f"Warning: the GPU {one.pci} is not served: {one.why}.")
    return devices


def _print_unit(
    token_file: Path | None, tokens_file: Path | None, tls_cert: Path | None, tls_key: Path | None, bind: str,
    insecure: bool, **_: Any,
) -> None:  # fmt: skip
    """On standard output the unit alone; what is to be known beside it on standard error."""
    from glremote.host.gateway import tokens

    token, file = read_token(token_file), tokens_file or tokens.default_file()
    made = token is None and all(one.has_expired() for one in _tokens_in(file))
    _check_bind(bind, insecure, _tls(tls_cert, tls_key) is None, made)
    print(printed(click.get_current_context(), file), end="")
    if token is not None and token_file is None:
        tell("Warning: GLREMOTE_TOKEN is not in the unit, which everybody can read: name a file with --token-file.")
    if made:
        tell("Warning: it will make a token for each run, and log it: make one with `glremote token create`.")
    if os.environ.get("GLREMOTE_LOOK_TOKEN"):
        tell("Warning: GLREMOTE_LOOK_TOKEN is not in the unit: name a file with --look-token-file.")
    if hasattr(os, "geteuid") and not os.geteuid():
        tell("Warning: it serves as root; better as a user of its own, who prints this: sudo -u USER glremote ...")
    for line in installing():
        tell(line)


def _cache(stack: contextlib.ExitStack, walls: bool, given: Path | None, stays: bool) -> Path | None:
    """The folder for the cache folders, and None for no walls; what the walls cannot hold off is said."""
    from glremote.host.gateway.caches import for_one_run
    from glremote.host.walls import caches, missing

    if not walls:
        tell("Warning: workers have no walls: a driver that is led astray can do whatever this user may do.")
        return None
    for line in missing():
        tell(f"Warning: {line}.")
    if given is not None:
        return given.absolute()
    if stays:
        return caches()
    return stack.enter_context(for_one_run())


def _serve(options: gateway.Options, token_is_new: bool, certificate: Path | None) -> None:
    from glremote.host import gateway

    def ready(url: str) -> None:
        if token_is_new:
            tell(f"The token, which was made for this run: {options.token}")
            tell(f"On a client:  export GLREMOTE_TOKEN={options.token}")
            tell(f"              glremote run --host {url} program.py")
        if certificate is not None:
            tell(f"The certificate's pin: {_pin(certificate)}")
        if not is_loopback(options.bind):
            _tell_of_others(options.bind, url)
        print(f"glremote serves at {url}", flush=True)

    try:
        gateway.run(options, ready)
    except gateway.WorkerFailed as error:
        raise Failure(f"nothing can be rendered here: {error}") from None
    except gateway.TokensError as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(_why_not_bound(error, options.bind, options.port)) from None


def read_origin(text: str) -> str:
    """A value of --allow-origin, as browsers write it."""
    if re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s,*A-Z]+", text) is None:
        raise click.BadParameter(f"{text!r} is no origin: give SCHEME://HOST or SCHEME://HOST:PORT, in small letters")
    return text


def _tokens_in(file: Path | None) -> tuple[Token, ...]:
    from glremote.host.gateway import tokens

    try:
        return () if file is None else tokens.TokensFile(file).tokens()
    except tokens.TokensError as error:
        raise Failure(str(error)) from None


def _tls(certificate: Path | None, key: Path | None) -> Any:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise Failure("--tls-cert and --tls-key go together: the certificate and its key")
    from glremote.host.gateway import Certificate

    try:
        return Certificate(certificate, key)
    except (OSError, ValueError) as error:
        raise Failure(f"no TLS: {error}") from None


def _pin(certificate: Path) -> str:
    from glremote.link.tls import pin_of

    return pin_of(certificate)


def is_loopback(bind: str) -> bool:
    """Whether only this machine can connect; also of what is no address, which cannot be listened at."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(bind, None)}
    except OSError:
        return True
    return all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in found)


def _check_bind(bind: str, insecure: bool, no_tls: bool, no_token: bool) -> None:
    """No host is open to strangers by oversight."""
    if insecure or is_loopback(bind):
        return
    lacks = []
    if no_tls:
        lacks.append("TLS (--tls-cert FILE --tls-key FILE)")
    if no_token:
        lacks.append("a token that you chose (`glremote token create`, --token-file FILE or GLREMOTE_TOKEN)")
    if lacks:
        raise Failure(
            f"other machines can connect to {bind}, and there is not yet {' and not '.join(lacks)}; better keep to "
            "loopback and use an ssh tunnel, or say --insecure where everybody on the network is trusted"
        )


def _tell_of_others(bind: str, url: str) -> None:
    scheme, _, _ = url.partition(":")
    if bind in ("0.0.0.0", "::"):
        tell(f"From other machines: {scheme}://{socket.gethostname()}:{url.rpartition(':')[2]}")
    if scheme == "ws":
        tell(
            "Warning: other machines can connect, and the connection is not encrypted: whoever listens on the network "
            "sees the token and all data. Better keep to loopback, and use an ssh tunnel, or TLS."
        )


def _why_not_bound(error: OSError, bind: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {bind} is in use; name another with --port (0: any that is free)"
    if error.errno == errno.EACCES:
        return f"this user may not listen at port {port} of {bind}; name one above 1023 with --port"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{bind} is no address of this machine; name one with --bind"
    return f"cannot listen at port {port} of {bind}: {error}"
