"""GLSL that more than one program uses: the samples, and the host's own passes.

A file `NAME.vert.glsl` is a whole vertex shader; `load` gives its text. A file `NAME.glsl` holds functions; a shader
takes it in with moderngl's `#include "NAME.glsl"`, after `include(ctx)` has told the context where to find it. moderngl
does not look for an include inside an included file, so every file here stands by itself.

    ctx = moderngl.create_context(require=330, standalone=True, backend="egl")
    include(ctx)
    program = ctx.program(
        vertex_shader=load("fullscreen.vert.glsl"),
        fragment_shader='''
            #version 330
            #include "display.glsl"
            ...
        ''',
    )
"""

from importlib.resources import files
from typing import Protocol


class _Context(Protocol):
    includes: dict[str, str]


def names() -> tuple[str, ...]:
    """The names that `load` knows, sorted."""
    return tuple(sorted(entry.name for entry in files(__name__).iterdir() if entry.name.endswith(".glsl")))


def load(name: str) -> str:
    """The text of one file of this folder, by its whole name: `load("display.glsl")`.

    A name that is not there is a FileNotFoundError that lists those that are.
    """
    if name not in names():
        raise FileNotFoundError(f"no shader is called {name!r}; there are {', '.join(names())}")
    return files(__name__).joinpath(name).read_text("utf-8")


def include(ctx: _Context) -> None:
    """Let the shaders of a moderngl context say `#include "NAME.glsl"` for every file here."""
    ctx.includes.update({name: load(name) for name in names()})
