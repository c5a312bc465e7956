"""What follows from the facts of a machine: whether it can render, on what, and what to do where it cannot.

Knows: which fact about libraries, EGL's devices and a host's needs means what; GPUs are gpus.py's. Does not know: how a
fact is found out, or how a finding is shown.
"""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
import sys
from collections.abc import Iterator

from glremote.packages import GLVND, MESA, NVIDIA_LIBRARIES
from glremote.protocol.devices import Device
from glremote.version import VERSION

from . import mending
from .facts import FRONT_LIBRARIES, Facts, Vendor
from .finding import Finding, Section, missing, ok, warning, well
from .gpus import about_nodes, about_nvidia, about_others
from .machine import Machine

DESCRIPTORS_OF_A_SESSION = 8
"""Five, and some for what a gateway has beside."""
DESCRIPTORS_OF_A_HOST = 320
"""Without sessions: its warm workers, and a crowd at its door."""
ENOUGH = 4096
SESSIONS = 16
"""That `glremote serve` takes unless told otherwise."""
IN_SOFTWARE = "everything is drawn in software"
AGAIN = ("once more", "nothing draws on it but")
"""host/probing.py says so of a device that EGL lists twice, and of one that has no driver in EGL."""


def examine(machine: Machine) -> list[Section]:
    """Everything about a machine that is to render."""
    facts = Facts(machine)
    sections = [Section("Versions", (about_versions(),))]
    if machine.platform != "linux":
        text = f"a host needs Linux, and this is {machine.platform}"
        return [*sections, Section("OpenGL", (missing(text),))]
    sections += [
        Section("OpenGL's libraries", (*about_libraries(facts), *about_vendors(facts), *about_mesa(facts))),
        Section("GPUs", (*about_nvidia(facts), *about_others(facts), *about_nodes(facts))),
    ]
    return [
        *sections,
        Section("What EGL draws with", tuple(about_devices(facts, explained=not well(sections)))),
        Section("What a host has here", tuple(about_hosting(facts))),
    ]


def verdict(sections: list[Section]) -> list[str]:
    """What it comes to, in words."""
    client = "As a client this machine is fine: to render on a host, a program here needs no OpenGL, driver or GPU."
    software = any(IN_SOFTWARE in finding.text for section in sections for finding in section.findings)
    if not well(sections):
        host = "As a host it is not: what is missing is above, each with the line that mends it."
        return [host + (" Until then it renders in software." if software else ""), client]
    return ["As a host it works, in software." if software else "As a host it is fine.", client]


def about_versions() -> Finding:
    """What is installed here."""
    names = ("moderngl", "glcontext", "websockets")
    found = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    return ok(f"glremote {VERSION}, {found}, Python {platform.python_version()}")


# --- libraries


def about_libraries(facts: Facts) -> Iterator[Finding]:
    """What moderngl opens."""
    lacks = [name for name in FRONT_LIBRARIES if name in facts.not_loadable]
    absent = [name for name in lacks if not facts.machine.libraries(name)]
    for name in lacks:
        if name not in absent:
            why = facts.not_loadable[name]
            yield missing(f"{name} cannot be loaded: {why}", *mending.install_again(facts, GLVND, name, why))
    if absent:
        do = "is not installed: it finds" if len(absent) == 1 else "are not installed: they find"
        yield missing(f"{' and '.join(absent)} {do} the driver's libraries (glvnd)", *mending.install(facts, GLVND))
    if not lacks:
        yield ok(f"{' and '.join(FRONT_LIBRARIES)} can be loaded")


def about_vendors(facts: Facts) -> Iterator[Finding]:
    """ICD files, and the libraries that they name."""
    led = facts.led
    useless = all(vendor.trouble for vendor in facts.vendors)
    if led is not None:
        state = missing if useless else warning
        nowhere = ", and there is none that can be used" if useless else ""
        text = f"{led} is {facts.machine.environment[led] or 'empty'}: drivers are looked for nowhere else{nowhere}"
        yield state(text, f"unset {led}")
    for vendor in facts.vendors:
        if vendor.trouble:
            yield _broken(facts, vendor, mends=led is None)
        else:
            yield ok(f"{vendor.path}: {vendor.library}, which can be loaded")
    if led is None and not facts.vendors and not facts.nvidia_is_here:  # else it is told with that driver
        text = "no ICD file names a driver's EGL library, so there is no driver at all; this is Mesa's, which has one"
        yield missing(f"{text} in software too", *mending.install(facts, MESA))


def _broken(facts: Facts, vendor: Vendor, mends: bool) -> Finding:
    """An ICD file that leads nowhere; it is passed over, so it harms only whoever needs that driver."""
    text = vendor.trouble
    if vendor.library:
        text = f"it names {vendor.library}, which cannot be loaded ({vendor.trouble})"
    is_nvidia = "nvidia" in vendor.path + vendor.library
    needed = facts.nvidia_is_here if is_nvidia else all(one.trouble for one in facts.vendors)
    if not needed or not mends:
        return warning(f"{vendor.path}: {text}; it is passed over")
    what = NVIDIA_LIBRARIES if is_nvidia else MESA
    mend = mending.install_again(facts, what, vendor.library, vendor.trouble)
    if is_nvidia and not vendor.library:
        mend = mending.write_icd(facts, vendor.path)
    elif is_nvidia and facts.container:
        mend = mending.give_gpu(facts)
    return missing(f"{vendor.path}: {text}", *mend)


def about_mesa(facts: Facts) -> Iterator[Finding]:
    """Its drivers, which its EGL library finds by itself."""
    if not any("mesa" in vendor.library and not vendor.trouble for vendor in facts.vendors):
        return
    if not (drivers := facts.mesa_drivers):
        text = "Mesa's EGL library is there, and not one of its drivers (DRI)"
        yield missing(text, *mending.install_again(facts, MESA, "", ""))
        return
    others = f" and {len(drivers) - 1} more" if len(drivers) > 1 else ""
    yield ok(f"Mesa's drivers are there: {drivers[0]}{others}")


# --- what comes of it


def about_devices(facts: Facts, explained: bool) -> Iterator[Finding]:
    """Which EGL device is which GPU, by having a context made on each; `explained`: something is missing above."""
    devices, others, why = facts.probed
    for device in devices:
        yield ok(f"EGL's device {device.index} is {named(device)}, with OpenGL {dotted(device.version)}")
    for index, renderer, reason in others:
        what = f" ({renderer})" if renderer else ""
        again = any(words in reason for words in AGAIN)
        yield (ok if again else warning)(f"EGL's device {index}{what} is not used: {reason}")
    aside = tuple(f"unset {name}  # it is {facts.machine.environment[name]}" for name in facts.misleading)
    if not devices:
        told = why or "on none of EGL's devices can a context be made" if others else why or "EGL lists no device"
        yield missing(f"nothing can be drawn here: {told}", *aside)
    elif all(device.software for device in devices):
        drawn = f"{IN_SOFTWARE}, by {devices[0].renderer}"
        if not facts.has_gpu:
            yield warning(f"{drawn}, since no GPU is here; the pictures are right, and slow")
        elif explained:
            yield warning(f"{drawn}, for want of what is missing above; the pictures are right, and slow")
        elif aside and not facts.nvidia_is_here:  # whose driver does not read them
            yield missing(f"{drawn}, though a GPU is here; variables have Mesa do so", *aside)
        else:
            line = mending.as_root(facts, "dmesg | grep -iE 'nvrm|xid|amdgpu|i915|drm'  # what the kernel says of it")
            yield missing(f"{drawn}, though a GPU is here, and nothing of its driver is seen to be missing", line)


def named(device: Device) -> str:
    """A device, by all that is known of it."""
    if device.software:
        return f"{device.renderer}, a software renderer"
    number = "" if device.number is None else f"GPU {device.number}, "
    known = [text for text in (device.uuid, device.pci) if text]
    memory = "" if device.memory is None else f", {device.memory / (1 << 30):.0f} GiB"
    return f"{number}{device.name}{memory}" + (f" ({', '.join(known)})" if known else "")


def dotted(version: int) -> str:
    """OpenGL's version, as people write it."""
    return f"{version // 100}.{version % 100 // 10}"


def about_hosting(facts: Facts) -> Iterator[Finding]:
    """Walls, memory and descriptors, as a host has them that is started here as this user."""
    lacks, memory = facts.machine.walls()
    if lacks:
        yield from (warning(line) for line in lacks)
    else:
        yield ok("a worker has its walls: Landlock and seccomp")
    if "no cgroup bounds it" in memory:
        divided = "glremote serve --print-unit  # a service of systemd's may divide its cgroup"
        yield warning(memory, *(() if facts.container else (divided,)))
    else:
        yield ok(memory)
    soft, hard = facts.machine.descriptors()
    most = max(0, soft - DESCRIPTORS_OF_A_HOST) // DESCRIPTORS_OF_A_SESSION
    if most < SESSIONS:
        line = f"ulimit -n {min(ENOUGH, hard)}" if hard > soft else "LimitNOFILE=65536  # in the service's unit"
        yield warning(f"{soft} descriptors are few for a host: for some {most} sessions at a time", line)
    else:
        yield ok(f"{soft} descriptors: for some {most} sessions at a time")
    if facts.machine.user.number == 0 and not facts.container:
        yield warning(
            "root asks, who may open every device; a host had better be another user's, so ask as that one too",
            f"sudo -u USER {shlex.quote(sys.executable)} -m glremote doctor",
        )
