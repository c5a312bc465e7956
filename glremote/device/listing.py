"""The list of devices: every associated host's, asked at the same time, and this machine's own.

Knows: how long anybody is waited for, and what an answer says of each device. Does not know: which device is taken.

Threads are daemons, one for each host: a look-up of a name cannot be interrupted, and whoever hangs in one is left.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from glremote.hosts import LOCAL, Host
from glremote.link.asking import Answer, ask
from glremote.protocol import devices
from glremote.protocol.errors import Error, ProtocolError

from .choosing import DeviceRecord

PATIENCE = 1.0
"""Seconds that a host may take to answer, all of it."""
SLACK = 0.1
"""Seconds on top, after which its thread is left alone."""
PROBE_PATIENCE = 60.0
"""Seconds that this machine's own drivers may take."""
PROBE = ("-P", "-m", "glremote.host.telling")
SECRET = "GLREMOTE_TOKEN", "GLREMOTE_LOOK_TOKEN"
"""Variables that the child has no use for."""


def list_hosts(hosts: Sequence[Host]) -> list[DeviceRecord]:
    """The devices of hosts, in the hosts' order; one that does not answer is a record with its error."""
    patience = PATIENCE
    asked = [_begin(functools.partial(_ask, host, patience)) for host in hosts]
    deadline = time.monotonic() + patience + SLACK
    records = []
    for host, answer in zip(hosts, asked, strict=True):
        try:
            records += answer.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            records.append(_silent(host, f"{host.url}: no answer within {patience:g} s"))
    return records


def list_all(hosts: Sequence[Host]) -> list[DeviceRecord]:
    """The same, and this machine's behind them."""
    here = _begin(list_here)
    return [*list_hosts(hosts), *here.result()]


def list_here() -> list[DeviceRecord]:
    """This machine's devices, of which a child process tells: ours loads no driver. None where there is no EGL."""
    import subprocess  # which takes longer to import than all of this module

    path = os.pathsep.join([str(Path(__file__).parents[2]), *_search_path()])
    variables = {name: text for name, text in os.environ.items() if name not in SECRET} | {"PYTHONPATH": path}
    try:
        done = subprocess.run(
            [sys.executable or "python3", *PROBE],  # an application may have Python in it, and not know of one
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_PATIENCE,
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise OSError(said or f"{sys.executable} ended with status {done.returncode}")
        return [DeviceRecord(host=LOCAL, url=LOCAL, distance=0.0, **_fields(one)) for one in _decoded(done.stdout)]
    except (OSError, subprocess.TimeoutExpired, ProtocolError) as error:
        return [DeviceRecord(host=LOCAL, url=LOCAL, error=f"this machine's devices are not known: {error}")]


def _search_path() -> Iterator[str]:
    """Ours, for a child that may be in another folder."""
    for entry in sys.path:
        if isinstance(entry, str):  # programs put other things there too
            with contextlib.suppress(OSError):  # our own folder may be gone
                yield os.path.abspath(entry)


def _decoded(told: bytes) -> tuple[devices.Device, ...]:
    return devices.decode_devices(told) if told else ()


def _ask(host: Host, patience: float) -> list[DeviceRecord]:
    try:
        return records_of(host, ask(host.url, host.current_token, host.trust, patience))
    except (Error, ValueError) as error:
        return [_silent(host, str(error))]


def records_of(host: Host, answer: Answer) -> list[DeviceRecord]:
    """A record for each device of a host's report."""
    report = answer.report
    if not report.devices:
        why = report.trouble or "it knows of no device of its own"
        return [_silent(host, f"{host.url}: {why}; `glremote doctor` there says why")]
    return [
        DeviceRecord(
            host=host.name,
            url=host.url,
            distance=1000 * answer.distance,
            glremote=report.software,
            host_sessions=report.sessions,
            max_sessions=report.max_sessions,
            draining=report.draining,
            **_fields(device) | {"trouble": report.trouble or device.trouble},
        )
        for device in report.devices
    ]


def _silent(host: Host, why: str) -> DeviceRecord:
    return DeviceRecord(host=host.name, url=host.url, error=why)


def _fields(device: devices.Device) -> dict[str, Any]:
    return {name: getattr(device, name) for name in device.__struct_fields__}


def _begin(work: Callable[[], list[DeviceRecord]]) -> concurrent.futures.Future[list[DeviceRecord]]:
    """Begin it in a thread of its own."""
    future: concurrent.futures.Future[list[DeviceRecord]] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="glremote devices", daemon=True).start()
    return future
