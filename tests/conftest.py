"""One context factory, one fixture, every way there is: plain moderngl is the oracle, and the others do not differ.

    plain        moderngl's own context in this process
    in-process   a session over real bytes within this process, its interpreter on a thread of its own
    near         a session with a worker process behind a gateway, past which commands go: one machine, one user
    websocket    the same with near switched off: everything goes over the websocket
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator

import moderngl
import pytest

import glremote
from glremote.host.inprocess import InProcessHost
from glremote.host.serving import LocalHost
from glremote.recording import known

WAYS = ("plain", "in-process", "near", "websocket")
REMOTE_WAYS = WAYS[1:]


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c() -> None:
    """As in a terminal: in the background SIGINT may be ignored, by us and by our children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def folder_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is kept of programs is kept there, also by child processes; never in the user's own folder.

    And no host admits the user's own tokens, and no host of the user's is associated.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(known.VARIABLE, str(tmp_path_factory.mktemp("cache")))
        patch.setenv("GLREMOTE_TOKENS", "")
        patch.setenv("GLREMOTE_HOSTS", "")
        yield


def know_nothing(on_disk: bool = True) -> None:
    """Of programs: as a process that has just been started, for the first time, or again."""
    known.SEEN.clear()
    if on_disk and (folder := known.folder()) is not None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    """Every test asks what the driver tells of a program, as a program does that is run for the first time."""
    know_nothing()


@pytest.fixture(scope="session")
def in_process_host() -> Iterator[InProcessHost]:
    """A host in this process, for any number of contexts."""
    host = InProcessHost()
    yield host
    host.close()


@pytest.fixture(scope="session")
def served() -> Iterator[LocalHost]:
    """A real `glremote serve` on loopback."""
    with LocalHost("--max-sessions", "64") as host:
        yield host


@pytest.fixture
def new_context(request: pytest.FixtureRequest) -> Iterator[Callable[..., moderngl.Context]]:
    """Makes contexts by the name of their way; they are released when the test is over."""
    made: list[moderngl.Context] = []

    def make(way: str, require: int = 430) -> moderngl.Context:
        if way == "plain":
            ctx = moderngl.create_context(require=require, standalone=True, backend="egl")  # type: ignore[arg-type]
        elif way == "in-process":
            host = request.getfixturevalue("in_process_host")
            ctx = glremote.instance().connect(host.connect, "in-process", "a test", require)
        else:
            served = request.getfixturevalue("served")
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("GLREMOTE_NEAR", "1" if way == "near" else "0")
                ctx = glremote.create_context(served.url, token=served.token, require=require)
            device = glremote.device(ctx)
            assert isinstance(device, glremote.RemoteDevice)
            assert device.near == (way == "near")
        made.append(ctx)
        return ctx

    yield make
    for ctx in made:
        ctx.release()


@pytest.fixture(params=WAYS)
def ctx(request: pytest.FixtureRequest, new_context: Callable[..., moderngl.Context]) -> moderngl.Context:
    """A context of OpenGL 4.3 or newer, made each way in turn: what a test asserts holds for plain moderngl too."""
    return new_context(request.param)


@pytest.fixture(params=REMOTE_WAYS)
def remote(request: pytest.FixtureRequest, new_context: Callable[..., moderngl.Context]) -> moderngl.Context:
    """A remote context, made each remote way in turn."""
    return new_context(request.param)


@pytest.fixture
def near_by(new_context: Callable[..., moderngl.Context]) -> moderngl.Context:
    """A context whose host is in this process."""
    return new_context("in-process")
