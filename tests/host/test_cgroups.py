"""Workers' memory bounded by the kernel: the order of things on a tree that behaves as the kernel's does, then the
kernel's own, where these tests may write there."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glremote.host.gateway import cgroups
from glremote.host.gateway.cgroups import Groups, NotOurs, group_of, obstacle
from glremote.host.serving import environment
from tests.host.test_gateway import DEADLINE, Host, eventually, runs

MIB = 1 << 20


# --- which group

HYBRID = """\
23 1 254:0 / / rw,relatime - ext4 /dev/root rw
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
UNIFIED = "32 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
CONTAINER = "90 80 0:28 /docker/0af1 /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n"
TWICE = "90 80 0:28 /other /mnt/other rw - cgroup2 cgroup rw\n" + UNIFIED
SPACED = "90 80 0:28 / /mnt/c\\040group rw - cgroup2 cgroup rw\n"


@pytest.mark.parametrize(
    ("membership", "mounts", "folder"),
    [
        ("0::/system.slice/glremote.service\n", UNIFIED, "/sys/fs/cgroup/system.slice/glremote.service"),
        ("4:memory:/some\n1:cpu:/\n0::/\n", HYBRID, "/sys/fs/cgroup/unified"),
        ("0::/docker/0af1\n", CONTAINER, "/sys/fs/cgroup"),
        ("0::/docker/0af1/below\n", CONTAINER, "/sys/fs/cgroup/below"),
        ("0::/a:b/it\n", TWICE, "/sys/fs/cgroup/a:b/it"),
        ("0::/it\n", SPACED, "/mnt/c group/it"),
    ],
)
def test_where_the_group_is(membership: str, mounts: str, folder: str) -> None:
    assert group_of(membership, mounts) == Path(folder)


@pytest.mark.parametrize(
    ("membership", "mounts", "says"),
    [
        ("4:memory:/some\n", HYBRID, "in none of version 2"),
        ("0::/../other\n", UNIFIED, "in none of version 2"),
        ("0::/docker/0af2\n", CONTAINER, "mounted nowhere"),
        ("0::/\n", HYBRID.replace("cgroup2", "tmpfs"), "mounted nowhere"),
        ("", "", "in none"),
    ],
)
def test_where_there_is_none(membership: str, mounts: str, says: str) -> None:
    with pytest.raises(NotOurs, match=says):
        group_of(membership, mounts)


# --- a tree that behaves as the kernel's


class Tree:
    """Stands where the kernel stands: groups are folders of files, and these are its rules."""

    FILES = ("cgroup.procs", "cgroup.subtree_control", "cgroup.kill", "cgroup.type")
    OF_MEMORY = ("memory.max", "memory.swap.max", "memory.oom.group", "memory.events", "memory.peak")

    def __init__(self, top: Path) -> None:
        self.top = top
        self.immortal: set[str] = set()  # processes that do not die
        self.without: set[str] = set()  # files that this kernel does not have
        self.make(top, "cpu memory")
        self.put(os.getpid(), top)

    def make(self, path: Path, controllers: str | None = None) -> None:
        path.mkdir()
        if controllers is None:
            controllers = (path.parent / "cgroup.subtree_control").read_text()
        (path / "cgroup.controllers").write_text(controllers)
        for name in (*self.FILES, *(self.OF_MEMORY if "memory" in controllers else ())):
            if name not in self.without:
                (path / name).write_text("")

    def unmake(self, path: Path) -> None:
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, "no group", str(path))
        if self.processes(path) or any(child.is_dir() for child in path.iterdir()):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
        for file in path.iterdir():
            file.unlink()
        path.rmdir()

    def write(self, path: Path, text: str) -> None:
        group, name = path.parent, path.name
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, "no file", str(path))
        if name == "cgroup.procs":
            if (group / "cgroup.subtree_control").read_text():
                raise OSError(errno.EBUSY, "it hands controllers down")
            for other in (self.top, *self.top.rglob("*/")):
                left = self.processes(other) - {text}
                (other / "cgroup.procs").write_text("\n".join(left))
            self.put(int(text), group)
        elif name == "cgroup.subtree_control":
            if text[0] == "+" and self.processes(group):
                raise OSError(errno.EBUSY, "it has processes")
            path.write_text(text[1:] if text[0] == "+" else "")
        elif name == "cgroup.kill":
            (group / "cgroup.procs").write_text("\n".join(self.processes(group) & self.immortal))
        else:
            path.write_text(text)

    @staticmethod
    def processes(group: Path) -> set[str]:
        return set((group / "cgroup.procs").read_text().split())

    def put(self, process: int, group: Path) -> None:
        (group / "cgroup.procs").write_text("\n".join({*self.processes(group), str(process)}))

    def groups(self) -> list[str]:
        return sorted(path.name for path in self.top.iterdir() if path.is_dir())


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A group that has the gateway, this process, and nobody else."""
    tree = Tree(tmp_path / "group")
    monkeypatch.setattr(cgroups, "_make", tree.make)
    monkeypatch.setattr(cgroups, "_unmake", tree.unmake)
    monkeypatch.setattr(cgroups, "_write", tree.write)
    monkeypatch.setattr(cgroups, "PATIENCE", 0.05)
    return tree


ME = str(os.getpid())


def test_the_gateway_goes_one_down_and_each_worker_has_a_group(tree: Tree) -> None:
    groups = Groups(tree.top)
    assert tree.processes(tree.top / "glremote-gateway") == {ME}
    assert tree.processes(tree.top) == set()
    one, two = groups.add(700 * MIB), groups.add(5)
    one.enter(4242)
    assert tree.processes(one.path) == {"4242"}
    assert (one.path / "memory.max").read_text() == str(700 * MIB)
    assert (two.path / "memory.max").read_text() == "5"
    assert (one.path / "memory.swap.max").read_text() == "0"
    assert (one.path / "memory.oom.group").read_text() == "1"
    (one.path / "cgroup.procs").write_text("")  # it has ended
    for group in (one, two):
        groups.remove(group)
    assert tree.groups() == ["glremote-gateway"]
    groups.close()
    assert tree.groups() == []
    assert tree.processes(tree.top) == {ME}
    assert (tree.top / "cgroup.subtree_control").read_text() == ""


def test_what_a_worker_has_started_ends_with_it(tree: Tree) -> None:
    groups = Groups(tree.top)
    group = groups.add(MIB)
    tree.put(4242, group.path)
    groups.remove(group)
    assert tree.processes(group.path) == set()
    groups.add(MIB)
    assert not group.path.exists()


def test_what_is_left_over_is_removed(tree: Tree) -> None:
    for name in ("glremote-worker-1", "glremote-worker-77", "other"):
        tree.make(tree.top / name)
        tree.put(4242, tree.top / name)
    groups = Groups(tree.top)
    assert tree.groups() == ["glremote-gateway", "other"]
    groups.close()
    assert tree.groups() == ["other"]


def test_what_does_not_die_is_left_alone(tree: Tree) -> None:
    tree.immortal.add("4242")
    tree.make(left := tree.top / "glremote-worker-2")
    tree.put(4242, left)
    groups = Groups(tree.top)
    assert groups.add(MIB).path.name == "glremote-worker-3"
    assert tree.processes(left) == {"4242"}


def test_a_gateway_that_is_started_anew_where_the_last_one_was(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """That one was killed; this one was started by a process that it had taken along."""
    groups = Groups(tree.top)
    left = groups.add(MIB)
    os.close(groups._lock)
    monkeypatch.setattr(cgroups, "group_of", lambda membership, mounts: tree.top / "glremote-gateway")
    tree.put(4242, tree.top / "glremote-gateway")
    again, line = cgroups.begin()
    assert again is not None
    assert line.endswith(f"by a cgroup of its own in {tree.top}")
    assert not left.path.exists()
    again.close()


def test_one_gateway_divides_a_group(tree: Tree) -> None:
    groups = Groups(tree.top)
    with pytest.raises(NotOurs, match="another host divides it"):
        Groups(tree.top)
    assert tree.groups() == ["glremote-gateway"]
    groups.close()
    Groups(tree.top).close()


def test_nobody_else_is_moved(tree: Tree) -> None:
    tree.put(1, tree.top)
    assert obstacle(tree.top) == f"there are other processes in {tree.top}"
    with pytest.raises(NotOurs, match="other processes"):
        Groups(tree.top)
    assert tree.groups() == []


def test_somebody_who_comes_meanwhile_stays_too(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.put(1, tree.top)
    monkeypatch.setattr(cgroups, "obstacle", lambda group: None)
    with pytest.raises(NotOurs, match="it has processes"):
        Groups(tree.top)
    assert tree.groups() == []
    assert tree.processes(tree.top) == {ME, "1"}


def test_the_root_of_all_groups_may_have_processes(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.put(1, tree.top)
    (tree.top / "cgroup.type").unlink()
    (tree.top / "cgroup.subtree_control").write_text("cpu memory")
    groups = Groups(tree.top)
    groups.add(MIB)
    assert tree.groups() == ["glremote-worker-2"]
    groups.close()
    assert (tree.top / "cgroup.subtree_control").read_text() == "cpu memory"


def test_a_kernel_with_less(tree: Tree) -> None:
    tree.without |= {"memory.swap.max", "memory.oom.group", "memory.peak", "cgroup.kill"}
    groups = Groups(tree.top)
    group = groups.add(MIB)
    assert (group.path / "memory.max").read_text() == str(MIB)
    assert group.most() == 0


def test_a_bound_that_cannot_be_set_leaves_everything_as_it_was(tree: Tree) -> None:
    tree.without.add("memory.max")
    with pytest.raises(NotOurs):
        Groups(tree.top)
    assert tree.groups() == []
    assert tree.processes(tree.top) == {ME}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda top: (top / "cgroup.controllers").write_text("cpu hugetlb"), "no controller for memory"),
        (lambda top: (top / "cgroup.subtree_control").unlink(), "is not delegated to this user"),
        (lambda top: (top / "cgroup.controllers").unlink(), "No such file"),
    ],
)
def test_why_memory_is_looked_at(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], says: str
) -> None:
    change(tree.top)
    monkeypatch.setattr(cgroups, "group_of", lambda membership, mounts: tree.top)
    groups, line = cgroups.begin()
    assert groups is None
    assert line == cgroups.outlook()
    assert line.startswith("each worker's memory is looked at four times a second")
    assert says in line
    assert tree.groups() == []


def test_looking_ahead_changes_nothing(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "group_of", lambda membership, mounts: tree.top)
    before = {path: path.read_text() for path in tree.top.iterdir()}
    said = cgroups.outlook()
    assert {path: path.read_text() for path in tree.top.iterdir()} == before
    groups, line = cgroups.begin()
    assert groups is not None
    assert said == line


@pytest.mark.parametrize("mark", ["user.delegate", "trusted.delegate"])
@pytest.mark.parametrize("unit", ["glremote.service", "session-3.scope"])
def test_a_unit_of_systemds_is_its_own_unless_it_says_so(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str, mark: str
) -> None:
    """Where we are root; a user without these rights has the folder only where it was delegated."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    group = tree.top.rename(tmp_path / unit)
    assert f"{group} is not delegated to this user" in (obstacle(group) or "")
    marks = {mark: b"1"}

    def getxattr(path: Path, name: str) -> bytes:
        if name not in marks:
            raise OSError(errno.ENODATA, "none such")
        return marks[name]

    monkeypatch.setattr(os, "getxattr", getxattr)
    assert obstacle(group) is None
    marks[mark] = b"0"
    assert obstacle(group) is not None


def test_what_the_kernel_tells_of_an_end(tree: Tree) -> None:
    group = Groups(tree.top).add(MIB)
    events = group.path / "memory.events"
    assert group.ended() == (False, False)
    events.write_text("low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n")
    assert group.ended() == (False, False)
    events.write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n")
    assert group.ended() == (True, True)
    events.write_text("low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\noom_group_kill 0\n")
    assert group.ended() == (True, False)
    (group.path / "memory.peak").write_text("700000001\n")
    assert group.most() == 700_000_001


# --- the kernel's own


def top() -> Path:
    """The root of what this machine shows of cgroup v2; skips where there is none that can be written."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("cgroup2 "):
            return Path(fields.split()[4])
    pytest.skip("no cgroup v2 is mounted here")


@pytest.fixture
def group() -> Iterator[Path]:
    """A group that nobody is in yet."""
    path = top() / f"glremote-tests-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no group can be made here: {error}")
    yield path
    (path / "cgroup.kill").write_text("1")
    eventually(lambda: "populated 0" in (path / "cgroup.events").read_text())
    for left in sorted((*path.rglob("*/"), path), reverse=True):
        left.rmdir()


def starter(group: Path, folder: Path) -> str:
    """A python that is in the group from its beginning."""
    (path := folder / "python").write_text(f'#!/bin/sh\necho $$ > {group}/cgroup.procs\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)


DIVIDE = """
import json, os, subprocess, sys
from glremote.host.gateway import cgroups

controller, bound = sys.argv[1:]
cgroups.CONTROLLER, write = controller, cgroups._write
cgroups._write = lambda path, text: write(path.with_name(bound) if path.name == "memory.max" else path, text)

def where(process="self"):
    return open(f"/proc/{process}/cgroup").read().split("0::", 1)[1].split("\\n")[0].rpartition("/")[2]

groups, line = cgroups.begin()
sleeper = subprocess.Popen(["sleep", "600"])
told = {"line": line, "gateway": where(), "bound": None}
if groups is not None:
    group = groups.add(700 << 20)
    group.enter(sleeper.pid)
    told |= {"sleeper": where(sleeper.pid), "group": group.path.name, "bound": (group.path / bound).read_text()}
    again = cgroups.begin()[1]
    groups.remove(group)  # it is ended first
    sleeper.wait(30)
    groups.close()
    told |= {"again": again, "status": sleeper.returncode, "after": where(), "left": group.path.exists()}
else:
    sleeper.kill()
print(json.dumps(told))
"""
BOUNDS = {"memory": "memory.max", "hugetlb": "hugetlb.2MB.max"}


@pytest.mark.parametrize("controller", BOUNDS)
def test_a_gateway_divides_the_group_that_it_is_in(group: Path, tmp_path: Path, controller: str) -> None:
    """Also with a controller that is of no use here, but follows the same rules."""
    with handed_down(group.parent, controller):
        done = subprocess.run(
            [starter(group, tmp_path), "-P", "-c", DIVIDE, controller, BOUNDS[controller]],
            env=environment(), capture_output=True, text=True, timeout=DEADLINE,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["line"] == f"each worker's memory is bounded by the kernel, by a cgroup of its own in {group}"
        assert told["gateway"] == "glremote-gateway"
        assert told["sleeper"] == told["group"] == "glremote-worker-2"
        assert int(told["bound"]) == 700 << 20
        assert told["again"].endswith(f"{group}: another host divides it")
        assert told["status"] == -signal.SIGKILL
        assert told["after"] == group.name
        assert not told["left"]
        assert not [path for path in group.iterdir() if path.is_dir()]


Start = Callable[..., Host]


@pytest.fixture
def start(group: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a gateway with stand-ins for workers in that group, which looks at nobody's memory itself."""
    with handed_down(group.parent, "memory"), contextlib.ExitStack() as stack:

        def start(**options: Any) -> Host:
            with pytest.MonkeyPatch.context() as patch:
                command = [sys.executable, "-I", "-S", str(tmp_path / "worker.py")]
                patch.setattr(sys, "executable", starter(group, tmp_path))
                options = {"worker_command": command, "constants": {"LOOKING": 3600.0}} | options
                host = Host(tmp_path, **options)
            stack.callback(host.close)
            return host

        yield start


def group_of_process(process: int) -> Path:
    """Where the kernel says that it is."""
    path = Path(f"/proc/{process}/cgroup").read_text().split("0::/", 1)[1].splitlines()[0]
    return top() / path


def test_the_kernel_ends_a_worker_that_holds_too_much_and_no_other(start: Start, group: Path) -> None:
    host = start(worker_memory=200, warm=1)
    client, other = host(), host()
    process = client.hello()["pid"]
    within = group_of_process(process)
    assert within.parent == group
    assert 0 <= 200_000_000 - int((within / "memory.max").read_text()) < os.sysconf("SC_PAGE_SIZE")
    assert (within / "cgroup.procs").read_text() == f"{process}\n"
    assert client.ask(b"hold 100") == b"held"
    client.say(b"hold 300")
    assert client.lost() == (
        "the worker process held 200 MB of memory, and may hold 200; "
        "release what is not needed, or serve with a greater --worker-memory"
    )
    eventually(lambda: not within.exists())
    assert other.ask(b"word") == b"word"
    assert group_of_process(other.hello()["pid"]).parent == group
    assert host.end() == 0
    assert [path for path in group.iterdir() if path.is_dir()] == []
    assert (group / "cgroup.subtree_control").read_text().split() == []


def test_a_worker_that_cannot_begin_with_so_little_says_so(start: Start) -> None:
    host = start(worker_memory=1)
    client = host()
    assert "MB of memory, and may hold 1; release" in client.lost()


def test_a_host_that_has_no_memory_left_is_another_matter(start: Start, group: Path) -> None:
    host = start(worker_memory=2000)
    client = host()
    client.hello()
    (group / "memory.max").write_text(str(300 * MIB))
    (group / "memory.swap.max").write_text("0")
    client.say(b"hold 400")
    lost = client.lost()
    assert lost == "the host had no memory left, and its kernel ended the worker process"


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_killed_gateway_leaves_nothing_to_the_next(start: Start, group: Path, loop: str) -> None:
    host = start(warm=2, loop=loop)
    process = host().hello()["pid"]
    host.process.kill()
    host.process.wait()
    eventually(lambda: not runs(process))
    left = [path.name for path in group.iterdir() if path.is_dir()]
    assert len(left) > 2
    (group / "cgroup.subtree_control").write_text("-memory")  # as whoever starts the next must do to be in the group
    host = start(loop=loop)
    assert host().ask(b"word") == b"word"
    assert len([path for path in group.iterdir() if path.is_dir()]) == 2
    assert "by a cgroup of its own" in host.errors()


def test_a_host_says_which_of_them_holds(tmp_path: Path) -> None:
    with contextlib.closing(Host(tmp_path)) as host:
        assert cgroups.outlook() in host.errors()


@contextlib.contextmanager
def handed_down(parent: Path, controller: str) -> Iterator[None]:
    """A controller that groups below have, for as long as that lasts."""
    known = (parent / "cgroup.subtree_control").read_text().split()
    if controller not in (parent / "cgroup.controllers").read_text().split():
        pytest.skip(f"there is no controller {controller} in {parent}")
    if controller in known:
        yield
        return
    try:
        (parent / "cgroup.subtree_control").write_text(f"+{controller}")
    except OSError as error:
        pytest.skip(f"the controller {controller} cannot be handed down from {parent}: {error}")
    try:
        yield
    finally:
        (parent / "cgroup.subtree_control").write_text(f"-{controller}")
