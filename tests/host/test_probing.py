"""What a machine can render with: how it is found out, by a real probe of this one, and what is made of others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import moderngl
import pytest

from glremote.host import gpus, probing
from glremote.host.gpus import Gpu, State
from glremote.host.probing import Child, Found, Probe, Probed, selected, sort_out
from glremote.host.serving import environment

LLVMPIPE = "llvmpipe (LLVM 15.0.6, 256 bits)"
MESA = ("EGL_MESA_device_software",)
ONE, TWO = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
AT_3B, AT_5E = "0000:3b:00.0", "0000:5e:00.0"
KNOWN = [
    Gpu(AT_3B, f"GPU-{ONE}", "NVIDIA H200", State(1000, 900, 0.25)),
    Gpu(AT_5E, f"GPU-{TWO}", "NVIDIA H200", State(1000, 800, 0.5)),
]


def nvidia(index: int, **facts: Any) -> Probed:
    """A device that NVIDIA's driver lists."""
    usual: dict[str, Any] = {"renderer": "NVIDIA H200/PCIe/SSE2", "vendor": "NVIDIA Corporation", "version": 460}
    return Probed(index=index, **(usual | {"cuda": 0} | facts))


def mesa(index: int, renderer: str, **facts: Any) -> Probed:
    """A device that Mesa lists."""
    return Probed(index=index, renderer=renderer, vendor="Mesa", version=450, **facts)


def shown(found: Found) -> list[tuple[int | None, int, str | None, str | None]]:
    """Of each device: its number, EGL's index, its UUID and its address."""
    return [(device.number, device.index, device.uuid, device.pci) for device in found.devices]


MACHINES: dict[str, tuple[list[Probed], list[Gpu], list[Any], dict[int, str]]] = {
    "two of NVIDIA's, in another order": (
        [nvidia(0, uuid=TWO, cuda=1), nvidia(1, uuid=ONE)], KNOWN,
        [(0, 1, f"GPU-{ONE}", AT_3B), (1, 0, f"GPU-{TWO}", AT_5E)], {},
    ),
    "by their files": (
        [nvidia(0, pci=AT_5E, file="/dev/dri/card0"), nvidia(1, pci=AT_3B, file="/dev/dri/card1")], KNOWN,
        [(0, 1, f"GPU-{ONE}", AT_3B), (1, 0, f"GPU-{TWO}", AT_5E)], {},
    ),
    "by CUDA's numbers alone": (
        [nvidia(0, cuda=1), nvidia(1, cuda=0)], KNOWN,
        [(0, 1, f"GPU-{ONE}", AT_3B), (1, 0, f"GPU-{TWO}", AT_5E)], {},
    ),
    "without NVML": (
        [nvidia(0, uuid=TWO, cuda=1), nvidia(1, uuid=ONE, cuda=0)], [],
        [(0, 1, f"GPU-{ONE}", None), (1, 0, f"GPU-{TWO}", None)], {},
    ),
    "one of two in a container": (
        [nvidia(0, renderer="", version=0, cuda=0, why="no permission"), nvidia(1, uuid=TWO, cuda=1)], KNOWN,
        [(1, 1, f"GPU-{TWO}", AT_5E)], {0: "no permission"},
    ),
    "again through Mesa, which draws in software or not at all": (
        [
            mesa(0, LLVMPIPE, pci=AT_3B, file="/dev/dri/renderD128"),
            Probed(index=1, pci=AT_5E, file="/dev/dri/renderD129", why="eglInitialize failed"),
            nvidia(2, uuid=ONE, cuda=0), nvidia(3, uuid=TWO, cuda=1), mesa(4, LLVMPIPE, egl_extensions=MESA),
        ], KNOWN,
        [(0, 2, f"GPU-{ONE}", AT_3B), (1, 3, f"GPU-{TWO}", AT_5E), (None, 4, None, None)],
        {0: "nothing draws on it but the software renderer (EGL device 4)", 1: "eglInitialize failed"},
    ),
    "again through Mesa's own driver for it": (
        [mesa(0, "NV190", pci=AT_3B), nvidia(1, uuid=ONE)], KNOWN,
        [(0, 1, f"GPU-{ONE}", AT_3B)], {0: "it is EGL device 1 once more"},
    ),
    "AMD's beside NVIDIA's": (
        [mesa(0, "AMD Radeon RX 7900", pci="0000:03:00.0", uuid=ONE), nvidia(1, uuid=TWO, cuda=0)], KNOWN[1:],
        [(0, 1, f"GPU-{TWO}", AT_5E), (1, 0, None, "0000:03:00.0")], {},
    ),
    "AMD's alone": (
        [mesa(0, "AMD Radeon B", pci="0000:83:00.0"), mesa(1, "AMD Radeon A", pci="0000:03:00.0")], [],
        [(0, 1, None, "0000:03:00.0"), (1, 0, None, "0000:83:00.0")], {},
    ),
    "a GPU of a board without PCI": (
        [mesa(0, LLVMPIPE, egl_extensions=MESA), mesa(1, "V3D 7.1", file="/dev/dri/renderD128")], [],
        [(0, 1, None, None), (None, 0, None, None)], {},
    ),
    "no GPU": ([mesa(0, LLVMPIPE, egl_extensions=MESA)], [], [(None, 0, None, None)], {}),
    "nothing": ([], [], [], {}),
}  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_each_gpu_once_with_the_number_that_people_know(machine: str) -> None:
    probed, known, devices, others = MACHINES[machine]
    found = sort_out(probed, known)
    assert shown(found) == devices
    assert {one.index: one.why for one in found.others} == others


def test_what_nvml_tells_is_told() -> None:
    (device,) = sort_out([nvidia(3, uuid=TWO)], KNOWN).devices
    assert (device.name, device.renderer) == ("NVIDIA H200", "NVIDIA H200/PCIe/SSE2")
    assert (device.memory, device.memory_free, device.load) == (1000, 800, 0.5)


# --- --devices


def both() -> Found:
    """Two GPUs and a software renderer."""
    return sort_out([nvidia(0, uuid=TWO), nvidia(1, uuid=ONE), mesa(2, LLVMPIPE, egl_extensions=MESA)], KNOWN)


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [
        ("all", [1, 0]), ("ALL ", [1, 0]), ("0", [1]), ("1", [0]), ("1, 0", [1, 0]), ("0,0", [1]), ("01", [0]),
        (f"GPU-{TWO}", [0]), ("gpu-2222", [0]), (AT_5E, [0]), ("5e:00.0,software", [0, 2]), ("software", [2]),
        (f"0000{AT_5E}".upper(), [0]),  # as nvidia-smi shows it
    ],
)  # fmt: skip
def test_devices_are_named(wanted: str, indices: list[int]) -> None:
    assert [device.index for device in selected(both(), wanted)] == indices


@pytest.mark.parametrize("wanted", ["2", "", "0,", "GPU-3333", "nothing", "²", "9" * 5000])
def test_who_names_a_device_that_there_is_not_hears_which_there_are(wanted: str) -> None:
    with pytest.raises(LookupError, match=f"0, GPU-{ONE}, {AT_3B} .NVIDIA H200.; 1, .*; software .llvmpipe"):
        selected(both(), wanted)


def test_without_a_gpu_all_is_the_software_renderer() -> None:
    (device,) = selected(sort_out([mesa(0, LLVMPIPE, egl_extensions=MESA)], []), "all")
    assert device.software


def test_where_nothing_can_be_used_it_is_said_why() -> None:
    with pytest.raises(LookupError, match="EGL device 0: no permission; EGL device 1: crashed"):
        selected(sort_out([Probed(index=0, why="no permission"), Probed(index=1, why="crashed")], []), "all")


# --- this machine


def test_this_machine_is_what_moderngl_says_it_is() -> None:
    found = Probe().found()
    ctx = moderngl.create_context(standalone=True, backend="egl", device_index=found.devices[0].index)  # type: ignore[arg-type]
    device = found.devices[0]
    assert device.renderer == ctx.info["GL_RENDERER"]
    assert set(device.extensions) == ctx.extensions
    assert device.version >= ctx.version_code
    assert device.software == (device.number is None)
    ctx.release()


def test_where_there_is_no_driver_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("__EGL_VENDOR_LIBRARY_FILENAMES", "/nowhere")
    found = Probe().found()
    assert (found.devices, found.others) == ((), ())
    assert found.why


PROBE = """
import os, sys
from glremote.host import egl, gpus, probing
real = egl.make_context
def make(require, index):
    print("drivers say what they like", flush=True)
    if index == 1:
        os.abort()
    if index == 2:
        raise Exception("eglInitialize failed")
    return real(require, 0)
egl.make_context = make
real_list = egl.devices
def list_devices():  # in a child: a driver that this process has loaded may not work in those
    if "abort" in sys.argv:
        os.abort()
    extensions = real_list()[0].extensions
    return [egl.Listed(index, extensions, "/dev/null" if index == 2 else None) for index in range(4)]
egl.devices = list_devices
gpus.nvidia = lambda: os.abort()
probing.main()
"""


def run(*arguments: str) -> bytes:
    """What a probe tells of a machine with four devices: one crashes its process, one cannot be used."""
    command = [sys.executable, "-P", "-c", PROBE, *arguments]
    return subprocess.run(command, env=environment(), stdout=subprocess.PIPE, timeout=60, check=True).stdout


def test_a_driver_that_crashes_takes_nothing_along() -> None:
    told = run()
    assert [one.get("version", 0) > 0 for one in json.loads(told)["devices"]] == [True, False, False, True]
    found = probing.read(told)
    assert [device.index for device in found.devices] == [0], "the last is the same software renderer"
    assert {one.index: one.why for one in found.others} == {
        1: "its driver ended the process: SIGABRT",
        2: "eglInitialize failed",
        3: "it is EGL device 0 once more",
    }


def test_so_does_a_library_that_crashes() -> None:
    assert probing.read(run("abort")) == Found(why="its driver ended the process: SIGABRT")


def test_a_driver_that_crashes_while_the_process_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(probing, "_write", half)
    assert Child(int, "7").wait() == (None, "its driver ended the process: SIGKILL")


def test_a_driver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "PATIENCE", 0.2)
    child = Child(time.sleep, 600)
    result, why = child.wait()
    assert (result, why) == (None, "its driver was not ready within 0.2 s")
    _, status = os.waitpid(child._pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


# --- what gpus.py reads


def test_a_device_file_s_address(tmp_path: Path) -> None:
    """/dev/null stands in for one of /dev/dri, which not every machine has."""
    device = tmp_path / "devices" / "pci0000:3a" / AT_3B
    number = os.stat("/dev/null").st_rdev
    entry = tmp_path / "dev" / "char" / f"{os.major(number)}:{os.minor(number)}"
    entry.mkdir(parents=True)
    assert gpus.address_of("/dev/null", tmp_path) is None
    device.mkdir(parents=True)
    (entry / "device").symlink_to(device)
    assert gpus.address_of("/dev/null", tmp_path) == AT_3B
    assert gpus.address_of("/nowhere", tmp_path) is None


def test_what_amd_s_driver_shows(tmp_path: Path) -> None:
    assert gpus._shown(AT_3B, tmp_path) == State()
    folder = tmp_path / "bus" / "pci" / "devices" / AT_3B
    folder.mkdir(parents=True)
    (folder / "mem_info_vram_total").write_text("1000\n")
    assert gpus._shown(AT_3B, tmp_path) == State(1000, None, None)
    (folder / "mem_info_vram_used").write_text("400\n")
    (folder / "gpu_busy_percent").write_text("7\n")
    assert gpus._shown(AT_3B, tmp_path) == State(1000, 600, 0.07)


class Nvml:
    """Stands in for NVIDIA's library: two GPUs, in an order that is not that of their addresses."""

    GPUS = ((0x5E, TWO, 800, 50), (0x3B, ONE, 900, 25))

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.GPUS)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, handle: Any) -> int:
        handle._obj.value = index + 1
        return 0

    def nvmlDeviceGetPciInfo_v3(self, device: Any, info: Any) -> int:
        info._obj.bus = self.GPUS[device.value - 1][0]
        return 0

    def nvmlDeviceGetName(self, device: Any, text: Any, size: int) -> int:
        text.value = b"NVIDIA H200"
        return 0

    def nvmlDeviceGetUUID(self, device: Any, text: Any, size: int) -> int:
        text.value = f"GPU-{self.GPUS[device.value - 1][1]}".encode()
        return 0

    def nvmlDeviceGetMemoryInfo(self, device: Any, memory: Any) -> int:
        memory._obj.total, memory._obj.free = 1000, self.GPUS[device.value - 1][2]
        return 0

    def nvmlDeviceGetUtilizationRates(self, device: Any, rates: Any) -> int:
        rates._obj.gpu = self.GPUS[device.value - 1][3]
        return 0


def test_nvidia_s_gpus_are_in_the_order_of_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_nvml", Nvml)
    assert gpus.nvidia() == KNOWN
    assert gpus.states([AT_5E, "0000:99:00.0"]) == {AT_5E: State(1000, 800, 0.5)}
