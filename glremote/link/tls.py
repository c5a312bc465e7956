"""Whom a client trusts behind wss://: the system's authorities, a file of others, or one certificate alone.

Knows: ssl, and what its errors mean for whoever set it up. Does not know: sockets or websockets.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path

CA_VARIABLE = "GLREMOTE_CA_FILE"
PIN_VARIABLE = "GLREMOTE_PIN"

EXPIRED, NOT_YET_VALID, WRONG_NAME, WRONG_ADDRESS = 10, 9, 62, 64
"""What OpenSSL finds (X509_V_ERR_...), where it is not an unknown authority."""
NO_TLS = "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "UNEXPECTED_MESSAGE"
"""How OpenSSL calls it when the other side answers with anything but TLS."""
TOO_OLD = "PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "VERSION_TOO_LOW"
WANTS_OURS = "CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE"
HUNG_UP = ("EOF",)
REASONS = (
    (NO_TLS, "what answers there does not speak TLS; if it is a glremote host without, give ws://HOST:PORT"),
    (TOO_OLD, "what answers there speaks TLS older than 1.2 alone; it is no glremote host, or a proxy before one"),
    (WANTS_OURS, "what answers there, perhaps a proxy, wants a certificate of the client, of which glremote has none"),
    (HUNG_UP, "what answers there hung up while TLS began; is it a glremote host, and one with TLS?"),
)
"""What OpenSSL's words mean, of which part of one is enough."""


class Untrusted(Exception):
    """The host's certificate is not to be trusted; the text says why, and what to do."""


@dataclass(frozen=True)
class Trust:
    """What a host's certificate is held against. Raises ValueError for what is no file of authorities, or no pin."""

    ca: str | None = None
    """A file of certificates (PEM) that stand in place of the system's authorities."""
    pin: str | None = None
    """`sha256:` and the digits of the SHA-256 of the certificate itself. Without `ca` nothing else is looked at."""
    context: ssl.SSLContext = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.pin is not None:
            object.__setattr__(self, "pin", _plain(self.pin))
        object.__setattr__(self, "context", _context(self.ca, self.pin is not None))

    @classmethod
    def chosen(cls, url: str, ca: str | os.PathLike[str] | None, pin: str | None) -> Trust | None:
        """By the arguments, else by the environment; None for a ws:// host, which has no certificate.

        Raises ValueError.
        """
        if not url.startswith("wss://"):
            if ca is None and pin is None:
                return None
            raise ValueError(f"{url!r} has no certificate that a ca or a pin could be held against: give wss://HOST:PORT")
        if ca is None and pin is None:
            ca, pin = os.environ.get(CA_VARIABLE) or None, os.environ.get(PIN_VARIABLE) or None
        return cls(None if ca is None else os.path.abspath(ca), pin)

    def check(self, certificate: bytes | None) -> None:
        """Hold a host's certificate (DER) against the pin. Raises Untrusted."""
        if self.pin is None:
            return
        found = fingerprint(certificate or b"")
        if not hmac.compare_digest(found, self.pin):
            raise Untrusted(
                f"its certificate has the pin {found}, and not {self.pin}: somebody stands between, or the host has "
                "another certificate now, whose pin `glremote serve` shows"
            )


def fingerprint(certificate: bytes) -> str:
    """The pin of a certificate (DER)."""
    return f"sha256:{hashlib.sha256(certificate).hexdigest()}"


def pin_of(path: Path) -> str:
    """The pin of the first certificate in a file (PEM). Raises OSError and ValueError."""
    text = path.read_text("ascii", "replace")
    begin, end = ssl.PEM_HEADER, ssl.PEM_FOOTER
    first = text.partition(begin)[2].partition(end)[0]
    return fingerprint(ssl.PEM_cert_to_DER_cert(f"{begin}{first}{end}\n"))


def explain(error: ssl.SSLError) -> str:
    """Why there is no secure connection, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        code = error.verify_code
        if code == EXPIRED:
            return "the host's certificate has expired; it needs a new one"
        if code == NOT_YET_VALID:
            return "the host's certificate is not valid yet; is one of the two clocks wrong?"
        if code in (WRONG_NAME, WRONG_ADDRESS):
            why = error.verify_message.rstrip(".")
            return f"the host's certificate is for another name ({why}); use a name that it has, or pin it"
        return (
            f"no authority that is trusted here has signed the host's certificate ({error.verify_message}); name its "
            f"own with ca=FILE, --ca-file or {CA_VARIABLE}, or pin the certificate with pin=, --pin or {PIN_VARIABLE}"
        )
    return next((text for words, text in REASONS if is_one(error, words)), f"no secure connection: {error}")


def is_one(error: ssl.SSLError, words: tuple[str, ...]) -> bool:
    """Whether it is one of these."""
    return any(word in (error.reason or str(error)) for word in words)


def _plain(pin: str) -> str:
    digits = pin.strip().removeprefix("sha256:").replace(":", "").lower()
    if not re.fullmatch("[0-9a-f]{64}", digits):
        raise ValueError(f"{pin!r} is no pin: give sha256: and 64 hexadecimal digits, as `glremote serve` shows them")
    return f"sha256:{digits}"


def _context(ca: str | None, pinned: bool) -> ssl.SSLContext:
    return _made(ca, pinned) if ca is not None else _of_the_system(pinned)


@functools.cache
def _of_the_system(pinned: bool) -> ssl.SSLContext:
    """The one for all hosts: to read the system's authorities takes 20 ms."""
    return _made(None, pinned)


def _made(ca: str | None, pinned: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
    except ssl.SSLError:
        raise ValueError(f"there are no certificates (PEM) in {ca}, which is to hold those of authorities") from None
    except OSError as error:
        raise ValueError(f"the certificates of authorities in {ca} cannot be read: {error.strerror}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if pinned and ca is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the pin says more: it is this very certificate
    return context
