"""A websocket's opening, against a host of the test's own that answers what it is told."""

from __future__ import annotations

import socket
import threading

import pytest
from websockets.server import ServerProtocol

from glremote.link.websocket import connect


def distance(*timing: str) -> float:
    """What a client takes for the distance of a host that says this of its time."""
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
                sock.sendall(b"".join(protocol.data_to_send()))
                sock.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        link = connect(f"ws://127.0.0.1:{listening.getsockname()[1]}", "a-token")
        link.close()
        thread.join()
        return link.distance


def test_the_hosts_own_time_is_no_distance() -> None:
    assert distance("admit;dur=99999.5") == 0.0


@pytest.mark.parametrize("timing", [(), ("",), ("admit",), ("admit;dur=-9",), ("admit;dur=1e9",), ("db;dur=99999",)])
def test_what_says_nothing_of_its_time_is_all_distance(timing: tuple[str, ...]) -> None:
    assert distance(*timing) > 0
