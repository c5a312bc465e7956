"""What is known of programs from an earlier run: nobody waits for it, the host checks it, and the folder is shared."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import moderngl
import pytest

import glremote
from glremote.host.serving import LocalHost, environment
from glremote.recording import known
from tests.conftest import REMOTE_WAYS, know_nothing

VERTEX = "#version 330\nin vec4 p; uniform vec4 k[3]; void main() { gl_Position = p + k[1]; }"
OTHER = "#version 330\nin vec2 q; uniform mat4 m; void main() { gl_Position = m * q.xyxy; }"
SCRIPT = """
import struct, sys, glremote
from glremote.host.inprocess import InProcessHost
if sys.argv[1] == "in-process":
    host = InProcessHost()
    ctx = glremote.instance().connect(host.connect, "in-process", "a test", 430)
else:
    ctx = glremote.create_context(sys.argv[1], require=430)
device = glremote.device(ctx)
double = ctx.compute_shader('''#version 430
    layout(local_size_x=4) in; uniform float k; layout(std430, binding=0) buffer B { float b[]; };
    void main() { b[gl_GlobalInvocationID.x] *= k; }''')
double["k"] = 2.0
ctx.program("#version 330\\nin vec4 p; void main() { gl_Position = p; }")
buffer = ctx.buffer(struct.pack("4f", 1, 2, 3, 4))
buffer.bind_to_storage_buffer(0)
double.run(1)
waits = device.measure().waits
print(*struct.unpack("4f", buffer.read()), ctx.error, waits)
ctx.release()
"""


def folder() -> Path:
    """Where the tests' files are."""
    found = known.folder()
    assert found is not None
    return found


def files() -> list[Path]:
    """What is kept on disk."""
    return sorted(folder().iterdir()) if folder().exists() else []


def waits(ctx: moderngl.Context, call: Callable[[], Any]) -> int:
    """How often a call waits."""
    device: Any = glremote.device(ctx)
    before = device.measure().waits
    call()
    return int(device.measure().waits - before)


# --- another run


@pytest.mark.parametrize("way", REMOTE_WAYS)
@pytest.mark.parametrize("cache", ["", "0"], ids=["kept", "GLREMOTE_CACHE=0"])
def test_the_second_run_waits_for_no_program(way: str, cache: str, served: LocalHost) -> None:
    variables = environment(served.token) | {"GLREMOTE_NEAR": "1" if way == "near" else "0"}
    if cache:
        variables[known.VARIABLE] = cache
    said = []
    for _ in range(2):
        arguments = [sys.executable, "-P", "-c", SCRIPT, way if way == "in-process" else served.url]
        done = subprocess.run(arguments, env=variables, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.strip())
    right = "2.0 4.0 6.0 8.0 GL_NO_ERROR"
    assert said == [f"{right} 2", f"{right} {2 if cache else 0}"]
    assert len(files()) == (0 if cache else 2)


def test_errors_come_at_the_call_each_time(remote: moderngl.Context) -> None:
    for _ in range(2):
        with pytest.raises(moderngl.Error, match="GLSL Compiler failed"):
            remote.program("#version 330\nvoid main() { nothing(); }")
        assert files() == []


# --- files


def damage_nothing(path: Path) -> None:
    path.write_bytes(b"")


def damage_end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def damage_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def damage_foreign(path: Path) -> None:
    path.write_text("something else altogether\n" * 100)


def damage_version(path: Path) -> None:
    """The checksum is right, and what it is of is no reflection."""
    path.write_bytes(known._checksum(path.name, b"\x91\x05") + b"\x91\x05")


def damage_name(path: Path) -> None:
    """What is kept of another program, in this one's place."""
    path.write_bytes(known._checksum("another", b"") + path.read_bytes()[32:])


DAMAGES = (damage_nothing, damage_end, damage_bit, damage_foreign, damage_version, damage_name)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_written_again(damage: Callable[[Path], None], near_by: moderngl.Context) -> None:
    assert waits(near_by, lambda: near_by.program(VERTEX)) == 1
    (path,) = files()
    right = path.read_bytes()
    damage(path)
    know_nothing(on_disk=False)
    assert waits(near_by, lambda: near_by.program(VERTEX)) == 1
    assert files() == [path] and path.read_bytes() == right
    know_nothing(on_disk=False)
    assert waits(near_by, lambda: near_by.program(VERTEX)) == 0
    assert near_by.error == "GL_NO_ERROR"


def test_a_folder_that_cannot_be_written(
    near_by: moderngl.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv(known.VARIABLE, str(tmp_path / "file" / "cache"))
    assert waits(near_by, lambda: near_by.program(VERTEX)) == 1
    assert waits(near_by, lambda: near_by.program(VERTEX)) == 0  # the process knows
    know_nothing(on_disk=False)
    assert waits(near_by, lambda: near_by.program(VERTEX)) == 1
    monkeypatch.setenv(known.VARIABLE, str(tmp_path / "new" / "cache"))
    folder().parent.mkdir(parents=True)
    folder().touch()
    know_nothing(on_disk=False)
    assert waits(near_by, lambda: near_by.program(VERTEX)) == 1
    (tmp_path / "new" / "cache" / "reflections").unlink()
    near_by.program(OTHER)
    (path,) = files()
    path.unlink()
    path.mkdir()  # in the place of the file
    know_nothing(on_disk=False)
    assert waits(near_by, lambda: near_by.program(OTHER)) == 1
    assert files() == [path], "nothing half written is left"


def test_they_are_the_users_alone(near_by: moderngl.Context) -> None:
    near_by.program(VERTEX)
    (path,) = files()
    assert folder().stat().st_mode & 0o777 == 0o700 and path.stat().st_mode & 0o777 == 0o600


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(known.VARIABLE, "0")
    assert known.folder() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for text in ("", "1"):
        monkeypatch.setenv(known.VARIABLE, text)
        assert known.folder() == tmp_path / "glremote" / "reflections"
    monkeypatch.setenv(known.VARIABLE, "here")
    assert known.folder() == Path.cwd() / "here" / "reflections"


def test_what_was_used_longest_ago_goes(near_by: moderngl.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    near_by.program(VERTEX)
    (path,) = files()
    data = path.read_bytes()[32:]
    size = path.stat().st_size
    monkeypatch.setattr(known, "BETWEEN", 1)

    def keep(numbers: range) -> list[str]:
        for number in numbers:
            known.keep(f"key{number:02}", data)
            os.utime(folder() / f"key{number:02}", (number, number))
        return [path.name for path in files()]

    path.unlink()
    monkeypatch.setattr(known, "MOST_FILES", 4)
    assert keep(range(1, 8)) == ["key04", "key05", "key06", "key07"]
    know_nothing(on_disk=False)
    assert known.find("key04") is not None  # it is in use now
    assert keep(range(8, 9)) == ["key04", "key06", "key07", "key08"]
    monkeypatch.setattr(known, "MOST_BYTES", 2 * size + size // 2)
    assert keep(range(9, 10)) == ["key04", "key09"]
    monkeypatch.setattr(known, "LARGEST", len(data) - 1)
    assert keep(range(9, 9)) == ["key04", "key09"]
    known.keep("large", data)
    assert [path.name for path in files()] == ["key04", "key09"] and known.find("large") is not None


HAMMER = """
import sys
from glremote.protocol.messages import value_bytes
from glremote.protocol.reflection import Reflection, Varying
from glremote.recording import known
known.MOST_FILES, known.BETWEEN = 6, 1
found = 0
for turn in range(300):
    name = f"key{turn % 8}"
    data = value_bytes(Reflection([], [Varying(name * 500, 0, 1, 1)], (None, None, 0)))
    known.SEEN.clear()
    there = known.find(name)
    assert there is None or there.reflection.members[0].name == name * 500
    found += there is not None
    known.keep(name, data)
print(found)
"""


def test_two_processes_at_once() -> None:
    command = [sys.executable, "-P", "-c", HAMMER]
    running = [subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert sum(map(int, said)) > 0
    assert 0 < len(files()) <= 8 and all(path.name.startswith("key") for path in files())


# --- what decides


def test_everything_that_decides_is_in_the_key() -> None:
    def key(**changed: Any) -> str:
        facts = {"host": "h", "version_code": 430, "software": "1", "moderngl": "5", "program": (b"a", ())} | changed
        info = {name: facts.get(name, "x") for name in known.DRIVER}
        driver = SimpleNamespace(info=info, version_code=facts["version_code"])
        greeting = SimpleNamespace(software=facts["software"], moderngl=facts["moderngl"])
        device: Any = SimpleNamespace(host=facts["host"], driver=driver, greeting=greeting)
        return known.key(device, facts["program"])

    changes: list[dict[str, Any]] = [{name: "y"} for name in (*known.DRIVER, "host", "software", "moderngl")]
    changes += [{"version_code": 460}, {"program": (b"a", ("c",))}]
    assert len({key(), *(key(**change) for change in changes)}) == len(changes) + 1
    assert key()[:17] == key(program=5)[:17] != key(host="y")[:17]


# --- what does not hold


@pytest.fixture
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all programs had the same key: each is taken for the one before."""
    right = known.key
    monkeypatch.setattr(known, "key", lambda device, program: right(device, "all"))


def test_stale(remote: Any, one_key: None) -> None:
    """It is a fault, once; then it is forgotten, in the process and on disk, and all works."""
    remote.program(OTHER)
    know_nothing(on_disk=False)
    buffer = remote.buffer(b"as it was")
    stale = remote.program(VERTEX)
    assert "m" in stale
    later = remote.buffer(b"never made")
    with pytest.raises(glremote.Fault, match="does not hold on the host any more") as raised:
        remote.finish()
    text = str(raised.value)
    assert "in CheckReflection(" in text and f"recorded at {__file__}:" in text and "GLREMOTE_CACHE=0" in text
    assert files() == [] and known.SEEN == {}
    for use in (lambda: stale["m"].write(bytes(64)), lambda: remote.vertex_array(stale, []), later.read):
        with pytest.raises(glremote.Fault, match="never made"):
            use()
    for _ in range(2):
        again = remote.program(VERTEX)
        assert list(again) == ["p", "k"]
        again["k"].write(again["k"].read())
        assert buffer.read() == b"as it was" and remote.error == "GL_NO_ERROR"
        know_nothing(on_disk=False)
    assert waits(remote, lambda: remote.program(VERTEX)) == 0


def test_all_of_the_driver_is_forgotten(near_by: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that has become another without saying so is found out once, and not by each program in turn."""
    right = known.key
    for source in (VERTEX, OTHER):
        near_by.program(source)
    known.keep("another's", files()[0].read_bytes()[32:])
    first = right(near_by.mglo.device, "none")
    known.keep(first, files()[0].read_bytes()[32:])
    monkeypatch.setattr(known, "key", lambda device, program: first)
    near_by.program("#version 330\nvoid main() { gl_Position = vec4(1.0); }")
    with pytest.raises(glremote.Fault):
        near_by.finish()
    assert [path.name for path in files()] == ["another's"] and [*known.SEEN] == ["another's"]


def test_what_does_not_compile_any_more(remote: Any, one_key: None) -> None:
    remote.program(OTHER)
    broken = remote.program("#version 330\nvoid main() { nothing_like_it(); }")
    with pytest.raises(glremote.Fault, match=r"(?s)GLSL Compiler failed.*nothing_like_it") as raised:
        remote.finish()
    assert str(raised.value).startswith("what glremote knew of this program")
    broken.release()
    with pytest.raises(moderngl.Error, match="GLSL Compiler failed") as at_once:
        remote.program("#version 330\nvoid main() { nothing_like_it(); }")
    assert not isinstance(at_once.value, glremote.Fault)
    assert remote.error == "GL_NO_ERROR"


def test_a_known_program_is_made_in_a_block(remote: Any) -> None:
    """Where nothing is waited for, nothing need be sent: what is left by an exception was never made."""
    remote.program(VERTEX)
    with pytest.raises(ZeroDivisionError), glremote.command_buffer(remote):
        program = remote.program(VERTEX)
        raise ZeroDivisionError
    with pytest.raises(glremote.Fault, match="never made"):
        program.release() or program["k"].write(bytes(32))
    with glremote.command_buffer(remote):
        program = remote.program(VERTEX)
        program["k"].write(program["k"].read())
    assert remote.error == "GL_NO_ERROR"


def test_it_is_forgotten_also_where_nobody_asks(remote: Any, one_key: None, capsys: pytest.CaptureFixture[str]) -> None:
    remote.program(OTHER)
    remote.program(VERTEX)
    recorder = remote.mglo.recorder
    recorder.flush()
    recorder.device.wait_until(lambda: recorder._fault is not None)
    remote.release()
    assert files() == []
    assert "does not hold" in capsys.readouterr().err
