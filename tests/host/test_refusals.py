"""Who is refused, and how it is told: by reason in /metrics, to other methods than GET, to who guesses at the pages.

A gateway in a process of its own, with stand-ins for workers (test_gateway.py) and real sockets.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from glremote.host.gateway import looking
from glremote.host.gateway.door import LARGEST_REQUEST
from glremote.host.gateway.refusals import Why
from glremote.host.gateway.tokens import WRONG_TOKENS
from tests.host.test_gateway import BEARER, Host, eventually
from tests.host.test_looking import LOOK
from tests.host.test_strangers import BEGINNING, REQUEST, Certificate
from tests.pages import get, metrics

Start = Callable[..., Host]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a gateway."""
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> Host:
            host = Host(tmp_path, **options)
            stack.callback(host.close)
            return host

        yield start


def ask(url: str, method: str, path: str, body: bytes | None = None, **headers: str) -> http.client.HTTPResponse:
    """Make a request; the answer, read."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        answer.text = answer.read().decode()  # type: ignore[attr-defined]
        return answer


def connect(url: str) -> socket.socket:
    """A connection that has said nothing."""
    address = urlsplit(url)
    return socket.create_connection((str(address.hostname), address.port or 0), 30)


def say(url: str, data: bytes) -> bytes:
    """Send bytes; what comes until the end."""
    heard = b""
    with connect(url) as sock, contextlib.suppress(OSError):
        sock.sendall(data)
        while more := sock.recv(1 << 16):
            heard += more
    return heard


# --- reasons


def refused(url: str) -> dict[str, float]:
    """What of the metric is not 0."""
    name = "glremote_refused_total "
    return {key.removeprefix(name): value for key, value in metrics(url).items() if key.startswith(name) and value}


def test_every_reason_is_there_from_the_beginning(start: Start) -> None:
    url = start().url
    names = {key.split()[1] for key in metrics(url) if key.startswith("glremote_refused_total ")}
    assert names == {why.label for why in Why}
    assert refused(url) == {}


def test_what_the_door_refuses_is_counted_by_its_reason(start: Start) -> None:
    host = start()
    token = b"Authorization: " + BEARER.encode() + b"\r\n\r\n"
    said = {
        b"\x16\x03\x01": "scheme 403",
        BEGINNING + b"a" * LARGEST_REQUEST: "too_large 431",
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n": "too_large 414",
        BEGINNING + b"x\r\n" + b"X: y\r\n" * 200 + b"\r\n": "too_large 431",
        b"SSH-2.0-x\r\n": "no_request none",
        REQUEST.replace(b"13", b"12") + token: "no_websocket 400",
        b"GET /glremote HTTP/1.1\r\n" + token: "no_websocket 426",
    }
    expected: Counter[str] = Counter()
    for data, reason in said.items():
        answer = say(host.url, data)
        assert answer.partition(b" ")[2][:3].decode() == reason.split()[1].replace("none", ""), reason
        expected[reason] += 1
        eventually(lambda: refused(host.url) == expected)
    connect(host.url).close()  # who only looks whether somebody is there is not refused
    assert say(host.url, REQUEST + b"\r\n").startswith(b"HTTP/1.1 401 ")
    expected["no_token 401"] += 1
    assert refused(host.url) == expected


def test_who_waits_too_long_is_counted(start: Start) -> None:
    host = start(constants={"OPEN_TIMEOUT": 0.2})
    assert say(host.url, BEGINNING) == b""
    with connect(host.url) as idle:
        assert idle.recv(1) == b""
    eventually(lambda: refused(host.url) == {"deadline none": 2})


def test_who_makes_room_for_others_is_counted(start: Start) -> None:
    host = start(constants={"MOST_OF_AN_ADDRESS": 2})
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(host.url)) for _ in range(10)]
        for sock in idle[:8]:
            assert sock.recv(1) == b""
        assert refused(host.url)["crowd none"] >= 8


def test_tls_that_comes_to_nothing_is_counted(start: Start, tmp_path: Path) -> None:
    certificate = Certificate(tmp_path, "127.0.0.1")
    host = start(tls=certificate.files, look_token=LOOK)
    trusting = ssl.create_default_context(cafile=certificate.ca)
    with connect(host.url) as sock, pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(sock, server_hostname="127.0.0.1")
    say(host.url, b"\x16\x03\x01\x00\x08nonsense")
    assert say(host.url, REQUEST + b"\r\n").startswith(b"HTTP/1.1 403 ")

    def told() -> bool:
        with trusting.wrap_socket(connect(host.url), server_hostname="127.0.0.1") as sock:
            sock.sendall(b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer " + LOOK.encode() + b"\r\n\r\n")
            text = b"".join(iter(lambda: sock.recv(1 << 16), b"")).decode()
        return 'reason="tls",status="none"} 2.0' in text and 'reason="scheme",status="403"} 1.0' in text

    eventually(told)


# --- guessing at the pages


def test_who_guesses_the_token_for_looking_is_refused_for_a_while(start: Start) -> None:
    host = start(look_token=LOOK)
    client = host()

    def guess(number: int) -> str:
        """As a Bearer token and as a password in turn, and at one page after the other."""
        basic = "Basic " + base64.b64encode(f"x:guess-{number}".encode()).decode()
        return basic if number % 2 else f"Bearer guess-{number}"

    paths = sorted(looking.PAGES)
    statuses = [get(host.url, paths[number % 4], Authorization=guess(number))[0] for number in range(WRONG_TOKENS + 4)]
    assert statuses == [401] * WRONG_TOKENS + [429] * 4
    status, text, headers = get(host.url, "/healthz", Authorization=f"Bearer {LOOK}")
    assert status == 429 and "too many wrong tokens for looking" in text and 1 <= int(headers["Retry-After"]) <= 3
    assert get(host.url, "/healthz")[0] == 401  # who says nothing does not guess, and is asked as ever
    assert host.errors().count("a wrong token for looking came from 127.0.0.1") == WRONG_TOKENS
    # sessions come and go as before: these guesses were not at their tokens
    assert client.ask(b"in") == host().ask(b"in") == b"in"
    eventually(lambda: get(host.url, "/healthz", Authorization=f"Bearer {LOOK}")[0] == 200)


def test_who_guesses_the_tokens_of_sessions_may_look(start: Start) -> None:
    host = start(look_token=LOOK)
    statuses = [host.request(Authorization=f"Bearer guess-{number}")[0] for number in range(WRONG_TOKENS + 1)]
    assert statuses[-1] == 429
    assert get(host.url, "/healthz", Authorization=f"Bearer {LOOK}")[0] == 200


def test_the_token_for_looking_is_none_for_a_session(start: Start) -> None:
    """Whoever confuses the two is told."""
    host = start(look_token=LOOK)
    status, text = host.request(Authorization=f"Bearer {LOOK}")
    assert status == 401 and "it is the one for its pages (--look-token-file) alone" in text
    assert "pages" not in host.request(Authorization="Bearer another")[1]


def test_who_comes_without_a_token_never_guesses(start: Start) -> None:
    """A browser asks so before it asks its user."""
    host = start(look_token=LOOK)
    assert {get(host.url, "/")[0] for _ in range(2 * WRONG_TOKENS)} == {401}
    assert get(host.url, "/", Authorization=f"Bearer {LOOK}")[0] == 200


# --- other methods than GET


@pytest.mark.parametrize("path", sorted(looking.PAGES))
def test_head_is_get_without_its_body(start: Start, path: str) -> None:
    host = start()
    shown, head = ask(host.url, "GET", path), ask(host.url, "HEAD", path)
    assert (head.status, head.text) == (shown.status, "") == (200, "")  # type: ignore[attr-defined]
    assert int(head.headers["Content-Length"]) > 0
    same = set(shown.headers) - {"Content-Length", "Date", "Server-Timing"}  # figures change
    assert {name: head.headers[name] for name in same} == {name: shown.headers[name] for name in same}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "get", "GETX"])
def test_other_methods_are_told_which_there_are(start: Start, method: str) -> None:
    host = start()
    for path in ("/", "/healthz"):
        answer = ask(host.url, method, path)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
        assert answer.headers["Connection"] == "close"
    answer = ask(host.url, method, "/glremote", Authorization=BEARER)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET")


def test_head_of_what_is_no_page_has_no_body_either(start: Start) -> None:
    host = start(look_token=LOOK)
    for path, status in (("/glremote", 405), ("/nothing", 404), ("/healthz", 401)):
        answer = say(host.url, f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ".encode()) and body == b""


@pytest.mark.parametrize(
    "head", [b"Content-Length: 5", b"Content-Length: 0\r\nContent-Length: 5", b"Transfer-Encoding: chunked"]
)
def test_a_request_that_announces_a_body_is_none(start: Start, head: bytes) -> None:
    """websockets reads none, so there is nobody who could answer; and nothing can hide in one."""
    host = start()
    data = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n"
    assert say(host.url, data) == b""
    for body in (b"hello", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        answer = say(host.url, data + body)
        assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1 ") == 1
    eventually(lambda: refused(host.url) == {"no_request none": 1, "early 400": 2})


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"POST"])
def test_one_connection_has_one_answer(start: Start, method: bytes) -> None:
    """Whatever comes behind a request is no second one, so nobody's answer can be taken for another's."""
    host = start()
    request = method + b" /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"
    answer = say(host.url, 3 * request)
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1 ") == 1
    with connect(host.url) as sock:  # what comes behind the answer has none
        sock.sendall(request)
        answer = sock.recv(1 << 16)
        with contextlib.suppress(OSError):
            sock.sendall(request)
            while more := sock.recv(1 << 16):
                answer += more
    assert answer.count(b"HTTP/1.1 ") == 1 and b"Connection: close" in answer
    assert "Traceback" not in host.errors()
