"""Who may import whom (DESIGN.md section 2), read off the source of every module.

A layer may import itself, what its row of LAYERS names, and what those may import in turn; never anything above it.
Third parties have one door each. Where a rule is broken for a reason, the reason stands in EXCEPTIONS; an exception
that nothing needs any more fails too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import glremote

PACKAGE = Path(glremote.__file__).parent
ROOT = PACKAGE.parent

LAYERS: dict[str, set[str]] = {
    # what is said, and GLSL: nothing of ours
    "protocol": set(),
    "shaders": set(),
    "version": set(),
    "packages": set(),
    # protocol only
    "link": {"protocol"},
    "images": {"protocol"},
    "host.interpreter": {
        "protocol", "host.making", "host.objects", "host.reading", "host.readbacks", "host.reflecting",
        "host.limits", "host.deadlines", "host.bounds", "host.checked", "host.progress",
    },
    "host.making": {"host.objects", "host.zeroing", "host.bounds"},
    "host.reading": {"host.objects", "host.zeroing", "host.bounds"},
    "host.checked": {"host.objects", "host.bounds"},
    "host.bounds": set(),
    "host.objects": {"protocol", "host.gl", "host.keeping"},
    "host.limits": {"protocol", "host.objects"},
    "host.deadlines": {"host.limits"},
    "host.progress": {"host.deadlines", "host.gl"},
    "host.gpus": set(),
    "host.readbacks": {"protocol", "host.gl", "host.zeroing"},
    "host.reflecting": {"protocol"},
    "host.gl": set(),
    "host.egl": set(),  # raw EGL's door, as host.gl is raw OpenGL's
    "host.probing": {"protocol", "host.egl", "host.gl", "host.gpus", "host.serving"},
    "host.serving": {"protocol"},
    "host.telling": {"protocol", "host.probing"},
    "host.keeping": {"protocol"},
    "host.zeroing": set(),
    "host.walls": set(),
    # the client's side; version is a constant, which a greeting tells
    "hosts": {"link"},
    "device": {"protocol", "link", "images", "hosts"},
    "placing": {"device", "hosts"},
    "recording": {"protocol", "link", "images"},
    "instance": {"device", "recording", "version", "packages", "placing"},
    # the host's side: link, and the interpreter's package
    "host": {
        "link", "host.interpreter", "host.walls", "host.egl", "host.probing", "host.serving", "version", "packages",
    },
    # the public front, and what is built on it
    "front": {"instance"},
    "running": {"instance"},
    "measuring": {"instance"},
    "": {"front"},
    "samples": {"", "shaders"},
    "gallery": {"", "samples"},
    # it looks at both sides, and goes the way of a client to a host
    "doctor": {"device", "host", "packages"},
    # everything
    "cli": {"", "doctor", "gallery", "host", "running", "measuring"},
    "__main__": {"cli"},
}
"""Modules of glremote by the longest name that fits; "" is glremote/__init__.py."""

DOORS: dict[str, tuple[str, ...]] = {
    "websockets": ("link", "host.gateway"),
    "moderngl": ("recording", "host", "", "front", "instance", "running", "measuring", "samples"),
    "_moderngl": ("recording", "host"),
    "glcontext": ("recording", "host", "", "front", "instance", "running"),
    "msgspec": ("protocol",),
    "numcodecs": ("protocol",),
    "asyncio": ("host.gateway",),
    "uvloop": ("host.gateway",),
    "prometheus_client": ("host.gateway",),
    "platformdirs": ("recording", "host.walls", "host.gateway", "hosts"),
    "tomlkit": ("hosts",),
    "PIL": ("images", "samples"),
    "click": ("cli",),
    "rich": ("cli",),
    "numpy": ("images", "protocol", "recording", "samples"),
}
"""Where each third party may come in, and the part of the standard library that has a door of its own."""

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("recording", "device"): "the recorder hands its command buffers to the device: the next step of the way down",
    ("recording", "msgspec"): "its structures are what the garbage collector need not track; see recording/lives.py",
    ("front", "asyncio"): "an awaitable is made inside a function; whoever awaits has asyncio already",
}
"""A module or layer that may import one more, and why."""

LINUX_ONLY = {
    "fcntl", "resource", "pwd", "grp", "spwd", "crypt", "termios", "tty", "pty", "syslog", "posix", "nis", "readline",
}  # fmt: skip
LINUX_ONLY_NAMES = {
    "os": {"fork", "forkpty", "memfd_create", "register_at_fork", "getuid", "posix_fallocate", "MFD_CLOEXEC", "setsid"},
    "socket": {"AF_UNIX", "send_fds", "recv_fds", "SO_PEERCRED", "SCM_RIGHTS"},
    "select": {"poll", "epoll", "kqueue"},
    "signal": {"SIGKILL", "SIGHUP", "SIGUSR1", "SIGCHLD", "set_wakeup_fd", "pthread_sigmask"},
    "mmap": {"MAP_SHARED", "MAP_ANONYMOUS", "PROT_READ", "PROT_WRITE"},
}
"""Names that Windows does not have."""


class Import(NamedTuple):
    """One import: where it stands, what it brings in (of ours: without `glremote.`), and whether it runs at import."""

    module: str
    line: int
    target: str
    relative: bool
    at_import: bool

    @property
    def ours(self) -> bool:
        """Whether it is a module of glremote."""
        return self.target == "glremote" or self.target.startswith("glremote.")

    def __str__(self) -> str:
        return f"{source(self.module).relative_to(ROOT)}:{self.line} imports {self.target}"


def source(module: str) -> Path:
    """The file of a module."""
    path = PACKAGE.joinpath(*module.split(".")) if module else PACKAGE
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def modules() -> list[str]:
    """Every module of glremote, without `glremote.`: "" for the package itself."""
    folders = filter(Path.is_dir, PACKAGE.iterdir())  # some are links, into which rglob does not go
    files = [*PACKAGE.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]
    names = [path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".") for path in files]
    return sorted(name.removesuffix("__init__").removesuffix(".") for name in names)


def imports(module: str) -> Iterator[Import]:
    """Every import of a module, also inside functions, but not those for type checkers only."""
    package = source(module).name == "__init__.py"
    base = ["glremote", *filter(None, module.split("."))]
    for node, at_import in walk(ast.parse(source(module).read_text("utf-8")), True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, node.lineno, alias.name, False, at_import)
        elif isinstance(node, ast.ImportFrom):
            up = node.level - package
            start = base[: len(base) - up] if node.level else []
            origin = ".".join([*start, *filter(None, [node.module])])
            for alias in node.names:
                name = f"{origin}.{alias.name}"
                known = name.removeprefix("glremote.") in modules()
                yield Import(module, node.lineno, name if known else origin, bool(node.level), at_import)


def walk(node: ast.AST, at_import: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether it is executed when the module is imported."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    yield node, at_import
    inside = at_import and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(node):
        yield from walk(child, inside)


def layer(module: str, known: Iterable[str] = LAYERS) -> str | None:
    """The longest of some names that a module belongs to."""
    names = [name for name in known if name == module or (name and module.startswith(name + "."))]
    return max(names, key=len, default=None)


def allowed(name: str) -> set[str]:
    """The layers that a layer may import: its own row, and those of what it names."""
    found = {name}
    for lower in LAYERS[name]:
        found |= allowed(lower)
    return found


def excepted(found: Import, target: str) -> bool:
    """Whether the table of exceptions allows it."""
    home = layer(found.module)
    return (home, target) in EXCEPTIONS or (found.module, target) in EXCEPTIONS


def our_target(found: Import) -> str:
    """The layer that an import of ours brings in."""
    target = layer(found.target.removeprefix("glremote").removeprefix("."))
    assert target is not None, f"{found}, which no layer has: name it in LAYERS"
    return target


every_module = pytest.mark.parametrize("module", modules())


def test_every_module_has_a_layer() -> None:
    assert {"", "protocol.devices", "host.gateway", "host.gateway.door"} <= set(modules()), "packages in packages too"
    assert [module for module in modules() if layer(module) is None] == []


@every_module
def test_a_module_imports_only_what_its_layer_may(module: str) -> None:
    home = layer(module)
    assert home is not None
    wrong = [
        str(found)
        for found in imports(module)
        if found.ours and our_target(found) not in allowed(home) and not excepted(found, our_target(found))
    ]
    assert not wrong, "\n".join(wrong)


@every_module
def test_a_third_party_comes_in_by_its_door(module: str) -> None:
    wrong = []
    for found in imports(module):
        party = found.target.split(".")[0]
        if found.ours or (party in sys.stdlib_module_names and party not in DOORS):
            continue
        assert party in DOORS, f"{found}: give it a door in DOORS"
        if layer(module, DOORS[party]) is None and not excepted(found, party):
            wrong.append(str(found))
    assert not wrong, "\n".join(wrong)


def test_asyncio_is_the_gateways_alone() -> None:
    """Elsewhere not even at import; front.py makes an awaitable inside a function."""
    found = [f for m in modules() for f in imports(m) if f.target.split(".")[0] == "asyncio" or ".asyncio" in f.target]
    wrong = [str(f) for f in found if not f.module.startswith("host.gateway") and (f.module != "front" or f.at_import)]
    assert not wrong, "\n".join(wrong)


def test_every_exception_is_needed_and_has_a_reason() -> None:
    used = set()
    for module in modules():
        for found in imports(module):
            target = our_target(found) if found.ours else found.target.split(".")[0]
            used |= {(layer(module), target), (module, target)}
    assert [pair for pair in EXCEPTIONS if pair not in used] == []
    assert all(EXCEPTIONS.values())


# --- one copy of each module


def test_inside_protocol_imports_are_relative() -> None:
    """The folder is installed as glremote.protocol, and must not know it."""
    wrong = [str(f) for m in modules() if layer(m) == "protocol" for f in imports(m) if f.ours and not f.relative]
    assert not wrong, "\n".join(wrong)


def test_nobody_imports_a_second_copy() -> None:
    """From the repository's root `import protocol` works, and is another module than glremote.protocol."""
    wrong = []
    for path in [*ROOT.glob("*.py"), *(p for d in ("glremote", "tests") for p in (ROOT / d).rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            if {name.split(".")[0] for name in names} & {"protocol", "shaders", "samples"}:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")  # type: ignore[attr-defined]
    assert not wrong, "\n".join(wrong)


# --- the client imports on Windows and macOS


def client_modules() -> list[str]:
    """What is imported where a program runs."""
    return [module for module in modules() if not module.startswith("host.")]


@pytest.mark.parametrize("module", client_modules())
def test_a_client_module_imports_nothing_of_linux(module: str) -> None:
    wrong = [
        str(found)
        for found in imports(module)
        if found.at_import and (found.target in LINUX_ONLY or found.target.startswith("glremote.host."))
    ]
    tree = ast.parse(source(module).read_text("utf-8"))
    for node, at_import in walk(tree, True):
        if isinstance(node, ast.ImportFrom) and node.module in LINUX_ONLY_NAMES and at_import:
            taken = {alias.name for alias in node.names} & LINUX_ONLY_NAMES[node.module]
            wrong += [f"{module}:{node.lineno} takes {name} from {node.module}" for name in taken]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and at_import:
            name = node.value.id
            if node.attr in LINUX_ONLY_NAMES.get(name, ()) and not guarded(tree, name, node):
                wrong.append(f"{module}:{node.lineno} uses {name}.{node.attr} when it is imported")
    assert not wrong, "\n".join(wrong)


def guarded(tree: ast.AST, module: str, used: ast.Attribute) -> bool:
    """Whether a name of a module is used only where `hasattr` has found it."""
    test = f"hasattr({module}, '{used.attr}')"
    return any(
        isinstance(node, ast.If) and test in ast.unparse(node.test) and any(used is child for child in ast.walk(node))
        for node in ast.walk(tree)
    )
