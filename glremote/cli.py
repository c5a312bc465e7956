"""The command line: `glremote serve`, `glremote run`, `glremote gallery`.

Knows: arguments, the environment, exit statuses, and how things look on a terminal. Does not know: how anything is
done; whatever does it is imported by the command that needs it, so that `--help` is quick.

Tokens come from a file or from GLREMOTE_TOKEN, never from an argument, which every user of the machine can read.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import ipaddress
import os
import pkgutil
import re
import runpy
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import click

from .protocol.errors import Error

if TYPE_CHECKING:
    from .host import gateway
    from .host.gateway.tokens import Token

HELP = {"help_option_names": ["-h", "--help"]}
REST = {"allow_interspersed_args": False, "ignore_unknown_options": False}
ABORTED = 130
"""The exit status of a program that Ctrl-C ended, as shells have it."""


class Failure(click.ClickException):
    """What is said in one line, before the program exits."""

    def show(self, file: Any = None) -> None:
        click.echo(f"glremote: {self.message}", err=True)


class CannotStart(Failure):
    """The program to be run is not there; python's own exit status for that."""

    exit_code = 2


def main() -> None:
    """The entry point."""
    try:
        outcome = commands.main(prog_name="glremote", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(ABORTED)
    if isinstance(outcome, Program):
        # Not within click, which has its own ideas of what Ctrl-C and a broken pipe are to do.
        outcome.run()
    else:
        sys.exit(outcome)


@click.group(context_settings=HELP)
@click.version_option(package_name="glremote", message="glremote %(version)s")
def commands() -> None:
    """Run moderngl programs on a GPU in another machine.

    On the machine with the GPU: `glremote serve`. On yours: `glremote run --host ws://THAT-MACHINE:8765 program.py`,
    with the token that `serve` shows in GLREMOTE_TOKEN or in a file.
    """


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


def check_trust(host: str, ca: str | None, pin: str | None) -> str | None:
    """The path of `ca`, wherever the program goes. Says now what would fail later."""
    from .link.tls import Trust

    try:
        Trust.chosen(host, ca, pin)
    except ValueError as error:
        raise Failure(str(error)) from None
    return None if ca is None else os.path.abspath(ca)


# --- serve


def read_limits(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> Any:
    """The limits of a session, as they are given."""
    from .host.limits import Limits, read

    try:
        return Limits(**read(",".join(given)))  # type: ignore[arg-type]
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@commands.command()
@click.option("--bind", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="The port; 0: any that is free."
)
@token_option
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
    "--warm", type=click.IntRange(0), default=2, show_default=True, help="How many workers are started in advance."
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
    help="What each session may use: objects, memory, object-bytes, source-bytes (k, m and g are units), "
    "buffer-seconds, idle-seconds. Can be given again.",
)
@click.option(
    "--worker-memory",
    metavar="MB",
    type=click.IntRange(1),
    default=8192,
    show_default=True,
    help="A context whose worker process holds more memory is ended.",
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
@click.option("--until-stdin-ends", is_flag=True, hidden=True)
def serve(**given: Any) -> None:
    """Serve this machine's GPU to glremote programs.

    Listens on this machine alone unless --bind says otherwise; at another address it starts only with TLS and with a
    token that you chose. Prints one line with its address when it is ready. Admits the tokens of `glremote token` and
    the one in --token-file or GLREMOTE_TOKEN; where there is none it makes one and shows it. Ctrl-C ends it, and all
    contexts on it; after SIGTERM it takes no new ones, and ends when the others have or --drain is over. A browser
    shows what it does.
    """
    from .host import gateway
    from .host.gateway import logs, tokens

    token = read_token(given.pop("token_file"))
    file = given.pop("tokens_file") or tokens.default_file()
    known = _tokens_in(file)
    made = token is None and all(one.has_expired() for one in known)
    certificate, key, insecure = given.pop("tls_cert"), given.pop("tls_key"), given.pop("insecure")
    tls = _tls(certificate, key)
    if not _is_loopback(given["bind"]) and not insecure:
        _refuse_strangers(given["bind"], tls is None, made)
    lifeline = sys.stdin.fileno() if given.pop("until_stdin_ends") else None
    look_token = read_token(given.pop("look_token_file"), "GLREMOTE_LOOK_TOKEN")
    if look_token is not None and (look_token == token or tokens.find(look_token, known) is not None):
        raise Failure("the token for looking is the host's own: whoever may look could render; take another")
    logs.begin(given.pop("log_format"))
    with contextlib.ExitStack() as stack:
        stays = not made and lifeline is None
        given["cache"] = _cache(stack, given.pop("walls"), given.pop("cache"), stays)
        own = secrets.token_urlsafe(tokens.TOKEN_BYTES) if made else token
        options = gateway.Options(
            token=own, tokens_file=file, look_token=look_token, tls=tls, lifeline=lifeline, **given
        )
        _serve(options, made, certificate)


def _cache(stack: contextlib.ExitStack, walls: bool, given: Path | None, stays: bool) -> Path | None:
    """The folder for the cache folders, and None for no walls; what the walls cannot hold off is said."""
    from .host.walls import caches, missing

    if not walls:
        _tell("Warning: workers have no walls: a driver that is led astray can do whatever this user may do.")
        return None
    for line in missing():
        _tell(f"Warning: {line}.")
    if given is not None:
        return given.absolute()
    if stays:
        return caches()
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="glremote-", ignore_cleanup_errors=True)))


def _serve(options: gateway.Options, token_is_new: bool, certificate: Path | None) -> None:
    from .host import gateway

    def ready(url: str) -> None:
        if token_is_new:
            _tell(f"The token, which was made for this run: {options.token}")
            _tell(f"On a client:  export GLREMOTE_TOKEN={options.token}")
            _tell(f"              glremote run --host {url} program.py")
        if certificate is not None:
            _tell(f"The certificate's pin: {_pin(certificate)}")
        if not _is_loopback(options.bind):
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


def _tell(line: str) -> None:
    click.echo(line, err=True)


def read_origin(text: str) -> str:
    """A value of --allow-origin, as browsers write it."""
    if re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s,*A-Z]+", text) is None:
        raise click.BadParameter(f"{text!r} is no origin: give SCHEME://HOST or SCHEME://HOST:PORT, in small letters")
    return text


def _tokens_in(file: Path | None) -> tuple[Token, ...]:
    from .host.gateway import tokens

    try:
        return () if file is None else tokens.TokensFile(file).tokens()
    except tokens.TokensError as error:
        raise Failure(str(error)) from None


def _tls(certificate: Path | None, key: Path | None) -> Any:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise Failure("--tls-cert and --tls-key go together: the certificate and its key")
    from .host.gateway import tls_context

    try:
        return tls_context(certificate, key)
    except (OSError, ValueError) as error:
        raise Failure(f"no TLS: {error}") from None


def _pin(certificate: Path) -> str:
    from .link.tls import pin_of

    return pin_of(certificate)


def _is_loopback(bind: str) -> bool:
    """Whether only this machine can connect; also of what is no address, which cannot be listened at."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(bind, None)}
    except OSError:
        return True
    return all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in found)


def _refuse_strangers(bind: str, no_tls: bool, no_token: bool) -> None:
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
        _tell(f"From other machines: {scheme}://{socket.gethostname()}:{url.rpartition(':')[2]}")
    if scheme == "ws":
        _tell(
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


# --- token


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


@contextlib.contextmanager
def _tokens_file(file: Path | None) -> Any:
    from .host.gateway import tokens

    path = file or tokens.default_file()
    if path is None:
        raise Failure("GLREMOTE_TOKENS is empty, and so names no file; name one there or with --tokens-file")
    try:
        yield tokens.TokensFile(path)
    except tokens.TokensError as error:
        raise Failure(str(error)) from None


@commands.group()
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
def create_token(file: Path | None, name: str | None, max_sessions: int | None, expires: float | None) -> None:
    """Make a token, and print it. It is shown this once."""
    with _tokens_file(file) as tokens:
        print(tokens.create(name, max_sessions, expires))


@token.command("list")
@tokens_option
def list_tokens(file: Path | None) -> None:
    """Show what is known of each token, which is not the token itself."""
    with _tokens_file(file) as tokens:
        rows = [("NAME", "ID", "SESSIONS", "CREATED", "EXPIRES")]
        for one in tokens.tokens():
            end = "never" if one.expires is None else _date(one.expires) + (" (over)" if one.has_expired() else "")
            rows.append((one.name, one.id, str(one.max_sessions or "any"), _date(one.created), end))
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
    _tell(f"{revoked.name} ({revoked.id}) is revoked")


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


# --- run


class RunCommand(click.Command):
    """What follows SCRIPT or `-m MODULE` is the program's own, also what looks like an option of ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] != "--":
            if args[at].startswith("-m"):
                end = at + (2 if args[at] == "-m" else 1)
                args = [*args[:end], "--", *args[end:]]
                break
            at += 2 if args[at] in ("--host", "--token-file", "--ca-file", "--pin", "--screen") else 1
        return super().parse_args(ctx, args)


def read_size(ctx: click.Context, option: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """The value of --screen: pixels, as in 1280x720."""
    if text is None:
        return None
    found = re.fullmatch("([1-9][0-9]{0,5})[xX]([1-9][0-9]{0,5})", text)
    if found is None:
        raise click.BadParameter(f"{text!r} is no size: give WIDTHxHEIGHT in pixels, as in 1920x1080")
    return int(found[1]), int(found[2])


@commands.command(cls=RunCommand, context_settings=REST, options_metavar="[OPTIONS]")
@click.option("--host", metavar="URL", envvar="GLREMOTE_HOST", help="ws://HOST:PORT  [default: GLREMOTE_HOST]")
@token_option
@trust_options
@click.option(
    "--screen",
    metavar="WIDTHxHEIGHT",
    callback=read_size,
    help="The pixels of ctx.screen, for a program that wants a window.  [default: 1280x720]",
)
@click.option("-m", "module", metavar="MODULE", help="Run a module, as `python -m` does, instead of a script.")
@click.argument("arguments", metavar="(SCRIPT | -m MODULE) [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
def run(
    host: str | None,
    token_file: Path | None,
    ca: str | None,
    pin: str | None,
    screen: tuple[int, int] | None,
    module: str | None,
    arguments: tuple[str, ...],
) -> Program:
    """Run a moderngl program, unmodified, with its contexts on a host.

    The program runs here, as python would run it; what follows its name are its own arguments. Only the contexts that
    it makes are elsewhere. There is no window: for a program that does not say standalone=True, ctx.screen is a
    framebuffer on the host.
    """
    if not host:
        raise click.UsageError("No host is named: give --host ws://HOST:PORT, or set GLREMOTE_HOST.")
    if module is None and not arguments:
        raise click.UsageError("Give a SCRIPT, or -m MODULE.")
    program = Program(module, None, arguments) if module else Program(None, arguments[0], arguments[1:])
    program.check()
    if not host.startswith(("ws://", "wss://")):
        raise Failure(f"{host!r} is no address of a host: give ws://HOST:PORT or wss://HOST:PORT")
    ca = check_trust(host, ca, pin)
    from . import running

    running.install(host, read_token(token_file), screen or running.SCREEN, ca, pin)
    return program


@dataclass(frozen=True)
class Program:
    """What `glremote run` is to run, once click is done."""

    module: str | None
    script: str | None
    arguments: tuple[str, ...]

    def check(self) -> None:
        """As python does it, before anything else: a script that cannot be read."""
        if self.script is not None and not os.path.isdir(self.script):
            try:
                open(self.script, "rb").close()
            except OSError as error:
                path = os.path.abspath(self.script)
                raise CannotStart(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}") from None

    def run(self) -> None:
        """Run it; what python would say of its end it says of ours."""
        sys.excepthook = _show_uncaught
        global _globals
        if self.module is not None:
            _replace_path(os.getcwd())
            sys.argv = ["-m", *self.arguments]
            _globals = runpy.run_module(self.module, run_name="__main__", alter_sys=True)
        elif self.script is not None:
            sys.argv = [self.script, *self.arguments]
            if pkgutil.get_importer(self.script) is not None:  # a folder or a zip file
                _replace_path(None)  # runpy adds it itself
                _globals = runpy.run_path(self.script, run_name="__main__")
            else:
                _replace_path(os.path.dirname(os.path.realpath(self.script)))
                _run_file(os.path.abspath(self.script))


_globals: dict[str, Any] = {}
"""Of a module that was run; they live until the interpreter ends, as they do with python."""


def _run_file(path: str) -> None:
    """As python runs a script. runpy would not, in two things: `__file__` is absolute, and `__main__` stays."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main).update(__file__=path, __cached__=None, __builtins__=builtins)
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, vars(main))


def _replace_path(first: str | None) -> None:
    """Put the program's folder where ours is, in `sys.path`; with python -P there is none."""
    if not sys.flags.safe_path:
        sys.path[:1] = [] if first is None else [first]


def _show_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What the program did not catch, as python shows it: the frames of ours that called it are left out.

    That no context could be made on the host is the user's to know and not the program's fault: one line. Any other
    error of ours, also a host that is lost in the middle, keeps its traceback, since the line it came to matters.
    """
    if isinstance(error, Error) and {"glremote.instance", "glremote.running"} & _modules(trace):
        print(f"glremote: {error}", file=sys.stderr)
        return
    while trace is not None and trace.tb_frame.f_code is not Program.run.__code__:
        trace = trace.tb_next
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        trace = trace.tb_next
    if trace is None and isinstance(error, ImportError):
        print(f"glremote: {error}", file=sys.stderr)  # `-m`, and no such module
        return
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def _modules(trace: TracebackType | None) -> set[str]:
    names = set()
    while trace is not None:
        names.add(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return names


# --- gallery


@commands.command()
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

    from .gallery import make_gallery
    from .host.serving import LocalHost

    ca = check_trust(host or "a host of its own", ca, pin)
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    try:
        with contextlib.ExitStack() as stack:
            url, token = host, read_token(token_file)
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
