"""Near, from the client: the worker's own Unix socket, and the memory of both stacks that comes through it.

Knows: how to knock at the door that a greeting offers (host/near.py). Does not know: what goes through. On another
machine, as another user, or where the system lacks any of it, the answer is None and the websocket carries everything.
"""

from __future__ import annotations

import mmap
import os
import socket

from glremote.protocol.messages import Near

from .links import Link, StreamCodec

TIMEOUT = 1.0
SWITCH = "GLREMOTE_NEAR"
LARGEST = 32 << 20
SPIN = 0.0002
"""Seconds for which either side looks for the other's next packet before it sleeps."""


def connect(near: Near | None, size: int) -> tuple[Link, memoryview] | None:
    """A link to the worker, and `size` bytes of shared memory: the upward stack and behind it the downward one."""
    if near is None or near.size != size or os.environ.get(SWITCH) == "0":
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
    link = Link(sock, StreamCodec(LARGEST))
    link.spin = SPIN
    return link, memoryview(memory)
