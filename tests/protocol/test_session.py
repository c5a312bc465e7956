"""Two cores facing each other over a link that breaks wherever it likes.

`Facing` is a client and a host reduced to their sessions: the client pushes bytes and sends buffers that name them, the
host runs the buffers in order and answers each. Hypothesis records, carries, runs, acknowledges, breaks and resumes in
any order; whatever it does, every buffer runs once and in order, with the bytes it was sent with, and every answer
arrives once.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from glremote.protocol import messages as m
from glremote.protocol import session as session_module
from glremote.protocol.errors import ProtocolError
from glremote.protocol.session import ACKNOWLEDGE_MESSAGES, ACKNOWLEDGE_SHARE, CREDIT_BYTES, CREDIT_MESSAGES, Session
from glremote.protocol.stacks import Span, Stack
from tests.protocol.strategies import SETTINGS

SIZE = 1 << 11
counts = st.integers(0, 5)


def wire(session: Session) -> list[bytes]:
    """The packets that a session has to send, as they travel."""
    return [b"".join(packet) for packet in session.packets()]


def only(found: list[tuple[m.Message, memoryview]]) -> Any:
    """The one message that was received."""
    ((message, _),) = found
    return message


def numbers(found: list[tuple[Any, memoryview]]) -> list[int]:
    """The numbers of what was received."""
    return [message.number for message, _ in found]


class Facing(RuleBasedStateMachine):
    """A client, a host, and what is on its way between them."""

    CREDIT = 12  # messages, so that it is used up now and then

    def __init__(self) -> None:
        super().__init__()
        session_module.CREDIT_MESSAGES = self.CREDIT
        self.client, self.host = Session(Stack(SIZE), Stack(SIZE)), Session(Stack(SIZE), Stack(SIZE))
        self.up: deque[bytes] = deque()
        self.down: deque[bytes] = deque()
        self.sent: list[bytes] = []  # the data of each buffer
        self.to_run: deque[tuple[m.Buffer, bytes]] = deque()
        self.ran: list[int] = []
        self.parts: dict[int, list[bytes]] = {}
        self.answers: dict[int, bytes] = {}

    # --- the client

    @rule(sizes=st.lists(st.integers(0, 300), max_size=3), ahead=st.booleans())
    def record(self, sizes: list[int], ahead: bool) -> None:
        """Send a buffer that names some spans; their patches may go ahead, and without a connection all is kept."""
        if not self.client.has_room():
            return
        index, spans, whole = len(self.sent), [], b""
        for place, size in enumerate(sizes):
            data = bytes((index * 31 + place * 7 + i) % 255 + 1 for i in range(size))
            if (span := self.client.writes.push(data)) is None:
                break
            spans.append((span.offset, span.size))
            whole += data
            if ahead:
                self.client.send_patches()
        self.sent.append(whole)
        self.client.send_patches()
        body = msgspec.msgpack.encode((index, spans))
        self.client.send(m.Buffer, 0, body=body, mark=self.client.writes.head)

    @rule(size=st.integers(1, 100))
    def patch(self, size: int) -> None:
        """Send bytes for a buffer that comes later."""
        if self.client.has_room() and self.client.writes.push(b"p" * size) is not None:
            self.client.send_patches()

    @rule(count=counts)
    def carry_down(self, count: int) -> None:
        """Deliver packets of the host's."""
        self.down.extend(wire(self.host))
        for _ in range(min(count, len(self.down))):
            for message, _ in self.client.receive(self.down.popleft()):
                self._answered(message)

    def _answered(self, message: Any) -> None:
        assert isinstance(message, m.Answer) and message.span is not None
        assert message.ticket not in self.answers, "an answer came twice"
        parts = self.parts.setdefault(message.ticket, [])
        assert message.start == sum(map(len, parts))
        parts.append(bytes(self.client.reads.view(message.span)))
        if sum(map(len, parts)) == message.total:
            self.answers[message.ticket] = b"".join(parts)
        self.client.done(message.number)

    # --- the host

    @rule(count=counts)
    def carry_up(self, count: int) -> None:
        """Deliver packets of the client's."""
        self.up.extend(wire(self.client))
        for _ in range(min(count, len(self.up))):
            for message, body in self.host.receive(self.up.popleft()):
                assert isinstance(message, m.Buffer)
                self.to_run.append((message, bytes(body)))

    @rule(count=counts)
    def run(self, count: int) -> None:
        """Run buffers, and answer each in two parts; stand still while there is no room for the answers."""
        while count and self.to_run and self.host.has_room():
            buffer, body = self.to_run[0]
            index, spans = msgspec.msgpack.decode(body)
            data = b"".join(bytes(self.host.reads.view(Span(*span))) for span in spans)
            assert data == self.sent[index], "a buffer ran with other bytes than it was sent with"
            answer = data[::-1] + b"."
            room = self.host.writes
            if room.head != room.tail and SIZE - (room.head - room.tail) < 2 * len(answer) + 64:
                return
            self.ran.append(index)
            self.to_run.popleft()
            half = len(answer) // 2
            for start, piece in ((0, answer[:half]), (half, answer[half:])):
                if len(piece):
                    span = room.push(piece)
                    assert span is not None
                    self.host.send_patches()
                    self.host.send(m.Answer, index + 1, start, len(answer), span, None, mark=room.head)
            self.host.done(buffer.number)
            count -= 1

    # --- both

    @rule(clients=st.booleans(), at_once=st.booleans())
    def acknowledge(self, clients: bool, at_once: bool) -> None:
        """One side says what it has applied; without a connection that is lost."""
        (self.client if clients else self.host).acknowledge(at_once)

    @precondition(lambda self: self.client.connected)
    @rule(up=counts, down=counts)
    def lose(self, up: int, down: int) -> None:
        """The connection breaks: some packets still arrive, the others never do."""
        self.carry_up(up)
        self.carry_down(down)
        self._break()

    def _break(self) -> None:
        self.up.clear()
        self.down.clear()
        self.client.disconnect()
        self.host.disconnect()
        assert not self.client.packets() and not self.host.packets()

    @precondition(lambda self: not self.client.connected)
    @rule(arrives=st.sampled_from(["both", "both", "resume", "nothing"]))
    def resume(self, arrives: str) -> None:
        """A new connection; either of its first messages may be lost with it."""
        resume = m.encode(m.Resume(self.client.resuming()))
        if arrives == "nothing":
            return
        asked = only(self.host.receive(resume))
        resumed = m.encode(m.Resumed(self.host.resuming()))
        self.host.resume(asked.applied)
        if arrives == "resume":
            self._break()
            return
        self.client.resume(only(self.client.receive(resumed)).applied)

    @invariant()
    def once_and_in_order(self) -> None:
        """What ran is a beginning of what was sent."""
        assert self.ran == list(range(len(self.ran)))
        assert all(answer == self.sent[ticket - 1][::-1] + b"." for ticket, answer in self.answers.items())

    @invariant()
    def credit_bounds_what_is_kept(self) -> None:
        """Nobody runs ahead further than the credit and one last send: a buffer, or a part of an answer."""
        for side in (self.client, self.host):
            assert len(side._kept) <= self.CREDIT + 8

    def teardown(self) -> None:
        """Let everything arrive: nothing may be missing, and nothing be kept."""
        if not self.client.connected:
            self.resume("both")
        for _ in range(200):
            for step in (self.carry_up, self.run, self.carry_down):
                step(1 << 20)
            self.acknowledge(True, True)
            self.acknowledge(False, True)
            if not self.client._kept and not self.host._kept:
                break
        session_module.CREDIT_MESSAGES = CREDIT_MESSAGES
        assert self.ran == list(range(len(self.sent)))
        assert sorted(self.answers) == [index + 1 for index in range(len(self.sent))]
        for sender, receiver in ((self.client, self.host), (self.host, self.client)):
            assert not sender._kept and sender._kept_bytes == 0 and sender.has_room()
            assert receiver.applied == receiver.received == sender.sent
            assert sender.writes.memory == receiver.reads.memory
        assert self.host.writes.head == self.host.writes.tail


TestFacing = Facing.TestCase
TestFacing.settings = settings(SETTINGS, max_examples=250, stateful_step_count=40)


# --- one thing at a time


def pair(size: int = SIZE) -> tuple[Session, Session]:
    """A client and a host."""
    return Session(Stack(size), Stack(size)), Session(Stack(size), Stack(size))


def numbered(*numbers: int) -> bytes:
    """A packet of buffers with these numbers."""
    return b"".join(m.encode(m.Buffer(number, 0)) for number in numbers)


def test_numbers_count_patches_and_buffers_together() -> None:
    client, host = pair()
    client.writes.push(b"one")
    client.send_patches()
    assert client.send(m.Buffer, 0, body=b"\x90") == 2
    client.writes.push(b"two")
    client.send_patches()
    assert client.send(m.Buffer, 0, body=b"\x90") == 4
    (packet,) = wire(client)
    assert numbers(host.receive(packet)) == [2, 4]
    assert (host.received, host.applied) == (4, 1)
    host.done(2)
    assert host.applied == 2
    host.done(4)
    assert host.applied == 4


def test_patches_behind_the_last_buffer_are_applied_with_it() -> None:
    """Nothing comes after them that would be done; without an acknowledgement they would be kept for ever."""
    client, host = pair()
    client.send(m.Buffer, 0, body=b"\x90")
    client.writes.push(b"for a buffer that is never sent")
    client.send_patches()
    (packet,) = wire(client)
    host.receive(packet)
    assert host.applied == 0
    host.done(1)
    host.acknowledge()
    (packet,) = wire(host)
    assert client.receive(packet) == [] and not client._kept


def test_what_comes_twice_is_dropped_before_anything_is_touched() -> None:
    client, host = pair()
    client.writes.push(b"first")
    client.send_patches()
    client.send(m.Buffer, 0, body=b"\x90")
    (packet,) = wire(client)
    assert len(host.receive(packet)) == 1
    assert host.receive(packet) == []
    assert host.receive(m.encode(m.Patch(1, 0), b"other") + b"other") == []
    assert bytes(host.reads.memory[:5]) == b"first"
    # Its body may even be what no stack could take.
    assert host.receive(m.encode(m.Patch(1, SIZE), b"other") + b"other") == []


@pytest.mark.parametrize(("sent", "told"), [((2,), "message 2 after 0"), ((1, 3), "message 3 after 1")])
def test_a_gap_is_refused(sent: tuple[int, ...], told: str) -> None:
    with pytest.raises(ProtocolError, match=told):
        pair()[1].receive(numbered(*sent))


def test_a_patch_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ProtocolError, match="does not fit a stack"):
        pair()[1].receive(m.encode(m.Patch(1, SIZE), b"x") + b"x")


@pytest.mark.parametrize(
    "message",
    [m.Applied(0), m.Goodbye(), m.Resume(0), m.Answer(1, 1, 0, 0, None, None), m.Hello(1, "", "", 330)],
    ids=lambda message: type(message).__name__,
)
def test_a_body_where_none_is_allowed_is_refused(message: m.Message) -> None:
    with pytest.raises(ProtocolError, match=f"{type(message).__name__} has no body"):
        pair()[1].receive(m.encode(message, b"x") + b"x")


def test_an_impossible_acknowledgement_is_refused() -> None:
    client, _ = pair()
    client.send(m.Buffer, 0, body=b"\x90")
    client.receive(m.encode(m.Applied(1)))
    client.receive(m.encode(m.Applied(0)))  # an old one says nothing new
    with pytest.raises(ProtocolError, match="message 2 is said to be applied, and 1 was the last"):
        client.receive(m.encode(m.Applied(2)))
    client.disconnect()
    with pytest.raises(ProtocolError, match="message 2 is said to be applied, and 1 was the last"):
        client.resume(2)


def test_spans_are_free_when_their_buffer_is_applied() -> None:
    client, _ = pair()
    for _ in range(2):
        client.writes.push(bytes(SIZE // 2))
        client.send_patches()
        client.send(m.Buffer, 0, body=b"\x90", mark=client.writes.head)
    assert client.writes.push(b"x") is None
    client.receive(m.encode(m.Applied(1)))
    assert client.writes.push(b"x") is None, "a patch alone frees nothing"
    client.receive(m.encode(m.Applied(2)))
    assert client.writes.push(b"x") == Span(0, 1)


def test_credit_in_messages() -> None:
    client, _ = pair()
    for _ in range(CREDIT_MESSAGES):
        assert client.has_room()
        client.send(m.Buffer, 0, body=b"\x90")
    assert not client.has_room()
    client.receive(m.encode(m.Applied(1)))
    assert client.has_room()


def test_credit_in_bytes_always_admits_the_greatest_buffer() -> None:
    client, _ = pair()
    greatest = bytes(m.LARGEST_BODY)
    count = 0
    while client.has_room():
        client.send(m.Buffer, 0, body=greatest)
        count += 1
        assert client._kept_bytes <= CREDIT_BYTES + 1000
    assert 1 < count < CREDIT_MESSAGES
    client.receive(m.encode(m.Applied(1)))
    assert client.has_room()


def test_patches_cost_no_credit_in_bytes() -> None:
    client, _ = pair(64 << 20)
    client.writes.push(bytes(40 << 20))
    client.send_patches()
    assert client.has_room()


def test_acknowledgements_wait_for_one_another() -> None:
    _, host = pair()
    for number in range(1, 2 * ACKNOWLEDGE_MESSAGES + 1):
        host.receive(numbered(number))
        host.done(number)
        host.acknowledge(at_once=False)
    packet = b"".join(wire(host))
    assert [message for message, _ in m.decode(packet)] == [
        m.Applied(ACKNOWLEDGE_MESSAGES), m.Applied(2 * ACKNOWLEDGE_MESSAGES),
    ]  # fmt: skip
    host.acknowledge()
    assert not host.packets(), "there is no news"


def test_acknowledgements_do_not_wait_while_much_of_the_stack_is_held() -> None:
    _, host = pair()
    share = SIZE // ACKNOWLEDGE_SHARE
    for number, size in ((1, share - 1), (2, 0), (3, 1), (4, share - 1)):
        host.receive(numbered(number))
        host.done(number, size)
        host.acknowledge(at_once=False)
    assert [message for message, _ in m.decode(b"".join(wire(host)))] == [m.Applied(3)]


def test_shared_stacks_need_no_patches() -> None:
    memory = memoryview(bytearray(2 * SIZE))
    up, down = memory[:SIZE], memory[SIZE:]
    client = Session(Stack(SIZE, up), Stack(SIZE, down))
    host = Session(Stack(SIZE, down), Stack(SIZE, up))
    span = client.writes.push(b"seen at once")
    assert span is not None
    client.send_patches()
    assert wire(client) == []
    client.send(m.Buffer, 0, body=b"\x90", mark=client.writes.head)
    assert client.outgoing
    assert [message for message, _ in host.receive(b"".join(wire(client)))] == [m.Buffer(1, 0)]
    assert bytes(host.reads.view(span)) == b"seen at once"
    host.done(1)
    host.acknowledge()
    client.receive(b"".join(wire(host)))
    assert client.writes.head == client.writes.tail and not client._kept


@settings(SETTINGS, max_examples=30)
@given(delivered=st.integers(0, 12), ran=st.booleans())
def test_resuming_in_the_middle_of_many_patches(delivered: int, ran: bool) -> None:
    """A large upload is cut between two of its patches; what arrived is not sent again."""
    client, host = pair(16 << 20)
    data = bytes(range(251)) * (9 << 12)
    span = client.writes.push(data)
    assert span is not None
    client.send_patches()
    client.send(m.Buffer, 0, body=b"\x90", mark=client.writes.head)
    patches = client.sent - 1
    assert patches == -(-len(data) // m.LARGEST_BODY) > 5
    messages = [m.encode(message, body) + body for packet in wire(client) for message, body in m.decode(packet)]
    for message in islice(messages, delivered):
        for number in numbers(host.receive(message)):
            if ran:
                host.done(number)
    client.disconnect()
    host.disconnect()
    client.resume(host.applied)
    host.resume(client.applied)
    assert client.resends == len(messages) - host.applied == len(messages) - min(delivered, patches + ran)
    to_do = [number for packet in wire(client) for number in numbers(host.receive(packet))]
    assert to_do == ([patches + 1] if delivered <= patches else [])
    assert host.reads.view(span) == data
    host.done(patches + 1)
    host.acknowledge()
    client.receive(b"".join(wire(host)))
    assert not client._kept and client.writes.head == client.writes.tail


def test_packets_are_never_too_long() -> None:
    client, _ = pair(16 << 20)
    client.writes.push(bytes(10 << 20))
    client.send_patches()
    for _ in range(300):
        client.send(m.Buffer, 0, body=bytes(10_000))
    packets = wire(client)
    assert len(packets) > 3 and all(len(packet) <= m.LARGEST_PACKET for packet in packets)
    assert not client.packets(), "they are taken once"


def test_bodies_are_not_copied() -> None:
    client, _ = pair()
    client.writes.push(b"carried")
    client.send_patches()
    ((_, body),) = client.packets()
    assert isinstance(body, memoryview) and body.obj is client.writes.memory.obj


def test_a_message_that_is_too_large_takes_no_number() -> None:
    client, _ = pair()
    with pytest.raises(ProtocolError, match="too large"):
        client.send(m.Buffer, 0, body=bytes(m.LARGEST_BODY + 1))
    assert client.sent == 0 and not client._kept and not client.packets()
    assert client.send(m.Buffer, 0, body=b"\x90") == 1


def test_what_has_no_number_is_lost_with_the_connection() -> None:
    client, host = pair()
    client.tell(m.Goodbye())
    client.disconnect()
    client.tell(m.Goodbye())
    assert not client.packets()
    client.resume(0)
    client.tell(m.Goodbye())
    assert only(host.receive(b"".join(wire(client)))) == m.Goodbye()


def test_no_more_is_patched_than_can_be_free() -> None:
    """Else a few bytes, which say that a whole stack is as another part of it, could be sent without end."""
    client, host = pair()
    for _ in range(3):  # as often as it is acknowledged
        assert client.writes.push(bytes(SIZE)) is not None
        client.send_patches()
        client.send(m.Buffer, 0, body=b"\x90", mark=client.writes.head)
        for packet in wire(client):
            for number in numbers(host.receive(packet)):
                host.done(number)
        host.acknowledge()
        for packet in wire(host):
            client.receive(packet)
    host.receive(m.encode(m.Packed(7, 0, SIZE, 0, 0)))
    with pytest.raises(ProtocolError, match="message 8 patches what its sender cannot know to be free"):
        host.receive(m.encode(m.Packed(8, 0, 1, 0, 0)))
    host.receive(m.encode(m.Buffer(8, 0), b"\x90") + b"\x90")
    with pytest.raises(ProtocolError, match="message 9 patches"):
        host.receive(m.encode(m.Patch(9, 0), b"x") + b"x")
    host.done(8)
    with pytest.raises(ProtocolError, match="message 9 patches"):
        host.receive(m.encode(m.Patch(9, 0), b"x") + b"x")
    host.acknowledge()
    host.receive(m.encode(m.Patch(9, 0), b"x") + b"x")


def test_what_is_patched_behind_what_waits_is_not_acknowledged_with_it() -> None:
    _, host = pair()
    for number in (1, 3):
        half = bytes(SIZE // 2)
        host.receive(m.encode(m.Patch(number, 0), half) + half)
        host.receive(m.encode(m.Buffer(number + 1, 0), b"\x90") + b"\x90")
    host.done(2)
    host.acknowledge()
    host.receive(m.encode(m.Patch(5, 0), half) + half)
    with pytest.raises(ProtocolError, match="message 6 patches"):
        host.receive(m.encode(m.Patch(6, 0), b"x") + b"x")


def test_resuming_acknowledges() -> None:
    _, host = pair()
    whole = bytes(SIZE)
    host.receive(m.encode(m.Patch(1, 0), whole) + whole)
    host.disconnect()
    assert host.resuming() == 1
    host.resume(0)
    host.receive(m.encode(m.Patch(2, 0), whole) + whole)
