"""A host's certificate and its key, and how they are taken up anew when somebody renews the files.

Knows: ssl, and how files are replaced (certbot's links, a Secret's folder in Kubernetes, a plain copy). Does not know:
connections: those that are there keep what they began with.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
from pathlib import Path

from glremote.link.tls import pin_of

log = logging.getLogger("glremote.host")

LOOKING = 1.0
"""Seconds between two looks at the files."""


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """What a host needs to speak TLS. Raises OSError, and ValueError where the files hold something else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, certificate, key)
    return context


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    def no_password() -> str:
        raise ValueError(f"the key in {key} is locked with a password; a host has nobody to ask for it")

    for path in (certificate, key):
        path.open("rb").close()  # ssl's own error does not say which of them
    try:
        context.load_cert_chain(certificate, key, no_password)
    except ssl.SSLError as error:
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        why = "the key is another certificate's" if mismatch else "what is in one of them is not PEM"
        raise ValueError(f"{certificate} and {key} are no certificate and its key: {why}") from None


async def renew(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Look at the files for as long as the host serves, and take up what replaces them. What cannot be used is not."""
    taken = tried = _marks(certificate, key)
    while True:
        await asyncio.sleep(LOOKING)
        if (found := _marks(certificate, key)) == taken:
            continue
        try:
            # Apart from the context that is used: where the key does not fit, that would be left with half of it.
            await asyncio.to_thread(tls_context, certificate, key)
            _load(context, certificate, key)
        except (OSError, ValueError) as error:  # the second of the files may come in a moment
            if found != tried:
                log.error("the certificate was changed, and the one before is used still: %s", error)
            tried = found
            continue
        taken = tried = found
        log.info("the certificate was changed, and is used from now on: its pin is %s", pin_of(certificate))


def _marks(*paths: Path) -> list[tuple[int, int, int]]:
    """What is different when a file was replaced or written."""
    marks = []
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.stat(path)
            marks.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return marks
