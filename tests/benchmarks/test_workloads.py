"""Every workload comes to the same results plainly and on a host, and the relay is as slow as it is told. No time of a
workload is looked at: that is what `make bench` is for.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from rich.console import Console

from glremote import Traffic
from glremote.host.serving import LocalHost
from tests.benchmarks.measuring import FOLDER, WORKLOADS, Measured, quartiles
from tests.benchmarks.table import NEAR, WEBSOCKET, table
from tests.benchmarks.ways import PLAIN, Run, Way, remote
from tests.relay import Line, Relay

TIMEOUT = 60.0
SHARED = {"clock", "pebbles"}
"""Modules of the workloads that are none themselves."""


def small(way: Way, name: str) -> Run:
    """Run a tiny workload."""
    return way.run(FOLDER / f"{name}.py", TIMEOUT, GLREMOTE_BENCH_SMALL="1")


def test_every_script_is_in_the_table() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - SHARED == set(WORKLOADS)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_host_gives_the_same_results(name: str, served: LocalHost) -> None:
    plain = small(PLAIN, name)
    near = small(remote(NEAR, served.url, served.token, near=True), name)
    assert near.digest == plain.digest
    assert near.traffic.waits >= near.reads == plain.reads
    assert near.traffic.commands >= near.traffic.buffers > 0 == plain.traffic.commands


def run(total: float, digest: str = "same") -> Run:
    """A run that took so long."""
    return Run(total, 2 * total, digest, 1, {}, Traffic())


def test_ratios_are_of_one_round() -> None:
    measured = Measured("draws", {"plain": [run(1), run(2)], "control": [run(3), run(2)], "near": [run(4), run(6)]})
    assert measured.ratios("near") == (2.25, 2.5, 2.75)
    assert measured.ratios("control") == (1.5, 2.0, 2.5)
    assert quartiles([7.0]) == (7.0, 7.0, 7.0)


def test_what_is_wrong_is_red() -> None:
    runs = {"plain": [run(1)], "control": [run(1)], NEAR: [run(1, "other")], WEBSOCKET: [run(1)]}
    measured = Measured("draws", runs, {"virgl": "exit status 1"})
    assert measured.wrong == [NEAR, "virgl"] and measured.is_wrong
    console = Console(width=200, color_system="standard", force_terminal=True)
    with console.capture() as capture:
        console.print(table([measured], ["far"]))
    assert capture.get().count("\x1b[31m") == 2


# --- the relay


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it gets, to one client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                while data := connection.recv(65536):
                    connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def through(port: int, data: bytes) -> tuple[bytes, float]:
    """What comes back through a relay, to the end of the connection, and how long that took."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as client:
        began = time.monotonic()
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        back = bytearray()
        while len(back) < len(data) and (piece := client.recv(65536)):
            back += piece
        sender.join()
        client.shutdown(socket.SHUT_WR)
        back += client.recv(1)
        return bytes(back), time.monotonic() - began


def test_the_relay_delays(echo: int) -> None:
    with Relay(Line(0.1, 1000), echo) as relay:
        back, seconds = through(relay.port, b"there and back")
    assert back == b"there and back"
    assert seconds >= 0.1


def test_the_relay_limits_the_rate_and_changes_no_byte(echo: int) -> None:
    data = random.Random(1).randbytes(1_000_000)
    with Relay(Line(0.02, 40), echo) as relay:
        back, seconds = through(relay.port, data)
    assert back == data
    assert seconds >= 0.02 + len(data) * 8 / 40e6
