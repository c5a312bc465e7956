"""Messages: what client and host say to each other, and packets: how several of them travel as one.

Knows: the fields and the bytes of every message. Does not know: in which order they may come (session.py).

A packet is one or more messages, one behind the other: the length of the head (2 bytes) and of the body (4 bytes), both
big-endian, then the head (MessagePack, an array of the message's number and its fields), then the body, opaque bytes.
Only Patch, Packed and Buffer have a body.
"""

# mypy wants `frozen=True` repeated on every subclass; msgspec inherits it.
# mypy: disable-error-code="misc"

from __future__ import annotations

import struct
from typing import Annotated, Any

import msgspec

from .errors import ProtocolError
from .reflection import Driver
from .stacks import Offset, Span, StackSize

VERSION = 3
"""Of the messages and their order. The command table is compared row by row (`commands.rows`)."""
LARGEST_BODY = 1 << 20
LARGEST_HEAD = 0xFFFF
LARGEST_PACKET = 4 << 20
"""A packet is never longer than this; a message is shorter by far."""

Bytes = bytes | bytearray | memoryview
Number = Annotated[int, msgspec.Meta(ge=1, lt=1 << 53)]
"""Of a message that counts, in its direction's sequence."""
Applied_ = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class Message(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What all messages are."""


class Hello(Message, tag=1):
    """Client, first: what it speaks. `require` is moderngl's: the OpenGL version as 330 or 450.

    `distance`: seconds that the host's first word took to come.
    """

    version: int
    software: str
    moderngl: str
    require: int
    distance: float = 0.0


class Near(msgspec.Struct, array_like=True, frozen=True):
    """A worker's own Unix socket: its abstract name, the secret that opens it, and the size of the memory behind it.

    The memory is both stacks: the upward one first, each half of it.
    """

    name: str
    secret: bytes
    size: Offset


class Greeting(Message, tag=2):
    """Host, in answer to Hello: what it speaks, the session, and all that a client may know without asking.

    `key` is the session's: whoever resumes it proves that they know it (proof.py).
    """

    version: int
    software: str
    moderngl: str
    rows: dict[int, int]
    session: str
    stack_size: StackSize
    grace: float
    driver: Driver
    near: Near | None = None
    key: bytes = b""


class Refused(Message, tag=3):
    """Host, instead of Greeting, Proven or Resumed: why not.

    `code` is one of "version", "require", "context", "session", "proof".
    """

    code: str
    reason: str
    version: int


class Resume(Message, tag=4):
    """Client, on a later connection once both have proven themselves: the last number of the host's that it applied."""

    applied: Applied_


class Resumed(Message, tag=5):
    """Host, in answer to Resume: the last number of the client's that it applied."""

    applied: Applied_


class Applied(Message, tag=6):
    """Either: everything up to this number of yours is done, and need not be kept."""

    number: Applied_


class Goodbye(Message, tag=7):
    """Client: the session ends now, and everything in it may go."""


class Lost(Message, tag=8):
    """Host: the session is gone, and why."""

    reason: str


class Notice(Message, tag=9):
    """Host: something that the user of the session should know; nothing else changes."""

    text: str


class Patch(Message, tag=10):
    """Either, numbered: the body is what the sender's stack now holds at `offset`."""

    number: Number
    offset: Offset


class Buffer(Message, tag=11):
    """Client, numbered: the body is a command buffer of this epoch."""

    number: Number
    epoch: int


class Answer(Message, tag=12):
    """Host, numbered: a part of a ticket's answer, at `start` of `total` bytes, lies in a span of the downward stack.

    Of Ask the whole is one MessagePack value; of Fetch it is the bytes. Or an exception: its type and its text.
    """

    number: Number
    ticket: Number
    start: Offset
    total: Offset
    span: Span | None
    error: tuple[str, str] | None


class Fault(Message, tag=13):
    """Host, numbered: a command failed, and what follows in its epoch is dropped.

    `buffer` is the number of its Buffer, `index` its place there, `command` its one-line text, `error` the type and
    text of what was raised, `last_made` the last handle that was made.
    """

    number: Number
    epoch: int
    buffer: Number
    index: int
    command: str
    error: tuple[str, str]
    last_made: int


class Challenge(Message, tag=15):
    """Host, first on a later connection: a nonce, with which the client is to prove the session's key."""

    nonce: bytes


class Proof(Message, tag=16):
    """Client, in answer to Challenge: a nonce of its own, and its proof over both (proof.py)."""

    nonce: bytes
    proof: bytes


class Proven(Message, tag=17):
    """Host, in answer to Proof: the proof is right, and here is the host's own over both nonces."""

    proof: bytes


class Packed(Message, tag=14):
    """Either, numbered: the body, unpacked, is the `size` bytes that the sender's stack now holds at `offset`.

    With `base` it is their difference (XOR) from the bytes at that offset of the same stack, nothing being none, and
    `checksum` is theirs: see packing.py.
    """

    number: Number
    offset: Offset
    size: Offset
    base: Offset | None
    checksum: int


Numbered = Patch | Buffer | Answer | Fault | Packed
AnyMessage = (
    Hello
    | Greeting
    | Refused
    | Resume
    | Resumed
    | Applied
    | Goodbye
    | Lost
    | Notice
    | Challenge
    | Proof
    | Proven
    | Numbered
)

_LENGTHS = struct.Struct(">HI")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyMessage)


def encode(message: Message, body: Bytes = b"") -> bytes:
    """The bytes of a message up to its body, which is to follow; nothing copies the body."""
    head = _encoder.encode(message)
    if len(head) > LARGEST_HEAD or len(body) > LARGEST_BODY:
        raise ProtocolError(f"{type(message).__name__} is too large: {len(head)} bytes, and {len(body)} of its body")
    return _LENGTHS.pack(len(head), len(body)) + head


def decode(packet: Bytes) -> list[tuple[Any, memoryview]]:
    """The messages of a packet, each with its body (a view of the packet)."""
    if len(packet) > LARGEST_PACKET:
        raise ProtocolError(f"a packet of {len(packet)} bytes; the greatest has {LARGEST_PACKET}")
    found: list[tuple[Any, memoryview]] = []
    view, at, end, size = memoryview(packet), 0, len(packet), _LENGTHS.size
    try:
        while at < end:
            head, body = _LENGTHS.unpack_from(view, at)
            at += size
            head += at  # where it ends
            if body > LARGEST_BODY or head + body > end:
                raise ProtocolError("a packet ends within a message, or a body is too large")
            message = _decoder.decode(view[at:head])
            at = head + body
            found.append((message, view[head:at]))
    except struct.error:
        raise ProtocolError("a packet ends within a message") from None
    except msgspec.DecodeError as error:
        raise ProtocolError(f"not a message: {error}") from None
    except RecursionError:
        raise ProtocolError("not a message: nested too deeply") from None
    return found


def value(data: Bytes, kind: Any = Any) -> Any:
    """The value of an Ask's answer; ProtocolError unless it is of this type."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"not an answer: {error}") from None
    except RecursionError:
        raise ProtocolError("not an answer: nested too deeply") from None


def value_bytes(answer: Any) -> bytes:
    """The bytes of an Ask's answer."""
    return _encoder.encode(answer)
