"""Tokens: who may come in, with how many sessions and what limits, until when; kept hashed in one file of the user's.

Knows: the file (JSON, mode 0600, replaced whole), hashes, and how often an address may be wrong. Does not know:
websockets or sessions.

A token that is made here is 192 random bits, so what is kept of it is one SHA-256 without salt. Salts and slow hashes
protect secrets that can be guessed one after the other, as passwords can; nobody tries 2**192 numbers, however fast
each try is. And a slow hash would let whoever is not admitted yet keep the host busy.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import platformdirs

from glremote.host import limits as of_sessions

VARIABLE = "GLREMOTE_TOKENS"
"""The environment variable that names the file; where it is set and empty there is none."""
TOKEN_BYTES = 24
"""Random bytes of a token."""
ID_LENGTH = 8
"""Digits of a token's hash that name it in a list."""
LONGEST_NAME = 64
VERSION = 2
"""Of the file's form, as it is written."""
VERSIONS = (1, VERSION)
"""That are read; of the first no token had limits."""
WRONG_TOKENS = 10
"""So many wrong tokens in a row an address is answered at once ..."""
WRONG_TOKEN_INTERVAL = 3.0
"""... and then one in so many seconds."""
MOST_ADDRESSES = 4096
"""Of so many addresses it is known how often they were wrong; then the oldest is forgotten."""


class TokensError(Exception):
    """The file of tokens cannot be used, or what was asked of it cannot be done; the text says why."""


@dataclass(frozen=True)
class Token:
    """What is kept of a token. Times are seconds since 1970."""

    name: str
    digest: str
    """SHA-256, in hexadecimal digits."""
    max_sessions: int | None = None
    """How many sessions it may have at a time; None: as many as the host has."""
    created: float = 0.0
    expires: float | None = None
    limits: str = ""
    """What each of its sessions may use, where it is not what the host says (limits.read)."""

    @property
    def id(self) -> str:
        """The beginning of its hash."""
        return self.digest[:ID_LENGTH]

    def has_expired(self) -> bool:
        """Whether its time is over."""
        return self.expires is not None and time.time() >= self.expires


def digest(token: str) -> str:
    """What is kept of a token, and compared."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


def find(token: str, among: Iterable[Token]) -> Token | None:
    """The one that this is, expired or not; it takes as long whichever it is, and whether or not it is any."""
    given, found = digest(token), None
    for known in among:
        if hmac.compare_digest(given, known.digest):
            found = known
    return found


def default_file() -> Path | None:
    """The file, where none is named: GLREMOTE_TOKENS's, else one in the user's folder for settings."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    return platformdirs.user_config_path("glremote", appauthor=False) / "tokens.json"


class TokensFile:
    """The file at a path, which need not be there: then it holds no token. Everything raises TokensError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, ...] | None = None
        self._tokens: tuple[Token, ...] = ()

    def tokens(self) -> tuple[Token, ...]:
        """The tokens as they are now; the file is read again only where it was replaced or written."""
        try:
            state = self.path.stat()
            seen = (state.st_mtime_ns, state.st_ino, state.st_size, state.st_mode)
            if seen != self._seen:
                if state.st_mode & 0o022:
                    raise TokensError(f"{self.path} can be written by others than its user: chmod 600 {self.path}")
                self._tokens, self._seen = _parsed(self.path.read_bytes()), seen
        except FileNotFoundError:
            self._tokens, self._seen = (), None
        except (OSError, ValueError) as error:
            raise TokensError(f"the tokens in {self.path} cannot be read: {error}") from None
        return self._tokens

    def create(
        self,
        name: str | None = None,
        max_sessions: int | None = None,
        lifetime: float | None = None,
        limits: str = "",
    ) -> str:
        """Make a token, which nobody is ever told again. `lifetime` is in seconds."""
        try:
            limits = of_sessions.tidy(limits)
        except ValueError as error:
            raise TokensError(str(error)) from None
        text = secrets.token_urlsafe(TOKEN_BYTES)
        now = time.time()
        made = Token("", digest(text), max_sessions, now, None if lifetime is None else now + lifetime, limits)
        made = replace(made, name=made.id if name is None else name)
        _check_name(made.name)
        with self._changing() as tokens:
            if any(made.name in (other.name, other.id) for other in tokens):
                raise TokensError(f"a token {made.name} is in {self.path} already; revoke it, or take another name")
            tokens.append(made)
        return text

    def revoke(self, name: str) -> Token:
        """Forget the token of this name or id."""
        with self._changing() as tokens:
            for token in tokens:
                if name in (token.name, token.id):
                    tokens.remove(token)
                    return token
            raise TokensError(f"there is no token {name} in {self.path}; `glremote token list` shows them")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """The tokens, to be changed; the file is replaced at the end, unless it raises. One process at a time."""
        import fcntl

        beside = self.path.with_name(self.path.name + ".lock")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise TokensError(f"the tokens in {self.path} cannot be written: {error}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = list(self.tokens())
            yield tokens
            self._write(tokens)
        finally:
            os.close(lock)

    def _write(self, tokens: list[Token]) -> None:
        content = json.dumps({"version": VERSION, "tokens": [asdict(token) for token in tokens]}, indent=1) + "\n"
        new = self.path.with_name(self.path.name + ".new")  # ours alone: we hold the lock
        try:
            new.unlink(missing_ok=True)
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.path)
        except OSError as error:
            raise TokensError(f"the tokens in {self.path} cannot be written: {error}") from None


def _check_name(name: str) -> None:
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or " " in name:
        raise TokensError(f"{name!r} is no name for a token: 1 to {LONGEST_NAME} characters, without spaces")


def _parsed(content: bytes) -> tuple[Token, ...]:
    """Raises ValueError."""
    given = json.loads(content)
    known = isinstance(given, dict) and given.get("version") in VERSIONS
    if not known or not isinstance(given.get("tokens"), list):
        raise ValueError(f"it is no file of tokens of version {VERSION}")
    return tuple(_token(number, row) for number, row in enumerate(given["tokens"], 1))


def _token(number: int, row: Any) -> Token:
    try:
        token = Token(**row)
        int(token.digest, 16)
        numbers = (token.max_sessions, token.created, token.expires)
        right = isinstance(token.name, str) and len(token.digest) == len(digest(""))
        of_sessions.read(token.limits)
        right = right and all(n is None or (isinstance(n, int | float) and not isinstance(n, bool)) for n in numbers)
    except (AttributeError, TypeError, ValueError):
        right = False
    if not right:
        raise ValueError(f"its token number {number} is not as `glremote token create` writes it")
    return token


class Guesses:
    """How often addresses were wrong. Each has a store of wrong tokens, which fills up again with time."""

    def __init__(self) -> None:
        self._spent: dict[str, tuple[float, float]] = {}  # how many, and when it was so

    def wait(self, address: str) -> float:
        """Seconds until a token from this address is looked at again; 0: now."""
        return max(0.0, self._left_of(address) - WRONG_TOKENS + 1) * WRONG_TOKEN_INTERVAL

    def wrong(self, address: str) -> None:
        """A token from this address was wrong."""
        spent = self._left_of(address) + 1
        self._spent.pop(address, None)
        self._spent[address] = (spent, time.monotonic())
        if len(self._spent) > MOST_ADDRESSES:
            del self._spent[next(iter(self._spent))]

    def _left_of(self, address: str) -> float:
        spent, since = self._spent.get(address, (0.0, 0.0))
        return max(0.0, spent - (time.monotonic() - since) / WRONG_TOKEN_INTERVAL)
