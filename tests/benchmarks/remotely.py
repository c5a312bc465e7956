"""`python -m tests.benchmarks.remotely URL SCRIPT` is `glremote run`, and then prints what all contexts have cost."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from typing import Any

from glremote.cli import commands
from glremote.cli.run import Program
from glremote.device.remote import RemoteDevice
from glremote.instance import Instance


def remember_devices() -> list[RemoteDevice]:
    """The list that every device of this process will be in, also when its session is over."""
    opened: list[RemoteDevice] = []
    plain_open = Instance.open

    def remembering_open(instance: Instance, *arguments: Any, **options: Any) -> RemoteDevice:
        device = plain_open(instance, *arguments, **options)
        opened.append(device)
        return device

    Instance.open = remembering_open  # type: ignore[assignment, method-assign]
    return opened


def main(url: str, script: str) -> None:
    """Run it, and print the sum of the traffic."""
    opened = remember_devices()
    program = commands.main(["run", "--host", url, script], prog_name="glremote", standalone_mode=False)
    assert isinstance(program, Program)
    program.run()
    total: Counter[str] = Counter()
    for device in opened:
        total.update(asdict(device.measure()))
    print(json.dumps(total), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
