"""Proofs of a session's key: their exact bytes, and what is none."""

from __future__ import annotations

import pytest

from glremote.protocol import proof
from glremote.protocol.errors import ProtocolError
from glremote.protocol.messages import Challenge, Proof, Proven

KEY, HOSTS, CLIENTS = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))
ASKED = Challenge(HOSTS)


def test_both_sides_prove_themselves() -> None:
    given = proof.answer(KEY, ASKED, CLIENTS)
    told = proof.confirm(KEY, ASKED, given)
    proof.check(KEY, ASKED, given, told)
    assert given.nonce == CLIENTS


def test_the_bytes_of_both_proofs() -> None:
    """As openssl's `dgst -sha256 -mac HMAC` gives them."""
    given = proof.answer(KEY, ASKED, CLIENTS)
    told = proof.confirm(KEY, ASKED, given)
    assert given.proof.hex() == "80c7a53b2dfb254d462a2d8f2d0aeb69f8fdd9180ea0876bcc14a93c242e0a9b"
    assert told.proof.hex() == "f1b9f4d6f53d9a162371d91db8aee05195cb13dac5ec96375cdc6f6336f029b3"


@pytest.mark.parametrize(
    ("key", "asked", "nonce"),
    [(bytes(32), ASKED, CLIENTS), (KEY, Challenge(bytes(32)), CLIENTS), (KEY, ASKED, bytes(32))],
    ids=["key", "host's nonce", "client's nonce"],
)
def test_a_proof_over_anything_else_is_wrong(key: bytes, asked: Challenge, nonce: bytes) -> None:
    other = proof.answer(key, asked, nonce).proof
    with pytest.raises(ProtocolError, match="proof of the session's key is wrong"):
        proof.confirm(KEY, ASKED, Proof(CLIENTS, other))


def test_one_side_s_proof_is_not_the_other_s() -> None:
    given = proof.answer(KEY, ASKED, CLIENTS)
    told = proof.confirm(KEY, ASKED, given)
    with pytest.raises(ProtocolError, match="is wrong"):
        proof.confirm(KEY, ASKED, Proof(CLIENTS, told.proof))
    with pytest.raises(ProtocolError, match="the host's proof of the session's key is wrong"):
        proof.check(KEY, ASKED, given, Proven(given.proof))


def test_sizes_are_checked() -> None:
    with pytest.raises(ProtocolError, match="the host's nonce has 31 bytes, and not 32"):
        proof.answer(KEY, Challenge(HOSTS[:-1]), CLIENTS)
    with pytest.raises(ProtocolError, match="the client's nonce has 33 bytes, and not 32"):
        proof.confirm(KEY, ASKED, Proof(bytes(33), bytes(32)))
    with pytest.raises(ProtocolError, match="the session's key has 0 bytes, and not 32"):
        proof.answer(b"", ASKED, CLIENTS)
