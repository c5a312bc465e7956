"""What `glremote run` puts in moderngl's place, so that an unmodified program's contexts are on a host.

Knows: the one function of moderngl's extension module that makes contexts (`mgl.create_context`), which all of
moderngl.create_context, create_standalone_context and libraries come to. Does not know: the command line.
"""

from __future__ import annotations

from typing import Any

import moderngl
from moderngl import mgl  # type: ignore[attr-defined]

from .device.remote import RemoteDevice
from .instance import Instance, instance, plain_create_context
from .recording.context import Context


class Seam:
    """Stands where moderngl's extension module stands; all but making contexts is its own."""

    def __init__(self, instance: Instance, host: str, token: str | None) -> None:
        self._instance = instance
        self._host = host
        self._token = token

    def __getattr__(self, name: str) -> Any:
        return getattr(mgl, name)

    def create_context(self, **settings: Any) -> tuple[Context, int]:
        """A recording context on the host, and its version; `backend` and the like say nothing there."""
        if settings.get("mode") == "share":
            raise NotImplementedError("create_context(share=True): a context on a host shares nothing with another")
        if "context" in settings:
            raise NotImplementedError("create_context(context=...): a glcontext object of this process has no host")
        device: RemoteDevice = self._instance.open(self._host, self._token, "glremote run", settings["glversion"])
        context = Context(device)
        return context, context.version_code


SCREEN = (1280, 720)
"""Pixels of `ctx.screen`, where a program asks for a window's context: there is no window."""


def create_context(
    require: int | None = None, standalone: bool = False, share: bool = False, **settings: Any
) -> moderngl.Context:
    """moderngl's own, but for a window's context: that has a framebuffer for its screen, which is bound.

    (moderngl would look for a window of this process, and raise that it cannot be detected.)
    """
    ctx = plain_create_context(require=require, standalone=True, share=share, **settings)
    if not standalone:
        screen: Any = ctx.simple_framebuffer(SCREEN)
        screen.use()
        ctx._screen = screen  # type: ignore[attr-defined]
    return ctx


def init_context(loader: Any = None) -> None:
    """Where a program takes the context that is current (moderngl.get_context): a window's, as above."""
    if loader is not None:
        raise NotImplementedError("init_context(loader): a loader of this process has no host")
    create_context()


def install(host: str, token: str | None) -> None:
    """From now on every context that this program makes through moderngl is on `host`."""
    moderngl.mgl = Seam(instance(), host, token)  # type: ignore[attr-defined]
    moderngl.create_context = create_context
    moderngl.init_context = init_context
