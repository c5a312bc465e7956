"""The gateway in a process of its own, with real websockets and real worker processes.

The workers are stand-ins: they speak the frames of port.py, written down here a second time, and do what a packet says
in plain words, so that nothing here needs OpenGL or the session's messages.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from glremote.device.opening import prove
from glremote.host.gateway.workers import WORKER_TIMEOUT
from glremote.host.serving import environment
from glremote.link.links import Link, LinkBroken, stream_pair
from glremote.link.tls import Trust
from glremote.link.websocket import connect
from glremote.protocol import proof
from glremote.protocol.errors import HostUnreachable, NotAdmitted
from glremote.protocol.messages import Challenge, Lost, Proof, Proven, Refused, Resume, decode, encode
from tests.processes import children

TOKEN = "a-token-for-tests"
DEADLINE = 30.0
"""Seconds after which something that must happen is held not to."""

GATEWAY = """
import asyncio, json, logging, pathlib, sys
from glremote.host import gateway
from glremote.host.gateway import devices, door, looking, sessions, warming, workers
from glremote.host.limits import Limits
from glremote.protocol.devices import Device
logging.basicConfig(level=logging.INFO)
given = json.loads(sys.argv[1])
for name, value in given.pop("constants").items():
    for module in (devices, door, sessions, warming, workers, looking, gateway):
        if name in vars(module):
            setattr(module, name, value)
given["worker_command"] = tuple(given["worker_command"])
for name in {"tokens_file", "cache"} & given.keys():
    given[name] = pathlib.Path(given[name])
if "limits" in given:
    given["limits"] = Limits().changed(given["limits"])
if "tls" in given:
    given["tls"] = gateway.Certificate(*map(pathlib.Path, given["tls"]))
given["devices"] = tuple(Device(**fields) for fields in given.get("devices", ()))
loop = given.pop("loop")
run = gateway.run if loop == "uvloop" else lambda options, ready: asyncio.run(gateway.serve(options, ready))
run(gateway.Options(**given), lambda url: print(url, flush=True))
"""

WORKER = '''
import json, os, signal, socket, struct, sys, time

PACKET, ATTACHED, DETACHED, READY, ENDED = range(5)
if "--fail" in sys.argv:
    sys.exit("something else\\nno OpenGL here: install a driver")
if "--lost" in sys.argv:
    lost = sys.argv.index("--lost")  # a device's index, and the file that is there while it is lost
    if sys.argv[sys.argv.index("--device-index") + 1] == sys.argv[lost + 1] and os.path.exists(sys.argv[lost + 2]):
        sys.exit("this GPU has fallen off the bus")
port = socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1]))
events, introduction, note = [], "", ""

def send(what, data=b""):
    try:
        port.sendall(struct.pack(">IB", len(data), what) + data)
    except BrokenPipeError:
        sys.exit(0)

def exactly(count):
    data = b""
    while len(data) < count:
        piece = port.recv(count - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data

def flood(count, path):
    """Send packets of a MiB until nobody has taken anything for a second; write down how many were taken."""
    port.settimeout(1.0)
    taken = 0
    try:
        while taken < count:
            send(PACKET, bytes(1 << 20))
            taken += 1
    except TimeoutError:
        pass
    with open(path + ".new", "w") as file:
        file.write(str(taken))
    os.rename(path + ".new", path)
    sys.exit(0)

send(READY, b"a stand-in")
while True:
    length, what = struct.unpack(">IB", exactly(5))
    data = exactly(length)
    if what != PACKET:
        events.append(what)
        introduction = introduction or data.decode()
        if what == DETACHED and note:
            open(note, "w").close()
        continue
    word, _, rest = data.partition(b" ")
    if word == b"hello":
        known = {"pid": os.getpid(), "events": events, "introduction": introduction, "variables": dict(os.environ)}
        known["arguments"] = sys.argv[1:]
        send(PACKET, json.dumps(known).encode())
    elif word == b"exit":
        sys.stderr.write("some noise\\nthe last words\\n")
        sys.stderr.flush()
        os._exit(int(rest))
    elif word == b"end":
        send(ENDED, rest)
        sys.exit(0)
    elif word == b"flood":
        flood(1024, rest.decode())
    elif word == b"deaf":
        send(PACKET, b"deaf")
        while True:
            signal.pause()
    elif word == b"busy":
        while not os.path.exists(rest):
            time.sleep(0.01)
    elif word == b"hold":
        held = [b"x" * (1 << 20) for _ in range(int(rest))]
        send(PACKET, b"held")
    elif word == b"note":
        note = rest.decode()
        send(PACKET, b"noted")
    elif word == b"scribble":
        port.sendall(b"\\xff" * 5)
    else:
        send(PACKET, data)
'''


def eventually(condition: Callable[[], Any]) -> Any:
    """Wait until a condition holds; its value."""
    deadline = time.monotonic() + DEADLINE
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never held"
        time.sleep(0.01)
    return value


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended; an orphan's zombie may stay where nothing reaps it."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


KEYS: dict[str, bytes] = {}
"""Of the sessions whose workers have told theirs."""


class Client:
    """A connection to the gateway that says a word and waits for a packet."""

    def __init__(
        self, url: str, session: str | None = None, token: str | None = TOKEN, trust: Trust | None = None
    ) -> None:
        self.link: Link = connect(url, token, session, trust)
        self._packets: list[bytes] = []
        if session in KEYS:
            prove(self.link, url, KEYS[session])

    def say(self, *packets: bytes) -> None:
        """Send packets."""
        self.link.send([[packet] for packet in packets])
        while self.link.has_unsent:
            self.link.poll(DEADLINE)
            self.link.send()

    def hear(self) -> bytes:
        """The next packet."""
        deadline = time.monotonic() + DEADLINE
        while not self._packets:
            assert time.monotonic() < deadline, "no packet came"
            self._packets += [bytes(packet) for packet in self.link.receive(1.0)]
        return self._packets.pop(0)

    def ask(self, packet: bytes) -> bytes:
        """Send a packet, and wait for one."""
        self.say(packet)
        return self.hear()

    def hello(self) -> dict[str, Any]:
        """What the worker knows of itself; with the session's name."""
        known: dict[str, Any] = json.loads(self.ask(b"hello"))
        known["name"], known["grace"], known["key"] = known["introduction"].split()
        KEYS[known["name"]] = bytes.fromhex(known["key"])
        return known

    def lost(self) -> str:
        """The reason of the one Lost message that comes next."""
        ((message, _),) = decode(self.hear())
        assert isinstance(message, Lost)
        return message.reason

    def closing(self) -> str:
        """How the host closes the websocket, which must be the next that happens."""
        with pytest.raises(LinkBroken):
            self.hear()
        self.link.close()
        codec: Any = self.link.codec
        close = codec._protocol.close_rcvd
        return f"{int(close.code)} {close.reason}"


class Host:
    """A gateway with stand-ins for workers."""

    def __init__(
        self, folder: Path, loop: str = "uvloop", constants: dict[str, Any] | None = None, **options: Any
    ) -> None:
        self.worker = folder / "worker.py"
        self.worker.write_text(WORKER)
        given = {"token": TOKEN, "port": 0, "warm": 0, "worker_command": self.command(), "loop": loop} | options
        given["constants"] = constants or {}
        self._errors = (folder / "errors").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", GATEWAY, json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(TOKEN),
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-I", "-S", str(self.worker), *arguments]

    def __call__(self, session: str | None = None, token: str | None = TOKEN) -> Client:
        return Client(self.url, session, token)

    def request(self, path: str = "/glremote", **headers: str) -> tuple[int, str]:
        """Ask for a websocket; the status and the text of the answer."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=DEADLINE)
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        upgrade["Sec-WebSocket-Key"] = base64.b64encode(bytes(16)).decode()
        with contextlib.closing(connection):
            connection.request("GET", path, headers=upgrade | headers)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send the gateway a signal, and wait for its end; its exit status."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE)

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.end()
        for file in (self.process.stdout, self._errors):
            file.close()  # type: ignore[union-attr]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Starts a gateway."""
    hosts: list[Host] = []

    def start(**options: Any) -> Host:
        hosts.append(Host(tmp_path, **options))
        return hosts[-1]

    yield start
    for host in hosts:
        host.close()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A gateway with the usual options, for the tests that leave it as it was."""
    host = Host(tmp_path_factory.mktemp("gateway"), warm=1)
    yield host
    host.close()


BEARER = f"Bearer {TOKEN}"


# --- admitting


@pytest.mark.parametrize(
    ("path", "headers", "status", "says"),
    [
        ("/glremote", {}, 401, "a token is needed"),
        ("/glremote", {"Authorization": ""}, 401, "a token is needed"),
        ("/glremote", {"Authorization": f"Basic {TOKEN}"}, 401, "a token is needed"),
        ("/glremote", {"Authorization": "Bearer another"}, 401, "not this host's"),
        ("/glremote", {"Authorization": "Bearer \xe4"}, 401, "not this host's"),
        ("/glremote", {"Authorization": f"{BEARER}x"}, 401, "not this host's"),
        ("/glremote", {"Authorization": BEARER, "Origin": "https://example.org"}, 403, "browser"),
        ("/glremote", {"Authorization": BEARER, "Glremote-Session": "nobody"}, 410, "the session has ended"),
        ("/", {"Authorization": BEARER}, 404, "/glremote"),
        ("/glremote/", {"Authorization": BEARER}, 404, "/glremote"),
        ("/glremote", {"Authorization": BEARER, "Sec-WebSocket-Version": "12"}, 400, ""),
    ],
)
def test_refusals(host: Host, path: str, headers: dict[str, str], status: int, says: str) -> None:
    got, text = host.request(path, **headers)
    assert got == status
    assert says in text
    assert text.count("\n") == 1 or status == 400
    assert TOKEN not in text


def test_admission(host: Host) -> None:
    assert host.request(Authorization=BEARER)[0] == 101
    assert host.request("/glremote?of=a-proxy", Authorization=BEARER)[0] == 101
    assert host.request(Authorization=f"bearer  {TOKEN}")[0] == 101


@pytest.mark.parametrize(("token", "says"), [(None, "set GLREMOTE_TOKEN"), ("another", "glremote serve")])
def test_the_client_shows_the_refusal_after_the_address(host: Host, token: str | None, says: str) -> None:
    with pytest.raises(NotAdmitted) as caught:
        host(token=token)
    assert str(caught.value).startswith(f"{host.url}: ")
    assert says in str(caught.value)


def test_no_room(start: Callable[..., Host]) -> None:
    host = start(max_sessions=1)
    first = host()
    first.hello()
    with pytest.raises(NotAdmitted, match="no room for another session: all 1 "):
        host()
    first.say(b"end ")
    assert first.closing() == "1000 "
    assert host().ask(b"a new one") == b"a new one"


def test_a_session_without_a_connection_gives_its_place_away(start: Callable[..., Host]) -> None:
    host = start(max_sessions=1)
    first = host()
    name = first.hello()["name"]
    first.link.close()

    def admitted() -> Client | None:
        with contextlib.suppress(NotAdmitted):  # the gateway has not noticed yet that the first is gone
            return host()
        return None

    assert eventually(admitted).ask(b"a new one") == b"a new one"
    with pytest.raises(NotAdmitted, match=r"the session has ended: .* needed its place"):
        host(name)


def test_the_session_that_lacks_its_connection_longest_gives_its_place_away(
    start: Callable[..., Host], tmp_path: Path
) -> None:
    host = start(max_sessions=3)
    clients = [host() for _ in range(3)]
    names = [client.hello()["name"] for client in clients]
    for number in (2, 0):  # the last that began is the first to lose its connection
        gone = tmp_path / f"gone {number}"
        assert clients[number].ask(b"note %s" % os.fsencode(gone)) == b"noted"
        clients[number].link.close()
        eventually(gone.exists)
    assert host().ask(b"a new one") == b"a new one"
    with pytest.raises(NotAdmitted, match="needed its place"):
        host(names[2])
    assert host(names[0]).ask(b"still here") == b"still here"


def test_a_crowd_gets_no_more_places_than_there_are(start: Callable[..., Host]) -> None:
    host = start(max_sessions=3)
    admitted: list[Client] = []
    refused: list[str] = []

    def come() -> None:
        try:
            client = host()
            assert client.ask(b"in") == b"in"
            admitted.append(client)
        except NotAdmitted as error:
            refused.append(str(error))

    crowd = [threading.Thread(target=come) for _ in range(9)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join(DEADLINE)
    assert (len(admitted), len(refused)) == (3, 6)


def test_what_never_becomes_a_websocket_takes_no_place(start: Callable[..., Host]) -> None:
    host = start(max_sessions=1)
    for _ in range(3):
        assert host.request(Authorization=BEARER, Upgrade="nothing")[0] == 426
    assert host().ask(b"in") == b"in"


def test_a_client_that_opens_slowly_holds_up_nobody(host: Host) -> None:
    address = urlsplit(host.url)
    slow = [socket.create_connection((address.hostname, address.port)) for _ in range(5)]
    for sock in slow:
        sock.sendall(b"GET /glremote HTTP/1.1\r\nHost: ")
    assert host().ask(b"in") == b"in"
    for sock in slow:
        sock.close()


# --- carrying


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_packets_are_carried_unread_in_both_directions(start: Callable[..., Host], loop: str) -> None:
    client = start(loop=loop)()
    sizes = (0, 1, 65_531, 65_536, 65_541, 1 << 20, 8 << 20)
    packets = [(bytes(range(251)) * (size // 251 + 1))[:size] for size in sizes]
    for packet in packets:
        assert client.ask(packet) == packet
    small = [b"packet %d" % number for number in range(500)]
    client.say(*small)
    assert [client.hear() for _ in small] == small


def test_the_worker_is_told_the_session_s_name_and_key_and_no_token(host: Host) -> None:
    known, other = host().hello(), host().hello()
    assert known["events"] == [1]
    assert known["introduction"] == f"{known['name']} 60.0 {known['key']}\n"
    assert (len(known["name"]), len(known["key"])) == (22, 64)
    assert known["key"] != other["key"]
    assert (known["name"], known["pid"]) != (other["name"], other["pid"])
    assert TOKEN not in str(known["variables"])


def test_text_ends_the_connection_and_not_the_session(host: Host) -> None:
    client = host()
    name = client.hello()["name"]
    client.link.socket.sendall(b"\x81\x82" + bytes(4) + b"hi")  # a masked text message
    assert client.closing().startswith("1003 packets are binary")
    assert host(name).ask(b"still here") == b"still here"


def test_a_message_that_is_too_large_ends_the_connection_and_not_the_session(host: Host) -> None:
    client = host()
    name = client.hello()["name"]
    client.link.socket.sendall(b"\x82\xff" + (1 << 30).to_bytes(8, "big") + bytes(4))
    assert client.closing().startswith("1009 ")
    assert host(name).ask(b"still here") == b"still here"


def test_a_client_that_does_not_read_makes_the_worker_stop(start: Callable[..., Host], tmp_path: Path) -> None:
    client = start()()
    taken = tmp_path / "taken"
    client.say(b"flood %s" % os.fsencode(taken))
    # Buffers of the kernel and of the gateway hold some MiB; of a GiB, all would be taken by a gateway that gathers.
    assert 0 < int(eventually(lambda: taken.exists() and taken.read_text())) < 64


def test_a_busy_worker_makes_the_client_stop_and_keeps_its_connection(
    start: Callable[..., Host], tmp_path: Path
) -> None:
    """The gateway does not read then, and sees no answers to its pings: that is not the client's fault."""
    # We answer no ping while 64 MB are masked: on a busy machine that takes some tenths of a second.
    client = start(constants={"PING_INTERVAL": 0.1, "PING_TIMEOUT": 1.0})()
    go = tmp_path / "go"
    client.link.send([[b"busy %s" % os.fsencode(go)], *([bytes(1 << 20)] for _ in range(64))])
    deadline = time.monotonic() + 5.0  # five times what a silent client is allowed
    while time.monotonic() < deadline:
        client.link.receive(0.1)
    assert client.link.has_unsent
    go.touch()
    client.link.send([[b"last"]])
    for _ in range(64):
        assert len(client.hear()) == 1 << 20
    assert client.hear() == b"last"


def test_a_client_that_gives_no_sign_of_life_is_cut_off(start: Callable[..., Host]) -> None:
    host = start(constants={"PING_INTERVAL": 0.1, "PING_TIMEOUT": 0.2})
    silent = host()
    name = silent.hello()["name"]
    silent.link.socket.setblocking(True)
    silent.link.socket.settimeout(DEADLINE)
    while silent.link.socket.recv(1 << 16):  # pings, unanswered; then the end
        pass
    again = host(name)
    assert again.hello()["events"] == [1, 2, 1]


def test_a_client_that_only_pings_gives_a_sign_of_life(start: Callable[..., Host]) -> None:
    """Its answers to our pings may be late, behind what else is on its way."""
    host = start(constants={"PING_INTERVAL": 0.1, "PING_TIMEOUT": 0.5})
    client = host()
    client.hello()
    client.link.keepalive = 0.1
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        client.link._asked = 0.0  # we do not read, and it is not stalled
        client.link.keep_alive()
        time.sleep(0.05)
    assert client.hello()["events"] == [1]


# --- resuming


def test_a_session_is_resumed_by_its_name(host: Host) -> None:
    client = host()
    before = client.hello()
    client.link.close()
    resumed = host(before["name"])
    after = resumed.hello()
    assert after["pid"] == before["pid"]
    assert after["introduction"] == before["introduction"]
    assert after["events"] == [1, 2, 1]


def test_the_worker_is_told_when_its_client_is_gone(host: Host, tmp_path: Path) -> None:
    client = host()
    gone = tmp_path / "gone"
    assert client.ask(b"note %s" % os.fsencode(gone)) == b"noted"
    client.link.close()
    eventually(gone.exists)


def test_a_newer_connection_takes_the_place_of_an_older(host: Host) -> None:
    older = host()
    before = older.hello()
    newer = host(before["name"])
    assert older.closing() == "1008 replaced by a newer connection of the session"
    assert newer.hello()["events"] == [1, 2, 1]
    assert newer.ask(b"mine") == b"mine"


def test_an_older_connection_that_does_not_read_is_replaced_too(start: Callable[..., Host], tmp_path: Path) -> None:
    host = start(constants={"CLOSE_TIMEOUT": 0.2})
    older = host()
    name = older.hello()["name"]
    older.say(b"flood %s" % os.fsencode(tmp_path / "taken"))
    newer = host(name)
    assert newer.hear() == bytes(1 << 20)  # the worker goes on; a client drops what was not sent to it


def challenged(host: Host, session: str) -> tuple[Client, Challenge]:
    """A connection that has a session's name, and has proven nothing yet."""
    key = KEYS.pop(session)  # so that it does not prove itself
    client = host(session)
    KEYS[session] = key
    ((challenge, _),) = decode(client.hear())
    assert isinstance(challenge, Challenge) and len(challenge.nonce) == proof.SIZE
    return client, challenge


def proven(host: Host, session: str, nonce: bytes = bytes(32)) -> tuple[bytes, Challenge]:
    """What a client has sent that has proven a session's key, and what it was asked."""
    client, challenge = challenged(host, session)
    said = encode(proof.answer(KEYS[session], challenge, nonce))
    ((told, _),) = decode(client.ask(said))
    assert isinstance(told, Proven)
    return said, challenge


NONCE = bytes(range(32))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda key, asked: encode(proof.answer(bytes(32), asked, NONCE)),
        lambda key, asked: encode(proof.answer(key, Challenge(NONCE), NONCE)),
        lambda key, asked: encode(Proof(NONCE, proof.confirm(key, asked, proof.answer(key, asked, NONCE)).proof)),
        lambda key, asked: encode(Proof(NONCE, b"")),
        lambda key, asked: encode(Proof(b"", b"")),
        lambda key, asked: encode(Proof(NONCE, proof.answer(key, asked, NONCE).proof[:-1])),
        lambda key, asked: encode(Resume(0)),
        lambda key, asked: 2 * encode(proof.answer(key, asked, NONCE)),
        lambda key, asked: b"nonsense",
        lambda key, asked: b"",
    ],
    ids=["key", "nonce", "the other side's", "nothing", "no nonce", "short", "Resume", "twice", "nonsense", "empty"],
)
def test_a_connection_that_does_not_prove_the_key_changes_nothing(
    host: Host, wrong: Callable[[bytes, Challenge], bytes]
) -> None:
    client = host()
    known = client.hello()
    stranger, asked = challenged(host, known["name"])
    assert client.ask(b"still mine") == b"still mine"
    ((refusal, _),) = decode(stranger.ask(wrong(KEYS[known["name"]], asked)))
    assert isinstance(refusal, Refused) and refusal.code == "proof"
    assert stranger.closing() == "1008 the session's key was not proven"
    assert client.hello()["events"] == [1]
    client.link.close()
    assert host(known["name"]).hello()["events"] == [1, 2, 1]


def test_a_proof_that_was_recorded_is_worth_nothing(host: Host) -> None:
    name = host().hello()["name"]
    said, first = proven(host, name)
    present = host(name)
    stranger, second = challenged(host, name)
    assert first.nonce != second.nonce
    ((refusal, _),) = decode(stranger.ask(said))
    assert isinstance(refusal, Refused)
    assert present.ask(b"still mine") == b"still mine"


def test_a_connection_that_proves_nothing_in_time_is_closed(start: Callable[..., Host]) -> None:
    host = start(constants={"PROOF_TIMEOUT": 0.2})
    client = host()
    stranger, _ = challenged(host, client.hello()["name"])
    ((refusal, _),) = decode(stranger.hear())
    assert isinstance(refusal, Refused) and "not proven within 0.2 s" in refusal.reason
    assert stranger.closing().startswith("1008 ")
    assert client.hello()["events"] == [1]


def test_the_newest_proven_connection_wins(host: Host) -> None:
    first = host()
    name = first.hello()["name"]
    second, second_asked = challenged(host, name)
    third, third_asked = challenged(host, name)
    for client, asked in ((third, third_asked), (second, second_asked)):
        client.ask(encode(proof.answer(KEYS[name], asked, NONCE)))
    assert second.ask(b"mine") == b"mine"
    for client in first, third:
        assert client.closing() == "1008 replaced by a newer connection of the session"


def test_a_client_goes_to_no_host_that_does_not_know_the_key(host: Host) -> None:
    known = host().hello()
    del KEYS[known["name"]]
    with pytest.raises(NotAdmitted, match="the proof of the session's key is wrong"):
        prove(host(known["name"]).link, host.url, bytes(32))
    ours, theirs = stream_pair(1 << 16)
    theirs.send([[encode(Challenge(NONCE))]])
    threading.Timer(0.2, theirs.send, ([[encode(Proven(bytes(32)))]],)).start()
    with pytest.raises(HostUnreachable, match="does not have the session: the host's proof"):
        prove(ours, "a stranger", bytes(32))


def test_a_session_ends_when_nobody_comes_back_in_time(start: Callable[..., Host]) -> None:
    host = start(grace=0.2)
    client = host()
    known = client.hello()
    assert known["grace"] == "0.2"
    client.link.close()
    eventually(lambda: not children(host.process.pid))
    with pytest.raises(NotAdmitted, match=r"the session has ended: nobody came back to it within 0\.2 s"):
        host(known["name"])


def test_a_session_that_was_resumed_outlives_the_grace_time(start: Callable[..., Host]) -> None:
    host = start(grace=2.0)
    client = host()
    name = client.hello()["name"]
    client.link.close()
    resumed = host(name)
    assert resumed.hello()["events"] == [1, 2, 1]
    time.sleep(2.2)
    assert resumed.ask(b"still here") == b"still here"


def test_a_session_of_which_no_client_can_know_ends_at_once(start: Callable[..., Host]) -> None:
    host = start(grace=10_000.0)
    client = host()
    eventually(lambda: children(host.process.pid))
    client.link.close()
    eventually(lambda: not children(host.process.pid))


# --- workers' ends


def test_a_worker_that_is_killed_is_told_of_within_a_second(host: Host) -> None:
    client, other = host(), host()
    known = client.hello()
    assert other.ask(b"here") == b"here"
    killed = time.monotonic()
    os.kill(known["pid"], signal.SIGKILL)
    assert client.lost() == "the worker process was killed by SIGKILL"
    assert time.monotonic() - killed < 1.0
    assert client.closing() == "1000 "
    eventually(lambda: known["pid"] not in children(host.process.pid))  # reaped
    assert other.ask(b"still here") == b"still here"
    assert host().ask(b"a new one") == b"a new one"
    with pytest.raises(NotAdmitted, match="the session has ended: the worker process was killed by SIGKILL"):
        host(known["name"])


def test_a_worker_that_exits_is_told_of_with_its_last_words(host: Host) -> None:
    client = host()
    client.say(b"exit 3")
    assert client.lost() == "the worker process exited with status 3: the last words"
    assert client.closing() == "1000 "


def test_a_session_that_ends_with_a_reason(host: Host) -> None:
    client = host()
    client.say(b"end of the \xc3\xa4ra")
    assert client.lost() == "of the ära"
    assert client.closing() == "1000 "


def test_a_session_that_ends_with_a_goodbye(host: Host) -> None:
    client = host()
    client.say(b"end ")
    assert client.closing() == "1000 "


def test_a_worker_that_speaks_nonsense_ends_its_session(host: Host) -> None:
    client = host()
    client.say(b"scribble")
    assert "the worker process" in client.lost()
    assert host().ask(b"a new one") == b"a new one"


def test_a_worker_that_does_not_listen_is_killed(start: Callable[..., Host]) -> None:
    host = start(grace=0.0, constants={"WORKER_PATIENCE": 0.1})
    client = host()
    assert client.ask(b"deaf") == b"deaf"
    client.link.close()
    eventually(lambda: not children(host.process.pid))


def test_a_worker_that_cannot_start_is_told_of_with_its_last_line(start: Callable[..., Host], tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", str(tmp_path / "worker.py"), "--fail"]
    client = start(worker_command=command)()
    assert client.lost().endswith(": no OpenGL here: install a driver")
    assert client.closing() == "1000 "


def test_who_goes_while_a_worker_is_started_leaves_nothing_behind(start: Callable[..., Host]) -> None:
    """Neither does it keep a place until then."""
    host = start(worker_command=[sys.executable, "-I", "-c", "import time; time.sleep(1000)"], max_sessions=1)
    began = time.monotonic()
    for _ in range(3):
        client = host()
        eventually(lambda: len(children(host.process.pid)) == 1)
        client.link.close()
        eventually(lambda: not children(host.process.pid))
    assert host.errors().count("nobody came back to it within 0 s") == 3
    assert time.monotonic() - began < 2 * WORKER_TIMEOUT, "else each takes that long"


@pytest.mark.parametrize("command", [["--fail"], ["/nowhere/at/all"]])
def test_a_host_whose_first_worker_cannot_start_does_not_serve(
    start: Callable[..., Host], tmp_path: Path, command: list[str]
) -> None:
    if command == ["--fail"]:
        command = [sys.executable, "-I", "-S", str(tmp_path / "worker.py"), "--fail"]
    host = start(warm=1, worker_command=command)
    assert host.url == ""
    assert host.process.wait(DEADLINE) == 1
    said = host.errors()
    assert "install a driver" in said or "/nowhere/at/all" in said


# --- the host's end


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_host_that_ends_tells_its_clients_and_leaves_nothing(
    start: Callable[..., Host], loop: str, number: int
) -> None:
    host = start(warm=2, loop=loop)
    client, other = host(), host()
    client.hello()
    other.hello()
    address = urlsplit(host.url)
    with socket.create_connection((address.hostname, address.port)) as stalled:
        stalled.sendall(b"GET ")
        workers = eventually(lambda: len(found := children(host.process.pid)) == 4 and found)
        host.process.send_signal(number)
        for one in client, other:
            assert one.lost() == "the host is shutting down"
            assert one.closing() == "1000 "
        assert host.process.wait(DEADLINE) == 0
    assert not any(map(runs, workers))
    assert "Traceback" not in host.errors()


def test_workers_end_with_a_host_that_is_killed(start: Callable[..., Host]) -> None:
    host = start(warm=1)
    host().hello()
    workers = eventually(lambda: len(found := children(host.process.pid)) == 2 and found)
    host.end(signal.SIGKILL)
    eventually(lambda: not any(map(runs, workers)))


def test_a_warm_worker_that_died_is_not_given_to_anybody(start: Callable[..., Host]) -> None:
    host = start(warm=1)
    (warm,) = children(host.process.pid)
    os.kill(warm, signal.SIGKILL)
    eventually(lambda: warm not in children(host.process.pid))
    assert host().hello()["pid"] != warm
