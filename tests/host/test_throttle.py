"""Bytes per second: who goes past them is slower, is told so once, and loses nothing; nobody else notices.

Sessions are real, over real websockets; the gateway is test_gateway.py's where its patience is to be short.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import moderngl
import pytest

import glremote
from glremote.host.gateway import Gateway, Options
from glremote.host.gateway.throttle import LEAST, Throttle
from glremote.host.limits import Limits
from glremote.host.serving import LocalHost
from glremote.protocol.messages import LARGEST_PACKET, decode
from tests.host.test_gateway import DEADLINE, TOKEN, WORKER, Client, Host, eventually

MIB = 1 << 20
TOLD = "the host limits this context to 1,048,576 bytes a second"
REAL = [sys.executable, "-P", "-m", "glremote.host.process"]


def test_a_store_of_bytes() -> None:
    free = Throttle(0)
    free.take(1 << 40)
    assert free.wait() == 0.0
    slow = Throttle(1)
    slow.take(LEAST)
    assert slow.wait() == 0.0, "a session begins at once"
    slow.take(1 << 20)
    assert (1 << 20) - 600 < slow.wait() <= 1 << 20
    fast = Throttle(1 << 30)
    time.sleep(0.01)
    assert fast.wait() == 0.0
    fast.take(3 << 30)  # more than the store ever holds goes too
    assert 1.0 < fast.wait() <= 2.0


@pytest.fixture(scope="module")
def host() -> Iterator[LocalHost]:
    """A host that lets each session move a MiB a second."""
    with LocalHost("--limit", "bytes-per-second=1m") as found:
        yield found


@pytest.fixture
def connect(host: LocalHost) -> Iterator[Callable[..., Any]]:
    """Makes contexts there, over the websocket unless near is asked for."""
    made: list[moderngl.Context] = []

    def connect(near: bool = False) -> moderngl.Context:
        made.append(glremote.create_context(host.url, token=host.token, near=near))
        return made[-1]

    yield connect
    for ctx in made:
        ctx.release()


def notices(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What hosts have told, and what else the client found worth a warning."""
    return [record.getMessage() for record in caplog.records if record.name == "glremote"]


def test_it_is_slower_and_told_so_once(connect: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    ctx, other = connect(), connect()
    theirs = other.buffer(b"four")
    data = os.urandom(4 * MIB)
    found: list[bytes] = []

    def work() -> None:
        buffer = ctx.buffer(data)
        found.extend((buffer.read(), bytes(buffer.read(4))))

    began = time.monotonic()
    working = threading.Thread(target=work)
    working.start()
    eventually(lambda: notices(caplog))
    for _ in range(5):
        assert theirs.read() == b"four"
    assert working.is_alive(), "another session does not wait for this one"
    working.join()
    assert found == [data, data[:4]]
    assert time.monotonic() - began > 6, "eight MiB, both ways together, of which one was in store, and one is a debt"
    (told,) = notices(caplog)
    assert TOLD in told


def test_near_moves_nothing_over_the_network(connect: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    ctx = connect(near=True)
    data = os.urandom(12 * MIB)
    assert ctx.buffer(data).read() == data
    assert notices(caplog) == []


def test_a_context_is_made_at_any_rate() -> None:
    with LocalHost("--limit", "bytes-per-second=1") as slow:
        ctx = glremote.create_context(slow.url, token=slow.token, near=False)
        assert ctx.buffer(b"four").read() == b"four"
        ctx.release()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Starts a gateway with real workers, and no patience."""
    hosts: list[Host] = []

    def start(limits: str, **options: Any) -> Host:
        constants = {"PING_INTERVAL": 0.3, "PING_TIMEOUT": 1.2}
        hosts.append(Host(tmp_path, worker_command=REAL, constants=constants, limits=limits, **options))
        return hosts[-1]

    yield start
    for host in hosts:
        host.close()


def test_nobody_takes_who_waits_for_gone(
    start: Callable[..., Host], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single waits are longer than either side's patience, and than the client may be silent."""
    host = start("bytes-per-second=1m,idle-seconds=1.5")
    monkeypatch.setattr("glremote.link.websocket.KEEPALIVE", 0.4)
    ctx = glremote.create_context(host.url, token=TOKEN, near=False)
    data = os.urandom(6 * MIB)
    began = time.monotonic()
    buffer = ctx.buffer(data)
    assert buffer.read(4, offset=2 * MIB) == data[2 * MIB :][:4]
    assert time.monotonic() - began > 3.5
    (told,) = notices(caplog)
    assert TOLD in told
    ctx.release()
    said = eventually(lambda: re.search("session 1 ended.*", host.errors()))
    assert said[0].strip() == "session 1 ended"


def test_a_silent_client_is_found_out_all_the_same(start: Callable[..., Host]) -> None:
    host = start("bytes-per-second=8m,idle-seconds=1")  # and what may be held up there takes another
    ctx = glremote.create_context(host.url, token=TOKEN, near=False)
    ctx.finish()
    eventually(lambda: "its client was silent for longer than the 1 s that idle-seconds allows" in host.errors())
    with contextlib.suppress(glremote.DeviceLost):
        ctx.release()


def test_a_connection_that_breaks_meanwhile(start: Callable[..., Host], caplog: pytest.LogCaptureFixture) -> None:
    """What was held back for the old connection is sent again over the new one, and does not go twice."""
    host = start("bytes-per-second=1m")
    ctx = glremote.create_context(host.url, token=TOKEN, near=False)
    device: Any = glremote.device(ctx)
    data = os.urandom(2 * MIB)
    buffer = ctx.buffer(data)
    ahead = glremote.read_async(buffer)
    eventually(lambda: TOLD in caplog.text)
    for _ in range(2):
        caplog.clear()
        device.road.link.socket.shutdown(socket.SHUT_RDWR)
        eventually(lambda: "resuming" in caplog.text)
        eventually(lambda: device._session.connected)
        assert TOLD not in caplog.text, "told already"
    assert ahead.result() == data
    buffer.write(b"four")
    assert buffer.read(4) == b"four"
    ctx.release()


# --- what is gone owes nothing, with stand-ins for workers


def test_what_waits_for_a_connection_that_is_gone_is_dropped(tmp_path: Path) -> None:
    """Else the last would wait for all that were before it, which takes longer than anybody here waits."""
    host = Host(tmp_path, limits="bytes-per-second=1m")
    with contextlib.closing(host):
        client = host()
        name = client.hello()["name"]
        client.say(bytes(LARGEST_PACKET))
        for _ in range(9):
            client.say(bytes(LARGEST_PACKET))
            client = host(name)
        client.say(b"the last")
        while client.hear() != b"the last":
            pass


def test_an_end_does_not_wait(tmp_path: Path) -> None:
    """A session that owes an hour is ended at once, and nothing of it stays."""
    (tmp_path / "worker.py").write_text(WORKER)
    command = (sys.executable, "-I", "-S", str(tmp_path / "worker.py"))
    slow = Limits(bytes_per_second=1000)

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():
                await asyncio.sleep(0.01)

    async def main() -> str:
        gateway = Gateway(Options(token=TOKEN, port=0, warm=0, worker_command=command, limits=slow))
        client = await asyncio.to_thread(Client, await gateway.open())
        await asyncio.to_thread(client.hello)
        (session,) = gateway.sessions
        await asyncio.to_thread(client.say, bytes(LARGEST_PACKET), bytes(LARGEST_PACKET))
        await until(session._throttle.turn.locked)
        assert any(is_a_visit(task) for task in asyncio.all_tasks())
        session.end("enough")
        while b"bytes a second" in (said := await asyncio.to_thread(client.hear)):
            pass
        await until(lambda: not any(is_a_visit(task) for task in asyncio.all_tasks()))
        await gateway.close()
        ((lost, _),) = decode(said)
        return str(lost.reason)

    def is_a_visit(task: Any) -> bool:
        return str(task.get_coro().__qualname__) == "Door._visit"

    assert asyncio.run(main()) == "enough"


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> None:
    """What the client says is kept."""
    caplog.set_level(logging.WARNING, "glremote")
