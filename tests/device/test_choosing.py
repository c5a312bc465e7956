"""The choice among devices, as a table: records and what is wanted in, the chosen one and the reason out."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

from glremote.device.choosing import DeviceRecord, Wanted, choose
from glremote.protocol.errors import NoDevice

GIB = 1 << 30


def gpu(host: str, number: int | None = 0, **fields: Any) -> DeviceRecord:
    """A GPU that is idle, and 10 ms away."""
    known: dict[str, Any] = {
        "url": f"ws://{host}:8765", "name": "H200", "renderer": "H200/PCIe", "version": 460, "distance": 10.0,
        "extensions": ("GL_ARB_gpu_shader5",), "memory": 140 * GIB, "uuid": f"GPU-{host}-0000000{number}",
        "pci": f"0000:0{number}:00.0",
    }  # fmt: skip
    return DeviceRecord(host=host, number=number, **known | fields)


def llvmpipe(host: str, **fields: Any) -> DeviceRecord:
    """A software renderer."""
    nothing: dict[str, Any] = {"number": None, "uuid": None, "pci": None, "memory": None, "software": True}
    named: dict[str, Any] = {"name": "llvmpipe", "renderer": "llvmpipe", "version": 450}
    return gpu(host, **named | nothing | fields)


HERE: dict[str, Any] = {"url": "local", "distance": 0.0}
DEAD = DeviceRecord(host="dead", url="ws://dead:1", error="ws://dead:1: no host answers there")


class Case(NamedTuple):
    """Records by their names in order; the chosen one by its place."""

    what: str
    records: list[DeviceRecord]
    wanted: Wanted
    chosen: int
    reason: str
    local: str = "last"
    failed: dict[str, str] | None = None


CASES = [
    Case("one", [gpu("a")], Wanted(), 0, r"a/0 \(H200\): the only one that will do"),
    Case("dead and alive", [DEAD, gpu("a")], Wanted(), 1, "the only one"),
    Case("fewest sessions", [gpu("a", sessions=2), gpu("b", sessions=1)], Wanted(), 1, r"least busy of 2 \(1 sessions"),
    Case("by device", [gpu("a", 0, sessions=2), gpu("a", 1)], Wanted(), 1, r"a/1 .*least busy of 2 \(0"),
    Case("busy before far", [gpu("a", sessions=1, distance=0.1), gpu("b", distance=90.0)], Wanted(), 1, "least busy"),
    Case("load", [gpu("a", load=0.9), gpu("b", load=0.1)], Wanted(), 1, "least busy"),
    Case("no load to speak of", [gpu("a", load=0.2, distance=1.0), gpu("b", load=0.0)], Wanted(), 0, "nearest"),
    Case("load is as a session", [gpu("a", load=1.0), gpu("b", sessions=1)], Wanted(), 0, "first of 2"),
    Case("nearest", [gpu("a"), gpu("b", distance=0.5)], Wanted(), 1, r"b/0 .*nearest of 2 \(0\.5 ms\)"),
    Case("alike", [gpu("a"), gpu("b")], Wanted(), 0, "first of 2 that are alike"),
    Case("named host", [gpu("a"), gpu("b", sessions=9)], Wanted(url="ws://b:8765"), 1, "the only one"),
    Case("number", [gpu("a", 0), gpu("a", 1, sessions=9)], Wanted(url="ws://a:8765", device="1"), 1, "a/1"),
    Case("UUID", [gpu("a"), gpu("b")], Wanted(device="gpu-b-0000"), 1, "b/0"),
    Case("address", [gpu("a", 0), gpu("a", 1)], Wanted(device="0000:01:00.0"), 1, "a/1"),
    Case("software by name", [gpu("a"), llvmpipe("a")], Wanted(device="software"), 1, r"a/software \(llvmpipe\)"),
    Case("version", [gpu("a", version=330), gpu("b", sessions=5)], Wanted(version=430), 1, "the only one"),
    Case("extension", [gpu("a"), gpu("b", extensions=("GL_X",))], Wanted(extensions=("GL_X",)), 1, "the only one"),
    Case("memory", [gpu("a", memory=8 * GIB), gpu("b", sessions=1)], Wanted(memory=16 * GIB), 1, "the only one"),
    Case("memory that is free", [gpu("a", memory_free=GIB), gpu("b")], Wanted(memory=16 * GIB), 1, "the only one"),
    Case("GPUs first", [llvmpipe("a"), gpu("b", sessions=9)], Wanted(), 1, "a GPU comes before a software renderer"),
    Case("software will do", [llvmpipe("a")], Wanted(), 0, "the only one"),
    Case("no software", [llvmpipe("a"), gpu("b")], Wanted(software=False), 1, "the only one"),
    Case("draining", [gpu("a", draining=True), gpu("b", sessions=9)], Wanted(), 1, "the only one"),
    Case("full", [gpu("a", host_sessions=2, max_sessions=2), gpu("b", sessions=9)], Wanted(), 1, "the only one"),
    Case("local last", [gpu("local", **HERE), gpu("a", sessions=9)], Wanted(), 1, "hosts come before this machine"),
    Case("local first", [gpu("a"), gpu("local", **HERE, sessions=9)], Wanted(), 1, "this machine's GPU", "first"),
    Case("its software last", [llvmpipe("local", **HERE), llvmpipe("a", sessions=9)], Wanted(), 1, "hosts", "first"),
    Case("local is left", [DEAD, gpu("local", **HERE)], Wanted(), 1, "the only one"),
    Case(
        "the next", [gpu("a"), gpu("b", sessions=1)], Wanted(), 1,
        "the only one that will do; a was chosen before and failed: it died", failed={"ws://a:8765": "it died"},
    ),
    Case(
        "the next of the same host", [gpu("a"), gpu("a", 1)], Wanted(), 1,
        r"the only one that will do; a/0 \(H200\) was chosen before and failed: it died",
        failed={gpu("a").place: "it died"},
    ),
    Case("no worker there", [gpu("a", trouble="x"), gpu("a", 1, sessions=9)], Wanted(), 1, "the only one"),
    Case("no worker, but named", [gpu("a", trouble="x"), gpu("b")], Wanted(device="GPU-a-0000"), 0, "the only one"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_the_choice(case: Case) -> None:
    choice = choose(case.records, case.wanted, case.local, case.failed)
    assert choice.records[0] is case.records[case.chosen]
    assert re.search(case.reason, choice.reason), choice.reason


def test_those_that_would_do_as_well_are_told() -> None:
    """Of one host, so that it may choose among them: it alone knows who else comes in this moment."""
    records = [gpu("a", 0, sessions=1), gpu("a", 1), gpu("b", 0), gpu("a", 2), gpu("a", 3, load=1.0)]
    assert choose(records, Wanted()).records == (records[1], records[3])
    assert choose(records, Wanted(device="0000:02:00.0")).records == (records[3],)


@pytest.mark.parametrize(
    ("records", "wanted", "why"),
    [
        ([], Wanted(), "there is none"),
        ([DEAD], Wanted(), "dead: ws://dead:1: no host answers there"),
        ([gpu("a")], Wanted(url="ws://b:1"), "there is none"),
        ([gpu("a"), gpu("a", 1)], Wanted(device="2"), "a/1 (H200): it is '1', and not '2'"),
        ([gpu("a", version=450)], Wanted(version=460), "it has OpenGL 4.5, and not 4.6"),
        ([gpu("a")], Wanted(extensions=("GL_X", "GL_ARB_gpu_shader5", "GL_Y")), "it has no GL_X, GL_Y"),
        ([gpu("a", memory_free=GIB)], Wanted(memory=2 * GIB), "it has 1.0 GiB of memory free, and not 2.0"),
        ([llvmpipe("a")], Wanted(memory=1), "its driver does not tell how much memory it has"),
        ([llvmpipe("a")], Wanted(software=False), "it is a software renderer"),
        ([gpu("a", draining=True)], Wanted(), "its host is going down"),
        ([gpu("a", host_sessions=16, max_sessions=16)], Wanted(), "no room: 16 of at most 16 sessions"),
        ([gpu("a", trouble="no worker can be started: x")], Wanted(), "a/0 (H200): no worker can be started: x"),
        ([llvmpipe("a")], Wanted(device="0"), "it is 'software', and not '0'"),
    ],
)
def test_why_none_will_do(records: list[DeviceRecord], wanted: Wanted, why: str) -> None:
    with pytest.raises(NoDevice, match=re.escape(why)) as raised:
        choose(records, wanted)
    assert str(raised.value).count("\n") == max(1, len(records) if wanted.url is None else 0)


def test_a_record_tells_all_that_is_known() -> None:
    fields = gpu("a", 1, sessions=2).fields()
    assert fields["host"] == "a" and fields["number"] == 1 and fields["sessions"] == 2
    assert fields.keys() >= {"name", "renderer", "version", "memory", "load", "distance", "uuid", "pci", "error"}
    assert repr(gpu("a", 1)) == "<DeviceRecord a/1 (H200): OpenGL 4.6, 0 sessions, 10.0 ms>"
    assert "no host answers" in repr(DEAD)
