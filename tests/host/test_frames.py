"""Websocket frames that no client of ours sends: they end their connection at most, and neither its session nor more.

A gateway in a process of its own, with stand-ins for workers (test_gateway.py) and real sockets.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from glremote.protocol import proof
from glremote.protocol.messages import Challenge, encode
from tests.attacker import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, frame
from tests.host.test_gateway import BEARER, DEADLINE, KEYS, Client, Host, challenged
from tests.host.test_refusals import connect, say
from tests.host.test_strangers import REQUEST


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A gateway, which the tests leave as it was."""
    host = Host(tmp_path_factory.mktemp("frames"), warm=1, loop=request.param)
    yield host
    host.close()


RESERVED = 0x40
"""The bit by which a message says that it is compressed (RFC 7692); none of ours is, since that is not offered."""
BROKEN = {
    "text": frame(TEXT, b"hello"),
    "text that is not UTF-8": frame(TEXT, b"\xff\xfe"),
    "a compressed message": frame(BINARY, b"\xaa\x00", reserved=RESERVED),
    "a compressed ping": frame(PING, reserved=RESERVED),
    "an opcode that there is not": frame(3, b"hello"),
    "a control opcode that there is not": frame(11),
    "a continuation of nothing": frame(CONTINUATION, b"hello"),
    "a message within another": frame(BINARY, b"he", fin=False) + frame(BINARY, b"llo"),
    "a ping in fragments": frame(PING, b"he", fin=False) + frame(CONTINUATION, b"llo"),
    "a ping that is too long": frame(PING, bytes(126)),
    "a close of one byte": frame(CLOSE, b"\x03"),
    "a close for a reason that is none": frame(CLOSE, (1005).to_bytes(2, "big")),
    "a close whose reason is not UTF-8": frame(CLOSE, (1000).to_bytes(2, "big") + b"\xff"),
    "a frame without a mask": b"\x82\x05hello",
    "a length with a sign": b"\x82\xff" + b"\xff" * 8 + bytes(4),
    "closes without end": frame(CLOSE) * 40_000,
    "fragments without end": frame(BINARY, fin=False) + frame(CONTINUATION, fin=False) * 100_000,
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "nothing": b"",
}


def end(client: Client, data: bytes) -> None:
    """Send bytes past the websocket, and wait until the host has closed it; we close it only behind ours."""
    sock = client.link.socket
    sock.setblocking(True)
    sock.settimeout(DEADLINE)
    with contextlib.suppress(OSError):
        sock.sendall(data)
        if not data:
            sock.shutdown(socket.SHUT_WR)
    with contextlib.suppress(ConnectionError):
        while sock.recv(1 << 16):
            pass
    client.link.close()


@pytest.mark.parametrize("name", BROKEN)
def test_broken_frames_end_their_connection_and_not_the_session(host: Host, name: str) -> None:
    client, other = host(), host()
    known = client.hello()
    assert other.ask(b"in") == b"in"
    end(client, BROKEN[name])
    resumed = host(known["name"])
    assert resumed.hello()["pid"] == known["pid"]
    assert other.ask(b"undisturbed") == b"undisturbed"
    for one in (resumed, other):
        one.say(b"end ")
    assert "Traceback" not in host.errors() and "parser failed" not in host.errors()


@pytest.mark.parametrize("name", BROKEN)
def test_broken_frames_in_place_of_a_proof_change_nothing(host: Host, name: str) -> None:
    client = host()
    known = client.hello()
    stranger, _ = challenged(host, known["name"])
    end(stranger, BROKEN[name])
    assert client.hello()["events"] == [1]
    client.say(b"end ")
    assert "Traceback" not in host.errors() and "parser failed" not in host.errors()


def test_control_frames_around_and_within_a_proof(host: Host) -> None:
    """They may come anywhere (RFC 6455, 5.4), also between two fragments."""
    first = host()
    name = first.hello()["name"]
    client, asked = challenged(host, name)
    assert isinstance(asked, Challenge)
    said = encode(proof.answer(KEYS[name], asked, bytes(32)))
    noise = frame(PING, b"a ping") + frame(PONG) + frame(PONG, b"of nothing")
    pieces = [
        frame(BINARY, said[:9], fin=False),
        frame(CONTINUATION, said[9:20], fin=False),
        frame(CONTINUATION, said[20:]),
    ]
    client.link.socket.setblocking(True)
    client.link.socket.sendall(noise + noise.join(pieces) + noise)
    client.link.socket.setblocking(False)
    client.hear()
    assert client.hello()["events"] == [1, 2, 1]
    client.say(b"end ")


@pytest.mark.parametrize("early", [frame(BINARY, b"hello"), frame(PING) * 2000, b"GET / HTTP/1.1\r\n\r\n", b"\n"])
def test_who_goes_on_before_the_answer_gets_no_websocket(host: Host, early: bytes) -> None:
    """What is not let in yet has nothing to say but a request; frames are not even looked at."""
    request = REQUEST + b"Authorization: " + BEARER.encode() + b"\r\n\r\n"
    answer = say(host.url, request + early)
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.endswith(
        b"\r\n\r\nnothing may follow a request until it is answered\n"
    )
    with connect(host.url) as sock:  # and in pieces it is the same
        for piece in (request[:-2], request[-2:] + early[:1]):
            sock.sendall(piece)
            time.sleep(0.1)
        assert sock.recv(1 << 16).startswith(b"HTTP/1.1 400 ")


HEADERS: dict[str, tuple[bytes, int]] = {
    "two tokens": (b"Authorization: " + BEARER.encode() + b"\r\nAuthorization: " + BEARER.encode(), 401),
    "a token of 8 KiB": (b"Authorization: Bearer " + b"x" * 8000, 401),
    "a token with zeros": (b"Authorization: Bearer a\0b", 0),
    "a token in UTF-8": ("Authorization: Bearer grün".encode(), 401),
    "a token in UTF-16": (b"Authorization: Bearer " + "grün".encode("utf-16"), 0),
    "a header that is folded": (b"Authorization: Bearer\r\n " + BEARER.encode(), 0),
    "a header with a space before the colon": (b"Authorization : " + BEARER.encode(), 0),
    "a header with a name in UTF-8": ("Authorizatiön: ".encode() + BEARER.encode(), 0),
    "a bare line feed": (b"X: y\nAuthorization: " + BEARER.encode(), 0),
    "a bare carriage return": (b"X: y\rAuthorization: " + BEARER.encode(), 0),
    "chunks": (b"Transfer-Encoding: chunked\r\nAuthorization: " + BEARER.encode(), 0),
    "a body that comes later": (b"Content-Length: 10\r\nAuthorization: " + BEARER.encode(), 0),
    "two lengths": (b"Content-Length: 0\r\nContent-Length: 10\r\nAuthorization: " + BEARER.encode(), 0),
    "the upgrade to HTTP/2": (b"Upgrade: h2c\r\nHTTP2-Settings: AA\r\nAuthorization: " + BEARER.encode(), 426),
    "a session's name that escapes": (b"Glremote-Session: ../../etc\r\nAuthorization: " + BEARER.encode(), 410),
    "no name of a session": (b"Glremote-Session:\r\nAuthorization: " + BEARER.encode(), 410),
}
"""Behind a good request, and the status; 0 for none, since it is not even a request."""


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_mean_two_things_mean_nothing(host: Host, name: str) -> None:
    line, status = HEADERS[name]
    answer = say(host.url, REQUEST + line + b"\r\n\r\n")
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()) if status else answer == b""
    assert "Traceback" not in host.errors()


def test_two_names_of_sessions_are_none(host: Host) -> None:
    name = host().hello()["name"].encode()
    headers = b"Authorization: " + BEARER.encode() + 2 * (b"\r\nGlremote-Session: " + name)
    assert say(host.url, REQUEST + headers + b"\r\n\r\n").startswith(b"HTTP/1.1 410 ")
    assert "Traceback" not in host.errors()
