"""Strangers: who may come in, who may not, and what they can do to a host before it knows.

`glremote serve` as a process, with real sockets; where what a token may do is enough, the gateway of test_gateway.py,
whose workers are stand-ins.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import resource
import socket
import ssl
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner

import glremote
from glremote import cli
from glremote.cli.serve import is_loopback
from glremote.host.gateway.certificates import tls_context
from glremote.host.gateway.door import LARGEST_REQUEST, MOST_OF_AN_ADDRESS, OPEN_TIMEOUT, address_of
from glremote.host.gateway.tokens import (
    MOST_ADDRESSES,
    WRONG_TOKENS,
    Guesses,
    TokensError,
    TokensFile,
    default_file,
    digest,
    find,
)
from glremote.host.serving import LocalHost, environment
from glremote.link.tls import Trust, pin_of
from glremote.link.websocket import connect
from glremote.protocol.errors import HostUnreachable, NotAdmitted
from tests.host.test_gateway import BEARER, TOKEN, Client, Host, eventually

SOON = 5.0
"""Seconds within which a change of the tokens is to be felt."""
MEANWHILE = 4.0
"""Seconds within which a good client is to be admitted, whatever else goes on."""


def wait_for_end(sock: socket.socket) -> float:
    """Seconds until the other side closes it."""
    began = time.monotonic()
    sock.settimeout(60.0)
    with contextlib.suppress(ConnectionResetError):
        while sock.recv(1 << 16):
            pass
    return time.monotonic() - began


# --- the file of tokens


@pytest.fixture
def tokens(tmp_path: Path) -> TokensFile:
    """A file of tokens that is not there yet."""
    return TokensFile(tmp_path / "settings" / "tokens.json")


def test_a_token_is_kept_hashed_in_a_file_of_its_user(tokens: TokensFile) -> None:
    assert tokens.tokens() == ()
    text = tokens.create("anna", 3, 60.0)
    assert len(text) == 32  # 192 bits, 6 to a character
    (kept,) = tokens.tokens()
    assert (kept.name, kept.digest, kept.max_sessions, kept.has_expired()) == ("anna", digest(text), 3, False)
    content = tokens.path.read_text()
    assert text not in content
    assert kept.digest in content
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(tokens.path.parent.stat().st_mode) == 0o700


def test_names_are_one_token_s(tokens: TokensFile) -> None:
    tokens.create("anna")
    tokens.create()
    unnamed = tokens.tokens()[1]
    assert unnamed.name == unnamed.id
    with pytest.raises(TokensError, match=r"a token anna is in .* already"):
        tokens.create("anna")
    for wrong in ("", "two words", "x" * 65, "a\nb"):
        with pytest.raises(TokensError, match="no name for a token"):
            tokens.create(wrong)
    assert tokens.revoke(unnamed.id) == unnamed
    with pytest.raises(TokensError, match="no token berta"):
        tokens.revoke("berta")
    assert tokens.revoke("anna").name == "anna"
    assert tokens.tokens() == ()


def test_a_token_is_found_among_others(tokens: TokensFile) -> None:
    texts = [tokens.create() for _ in range(5)]
    known = tokens.tokens()
    assert [find(text, known) for text in texts] == list(known)
    for wrong in ("", "another", texts[0][:-1], texts[0] + "x", known[0].digest, "\udce4"):
        assert find(wrong, known) is None


def test_writers_at_once_lose_nothing_and_readers_see_whole_files(tokens: TokensFile) -> None:
    tokens.create("first")
    reading, seen = True, set()

    def read() -> None:
        while reading:
            seen.add(len(TokensFile(tokens.path).tokens()))

    reader = threading.Thread(target=read)
    reader.start()
    code = "import sys; from glremote.host.gateway.tokens import *; f = TokensFile(Path(sys.argv[1])); f.create()"
    code += "; [f.create() for _ in range(9)]"
    writers = [
        subprocess.Popen([sys.executable, "-P", "-c", code, str(tokens.path)], env=environment()) for _ in range(3)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    reading = False
    reader.join()
    assert len(tokens.tokens()) == 31
    assert min(seen) >= 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": 3, "tokens": []}',
        '{"version": 1, "tokens": {}}',
        '{"version": 1, "tokens": [1]}',
        '{"version": 1, "tokens": [{"name": "a"}]}',
        '{"version": 1, "tokens": [{"name": "a", "digest": "00"}]}',
        json.dumps({"version": 1, "tokens": [{"name": "a", "digest": "x" * 64}]}),
        json.dumps({"version": 1, "tokens": [{"name": 1, "digest": "0" * 64}]}),
        json.dumps({"version": 1, "tokens": [{"name": "a", "digest": "0" * 64, "expires": "never"}]}),
        json.dumps({"version": 1, "tokens": [{"name": "a", "digest": "0" * 64, "path": "/"}]}),
        json.dumps({"version": 2, "tokens": [{"name": "a", "digest": "0" * 64, "limits": "speed=5"}]}),
        json.dumps({"version": 2, "tokens": [{"name": "a", "digest": "0" * 64, "limits": {"memory": 5}}]}),
    ],
)
def test_what_is_no_file_of_tokens_is_refused(tokens: TokensFile, content: str) -> None:
    tokens.path.parent.mkdir()
    tokens.path.write_text(content)
    with pytest.raises(TokensError, match=str(tokens.path)):
        tokens.tokens()
    with pytest.raises(TokensError):  # and it is left as it is
        tokens.create()
    assert tokens.path.read_text() == content


def test_a_file_that_others_can_write_is_refused(tokens: TokensFile) -> None:
    tokens.create()
    tokens.path.chmod(0o620)
    with pytest.raises(TokensError, match="chmod 600"):
        tokens.tokens()


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLREMOTE_TOKENS", str(tmp_path / "mine"))
    assert default_file() == tmp_path / "mine"
    monkeypatch.setenv("GLREMOTE_TOKENS", "")
    assert default_file() is None
    monkeypatch.delenv("GLREMOTE_TOKENS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_file() == tmp_path / "glremote" / "tokens.json"


# --- the commands


def glremote_(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `glremote ...` to its end."""
    env = {name: text for name, text in environment().items() if not name.startswith("GLREMOTE_")} | variables
    line = [sys.executable, "-P", "-m", "glremote", *arguments]
    return subprocess.run(line, env=env, capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=60)


def test_token_commands(tmp_path: Path) -> None:
    where = {"GLREMOTE_TOKENS": str(tmp_path / "tokens")}
    made = glremote_("token", "create", "--name", "anna", "--max-sessions", "2", "--expires", "30d", **where)
    assert made.returncode == 0, made.stderr
    text = made.stdout.removesuffix("\n")
    (kept,) = TokensFile(tmp_path / "tokens").tokens()
    assert find(text, [kept]) is kept
    assert kept.expires == kept.created + 30 * 86400
    head, row = glremote_("token", "list", **where).stdout.splitlines()
    assert head.split() == ["NAME", "ID", "SESSIONS", "CREATED", "EXPIRES", "LIMITS"]
    assert row.endswith("the host's")
    assert row.split()[:3] == ["anna", kept.id, "2"]
    assert glremote_("token", "revoke", kept.id, **where).returncode == 0
    assert glremote_("token", "list", **where).stdout.split() == head.split()


@pytest.mark.parametrize(
    ("arguments", "file", "says"),
    [
        (["revoke", "anna"], "tokens", "there is no token anna"),
        (["create", "--name", "two words"], "tokens", "is no name for a token"),
        (["create", "--expires", "soon"], "tokens", "is no time"),
        (["create", "--max-sessions", "0"], "tokens", "is not in the range"),
        (["list"], "", "names no file"),
    ],
)
def test_token_commands_name_what_is_wrong(
    arguments: list[str], file: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLREMOTE_TOKENS", file and str(tmp_path / file))
    result = CliRunner().invoke(cli.commands, ["token", *arguments])
    assert result.exit_code != 0
    assert says in result.stderr
    assert not (tmp_path / "tokens").exists()


# --- tokens and sessions, with stand-ins for workers


@pytest.fixture
def start(tmp_path: Path, tokens: TokensFile) -> Iterator[Callable[..., Host]]:
    """Starts a gateway that admits TOKEN, and the tokens of the file."""
    hosts: list[Host] = []

    def start(**options: Any) -> Host:
        hosts.append(Host(tmp_path, **{"tokens_file": str(tokens.path)} | options))
        return hosts[-1]

    yield start
    for host in hosts:
        host.close()


def test_tokens_come_and_go_without_a_restart(start: Callable[..., Host], tokens: TokensFile) -> None:
    host = start()
    assert host().ask(b"the first") == b"the first"
    anna = tokens.create("anna")
    berta = tokens.create("berta")
    of_anna, of_berta = host(token=anna), host(token=berta)
    name = of_anna.hello()["name"]
    assert of_berta.ask(b"in") == b"in"
    tokens.revoke("anna")
    began = time.monotonic()
    assert of_anna.lost() == "its token, anna, was revoked"
    assert time.monotonic() - began < SOON
    for session in (None, name):
        with pytest.raises(NotAdmitted, match="the token is not this host's"):
            host(session, token=anna)
    assert of_berta.ask(b"still here") == b"still here"
    tokens.path.unlink()
    assert of_berta.lost() == "its token, berta, was revoked"
    assert host().ask(b"and the first token") == b"and the first token"


def test_a_token_expires(start: Callable[..., Host], tokens: TokensFile) -> None:
    host = start()
    text = tokens.create("short", lifetime=2.0)
    client = host(token=text)
    assert client.ask(b"in") == b"in"
    assert client.lost() == "its token, short, has expired"
    with pytest.raises(NotAdmitted, match="the token short has expired"):
        host(token=text)


def test_each_token_has_its_own_limit(start: Callable[..., Host], tokens: TokensFile) -> None:
    host = start(max_sessions=4)
    anna, berta = tokens.create("anna", 1), tokens.create("berta", 2)
    of_anna = host(token=anna)
    name = of_anna.hello()["name"]
    with pytest.raises(NotAdmitted, match="all 1 of the token anna are in use"):
        host(token=anna)
    of_others = [host(token=token) for token in (berta, berta)]
    assert [client.ask(b"in") for client in of_others] == [b"in", b"in"]
    with pytest.raises(NotAdmitted, match="all 2 of the token berta are in use"):
        host(token=berta)
    of_others.append(host())
    assert of_others[-1].ask(b"in") == b"in"
    with pytest.raises(NotAdmitted, match="all 4 are in use"):
        host()
    # the place of one that has gone is its token's alone
    of_anna.link.close()
    time.sleep(0.5)
    with pytest.raises(NotAdmitted, match="all 4 are in use"):
        host()
    assert host(token=anna).ask(b"a new one") == b"a new one"
    with pytest.raises(NotAdmitted, match="needed its place"):
        host(name, token=anna)


def test_a_session_is_its_token_s_alone(start: Callable[..., Host], tokens: TokensFile) -> None:
    host = start()
    anna, berta = tokens.create("anna"), tokens.create("berta")
    client = host(token=anna)
    name = client.hello()["name"]
    said = []
    for session in (name, "nobody"):
        for token in (berta, TOKEN):
            with pytest.raises(NotAdmitted) as caught:
                host(session, token=token)
            said.append(str(caught.value))
    assert len(set(said)) == 1, "whether there is such a session is nobody else's business"
    assert client.ask(b"not replaced") == b"not replaced"
    client.say(b"end it is over")
    assert client.lost() == "it is over"
    with pytest.raises(NotAdmitted, match="the session has ended: it is over"):
        host(name, token=anna)
    with pytest.raises(NotAdmitted) as caught:
        host(name, token=berta)
    assert "it is over" not in str(caught.value)


def test_a_file_that_cannot_be_read_lets_nobody_in(start: Callable[..., Host], tokens: TokensFile) -> None:
    anna = tokens.create("anna")
    host = start()
    client = host(token=anna)
    assert client.ask(b"in") == b"in"
    good = tokens.path.read_text()
    tokens.path.write_text("{")
    for token in (anna, TOKEN):
        with pytest.raises(NotAdmitted, match="the host cannot read its tokens"):
            host(token=token)
    eventually(lambda: str(tokens.path) in host.errors())
    tokens.path.write_text(good)
    assert host(token=anna).ask(b"again") == b"again"
    assert client.ask(b"all the time") == b"all the time"


def test_origins(start: Callable[..., Host]) -> None:
    host = start(origins=["https://example.org", "http://localhost:3000"])
    for origin, status in (
        ("https://example.org", 101),
        ("http://localhost:3000", 101),
        ("https://example.org:8443", 403),
        ("http://example.org", 403),
        ("https://example.org.evil.example", 403),
        ("null", 403),
        ("", 403),
    ):
        assert host.request(Authorization=BEARER, Origin=origin)[0] == status, origin
    assert host.request(Origin="https://example.org")[0] == 401
    assert host.request(Authorization=BEARER)[0] == 101


# --- guessing


def test_an_address_that_guesses_is_refused_for_a_while(start: Callable[..., Host]) -> None:
    host = start()
    client = host()
    assert client.ask(b"in") == b"in"
    statuses = [host.request(Authorization=f"Bearer guess-{number}")[0] for number in range(WRONG_TOKENS + 5)]
    assert statuses[:WRONG_TOKENS] == [401] * WRONG_TOKENS
    assert statuses[WRONG_TOKENS:] == [429] * 5
    with pytest.raises(HostUnreachable, match="too many wrong tokens came from this address; try again in"):
        host()  # the right one is not looked at either, or else guessing went on
    assert client.ask(b"who is in stays") == b"who is in stays"

    def admitted() -> Client | None:
        with contextlib.suppress(HostUnreachable):
            return host()
        return None

    assert eventually(admitted).ask(b"after a while") == b"after a while"


def test_guesses_are_counted_by_address_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("glremote.host.gateway.tokens.time.monotonic", lambda: now[0])
    guesses = Guesses()
    for _ in range(WRONG_TOKENS):
        assert guesses.wait("a") == 0.0
        guesses.wrong("a")
    assert 0.0 < guesses.wait("a") <= 3.0
    assert guesses.wait("b") == 0.0
    now[0] += 3.0
    assert guesses.wait("a") == 0.0
    guesses.wrong("a")
    assert guesses.wait("a") > 0.0
    now[0] += 3600.0
    assert guesses.wait("a") == 0.0
    for number in range(2 * MOST_ADDRESSES):
        guesses.wrong(str(number))
    assert len(guesses._spent) == MOST_ADDRESSES


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_what_counts_as_one_address(host: str, address: str) -> None:
    assert address_of(host) == address


# --- before the token: how many, how slow, how large


@pytest.fixture
def crowd() -> Iterator[Callable[..., list[socket.socket]]]:
    """Makes connections that say the same, and nothing more."""
    made: list[socket.socket] = []

    def come(url: str, count: int, says: bytes = b"") -> list[socket.socket]:
        host, port = url.rpartition("/")[2].rsplit(":", 1)
        for _ in range(count):
            made.append(socket.create_connection((host, int(port)), 10.0))
            if says:
                with contextlib.suppress(OSError):  # it may have been sent away already
                    made[-1].sendall(says)
        return made[-count:]

    yield come
    for sock in made:
        sock.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A good one, for 127.0.0.1 and localhost."""
    return Certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1", "localhost")


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) << 10


def descriptors(pid: int) -> int:
    """How many a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def is_open(sock: socket.socket) -> bool:
    """Whether the other side has not closed it."""
    sock.setblocking(False)
    try:
        return sock.recv(1 << 16) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


BEGINNING = b"GET /glremote HTTP/1.1\r\nHost: "


@pytest.mark.parametrize(
    ("loop", "tls", "says"),
    [
        ("uvloop", False, b""),
        ("asyncio", False, b""),
        ("uvloop", False, BEGINNING),
        ("uvloop", True, b""),
        ("uvloop", True, b"\x16"),
    ],
)
def test_a_thousand_idle_connections(
    start: Callable[..., Host],
    crowd: Callable[..., list[socket.socket]],
    certificate: Certificate,
    loop: str,
    tls: bool,
    says: bytes,
) -> None:
    options: dict[str, Any] = {"tls": certificate.files} if tls else {}
    host = start(loop=loop, **options)
    trust = Trust(str(certificate.ca)) if tls else None
    early = Client(host.url, trust=trust)
    assert early.ask(b"in") == b"in"
    memory, files = resident(host.process.pid), descriptors(host.process.pid)
    idle = crowd(host.url, 1000, says)
    began = time.monotonic()
    assert Client(host.url, trust=trust).ask(b"in") == b"in"
    assert time.monotonic() - began < MEANWHILE
    standing = sum(map(is_open, idle))
    assert standing <= MOST_OF_AN_ADDRESS
    assert resident(host.process.pid) - memory < 32 << 20
    assert early.ask(b"undisturbed") == b"undisturbed"
    # and those that were let stand are sent away in time
    eventually(lambda: not any(map(is_open, idle)))
    assert time.monotonic() - began < OPEN_TIMEOUT + 2 * MEANWHILE
    eventually(lambda: descriptors(host.process.pid) <= files + 4)  # the second client, and its worker
    assert "Traceback" not in host.errors()


def test_a_crowd_from_many_addresses_has_a_bound_too(
    start: Callable[..., Host], crowd: Callable[..., list[socket.socket]]
) -> None:
    host = start(constants={"MOST_VISITORS": 100})
    port = int(host.url.rpartition(":")[2])
    others = []
    for number in range(300):  # all of 127.0.0.0/8 is this machine
        others.append(socket.create_connection(("127.0.0.1", port), 10.0, (f"127.0.{1 + number // 50}.1", 0)))
    assert host().ask(b"in") == b"in"
    assert sum(map(is_open, others)) <= 100
    for sock in others:
        sock.close()


@pytest.mark.parametrize("pause", [0.0, 0.2])
def test_a_slow_handshake_has_a_deadline(host: Host, crowd: Callable[..., list[socket.socket]], pause: float) -> None:
    (slow,) = crowd(host.url, 1, BEGINNING)
    began = time.monotonic()
    if pause:
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 3 * OPEN_TIMEOUT:
                slow.sendall(b"a")  # a byte now and then changes nothing
                time.sleep(pause)
    wait_for_end(slow)
    assert OPEN_TIMEOUT - 0.5 < time.monotonic() - began < OPEN_TIMEOUT + MEANWHILE


@pytest.mark.parametrize(
    "large",
    [
        BEGINNING + b"a" * LARGEST_REQUEST,
        BEGINNING + b"a\r\n" + b"X: y\r\n" * LARGEST_REQUEST,
        b"GET /" + b"a" * (1 << 20),
        b"\n" * (1 << 20),
    ],
)
def test_huge_requests_are_cut_short(host: Host, crowd: Callable[..., list[socket.socket]], large: bytes) -> None:
    memory = resident(host.process.pid)
    huge = crowd(host.url, 20, large)
    assert host().ask(b"in") == b"in"
    assert max(map(wait_for_end, huge)) < MEANWHILE
    assert resident(host.process.pid) - memory < 16 << 20


REQUEST = (
    b"GET /glremote HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
NONSENSE = [
    b"\r\n\r\n",
    b"\x00" * 100,
    b"SSH-2.0-x\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"POST /glremote HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n",
    b"GET /glremote HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\n\r\n",
    REQUEST + b"Authorization: Bearer \xff\xfe\r\n\r\n",
    REQUEST + b"\r\n" + b"\x82\x80\x00\x00\x00\x00" * 100,
    REQUEST + b"Authorization: Bearer " + TOKEN.encode() + b"\r\nSec-WebSocket-Key: again\r\n\r\n",
]


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("cut", [False, True])
def test_nonsense_is_no_news(
    start: Callable[..., Host],
    crowd: Callable[..., list[socket.socket]],
    certificate: Certificate,
    tls: bool,
    cut: bool,
) -> None:
    """The host neither fails nor fills its log."""
    options: dict[str, Any] = {"tls": certificate.files} if tls else {}
    host = start(**options)
    said = host.errors()
    context = ssl.create_default_context(cafile=certificate.ca)
    for nonsense in NONSENSE:
        (sock,) = crowd(host.url, 1)
        speaker = context.wrap_socket(sock, server_hostname="127.0.0.1") if tls else sock
        with contextlib.suppress(OSError):
            speaker.sendall(nonsense)
        if cut:  # with a reset, before there is an answer
            speaker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif not tls:
            wait_for_end(speaker)
        speaker.close()
    assert Client(host.url, trust=Trust(str(certificate.ca)) if tls else None).ask(b"in") == b"in"
    news = host.errors().removeprefix(said).splitlines()
    lines = [line for line in news if "wrong token" not in line and "session" not in line]
    assert [line for line in lines if "renders with" not in line] == []


def test_a_request_that_is_just_not_too_large_is_admitted(host: Host) -> None:
    padding = {f"X-{number}": "y" * 4000 for number in range(3)}
    assert host.request(Authorization=BEARER, **padding)[0] == 101


def test_no_descriptors_left(start: Callable[..., Host], crowd: Callable[..., list[socket.socket]]) -> None:
    """The host lives, the present sessions do not notice, and who comes when there are some again is admitted."""
    host = start()
    client = host()
    assert client.ask(b"in") == b"in"
    pid = host.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors(pid) + 10, hard))
    idle = crowd(host.url, 50, b"")
    assert client.ask(b"undisturbed") == b"undisturbed"
    eventually(lambda: "no connection can be taken now" in host.errors())
    assert host.errors().count("no connection can be taken now") < 20
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert host().ask(b"in") == b"in"
    assert not all(map(is_open, idle))


# --- TLS


class Certificate:
    """An authority's, for some names, in files."""

    def __init__(self, folder: Path, *names: str, until: datetime.datetime | None = None) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert(*names, not_after=until)
        self.ca, self.cert, self.key = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
        authority.cert_pem.write_to_path(self.ca)
        issued.private_key_pem.write_to_path(self.key)
        self.cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))

    @property
    def files(self) -> list[str]:
        return [str(self.cert), str(self.key)]

    @property
    def pin(self) -> str:
        return pin_of(self.cert)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A gateway without TLS, for the tests that leave it as it was."""
    host = Host(tmp_path_factory.mktemp("plain"), warm=1)
    yield host
    host.close()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, certificate: Certificate) -> Iterator[Host]:
    """A gateway with TLS, for the tests that leave it as it was."""
    host = Host(tmp_path_factory.mktemp("secure"), warm=1, tls=certificate.files)
    yield host
    host.close()


def test_an_authority_of_ones_own(secure: Host, certificate: Certificate) -> None:
    assert secure.url.startswith("wss://127.0.0.1:")
    client = Client(secure.url, trust=Trust(str(certificate.ca)))
    packet = bytes(range(256)) * (1 << 14)
    assert client.ask(packet) == packet
    by_name = Client(secure.url.replace("127.0.0.1", "localhost"), trust=Trust(str(certificate.ca)))
    assert by_name.ask(b"in") == b"in"


def test_a_pinned_certificate(secure: Host, certificate: Certificate) -> None:
    said = subprocess.run(
        ["openssl", "x509", "-in", str(certificate.cert), "-noout", "-fingerprint", "-sha256"],
        capture_output=True,
        text=True,
        check=True,
    )
    fingerprint = said.stdout.strip().rpartition("=")[2]
    for pin in (certificate.pin, fingerprint, fingerprint.lower()):
        assert Client(secure.url, trust=Trust(None, pin)).ask(b"in") == b"in"
    assert Client(secure.url, trust=Trust(str(certificate.ca), certificate.pin)).ask(b"in") == b"in"


def refusal(url: str, trust: Trust | None = None) -> str:
    """Why there is no connection."""
    with pytest.raises(HostUnreachable) as caught:
        connect(url, TOKEN, trust=trust)
    assert str(caught.value).startswith(f"{url}: ")
    return str(caught.value)


def test_another_certificate_than_the_pinned_one(secure: Host, certificate: Certificate) -> None:
    said = refusal(secure.url, Trust(None, "sha256:" + "0" * 64))
    assert certificate.pin in said
    assert "sha256:" + "0" * 64 in said
    assert "has the pin" in refusal(secure.url, Trust(str(certificate.ca), "sha256:" + "0" * 64))


def test_an_unknown_authority(secure: Host, certificate: Certificate, tmp_path: Path) -> None:
    another = Certificate(tmp_path, "127.0.0.1")
    for trust in (None, Trust(str(another.ca)), Trust(str(another.ca), certificate.pin)):
        said = refusal(secure.url, trust)
        assert "no authority that is trusted here has signed" in said
        assert "ca=FILE" in said


def test_a_wrong_name_and_a_certificate_that_has_expired(start: Callable[..., Host], tmp_path: Path) -> None:
    for name, until, says in (
        ("elsewhere.example", None, "is for another name"),
        ("127.0.0.1", datetime.datetime.now() - datetime.timedelta(days=2), "has expired"),
    ):
        (folder := tmp_path / name).mkdir()
        wrong = Certificate(folder, name, until=until)
        host = start(tls=wrong.files)
        assert says in refusal(host.url, Trust(str(wrong.ca)))
        assert Client(host.url, trust=Trust(None, wrong.pin)).ask(b"pinned") == b"pinned"


def test_the_wrong_scheme(host: Host, secure: Host, certificate: Certificate) -> None:
    with pytest.raises(NotAdmitted, match="this host serves wss:// at this port, and not ws://"):
        connect(secure.url.replace("wss:", "ws:"), TOKEN)
    assert "does not speak TLS; if it is a glremote host without, give ws://" in refusal(
        host.url.replace("ws:", "wss:"), Trust(str(certificate.ca))
    )


def test_nothing_is_said_to_a_host_that_is_not_trusted(certificate: Certificate) -> None:
    """The token least of all."""
    context = tls_context(certificate.cert, certificate.key)
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def listen() -> None:
            for _ in range(2):
                sock, _ = listening.accept()
                with contextlib.suppress(OSError), context.wrap_socket(sock, server_side=True) as secured:
                    heard.append(secured.recv(1 << 16))

        listener = threading.Thread(target=listen)
        listener.start()
        url = f"wss://127.0.0.1:{listening.getsockname()[1]}"
        refusal(url, Trust(None, "sha256:" + "0" * 64))
        refusal(url)
        listener.join(30.0)
    assert b"".join(heard) == b""


def test_tls_that_begins_slowly_has_a_deadline(secure: Host, crowd: Callable[..., list[socket.socket]]) -> None:
    (slow,) = crowd(secure.url, 1, b"\x16\x03\x01")
    assert OPEN_TIMEOUT - 0.5 < wait_for_end(slow) < OPEN_TIMEOUT + MEANWHILE


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
def test_old_tls_is_refused(secure: Host) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    address = ("127.0.0.1", int(secure.url.rpartition(":")[2]))
    with socket.create_connection(address, 10.0) as sock, pytest.raises((ssl.SSLError, ConnectionResetError)):
        context.wrap_socket(sock)


@pytest.mark.parametrize("pin", ["", "sha256:", "sha256:00", "md5:" + "0" * 64, "x" * 64])
def test_what_is_no_pin(pin: str) -> None:
    with pytest.raises(ValueError, match="is no pin: give sha256:"):
        glremote.create_context("wss://127.0.0.1:9", pin=pin)


def test_what_is_no_file_of_authorities(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("nothing")
    with pytest.raises(ValueError, match="no certificates"):
        glremote.create_context("wss://127.0.0.1:9", ca=tmp_path / "ca")
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        glremote.create_context("wss://127.0.0.1:9", ca=tmp_path / "no")
    with pytest.raises(ValueError, match="give wss://"):
        glremote.create_context("ws://127.0.0.1:9", pin="sha256:" + "0" * 64)
    with pytest.raises(TypeError, match="for a host that is named"):
        glremote.create_context("local", pin="sha256:" + "0" * 64)


# --- serve, as its user starts it

RENDER = """
import moderngl
ctx = moderngl.create_context(standalone=True)
framebuffer = ctx.simple_framebuffer((2, 2))
framebuffer.clear(1.0, 0.0, 0.0, 1.0)
print(framebuffer.read(components=4).hex())
"""


@pytest.mark.parametrize("near", ["0", "1"])
def test_a_program_on_a_host_with_tls(certificate: Certificate, tokens: TokensFile, tmp_path: Path, near: str) -> None:
    anna = tokens.create("anna")
    (tmp_path / "render.py").write_text(RENDER)
    (tmp_path / "token").write_text(anna)
    options = ("--tls-cert", certificate.files[0], "--tls-key", certificate.files[1])
    with LocalHost(*options, "--tokens-file", str(tokens.path)) as served:
        assert f"The certificate's pin: {certificate.pin}" in served.said()
        line = ["run", "--host", served.url, "--token-file", str(tmp_path / "token")]
        program = str(tmp_path / "render.py")
        for arguments, variables in (
            (["--ca-file", str(certificate.ca)], {}),
            (["--pin", certificate.pin], {}),
            ([], {"GLREMOTE_CA_FILE": str(certificate.ca)}),
            ([], {"GLREMOTE_PIN": certificate.pin}),
        ):
            done = glremote_(*line, *arguments, program, GLREMOTE_NEAR=near, **variables)
            assert done.stdout == "ff0000ff" * 4 + "\n", done.stderr
        done = glremote_(*line, program)
        assert done.returncode == 1
        assert "no authority that is trusted here" in done.stderr
        assert done.stderr.count("\n") == 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GLREMOTE_NEAR", near)
            ctx = glremote.create_context(served.url, token=anna, ca=certificate.ca)
        buffer = ctx.buffer(b"four")
        assert buffer.read() == b"four"
        tokens.revoke("anna")
        began = time.monotonic()
        with pytest.raises(glremote.DeviceLost, match="its token, anna, was revoked"):
            while time.monotonic() - began < SOON:
                buffer.read()
                time.sleep(0.05)
        ctx.release()


def serve_fails(*arguments: str, **variables: str) -> str:
    """The one line of why `serve` does not start."""
    done = glremote_("serve", "--port", "0", *arguments, **{"GLREMOTE_TOKENS": ""} | variables)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr.startswith("glremote: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("bind", ["::", "192.0.2.1", "127.0.0.1"])
def test_which_addresses_are_beyond_loopback(bind: str) -> None:
    assert is_loopback(bind) == (bind == "127.0.0.1")


def test_beyond_loopback_serve_wants_a_token_and_tls(certificate: Certificate, tokens: TokensFile) -> None:
    bind = "0.0.0.0"
    tls = ("--tls-cert", certificate.files[0], "--tls-key", certificate.files[1])
    neither = serve_fails("--bind", bind)
    assert "there is not yet TLS" in neither
    assert "and not a token that you chose" in neither
    assert "--insecure" in neither
    assert "there is not yet TLS" in (said := serve_fails("--bind", bind, GLREMOTE_TOKEN="chosen"))
    assert "token that you chose" not in said
    assert "there is not yet a token that you chose" in serve_fails("--bind", bind, *tls)
    tokens.create("past", lifetime=-1.0)  # a token that is over is none
    assert "there is not yet a token" in serve_fails("--bind", bind, *tls, "--tokens-file", str(tokens.path))


def test_beyond_loopback_serve_starts_with_both(certificate: Certificate, tokens: TokensFile) -> None:
    tls = ("--tls-cert", certificate.files[0], "--tls-key", certificate.files[1])
    with LocalHost("--bind", "0.0.0.0", *tls) as served:
        assert served.url.startswith("wss://0.0.0.0:")
        assert "Warning" not in served.said()
        url = served.url.replace("0.0.0.0", "127.0.0.1")
        connect(url, served.token, trust=Trust(str(certificate.ca))).close()


def test_serve_names_what_is_wrong_with_its_certificate(certificate: Certificate, tmp_path: Path) -> None:
    another = Certificate(tmp_path, "127.0.0.1")
    cert, key = certificate.files
    assert "go together" in serve_fails("--tls-cert", cert)
    assert str(tmp_path / "no.pem") in serve_fails("--tls-cert", cert, "--tls-key", str(tmp_path / "no.pem"))
    assert "another certificate's" in serve_fails("--tls-cert", cert, "--tls-key", str(another.key))
    assert "not PEM" in serve_fails("--tls-cert", str(__file__), "--tls-key", key)
    locked = tmp_path / "locked.pem"
    lock = ["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(lock, check=True, capture_output=True)
    assert "locked with a password" in serve_fails("--tls-cert", cert, "--tls-key", str(locked))


def test_serve_names_what_is_wrong_with_its_tokens(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("{}")
    assert str(tmp_path / "tokens") in serve_fails("--tokens-file", str(tmp_path / "tokens"))
    done = glremote_("serve", "--allow-origin", "example.org", GLREMOTE_TOKENS="")
    assert done.returncode == 2
    assert "'example.org' is no origin" in done.stderr
