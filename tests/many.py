"""Several hosts on one machine, for tests: three are alive, one of them behind a slow line, and one is dead."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from glremote.host.serving import LocalHost
from glremote.hosts import Host
from tests.relay import Line, Relay

FAR = Line(0.25, 200.0)


@dataclass(frozen=True)
class Hosts:
    """`one` and `two` have one token, `far` another; nobody answers at `dead`, though connections are made."""

    one: Host
    two: Host
    far: Host
    dead: Host
    processes: dict[str, LocalHost]

    @property
    def all(self) -> tuple[Host, ...]:
        """In this order."""
        return self.one, self.two, self.far, self.dead

    @property
    def alive(self) -> tuple[Host, ...]:
        """Those that can be used."""
        return self.one, self.two, self.far


@contextlib.contextmanager
def many_hosts() -> Iterator[Hosts]:
    """Start them."""
    with contextlib.ExitStack() as stack:
        processes = {name: LocalHost("--warm", "1") for name in ("one", "two", "far")}
        processes["two"].token = processes["one"].token
        with ThreadPoolExecutor() as pool:  # each takes a second or two
            starting = [pool.submit(process.__enter__) for process in processes.values()]
        for process in processes.values():
            stack.push(process)
        for started in starting:
            started.result()
        known = {name: Host(process.url, name, process.token) for name, process in processes.items()}
        relay = stack.enter_context(Relay(FAR, int(processes["far"].url.rpartition(":")[2])))
        known["far"] = Host(f"ws://127.0.0.1:{relay.port}", "far", processes["far"].token)
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))  # which never accepts
        dead = Host(f"ws://127.0.0.1:{silent.getsockname()[1]}", "dead", "a-token")
        yield Hosts(known["one"], known["two"], known["far"], dead, processes)
