"""What follows from the facts about GPUs: NVIDIA's driver, the others' devices, and who may open them.

Knows: of which parts a driver consists, and how it comes that one is not there. Does not know: how that is found out.
"""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Iterator

from glremote.packages import NVIDIA_DRIVER, NVIDIA_LIBRARIES

from . import mending
from .facts import AMD, INTEL, MAKERS, NVIDIA, NVIDIA_EGL, NVIDIA_GRAPHICS, Facts, Gpu, Node
from .finding import Finding, missing, ok, warning


def about_nvidia(facts: Facts) -> Iterator[Finding]:
    """The kernel's module, devices, graphics libraries of the same version, and the ICD file."""
    if not facts.nvidia_is_here:
        return
    if facts.nvidia_module is None:
        yield _no_module(facts)
        return
    yield ok(f"NVIDIA's kernel module {facts.nvidia_module} is loaded")
    if not any(node.path != "/dev/nvidiactl" for node in facts.nvidia_nodes) or not _has_control(facts):
        yield _no_nodes(facts)
        if facts.container:
            return  # its libraries come with the devices
    yield from _nvidia_libraries(facts)


def _has_control(facts: Facts) -> bool:
    return any(node.path == "/dev/nvidiactl" for node in facts.nvidia_nodes)


def _no_module(facts: Facts) -> Finding:
    if facts.container:
        text = "this container has NVIDIA's devices, and the machine's kernel module for them is not loaded"
        return missing(text, "sudo modprobe nvidia  # on the machine itself")
    gpu = next((gpu for gpu in facts.gpus if gpu.maker == NVIDIA), None)
    where = f" at {gpu.address}" if gpu else ""
    if gpu and gpu.driver == "nouveau":
        text = f"the GPU of NVIDIA's{where} is Mesa's (nouveau's), which is slow and may do without OpenGL 4.3"
        return warning(text, *mending.install(facts, NVIDIA_DRIVER), mending.as_root(facts, "reboot"))
    if any(facts.nvidia_libraries.values()):
        if facts.nvidia_is_built is False:
            text = f"NVIDIA's driver is installed, and its kernel module was not built for this kernel ({facts.kernel})"
            return missing(text, *mending.build_module(facts))
        text = f"NVIDIA's driver is installed, and its kernel module is not loaded for the GPU{where}"
        return missing(text, mending.as_root(facts, "modprobe nvidia"))
    text = f"there is a GPU of NVIDIA's{where}, and NVIDIA's driver is not installed"
    return missing(text, *mending.install(facts, NVIDIA_DRIVER), mending.as_root(facts, "reboot"))


def _no_nodes(facts: Facts) -> Finding:
    if facts.container:
        text = "the machine has NVIDIA's driver, and this container was given no GPU (/dev/nvidia0, /dev/nvidiactl)"
        return missing(text, *mending.give_gpu(facts))
    text = "NVIDIA's device files are not there (/dev/nvidia0, /dev/nvidiactl); a worker cannot make them"
    return missing(text, mending.as_root(facts, "nvidia-modprobe -c 0"))


def _nvidia_libraries(facts: Facts) -> Iterator[Finding]:
    """OpenGL's part of the driver, which a machine or container for CUDA lacks."""
    absent = [stem for stem in NVIDIA_GRAPHICS if not facts.nvidia_libraries[stem]]
    if absent:
        yield _no_graphics(facts, absent)
        return
    module = facts.nvidia_module or ""
    wrong = {stem: found for stem, found in facts.nvidia_libraries.items() if module not in found}
    if wrong and module[:1].isdecimal():
        yield _other_version(facts, next(iter(wrong.items())))
        return
    yield ok(f"its libraries for OpenGL are there, of the same version: {', '.join(NVIDIA_GRAPHICS)}")
    if any("nvidia" in vendor.path + vendor.library for vendor in facts.vendors):
        return  # and what is wrong with it is told there
    text = f"no ICD file that is read names NVIDIA's EGL library ({NVIDIA_EGL}), so it is not found"
    if facts.led is not None:
        yield missing(text, f"unset {facts.led}")
    elif facts.vendors_elsewhere:
        found = facts.vendors_elsewhere[0]
        read = [vendor.path for vendor in facts.vendors]
        line = f"export __EGL_VENDOR_LIBRARY_FILENAMES={':'.join([found, *read])}"
        yield missing(f"{text}; there is one at {found}", line)
    else:
        yield missing(text, *mending.write_icd(facts))


def _no_graphics(facts: Facts, absent: list[str]) -> Finding:
    names = ", ".join(absent)
    if facts.container:
        given = facts.capabilities
        has = f"NVIDIA_DRIVER_CAPABILITIES is {given}" if given else "NVIDIA_DRIVER_CAPABILITIES is not set"
        if {"all", "graphics"} & set((given or "").split(",")):
            text = f"{names} are not there, though {has}: the driver of the machine itself has no part that draws"
            return missing(text, "glremote doctor  # on the machine itself, which says what is to be installed there")
        text = f"this container has NVIDIA's driver for compute alone: {names} are not there, and {has}"
        return missing(text, *mending.give_gpu(facts))
    text = f"NVIDIA's driver is here without its libraries for OpenGL ({names}), as it is installed for CUDA alone"
    if facts.nvidia_runfile:
        line = f"sh NVIDIA-Linux-{platform.machine()}-{facts.nvidia_module}.run --no-kernel-modules"
        return missing(text, f"{mending.as_root(facts, line)}  # without --no-opengl-files")
    return missing(text, *mending.install(facts, NVIDIA_LIBRARIES))


def _other_version(facts: Facts, wrong: tuple[str, tuple[str, ...]]) -> Finding:
    stem, versions = wrong
    text = f"{stem} is of version {', '.join(versions)}, and the kernel module of {facts.nvidia_module}"
    if facts.container:
        note = ": the toolkit brings the machine's, so the image's own must go"
        return missing(text + note, "apt-get purge -y 'libnvidia-*' 'libegl-nvidia*'  # in the image")
    note = ": they must agree, and after an upgrade the old module runs until it is loaded anew"
    return missing(text + note, mending.as_root(facts, "reboot"))


# --- the others


def about_others(facts: Facts) -> Iterator[Finding]:
    """GPUs that Mesa drives, by /dev/dri."""
    ours = [gpu for gpu in facts.gpus if gpu.maker in (AMD, INTEL)]
    if ours and not facts.render_nodes:
        yield _no_render_nodes(facts, ours[0])
    elif not (facts.gpus or facts.render_nodes or facts.nvidia_is_here):
        yield warning(f"there is no GPU in this {'container' if facts.container else 'machine'}", *_how_given(facts))
    elif facts.container and not (facts.render_nodes or facts.nvidia_is_here):
        makers = ", ".join(sorted({MAKERS.get(gpu.maker, gpu.maker) for gpu in facts.gpus}))
        yield warning(f"the machine has a GPU ({makers}), and this container was not given it", *_how_given(facts))


def _how_given(facts: Facts) -> tuple[str, ...]:
    return mending.give_gpu(facts) if facts.container else ()


def _no_render_nodes(facts: Facts, gpu: Gpu) -> Finding:
    maker = MAKERS[gpu.maker]
    if facts.container:
        text = f"the machine has a GPU of {maker}'s, and this container was not given it (/dev/dri)"
        return warning(text, mending.give_render_nodes(facts))
    text = f"there is a GPU of {maker}'s at {gpu.address}, and no device for it (/dev/dri/renderD128)"
    return missing(text, mending.as_root(facts, f"modprobe {gpu.driver or ('amdgpu' if gpu.maker == AMD else 'i915')}"))


# --- who may open them


def about_nodes(facts: Facts) -> Iterator[Finding]:
    """Device files, and whether this user may open them."""
    nodes = (*facts.render_nodes, *facts.nvidia_nodes)
    good = [node.path for node in nodes if not node.error]
    if good:
        yield ok(f"{facts.machine.user.name} may open {', '.join(good)}")
    for node in nodes:
        if node.error:
            why = os.strerror(node.error)
            yield missing(f"{facts.machine.user.name} may not open {node.path}: {why}", *_how_opened(facts, node))


def _how_opened(facts: Facts, node: Node) -> tuple[str, ...]:
    if node.error == errno.EPERM and facts.container:  # the container's cgroup forbids it
        nvidia = "nvidia" in node.path
        return mending.give_gpu(facts) if nvidia else (mending.give_render_nodes(facts, node.number),)
    if node.error in (errno.ENXIO, errno.ENODEV):
        line = mending.as_root(facts, "modprobe nvidia" if "nvidia" in node.path else "modprobe amdgpu")
        return (f"{line}  # on the machine itself" if facts.container else line,)
    if node.group_may and node.number and (facts.container or not node.group.isdecimal()):
        if facts.container:
            return (mending.give_render_nodes(facts, node.number),)
        again = f"sudo -iu {facts.machine.user.name}  # anew, since groups are taken at login; or restart the service"
        return mending.as_root(facts, f"usermod -aG {node.group} {facts.machine.user.name}"), again
    return (mending.as_root(facts, f"chmod a+rw {node.path}"),)
