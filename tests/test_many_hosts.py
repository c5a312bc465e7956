"""One instance, many hosts: the list of devices, the choice, contexts on all of them at once, and one that dies."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import moderngl
import pytest

import glremote
from glremote.device import listing
from glremote.device.choosing import DeviceRecord
from glremote.host.serving import environment
from glremote.hosts import Host, add
from glremote.instance import Instance, read_bytes
from glremote.link import near
from glremote.link.asking import ask
from glremote.placing import Named
from glremote.protocol.devices import Device, HostReport, encode
from tests.link.test_asking import answering
from tests.many import FAR, Hosts, many_hosts

MOMENT = 60.0
"""Seconds within which something is to be so, on a machine that is busy with other things."""
SIZE = (64, 48)

pytestmark = pytest.mark.filterwarnings("ignore:the context is on this machine's software renderer")


@pytest.fixture(scope="module")
def many() -> Iterator[Hosts]:
    """Four hosts for the tests of this file."""
    with many_hosts() as hosts:
        yield hosts


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a host that is alive may take its time; one that is dead is waited for as long."""
    monkeypatch.setattr(listing, "PATIENCE", 3.0)


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Instance:
    """A program's instance, without hosts."""
    made = Instance()
    monkeypatch.setattr(sys.modules["glremote.instance"], "_instance", made)
    return made


@pytest.fixture
def associated(instance: Instance, many: Hosts, patient: None) -> Instance:
    """The same, with the four hosts."""
    for host in many.all:
        instance.associate(host.url, token=host.token, name=host.name)
    return instance


def draw(ctx: moderngl.Context) -> bytes:
    """A picture whose every pixel is another."""
    program = ctx.program(
        vertex_shader="#version 330\nin vec2 at;\nvoid main() { gl_Position = vec4(at, 0.0, 1.0); }",
        fragment_shader="""
            #version 330
            out vec4 pixel;
            void main() { pixel = vec4(fract(sin(gl_FragCoord.xyx * vec3(0.7, 1.3, 0.1)) * 43.0), 1.0); }
        """,
    )
    corners = ctx.buffer(b"\0\0\x80\xbf\0\0\x80\xbf" + b"\0\0\x40\x40\0\0\x80\xbf" + b"\0\0\x80\xbf\0\0\x40\x40")
    framebuffer = ctx.simple_framebuffer(SIZE)
    framebuffer.use()
    ctx.vertex_array(program, corners, "at").render()
    return framebuffer.read()


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until it does."""
    deadline = time.monotonic() + MOMENT
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def sessions(host: Host) -> int:
    """How many a host has now."""
    return ask(host.url, host.token).report.sessions


# --- the list


def test_devices_of_all_hosts_and_of_this_machine(associated: Instance, many: Hosts) -> None:
    began = time.monotonic()
    found = associated.devices()
    took = time.monotonic() - began
    assert [record.host for record in found[:4]] == ["one", "two", "far", "dead"]
    for record in found[:3]:
        assert record.error is None and record.renderer and record.version >= 330 and record.extensions
        assert record.glremote == glremote.__version__ and record.max_sessions == 16
    assert found[2].distance is not None and found[2].distance >= 1000 * FAR.round_trip
    assert found[3].error == f"{many.dead.url}: connected, and no glremote host answered within 3 s"
    assert [record.is_local for record in found[4:]] == [True] * (len(found) - 4)
    plain = moderngl.create_context(standalone=True, backend="egl")  # type: ignore[arg-type]
    assert plain.info["GL_RENDERER"] in {record.renderer for record in found[4:]}
    plain.release()
    assert took < MOMENT


ODD = """
import os, pathlib, sys
sys.path += [pathlib.Path("/nowhere"), b"/nowhere", None, ""]
os.chdir(sys.argv[1])
os.rmdir(sys.argv[1])
import glremote
print(glremote.instance().devices()[-1].error)
"""


@pytest.mark.parametrize("executable", ["", "sys.executable = None\n"])
def test_this_machine_is_listed_whatever_the_program_is_like(executable: str, tmp_path: Path) -> None:
    """It has odd things in its search path, the folder that it is in is gone, and it may be an application's."""
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", ODD.replace("import glremote", f"{executable}import glremote"), str(tmp_path / "gone")],
        env=environment() | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout == "None\n", done.stderr


def test_why_this_machine_s_devices_are_not_known(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    for program, why in (("/bin/false", "/bin/false ended with status 1"), ("/nowhere", "No such file")):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", program)
            (record,) = instance.devices()
        assert record.error is not None and record.error.startswith("this machine's devices are not known: ")
        assert why in record.error
    ctx = instance.create_context(device="local", require=330, extensions=["GL_ARB_texture_float"])
    assert instance.device(ctx).listed is not None, "it is not remembered"
    ctx.release()


KILLED = """
from glremote.host import probing, telling
class Killed(probing.Probe):
    def found(self):
        self._process.kill()
        return super().found()
telling.Probe = Killed
telling.main()
"""


def test_devices_that_could_not_be_tried_are_not_none(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(listing, "PROBE", ("-P", "-c", KILLED))
        (record,) = instance.devices()
    assert record.error == "this machine's devices are not known: EGL's devices could not be tried: SIGKILL"
    assert all(one.error is None for one in instance._placing._devices_here()), "it is not remembered"


def test_hosts_are_asked_at_the_same_time(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty that are asked one after the other would take twenty times as long."""
    assert listing.PATIENCE == 1.0
    monkeypatch.setattr(listing, "PATIENCE", MOMENT)
    with answering() as host:
        for number in range(20):
            instance.associate(f"{host.url}/{number}/x", name=f"host-{number}")
        together = threading.Barrier(20)
        host.before = together.wait  # nobody is answered before all have asked
        found = instance.devices()
    assert [record.error for record in found[:20]] == [None] * 20


def test_a_host_is_associated_once(instance: Instance) -> None:
    instance.associate("ws://a:1", name="a", token="old")
    instance.associate("ws://a:1/", name="a", token="new")
    assert [(host.url, host.token) for host in instance.hosts] == [("ws://a:1", "new")]
    with pytest.raises(ValueError, match="a is ws://a:1 already"):
        instance.associate("ws://b:1", name="a")
    for wrong in ({"url": "a:1"}, {"url": "ws://b:1", "name": "a b"}, {"url": "ws://b:1", "token": "a b"}):
        with pytest.raises(ValueError):
            instance.associate(**wrong)
    with pytest.raises(ValueError, match="has no certificate"):
        instance.associate("ws://b:1", pin="sha256:" + 64 * "0")
    assert len(instance.hosts) == 1


# --- names


def test_what_a_device_is_named_by(associated: Instance, many: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    record = DeviceRecord(host="two", url=many.two.url, uuid="GPU-00000001")
    names: list[tuple[str | None, str | int | DeviceRecord | None, str | None]] = [
        ("two", None, None), (None, "two", None), (None, many.two.url, None), (None, many.two.url + "/", None),
        (None, "two/1", "1"), (None, "two:1", "1"), (many.two.url, "1", "1"), ("two", 1, "1"), ("two:1", None, "1"),
        (None, f"{many.two.url}/0000:3b:00.0", "0000:3b:00.0"), (None, f"{many.two.url}:1", "1"),
        (None, record, "GPU-00000001"),
    ]  # fmt: skip
    for host, device, suffix in names:
        named = associated._placing.named(host, device)
        assert named is not None and (named.host, named.device) == (many.two, suffix), (host, device)
        assert named.reason == "named in the call"
    for text, suffix in (("two", None), ("two/1", "1"), (many.two.url, None)):
        monkeypatch.setenv("GLREMOTE_HOST", text)
        named = associated._placing.named(None, None)
        assert named is not None and (named.host, named.device, named.reason) == (many.two, suffix, "GLREMOTE_HOST")
    for text, suffix in (("local", None), ("local/0", "0"), ("local:0", "0")):
        assert associated._placing.named(text, None) == Named(None, suffix, "named in the call")
    for host, device in (("two", record), ("two/1", 1), (None, DeviceRecord(host="x", url="ws://x:1", error="dead"))):
        with pytest.raises(ValueError, match=r"cannot be taken|name two devices"):
            associated._placing.named(host, device)


def test_behind_an_address_without_a_port_is_a_port(instance: Instance) -> None:
    for url in ("wss://h", "wss://[::1]"):
        instance.associate(url)
        for text, found, suffix in ((f"{url}:8765", f"{url}:8765", None), (f"{url}/0", url, "0"), (url, url, None)):
            named = instance._placing.named(text, None)
            assert named is not None and named.host is not None
            assert (named.host.url, named.device) == (found, suffix)


def test_a_context_on_a_device_that_is_named(
    associated: Instance, many: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "glremote")
    record = next(record for record in associated.devices() if record.host == "two")
    for device in (record, f"two/{record.handle}"):
        ctx = glremote.create_context(device=device)
        where = glremote.device(ctx)
        assert (where.host, where.reason) == (many.two.url, "named in the call")
        assert where.listed is not None and where.listed.handle == record.handle
        assert where.renderer == record.renderer
        assert not caplog.messages, "where nothing is chosen, a program's log stays as it is"
        ctx.release()


@pytest.mark.parametrize("device", ["nobody", "one:", "", "other/0", 0])
def test_what_names_no_host(associated: Instance, device: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLREMOTE_HOST", "")
    if device == "":
        assert associated._placing.named(None, "") is None
        return
    with pytest.raises(ValueError, match=r"is no host: give ws://HOST:PORT.*\(one, two, far, dead\)"):
        glremote.create_context(device=device)  # type: ignore[arg-type]


def test_what_is_named_is_never_left_for_another(associated: Instance, many: Hosts) -> None:
    before = [sessions(host) for host in many.alive]
    with pytest.raises(glremote.HostUnreachable, match=many.dead.url):
        glremote.create_context(device="dead")
    with pytest.raises(glremote.NoDevice, match="and not '7'"):
        glremote.create_context(device="one/7")
    with pytest.raises(glremote.NoDevice, match="it has no GL_NO_SUCH"):
        glremote.create_context("one", extensions=["GL_NO_SUCH"])
    with pytest.raises(glremote.NotAdmitted, match="not this host's"):
        glremote.create_context("one", token="wrong")
    silent = associated.devices()[3]
    with pytest.raises(ValueError, match="dead cannot be taken"):
        glremote.create_context(device=silent)
    assert [sessions(host) for host in many.alive] == before


def test_requirements_of_a_named_host(associated: Instance) -> None:
    ctx = glremote.create_context("one", require=330, extensions="GL_ARB_texture_float")
    assert glremote.device(ctx).reason == "named in the call"
    assert "GL_ARB_texture_float" in ctx.extensions
    ctx.release()


def test_this_machine_by_name(instance: Instance) -> None:
    here = next(record for record in instance.devices() if record.is_local)
    ctx = glremote.create_context(device=f"local/{here.handle}", extensions=["GL_ARB_texture_float"])
    where = glremote.device(ctx)
    assert not where.remote and where.listed is not None and where.listed.renderer == where.renderer
    ctx.release()
    with pytest.raises(glremote.NoDevice, match="and not '99'"):
        glremote.create_context(device="local/99")


@pytest.mark.parametrize(("text", "size"), [(5, 5), ("5", 5), ("2k", 2048), ("3M", 3 << 20), (" 4g", 4 << 30)])
def test_bytes(text: str | int, size: int) -> None:
    assert read_bytes(text) == size


@pytest.mark.parametrize("text", ["", "g", "-1", "1.5g", "4t", "²", -1])
def test_no_bytes(text: str | int) -> None:
    with pytest.raises(ValueError, match="no number of bytes"):
        read_bytes(text)


# --- the choice


def test_the_nearest_of_those_that_are_idle(associated: Instance, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "glremote"):
        ctx = glremote.create_context()
    where = glremote.device(ctx)
    assert where.remote and where.listed is not None and where.listed.host in ("one", "two")
    assert re.search(r"the nearest of 3 \(\d+\.\d ms\)$", where.reason), where.reason
    assert any(where.reason in record.message for record in caplog.records)
    second = glremote.create_context()
    there = glremote.device(second).listed
    assert there is not None and {there.host, where.listed.host} == {"one", "two"}
    for one in (ctx, second):
        one.release()


def test_the_next_where_one_fails(
    patient: None, instance: Instance, many: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    """A host that tells of an idle GPU, and is gone when a context is made there."""
    lure = HostReport(
        software="1", protocol=1, moderngl="", sessions=0, max_sessions=9,
        devices=(Device(name="H200", renderer="H200", version=460, number=0),),
    )  # fmt: skip
    with answering(body=encode(lure)) as host:
        instance.associate(host.url, name="lure", token="t")
        instance.associate(many.far.url, name="far", token=many.far.token)
        ctx = glremote.create_context()
        where = glremote.device(ctx)
        assert where.host == many.far.url
        assert f"lure was chosen before and failed: {host.url}: what answers there is no" in where.reason
        assert any("no context on lure/0 (H200)" in record.message for record in caplog.records)
        with pytest.raises(glremote.HostUnreachable):
            glremote.create_context(device="lure/0")
        ctx.release()


def test_none_will_do(associated: Instance) -> None:
    with pytest.raises(glremote.NoDevice) as raised:
        glremote.create_context(extensions=["GL_NO_SUCH"])
    said = str(raised.value)
    assert said.count("it has no GL_NO_SUCH") == 4 and "dead: ws://" in said and "\n  local" in said


def test_this_machine_is_left_where_no_host_will_do(instance: Instance, many: Hosts) -> None:
    instance.associate(many.dead.url, name="dead")
    ctx = glremote.create_context()
    assert not glremote.device(ctx).remote
    assert glremote.device(ctx).reason.endswith("the only one that will do")
    ctx.release()


def test_nobody_who_names_a_host_waits_for_this_machine_s_drivers(
    patient: None, instance: Instance, many: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def list_here() -> list[DeviceRecord]:
        asked.set()
        go_on.wait(MOMENT)
        return []

    monkeypatch.setattr(listing, "list_here", list_here)
    instance._placing.associate(many.one)
    errors: list[BaseException] = []

    def choose() -> None:
        try:
            glremote.create_context(extensions=["GL_NO_SUCH"])
        except glremote.NoDevice as error:
            errors.append(error)

    choosing = threading.Thread(target=choose)
    choosing.start()
    assert asked.wait(MOMENT)
    glremote.create_context(device="one").release()
    assert choosing.is_alive() and not errors
    go_on.set()
    choosing.join()
    assert len(errors) == 1


def test_a_host_where_this_machine_s_gpu_is_first_and_fails(
    patient: None, instance: Instance, many: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = DeviceRecord(host="local", url="local", renderer="GPU", version=460, number=0, index=63)
    monkeypatch.setattr(listing, "list_here", lambda: [gone])
    monkeypatch.setenv("GLREMOTE_LOCAL", "first")
    instance._placing.associate(many.one)
    ctx = glremote.create_context()
    assert glremote.device(ctx).host == many.one.url
    assert "local/0 (GPU) was chosen before and failed" in glremote.device(ctx).reason
    ctx.release()


def test_glremote_host_is_before_the_hosts(
    associated: Instance, many: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLREMOTE_HOST", many.far.url)
    ctx = glremote.create_context()
    assert (glremote.device(ctx).host, glremote.device(ctx).reason) == (many.far.url, "GLREMOTE_HOST")
    ctx.release()


def test_a_token_is_for_a_host_that_is_named(associated: Instance) -> None:
    with pytest.raises(TypeError, match="a token is for a host that is named"):
        glremote.create_context(token="t")
    for host in (None, "local"):
        with pytest.raises(TypeError, match="a ca or a pin is for a host that is named"):
            glremote.create_context(host, ca="ca.pem")


def test_the_file_associates_at_start(
    patient: None, instance: Instance, many: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hosts.toml"
    add(file, many.two)
    monkeypatch.setenv("GLREMOTE_HOSTS", str(file))
    assert instance.hosts == (many.two,)
    ctx = glremote.create_context()
    assert glremote.device(ctx).host == many.two.url
    ctx.release()
    file.chmod(0o644)
    with pytest.raises(glremote.HostsFileError, match="chmod 600"):
        Instance().create_context()


def test_which_token_a_host_gets(
    patient: None, instance: Instance, many: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its URL the environment's, as ever; by its name or a record of a device, or chosen, its own."""
    instance.associate(many.one.url, name="one", token="stale")
    monkeypatch.setenv("GLREMOTE_TOKEN", many.one.token or "")
    glremote.create_context(many.one.url).release()
    with pytest.raises(glremote.NotAdmitted):
        glremote.create_context("one")
    with pytest.raises(glremote.NotAdmitted):
        glremote.create_context(device=DeviceRecord(host="one", url=many.one.url, number=0))
    instance.associate(many.one.url, name="one")
    glremote.create_context("one").release()
    glremote.create_context().release()


def test_ctrl_c_while_a_context_is_made_leaves_no_session(
    associated: Instance, many: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host has greeted it, and would keep it for the grace time: a minute."""

    def interrupted(*_: object) -> None:
        assert sessions(many.one) == 1
        raise KeyboardInterrupt

    eventually(lambda: sessions(many.one) == 0)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(near, "connect", interrupted)
        glremote.create_context("one")
    began = time.monotonic()
    eventually(lambda: sessions(many.one) == 0)
    assert time.monotonic() - began < 50


# --- all at once, and one that dies


def test_eight_contexts_over_all_hosts_and_a_local_one_and_a_host_that_is_killed(
    patient: None, instance: Instance
) -> None:
    with many_hosts() as many:
        for host in many.all:
            instance.associate(host.url, token=host.token, name=host.name)
        made: list[moderngl.Context] = []
        local = glremote.create_context("local")
        expected = draw(local)
        pictures: list[bytes] = []

        def work() -> None:
            ctx = glremote.create_context()
            made.append(ctx)
            pictures.append(draw(ctx))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(MOMENT)
        assert len(set(expected)) > 100
        assert pictures == [expected] * 8
        counted = Counter(glremote.device(ctx).host for ctx in made)
        assert set(counted) == {host.url for host in many.alive}
        assert max(counted.values()) <= 4, counted

        os.kill(many.processes["one"].pid, signal.SIGKILL)
        lost = 0
        for ctx in made:
            if glremote.device(ctx).host == many.one.url:
                with pytest.raises(glremote.DeviceLost):
                    while True:
                        ctx.finish()
                lost += 1
            else:
                assert draw(ctx) == expected
        assert lost == counted[many.one.url] > 0
        assert draw(local) == expected
        another = glremote.create_context()
        assert glremote.device(another).host in (many.two.url, many.far.url)
        for ctx in (*made, another):
            ctx.release()
        for host in (many.two, many.far):
            eventually(lambda host=host: sessions(host) == 0)  # type: ignore[misc]
        local.release()
