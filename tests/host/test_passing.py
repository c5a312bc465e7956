"""A host's own folder goes with it, also where it was killed; nobody else's does."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glremote.host.passing import PREFIX, passing_folder
from glremote.host.serving import environment

HOLDER = """
import sys
from glremote.host.passing import passing_folder
with passing_folder() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What processes that are started now take for the system's."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@contextlib.contextmanager
def holder() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has such a folder until its standard input ends; and the folder."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-P", "-c", HOLDER], env=environment(), text=True, **pipes) as process:  # type: ignore[call-overload]
        yield process, Path(process.stdout.readline().strip())


def test_it_goes_at_the_end(temporary: Path) -> None:
    with passing_folder() as folder:
        assert folder.parent == temporary
        (folder / "kept").mkdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not list(temporary.iterdir())


def test_of_one_that_was_killed_the_next_takes_it_away(temporary: Path) -> None:
    with holder() as (process, killed):
        (killed / "kept").write_bytes(b"something")
        process.kill()
        process.wait()
        assert killed.exists()
    with holder() as (_, living):
        assert {*temporary.iterdir()} == {living}
        with passing_folder() as ours:
            assert {*temporary.iterdir()} == {living, ours}
    assert not list(temporary.iterdir())


def test_what_no_host_made_stays(temporary: Path) -> None:
    others = {temporary / f"{PREFIX}notes", temporary / f"{PREFIX}link", temporary / f"{PREFIX}file"}
    (temporary / f"{PREFIX}notes").mkdir()
    (temporary / f"{PREFIX}file").touch()
    with holder() as (process, killed):
        process.kill()
        process.wait()
    elsewhere = temporary / "elsewhere"
    killed.rename(elsewhere)
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)
    with passing_folder():
        pass
    assert {*temporary.iterdir()} == {*others, elsewhere}
