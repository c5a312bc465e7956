"""A host within the client's process: real bytes through a real socket, and a worker on a thread of its own.

Knows: how a worker is served without a gateway, and how its connection is broken and made again. For tests, and for
trying a program without starting a host; `glremote serve` gives each session a process instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import queue
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Any

from glremote.link.links import Bytes, Link, LinkBroken, stream_pair
from glremote.protocol import proof
from glremote.protocol.errors import NotAdmitted, ProtocolError
from glremote.protocol.messages import Challenge, Lost, decode, encode

from .egl import make_context
from .port import LARGEST, Event, Is, PortClosed
from .worker import Worker

PROOF_TIMEOUT = 10.0
"""Seconds that a client has to prove that the session is its own."""


class DirectPort:
    """A worker's port that is at the same time its gateway: one link after the other, as the client connects."""

    near = False
    """See Port: there is no door here."""

    def __init__(self, name: str, grace: float) -> None:
        self._key = secrets.token_bytes(proof.SIZE)
        self._first: bytes | None = f"{name} {grace} {self._key.hex()}\n".encode()
        self._grace = grace
        self._links: queue.SimpleQueue[Link | None] = queue.SimpleQueue()
        self._link: Link | None = None
        self._packets: list[Bytes] = []

    def attach(self, link: Link | None) -> None:
        """The client's next connection; None: the host is closed."""
        self._links.put(link)
        if self._link is not None:
            self._link.close()

    def receive(self, timeout: float | None = None) -> Event | None:
        """See Port.receive."""
        if self._packets:
            return Event(Is.PACKET, self._packets.pop(0))
        if self._link is None:
            return self._attached(timeout)
        try:
            while not self._packets:
                self._packets = self._link.receive(timeout if timeout is not None else 0.2)
                if timeout is not None and not self._packets:
                    return None
            return Event(Is.PACKET, self._packets.pop(0))
        except (LinkBroken, OSError, ValueError):
            self._link = None
            return Event(Is.DETACHED, b"")

    def _attached(self, timeout: float | None) -> Event | None:
        try:
            link = self._links.get(timeout=self._grace if timeout is None else timeout or 1e-6)
        except queue.Empty:
            if timeout is None:
                raise PortClosed("the client did not come back within the grace time") from None
            return None
        if link is None:
            raise PortClosed("the host was closed")
        first, self._first = self._first, None
        if first is None and not self._proves(link):
            link.close()
            return None
        self._link = link
        return Event(Is.ATTACHED, first or b"")

    def _proves(self, link: Link) -> bool:
        """Whether the client on a later link knows the session's key; it learns that we do."""
        challenge = Challenge(secrets.token_bytes(proof.SIZE))
        try:
            link.send([[encode(challenge)]])
            for packet in link.receive(PROOF_TIMEOUT):
                ((given, _),) = decode(packet)
                link.send([[encode(proof.confirm(self._key, challenge, given))]])
                return True
        except (LinkBroken, OSError, ProtocolError, ValueError):
            pass
        return False

    def send(self, what: Is, pieces: Sequence[Bytes] = ()) -> None:
        """See Port.send; what a gateway would tell the client is told here."""
        if what is Is.ENDED and any(pieces):
            what, pieces = Is.PACKET, [encode(Lost(b"".join(pieces).decode()))]
        if what is not Is.PACKET or self._link is None:
            return
        try:
            self._link.send([pieces])
            self._link.drain()
        except (LinkBroken, OSError, ValueError):
            return  # `receive` tells of it

    def close(self) -> None:
        """Close the connection."""
        if self._link is not None:
            self._link.close()


class InProcessHost:
    """A host for any number of sessions, each with a worker thread. `connect` is a Connector (device/remote.py)."""

    def __init__(self, grace: float = 10.0, wrap: Callable[[Worker], Any] | None = None) -> None:
        self.grace = grace
        self.workers: dict[str, Worker] = {}
        self._ports: dict[str, DirectPort] = {}
        self._threads: list[threading.Thread] = []
        self._wrap = wrap

    def connect(self, session: str | None) -> Link:
        """A link to a new session, or to the named one. Raises NotAdmitted where it has ended."""
        near, far = stream_pair(LARGEST)
        if session is None:
            session = secrets.token_urlsafe(8)
            self._ports[session] = DirectPort(session, self.grace)
            thread = threading.Thread(target=self._serve, args=(session,), name=f"worker {session}", daemon=True)
            self._threads.append(thread)
            thread.start()
        if session not in self._ports:
            raise NotAdmitted("the session has ended")
        self._ports[session].attach(far)
        return near

    def _serve(self, session: str) -> None:
        port = self._ports[session]
        worker: Worker | None = None
        try:
            worker = self.workers[session] = Worker(port, make_context)  # type: ignore[arg-type]
            if self._wrap is not None:
                self._wrap(worker)
            worker.run()
        except PortClosed:
            pass
        finally:
            self._ports.pop(session, None)
            self.workers.pop(session, None)
            port.close()
            if worker is not None:
                worker.interpreter.context.release()
                _release_thread()
            del worker
            gc.collect()  # its stacks, which a worker process would give back by ending

    def close(self) -> None:
        """End every session, and wait for the workers."""
        for port in list(self._ports.values()):
            port.attach(None)
        for thread in self._threads:
            thread.join(10)


def _release_thread() -> None:
    """A context that is current in a thread outlives its own end, and the thread (EGL 1.5, 3.7.2 and 3.12)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libEGL.so.1").eglReleaseThread()
