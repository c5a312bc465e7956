"""Messages and packets: their exact bytes, and what is refused. PROTOCOL.md shows the worked example of this file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from glremote.protocol import commands as c
from glremote.protocol import messages as m
from glremote.protocol.buffers import decode as decode_buffer
from glremote.protocol.buffers import encode as encode_buffer
from glremote.protocol.errors import ProtocolError
from glremote.protocol.reflection import Driver
from glremote.protocol.stacks import Span
from tests.protocol.strategies import EDIT_LISTS, SETTINGS, mutated, value

DRIVER = Driver(
    version_code=450,
    info={"GL_RENDERER": "llvmpipe", "GL_MAX_SAMPLES": 4, "GL_POINT_SIZE_RANGE": (1.0, 255.0)},
    extensions=["GL_ARB_a"],
    limits={"max_samples": 4, "max_label_length": None},
    state={"line_width": 1.0},
    default_framebuffer=(0, 0, 1, 1),
    complete=[("texture", 4, "f1", 0)],
)
DRIVER_BYTES = (
    "87"
    "ac 76657273696f6e5f636f6465 cd01c2"  # version_code: 450
    "a4 696e666f 83"  # info, of 3
    "   ab 474c5f52454e4445524552 a8 6c6c766d70697065"
    "   ae 474c5f4d41585f53414d504c4553 04"
    "   b3 474c5f504f494e545f53495a455f52414e4745 92 cb3ff0000000000000 cb406fe00000000000"
    "aa 657874656e73696f6e73 91 a8 474c5f4152425f61"  # extensions
    "a6 6c696d697473 82"  # limits, of 2
    "   ab 6d61785f73616d706c6573 04"
    "   b0 6d61785f6c6162656c5f6c656e677468 c0"
    "a5 7374617465 81 aa 6c696e655f7769647468 cb3ff0000000000000"  # state
    "b3 64656661756c745f6672616d656275666665 72 94 00 00 01 01"  # default_framebuffer
    "a8 636f6d706c657465 91 94 a7 74657874757265 04 a2 6631 00"  # complete
)
BYTES: dict[m.Message, str] = {
    m.Hello(1, "0.1.0", "5.13.0", 430, 0.5): (
        "001c 00000000  96 01 01 a5302e312e30 a6352e31332e30 cd01ae cb3fe0000000000000"
    ),
    m.Refused("session", "gone", 1): "0010 00000000  94 03 a773657373696f6e a4676f6e65 01",
    m.Resume(300): "0005 00000000  92 04 cd012c",
    m.Resumed(70000): "0007 00000000  92 05 ce00011170",
    m.Applied(0): "0003 00000000  92 06 00",
    m.Goodbye(): "0002 00000000  91 07",
    m.Lost("gone"): "0007 00000000  92 08 a4676f6e65",
    m.Notice("soon"): "0007 00000000  92 09 a4736f6f6e",
    m.Challenge(b"nonce"): "0009 00000000  92 0f c4056e6f6e6365",
    m.Proof(b"nonce", b"proof"): "0010 00000000  93 10 c4056e6f6e6365 c40570726f6f66",
    m.Proven(b"proof"): "0009 00000000  92 11 c40570726f6f66",
    m.Patch(1, 64): "0004 00000000  93 0a 01 40",
    m.Packed(1, 64, 16, None, 0): "0007 00000000  96 0e 01 40 10 c0 00",
    m.Packed(1, 64, 16, 0, 1): "0007 00000000  96 0e 01 40 10 00 01",
    m.Buffer(2, 0): "0004 00000000  93 0b 02 00",
    m.Answer(1, 1, 0, 4, Span(0, 4), None): "000a 00000000  97 0c 01 01 00 04 920004 c0",
    m.Answer(2, 7, 0, 0, None, ("Error", "no")): "0011 00000000  97 0c 02 07 00 00 c0 92a54572726f72a26e6f",
    m.Fault(3, 1, 9, 4, "Finish()", ("Error", "why"), 12): (
        "001b 00000000  98 0d 03 01 09 04 a846696e6973682829 92a54572726f72a3776879 0c"
    ),
}
GREETING = m.Greeting(1, "0.1.0", "5.13.0", {1: 0x01020304, 221: 5}, "s", 1 << 26, 60.0, DRIVER, None, b"key")
GREETING_HEAD = "02 01 a5302e312e30 a6352e31332e30 82 01 ce01020304 ccdd 05 a173 ce04000000 cb404e000000000000"
GREETING_BYTES = "011b 00000000  9b" + GREETING_HEAD + DRIVER_BYTES + "c0 c4036b6579"
NEAR = structs.replace(GREETING, near=m.Near("/run/n", b"secret", 1 << 27))
NEAR_BYTES = (
    "012f 00000000  9b" + GREETING_HEAD + DRIVER_BYTES + "93 a62f72756e2f6e c406736563726574 ce08000000 c4036b6579"
)

EXAMPLE_COMMANDS = [c.MakeBuffer(2, Span(0, 16), 0, False), c.ReadBuffer(1, 16, 2, 0)]
EXAMPLE = (
    # a Patch, number 1, offset 0
    "0004 00000010  93 0a 01 00"
    "   000102030405060708090a0b0c0d0e0f"
    # a Buffer, number 2, epoch 0
    "0004 0000000f  93 0b 02 00"
    "   92  95 28 02 920010 00 c2  95 2f 01 10 02 00"
)
"""A packet of two messages: sixteen bytes, and the command buffer that makes a buffer of them and reads it."""


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


def packet(*sent: tuple[m.Message, bytes]) -> bytes:
    return b"".join(m.encode(message, body) + body for message, body in sent)


# --- exact bytes


@pytest.mark.parametrize("message", BYTES, ids=lambda message: type(message).__name__)
def test_the_bytes_of_each_message(message: m.Message) -> None:
    assert m.encode(message).hex(" ") == unhex(BYTES[message]).hex(" ")
    assert [(found, bytes(body)) for found, body in m.decode(unhex(BYTES[message]))] == [(message, b"")]


@pytest.mark.parametrize(("greeting", "sent"), [(GREETING, GREETING_BYTES), (NEAR, NEAR_BYTES)], ids=("far", "near"))
def test_the_bytes_of_a_greeting(greeting: m.Greeting, sent: str) -> None:
    assert m.encode(greeting).hex(" ") == unhex(sent).hex(" ")
    assert [found for found, _ in m.decode(unhex(sent))] == [greeting]


def test_a_greeting_may_end_before_its_last_field() -> None:
    short = "0115 00000000  99" + GREETING_HEAD + DRIVER_BYTES
    assert [found for found, _ in m.decode(unhex(short))] == [structs.replace(GREETING, key=b"")]


def test_every_message_has_its_bytes_here() -> None:
    assert {type(message) for message in (*BYTES, GREETING)} == set(m.AnyMessage.__args__)


def test_the_bytes_of_a_packet_of_two() -> None:
    body = encode_buffer(EXAMPLE_COMMANDS)
    sent = packet((m.Patch(1, 0), bytes(range(16))), (m.Buffer(2, 0), body))
    assert sent.hex(" ") == unhex(EXAMPLE).hex(" ")
    (patch, data), (buffer, commands) = m.decode(unhex(EXAMPLE))
    assert (patch, bytes(data)) == (m.Patch(1, 0), bytes(range(16)))
    assert (buffer, decode_buffer(commands)) == (m.Buffer(2, 0), EXAMPLE_COMMANDS)


def test_a_body_is_not_copied() -> None:
    data = bytearray(unhex(EXAMPLE))
    ((_, body), _) = m.decode(data)
    data[10] = 0xFF
    assert body[0] == 0xFF


def test_an_empty_packet_has_no_messages() -> None:
    assert list(m.decode(b"")) == []


@SETTINGS
@given(st.lists(st.tuples(st.sampled_from(m.AnyMessage.__args__).flatmap(value), st.binary(max_size=20)), max_size=6))
def test_packets_come_back_as_they_went(sent: list[tuple[m.Message, bytes]]) -> None:
    found = [(message, bytes(body)) for message, body in m.decode(packet(*sent))]
    assert found == sent


# --- what is refused


REFUSED = {
    "half of the lengths": "0003 00",
    "no head": "0003 00000000",
    "half of a head": "0003 00000000  92 06",
    "an empty head": "0000 00000000",
    "a head that ends early": "0004 00000000  92 06 00 00",
    "a head that ends late": "0002 00000000  92 06 00",
    "half of a body": "0004 00000004  93 0a 01 00  0102",
    "no body": "0004 00000001  93 0a 01 00",
    "a body above the limit": "0004 00100001  93 0a 01 00",
    "a body of 4 GB": "0004 ffffffff  93 0a 01 00",
    "a second message cut": "0003 00000000  92 06 00  0003 00000000  92 06",
    "an unknown number": "0003 00000000  92 09 00",
    "a reserved number": "0003 00000000  92 00 00",
    "a name for a number": "0004 00000000  92 a141 00",
    "no array": "0001 00000000  06",
    "a map": "0003 00000000  81 06 00",
    "no fields": "0002 00000000  91 06",
    "text for a number": "0004 00000000  92 06 a130",
    "a float for a number": "000b 00000000  92 06 cb3ff0000000000000",
    "a truth for a number": "0003 00000000  92 06 c3",
    "a number below zero": "0003 00000000  92 06 ff",
    "a number beyond 53 bits": "000b 00000000  92 06 cf0020000000000000",
    "the number zero": "0004 00000000  93 0a 00 00",
    "an offset below zero": "0004 00000000  93 0a 01 ff",
    "an offset beyond 48 bits": "000c 00000000  93 0a 01 cf0001000000000000",
    "a number for a reason": "0003 00000000  92 08 01",
    "a reason that is not UTF-8": "0005 00000000  92 08 a2ff",
    "a span of one": "0009 00000000  97 0c 01 01 00 04 9100 c0",
    "an error of one text": "000b 00000000  97 0c 01 01 00 04 c0 91a141",
    "an error of three": "000f 00000000  97 0c 01 01 00 04 c0 93a141a141a141",
    "a stack of nothing": GREETING_BYTES.replace("ce04000000", "ce00000000"),
    "a stack below zero": GREETING_BYTES.replace("ce04000000", "d2ffffff00"),
    "a stack that is not aligned": GREETING_BYTES.replace("ce04000000", "ce04000001"),
    "deep nesting": "0400 00000000" + "91" * 1024,
    "deeper nesting": "ffff 00000000" + "91" * 0xFFFF,
}


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_packet_is_refused(sent: str) -> None:
    with pytest.raises(ProtocolError, match=r"^not a message: |^a packet ends within a message"):
        list(m.decode(unhex(sent)))


def test_every_prefix_of_a_packet_is_refused() -> None:
    whole = unhex(EXAMPLE)
    border = len(packet((m.Patch(1, 0), bytes(16))))
    for length in range(1, len(whole)):
        if length != border:
            with pytest.raises(ProtocolError, match=r"^a packet ends within a message"):
                list(m.decode(whole[:length]))


def test_fields_behind_the_last_are_ignored() -> None:
    """So that a Hello of a later version, with more to say, can still be refused in words."""
    said = "001d 00000000  97 01 03 a5302e392e30 a6352e31332e30 cd01ae cb3fe0000000000000 c0"
    ((hello, _),) = m.decode(unhex(said))
    assert hello == m.Hello(3, "0.9.0", "5.13.0", 430, 0.5)


def test_the_first_version_s_hello_can_be_refused_in_words() -> None:
    ((hello, _),) = m.decode(unhex("0013 00000000  95 01 01 a5302e312e30 a6352e31332e30 cd01ae"))
    assert hello == m.Hello(1, "0.1.0", "5.13.0", 430)


def test_what_is_too_large_is_not_sent() -> None:
    m.encode(m.Patch(1, 0), bytes(m.LARGEST_BODY))
    with pytest.raises(ProtocolError, match=f"Patch is too large: 4 bytes, and {m.LARGEST_BODY + 1} of its body"):
        m.encode(m.Patch(1, 0), bytes(m.LARGEST_BODY + 1))
    m.encode(m.Lost("x" * (m.LARGEST_HEAD - 10)))
    with pytest.raises(ProtocolError, match="Lost is too large"):
        m.encode(m.Lost("x" * m.LARGEST_HEAD))


@SETTINGS
@given(st.lists(st.sampled_from([*BYTES, GREETING]), min_size=1, max_size=4), EDIT_LISTS)
def test_any_bytes_are_a_packet_or_refused(sent: list[m.Message], edits: Any) -> None:
    try:
        found = list(m.decode(mutated(packet(*((message, b"") for message in sent)), edits)))
    except ProtocolError:
        return
    assert all(isinstance(message, m.Message) for message, _ in found)
