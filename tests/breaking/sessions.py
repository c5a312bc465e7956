"""A session whose link breaks: its program, what that comes to when nothing happens, and faults at chosen bytes.

The program draws, uploads and reads. Each of its command buffers adds one to a number that only the host's GPU holds,
so the number says how many buffers ran there: one that was lost, or ran twice, shows in it.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from types import TracebackType
from urllib.parse import urlsplit

import moderngl
import numpy as np

import glremote
from glremote.host.serving import LocalHost
from tests.relay import FAST, Fault, Line, Relay

STEPS = 4
"""Command buffers of one round of the program that count."""


class Program:
    """It runs in rounds; each comes to the same digest."""

    def __init__(self, ctx: moderngl.Context) -> None:
        self.rounds = 0
        self._ctx = ctx
        self._fbo = ctx.simple_framebuffer((16, 16))
        self._prog = ctx.program(
            vertex_shader="""#version 330
                in vec2 at; uniform vec2 shift; void main() { gl_Position = vec4(at + shift, 0.0, 1.0); }""",
            fragment_shader="""#version 330
                out vec4 colour; uniform vec4 tint; void main() { colour = tint; }""",
        )
        self._count = ctx.compute_shader("""#version 430
            layout(local_size_x=1) in; layout(std430, binding=1) buffer Counter { uint count; };
            void main() { count += 1u; }""")
        self._corners = ctx.buffer(reserve=24)
        self._counter = ctx.buffer(bytes(4))
        self._texture = ctx.texture((16, 16), 4)
        self._vao = ctx.vertex_array(self._prog, [(self._corners, "2f", "at")])

    def round(self) -> str:
        """Run one round; a digest of all that came back."""
        digest, ctx, prog = hashlib.sha256(), self._ctx, self._prog
        pending = []
        for step in range(STEPS):
            with glremote.command_buffer(ctx):
                self._counter.bind_to_storage_buffer(1)
                self._count.run()
                ctx.memory_barrier()
                self._fbo.use()
                ctx.clear(0.1 * step, 0.0, 0.0, 1.0)
                self._corners.write(np.array([-0.5, -0.5, 0.5, -0.5, 0.1 * step, 0.5], "f4"))
                self._texture.write(bytes((7 * i + step) % 251 for i in range(16 * 16 * 4)))
                prog["tint"].value = (1.0, step / STEPS, 0.0, 1.0)  # type: ignore[union-attr]
                prog["shift"].value = (0.01 * step, 0.0)  # type: ignore[union-attr]
                self._vao.render()
            pending.append(glremote.read_async(self._fbo, components=4))
            digest.update(self._corners.read())
            made = ctx.buffer(bytes([step]) * 64)
            digest.update(made.read())
            made.release()
        for future in pending:
            digest.update(future.result())
        digest.update(self._texture.read())
        self.rounds += 1
        return digest.hexdigest()

    def counted(self) -> int:
        """How many of the buffers that count have run on the host."""
        return int(np.frombuffer(self._counter.read(), "u4")[0])


class BreakingSession:
    """A session over a relay, on a host of its own; near is off, since that would go past the relay."""

    def __init__(self, line: Line = FAST, options: Sequence[str] = ("--warm", "1")) -> None:
        self.faults = 0
        """How many have happened."""
        self.bytes = 0
        """Of a round, both ways, with what a websocket adds."""
        self._line = line
        self._host = LocalHost(*options)

    def __enter__(self) -> BreakingSession:
        host = self._host.__enter__()
        self.relay = Relay(self._line, urlsplit(host.url).port or 0).__enter__()
        url = f"ws://127.0.0.1:{self.relay.port}"
        self.ctx = glremote.create_context(url, token=host.token, require=430, near=False)
        self.program = Program(self.ctx)
        for _ in range(3):  # reads that come again are sent in another way from the second or third time on
            self.relay.break_after(())
            self.digest = self.program.round()
            self.bytes = self.relay.delivered
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.relay.break_after(())
        self.ctx.release()
        self.relay.__exit__(kind, error, trace)
        self._host.__exit__(kind, error, trace)

    def round(self, *faults: Fault) -> int:
        """A round with these faults; how many of them happened. AssertionError if it comes to anything else."""
        self.relay.break_after(faults)
        digest = self.program.round()
        counted = self.program.counted()
        happened = len(self.relay.happened)
        self.faults += happened
        assert digest == self.digest, f"{faults}: another digest than undisturbed"
        sent = STEPS * self.program.rounds
        assert counted == sent, f"{faults}: {counted} buffers ran, and {sent} were sent"
        return happened


def some_faults(chance: random.Random, size: int) -> list[Fault]:
    """One to five, the first anywhere in a round, the others mostly soon after, while it is resuming."""
    first = Fault(chance.randrange(1, size), chance.choice((0.0, 0.0, 0.0, 0.1)))
    return [first, *(Fault(int(chance.expovariate(1 / 400)) + 1) for _ in range(chance.randrange(5)))]
