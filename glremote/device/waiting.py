"""What a caller waits for: an answer on its way, and how Ctrl-C is kept out of what must not be torn.

Knows: parts of an answer, signals. Does not know: links or sessions.
"""

from __future__ import annotations

import signal
import threading
from _signal import getsignal as _getsignal  # type: ignore[import-not-found]  # signal's own wrappers make enumerations, and take 10 us a call
from _signal import signal as _signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from glremote.protocol.errors import ProtocolError

_SIGINT = int(signal.SIGINT)


class Pending:
    """An answer on its way: to an Ask (MessagePack) or to a Fetch (bytes, into `sink` where there is one).

    What arrives is copied out at once. `finished` is called by `notify`, when it is complete.
    """

    __slots__ = ("_parts", "_received", "_sink", "done", "error", "finished")

    def __init__(self, sink: memoryview | None = None, finished: Callable[[Pending], None] | None = None) -> None:
        self.done = False
        self.error: BaseException | tuple[str, str] | None = None
        self._sink = sink
        self.finished = finished
        self._parts: list[bytes] = []
        self._received = 0

    def take(self, start: int, total: int, data: memoryview | bytes) -> bool:
        """A part: `data` at `start` of `total` bytes, in order. Whether it is complete now. Raises ProtocolError."""
        sink, end = self._sink, start + len(data)
        if start != self._received or end > total or (sink is not None and len(sink) != total):
            raise ProtocolError(f"{len(data)} bytes at {start} of {total} are no answer to what was asked")
        if sink is not None:
            sink[start:end] = data
        else:
            self._parts.append(bytes(data))
        self._received = end
        if end == total:
            self.finish()
        return self.done

    def finish(self, error: BaseException | tuple[str, str] | None = None) -> None:
        """It is complete, or will never be: the exception, or the type and text of what was raised on the host."""
        if not self.done:
            self.error = error
            self.done = True

    def notify(self) -> None:
        """Tell whoever is to be told that it is complete; by whichever thread receives, and holding no lock."""
        if self.finished is not None:
            self.finished(self)

    def data(self) -> bytes:
        """The bytes that arrived; b"" where they went into the sink."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class CriticalSections:
    """Defers Ctrl-C while a session is touched, so that it never leaves a message half done.

    `with sections:` around a wait in the main thread; inside it `with sections.interruptible:` lets KeyboardInterrupt
    through again. In other threads, and where the program has its own handler in C, it does nothing.
    """

    def __init__(self) -> None:
        self._main = threading.main_thread().ident
        self._previous: Any = None
        self._depth = 0
        self._open = False
        self._interrupted = False
        self.interruptible = _Interruptible(self)

    def __enter__(self) -> None:
        if threading.get_ident() != self._main:
            return
        self._depth += 1
        if self._depth == 1 and callable(_getsignal(_SIGINT)):
            self._interrupted = self._open = False
            self._previous = _signal(_SIGINT, self._handle)

    def __exit__(self, *_: object) -> None:
        if threading.get_ident() != self._main:
            return
        self._depth -= 1
        if self._depth == 0 and self._previous is not None:
            previous, self._previous = self._previous, None
            _signal(_SIGINT, previous)
            if self._interrupted:
                self._interrupted = False
                previous(_SIGINT, None)

    def inherit(self) -> None:
        """In a forked child, which another thread may have made: what was deferred is the parent's to be told."""
        previous, self._previous, self._depth = self._previous, None, 0
        if previous is not None:
            _signal(_SIGINT, previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._open:
            self._open = False
            self._previous(number, frame)
        else:
            self._interrupted = True


class _Interruptible:
    def __init__(self, sections: CriticalSections) -> None:
        self._sections = sections

    def __enter__(self) -> None:
        sections = self._sections
        if sections._previous is not None and threading.get_ident() == sections._main:
            sections._open = True
            if sections._interrupted:
                sections._interrupted = sections._open = False
                sections._previous(_SIGINT, None)

    def __exit__(self, *_: object) -> None:
        self._sections._open = False
