"""Command buffers: what the checker lets pass and what it refuses, and a decoder that takes any bytes."""

from __future__ import annotations

import importlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glremote
from glremote.host.inprocess import InProcessHost
from glremote.host.worker import Worker
from glremote.protocol import buffers, messages
from glremote.protocol import commands as c
from glremote.protocol.errors import ProtocolError
from glremote.protocol.session import Session
from glremote.protocol.stacks import Span, Stack
from tests.protocol import strategies
from tests.protocol.strategies import EDIT_LISTS, LARGEST_FETCH, SETTINGS, STACK_SIZE, mutated

SIZE = (1, 1)
DEFAULT = c.DEFAULT_FRAMEBUFFER
BUFFER, TEXTURE, VOLUME, PROGRAM, QUERY = 2, 3, 4, 5, 6
MADE: list[c.Command] = [
    c.MakeBuffer(BUFFER, None, 64, False),
    c.MakeTexture(TEXTURE, SIZE, 4, None, 0, 1, "f1", 0),
    c.MakeTexture3D(VOLUME, (1, 1, 1), 4, None, 1, "f1"),
    c.MakeProgram(PROGRAM, (None,) * 8, (), {}, True),
    c.MakeQuery(QUERY, True, False, False, False),
]
"""What lives before each of the buffers below is checked."""
ATTRIBUTE = c.VertexAttribute(0, 1, 0x1406)


def checker() -> buffers.Checker:
    """A checker of a session in which MADE has run."""
    made = buffers.Checker(Stack(STACK_SIZE), LARGEST_FETCH)
    made.check(MADE)
    return made


def refusal(*commands: c.Command) -> str:
    """The text with which a buffer is refused."""
    with pytest.raises(ProtocolError) as caught:
        checker().check(commands)
    return str(caught.value)


# --- what passes


@SETTINGS
@given(strategies.buffers())
def test_valid_buffers_pass(commands: list[c.Command]) -> None:
    buffers.Checker(Stack(STACK_SIZE), LARGEST_FETCH).check(buffers.decode(buffers.encode(commands)))


def test_a_handle_lives_from_its_make_to_the_end_of_the_session() -> None:
    checking = checker()
    checking.check([c.MakeSampler(7), c.SamplerUse(7, 0)])
    checking.check([c.SamplerUse(7, 1), c.Release(7), c.SamplerUse(7, 2)])  # moderngl's object can still be named
    checking.check([c.Forget(7)])
    with pytest.raises(ProtocolError, match="handle 7 is unknown, not sampler"):
        checking.check([c.SamplerUse(7, 0)])


def test_the_default_framebuffer_needs_no_make() -> None:
    checker().check([c.FramebufferUse(DEFAULT), c.MakeScope(7, DEFAULT, None, (), (), ())])


def test_optional_handles_and_spans_may_be_none() -> None:
    checker().check([
        c.MakeFramebuffer(7, (TEXTURE,), None),
        c.MakeVertexArray(8, PROGRAM, (c.VertexContent(BUFFER, "1f 4x", (None,)),), None, 4),
        c.BufferClear(BUFFER, -1, 0, None),
    ])


# --- kept commands


def test_what_is_kept_can_be_replayed_while_all_that_it_names_lives() -> None:
    checking = checker()
    checking.check([c.Enable(1), c.BufferOrphan(BUFFER, -1), c.Release(TEXTURE), c.KeepCommands(7, 2)])
    checking.check([c.Replay(7), c.Replay(7), c.Forget(TEXTURE), c.Replay(7), c.Release(7)])
    with pytest.raises(ProtocolError, match="name an object that was forgotten since"):
        checking.check([c.Forget(BUFFER), c.Replay(7)])
    checking.check([c.Forget(7)])
    with pytest.raises(ProtocolError, match="handle 7 is unknown, not commands"):
        checking.check([c.Replay(7)])


def test_a_handle_that_is_used_again_is_not_replayed() -> None:
    checking = checker()
    checking.check([c.BufferOrphan(BUFFER, -1), c.Forget(BUFFER), c.KeepCommands(7, 1)])
    checking.check([c.MakeSampler(BUFFER)])
    with pytest.raises(ProtocolError, match="name an object that was forgotten since"):
        checking.check([c.Replay(7)])


@pytest.mark.parametrize(
    ("before", "count", "told"),
    [
        ([c.Enable(1)], 0, "1 commands stand before it to be kept"),
        ([c.Enable(1), c.Release(BUFFER)], 2, "1 commands stand before it to be kept"),
        ([c.MakeSampler(7)], 0, "MakeSampler stands before it, which is never kept"),
        ([c.GetError(1)], 0, "GetError stands before it, which is never kept"),
        ([c.ReadBuffer(1, 4, BUFFER, 0)], 0, "ReadBuffer stands before it, which is never kept"),
        ([c.KeepCommands(8, 0)], 0, "KeepCommands stands before it, which is never kept"),
    ],
)
def test_what_is_not_kept(before: list[c.Command], count: int, told: str) -> None:
    assert told in refusal(*before, c.KeepCommands(9, count))


def test_a_replay_is_not_kept() -> None:
    checking = checker()
    checking.check([c.Enable(1), c.KeepCommands(7, 1)])
    with pytest.raises(ProtocolError, match="Replay stands before it, which is never kept"):
        checking.check([c.Replay(7), c.KeepCommands(8, 1)])


# --- handles


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (c.RunCompute(BUFFER, 1, 1, 1), f"handle {BUFFER} is buffer, not program"),
        (c.RunCompute(99, 1, 1, 1), "handle 99 is unknown, not program"),
        (c.Release(99), "handle 99 is unknown, not "),
        (c.VolumeWriteFrom(TEXTURE, BUFFER, None, 1), f"handle {TEXTURE} is texture, not texture3d or texture_array"),
        (c.CopyFramebuffer(VOLUME, DEFAULT), f"handle {VOLUME} is texture3d, not framebuffer or texture"),
        (c.CopyFramebuffer(TEXTURE, TEXTURE), f"handle {TEXTURE} is texture, not framebuffer"),
        (c.QuerySamples(1, PROGRAM), f"handle {PROGRAM} is program, not query"),
        (c.ReadTexture(1, 4, BUFFER, 0, 1), f"handle {BUFFER} is buffer, not texture"),
        (c.MakeSampler(BUFFER), f"handle {BUFFER} is in use"),
        (c.MakeSampler(DEFAULT), f"handle {DEFAULT} is in use"),
    ],
    ids=lambda value: buffers.text(value) if isinstance(value, c.Command) else "",
)
def test_a_wrong_handle_is_refused(command: c.Command, told: str) -> None:
    text = refusal(c.Enable(1), command)
    assert text.startswith(f"command 1 of the buffer, {buffers.text(command)}: ") and told in text


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (c.MakeFramebuffer(7, (TEXTURE, BUFFER), None), f"handle {BUFFER} is buffer"),
        (c.MakeFramebuffer(7, (TEXTURE,), 99), "handle 99 is unknown"),
        (c.MakeFramebuffer(7, (7,), None), "handle 7 is unknown"),
        (c.Transform(99, (BUFFER,), 0, 1, 0, 1, 0), "handle 99 is unknown"),
        (c.MakeScope(7, DEFAULT, None, ((TEXTURE, 0), (BUFFER, 1)), (), ()), f"handle {BUFFER} is buffer"),
        (c.MakeScope(7, DEFAULT, None, (), ((BUFFER, 0), (TEXTURE, 1)), ()), f"handle {TEXTURE} is texture"),
        (c.MakeScope(7, DEFAULT, None, (), (), ((98, 0),)), "handle 98 is unknown"),
        (c.MakeVertexArray(7, PROGRAM, (), TEXTURE, 4), f"handle {TEXTURE} is texture"),
        (
            c.MakeVertexArray(7, PROGRAM, tuple(c.VertexContent(h, "1f", (ATTRIBUTE,)) for h in (BUFFER, 98)), None, 4),
            "handle 98 is unknown, not buffer",
        ),
    ],
    ids=lambda value: buffers.text(value) if isinstance(value, c.Command) else "",
)
def test_a_wrong_handle_is_found_where_it_is_nested(command: c.Command, told: str) -> None:
    text = refusal(command)
    assert text.startswith(f"command 0 of the buffer, {type(command).__name__}(") and told in text


def test_makes_and_frees_of_the_same_buffer_count() -> None:
    assert "command 1 of the buffer, MakeSampler(handle=7): handle 7 is in use" in refusal(
        c.MakeSampler(7), c.MakeSampler(7)
    )
    assert "command 0 of the buffer, SamplerUse(sampler=7, location=0): handle 7 is unknown" in refusal(
        c.SamplerUse(7, 0), c.MakeSampler(7)
    )
    assert "command 2 of the buffer, Release(object=7): handle 7 is unknown" in refusal(
        c.MakeSampler(7), c.Forget(7), c.Release(7)
    )
    assert "command 1 of the buffer, Forget(object=2): handle 2 is unknown" in refusal(
        c.Forget(BUFFER), c.Forget(BUFFER)
    )


@SETTINGS
@given(strategies.buffers(), st.data())
def test_one_wrong_handle_anywhere_is_refused(commands: list[c.Command], data: st.DataObject) -> None:
    """Of a valid buffer one command's own handle is changed to one that nothing has."""
    handles = [
        (i, name)
        for i, command in enumerate(commands)
        for name, hint in c.hints(type(command)).items()
        if strategies.kinds_of(hint)
    ]
    if handles:
        index, name = data.draw(st.sampled_from(handles))
        wrong = {f: getattr(commands[index], f) for f in commands[index].__struct_fields__} | {name: 1 << 50}
        commands[index] = type(commands[index])(**wrong)
        told = rf"^command {index} of the buffer, .*: handle {1 << 50} is unknown, not "
        with pytest.raises(ProtocolError, match=told):
            buffers.Checker(Stack(STACK_SIZE), LARGEST_FETCH).check(commands)


# --- spans and reads


BIG = (1 << 48) - 1


@pytest.mark.parametrize(
    "span",
    [Span(0, STACK_SIZE + 1), Span(STACK_SIZE, 1), Span(1, STACK_SIZE), Span(BIG, BIG), Span(0, BIG), Span(BIG, 1)],
    ids=str,
)
def test_a_span_outside_of_the_stack_is_refused(span: Span) -> None:
    for command in (
        c.BufferWrite(BUFFER, span, 0),
        c.MakeBuffer(7, span, 0, False),
        c.BufferClear(BUFFER, -1, 0, span),
    ):
        text = refusal(c.Enable(0), command)
        assert text.startswith(f"command 1 of the buffer, {type(command).__name__}(")
        assert text.endswith(f"is outside of a stack of {STACK_SIZE} bytes")


def test_a_span_may_reach_to_the_end_of_the_stack() -> None:
    for span in (Span(0, STACK_SIZE), Span(STACK_SIZE, 0), Span(STACK_SIZE - 1, 1)):
        checker().check([c.BufferWrite(BUFFER, span, 0)])


def test_a_read_that_is_too_large_is_refused() -> None:
    checker().check([c.ReadBuffer(1, LARGEST_FETCH, BUFFER, 0)])
    told = f"a read of more than {LARGEST_FETCH} bytes"
    assert refusal(c.ReadBuffer(1, LARGEST_FETCH + 1, BUFFER, 0)).endswith(told)
    assert refusal(c.ReadFramebuffer(1, (1 << 48) - 1, DEFAULT, None, 3, 0, 1, False, "f1")).endswith(told)


def test_the_text_of_a_refusal_is_short() -> None:
    command = c.SetUniform(99, 0, 0x1406, 1 << 16, 4, bytes(1 << 18))
    assert f"data={1 << 18} bytes" in refusal(command) and len(refusal(command)) < 300


# --- the decoder


REFUSED = {
    "nothing": "",
    "no array": "01",
    "nil": "c0",
    "a command that is no array": "9101",
    "an empty command": "9190",
    "an unknown number": "9192cd03e701",
    "a name instead of a number": "9192a6456e61626c6501",
    "a negative number": "9192ff01",
    "too few fields": "919101",
    "text for a number": "919201a131",
    "a number for a truth": "91920c01",
    "a truth for a number": "919201c3",
    "a float for a number": "919201cb3ff0000000000000",
    "nil for a number": "919201c0",
    "a number above its range": "919201ce80000000",
    "a number below its range": "91922dd3ffffffff00000000",
    "the handle zero": "9191cc00919168",
    "text that is not UTF-8": "919208a1ff",
    "bytes for text": "919208c40141",
    "a span of one": "919429029100" "00",
    "a span with a negative offset": "9194290292ff0100",
    "a map for an array": "81a17600",
    "one byte too many": "91920105" "00",
    "cut": "9192",
    "a timestamp": "919201d6ff00000000",
    "an extension": "919201d40100",
    "a reserved byte": "91c1",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_command_buffer_is_refused(body: str) -> None:
    with pytest.raises(ProtocolError, match=r"^not a command buffer: "):
        buffers.decode(bytes.fromhex(body))


LONG = ("dd", "df", "c6", "db", "91dd", "9192dd", "919208db", "91967adb", "91967ac6", "919429dd")
"""How what is to come begins, up to its length."""


@pytest.mark.parametrize("start", LONG)
def test_a_huge_length_is_not_believed(start: str) -> None:
    """The decoder must not take memory for what is not there."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            buffers.decode(bytes.fromhex(start + "ffffffff") + bytes(64))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa0", b"\x91\x92\x01\x91", b"\xdc\x00\x01"])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    count = buffers.LARGEST // len(opening)
    with pytest.raises(ProtocolError):
        buffers.decode(opening * count)
    with pytest.raises(ProtocolError):
        messages.value(opening * count)
    with pytest.raises(ProtocolError):
        messages.value(opening * count, dict[str, int])


def test_a_buffer_that_is_too_long_is_not_looked_at() -> None:
    with pytest.raises(ProtocolError, match=f"a command buffer of {buffers.LARGEST + 1} bytes"):
        buffers.decode(bytes(buffers.LARGEST + 1))
    filled = [c.SetUniform(PROGRAM, 0, 0x1406, 1, 4, bytes(buffers.LARGEST - 100))]
    assert buffers.decode(buffers.encode(filled)) == filled


def test_answers_are_checked_against_their_type() -> None:
    for answer in (None, 7, "GL_NO_ERROR", {"red": 8}):
        assert messages.value(messages.value_bytes(answer), type(answer)) == answer
    for body, kind in ((b"\xa1\xff", str), (b"\x01", str), (b"", int), (b"\x01\x01", int), (b"\x81\x80\x01", Any)):
        with pytest.raises(ProtocolError, match=r"^not an answer: "):
            messages.value(body, kind)


# --- bytes gone wrong


def survives(body: bytes) -> None:
    """Decoding and checking end, with a list of commands or with ProtocolError."""
    try:
        commands = buffers.decode(body)
        buffers.Checker(Stack(STACK_SIZE), LARGEST_FETCH).check(commands)
        again = buffers.encode(commands)
        assert buffers.encode(buffers.decode(again)) == again  # as bytes, since NaN is not equal to itself
    except ProtocolError as error:
        assert len(str(error)) < 1000


@settings(SETTINGS, max_examples=400)
@given(strategies.buffers(), EDIT_LISTS)
def test_the_decoder_survives_made_up_buffers_gone_wrong(commands: list[c.Command], edits: Any) -> None:
    survives(mutated(buffers.encode(commands), edits))


@settings(SETTINGS, max_examples=200)
@given(st.binary(max_size=64))
def test_the_decoder_survives_any_bytes(body: bytes) -> None:
    survives(body)
    survives(b"\x91" + body)


class Recorded:
    """The packets that a host received while it drew some samples, and up to which message it was before each."""

    SAMPLES = ("triangle", "uniform_blocks", "transform_feedback")

    def __init__(self) -> None:
        self.packets: list[tuple[int, bytes]] = []
        self.bodies: list[bytes] = []
        host = InProcessHost(wrap=self._listen)
        try:
            for name in self.SAMPLES:
                ctx = glremote.instance().connect(host.connect, "in-process", "a test", 430)
                importlib.import_module(f"glremote.samples.{name}").render(ctx)
                ctx.release()
        finally:
            host.close()

    def _listen(self, worker: Worker) -> None:
        receive = worker.session.receive

        def listening(packet: messages.Bytes) -> Any:
            self.packets.append((worker.session.received, bytes(packet)))
            found = receive(packet)
            self.bodies.extend(bytes(body) for message, body in found if isinstance(message, messages.Buffer))
            return found

        worker.session.receive = listening  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def traffic() -> Recorded:
    """Real traffic, recorded once."""
    return Recorded()


def test_the_recorded_traffic_is_what_it_seems(traffic: Recorded) -> None:
    assert len(traffic.bodies) >= 2 * len(Recorded.SAMPLES)
    assert sum(len(buffers.decode(body)) for body in traffic.bodies) > 150


@settings(SETTINGS, max_examples=400)
@given(data=st.data())
def test_the_decoder_survives_recorded_buffers_gone_wrong(traffic: Recorded, data: st.DataObject) -> None:
    survives(mutated(data.draw(st.sampled_from(traffic.bodies)), data.draw(EDIT_LISTS)))


@settings(SETTINGS, max_examples=400)
@given(data=st.data())
def test_a_session_survives_recorded_packets_gone_wrong(traffic: Recorded, data: st.DataObject) -> None:
    received, packet = data.draw(st.sampled_from(traffic.packets))
    session = Session(Stack(STACK_SIZE), Stack(STACK_SIZE))
    session.received = session.applied = received
    try:
        for message, body in session.receive(mutated(packet, data.draw(EDIT_LISTS))):
            if isinstance(message, messages.Buffer):
                survives(bytes(body))
    except ProtocolError as error:
        assert len(str(error)) < 1000
