"""The README is true: its snippets run as they stand, and print what it says they print."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from glremote.host.serving import LocalHost
from glremote.hosts import read

README = pathlib.Path(__file__).parent.parent / "README.md"
ADDRESS = "ws://127.0.0.1:8765"


def blocks(heading: str, language: str) -> list[str]:
    """The blocks of code in a section."""
    section = README.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def run(program: str, host: LocalHost, folder: pathlib.Path, *command: str) -> str:
    """What a program prints, with the README's host at that address."""
    script = folder / "program.py"
    script.write_text(program.replace(ADDRESS, host.url))
    environment = {**os.environ, "GLREMOTE_TOKEN": host.token}
    arguments = [sys.executable, *command, str(script)]
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(host.url, ADDRESS)


def test_the_front(served: LocalHost, tmp_path: pathlib.Path) -> None:
    said = run("".join(blocks("The front", "python")), served, tmp_path)
    assert said.splitlines() == "".join(blocks("The front", "text")).splitlines()


def test_the_quick_start(served: LocalHost, tmp_path: pathlib.Path) -> None:
    program, in_code = blocks("Quick start: use it", "python")
    said = run(program, served, tmp_path, "-m", "glremote", "run", "--host", served.url)
    assert said.startswith("triangle.png was drawn by")
    assert (tmp_path / "triangle.png").stat().st_size > 1000
    run(in_code, served, tmp_path)


def test_several_hosts(served: LocalHost, tmp_path: pathlib.Path) -> None:
    (in_file,) = blocks("Several hosts", "toml")
    (tmp_path / "hosts.toml").write_text(in_file.replace("64-DIGITS", 64 * "a"))
    (tmp_path / "hosts.toml").chmod(0o600)
    assert [host.name for host in read(tmp_path / "hosts.toml").hosts] == ["gpu-1"]
    said = run("".join(blocks("Several hosts", "python")), served, tmp_path).splitlines()
    assert said[0].startswith("here ")
    assert re.match(r"here.* \(.*\): ", said[-1])


@pytest.mark.parametrize("path", re.findall(r"\]\((?!http)([^)#]+)", README.read_text()))
def test_links_lead_somewhere(path: str) -> None:
    assert (README.parent / path).exists()
