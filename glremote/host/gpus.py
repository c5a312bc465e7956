"""What a machine's GPUs say of themselves beside OpenGL, where their driver tells: NVIDIA's, by its library NVML.

Knows: NVML's functions and structures (nvml.h). Does not know: OpenGL, sessions or workers.
"""

from __future__ import annotations

import ctypes
from functools import cache

_LIBRARY = "libnvidia-ml.so.1"
_SUCCESS = 0
_INSUFFICIENT_SIZE = 7


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
