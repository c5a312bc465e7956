"""What hosts told of programs, kept in this process and on disk: so the second run of a script waits for no program.

Knows: what decides what a program has, and how several processes share a folder. Does not know: what a reflection says,
or that it holds; the host checks that (CheckReflection), and `forget` is called where it does not.

On disk it is one small file a program, written beside its place and moved there: 32 bytes of checksum, then the answer
of ReflectProgram as the host gave it. A file that is anything else counts as unknown, and is written again. A folder
that cannot be read or written is no error: what is known then ends with the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from glremote.device.remote import RemoteDevice
from glremote.protocol import reflection as r
from glremote.protocol.errors import ProtocolError
from glremote.protocol.messages import VERSION, value

VARIABLE = "GLREMOTE_CACHE"
"""The environment's: another folder, or 0 for none."""
DRIVER = ("GL_VENDOR", "GL_RENDERER", "GL_VERSION")
"""What tells one driver from another, in its info."""
MOST_SEEN = 1024
"""Programs that are kept in the process."""
MOST_FILES = 4096
MOST_BYTES = 16 << 20
"""Of all files; the one that was used longest ago goes first."""
LARGEST = 1 << 20
"""Bytes of a reflection that is kept on disk."""
BETWEEN = 64
"""Files that a process writes until it looks again whether there are too many; it does at its first."""


class Known(NamedTuple):
    """A reflection, and the hash of what the host said."""

    reflection: r.Reflection
    hash: bytes


SEEN: dict[str, Known] = {}
"""What this process knows, by key; of all its contexts."""
_written = itertools.count()


def key(device: RemoteDevice, program: Any) -> str:
    """Of a program, by all that decides what it has: begins with what is common to all programs of the driver."""
    driver = _driver(device)
    return f"{_prefix(driver)}{_digest((driver, program))}"


def _driver(device: RemoteDevice) -> tuple[Any, ...]:
    """A host and its driver, and who reads off what it has."""
    info, greeting = device.driver.info, device.greeting
    names = (info[name] for name in DRIVER)
    return device.host, *names, device.driver.version_code, greeting.software, greeting.moderngl, VERSION


def _prefix(driver: tuple[Any, ...]) -> str:
    return f"{_digest(driver)[:16]}-"


def _digest(facts: Any) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def find(key: str) -> Known | None:
    """What is known of a program."""
    found = SEEN.get(key)
    if found is None and (data := _read(key)) is not None:
        with contextlib.suppress(ProtocolError):  # another version of glremote wrote it
            found = _see(key, data)
    return found


def keep(key: str, data: bytes) -> Known:
    """Keep what the host has answered. ProtocolError where that is no reflection."""
    found = _see(key, data)
    _write(key, data)
    return found


def forget(device: RemoteDevice) -> None:
    """Something did not hold: forget all that is known of the driver, or each of a script's programs would fault."""
    prefix = _prefix(_driver(device))
    for key in [*SEEN]:
        if key.startswith(prefix):
            SEEN.pop(key, None)
    if (place := folder()) is not None:
        with contextlib.suppress(OSError):
            for path in place.glob(f"{prefix}*"):
                path.unlink(missing_ok=True)


def _see(key: str, data: bytes) -> Known:
    found = Known(value(data, r.Reflection), r.fingerprint(data))
    if len(SEEN) >= MOST_SEEN:
        SEEN.pop(next(iter(SEEN)), None)
    SEEN[key] = found
    return found


# --- on disk


def folder() -> Path | None:
    """Where the files are, or None to have none."""
    named = os.environ.get(VARIABLE, "")
    if named == "0":
        return None
    if named in ("", "1"):
        import platformdirs

        named = platformdirs.user_cache_dir("glremote", appauthor=False)
        if not os.path.isabs(named):  # a user without a home
            return None
    return Path(named).absolute() / "reflections"


def _checksum(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + data).digest()


def _read(key: str) -> bytes | None:
    """The bytes that were written for this key; None where there are none, or others."""
    if (place := folder()) is None:
        return None
    path = place / key
    try:
        with open(path, "rb") as file:
            checksum, data = file.read(32), file.read(LARGEST)
    except OSError:
        return None
    if checksum != _checksum(key, data):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # it is in use
    return data


def _write(key: str, data: bytes) -> None:
    """For the user alone, and never half: another process finds the whole file or none."""
    if (place := folder()) is None or len(data) > LARGEST:
        return
    with contextlib.suppress(OSError):
        for each in (place.parent, place):
            each.mkdir(0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=place)
        try:
            with open(descriptor, "wb") as file:
                file.write(_checksum(key, data) + data)
            os.replace(name, place / key)
        except BaseException:
            os.unlink(name)
            raise
        if next(_written) % BETWEEN == 0:
            _make_room(place)


def _make_room(place: Path) -> None:
    """Remove what was used longest ago, while there is too much; another process may be doing the same."""
    found = []
    with os.scandir(place) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime_ns, status.st_size, entry.path))
    found.sort()
    count, size = len(found), sum(each[1] for each in found)
    for _, bytes_, path in found:
        if count <= MOST_FILES and size <= MOST_BYTES:
            return
        count, size = count - 1, size - bytes_
        with contextlib.suppress(OSError):
            os.unlink(path)
