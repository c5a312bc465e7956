"""A host's certificate and key: two files, which may be renewed while it serves.

Knows: the files, and what Python's ssl makes of them. Does not know: who connects. The files are looked at for each new
connection; a pair that does not fit, as between the replacing of one and of the other, is not taken, and the one before
stays. A connection keeps what it began with.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from glremote.link.tls import pin_of

log = logging.getLogger("glremote.host")


class Certificate:
    """A certificate and its key, as they are now."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises OSError, and ValueError where the files hold something else."""
        self._files = certificate, key
        self._seen = self._state()  # before they are read: what is written meanwhile is seen the next time
        self._context = tls_context(certificate, key)

    def context(self) -> ssl.SSLContext:
        """What a new connection needs."""
        self.look()
        return self._context

    def look(self) -> None:
        """Take up what is in the files, if they have changed and it fits."""
        if (state := self._state()) == self._seen:
            return
        self._seen = state
        certificate, key = self._files
        try:
            self._context, pin = tls_context(certificate, key), pin_of(certificate)
        except (OSError, ValueError) as error:
            log.error("the certificate was changed, and the one before stays: %s", error)
        else:
            log.info("the certificate was renewed; its pin: %s", pin)

    def _state(self) -> list[tuple[int, ...] | None]:
        """What changes when a file is replaced or written; None for one that cannot be seen."""
        return [_state_of(file) for file in self._files]


def _state_of(file: Path) -> tuple[int, ...] | None:
    try:
        state = file.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_ino, state.st_size


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """What a host needs to speak TLS. Raises OSError, and ValueError where the files hold something else."""

    def no_password() -> str:
        raise ValueError(f"the key in {key} is locked with a password; a host has nobody to ask for it")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path in (certificate, key):
        path.open("rb").close()  # ssl's own error does not say which of them
    try:
        context.load_cert_chain(certificate, key, no_password)
    except ssl.SSLError as error:
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        why = "the key is another certificate's" if mismatch else "what is in one of them is not PEM"
        raise ValueError(f"{certificate} and {key} are no certificate and its key: {why}") from None
    return context
