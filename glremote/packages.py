"""In which packages a driver comes: the one place that knows their names, of several distributions.

Knows: /etc/os-release and package tools. Does not know: what is missing on a machine, or why.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

GLVND, MESA, NVIDIA_LIBRARIES, NVIDIA_DRIVER = "glvnd", "mesa", "nvidia's graphics libraries", "nvidia's driver"
HEADERS = "the kernel's headers"
INSTALL = {
    "apt-get": "apt-get install -y", "dnf": "dnf install -y", "pacman": "pacman -S --noconfirm",
    "zypper": "zypper install -y", "apk": "apk add",
}  # fmt: skip
AGAIN = {"apt-get": "apt-get install --reinstall -y", "dnf": "dnf reinstall -y", "zypper": "zypper install -y --force"}
TOOLS = {
    "debian": "apt-get", "ubuntu": "apt-get", "fedora": "dnf", "rhel": "dnf", "centos": "dnf", "amzn": "dnf",
    "arch": "pacman", "suse": "zypper", "opensuse": "zypper", "alpine": "apk",
}  # fmt: skip
"""By ID or ID_LIKE in /etc/os-release."""
PACKAGES = {
    GLVND: {
        "apt-get": "libegl1 libgl1", "dnf": "libglvnd-egl libglvnd-glx", "pacman": "libglvnd", "zypper": "libglvnd",
        "apk": "mesa-egl mesa-gl",
    },
    MESA: {
        "apt-get": "libegl-mesa0 libgl1-mesa-dri", "dnf": "mesa-libEGL mesa-dri-drivers", "pacman": "mesa",
        "zypper": "Mesa-libEGL1 Mesa-dri", "apk": "mesa-egl mesa-dri-gallium",
    },
    NVIDIA_LIBRARIES: {
        "apt-get": "nvidia-egl-icd", "dnf": "nvidia-driver-libs", "pacman": "nvidia-utils", "zypper": "nvidia-gl-G06",
    },
    NVIDIA_DRIVER: {
        "apt-get": "linux-headers-$(dpkg --print-architecture) nvidia-driver nvidia-egl-icd",
        "dnf": "nvidia-driver nvidia-driver-libs", "pacman": "nvidia nvidia-utils",
        "zypper": "nvidia-driver-G06-kmp-default nvidia-gl-G06",
    },
    HEADERS: {
        "apt-get": "linux-headers-$(uname -r)", "dnf": "kernel-devel-$(uname -r)", "pacman": "linux-headers",
        "zypper": "kernel-default-devel",
    },
}  # fmt: skip
BRANCH = "580"
"""Of NVIDIA's driver, where none is there yet."""


def release(text: str) -> dict[str, str]:
    """What /etc/os-release says."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def tool(system: Mapping[str, str]) -> str:
    """That installs packages there; "" where it is not known."""
    names = [system.get("ID", ""), *system.get("ID_LIKE", "").split()]
    return next((TOOLS[name] for name in names if name in TOOLS), "")


def names(system: Mapping[str, str], what: str, branch: str = BRANCH) -> str:
    """The packages; on Ubuntu NVIDIA's have the driver's branch in their names. "" where they are not known."""
    special: dict[str, str] = {}
    if system.get("ID") == "ubuntu":
        special = {NVIDIA_LIBRARIES: f"libnvidia-gl-{branch}", NVIDIA_DRIVER: f"nvidia-driver-{branch}"}
    elif system.get("ID") == "fedora":  # its users have this driver from RPM Fusion
        special = {NVIDIA_LIBRARIES: "xorg-x11-drv-nvidia-libs", NVIDIA_DRIVER: "akmod-nvidia"}
    return special.get(what) or PACKAGES[what].get(tool(system), "")


def advice() -> str:
    """What to do on this machine where it has no driver at all: to be read behind "or"."""
    if sys.platform != "linux":
        return "call moderngl.create_context itself, since there is no EGL on this system"
    try:
        system = release(Path("/etc/os-release").read_text("utf-8", "replace"))
    except OSError:
        system = {}
    known = tool(system) or "apt-get"
    packages = " ".join(dict.fromkeys(f"{PACKAGES[GLVND][known]} {PACKAGES[MESA][known]}".split()))
    if not tool(system):
        return f"install a driver, which on Debian is in {packages}"
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"install a driver with `{sudo}{INSTALL[known]} {packages}`; `glremote doctor` says what is missing"
