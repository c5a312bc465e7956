"""Every sample: the same bytes in plain moderngl and every remote way, and no waits but those that must be."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

import moderngl
import pytest

import glremote
from glremote.recording import known
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
    """And the second time for its read only: what the driver told of the programs is known."""
    ctx = new_context("in-process", sample.REQUIRE)
    for again in (False, True):
        before = glremote.device(ctx).measure().waits
        sample.render(ctx)
        waits = glremote.device(ctx).measure().waits - before
        assert waits == (1 if again else len(known.SEEN) + 1)
