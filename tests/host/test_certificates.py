"""A certificate that is renewed while the host serves: it is taken up without a restart, and sessions go on."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import glremote
from glremote.host.serving import LocalHost
from glremote.link.tls import Trust, pin_of
from glremote.link.websocket import connect
from glremote.protocol.errors import HostUnreachable
from tests.host.test_gateway import Client, Host, eventually
from tests.host.test_strangers import Certificate


@pytest.fixture
def issue(tmp_path: Path) -> Callable[[str], Certificate]:
    """Makes certificates for 127.0.0.1, each of an authority of its own, in a folder of its own."""

    def issue(name: str) -> Certificate:
        (folder := tmp_path / name).mkdir()
        return Certificate(folder, "127.0.0.1")

    return issue


@pytest.fixture(params=["uvloop", "asyncio"])
def host(request: pytest.FixtureRequest, tmp_path: Path, issue: Callable[[str], Certificate]) -> Iterator[Host]:
    """A gateway with the first certificate, in files that it may be renewed in."""
    first = issue("first")
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(first.cert, files[0])
    shutil.copy(first.key, files[1])
    host = Host(tmp_path, tls=list(map(str, files)), loop=request.param)
    yield host
    host.close()


def put(host: Host, file: Path, name: str) -> None:
    """Replace one of the host's files whole, as a program does that renews certificates."""
    target = host.worker.with_name(name)
    shutil.copy(file, new := target.with_suffix(".new"))
    os.replace(new, target)


def pin(host: Host) -> str:
    """Of the certificate that a new connection is shown."""
    with pytest.raises(HostUnreachable, match="has the pin sha256:") as caught:
        connect(host.url, trust=Trust(None, "sha256:" + "0" * 64))
    return str(caught.value).partition("has the pin ")[2].partition(",")[0]


def test_a_renewed_certificate_is_taken_up_and_sessions_go_on(host: Host, issue: Callable[[str], Certificate]) -> None:
    first, second = pin_of(host.worker.with_name("cert.pem")), issue("second")
    client = Client(host.url, trust=Trust(None, first))
    name = client.hello()["name"]
    put(host, second.key, "key.pem")
    assert pin(host) == first  # the pair does not fit: the old one stays
    put(host, second.cert, "cert.pem")
    assert pin(host) == second.pin
    assert client.ask(b"undisturbed") == b"undisturbed"
    with pytest.raises(HostUnreachable):
        Client(host.url, trust=Trust(None, first))
    client.link.close()
    resumed = Client(host.url, name, trust=Trust(str(second.ca)))  # and it can come back
    assert resumed.ask(b"still here") == b"still here"
    said = host.errors()
    assert said.count("the certificate was changed, and the one before stays: ") == 1
    assert said.count(f"the certificate was renewed; its pin: {second.pin}") == 1


def test_what_does_not_fit_is_refused_and_the_old_one_stays(host: Host, issue: Callable[[str], Certificate]) -> None:
    first, third = pin(host), issue("third")
    cert, key = (host.worker.with_name(name) for name in ("cert.pem", "key.pem"))
    kept = cert.read_bytes(), key.read_bytes()
    breaks: list[tuple[Callable[[], object], str]] = [
        (lambda: cert.write_text("nothing"), "is not PEM"),
        (lambda: cert.write_bytes(kept[0][: len(kept[0]) // 2]), "is not PEM"),
        (lambda: cert.unlink(), "No such file"),
        (lambda: put(host, third.cert, "cert.pem"), "the key is another certificate's"),
        (lambda: key.write_text(""), "is not PEM"),
        (lambda: key.unlink(), "No such file"),
    ]
    for spoil, why in breaks:
        spoil()
        before = host.errors().count("the one before stays")
        assert pin(host) == pin(host) == first, why
        added = host.errors().split("the one before stays")[before + 1 :]
        assert len(added) == 1 and why in added[0], "said once, not for each connection"
    cert.write_bytes(kept[0])
    key.write_bytes(kept[1])
    assert pin(host) == first
    put(host, third.key, "key.pem")
    put(host, third.cert, "cert.pem")
    assert pin(host) == third.pin


def test_a_hangup_has_it_looked_at_at_once(host: Host, issue: Callable[[str], Certificate]) -> None:
    second = issue("second")
    client = Client(host.url, trust=Trust(None, pin(host)))
    assert client.ask(b"in") == b"in"
    for number in range(2):  # also where there is nothing new
        put(host, second.key, "key.pem")
        put(host, second.cert, "cert.pem")
        host.process.send_signal(signal.SIGHUP)
        eventually(lambda: host.errors().count("the certificate was renewed") == number + 1)  # noqa: B023
    host.process.send_signal(signal.SIGHUP)
    assert client.ask(b"undisturbed") == b"undisturbed"
    assert pin(host) == second.pin


@pytest.mark.parametrize("near", [True, False])
def test_a_program_goes_on_where_the_certificate_is_renewed(
    tmp_path: Path, issue: Callable[[str], Certificate], near: bool
) -> None:
    """A real context, on a real `serve`."""
    first, second = issue("first"), issue("second")
    both = tmp_path / "authorities.pem"
    both.write_bytes(first.ca.read_bytes() + second.ca.read_bytes())
    cert, key = first.files
    with LocalHost("--warm", "1", "--tls-cert", cert, "--tls-key", key) as served, contextlib.ExitStack() as stack:

        def context() -> Any:
            ctx = glremote.create_context(served.url, token=served.token, ca=both, near=near)
            stack.callback(ctx.release)
            return ctx

        buffer = context().buffer(b"before")
        shutil.copy(second.key, key)
        shutil.copy(second.cert, cert)
        assert context().buffer(b"behind").read() == b"behind"
        assert buffer.read() == b"before"
        assert f"renewed; its pin: {second.pin}" in served.said()
