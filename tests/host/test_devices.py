"""A host with several devices: which one a session is on, who waits for whom, and what is told of them.

The devices are made up, and given to a real gateway as a probe would. Its workers are test_gateway.py's stand-ins, or
real ones that all render with this machine's first device.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import moderngl
import pytest
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as open_websocket

import glremote
from glremote.device import listing
from glremote.doctor.finding import State
from glremote.doctor.reaching import reach
from glremote.host.gateway.devices import Devices, Served
from glremote.host.gateway.tokens import Token, TokensFile
from glremote.host.gpus import State as GpuState
from glremote.host.serving import NO_TOKENS, LocalHost, environment
from glremote.hosts import Host as Known
from glremote.instance import Instance
from glremote.link.asking import ask
from glremote.protocol.devices import Device, HostReport, decode
from glremote.recording.facade import MODERNGL
from tests.host.test_gateway import BEARER, TOKEN, Client, Host, eventually, start
from tests.host.test_looking import Page
from tests.pages import get, metrics

__all__ = ["start"]

ONE, TWO = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
GPUS = [
    {"name": "NVIDIA H200", "renderer": "NVIDIA H200/PCIe/SSE2", "version": 460, "extensions": ("GL_ARB_sync",)}
    | {"number": number, "uuid": uuid, "pci": pci, "index": index}
    for number, uuid, pci, index in ((0, ONE, "0000:3b:00.0", 5), (1, TWO, "0000:5e:00.0", 3))
]
INDICES = {str(gpu["number"]): str(gpu["index"]) for gpu in GPUS}

Start = Callable[..., Host]


def report(host: Host, token: str = TOKEN) -> HostReport:
    """What is told to the holder of a token."""
    status, text, headers = get(host.url, "/devices", Authorization=f"Bearer {token}")
    assert (status, headers["Content-Type"], headers["Cache-Control"]) == (200, "application/json", "no-store")
    return decode(text.encode())


def sessions(host: Host) -> list[int]:
    """How many are on each device."""
    return [device.sessions for device in report(host).devices]


def open_on(host: Host, **headers: str) -> ClientConnection:
    """A session, with headers of its request."""
    return open_websocket(f"{host.url}/glremote", additional_headers={"Authorization": BEARER} | headers)


def index_of(client: Client | ClientConnection) -> str:
    """The device that a session's worker was told to take, in EGL's order."""
    if isinstance(client, Client):
        arguments = client.hello()["arguments"]
    else:
        client.send(b"hello")
        arguments = json.loads(client.recv())["arguments"]
    return str(arguments[arguments.index("--device-index") + 1])


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A gateway with both, for the tests that leave it as it was."""
    host = Host(tmp_path_factory.mktemp("two"), devices=GPUS, grace=0.0)
    yield host
    host.close()


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    """What is closed at the end of a test."""
    with contextlib.ExitStack() as stack:
        yield stack


# --- which device


@pytest.mark.parametrize("warm", [0, 1])
def test_sessions_are_spread_over_the_devices(start: Start, warm: int) -> None:
    host = start(devices=GPUS, warm=warm)
    clients = [host() for _ in range(4)]
    assert [index_of(client) for client in clients] == ["5", "3", "5", "3"]
    assert sessions(host) == [2, 2]
    for client in clients[:1] + clients[2:3]:
        client.say(b"end")
        client.closing()
    eventually(lambda: sessions(host) == [0, 2])
    later = [host(), host()]
    assert [index_of(client) for client in later] == ["5", "5"]


def test_workers_are_warm_on_each_device(start: Start) -> None:
    host = start(devices=GPUS, warm=2)
    eventually(lambda: metrics(host.url)["glremote_workers_warm"] == 4)
    assert Page(get(host.url, "/")[1]).facts["Workers warm"] == "4 of 4"


@pytest.mark.parametrize(
    ("name", "number"), [("0", "0"), ("1", "1"), (ONE, "0"), ("gpu-2222", "1"), ("0000:5E:00.0", "1"), ("3b:00.0", "0")]
)
def test_a_session_is_on_the_device_that_is_named(
    two: Host, stack: contextlib.ExitStack, name: str, number: str
) -> None:
    for _ in range(2):  # though the other has fewer then
        connection = stack.enter_context(open_on(two, **{"Glremote-Device": name}))
        assert connection.response is not None
        assert connection.response.headers["Glremote-Device"] == f"{number} {(ONE, TWO)[int(number)]}"
        assert index_of(connection) == INDICES[number]


def test_of_several_that_are_named_it_is_on_the_one_with_fewest(two: Host, stack: contextlib.ExitStack) -> None:
    eventually(lambda: sessions(two) == [0, 0])
    for names, number in (("1,0", "0"), (f"{ONE}, {TWO}", "1"), ("7,1", "1"), ("0,1,0", "0")):
        assert index_of(stack.enter_context(open_on(two, **{"Glremote-Device": names}))) == INDICES[number]


@pytest.mark.parametrize("name", ["2", "GPU-3333", "software", "x" * 2000, "\xe4\x80", "-1", ",", "2,3"])
def test_a_device_that_there_is_not_is_refused_in_words(two: Host, name: str) -> None:
    eventually(lambda: sessions(two) == [0, 0])
    status, text = two.request(**{"Authorization": BEARER, "Glremote-Device": name})
    assert status == 404
    assert "there is no device" in text
    assert f"0, {ONE}, 0000:3b:00.0 (NVIDIA H200); 1, {TWO}, 0000:5e:00.0 (NVIDIA H200)" in text
    assert text.count("\n") == 1 and text.isascii() and len(text) < 500
    assert sessions(two) == [0, 0]


def test_who_comes_back_is_on_the_same_device(start: Start) -> None:
    host = start(devices=GPUS)
    first, second = host(), host()
    name = second.hello()["name"]
    second.link.close()
    with open_on(host, **{"Glremote-Session": name, "Glremote-Device": "0"}) as connection:
        assert connection.response is not None
        assert connection.response.headers["Glremote-Device"] == f"1 {TWO}"
    first.link.close()


def test_where_no_probe_was_made_nothing_is_said_of_devices(start: Start) -> None:
    host = start()
    assert "--device-index" not in host().hello()["arguments"]
    assert report(host).devices == ()
    with open_on(host) as connection:
        assert connection.response is not None and "Glremote-Device" not in connection.response.headers
    assert host.request(**{"Authorization": BEARER, "Glremote-Device": "0"})[0] == 404


def test_a_device_that_fails_is_left_out_until_it_works(start: Start, tmp_path: Path) -> None:
    """Device 0 has fewest sessions for ever, since none begins there: but that is not what is meant."""
    lost = tmp_path / "lost"
    lost.touch()
    command = [sys.executable, "-I", "-S", str(tmp_path / "worker.py"), "--lost", "5", str(lost)]
    host = start(devices=GPUS, worker_command=command, warm=1, constants={"TRY_AGAIN": 0.05})
    clients = [host() for _ in range(3)]
    assert [index_of(client) for client in clients] == ["3", "3", "3"]
    assert get(host.url, "/healthz")[0] == 200, "sessions can begin"
    assert "no worker can be started on device 0: this GPU has fallen off the bus" in host.errors()
    lost.unlink()

    def next_one() -> bool:
        client = host()
        index = index_of(client)
        client.say(b"end")
        client.closing()
        return index == "5"

    eventually(next_one)


@pytest.fixture
def lost(tmp_path: Path, start: Start) -> Host:
    """A host of which device 0 is lost, and that does not know it yet."""
    (tmp_path / "lost").touch()
    command = [sys.executable, "-I", "-S", str(tmp_path / "worker.py"), "--lost", "5", str(tmp_path / "lost")]
    return start(devices=GPUS, worker_command=command, warm=0, constants={"TRY_AGAIN": 0.05})


@pytest.mark.parametrize("names", [None, "0,1"])
def test_a_session_begins_on_the_next_device_where_one_is_lost(lost: Host, names: str | None) -> None:
    with open_on(lost, **({} if names is None else {"Glremote-Device": names})) as client:
        assert index_of(client) == "3"
        assert sessions(lost) == [0, 1]
    text = "session 1 has no worker on device 0, and is tried on device 1: this GPU has fallen off the bus"
    assert text in lost.errors()


def test_who_names_a_device_that_is_lost_hears_of_it(lost: Host, tmp_path: Path) -> None:
    with open_on(lost, **{"Glremote-Device": "0"}) as client:
        assert b"this GPU has fallen off the bus" in client.recv()
    first, second = report(lost).devices
    assert (first.trouble, second.trouble) == ("no worker can be started: this GPU has fallen off the bus", None)
    assert report(lost).trouble is None
    (tmp_path / "lost").unlink()
    eventually(lambda: report(lost).devices[0].trouble is None)  # it is tried again for whoever asks


def test_a_host_on_which_no_worker_can_be_started_says_so(start: Start, tmp_path: Path) -> None:
    host = start(worker_command=[sys.executable, "-I", "-S", str(tmp_path / "worker.py"), "--fail"])
    assert report(host).trouble is None
    assert host().lost().endswith("install a driver")
    assert report(host).trouble == "no worker can be started: no OpenGL here: install a driver"


def test_where_no_device_works_the_host_does_not_start(start: Start) -> None:
    host = start(devices=GPUS, worker_command=[sys.executable, "-c", "raise SystemExit('no OpenGL')"], warm=1)
    assert host.url == ""
    assert "no OpenGL" in host.errors()


# --- what is told, and to whom


def test_the_report(start: Start) -> None:
    host = start(devices=GPUS, max_sessions=5)
    client = host()
    client.hello()
    found = report(host)
    assert (found.sessions, found.max_sessions, found.draining) == (1, 5, False)
    assert found.software and found.protocol and found.moderngl
    assert found.devices == tuple(Device(**gpu | {"sessions": 1 - gpu["number"]}) for gpu in GPUS)  # type: ignore[operator, arg-type]


def test_a_report_is_packed_for_whoever_takes_that(start: Start) -> None:
    extensions = tuple(f"GL_ARB_something_or_other_{number}" for number in range(300))
    host = start(devices=[{**GPUS[0], "extensions": extensions, "number": number} for number in range(8)])
    address = urlsplit(host.url)
    answers = []
    for headers in ({}, {"Accept-Encoding": "br, GZIP;q=0.5"}, {"Accept-Encoding": "identity"}):
        with contextlib.closing(http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)) as asked:
            asked.request("GET", "/devices", headers={"Authorization": BEARER} | headers)
            answer = asked.getresponse()
            answers.append((answer.headers.get("Content-Encoding"), answer.read()))
    (how, plain), (packing, packed), third = answers
    assert (how, packing) == (None, "gzip") and third == answers[0]
    assert gzip.decompress(packed) == plain and len(packed) < len(plain) / 8
    told = ask(host.url, TOKEN).report
    assert told == decode(plain) and told.devices[7].extensions == extensions


@pytest.mark.parametrize(
    ("headers", "status", "why", "says"),
    [
        ({}, 401, "no_token", "a token is needed"),
        ({"Authorization": "Bearer another"}, 401, "wrong_token", "not this host's"),
        ({"Authorization": BEARER, "Origin": "https://example.org"}, 403, "origin", "browser"),
    ],
)
def test_strangers_are_told_nothing(two: Host, headers: dict[str, str], status: int, why: str, says: str) -> None:
    counted = f"glremote_refused_total {why} {status}"
    before = metrics(two.url)[counted]
    got, text, _ = get(two.url, "/devices", **headers)
    assert (got, says in text, "H200" in text) == (status, True, False)
    assert metrics(two.url)[counted] == before + 1


def test_guesses_are_counted_as_those_for_a_session(start: Start) -> None:
    host = start(devices=GPUS)
    for _ in range(10):
        assert get(host.url, "/devices", Authorization="Bearer another")[0] == 401
    assert get(host.url, "/devices", Authorization=BEARER)[0] == 429
    assert host.request(Authorization=BEARER)[0] == 429


def test_a_token_hears_how_many_sessions_it_may_still_begin(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    anna = TokensFile(file).create("anna", 2)
    host = start(devices=GPUS, tokens_file=str(file), max_sessions=9)
    clients = [host() for _ in range(3)]
    clients.append(host(token=anna))
    assert (report(host).sessions, report(host).max_sessions) == (4, 9)
    assert (report(host, anna).sessions, report(host, anna).max_sessions) == (4, 5)


def test_a_place_that_a_token_can_have_back_is_told_as_room(start: Start, tmp_path: Path) -> None:
    """Whoever was killed and comes again is not sent to another host."""
    file = tmp_path / "tokens.json"
    anna = TokensFile(file).create("anna", 3)
    host = start(devices=GPUS, tokens_file=str(file), max_sessions=3, grace=60.0)
    clients = [host(token=anna), host(token=anna), host()]
    for client in clients:
        client.hello()
    assert (report(host, anna).sessions, report(host, anna).max_sessions) == (3, 3)
    clients[0].link.close()
    eventually(lambda: report(host, anna).max_sessions == 4)
    assert (report(host, anna).sessions, report(host).max_sessions) == (3, 3), "to others there is none"
    assert host(token=anna).hello()


def test_the_log_says_which_device(start: Start) -> None:
    host = start(devices=GPUS)
    clients = [host(), host()]
    assert [index_of(client) for client in clients] == ["5", "3"]
    said = host.errors()
    assert "session 1 began on device 0" in said
    assert "session 2 began on device 1" in said
    assert f"device 1, {TWO}, 0000:5e:00.0 (NVIDIA H200), OpenGL 4.6" in said


# --- how GPUs are now


def asked(states: Callable[[Sequence[str]], Mapping[str, GpuState]]) -> Devices:
    """The devices of a gateway whose drivers tell this."""
    return Devices([Device(**gpu) for gpu in GPUS], lambda: (), states)  # type: ignore[arg-type]


def told(devices: Devices) -> HostReport:
    """What is reported, asked from another event loop each time."""
    return decode(asyncio.run(devices.report(Token("a", "b"), 0, 8, False)))


def test_drivers_are_asked_once_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def states(addresses: Sequence[str]) -> dict[str, GpuState]:
        assert threading.current_thread() is not threading.main_thread()
        calls.append(list(addresses))
        return {addresses[1]: GpuState(1000, 100 * len(calls), 0.5)}

    devices = asked(states)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for seconds, free in (0.0, 100), (0.4, 100), (0.6, 100), (1.1, 200):
        monkeypatch.setattr(time, "monotonic", lambda seconds=seconds: now + seconds)
        first, second = told(devices).devices
        assert (second.memory, second.memory_free, second.load) == (1000, free, 0.5)
        assert (first.memory, first.memory_free, first.load) == (None, None, None)
    assert calls == [["0000:3b:00.0", "0000:5e:00.0"]] * 2


def test_a_driver_that_is_stuck_holds_nobody_up() -> None:
    stuck = threading.Event()
    calls: list[float] = []

    def states(addresses: Sequence[str]) -> dict[str, GpuState]:
        calls.append(time.monotonic())
        stuck.wait(30)
        return {address: GpuState(7, 7, 0.0) for address in addresses}

    async def ask() -> None:
        devices = asked(states)
        for _ in range(3):
            report = decode(await devices.report(Token("a", "b"), 0, 8, False))
            assert [device.memory for device in report.devices] == [None, None]
        assert len(calls) == 1, "nobody asks again while it is"
        stuck.set()
        assert devices._asking is not None
        await devices._asking
        assert devices.now(devices.all[0]).memory == 7  # type: ignore[union-attr]

    asyncio.run(ask())


def test_a_driver_that_is_stuck_does_not_keep_a_host_from_its_end() -> None:
    stuck, over = threading.Event(), threading.Event()

    def states(addresses: Sequence[str]) -> dict[str, GpuState]:
        stuck.wait(20)
        over.set()
        return {}

    told(asked(states))
    assert not over.is_set()
    stuck.set()


def test_the_first_of_those_with_fewest_sessions_is_taken() -> None:
    there: list[Served] = []
    devices = Devices([Device(**gpu) for gpu in GPUS], lambda: there)  # type: ignore[arg-type]
    first, second = devices.all
    for expected in (first, second, first, second):
        chosen = devices.choose(None)
        assert chosen is expected
        there.append(chosen)
    first.failed = 0.0, "lost"
    del there[0]
    assert devices.choose(None) is second
    assert devices.choose("0") is first, "who names it has it"


# --- real sessions


def test_programs_on_two_devices(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are this machine's software renderer, under different numbers."""
    monkeypatch.setenv("GLREMOTE_NEAR", "0")
    devices = [{"name": "one", "renderer": "llvmpipe", "version": 450, "number": number} for number in (0, 1)]
    worker = [sys.executable, "-P", "-m", "glremote.host.process"]
    host = start(devices=devices, worker_command=worker, warm=1)
    contexts = [glremote.create_context(host.url, token=TOKEN) for _ in range(3)]
    for shade, ctx in enumerate(contexts):
        framebuffer = ctx.simple_framebuffer((4, 4))
        framebuffer.clear(shade / 255, 0, 0)
        assert framebuffer.read(components=1) == bytes([shade]) * 16
    found = metrics(host.url)
    assert (found["glremote_device_sessions 0"], found["glremote_device_sessions 1"]) == (2, 1)
    text = get(host.url, "/")[1]
    assert [row["Device"] for row in Page(text).rows] == ["0", "1", "0"]
    assert "<span>0 (one)</span> 2 sessions" in text
    for ctx in contexts:
        ctx.release()
    eventually(lambda: sessions(host) == [0, 0])


def test_programs_that_choose_at_the_same_time_are_on_two_devices(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sees two that are idle, and would take the first."""
    monkeypatch.setattr(listing, "PATIENCE", 30.0)
    known: dict[str, object] = {"name": "llvmpipe", "renderer": "llvmpipe", "version": 450}
    devices = [known | {"number": 0, "uuid": ONE}, known | {"number": 1, "uuid": TWO}]
    host = start(devices=devices, worker_command=[sys.executable, "-P", "-m", "glremote.host.process"], warm=1)
    instances = [Instance(), Instance()]
    asked = threading.Barrier(2)

    def choose(instance: Instance) -> moderngl.Context:
        instance.associate(host.url, token=TOKEN, name="two")
        ask_hosts = instance._placing.ask_hosts
        monkeypatch.setattr(instance._placing, "ask_hosts", lambda: [ask_hosts(), asked.wait(30)][0])
        return instance.create_context()

    with ThreadPoolExecutor() as pool:
        contexts = list(pool.map(choose, instances))
    assert sessions(host) == [1, 1]
    found = [instance.device(ctx).listed for instance, ctx in zip(instances, contexts, strict=True)]
    assert {record.uuid for record in found if record is not None} == {ONE, TWO}
    reasons = [instance.device(ctx).reason for instance, ctx in zip(instances, contexts, strict=True)]
    assert sum("its host took two/1 (llvmpipe)" in reason for reason in reasons) == 1, reasons
    for ctx in contexts:
        ctx.release()


def test_a_device_by_its_uuid_alone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on whichever host has it; here on two."""
    monkeypatch.setattr(listing, "PATIENCE", 30.0)
    instance, hosts = Instance(), []
    for name, uuids in (("a", (ONE,)), ("b", (ONE, TWO))):
        devices = [
            {"name": "llvmpipe", "renderer": "llvmpipe", "version": 450, "number": number, "uuid": uuid}
            for number, uuid in enumerate(uuids)
        ]
        hosts.append(start(devices=devices, worker_command=[sys.executable, "-P", "-m", "glremote.host.process"]))
        instance.associate(hosts[-1].url, token=TOKEN, name=name)
    contexts = [instance.create_context(device=uuid) for uuid in (ONE, ONE, TWO, TWO[:8].lower())]
    assert [sessions(host) for host in hosts] == [[1], [1, 2]]
    assert instance.device(contexts[2]).reason == "named in the call; b/1 (llvmpipe): the only one that will do"
    monkeypatch.setenv("GLREMOTE_HOST", TWO)
    contexts.append(instance.create_context())
    assert instance.device(contexts[-1]).reason.startswith("GLREMOTE_HOST; b/1 (llvmpipe)")
    with pytest.raises(glremote.NoDevice, match="and not 'GPU-3333'"):
        instance.create_context(device="GPU-3333")
    with pytest.raises(TypeError, match="a token is for a host that is named"):
        instance.create_context(device=ONE, token=TOKEN)
    for ctx in contexts:
        ctx.release()


def test_a_program_goes_on_to_the_next_device_of_a_host(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one of the two no context can be made: EGL lists no such."""
    monkeypatch.setattr(listing, "PATIENCE", 30.0)
    known: dict[str, object] = {"name": "llvmpipe", "renderer": "llvmpipe", "version": 450}
    devices = [known | {"number": 0, "index": 77}, known | {"number": 1, "index": 0}]
    host = start(devices=devices, worker_command=[sys.executable, "-P", "-m", "glremote.host.process"])
    instance = Instance()
    instance.associate(host.url, token=TOKEN, name="two")
    contexts = [instance.create_context(device="two/1"), instance.create_context()]
    assert sessions(host) == [0, 2]
    reason = instance.device(contexts[1]).reason
    assert "two/1 (llvmpipe): the only one that will do; two/0 (llvmpipe) was chosen before and failed: " in reason
    contexts.append(instance.create_context())  # it is known now
    assert instance.device(contexts[2]).reason == "two/1 (llvmpipe): the only one that will do"
    doctor = [finding for finding in reach(Known(host.url, token=TOKEN), None, MODERNGL) if "it has" in finding.text]
    assert [finding.state for finding in doctor] == [State.WARNING, State.OK]
    assert "no worker can be started: " in doctor[0].text
    with pytest.raises(glremote.DeviceLost, match="requested device index 77"):
        instance.create_context("two", device=0)
    for ctx in contexts:
        ctx.release()


def test_serve_names_the_devices_that_there_are() -> None:
    command = [sys.executable, "-P", "-m", "glremote", "serve", "--port", "0", "--devices", "7"]
    done = subprocess.run(command, env=environment(TOKEN) | NO_TOKENS, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("glremote: nothing can be rendered here: there is no device '7' here: ")


def test_what_serve_probes_is_told(served: LocalHost) -> None:
    """By a real `glremote serve` on this machine."""
    ctx = glremote.create_context(served.url, token=served.token)
    address = urlsplit(served.url)
    with contextlib.closing(http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)) as connection:
        connection.request("GET", "/devices", headers={"Authorization": f"Bearer {served.token}"})
        found = decode(connection.getresponse().read())
    assert sum(device.sessions for device in found.devices) >= 1
    assert any(device.renderer == ctx.info["GL_RENDERER"] for device in found.devices)
    assert all(set(device.extensions) == ctx.extensions for device in found.devices[:1])
    ctx.release()


def test_the_host_counts_its_own_time_in_less_than_milliseconds(start: Start) -> None:
    """It is taken off the distance, which on a network of one's own is a part of one."""
    host = start(devices=GPUS)
    times = [get(host.url, "/devices", Authorization=BEARER)[2]["Server-Timing"] for _ in range(5)]
    seconds = [float(time_.removeprefix("admit;dur=")) for time_ in times]
    assert min(seconds) > 0 and any(one != round(one) for one in seconds), times
