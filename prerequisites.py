"""What the system must have before .venv can be made: Python 3.11, the venv module, and an EGL driver.

The Makefile runs this with the system's Python, so it uses the standard library alone, and an old one gets as far as
the message. What is missing is installed on Debian and Ubuntu, as root or with sudo; otherwise the one line to run is
printed, and make stops. Where EGL works already nothing is installed, whoever's driver that is.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys

PYTHON = "python{}.{}".format(*sys.version_info)
# libgl1: moderngl's loader opens libGL beside libEGL. The last two are Mesa's software driver.
EGL_PACKAGES = ["libegl1", "libgl1", "libegl-mesa0", "libgl1-mesa-dri"]
EGL_PLATFORM_DEVICE_EXT = 0x313F
MOST_DEVICES = 64


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036
        stop(f"Python 3.11 or newer is needed, and this is {PYTHON}. Name another: make PYTHON=python3.12 test")
    missing = [] if importlib.util.find_spec("ensurepip") else [f"{PYTHON}-venv"]
    missing += [] if egl_works() else EGL_PACKAGES
    if not missing:
        return
    if "--again" in sys.argv:
        stop(f"installed, and still not working: {' '.join(missing)}")
    install(missing)
    # A libEGL that was loaded without a driver does not look for one again: ask in a new process.
    os.execv(sys.executable, [sys.executable, __file__, "--again"])


def egl_works() -> bool:
    """Whether any device can be initialised without a display server, as moderngl's EGL loader does it."""
    if sys.platform != "linux":
        return True  # there is no EGL to look for, and a client works without
    try:
        ctypes.CDLL("libGL.so.1")
        egl = ctypes.CDLL("libEGL.so.1")
    except OSError:
        return False
    egl.eglGetProcAddress.restype = pointer = ctypes.c_void_p
    query_devices = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    get_display = egl.eglGetProcAddress(b"eglGetPlatformDisplayEXT")
    if not query_devices or not get_display:
        return False
    query_devices = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, pointer, pointer)(query_devices)
    get_display = ctypes.CFUNCTYPE(pointer, ctypes.c_uint, pointer, pointer)(get_display)
    devices, count = (pointer * MOST_DEVICES)(), ctypes.c_int()
    query_devices(MOST_DEVICES, devices, ctypes.byref(count))
    displays = (get_display(EGL_PLATFORM_DEVICE_EXT, device, None) for device in devices[: count.value])
    return any(display and egl.eglInitialize(pointer(display), None, None) for display in displays)


def install(packages: list[str]) -> None:
    names = " ".join(packages)
    if not shutil.which("apt-get"):
        stop(f"missing, under the names that Debian has for it: {names}. Install it, and run make again")
    # The lists of packages may be old or absent; where they cannot be updated, the old ones may still do.
    line = f"apt-get update; apt-get install -y --no-install-recommends {names}"
    # Without a terminal sudo must not ask for a password.
    sudo = [] if os.geteuid() == 0 else ["sudo"] if os.isatty(0) else ["sudo", "-n"]
    if not sudo or shutil.which("sudo"):
        print(f"Installing {names}", flush=True)
        command = [*sudo, "sh", "-c", f"export DEBIAN_FRONTEND=noninteractive; {line}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode == 0:
            return
        print(done.stdout, end="")
    stop(f"{names} must be installed. Run this line as root, then make again:\n{line}")


def stop(why: str) -> None:
    sys.exit(why)


if __name__ == "__main__":
    main()
