"""`glremote serve --print-unit`: a unit that systemd takes, and whose command serves as it was told to."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from glremote.cli.unit import Host, quoted, unit
from tests.test_cli import DEADLINE, command, glremote_

ROOT = getpass.getuser() == "root"


def settings(text: str, name: str) -> list[str]:
    """The values of a setting."""
    return re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)


def plain(**given: object) -> Host:
    """A host that was told nothing."""
    usual = {"user": "anna", "program": ("/bin/true",), "options": (), "drain": 30.0, "port": 8765, "writes": None}
    return Host(**usual | {"environment": {}} | given)  # type: ignore[arg-type]


def test_the_options_are_there_with_whole_paths(tmp_path: Path) -> None:
    (tmp_path / "my token").write_text("a-token")
    given = ("--bind", "127.0.0.1", "--port=0", "--token-file", "my token", "--limit", "memory=4g")
    rest = ("--limit=objects=9k", "--no-near", "--drain", "120", "--tokens-file", "tokens.json")
    done = glremote_("serve", *given, "--print-unit", *rest, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = settings(done.stdout, "ExecStart")
    words = shlex.split(line)
    assert os.path.isabs(words[0])
    options = words[words.index("serve") + 1 :]
    assert options == [
        "--bind", "127.0.0.1", "--port", "0", "--token-file", str(tmp_path / "my token"), "--limit", "memory=4g",
        "--limit", "objects=9k", "--no-near", "--drain", "120", "--tokens-file", str(tmp_path / "tokens.json"),
        "--cache", "/var/cache/glremote",
    ]  # fmt: skip
    assert settings(done.stdout, "User") == [getpass.getuser()]
    assert settings(done.stdout, "TimeoutStopSec") == ["135"]
    assert settings(done.stdout, "Delegate") == ["memory"]
    assert settings(done.stdout, "Environment") == []
    assert ("as root" in done.stderr) == ROOT
    assert "sudo tee /etc/systemd/system/glremote.service" in done.stderr


def test_its_command_serves(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token")
    given = ("--port", "0", "--token-file", "token", "--cache", "caches", "--warm", "1", "--print-unit")
    done = glremote_("serve", *given, cwd=tmp_path)
    assert settings(done.stdout, "ReadWritePaths") == [str(tmp_path / "caches")]
    words = shlex.split(settings(done.stdout, "ExecStart")[0])
    variables = dict(line.split("=", 1) for line in settings(done.stdout, "Environment"))
    assert settings(done.stdout, "ExecReload") == ['/bin/sh -c "kill -HUP $MAINPID"']
    process = subprocess.Popen(
        words, cwd="/", env=command(**variables)["env"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert re.fullmatch(r"glremote serves at ws://127\.0\.0\.1:\d+\n", process.stdout.readline())
        process.send_signal(signal.SIGHUP)  # as ExecReload does
        process.terminate()
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.communicate()


def test_what_is_in_the_environment(tmp_path: Path) -> None:
    """How drivers are found goes along; tokens do not, since everybody can read a unit."""
    secrets = {"GLREMOTE_TOKEN": "secret", "GLREMOTE_LOOK_TOKEN": "secret2"}
    variables = {"__EGL_VENDOR_LIBRARY_FILENAMES": "/a b.json", "GLREMOTE_TOKENS": ""}
    done = glremote_("serve", "--print-unit", "--no-walls", cwd=None, **secrets, **variables)
    assert settings(done.stdout, "Environment") == ['"__EGL_VENDOR_LIBRARY_FILENAMES=/a b.json"', "GLREMOTE_TOKENS="]
    assert "secret" not in done.stdout
    assert "--cache" not in done.stdout
    assert "GLREMOTE_TOKEN is not in the unit" in done.stderr
    assert "GLREMOTE_LOOK_TOKEN is not in the unit" in done.stderr
    done = glremote_("serve", "--print-unit", GLREMOTE_TOKENS="")
    assert "it will make a token for each run" in done.stderr


def test_what_serve_refuses_has_no_unit() -> None:
    done = glremote_("serve", "--print-unit", "--bind", "0.0.0.0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is not yet TLS" in done.stderr


def test_capabilities_are_those_of_the_port() -> None:
    assert settings(unit(plain()), "CapabilityBoundingSet") == [""]
    assert settings(unit(plain(port=443)), "AmbientCapabilities") == ["CAP_NET_BIND_SERVICE"]
    assert settings(unit(plain(user="root")), "CapabilityBoundingSet") == []


def test_words_mean_nothing_else_to_systemd() -> None:
    assert quoted("/a/%h $HOME") == '"/a/%%h $HOME"'
    text = unit(plain(options=("--cache", "/a/$b"), writes="/a/$b", environment={"LD_LIBRARY_PATH": "/a/$b"}))
    assert settings(text, "ExecStart")[0].endswith(" --cache /a/$$b")
    assert settings(text, "ReadWritePaths") == ["/a/$b"]  # only in commands is it a variable's
    assert settings(text, "Environment") == ["LD_LIBRARY_PATH=/a/$b"]
    assert quoted("") == '""'
    assert quoted("plain-1.0") == "plain-1.0"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_takes_it(tmp_path: Path) -> None:
    given = {"user": getpass.getuser(), "environment": {"A": "b c"}, "writes": "/tmp", "port": 443, "groups": ("root",)}
    file = tmp_path / "glremote.service"
    for text, good in ((unit(plain(**given)), True), (unit(plain(**given)).replace("KillMode", "KilMode"), False)):
        file.write_text(text)
        check = ["systemd-analyze", "verify", str(file)]
        done = subprocess.run(check, capture_output=True, text=True, timeout=DEADLINE)
        said = [line for line in done.stderr.splitlines() if "glremote.service" in line]
        assert (not said) == good, done.stderr
