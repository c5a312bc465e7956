"""A session on a host, seen from the client: the device that a recorded context works on.

Knows: how to open, use, resume and close a session over whatever links its connector makes. Does not know: moderngl,
or who records. Buffers go in through `submit`; answers come out through the Pending of their ticket.

Threads. Any thread may submit. One thread receives at a time (turn.py).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import math
import operator
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from glremote.link import near
from glremote.link.links import Link, LinkBroken
from glremote.link.pace import FAR, Pace
from glremote.link.pump import Watch, pump
from glremote.protocol import handshake
from glremote.protocol.errors import (
    DeviceLost,
    Error,
    Inherited,
    LinkError,
    NobodyListens,
    NotAdmitted,
    ProtocolError,
)
from glremote.protocol.messages import (
    Answer,
    Buffer,
    Fault,
    Goodbye,
    Lost,
    Notice,
    Refused,
    Resume,
    Resumed,
    decode,
)
from glremote.protocol.packing import prepare
from glremote.protocol.session import Session
from glremote.protocol.stacks import ALIGNMENT, Stack

from . import ending
from .choosing import DeviceRecord
from .devices import Traffic
from .opening import GREETING_TIMEOUT, greet, prove, tell
from .road import Connector, Road
from .turn import Turn, Waiting
from .waiting import Pending

log = logging.getLogger("glremote")

_DONE = operator.attrgetter("done")
REFUSED = 0.3
"""Seconds for which nobody listens at the host's port; then the gateway is no more, and its sessions have ended too."""


class RemoteDevice:
    """One session on a host."""

    remote = True

    def __init__(
        self,
        connector: Connector,
        host: str,
        reason: str,
        software: str,
        moderngl: str,
        require: int,
        allow_near: bool = True,
    ) -> None:
        self.host = host
        self.reason = reason
        self.listed: DeviceRecord | None = None
        """The device as it was listed, where one was named or chosen."""
        self.traffic = Traffic()
        self.lost: Error | None = None
        self.on_fault: Callable[[Fault], None] = lambda fault: None
        self.on_lost: Callable[[], None] = lambda: None
        self.on_idle: Callable[[], float | None] = lambda: None
        self.on_exit: Callable[[], None] = self.close
        self._tickets: dict[int, Pending] = {}
        self.complete: deque[Pending] = deque()
        """Answers whose owners are to be told."""
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()  # the session and the link's sending side
        self.turn = Turn(self)
        self.sections = self.turn.sections
        """Whoever does several things with the device at once enters it, so that Ctrl-C comes before or behind them."""
        self._reconnecting = self._closing = False
        ending.wait_if_over()
        self.road = Road(connector)
        with ending.beginning(self):
            self._greet(software, moderngl, require, allow_near)
            ending.begun(self)
        pump().add(self)

    def _greet(self, software: str, moderngl: str, require: int, allow_near: bool) -> None:
        host = self.host
        try:
            self.distance, self.place = self.road.link.distance, self.road.link.device
            self._pace = Pace(self.distance, time.perf_counter())
            if self._pace.level:
                threading.Thread(target=prepare, daemon=True).start()  # while the host's greeting is on its way
            self.greeting = greet(self.road.link, host, handshake.hello(software, moderngl, require, self.distance))
            self.driver = self.greeting.driver
            offer = self.greeting.near if allow_near else None
            self._session = self._begin(near.connect(offer, self.greeting.stack_size))
            self._session.packer.level = self._pace.level
        except BaseException:
            with contextlib.suppress(Exception):  # it may have begun there, as where Ctrl-C has ended the wait here
                tell(self.road.lifeline or self.road.link, Goodbye())
            self.road.close()
            raise
        self.stack = self._session.writes

    def _begin(self, way: tuple[Link, Stack, Stack] | None) -> Session:
        """The session's core; near, if there is a way past the gateway: the websocket is its lifeline then."""
        size = self.greeting.stack_size
        if way is None:
            return Session(Stack(size), Stack(size))
        link, writes, reads = way
        self.road.go_near(link)
        session = Session(writes, reads)
        session.disconnect()
        self._session = session
        if not self._resume_over(link, time.monotonic() + GREETING_TIMEOUT):
            log.warning("%s: the worker let us in and did not answer; everything goes over the websocket", self.host)
            self.road.fall_back()
            self._reconnect(contextlib.nullcontext())
        return session

    def __repr__(self) -> str:
        state = "lost" if self.lost is not None else "near" if self.near else "connected"
        return f"<RemoteDevice {self.host}, {self.renderer}, {state}: {self.reason}>"

    @property
    def near(self) -> bool:
        """Whether everything goes past the gateway, and through shared memory."""
        return self.road.near

    @property
    def far(self) -> bool:
        """Whether a round trip takes so long that it is worth work to be spared one."""
        return self.distance >= FAR and not self.near

    @property
    def renderer(self) -> str:
        """The name of the OpenGL renderer on the host."""
        return str(self.driver.info["GL_RENDERER"])

    # --- going up

    def submit(self, body: bytes, commands: int, epoch: int, mark: int) -> int:
        """Send a command buffer of so many commands, and what was pushed to the stack for it.

        `mark` is the stack's head behind that, 0 while more is to come.
        Never waits. Returns the buffer's number. Nothing is sent on a lost session. The caller is in `sections`.
        """
        if self.lost is not None:
            return 0
        with self._lock:
            session, traffic = self._session, self.traffic
            if session.writes.fresh:
                self._send_patches()
            number = session.send(Buffer, epoch, body=body, mark=mark)
            traffic.buffers += 1
            traffic.commands += commands
            self._send()
        return number

    def send_patches(self) -> None:
        """Let what was pushed to the stack go ahead of its buffer."""
        with self.sections, self._lock:
            self._send_patches()
            self._send()

    def _send_patches(self) -> None:
        session, began = self._session, time.perf_counter()
        size = sum(span.size for span, *_ in session.writes.fresh)
        session.send_patches()
        now = time.perf_counter()
        session.packer.level = self._pace.packed(size, now - began, now)

    @property
    def has_room(self) -> bool:
        """Whether the credit admits another command buffer; where not, recording waits with `wait_until`."""
        return self._session.has_room()

    def _send(self) -> None:
        link = self.road.link
        try:
            if link.send(self._session.packets()):
                pump().poke()
        except LinkBroken as error:
            self._disconnected(error)

    # --- coming down

    def expect(self, pending: Pending) -> int:
        """A new ticket, under which the answer will come to `pending`."""
        ticket = next(self._numbers)
        self._tickets[ticket] = pending
        if self.lost is not None:  # it may have been lost meanwhile, and all that was asked before been told
            self.give_up(ticket, self.lost)
        return ticket

    def give_up(self, ticket: int, error: Error) -> None:
        """The question of this ticket is never sent."""
        if (pending := self._tickets.pop(ticket, None)) is not None:
            pending.finish(error)
            pending.notify()

    def stir(self) -> None:
        """Something was recorded while the pump slept: let it look in now and then."""
        pump().poke()

    def outstanding(self) -> int:
        """How many answers are on their way."""
        return len(self._tickets)

    def wait(self, pending: Pending) -> None:
        """Wait for an answer; it ends also when the session is lost. Ctrl-C ends the wait and nothing else."""
        with self.sections:
            self.wait_within(pending)
        if self.complete:
            self.notify()
        if self.lost is not None:
            ending.wait_if_over()

    def wait_within(self, pending: Pending) -> None:
        """The same, for a caller who is in `sections`, and who notifies behind them."""
        self.traffic.waits += 1
        self.turn.until(functools.partial(_DONE, pending))
        while not pending.done and not isinstance(self.lost, Inherited):
            self.turn.pause(0)  # another thread has found that the session is lost, and is telling everybody

    def wait_for_room(self, finished: Callable[[], bool]) -> None:
        """The same, for what the link has not taken yet."""
        began = time.perf_counter()
        self.wait_until(finished)
        self._pace.waited(time.perf_counter() - began)

    def wait_until(self, finished: Callable[[], bool]) -> None:
        """Receive, in this thread, until something holds or the session is lost."""
        with self.sections:
            self.turn.until(finished)
        if self.complete:
            self.notify()

    def receive(self, timeout: float, waiting: Waiting) -> None:
        """See turn.py, which calls it."""
        if not self._session.connected:
            self._reconnect(waiting)
            return
        link, lifeline = self.road.link, self.road.lifeline
        try:
            packets = link.receive_soon()
            if not packets:
                self.turn.asleep = True
                try:
                    with waiting:
                        ready = link.poll(timeout, lifeline)
                finally:
                    self.turn.asleep = False
                if self.road.link is not link:  # another was opened within
                    return
                if lifeline is not None and lifeline.fileno() in ready:
                    self._look_at_lifeline(lifeline)
                packets = link.receive()
            with self._lock:
                for packet in packets:
                    self._take(packet)
                self._session.acknowledge(at_once=False)
                if self._session.outgoing:
                    self._send()
        except LinkBroken as error:
            self._disconnected(error)
        except ProtocolError as error:
            self._lose(error)

    def _look_at_lifeline(self, lifeline: Link) -> None:
        """The gateway says there when the session is lost; the session itself goes another way."""
        try:
            for packet in lifeline.receive():
                for message, _ in decode(packet):
                    if isinstance(message, Lost | Refused):
                        self._lose(DeviceLost(f"{self.host}: {message.reason}"))
                    elif isinstance(message, Notice):
                        log.warning("%s: %s", self.host, message.text)
        except LinkBroken as error:
            if self._closing:
                return
            log.warning("%s: %s; connecting the lifeline again", self.host, str(error))  # no frames for who keeps logs
            with self._lock:
                self.road.lose_lifeline()
            pump().poke()

    def _take(self, packet: Any) -> None:
        for message, _ in self._session.receive(packet):
            if type(message) is Answer:
                self._answer(message)
            elif isinstance(message, Fault):
                self.on_fault(message)
                self._session.done(message.number)
            elif isinstance(message, Resumed):
                self._session.resume(message.applied)
            elif isinstance(message, Lost | Refused):
                self._lose(DeviceLost(f"{self.host}: {message.reason}"))
            elif isinstance(message, Notice):
                log.warning("%s: %s", self.host, message.text)
            else:
                raise ProtocolError(f"{self.host} sent {type(message).__name__}")

    def _answer(self, answer: Answer) -> None:
        pending, session, span = self._tickets.get(answer.ticket), self._session, answer.span
        if pending is None:
            raise ProtocolError(f"{self.host} answered ticket {answer.ticket}, which nobody holds")
        if answer.error is not None:
            pending.finish(answer.error)
        elif span is not None:
            pending.take(answer.start, answer.total, session.reads.view(span))
        else:
            pending.finish()
        session.done(answer.number, 0 if span is None else span.size)
        if pending.done:
            del self._tickets[answer.ticket]
            if pending.finished is not None:
                self.complete.append(pending)

    # --- the pump's side

    def tick(self) -> Watch:
        """See link/pump.py: send what has been idle, say what to wait for."""
        if self.lost is not None:
            return Watch()
        due = self.on_idle()
        link, lifeline = self.road.link, self.road.lifeline
        if link.has_unsent:
            with self._lock:
                self._send()
        if not self._session.connected or self.road.lacks_lifeline:
            self._start_reconnecting()
        if not self._session.connected:
            return Watch(due=due)
        for one in (link, lifeline):
            if one is not None and (beat := one.keep_alive()) is not None:
                due = beat if due is None else min(due, beat)
        descriptor = link.fileno()
        writing = (descriptor,) if link.has_unsent else ()
        if leased := self.turn.leased:
            return Watch((), writing, leased if due is None else min(due, leased))
        with self._lock:
            self._session.acknowledge()
            self._send()
        return Watch((descriptor, -1 if lifeline is None else lifeline.fileno()), writing, due)

    def ready(self) -> None:
        """See link/pump.py."""
        if self.lost is None and self.turn.once():
            self.notify()

    def notify(self) -> None:
        """Tell the owners of answers that are complete; what they do then is theirs, so no lock is held."""
        while self.complete:
            self.complete.popleft().notify()

    # --- breaking, resuming, ending

    def _disconnected(self, error: LinkBroken) -> None:
        """The link broke: keep everything, and let whoever receives next connect again."""
        with self._lock:
            if not self._session.connected or self.lost is not None:
                return
            log.warning("%s: %s; resuming", self.host, str(error))
            self._session.disconnect()
            self.road.fall_back()
        pump().poke()

    def measure(self) -> Traffic:
        """The traffic so far. Near, stacks are shared: their bytes are not sent, and not counted."""
        self.traffic.bytes_up, self.traffic.bytes_down = self.road.measure()
        return self.traffic

    def _start_reconnecting(self) -> None:
        if not self._reconnecting:
            self._reconnecting = True
            threading.Thread(target=self._reconnect_alone, name="glremote resume", daemon=True).start()

    def _reconnect_alone(self) -> None:
        try:
            with self.turn.lock:
                if self.lost is None and not self._session.connected:
                    self._reconnect(contextlib.nullcontext())
                elif self.lost is None and self.road.lacks_lifeline:
                    self._reconnect(contextlib.nullcontext(), lifeline=True)
        finally:
            self._reconnecting = False
            self.notify()
            pump().poke()

    def _reconnect(self, waiting: Waiting, lifeline: bool = False) -> None:
        """Connect again, with backoff, for as long as the host keeps the session. It is the caller's turn."""
        deadline = time.monotonic() + self.greeting.grace
        pause = 0.05
        why, refused_since = "the connection broke", math.inf
        prove_ = functools.partial(prove, host=self.host, key=self.greeting.key)
        while self.lost is None:
            try:
                link = self.road.another(self.greeting.session, prove_)
                if lifeline:
                    self.road.lifeline = link
                    return
                if self._resume_over(link):
                    return
                deadline = time.monotonic() + self.greeting.grace  # the host has seen us
            except NotAdmitted as error:
                self._lose(DeviceLost(f"the session is gone: {error}"))
                return
            except LinkError as error:
                why = str(error)
                if not isinstance(error, NobodyListens):
                    refused_since = math.inf
                elif time.monotonic() - (refused_since := min(refused_since, time.monotonic())) >= REFUSED:
                    self._lose(DeviceLost(f"the host has ended, and the session with it: {why}"))
                    return
            if time.monotonic() + pause > deadline:
                self._lose(DeviceLost(f"not resumed within {self.greeting.grace:.0f} s: {why}"))
                return
            with waiting:
                time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _resume_over(self, link: Link, deadline: float = math.inf) -> bool:
        """Resume the session over a link; whether it could be, which it also could not when it is lost meanwhile.

        A worker that is busy answers late: only a link that breaks or stalls ends it.
        """
        try:
            tell(link, Resume(self._session.resuming()))
            while self.lost is None and time.monotonic() < deadline:
                packets = link.receive(0.2)
                link.keep_alive()
                with self._lock:
                    for packet in packets:
                        self._take(packet)
                    if self._session.connected:
                        self.road.link = link
                        self._send()
                        return True
        except LinkBroken:
            pass
        except ProtocolError as error:
            self._lose(error)
        link.close()
        return False

    def _lose(self, error: Error) -> None:
        """The session is gone, now and for good."""
        with self._lock:
            if self.lost is not None:
                return
            self.lost = error if isinstance(error, DeviceLost) else DeviceLost(f"{self.host}: {error}")
            self.road.close()
            self._session = Session(Stack(ALIGNMENT), Stack(ALIGNMENT))  # the memory of the stacks goes at once
            self._session.disconnect()
            self.stack = self._session.writes
            tickets, self._tickets = self._tickets, {}
        ending.ended(self)
        for pending in tickets.values():
            pending.finish(self.lost)
            self.complete.append(pending)
        self.on_lost()
        with contextlib.suppress(Exception):
            pump().remove(self)

    def close(self, why: DeviceLost | None = None) -> None:
        """Say goodbye: the host frees everything at once. `why` is raised from now on. The second call does nothing."""
        with self.sections, self._lock:
            self._closing = True
            if self.lost is None and self._session.connected:
                self._session.tell(Goodbye())
                with contextlib.suppress(LinkBroken):
                    self.road.link.send(self._session.packets())
                    self.road.link.drain(ending.patience())
            self._lose(why or DeviceLost("the session was closed"))
        self.notify()

    def inherit(self) -> None:
        """In a forked child: this session is the parent's. Close our copy of its socket and say nothing."""
        self._lock = threading.RLock()
        self.turn.inherit()
        self.lost = Inherited(
            "this context was made by the parent process and was inherited by a fork; make a context in each process"
        )
        self.road.close()
        self.on_lost()
