"""The first words with a host: hello, and its greeting or the reason why there is none.

Knows: which message answers hello, and which exception says what to the program. Does not know: what follows.
"""

from __future__ import annotations

import time

from glremote.link.links import Link, LinkBroken
from glremote.protocol import handshake
from glremote.protocol.errors import DeviceLost, HostUnreachable, NotAdmitted, ProtocolError, VersionMismatch
from glremote.protocol.messages import Greeting, Hello, Lost, Message, Refused, decode, encode

GREETING_TIMEOUT = 30.0
"""Seconds that a host may take to make a context, once it has admitted us."""


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
