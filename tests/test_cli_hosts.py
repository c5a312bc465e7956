"""`glremote hosts`, `devices`, `ping`, and `run` without a host: as processes, with a file of hosts."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

import glremote
from glremote import cli
from glremote.cli.devices import HEAD, row
from glremote.cli.doctor import _show
from glremote.cli.options import Failure
from glremote.cli.ping import _compared
from glremote.cli.tables import show
from glremote.device import listing
from glremote.device.choosing import DeviceRecord
from glremote.doctor.finding import ok
from glremote.host.serving import LocalHost
from glremote.hosts import Host, add, read
from tests.test_cli import NOWHERE, RENDER, glremote_, one_line


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of hosts that is not there yet."""
    return tmp_path / "hosts.toml"


@pytest.fixture
def filled(file: Path, served: LocalHost) -> Path:
    """The same, with a host that answers and one that does not."""
    add(file, Host(NOWHERE, "nowhere"))
    add(file, Host(served.url, "served", served.token))
    return file


def test_hosts_are_added_listed_and_removed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret-1\n")
    where: Any = {"GLREMOTE_HOSTS": str(file)}
    added = glremote_("hosts", "add", "ws://a:1", "--name", "a", "--token-file", str(tmp_path / "token"), **where)
    assert (added.returncode, added.stdout, added.stderr) == (0, "", "a is added\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    added = glremote_("hosts", "add", "wss://b:2", "--pin", "sha256:" + 64 * "0", **where)
    assert added.stderr == "b:2 is added, without a token\n"
    added = glremote_("hosts", "add", "ws://a:1", "--name", "a", **where, GLREMOTE_TOKEN="secret-2")
    assert added.stderr == "a is replaced\n"
    added = glremote_("hosts", "add", "ws://a:1", "--name", "b", **where, GLREMOTE_TOKEN="secret-2")
    assert added.stderr == "b replaces a\n"
    glremote_("hosts", "add", "ws://a:1", "--name", "a", **where, GLREMOTE_TOKEN="secret-2")
    assert [host.token for host in read(file).hosts] == ["secret-2", None]
    listed = glremote_("hosts", "list", **where)
    assert [line.split() for line in listed.stdout.splitlines()] == [
        ["NAME", "URL", "TOKEN", "TRUST"],
        ["a", "ws://a:1", "its", "own"],
        ["b:2", "wss://b:2", "GLREMOTE_TOKEN", "sha256:" + 64 * "0"],
    ]
    assert "secret" not in listed.stdout + listed.stderr
    assert glremote_("hosts", "remove", "a", **where).stderr == "a (ws://a:1) is removed\n"
    assert "secret" not in file.read_text()
    assert "there is no host a in" in one_line(glremote_("hosts", "remove", "a", **where))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a:1"], "'a:1' is no host"),
        (["ws://a:b"], "is no host"),
        (["ws://a:1", "--name", "a b"], "'a b' is no name"),
        (["ws://a:1", "--pin", "sha256:0"], "has no certificate"),
        (["wss://a:1", "--pin", "sha256:0"], "is no pin"),
        (["wss://a:1", "--ca-file", "/nowhere"], "cannot be read"),
    ],
)
def test_what_is_not_added(file: Path, arguments: list[str], said: str) -> None:
    assert said in one_line(glremote_("hosts", "add", *arguments, GLREMOTE_HOSTS=str(file)))
    assert not file.exists()


def test_where_there_is_no_file() -> None:
    assert "GLREMOTE_HOSTS is empty" in one_line(glremote_("hosts", "list", GLREMOTE_HOSTS=""))


def test_devices_as_a_table_and_as_json(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, so that a busy machine has more than a second."""
    monkeypatch.setattr(listing, "PATIENCE", 30.0)
    monkeypatch.setenv("GLREMOTE_HOSTS", str(filled))
    monkeypatch.setattr(sys.modules["glremote.instance"], "_instance", None)
    table = CliRunner().invoke(cli.commands, ["devices"], catch_exceptions=False).stdout.splitlines()
    assert table[0].split()[0] == "HOST" and "DISTANCE" in table[0]
    assert table[1].startswith("served") and " ms" in table[1]
    assert table[-3:-1] == ["", "HOST     ERROR"]
    assert table[-1].startswith("nowhere  ") and "no host answers there" in table[-1]
    listed = json.loads(CliRunner().invoke(cli.commands, ["devices", "--json"], catch_exceptions=False).stdout)
    assert [one["host"] for one in listed[:2]] == ["nowhere", "served"]
    assert listed[0]["error"] and listed[1]["error"] is None
    assert listed[1].keys() == DeviceRecord(host="", url="").fields().keys()


def test_a_device_whose_host_takes_no_more() -> None:
    device: dict[str, Any] = {"host": "a", "url": "ws://a:1", "sessions": 3, "host_sessions": 4, "max_sessions": 4}
    room = {"max_sessions": 5}
    changes: list[dict[str, Any]] = [{}, {"draining": True}, room | {"trouble": "no worker"}, room]
    shown = [row(DeviceRecord(**device | change))[HEAD.index("STATE")] for change in changes]
    assert shown == ["its host has no room: 4 of at most 4 sessions", "its host is going down", "no worker", ""]


def test_no_device_at_all() -> None:
    """What to do is said, and no table of nothing is shown."""
    done = glremote_("devices", GLREMOTE_HOSTS="", __EGL_VENDOR_LIBRARY_FILENAMES="/nowhere")
    assert "`glremote doctor` says why" in one_line(done)


def in_a_table(text: str) -> None:
    show(("NAME",), [(text,)])


def by_the_doctor(text: str) -> None:
    _show(Console(), ok(text))


def as_a_failure(text: str) -> None:
    Failure(text.replace("\n", " ")).show()


@pytest.mark.parametrize("say", [in_a_table, by_the_doctor, as_a_failure])
def test_what_a_host_tells_is_obeyed_by_no_terminal(
    say: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    say("\x1b[31mred\x07 two\nlines\x9b2J")
    shown = "".join(capsys.readouterr())
    assert shown.count("\n") == 1 + (say is in_a_table)
    assert shown.replace("\n", "").isprintable() and "red" in shown


def test_the_versions_of_a_host_are_obeyed_by_no_terminal() -> None:
    assert _compared("\x1b[31m2", "1") == " [31m2; here 1"


def test_ping(filled: Path, served: LocalHost) -> None:
    given: list[tuple[str, Any]] = [("served", {}), (served.url, {"GLREMOTE_TOKEN": served.token})]
    for host, variables in given:
        done = glremote_("ping", host, GLREMOTE_HOSTS=str(filled), **variables)
        assert done.returncode == 0, done.stderr
        assert f"glremote   {glremote.__version__}, as here" in done.stdout
        for what in ("distance ", "up ", "down "):
            assert f"\n  {what}" in done.stdout
        assert done.stdout.count(" MB/s") == 2
        assert "\n  near " in done.stdout
    far = glremote_("ping", "served", GLREMOTE_HOSTS=str(filled), GLREMOTE_NEAR="0")  # as where its socket is not there
    assert (far.returncode, "\n  near " in far.stdout) == (0, False)
    assert "no host answers there" in one_line_behind_its_name(glremote_("ping", "nowhere", GLREMOTE_HOSTS=str(filled)))
    assert "'nobody' is no host" in one_line(glremote_("ping", "nobody", GLREMOTE_HOSTS=str(filled)))


def one_line_behind_its_name(done: object) -> str:
    """What ping says of a host that it cannot reach."""
    done.stdout = ""  # type: ignore[attr-defined]  # it has said who is asked
    return one_line(done)  # type: ignore[arg-type]


def test_run_without_a_host_is_on_one_of_the_file_s(file: Path, served: LocalHost, tmp_path: Path) -> None:
    add(file, Host(served.url, "served", served.token))
    (tmp_path / "render.py").write_text(RENDER)
    expected = ["moderngl", served.url, "ff0000ff" * 4]
    where: Any = {"GLREMOTE_HOSTS": str(file)}
    for arguments in ([], ["--host", "served"], ["--host", "served/software"]):
        done = glremote_("run", *arguments, "render.py", cwd=tmp_path, **where)
        if "software" in "".join(arguments) and "no device is as it is asked for" in done.stderr:
            continue  # a GPU
        assert json.loads(done.stdout or "null") == expected, done.stderr
    done = glremote_("run", "render.py", cwd=tmp_path, **where, GLREMOTE_HOST=NOWHERE)
    assert f"{NOWHERE}: no host answers" in one_line(done)
    done = glremote_("run", "--host", "GPU-12345678", "render.py", cwd=tmp_path, **where)
    assert "as in NAME/GPU-12345678" in one_line(done)
    done = glremote_("run", "--host", "served/99", "render.py", cwd=tmp_path, **where)
    assert "and not '99'" in done.stderr and "Traceback" not in done.stderr


def test_run_never_falls_back_to_this_machine(file: Path, tmp_path: Path) -> None:
    add(file, Host(NOWHERE, "nowhere"))
    (tmp_path / "render.py").write_text(RENDER)
    done = glremote_("run", "render.py", cwd=tmp_path, GLREMOTE_HOSTS=str(file))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines()[0] == "glremote: no device is as it is asked for:"
    assert "nowhere: ws://127.0.0.1:9: no host answers there" in done.stderr
