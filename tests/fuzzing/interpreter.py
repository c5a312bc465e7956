"""The interpreter's target: commands run on a real context, in a process of its own that may crash.

An input is a command buffer. It begins at a valid state, in which one object of each kind is made, and goes on with
recorded and made up commands, of which some have gone wrong. Work without end is another matter, so it is left out.
"""

from __future__ import annotations

import contextlib
import random
import select
import struct
import subprocess
import sys
from types import NoneType
from typing import IO, Any, get_args

import msgspec

from glremote.host.serving import environment
from glremote.protocol import buffers, messages
from glremote.protocol import commands as c
from glremote.protocol.errors import ProtocolError
from glremote.protocol.messages import Buffer
from glremote.protocol.stacks import Span

from .host import LARGEST_FETCH, Host
from .mutating import NUMBERS, TEXTS, command_gone_wrong, hints
from .record import CORPUS, read

DEADLINE = 20.0
LENGTH = struct.Struct(">I")
BETWEEN = 200
"""Inputs on one context; then comes another."""
SHADERS = {
    "vertex": b"#version 430\nin vec4 at;\nuniform mat4 m;\nuniform float f[4];\nout vec4 v;\n"
    b"layout(std140) uniform U { vec4 u[8]; };\nvoid main() { v = m * at * f[1] + u[3]; gl_Position = v; }",
    "fragment": b"#version 430\nin vec4 v;\nuniform sampler2D t;\nout vec4 c;\n"
    b"void main() { c = v + texture(t, v.xy); }",
    "compute": b"#version 430\nlayout(local_size_x=4) in;\nlayout(std430, binding=0) buffer B { float b[]; };\n"
    b"void main() { b[gl_GlobalInvocationID.x] += 1.0; }",
}
NOTHING = (None,) * 8
STATE: list[c.Command] = [
    c.MakeBuffer(2, Span(0, 1024), 0, False),
    c.MakeBuffer(3, None, 256, True),
    c.MakeTexture(4, (16, 8), 4, None, 0, 1, "f1", 0),
    c.MakeDepthTexture(5, (16, 8), None, 0, 4),
    c.MakeTexture3D(6, (4, 4, 4), 2, None, 1, "f4"),
    c.MakeTextureArray(7, (4, 4, 3), 1, None, 1, "u1"),
    c.MakeTextureCube(8, (4, 4), 4, None, 1, "f1", 0),
    c.MakeRenderbuffer(9, (16, 8), 4, 4, "f1"),
    c.MakeTexture(10, (16, 8), 4, None, 4, 1, "f1", 0),
    c.MakeFramebuffer(11, (4,), 5),
    c.MakeFramebuffer(12, (9,), None),
    c.MakeProgram(13, (SHADERS["vertex"], SHADERS["fragment"], *NOTHING[2:]), (), {}, True),
    c.MakeProgram(14, (SHADERS["vertex"], *NOTHING[1:]), ("v",), {}, True),
    c.MakeProgram(15, (*NOTHING[:5], SHADERS["compute"], None, None), (), {}, True),
    c.MakeVertexArray(16, 13, (c.VertexContent(2, "4f", (c.VertexAttribute(0, 1, 0x1406),)),), None, 4),
    c.MakeVertexArray(17, 14, (c.VertexContent(2, "4f", (c.VertexAttribute(0, 1, 0x1406),)),), 3, 2),
    c.MakeQuery(18, True, False, True, True),
    c.MakeSampler(19),
    c.MakeScope(20, 11, 3, ((4, 0),), ((3, 0),), ((2, 0),)),
    c.MakeExternalTexture(21, 4, (16, 8), 4, 0, "f1"),
    c.MakeExternalBuffer(22, 2, 1024),
    c.FramebufferUse(11),
]
LIGHT = [command for command in STATE if not isinstance(command, c.MakeProgram | c.MakeVertexArray)]
"""Most inputs begin here: to compile takes longer than all the rest."""
COUNTS = frozenset(("vertices", "instances", "count", "x", "y", "z", "drawcount", "maxdrawcount"))
WORKS = (c.Render, c.Transform, c.RunCompute, c.RenderIndirect, c.DrawMeshTasks, c.VertexArrayInstances,
         c.VertexArrayVertices)  # fmt: skip
INDIRECT = (c.RunComputeIndirect, c.DrawMeshTasksIndirect, c.DrawMeshTasksIndirectCount, c.RenderIndirect)
SIDE = 1 << 9
MEMORY = 1 << 22


def anything(draw: random.Random, hint: Any) -> Any:
    """A value of a type."""
    arguments = get_args(hint)
    if hasattr(hint, "__metadata__"):
        meta = hint.__metadata__[0]
        return min(max(draw.choice((*range(20), *NUMBERS)), meta.ge), meta.lt - 1)
    if NoneType in arguments:
        inner = next(argument for argument in arguments if argument is not NoneType)
        return None if draw.random() < 0.5 else anything(draw, inner)
    if hint is Span:
        return Span(4 * draw.randrange(256), draw.choice((0, 4, 16, 64, 512, 1024)))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint(*(anything(draw, field) for field in hints(hint).values()))
    if getattr(hint, "__origin__", None) is tuple:
        if arguments[-1] is Ellipsis:
            return tuple(anything(draw, arguments[0]) for _ in range(draw.choice((0, 1, 1, 2, 9))))
        return tuple(anything(draw, argument) for argument in arguments)
    simple: dict[Any, Any] = {
        bool: draw.random() < 0.5, float: draw.choice((0.0, 1.0, -1.0, 1e30)), str: draw.choice(TEXTS),
        bytes: draw.choice((b"", bytes(4), bytes(64))),
        int: max(draw.choice((*range(-1, 20), 64, 256, *NUMBERS)), -(1 << 63)),
    }  # fmt: skip
    return simple.get(hint, {})


class Commands:
    """Makes inputs."""

    def __init__(self) -> None:
        packets = [packet for path in sorted(CORPUS.glob("*.up")) for packet in read(path)]
        found = (item for packet in packets for item in messages.decode(packet))
        bodies = [body for message, body in found if isinstance(message, Buffer)]
        recorded = [command for body in bodies for command in buffers.decode(body)]
        self.by_kind: dict[type[c.Command], list[c.Command]] = {}
        for command in (*recorded, *STATE):
            self.by_kind.setdefault(type(command), []).append(command)
        self.kinds = [kind for kind in c.COMMANDS.values() if kind is not c.Forget]

    def make(self, draw: random.Random) -> bytes:
        """Another input."""
        made: dict[int, str] = {c.DEFAULT_FRAMEBUFFER: "framebuffer"}
        commands: list[c.Command] = []
        state = STATE if draw.random() < 0.15 else LIGHT
        for command in (*state, *(self._another(draw) for _ in range(draw.randrange(3, 12)))):
            if len(commands) >= len(state) and draw.random() < 0.5:
                command = command_gone_wrong(draw, command)
            try:
                fitted = tame(fit(draw, command, made))
            except LookupError:  # there is nothing that it could name
                continue
            if isinstance(fitted, c.MakeProgram) and state is LIGHT:
                continue
            commands.append(fitted)
            if isinstance(fitted, c.Make):
                made[fitted.handle] = fitted.makes
        return buffers.encode(commands)

    def _another(self, draw: random.Random) -> c.Command:
        kind = draw.choice(self.kinds)
        if kind in self.by_kind and draw.random() < 0.7:
            return draw.choice(self.by_kind[kind])
        return kind(*(anything(draw, hint) for hint in hints(kind).values()))


def fit(draw: random.Random, command: Any, made: dict[int, str]) -> Any:
    """The same command, naming objects that there are, mostly; what it makes has a number of its own."""
    fields = {name: _fit(draw, hint, getattr(command, name), made) for name, hint in hints(type(command)).items()}
    if isinstance(command, c.Make) and command.handle in made:
        fields["handle"] = max(made) + 1
    if isinstance(command, c.Fetch):
        fields["size"] = command.size % LARGEST_FETCH
    return type(command)(**fields)


def _fit(draw: random.Random, hint: Any, value: Any, made: dict[int, str]) -> Any:
    arguments = get_args(hint)
    if value is None:
        return None
    if NoneType in arguments:
        return _fit(draw, next(a for a in arguments if a is not NoneType), value, made)
    kinds = (hint.__metadata__[0].extra or {}).get("kinds") if hasattr(hint, "__metadata__") else None
    if kinds and made.get(value) not in kinds and draw.random() < 0.99:
        return draw.choice([handle for handle, kind in made.items() if kind in kinds])
    if isinstance(value, msgspec.Struct) and hint is not Span:
        return type(value)(*(_fit(draw, h, getattr(value, n), made) for n, h in hints(type(value)).items()))
    if isinstance(value, tuple) and arguments:
        each = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(_fit(draw, h, item, made) for h, item in zip(each, value, strict=True))
    return value


def tame(command: Any) -> Any:
    """The same command with less work, and with less memory than the machine has."""
    changes: dict[str, Any] = {}
    if isinstance(command, WORKS):
        changes = {name: getattr(command, name) % 40 for name in COUNTS & set(command.__struct_fields__)}
    if isinstance(command, INDIRECT):
        changes["buffer"] = 3  # of zeros, if nothing was written to it
    extent = getattr(command, "extent", ())
    if extent and max(extent) < 1 << 20:
        changes["extent"] = tuple(side % SIDE if side > SIDE else side for side in extent)
    if isinstance(command, c.MakeBuffer) and command.reserve < 1 << 40:
        changes["reserve"] = command.reserve % MEMORY if command.reserve > MEMORY else command.reserve
    if isinstance(command, c.BufferOrphan) and command.length < 1 << 40:
        changes["length"] = min(command.length, MEMORY)
    return msgspec.structs.replace(command, **changes)


class Child:
    """Runs inputs in a process of its own, one after the other."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.fuzzing.interpreter"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
        )

    def run(self, data: bytes) -> str:
        """What an input came to: "" or what was wrong. After that the process has ended."""
        taken, said = self._pipe(self.process.stdin), self._pipe(self.process.stdout)
        try:
            taken.write(LENGTH.pack(len(data)) + data)
            taken.flush()
        except BrokenPipeError:
            return self._ended()
        if not select.select([said], [], [], DEADLINE)[0]:
            self.process.kill()
            return f"a hang: nothing came within {DEADLINE} s"
        return "" if said.readline() == b".\n" else self._ended()

    def _ended(self) -> str:
        status = self.process.wait(DEADLINE)
        return f"ended with {status}: {self._pipe(self.process.stderr).read().decode(errors='replace')[-3000:]}"

    def close(self) -> None:
        """End the process, and wait."""
        self._pipe(self.process.stdin).close()
        self.process.wait(DEADLINE)
        for pipe in (self.process.stdout, self.process.stderr):
            self._pipe(pipe).close()

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe


class Runner:
    """The target: inputs go to a child, and another child comes after one that ended."""

    def __init__(self) -> None:
        self.commands = Commands()
        self.child: Child | None = None
        self.left = 0

    def make(self, draw: random.Random) -> bytes:
        """Another input."""
        return self.commands.make(draw)

    def run(self, data: bytes) -> None:
        """Raises where the input was more than an error."""
        if self.child is None:
            self.child = Child()
        found = self.child.run(data)
        if found:
            self.child = None
            raise AssertionError(found)

    def close(self) -> None:
        """End the child."""
        if self.child is not None:
            self.child.close()
            self.child = None


def serve() -> None:
    """The child: inputs come in, and a line goes out for each."""
    import faulthandler

    faulthandler.enable()
    host, count = Host(), 0
    while header := sys.stdin.buffer.read(LENGTH.size):
        data = sys.stdin.buffer.read(LENGTH.unpack(header)[0])
        host.begin()
        with contextlib.suppress(ProtocolError):  # refused in words
            host.run(buffers.decode(data))
        host.finish()
        host.end()
        count += 1
        if count % BETWEEN == 0:
            host.context.release()
            host = Host()
        sys.stdout.write(".\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
