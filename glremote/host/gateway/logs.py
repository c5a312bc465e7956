"""The host's log: lines as text, or as JSON for machines.

Knows: the two formats. Does not know: what is logged, except that a record's `session` names the session (or, before it
has one, the worker) that it concerns, and that its `fields` are more to tell.
"""

from __future__ import annotations

import json
import logging
import time

FORMATS = ("text", "json")


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
        return json.dumps(line, ensure_ascii=False, default=str)


def begin(kind: str) -> None:
    """Write the log to standard error from now on, in one of FORMATS."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if kind == "json" else logging.Formatter("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
