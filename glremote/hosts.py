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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .link.reaching import parsed
from .link.tls import Trust
from .protocol.errors import HostsFileError, LinkError

VARIABLE = "GLREMOTE_HOSTS"
"""The environment variable that names the file; where it is set and empty there is none."""
TOKEN_VARIABLE = "GLREMOTE_TOKEN"
PORT = 8765
"""At which `glremote serve` listens unless told otherwise."""
LOCAL = "local"
"""This machine, where a host's name may stand."""
FIELDS = ("name", "url", "token", "ca", "pin")
ORDERS = ("last", "first")
HEAD = "glremote's hosts, which `glremote hosts` changes too: README.md"


class NoHost(ValueError):
    """A text that names no host, and what was meant by it perhaps: the name of one that is known, or addresses."""

    def __init__(self, text: str, known: Sequence[str] | None = None) -> None:
        self.meant = _meant(text, known or ())
        give = "give ws://HOST:PORT or wss://HOST:PORT"
        if known is not None:
            listed = ", ".join(known) or "there is none"
            give = f'give ws://HOST:PORT, wss://HOST:PORT, "local" or the name of a host that is associated ({listed})'
            give += ', or of a device as in "local/0"'
        perhaps = f"; is {' or '.join(self.meant)} meant?" if self.meant else ""
        text = re.sub(r"[^/]*@", "...@", text)  # a user and a password
        super().__init__(f"{text!r} is no host: {give}{perhaps}")


def _meant(text: str, known: Sequence[str]) -> tuple[str, ...]:
    import difflib

    names = {name.lower(): name for name in known}
    if near := difflib.get_close_matches(text.partition("/")[0].lower(), names, 1, 0.7):
        return (names[near[0]],)
    found = re.fullmatch(r"(?:(wss?|https?):/*)?([\w.-]+|\[[\da-f:.]+\])(:\d+)?(/[^\s@]*)?", text, re.IGNORECASE)
    if found is None:
        return ()
    scheme, host, port, path = (part or "" for part in found.groups())
    if scheme:
        return (f"{'wss' if scheme.lower() in ('wss', 'https') else 'ws'}://{host}{port}{path}",)
    return tuple(f"{scheme}://{host}{port or f':{PORT}'}{path}" for scheme in ("wss", "ws"))


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
            raise NoHost(str(self.url))
        uri = parsed(self.url)
        object.__setattr__(self, "url", self.url.rstrip("/"))
        place = f"[{uri.host}]:{uri.port}" if ":" in uri.host else f"{uri.host}:{uri.port}"
        if self.name in ("", place):
            object.__setattr__(self, "name", place)
        elif not re.fullmatch(r"[^\s/:-][^\s/:]{0,63}", self.name) or not self.name.isprintable() or self.name == LOCAL:
            how = f"without spaces, / and :, not with - first, and not {LOCAL!r}"
            raise ValueError(f"{self.name!r} is no name for a host: {how}")
        if self.ca is not None:
            object.__setattr__(self, "ca", os.path.abspath(self.ca))

    @property
    def trust(self) -> Trust | None:
        """What its certificate is held against; None for ws://. Raises ValueError."""
        kept = self.__dict__  # cached_property has a lock in Python 3.11: of all hosts, and a fork may inherit it held
        if "kept_trust" not in kept:
            kept["kept_trust"] = Trust.chosen(self.url, self.ca, self.pin)
        trust: Trust | None = kept["kept_trust"]
        return trust

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "kept_trust"}  # no process takes that

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
        return Path(os.path.expanduser(named)) if named else None
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
    text, mode = ("", 0) if path is None else _text(path)
    if not text:
        return Settings()
    import tomllib

    assert path is not None
    try:
        settings = _settings(tomllib.loads(text), path.parent)
    except ValueError as error:
        raise HostsFileError(f"the hosts in {path} cannot be read: {error}") from None
    if os.name == "posix" and mode & 0o044 and any(host.token is not None for host in settings.hosts):
        raise HostsFileError(f"{path} holds a token and can be read by others than its user: chmod 600 {path}")
    return settings


def _text(path: Path) -> tuple[str, int]:
    """What is in the file, and its mode. Raises HostsFileError."""
    try:
        with path.open("rb") as file:
            text, mode = file.read().decode("utf-8-sig"), os.fstat(file.fileno()).st_mode  # Windows' editors sign it
    except (FileNotFoundError, NotADirectoryError):
        return "", 0
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, PermissionError) and not os.path.lexists(path):
            return "", 0  # the folder is another user's, as where a service has its HOME from whoever began it
        raise HostsFileError(f"the hosts in {path} cannot be read: {error}") from None
    if os.name == "posix" and mode & 0o022:
        raise HostsFileError(f"{path} can be written by others than its user: chmod 600 {path}")
    return text, mode


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
    if empty := [name for name in ("ca", "pin") if row.get(name) == ""]:
        raise ValueError(f"{', '.join(empty)} is empty")
    if "ca" in row:
        row = row | {"ca": str(folder / row["ca"])}
    host = Host(**row)
    host.check_token()
    return host


def add(path: Path, host: Host) -> Host | None:
    """Keep a host in the file, in the place of the one with its URL, if there is one, which is given back.

    Raises HostsFileError.
    """
    with _changing(path) as document:
        known = read(path).hosts
        try:
            with_host(known, host)
        except ValueError as error:
            raise HostsFileError(f"{path}: {error}") from None
        place = next((number for number, other in enumerate(known) if other.url == host.url), None)
        _put(document, place, {name: getattr(host, name) for name in FIELDS})
        return None if place is None else known[place]


def remove(path: Path, name: str) -> Host:
    """Forget the host of this name or URL. Raises HostsFileError."""
    with _changing(path) as document:
        for number, host in enumerate(read(path).hosts):
            if host.answers_to(name):
                _take_out(document, number)
                return host
        raise HostsFileError(f"there is no host {name} in {path}; `glremote hosts list` shows them")


# --- changing tomlkit's document; what a person wrote between two hosts is to it the end of the first


def _put(document: Any, place: int | None, fields: dict[str, str | None]) -> None:
    """Into the row at a place; None: into one more, behind all."""
    import tomlkit

    if not document and HEAD not in document.as_string():
        document.add(tomlkit.comment(HEAD))
        document.add(tomlkit.nl())
    rows = _rows(document)
    if place is None:
        if rows and not rows[-1].as_string().endswith("\n\n"):
            rows[-1].add(tomlkit.nl())
        rows.append(tomlkit.table())
    row = rows[-1 if place is None else place]
    behind = _behind(row)
    for name, value in fields.items():
        if value is None:
            row.pop(name, None)
        else:
            row[name] = value
    row.value.body.extend(behind)


def _take_out(document: Any, place: int) -> None:
    rows = _rows(document)
    behind = _behind(rows[place])
    text = "".join(item.as_string() for _, item in behind)
    if place + 1 < len(rows):
        rows[place + 1].trivia.indent = text.lstrip("\n") + rows[place + 1].trivia.indent
    else:
        (rows[place - 1].value if place else document).body.extend(behind)
    del rows[place]
    if not rows:
        del document["host"]  # or it would say host = []


def _rows(document: Any) -> Any:
    """The tables of the hosts, also where somebody wrote them in one line."""
    import tomlkit

    rows = document.get("host", [])
    if not isinstance(rows, tomlkit.items.AoT):
        tables = tomlkit.aot()
        for fields in rows:
            tables.append(tomlkit.item(dict(fields)))
        document.pop("host", None)
        document.add("host", tables)
    return document["host"]


def _behind(row: Any) -> list[Any]:
    """Take from a table what is behind its last field."""
    body: list[Any] = row.value.body
    taken: list[Any] = []
    while body and body[-1][0] is None:
        taken.insert(0, body.pop())
    return taken


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[Any]:
    """The file as tomlkit's document, comments and all; it is replaced at the end, unless it raises."""
    import tomlkit

    try:
        path = Path(os.path.realpath(path))  # a link to it stays one
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(path.with_name(path.name + ".lock")):
            read(path)
            text, _ = _text(path)
            document = tomlkit.parse(text if text.endswith("\n") or not text else text + "\n")
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
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(new, flags, 0o600), "w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
