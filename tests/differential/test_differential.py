"""Random programs come to the same in plain moderngl and in a session; what once did not stands here or in recording/.

The same programs each time; `make soak` goes on with others.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings

from .comparing import Rejected, as_test, difference, shortened
from .programs import programs
from .sides import Sides

EXAMPLES = 60


@pytest.fixture(scope="module")
def sides() -> Iterator[Sides]:
    """Both sides, each a child process."""
    with Sides("in-process") as both:
        yield both


def check(sides: Sides, lines: list[str]) -> None:
    """A program comes to the same on both sides; where it does not, a shorter one that does not is shown."""
    try:
        found = difference(sides, lines)
    except Rejected:
        reject()
    if found is not None:
        pytest.fail(as_test(*shortened(sides, lines, found)))


def test_random_programs(sides: Sides) -> None:
    @settings(
        max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(programs(5, 40))
    def one(lines: list[str]) -> None:
        check(sides, lines)

    one()


def test_a_difference_is_found_and_shortened(sides: Sides) -> None:
    lines = ["a = 1", "texture = ctx.texture((1, 1), 4, data(4))", "b = 2", "texture.glo + id(ctx)", "ctx.error"]
    found = difference(sides, lines)
    assert found is not None and found.line == lines[3]
    assert shortened(sides, lines, found)[0] == [lines[1], lines[3]]
    assert "def test_found" in as_test(lines, found)


def test_a_crash_of_plain_moderngl_is_no_difference(sides: Sides) -> None:
    with pytest.raises(Rejected, match="status -11"):
        difference(sides, ["import ctypes", "ctypes.string_at(0)"])
    assert difference(sides, ["ctx.error"]) is None
