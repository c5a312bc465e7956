"""glremote: moderngl programs, unmodified, on a GPU in another machine.

    import glremote
    ctx = glremote.create_context("ws://gpu-1:8765")   # a moderngl.Context; nothing else in the program changes

See README.md; the words used here are those of its glossary.
"""

from typing import TYPE_CHECKING, Any

from .device.choosing import DeviceRecord
from .device.devices import LocalDevice, Traffic
from .device.remote import RemoteDevice
from .front import (
    ReadFuture,
    Recording,
    command_buffer,
    create_context,
    device,
    instance,
    read_async,
    record,
)
from .hosts import Host
from .protocol.errors import (
    BufferTooLarge,
    CallError,
    CannotReplay,
    DeviceLost,
    Error,
    ForeignName,
    HostError,
    HostsFileError,
    HostUnreachable,
    Inherited,
    LinkError,
    NoDevice,
    NotAdmitted,
    ProtocolError,
    TooLarge,
    VersionMismatch,
    WouldWait,
)
from .recording.faults import Fault
from .version import VERSION as __version__

if TYPE_CHECKING:
    from .images import array, image

__all__ = [
    "BufferTooLarge",
    "CallError",
    "CannotReplay",
    "DeviceLost",
    "DeviceRecord",
    "Error",
    "Fault",
    "ForeignName",
    "Host",
    "HostError",
    "HostUnreachable",
    "HostsFileError",
    "Inherited",
    "LinkError",
    "LocalDevice",
    "NoDevice",
    "NotAdmitted",
    "ProtocolError",
    "ReadFuture",
    "Recording",
    "RemoteDevice",
    "TooLarge",
    "Traffic",
    "VersionMismatch",
    "WouldWait",
    "__version__",
    "array",
    "command_buffer",
    "create_context",
    "device",
    "image",
    "instance",
    "read_async",
    "record",
]


def __getattr__(name: str) -> Any:
    """`array` and `image`: they bring numpy and Pillow, which take longer to import than all of ours."""
    if name in ("array", "image"):
        from . import images

        return getattr(images, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
