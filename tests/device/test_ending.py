"""The end of a process: how long goodbyes may take, all together."""

from __future__ import annotations

import time

import pytest

from glremote.device import ending


class Slow:
    """A session of a host that takes nothing."""

    def __init__(self) -> None:
        self.given = 0.0

    def on_exit(self) -> None:
        self.given = ending.patience()
        time.sleep(self.given)

    def inherit(self) -> None:
        pass


def test_goodbyes_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "GOODBYE_TIMEOUT", 0.3)
    slow = [Slow() for _ in range(4)]
    monkeypatch.setattr(ending, "_open", dict(enumerate(slow)))
    ending.close_all()
    assert ending.LEAST_PATIENCE < slow[0].given <= 0.3
    assert [one.given for one in slow[1:]] == [ending.LEAST_PATIENCE] * 3
    assert ending.patience() == 0.3
