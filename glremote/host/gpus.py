"""What a machine's GPUs say of themselves beside OpenGL, where their driver tells: NVIDIA's by its library NVML.

Of others Linux shows which GPU a device file is, and AMD's driver also its memory and load, as files in /sys.

Knows: NVML's functions and structures (nvml.h), and these files. Does not know: OpenGL, sessions or workers.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

_LIBRARY = "libnvidia-ml.so.1"
_SUCCESS = 0
_INSUFFICIENT_SIZE = 7
_SYS = Path("/sys")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""A PCI address, as in "0000:3b:00.0"."""


class State(NamedTuple):
    """What a GPU has and does. What is not told is None."""

    memory: int | None = None
    """Bytes, all of them."""
    memory_free: int | None = None
    """Bytes, now."""
    load: float | None = None
    """Of its time lately, from 0 to 1."""


class Gpu(NamedTuple):
    """One of NVIDIA's, as NVML has it."""

    pci: str
    uuid: str
    name: str
    state: State = State()


class _Pci(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("kind", ctypes.c_uint),
        ("subsystem", ctypes.c_uint),
        ("text", ctypes.c_char * 32),
    )


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Utilization(ctypes.Structure):
    """nvmlUtilization_t, in percent."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Sample(ctypes.Structure):
    """nvmlProcessUtilizationSample_t: what a process did with a GPU, in percent of a time."""

    _fields_ = (
        ("process", ctypes.c_uint),
        ("at", ctypes.c_ulonglong),  # microseconds since 1970
        ("sm", ctypes.c_uint),  # the processors that run shaders
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    )


@cache
def _nvml() -> ctypes.CDLL | None:
    """The library, ready to be asked; None where it, or a GPU of its, is not there."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    return library if library.nvmlInit_v2() == _SUCCESS else None


def _devices(library: ctypes.CDLL) -> list[ctypes.c_void_p]:
    count = ctypes.c_uint()
    library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    handles = [ctypes.c_void_p() for _ in range(count.value)]
    return [
        handle
        for index, handle in enumerate(handles)
        if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == _SUCCESS
    ]


def nvidia() -> list[Gpu]:
    """All of NVIDIA's GPUs that this process may ask about, in the order of their PCI addresses.

    That is the order of nvidia-smi's numbers, and of CUDA's where CUDA_DEVICE_ORDER is PCI_BUS_ID.
    """
    if (library := _nvml()) is None:
        return []
    found = []
    for device in _devices(library):
        if (pci := _pci(library, device)) is not None:
            name, uuid = (_text(library, ask, device) for ask in ("nvmlDeviceGetName", "nvmlDeviceGetUUID"))
            found.append(Gpu(pci, uuid, name, _state(library, device)))
    return sorted(found)


def states(addresses: Iterable[str]) -> dict[str, State]:
    """How GPUs with these PCI addresses are now; without those of which nothing is told. It may take milliseconds."""
    known = {}
    if (library := _nvml()) is not None:
        known = {pci: device for device in _devices(library) if (pci := _pci(library, device)) is not None}
    found = {
        address: _state(library, known[address]) if library is not None and address in known else _shown(address)
        for address in addresses
    }
    return {address: state for address, state in found.items() if state != State()}


def address_of(file: str, sys: Path = _SYS) -> str | None:
    """The PCI address of the GPU that a device file, as /dev/dri/renderD128, is of; None where Linux shows none."""
    try:
        number = os.stat(file).st_rdev
        place = (sys / "dev" / "char" / f"{os.major(number)}:{os.minor(number)}" / "device").resolve(strict=True)
    except OSError:
        return None
    return next((part for part in reversed(place.parts) if _ADDRESS.fullmatch(part)), None)


def _shown(address: str, sys: Path = _SYS) -> State:
    """What AMD's driver shows in files; nothing for others."""
    folder = sys / "bus" / "pci" / "devices" / address

    def number(name: str) -> int | None:
        try:
            return int((folder / name).read_text())
        except (OSError, ValueError):
            return None

    total, used, busy = map(number, ("mem_info_vram_total", "mem_info_vram_used", "gpu_busy_percent"))
    free = None if total is None or used is None else total - used
    return State(total, free, None if busy is None else busy / 100)


def _pci(library: ctypes.CDLL, device: ctypes.c_void_p) -> str | None:
    pci = _Pci()
    if library.nvmlDeviceGetPciInfo_v3(device, ctypes.byref(pci)) != _SUCCESS:
        return None
    return f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"


def _text(library: ctypes.CDLL, ask: str, device: ctypes.c_void_p) -> str:
    text = ctypes.create_string_buffer(128)
    return text.value.decode(errors="replace") if getattr(library, ask)(device, text, 128) == _SUCCESS else ""


def _state(library: ctypes.CDLL, device: ctypes.c_void_p) -> State:
    memory, used = _Memory(), _Utilization()
    total, free, load = None, None, None
    if library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == _SUCCESS:
        total, free = memory.total, memory.free
    if library.nvmlDeviceGetUtilizationRates(device, ctypes.byref(used)) == _SUCCESS:
        load = used.gpu / 100
    return State(total, free, load)


def shares(since: float) -> dict[int, int]:
    """How much of a GPU's processors each process had lately, in percent; nothing where the driver does not tell.

    By process number; `since` is the time (seconds since 1970) before which samples are old. It may take milliseconds,
    and at the first call a good deal more.
    """
    if (library := _nvml()) is None:
        return {}
    found: dict[int, int] = {}
    for device in _devices(library):
        for sample in sorted(_samples(library, device, int(since * 1e6)), key=lambda sample: sample.at):
            found[sample.process] = sample.sm
    return found


def _samples(library: ctypes.CDLL, device: ctypes.c_void_p, since: int) -> list[_Sample]:
    count, last = ctypes.c_uint(0), ctypes.c_ulonglong(since)
    outcome = library.nvmlDeviceGetProcessUtilization(device, None, ctypes.byref(count), last)
    while outcome == _INSUFFICIENT_SIZE and count.value:
        samples = (_Sample * count.value)()
        outcome = library.nvmlDeviceGetProcessUtilization(device, samples, ctypes.byref(count), last)
        if outcome == _SUCCESS:
            return [sample for sample in samples[: count.value] if sample.process]
    return []
