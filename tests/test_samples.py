"""Every sample: the same bytes in plain moderngl and every remote way, and no waits but those that must be."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

import moderngl
import pytest

import glremote
from glremote.samples import NAMES
from tests.conftest import REMOTE_WAYS

NewContext = Callable[..., moderngl.Context]


@pytest.fixture(params=NAMES)
def sample(request: pytest.FixtureRequest) -> ModuleType:
    """Each sample in turn."""
    return importlib.import_module(f"glremote.samples.{request.param}")


def test_same_bytes_every_way(sample: ModuleType, new_context: NewContext) -> None:
    plain = sample.render(new_context("plain", sample.REQUIRE)).tobytes()
    for way in REMOTE_WAYS:
        ctx = new_context(way, sample.REQUIRE)
        assert sample.render(ctx).tobytes() == plain, way
        assert ctx.error == "GL_NO_ERROR"


def test_waits_for_its_read_and_its_programs_only(sample: ModuleType, new_context: NewContext) -> None:
    ctx = new_context("in-process", sample.REQUIRE)
    made = _count_programs(ctx)
    before = glremote.device(ctx).measure().waits
    sample.render(ctx)
    assert glremote.device(ctx).measure().waits - before == len(made) + 1


def _count_programs(ctx: moderngl.Context) -> list[object]:
    """What making programs returned, as the sample goes on."""
    made: list[object] = []
    make = ctx.mglo.program

    def program(*arguments: object) -> object:
        made.append(result := make(*arguments))
        return result

    ctx.mglo.program = program
    return made
