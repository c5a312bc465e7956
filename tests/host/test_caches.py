"""Cache folders go with their tokens, and with the runs that they were made for; those that somebody uses stay."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glremote.host.gateway import caches
from glremote.host.gateway.caches import RUN_PREFIX, Caches, for_one_run
from glremote.host.gateway.tokens import TokensFile, digest
from glremote.host.serving import LocalHost, environment
from glremote.host.walls import cache_folder, cache_name
from tests.host.test_gateway import TOKEN, Host, eventually

Opened = Callable[[], Caches]


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """Where cache folders are."""
    return tmp_path / "caches"


@pytest.fixture
def opened(parent: Path) -> Iterator[Opened]:
    """What a host that starts does."""
    made: list[Caches] = []

    def start() -> Caches:
        made.append(Caches(parent))
        made[-1].open()
        return made[-1]

    yield start
    for one in made:
        if one._lock >= 0:
            os.close(one._lock)


def ends(host: Caches) -> None:
    """What becomes of a host's lock when it ends, however it does."""
    os.close(host._lock)
    host._lock = -1


def names(parent: Path) -> set[str]:
    """What is there, but for the lock."""
    return {path.name for path in parent.iterdir()} - {caches.LOCK}


def test_folders_of_tokens_that_are_gone_are_removed(opened: Opened, parent: Path) -> None:
    host = opened()
    for owner in ("anna", "berta"):
        folder = host.take(owner)
        (folder / "deep").mkdir()
        (folder / "deep" / "code").write_bytes(b"native code")
        host.give_back(folder)
    assert host.clear(["anna", "carla"])
    assert names(parent) == {cache_name("anna")}
    assert (parent / cache_name("anna") / "deep" / "code").read_bytes() == b"native code"
    assert host.clear([])
    assert names(parent) == set()


def test_one_that_a_worker_has_stays_until_the_last_has_ended(opened: Opened, parent: Path) -> None:
    host = opened()
    folder = host.take("anna")
    assert host.take("anna") == folder
    assert not host.clear([])
    host.give_back(folder)
    assert not host.clear([])
    assert folder.is_dir()
    host.give_back(folder)
    assert host.clear([])
    assert not folder.exists()


def test_what_is_not_certainly_a_tokens_stays(opened: Opened, parent: Path, tmp_path: Path) -> None:
    host = opened()
    (outside := tmp_path / "outside").mkdir()
    (outside / "kept").touch()
    for name in ("4475c6b2fc38c33f9d053dbe7bcd8caf", "token-", "token-" + "g" * 32, "token-" + "0" * 33, "of mine"):
        (parent / name).mkdir()
    (parent / ("token-" + "1" * 32)).touch()
    (parent / ("token-" + "2" * 32)).symlink_to(outside)
    before = names(parent)
    (folder := parent / ("token-" + "3" * 32)).mkdir()
    (folder / "link").symlink_to(outside)
    assert host.clear([])
    assert names(parent) == before
    assert (outside / "kept").exists()


def test_one_of_another_user_stays(opened: Opened, parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = opened()
    cache_folder(parent, "anna")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert host.clear([])
    assert names(parent) == {cache_name("anna")}


def test_nothing_is_removed_under_another_host(opened: Opened, parent: Path) -> None:
    host, another = opened(), opened()
    cache_folder(parent, "of the other")
    for _ in range(2):  # what was tried in vain has not cost the host its own lock
        assert host.clear([])
        assert another.clear([])
        assert names(parent) == {cache_name("of the other")}
    ends(another)
    host.clear([])
    assert names(parent) == set()


def test_where_there_can_be_no_lock_nothing_is_removed(
    opened: Opened, parent: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (parent / caches.LOCK).mkdir(parents=True)
    cache_folder(parent, "anna")
    assert opened().clear([])
    assert names(parent) == {cache_name("anna")}
    assert f"the folders of tokens that are gone stay in {parent}" in caplog.text


# --- a gateway

Start = Callable[..., Host]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a gateway with stand-ins for workers."""
    hosts: list[Host] = []

    def start(**options: object) -> Host:
        hosts.append(Host(tmp_path, **options))  # type: ignore[arg-type]
        return hosts[-1]

    yield start
    for host in hosts:
        host.close()


def test_a_gateway_removes_what_is_left_as_it_starts(start: Start, parent: Path, tmp_path: Path) -> None:
    tokens = TokensFile(tmp_path / "tokens.json")
    known = {TOKEN, tokens.create("anna"), tokens.create("berta", lifetime=-1.0)}
    for token in (*known, "gone", "gone too"):
        cache_folder(parent, digest(token))
    host = start(cache=str(parent), tokens_file=str(tokens.path))
    eventually(lambda: names(parent) == {cache_name(digest(token)) for token in known})
    assert host().ask(b"word") == b"word"


def test_a_host_with_its_own_token_alone_does_too(start: Start, parent: Path) -> None:
    cache_folder(parent, digest("gone"))
    start(cache=str(parent), warm=1)
    eventually(lambda: names(parent) == {cache_name(digest(TOKEN))})


@pytest.mark.parametrize("warm", [0, 1])
def test_a_token_that_is_revoked_leaves_nothing(start: Start, parent: Path, tmp_path: Path, warm: int) -> None:
    """No folder, and no worker that has it."""
    tokens = TokensFile(tmp_path / "tokens.json")
    annas, bertas = tokens.create("anna"), tokens.create("berta")
    host = start(cache=str(parent), tokens_file=str(tokens.path), warm=warm)
    of_berta, of_anna = host(token=bertas), host(token=annas)
    assert of_berta.ask(b"word") == of_anna.ask(b"word") == b"word"
    assert names(parent) >= {cache_name(digest(annas)), cache_name(digest(bertas))}
    tokens.revoke("anna")
    assert of_anna.lost() == "its token, anna, was revoked"
    eventually(lambda: cache_name(digest(annas)) not in names(parent))
    assert of_berta.ask(b"word") == b"word"
    assert cache_name(digest(bertas)) in names(parent)
    of_berta.link.close()


def test_tokens_that_cannot_be_read_cost_no_folder(start: Start, parent: Path, tmp_path: Path) -> None:
    tokens = TokensFile(tmp_path / "tokens.json")
    annas = tokens.create("anna")
    host = start(cache=str(parent), tokens_file=str(tokens.path))
    assert host(token=annas).ask(b"word") == b"word"
    tokens.path.write_text("{")
    eventually(lambda: "cannot be read" in host.errors())
    assert cache_name(digest(annas)) in names(parent)


# --- for one run


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made, here and by what is started."""
    (folder := tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


RUN = """
import time
from glremote.host.gateway.caches import for_one_run
with for_one_run() as folder:
    (folder / "token-1").mkdir()
    print(folder, flush=True)
    time.sleep(600)
"""


def test_a_run_leaves_nothing(temporary: Path) -> None:
    with for_one_run() as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        cache_folder(folder, "anna")
    assert list(temporary.iterdir()) == []


def test_a_run_that_was_killed_is_cleaned_up_after(temporary: Path) -> None:
    process = subprocess.Popen([sys.executable, "-P", "-c", RUN], stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    with process.stdout:
        killed = Path(process.stdout.readline().strip())
        with for_one_run() as folder:
            assert killed.is_dir()
            assert folder != killed
        process.kill()
        process.wait()
    assert (killed / "token-1").is_dir()
    with for_one_run() as folder:
        assert list(temporary.iterdir()) == [folder]


def test_only_what_is_ours_is_cleaned_up(temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (outside := tmp_path / "outside").mkdir()
    (temporary / f"{RUN_PREFIX}link").symlink_to(outside)
    (temporary / f"{RUN_PREFIX}file").touch()
    (temporary / "glremote-other").mkdir()
    with for_one_run():
        pass
    assert len(list(temporary.iterdir())) == 3
    assert outside.is_dir()
    (temporary / f"{RUN_PREFIX}another's").mkdir()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with for_one_run():
        pass
    assert len(list(temporary.iterdir())) == 4


@pytest.mark.parametrize("moment", ["before it is opened", "before it is locked"])
def test_a_folder_that_another_host_took_for_one_that_was_left(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    make, lock, made = tempfile.mkdtemp, fcntl.flock, []

    def mkdtemp(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1 and moment == "before it is opened":
            shutil.rmtree(made[0])
        return made[-1]

    def flock(descriptor: int, how: int) -> None:
        shutil.rmtree(made[0], ignore_errors=True)
        lock(descriptor, how)

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    monkeypatch.setattr(fcntl, "flock", flock)
    with for_one_run() as folder:
        assert [str(folder)] == made[1:]
        assert folder.is_dir()


def test_a_host_that_was_killed_is_cleaned_up_after(temporary: Path) -> None:
    with LocalHost("--warm", "0") as host:
        (left,) = temporary.glob(f"{RUN_PREFIX}*")
        assert host._process is not None
        host._process.kill()
        host._process.wait()
    assert left.is_dir()
    with LocalHost("--warm", "0"):
        (now,) = temporary.glob(f"{RUN_PREFIX}*")
        assert now != left
    assert list(temporary.glob(f"{RUN_PREFIX}*")) == []
