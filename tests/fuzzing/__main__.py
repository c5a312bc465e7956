"""`make fuzz`: inputs gone wrong until so many have run, so much time has passed, or it is interrupted.

Each find is kept as a file in tests/fuzzing/finds/, and test_fuzzing.py replays it from then on.
"""

from __future__ import annotations

import faulthandler
import hashlib
import random
import resource
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .decoder import Decoder
from .interpreter import Runner
from .session import Sessions

TARGETS: dict[str, Callable[[], Any]] = {"decoder": Decoder, "session": Sessions, "interpreter": Runner}
FINDS = Path(__file__).parent / "finds"
HANG = 60.0
"""Seconds for one input; then all threads are shown, and the run ends."""
WARM = 500
"""Inputs after which memory is looked at for the first time."""
BETWEEN = 10.0
"""Seconds between two lines that say how far it is."""


def memory() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def fuzz(target: str, inputs: int, seconds: float, seed: int, say: Callable[[str], Any]) -> tuple[int, list[bytes]]:
    """Run a target; how many inputs it had, and the first input of each kind of find."""
    what, draw = TARGETS[target](), random.Random(seed)
    finds: dict[str, bytes] = {}
    began = said = time.monotonic()
    armed, count, before = 0.0, 0, 0
    try:
        while count < inputs and (now := time.monotonic()) - began < seconds:
            if now - armed > HANG / 10:
                faulthandler.dump_traceback_later(HANG, exit=True)
                armed = now
            if count == WARM:
                before = memory()
            data = what.make(draw)
            count += 1
            try:
                what.run(data)
            except Exception as error:
                kind = str(error)[:3000] or traceback.format_exc(limit=-2)
                if kind not in finds:
                    finds[kind] = data
                    say(f"find of {target}: {kind}\n  {len(data)} bytes")
            if now - said > BETWEEN:
                said = now
                say(f"{target}: {count} inputs, {count / (now - began):.0f} a second, {len(finds)} kinds of finds")
    finally:
        faulthandler.cancel_dump_traceback_later()
        if hasattr(what, "close"):
            what.close()
    grown = (memory() - before) / (1 << 20) if before else 0.0
    say(f"{target}: {count} inputs in {time.monotonic() - began:.0f} s, {len(finds)} finds, {grown:.1f} MB more memory")
    return count, list(finds.values())


@click.command()
@click.option("--target", type=click.Choice([*TARGETS, "all"]), default="all", show_default=True)
@click.option("--inputs", default=1 << 62, help="So many of each target.")
@click.option("--seconds", default=60.0, show_default=True, help="So long for each target.")
@click.option("--seed", default=0, show_default=True)
def main(target: str, inputs: int, seconds: float, seed: int) -> None:
    """Give the decoder, the session and the interpreter what nobody should send."""
    failed = False
    for name in TARGETS if target == "all" else (target,):
        _, finds = fuzz(name, inputs, seconds, seed, click.echo)
        for data in finds:
            FINDS.mkdir(exist_ok=True)
            path = FINDS / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
            path.write_bytes(data)
            click.echo(f"kept as {path}")
            failed = True
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
