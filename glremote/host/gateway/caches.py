"""Cache folders, from the gateway: a token's is removed when the token is gone, and a run's when the run is over.

Knows: which folders are in use, by this host or another of this user's, and which are certainly ours. Does not know:
what is in them (drivers write it), or of tokens more than their digests.

Locks (flock(2)) say who uses what, since those of a process that was killed are gone with it. A folder for one run is
locked itself; systemd-tmpfiles leaves such a one alone too. In one that stays there is a file to be locked, which holds
across machines where the folder is on NFS.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from glremote.host.walls import CACHE_NAME, cache_folder, cache_name

log = logging.getLogger("glremote.host")

RUN_PREFIX = "glremote-drivers-"
"""Of a folder for one run, among the system's temporary ones."""
LOCK = "glremote.lock"


class Caches:
    """The tokens' folders below one folder."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._in_use: Counter[str] = Counter()  # names of folders that workers have
        self._lock = -1

    def open(self) -> None:
        """Say that the parent is in use; waits while another host removes what is in it."""
        try:
            self._parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self._parent / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_SH)
        except OSError as error:
            log.warning("the folders of tokens that are gone stay in %s: %s", self._parent, error.strerror)

    def take(self, owner: str) -> Path:
        """The folder of a token, by digest, for a worker. Raises OSError."""
        folder = cache_folder(self._parent, owner)
        self._in_use[folder.name] += 1
        return folder

    def give_back(self, folder: Path) -> None:
        """A worker that had it has ended."""
        self._in_use[folder.name] -= 1

    def clear(self, owners: Collection[str]) -> bool:
        """Remove the folders of all tokens but these. False where it is to be tried again: a worker lives in one.

        Where another host uses the parent too nothing is removed, since its tokens may be others.
        """
        kept = set(map(cache_name, owners))
        gone = [path for path in _those_of_tokens(self._parent) if path.name not in kept]
        idle = [path for path in gone if not self._in_use[path.name]]
        if idle:
            with contextlib.suppress(OSError, ValueError):  # another host has the lock, or we have none
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for path in idle:
                    shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError, ValueError):
                fcntl.flock(self._lock, fcntl.LOCK_SH)  # what was tried has let go of it
        return len(idle) == len(gone)


def _those_of_tokens(parent: Path) -> list[Path]:
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        return [
            Path(entry.path)
            for entry in entries
            if CACHE_NAME.fullmatch(entry.name)
            and entry.is_dir(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
        ]
    return []


# --- for one run


@contextlib.contextmanager
def for_one_run() -> Iterator[Path]:
    """A parent of cache folders that goes with the run. Those of runs that were killed go first."""
    for left in Path(tempfile.gettempdir()).glob(RUN_PREFIX + "*"):
        _remove_unless_used(left)
    folder, lock = _locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    """One that is new. Another host can take it for one that was left, until it is locked; then there is a next."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=RUN_PREFIX))
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                with contextlib.suppress(OSError):  # where nothing can be locked nothing is removed either
                    fcntl.flock(lock, fcntl.LOCK_EX)
                os.stat(folder)  # it may be gone
                return folder, lock
            except BaseException:
                os.close(lock)
                raise


def _remove_unless_used(folder: Path) -> None:
    """Remove a folder of this user's, unless its lock is held; links are not followed."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass
    finally:
        os.close(lock)
