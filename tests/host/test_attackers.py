"""Sessions that attack: a real `glremote serve` with limits, and a client that keeps no rule (tests/attacker.py).

Whatever it says ends its own session, with a reason, or comes to nothing. Another session works on all the while.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import moderngl
import msgspec
import numpy as np
import pytest
from numcodecs import blosc

import glremote
from glremote.host.serving import LocalHost
from glremote.link.links import LinkBroken
from glremote.protocol import commands as c
from glremote.protocol.messages import (
    LARGEST_BODY,
    VERSION,
    Answer,
    Applied,
    Buffer,
    Challenge,
    Fault,
    Greeting,
    Hello,
    Lost,
    Notice,
    Packed,
    Proof,
    Refused,
    Resume,
    Resumed,
    decode,
    encode,
)
from glremote.protocol.session import CREDIT_MESSAGES
from glremote.protocol.stacks import Span
from tests.attacker import BINARY, DEADLINE, PING, Attacker, frame
from tests.host.test_strangers import resident
from tests.processes import children

LIMITS = "objects=1000,object-bytes=64m,buffer-seconds=3"
MIB = 1 << 20


@pytest.fixture(scope="module")
def host() -> Iterator[LocalHost]:
    """A host with limits."""
    with LocalHost("--limit", LIMITS, "--max-sessions", "64", "--worker-memory", "4000") as found:
        yield found


@pytest.fixture(scope="module")
def other(host: LocalHost) -> Iterator[moderngl.Buffer]:
    """A session that has nothing to do with it."""
    ctx = glremote.create_context(host.url, token=host.token, near=False)
    yield ctx.buffer(b"undisturbed")
    ctx.release()


@pytest.fixture
def attacker(host: LocalHost, other: moderngl.Buffer) -> Iterator[Attacker]:
    """A session that attacks; the other one works on behind it."""
    attacker = Attacker(host)
    yield attacker
    attacker.link.close()
    assert other.read() == b"undisturbed"


Says = Callable[[Attacker], bytes]


def head(content: Any) -> Says:
    """A message with a head of anything."""
    data = content if isinstance(content, bytes) else msgspec.msgpack.encode(content)
    return lambda attacker: len(data).to_bytes(2, "big") + bytes(4) + data


def body(content: Any) -> Says:
    """A command buffer of anything."""
    data = content if isinstance(content, bytes) else msgspec.msgpack.encode(content)
    return lambda attacker: attacker.numbered(Buffer, 0, body=data)


def buffer(*commands: c.Command) -> Says:
    """A command buffer."""
    return lambda attacker: attacker.buffer(commands)


def says(message: Any) -> Says:
    """A message."""
    return lambda attacker: encode(message)


A_BUFFER = c.MakeBuffer(2, None, 64, False)
A_TEXTURE = c.MakeTexture(3, (4, 4), 4, None, 0, 1, "f1", 0)
A_SAMPLER = c.MakeSampler(4)
BOMB = bytes(blosc.compress(np.zeros(64 * MIB, np.uint8), b"zstd", 9, 1))
"""64 MiB of zeros, packed."""
LESS = bytes(blosc.compress(np.zeros(LARGEST_BODY, np.uint8), b"zstd", 9, 1))

ENDS: dict[str, tuple[Says, str]] = {
    "a decompression bomb": (lambda a: a.numbered(Packed, 0, len(BOMB), None, 0, body=BOMB), "is not .* bytes, packed"),
    "a bomb that says its size": (
        lambda a: a.numbered(Packed, 0, 64 * MIB, None, 0, body=BOMB), "cannot know to be free",
    ),
    "a bomb that fits the stack": (
        lambda a: a.numbered(Packed, 0, 16 * MIB, None, 0, body=BOMB), "is not 16777216 bytes, packed",
    ),
    "a bomb that says less than it is": (
        lambda a: a.numbered(Packed, 0, 1000, None, 0, body=LESS), "is not 1000 bytes, packed",
    ),
    "a patch of the whole stack, again and again": (
        lambda a: b"".join(a.numbered(Packed, 0, 32 * MIB, 0, 0) for _ in range(100_000)), "cannot know to be free",
    ),
    "a patch beyond the stack": (lambda a: a.patch(32 * MIB - 1, b"xy"), "does not fit a stack"),
    "a handle of another type": (buffer(A_BUFFER, c.ReadTexture(1, 64, 2, 0, 1)), "handle 2 is buffer, not texture"),
    "a handle of another type, nested": (
        buffer(A_SAMPLER, c.MakeFramebuffer(5, (4,), None)), "handle 4 is sampler, not ",
    ),
    "a handle that is none": (buffer(c.BufferOrphan(99, 1)), "handle 99 is unknown"),
    "a handle of the session before": (buffer(c.Release(2)), "handle 2 is unknown"),
    "a handle twice": (buffer(A_BUFFER, A_BUFFER), "handle 2 is in use"),
    "a span beyond the stack": (
        buffer(A_BUFFER, c.BufferWrite(2, Span(32 * MIB - 8, 64), 0)), "outside of a stack",
    ),
    "a read of too much": (buffer(A_BUFFER, c.ReadBuffer(1, (1 << 30) + 1, 2, 0)), "a read of more than"),
    "a message of another number": (lambda a: encode(Buffer(7, 0), b"\x90") + b"\x90", "message 7 after 0"),
    "an array of four thousand million": (body(b"\xdd\xff\xff\xff\xff"), "not a command buffer"),
    "a text of four thousand million": (head(b"\x92\x08\xdb\xff\xff\xff\xff"), "not a message"),
    "a head of sixty thousand arrays": (head(b"\x91" * 60_000 + b"\xc0"), "not a message"),
    "a buffer of a million arrays": (body(b"\x91" * MIB), "not a command buffer"),
    "a buffer of half a million maps": (body(b"\x91\x81\x01" * (MIB // 3)), "not a command buffer"),
    "a value of a million arrays": (body(b"\x91\x92\x14" + b"\x91" * (MIB - 4) + b"\x90"), "not a command buffer"),
    "a text that is not UTF-8": (body(b"\x91\x92\x08\xa2\xff\xfe"), "not a command buffer"),
    "a command that there is not": (body([[9999]]), "not a command buffer"),
    "a message that there is not": (head([99]), "not a message"),
    "half a message": (lambda a: b"\0\x05\0\0\0\0\x91", "ends within a message"),
    "a body where there is none": (lambda a: encode(Applied(0), b"x") + b"x", "has no body"),
    "a replay within what is kept": (
        buffer(c.ClearErrors(), c.KeepCommands(2, 1), c.Replay(2), c.KeepCommands(3, 2)), "stands before it, which is",
    ),
    "a replay of itself": (buffer(c.Replay(2), c.KeepCommands(2, 1)), "handle 2 is unknown"),
    "kept commands that are not there": (buffer(c.KeepCommands(2, 1 << 30)), "stand before it to be kept"),
    "more than its credit": (
        lambda a: b"".join(a.numbered(Buffer, 0, body=b"\x90") for _ in range(CREDIT_MESSAGES + 1)), "sender's credit",
    ),
    "an acknowledgement of what was never sent": (says(Applied(1)), "said to be applied"),
    "Hello once more": (says(Hello(VERSION, "", "", 430)), "carries the session already"),
    "Resume in the middle": (says(Resume(0)), "carries the session already"),
    "Resume with a number that was never sent": (says(Resume(1 << 52)), "carries the session already"),
    "Resume a thousand times": (lambda a: 1000 * encode(Resume(0)), "carries the session already"),
    "a proof where none was asked for": (says(Proof(b"", b"")), "Proof out of place"),
    "what only a host says": (says(Lost("\x1b[31m")), "Lost out of place"),
    "a notice": (says(Notice("\x1b[31m")), "Notice out of place"),
    "a challenge": (says(Challenge(b"")), "Challenge out of place"),
    "an answer": (lambda a: a.numbered(Answer, 1, 0, 0, None, None), "Answer out of place"),
    "a fault": (lambda a: a.numbered(Fault, 0, 1, 0, "", ("", ""), 0), "Fault out of place"),
}  # fmt: skip
"""What ends a session at once, and why."""


@pytest.mark.parametrize("name", ENDS)
def test_what_breaks_the_protocol_ends_its_own_session(attacker: Attacker, name: str) -> None:
    says, why = ENDS[name]
    attacker.say(says(attacker))
    reason = attacker.lost()
    assert re.search(why, reason), reason
    assert len(reason) < 1000 and reason.isprintable()


HELLOS = {
    "another version": (Hello(VERSION + 1, "a", "b", 430), Refused),
    "a negative version": (Hello(-(1 << 62), "a", "b", 430), Refused),
    "names of 60 KB": (Hello(VERSION, "a" * 30_000, "b" * 30_000, 430), Greeting),
    "no OpenGL": (Hello(VERSION, "a", "b", 0), Refused),
    "negative OpenGL": (Hello(VERSION, "a", "b", -430), Refused),
    "endless OpenGL": (Hello(VERSION, "a", "b", (1 << 63) - 1), Refused),
    "a distance that is no number": (Hello(VERSION, "a", "b", 430, math.nan), Greeting),
    "an endless distance": (Hello(VERSION, "a", "b", 430, math.inf), Greeting),
    "a negative distance": (Hello(VERSION, "a", "b", 430, -math.inf), Greeting),
}


@pytest.mark.parametrize("name", HELLOS)
def test_whatever_is_said_at_first_is_answered(host: LocalHost, other: moderngl.Buffer, name: str) -> None:
    hello, kind = HELLOS[name]
    attacker = Attacker(host, hello)
    assert isinstance(attacker.next(), kind)
    if kind is Greeting:
        attacker.say(attacker.buffer([A_BUFFER, c.ReadBuffer(1, 64, 2, 0)]))
        assert isinstance(attacker.until(Answer), Answer)
    attacker.link.close()
    assert other.read() == b"undisturbed"


def test_a_message_that_is_too_large(attacker: Attacker) -> None:
    """Past what a packet may have it ends the session, and past twice of that it is not even taken."""
    attacker.raw(frame(BINARY, bytes(8 * MIB + 1)))
    with pytest.raises(LinkBroken, match="1009"):
        while True:
            attacker.link.receive(DEADLINE)
    attacker.link = attacker.resume()
    attacker.say(encode(Resume(0)))
    assert isinstance(attacker.until(Resumed), Resumed)
    attacker.say(bytes(4 * MIB + 1))
    assert "a packet of 4194305 bytes; the greatest has 4194304" in attacker.lost()


def test_commands_that_run_commands_have_an_end(attacker: Attacker) -> None:
    """A buffer of 1 MiB that replays 1 MiB, two hundred thousand times."""
    attacker.say(attacker.buffer([*[c.ClearErrors()] * 100_000, c.KeepCommands(2, 100_000)]))
    began = time.monotonic()
    attacker.say(attacker.buffer([c.Replay(2)] * 200_000))
    assert "longer than the 3 s that buffer-seconds allows here" in attacker.lost()
    assert time.monotonic() - began < DEADLINE


def test_many_epochs_are_many_faults_and_nothing_more(attacker: Attacker) -> None:
    for epoch in range(500):
        attacker.say(attacker.buffer([c.ClearErrors(), c.DepthFunc("?")], epoch))
        fault = attacker.until(Fault)
        assert isinstance(fault, Fault) and fault.epoch == epoch
        attacker.say(encode(Applied(fault.number)))
    attacker.say(attacker.buffer([A_BUFFER, c.ReadBuffer(1, 64, 2, 0)], 500))
    assert isinstance(attacker.until(Answer), Answer)


# --- memory


@pytest.fixture(scope="module")
def frugal() -> Iterator[LocalHost]:
    """A host without warm workers, so that each of its processes is a session's."""
    with LocalHost("--limit", LIMITS, "--warm", "0") as found:
        yield found


class Memory:
    """How much a session's worker and the gateway have taken since it began."""

    def __init__(self, host: LocalHost) -> None:
        before = set(children(host.pid))
        self.attacker = Attacker(host)
        (self._worker,) = set(children(host.pid)) - before
        self._gateway = host.pid
        self._before = resident(self._worker), resident(self._gateway)

    @property
    def worker(self) -> int:
        """Bytes; none once it was ended."""
        try:
            return resident(self._worker) - self._before[0]
        except (OSError, ValueError):  # no such process, or what is left of one
            return 0

    @property
    def gateway(self) -> int:
        """Bytes."""
        return resident(self._gateway) - self._before[1]


@pytest.fixture
def memory(frugal: LocalHost) -> Iterator[Memory]:
    """Of a session that attacks."""
    memory = Memory(frugal)
    yield memory
    memory.attacker.link.close()


READS = 300


@pytest.mark.parametrize("together", [True, False], ids=["in one buffer", "in a buffer each"])
def test_answers_that_are_never_acknowledged_wait(memory: Memory, together: bool) -> None:
    """Of 300 MiB that are asked for no more than the credit is kept, by anybody; and in the end all of it comes."""
    attacker = memory.attacker
    attacker.say(attacker.buffer([c.MakeBuffer(2, None, MIB, False)]))
    reads = [c.ReadBuffer(number + 1, MIB, 2, 0) for number in range(READS)]
    attacker.say(*([attacker.buffer(reads)] if together else [attacker.buffer([read]) for read in reads]))
    answered = sum(isinstance(message, Answer) for message in attacker.everything(2.0))
    assert 0 < answered < READS // 2
    assert memory.worker < 128 * MIB and memory.gateway < 32 * MIB
    attacker.say(encode(Applied(2 * answered)))  # a patch, and the answer that names it
    while answered < READS:
        found = attacker.until(Answer)
        assert isinstance(found, Answer)
        answered += 1
        attacker.say(encode(Applied(found.number)))


def test_handles_of_what_is_never_made_have_a_bound(memory: Memory) -> None:
    attacker = memory.attacker
    attacker.say(attacker.buffer([c.DepthFunc("?")]))
    assert isinstance(attacker.until(Fault), Fault)
    with contextlib.suppress(LinkBroken):
        for first in range(2, 2_000_000, 50_000):
            attacker.say(attacker.buffer([c.MakeSampler(first + number) for number in range(50_000)]))
            attacker.heard += [message for packet in attacker.link.receive() for message, _ in decode(packet)]
            assert memory.worker < 256 * MIB
    assert "more than 1049576 handles live" in attacker.lost()


def test_what_is_kept_has_a_bound(memory: Memory) -> None:
    """A thousand recordings of a MiB of commands and 16 MiB of data each."""
    attacker = memory.attacker
    attacker.say(attacker.buffer([c.MakeBuffer(2, None, 16 * MIB, False)]))
    faults = 0
    for number in range(40):
        data = c.BufferWrite(2, Span(0, 8 * MIB), 0)
        attacker.say(attacker.buffer([data, *[c.ClearErrors()] * 10_000, c.KeepCommands(10 + number, 10_001)], number))
        for packet in attacker.link.receive():
            faults += sum(isinstance(message, Fault) for message, _ in decode(packet))
    attacker.say(attacker.buffer([c.Finish(1)], 1000))
    while not isinstance(found := attacker.next(), Answer):
        assert not isinstance(found, Lost), found
        faults += isinstance(found, Fault)
    assert 30 < faults < 40
    assert memory.worker < 256 * MIB


# --- what belongs to others

PATTERN = bytes(range(1, 252))
COLOUR = b"\x80\x40\x20\xff"
SIZES = ((8, 4), (32, 32), (256, 128))
"""Of what is written and released: what comes next has its memory, where it is as large and a driver does not zero."""
EACH = 4
SPY = """#version 430
layout (local_size_x = 64) in;
layout (std430, binding = 0) buffer Theirs { uint theirs[]; };
layout (std430, binding = 1) buffer Ours { uint ours[]; };
uniform int at;
void main() { ours[gl_GlobalInvocationID.x] = theirs[at + int(gl_GlobalInvocationID.x)]; }
"""


def write(ctx: moderngl.Context, size: tuple[int, int]) -> list[Any]:
    """Objects of a size that are full of the pattern, or of the colour."""
    count = size[0] * size[1] * 4
    data = (PATTERN * (count // len(PATTERN) + 1))[:count]
    made: list[Any] = [ctx.buffer(data), ctx.texture(size, 4, data)]
    framebuffer = ctx.framebuffer([ctx.renderbuffer(size, 4), ctx.texture(size, 4)])
    framebuffer.clear(0.5, 0.25, 0.125, 1.0)
    assert framebuffer.read(components=4)[:4] == COLOUR
    return [*made, framebuffer, *framebuffer.color_attachments]


def spy_on(ctx: moderngl.Context, size: tuple[int, int]) -> Iterator[bytes]:
    """Whatever can be read of new objects of a size, without writing to them."""
    width, height = size
    count = width * height * 4
    empty = ctx.framebuffer([ctx.renderbuffer(size, 4), ctx.texture(size, 4)], ctx.depth_renderbuffer(size))
    for number in (0, 1):  # and beyond it, where OpenGL writes nothing
        yield empty.read((-width, -height, 2 * width, 2 * height), components=4, attachment=number)
    yield ctx.buffer(reserve=count).read()
    for dtype in ("f1", "f2", "f4", "u1"):
        yield ctx.texture(size, 4, dtype=dtype).read()
    yield ctx.texture_array((*size, 4), 4).read()
    yield ctx.texture_cube((height, height), 4).read(3)
    ours, theirs = ctx.buffer(reserve=count), ctx.buffer(reserve=count)
    ctx.copy_buffer(ours, theirs)
    yield ours.read()
    shader: Any = ctx.compute_shader(SPY)
    theirs.bind_to_storage_buffer(0)
    ours.bind_to_storage_buffer(1)
    for at in (0, count // 8, count, 1 << 20, -count):
        shader["at"].value = at
        shader.run(max(1, count // 256))
        yield ours.read()


def test_memory_of_others_is_not_to_be_read(host: LocalHost) -> None:
    """A session reads all that it did not write, while and after another has it full of a pattern, and itself too."""
    victim, spy = (glremote.create_context(host.url, token=host.token, near=False, require=430) for _ in range(2))
    theirs = [made for size in SIZES for _ in range(EACH) for made in write(victim, size)]
    for size in SIZES:
        ours = [made for _ in range(EACH) for made in write(spy, size)]
        for made in ours:
            made.release()
        for _ in range(EACH):
            for number, data in enumerate(spy_on(spy, size)):
                assert PATTERN[:16] not in data and COLOUR not in data, (size, number)
                assert not any(data), (size, number)
    assert theirs[0].read()[:16] == PATTERN[:16]
    victim.release()
    spy.release()


def test_what_a_compiler_says_of_a_shader_is_its_own_session_s(host: LocalHost, attacker: Attacker) -> None:
    """Its text comes from the attacker, with whatever is in it: to its client, and not to the log."""
    lines = len(host.said().splitlines())
    text = b"#version 330\n#error \x1b[2J session 1 ended \x9b31m\n#pragma \x1b[2J\nroot logged in \x1b]0;x\x07\n"
    program = c.MakeProgram(2, (text, None, None, None, None, None, None, None), (), {}, True)
    attacker.say(attacker.buffer([program, c.ReflectProgram(1, 2)]))
    answer = attacker.until(Answer)
    assert isinstance(answer, Answer) and answer.error is not None and "GLSL Compiler failed" in answer.error[1]
    said = host.said()
    assert "\x1b" not in said and "\x9b" not in said and "root logged in" not in said
    assert len(said.splitlines()) <= lines + 4


# --- time


@pytest.mark.parametrize("near", [False, True], ids=["websocket", "near"])
@pytest.mark.parametrize("reads", [False, True], ids=["reads nothing", "acknowledges nothing"])
def test_who_asks_and_takes_no_answer_is_silent_too(near: bool, reads: bool) -> None:
    """It gives signs of life, and would keep its place for ever: its worker stands still within a command."""
    with LocalHost("--limit", "idle-seconds=1", "--warm", "0") as host:
        attacker = Attacker(host)
        if near:
            attacker.go_near()
        attacker.say(attacker.buffer([c.MakeBuffer(2, None, MIB, False)]))
        attacker.say(attacker.buffer([c.ReadBuffer(number + 1, MIB, 2, 0) for number in range(READS)]))
        end = time.monotonic() + DEADLINE
        while "ended" not in host.said():
            assert time.monotonic() < end, "it never ended"
            with contextlib.suppress(LinkBroken, ConnectionError):
                attacker.websocket.socket.send(frame(PING))
                if reads:
                    attacker.everything(0.1)
            time.sleep(0.1)
        assert "its client was silent for longer than the 1 s that idle-seconds allows here" in host.said()
        assert not children(host.pid)
