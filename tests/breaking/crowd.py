"""A crowd on one host: many sessions at once, of programs in processes of their own that come and go.

Knows: how such a process is started and told something, and what must come of every session: it comes to the right
digests until it is said goodbye to, unless something was done to it that it must not outlive; then it is told of that.
Does not know: what is done to whom (disturbing.py), or how a program works (seats.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import moderngl
import msgspec

from glremote.host.serving import LocalHost, environment
from glremote.recording import known
from tests.pages import metrics
from tests.processes import Holding, children, doors, holding, listening, told
from tests.relay import FAST, Line, Relay

from .seats import DEADLINE, Settings
from .sessions import Program

WARM = 2
"""Workers that the host keeps ready."""
LINES = (FAST, FAST, Line(0.005, 100), Line(0.03, 10))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How large a crowd, and what is done to it."""

    clients: int
    """Processes."""
    seats: int = 2
    """In each; every other goes near."""
    seconds: float
    seed: int
    between: float
    """Seconds between two disturbances, on average."""
    pause: float
    """Seconds between two rounds of a program, at most."""
    grace: float
    buffer_seconds: float = 5.0
    patience: float = 0.0
    """Seconds after which keepalive has given up a client or a link for sure; 0: nothing takes so long here."""

    @property
    def sessions(self) -> int:
        """In all."""
        return self.clients * self.seats

    @property
    def options(self) -> tuple[str, ...]:
        """Of the host. A client that is killed keeps its places for the grace time."""
        limits = f"buffer-seconds={self.buffer_seconds},object-bytes=64m"
        options = f"--warm {WARM} --grace {self.grace} --max-sessions {4 * self.sessions + 32}"
        return (*options.split(), "--limit", limits, "--worker-memory", "600")


@dataclass(eq=False)
class Session:
    """What is known of one, from when it began until it is lost or was said goodbye to."""

    seat: int
    door: str
    doom: str = ""
    """What it must be told soon."""
    by: str = ""
    """The disturbance that did it."""
    since: float = 0.0


class Client:
    """A process of the crowd, and its relay."""

    def __init__(
        self, token: str, settings: Settings, hear: Callable[[Client, dict[str, Any]], None], line: Line | None = None
    ) -> None:
        """`hear` is called by a thread of the client's with all that it tells. Without a line there is no relay."""
        self.sessions: dict[int, Session] = {}
        """By seat."""
        self.seats = len(settings.near)
        self.stopped = False
        self.on_go = 0.0
        """When it was last continued."""
        self.may_end = False
        """Whether it is to be gone soon."""
        self.clear_from = 0.0
        """When it hears again at once what it is told: its links were cut or have stalled."""
        self.relay = None
        if line is not None:
            self.relay = Relay(line, urlsplit(settings.url).port or 0).__enter__()
            settings = msgspec.structs.replace(settings, url=f"ws://127.0.0.1:{self.relay.port}")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.breaking.seats", msgspec.json.encode(settings).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(token),
        )
        threading.Thread(target=self._listen, args=(hear,), name="client", daemon=True).start()

    @property
    def is_full(self) -> bool:
        """Whether in every seat there is a session that goes on."""
        return len(self.sessions) == self.seats and not self.doomed

    @property
    def doomed(self) -> list[Session]:
        """Sessions that are to be told something soon."""
        return [session for session in self.sessions.values() if session.doom]

    def do(self, what: str, seat: int = 0) -> None:
        """Tell it something."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({"do": what, "seat": seat}).encode() + b"\n")
            self.process.stdin.flush()

    def close(self) -> None:
        """Kill it, if it is there yet."""
        self.process.kill()
        self.process.wait()
        if self.relay is not None:
            self.relay.__exit__(None, None, None)
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def _listen(self, hear: Callable[[Client, dict[str, Any]], None]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                hear(self, json.loads(line))
        hear(self, {"what": "gone", "status": self.process.wait()})


class Crowd:
    """`with Crowd(plan) as crowd:` is a host, and clients on it as soon as they are added."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = random.Random(plan.seed)
        self.clients: list[Client] = []
        self.counts: Counter[str] = Counter()
        self.disturbed: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        """Sessions, by what was done to them."""
        self.heard: defaultdict[str, list[float]] = defaultdict(list)
        """Seconds until a program that waited was told, over links that were not disturbed meanwhile."""
        self.replaces = True
        """Whether another client takes the place of one that is gone."""
        self._messages: queue.SimpleQueue[tuple[Client, dict[str, Any]]] = queue.SimpleQueue()
        self._seeds = iter(range(plan.seed, sys.maxsize))
        self._digest = undisturbed()
        self._stack = contextlib.ExitStack()
        self._doors: set[str] = set()

    def __enter__(self) -> Crowd:
        self._shared = {*os.listdir("/dev/shm")}
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crowd-")))
            self._temporary, self._cache = folder / "tmp", folder / "cache"
            self._temporary.mkdir()
            places = {"TMPDIR": str(self._temporary), known.VARIABLE: str(self._cache)}
            stack.enter_context(mock.patch.dict(os.environ, places))
            stack.push(self._nothing_is_left)
            self.host = stack.enter_context(LocalHost(*self.plan.options))
            stack.callback(self._close)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note("the host said last:\n" + "\n".join(self.host.said().splitlines()[-20:]))
        self._stack.__exit__(kind, error, trace)

    def _close(self) -> None:
        for client in self.clients:
            client.close()

    def add(self, near: Sequence[bool], **settings: Any) -> Client:
        """One more client."""
        seed = next(self._seeds)
        given = Settings(self.host.url, self._digest, tuple(near), self.plan.pause, seed, **settings)
        line = self.chance.choice(LINES)
        client = Client(self.host.token, given, lambda *heard: self._messages.put(heard), line)
        self.clients.append(client)
        return client

    def fill(self) -> None:
        """As many as there are to be."""
        while len(self.clients) < self.plan.clients:
            self.add([bool(seat % 2) for seat in range(self.plan.seats)])

    # --- what they tell

    def hear(self, seconds: float) -> None:
        """Take what they tell in so many seconds. AssertionError where it is not what must be."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                client, message = self._messages.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if client in self.clients:
                getattr(self, f"_{message['what']}")(client, message)
        for client in self.clients:
            for session in client.doomed:
                late = time.monotonic() - max(session.since, client.on_go)
                assert client.stopped or late < DEADLINE, f"it was not told that {session.doom}"

    def _began(self, client: Client, message: dict[str, Any]) -> None:
        self._doors.add(message["door"])
        self.counts["near" if message["near"] else "websocket"] += 1
        client.sessions[message["seat"]] = Session(message["seat"], message["door"])

    def _lost(self, client: Client, message: dict[str, Any]) -> None:
        session = client.sessions.pop(message["seat"])
        why = message["why"]
        assert session.doom, f"a session was lost to which nothing was done: {why}"
        assert session.doom in why, f"a session was lost for another reason than {session.doom!r}: {why}"
        self.lost[session.by] += 1
        self.counts["rounds"] += message["rounds"]
        if max(client.on_go, client.clear_from) < session.since:
            self.heard[session.by].append(message["at"] - max(session.since, message["waited"]))

    def _finished(self, client: Client, message: dict[str, Any]) -> None:
        session = client.sessions.pop(message["seat"])
        assert not session.doom, f"it was not told that {session.doom}"
        self.counts["finished"] += 1
        self.counts["rounds"] += message["rounds"]

    def _misdeed(self, client: Client, message: dict[str, Any]) -> None:
        self.counts["misdeeds outlived"] += 1

    def _wrong(self, client: Client, message: dict[str, Any]) -> None:
        raise AssertionError(message["why"])

    def _ended(self, client: Client, message: dict[str, Any]) -> None:
        client.may_end = True

    def _gone(self, client: Client, message: dict[str, Any]) -> None:
        assert client.may_end, f"a client process ended with status {message['status']}"
        self.counts["gone with their process"] += len(client.sessions)
        self.clients.remove(client)
        client.close()
        if self.replaces:
            self.fill()

    # --- the host

    def worker(self, session: Session) -> int:
        """The process of a session that goes on."""
        return doors(children(self.host.pid))[session.door]

    def warm_up(self) -> Holding:
        """Have as many sessions at once as there will be, for a moment; what the gateway holds behind them."""
        self.replaces = False
        self.add([bool(seat % 2) for seat in range(self.plan.sessions)], rounds=1)
        self._until(lambda: not self.clients)
        self.counts.clear()
        self.replaces = True
        return self.at_rest()

    def finish(self) -> None:
        """Have everybody say goodbye, when what was done has been told, and hear them out."""
        self.replaces = False
        self._until(lambda: not any(client.stopped or client.doomed for client in self.clients))
        for client in self.clients:
            client.do("finish")
        self._until(lambda: not self.clients)

    def at_rest(self) -> Holding:
        """What the gateway holds when there is no session any more, and its warm workers are ready."""
        self._until(self._is_at_rest)
        found = [holding(self.host.pid)]
        while len(found) < 20:  # our last look may still be open
            self.hear(0.05)
            found.append(holding(self.host.pid))
        return min(found, key=lambda each: each.descriptors)

    def _is_at_rest(self) -> bool:
        found = metrics(self.host.url)

        def total(*names: str) -> float:
            return sum(value for name, value in found.items() if name.split()[0] in names)

        gauges = total("glremote_sessions", "glremote_sessions_near", "glremote_waiting")
        ended, begun = total("glremote_sessions_ended_total"), total("glremote_sessions_begun_total")
        workers = len(children(self.host.pid))
        return not gauges and ended == begun and total("glremote_workers_warm") == workers == WARM

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE + self.plan.grace
        while not condition():
            assert time.monotonic() < deadline, "it never held"
            self.hear(0.1)

    def _nothing_is_left(self, kind: type[BaseException] | None, *_: object) -> None:
        """Of the host, on the machine, when it has ended."""
        name = re.compile("[0-9a-f]{16}-[0-9a-f]{64}")  # of what clients keep of programs
        deadline = time.monotonic() + 10.0
        while (found := told("TMPDIR", str(self._temporary))) and time.monotonic() < deadline:
            time.sleep(0.05)
        left = [
            *(f"process {pid}" for pid in found),
            *(f"the door {door}" for door in self._doors & {*listening().values()}),
            *(f"/dev/shm/{name}" for name in {*os.listdir("/dev/shm")} - self._shared),
            *map(str, self._temporary.iterdir()),
            *(str(path) for path in self._cache.rglob("*") if path.is_file() and not name.fullmatch(path.name)),
        ]
        assert kind is not None or not left, f"left on the machine: {left}"


def undisturbed() -> str:
    """What a round comes to in plain moderngl."""
    ctx = moderngl.create_context(require=430, standalone=True, backend="egl")  # type: ignore[arg-type]
    digest = Program(ctx).round()
    ctx.release()
    return digest
