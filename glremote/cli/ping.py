"""`glremote ping`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import click

from glremote.protocol.errors import Error

from .options import Failure, check_host, token_option, trust_options
from .tables import visible

if TYPE_CHECKING:
    import moderngl

    from glremote.device.remote import RemoteDevice
    from glremote.hosts import Host
    from glremote.measuring import Measured

PICTURE = 1920 * 1080 * 3
"""Bytes of a picture to compare with."""


@click.command()
@click.argument("host", metavar="HOST")
@token_option
@trust_options
def ping(host: str, token_file: Path | None, ca: str | None, pin: str | None) -> None:
    """Measure how far a host is, and how fast.

    HOST is ws://HOST:PORT, wss://HOST:PORT, or the name of a host of `glremote hosts`, or one of its devices as in
    NAME/0. A session of its own moves random bytes over the websocket, for some seconds.
    """
    import glremote
    from glremote.measuring import measure
    from glremote.recording.facade import MODERNGL

    known, of_host = check_host(host, token_file, ca, pin)
    print(known.url if known.name in known.url else f"{known.name}, {known.url}")
    make = functools.partial(
        glremote.create_context, known.url, device=of_host, token=known.token, ca=known.ca, pin=known.pin
    )
    try:
        ctx = make(near=False)
        device = glremote.device(ctx)
        assert isinstance(device, glremote.RemoteDevice)
        there = device.greeting
        print(f"  glremote   {_compared(there.software, glremote.__version__)}")
        print(f"  moderngl   {_compared(there.moderngl, MODERNGL)}")
        print(f"  renderer   {visible(device.renderer)}, OpenGL {_newest(known, device) / 100:.1f}")
        _show(measure(ctx))
        ctx.release()
        if _is_near(make()):
            print("  near       this machine's own: contexts pass by the websocket, and share memory with it")
    except (Error, ValueError) as error:
        raise Failure(str(error)) from None


def _is_near(ctx: moderngl.Context) -> bool:
    """Whether the host let this one in past the websocket, which only trying tells; it is released."""
    from glremote import device

    near = getattr(device(ctx), "near", False)
    ctx.release()
    return bool(near)


def _newest(host: Host, device: RemoteDevice) -> int:
    """The OpenGL that its device gives whoever requires that; a context has what it requires."""
    from glremote.device.listing import list_hosts

    told = (one.version for one in list_hosts([host]) if one.error is None and one.header == device.place)
    return next(told, device.driver.version_code)


def _compared(there: str, here: str) -> str:
    return f"{there}, as here" if there == here else f"{visible(there)}; here {here}"


def _show(measured: Measured) -> None:
    trips = sorted(1000 * seconds for seconds in measured.round_trips)
    print(f"  distance   {trips[len(trips) // 2]:.2f} ms ({trips[0]:.2f} to {trips[-1]:.2f}), for one wait")
    for name, rate in (("up", measured.up), ("down", measured.down)):
        picture = 1000 * PICTURE / rate
        print(f"  {name:<10} {rate / 1e6:.1f} MB/s: 1920 x 1080 pixels, if they cannot be packed, in {picture:.0f} ms")
