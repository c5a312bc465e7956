"""The host's log: what strangers, clients and workers have in it is text, one line each, and not too many of them."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glremote.host.gateway.logs import AT_ONCE, FORMATS, INTERVAL, JsonFormatter, Restraint, TextFormatter, plain
from glremote.host.serving import LocalHost
from glremote.protocol.messages import Hello, Refused
from tests.attacker import Attacker
from tests.host.test_gateway import eventually

ESCAPES = "\x1b[2J\x1b]0;title\x07\nroot logged in\r\x00\x9b31m\u2028\u202e\ud800\x7f"


@pytest.mark.parametrize("text", ["", "a line", "größer als 日本", "C:\\windows"])
def test_what_is_text_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


@given(st.text() | st.text(st.sampled_from(ESCAPES)))
def test_what_is_none_is_shown_as_escapes(text: str) -> None:
    shown = plain(text)
    assert shown.isprintable()
    shown.encode()  # in any encoding of Unicode
    if text.isascii() and "\\" not in text:
        assert shown.encode().decode("unicode_escape") == text


# --- a log of its own


@pytest.fixture(params=FORMATS)
def written(request: pytest.FixtureRequest) -> Iterator[tuple[logging.Logger, Callable[[], list[str]]]]:
    """A logger, and the lines that were written."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if request.param == "json" else TextFormatter())
    handler.addFilter(Restraint())
    logger = logging.getLogger(f"a test of {request.param}")
    logger.propagate = False
    logger.addHandler(handler)
    yield logger, lambda: stream.getvalue().splitlines()
    logger.removeHandler(handler)


def test_a_record_is_one_line(written: Any) -> None:
    logger, lines = written
    logger.warning("it said %s", ESCAPES)
    logger.warning(ESCAPES)
    assert len(lines()) == 2
    assert all(line.replace("\x7f", "").isprintable() for line in lines())


def test_a_traceback_stays_lines_and_its_text_does_not_become_more(written: Any) -> None:
    logger, lines = written
    try:
        raise ValueError(ESCAPES)
    except ValueError:
        logger.exception("failed")
    text = "\n".join(lines())
    assert "ValueError" in text and "test_logs.py" in text and "\x1b" not in text and "\x9b" not in text
    if len(lines()) == 1:
        assert json.loads(text)["traceback"].startswith("Traceback")


def test_of_lines_that_are_alike_only_so_many_are_written(written: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    logger, lines = written
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    if sys.version_info >= (3, 13):
        monkeypatch.setattr("time.time_ns", lambda: int(now[0] * 1e9))
    for number in range(10 * AT_ONCE):
        logger.warning("a wrong token came from %s", number)
    assert len(lines()) == AT_ONCE
    logger.warning("another kind of line")
    logger.warning("a wrong token came from %s", "a session", extra={"session": "session 1"})
    assert len(lines()) == AT_ONCE + 2, "others are not restrained"
    now[0] += 2 * INTERVAL
    for _ in range(10):
        logger.warning("a wrong token came from %s", "here")
    assert len(lines()) == AT_ONCE + 4
    assert f"a wrong token came from here ({9 * AT_ONCE} lines like this were left out)" in lines()[-2]
    assert "left out" not in lines()[-1]
    now[0] += 10 * AT_ONCE * INTERVAL
    for _ in range(10 * AT_ONCE):
        logger.warning("a wrong token came from %s", "here")
    assert len(lines()) == 2 * AT_ONCE + 4


# --- of a real host


@pytest.mark.parametrize("kind", FORMATS)
def test_what_a_client_calls_itself_adds_no_line(kind: str) -> None:
    """It is in the reason for which the session is refused and ends, which is logged."""
    with LocalHost("--warm", "0", "--log-format", kind) as host:
        before = len(host.said().splitlines())
        attacker = Attacker(host, Hello(0, "\n".join(["", "session 1 ended", ESCAPES.replace("\ud800", "")]), "5", 430))
        refused = attacker.next()
        assert isinstance(refused, Refused) and "root logged in" in refused.reason
        eventually(lambda: "root logged in" in host.said())
        lines = host.said().splitlines()
        assert len(lines) == before + 3, "began, renders, ended"
        assert all(line.replace("\x7f", "").isprintable() for line in lines)
