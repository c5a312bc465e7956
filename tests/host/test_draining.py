"""Going down: SIGTERM lets sessions finish, and says so; a second one, and SIGINT, do not wait."""

from __future__ import annotations

import contextlib
import http.client
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import glremote
from glremote.host.serving import LocalHost
from glremote.protocol.errors import NotAdmitted
from tests.host.test_gateway import Client, Host, eventually
from tests.processes import children

START = Callable[..., LocalHost]


@pytest.fixture
def start() -> Iterator[START]:
    """Starts a host."""
    with contextlib.ExitStack() as stack:
        yield lambda *options: stack.enter_context(LocalHost("--warm", "1", *options))


def get(host: LocalHost, path: str) -> tuple[int, str]:
    """The status and the text of a page."""
    address = urlsplit(host.url)
    with contextlib.closing(http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()


def draw(ctx: Any) -> bytes:
    """A picture of one colour."""
    framebuffer = ctx.simple_framebuffer((4, 4))
    framebuffer.clear(1.0, 0.0, 0.0, 1.0)
    pixels: bytes = framebuffer.read()
    return pixels


def ended(host: LocalHost) -> int | None:
    """The exit status of the host's process, once there is one."""
    assert host._process is not None
    return host._process.poll()


def wait_for_end(host: LocalHost) -> int:
    """Its exit status."""
    eventually(lambda: ended(host) is not None)
    status = ended(host)
    assert status is not None
    return status


@pytest.mark.parametrize("near", [True, False])
def test_a_session_is_told_and_goes_on_and_nobody_comes_in(
    start: START, caplog: pytest.LogCaptureFixture, near: bool
) -> None:
    host = start()
    ctx = glremote.create_context(host.url, token=host.token, near=near)
    before = draw(ctx)
    assert get(host, "/healthz") == (200, "ok\n")
    with caplog.at_level(logging.WARNING, "glremote"):
        os.kill(host.pid, signal.SIGTERM)
        eventually(lambda: get(host, "/healthz") == (503, "the host is going down\n"))
        assert ">draining<" in get(host, "/")[1]
        assert "glremote_draining 1.0\n" in get(host, "/metrics")[1]
        with pytest.raises(NotAdmitted, match="going down, and takes no new sessions"):
            glremote.create_context(host.url, token=host.token)
        told = f"{host.url}: the host is going down: this session is ended in 30 s"
        eventually(lambda: draw(ctx) == before and told in caplog.messages)
    assert ended(host) is None
    workers = children(host.pid)
    ctx.release()
    assert wait_for_end(host) == 0
    eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))


def test_a_program_that_rests_is_told_too(start: START, caplog: pytest.LogCaptureFixture) -> None:
    host = start()
    ctx = glremote.create_context(host.url, token=host.token, near=False)
    draw(ctx)
    with caplog.at_level(logging.WARNING, "glremote"):
        os.kill(host.pid, signal.SIGTERM)
        eventually(lambda: any("the host is going down" in message for message in caplog.messages))
    ctx.release()


def test_when_the_time_is_over_the_session_is_ended_with_a_reason(start: START) -> None:
    host = start("--drain", "1")
    ctx = glremote.create_context(host.url, token=host.token)
    draw(ctx)
    began = time.monotonic()
    os.kill(host.pid, signal.SIGTERM)
    assert wait_for_end(host) == 0
    assert 1.0 <= time.monotonic() - began < 8.0
    with pytest.raises(glremote.DeviceLost, match="the host is shutting down"):
        draw(ctx)
    assert "session 1 ended: the host is shutting down" in host.said()


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(start: START, second: signal.Signals) -> None:
    host = start("--drain", "300")
    ctx = glremote.create_context(host.url, token=host.token)
    draw(ctx)
    os.kill(host.pid, signal.SIGTERM)
    eventually(lambda: get(host, "/healthz")[0] == 503)
    assert ended(host) is None
    os.kill(host.pid, second)
    assert wait_for_end(host) == 0
    with pytest.raises(glremote.DeviceLost, match="the host is shutting down"):
        draw(ctx)


def test_sigint_does_not_wait(start: START) -> None:
    host = start("--drain", "300")
    ctx = glremote.create_context(host.url, token=host.token)
    draw(ctx)
    os.kill(host.pid, signal.SIGINT)
    assert wait_for_end(host) == 0
    with pytest.raises(glremote.DeviceLost, match="the host is shutting down"):
        draw(ctx)


def test_without_sessions_there_is_nothing_to_wait_for(start: START) -> None:
    host = start("--drain", "300")
    os.kill(host.pid, signal.SIGTERM)
    assert wait_for_end(host) == 0


def test_a_broken_connection_can_come_back_meanwhile(tmp_path: Path) -> None:
    host = Host(tmp_path, drain=60.0)
    client = host()
    known = client.hello()
    host.process.send_signal(signal.SIGTERM)
    notice = client.hear()
    assert b"the host is going down: this session is ended in 60 s" in notice
    client.link.close()
    again: Client = host(known["name"])
    assert again.hello()["pid"] == known["pid"]
    again.say(b"end ")
    assert host.process.wait(30) == 0
    host.close()
