"""Near: a worker's own way to a client on the same machine, of the same user.

Knows: a Unix socket of Linux's abstract names (unix(7): nothing of it lies in a file system, and it goes with us), a
secret that only the greeting tells, and one sealed memfd that is passed through that socket. Does
not know: sessions. Where any of it is missing nothing is offered, and the websocket carries everything.
"""

from __future__ import annotations

import contextlib
import hmac
import mmap
import os
import secrets
import socket
import struct

from glremote.link import near
from glremote.link.links import Link
from glremote.protocol.messages import Near
from glremote.protocol.stacks import Stack

ACCEPT_TIMEOUT = 5.0
"""Seconds that whoever knocks, of the same user, has for the secret: on a busy machine it may not run meanwhile."""
SWITCH = "GLREMOTE_NEAR"
"""The environment variable that switches it off, with the value 0."""


class Door:
    """Waits for the one client that knows the secret, and that shares the stacks `reads` and `writes` with us then."""

    def __init__(self, stack_size: int) -> None:
        import fcntl  # where there is a memfd there is this

        self._name = f"\0glremote-{secrets.token_hex(16)}"
        self.descriptor = os.memfd_create("glremote stacks", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        self._size = near.size(stack_size)
        os.ftruncate(self.descriptor, self._size)
        memory = memoryview(mmap.mmap(self.descriptor, self._size))
        up, down, self._upward, self._downward = near.layout(memory, stack_size)
        os.posix_fallocate(self.descriptor, 2 * stack_size, self._size - 2 * stack_size)  # the mailboxes
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self.reads = Stack(stack_size, up)
        self.writes = Stack(stack_size, down, near.Allocation(os.dup(self.descriptor), stack_size))
        self.secret = secrets.token_bytes(32)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(self._name)
        self.socket.listen(4)

    @classmethod
    def open(cls, stack_size: int) -> Door | None:
        """A door to stacks of so many bytes, or None where this system has none or it is switched off."""
        if os.environ.get(SWITCH) == "0" or not hasattr(os, "memfd_create"):
            return None
        try:
            return cls(stack_size)
        except OSError:
            return None

    @property
    def offer(self) -> Near:
        """What the greeting says of it."""
        return Near(self._name, self.secret, self._size)

    def admit(self) -> Link | None:
        """Let in whoever knocks, if it is the same user and knows the secret, and hand over the memory."""
        knocking, _ = self.socket.accept()
        try:
            knocking.settimeout(ACCEPT_TIMEOUT)
            credentials = knocking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            _, user, _ = struct.unpack("3i", credentials)
            if user != os.getuid():
                raise PermissionError("not this user")
            said = b""
            while len(said) < len(self.secret) and (more := knocking.recv(len(self.secret) - len(said))):
                said += more
            if not hmac.compare_digest(said, self.secret):
                raise PermissionError("not the client of this session")
            for mailbox in (self._upward, self._downward):
                mailbox.clear()
            socket.send_fds(knocking, [b"\1"], [self.descriptor])
            return near.link_over(knocking, self._upward, self._downward)
        except OSError:
            knocking.close()
            return None

    def close(self) -> None:
        """Close the door. What was handed over stays with whoever has it."""
        with contextlib.suppress(OSError):
            self.socket.close()
            os.close(self.descriptor)
