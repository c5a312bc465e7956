"""EGL: which devices it lists, and contexts on them. Beside gl.py this is the one door to raw EGL.

Knows: EGL's extensions for devices, by their functions' names, and how moderngl makes a context on one. Does not know:
which of the devices is which GPU (probing.py).

Devices are listed before one of them is opened, and what is asked of one here opens none. `device_index` of moderngl is
a place in this list: also in a process for which CUDA_VISIBLE_DEVICES names some GPUs, since that is CUDA's, and EGL
does not read it.
"""

from __future__ import annotations

import sys
import uuid
from ctypes import CDLL, CFUNCTYPE, byref, c_char_p, c_int32, c_ssize_t, c_ubyte, c_uint32, c_void_p
from dataclasses import dataclass
from typing import Any

from moderngl import mgl  # type: ignore[attr-defined]

LIBRARIES = {"libgl": "libGL.so.1", "libegl": "libEGL.so.1"} if sys.platform == "linux" else {}
"""By the names that all systems have for them: glcontext's own search for them starts programs."""
MOST_DEVICES = 64

_EXTENSIONS = 0x3055
_DRM_DEVICE_FILE = 0x3233  # EGL_EXT_device_drm
_DRM_RENDER_NODE_FILE = 0x3377  # EGL_EXT_device_drm_render_node
_CUDA_DEVICE = 0x323A  # EGL_NV_device_cuda
_DEVICE_UUID = 0x335C  # EGL_EXT_device_persistent_id
_UUID_SIZE = 16

_FUNCTIONS: dict[str, tuple[Any, ...]] = {  # the result, then the arguments
    "eglQueryDevicesEXT": (c_uint32, c_int32, c_void_p, c_void_p),
    "eglQueryDeviceStringEXT": (c_char_p, c_void_p, c_int32),
    "eglQueryDeviceAttribEXT": (c_uint32, c_void_p, c_int32, c_void_p),
    "eglQueryDeviceBinaryEXT": (c_uint32, c_void_p, c_int32, c_int32, c_void_p, c_void_p),
}


@dataclass(frozen=True)
class Listed:
    """What EGL tells of a device without opening it. What it does not tell is None."""

    index: int
    extensions: tuple[str, ...]
    file: str | None = None
    """Of the device, in /dev/dri."""
    cuda: int | None = None
    """CUDA's number of it."""
    uuid: str | None = None
    """32 hexadecimal digits with dashes."""


def devices() -> list[Listed]:
    """All that there are, in EGL's order. Raises OSError where EGL is not there, or cannot list them."""
    library = CDLL(LIBRARIES.get("libegl", "libEGL.so.1"))
    library.eglQueryString.restype, library.eglQueryString.argtypes = c_char_p, (c_void_p, c_int32)
    library.eglGetProcAddress.restype, library.eglGetProcAddress.argtypes = c_void_p, (c_char_p,)
    offered = (library.eglQueryString(None, _EXTENSIONS) or b"").split()
    if b"EGL_EXT_device_base" not in offered and b"EGL_EXT_device_enumeration" not in offered:
        raise OSError("this EGL does not list devices (it lacks EGL_EXT_device_enumeration)")
    query, count = _function(library, "eglQueryDevicesEXT"), c_int32()
    found = (c_void_p * MOST_DEVICES)()
    if not query(MOST_DEVICES, found, byref(count)):
        raise OSError("EGL failed to list its devices")
    return [_listed(library, index, found[index]) for index in range(count.value)]


def _function(library: CDLL, name: str) -> Any:
    address = library.eglGetProcAddress(name.encode())
    if not address:
        raise OSError(f"this EGL has no {name}")
    return CFUNCTYPE(*_FUNCTIONS[name])(address)


def _listed(library: CDLL, index: int, device: int | None) -> Listed:
    text = _function(library, "eglQueryDeviceStringEXT")
    extensions = (text(device, _EXTENSIONS) or b"").decode().split()
    file, cuda, unique = None, None, None
    if "EGL_EXT_device_drm" in extensions:
        file = text(device, _DRM_DEVICE_FILE)
    if not file and "EGL_EXT_device_drm_render_node" in extensions:
        file = text(device, _DRM_RENDER_NODE_FILE)
    if "EGL_NV_device_cuda" in extensions:
        number = c_ssize_t(-1)
        if _function(library, "eglQueryDeviceAttribEXT")(device, _CUDA_DEVICE, byref(number)) and number.value >= 0:
            cuda = number.value
    if "EGL_EXT_device_persistent_id" in extensions:
        data, size = (c_ubyte * _UUID_SIZE)(), c_int32()
        ask = _function(library, "eglQueryDeviceBinaryEXT")
        if ask(device, _DEVICE_UUID, _UUID_SIZE, data, byref(size)) and size.value == _UUID_SIZE:
            unique = str(uuid.UUID(bytes=bytes(data)))
    return Listed(index, tuple(extensions), file.decode() if file else None, cuda, unique)


def make_context(require: int, device_index: int | None = None) -> tuple[Any, int]:
    """A fresh EGL context: moderngl's C object, and its version as 330 or 450."""
    settings: dict[str, Any] = dict(LIBRARIES) if device_index is None else LIBRARIES | {"device_index": device_index}
    context, version_code = mgl.create_context(glversion=require, mode="standalone", backend="egl", **settings)
    return context, version_code
