"""A certificate that is renewed while a host serves: the next client sees it, and nobody is disturbed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

import glremote
from glremote.host.serving import LocalHost
from tests.host.test_strangers import Certificate

DEADLINE = 30.0


def test_a_renewed_certificate_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    old, new = Certificate(first, "127.0.0.1"), Certificate(second, "127.0.0.1")
    before, after = old.pin, new.pin
    monkeypatch.setenv("GLREMOTE_NEAR", "0")
    with LocalHost("--tls-cert", old.files[0], "--tls-key", old.files[1]) as host:
        stays = glremote.create_context(host.url, token=host.token, pin=before)
        shutil.copy(new.cert, old.cert)  # without its key: nothing is changed yet
        wait_for(host, "the one before is used still: ")
        glremote.create_context(host.url, token=host.token, pin=before).release()
        shutil.copy(new.key, old.key)
        wait_for(host, f"is used from now on: its pin is {after}")
        glremote.create_context(host.url, token=host.token, pin=after).release()
        with pytest.raises(glremote.HostUnreachable, match="somebody stands between"):
            glremote.create_context(host.url, token=host.token, pin=before)
        assert stays.buffer(b"here").read() == b"here"
        stays.release()


def wait_for(host: LocalHost, text: str) -> None:
    """Until the host has logged it."""
    deadline = time.monotonic() + DEADLINE
    while text not in host.said():
        assert time.monotonic() < deadline, host.said()
        time.sleep(0.05)
