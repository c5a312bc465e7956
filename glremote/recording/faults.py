"""Faults, as the program sees them: what the host reported becomes an exception, with the line that recorded it.

Knows: what moderngl raises, and which lines of a traceback are ours. Does not know: when a fault is raised.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import moderngl

from glremote.protocol import messages
from glremote.protocol.errors import DeviceLost, HostError

NEVER = "never"
"""The attribute that an object has which was never made: why."""


class Fault(HostError, moderngl.Error):
    """A command that was recorded earlier failed on the host; the text says which, where and what went with it."""


class Released(DeviceLost, moderngl.Error):
    """A call on a context that was released, or on one of its objects."""


def is_stale(fault: messages.Fault) -> bool:
    """Whether it says that what was known of a program does not hold."""
    return fault.command.startswith("CheckReflection(")


STALE = (
    "what glremote knew of this program, from the first time that it was made, does not hold on the host any more; it "
    "is forgotten now, so make the program again (GLREMOTE_CACHE=0 keeps nothing on disk):\n"
)


def described(fault: messages.Fault, site: str | None) -> Fault:
    """The exception for a fault of the host's, and the line that recorded its command, where that is known."""
    kind, text = fault.error
    stale = STALE if is_stale(fault) else ""
    where = f"recorded at {site}" if site else "set GLREMOTE_DEBUG=1 to see the line that recorded it"
    return Fault(
        f"{stale}{text if kind == 'Error' else f'{kind}: {text}'}\n"
        f"in {fault.command}\n"
        f"command {fault.index} of buffer {fault.buffer}\n"
        f"{where}\n"
        "what was recorded after it has not run, and its data is lost; the context works on"
    )


def is_made(thing: Any) -> bool:
    """Whether the command that makes this object was not dropped."""
    return NEVER not in object.__getattribute__(thing, "__dict__")


EXCEPTIONS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (moderngl.Error, TypeError, ValueError, OverflowError, SystemError, BufferError, MemoryError)
}
"""What moderngl raises, by name; anything else that the host reports is a HostError."""


def raise_error(error: BaseException | tuple[str, str] | None) -> None:
    """Raise what an answer came with, if anything: an exception of the client's, or one that the host names."""
    if isinstance(error, BaseException):
        raise error
    if error is not None:
        kind, text_ = error
        if kind == "Dropped":
            raise Fault(text_)
        raise EXCEPTIONS[kind](text_) if kind in EXCEPTIONS else HostError(f"{kind}: {text_}")


_OURS = (os.path.dirname(moderngl.__file__), os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def site() -> str:
    """The line of the user's program that is being executed: the nearest that is neither moderngl's nor ours."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
