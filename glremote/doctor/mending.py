"""The lines that mend a machine.

Knows: what is done with package tools, and how containers are given a GPU. Does not know: what is missing where, or
what packages are called (packages.py).
"""

from __future__ import annotations

import re
import shlex

from glremote.packages import AGAIN, BRANCH, HEADERS, INSTALL, NVIDIA_DRIVER, NVIDIA_LIBRARIES, PACKAGES, names, tool

from .facts import CAPABILITIES, NVIDIA_EGL, Facts

ICD_FILE = "/usr/share/glvnd/egl_vendor.d/10_nvidia.json"
ICD = '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s"}}'
SOURCES = {"/etc/apt/sources.list.d/debian.sources": "Components:", "/etc/apt/sources.list": "deb "}
"""Where Debian says which parts of it are used, and how such a line begins."""
GRAPHICS = f"{CAPABILITIES}=graphics,utility,compute"


def install(facts: Facts, what: str) -> tuple[str, ...]:
    """The lines that install it."""
    packages = names(facts.release, what, facts.nvidia_branch or BRANCH)
    if not packages:
        return (f"install what Debian calls: {PACKAGES[what]['apt-get']}",)
    known = tool(facts.release)
    there = known == "apt-get" and any(facts.has_package(name) for name in packages.split())
    line = as_root(facts, f"{AGAIN[known] if there else INSTALL[known]} {packages}")
    return (*(_sources(facts, what) if known == "apt-get" else ()), line)


def build_module(facts: Facts) -> tuple[str, ...]:
    """How NVIDIA's kernel module is built for the kernel that runs, where the driver is installed, and loaded."""
    builds = "akmods --force" if facts.release.get("ID") == "fedora" else "dkms autoinstall"
    return (*install(facts, HEADERS), as_root(facts, builds), as_root(facts, "modprobe nvidia"))


def _sources(facts: Facts, what: str) -> tuple[str, ...]:
    """What apt-get must know first: an image has no lists, and Debian leaves out the part that has NVIDIA's driver."""
    update = as_root(facts, "apt-get update")
    if facts.release.get("ID") == "debian" and what in (NVIDIA_LIBRARIES, NVIDIA_DRIVER) and not facts.has_non_free:
        for file, begin in SOURCES.items():
            if facts.machine.exists(file):
                return as_root(facts, f"sed -i '/^{begin}/s/$/ contrib non-free/' {file}"), update
    return () if facts.machine.glob("/var/lib/apt/lists/*Release") else (update,)


def install_again(facts: Facts, what: str, library: str, why: str) -> tuple[str, ...]:
    """The line that mends what is installed and broken: a library that cannot be loaded, or one that it needs."""
    if folder := next((one for one in facts.named_folders if f"{one}/" in why), None):
        others = ":".join(one for one in facts.named_folders if one != folder)
        return (f"export LD_LIBRARY_PATH={others}" if others else "unset LD_LIBRARY_PATH",)
    packages, known = names(facts.release, what), tool(facts.release)
    if not packages or known not in AGAIN:
        return install(facts, what)
    line = f"{AGAIN[known]} {packages}"
    if known == "apt-get":
        found = re.search(r"([^\s/:(]+\.so[^\s/:]*): ", why)
        if culprit := found[1] if found else library:
            line += f" $(dpkg -S {culprit} | grep -v ^diversion | cut -d: -f1)"
    return (as_root(facts, line),)


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
