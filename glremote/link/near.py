"""Near: the worker's own Unix socket, and the memory that comes through it: both stacks, and two mailboxes.

Knows: where each lies, and how to knock at the door that a greeting offers (host/near.py). Does not know: what goes
through. On another machine, as another user, or where the system lacks any of it, `connect` gives None and the
websocket carries everything.
"""

from __future__ import annotations

import logging
import mmap
import os
import socket
import weakref

from glremote.protocol.messages import Near
from glremote.protocol.stacks import Stack

from . import mailbox
from .links import Link
from .mailbox import Mailbox, SharedLink

log = logging.getLogger("glremote")

TIMEOUT = 10.0
"""Seconds that a worker has to open: one that is there and slow is as slow over the websocket, where it is not there
that shows at once. Meanwhile nobody reads the websocket, and a gateway cuts what is silent for 15 s."""
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


class Allocation:
    """Allocates memory that both sides map, piece by piece: what cannot be had is an error here, and later a signal."""

    def __init__(self, descriptor: int, base: int) -> None:
        """`base`: where the stack begins in it. The descriptor is ours, and closed when nobody allocates any more."""
        self._descriptor = descriptor
        self._base = base
        # At exit it would be called before the program's finalisers are, and theirs may write.
        weakref.finalize(self, os.close, descriptor).atexit = False

    def __call__(self, start: int, end: int) -> None:
        """See Stack."""
        os.posix_fallocate(self._descriptor, self._base + start, end - start)


def connect(near: Near | None, stack_size: int) -> tuple[Link, Stack, Stack] | None:
    """A link to the worker, and the upward and the downward stack."""
    if near is None or near.size != size(stack_size) or os.environ.get(SWITCH) == "0":
        return None
    if not (hasattr(socket, "AF_UNIX") and hasattr(os, "posix_fallocate")):
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(TIMEOUT)
        sock.connect(near.name)
        sock.sendall(near.secret)
        _, descriptors, _, _ = socket.recv_fds(sock, 1, 1)
        (allocation,) = (Allocation(descriptor, 0) for descriptor in descriptors)
        memory = mmap.mmap(descriptors[0], near.size)
    except (OSError, ValueError) as error:
        # of another machine there is no such name here, and another user is sent away: both are as they should be
        level = logging.WARNING if isinstance(error, TimeoutError) else logging.DEBUG
        log.log(level, "the worker did not let us in (%s); everything goes over the websocket", error)
        sock.close()
        return None
    up, down, upward, downward = layout(memoryview(memory), stack_size)
    return link_over(sock, downward, upward), Stack(stack_size, up, allocation), Stack(stack_size, down)
