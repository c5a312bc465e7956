"""samples/deploy/: what its files say of each other and of `glremote serve` holds. No container is built here."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from glremote.doctor.mending import GRAPHICS
from glremote.host.serving import LocalHost, environment
from tests.host.test_strangers import Certificate
from tests.test_cli import DEADLINE, command
from tests.test_hosts_page import blocks

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "samples" / "deploy"


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """Those of the Containerfile: the word, and the rest."""
    lines = [line for line in (DEPLOY / "Containerfile").read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    pairs = [line.partition(" ") for line in joined.splitlines() if line]
    return [(word, rest) for word, _, rest in pairs]


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    """By kind."""
    return {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}


@pytest.fixture(scope="module")
def container(manifest: dict[str, Any]) -> dict[str, Any]:
    """The one of the pod."""
    (only,) = manifest["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def serves(arguments: list[str], tmp_path: Path) -> None:
    """`glremote serve` begins with these arguments, but in folders of the test, and at a port that is free."""
    certificate = Certificate(tmp_path, "127.0.0.1")
    (tmp_path / "token").write_text("a-token")
    places = {"/etc/glremote/tls/tls.crt": certificate.cert, "/etc/glremote/tls/tls.key": certificate.key,
              "/etc/glremote/token/token": tmp_path / "token", "/var/cache/glremote": tmp_path}  # fmt: skip
    for place, here in places.items():
        arguments = [word.replace(place, str(here)) for word in arguments]
    assert arguments[0] == "serve"
    process = subprocess.Popen(
        **command(*arguments, "--bind", "127.0.0.1", "--port", "0", "--warm", "1"), stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("glremote serves at wss://127.0.0.1:")
    finally:
        process.kill()
        process.communicate()


def test_the_image_installs_from_what_it_copies(instructions: list[tuple[str, str]], tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    for word, rest in instructions:
        if word == "COPY":
            *names, to = rest.split()
            for name in names:
                place = source / Path(to).relative_to("/src")
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, place, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / name, place)
    there = tmp_path / "there"
    setup = [sys.executable, "-c", "import setuptools; setuptools.setup()", "--quiet"]
    subprocess.run([*setup, "build", "--build-lib", str(there)], cwd=source, check=True, timeout=DEADLINE)
    packages = {path.parent.relative_to(there).as_posix() for path in there.rglob("__init__.py")}
    here = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "glremote").glob("*/__init__.py")}
    assert here <= packages
    assert (source / "samples" / "deploy" / "healthy").exists()


def test_the_image_has_what_the_doctor_asks_for(instructions: list[tuple[str, str]]) -> None:
    text = "\n".join(" ".join(pair) for pair in instructions)
    assert GRAPHICS in text
    assert "libegl1 libgl1 libegl-mesa0 libgl1-mesa-dri" in text
    (written,) = re.findall("echo '(.*?)'", text)
    assert json.loads(written)["ICD"]["library_path"] == "libEGL_nvidia.so.0"


def test_the_image_s_command_serves(instructions: list[tuple[str, str]], tmp_path: Path) -> None:
    said = dict(instructions)
    assert json.loads(said["ENTRYPOINT"]) == ["glremote"]
    assert said["USER"] == "glremote"
    serves(json.loads(said["CMD"]), tmp_path)


def test_the_image_is_given_what_its_command_names(instructions: list[tuple[str, str]], tmp_path: Path) -> None:
    """By the page's commands, as far as docker; in a folder, in which a file can be replaced."""
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text(name)
    (block,) = [block for block in blocks("In a container") if "docker run -d" in block]
    makes, _, runs = block.partition("docker run -d")
    shell = ["bash", "-euc", re.sub("^sudo chown .*", "", makes, flags=re.MULTILINE)]
    subprocess.run(shell, cwd=tmp_path, check=True, timeout=DEADLINE)
    (mount,) = re.findall('-v "\\$PWD/(.*?):(.*?):ro"', runs)
    paths = [word for word in json.loads(dict(instructions)["CMD"]) if word.startswith("/etc/")]
    assert len(paths) == 3
    for path in paths:
        given = tmp_path / mount[0] / Path(path).relative_to(mount[1])
        assert given.read_text()
        assert given.stat().st_mode & 0o077 == 0
    assert (tmp_path / "token").read_text() == (tmp_path / "given/token/token").read_text()
    assert "-e GLREMOTE_LOOK_TOKEN glremote" in runs and "export GLREMOTE_LOOK_TOKEN=" in makes
    assert (tmp_path / "look-token").exists() and "$(cat" not in runs, "every user sees what a command is given"


def test_the_pod_s_command_serves(container: dict[str, Any], tmp_path: Path) -> None:
    serves(container["args"], tmp_path)


def test_the_pod_has_a_gpu_that_draws(container: dict[str, Any]) -> None:
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    name, _, value = GRAPHICS.partition("=")
    assert {"name": name, "value": value} in container["env"]


def test_the_pod_has_time_for_its_sessions(manifest: dict[str, Any], container: dict[str, Any]) -> None:
    (drain,) = [int(word.partition("=")[2]) for word in container["args"] if word.startswith("--drain=")]
    assert manifest["StatefulSet"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= drain + 15


def test_the_manifest_fits_together(manifest: dict[str, Any], container: dict[str, Any]) -> None:
    spec = manifest["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels == manifest["Service"]["spec"]["selector"]
    assert spec["serviceName"] == manifest["Service"]["metadata"]["name"]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    mounts = [one["mountPath"] for one in container["volumeMounts"]]
    paths = [word.partition("=")[2] for word in container["args"] if "=/" in word]
    assert all(any(path.startswith(mount + "/") for mount in mounts) for path in paths)
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["exec"]["command"] == ["healthy"]
    assert container["livenessProbe"]["tcpSocket"]["port"] == container["ports"][0]["name"]
    text = (DEPLOY / "kubernetes.yaml").read_text()
    made = set(re.findall(r"create secret (?:tls|generic) (\S+)", text))
    used = {one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    assert made == used == {"glremote-tls", "glremote-tokens"}


def test_a_host_s_health_is_asked(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path, "another-name")
    look = {"GLREMOTE_LOOK_TOKEN": "for-looking"}
    (tmp_path / "look").write_text(look["GLREMOTE_LOOK_TOKEN"])
    tls = ("--tls-cert", certificate.files[0], "--tls-key", certificate.files[1])
    with LocalHost(*tls, "--look-token-file", str(tmp_path / "look"), "--warm", "1") as host:
        url = host.url.replace("wss:", "https:")
        good, wrong = asked(url, **look), asked(url, GLREMOTE_LOOK_TOKEN="wrong")
    gone = asked(url, **look)
    assert (good.returncode, good.stdout) == (0, "ok\n"), good.stderr
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("401: ")
    assert gone.returncode == 1
    assert gone.stderr.startswith("no answer: ")


def asked(url: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """As a probe asks."""
    (line,) = re.findall("^#!/usr/bin/env (.*)$", (DEPLOY / "healthy").read_text().splitlines()[0])
    assert shlex.split(line) == ["python3"]
    arguments = [sys.executable, str(DEPLOY / "healthy"), url]
    return subprocess.run(arguments, env=environment() | variables, capture_output=True, text=True, timeout=DEADLINE)
