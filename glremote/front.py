"""The front: what a program calls. Every function works on contexts of plain moderngl too."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, overload

import moderngl

from glremote.protocol.errors import CannotReplay, Inherited

from .device.choosing import DeviceRecord
from .device.devices import LocalDevice
from .device.remote import RemoteDevice
from .device.waiting import Pending
from .instance import instance
from .recording.context import Context
from .recording.faults import raise_error
from .recording.recorder import Recorder
from .recording.replays import record as record_kept

__all__ = [
    "ReadFuture", "Recording", "command_buffer", "create_context", "device", "instance", "read_async", "record",
]  # fmt: skip


def create_context(
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
    """A standalone moderngl.Context on a device of a host, or of this machine.

    `host` is "ws://HOST:PORT" or "wss://HOST:PORT", the name of an associated host, or "local" for moderngl's own
    context here. `device` is a host's name or URL too, or with one of its devices: "HOST/0" or "HOST:0" by its number,
    "HOST/GPU-..." by its UUID (the first eight characters will do), "HOST/0000:3b:00.0" by its PCI address,
    "HOST/software"; "local/0" is this machine's; a UUID needs no host's name; or it is a record of
    `instance().devices()`. Beside a `host` it is the number, UUID or address alone. What was named is never left for
    another.

    Where neither names anything it is the environment's GLREMOTE_HOST, which may say all that `device` may. Else, where
    hosts are associated (see `instance`), of the devices that will do the least busy, else the nearest; this machine's
    GPU behind them (or before them: `local = "first"` in the hosts' file, or GLREMOTE_LOCAL=first), and its software
    renderer last. A host that fails then is left for the next. `glremote.device(ctx).reason` says why it is where it
    is. Where no host is associated it is this machine.

    What is required: `require` is the least OpenGL version (430 for 4.3; default 330), `extensions` are names of
    OpenGL's, `memory` is what is free on the device, in bytes or as "8g", and with `software=False` a software renderer
    will not do. Where a host is named they are required of it.

    `token` is what the named host admits; without it the token in GLREMOTE_TOKEN or the one that the host was
    associated with, the latter first unless the host was named by its URL. A wss:// host's certificate is one that the
    system's authorities vouch for, or those in the file `ca`, or the one whose `pin` ("sha256:...") is given; where
    neither is, GLREMOTE_CA_FILE and GLREMOTE_PIN say it. A host on this machine, of this user, shares memory with us
    instead of sending it through the websocket, unless `near` is False. `device_index` (moderngl's) and `settings`
    (moderngl's `backend`, ...) are for contexts on this machine only.

    Raises HostUnreachable, NotAdmitted or VersionMismatch, naming the host, within 5 seconds where nobody answers;
    NoDevice where none will do, saying of each why not; HostError where this machine has no OpenGL; HostsFileError
    where the hosts' file cannot be used as it is; TypeError or NotImplementedError for what is not for a context there;
    ValueError where `host`, `device`, `memory`, `ca` or `pin` is none; and where a driver has no OpenGL as new as
    `require`, what moderngl raises: ValueError, or an Exception with EGL's word for it.
    """
    return instance().create_context(
        host,
        device=device,
        token=token,
        ca=ca,
        pin=pin,
        require=require,
        extensions=extensions,
        memory=memory,
        software=software,
        device_index=device_index,
        near=near,
        **settings,
    )


def device(ctx: moderngl.Context) -> LocalDevice | RemoteDevice:
    """Where a context is: `.host`, `.renderer`, `.reason`, `.remote`; and `.measure()` for its Traffic so far.

    Raises ValueError for one that moderngl itself made, and that was released.
    """
    return instance().device(ctx)


def command_buffer(ctx: moderngl.Context) -> AbstractContextManager[None]:
    """`with glremote.command_buffer(ctx):` makes one command buffer of the calls inside.

    It is accepted whole, and run in order, uninterrupted and once; it is no transaction.

    Inside, a call that must wait for an answer raises WouldWait, and more than a buffer holds (1 MiB of commands,
    16 MiB of data) raises BufferTooLarge at the call that passes it. An exception leaves the block unsent, and
    everything as before it. Nested blocks are one. On a local context it does nothing.
    """
    recorder = _recorder(ctx)
    return nullcontext() if recorder is None else recorder.block()


class Recording(Protocol):
    """Calls that were made once and can be made again: see `record`."""

    def replay(self) -> None:
        """Make the calls again, with the values that they had; what they set is set again, on the context too.

        Inside `with glremote.command_buffer(ctx)` it is part of that buffer, in its order. Raises CannotReplay when
        this, or an object that a call uses, was released. What fails on the host is a Fault that names the call.
        """

    def release(self) -> None:
        """Let the host forget the calls, as it does when nobody holds this any more."""


@overload
def record(ctx: moderngl.Context) -> AbstractContextManager[Recording]: ...
@overload
def record(ctx: moderngl.Context, calls: Callable[[], object]) -> Recording: ...
def record(
    ctx: moderngl.Context, calls: Callable[[], object] | None = None
) -> AbstractContextManager[Recording] | Recording:
    """`with glremote.record(ctx) as recorded:` is `command_buffer`, and the host keeps it: `recorded.replay()`.

    A replay sends a number instead of the calls. It makes them with the values that they had, the data that was written
    and the objects that were meant (`ctx.clear` clears the framebuffer that was bound: begin with `use()`). What is to
    be another each time, as a uniform, is set before the replay, and not in the block.

    Inside, besides what `command_buffer` says, a call that makes an object, `read_async`, a replay, and another block
    of this kind raise CannotReplay. What is released inside is released once. Where a host keeps more than 64 MiB of
    one context's, the next call raises a Fault that says so, and there is no recording.

    Contexts on this machine record nothing: there this raises NotImplementedError. `glremote.record(ctx, calls)` is for
    both: on a host it records what the function calls; here it calls it, at once and for each replay. So the function
    must do the same each time.
    """
    if isinstance(ctx.mglo, Context):
        if calls is None:
            return record_kept(ctx.mglo, ctx)
        with record_kept(ctx.mglo, ctx) as made:
            calls()
        return made
    if calls is None:
        raise NotImplementedError(
            "a context on this machine records nothing: give the calls as a function, `glremote.record(ctx, function)`"
        )
    calls()
    return _Function(calls)


class _Function:
    """A Recording of a context on this machine."""

    def __init__(self, calls: Callable[[], object]) -> None:
        self._calls: Callable[[], object] | None = calls

    def replay(self) -> None:
        if self._calls is None:
            raise CannotReplay("the recording was released")
        self._calls()

    def release(self) -> None:
        self._calls = None


def read_async(source: Any, *arguments: Any, **options: Any) -> ReadFuture:
    """`source.read(...)` without waiting: a future of the bytes, of a Framebuffer, Texture (any kind) or Buffer.

    It is a concurrent.futures.Future and can be awaited. What is recorded meanwhile goes on; the read sees everything
    that was recorded before it. Errors of the arguments are raised at once, as by `read`.
    """
    mglo = getattr(source, "mglo", None)
    recorder: Recorder | None = getattr(mglo, "recorder", None)
    future = ReadFuture(recorder)
    if recorder is None:
        future.set_result(source.read(*arguments, **options))
        return future
    with recorder.later(future.pending):
        source.read(*arguments, **options)
    return future


class ReadFuture(concurrent.futures.Future[bytes], Awaitable[bytes]):
    """The bytes of a read that is on its way."""

    def __init__(self, recorder: Recorder | None) -> None:
        super().__init__()
        self._recorder = recorder
        self.pending = Pending(finished=self._finish)
        self.set_running_or_notify_cancel()

    def _finish(self, pending: Pending) -> None:
        try:
            raise_error(pending.error)
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(pending.data())

    def result(self, timeout: float | None = None) -> bytes:
        """The bytes; waits for at most `timeout` seconds."""
        self._receive(timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the read raised, or None; waits for at most `timeout` seconds."""
        self._receive(timeout)
        return super().exception(timeout)

    def _receive(self, timeout: float | None) -> None:
        if self._recorder is None or self.done():
            return
        self._recorder.check_sent(self.pending)
        if isinstance(self._recorder.device.lost, Inherited):  # the answer comes to the parent process
            raise self._recorder.device.lost
        if timeout is None:
            self._recorder.device.wait(self.pending)

    def __await__(self) -> Generator[Any, None, bytes]:
        import asyncio  # where a program awaits, it is there already

        self._receive(0)
        return asyncio.wrap_future(self).__await__()


def _recorder(ctx: moderngl.Context) -> Recorder | None:
    mglo: Any = ctx.mglo
    return mglo.recorder if isinstance(mglo, Context) else None

