"""The first words with a host: hello, and its greeting or the reason why there is none.

Knows: which message answers hello, and which exception says what to the program. Does not know: what follows.
"""

from __future__ import annotations

import secrets
import time
from typing import TypeVar

from glremote.link.links import Link, LinkBroken
from glremote.protocol import handshake, proof
from glremote.protocol.errors import DeviceLost, HostUnreachable, NotAdmitted, ProtocolError, VersionMismatch
from glremote.protocol.messages import Challenge, Greeting, Hello, Lost, Message, Proven, Refused, decode, encode

T = TypeVar("T", bound=Message)

GREETING_TIMEOUT = 30.0
"""Seconds that a host may take to make a context, once it has admitted us."""
PROOF_TIMEOUT = 10.0
"""Seconds that a host may take to prove that it has our session; its gateway does so, however busy the worker is."""


def greet(link: Link, host: str, hello: Hello) -> Greeting:
    """Say hello and wait for the greeting. Raises what `glremote.create_context` raises, naming the host."""
    deadline = time.monotonic() + GREETING_TIMEOUT
    try:
        tell(link, hello)
        while time.monotonic() < deadline:
            for packet in link.receive(deadline - time.monotonic()):
                for message, _ in decode(packet):
                    if isinstance(message, Greeting):
                        handshake.check(message, hello.software, host)
                        return message
                    raise _no_greeting(message, host)
    except LinkBroken as error:
        raise HostUnreachable(f"{host}: {error} before it greeted") from None
    raise HostUnreachable(f"{host}: admitted, and not greeted within {GREETING_TIMEOUT:.0f} s")


def prove(link: Link, host: str, key: bytes) -> None:
    """Prove on a later link that we know the session's key, and see that the host does. Raises LinkError."""
    deadline = time.monotonic() + PROOF_TIMEOUT
    try:
        challenge = _next(link, host, Challenge, deadline)
        given = proof.answer(key, challenge, secrets.token_bytes(proof.SIZE))
        tell(link, given)
        proof.check(key, challenge, given, _next(link, host, Proven, deadline))
    except LinkBroken as error:
        raise HostUnreachable(f"{host}: {error} before the session could be resumed") from None
    except ProtocolError as error:
        raise HostUnreachable(f"{host}: what answers there does not have the session: {error}") from None


def _next(link: Link, host: str, kind: type[T], deadline: float) -> T:
    """The next message, which must be of this kind."""
    while time.monotonic() < deadline:
        for packet in link.receive(max(0.0, deadline - time.monotonic())):
            for message, _ in decode(packet):
                if isinstance(message, kind):
                    return message
                if isinstance(message, Refused):
                    raise NotAdmitted(f"{host}: {message.reason}")
                raise ProtocolError(f"{type(message).__name__} where {kind.__name__} was to come")
    raise HostUnreachable(f"{host}: admitted, and no {kind.__name__} came within {PROOF_TIMEOUT:g} s")


def tell(link: Link, message: Message) -> None:
    """Send one message that no session keeps."""
    link.send([[encode(message)]])


def _no_greeting(message: Message, host: str) -> Exception:
    if isinstance(message, Refused):
        if message.code == "require":
            return ValueError(message.reason)  # moderngl's own exception and text
        if message.code == "context":
            return Exception(message.reason)  # glcontext's, where the driver has no such version
        refusal = VersionMismatch if message.code == "version" else NotAdmitted
        return refusal(f"{host}: {message.reason}")
    if isinstance(message, Lost):
        return DeviceLost(f"{host}: {message.reason}")
    return ProtocolError(f"{host} greeted with {type(message).__name__}")
