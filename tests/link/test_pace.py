"""How much to pack: a table of where the time went, and what follows."""

from __future__ import annotations

import pytest

from glremote.link.pace import FAR, HOLD, STRONGEST, WINDOW, Pace


def windows(pace: Pace, packing: float, waiting: float, count: int = 1) -> int:
    """So many windows of one second each, with these shares; the level then."""
    for _ in range(count):
        now = pace._since + 1.0
        pace.waited(waiting)
        pace.packed(WINDOW, packing, now)
    return pace.level


@pytest.mark.parametrize(("distance", "level"), [(0.0, 0), (FAR / 2, 0), (FAR, STRONGEST), (1.0, STRONGEST)])
def test_what_is_far_is_packed_at_once(distance: float, level: int) -> None:
    assert Pace(distance).level == level


@pytest.mark.parametrize(
    ("distance", "packing", "waiting", "level"),
    [
        (1.0, 0.9, 0.0, STRONGEST - 1),  # the link could carry more
        (1.0, 0.5, 0.4, STRONGEST),  # both are busy
        (1.0, 0.1, 0.1, STRONGEST),  # the program thinks: it does not matter
        (1.0, 0.1, 0.9, STRONGEST),
        (0.0, 0.0, 0.9, 1),  # the link is slow after all
        (0.0, 0.0, 0.1, 0),
    ],
)
def test_one_window(distance: float, packing: float, waiting: float, level: int) -> None:
    assert windows(Pace(distance), packing, waiting) == level


def test_a_level_that_was_too_low_is_left_alone_for_a_while() -> None:
    pace = Pace()
    assert windows(pace, 0.0, 0.9) == 1
    assert windows(pace, 0.9, 0.0, HOLD) == 1
    assert windows(pace, 0.9, 0.0) == 0
    assert windows(pace, 0.0, 0.9) == 1
    assert windows(pace, 0.9, 0.0, 2 * HOLD) == 1
    assert windows(pace, 0.9, 0.0) == 0


def test_less_than_a_window_decides_nothing() -> None:
    pace = Pace(1.0)
    assert pace.packed(WINDOW - 1, 10.0, 10.0) == STRONGEST
    assert pace.packed(1, 0.0, 10.0) == STRONGEST - 1
