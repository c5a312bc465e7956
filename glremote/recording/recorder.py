"""The recorder of one context: calls become commands, commands become command buffers.

Knows: when a buffer is closed and sent, what a call that needs an answer waits for, what a fault does to what follows.
Does not know: what a command means (the recording objects beside it do) or how a buffer travels (device/ does).

Recording takes no lock. A call appends one command to a deque; whoever sends (the recording thread when the deque is
long, a caller that waits, the pump when nothing was recorded for a moment) takes all that is there, in order. So a
finaliser may append at any time, on any thread.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from glremote.device import ending
from glremote.device.remote import RemoteDevice
from glremote.device.waiting import Pending
from glremote.protocol import buffers, messages
from glremote.protocol.commands import DEFAULT_FRAMEBUFFER, Ask, Command, Fetch, Free, Make
from glremote.protocol.errors import CannotReplay, Error, Inherited, TooLarge, WouldWait
from glremote.protocol.stacks import Span, Stack

from . import known
from .arguments import Data
from .blocks import Block, KeptBlock, Shadowed
from .faults import Fault, Released, described, is_made, is_stale, raise_error, site
from .lives import Life

if TYPE_CHECKING:
    from .objects import Recorded

FULL = 1 << 20
"""Bytes pushed to the stack, or inside commands, after which a buffer is sent."""
SHARE = FULL // 512
"""Bytes that every command counts as: after 512 commands a buffer is sent too."""
OUTSTANDING = 256
"""Answers on their way after which recording another waits."""
MOMENT = 0.003
"""Seconds without a recorded call after which the pump sends what there is."""
SITES = 4096
"""Buffers for whose commands the recording lines are kept, with GLREMOTE_DEBUG."""
MOST_SITES = 1 << 14
"""Makes whose recording lines are kept; of older ones the host has long told if they failed."""
DROWSY = 20
"""Moments without any recorded call after which the pump sleeps until it is poked."""


class Recorder:
    """Turns recorded commands into command buffers of one device, and answers into values."""

    def __init__(self, device: RemoteDevice) -> None:
        self.device = device
        self.objects: weakref.WeakValueDictionary[int, Recorded] = weakref.WeakValueDictionary()
        self.roots: list[Shadowed] = []  # what holds state and has no handle: the context
        self._commands: deque[Command] = deque()
        self._append = self._commands.append
        self._handles = itertools.count(DEFAULT_FRAMEBUFFER + 1)
        self._sending = threading.RLock()
        self._sender = 0  # the thread that is making a command buffer
        self._pushed = 0  # bytes pushed to the stack since the last buffer
        self._mark = 0  # the stack's head behind the last command that was appended
        self._marked = 0  # everything that was pushed before is freed when the buffers sent so far are done
        self._block: Block | None = None
        self._later: Pending | None = None
        self._alert = True  # recording must look here first: a fault, a lost device, a pump that sleeps
        self._quiet = True  # the pump sleeps until it is poked
        self._seen = 0  # commands that the pump saw waiting when it last looked
        self._active = self._idle_moments = 0  # recorded so far, and for how many looks nothing more
        self._epoch = 0
        self._fault: Fault | None = None
        self._fault_range = range(0)
        self._last_handle = DEFAULT_FRAMEBUFFER
        self._debug = bool(os.environ.get("GLREMOTE_DEBUG"))
        self._room = 0 if self._debug else FULL  # bytes before a buffer is sent, or before each command is looked at
        self._sites: dict[int, str] = {}  # of Makes by their handle; with GLREMOTE_DEBUG of every command by its id
        self._sent_sites: deque[tuple[int, list[str]]] = deque()
        device.on_fault = self._faulted
        device.on_lost = self._lost
        device.on_idle = self._idle
        device.on_exit = self.close

    # --- recording

    def record(self, command: Command, weight: int = 0) -> None:
        """Record a Do. `weight`: bytes inside the command, or pushed to the stack for it."""
        if self._alert:
            self._look()
        self._append(command)
        if weight:
            self._mark = self.device.stack.head
        self._room -= SHARE + weight
        if self._room <= 0:
            self._closer_look(command)

    @property
    def skips(self) -> bool:
        """Whether a call that sets what is set may be left out: a block says all that it sets, and alerts are heard."""
        return self._block is None and not self._alert

    def record_end(self, command: Command) -> None:
        """Record what ends a `with` block. While an exception leaves the block, a fault does not take its place."""
        if sys.exc_info()[1] is not None and (self._fault is not None or self.device.lost is not None):
            self._append(command)
        else:
            self.record(command)

    def make(self, owner: Recorded, command: Make, weight: int = 0) -> None:
        """Record a Make, of which `owner` is the recording object."""
        self.objects[command.handle] = owner
        if len(self._sites) > MOST_SITES:
            for oldest in list(itertools.islice(self._sites, MOST_SITES // 2)):
                self._sites.pop(oldest, None)
        self._sites[command.handle] = site()
        self.record(command, weight)
        owner.life = Life(command.handle, self._append)

    def free(self, command: Free) -> None:
        """Record a Free: from any thread, also a finaliser; it never raises and never waits."""
        self._append(command)

    def handle(self) -> int:
        """A number for a new object; never used again in this session."""
        if self.keeps:
            raise CannotReplay("a call that makes an object, inside `with glremote.record(...)`; make it before")
        handle = self._last_handle = next(self._handles)
        return handle

    def push(self, data: Data, *subject: Hashable, width: int = 4) -> Span:
        """A span of the stack with a copy of `data`; waits while the stack is full.

        `subject`: what it is of, if that may be pushed again and be alike; `width`: bytes of an element.
        """
        if self._alert:
            self._look()
        if len(data) > buffers.LARGEST_DATA:
            raise TooLarge(f"{len(data)} bytes in one piece; a command buffer holds {buffers.LARGEST_DATA}")
        if self._pushed + len(data) > buffers.LARGEST_DATA:
            if self._block is not None:
                raise self._block.too_large(self._pushed + len(data))
            self.flush()
        self._pushed += len(data)
        stack = self.device.stack
        span = stack.push(data, subject or None, width)
        while span is None:
            if self._block is not None and stack.tail >= self._marked:  # only the block itself is in the way
                raise self._block.too_large(self._pushed)
            self.flush(stack.head)
            self.device.wait_for_room(functools.partial(_moved, stack, stack.tail))
            self._look()
            span = stack.push(data, subject or None, width)
        return span

    # --- waiting

    def ask(self, kind: type[Ask], *fields: Any, answer: Any = Any) -> Any:
        """Record an Ask and wait for its answer, of type `answer`. Raises what the host's moderngl raised."""
        pending = Pending()
        self._wait(pending, kind, *fields)
        data = pending.data()
        return messages.value(data, answer) if data else None

    def fetch(self, kind: type[Fetch], size: int, *fields: Any, sink: memoryview | None = None) -> bytes:
        """Record a Fetch and wait for its `size` bytes: returned, or written to `sink` (then b"" is returned).

        Inside `later` it does not wait, and the bytes go to that Pending.
        """
        if size > buffers.LARGEST_FETCH:
            raise TooLarge(f"a read of {size} bytes; a host answers at most {buffers.LARGEST_FETCH} in one piece")
        if self._later is not None:
            self._fetch_later(self._later, kind, size, *fields)
            return b""
        pending = Pending(sink)
        self._wait(pending, kind, size, *fields)
        return pending.data()

    def fetch_ahead(self, kind: type[Fetch], size: int, *fields: Any) -> Pending | None:
        """Record a Fetch that nobody asked for yet; `taken` gives its bytes. None where it does not pay, or cannot be.

        Near it does not pay: the host would stand still for the pixels, and the client copy them twice.
        """
        if not self.device.far or self._block is not None:
            return None
        if size > buffers.LARGEST_FETCH or self.device.outstanding() >= OUTSTANDING:
            return None
        pending = Pending()
        self._ask(pending, kind, size, *fields)
        return pending

    def taken(self, pending: Pending) -> bytes | None:
        """What was fetched ahead; waits until it is there. None where it is to be asked for: it never came."""
        if self._block is not None or self._later is not None:
            return None
        self.flush()
        if not pending.done:
            self.device.wait(pending)
        if self._alert:
            self._look()
        return None if pending.error is not None else pending.data()

    @contextmanager
    def later(self, pending: Pending) -> Iterator[None]:
        """The read that is called inside is recorded, and its answer comes to `pending`."""
        self._later = pending
        try:
            yield
        finally:
            self._later = None

    def _fetch_later(self, pending: Pending, kind: type[Fetch], size: int, *fields: Any) -> None:
        """Waits only while too many answers are on their way."""
        if self._alert:
            self._look()
        if self._block is None:
            self.device.wait_until(lambda: self.device.outstanding() < OUTSTANDING)
        self._ask(pending, kind, size, *fields)
        self.flush()

    def check_sent(self, pending: Pending) -> None:
        """WouldWait where this answer is to a question of the block that is being recorded."""
        if self._block is not None and pending in self._block.asked:
            self._would_wait("the read needs an answer")

    def _ask(self, pending: Pending, kind: type[Ask] | type[Fetch], *fields: Any) -> None:
        if self._block is not None and self.keeps:
            raise CannotReplay(f"{kind.__name__} inside `with glremote.record(...)`; move the call behind the block")
        ticket = self.device.expect(pending)
        try:
            self.record(kind(ticket, *fields))
        except Error as error:
            self.device.give_up(ticket, error)
            raise
        if self._block is not None:
            self._block.asked.append(pending)

    def _wait(self, pending: Pending, kind: type[Ask] | type[Fetch], *fields: Any) -> None:
        if self._block is not None:
            self._would_wait(f"{kind.__name__} needs an answer")
        device = self.device
        if (device.turn.owner and device.turn.is_awake_here) or self._sender == threading.get_ident():
            raise WouldWait(f"{kind.__name__} needs an answer, in a finaliser, where none can come")
        with device.sections:
            self._ask(pending, kind, *fields)
            self._flush()
            device.wait_within(pending)
        if device.complete:
            device.notify()
        if self._alert:
            self._look()
        if pending.error is not None:
            raise_error(pending.error)

    def _would_wait(self, why: str) -> None:
        assert self._block is not None
        raise WouldWait(
            f"{why}, and the command buffer it would wait for is sent only at the end of "
            f"`with {self._block.name}`; move the call behind the block"
        )

    # --- sending

    def flush(self, mark: int = 0) -> None:
        """Send what was recorded, without waiting, unless the credit is used up.

        Where spans before `mark` were pushed for commands that were not recorded after all, an empty buffer frees them.
        """
        if self._block is None:
            with self.device.sections:
                self._flush(mark)

    def _flush(self, mark: int = 0) -> None:
        device = self.device
        if self._sender == threading.get_ident():  # a finaliser's or a handler's, behind what is being sent
            return
        while self._commands or (mark := max(mark, self._mark)) > self._marked:
            if not device.has_room:
                device.wait_for_room(lambda: device.has_room)
            self._send(max(mark, self._mark))

    def _send(self, mark: int) -> None:
        """Send what was recorded. In the main thread the caller is in the device's `sections`."""
        with self._sending:
            if self._block is not None:  # it began since the pump looked
                return
            self._sender = threading.get_ident()
            try:
                taken = self._take()
                if taken or mark > self._marked:
                    self._submit(taken, mark if not self._commands else 0)
            finally:
                self._sender = 0

    def _take(self) -> list[Command]:
        """All that was recorded so far; what a finaliser appends meanwhile, on any thread, stays for the next time."""
        self._pushed = 0
        self._room = 0 if self._debug else FULL
        return list(itertools.starmap(self._commands.popleft, itertools.repeat((), len(self._commands))))

    def _submit(self, taken: list[Command], mark: int) -> None:
        """One command buffer, or, of commands with much inside, several."""
        body = buffers.encode(taken)
        if len(body) > buffers.LARGEST and len(taken) > 1:
            half = len(taken) // 2
            self._submit(taken[:half], 0)
            self._submit(taken[half:], mark)
            return
        number = self.device.submit(body, len(taken), self._epoch, mark)
        if mark > self._marked:
            self._marked = mark
        if self._debug:
            self._sent_sites.append((number, [self._sites.pop(id(command), "?") for command in taken]))
            if len(self._sent_sites) > SITES:
                self._sent_sites.popleft()

    def _closer_look(self, command: Command) -> None:
        """There is enough for a buffer, or every command is looked at."""
        if self._debug:
            self._sites[id(command)] = site()
        if self._block is not None:
            self._block.grow(self._commands, self._pushed)
        elif not self._debug or self._room <= -FULL:
            self.flush()

    def _idle(self) -> float | None:
        """The pump's look: send what has waited a moment; seconds until the next look, None to be poked first."""
        waiting = len(self._commands)
        if waiting and waiting == self._seen and self._block is None and self.device.has_room:
            self._send(self._mark)  # the mark first: what it covers has been appended
        self._seen = waiting
        active = self.device.traffic.commands + waiting
        self._idle_moments = 0 if active != self._active else self._idle_moments + 1
        self._active = active
        if self._idle_moments < DROWSY:
            return MOMENT
        self._quiet = self._alert = True  # first, so that a call that is recorded now pokes the pump
        return MOMENT if self._commands else None

    # --- alerts

    def _look(self) -> None:
        """Something is to be seen to before a call is recorded."""
        self._alert = False
        if self.device.lost is not None:
            self._alert = True
            ending.wait_if_over()
            raise self.device.lost
        if self._quiet:
            self._quiet = False
            self._idle_moments = 0
            self.device.stir()
        if self._fault is not None and self._block is None:
            self._raise_fault()

    def _lost(self) -> None:
        self._alert = True
        if isinstance(self.device.lost, Inherited):
            self._sending = threading.RLock()  # of the parent's threads none is here to let go of it

    def _faulted(self, fault: messages.Fault) -> None:
        """A fault arrived, in whichever thread receives: keep it for the next call."""
        if fault.epoch != self._epoch or self._fault is not None:
            return
        first = fault.last_made + 1
        if is_stale(fault):
            first = fault.last_made  # the program that was made right before is not what the client takes it for
            known.forget(self.device)
        self._fault = described(fault, self._site_of(fault, first))
        self._fault_range = range(first, self._last_handle + 1)
        self._alert = True

    def _site_of(self, fault: messages.Fault, first: int) -> str | None:
        """The line that recorded the command; of what makes objects always, and `first` is the first not made."""
        for number, sites in self._sent_sites:
            if number == fault.buffer and fault.index < len(sites):
                return sites[fault.index]
        return self._sites.get(first) if fault.command.startswith("Make") or is_stale(fault) else None

    def _raise_fault(self) -> None:
        """Raise the fault, once, and begin the next epoch: its first buffer sets all state again."""
        fault, self._fault = self._fault, None
        assert fault is not None
        with self.device.sections, self._sending:
            while self._commands:
                self._send(self.device.stack.head)  # it belongs to the old epoch: the host drops it, frees excepted
            self._epoch += 1
            never = range(self._fault_range.start, self._last_handle + 1)
            for handle in never:
                if (made := self.objects.get(handle)) is not None:
                    made.never_made(fault)
            for shadowed in self._shadowed():
                self._commands.extend(shadowed.restore())
        try:
            raise fault
        finally:
            del fault  # or this frame and the exception would keep each other, and the frames of the program

    def close(self) -> None:
        """End the session. Never raises; a fault that nobody has seen is written to standard error."""
        self._block = None
        if self.device.lost is None:
            with contextlib.suppress(Exception), self.device.sections:
                while self._commands and self.device.has_room:
                    self._send(self.device.stack.head)
        self.device.close(Released("the context was released"))
        fault, self._fault = self._fault, None
        if fault is not None:
            print(f"glremote: a fault that was not raised: {fault}", file=sys.stderr)

    # --- blocks

    @property
    def keeps(self) -> KeptBlock | None:
        """The block that is recorded now, if it is one that is kept and replayed."""
        return self._block if isinstance(self._block, KeptBlock) else None

    def check_outside(self) -> None:
        """CannotReplay inside a block: a kept command buffer begins and ends with its own."""
        if self._block is not None:
            raise CannotReplay(f"`with glremote.record(...)` inside `with {self._block.name}`")

    @contextmanager
    def block(self, kind: type[Block] = Block) -> Iterator[None]:
        """One command buffer of what is recorded inside; an exception leaves it unsent."""
        if self._block is not None:  # nested blocks are one
            yield
            return
        self._look()
        self.flush()
        with self.device.sections, self._sending:  # the pump may be about to send
            self._block = block = kind(self._shadowed())
            self._room = 0
        try:
            yield
        except BaseException:
            self._undo(block)
            raise
        self._block = None
        self.flush()

    def _undo(self, block: Block) -> None:
        """Nothing of the block is sent (frees excepted): what it made was never made, and what it set is as before."""
        with self._sending:  # or the pump would send it in this moment
            self._block = None
            recorded = self._take()
            made = {command.handle for command in recorded if isinstance(command, Make)}
            frees = (command for command in recorded if isinstance(command, Free))
            self._commands.extend(free for free in frees if free.object not in made)
            self._mark = self.device.stack.head  # what was pushed for it is free with the next buffer
        unsent = Fault(f"`with {block.name}` was left by an exception, and is not sent")
        for command in recorded:
            if isinstance(command, Make) and (thing := self.objects.get(command.handle)) is not None:
                thing.never_made(unsent)
            if isinstance(command, Ask | Fetch):
                self.device.give_up(command.ticket, unsent)
        with self.device.sections:
            block.undo()

    def _shadowed(self) -> list[Shadowed]:
        """Everything that shadows state of the host's, in the order in which it is to be set again."""
        return [*(made for made in self.objects.values() if is_made(made)), *self.roots]


def _moved(stack: Stack, tail: int) -> bool:
    return stack.tail != tail
