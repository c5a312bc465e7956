"""What `glremote run` puts in moderngl's place, so that an unmodified program's contexts are on a host.

Knows: the one function of moderngl's extension module that makes contexts (`mgl.create_context`), which all of
moderngl.create_context, create_standalone_context and libraries come to. Does not know: the command line.
"""

from __future__ import annotations

from typing import Any

import moderngl
from moderngl import mgl  # type: ignore[attr-defined]

from .device.remote import RemoteDevice
from .instance import Instance, instance
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
        if settings.get("mode") != "standalone":
            raise NotImplementedError("create_context() without standalone=True is not in this version of glremote")
        device: RemoteDevice = self._instance.open(self._host, self._token, "glremote run", settings["glversion"])
        context = Context(device)
        return context, context.version_code


def install(host: str, token: str | None) -> None:
    """From now on every context that this program makes through moderngl is on `host`."""
    moderngl.mgl = Seam(instance(), host, token)  # type: ignore[attr-defined]
