"""The first words of a session: whether the two sides fit, and who is to be upgraded when they do not.

Knows: versions and the rows of the command table. Does not know: tokens (the gateway checks those before it opens a
websocket) or how a host learns about its driver.
"""

from __future__ import annotations

from .commands import COMMANDS, rows
from .errors import VersionMismatch
from .messages import VERSION, Greeting, Hello, Near, Refused
from .reflection import Driver


def hello(software: str, moderngl: str, require: int, distance: float = 0.0) -> Hello:
    """What a client says first."""
    return Hello(VERSION, software, moderngl, require, distance)


def greet(
    hello: Hello,
    software: str,
    moderngl: str,
    session: str,
    stack: int,
    grace: float,
    driver: Driver,
    near: Near | None = None,
    key: bytes = b"",
) -> Greeting | Refused:
    """What a host answers: its greeting, or why it will not."""
    if hello.version != VERSION:
        return Refused("version", _versions(hello.version, hello.software, VERSION, software), VERSION)
    if hello.require > driver.version_code:
        reason = f"Requested OpenGL version {hello.require}, got version {driver.version_code}"
        return Refused("require", reason, VERSION)
    return Greeting(VERSION, software, moderngl, rows(), session, stack, grace, driver, near, key)


def check(greeting: Greeting, software: str, host: str) -> None:
    """On the client: VersionMismatch, naming the host and the side to be upgraded, unless the host has all our rows."""
    if greeting.version != VERSION:
        raise VersionMismatch(f"{host}: " + _versions(VERSION, software, greeting.version, greeting.software))
    ours = rows()
    wrong = [number for number, row in ours.items() if greeting.rows.get(number) != row]
    if not wrong:
        return
    missing = [number for number in wrong if number not in greeting.rows]
    names = ", ".join(COMMANDS[number].__name__ for number in wrong[:3]) + (", ..." if len(wrong) > 3 else "")
    older = "the host" if missing or greeting.rows.keys() <= ours.keys() else "this client"
    raise VersionMismatch(
        f"{host}: its command table does not hold {len(wrong)} of this client's commands as they are here ({names}); "
        f"upgrade glremote on {older} (host {greeting.software}, client {software})"
    )


def _versions(client: int, client_software: str, host: int, host_software: str) -> str:
    older = "the client" if client < host else "the host"
    return (
        f"the client speaks version {client} of the protocol (glremote {client_software}) "
        f"and the host version {host} (glremote {host_software}); upgrade glremote on {older}"
    )
