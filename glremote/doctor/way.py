"""The way to a host: what leads there, and the lines that ask anew with something else.

Knows: how the doctor is called, and how its options are written. Does not know: what was found on the way.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from glremote.hosts import PORT, NoHost
from glremote.link.tls import Trust

from .finding import Finding, missing, warning

LIKE = f"glremote doctor wss://HOST:{PORT} --token-file FILE"


class Cannot(Exception):
    """The step failed, and with it all that would come after."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding


class Way(NamedTuple):
    """To which host, and with what."""

    url: str
    name: str
    """What the host is called here; where it has no name, HOST:PORT."""
    host: str
    port: int
    path: str
    token: str | None
    trust: Trust | None
    device: str | None

    @property
    def where(self) -> str:
        """Host and port, as they are written."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def there(self) -> str:
        """Where the host is; behind a loopback address it may be the other end of a tunnel."""
        return "there" if self.is_near else f"on {self.host}"

    def again(self, url: str = "", trust: str | None = None) -> str:
        """The line that asks anew, of another address or with another trust."""
        url = url or self.url
        if trust is None:
            trust = self._trusted if url.startswith("wss://") else ""
        return f"glremote doctor {url}{trust}"

    def kept(self, options: str) -> tuple[str, ...]:
        """The line that keeps something else of a host that has a name in the file of hosts."""
        if self.name == self.where:
            return ()
        return (f"glremote hosts add {self.url} --name {self.name}{self._trusted}{options}  # to keep it",)

    @property
    def _trusted(self) -> str:
        if self.trust is None:
            return ""
        ca = f" --ca-file {shlex.quote(self.trust.ca)}" if self.trust.ca else ""
        return ca + (f" --pin {self.trust.pin}" if self.trust.pin else "")

    @property
    def pinned(self) -> str:
        """The line that asks anew with a pin."""
        return f"{self.again(trust=' --pin sha256:...')}  # as `glremote serve` shows it there"

    @property
    def other_scheme(self) -> str:
        """The address, with TLS if this is without, and the reverse."""
        return f"{'wss' if self.trust is None else 'ws'}://{self.where}"

    def at(self, host: str, port: int) -> str:
        """The address, of another machine or port."""
        return f"{'ws' if self.trust is None else 'wss'}://{f'[{host}]' if ':' in host else host}:{port}"

    def usual_port(self) -> tuple[str, ...]:
        """The line that asks at the port that hosts have, where no port was said."""
        said = urlsplit(self.url).port is not None
        return () if said else (f"{self.again(self.at(self.host, PORT))}  # at the port that hosts have",)

    @property
    def is_near(self) -> bool:
        """Whether it leads to this machine."""
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"


def no_host(error: Exception) -> Finding:
    """What was given names none."""
    meant = tuple(f"glremote doctor {one}" for one in error.meant) if isinstance(error, NoHost) else ()
    return missing(str(error), *(meant or (LIKE,)))


def token_kept(file: Path | None) -> Iterator[Finding]:
    """Whether a token in a file is its user's alone."""
    if file is not None and os.name == "posix" and file.stat().st_mode & 0o044:
        name = shlex.quote(str(file))
        yield warning(f"the token in {file} can be read by others than its user", f"chmod 600 {name}")
