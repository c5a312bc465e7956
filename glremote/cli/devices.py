"""`glremote devices`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from glremote.protocol.errors import Error

from .options import Failure
from .tables import show

if TYPE_CHECKING:
    from glremote.device.choosing import DeviceRecord

HEAD = ("HOST", "NO", "NAME", "RENDERER", "OPENGL", "MEMORY", "SESSIONS", "LOAD", "DISTANCE", "UUID", "PCI", "STATE")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects, with all that is known of each.")
def devices(as_json: bool) -> None:
    """Show every GPU of the hosts of `glremote hosts` and of this machine.

    Hosts are asked at the same time; one that does not answer within a second is shown as such. A context is on one of
    them with create_context(device="HOST/NO").
    """
    from glremote.instance import instance

    try:
        found = instance().devices()
    except Error as error:
        raise Failure(str(error)) from None
    if as_json:
        print(json.dumps([record.fields() for record in found], indent=1))
        return
    if found:
        show(HEAD, [row(record) for record in found])
    else:
        raise Failure(
            "there is none: this machine has no device for OpenGL through EGL (`glremote doctor` says why), "
            "and no host is added (`glremote hosts add`)"
        )


def row(record: DeviceRecord) -> tuple[str, ...]:
    """A device as the table has it, by HEAD."""
    if record.error is not None:
        return (record.host, *[""] * (len(HEAD) - 2), record.error)
    return (
        record.host,
        "" if record.label == "-" else record.label,
        record.name,
        "" if record.renderer == record.name else record.renderer,
        f"{record.version // 100}.{record.version // 10 % 10}",
        _memory(record),
        str(record.sessions),
        "" if record.load is None else f"{100 * record.load:.0f} %",
        "here" if record.is_local or record.distance is None else f"{record.distance:.1f} ms",
        record.uuid or "",
        record.pci or "",
        record.state or "",
    )


def _memory(record: DeviceRecord) -> str:
    if record.memory is None:
        return ""
    whole = f"{record.memory / 2**30:.1f} GiB"
    return whole if record.memory_free is None else f"{record.memory_free / 2**30:.1f} of {whole} free"
