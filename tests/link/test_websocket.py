"""A websocket's opening, against a host of the test's own that answers what it is told."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from websockets.server import ServerProtocol

from glremote.link.links import Link, LinkBroken
from glremote.link.websocket import connect


@contextlib.contextmanager
def host(
    *timing: str, says: Callable[[ServerProtocol], None] = lambda protocol: None, pongs: bool = False
) -> Iterator[Link]:
    """A link to a host that says this of its time, and something else with the same breath; `pongs`: answers pings."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            sock, _ = listening.accept()
            with sock:
                protocol = ServerProtocol()
                protocol.receive_data(sock.recv(1 << 16))
                (request,) = protocol.events_received()
                response = protocol.accept(request)  # type: ignore[arg-type]
                for text in timing:
                    response.headers["Server-Timing"] = text
                protocol.send_response(response)
                says(protocol)
                sock.sendall(b"".join(protocol.data_to_send()))
                while data := sock.recv(1 << 16):
                    if pongs:
                        protocol.receive_data(data)
                        sock.sendall(b"".join(protocol.data_to_send()))

        thread = threading.Thread(target=answer)
        thread.start()
        link = connect(f"ws://127.0.0.1:{listening.getsockname()[1]}", "a-token")
        yield link
        link.close()
        thread.join()


def distance(*timing: str) -> float:
    """What a client takes for the distance of a host that says this of its time."""
    with host(*timing) as link:
        return link.distance


def test_the_hosts_own_time_is_no_distance() -> None:
    assert distance("admit;dur=99999.5") == 0.0


@pytest.mark.parametrize("timing", [(), ("",), ("admit",), ("admit;dur=-9",), ("admit;dur=1e9",), ("db;dur=99999",)])
def test_what_says_nothing_of_its_time_is_all_distance(timing: tuple[str, ...]) -> None:
    assert distance(*timing) > 0


def test_a_host_that_closes_behind_a_packet() -> None:
    """What is sent then is lost, as on any link that breaks, and that it broke shows where packets are received."""

    def says(protocol: ServerProtocol) -> None:
        protocol.send_binary(b"the last packet")
        protocol.send_close(1000, "enough")

    with host(says=says) as link:
        assert link.receive(10.0) == [b"the last packet"]
        assert not link.send([[b"too late"]])
        link.keepalive = 0.01
        time.sleep(0.01)
        link.keep_alive()
        link.socket.shutdown(socket.SHUT_WR)  # the host has our answer to its close, and goes
        with pytest.raises(LinkBroken):
            link.receive(10.0)


def test_a_stall_while_the_program_stood_still_is_seen_at_once() -> None:
    with host() as link:  # it answers no ping
        link.keepalive = 0.2
        time.sleep(0.2)
        link.keep_alive()
        assert link.receive(0.5) == []
        time.sleep(0.2)
        link.keep_alive()
        with pytest.raises(LinkBroken, match="stalled"):
            link.receive(0.0)


def test_what_came_while_the_program_stood_still_is_no_stall() -> None:
    """One answer lies there, and is taken late."""
    with host(pongs=True) as link:
        link.keepalive = 0.2
        time.sleep(0.2)
        link.keep_alive()
        assert link.poll(10.0)
        time.sleep(0.7)
        link.keep_alive()
        assert link.receive(0.0) == []
        link.keep_alive()
