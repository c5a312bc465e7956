"""`make conformance`: moderngl's own tests, plainly and through a websocket host, and the tests that differ.

The source distribution of the installed moderngl holds them; it and what they import (PyOpenGL, scipy) are fetched with
pip into .conformance/. Further arguments are pytest's. The exit status is 1 if a test differs that is not in
`exceptions.py`, or if one that calls OpenGL on the client passes after all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import moderngl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from glremote.host.serving import LocalHost

from .exceptions import CALLS_OPENGL

FOLDER = Path(__file__).resolve().parents[2] / ".conformance"
VERSION: str = moderngl.__version__  # type: ignore[attr-defined]
IMPORTED = ("PyOpenGL", "scipy")
REQUIRE = "430"
"""The OpenGL version of the tests' contexts: they use compute shaders."""

Results = dict[str, tuple[str, str]]
"""Of each test its outcome, and why where it did not pass."""


def fetch() -> Path:
    """The folder of moderngl's tests, with our conftest.py in it."""
    tests = FOLDER / f"moderngl-{VERSION}" / "tests"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    if not tests.is_dir():
        wanted = f"moderngl=={VERSION}"
        subprocess.run([*pip, "download", "--no-deps", "--no-binary=moderngl", "-d", FOLDER, wanted], check=True)
        with tarfile.open(FOLDER / f"moderngl-{VERSION}.tar.gz") as archive:
            archive.extractall(FOLDER, filter="data")
    if not (FOLDER / "site").is_dir():
        subprocess.run([*pip, "install", "--no-deps", "--target", FOLDER / "site", *IMPORTED], check=True)
    shutil.copy(Path(__file__).with_name("suite_conftest.py"), tests / "conftest.py")
    return tests


def run(way: str, command: Sequence[str], tests: Path, arguments: Sequence[str], token: str = "") -> Results:
    """Run the tests one way."""
    file = FOLDER / f"{way}.jsonl"
    file.unlink(missing_ok=True)
    variables = {
        "CONFORMANCE_RESULTS": str(file),
        "CONFORMANCE_REQUIRE": REQUIRE,
        "GLREMOTE_TOKEN": token,
        "GLREMOTE_CACHE": "0",
        "PYOPENGL_PLATFORM": "egl",
        "PYTHONPATH": str(FOLDER / "site"),
    }
    flags = ["-q", "--tb=no", "--no-header", "-p", "no:cacheprovider", "--rootdir=."]
    with open(FOLDER / f"{way}.log", "w") as log:
        pytest = [*command, "-m", "pytest", *flags, *arguments]
        done = subprocess.run(pytest, cwd=tests, env=os.environ | variables, stdout=log, stderr=log)
    if done.returncode not in (0, 1) or not file.exists():
        print((FOLDER / f"{way}.log").read_text()[-2000:], file=sys.stderr)
        print(f"the tests did not end ({way}, exit status {done.returncode})", file=sys.stderr)
    found: Results = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        test, when, outcome, why = json.loads(line)
        if found.get(test, ("passed",))[0] == "passed":
            found[test] = ("error" if outcome == "failed" and when != "call" else outcome, why)
    return found


def main(arguments: Sequence[str]) -> int:
    """Run both ways, compare, and print what differs."""
    FOLDER.mkdir(exist_ok=True)
    tests = fetch()
    plain = run("plain", [sys.executable], tests, arguments)
    with LocalHost() as host:
        remotely = [sys.executable, "-m", "glremote", "run", "--host", host.url]
        remote = run("remote", remotely, tests, arguments, host.token)
    missing = ("no result", "")
    differing = [test for test in {**plain, **remote} if plain.get(test, missing)[0] != remote.get(test, missing)[0]]
    unknown = [test for test in differing if test not in CALLS_OPENGL]
    passing = [test for test in CALLS_OPENGL if remote.get(test, missing)[0] == "passed"]
    table = Table("test", "plain", "remote", "why")
    for test in differing:
        outcome, why = remote.get(test, missing)
        reason = CALLS_OPENGL.get(test) or why.partition("\n")[0]
        style = "" if test in CALLS_OPENGL else "red"
        table.add_row(escape(test), plain.get(test, missing)[0], outcome, escape(reason), style=style)
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table)
    passed = sum(outcome == "passed" for outcome, _ in plain.values())
    console.print(f"{len(plain)} tests, of which {passed} pass plainly; {len(differing)} differ remotely,", end=" ")
    console.print(f"{len(unknown)} of them without a known reason")
    for test in passing:
        console.print(f"{test} is listed as calling OpenGL on the client, and passes", style="red")
    return 1 if unknown or passing or not plain else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
