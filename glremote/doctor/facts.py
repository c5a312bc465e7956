"""What is seen of a machine, as it is; what follows from it is findings.py's.

Knows: where glvnd, Mesa, NVIDIA's driver and Linux keep what is looked at. Does not know: what is good or bad.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from glremote.packages import release

from .machine import Machine, Probed

FRONT_LIBRARIES = ("libEGL.so.1", "libGL.so.1")
"""What moderngl's loader opens: glvnd's, which find the driver's."""
VENDOR_FOLDERS = ("/etc/glvnd/egl_vendor.d", "/usr/share/glvnd/egl_vendor.d")
"""Where glvnd looks for ICD files, which name the drivers' EGL libraries, unless a variable says otherwise."""
VENDOR_FILES, VENDOR_DIRS = "__EGL_VENDOR_LIBRARY_FILENAMES", "__EGL_VENDOR_LIBRARY_DIRS"
OTHER_VENDOR_FILES = (
    "/usr/local/nvidia/share/glvnd/egl_vendor.d/*.json", "/usr/local/share/glvnd/egl_vendor.d/*.json",
    "/run/opengl-driver/share/glvnd/egl_vendor.d/*.json", "/opt/*/share/glvnd/egl_vendor.d/*.json",
)  # fmt: skip
"""Where glvnd does not look, and drivers have been seen to put theirs."""
MISLEADING = (
    "LIBGL_ALWAYS_SOFTWARE", "GALLIUM_DRIVER", "MESA_LOADER_DRIVER_OVERRIDE", "LIBGL_DRIVERS_PATH",
    "MESA_GL_VERSION_OVERRIDE",
)  # fmt: skip
NVIDIA_EGL = "libEGL_nvidia.so.0"
NVIDIA_GRAPHICS = ("libEGL_nvidia", "libnvidia-eglcore", "libnvidia-glsi")
"""What of NVIDIA's driver OpenGL through EGL needs; compute needs none of it."""
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
NVIDIA, AMD, INTEL = "10de", "1002", "8086"
MAKERS = {NVIDIA: "NVIDIA", AMD: "AMD", INTEL: "Intel", "1af4": "virtio", "15ad": "VMware"}
DISPLAY = "0x03"
"""The class of PCI devices that are GPUs."""


@dataclass(frozen=True)
class Vendor:
    """An ICD file: the driver's library that it names, and what is wrong with it."""

    path: str
    library: str = ""
    trouble: str = ""


@dataclass(frozen=True)
class Gpu:
    """A GPU on the PCI bus, and the kernel's driver that has it."""

    address: str
    maker: str
    driver: str


@dataclass(frozen=True)
class Node:
    """A device file: whose it is, and why it cannot be opened (an error number, or 0)."""

    path: str
    group: str
    number: int
    group_may: bool
    error: int


class Facts:
    """Of one machine, each looked up when it is first asked for."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    # --- the system

    @cached_property
    def release(self) -> dict[str, str]:
        """/etc/os-release."""
        return release(self.machine.text("/etc/os-release") or "")

    @cached_property
    def container(self) -> str:
        """What kind of container this is in; "" where it is none."""
        if self.machine.environment.get("KUBERNETES_SERVICE_HOST"):
            return "kubernetes"
        if self.machine.exists("/.dockerenv"):
            return "docker"
        if self.machine.exists("/run/.containerenv"):
            return "podman"
        return self.machine.environment.get("container", "")

    @cached_property
    def has_non_free(self) -> bool:
        """Whether Debian's non-free is among apt's sources."""
        files = ["/etc/apt/sources.list", *self.machine.glob("/etc/apt/sources.list.d/*")]
        return any(re.search(r"\snon-free(\s|$)", self.machine.text(path) or "") for path in files)

    def has_package(self, name: str) -> bool:
        """Whether a package of Debian's is installed, whatever became of its files."""
        lists = (f"/var/lib/dpkg/info/{name}{kind}.list" for kind in ("", ":*"))
        return any(self.machine.glob(path) for path in lists)

    @property
    def misleading(self) -> tuple[str, ...]:
        """Variables that are set here, and have Mesa do something else than it would."""
        return tuple(name for name in MISLEADING if self.machine.environment.get(name))

    # --- libraries

    @cached_property
    def named_folders(self) -> tuple[str, ...]:
        """Those of LD_LIBRARY_PATH, which come before the system's."""
        named = self.machine.environment.get("LD_LIBRARY_PATH", "").split(":")
        return tuple(folder.rstrip("/") for folder in named if folder)

    @property
    def led(self) -> str | None:
        """The variable by which glvnd is told where to look for ICD files, if one is set, be it to nothing."""
        return next((name for name in (VENDOR_FILES, VENDOR_DIRS) if name in self.machine.environment), None)

    @cached_property
    def not_loadable(self) -> dict[str, str]:
        """Why a library cannot be loaded: glvnd's, and those that ICD files name."""
        named = (vendor.library for vendor in self._vendor_files if vendor.library)
        return self.machine.load(list(dict.fromkeys((*FRONT_LIBRARIES, *named))))

    @cached_property
    def vendors(self) -> tuple[Vendor, ...]:
        """The ICD files that glvnd reads."""
        why = self.not_loadable
        return tuple(
            Vendor(one.path, one.library, one.trouble or (why.get(one.library, "") if one.library else ""))
            for one in self._vendor_files
        )

    @cached_property
    def _vendor_files(self) -> tuple[Vendor, ...]:
        return tuple(_vendor(self.machine, path) for path in self._vendor_paths())

    def _vendor_paths(self) -> Iterator[str]:
        named = () if self.led is None else self.machine.environment[self.led].split(":")
        if self.led == VENDOR_FILES:
            yield from filter(None, named)
            return
        for folder in VENDOR_FOLDERS if self.led is None else named:
            yield from self.machine.glob(f"{folder}/*.json") if folder else ()

    @cached_property
    def vendors_elsewhere(self) -> tuple[str, ...]:
        """ICD files of NVIDIA's that glvnd does not read."""
        found = (path for pattern in OTHER_VENDOR_FILES for path in self.machine.glob(pattern))
        read = {vendor.path for vendor in self._vendor_files}
        return tuple(p for p in found if p not in read and "nvidia" in _vendor(self.machine, p).library)

    @cached_property
    def mesa_drivers(self) -> tuple[str, ...]:
        """Mesa's drivers: one library since 24.3 (libgallium), a file each before."""
        named = (folder for folder in self.machine.environment.get("LIBGL_DRIVERS_PATH", "").split(":") if folder)
        folders = [*named, *(f"{folder}/dri" for folder in self.machine.library_folders())]
        files = (path for folder in folders for path in self.machine.glob(f"{folder}/*_dri.so"))
        return (*self.machine.libraries("libgallium-*.so"), *dict.fromkeys(files))

    # --- GPUs

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """On the PCI bus; in a container these are the whole machine's."""
        found = []
        for path in self.machine.glob("/sys/bus/pci/devices/*"):
            if (self.machine.text(f"{path}/class") or "").startswith(DISPLAY):
                maker = (self.machine.text(f"{path}/vendor") or "").strip().removeprefix("0x")
                driver = os.path.basename(os.path.realpath(self.machine.path(f"{path}/driver")))
                here = self.machine.exists(f"{path}/driver")
                found.append(Gpu(os.path.basename(path), maker, driver if here else ""))
        return tuple(found)

    @cached_property
    def render_nodes(self) -> tuple[Node, ...]:
        """/dev/dri/renderD*, by which Mesa's drivers reach a GPU."""
        return tuple(self._node(path) for path in self.machine.glob("/dev/dri/renderD*"))

    @cached_property
    def nvidia_nodes(self) -> tuple[Node, ...]:
        """/dev/nvidia0 and so on, and /dev/nvidiactl."""
        paths = self.machine.glob("/dev/nvidia[0-9]*") + self.machine.glob("/dev/nvidiactl")
        return tuple(self._node(path) for path in paths)

    def _node(self, path: str) -> Node:
        status = self.machine.path(path).stat()
        groups = (line.split(":") for line in (self.machine.text("/etc/group") or "").splitlines())
        names = {fields[2]: fields[0] for fields in groups if len(fields) > 2}
        name = names.get(str(status.st_gid), str(status.st_gid))
        may = status.st_mode & 0o060 == 0o060
        return Node(path, name, status.st_gid, may, self.machine.opening(path))

    # --- NVIDIA's driver

    @cached_property
    def nvidia_module(self) -> str | None:
        """The version of the kernel's part; None where it is not loaded."""
        text = self.machine.text("/proc/driver/nvidia/version")
        if text is None:
            return None
        found = re.search(r"Kernel Module\D*?(?:x86_64|aarch64)?\s+(\d+\.[\d.]+)", text)
        return found[1] if found else "of unknown version"

    @cached_property
    def kernel(self) -> str:
        """Its version, as modules are built for it."""
        return (self.machine.text("/proc/sys/kernel/osrelease") or "").strip()

    @property
    def nvidia_is_built(self) -> bool | None:
        """Whether there is a module of NVIDIA's for this kernel; None where that cannot be told."""
        modules = self.machine.text(f"/lib/modules/{self.kernel}/modules.dep")
        return None if modules is None else re.search(r"/nvidia[^/]*\.ko", modules) is not None

    @cached_property
    def nvidia_libraries(self) -> dict[str, tuple[str, ...]]:
        """The versions in which each of NVIDIA_GRAPHICS is there."""
        found = {}
        for stem in NVIDIA_GRAPHICS:
            paths = [str(self.machine.path(path)) for path in self.machine.libraries(f"{stem}.so.*")]
            led = (os.path.realpath(path) for path in paths)  # on Debian out of the folders that are looked through
            names = dict.fromkeys(os.path.basename(path) for path in (*paths, *led) if os.path.exists(path))
            versions = (name.removeprefix(f"{stem}.so.") for name in names if name.startswith(f"{stem}.so."))
            found[stem] = tuple(version for version in versions if "." in version)
        return found

    @property
    def nvidia_branch(self) -> str:
        """By which Ubuntu tells its packages of this driver apart: "580", or "580-server"; "" where it is not known."""
        for path in self.machine.glob("/var/lib/dpkg/info/libnvidia-compute-*.list"):
            return re.sub(r".*/libnvidia-compute-|[:.].*", "", path)
        major = (self.nvidia_module or "").partition(".")[0]
        return major if major.isdecimal() else ""

    @property
    def nvidia_runfile(self) -> bool:
        """Whether the driver came by NVIDIA's own installer, of which no package knows."""
        return self.machine.exists("/usr/bin/nvidia-uninstall")

    @property
    def nvidia_is_here(self) -> bool:
        """Whether anything speaks for a GPU of NVIDIA's that this machine, or container, is to use."""
        on_bus = any(gpu.maker == NVIDIA for gpu in self.gpus)
        return bool(self.nvidia_module or self.nvidia_nodes or (on_bus and not self.container))

    @property
    def has_gpu(self) -> bool:
        """Whether this machine, or container, has a GPU that a driver is known for."""
        known = any(gpu.maker in (AMD, INTEL) for gpu in self.gpus)
        return self.nvidia_is_here or bool(known and (self.render_nodes or not self.container))

    @property
    def capabilities(self) -> str | None:
        """What a container is given of NVIDIA's driver."""
        return self.machine.environment.get(CAPABILITIES)

    # --- devices

    @cached_property
    def probed(self) -> Probed:
        """What EGL has."""
        return self.machine.probe()


def _vendor(machine: Machine, path: str) -> Vendor:
    text = machine.text(path)
    if text is None:
        return Vendor(path, trouble="it cannot be read" if machine.exists(path) else "there is no such file")
    try:
        library = json.loads(text)["ICD"]["library_path"]
    except (ValueError, KeyError, TypeError) as error:
        wrong = f"it is no JSON ({error})" if isinstance(error, ValueError) else "it names no ICD.library_path"
        return Vendor(path, trouble=wrong)
    if not isinstance(library, str) or not library:
        return Vendor(path, trouble="it names no ICD.library_path")
    return Vendor(path, library)
