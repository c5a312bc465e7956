"""Hosts that a program knows without being told: the record of one, and the file that keeps them.

Knows: the file (TOML, replaced whole, its user's alone where it holds a token). Does not know: whether a host answers.

    local = "last"                    # or "first": this machine's GPU before any host's

    [[host]]
    name = "gpu-1"
    url = "wss://gpu-1.example:8765"
    token = "..."
    pin = "sha256:..."                # or ca = "FILE", beside this file or with its whole path
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from .link.reaching import parsed
from .link.tls import Trust
from .protocol.errors import HostsFileError, LinkError

VARIABLE = "GLREMOTE_HOSTS"
"""The environment variable that names the file; where it is set and empty there is none."""
TOKEN_VARIABLE = "GLREMOTE_TOKEN"
LOCAL = "local"
"""This machine, where a host's name may stand."""
FIELDS = ("name", "url", "token", "ca", "pin")
ORDERS = ("last", "first")
HEAD = "glremote's hosts, which `glremote hosts` changes too: README.md"


@dataclass(frozen=True)
class Host:
    """A host, and how it is reached. Raises ValueError, or HostUnreachable, for what is none."""

    url: str
    name: str = ""
    """What it is called here; without one HOST:PORT."""
    token: str | None = field(default=None, repr=False)
    ca: str | None = None
    """A file of authorities (PEM) that vouch for it; see link/tls.py."""
    pin: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not self.url.startswith(("ws://", "wss://")):
            raise ValueError(f"{self.url!r} is no host: give ws://HOST:PORT or wss://HOST:PORT")
        uri = parsed(self.url)
        object.__setattr__(self, "url", self.url.rstrip("/"))
        place = f"[{uri.host}]:{uri.port}" if ":" in uri.host else f"{uri.host}:{uri.port}"
        if self.name in ("", place):
            object.__setattr__(self, "name", place)
        elif not re.fullmatch(r"[^\s/:]{1,64}", self.name) or not self.name.isprintable() or self.name == LOCAL:
            raise ValueError(f"{self.name!r} is no name for a host: without spaces, / and :, and not {LOCAL!r}")
        if self.ca is not None:
            object.__setattr__(self, "ca", os.path.abspath(self.ca))

    @cached_property
    def trust(self) -> Trust | None:
        """What its certificate is held against; None for ws://. Raises ValueError."""
        return Trust.chosen(self.url, self.ca, self.pin)

    @property
    def current_token(self) -> str | None:
        """Its own, else the environment's."""
        return self.token if self.token is not None else os.environ.get(TOKEN_VARIABLE)

    def check_token(self) -> None:
        """Raises ValueError for what can be no token."""
        if self.token is not None and not re.fullmatch("[!-~]+", self.token):
            raise ValueError(f"the token of {self.name} is none: letters, digits and signs in one line, without spaces")

    def answers_to(self, name: str) -> bool:
        """Whether it is called so: by its name or its URL."""
        return name == self.name or name.rstrip("/") == self.url


@dataclass(frozen=True)
class Settings:
    """All that is in the file."""

    hosts: tuple[Host, ...] = ()
    local: Literal["last", "first"] = "last"
    """Where this machine's GPU stands among those of hosts; its software renderer is always last."""


def default_file() -> Path | None:
    """The file, where none is named: GLREMOTE_HOSTS's, else one in the user's folder for settings."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    import platformdirs

    return platformdirs.user_config_path("glremote", appauthor=False) / "hosts.toml"


def with_host(hosts: tuple[Host, ...], host: Host) -> tuple[Host, ...]:
    """These and one more, in the place of the one with its URL. Raises ValueError where another has its name."""
    for other in hosts:
        if other.name == host.name and other.url != host.url:
            raise ValueError(f"{host.name} is {other.url} already; remove it, or take another name")
    if any(other.url == host.url for other in hosts):
        return tuple(host if other.url == host.url else other for other in hosts)
    return (*hosts, host)


def read(path: Path | None) -> Settings:
    """What the file says; one that is not there says nothing. Raises HostsFileError."""
    text = "" if path is None else _text(path)
    if not text:
        return Settings()
    import tomllib

    assert path is not None
    try:
        return _settings(tomllib.loads(text), path.parent)
    except ValueError as error:
        raise HostsFileError(f"the hosts in {path} cannot be read: {error}") from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text, mode = file.read().decode(), os.fstat(file.fileno()).st_mode
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise HostsFileError(f"the hosts in {path} cannot be read: {error}") from None
    if os.name == "posix":
        if mode & 0o022:
            raise HostsFileError(f"{path} can be written by others than its user: chmod 600 {path}")
        if mode & 0o044 and re.search(r"^\s*\"?'?token", text, re.MULTILINE):
            raise HostsFileError(f"{path} holds a token and can be read by others than its user: chmod 600 {path}")
    return text


def _settings(given: dict[str, Any], folder: Path) -> Settings:
    """Raises ValueError."""
    local, rows = given.pop("local", "last"), given.pop("host", [])
    if given:
        raise ValueError(f"{', '.join(map(repr, sorted(given)))} says nothing there: it has local and [[host]]")
    if local not in ORDERS:
        raise ValueError(f'local is "last" or "first", and not {local!r}')
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("a host begins with a line [[host]]")
    hosts: tuple[Host, ...] = ()
    for number, row in enumerate(rows, 1):
        try:
            host = _host(row, folder)
            if any(other.url == host.url for other in hosts):
                raise ValueError(f"{host.url} is there twice")
            hosts = with_host(hosts, host)
        except (ValueError, LinkError) as error:
            raise ValueError(f"[[host]] number {number}: {error}") from None
    return Settings(hosts, local)


def _host(row: dict[str, Any], folder: Path) -> Host:
    if strange := sorted(row.keys() - set(FIELDS)):
        raise ValueError(f"{', '.join(map(repr, strange))} says nothing there: a host has {', '.join(FIELDS)}")
    if wrong := [name for name, value in row.items() if not isinstance(value, str)]:
        raise ValueError(f"{', '.join(wrong)} is a text in quotes")
    if "url" not in row:
        raise ValueError("it has no url")
    if ca := row.get("ca"):
        row = row | {"ca": str(folder / ca)}
    host = Host(**row)
    host.check_token()
    return host


def add(path: Path, host: Host) -> Host | None:
    """Keep a host in the file, in the place of the one with its URL, if there is one, which is given back.

    Raises HostsFileError.
    """
    import tomlkit

    with _changing(path) as document:
        known = read(path).hosts
        try:
            with_host(known, host)
        except ValueError as error:
            raise HostsFileError(f"{path}: {error}") from None
        if HEAD not in document.as_string() and not document:
            document.add(tomlkit.comment(HEAD))
            document.add(tomlkit.nl())
        row = tomlkit.table()
        row.update({name: value for name in FIELDS if (value := getattr(host, name)) is not None})
        rows = _rows(document)
        for number, other in enumerate(known):
            if other.url == host.url:
                rows[number] = row
                return other
        rows.append(row)
        return None


def remove(path: Path, name: str) -> Host:
    """Forget the host of this name or URL. Raises HostsFileError."""
    with _changing(path) as document:
        for number, host in enumerate(read(path).hosts):
            if host.answers_to(name):
                rows = _rows(document)
                del rows[number]
                if not rows:  # which TOML could only say in another way
                    del document["host"]
                return host
        raise HostsFileError(f"there is no host {name} in {path}; `glremote hosts list` shows them")


def _rows(document: Any) -> Any:
    """The hosts of a document, each a table below its [[host]]; in one line, `host = [...]`, none could be added."""
    import tomlkit
    from tomlkit.items import AoT

    rows = document.get("host")
    if not isinstance(rows, AoT):
        tables = tomlkit.aot()
        for row in rows or ():
            table = tomlkit.table()
            table.update(row.unwrap())
            tables.append(table)
        document.pop("host", None)
        document["host"] = tables  # behind what belongs to no host
    return document["host"]


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[Any]:
    """The file as tomlkit's document, comments and all; it is replaced at the end, unless it raises."""
    import tomlkit

    try:
        path = path.resolve()  # a link to it stays one
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(path.with_name(path.name + ".lock")):
            read(path)
            text = _text(path)
            document = tomlkit.parse(text + "\n" * (text[-1:] not in ("", "\n")))  # or its last goes on
            yield document
            _replace(path, tomlkit.dumps(document))
    except OSError as error:
        raise HostsFileError(f"the hosts in {path} cannot be written: {error}") from None


@contextlib.contextmanager
def _alone(beside: Path) -> Iterator[None]:
    """One process at a time, where the system has such locks."""
    lock = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _replace(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")  # ours alone: we hold the lock
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
