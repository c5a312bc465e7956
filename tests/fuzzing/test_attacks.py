"""What would have gone to memory that is not its own is refused, and the driver and the host live on.

They run in a process of their own, so that a crash is seen as one.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from glremote.host.serving import environment

from .attacks import ATTACKS

DEADLINE = 90.0
PASSES = {
    "a texture grown under another name": "64 bytes",
    "indices of a buffer that is released": "nothing",
    "indices of a buffer that is released by another name": "nothing",
    "colours of a framebuffer whose depths were read": "64 bytes",
    "colours of the default framebuffer whose depths were read": "64 bytes",
    "colours of a framebuffer without any": "64 bytes",
    # what OpenGL itself refuses, or keeps within its buffers
    "a texture larger than memory": "nothing",
    "an index buffer read before its begin": "nothing",
    "vertices before the begin of a buffer": "nothing",
    "a scissor where 32 bits end": "nothing",
    "texels into a buffer from before its begin": "nothing",
}
"""What becomes of those that are not refused by the host."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """What each came to, by its name; and of the first that is missing, how the process ended."""
    command = [sys.executable, "-m", "tests.fuzzing.attacks"]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=DEADLINE)
    found = dict(line.split(": ", 1) for line in ended.stdout.splitlines() if ": " in line)
    for name in ATTACKS:
        if name not in found:
            found[name] = f"the process ended with {ended.returncode}: {ended.stderr[-2000:]}"
            break
    return found


@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_refused_and_nothing_breaks(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes.get(name, "not reached") == PASSES.get(name, "OutOfBounds")
