"""The worker's walls: no network, no new programs, and no writing but to one folder, by Linux's Landlock and seccomp.

Knows: what a driver needs to read, and which system calls lead outside (landlock(7), seccomp(2)); calls that are
forbidden fail with EPERM, since a driver that tries one may well go on without. Does not know: sessions or OpenGL.

The order is the worker's: Landlock goes up while there is one thread, before a driver has been loaded, and holds for
every thread that is made later. seccomp goes up when the driver has its context, for all threads at once, since making
a context takes calls that a session needs no more (sockets, for one). Neither can be taken down again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import hashlib
import os
import platform
import re
import struct
import sys
from collections.abc import Iterable, Iterator
from functools import cache as cached
from pathlib import Path

CACHE_LIMIT = 256 << 20
"""Bytes of a cache folder: what is oldest in it goes first."""
FILE_COST = 4096
"""Bytes that a file counts for at least, so that a great many empty ones count too."""
SINGLE_THREADED = {"OPENBLAS_NUM_THREADS": "1"}
"""For a worker's environment: numpy would start threads as it is imported, and Landlock would not hold for these."""

_READ = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/opt", "/nix/store", "/run/opengl-driver", "/sys",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/glvnd", "/etc/egl",
    "/etc/nvidia", "/etc/vulkan", "/etc/OpenCL", "/etc/drirc", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd",
    "/proc/self", "/proc/cpuinfo", "/proc/devices", "/proc/driver", "/proc/filesystems", "/proc/meminfo",
    "/proc/modules", "/proc/stat", "/proc/sys", "/proc/version", "/dev/urandom", "/dev/random",
)  # fmt: skip
"""What Python and drivers read."""
_READ_BY_VARIABLE = (
    "LD_LIBRARY_PATH", "LIBGL_DRIVERS_PATH", "GBM_BACKENDS_PATH", "__EGL_VENDOR_LIBRARY_DIRS",
    "__EGL_VENDOR_LIBRARY_FILENAMES", "DRIRC_CONFIGDIR",
)  # fmt: skip
"""Variables that name more of it."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/dri", "/dev/nvidia*", "/dev/nvidia-caps", "/dev/kfd", "/dev/dxg")
"""What drivers speak to."""


def missing() -> list[str]:
    """What this machine does not offer, a line each; it changes nothing."""
    lines = []
    if sys.platform != "linux":
        return [f"{sys.platform} has neither Landlock nor seccomp: workers may do whatever this user may"]
    abi = _landlock_version()
    if not abi:
        lines.append(
            f"this kernel has no Landlock ({_reason()}): workers may read and write whatever this user may; "
            "Linux 5.13 and newer have it where `landlock` is in /sys/kernel/security/lsm"
        )
    elif abi < 3:
        lines.append("this kernel's Landlock does not guard against files being cut short; Linux 6.2 and newer do")
    if _machine() is None:
        lines.append(f"the calls of a {platform.machine()} processor are not known here: workers may start programs")
    elif _system_call(_machine_number("seccomp"), _GET_ACTION_AVAIL, 0, _bytes(struct.pack("I", _FAIL))) < 0:
        lines.append(f"seccomp is not to be had ({_reason()}): workers may use the network and start programs")
    return lines


# --- files: Landlock


_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_DIR, _MAKE_REGULAR, _TRUNCATE, _IOCTL_DEVICE = 1 << 7, 1 << 8, 1 << 14, 1 << 15
_OF_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
"""By the version of Landlock: all that can be forbidden with files. Later ones forbid no more there."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
"""What can be allowed for something that is no folder."""
_TO_READ = _READ_FILE | _READ_DIR
_TO_KEEP = _TO_READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REGULAR | _TRUNCATE
_TO_SPEAK = _TO_READ | _WRITE_FILE | _IOCTL_DEVICE
_TCP = 3  # binding and connecting
_SCOPES = 3  # abstract Unix sockets of others, and signals to them
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # on every processor
_VERSION_FLAG = 1
_PATH_BENEATH = 1


def forbid_files(cache: Path) -> bool:
    """From now on this thread, and every one that it makes, writes to the cache alone and reads what drivers need.

    False where this machine has no Landlock. Raises OSError where it has one that cannot be used.
    """
    abi = _landlock_version()
    if not abi:
        return False
    if len(threads := os.listdir("/proc/self/task")) > 1:
        raise OSError(errno.EBUSY, f"Landlock would not hold for {len(threads) - 1} threads that have begun already")
    handled = _OF_VERSION[min(abi, 5)]
    attributes = struct.pack("QQQ", handled, _TCP, _SCOPES)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    ruleset = _checked(_system_call(_CREATE_RULESET, _bytes(attributes), len(attributes), 0), "Landlock's rules")
    try:
        _allow(ruleset, [str(cache)], handled & _TO_KEEP)
        _allow(ruleset, [*_READ, *_installation(), *_named_by_variables()], handled & _TO_READ)
        _allow(ruleset, [path for pattern in _DEVICES for path in glob.glob(pattern)], handled & _TO_SPEAK)
        os.open("/proc/self", os.O_PATH | os.O_CLOEXEC)  # stays open: of what nobody holds, /proc forgets the rules
        _no_new_privileges()
        _checked(_system_call(_RESTRICT_SELF, ruleset, 0), "Landlock")
    finally:
        os.close(ruleset)
    return True


def _allow(ruleset: int, paths: Iterable[str], access: int) -> None:
    for path in paths:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # this machine has none, or this user cannot read it
        try:
            rights = access if os.path.isdir(path) else access & _OF_FILES
            rule = _bytes(struct.pack("=Qi", rights, descriptor))
            _checked(_system_call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0), path)
        finally:
            os.close(descriptor)


def _installation() -> Iterator[str]:
    """Python, what is installed for it, and the modules that are imported by now.

    Not the folders that these lie in, which may be anybody's; but those into which packages were installed, since some
    are imported later.
    """
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix}
    yield from prefixes
    yield from (path for path in sys.path if path and glob.glob(os.path.join(glob.escape(path), "*.dist-info")))
    within = tuple(os.path.join(prefix, "") for prefix in prefixes)
    for name, module in list(sys.modules.items()):
        file = None if "." in name else getattr(module, "__file__", None)
        if file and not file.startswith(within):
            folder, base = os.path.split(file)
            yield folder if base.startswith("__init__.") else file
    for entry in os.scandir(os.path.dirname(os.path.dirname(__file__))):
        if entry.is_symlink():
            yield os.path.realpath(entry.path)


def _named_by_variables() -> Iterator[str]:
    for name in _READ_BY_VARIABLE:
        yield from (path for path in os.environ.get(name, "").split(":") if os.path.isabs(path) and path != "/")


def _landlock_version() -> int:
    return max(0, _system_call(_CREATE_RULESET, None, 0, _VERSION_FLAG))


# --- system calls: seccomp

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By the name of a processor: its column in the tables below, and Linux's number for it (linux/audit.h)."""
_NONE = -1

_FORBIDDEN: dict[str, tuple[int, int]] = {
    # programs and processes
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, _NONE), "vfork": (58, _NONE), "unshare": (272, 97),
    "setns": (308, 268), "personality": (135, 92), "setsid": (112, 157), "setpgid": (109, 154),
    # the network, but to accept at a door that is open
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    # what does other calls' work past this filter
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # other processes: their memory, their descriptors, signals to them, how they run
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "migrate_pages": (256, 238),
    "move_pages": (279, 239), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    # what processes share by a name or a key
    "msgget": (68, 186), "semget": (64, 190), "shmget": (29, 194), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # what files are like, which Landlock does not guard
    "chmod": (90, _NONE), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, _NONE),
    "fchown": (93, 55), "lchown": (94, _NONE), "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "file_setattr": (469, 469), "truncate": (76, 45),
    "utime": (132, _NONE), "utimes": (235, _NONE), "futimesat": (261, _NONE), "utimensat": (280, 88),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "fanotify_init": (300, 262),
    # the machine
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "acct": (163, 89), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "syslog": (103, 116), "vhangup": (153, 58), "iopl": (172, _NONE), "ioperm": (173, _NONE), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "modify_ldt": (154, _NONE),
    # who we are
    "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145), "setregid": (114, 143),
    "setresuid": (117, 147), "setresgid": (119, 149), "setfsuid": (122, 151), "setfsgid": (123, 152),
    "setgroups": (116, 159), "capset": (126, 91),
}  # fmt: skip
"""Calls that fail with EPERM: their numbers on x86_64 and on aarch64 (asm/unistd.h)."""
_SEEN_TO: dict[str, tuple[int, int]] = {
    "clone": (56, 220), "clone3": (435, 435), "tgkill": (234, 131), "prlimit64": (302, 261), "prctl": (157, 167),
    "seccomp": (317, 277),
}  # fmt: skip
"""Calls for which it depends on their arguments, or which are made here."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # linux/bpf_common.h
_CALL, _PROCESSOR, _FIRST_ARGUMENT = 0, 4, 16  # where these lie in struct seccomp_data; all are little-endian here
_X32 = 0x40000000
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = _FAIL | errno.EPERM, _FAIL | errno.ENOSYS
_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
_ALL_THREADS, _AS_FAST = 1, 4
_CLONE_THREAD = 0x10000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


def forbid_calls() -> bool:
    """From now on no thread of this process opens a socket, starts a program or reaches into another process.

    False where this machine has no seccomp. Raises OSError where it has one that cannot be used.
    """
    machine = _machine()
    if machine is None:
        return False
    number = _machine_number("seccomp")
    if _system_call(number, _GET_ACTION_AVAIL, 0, _bytes(struct.pack("I", _FAIL))) < 0:
        return False
    program = _filter(*machine, os.getpid())
    code = _bytes(program)
    pointer = ctypes.cast(code, ctypes.c_void_p).value or 0
    _no_new_privileges()
    # _AS_FAST: without it kernels before 5.16 also switch a processor's speculation off, which halves a driver's speed.
    named = _bytes(struct.pack("HxxxxxxQ", len(program) // 8, pointer))
    outcome = _checked(_system_call(number, _SET_MODE_FILTER, _ALL_THREADS | _AS_FAST, named), "seccomp")
    if outcome:
        raise OSError(errno.EBUSY, f"seccomp does not hold for the thread {outcome}")
    return True


def _filter(column: int, processor: int, process: int) -> bytes:
    """The program that is run for a call (linux/filter.h); the kernel remembers which calls it always allows."""
    program: list[tuple[int, int, int, int]] = [  # what, how far to jump if so, how far if not, the constant
        (_LOAD, 0, 0, _PROCESSOR),
        (_EQUAL, 1, 0, processor),
        (_RETURN, 0, 0, _EPERM),
        (_LOAD, 0, 0, _CALL),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _EPERM),
    ]
    for numbers in _FORBIDDEN.values():
        if numbers[column] != _NONE:
            program += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _EPERM)]
    # The C library makes threads by clone3, whose arguments no filter can see; where there is none, by clone.
    program += [(_EQUAL, 0, 1, _SEEN_TO["clone3"][column]), (_RETURN, 0, 0, _ENOSYS)]
    for name, test, constant, if_so, if_not in (
        ("clone", _ANY_BIT, _CLONE_THREAD, _ALLOW, _EPERM),
        ("tgkill", _EQUAL, process, _ALLOW, _EPERM),
        ("prlimit64", _EQUAL, 0, _ALLOW, _EPERM),
        ("prctl", _EQUAL, _PR_SET_PDEATHSIG, _EPERM, _ALLOW),
    ):
        program += [
            (_EQUAL, 0, 4, _SEEN_TO[name][column]),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (test, 0, 1, constant),
            (_RETURN, 0, 0, if_so),
            (_RETURN, 0, 0, if_not),
        ]
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", what, so, if_not, constant) for what, so, if_not, constant in program)


def _machine() -> tuple[int, int] | None:
    known = sys.platform == "linux" and sys.maxsize > 1 << 32
    return _MACHINES.get(platform.machine()) if known else None


def _machine_number(name: str) -> int:
    machine = _machine()
    assert machine is not None
    return _SEEN_TO[name][machine[0]]


# --- both


def _no_new_privileges() -> None:
    _checked(_library().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")


@cached
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _bytes(data: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(data, len(data))


def _system_call(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | None) -> int:
    given = (ctypes.c_long(value) if isinstance(value, int) else value for value in arguments)
    outcome: int = _library().syscall(ctypes.c_long(number), *given)
    return outcome


def _reason() -> str:
    return os.strerror(ctypes.get_errno())


def _checked(outcome: int, what: str) -> int:
    if outcome < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {_reason()}")
    return outcome


# --- the cache folder


def caches() -> Path:
    """Where all of them are, if nothing else is said."""
    import platformdirs  # not needed in a worker

    return platformdirs.user_cache_path("glremote", appauthor=False) / "drivers"


CACHE_NAME = re.compile(r"token-[0-9a-f]{32}")
"""Of a token's folder; there must be no doubt, since such folders are removed."""


def cache_name(token: str) -> str:
    """The name of the folder of a token's own."""
    return "token-" + hashlib.sha256(b"glremote cache\0" + token.encode()).hexdigest()[:32]


def cache_folder(parent: Path, token: str) -> Path:
    """The folder of a token's own, below one that is its user's alone; both are made where they are not there."""
    folder = parent / cache_name(token)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def keep_in(cache: Path, limit: int = CACHE_LIMIT) -> None:
    """Have drivers keep what they keep in this folder. To be called before one is loaded."""
    os.environ.update(
        {
            "HOME": str(cache),
            "TMPDIR": str(cache),
            "XDG_CACHE_HOME": str(cache),
            "MESA_SHADER_CACHE_DIR": str(cache),
            "MESA_GLSL_CACHE_DIR": str(cache),  # what older ones call it
            "MESA_SHADER_CACHE_MAX_SIZE": f"{limit >> 20}M",
            "__GL_SHADER_DISK_CACHE_PATH": str(cache),
            "__GL_SHADER_DISK_CACHE_SIZE": str(limit),
        }
    )


def trim(folder: Path, limit: int = CACHE_LIMIT) -> int:
    """Take away files of a folder, those first that were written longest ago, until it is within the limit; how many.

    Whoever writes there may be at it meanwhile: what is gone already is nobody's error. Nothing is followed.
    """
    files: list[tuple[float, int, str]] = []
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(path := os.path.join(place, name))
                files.append((status.st_mtime, max(status.st_blocks * 512, FILE_COST), path))
    size = sum(cost for _, cost, _ in files)
    taken = 0
    for _, cost, path in sorted(files):
        if size <= limit:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
            taken += 1
        size -= cost
    return taken
