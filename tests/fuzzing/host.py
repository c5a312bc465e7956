"""A host without its sockets: the check of a buffer and the interpreter, on a real context, in this process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from glremote.host.egl import make_context
from glremote.host.interpreter import Interpreter, Part
from glremote.host.keeping import InReplay
from glremote.protocol import commands as c
from glremote.protocol.buffers import Checker
from glremote.protocol.errors import ProtocolError
from glremote.protocol.messages import value_bytes
from glremote.protocol.stacks import Stack

STACK_SIZE = 1 << 20
LARGEST_FETCH = 1 << 22
GUARD = 64
"""Bytes on each side of the memory of an answer, which nothing may write to."""
MARK = 0xA5


class Host:
    """Runs buffers as a worker does, and looks at each answer's memory."""

    def __init__(self) -> None:
        self.stack = Stack(STACK_SIZE)
        self.stack.apply(0, bytes((0, 0, 0, 1)) * (STACK_SIZE // 4))  # small numbers, and nothing else
        self.context, _ = make_context(430)
        self.default = self.context.fbo
        self.begin()

    def begin(self) -> None:
        """A new session on the same context, in which nothing is made yet."""
        self.checker = Checker(self.stack, LARGEST_FETCH)
        self.interpreter = Interpreter(self.context, self.stack, self)
        self.outcome: Any = None

    def run(self, commands: list[c.Command]) -> str:
        """What the last command that ran came to. Raises ProtocolError where the buffer is refused."""
        self.checker.check(commands)
        interpreter = self.interpreter
        interpreter.buffer, start = commands, 0
        self.outcome = "nothing"
        while start < len(commands):
            try:
                interpreter.run_buffer(start)
                break
            except ProtocolError:
                raise
            except InReplay as failed:
                self.outcome = type(failed.error).__name__
            except Exception as error:
                self.outcome = type(error).__name__
            start = interpreter.at + 1  # a worker drops what follows; here it runs too, to reach more
        return str(self.outcome)

    def end(self) -> None:
        """Give back what the session made."""
        for handle in list(self.interpreter):
            if handle != c.DEFAULT_FRAMEBUFFER:
                self.interpreter.release(c.Release(handle))
        self.context.fbo = self.default
        self.context.fbo.use()
        self.context.clear_errors()

    def finish(self) -> None:
        """Wait for the driver's threads: what they do wrong shows."""
        self.context.finish()

    def value(self, ticket: int, value: Any) -> None:
        """See Answers."""
        self.outcome = f"a value of {len(value_bytes(value))} bytes"

    def data(self, ticket: int, total: int, parts: Iterable[Part], of: c.Fetch | None = None) -> None:
        """See Answers: read into memory between marks, which must be there afterwards."""
        for size, fill in parts:
            memory = bytearray([MARK]) * (size + 2 * GUARD)
            try:
                fill(memoryview(memory)[GUARD : GUARD + size])
            except Exception as error:
                self.error(ticket, error)
                return
            if {*memory[:GUARD], *memory[GUARD + size :]} != {MARK}:
                raise SystemExit(f"a read of {size} bytes wrote outside of its memory: {of}")
        self.outcome = f"{total} bytes"

    def error(self, ticket: int, error: Exception) -> None:
        """See Answers."""
        self.outcome = type(error).__name__

    def goes_on(self, command: c.Command) -> bool:
        """See Answers."""
        return False
