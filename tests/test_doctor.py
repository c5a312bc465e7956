"""`glremote doctor` on machines that are not there: a folder stands in for each, and functions for what only a machine
can answer. What the doctor itself loads and opens is tried on this machine."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from glremote import hosts, packages
from glremote.cli.serve import serve
from glremote.device import listing
from glremote.doctor import findings
from glremote.doctor import machine as real
from glremote.doctor.finding import Finding, State, well
from glremote.doctor.findings import examine, verdict
from glremote.doctor.machine import Machine, Probed, User
from glremote.host import probing, serving
from glremote.host.serving import environment
from glremote.protocol.devices import Device
from tests.test_cli import glremote_

LISTS = {"/var/lib/apt/lists/deb.debian.org_debian_dists_bookworm_InRelease": ""}
DEBIAN = LISTS | {
    "/etc/os-release": 'ID=debian\nVERSION_ID="12"\n', "/etc/group": "root:x:0:\nrender:x:106:\nvideo:x:44:\n",
}
FEDORA = {"/etc/os-release": 'ID=fedora\nID_LIKE="rhel"\n'}
UBUNTU = LISTS | {"/etc/os-release": "ID=ubuntu\nID_LIKE=debian\n"}
PAGE = Path(__file__).parent.parent / "HOSTS.md"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
VENDORS = "/usr/share/glvnd/egl_vendor.d"


def icd(library: str) -> str:
    """An ICD file."""
    return json.dumps({"file_format_version": "1.0.0", "ICD": {"library_path": library}})


GLVND = {f"{LIBRARIES}/libEGL.so.1": "", f"{LIBRARIES}/libGL.so.1": ""}
MESA = {
    f"{VENDORS}/50_mesa.json": icd("libEGL_mesa.so.0"), f"{LIBRARIES}/libEGL_mesa.so.0": "",
    f"{LIBRARIES}/dri/swrast_dri.so": "",
}  # fmt: skip
VERSION = "580.95.05"
MODULE = {
    "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build",
    "/dev/nvidia0": "", "/dev/nvidiactl": "",
    "/sys/bus/pci/devices/0000:3b:00.0/class": "0x030200\n", "/sys/bus/pci/devices/0000:3b:00.0/vendor": "0x10de\n",
}  # fmt: skip
COMPUTE = {f"{LIBRARIES}/libcuda.so.{VERSION}": "", f"{LIBRARIES}/libnvidia-ml.so.{VERSION}": ""}
GRAPHICS = {
    f"{LIBRARIES}/{stem}.so.{VERSION}": "" for stem in ("libEGL_nvidia", "libnvidia-eglcore", "libnvidia-glsi")
} | {f"{LIBRARIES}/libEGL_nvidia.so.0": "", f"{VENDORS}/10_nvidia.json": icd("libEGL_nvidia.so.0")}  # fmt: skip
DOCKER = {"/.dockerenv": ""}
AMD = {
    "/sys/bus/pci/devices/0000:03:00.0/class": "0x030000\n", "/sys/bus/pci/devices/0000:03:00.0/vendor": "0x1002\n",
    "/dev/dri/renderD128": "",
}  # fmt: skip

LLVMPIPE = Device(name="llvmpipe", renderer="llvmpipe (LLVM 15.0.6)", version=450, software=True)
H200 = Device(
    name="NVIDIA H200", renderer="NVIDIA H200/PCIe/SSE2", version=460, number=0, pci="0000:3b:00.0", memory=141 << 30
)
DRIVER = "sudo apt-get install -y linux-headers-$(dpkg --print-architecture) nvidia-driver nvidia-egl-icd"
GIVE = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=graphics,utility,compute ..."


class Stand:
    """A machine that is not there. Its libraries can be loaded if they are among its files."""

    def __init__(self, root: Path, *files: dict[str, str], **given: Any) -> None:
        for path, text in (item for some in files for item in some.items()):
            (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            (root / path.lstrip("/")).write_text(text)
        closed = given.pop("closed", {})
        devices = tuple(given.pop("devices", (LLVMPIPE,)))
        usual: dict[str, Any] = {
            "environment": {},
            "platform": "linux",
            "user": User(1000, "anna"),
            "load": self._load,
            "probe": lambda: Probed(devices, (), "" if devices else "EGL lists none"),
            "opening": lambda path: closed.get(path, 0),
            "walls": lambda: ([], "each worker's memory is bounded by the kernel"),
            "descriptors": lambda: (1024, 4096),
        }
        self.machine = Machine(root, **usual | given)
        self.sections = examine(self.machine)

    def _load(self, names: Iterable[str]) -> dict[str, str]:
        there = {os.path.basename(path) for path in self.machine.libraries("*.so.*")}
        return {name: f"{name}: cannot open shared object file" for name in names if name not in there}

    def of(self, state: State) -> list[Finding]:
        """The findings that stand so."""
        return [finding for section in self.sections for finding in section.findings if finding.state is state]

    def one(self, state: State) -> tuple[str, tuple[str, ...]]:
        """The only one that stands so."""
        found = self.of(state)
        assert len(found) == 1, found
        return found[0].text, found[0].mend


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that stands for a machine's root."""
    return tmp_path


def test_a_good_machine(root: Path) -> None:
    stand = Stand(root, DEBIAN, GLVND, MESA, MODULE, COMPUTE, GRAPHICS, devices=(H200, LLVMPIPE))
    assert well(stand.sections)
    assert stand.of(State.WARNING) == []
    said = "\n".join(finding.text for finding in stand.of(State.OK))
    assert "EGL's device 0 is GPU 0, NVIDIA H200, 141 GiB (0000:3b:00.0), with OpenGL 4.6" in said
    assert f"kernel module {VERSION} is loaded" in said
    assert "a software renderer, with OpenGL 4.5" in said
    assert verdict(stand.sections)[0] == "As a host it is fine."


@pytest.mark.parametrize(
    ("system", "line"),
    [
        (DEBIAN, "sudo apt-get install -y libegl1 libgl1"),
        (FEDORA, "sudo dnf install -y libglvnd-egl libglvnd-glx"),
        ({}, "install what Debian calls: libegl1 libgl1"),
    ],
)
def test_no_egl_library(root: Path, system: dict[str, str], line: str) -> None:
    stand = Stand(root, system, devices=())
    first, second, third = stand.of(State.MISSING)
    assert "libEGL.so.1 and libGL.so.1 are not installed" in first.text
    assert first.mend == (line,)
    assert "no ICD file" in second.text
    assert "nothing can be drawn here" in third.text
    host, client = verdict(stand.sections)
    assert host.startswith("As a host it is not")
    assert client.startswith("As a client this machine is fine")


def test_a_library_that_cannot_be_loaded(root: Path) -> None:
    why = {"libGL.so.1": "libGLX.so.0: cannot open shared object file"}
    stand = Stand(root, DEBIAN, GLVND, MESA, load=lambda names: why)
    text, mend = stand.one(State.MISSING)
    assert text == "libGL.so.1 cannot be loaded: libGLX.so.0: cannot open shared object file"
    owner = "$(dpkg -S libGLX.so.0 | grep -v ^diversion | cut -d: -f1)"  # of what is not there
    assert mend == (f"sudo apt-get install --reinstall -y libegl1 libgl1 {owner}",)


def test_mesa_alone(root: Path) -> None:
    stand = Stand(root, DEBIAN, GLVND, MESA)
    assert well(stand.sections)
    gpu, software = stand.of(State.WARNING)
    assert gpu.text == "there is no GPU in this machine"
    assert software.text.startswith("everything is drawn in software, by llvmpipe (LLVM 15.0.6), since no GPU is here")
    assert verdict(stand.sections)[0] == "As a host it works, in software."


def test_mesa_without_its_drivers(root: Path) -> None:
    files = {path: text for path, text in MESA.items() if "dri" not in path}
    text, mend = (stand := Stand(root, DEBIAN, GLVND, files, devices=())).of(State.MISSING)[0][1:]
    assert text == "Mesa's EGL library is there, and not one of its drivers (DRI)"
    assert mend == ("sudo apt-get install --reinstall -y libegl-mesa0 libgl1-mesa-dri",)
    assert not well(stand.sections)


def test_mesa_s_one_library_of_drivers(root: Path) -> None:
    files = {path: text for path, text in MESA.items() if "dri" not in path}
    assert well(Stand(root, DEBIAN, GLVND, files, {f"{LIBRARIES}/libgallium-25.0.7.so": ""}).sections)


# --- NVIDIA's driver


def test_a_container_for_compute_alone(root: Path) -> None:
    given = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    text, mend = Stand(root, DEBIAN, GLVND, MESA, MODULE, COMPUTE, DOCKER, environment=given).one(State.MISSING)
    assert text == (
        "this container has NVIDIA's driver for compute alone: libEGL_nvidia, libnvidia-eglcore, libnvidia-glsi are "
        "not there, and NVIDIA_DRIVER_CAPABILITIES is compute,utility"
    )
    assert mend == (GIVE,)
    assert f"  missing  {text}\n             {GIVE}\n" in PAGE.read_text()


def test_a_container_of_a_machine_for_compute_alone(root: Path) -> None:
    """It was given all that there is."""
    given = {"NVIDIA_DRIVER_CAPABILITIES": "compute,graphics"}
    text, mend = Stand(root, DEBIAN, GLVND, MESA, MODULE, COMPUTE, DOCKER, environment=given).one(State.MISSING)
    assert "the driver of the machine itself has no part that draws" in text
    assert mend[0].startswith("glremote doctor  # on the machine itself")


def test_a_pod_for_compute_alone(root: Path) -> None:
    given = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    text, mend = Stand(root, DEBIAN, GLVND, MESA, MODULE, COMPUTE, environment=given).one(State.MISSING)
    assert "NVIDIA_DRIVER_CAPABILITIES is not set" in text
    assert mend == (
        "resources: {limits: {nvidia.com/gpu: 1}}  # of the container: samples/deploy/kubernetes.yaml",
        'env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: "graphics,utility,compute"}]',
    )


@pytest.mark.parametrize(
    ("system", "line"),
    [
        (DEBIAN, "apt-get install -y nvidia-egl-icd"),
        (UBUNTU, "apt-get install -y libnvidia-gl-580"),
        (FEDORA, "dnf install -y xorg-x11-drv-nvidia-libs"),
    ],
)
def test_a_driver_without_graphics(root: Path, system: dict[str, str], line: str) -> None:
    """As root: no sudo."""
    text, mend = Stand(root, system, GLVND, MESA, MODULE, COMPUTE, user=User(0, "root")).one(State.MISSING)
    assert text.startswith("NVIDIA's driver is here without its libraries for OpenGL (libEGL_nvidia, ")
    assert mend == (line,)


def test_a_driver_of_ubuntu_s_for_servers(root: Path) -> None:
    """Its packages are others: of two kinds only one can be installed."""
    files = {"/var/lib/dpkg/info/libnvidia-compute-580-server:amd64.list": ""}
    mend = Stand(root, UBUNTU, GLVND, MESA, MODULE, COMPUTE, files).one(State.MISSING)[1]
    assert mend == ("sudo apt-get install -y libnvidia-gl-580-server",)


def test_a_driver_of_nvidia_s_own_installer(root: Path) -> None:
    installer = {"/usr/bin/nvidia-uninstall": ""}
    mend = Stand(root, DEBIAN, GLVND, MESA, MODULE, COMPUTE, installer).one(State.MISSING)[1]
    assert mend[0].startswith("sudo sh NVIDIA-Linux-") and f"-{VERSION}.run --no-kernel-modules  # " in mend[0]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("sources.list.d/debian.sources", "Components: main\nA: b\n", "Components: main contrib non-free\nA: b\n"),
        ("sources.list", "deb http://a trixie main\n# x\n", "deb http://a trixie main contrib non-free\n# x\n"),
    ],
)
def test_debian_s_sources_that_have_no_driver(root: Path, name: str, before: str, after: str) -> None:
    """The line is run here too, upon the file that stands in."""
    file, stand = f"/etc/apt/{name}", (DEBIAN, GLVND, MESA, MODULE, COMPUTE, {f"/etc/apt/{name}": before})
    first, update, install = Stand(root, *stand, user=User(0, "root")).one(State.MISSING)[1]
    assert (update, install) == ("apt-get update", "apt-get install -y nvidia-egl-icd")
    subprocess.run(first.replace(file, shlex.quote(f"{root}{file}")), shell=True, check=True)
    assert (root / file.lstrip("/")).read_text() == after
    assert Stand(root, user=User(0, "root")).one(State.MISSING)[1] == (install,)


def test_debian_s_driver_lies_behind_links(root: Path) -> None:
    """As its packages have it: of libEGL_nvidia only a link to the version lies where libraries are looked for."""
    Stand(root, DEBIAN, GLVND, MESA, MODULE, GRAPHICS)
    folder, name = root / LIBRARIES.lstrip("/"), f"libEGL_nvidia.so.{VERSION}"
    (folder / "nvidia/current").mkdir(parents=True)
    (folder / name).rename(folder / "nvidia/current" / name)
    (folder / "libEGL_nvidia.so.0").unlink()
    (folder / "libEGL_nvidia.so.0").symlink_to(f"nvidia/current/{name}")
    stand = Stand(root, devices=(H200,))
    assert well(stand.sections), stand.of(State.MISSING)


def test_libraries_of_another_version(root: Path) -> None:
    newer = {path.replace(VERSION, "590.10"): text for path, text in GRAPHICS.items()}
    text, mend = Stand(root, DEBIAN, GLVND, MESA, MODULE, newer).one(State.MISSING)
    assert f"libEGL_nvidia is of version 590.10, and the kernel module of {VERSION}: they must agree" in text
    assert mend == ("sudo reboot",)
    stand = Stand(root, DOCKER)
    assert stand.one(State.MISSING)[1] == ("apt-get purge -y 'libnvidia-*' 'libegl-nvidia*'  # in the image",)


def test_no_icd_file_of_nvidia_s(root: Path) -> None:
    without = {path: text for path, text in GRAPHICS.items() if not path.endswith(".json")}
    stand = Stand(root, DEBIAN, GLVND, MESA, MODULE, without)
    text, mend = stand.one(State.MISSING)
    assert "no ICD file that is read names NVIDIA's EGL library" in text
    written = icd("libEGL_nvidia.so.0")
    assert mend[0].startswith("sudo sh -c ") and written in mend[0].replace("'\"'\"'", "'")
    (root / "usr/local/nvidia/share/glvnd/egl_vendor.d").mkdir(parents=True)
    elsewhere = "/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json"
    text, mend = Stand(root, {elsewhere: written}).one(State.MISSING)
    assert mend == (f"export __EGL_VENDOR_LIBRARY_FILENAMES={elsewhere}:{VENDORS}/50_mesa.json",)


def test_the_line_that_writes_an_icd_file_does(root: Path) -> None:
    without = {path: text for path, text in GRAPHICS.items() if not path.endswith(".json")}
    files = (DEBIAN, GLVND, MESA, MODULE, without)
    (line,) = Stand(root, *files, user=User(0, "root")).one(State.MISSING)[1]
    assert os.system(line.replace(VENDORS, str(root) + VENDORS)) == 0
    assert well(Stand(root, *files, devices=(H200,)).sections)


@pytest.mark.parametrize(
    ("files", "says", "mend"),
    [
        ({}, "driver is not installed", (DRIVER, "sudo reboot")),
        (GRAPHICS, "its kernel module is not loaded for the GPU at 0000:3b:00.0", ("sudo modprobe nvidia",)),
    ],
)
def test_no_kernel_module(root: Path, files: dict[str, str], says: str, mend: tuple[str, ...]) -> None:
    on_the_bus = {path: text for path, text in MODULE.items() if path.startswith("/sys")}
    found = Stand(root, DEBIAN, GLVND, MESA, on_the_bus, files).one(State.MISSING)
    assert says in found[0]
    assert found[1] == mend


@pytest.mark.parametrize(
    ("system", "mend"),
    [
        (DEBIAN, ("apt-get install -y linux-headers-$(uname -r)", "dkms autoinstall")),
        (FEDORA, ("dnf install -y kernel-devel-$(uname -r)", "akmods --force")),
    ],
)
def test_a_kernel_module_that_was_not_built(root: Path, system: dict[str, str], mend: tuple[str, ...]) -> None:
    """As where the kernel's headers were not there, or not those of the kernel that runs now."""
    on_the_bus = {path: text for path, text in MODULE.items() if path.startswith("/sys")}
    modules = "/lib/modules/6.12.1-amd64/modules.dep"
    others = {"/proc/sys/kernel/osrelease": "6.12.1-amd64\n", modules: "kernel/drivers/net/virtio_net.ko.xz:\n"}
    found = Stand(root, system, GLVND, MESA, on_the_bus, GRAPHICS, others).one(State.MISSING)
    assert "was not built for this kernel (6.12.1-amd64)" in found[0]
    assert found[1] == tuple(f"sudo {line}" for line in (*mend, "modprobe nvidia"))
    built = others | {modules: "updates/dkms/nvidia-current.ko.xz:\n"}
    assert "is not loaded" in Stand(root, system, GLVND, MESA, on_the_bus, GRAPHICS, built).one(State.MISSING)[0]


def test_no_devices_of_nvidia_s(root: Path) -> None:
    loaded = {path: text for path, text in MODULE.items() if not path.startswith("/dev")}
    text, mend = Stand(root, DEBIAN, GLVND, MESA, loaded, GRAPHICS).one(State.MISSING)
    assert "a worker cannot make them" in text
    assert mend == ("sudo nvidia-modprobe -c 0",)
    for stem in ("libEGL_nvidia", "libnvidia-eglcore", "libnvidia-glsi"):  # they come with the devices
        (root / f"{LIBRARIES}/{stem}.so.{VERSION}".lstrip("/")).unlink()
    (root / f"{VENDORS}/10_nvidia.json".lstrip("/")).unlink()
    text, mend = Stand(root, DOCKER).one(State.MISSING)
    assert "this container was given no GPU" in text
    assert mend == (GIVE,)


# --- who may open devices


def test_no_permission(root: Path) -> None:
    """The group of the device is one that the user can be in; nothing else is missing."""
    stand = Stand(root, DEBIAN, GLVND, MESA, AMD)
    device = root / "dev/dri/renderD128"
    device.chmod(0o660)
    group = device.stat().st_gid
    (root / "etc/group").write_text(f"root:x:0:\nrender:x:{group or 106}:\n")
    if not group:
        os.chown(device, -1, 106)
    stand = Stand(root, closed={"/dev/dri/renderD128": errno.EACCES})
    text, mend = stand.one(State.MISSING)
    assert text == "anna may not open /dev/dri/renderD128: Permission denied"
    assert mend[0] == "sudo usermod -aG render anna"
    assert "groups are taken at login" in mend[1]
    assert "for want of what is missing above" in stand.of(State.WARNING)[-1].text
    text, mend = Stand(root, DOCKER, closed={"/dev/dri/renderD128": errno.EACCES}).one(State.MISSING)
    assert mend == (f"docker run --device /dev/dri --group-add {device.stat().st_gid} ...",)


def test_a_device_that_is_for_nobody_s_group(root: Path) -> None:
    Stand(root, DEBIAN, GLVND, MESA, MODULE, GRAPHICS)
    (root / "dev/nvidia0").chmod(0o600)
    closed = {"/dev/nvidia0": errno.EACCES}
    text, mend = Stand(root, closed=closed, devices=(LLVMPIPE,)).one(State.MISSING)
    assert text == "anna may not open /dev/nvidia0: Permission denied"
    assert mend == ("sudo chmod a+rw /dev/nvidia0",)


def test_a_device_that_nobody_serves(root: Path) -> None:
    closed = {"/dev/nvidia0": errno.ENXIO}
    files = (DEBIAN, GLVND, MESA, MODULE, GRAPHICS)
    assert Stand(root, *files, closed=closed).one(State.MISSING)[1] == ("sudo modprobe nvidia",)
    mend = Stand(root, DOCKER, closed=closed).one(State.MISSING)[1]
    assert mend == ("sudo modprobe nvidia  # on the machine itself",)


def test_a_device_of_a_group_that_has_no_name(root: Path) -> None:
    """Nobody can be in it."""
    Stand(root, DEBIAN, GLVND, MESA, AMD)
    device = root / "dev/dri/renderD128"
    os.chown(device, -1, 4242) if os.geteuid() == 0 else pytest.skip("only root gives files away")
    device.chmod(0o660)
    mend = Stand(root, closed={"/dev/dri/renderD128": errno.EACCES}).one(State.MISSING)[1]
    assert mend == ("sudo chmod a+rw /dev/dri/renderD128",)


def test_who_asks_is_not_who_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert real.user().number == os.getuid()
    assert real.user().name != "somebody-else"


def test_a_device_that_the_container_may_not_open(root: Path) -> None:
    """By its cgroup, whatever the file's mode."""
    closed = {"/dev/nvidia0": errno.EPERM}
    text, mend = Stand(root, DEBIAN, GLVND, MESA, MODULE, GRAPHICS, DOCKER, closed=closed).one(State.MISSING)
    assert "Operation not permitted" in text
    assert mend == (GIVE,)


def test_a_gpu_without_a_device(root: Path) -> None:
    on_the_bus = {path: text for path, text in AMD.items() if path.startswith("/sys")}
    text, mend = Stand(root, DEBIAN, GLVND, MESA, on_the_bus).one(State.MISSING)
    assert text == "there is a GPU of AMD's at 0000:03:00.0, and no device for it (/dev/dri/renderD128)"
    assert mend == ("sudo modprobe amdgpu",)
    stand = Stand(root, DOCKER)
    assert well(stand.sections)
    assert stand.of(State.WARNING)[0].mend == ("docker run --device /dev/dri ...",)


def test_a_gpu_that_does_not_draw(root: Path) -> None:
    """Though all of its driver is there."""
    text, mend = Stand(root, DEBIAN, GLVND, MESA, MODULE, GRAPHICS).one(State.MISSING)
    assert "in software, by llvmpipe (LLVM 15.0.6), though a GPU is here" in text
    assert mend[0].startswith("sudo dmesg | grep ")


def test_a_variable_that_leads_past_nvidia_s_icd_file(root: Path) -> None:
    """To Mesa's alone."""
    given = {"__EGL_VENDOR_LIBRARY_FILENAMES": f"{VENDORS}/50_mesa.json"}
    text, mend = Stand(root, DEBIAN, GLVND, MESA, MODULE, GRAPHICS, environment=given).one(State.MISSING)
    assert "no ICD file that is read names NVIDIA's EGL library" in text
    assert mend == ("unset __EGL_VENDOR_LIBRARY_FILENAMES",)


def test_nvidia_s_icd_file_is_broken_in_a_container(root: Path) -> None:
    """Which has its libraries: so nothing more is to be given to it, and it is told once."""
    broken = {f"{VENDORS}/10_nvidia.json": ""}
    text, mend = Stand(root, DEBIAN, GLVND, MESA, MODULE, GRAPHICS, broken, DOCKER).one(State.MISSING)
    assert text.startswith(f"{VENDORS}/10_nvidia.json: it is no JSON")
    assert icd("libEGL_nvidia.so.0") in mend[0].replace("'\"'\"'", "'")


# --- ICD files


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "it is no JSON (Expecting property name"),
        ("[]", "it names no ICD.library_path"),
        ('{"ICD": {}}', "it names no ICD.library_path"),
        ('{"ICD": {"library_path": 3}}', "it names no ICD.library_path"),
    ],
)
def test_a_broken_icd_file(root: Path, text: str, says: str) -> None:
    path = f"{VENDORS}/50_mesa.json"
    found, mend = Stand(root, DEBIAN, GLVND, MESA | {path: text}).one(State.MISSING)
    assert found.startswith(f"{path}: {says}")
    assert mend == ("sudo apt-get install --reinstall -y libegl-mesa0 libgl1-mesa-dri",)


def test_an_icd_file_that_names_what_is_not_there(root: Path) -> None:
    """It harms nobody where there is another, and no GPU of NVIDIA's."""
    lonely = {f"{VENDORS}/10_nvidia.json": icd("libEGL_nvidia.so.0")}
    stand = Stand(root, DEBIAN, GLVND, MESA, lonely)
    assert well(stand.sections)
    text = stand.of(State.WARNING)[0].text
    assert "it names libEGL_nvidia.so.0, which cannot be loaded (libEGL_nvidia.so.0: cannot open" in text


def test_a_variable_that_leads_nowhere(root: Path) -> None:
    given = {"__EGL_VENDOR_LIBRARY_FILENAMES": "/no/such.json"}
    stand = Stand(root, DEBIAN, GLVND, MESA, environment=given, devices=())
    led = stand.of(State.MISSING)[0]
    assert led.text.startswith("__EGL_VENDOR_LIBRARY_FILENAMES is /no/such.json: drivers are looked for nowhere else")
    assert led.mend == ("unset __EGL_VENDOR_LIBRARY_FILENAMES",)
    assert stand.of(State.WARNING)[0].text == "/no/such.json: there is no such file; it is passed over"
    assert not any("apt-get" in line for one in stand.of(State.MISSING) for line in one.mend)
    stand = Stand(root, environment={"__EGL_VENDOR_LIBRARY_DIRS": "/nowhere"}, devices=())
    assert stand.of(State.MISSING)[0].mend == ("unset __EGL_VENDOR_LIBRARY_DIRS",)
    for name in ("__EGL_VENDOR_LIBRARY_DIRS", "__EGL_VENDOR_LIBRARY_FILENAMES"):  # to nothing, which is no default
        led = Stand(root, environment={name: ""}, devices=()).of(State.MISSING)[0]
        assert led.text.startswith(f"{name} is empty: drivers") and led.mend == (f"unset {name}",)
    assert not any("apt-get" in line for one in stand.of(State.MISSING) for line in one.mend)


def test_libraries_that_a_variable_puts_before_the_system_s(root: Path) -> None:
    """No package is to be installed for that."""
    why = {"libEGL.so.1": "/opt/old/libEGL.so.1: file too short"}
    given: dict[str, Any] = {"load": lambda names: why, "devices": ()}
    stand = Stand(root, DEBIAN, GLVND, MESA, environment={"LD_LIBRARY_PATH": "/opt/old/"}, **given)
    assert stand.of(State.MISSING)[0].mend == ("unset LD_LIBRARY_PATH",)
    stand = Stand(root, environment={"LD_LIBRARY_PATH": "/opt/mine:/opt/old"}, **given)
    assert stand.of(State.MISSING)[0].mend == ("export LD_LIBRARY_PATH=/opt/mine",)


def test_variables_that_have_mesa_do_something_else(root: Path) -> None:
    given = {"LIBGL_ALWAYS_SOFTWARE": "1"}
    text, mend = Stand(root, DEBIAN, GLVND, MESA, AMD, environment=given).one(State.MISSING)
    assert "in software, by llvmpipe (LLVM 15.0.6), though a GPU is here; variables have Mesa do so" in text
    assert mend == ("unset LIBGL_ALWAYS_SOFTWARE  # it is 1",)
    nothing = Stand(root, environment={"GALLIUM_DRIVER": "no-such"}, devices=()).of(State.MISSING)[-1]
    assert nothing.text.startswith("nothing can be drawn here")
    assert nothing.mend == ("unset GALLIUM_DRIVER  # it is no-such",)


def test_what_is_installed_and_has_lost_its_files(root: Path) -> None:
    """`apt-get install` alone does nothing there."""
    files = {"/var/lib/dpkg/info/libegl1:amd64.list": ""}
    stand = Stand(root, DEBIAN, MESA, files, devices=())
    assert stand.of(State.MISSING)[0].mend == ("sudo apt-get install --reinstall -y libegl1 libgl1",)


def test_an_image_without_lists_of_packages(root: Path) -> None:
    stand = Stand(root, {path: text for path, text in DEBIAN.items() if "lists" not in path}, devices=())
    assert stand.of(State.MISSING)[0].mend == ("sudo apt-get update", "sudo apt-get install -y libegl1 libgl1")


def test_errors_name_what_the_doctor_names() -> None:
    """Of the same distribution, from the same place."""
    program = "import glremote; glremote.create_context()"
    variables = environment() | {"__EGL_VENDOR_LIBRARY_FILENAMES": "/nowhere", "GLREMOTE_HOSTS": ""}
    done = subprocess.run([sys.executable, "-P", "-c", program], env=variables, capture_output=True, text=True)
    said = done.stderr.splitlines()[-1]
    assert packages.advice() in said
    system = packages.release(Path("/etc/os-release").read_text())
    assert packages.names(system, packages.GLVND) in said
    assert "`glremote doctor` says what is missing" in said
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        assert packages.advice().startswith("call moderngl.create_context")


def test_what_is_kept_in_two_places() -> None:
    """Since neither of them may import the other, or would be slow to."""
    (most,) = [option for option in serve.params if option.name == "max_sessions"]
    assert most.default == findings.SESSIONS
    same, undrawn = findings.AGAIN
    assert same in probing.SAME and undrawn in probing.UNDRAWN
    assert set(listing.SECRET) == serving.SECRET
    assert hosts.TOKEN_VARIABLE == serving.TOKEN_VARIABLE


# --- what a host has


def test_walls_memory_and_descriptors(root: Path) -> None:
    loose = "each worker's memory is looked at four times a second, and no cgroup bounds it: why"
    given: dict[str, Any] = {"walls": lambda: (["no Landlock"], loose), "descriptors": lambda: (256, 1 << 20)}
    warned = Stand(root, DEBIAN, GLVND, MESA, **given).of(State.WARNING)[-3:]
    assert [finding.text for finding in warned[:2]] == ["no Landlock", loose]
    assert "glremote serve --print-unit" in warned[1].mend[0]
    there = Stand(root, DOCKER, **given).of(State.WARNING)
    assert [finding.mend for finding in there if finding.text == loose] == [()]  # where there is no systemd
    assert warned[2].text.startswith("256 descriptors are few")
    assert warned[2].mend == ("ulimit -n 4096",)


def test_a_device_that_is_not_used(root: Path) -> None:
    others = ((1, "", "its driver ended the process: SIGSEGV"), (2, "llvmpipe", "it is EGL device 0 once more"))
    stand = Stand(root, DEBIAN, GLVND, MESA, probe=lambda: Probed((LLVMPIPE,), others))
    texts = [finding.text for finding in stand.of(State.WARNING)]
    assert "EGL's device 1 is not used: its driver ended the process: SIGSEGV" in texts
    assert "EGL's device 2 (llvmpipe) is not used: it is EGL device 0 once more" not in texts


def test_another_system(root: Path) -> None:
    stand = Stand(root, platform="darwin")
    assert stand.one(State.MISSING)[0] == "a host needs Linux, and this is darwin"
    assert verdict(stand.sections)[1].startswith("As a client this machine is fine")


# --- libraries are found where the system finds them


def test_where_libraries_are_looked_for(root: Path) -> None:
    files = {
        "/etc/ld.so.conf": "include ld.so.conf.d/*.conf\n",
        "/etc/ld.so.conf.d/nvidia.conf": "/usr/local/nvidia/lib64\n",
        "/usr/local/nvidia/lib64/libfirst.so.1": "", "/opt/mine/libsecond.so.1": "", "/usr/lib/libfirst.so.1": "",
    }  # fmt: skip
    machine = Stand(root, files, environment={"LD_LIBRARY_PATH": "/opt/mine:/nowhere"}).machine
    assert machine.libraries("lib*.so.1") == ["/opt/mine/libsecond.so.1", "/usr/local/nvidia/lib64/libfirst.so.1"]


def test_loading_and_opening_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "libbroken.so.1").write_text("no library")
    broken = str(tmp_path / "libbroken.so.1")
    why = real.load(["libEGL.so.1", "libno.such.so.1", broken])
    assert set(why) == {"libno.such.so.1", broken}
    assert "cannot open shared object file" in why["libno.such.so.1"]
    library = tmp_path / "libcrash.so.1"
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc." in line)
    library.write_bytes(Path(libc).read_bytes()[:1000])
    why = real.load(["libEGL.so.1", str(library)])  # which ends the process that tries
    assert set(why) == {str(library)}, why
    assert real.opening(os.devnull) == 0
    assert real.opening(str(tmp_path / "nothing")) == errno.ENOENT


def test_children_know_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GLREMOTE_TOKEN", "GLREMOTE_LOOK_TOKEN"):
        monkeypatch.setenv(name, "secret")
    done = real._child("-c", "import os; print(*os.environ.items())")
    assert "PYTHONPATH" in done.stdout and "secret" not in done.stdout


# --- the command


def test_on_this_machine() -> None:
    done = glremote_("doctor")
    assert done.returncode == ("  missing  " in done.stdout), done.stdout + done.stderr
    assert re.search("^  ok       EGL's device [0-9]+ is .*, with OpenGL [34]", done.stdout, re.MULTILINE)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_on_this_machine_without_a_driver(tmp_path: Path) -> None:
    (tmp_path / "50_mesa.json").write_text("{")
    done = glremote_("doctor", __EGL_VENDOR_LIBRARY_FILENAMES=str(tmp_path / "50_mesa.json"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"missing  __EGL_VENDOR_LIBRARY_FILENAMES is {tmp_path}/50_mesa.json: drivers are" in done.stdout
    assert f"warning  {tmp_path}/50_mesa.json: it is no JSON" in done.stdout
    assert "missing  nothing can be drawn here" in done.stdout
    assert done.stdout.endswith("needs no OpenGL, driver or GPU.\n")
