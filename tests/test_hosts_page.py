"""HOSTS.md is true: its commands run as they stand, as far as one machine without an administrator can run them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glremote.link.tls import pin_of
from tests.test_cli import DEADLINE, command

PAGE = Path(__file__).parent.parent / "HOSTS.md"
PROGRAM = "import moderngl; print(moderngl.create_context(standalone=True).info['GL_RENDERER'])"


def blocks(heading: str) -> list[str]:
    """The commands in a section, down to the next heading; a comment of a shell's is none."""
    found: list[str] = []
    here, language = False, ""
    for line in PAGE.read_text().splitlines(keepends=True):
        if line.startswith("```"):
            language = "" if language else line[3:].strip()
            if here and language == "sh":
                found.append("")
        elif here and language == "sh":
            found[-1] += line
        elif not language and line.startswith("#"):
            here = line.lstrip("# ").strip() == heading
    return found


class Home:
    """A user's home, with `glremote` among the commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        here = folder / "bin" / "glremote"
        here.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m glremote "$@"\n')
        here.chmod(0o755)
        kept = ("GLREMOTE_CACHE", "PATH")
        clean = {name: text for name, text in command()["env"].items() if name in kept or "GLREMOTE" not in name}
        self.environment = clean | {"HOME": str(folder), "PATH": f"{folder / 'bin'}:{clean['PATH']}"}
        for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            self.environment.pop(name, None)

    def run(self, commands: str) -> str:
        """What these commands of a shell print."""
        shell = ["bash", "-euc", commands]
        done = subprocess.run(
            shell, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=3 * DEADLINE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def gpu_1(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The machine with the GPU, after its token, TLS and unit. It is called localhost, for want of another name."""
    home = Home(tmp_path_factory.mktemp("gpu-1") / "home")
    (token,) = blocks("Token")
    (home.folder / "token").write_text(home.run(token))
    make_folder, authority, for_a_host, bring = (block for block in blocks("TLS")[:4])
    home.run(authority + for_a_host.replace("DNS:gpu-1,", "DNS:localhost,"))
    for name in ("cert.pem", "key.pem"):
        shutil.copy(home.folder / "authority" / name, home.folder)
    home.run((make_folder + bring).replace("sudo ", "").replace("-o glremote ", "").replace("~glremote", "~"))
    (unit,) = [block for block in blocks("Service") if "--print-unit" in block]
    home.run(unit)
    return home


@pytest.fixture(scope="module")
def port(gpu_1: Home) -> Iterator[int]:
    """Of a host that the unit's command serves, but at a port that is free, and with a folder of its own for caches."""
    (line,) = re.findall("^ExecStart=(.*)$", (gpu_1.folder / "glremote.service").read_text(), re.MULTILINE)
    words = shlex.split(line.replace("/var/cache/glremote", str(gpu_1.folder / "cache")))
    words = [*words, "--port", "0", "--bind", "127.0.0.1", "--warm", "1"]
    process = subprocess.Popen(words, cwd="/", env=gpu_1.environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.fullmatch(r"glremote serves at wss://127\.0\.0\.1:(\d+)\n", process.stdout.readline())
        assert found
        yield int(found[1])
    finally:
        process.kill()
        process.communicate()


def test_what_the_doctor_says_first(gpu_1: Home) -> None:
    assert "As a client this machine is fine" in gpu_1.run(blocks("Installing")[1] + "true")


def test_the_pin(gpu_1: Home) -> None:
    (pin,) = [block for block in blocks("TLS") if "sha256sum" in block]
    assert f"sha256:{gpu_1.run(pin).split()[0]}" == pin_of(gpu_1.folder / "tls" / "cert.pem")


def test_the_keys_are_the_user_s_alone(gpu_1: Home) -> None:
    for name in ("tls", "tls/key.pem", "authority/ca-key.pem"):
        assert (gpu_1.folder / name).stat().st_mode & 0o077 == 0
    assert not (gpu_1.folder / "key.pem").exists()


def test_a_new_certificate_is_handed_over(gpu_1: Home, tmp_path: Path) -> None:
    """By the hook for certbot's, which an administrator writes and certbot runs."""
    (block,) = [block for block in blocks("TLS") if "RENEWED_LINEAGE" in block]
    home, hook, lineage = Home(tmp_path / "home"), tmp_path / "glremote", tmp_path / "live"
    lineage.mkdir()
    for name, given in (("cert.pem", "fullchain.pem"), ("key.pem", "privkey.pem")):
        shutil.copy(gpu_1.folder / "tls" / name, lineage / given)
    (home.folder / "tls").mkdir()
    block = block.replace("/etc/letsencrypt/renewal-hooks/deploy/glremote", str(hook)).replace("sudo ", "")
    block = block.replace("/etc/letsencrypt/live/gpu-1.example.org", str(lineage))
    home.run(block.replace("-o glremote ", "").replace("~glremote", "~"))
    for name in ("cert.pem", "key.pem"):
        assert (home.folder / "tls" / name).read_bytes() == (gpu_1.folder / "tls" / name).read_bytes()
        assert (home.folder / "tls" / name).stat().st_mode & 0o777 == 0o400


def test_what_is_installed_is_removed() -> None:
    """What an administrator puts somewhere is gone after the removal."""
    removal = "".join(blocks("Removal"))
    placed = re.findall(r"/etc/\S+/glremote(?:\.service)?\b", "".join(blocks("TLS") + blocks("Service")))
    for path in {path for path in placed if "live" not in path} | {"/etc/systemd/system/glremote.service"}:
        assert f"sudo rm {path} " in removal
    assert "/var/cache/glremote" in removal
    assert "userdel --remove glremote" in removal
    for added, removed in (("ufw allow", "ufw delete allow"), ("--add-rich-rule", "--remove-rich-rule")):
        (line,) = [line for line in blocks("Firewall")[0].splitlines() if added in line]
        assert line.replace(added, removed) in removal
    assert re.findall("rule='.*'", removal) == re.findall("rule='.*'", "".join(blocks("Firewall")))


def test_from_there_to_a_program_and_back(gpu_1: Home, port: int, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    for name, text in (("token", gpu_1.folder / "token"), ("ca.pem", gpu_1.folder / "authority" / "ca.pem")):
        (home.folder / name).write_text(text.read_text())
    (home.folder / "program.py").write_text(PROGRAM)
    first, second = blocks("On your machine")
    listed = home.run(first.replace("gpu-1:8765", f"localhost:{port}"))
    assert re.search("^gpu-1 ", listed, re.MULTILINE), listed
    assert not (home.folder / "token").exists()
    said = home.run(second)
    assert "ms" in said
    assert said.endswith("A program here can render there.\n")
    home.run(blocks("Removal")[0])
    assert "gpu-1" not in home.run("glremote hosts list")


def test_what_an_administrator_runs_can_be_read_by_a_shell() -> None:
    every = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(every) > 15
    for block in every:
        subprocess.run(["bash", "-n"], input=block, text=True, check=True, timeout=DEADLINE)


@pytest.mark.parametrize("path", re.findall(r"\]\((?!http)([^)#]+)", PAGE.read_text()))
def test_links_lead_somewhere(path: str) -> None:
    assert (PAGE.parent / path).exists()
    assert os.path.relpath(path) != PAGE.name
