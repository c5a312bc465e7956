"""A folder that goes with its host: at its end or, where it was killed, when the next host of this user makes its own.

Knows: that a folder is in use while somebody holds the lock of the file in it (flock(2): the kernel takes it from
whoever has ended, however that was). Does not know: what is kept there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "glremote-run-"
IN_USE = "in-use"
"""The file; it gets its name when it is locked, so whoever finds it unlocked finds a folder of nobody's."""


@contextlib.contextmanager
def passing_folder() -> Iterator[Path]:
    """A new folder among the system's temporary ones, for as long as the block lasts."""
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name, _claimed(Path(name)):
        yield Path(name)


@contextlib.contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # then whoever is killed leaves it behind
        yield
        return
    with open(folder / f"{IN_USE}.new", "xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.rename(file.name, folder / IN_USE)
        yield


def _sweep(parent: Path) -> None:
    """Take away the folders of hosts that are no more."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        for folder in parent.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):  # another user's, in use, or none of ours
                status = folder.lstat()
                if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                    continue
                with open(folder / IN_USE, "r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
