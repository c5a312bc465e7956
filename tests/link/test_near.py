"""Knocking at a worker's door: a real one (host/near.py), which may be slow, or never open, or not be there."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import glremote
from glremote.host.near import Door
from glremote.link import near
from tests.host.test_gateway import TOKEN, Host

SIZE = 1 << 20
SLOW = 1.5
"""Seconds; a client once had the patience of one."""


@pytest.fixture
def door() -> Iterator[Door]:
    """A door at which nobody has knocked yet."""
    door = Door(SIZE)
    yield door
    door.close()


def test_a_worker_that_is_slow_to_open_is_waited_for(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    opened = []

    def open_late() -> None:
        time.sleep(SLOW)
        opened.append(door.admit())

    slow = threading.Thread(target=open_late)
    slow.start()
    way = near.connect(door.offer, SIZE)
    slow.join()
    assert way is not None and opened[0] is not None
    way[0].send([[b"over shared memory"]])
    assert opened[0].receive(30.0) == [b"over shared memory"]
    assert not caplog.records


def test_a_door_that_never_opens_is_told_of(
    door: Door, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near, "TIMEOUT", 0.2)
    assert near.connect(door.offer, SIZE) is None
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("glremote", logging.WARNING)
    assert "everything goes over the websocket" in record.getMessage()


def test_a_door_that_is_not_there_is_no_news_and_takes_no_time(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    door.close()
    began = time.monotonic()
    assert near.connect(door.offer, SIZE) is None
    assert time.monotonic() - began < near.TIMEOUT / 2
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


SLOW_WORKER = """
import sys, time
from glremote.host import near, process
admit = near.Door.admit
near.Door.admit = lambda door: time.sleep(float(sys.argv[1])) or admit(door)
sys.exit(process.main(sys.argv[2:]))
"""


def test_a_context_is_near_also_where_its_worker_is_slow(tmp_path: Path) -> None:
    host = Host(tmp_path, worker_command=[sys.executable, "-P", "-c", SLOW_WORKER, str(SLOW)])
    try:
        ctx = glremote.create_context(host.url, token=TOKEN)
        assert glremote.device(ctx).near  # type: ignore[union-attr]
        assert ctx.buffer(b"four").read() == b"four"
        ctx.release()
    finally:
        host.close()
