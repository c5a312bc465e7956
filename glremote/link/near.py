"""Near: the worker's own Unix socket, and the memory that comes through it: both stacks, and two mailboxes.

Knows: where each lies, and how to knock at the door that a greeting offers (host/near.py). Does not know: what goes
through. On another machine, as another user, or where the system lacks any of it, `connect` gives None and the
websocket carries everything.
"""

from __future__ import annotations

import mmap
import os
import socket

from glremote.protocol.messages import Near

from . import mailbox
from .links import Link
from .mailbox import Mailbox, SharedLink

TIMEOUT = 1.0
SWITCH = "GLREMOTE_NEAR"
LARGEST = 32 << 20
SPIN = 0.001
"""Seconds for which either side looks for the other's next packet before it sleeps."""


def layout(memory: memoryview, stack_size: int) -> tuple[memoryview, memoryview, Mailbox, Mailbox]:
    """The upward and the downward stack, and the mailboxes of both directions, in shared memory."""
    stacks, mailboxes = memory[: 2 * stack_size], memory[2 * stack_size :]
    up, down = Mailbox(mailboxes[: mailbox.SIZE]), Mailbox(mailboxes[mailbox.SIZE :])
    return stacks[:stack_size], stacks[stack_size:], up, down


def size(stack_size: int) -> int:
    """Bytes of all of it."""
    return 2 * (stack_size + mailbox.SIZE)


def link_over(sock: socket.socket, inward: Mailbox, outward: Mailbox) -> Link:
    """The link, from either side."""
    return SharedLink(sock, LARGEST, inward, outward, SPIN)


def connect(near: Near | None, stack_size: int) -> tuple[Link, memoryview, memoryview] | None:
    """A link to the worker, and the upward and the downward stack."""
    if near is None or near.size != size(stack_size) or os.environ.get(SWITCH) == "0":
        return None
    if not hasattr(socket, "AF_UNIX"):
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(TIMEOUT)
        sock.connect(near.name)
        sock.sendall(near.secret)
        _, descriptors, _, _ = socket.recv_fds(sock, 1, 1)
        try:
            memory = mmap.mmap(descriptors[0], near.size)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
    except (OSError, IndexError, ValueError):
        sock.close()
        return None
    up, down, upward, downward = layout(memoryview(memory), stack_size)
    return link_over(sock, downward, upward), up, down
