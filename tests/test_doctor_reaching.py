"""`glremote doctor HOST_URL`: every way of not reaching a host, over real sockets; and reaching one."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import http.client
import http.server
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import termios
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import glremote
from glremote.doctor import reaching
from glremote.doctor.finding import Finding, State
from glremote.doctor.reaching import reach
from glremote.doctor.way import Way
from glremote.host.serving import LocalHost
from glremote.hosts import Host
from glremote.link.asking import ask
from glremote.link.tls import Trust
from glremote.protocol import handshake
from glremote.protocol.devices import Device, HostReport, encode
from glremote.recording.facade import MODERNGL
from tests.host.test_strangers import Certificate
from tests.relay import Line, Relay
from tests.test_cli import DEADLINE, command, glremote_, one_line

NOBODY = "ws://127.0.0.1:9"


def steps(url: str, token: str | None, trust: Trust | None = None, moderngl: str = MODERNGL) -> list[Finding]:
    """What is said of each step."""
    ca, pin = (trust.ca, trust.pin) if trust else (None, None)
    return list(reach(Host(url, "", token, ca, pin), None, moderngl))


def way(url: str, token: str | None = None, trust: Trust | None = None) -> tuple[list[str], Finding]:
    """What is said of the steps on the way that were taken, and of the one that failed."""
    *before, last = steps(url, token, trust)
    assert last.state is State.MISSING, last
    assert all(finding.state is not State.MISSING for finding in before)
    assert last.mend
    return [finding.text for finding in before], last


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """One for 127.0.0.1."""
    return Certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@pytest.fixture(scope="module")
def secure(certificate: Certificate) -> Iterator[LocalHost]:
    """A host with TLS."""
    with LocalHost("--tls-cert", certificate.files[0], "--tls-key", certificate.files[1], "--warm", "1") as host:
        yield host


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of somebody who listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock.getsockname()[1]


def test_a_host_that_can_be_reached(served: LocalHost) -> None:
    found = steps(served.url, served.token)
    assert all(finding.state is not State.MISSING for finding in found), found
    said = "\n".join(finding.text for finding in found)
    port = served.url.rpartition(":")[2]
    assert f"port {port} is open" in said
    assert "the token is admitted" in said
    assert re.search(r"a session begins, after [\d.]+ s: glremote \S+ there and \S+ here, version \d+ of the", said)
    assert "it draws with " in said
    assert re.search(r"the distance is [\d.]+ ms", said)
    assert re.search(r"it has .*; sessions: \d+", said)


def test_the_session_says_goodbye() -> None:
    """It would else have a place for the grace."""
    with LocalHost("--warm", "1") as host:
        assert all(finding.state is not State.MISSING for finding in steps(host.url, host.token))
        deadline = time.monotonic() + DEADLINE
        url = host.url.replace("ws:", "http:") + "/metrics"
        while 'glremote_sessions_ended_total{how="goodbye"} 1.0' not in (said := urlopen(url).read().decode()):
            assert time.monotonic() < deadline, said
            time.sleep(0.05)


# --- address, name, port


LIKE = "glremote doctor wss://HOST:8765 --token-file FILE"


@pytest.mark.parametrize(
    ("given", "says", "mend"),
    [
        ("gpu1", "; is gpu-1 meant?", ["glremote doctor gpu-1"]),
        ("GPU-1/0", "; is gpu-1 meant?", ["glremote doctor gpu-1"]),
        ("near:1", "(gpu-1, far), or of a", ["glremote doctor wss://near:1", "glremote doctor ws://near:1"]),
        ("near", "", ["glremote doctor wss://near:8765", "glremote doctor ws://near:8765"]),
        ("https://near", "; is wss://near meant?", ["glremote doctor wss://near"]),
        ("http://[::1]:9/a", "", ["glremote doctor ws://[::1]:9/a"]),
        ("WSS://near:1", "", ["glremote doctor wss://near:1"]),
        ("ws:near:1", "", ["glremote doctor ws://near:1"]),
        ("ws://", "hostname isn't provided", [LIKE]),
        ("ws://a\x07:1", "cannot be seen", [LIKE]),
        ("ws://a b", "spaces", [LIKE]),
        ("ws://a:port", "is no host: Port", [LIKE]),
        ("ws://me:secret@a:1", "a user and a password (at a)", [LIKE]),
    ],
)
def test_what_is_no_host(given: str, says: str, mend: list[str], tmp_path: Path) -> None:
    """The doctor, ping and a program say the same of it."""
    hosts = tmp_path / "hosts.toml"
    hosts.write_text('[[host]]\nname = "gpu-1"\nurl = "ws://a:1"\n[[host]]\nname = "far"\nurl = "ws://b:1"\n')
    hosts.chmod(0o600)
    where: dict[str, Any] = {"GLREMOTE_HOSTS": str(hosts)}
    done = glremote_("doctor", given, **where)
    assert (done.returncode, done.stderr) == (1, "")
    first, *lines = done.stdout.splitlines()
    assert first.startswith("  missing  ") and says in first
    assert "secret" not in first
    assert lines == [*(" " * 13 + line for line in mend), "", "The way to it ends there."]
    assert one_line(glremote_("ping", given, **where)) == first.removeprefix("  missing  ")


def test_the_doctor_takes_what_create_context_takes(served: LocalHost, secure: LocalHost, tmp_path: Path) -> None:
    """A name, one of its devices, an address with the environment's token and trust; `local` is this machine."""
    hosts: dict[str, Any] = {"GLREMOTE_HOSTS": str(tmp_path / "hosts.toml")}
    glremote_("hosts", "add", served.url, "--name", "one", GLREMOTE_TOKEN=served.token, **hosts)
    first = ask(served.url, served.token).report.devices[0]
    for name in ("one", "one/software" if first.software else f"one/{first.number}", served.url):
        done = glremote_("doctor", name, **hosts, GLREMOTE_TOKEN=served.token if name == served.url else "")
        assert done.returncode == 0, done.stdout + done.stderr
    done = glremote_("doctor", "one/7", **hosts)
    assert "  missing  no device is as it is asked for: " in done.stdout
    assert " " * 13 + "glremote devices  # which" in done.stdout
    pin: dict[str, Any] = {"GLREMOTE_PIN": re.search("sha256:[0-9a-f]{64}", secure.said())[0]}  # type: ignore[index]
    done = glremote_("doctor", secure.url, GLREMOTE_TOKEN=secure.token, **pin, **hosts)
    assert done.returncode == 0 and "trusted by its pin" in done.stdout, done.stdout
    token = tmp_path / "token"
    token.write_text("wrong")  # the call's own comes before the environment's, and the host's
    done = glremote_("doctor", "one", "--token-file", str(token), GLREMOTE_TOKEN=served.token, **hosts)
    assert "the token is not this host's" in done.stdout
    assert f"glremote hosts add {served.url} --name one --token-file FILE  # to keep it" in done.stdout
    assert "What EGL draws with" in glremote_("doctor", "local", **hosts).stdout


def test_an_unknown_name() -> None:
    before, failed = way("ws://no-such-machine.invalid:8765")
    assert before == []
    assert failed.text.startswith("the name no-such-machine.invalid is not known here")
    assert failed.mend == ("echo 'ADDRESS no-such-machine.invalid' | sudo tee -a /etc/hosts",)


def test_a_name_that_is_known() -> None:
    before, failed = way("ws://localhost:9")
    assert before[0].startswith("the name localhost is known: ")
    assert "nobody listens at port 9 of this machine" in failed.text


def test_a_closed_port() -> None:
    before, failed = way(NOBODY)
    assert before == []
    assert failed.text == "nobody listens at port 9 of this machine: is a host running here, or a tunnel open?"
    assert failed.mend[0] == "glremote serve --port 9"
    assert failed.mend[1].startswith("ssh -N -L 9:127.0.0.1:8765 GPU-MACHINE")


def test_a_closed_port_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose name leads here, for want of one."""
    known = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: known("127.0.0.1", *rest, **more))
    before, failed = way("wss://gpu-1:9", trust=Trust())
    assert before == ["the name gpu-1 is known: 127.0.0.1"]
    assert "gpu-1 is there, and nobody listens at its port 9" in failed.text
    assert failed.mend[0].startswith("glremote serve --bind 0.0.0.0 --tls-cert cert.pem")
    assert failed.mend[0].endswith("--port 9  # on gpu-1")


def test_a_firewall_that_drops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener whose queue is full drops what comes, as a firewall does."""
    monkeypatch.setattr(reaching, "TIMEOUT", 0.3)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        try:
            before, failed = way(f"ws://127.0.0.1:{port}")
        finally:
            for one in waiting:
                one.close()
    assert before == []
    assert "a firewall on the way drops it" in failed.text
    assert failed.mend == (f"sudo ufw allow {port}/tcp  # there, where that is its firewall",)


# --- TLS


def test_by_an_authority_and_by_a_pin(secure: LocalHost, certificate: Certificate) -> None:
    for trust in (Trust(ca=str(certificate.ca)), Trust(pin=certificate.pin)):
        found = steps(secure.url, secure.token, trust)
        assert all(finding.state is not State.MISSING for finding in found), found
        by = f"an authority in {certificate.ca}" if trust.ca else "its pin"
        assert f"TLSv1.3 is spoken, and the certificate is trusted by {by}" in [finding.text for finding in found]


def test_an_authority_that_is_not_trusted(secure: LocalHost) -> None:
    before, failed = way(secure.url, secure.token, Trust())
    assert len(before) == 1
    assert "no authority that is trusted here has signed" in failed.text
    assert any("--ca-file cert.pem" in line for line in failed.mend)
    assert any("--pin sha256:" in line for line in failed.mend)
    page = (Path(__file__).parent.parent / "HOSTS.md").read_text()
    shown = "\n".join([f"  missing  {failed.text}", *(" " * 13 + line for line in failed.mend), "", "The way"])
    assert shown.replace(secure.url, "wss://gpu-1:8765").replace("# there", "# on gpu-1") in page


def test_another_name_and_another_pin(secure: LocalHost, certificate: Certificate) -> None:
    url = secure.url.replace("127.0.0.1", "localhost")
    before, failed = way(url, secure.token, Trust(ca=str(certificate.ca)))
    assert "certificate is for another name" in failed.text
    assert len(before) == 2  # and so the token was not told
    before, failed = way(secure.url, secure.token, Trust(pin="sha256:" + 64 * "0"))
    assert len(before) == 1
    assert "somebody stands between, or the host has another certificate now" in failed.text


DAY = datetime.timedelta(days=1)


@pytest.mark.parametrize(
    ("names", "until", "says", "mends"),
    [
        (["127.0.0.1"], -DAY, "has expired", ["openssl x509", "date -u", "sudo certbot renew", "{} --pin sha256:"]),
        (["gpu-1"], DAY, "is for another name", ["openssl x509", "glremote doctor wss://NAME:", "{} --pin sha256:"]),
    ],
)
def test_a_certificate_that_no_authority_mends(
    names: list[str], until: datetime.timedelta, says: str, mends: list[str], tmp_path: Path
) -> None:
    """To trust its authority would change nothing."""
    certificate = Certificate(tmp_path, *names, until=datetime.datetime.now(datetime.UTC) + until)
    cert, key = certificate.files
    with LocalHost("--tls-cert", cert, "--tls-key", key, "--warm", "0") as host:
        _, failed = way(host.url, host.token, Trust(ca=str(certificate.ca)))
    assert says in failed.text
    assert len(failed.mend) == len(mends)
    for line, start in zip(failed.mend, mends, strict=True):
        assert line.startswith(start.format(f"glremote doctor {host.url}")), line


def test_a_proxy_whose_tls_is_too_old_or_wants_a_certificate(certificate: Certificate) -> None:
    """Not to be mended by ws://."""
    for setting, says, mend in (
        ("maximum_version", "TLS older than 1.2", "ssl_protocols TLSv1.2 TLSv1.3;  # there, where that is nginx"),
        ("verify_mode", "wants a certificate of the client", "ssl_verify_client off;  # there, where that is nginx"),
    ):
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*certificate.files)
        tls.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings(action="ignore"):
            tls.minimum_version, tls.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_2
            value = ssl.CERT_REQUIRED if setting == "verify_mode" else ssl.TLSVersion.TLSv1_1
            setattr(tls, setting, value)
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def shake_hands(listening: socket.socket = listening, tls: ssl.SSLContext = tls) -> None:
                for _ in range(2):
                    sock, _ = listening.accept()
                    with contextlib.suppress(OSError):
                        tls.wrap_socket(sock, server_side=True)
                    sock.close()

            threading.Thread(target=shake_hands, daemon=True).start()
            url = f"wss://127.0.0.1:{listening.getsockname()[1]}"
            _, failed = way(url, trust=Trust(ca=str(certificate.ca)))
        assert says in failed.text
        assert failed.mend == (mend,)


def test_a_certificate_that_ends_soon(tmp_path: Path) -> None:
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3)
    certificate = Certificate(tmp_path, "127.0.0.1", until=soon)
    cert, key = certificate.files
    with LocalHost("--tls-cert", cert, "--tls-key", key, "--warm", "1") as host:
        found = steps(host.url, host.token, Trust(ca=str(certificate.ca)))
    assert "the certificate ends in 3 days" in [finding.text for finding in found if finding.state is State.WARNING]


def test_tls_where_there_is_none_and_the_reverse(served: LocalHost, secure: LocalHost) -> None:
    before, failed = way(served.url.replace("ws:", "wss:"), served.token, Trust())
    assert len(before) == 1
    assert "does not speak TLS" in failed.text
    assert failed.mend == (f"glremote doctor {served.url}",)
    _, failed = way(secure.url.replace("wss:", "ws:"), secure.token)
    assert "this host serves wss:// at this port, and not ws://" in failed.text
    assert failed.mend == (f"glremote doctor {secure.url}",)


# --- token, and what is no host


def test_no_token_and_a_wrong_one(served: LocalHost) -> None:
    for token, says in ((None, "a token is needed"), ("wrong", "the token is not this host's")):
        before, failed = way(served.url, token)
        assert len(before) == 2
        assert says in failed.text
        assert failed.mend[0].startswith("glremote token create --name NAME")
        assert failed.mend[1].startswith(f"glremote doctor {served.url} --token-file FILE")


def test_a_host_that_is_full_and_one_that_goes_down() -> None:
    with LocalHost("--max-sessions", "1", "--warm", "1") as host:
        ctx = glremote.create_context(host.url, token=host.token)
        _, failed = way(host.url, host.token)
        assert failed.text.startswith("the token is admitted, and the host refuses (503): no room for another session")
        assert failed.mend == ("glremote serve --max-sessions 64  # there",)
        os.kill(host.pid, signal.SIGTERM)
        deadline = time.monotonic() + DEADLINE
        while "going down" not in (said := way(host.url, host.token)[1]).text:
            assert time.monotonic() < deadline, said
        assert said.mend[0].startswith(f"sleep 60; glremote doctor {host.url}")
        ctx.release()


def test_an_address_that_has_guessed_too_often() -> None:
    with LocalHost("--warm", "0") as host:
        deadline = time.monotonic() + DEADLINE
        while "too many wrong tokens" not in (failed := way(host.url, "wrong")[1]).text:
            assert time.monotonic() < deadline, failed
    assert failed.mend == (f"sleep 60; glremote doctor {host.url}",)


def test_a_path_that_is_not_the_host_s(served: LocalHost) -> None:
    _, failed = way(f"{served.url}/gpu", served.token)
    assert "serves nothing but" in failed.text
    below = f"glremote doctor {served.url}/gpu/glremote  # where a proxy has the host below that"
    assert failed.mend == (f"glremote doctor {served.url}  # without a path", below)


def test_what_is_no_glremote_host(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        _, failed = way(f"ws://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
    assert "what answers there is no glremote host (HTTP 501 from BaseHTTP" in failed.text
    monkeypatch.setattr(reaching, "TIMEOUT", 0.3)
    _, failed = way(f"ws://127.0.0.1:{silent}")
    assert "no answer came within 0.3 s" in failed.text
    before, failed = way(f"wss://127.0.0.1:{silent}", trust=Trust())
    assert len(before) == 1
    assert "TLS was not spoken within 0.3 s" in failed.text


@pytest.mark.parametrize(
    ("status", "location", "says", "mend"),
    [
        (502, "", "a proxy there does not reach a glremote host behind it", "systemctl status glremote  # behind {}"),
        (301, "https://gpu-1/glremote", "sends us on", "glremote doctor wss://gpu-1/glremote"),
        (301, "http://gpu-1/a/", "sends us on", "glremote doctor ws://gpu-1/a/glremote"),
        (505, "", "a proxy on the way does not pass on that a websocket is asked for", "proxy_http_version 1.1;  #"),
        (403, "", "no glremote host (HTTP 403 from BaseHTTP", "glremote doctor ws://127.0.0.1:8765  # at the"),
    ],
)
def test_a_proxy_before_it(status: int, location: str, says: str, mend: str) -> None:
    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            if status == 505:  # of the host itself, which a proxy asks in HTTP 1.0
                self.send_header("Server-Timing", "admit;dur=0.1")
            if location:
                self.send_header("Location", location)
            self.end_headers()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        _, failed = way(f"ws://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
    assert says in failed.text
    assert failed.mend[0].startswith(mend.format(f"127.0.0.1:{server.server_port}"))


def test_a_proxy_that_lets_all_through_but_the_upgrade(served: LocalHost) -> None:
    """As nginx does unless told otherwise; of the host it is asked by, all pages come."""

    class Proxy(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = http.client.HTTPConnection(served.url.removeprefix("ws://"))
            asked.request("GET", self.path, headers={"Authorization": self.headers["Authorization"]})
            answer = asked.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for name, value in (("Server-Timing", answer.headers["Server-Timing"]), ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        before, failed = way(f"ws://127.0.0.1:{server.server_port}", served.token)
    finally:
        server.shutdown()
        server.server_close()
    assert "the token is admitted" in before
    assert "a proxy on the way does not pass on that a websocket is asked for (HTTP 426)" in failed.text
    assert failed.mend[1].startswith("proxy_set_header Upgrade $http_upgrade;  # there, where that is nginx")


def test_a_tunnel_that_leads_to_nobody() -> None:
    """ssh takes the connection, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            for _ in range(2):
                listening.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        _, failed = way(f"ws://127.0.0.1:{listening.getsockname()[1]}")
    assert "behind a tunnel or a proxy nobody may be listening" in failed.text
    assert failed.mend == ("glremote serve  # there, or where the tunnel leads",)


def test_no_port_was_said() -> None:
    """It is 80 then, or 443, where no host is."""
    with socket.socket() as sock:
        if sock.connect_ex(("127.0.0.1", 80)) == 0:
            pytest.skip("somebody listens there")
    _, failed = way("ws://127.0.0.1")
    assert "nobody listens at port 80" in failed.text
    assert failed.mend[0] == "glremote doctor ws://127.0.0.1:8765  # at the port that hosts have"


def test_one_that_says_something_else() -> None:
    """As an ssh daemon does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            for _ in range(2):
                sock, _ = listening.accept()
                sock.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                sock.close()

        threading.Thread(target=greet, daemon=True).start()
        port = listening.getsockname()[1]
        _, failed = way(f"ws://127.0.0.1:{port}")
    assert f"what answers at 127.0.0.1:{port} is no glremote host" in failed.text


# --- devices


def test_devices_on_which_no_session_can_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps one is said of that one; what keeps all is said once."""
    one = Device(name="NVIDIA H200", renderer="NVIDIA H200", version=460, number=0)
    found = (one, Device(**{name: getattr(one, name) for name in one.__struct_fields__} | {"trouble": "it crashed"}))
    report = HostReport(
        software="1", protocol=3, moderngl="5", sessions=0, max_sessions=1, devices=found, trouble="no memory"
    )
    answer = reaching.Answer(200, "glremote", "", encode(report).decode(), True)
    monkeypatch.setattr(reaching, "_ask", lambda way, path: answer)
    way_ = Way("ws://h:1", "h", "h", 1, "/glremote", None, None, None)
    said = [(finding.state, finding.text.rpartition("; ")[2]) for finding in reaching._devices(way_)]
    assert said == [
        (State.OK, "sessions: 0"), (State.WARNING, "none can begin on it now: it crashed"),
        (State.WARNING, "no session can begin there now: no memory"),
    ]  # fmt: skip


# --- version and distance


def test_another_version_of_the_protocol(served: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "VERSION", 1)
    before, failed = way(served.url, served.token)
    assert "the token is admitted" in before
    assert "upgrade glremote on the client" in failed.text
    assert failed.mend == ("git -C glremote pull && pip install --upgrade ./glremote  # here, beside the clone",)


def test_another_moderngl(served: LocalHost) -> None:
    warned = [f for f in steps(served.url, served.token, moderngl="5.12.0") if f.state is State.WARNING]
    assert any(f.text.startswith(f"moderngl is {MODERNGL} there and 5.12.0 here") for f in warned)


def test_a_host_without_a_driver() -> None:
    """It starts, having no warm workers, and no session begins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("__EGL_VENDOR_LIBRARY_FILENAMES", "/no/such.json")
        with LocalHost("--warm", "0") as host:
            _, failed = way(host.url, host.token)
    assert failed.text.startswith("a session does not begin: ")
    assert failed.mend == ("glremote doctor  # there, as the user that serves",)


def test_a_distant_host(served: LocalHost) -> None:
    with Relay(Line(2 * reaching.SLOW, 1000.0), int(served.url.rpartition(":")[2])) as relay:
        found = steps(f"ws://127.0.0.1:{relay.port}", served.token)
    assert all(finding.state is not State.MISSING for finding in found), found
    (slow,) = [finding for finding in found if finding.text.startswith("the distance is")]
    assert slow.state is State.WARNING
    assert slow.mend[0].startswith("future = glremote.read_async(")


# --- the command


def test_on_a_terminal() -> None:
    """Words are coloured, text ends where the terminal does, and what mends is a line that can be copied."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    what = command("doctor", NOBODY, TERM="xterm-256color")
    done = subprocess.run(**what, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, timeout=DEADLINE)
    os.close(theirs)
    lines = os.read(ours, 1 << 16).decode().split("\r\n")
    os.close(ours)
    assert done.returncode == 1
    assert lines[0].startswith("\x1b[1;31m  missing  \x1b[0mnobody listens at port 9 of this machine")
    plain = [re.sub("\x1b\\[[0-9;]*m", "", line) for line in lines]
    assert all(len(line) <= 60 for line in plain if not line.startswith(" " * 13))
    assert plain[2] == " " * 13 + "glremote serve --port 9"
    assert len(plain[3]) > 60
    assert plain[4:] == ["", "The way to it ends there.", ""]


def test_the_command(served: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(served.token)
    (tmp_path / "token").chmod(0o644)
    done = glremote_("doctor", served.url, "--token-file", str(tmp_path / "token"))
    assert done.stdout.startswith(f"  warning  the token in {tmp_path}/token can be read by others")
    assert done.stdout.splitlines()[1] == f"             chmod 600 {tmp_path}/token"
    (tmp_path / "token").chmod(0o600)
    done = glremote_("doctor", served.url, "--token-file", str(tmp_path / "token"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("  ok       port ")
    assert done.stdout.endswith("\nA program here can render there.\n")
    hosts = str(tmp_path / "hosts.toml")
    add = ("hosts", "add", served.url, "--name", "gpu-1")
    added = glremote_(*add, GLREMOTE_TOKEN=served.token, GLREMOTE_HOSTS=hosts)
    assert added.returncode == 0, added.stderr
    done = glremote_("doctor", "gpu-1", GLREMOTE_HOSTS=hosts)
    assert done.returncode == 0, done.stdout + done.stderr
    done = glremote_("doctor", NOBODY)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("  missing  nobody listens at port 9")
    assert lines[1] == " " * 13 + "glremote serve --port 9"
    assert done.stderr == ""
    done = glremote_("doctor", "GPU-00000001")
    assert "'GPU-00000001' is a device, on whichever host: name one too" in one_line(done)
    done = glremote_("doctor", NOBODY, "--pin", "sha256:12")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no certificate" in done.stderr
    assert "give HOST too" in glremote_("doctor", "--pin", "sha256:12").stderr
