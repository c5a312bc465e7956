"""What a token's sessions may use: its own limits stand in place of the host's, tighter or wider, for it alone."""

from __future__ import annotations

import json
import logging
import os
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import moderngl
import pytest
from click.testing import CliRunner

import glremote
from glremote import cli
from glremote.host.gateway.tokens import TokensError, TokensFile, digest
from glremote.host.limits import Limits
from glremote.host.serving import LocalHost
from glremote.protocol.errors import NotAdmitted
from tests.host.test_deadlines import slow_to_compile
from tests.host.test_gateway import eventually

MIB = 1 << 20


def create(file: Path, *arguments: str) -> str:
    """A token of `glremote token create`."""
    done = CliRunner().invoke(cli.commands, ["token", "create", "--tokens-file", str(file), *arguments])
    assert done.exit_code == 0, done.stderr
    return done.stdout.strip()


def test_they_are_kept_and_shown(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    create(file, "--name", "anna", "--limit", "memory=2G, objects=5", "--limit", "read_seconds=2,memory=3g")
    create(file, "--name", "berta")
    anna, berta = TokensFile(file).tokens()
    assert anna.limits == "memory=3g,objects=5,read-seconds=2"
    assert Limits(idle_seconds=7).changed(anna.limits) == Limits(
        memory=3 << 30, objects=5, read_seconds=2.0, idle_seconds=7.0
    )
    assert berta.limits == ""
    listed = CliRunner().invoke(cli.commands, ["token", "list", "--tokens-file", str(file)]).stdout.splitlines()
    assert listed[0].endswith("LIMITS")
    assert [row.split("  ")[-1] for row in listed[1:]] == ["memory=3g objects=5 read-seconds=2", "the host's"]


@pytest.mark.parametrize("limit", ["speed=5", "memory", "objects=1.5", "read-seconds=-1"])
def test_what_is_no_limit_is_refused(limit: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    done = CliRunner().invoke(cli.commands, ["token", "create", "--tokens-file", str(file), "--limit", limit])
    assert done.exit_code == 2
    assert "is no limit" in done.stderr or "is no value" in done.stderr
    with pytest.raises(TokensError, match=r"is no (limit|value)"):
        TokensFile(file).create("anna", limits=limit)
    assert not file.exists()


def test_a_file_of_an_older_version_is_read_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    old = {"name": "anna", "digest": digest("old"), "max_sessions": 2, "created": 1.0, "expires": None}
    file.write_text(json.dumps({"version": 1, "tokens": [old]}))
    file.chmod(0o600)
    (anna,) = TokensFile(file).tokens()
    assert (anna.name, anna.max_sessions, anna.limits) == ("anna", 2, "")
    create(file, "--name", "berta", "--limit", "objects=5")
    assert json.loads(file.read_text())["version"] == 2
    assert [(one.name, one.limits) for one in TokensFile(file).tokens()] == [("anna", ""), ("berta", "objects=5")]
    file.write_text(file.read_text().replace("objects=5", "wings=5"))
    with pytest.raises(TokensError, match="its token number 2 is not as"):
        TokensFile(file).tokens()


# --- on a real host


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of tokens."""
    return tmp_path_factory.mktemp("settings") / "tokens.json"


@pytest.fixture(scope="module")
def host(file: Path) -> Iterator[LocalHost]:
    """A host with limits of its own."""
    with LocalHost("--tokens-file", str(file), "--limit", "objects=20,buffer-seconds=50") as found:
        yield found


@pytest.fixture
def connect(host: LocalHost) -> Iterator[Callable[..., Any]]:
    """Makes contexts there."""
    made: list[moderngl.Context] = []

    def connect(token: str | None = None, near: bool = True) -> moderngl.Context:
        made.append(glremote.create_context(host.url, token=token or host.token, near=near, require=430))
        return made[-1]

    yield connect
    for ctx in made:
        ctx.release()


def objects(ctx: Any) -> str:
    """What is said where there are too many objects."""
    kept = []
    with pytest.raises(glremote.Fault) as caught:
        for _ in range(50):
            kept.append(ctx.buffer(b"four"))
            kept[-1].read()
    return str(caught.value)


def test_each_token_has_its_own(connect: Callable[..., Any], file: Path) -> None:
    anna = create(file, "--limit", "objects=5")
    berta = create(file, "--limit", "objects=30")
    for _ in range(2):  # the first is of no worker that was started for it, the second of one that was
        assert "objects is limited to 5 here, and MakeBuffer, with those that there are, asks for 6" in objects(
            connect(anna)
        )
        assert "objects is limited to 30 here" in objects(connect(berta))
        assert "objects is limited to 20 here" in objects(connect())


def test_those_of_time(connect: Callable[..., Any], file: Path) -> None:
    text = create(file, "--limit", "compile-seconds=1.5")
    with pytest.raises(glremote.DeviceLost, match=r"took longer than the 1\.5 s that compile-seconds allows here"):
        connect(text).compute_shader(slow_to_compile(16))


def test_those_of_the_gateway(
    connect: Callable[..., Any], file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "glremote")
    ctx, other = connect(create(file, "--limit", "bytes-per-second=3m"), near=False), connect(near=False)
    data = os.urandom(6 * MIB)
    assert other.buffer(data).read() == data
    assert caplog.messages == []
    ctx.buffer(data).read()
    eventually(lambda: "limits this context to 3,145,728 bytes a second" in caplog.text)


def test_sessions_are_one_of_them(connect: Callable[..., Any], file: Path) -> None:
    text = create(file, "--name", "carla", "--max-sessions", "1")
    connect(text)
    with pytest.raises(NotAdmitted, match="all 1 of the token carla are in use, which is its --max-sessions"):
        connect(text)


def test_a_worker_that_was_started_with_others_is_not_taken(connect: Callable[..., Any], file: Path) -> None:
    """Limits are not to be changed there; somebody may do it all the same."""
    text = create(file, "--name", "dora", "--limit", "objects=7")
    for most in (7, 8):
        file.write_text(file.read_text().replace("objects=7", f"objects={most}"))
        for _ in range(2):
            assert f"objects is limited to {most} here" in objects(connect(text))


def test_the_status_page_shows_them(connect: Callable[..., Any], host: LocalHost, file: Path) -> None:
    ctx = connect(create(file, "--limit", "objects=9"))
    ctx.finish()
    page = urllib.request.urlopen(host.url.replace("ws:", "http:") + "/status").read().decode()
    assert "its token&#x27;s limits: objects=9" in page
