"""What is done to a crowd (crowd.py), by chance: each is a function that says whether it found somebody to do it to."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.processes import runs
from tests.relay import Fault, Relay

from .crowd import Client, Crowd, Session
from .seats import ask_too_much, hold_too_much, run_without_end
from .sessions import some_faults

ROUND = 20_000
"""Bytes of a round over the websocket, about."""
STOPS = 0.2, 1.5
"""Seconds for which a client process is stopped."""
RESUMING = 10.0
"""Seconds after which a link that was cut is there again, for sure."""
KILLED = "the worker process was killed by SIGKILL"
TOO_LONG = "that buffer-seconds allows here"
TOO_MUCH = "MB of memory, and may hold"
GIVEN_UP = "nobody came back to it within"
"""What DeviceLost says of each."""


@dataclass(frozen=True)
class Disturbance:
    """Something that is done, how often beside the others, and whether only where there is much time."""

    name: str
    do: Callable[[Crowd, str], bool]
    times: int = 1
    is_long: bool = False


def pack(crowd: Crowd) -> list[Disturbance]:
    """All that there is time for."""
    return [one for one in DISTURBANCES for _ in range(one.times) if crowd.plan.patience or not one.is_long]


def deal(crowd: Crowd) -> Iterator[Disturbance]:
    """One after the other, for ever: as from a pack of cards, so that each comes soon."""
    while True:
        cards = pack(crowd)
        crowd.chance.shuffle(cards)
        yield from cards


def _anybody(client: Client) -> bool:
    return True


def _some(crowd: Crowd, fits: Callable[[Client], bool] = _anybody) -> Client | None:
    found = [client for client in crowd.clients if not client.may_end and fits(client)]
    return crowd.chance.choice(found) if found else None


def _goes_on(client: Client) -> bool:
    """Whether it does not stand still."""
    return not client.stopped


def _is_clear(client: Client) -> bool:
    """Whether nothing that takes long was done to it lately: two in a row are longer than the host waits."""
    return not client.stopped and client.clear_from < time.monotonic()


def _doom(crowd: Crowd, words: str, by: str) -> tuple[Client, Session] | None:
    """A session that is to be told these words."""
    if (client := _some(crowd, lambda client: client.is_full)) is None:
        return None
    session = crowd.chance.choice(list(client.sessions.values()))
    session.doom, session.by, session.since = words, by, time.monotonic()
    return client, session


# --- clients


def kill_client(crowd: Crowd, name: str) -> bool:
    """With SIGKILL."""
    if (client := _some(crowd)) is None:
        return False
    client.may_end = True
    client.process.kill()
    return True


def leave(crowd: Crowd, name: str) -> bool:
    """A program that exits without goodbye."""
    if (client := _some(crowd, _goes_on)) is None:
        return False
    client.may_end = True
    client.do("leave")
    return True


def stop(crowd: Crowd, name: str) -> bool:
    """With SIGSTOP, for a moment."""
    return _stop(crowd, _some(crowd, _goes_on), crowd.chance.uniform(*STOPS))


def stop_for_long(crowd: Crowd, name: str) -> bool:
    """For longer than keepalive waits, and not so long that the host gives it up."""
    if (client := _some(crowd, _is_clear)) is None:
        return False
    client.clear_from = time.monotonic() + crowd.plan.patience + RESUMING
    return _stop(crowd, client, crowd.plan.patience)


def stop_for_too_long(crowd: Crowd, name: str) -> bool:
    """Until the host has given it up."""
    if (client := _some(crowd, lambda client: client.is_full and not client.stopped)) is None:
        return False
    workers = [crowd.worker(session) for session in client.sessions.values()]
    for session in client.sessions.values():
        session.doom, session.by, session.since = GIVEN_UP, name, time.monotonic()
    return _stop(crowd, client, 0.0, lambda: any(map(runs, workers)))


def _stop(crowd: Crowd, client: Client | None, seconds: float, too_early: Callable[[], bool] = lambda: False) -> bool:
    if client is None:
        return False
    client.process.send_signal(signal.SIGSTOP)
    client.stopped = True

    def go_on() -> None:
        time.sleep(seconds)
        while too_early():
            time.sleep(0.1)
        client.on_go = time.monotonic()
        client.process.send_signal(signal.SIGCONT)
        client.stopped = False

    threading.Thread(target=go_on, name="stopped", daemon=True).start()
    return True


# --- links


def cut(crowd: Crowd, name: str) -> bool:
    """All of a client's, now: those of sessions, and lifelines."""
    if (relay := _relay(crowd, 0.0)) is None:
        return False
    relay.cut()
    return True


def cut_and_cut(crowd: Crowd, name: str) -> bool:
    """Within a message, and again while it is resuming."""
    if (relay := _relay(crowd, 0.0)) is None:
        return False
    relay.break_after(some_faults(crowd.chance, ROUND))
    return True


def stall_for_long(crowd: Crowd, name: str) -> bool:
    """For longer than keepalive waits."""
    if (relay := _relay(crowd, crowd.plan.patience)) is None:
        return False
    relay.break_after([Fault(crowd.chance.randrange(1, ROUND), crowd.plan.patience)])
    return True


def _relay(crowd: Crowd, seconds: float) -> Relay | None:
    """One whose links are disturbed for so long, and a while until they are resumed."""
    if (client := _some(crowd, _is_clear if seconds else _anybody)) is None:
        return None
    client.clear_from = max(client.clear_from, time.monotonic() + seconds + RESUMING)
    return client.relay


# --- sessions


def kill_worker(crowd: Crowd, name: str) -> bool:
    """With SIGKILL."""
    if (found := _doom(crowd, KILLED, name)) is None:
        return False
    _, session = found
    worker = crowd.worker(session)
    session.since = time.monotonic()
    os.kill(worker, signal.SIGKILL)
    return True


def go_past_the_time(crowd: Crowd, name: str) -> bool:
    """A command buffer without end."""
    if (found := _doom(crowd, TOO_LONG, name)) is None:
        return False
    client, session = found
    client.do(run_without_end.__name__, session.seat)
    return True


def go_past_the_memory(crowd: Crowd, name: str) -> bool:
    """More than a worker may hold."""
    if (found := _doom(crowd, TOO_MUCH, name)) is None:
        return False
    client, session = found
    client.do(hold_too_much.__name__, session.seat)
    return True


def go_past_a_limit(crowd: Crowd, name: str) -> bool:
    """An object that is too large; the session goes on."""
    if (client := _some(crowd, lambda client: client.is_full)) is None:
        return False
    client.do(ask_too_much.__name__, crowd.chance.choice(list(client.sessions)))
    return True


DISTURBANCES = (
    Disturbance("client process killed", kill_client),
    Disturbance("client process exits without goodbye", leave),
    Disturbance("client process stopped for a moment", stop, 2),
    Disturbance("client process stopped for longer than keepalive waits", stop_for_long, is_long=True),
    Disturbance("client process stopped until the host gives it up", stop_for_too_long, is_long=True),
    Disturbance("worker killed", kill_worker, 3),
    Disturbance("links of a client cut", cut, 2),
    Disturbance("link cut within a message, and while resuming", cut_and_cut, 2),
    Disturbance("link stalled for longer than keepalive waits", stall_for_long, is_long=True),
    Disturbance("command buffer without end", go_past_the_time),
    Disturbance("worker that holds too much memory", go_past_the_memory),
    Disturbance("object beyond its limit", go_past_a_limit),
)
