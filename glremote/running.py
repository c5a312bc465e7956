"""What `glremote run` puts in moderngl's place, so that an unmodified program's contexts are on a host.

Knows: the one function of moderngl's extension module that makes contexts (`mgl.create_context`), which all of
moderngl.create_context, create_standalone_context and libraries come to; and what multiprocessing tells a process that
it starts anew (a forked one has everything from its parent). Does not know: the command line.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing import spawn
from typing import Any

import moderngl
from moderngl import mgl  # type: ignore[attr-defined]

from .device.remote import RemoteDevice
from .instance import Instance, instance, plain_create_context
from .protocol.errors import HostError
from .recording.context import Context
from .recording.facade import facade

SCREEN = (1280, 720)
"""Pixels of `ctx.screen`, where nothing else is said."""
BITS = {"red": 8, "green": 8, "blue": 8, "alpha": 8, "depth": 24, "stencil": 0}
"""Of a simple framebuffer, which stands where a window's framebuffer would."""


class Seam:
    """Stands where moderngl's extension module stands; all but making contexts is its own."""

    def __init__(
        self,
        instance: Instance,
        host: str | None,
        token: str | None,
        screen: tuple[int, int],
        ca: str | None = None,
        pin: str | None = None,
    ) -> None:
        self._instance = instance
        self._host = host
        self._token = token
        self._screen = screen
        self._ca = ca
        self._pin = pin
        self._window: Context | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(mgl, name)

    def create_context(self, **settings: Any) -> tuple[Context, int]:
        """A recording context on the host, and its version; `backend` and the like say nothing there."""
        if settings.get("mode") == "share":
            raise NotImplementedError("create_context(share=True): a context on a host shares nothing with another")
        self._check(settings)
        device: RemoteDevice = self._instance.open(
            self._host, self._token, "glremote run", settings["glversion"], ca=self._ca, pin=self._pin
        )
        context = Context(device)
        return context, context.version_code

    @staticmethod
    def _check(settings: dict[str, Any]) -> None:
        if "context" in settings:
            raise NotImplementedError("create_context(context=...): a glcontext object of this process has no host")
        if (backend := settings.get("backend", "egl")) != "egl":  # glcontext's own text
            raise ValueError(f"Cannot find supported backend: '{backend}'")

    def window(self, require: int, settings: dict[str, Any]) -> moderngl.Context:
        """A context with a framebuffer for its screen, which is bound: there is no window to be found.

        A program that makes another has both on one window's OpenGL context; so here both are of one session.
        """
        self._check(settings)
        if self._window is not None and not self._window.released:
            ctx = facade(self._window, require)
            self._window.owners += 1
            return self._seen(ctx)
        try:
            ctx = plain_create_context(require=require, standalone=True, **settings)
        except Exception as error:
            if type(error) is not Exception:
                raise
            # The driver makes none of this version. A window has one of another, and that is what moderngl tells.
            ctx = plain_create_context(standalone=True, **settings)
            ctx.release()
            raise ValueError(f"Requested OpenGL version {require}, got version {ctx.version_code}") from None
        mglo: Any = ctx.mglo
        most = ctx.info["GL_MAX_RENDERBUFFER_SIZE"]
        if max(self._screen) > most:
            ctx.release()
            size = "{}x{}".format(*self._screen)
            raise HostError(f"{mglo.device.host}: a screen of {size} pixels is too large; it has at most {most} a side")
        framebuffer: Any = ctx.simple_framebuffer(self._screen)
        framebuffer.use()
        mglo.take_for_default(framebuffer.mglo, BITS)
        self._window = mglo
        return self._seen(ctx)

    @staticmethod
    def _seen(ctx: moderngl.Context) -> moderngl.Context:
        """As moderngl finds a window's framebuffer: its number is 0, and nobody sees what it is made of."""
        ctx._screen = ctx.detect_framebuffer(0)  # type: ignore[attr-defined]
        ctx.fbo = ctx.detect_framebuffer()
        return ctx


def create_context(
    require: int | None = None, standalone: bool = False, share: bool = False, **settings: Any
) -> moderngl.Context:
    """moderngl's own, but for a window's context, whose screen is on the host."""
    if standalone or share:
        return plain_create_context(require=require, standalone=standalone, share=share, **settings)
    return _seam().window(330 if require is None else require, settings)


def init_context(loader: Any = None) -> None:
    """Where a program takes the context that is current (moderngl.get_context): a window's, as above."""
    if loader is not None:
        raise NotImplementedError("init_context(loader): a loader of this process has no host")
    create_context()


def _seam() -> Seam:
    return moderngl.mgl  # type: ignore[attr-defined, no-any-return]


def install(
    host: str | None, token: str | None, screen: tuple[int, int] = SCREEN, ca: str | None = None, pin: str | None = None
) -> None:
    """From now on every context that this program makes through moderngl is on `host`; in its worker processes too.

    None: each is on one of the associated hosts, whichever is chosen when it is made.
    """
    moderngl.mgl = Seam(instance(), host, token, screen, ca, pin)  # type: ignore[attr-defined]
    moderngl.create_context = create_context
    moderngl.init_context = init_context
    spawn.get_preparation_data = _Preparation(spawn.get_preparation_data, (host, token, screen, ca, pin))
    if "forkserver" in multiprocessing.get_all_start_methods():
        # It would import the program before it is told this, and the program may take functions out of moderngl.
        multiprocessing.set_forkserver_preload([])


class _Preparation:
    """multiprocessing's own function, which says what a process is to know before it imports the program, and us."""

    def __init__(self, plain: Callable[[str], dict[str, Any]], arguments: tuple[Any, ...]) -> None:
        self._plain = plain
        self._arguments = arguments

    def __call__(self, name: str) -> dict[str, Any]:
        return {**self._plain(name), "glremote": self}

    def __reduce__(self) -> tuple[Any, ...]:
        return install, self._arguments  # called where it is unpickled: in the new process
