"""moderngl.Context around a recording context, as moderngl's own create_context builds it around its C object."""

from __future__ import annotations

from collections import deque
from typing import Any

import moderngl

from .context import Context

MODERNGL: str = moderngl.__version__  # type: ignore[attr-defined]
"""The version of moderngl that is installed."""


def facade(mglo: Context, require: int) -> moderngl.Context:
    """A standalone moderngl.Context; from now on the default context, as after moderngl.create_context.

    tests/recording/test_facade.py compares the attributes with those that moderngl sets.
    """
    ctx: Any = moderngl.Context.__new__(moderngl.Context)
    ctx.mglo = mglo
    ctx.version_code = mglo.version_code
    ctx._info = None
    ctx._extensions = None
    ctx.extra = None
    ctx._gc_mode = None
    ctx._objects = deque()
    if ctx.version_code < require:
        raise ValueError(f"Requested OpenGL version {require}, got version {ctx.version_code}")
    ctx._screen = None
    ctx.fbo = None
    moderngl._store.default_context = ctx  # type: ignore[attr-defined]
    return ctx  # type: ignore[no-any-return]
