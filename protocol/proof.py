"""How the two sides of a later connection prove to each other that they know the session's key.

Knows: what is proven, and how it is compared. Does not know: where nonces come from, or what follows. The key is in the
greeting, which only the two sides have seen. Each chooses a fresh nonce, so that no proof is worth anything a second
time; each proof names its side, so that none can be sent back to where it came from; the host's comes last, so that
a stranger gets none.
"""

from __future__ import annotations

import hashlib
import hmac

from .errors import ProtocolError
from .messages import Challenge, Proof, Proven

SIZE = 32
"""Bytes of a key, of a nonce and of a proof."""


def answer(key: bytes, challenge: Challenge, nonce: bytes) -> Proof:
    """The client's proof."""
    _check_size("the host's nonce", challenge.nonce)
    return Proof(nonce, _proof(key, b"client", challenge.nonce, nonce))


def confirm(key: bytes, challenge: Challenge, given: Proof) -> Proven:
    """The host's proof, once the client's is right. Raises ProtocolError where it is not."""
    _check_size("the client's nonce", given.nonce)
    if not hmac.compare_digest(given.proof, _proof(key, b"client", challenge.nonce, given.nonce)):
        raise ProtocolError("the proof of the session's key is wrong")
    return Proven(_proof(key, b"host", challenge.nonce, given.nonce))


def check(key: bytes, challenge: Challenge, given: Proof, proven: Proven) -> None:
    """On the client: ProtocolError unless the host's proof is right."""
    if not hmac.compare_digest(proven.proof, _proof(key, b"host", challenge.nonce, given.nonce)):
        raise ProtocolError("the host's proof of the session's key is wrong")


def _proof(key: bytes, side: bytes, host_nonce: bytes, client_nonce: bytes) -> bytes:
    _check_size("the session's key", key)
    return hmac.digest(key, side + host_nonce + client_nonce, hashlib.sha256)


def _check_size(what: str, given: bytes) -> None:
    if len(given) != SIZE:
        raise ProtocolError(f"{what} has {len(given)} bytes, and not {SIZE}")
