"""The instance: the one object per program that knows all associated hosts and makes contexts.

Knows: where a context may go, and how one is made there. Does not know: what is recorded, or how it travels.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import warnings
import weakref
from typing import Any

import moderngl

from .device.devices import LocalDevice
from .device.ending import end_process
from .device.remote import RemoteDevice
from .device.road import Connector
from .link import websocket
from .link.tls import Trust
from .protocol.errors import HostError
from .protocol.reflection import is_software
from .recording.context import Context
from .recording.facade import MODERNGL, facade
from .version import VERSION

INSTALL = "on Debian or Ubuntu install a driver with `apt-get install libegl1 libgl1 libegl-mesa0 libgl1-mesa-dri`"


class Instance:
    """Makes contexts, each local or remote for life, and says where they are. Use `glremote.instance()`."""

    def __init__(self) -> None:
        self._devices: weakref.WeakKeyDictionary[moderngl.Context, LocalDevice] = weakref.WeakKeyDictionary()

    def create_context(
        self,
        host: str | None = None,
        *,
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        pin: str | None = None,
        require: int | None = None,
        device_index: int | None = None,
        near: bool = True,
        **settings: Any,
    ) -> moderngl.Context:
        """A moderngl.Context on a host or on this machine. See `glremote.create_context`."""
        host, reason = (host, "named in the call") if host else self._choose()
        if host == "local":
            if ca is not None or pin is not None:
                raise TypeError("a context on this machine has no host whose certificate a ca or a pin is for")
            return self._local(require, device_index, reason, settings)
        if settings:
            raise TypeError(f"a remote context takes no {', '.join(sorted(settings))}")
        if device_index is not None:
            raise NotImplementedError("create_context(device_index=...) on a host is not in this version of glremote")
        require = 330 if require is None else require
        return self._facade(self.open(host, token, reason, require, near, ca, pin), require)

    def open(
        self,
        host: str,
        token: str | None,
        reason: str,
        require: int,
        near: bool = True,
        ca: str | os.PathLike[str] | None = None,
        pin: str | None = None,
    ) -> RemoteDevice:
        """A new session on a host that is named by its URL."""
        if not host.startswith(("ws://", "wss://")):
            raise ValueError(f'{host!r} is no host: give ws://HOST:PORT, wss://HOST:PORT or "local"')
        token = token if token is not None else os.environ.get("GLREMOTE_TOKEN")
        connector = functools.partial(websocket.connect, host, token, trust=Trust.chosen(host, ca, pin))
        return RemoteDevice(connector, host, reason, VERSION, MODERNGL, require, near)

    def connect(self, connector: Connector, host: str, reason: str, require: int = 330) -> moderngl.Context:
        """A context of a session that a connector opens: for hosts that are reached in another way than by a URL."""
        return self._facade(RemoteDevice(connector, host, reason, VERSION, MODERNGL, require), require)

    def _facade(self, device: RemoteDevice, require: int) -> moderngl.Context:
        try:
            return facade(Context(device), require)
        except BaseException:
            device.close()
            raise

    def device(self, ctx: moderngl.Context) -> LocalDevice | RemoteDevice:
        """Where a context is, and why there."""
        mglo: Any = ctx.mglo
        if isinstance(mglo, Context):
            return mglo.device
        found = self._devices.get(ctx)
        if found is None:
            if not hasattr(mglo, "info"):
                raise ValueError("the context was released")
            found = self._devices[ctx] = LocalDevice(ctx.info["GL_RENDERER"], "made by moderngl itself")
        return found

    def _choose(self) -> tuple[str, str]:
        host = os.environ.get("GLREMOTE_HOST")
        return (host, "GLREMOTE_HOST") if host else ("local", "no host is named in the call or in GLREMOTE_HOST")

    def _local(
        self, require: int | None, device_index: int | None, reason: str, settings: dict[str, Any]
    ) -> moderngl.Context:
        settings.setdefault("backend", "egl")
        if device_index is not None:
            settings["device_index"] = device_index
        try:
            ctx = plain_create_context(require=require, standalone=True, **settings)
        except Exception as error:
            if type(error) is not Exception or "eglCreateContext" in str(error):
                raise
            raise HostError(  # glcontext's, where it finds no driver
                f"no OpenGL through EGL on this machine ({error}): name a host with create_context(\"ws://...\") or "
                f"GLREMOTE_HOST, or {INSTALL}"
            ) from error
        renderer = ctx.info["GL_RENDERER"]
        self._devices[ctx] = LocalDevice(renderer, reason)
        if is_software(renderer):
            warnings.warn(
                f"the context is on this machine's software renderer, {renderer}; name a host with "
                "create_context(\"ws://...\") or GLREMOTE_HOST to use a GPU",
                stacklevel=4,
            )
        return ctx


plain_create_context = moderngl.create_context
"""moderngl's own, also where `glremote run` has put ours in its place."""

_instance: Instance | None = None
_lock = threading.Lock()


def instance() -> Instance:
    """The one instance of this program."""
    global _instance
    with _lock:
        if _instance is None:
            _instance = Instance()
            atexit.register(end_process)
        return _instance
