"""Hosts that are not there, are something else, or of another version; workers that die; bytes that are no protocol."""

from __future__ import annotations

import http.server
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import moderngl
import pytest

import glremote
from glremote.host.inprocess import InProcessHost
from glremote.host.serving import LocalHost
from glremote.link import reaching
from glremote.protocol import handshake, messages
from glremote.protocol.commands import rows as rows_of
from tests.processes import children


@pytest.fixture
def closed_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_nobody_there(closed_port: int) -> None:
    url = f"ws://127.0.0.1:{closed_port}"
    with pytest.raises(glremote.HostUnreachable, match=rf"{url}: no host answers there(.*)glremote serve"):
        glremote.create_context(url)


def test_unknown_name() -> None:
    with pytest.raises(glremote.HostUnreachable, match=r"no-such-host\.invalid"):
        glremote.create_context("ws://no-such-host.invalid:1")


@pytest.mark.parametrize("url", ["ws://", "ws://a:99999", "ws://a:abc", "ws://[::1", "ws://a:1\n", "ws://a:1#b"])
def test_no_address(url: str) -> None:
    with pytest.raises(glremote.HostUnreachable, match="give ws://HOST:PORT"):
        glremote.create_context(url)


def test_an_address_with_a_password_is_not_shown() -> None:
    with pytest.raises(glremote.HostUnreachable, match="with a user and a password") as raised:
        glremote.create_context("ws://somebody:secret@a:1")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("token", ["secret\n", "secret\0", "sécret"])
def test_a_token_that_none_is_is_not_shown(closed_port: int, token: str) -> None:
    with pytest.raises(glremote.NotAdmitted, match="printable ASCII") as raised:
        glremote.create_context(f"ws://127.0.0.1:{closed_port}", token=token)
    assert "cret" not in str(raised.value)


def test_someone_silent() -> None:
    """A server that accepts and says nothing: the error comes within reaching.CONNECT_TIMEOUT, which is below 5 s."""
    assert reaching.CONNECT_TIMEOUT < 5
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"ws://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(glremote.HostUnreachable, match="no glremote host answered within"):
            glremote.create_context(url)


def test_another_kind_of_server() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"ws://127.0.0.1:{server.server_port}"
        with pytest.raises((glremote.HostUnreachable, glremote.NotAdmitted), match=url):
            glremote.create_context(url)


def test_wrong_token(served: LocalHost) -> None:
    with pytest.raises(glremote.NotAdmitted, match=f"{served.url}: .*token") as raised:
        glremote.create_context(served.url, token="not the token")
    assert "not the token" not in str(raised.value)


def test_no_token(served: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLREMOTE_TOKEN", raising=False)
    with pytest.raises(glremote.NotAdmitted, match="GLREMOTE_TOKEN"):
        glremote.create_context(served.url)


@pytest.mark.parametrize(
    ("version", "older"), [(messages.VERSION + 1, "the client"), (messages.VERSION - 1, "the host")]
)
def test_host_of_another_version(version: int, older: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's side of the handshake runs with another version than the client's."""
    greet = handshake.greet

    def other(hello: messages.Hello, *arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(handshake, "VERSION", version)
            return greet(hello, *arguments)

    monkeypatch.setattr(handshake, "greet", other)
    host = InProcessHost()
    with pytest.raises(glremote.VersionMismatch, match=f"a-host: .*upgrade glremote on {older}"):
        glremote.instance().connect(host.connect, "a-host", "a test")
    host.close()


@pytest.mark.parametrize("change", ["missing", "changed"])
def test_table_that_does_not_fit(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = dict(rows_of())
    if change == "missing":
        del rows[141]
    else:
        rows[141] += 1
    greet = handshake.greet

    def other(*arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(handshake, "rows", lambda: rows)
            return greet(*arguments)

    monkeypatch.setattr(handshake, "greet", other)
    host = InProcessHost()
    with pytest.raises(glremote.VersionMismatch, match=r"a-host: .*\(Render\); upgrade glremote on"):
        glremote.instance().connect(host.connect, "a-host", "a test")
    host.close()


def test_too_much_required(in_process_host: InProcessHost) -> None:
    """What plain moderngl raises where the driver has no such version."""
    with pytest.raises(Exception) as expected:
        moderngl.create_context(require=990, standalone=True, backend="egl")  # type: ignore[arg-type]
    with pytest.raises(Exception) as raised:
        glremote.instance().connect(in_process_host.connect, "a-host", "a test", 990)
    assert type(raised.value) is type(expected.value)
    assert str(raised.value) == str(expected.value)


@pytest.mark.parametrize("require", [330, 400, 430])
def test_the_version_is_the_one_that_plain_moderngl_gets(in_process_host: InProcessHost, require: int) -> None:
    """Some drivers give what was asked for, some the most they have."""
    plain = moderngl.create_context(require=require, standalone=True, backend="egl")  # type: ignore[arg-type]
    remote = glremote.instance().connect(in_process_host.connect, "a-host", "a test", require)
    assert remote.version_code == plain.version_code
    assert remote.info == plain.info
    plain.release()
    remote.release()


def _worker_of(host: LocalHost) -> int:
    """The process of the one session's worker: the gateway's eldest child."""
    return min(children(host.pid))


@pytest.mark.parametrize("near", ["0", "1"])
def test_killed_worker_is_a_lost_device(near: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLREMOTE_NEAR", near)
    with LocalHost() as host:
        ctx = glremote.create_context(host.url, token=host.token)
        buffer = ctx.buffer(b"abc")
        assert buffer.read() == b"abc"
        os.kill(_worker_of(host), signal.SIGKILL)
        with pytest.raises(glremote.DeviceLost, match="SIGKILL"):
            buffer.read()
        with pytest.raises(glremote.DeviceLost):
            ctx.buffer(b"abc")
        buffer.release()
        ctx.release()
        another = glremote.create_context(host.url, token=host.token)
        assert another.buffer(b"abc").read() == b"abc"
        another.release()


@pytest.fixture
def two() -> Iterator[tuple[InProcessHost, moderngl.Context, moderngl.Context]]:
    """Two contexts of one host."""
    host = InProcessHost()
    made = [glremote.instance().connect(host.connect, "in-process", "a test") for _ in range(2)]
    yield host, made[0], made[1]
    for ctx in made:
        ctx.release()
    host.close()


@pytest.mark.parametrize(
    "packet",
    [
        b"\0",
        b"\xff" * 64,
        messages.encode(messages.Buffer(1, 0), b"\xc1") + b"\xc1",
        messages.encode(messages.Buffer(999, 0)),
        messages.encode(messages.Applied(999)),
        messages.encode(messages.Patch(1, 1 << 40), b"x") + b"x",
        messages.encode(messages.Answer(1, 1, 0, 0, None, None)),
        messages.encode(messages.Hello(1, "", "", 330)),
        messages.encode(messages.Lost("no")),
    ],
)
def test_malformed_packet_ends_that_session_only(
    two: tuple[InProcessHost, moderngl.Context, moderngl.Context], packet: bytes
) -> None:
    _, ctx, other = two
    ctx.mglo.device.road.link.send([[packet]])
    with pytest.raises(glremote.DeviceLost) as raised:
        ctx.finish()
    assert len(str(raised.value)) > len("in-process: ")
    assert other.buffer(b"abc").read() == b"abc"


def test_host_that_breaks_the_protocol(two: tuple[InProcessHost, moderngl.Context, moderngl.Context]) -> None:
    host, ctx, other = two
    ctx.finish()
    worker = host.workers[ctx.mglo.device.greeting.session]
    send = worker.port.send
    worker.port.send = lambda what, pieces=(): send(what, [b"\xff" * 32])  # type: ignore[method-assign]
    with pytest.raises(glremote.DeviceLost):
        ctx.finish()
    assert other.buffer(b"abc").read() == b"abc"


def test_shader_that_does_not_compile(remote: moderngl.Context) -> None:
    """The text that plain moderngl raises; and the context goes on, without a fault."""
    source = "#version 330\nvoid main() { gl_Position = vec3(1.0); }\n"
    plain = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
    with pytest.raises(moderngl.Error) as expected:
        plain.program(vertex_shader=source)
    plain.release()
    with pytest.raises(moderngl.Error) as raised:
        remote.program(vertex_shader=source)
    assert str(raised.value) == str(expected.value)
    assert type(raised.value) is type(expected.value)
    assert remote.buffer(b"abc").read() == b"abc"




def test_what_is_asked_while_the_session_is_lost_raises(near_by: moderngl.Context) -> None:
    """Another thread has found it out, and has not told anybody yet."""
    device = near_by.mglo.device

    class Losing(dict[int, Any]):
        def __setitem__(self, ticket: int, pending: Any) -> None:
            device._lose(glremote.DeviceLost("meanwhile"))
            near_by.mglo.recorder._alert = False
            device._tickets[ticket] = pending

    device._tickets = Losing()
    with pytest.raises(glremote.DeviceLost, match="meanwhile"):
        near_by.finish()
