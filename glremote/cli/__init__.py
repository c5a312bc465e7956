"""The command line: `glremote serve`, `token`, `hosts`, `devices`, `ping`, `run`, `gallery`, `doctor`: a module each.

Knows: arguments, the environment, exit statuses, and how things look on a terminal. Does not know: how anything is
done; whatever does it is imported by the command that needs it, so that `--help` is quick.
"""

from __future__ import annotations

import sys

import click

from .devices import devices
from .doctor import doctor
from .gallery import gallery
from .hosts import hosts
from .ping import ping
from .run import Program, run
from .serve import serve
from .tokens import token

HELP = {"help_option_names": ["-h", "--help"]}
ABORTED = 130
"""The exit status of a program that Ctrl-C ended, as shells have it."""


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


for command in (serve, token, hosts, devices, ping, run, gallery, doctor):
    commands.add_command(command)
