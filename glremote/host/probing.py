"""Which devices this machine can render with: each is tried, in processes of their own that may crash or hang.

`python -m glremote.host.probing` tells it as JSON, and `Probe` runs that. Knows: what EGL, OpenGL and gpus.py tell of a
device, and which of EGL's devices are one GPU. Does not know: what is done with them.

The process that is started loads no driver; its children do, one for each device, so that a driver that dies takes
nothing along but what is known of its own device. EGL may list a GPU twice: NVIDIA's driver lists its GPUs, and Mesa's
all that have a file in /dev/dri, whether it can draw on them or not. A software renderer may be listed too, among them
or by itself.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from glremote.protocol.devices import Device
from glremote.protocol.reflection import is_software

from . import gpus
from .gpus import Gpu, State

VERSIONS = (460, 450, 440, 430, 420, 410, 400, 330)
"""Of OpenGL, newest first: which one a driver gives depends on which was asked for."""
PATIENCE = 20.0
"""Seconds that a device may take to be tried."""
QUIET = {
    "MESA_SHADER_CACHE_DISABLE": "true", "__GL_SHADER_DISK_CACHE": "0",  # nothing is to be kept of this
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": None,  # EGL's numbers of CUDA's are to be all of them
}  # fmt: skip
"""Variables of the environment in which devices are tried; None: without it."""
SAME = "it is EGL device {} once more"
UNDRAWN = "nothing draws on it but the software renderer (EGL device {})"


@dataclass(frozen=True, kw_only=True)
class Probed:
    """One of EGL's devices, and what it told."""

    index: int
    """In EGL's order: moderngl's `device_index`."""
    renderer: str = ""
    vendor: str = ""
    version: int = 0
    """The newest OpenGL that it gives, as 460; 0: no context can be made on it."""
    extensions: tuple[str, ...] = ()
    """OpenGL's."""
    egl_extensions: tuple[str, ...] = ()
    """EGL's for the device."""
    file: str | None = None
    """In /dev/dri."""
    pci: str | None = None
    uuid: str | None = None
    """32 hexadecimal digits with dashes."""
    cuda: int | None = None
    """CUDA's number, as EGL tells it."""
    why: str = ""
    """Why it is not served."""

    @property
    def software(self) -> bool:
        """Whether it draws without a GPU, as far as is known."""
        return is_software(self.renderer) or "EGL_MESA_device_software" in self.egl_extensions


class Found(NamedTuple):
    """What a machine has."""

    devices: tuple[Device, ...] = ()
    """Those that contexts can be made on, GPUs first, by their numbers."""
    others: tuple[Probed, ...] = ()
    """Those that are not served, and why."""
    why: str = ""
    """Why there are none at all, where EGL lists none."""
    tried: bool = True
    """Whether EGL could be asked; if not, nothing is known."""


# --- whoever asks


class Probe:
    """A probe of this machine, which takes about as long as making a context."""

    def __init__(self) -> None:
        from .serving import environment  # which a child of ours has no use for

        variables = {name: text for name, text in (environment() | QUIET).items() if text is not None}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "glremote.host.probing"], env=variables, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def found(self) -> Found:
        """Wait for what it found."""
        try:
            told, _ = self._process.communicate(timeout=2 * PATIENCE + 5)
        except subprocess.TimeoutExpired:
            self.close()
            return Found(why="EGL's devices could not be tried in time", tried=False)
        if not told:
            return Found(why=f"EGL's devices could not be tried: {how(self._process.wait())}", tried=False)
        return read(told)

    def close(self) -> None:
        """End it and its children, if it has not ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def read(told: bytes) -> Found:
    """What was found, from what the process told."""
    facts = json.loads(told)
    known = [Gpu(pci, uuid, name, State(*state)) for pci, uuid, name, state in facts["gpus"]]
    return sort_out([_probed(one) for one in facts["devices"]], known, facts["why"])


def sort_out(probed: Sequence[Probed], known: Sequence[Gpu], why: str = "") -> Found:
    """Each GPU once, with the number that people know; of software renderers one; and why the others are left out."""
    named = [_named(one, known) for one in probed]
    taken: dict[str, Probed] = {}
    others = []
    for one in sorted(named, key=_preference):
        if one.why:
            others.append(one)
        elif (same := taken.setdefault(_identity(one), one)) is not one:
            why_not = UNDRAWN if one.software and one.pci else SAME
            others.append(dataclasses.replace(one, why=why_not.format(same.index)))
    numbers = _numbers([one for one in taken.values() if not one.software], known)
    devices = [_device(one, numbers.get(one.index), known) for one in taken.values()]
    devices.sort(key=lambda device: (device.software, device.number or 0))
    return Found(tuple(devices), tuple(sorted(others, key=lambda one: one.index)), "" if probed else why)


def _named(one: Probed, known: Sequence[Gpu]) -> Probed:
    """With both its UUID and its PCI address, where one of them, or CUDA's number, tells the other."""
    for place, gpu in enumerate(known):
        matches = [
            one.pci is not None and one.pci == gpu.pci,
            one.uuid is not None and f"GPU-{one.uuid}" == gpu.uuid,
            one.pci is None and one.uuid is None and one.cuda == place,
        ]
        if any(matches):
            return dataclasses.replace(one, pci=gpu.pci, uuid=gpu.uuid.removeprefix("GPU-"))
    return one


def _preference(one: Probed) -> tuple[Any, ...]:
    """Of two that are one device that is served whose own driver lists it, and the first."""
    return one.software, one.cuda is None, one.software and one.file is not None, one.index


def _identity(one: Probed) -> str:
    if one.software:
        return "software"
    return one.pci or one.uuid or f"EGL device {one.index}"


def _numbers(shown: Sequence[Probed], known: Sequence[Gpu]) -> dict[int, int]:
    """By EGL's index: NVIDIA's number of it, else the next that is free, by PCI address."""
    of_nvidia = {gpu.pci: place for place, gpu in enumerate(known)}
    found = {one.index: of_nvidia[one.pci] for one in shown if one.pci in of_nvidia}
    for one in shown:
        if one.index not in found and one.cuda is not None and one.cuda not in found.values():
            found[one.index] = one.cuda
    number = 0
    for one in sorted(shown, key=lambda one: (one.pci is None, one.pci or "", one.index)):
        if one.index not in found:
            while number in found.values() or number < len(known):
                number += 1
            found[one.index] = number
    return found


def _device(one: Probed, number: int | None, known: Sequence[Gpu]) -> Device:
    gpu = next((gpu for gpu in known if one.pci == gpu.pci and not one.software), Gpu("", "", ""))
    of_nvidia = one.uuid is not None and (gpu.uuid != "" or "nvidia" in one.vendor.lower())
    return Device(
        name=gpu.name or one.renderer, renderer=one.renderer, version=one.version, extensions=one.extensions,
        number=number, uuid=f"GPU-{one.uuid}" if of_nvidia and not one.software else None,
        pci=None if one.software else one.pci, memory=gpu.state.memory, memory_free=gpu.state.memory_free,
        load=gpu.state.load, software=one.software, index=one.index,
    )  # fmt: skip


def _probed(fields: dict[str, Any]) -> Probed:
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    return Probed(**given)


def selected(found: Found, wanted: str) -> tuple[Device, ...]:
    """The devices that `serve --devices` names. Raises LookupError, whose text says which there are.

    "all" is every GPU, or the software renderer where there is none; nothing where EGL lists none.
    """
    if not found.devices and found.others:
        reasons = "; ".join(f"EGL device {one.index}: {one.why}" for one in found.others)
        raise LookupError(f"no context can be made on any of EGL's devices ({reasons})")
    if wanted.strip().lower() == "all":
        return tuple(device for device in found.devices if not device.software) or found.devices[:1]
    chosen = set()
    for name in wanted.split(","):
        fitting = [device.index for device in found.devices if device.answers_to(name)]
        if not fitting:
            there_are = "; ".join(device.described() for device in found.devices) or found.why
            raise LookupError(f"there is no device {name.strip()!r} here: {there_are}")
        chosen.update(fitting)
    return tuple(device for device in found.devices if device.index in chosen)


# --- the process that tries


def list_devices() -> list[dict[str, Any]]:
    """What EGL lists."""
    from . import egl

    return [
        {
            "index": one.index, "egl_extensions": one.extensions, "file": one.file, "cuda": one.cuda, "uuid": one.uuid,
            "pci": gpus.address_of(one.file) if one.file else None,
        }
        for one in egl.devices()
    ]  # fmt: skip


def try_device(index: int) -> dict[str, Any]:
    """What a context on a device tells. Raises what moderngl does where none can be made."""
    import uuid

    from . import egl
    from .gl import OpenGL

    for require in VERSIONS:
        try:
            context, version = egl.make_context(require, index)
            break
        except Exception:
            if require == VERSIONS[-1]:
                raise
    info, extensions = context.info, sorted(context.extensions)
    told = {"renderer": info["GL_RENDERER"], "vendor": info["GL_VENDOR"], "version": version, "extensions": extensions}
    if "GL_EXT_memory_object" in extensions and (unique := OpenGL(context).device_uuid()) is not None:
        told["uuid"] = str(uuid.UUID(bytes=unique))
    return told


class Child:
    """A process that calls one function, whose result it tells as JSON."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.pipe, theirs = os.pipe()
        self._told = b""
        self._deadline = time.monotonic() + PATIENCE
        self._pid = os.fork()
        if not self._pid:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # drivers may say what they like, but not there
            try:
                told = {"result": function(*arguments)}
            except Exception as error:
                told = {"error": str(error) or type(error).__name__}
            _write(theirs, json.dumps(told).encode())
            os._exit(0)  # without what a driver would do at exit
        os.close(theirs)

    def wait(self) -> tuple[Any, str]:
        """The result, and why there is none."""
        while select.select([self.pipe], [], [], max(0.0, self._deadline - time.monotonic()))[0]:
            data = os.read(self.pipe, 1 << 16)
            if not data:
                break
            self._told += data
        else:
            os.kill(self._pid, signal.SIGKILL)  # one that is stuck in its driver stays as long as that likes
            return None, f"its driver was not ready within {PATIENCE:g} s"
        _, status = os.waitpid(self._pid, 0)
        if status:  # whatever it has told until then
            return None, f"its driver ended the process: {how(os.waitstatus_to_exitcode(status))}"
        told = json.loads(self._told)
        return told.get("result"), told.get("error", "")


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def how(status: int) -> str:
    """How a process ended, in a word."""
    names = {number.value: number.name for number in signal.Signals}
    return names.get(-status, f"signal {-status}") if status < 0 else f"status {status}"


def main() -> None:
    """Tell everything."""
    import moderngl  # noqa: F401 # once, for all children

    known, listed = Child(gpus.nvidia), Child(list_devices)
    devices, why = listed.wait()
    tries = [(one, Child(try_device, one["index"])) for one in devices or ()]
    for one, child in tries:
        told, failed = child.wait()
        one |= {"why": failed} if told is None else told
    found, _ = known.wait()
    print(json.dumps({"devices": devices or [], "gpus": found or [], "why": why}))


if __name__ == "__main__":
    main()
