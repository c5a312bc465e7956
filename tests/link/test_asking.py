"""Asking a host for its devices, of hosts that tell them and of all that may answer in a host's place."""

from __future__ import annotations

import contextlib
import http.server
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import trustme

from glremote.host.serving import LocalHost
from glremote.link.asking import ask
from glremote.link.tls import Trust, explain
from glremote.link.websocket import connect
from glremote.protocol.devices import LARGEST, PATH, Device, HostReport, encode, pack
from glremote.protocol.errors import HostUnreachable, NobodyListens, NotAdmitted

TOKEN = "a-token"
REPORT = HostReport(
    software="9.9",
    protocol=1,
    moderngl="5.13.0",
    sessions=3,
    max_sessions=16,
    devices=(Device(name="H200", renderer="NVIDIA H200/PCIe/SSE2", version=460, number=0, extensions=("a", "b")),),
)


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers as the test's server says."""

    protocol_version = "HTTP/1.1"
    server: Any

    def version_string(self) -> str:
        return str(self.server.name)

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        self.server.before()
        status, body, headers = self.server.answer
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for at in range(0, len(body), self.server.piece):
            with contextlib.suppress(OSError):
                self.wfile.write(body[at : at + self.server.piece])
                self.wfile.flush()
                time.sleep(self.server.pause)

    def log_message(self, *_: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    """Of many at a time."""

    request_queue_size = 64


@contextlib.contextmanager
def answering(
    status: int = 200, body: bytes | None = None, tls: ssl.SSLContext | None = None, **headers: str
) -> Iterator[Any]:
    """A server that answers every request so; `url` is its address."""
    with Server(("127.0.0.1", 0), Answering) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        shaped: Any = server
        shaped.answer = status, encode(REPORT) if body is None else body, headers
        shaped.name = "glremote"
        shaped.asked, shaped.piece, shaped.pause, shaped.before = [], 1 << 20, 0.0, lambda: None
        shaped.url = f"{'ws' if tls is None else 'wss'}://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_a_host_tells_its_devices() -> None:
    with answering() as host:
        answer = ask(host.url, TOKEN)
        (asked,) = host.asked
    assert answer.report == REPORT
    assert 0 < answer.distance < 4
    assert asked[0] == PATH
    assert asked[1]["Authorization"] == f"Bearer {TOKEN}"


def test_the_page_is_beside_the_websocket_s() -> None:
    with answering() as host:
        ask(host.url + "/behind/a-proxy", TOKEN)
        assert host.asked[0][0] == f"/behind{PATH}"


def test_the_hosts_own_time_is_no_distance() -> None:
    timing: Any = {"Server-Timing": "admit;dur=99999.5"}
    with answering(**timing) as host:
        assert ask(host.url, TOKEN).distance == 0.0


def test_a_real_host(served: LocalHost) -> None:
    report = ask(served.url, served.token).report
    assert report.devices and report.devices[0].renderer and report.max_sessions == 64
    with pytest.raises(NotAdmitted, match=f"{served.url}: the token is not this host's"):
        ask(served.url, "wrong")
    with pytest.raises(NotAdmitted, match="a token is needed"):
        ask(served.url)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ((404, b"serves nothing but /glremote"), HostUnreachable, "older than this.*upgrade it there"),
        ((401, b"the token is not this host's"), NotAdmitted, "the token is not this host's"),
        ((429, b"too many wrong tokens"), HostUnreachable, "too many wrong tokens"),
        ((200, b"<html>"), HostUnreachable, "no glremote host"),
        ((200, b"[1, 2]"), HostUnreachable, "no glremote host"),
        ((200, b"\xff"), HostUnreachable, "no glremote host"),
        ((200, b" " * (2 << 20)), HostUnreachable, "no glremote host"),
        ((302, b""), HostUnreachable, "no glremote host .*302"),
    ],
)
def test_other_answers(answer: tuple[int, bytes], kind: type[Exception], said: str) -> None:
    with answering(*answer) as host, pytest.raises(kind, match=f"{host.url}: .*{said}"):
        ask(host.url, TOKEN)


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (401, {}, r"what answers there is no glremote host \(HTTP 401 from nginx\)"),
        (404, {}, r"what answers there is no glremote host \(HTTP 404 from nginx\)"),
        (200, {}, r"what answers there is no glremote host \(HTTP 200 from nginx\)"),
        (502, {}, r"a proxy there does not reach a glremote host behind it \(HTTP 502 from nginx\)"),
        (503, {}, r"a proxy there does not reach a glremote host behind it \(HTTP 503 from nginx\)"),
        (301, {"Location": "https://gpu-1/glremote"}, r"sends us on \(HTTP 301 .* give wss://gpu-1/glremote$"),
        (302, {"Location": "/login"}, r"what answers there is no glremote host \(HTTP 302 from nginx\)"),
    ],
)
def test_what_a_stranger_or_a_proxy_answers(status: int, headers: dict[str, Any], said: str) -> None:
    """It admits nobody and refuses nobody: a session is not over for it, and its page is nothing to read."""
    for page in (b"<html>\n<p>Sorry</p>\n</html>", b"no upstream " * 1000, b"", b"\x1b[31m", b"\xff\xfe"):
        with answering(status, page, **headers) as host:
            host.name = "nginx"
            for reach in (ask, connect):
                with pytest.raises(HostUnreachable, match=f"^{host.url}: .*{said}") as caught:
                    reach(host.url, TOKEN)
                assert str(caught.value).isprintable() and "Sorry" not in str(caught.value)


def test_a_host_behind_a_proxy_that_calls_itself_the_server() -> None:
    timing: Any = {"Server-Timing": "edge;dur=1, admit;dur=0.5"}
    with answering(401, b"the token is\nnot this host's\x1b", **timing) as host:
        host.name = "nginx"
        for reach in (ask, connect):
            with pytest.raises(NotAdmitted, match=f"^{host.url}: the token is not this host's\\?$"):
                reach(host.url, TOKEN)


def test_an_address_that_does_not_answer_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a name has one of IPv6, and the way there is broken. The first is a listener whose queue is full."""
    with answering() as host, socket.socket() as full, contextlib.ExitStack() as stack:
        full.bind(("127.0.0.2", host.server_port))
        full.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        addresses = [(at, host.server_port) for at in ("127.0.0.2", "127.0.0.1")]
        known = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: known)
        host.before = lambda: time.sleep(0.3)
        assert ask(f"ws://both:{host.server_port}", TOKEN, timeout=4.0).report == REPORT
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: known[:1])
        with pytest.raises(HostUnreachable, match=r"\(timed out\); is the machine on, and does every firewall"):
            ask(f"ws://one:{host.server_port}", TOKEN, timeout=0.2)


def test_a_name_that_nobody_knows() -> None:
    for reach in (ask, connect):
        with pytest.raises(HostUnreachable, match=r"no host answers there \(.*\); is the name spelled right"):
            reach("ws://no-such-machine.invalid:1")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_proxy_that_wants_a_certificate_of_the_client(version: ssl.TLSVersion) -> None:
    """In TLS 1.3 it says so when all seems to be well."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    tls.verify_mode, tls.maximum_version = ssl.CERT_REQUIRED, version
    with authority.cert_pem.tempfile() as file, socket.create_server(("127.0.0.1", 0)) as listening:

        def shake_hands() -> None:
            for _ in range(2):
                sock, _ = listening.accept()
                with contextlib.suppress(OSError):
                    tls.wrap_socket(sock, server_side=True).close()

        thread = threading.Thread(target=shake_hands)
        thread.start()
        for reach in (ask, connect):
            with pytest.raises(HostUnreachable, match=r"wants a certificate of the client|hung up|broke"):
                reach(f"wss://127.0.0.1:{listening.getsockname()[1]}", TOKEN, trust=Trust(file))
        thread.join()


def test_a_report_that_is_packed() -> None:
    header: Any = {"Content-Encoding": "gzip"}
    packed = pack(encode(REPORT))
    with answering(body=packed, **header) as host:
        assert ask(host.url, TOKEN).report == REPORT
        assert host.asked[0][1]["Accept-Encoding"] == "gzip"
    for body in (packed[:-9], encode(REPORT), b"", pack(b" " * (LARGEST + 1)), pack(b"<html>")):
        with answering(body=body, **header) as host, pytest.raises(HostUnreachable, match="no glremote host"):
            ask(host.url, TOKEN)


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"])
def test_what_is_no_http(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            sock, _ = listening.accept()
            with sock:
                sock.recv(1 << 16)
                sock.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(HostUnreachable, match="no glremote host") as caught:
            ask(f"ws://127.0.0.1:{listening.getsockname()[1]}", TOKEN)
        thread.join()
    assert said or "hung up without a word; behind a tunnel or a proxy nobody may be listening" in str(caught.value)


@pytest.mark.parametrize(
    ("reason", "text", "says"),
    [
        ("TLSV1_ALERT_PROTOCOL_VERSION", "tlsv1 alert protocol version", "speaks TLS older than 1.2"),
        ("UNSUPPORTED_PROTOCOL", "unsupported protocol", "speaks TLS older than 1.2"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "certificate required", "wants a certificate of the client"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "handshake failure", "wants a certificate of the client"),
        ("UNEXPECTED_EOF_WHILE_READING", "EOF occurred", "hung up while TLS began"),
        (None, "EOF occurred in violation of protocol", "hung up while TLS began"),
        ("NO_CIPHERS_AVAILABLE", "no ciphers available", "no secure connection: "),
    ],
)
def test_what_openssl_s_words_mean(reason: str | None, text: str, says: str) -> None:
    error = ssl.SSLError(1, text)
    error.reason = reason  # type: ignore[assignment]
    assert says in explain(error)


@pytest.mark.parametrize("name", ["a..b", ".", "a" * 64, "a b"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(HostUnreachable, match="is no host"):
        ask(f"ws://{name}:1", TOKEN)


def test_an_address_that_nobody_answers_at_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a name has one of IPv6 too, and the way there is broken."""
    with answering() as host, socket.socket() as hole, contextlib.ExitStack() as stack:
        hole.bind(("127.0.0.1", 0))
        hole.listen(0)
        for _ in range(3):  # its queue is full: what comes then is dropped
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(hole.getsockname())
        here = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", host.server_port))
        addresses = [(*here[:4], hole.getsockname()), here]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
        began = time.monotonic()
        assert ask(host.url, TOKEN, timeout=3.0).report == REPORT
        assert time.monotonic() - began >= 1.4, "the hole has answered"
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses[:1] * 20)
        began = time.monotonic()
        with pytest.raises(HostUnreachable, match="no host answers there"):
            ask(host.url, TOKEN, timeout=0.5)
        assert time.monotonic() - began < 5, "and not half a second for each"


def test_nobody_there() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        with pytest.raises(NobodyListens, match="no host answers there"):
            ask(f"ws://127.0.0.1:{sock.getsockname()[1]}", TOKEN)


def test_a_host_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"ws://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(HostUnreachable, match=r"no glremote host answered within 0\.2 s"):
            ask(url, TOKEN, timeout=0.2)


def test_a_host_that_answers_byte_by_byte_has_no_more_time() -> None:
    with answering() as host:
        host.piece, host.pause = 1, 0.1
        with pytest.raises(HostUnreachable, match=r"answered within 0\.5 s"):
            ask(host.url, TOKEN, timeout=0.5)


def test_tls_and_whom_to_trust() -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with answering(tls=tls) as host, authority.cert_pem.tempfile() as file:
        assert ask(host.url, TOKEN, Trust(file)).report == REPORT
        with pytest.raises(HostUnreachable, match="no authority that is trusted here"):
            ask(host.url, TOKEN)
        with pytest.raises(HostUnreachable, match="its certificate has the pin"):
            ask(host.url, TOKEN, Trust(pin="sha256:" + 64 * "0"))
        assert len(host.asked) == 1  # nothing was said to one that is not trusted
    with answering() as host, pytest.raises(HostUnreachable, match="does not speak TLS"):
        ask(host.url.replace("ws:", "wss:"), TOKEN)
