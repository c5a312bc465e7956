"""Sockets that break: a link is cut after an exact number of bytes, in the middle of whatever was on its way."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from glremote.host.inprocess import InProcessHost
from glremote.link.links import Link, Packet


class CutSocket:
    """A socket that lets `budget` bytes through, both ways together, and is then closed."""

    def __init__(self, sock: socket.socket, budget: int) -> None:
        self._socket = sock
        self._budget = budget

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def send(self, data: bytes | memoryview) -> int:
        """As socket.send, up to the cut."""
        return self._spend(self._socket.send(data[: self._left()]))

    def recv_into(self, memory: memoryview) -> int:
        """As socket.recv_into, up to the cut."""
        return self._spend(self._socket.recv_into(memory[: self._left()]))

    def _left(self) -> int:
        if self._budget <= 0:
            raise ConnectionResetError("cut by a test")
        return self._budget

    def _spend(self, count: int) -> int:
        self._budget -= count
        if self._budget <= 0:
            self._socket.shutdown(socket.SHUT_RDWR)
        return count


class CuttingHost(InProcessHost):
    """Its first links break, each after so many bytes; the others hold."""

    def __init__(self, budgets: list[int]) -> None:
        super().__init__()
        self.budgets = budgets
        self.connections = 0

    def connect(self, session: str | None) -> Link:
        """See InProcessHost.connect."""
        link = super().connect(session)
        self.connections += 1
        if session is not None or self.connections == 1:
            cut(link, self.budgets)
        return link


def cut(link: Link, budgets: list[int]) -> None:
    """Let a link break after the next of the budgets, if there is one."""
    if budgets:
        link.socket = CutSocket(link.socket, budgets.pop(0))  # type: ignore[assignment]


def cut_after(link: Link, packets: int) -> None:
    """Let a link break when so many packets were sent: the last may lie in shared memory, not yet taken."""
    send, left = link.send, packets

    def counted(sent: Sequence[Packet] = ()) -> None:
        nonlocal left
        send(sent)
        left -= len(sent)
        if left <= 0:
            link.socket.shutdown(socket.SHUT_RDWR)

    link.send = counted  # type: ignore[method-assign, assignment]
