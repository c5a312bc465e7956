"""Many sessions on one host at once: disturbed by chance, all of them lost with their host, and stopped processes.

`make soak-crowd` disturbs more of them, for longer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glremote.host.serving import LocalHost
from tests.host.test_gateway import TOKEN, Host, eventually
from tests.pages import metrics
from tests.processes import children, runs

from .crowd import Client, Plan, undisturbed
from .disturbing import GIVEN_UP
from .seats import DEADLINE, Settings
from .soak_crowd import soak


def test_a_crowd_is_disturbed() -> None:
    """Each that nothing was done to comes to the right digests; the gateway is then as it was, and nothing is left.

    With this seed clients are killed early, so that the grace of their sessions is soon over.
    """
    soak(Plan(clients=4, seconds=0.0, seed=138, between=0.4, pause=0.1, grace=8.0, buffer_seconds=5.0), print)


class Heard:
    """What clients tell, by kind."""

    def __init__(self) -> None:
        self._told: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._news = threading.Condition()

    def __call__(self, client: Client, message: dict[str, Any]) -> None:
        with self._news:
            self._told[message["what"]].append(message)
            self._news.notify_all()

    def all(self, what: str, count: int) -> list[dict[str, Any]]:
        """So many messages of a kind; then there are no more of it."""
        with self._news:
            came = self._news.wait_for(lambda: len(self._told[what]) >= count or self._told["wrong"], DEADLINE)
            assert came and not self._told["wrong"] and len(self._told[what]) == count, self._told
            return self._told[what]


@pytest.fixture
def heard() -> Heard:
    """What the clients of a test tell."""
    return Heard()


@pytest.fixture
def start(heard: Heard) -> Iterator[Callable[..., Client]]:
    """Starts a client process with two sessions, one of them near; whoever loses its session ends."""
    digest = undisturbed()
    with contextlib.ExitStack() as stack:

        def start(url: str, token: str) -> Client:
            client = Client(token, Settings(url, digest, (True, False), 0.02, 0, again=False), heard)
            stack.callback(client.close)
            return client

        yield start


def test_a_killed_gateway_is_heard_of_by_all(
    start: Callable[..., Client], heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session is lost within about a second. No worker stays behind, and a cache until the next host begins."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with LocalHost("--warm", "1") as host:
        for _ in range(3):
            start(host.url, host.token)
        heard.all("began", 6)
        workers = children(host.pid)
        assert len(workers) >= 6
        killed = time.monotonic()
        os.kill(host.pid, signal.SIGKILL)
        lost = heard.all("lost", 6)
        eventually(lambda: not any(map(runs, workers)))
        (left,) = tmp_path.iterdir()
        assert {message["seat"] for message in lost} == {0, 1}
        assert all("the host has ended" in message["why"] for message in lost)
        print(f"told within {max(message['at'] - max(killed, message['waited']) for message in lost):.2f} s")
    with LocalHost("--warm", "0"):
        assert left not in tmp_path.iterdir()
    assert not list(tmp_path.iterdir())


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Callable[[float], Host]]:
    """Starts a host that gives up a connection after half a second without a sign of life, with this grace."""
    with contextlib.ExitStack() as stack:

        def start(grace: float) -> Host:
            command = [sys.executable, "-P", "-m", "glremote.host.process"]
            constants = {"PING_INTERVAL": 0.1, "PING_TIMEOUT": 0.5}
            host = Host(tmp_path, worker_command=command, constants=constants, grace=grace)
            stack.callback(host.close)
            return host

        yield start


def test_a_process_that_stands_still_goes_on(
    start: Callable[..., Client], heard: Heard, impatient: Callable[[float], Host]
) -> None:
    """For longer than keepalive waits, and not longer than the grace."""
    host = impatient(60.0)
    client = start(host.url, TOKEN)
    heard.all("began", 2)
    client.process.send_signal(signal.SIGSTOP)
    eventually(lambda: metrics(host.url)["glremote_sessions away"] == 2)
    client.process.send_signal(signal.SIGCONT)
    eventually(lambda: metrics(host.url)["glremote_sessions connected"] == 2)
    client.do("finish")
    assert all(message["rounds"] for message in heard.all("finished", 2))
    heard.all("ended", 1)


def test_a_process_that_stands_still_for_too_long_is_told_why(
    start: Callable[..., Client], heard: Heard, impatient: Callable[[float], Host]
) -> None:
    """For longer than keepalive and the grace."""
    host = impatient(1.0)
    client = start(host.url, TOKEN)
    heard.all("began", 2)
    client.process.send_signal(signal.SIGSTOP)
    eventually(lambda: metrics(host.url)["glremote_sessions_ended_total lost"] == 2)
    client.process.send_signal(signal.SIGCONT)
    lost = heard.all("lost", 2)
    assert all(message["why"].endswith(f"{GIVEN_UP} 1 s") for message in lost), lost
    heard.all("ended", 1)
    eventually(lambda: not children(host.process.pid))
