"""The instance: the one object per program that knows all associated hosts and makes contexts.

Knows: where a context may go, and how one is made there. Does not know: what is recorded, or how it travels.
"""

from __future__ import annotations

import functools
import os
import re
import threading
import warnings
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import moderngl

from . import packages
from .device.choosing import DeviceRecord, Wanted
from .device.devices import LocalDevice
from .device.remote import RemoteDevice
from .device.road import Connector
from .hosts import Host
from .link import websocket
from .placing import Named, Placing
from .protocol.errors import HostError
from .protocol.reflection import is_software
from .recording.context import Context
from .recording.facade import MODERNGL, facade
from .version import VERSION


class Instance:
    """Makes contexts, each local or remote for life, and says where they are. Use `glremote.instance()`."""

    def __init__(self) -> None:
        self._devices: weakref.WeakKeyDictionary[moderngl.Context, LocalDevice] = weakref.WeakKeyDictionary()
        self._placing = Placing()

    def inherit(self) -> None:
        """In a forked child: what is known of hosts stays."""
        self._placing.inherit()

    # --- hosts and their devices

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts that are associated: those of the hosts' file, and what `associate` has added."""
        return self._placing.settings.hosts

    def associate(
        self,
        url: str,
        *,
        token: str | None = None,
        name: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        pin: str | None = None,
    ) -> Host:
        """Know the host at `url` (ws:// or wss://) from now on: its devices are listed, and contexts may be made there.

        `token` is what it admits, `ca` or `pin` whom to trust (see `create_context`), `name` what it is called here
        (HOST:PORT without). A host that is associated already is known by these from now on. Nothing is sent to it yet.
        Raises ValueError for what is no host, and where another has the name.
        """
        host = Host(url, name or "", token, None if ca is None else os.fspath(ca), pin)
        self._placing.associate(host)
        return host

    def devices(self) -> list[DeviceRecord]:
        """Every device of every associated host, and behind them this machine's own, as they are now.

        Hosts are asked at the same time. One that does not answer within a second, or refuses, has one record with an
        `error`.
        """
        return self._placing.devices()

    # --- contexts

    def create_context(
        self,
        host: str | None = None,
        *,
        device: str | int | DeviceRecord | None = None,
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        pin: str | None = None,
        require: int | None = None,
        extensions: Iterable[str] = (),
        memory: int | str = 0,
        software: bool = True,
        device_index: int | None = None,
        near: bool = True,
        **settings: Any,
    ) -> moderngl.Context:
        """A moderngl.Context on a host or on this machine. See `glremote.create_context`."""
        named = self._placing.named(host, device, token, ca, pin)
        self._check_trust(named, token, ca, pin)
        names = (extensions,) if isinstance(extensions, str) else tuple(extensions)
        wanted = Wanted(require or 0, names, read_bytes(memory), software)

        def make(on: Host | None, records: Sequence[DeviceRecord], reason: str) -> moderngl.Context:
            if on is None:
                record = records[0] if records else None
                index = record.index if record is not None and device_index is None else device_index
                return self._local(require, index, reason, settings, record)
            if settings:
                raise TypeError(f"a remote context takes no {', '.join(sorted(settings))}")
            if device_index is not None:
                raise NotImplementedError(
                    "create_context(device_index=...) counts the devices of this machine; on a host name one with "
                    'device="HOST/0"'
                )
            least = 330 if require is None else require
            return self._facade(self._open(on, records, reason, least, near), least)

        return self._placing.place(named, wanted, make)

    def _check_trust(
        self, named: Named | None, token: str | None, ca: str | os.PathLike[str] | None, pin: str | None
    ) -> None:
        if named is not None and named.host is not None:
            return
        if ca is not None or pin is not None:
            raise TypeError("a ca or a pin is for a host that is named, whose certificate is held against it")
        if (named is None or named.anywhere) and token is not None and self.hosts:
            raise TypeError("a token is for a host that is named; give each of several its own with `associate`")

    def open(
        self,
        host: str | None,
        token: str | None,
        reason: str,
        require: int,
        near: bool = True,
        ca: str | os.PathLike[str] | None = None,
        pin: str | None = None,
    ) -> RemoteDevice:
        """A new session on a host that is named by its URL or its name; on one of those associated where it is not."""
        named = None if host is None else self._placing.named(host, None, token, ca, pin)
        if named is not None and named.host is None:
            raise ValueError(f"{host!r} is no host, but this machine")

        def make(on: Host | None, records: Sequence[DeviceRecord], chosen: str) -> RemoteDevice:
            assert on is not None
            return self._open(on, records, chosen if named is None else reason, require, near)

        return self._placing.place(named, Wanted(require), make, local=False)

    def _open(
        self, host: Host, records: Sequence[DeviceRecord], reason: str, require: int, near: bool = True
    ) -> RemoteDevice:
        handles = [record.handle for record in records if record.handle is not None]
        connector = functools.partial(
            websocket.connect,
            host.url,
            host.current_token,
            trust=host.trust,
            device=",".join(handles) or None,
        )
        device = RemoteDevice(connector, host.url, reason, VERSION, MODERNGL, require, near)
        if records:
            device.listed = next((record for record in records if record.header == device.place), records[0])
            if device.listed is not records[0]:
                device.reason += f"; of those that are alike its host took {device.listed.title}"
        return device

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

    def _local(
        self,
        require: int | None,
        device_index: int | None,
        reason: str,
        settings: dict[str, Any],
        record: DeviceRecord | None,
    ) -> moderngl.Context:
        settings = {"backend": "egl"} | settings
        if device_index is not None:
            settings["device_index"] = device_index
        try:
            ctx = plain_create_context(require=require, standalone=True, **settings)
        except Exception as error:
            if type(error) is not Exception or "eglCreateContext" in str(error):
                raise
            raise HostError(  # glcontext's, where it finds no driver
                f"no OpenGL through EGL on this machine ({error}): name a host with create_context(\"ws://...\") or "
                f"GLREMOTE_HOST, or {packages.advice()}"
            ) from error
        renderer = ctx.info["GL_RENDERER"]
        self._devices[ctx] = LocalDevice(renderer, reason, listed=record)
        if is_software(renderer):
            warnings.warn(
                f"the context is on this machine's software renderer, {renderer}; name a host with "
                "create_context(\"ws://...\") or GLREMOTE_HOST to use a GPU",
                stacklevel=6,
            )
        return ctx


def read_bytes(memory: int | str) -> int:
    """A number of bytes; in text k, m and g are units of 1024, as in "8g". Raises ValueError."""
    found = re.fullmatch(r"(\d+)([kmg]?)", str(memory).strip().lower(), re.ASCII)
    if found is None:
        raise ValueError(f"{memory!r} is no number of bytes: give one, or a text as \"8g\"")
    return int(found[1]) << 10 * " kmg".index(found[2] or " ")


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
        return _instance


def _after_fork() -> None:
    """In the child: a thread that is not there may have held a lock."""
    global _lock
    _lock = threading.Lock()
    if _instance is not None:
        _instance.inherit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
