"""moderngl's own tests run with this as their conftest.py: where they get contexts, and what came of each.

`python -m tests.conformance` puts it beside them, plainly or under `glremote run`: it is the same file both times.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import moderngl
import pytest

_shared: list[moderngl.Context] = []


def _made() -> moderngl.Context:
    settings: dict[str, Any] = {"backend": "egl", "require": int(os.environ["CONFORMANCE_REQUIRE"])}
    made = moderngl.create_context(standalone=True, **settings)
    made.simple_framebuffer((64, 64)).use()  # transform() wants a complete one
    return made


@pytest.fixture(scope="module")
def ctx() -> Iterator[moderngl.Context]:
    """The context of the tests of one file: their own fixtures are made once, too."""
    made = _made()
    _shared.append(made)
    yield made
    _shared.remove(made)
    made.release()


@pytest.fixture
def ctx_new() -> Iterator[moderngl.Context]:
    """A context of this test's own; the file's is the current one again afterwards."""
    made = _made()
    yield made
    made.release()
    for shared in _shared:
        shared.__enter__()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """One line of JSON for each test, as it ends: a process that crashes leaves the others' lines."""
    if report.when == "call" or report.outcome != "passed":
        crash = getattr(report.longrepr, "reprcrash", None)
        why = crash.message if crash else report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        with open(os.environ["CONFORMANCE_RESULTS"], "a") as file:
            print(json.dumps([report.nodeid, report.when, report.outcome, why]), file=file)
