"""A process of the crowd (crowd.py): programs that work in sessions, until it is told otherwise or killed.

It has a few seats, each with a thread of its own; in each sits one program after the other, since a program whose
session is lost makes place for the next. It is told what to do, and tells what happens, in lines of JSON on its
standard input and output. What is lost unexpectedly only crowd.py can know; what comes to a wrong result, or works
after its session is lost, ends this process with status 1 and says why.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import sys
import threading
import time
import traceback
from typing import Any

import moderngl
import msgspec
import pytest

import glremote
from glremote.link.pump import pump
from tests.processes import held

from .sessions import STEPS, Program

DEADLINE = 60.0
"""Seconds after which something that must happen is held not to."""


class Settings(msgspec.Struct):
    """What a process is told as it starts."""

    url: str
    digest: str
    """What a round comes to when nothing happens."""
    near: tuple[bool, ...]
    """For each seat, whether its programs go past the gateway where they can."""
    pause: float
    """Seconds between two rounds, at most."""
    seed: int
    again: bool = True
    """Whether another program takes the place of one that has lost its session."""
    rounds: int = sys.maxsize
    """Of each program; then it says goodbye, and nobody takes its place."""


def tell(what: str, seat: int | None = None, **more: Any) -> None:
    """One line, which is written at once: somebody may kill this process, and half a line would be nonsense."""
    os.write(1, json.dumps({"what": what, "seat": seat, **more}).encode() + b"\n")


class Seat(threading.Thread):
    """Where one program after the other works."""

    def __init__(self, number: int, settings: Settings) -> None:
        super().__init__(name=f"seat {number}", daemon=True)
        self.finishing = False
        self.misdeed = ""
        """What its program is to do next that it must not do."""
        self._number = number
        self._settings = settings
        self._chance = random.Random(settings.seed + number)
        self._waiting_since = 0.0
        self._rounds = 0

    def run(self) -> None:
        try:
            while self._sit() and self._settings.again and not self.finishing:
                pass
        except BaseException:
            tell("wrong", self._number, why=traceback.format_exc())
            os._exit(1)

    def _sit(self) -> bool:
        """One program; whether its session was lost."""
        ctx, self._rounds = self._begin(), 0
        try:
            self._work(ctx)
        except glremote.DeviceLost as error:
            at, waited = time.monotonic(), self._waiting_since
            tell("lost", self._number, why=str(error), at=at, waited=waited, rounds=self._rounds)
            stays_lost(ctx)
            return True
        finally:
            ctx.release()
        return False

    def _begin(self) -> moderngl.Context:
        """A context; tries again where the link is cut before it is there."""
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                ctx = glremote.create_context(
                    self._settings.url, require=430, near=self._settings.near[self._number]
                )
            except (glremote.HostUnreachable, glremote.DeviceLost):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                continue
            device = glremote.device(ctx)
            assert isinstance(device, glremote.RemoteDevice) and device.greeting.near is not None
            tell("began", self._number, door=device.greeting.near.name.replace("\0", "@"), near=device.near)
            return ctx

    def _work(self, ctx: moderngl.Context) -> None:
        program = Program(ctx)
        while program.rounds < self._settings.rounds and not self.finishing:
            self._waiting_since = time.monotonic()
            assert program.round() == self._settings.digest, "another digest than undisturbed"
            self._rounds = program.rounds
            if misdeed := self.misdeed:
                self.misdeed = ""
                MISDEEDS[misdeed](ctx)
                tell("misdeed", self._number)
            time.sleep(self._chance.uniform(0.0, self._settings.pause))
        counted, sent = program.counted(), STEPS * program.rounds
        assert counted == sent, f"{counted} buffers ran, and {sent} were sent"
        tell("finished", self._number, rounds=program.rounds)


def stays_lost(ctx: moderngl.Context) -> None:
    """Every later call says so too."""
    for call in (ctx.finish, lambda: ctx.buffer(b"abcd").read(), lambda: ctx.simple_framebuffer((4, 4)).read()):
        with pytest.raises(glremote.DeviceLost):
            call()


# --- what a program must not do


def run_without_end(ctx: moderngl.Context) -> None:
    """One command buffer that takes for ever."""
    from tests.host.test_limits import LOOP

    shader: Any = ctx.compute_shader(LOOP)
    ctx.buffer(bytes(256)).bind_to_storage_buffer(0)
    shader["loops"].value = 1_000_000
    for _ in range(1000):
        shader.run(65535)
    ctx.finish()


def hold_too_much(ctx: moderngl.Context) -> None:
    """More memory than a worker may hold; little of it crosses the link."""
    held = []
    for _ in range(150):
        held.append(ctx.buffer(reserve=16_000_000))
        held[-1].clear(chunk=bytes(range(64)))
        held[-1].read(4)
        time.sleep(0.05)


def ask_too_much(ctx: moderngl.Context) -> None:
    """An object that is larger than one may be: a fault, and the program goes on."""
    with pytest.raises(glremote.Fault, match="object-bytes is limited to"):
        ctx.buffer(reserve=1 << 30)
        ctx.finish()


MISDEEDS = {function.__name__: function for function in (run_without_end, hold_too_much, ask_too_much)}


# --- the process


def main() -> None:
    """Work until told to finish; or, without a goodbye, to leave."""
    logging.getLogger("glremote").setLevel(logging.ERROR)  # each break is a line
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    pump()
    before = held()
    seats = [Seat(number, settings) for number in range(len(settings.near))]
    for seat in seats:
        seat.start()
    threading.Thread(target=listen, args=(seats,), daemon=True).start()
    for seat in seats:
        seat.join()
    del seats, seat
    deadline = time.monotonic() + DEADLINE
    while held() > before + 1:  # the thread that listens
        if time.monotonic() > deadline:
            tell("wrong", why=f"{held()} descriptors, threads and stacks are held, and at first it were {before + 1}")
            os._exit(1)
        time.sleep(0.1)
    with contextlib.suppress(BrokenPipeError):
        tell("ended")


def listen(seats: list[Seat]) -> None:
    """Do what we are told."""
    for line in sys.stdin:
        told = json.loads(line)
        if told["do"] == "leave":
            os._exit(0)
        for seat in seats:
            if told["do"] == "finish":
                seat.finishing = True
            elif seat._number == told["seat"]:
                seat.misdeed = told["do"]
    os._exit(1)  # nobody is there any more


if __name__ == "__main__":
    main()
