"""Stacks: the writer's ring against a model that keeps every span apart, and the bounds of what a reader takes."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from glremote.protocol.errors import ProtocolError
from glremote.protocol.messages import Packed, Patch
from glremote.protocol.packing import Packer, unpack
from glremote.protocol.stacks import ALIGNMENT, GROWS, Span, Stack, joined
from tests.protocol.strategies import SETTINGS

SIZE = 256
SUBJECTS = st.sampled_from([None, "one", "other"])


class Live(NamedTuple):
    """A span that is in use, what is in it, and the writer's mark behind it."""

    span: Span
    data: bytes
    mark: int

    def places(self) -> range:
        """The bytes of the arena that are its own, up to where the next span may begin."""
        return range(self.span.offset, self.span.offset + max(ALIGNMENT, -(-self.span.size // ALIGNMENT) * ALIGNMENT))


class Ring(RuleBasedStateMachine):
    """A writer and a reader of one small arena; the model is a list of live spans, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self.writer, self.reader = Stack(SIZE), Stack(SIZE)
        self.packer = Packer(self.writer, SIZE, smallest=1)
        self.live: list[Live] = []
        self.unsent: list[Live] = []
        self.count = 0

    @rule(size=st.one_of(st.integers(0, SIZE + 20), st.integers(0, 40)), subject=SUBJECTS, alike=st.booleans())
    def push(self, size: int, subject: str | None, alike: bool) -> None:
        """Copy bytes to a span of their own."""
        self.count += 1
        data = bytes(((0 if alike else self.count) * 7 + i) % 251 + 1 for i in range(size))
        self._pushed(self.writer.push(data, subject, self.count % 4 + 1), data)

    @rule(size=st.integers(0, 60), subject=SUBJECTS)
    def reserve(self, size: int, subject: str | None) -> None:
        """Take a span and write it later, as a host does with what it reads from OpenGL."""
        self.count += 1
        span = self.writer.reserve(size)
        if span is not None:
            self.writer.view(span)[:] = data = bytes([self.count % 255 + 1]) * size
            self.writer.freshen(span, subject)
            self._pushed(span, data)
        else:
            self._pushed(None, bytes(size))

    def _pushed(self, span: Span | None, data: bytes) -> None:
        if span is None:
            assert self.live or len(data) > SIZE, "an empty stack has room for all that fits it"
            return
        assert span.size == len(data) and span.offset % ALIGNMENT == 0
        new = Live(span, data, self.writer.head)
        assert new.places().start >= 0 and new.places().stop <= SIZE
        for other in self.live:
            assert not set(new.places()) & set(other.places()), f"{span} overlaps {other.span}"
        self.live.append(new)
        self.unsent.append(new)

    @rule(largest=st.sampled_from([1, 16, 33, SIZE]))
    def send(self, largest: int) -> None:
        """What was pushed is patched: all of it, nothing else, and nothing twice."""
        spans = joined(self.writer.take_fresh(), largest)
        assert not self.writer.fresh
        places = [place for span in spans for place in range(span.offset, span.offset + span.size)]
        assert all(0 < span.size <= largest for span in spans)
        assert len(places) == len(set(places))
        pushed = {at for new in self.unsent for at in range(new.span.offset, new.span.offset + new.span.size)}
        assert pushed <= set(places) <= {at for new in self.unsent for at in new.places()}
        for span in spans:
            self.reader.apply(span.offset, bytes(self.writer.view(span)))
        self.unsent.clear()

    @rule(level=st.sampled_from([1, 2]))
    def send_packed(self, level: int) -> None:
        """The same in fewer bytes, whatever was sent before and which way."""
        self.packer.level = level
        for kind, fields, body in self.packer.patches(self.writer.take_fresh()):
            if kind is Patch:
                self.reader.apply(fields[0], body)
            else:
                unpack(self.reader, Packed(1, *fields), body)
        self.unsent.clear()

    @precondition(lambda self: len(self.live) > len(self.unsent))
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        """The oldest spans are done; only what was sent can be."""
        count = data.draw(st.integers(1, len(self.live) - len(self.unsent)))
        self.writer.pop(self.live[count - 1].mark)
        del self.live[:count]

    @rule()
    def free_again(self) -> None:
        """A mark that was passed frees nothing."""
        before = self.writer.tail
        self.writer.pop(before)
        self.writer.pop(0)
        assert self.writer.tail == before

    @invariant()
    def contents_stay(self) -> None:
        """What was pushed is there until it is freed, on both sides."""
        for live in self.live:
            assert bytes(self.writer.view(live.span)) == live.data
            if live not in self.unsent:
                assert bytes(self.reader.view(live.span)) == live.data

    @invariant()
    def sides_are_equal(self) -> None:
        """Where nothing waits to be sent, the two arenas are the same, byte for byte."""
        if not self.unsent:
            assert self.writer.memory == self.reader.memory

    @invariant()
    def no_more_than_the_arena(self) -> None:
        """The ring never laps itself."""
        assert 0 <= self.writer.head - self.writer.tail <= SIZE


TestRing = Ring.TestCase
TestRing.settings = settings(SETTINGS, max_examples=150, stateful_step_count=40)


def test_freeing_everything_frees_everything() -> None:
    stack = Stack(SIZE)
    for _ in range(100):
        assert stack.push(bytes(100)) is not None
        assert stack.push(bytes(100)) is not None
        assert stack.push(bytes(100)) is None
        stack.pop(stack.head)
        assert stack.reserve(SIZE) == Span(0, SIZE), "an empty stack begins again at the front"
        stack.pop(stack.head)


def test_neighbours_travel_as_one() -> None:
    stack = Stack(SIZE)
    for size in (5, 16, 1, 17, 3):
        assert stack.push(b"x" * size) is not None
    assert joined(stack.take_fresh(), SIZE) == [Span(0, 5 * ALIGNMENT + 3)], "the bytes between them are sent along"
    assert stack.take_fresh() == []


def test_a_span_is_never_cut_by_the_end_of_the_arena() -> None:
    stack = Stack(64)
    assert [stack.push(bytes(24)), stack.push(bytes(16))] == [Span(0, 24), Span(32, 16)]
    stack.pop(32)
    assert stack.push(bytes(32)) == Span(0, 32)
    assert joined(stack.take_fresh(), 64) == [Span(0, 48), Span(0, 32)]


def test_memory_is_allocated_before_it_is_written_and_only_once() -> None:
    asked: list[tuple[int, int]] = []
    size = 8 * GROWS
    stack = Stack(size, memoryview(bytearray(size)), lambda start, end: asked.append((start, end)))
    assert (stack.push(b"x"), asked) == (Span(0, 1), [(0, GROWS)])
    stack.reserve(2 * GROWS)
    assert asked[1:] == [(GROWS, 2 * GROWS + ALIGNMENT)]
    stack.reserve(GROWS)
    assert asked[2:] == [(2 * GROWS + ALIGNMENT, 4 * GROWS + 2 * ALIGNMENT)], "twice as much as before"
    stack.pop(stack.head)
    assert (stack.reserve(3 * GROWS), stack.reserve(5 * GROWS)) == (Span(0, 3 * GROWS), Span(3 * GROWS, 5 * GROWS))
    assert asked[3:] == [(4 * GROWS + 2 * ALIGNMENT, size)]
    stack.pop(stack.head)
    stack.reserve(size)
    assert len(asked) == 4


def test_memory_that_cannot_be_had_leaves_the_stack_as_it_was() -> None:
    memory_left = False

    def allocate(start: int, end: int) -> None:
        if not memory_left:
            raise OSError(28, "No space left on device")

    stack = Stack(SIZE, memoryview(bytearray(SIZE)), allocate)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            stack.push(b"x")
    assert (stack.head, stack.tail) == (0, 0)
    memory_left = True
    assert stack.push(b"x") == Span(0, 1)


# --- the reader's side

BIG = 1 << 48
sizes = st.one_of(st.integers(0, SIZE + 2), st.integers(0, BIG - 1))


@SETTINGS
@given(sizes, st.integers(0, SIZE + 2))
def test_a_patch_is_applied_whole_or_not_at_all(offset: int, length: int) -> None:
    stack = Stack(SIZE)
    if offset + length <= SIZE:
        stack.apply(offset, b"x" * length)
        assert bytes(stack.memory) == bytes(offset) + b"x" * length + bytes(SIZE - offset - length)
    else:
        told = f"a patch of {length} bytes at {offset} does not fit a stack of {SIZE}"
        with pytest.raises(ProtocolError, match=told):
            stack.apply(offset, b"x" * length)
        assert bytes(stack.memory) == bytes(SIZE)


@SETTINGS
@given(sizes, sizes)
def test_a_span_is_seen_whole_or_not_at_all(offset: int, size: int) -> None:
    stack = Stack(SIZE)
    if offset + size <= SIZE:
        assert len(stack.view(Span(offset, size))) == size
    else:
        with pytest.raises(ProtocolError, match=f"is outside of a stack of {SIZE} bytes"):
            stack.view(Span(offset, size))


@pytest.mark.parametrize(("offset", "length"), [(SIZE, 1), (BIG - 1, 1), (0, SIZE + 1), (SIZE - 1, 2), (1, SIZE)])
def test_nothing_is_written_beyond_the_arena(offset: int, length: int) -> None:
    with pytest.raises(ProtocolError):
        Stack(SIZE).apply(offset, bytes(length))


def test_patches_up_to_the_very_end() -> None:
    stack = Stack(SIZE)
    stack.apply(SIZE, b"")
    stack.apply(SIZE - 1, b"z")
    stack.apply(0, bytes(SIZE - 1))
    assert bytes(stack.memory) == bytes(SIZE - 1) + b"z"


def test_a_stack_begins_as_zeros() -> None:
    assert bytes(Stack(1 << 20).memory) == bytes(1 << 20)
