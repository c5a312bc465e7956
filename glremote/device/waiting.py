"""What a caller waits for: an answer on its way, and how handlers of signals are kept out of what must not be torn.

Knows: parts of an answer, signals. Does not know: links or sessions.
"""

from __future__ import annotations

import io
import signal
import threading
from _signal import getsignal as _getsignal  # type: ignore[import-not-found]  # signal's own wrappers make enumerations, and take 10 us a call
from _signal import signal as _signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from glremote.protocol.errors import ProtocolError

_NAMES = ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGBREAK")
_SIGNALS = tuple(int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name))
"""Those that programs handle in Python; each that is looked at costs every wait 60 ns."""


class Pending:
    """An answer on its way: to an Ask (MessagePack) or to a Fetch (bytes, into `sink` where there is one).

    What arrives is copied out at once. `finished` is called by `notify`, when it is complete.
    """

    __slots__ = ("_parts", "_received", "_sink", "_whole", "done", "error", "finished")

    def __init__(self, sink: memoryview | None = None, finished: Callable[[Pending], None] | None = None) -> None:
        self.done = False
        self.error: BaseException | tuple[str, str] | None = None
        self._sink = sink
        self.finished = finished
        self._whole = b""
        self._parts: io.BytesIO | None = None  # whose bytes `data` gives without another copy
        self._received = 0

    def take(self, start: int, total: int, data: memoryview | bytes) -> bool:
        """A part: `data` at `start` of `total` bytes, in order. Whether it is complete now. Raises ProtocolError."""
        sink, end = self._sink, start + len(data)
        if start != self._received or end > total or (sink is not None and len(sink) != total):
            raise ProtocolError(f"{len(data)} bytes at {start} of {total} are no answer to what was asked")
        if sink is not None:
            sink[start:end] = data
        elif len(data) == total:
            self._whole = bytes(data)
        else:
            if self._parts is None:
                self._parts = io.BytesIO()
                self._parts.seek(total - 1)
                self._parts.write(b"\0")  # it is as long as it will be: nothing is moved
                self._parts.seek(0)
            self._parts.write(data)
        self._received = end
        if end == total:
            self.done = True
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
        return self._whole if self._parts is None else self._parts.getvalue()


class CriticalSections:
    """Defers what handles signals, Ctrl-C among them, while a session is touched: no message is left half done.

    `with sections:` around a wait in the main thread; inside it `with sections.interruptible:` lets handlers run: they
    may raise KeyboardInterrupt, and may wait themselves. In other threads, and where the program has its own handler in
    C, it does nothing.
    """

    def __init__(self) -> None:
        self._main = threading.main_thread().ident
        self._handlers: dict[int, Any] = {}  # the program's, while ours stand in their place
        self._found: list[Any] = []  # of every signal, when it was last looked for
        self._callable: dict[int, Any] = {}  # of those
        self._depth = 0
        self._open = False
        self._arrived: list[int] = []
        self._ours = self._handle
        self.interruptible = _Interruptible(self)

    def __enter__(self) -> None:
        if threading.get_ident() != self._main:
            return
        self._depth += 1
        if self._depth == 1:
            self._open = False
            found = list(map(_getsignal, _SIGNALS))
            if found != self._found:
                self._found = found
                self._callable = {number: it for number, it in zip(_SIGNALS, found, strict=True) if callable(it)}
            self._handlers = self._callable
            for number in self._handlers:
                _signal(number, self._ours)

    def __exit__(self, *_: object) -> None:
        if threading.get_ident() != self._main:
            return
        self._depth -= 1
        if self._depth == 0 and self._handlers:
            handlers, self._handlers = self._handlers, {}
            self._restore(handlers)
            if self._arrived:
                arrived, self._arrived = self._arrived, []
                for number in arrived:
                    signal.raise_signal(number)

    def inherit(self) -> None:
        """In a forked child, which another thread may have made: what was deferred is the parent's to be told."""
        handlers, self._handlers, self._depth, self._arrived = self._handlers, {}, 0, []
        self._restore(handlers)

    def _restore(self, handlers: dict[int, Any]) -> None:
        for number, handler in handlers.items():
            if _getsignal(number) == self._ours:  # a handler that ran meanwhile may have set another
                _signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._open:
            self._open = False
            self._handlers[number](number, frame)
            self._open = True
        else:
            self._arrived.append(number)

    def _let_in(self) -> None:
        """Run what has arrived."""
        while self._arrived:
            self._handle(self._arrived.pop(0), None)


class _Interruptible:
    def __init__(self, sections: CriticalSections) -> None:
        self._sections = sections

    def __enter__(self) -> None:
        sections = self._sections
        if sections._handlers and threading.get_ident() == sections._main:
            sections._open = True
            sections._let_in()

    def __exit__(self, *_: object) -> None:
        self._sections._open = False
