"""`glremote run`: a program as python would run it, with its contexts on a host."""

from __future__ import annotations

import builtins
import io
import os
import pkgutil
import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import click

from glremote.protocol.errors import Error

from .options import Failure, associated, check_host, token_for, token_option, trust_options

REST = {"allow_interspersed_args": False, "ignore_unknown_options": False}


class CannotStart(Failure):
    """The program to be run is not there; python's own exit status for that."""

    exit_code = 2


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


@click.command(cls=RunCommand, context_settings=REST, options_metavar="[OPTIONS]")
@click.option(
    "--host",
    metavar="URL",
    envvar="GLREMOTE_HOST",
    help="ws://HOST:PORT, or the name of a host of `glremote hosts`, or one of its devices as in NAME/0.  [default: "
    "GLREMOTE_HOST, else the one of those hosts that is least busy, for each context]",
)
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
    if not host and not associated():
        raise click.UsageError(
            "No host is named: give --host ws://HOST:PORT, or set GLREMOTE_HOST, or add one with `glremote hosts add`."
        )
    if module is None and not arguments:
        raise click.UsageError("Give a SCRIPT, or -m MODULE.")
    program = Program(module, None, arguments) if module else Program(None, arguments[0], arguments[1:])
    program.check()
    if host:
        check_host(host, token_file, ca, pin)
        ca = None if ca is None else os.path.abspath(ca)  # wherever the program goes
    elif token_file or ca or pin:
        raise click.UsageError("--token-file, --ca-file and --pin are for the host that --host names.")
    token = token_for(host, token_file)
    from glremote import running

    running.install(host or None, token, screen or running.SCREEN, ca, pin)
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
