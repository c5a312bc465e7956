"""SECURITY.md is true at least in this: every test and file that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SECURITY = (ROOT / "SECURITY.md").read_text()


@cache
def written() -> frozenset[str]:
    """The names of all tests."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "tests").rglob("test_*.py")]
    return frozenset(
        node.name for tree in trees for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+(?:\.\.\.|\.py)?)`", SECURITY))))
def test_tests_that_are_named_are_there(name: str) -> None:
    if name.endswith(".py"):
        assert list((ROOT / "tests").rglob(name))
    elif name.endswith("..."):
        assert [test for test in written() if test.startswith(name.removesuffix("..."))]
    else:
        assert name in written()


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"\b(?:tests|protocol|glremote|host)/[\w/]+(?:\.py|/)", SECURITY)))
)
def test_files_that_are_named_are_there(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / "glremote" / path).exists()
