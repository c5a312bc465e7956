"""The lines that mend a machine: which package has what, under the names of several distributions.

Knows: package tools, and how containers are given a GPU. Does not know: what is missing where.
"""

from __future__ import annotations

import shlex

from .facts import CAPABILITIES, NVIDIA_EGL, Facts

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
        "dnf": "nvidia-driver nvidia-driver-libs",
        "pacman": "nvidia nvidia-utils", "zypper": "nvidia-driver-G06-kmp-default nvidia-gl-G06",
    },
    HEADERS: {
        "apt-get": "linux-headers-$(uname -r)", "dnf": "kernel-devel-$(uname -r)", "pacman": "linux-headers",
        "zypper": "kernel-default-devel",
    },
}  # fmt: skip
SECTIONS = "contrib, non-free and non-free-firmware"
"""Of Debian, in which NVIDIA's driver and what it needs are."""
ICD_FILE = "/usr/share/glvnd/egl_vendor.d/10_nvidia.json"
ICD = '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s"}}'
GRAPHICS = f"{CAPABILITIES}=graphics,utility,compute"


def install(facts: Facts, what: str, again: bool = False) -> str:
    """The line that installs it; `again`: where it is installed, and broken."""
    tool = _tool(facts)
    packages = PACKAGES[what].get(tool, "")
    if facts.release.get("ID") == "ubuntu":
        packages = _on_ubuntu(facts, what) or packages
    if facts.release.get("ID") == "fedora":  # its users have this driver from RPM Fusion
        packages = {NVIDIA_LIBRARIES: "xorg-x11-drv-nvidia-libs", NVIDIA_DRIVER: "akmod-nvidia"}.get(what, packages)
    if not packages:
        return f"install what Debian calls: {PACKAGES[what]['apt-get']}"
    line = AGAIN.get(tool, INSTALL[tool]) if again else INSTALL[tool]
    line = as_root(facts, f"{line} {packages}")
    from_elsewhere = what in (NVIDIA_LIBRARIES, NVIDIA_DRIVER) and facts.release.get("ID") == "debian"
    return f"{line}  # apt's sources must have {SECTIONS}" if from_elsewhere else line


def build_module(facts: Facts) -> tuple[str, ...]:
    """How NVIDIA's kernel module is built for the kernel that runs, where the driver is installed, and loaded."""
    builds = "akmods --force" if facts.release.get("ID") == "fedora" else "dkms autoinstall"
    return install(facts, HEADERS), as_root(facts, builds), as_root(facts, "modprobe nvidia")


def _tool(facts: Facts) -> str:
    names = [facts.release.get("ID", ""), *facts.release.get("ID_LIKE", "").split()]
    return next((TOOLS[name] for name in names if name in TOOLS), "")


def _on_ubuntu(facts: Facts, what: str) -> str:
    """There the packages have the driver's version in their names."""
    branch = (facts.nvidia_module or "").partition(".")[0]
    if not branch.isdecimal():
        branch = "580"
    return {NVIDIA_LIBRARIES: f"libnvidia-gl-{branch}", NVIDIA_DRIVER: f"nvidia-driver-{branch}"}.get(what, "")


def as_root(facts: Facts, line: str) -> str:
    """For whoever is not root already."""
    return line if facts.machine.user.number == 0 else f"sudo {line}"


def give_gpu(facts: Facts) -> tuple[str, ...]:
    """How a container is given NVIDIA's GPUs, with what draws."""
    if facts.container == "kubernetes":
        return (
            "resources: {limits: {nvidia.com/gpu: 1}}  # of the container: samples/deploy/kubernetes.yaml",
            f'env: [{{name: {CAPABILITIES}, value: "graphics,utility,compute"}}]',
        )
    if facts.container == "podman":
        return (f"podman run --device nvidia.com/gpu=all -e {GRAPHICS} ...",)
    return (f"docker run --gpus all -e {GRAPHICS} ...",)


def give_render_nodes(facts: Facts, group: int | None = None) -> str:
    """How a container is given a GPU that Mesa drives."""
    command = "podman" if facts.container == "podman" else "docker"
    return f"{command} run --device /dev/dri " + (f"--group-add {group} ..." if group is not None else "...")


def write_icd(facts: Facts, path: str = ICD_FILE) -> tuple[str, ...]:
    """How NVIDIA's ICD file is written, where no package has brought it."""
    inner = f"mkdir -p {path.rpartition('/')[0]} && echo '{ICD % NVIDIA_EGL}' > {path}"
    return (inner if facts.machine.user.number == 0 else f"sudo sh -c {shlex.quote(inner)}",)
