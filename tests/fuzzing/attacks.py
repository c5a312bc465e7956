"""Command buffers that would have moderngl or the driver go to memory that is not theirs, each under its name.

They are run by a worker's interpreter on a real context, in a process of its own: `python -m tests.fuzzing.attacks`
prints what each came to, and ends at the first that breaks it. tests/fuzzing/test_attacks.py says what that must be.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from glremote.protocol import commands as c
from glremote.protocol.stacks import Span

from .host import Host

BUFFER, TEXTURE, ALIAS, TARGET, PROGRAM, ARRAY = range(2, 8)
BIG = 1 << 30
FLOAT, MAT4 = 0x1406, 0x8B5C
VERTEX = (
    b"#version 330\nin vec4 at;\nuniform mat4 m;\nuniform float f[4];\n"
    b"void main() { gl_Position = m * at * f[1]; }"
)
COMPUTE = b"#version 430\nlayout(local_size_x=1) in; void main() {}"
SOURCES = (VERTEX, None, None, None, None, None, None, None)

A_BUFFER = c.MakeBuffer(BUFFER, None, 64, False)
A_TEXTURE = c.MakeTexture(TEXTURE, (4, 4), 4, None, 0, 1, "f1", 0)
A_TARGET = (c.MakeTexture(TEXTURE, (64, 64), 4, None, 0, 1, "f1", 0), c.MakeFramebuffer(TARGET, (TEXTURE,), None))
A_PROGRAM = c.MakeProgram(PROGRAM, SOURCES, (), {}, True)


def _read(viewport: tuple[int, int, int, int], components: int, dtype: str) -> Sequence[c.Command]:
    return *A_TARGET, c.ReadFramebuffer(1, 64, TARGET, viewport, components, 0, 1, False, dtype)


def _write(viewport: tuple[int, int, int, int], size: int) -> Sequence[c.Command]:
    return A_TEXTURE, c.TextureWrite(TEXTURE, Span(0, size), viewport, 0, 1)


def _vertices(text: str, rows: int = 1) -> Sequence[c.Command]:
    content = (c.VertexContent(BUFFER, text, (c.VertexAttribute(0, rows, FLOAT),)),)
    target = *A_TARGET, c.FramebufferUse(TARGET)
    return A_BUFFER, *target, A_PROGRAM, c.MakeVertexArray(ARRAY, PROGRAM, content, None, 4)


def _indexed() -> Sequence[c.Command]:
    """A vertex array with indices, which was drawn, so that it is bound."""
    *before, array = _vertices("4f")
    assert isinstance(array, c.MakeVertexArray)
    array = c.MakeVertexArray(ARRAY, PROGRAM, array.content, 20, 4)
    return *before, c.MakeBuffer(20, None, 64, False), array, c.Render(ARRAY, 4, 3, 0, 1)


def _grown_by_an_alias() -> Sequence[c.Command]:
    """A texture of 4x4 becomes one of 64x64 under another of its names, and is read as one of 4x4."""
    return (
        A_TEXTURE,
        c.MakeTexture(20, (64, 64), 4, None, 0, 1, "f1", 0),
        c.MakeFramebuffer(TARGET, (20,), None),
        c.MakeExternalTexture(ALIAS, TEXTURE, (64, 64), 4, 0, "f1"),
        c.CopyFramebuffer(ALIAS, TARGET),
        c.ReadTexture(1, 64, TEXTURE, 0, 1),
    )


def _colors_after_depths() -> Sequence[c.Command]:
    """What moderngl reads depths with leaves the framebuffer without colours to be read."""
    return (
        A_TEXTURE,
        c.MakeDepthTexture(20, (4, 4), None, 0, 4),
        c.MakeFramebuffer(TARGET, (TEXTURE,), 20),
        c.ReadFramebuffer(1, 64, TARGET, (0, 0, 4, 4), 1, -1, 1, False, "f4"),
        c.CopyFramebuffer(TEXTURE, TARGET),
        c.ReadTexture(2, 64, TEXTURE, 0, 1),
    )


ATTACKS: dict[str, Callable[[], Sequence[c.Command]]] = {
    "a read whose size is 0 in 64 bits": lambda: _read((0, 0, BIG, BIG), 4, "f4"),
    "a read that begins where 32 bits end": lambda: _read(((1 << 31) - 4, 0, 8, 1), 4, "f1"),
    "a read of pixels with a million components": lambda: _read((0, 0, 0, 0), 1 << 20, "f1"),
    "a write whose size is 0 in 64 bits": lambda: (
        c.MakeTexture(TEXTURE, (4, 4), 4, None, 0, 1, "f4", 0),
        c.TextureWrite(TEXTURE, Span(0, 0), (0, 0, BIG, BIG), 0, 1),
    ),
    "a write that begins where 32 bits end": lambda: _write(((1 << 31) - 4, 0, 8, 1), 32),
    "an offset of a write where 64 bits end": lambda: (A_BUFFER, c.BufferWrite(BUFFER, Span(0, 16), (1 << 63) - 8)),
    "an offset of a read where 64 bits end": lambda: (A_BUFFER, c.ReadBuffer(1, 16, BUFFER, (1 << 63) - 8)),
    "an offset of a clear where 64 bits end": lambda: (A_BUFFER, c.BufferClear(BUFFER, 16, (1 << 63) - 8, None)),
    "an offset of a copy where 64 bits end": lambda: (
        A_BUFFER, c.MakeBuffer(20, None, 64, False), c.CopyBuffer(20, BUFFER, 16, (1 << 63) - 8, 0),
    ),
    "chunks written with a step that comes round": lambda: (
        A_BUFFER, c.BufferWriteChunks(BUFFER, Span(0, (1 << 16) + 1), 0, 1 << 48, (1 << 16) + 1),
    ),
    "chunks read with a step that comes round": lambda: (
        A_BUFFER, c.ReadBufferChunks(1, (1 << 16) + 1, BUFFER, 1, 0, 1 << 48, (1 << 16) + 1),
    ),
    "endless chunks of nothing written": lambda: (
        A_BUFFER, c.BufferWriteChunks(BUFFER, Span(0, 0), 0, 0, 1 << 59),
    ),
    "endless chunks of nothing read": lambda: (A_BUFFER, c.ReadBufferChunks(1, 0, BUFFER, 0, 0, 0, 1 << 59)),
    "a thousand attachments": lambda: (*A_TARGET, c.MakeFramebuffer(20, (TEXTURE,) * 1000, None)),
    "a thousand varyings": lambda: (c.MakeProgram(PROGRAM, SOURCES, ("gl_Position",) * 1000, {}, True),),
    "a vertex of no bytes": lambda: _vertices("1073741824f4"),
    "a vertex of no bytes, in words": lambda: _vertices("1073 741 824f4"),
    "a format of a million digits": lambda: _vertices("1" * 500_000 + "f"),
    "an attribute of endless locations": lambda: _vertices("4f", (1 << 31) - 1),
    "a matrix of four bytes": lambda: (A_PROGRAM, c.SetUniform(PROGRAM, 0, MAT4, 1, 4, bytes(4))),
    "an array of numbers of no bytes": lambda: (A_PROGRAM, c.SetUniform(PROGRAM, 1, FLOAT, 1 << 30, 4, b"")),
    "a texture of a million components": lambda: (
        A_TEXTURE, c.MakeExternalTexture(ALIAS, TEXTURE, (4, 4), 1 << 20, 0, "f1"),
    ),
    "a texture grown under another name": _grown_by_an_alias,
    "colours of a framebuffer whose depths were read": _colors_after_depths,
    "colours of the default framebuffer whose depths were read": lambda: (
        A_TEXTURE, c.ReadFramebuffer(1, 64, c.DEFAULT_FRAMEBUFFER, (0, 0, 4, 4), 1, -1, 1, False, "f4"),
        c.CopyFramebuffer(TEXTURE, c.DEFAULT_FRAMEBUFFER), c.ReadTexture(2, 64, TEXTURE, 0, 1),
    ),
    "colours of a framebuffer without any": lambda: (
        A_TEXTURE, c.MakeEmptyFramebuffer(TARGET, (4, 4), 1, 0), c.CopyFramebuffer(TEXTURE, TARGET),
        c.ReadTexture(1, 64, TEXTURE, 0, 1),
    ),
    "rows that are aligned to nothing": lambda: (c.MakeTexture(TEXTURE, (4, 4), 4, None, 0, 0, "f1", 0),),
    "rows of depths that are aligned to nothing": lambda: (c.MakeDepthTexture(TEXTURE, (4, 4), Span(0, 64), 0, 0),),
    "a texture larger than memory": lambda: (c.MakeTexture3D(TEXTURE, (BIG, BIG, BIG), 4, None, 1, "f4"),),
    "an index buffer read before its begin": lambda: (
        *_indexed(), c.Render(ARRAY, 4, 1 << 10, -(1 << 30), 1),
    ),
    "vertices before the begin of a buffer": lambda: (
        *_vertices("4f"), c.VertexArrayBind(ARRAY, 0, "f", BUFFER, "4f", -(1 << 40), 16, 0, False),
        c.Render(ARRAY, 4, 300, 0, 1),
    ),
    "draws from behind an indirect buffer": lambda: (
        *_vertices("4f"), c.RenderIndirect(ARRAY, BUFFER, 4, (1 << 31) - 1, -1),
    ),
    "draws that begin before their buffer": lambda: (*_vertices("4f"), c.RenderIndirect(ARRAY, BUFFER, 4, 32, -31)),
    "all draws from before their buffer": lambda: (*_vertices("4f"), c.RenderIndirect(ARRAY, BUFFER, 4, -1, -1)),
    "work groups that begin before their buffer": lambda: (
        A_BUFFER, c.MakeProgram(PROGRAM, (*SOURCES[1:6], COMPUTE, None, None), (), {}, True),
        c.RunComputeIndirect(PROGRAM, BUFFER, -8),
    ),
    "indices of a buffer that is released": lambda: (*_indexed(), c.Release(20), c.Render(ARRAY, 4, 3, 0, 1)),
    "indices of a buffer that is released by another name": lambda: (
        *_indexed(), c.MakeExternalBuffer(ALIAS, 20, 64), c.Release(ALIAS), c.Render(ARRAY, 4, 3, 0, 1),
    ),
    "indices that an array was not made with": lambda: (
        *_vertices("4f"), c.VertexArrayIndexBuffer(ARRAY, BUFFER), c.Render(ARRAY, 4, 3, 0, 1),
    ),
    "a scissor where 32 bits end": lambda: (
        *A_TARGET, c.FramebufferClear(TARGET, 1.0, 0.0, 0.0, 1.0, 1.0, ((1 << 31) - 4, 0, 8, 8)),
    ),
    "texels into a buffer from before its begin": lambda: (
        A_BUFFER, A_TEXTURE, c.TextureReadInto(TEXTURE, BUFFER, 0, 1, -16),
    ),
}  # fmt: skip


def main(names: Sequence[str]) -> None:
    """Run some, or all, and print a line for each: its name and what its last command came to."""
    host = Host()
    for name in names or ATTACKS:
        outcome = host.run(list(ATTACKS[name]()))
        host.finish()
        host.end()
        host.begin()
        print(f"{name}: {outcome}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
