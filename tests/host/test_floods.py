"""One client, or one worker, that sends more than anybody can take: it costs others neither their turn nor memory.

A gateway in a process of its own, with stand-ins for workers (test_gateway.py) and real sockets.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glremote.host.gateway.connections import PORTION, Portions
from glremote.host.gateway.door import LARGEST_REQUEST, MOST_OF_AN_ADDRESS
from glremote.link.tls import Trust
from glremote.protocol import proof
from glremote.protocol.messages import encode
from tests.attacker import BINARY, CLOSE, CONTINUATION, PING, PONG, frame
from tests.host.test_gateway import DEADLINE, KEYS, Client, Host, challenged, eventually
from tests.host.test_strangers import Certificate, descriptors, resident

Start = Callable[..., Host]
ROUND_TRIPS = 60
SOON = 15.0
"""Seconds for so many round trips beside a flood: they take some milliseconds each, and took a second and more."""
FLOODING_WORKERS = 6
MIB = 1 << 20


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a gateway."""
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> Host:
            host = Host(tmp_path, **options)
            stack.callback(host.close)
            return host

        yield start


class Flood:
    """Sends the same again and again, as fast as it is taken, until the block is left."""

    def __init__(self, sock: socket.socket, data: bytes, most: int | None = None) -> None:
        """`most`: bytes after which it ends."""
        self.sent = 0
        self._socket = sock
        self._data = memoryview(data)
        self._most = most
        self._over = False
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Flood:
        self._socket.setblocking(True)
        self._socket.settimeout(0.1)
        self._thread.start()
        return self

    def __exit__(self, *how: object) -> None:
        self._over = True
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(ConnectionError):
            while not self._over and (self._most is None or self.sent < self._most):
                with contextlib.suppress(TimeoutError):
                    self.sent += self._socket.send(self._data[self.sent % len(self._data) :])

    def stands(self) -> bool:
        """Whether nothing more is taken, or all of it was."""
        before = self.sent
        time.sleep(1.0)
        return self.sent == before


FLOODS = {
    "pings": frame(PING, bytes(125)) * 1000,
    "empty pings": frame(PING) * 10_000,
    "pongs": frame(PONG) * 10_000,
    "messages of nothing": frame(BINARY) * 10_000,
    "messages in many fragments": (
        frame(BINARY, fin=False) + frame(CONTINUATION, fin=False) * 1000 + frame(CONTINUATION)
    ) * 10,
}  # fmt: skip


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_frames_takes_nobody_s_turn(start: Start, name: str, loop: str) -> None:
    host = start(loop=loop)
    other, client = host(), host()
    assert other.ask(b"in") == client.ask(b"in") == b"in"
    with Flood(client.link.socket, FLOODS[name]) as flood:
        eventually(lambda: flood.sent > len(FLOODS[name]))
        began = time.monotonic()
        for number in range(ROUND_TRIPS):
            assert other.ask(b"%d" % number) == b"%d" % number
            assert time.monotonic() - began < SOON, f"{number} round trips"


MANY = """
    elif word == b"many":
        block = 5000 * {
            b"packets": struct.pack(">IB", 0, PACKET),
            b"tallies": struct.pack(">IB", 18, 9) + b"[0,0,0,0,0,0,0,{}]",
            b"lines": b"a line\\n",
        }[rest]
        while True:
            os.write(2, block) if rest == b"lines" else port.sendall(block)
"""


@pytest.mark.parametrize("what", [b"packets", b"tallies", b"lines"])
def test_workers_that_flood_take_nobody_s_turn(start: Start, what: bytes) -> None:
    """A worker may be what a client has made of it."""
    host = start()
    other = host()
    assert other.ask(b"in") == b"in"
    other_word = '    elif word == b"deaf":'
    host.worker.write_text(host.worker.read_text().replace(other_word, MANY + other_word))
    with contextlib.ExitStack() as stack:
        for _ in range(FLOODING_WORKERS):
            client = host()
            assert client.ask(b"in") == b"in"
            client.say(b"many " + what)
            client.link.socket.setblocking(True)
            reader = subprocess.Popen(["cat"], stdin=client.link.fileno(), stdout=subprocess.DEVNULL)
            stack.callback(reader.wait)
            stack.callback(reader.kill)
        began = time.monotonic()
        for number in range(2 * ROUND_TRIPS):
            assert other.ask(b"%d" % number) == b"%d" % number
            assert time.monotonic() - began < SOON, f"{number} round trips"


@pytest.mark.parametrize(("loop", "tls"), [("asyncio", False), ("uvloop", True)])
def test_answers_to_pings_that_nobody_reads_take_no_memory(start: Start, tmp_path: Path, loop: str, tls: bool) -> None:
    certificate = Certificate(tmp_path, "127.0.0.1")
    options: dict[str, Any] = {"tls": certificate.files} if tls else {}
    host = start(loop=loop, **options)
    client = Client(host.url, trust=Trust(str(certificate.ca)) if tls else None)
    assert client.ask(b"in") == b"in"
    memory = resident(host.process.pid)
    with Flood(client.link.socket, FLOODS["pings"], most=96 * MIB) as flood:
        eventually(flood.stands)
        assert flood.sent < 96 * MIB, "the host reads on and on"
        assert resident(host.process.pid) - memory < 32 * MIB
    # and once they are read it goes on
    client.link.socket.setblocking(False)
    client.link._unsent.append(bytes(FLOODS["pings"])[flood.sent % len(FLOODS["pings"]) :])
    assert client.ask(b"still here") == b"still here"


def test_pings_that_nobody_answers_are_not_kept(start: Start) -> None:
    host = start(constants={"PING_INTERVAL": 0.0})
    client = host()
    assert client.ask(b"in") == b"in"
    sock = client.link.socket
    sock.setblocking(True)
    memory, pings = resident(host.process.pid), 0
    while pings < 40_000:
        pings += sock.recv(1 << 16).count(b"\x89")
        if not pings % 100:
            sock.sendall(frame(PING))  # a sign of life, and no answer
    assert resident(host.process.pid) - memory < 6 * MIB


def test_what_a_busy_worker_does_not_take_stays_with_its_client(start: Start, tmp_path: Path) -> None:
    host = start()
    client = host()
    assert client.ask(b"in") == b"in"
    memory = resident(host.process.pid)
    go = tmp_path / "go"
    client.say(b"busy " + os.fsencode(go))
    message = frame(BINARY, b"note ".ljust(8 * MIB))
    with Flood(client.link.socket, message, most=32 * len(message)) as flood:
        eventually(flood.stands)
        assert flood.sent < 16 * len(message)
        assert resident(host.process.pid) - memory < 60 * MIB
        go.touch()
        eventually(lambda: flood.sent > 16 * len(message))


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_what_was_said_before_the_end_is_carried(start: Start, loop: str) -> None:
    """Also where it comes all at once, and takes many turns."""
    host = start(loop=loop)
    client = host()
    assert client.ask(b"in") == b"in"
    words = [frame(BINARY, b"%d" % number) for number in range(30 * PORTION)]
    client.link.socket.setblocking(True)
    client.link.socket.sendall(b"".join(words) + frame(BINARY, b"end with the last word") + frame(CLOSE))
    client.link.socket.shutdown(socket.SHUT_WR)
    eventually(lambda: "ended: with the last word" in host.errors())


# --- those who name a session and do not prove that it is theirs


def test_who_has_proven_nothing_may_say_little(start: Start) -> None:
    host = start()
    client = host()
    name = client.hello()["name"]
    memory = resident(host.process.pid)
    strangers = [challenged(host, name)[0] for _ in range(5)]
    message = frame(BINARY, bytes(8 * MIB - 1))
    with contextlib.ExitStack() as stack:
        floods = [stack.enter_context(Flood(one.link.socket, message, most=len(message))) for one in strangers]
        eventually(lambda: all(flood.stands() for flood in floods))
        assert resident(host.process.pid) - memory < 16 * MIB
    assert client.ask(b"undisturbed") == b"undisturbed"
    assert len(encode(proof.answer(KEYS[name], challenged(host, name)[1], bytes(32)))) < LARGEST_REQUEST // 100


def test_a_storm_of_those_who_prove_nothing_has_a_bound(start: Start) -> None:
    """They count as not let in; who proves at once comes through, and the present connection does not notice."""
    host = start(constants={"PROOF_TIMEOUT": 10 * DEADLINE})
    client = host()
    name = client.hello()["name"]
    before = descriptors(host.process.pid)
    with contextlib.ExitStack() as stack:
        for _ in range(4 * MOST_OF_AN_ADDRESS):
            stranger, _ = challenged(host, name)
            stack.callback(stranger.link.close)
        assert client.ask(b"undisturbed") == b"undisturbed"
        eventually(lambda: descriptors(host.process.pid) <= before + MOST_OF_AN_ADDRESS)
        resumed = host(name)
        assert resumed.hello()["events"] == [1, 2, 1]


def test_a_storm_of_resuming_leaves_one_connection(start: Start) -> None:
    """The newest that has proven the key wins, however many there are at once; nothing of the others stays."""
    host = start()
    first = host()
    known = first.hello()
    before, memory = descriptors(host.process.pid), resident(host.process.pid)
    storm, failed = 8, []

    def resume() -> None:
        try:
            for _ in range(20):
                host(known["name"]).link.close()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=resume) for _ in range(storm)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    last = host(known["name"])
    after = last.hello()
    assert (after["pid"], failed) == (known["pid"], [])
    assert after["events"] == [1, *itertools.islice(itertools.cycle((2, 1)), len(after["events"]) - 1)]
    eventually(lambda: descriptors(host.process.pid) <= before)
    assert resident(host.process.pid) - memory < 16 * MIB
    assert "Traceback" not in host.errors()


# --- portions


@pytest.mark.parametrize("step", [1, 3, 64, 1 << 20])
def test_portions_end_where_frames_do(step: int) -> None:
    sizes = [0, 1, 125, 126, 127, 65535, 65536, 70000] + [0] * 100 + [3] * 100
    frames = [frame(BINARY, bytes(size)) for size in sizes]
    ends, data = list(itertools.accumulate(map(len, frames))), b"".join(frames)
    portions, begun, at = Portions(PORTION), 0, 0
    for start_ in range(0, len(data), step):
        piece, within = data[start_ : start_ + step], 0
        while within < len(piece):
            to = portions.end(piece, within)
            assert to > within
            at += to - within
            now = sum(end - len(one) < at for end, one in zip(ends, frames, strict=True))
            assert now - begun <= PORTION
            assert to == len(piece) or at in ends, "a portion that is full ends with a frame"
            begun, within = now, to
    assert begun == len(frames)
