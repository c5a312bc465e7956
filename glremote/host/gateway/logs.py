"""The host's log: lines as text, or as JSON for machines.

Knows: the two formats, and how much is too much. Does not know: what is logged, except that a record's `session` names
the session (or, before it has one, the worker) that it concerns, and that its `fields` are more to tell.

What is logged comes in part from strangers, from clients, and from workers, which may be what a client has made of
them. So a record is one line and has no character that a terminal obeys, and of lines that are alike, of one session
or of none, only so many are written.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from typing import Any

FORMATS = ("text", "json")
AT_ONCE = 100
"""So many lines that are alike are written at once ..."""
INTERVAL = 1.0
"""... and then one in so many seconds."""
MOST_KINDS = 1024
"""Of so many kinds of lines it is known how many were written; then the oldest is forgotten."""


def plain(text: str) -> str:
    """The same, with escapes for whatever is no printable character."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class TextFormatter(logging.Formatter):
    """The message alone; behind an exception's its traceback, whose lines stay lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        return plain(record.message)

    def formatException(self, exc_info: Any) -> str:
        """See logging.Formatter."""
        return "\n".join(map(plain, super().formatException(exc_info).split("\n")))


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, session (null where a line concerns none), message, and the record's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{seconds}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "session": getattr(record, "session", None),
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in getattr(record, "fields", {}).items() if name not in line}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)  # in ASCII: no characters that a terminal obeys


class Restraint(logging.Filter):
    """Lets so many lines pass that are alike: of one session, and from one place in the program."""

    def __init__(self) -> None:
        super().__init__()
        self._written: OrderedDict[tuple[object, str], tuple[float, float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter. What was left out is told by the next line that passes."""
        kind = getattr(record, "session", None), str(record.msg)
        count, since, left_out = self._written.pop(kind, (0.0, record.created, 0))
        count = max(0.0, count - (record.created - since) / INTERVAL)
        passes = count + 1 <= AT_ONCE
        if passes and left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out} lines like this were left out)", ()
        self._written[kind] = (count + 1, record.created, 0) if passes else (count, record.created, left_out + 1)
        if len(self._written) > MOST_KINDS:
            self._written.popitem(last=False)
        return passes


def begin(kind: str) -> None:
    """Write the log to standard error from now on, in one of FORMATS."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if kind == "json" else TextFormatter())
    handler.addFilter(Restraint())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
