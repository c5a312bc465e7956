"""The handshake: who fits whom, and what each misfit says about who is to be upgraded."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from glremote.protocol import commands as c
from glremote.protocol import handshake
from glremote.protocol import messages as m
from glremote.protocol.errors import ProtocolError, VersionMismatch
from glremote.protocol.reflection import Driver

DRIVER = Driver(450, {"GL_RENDERER": "a test"}, [], {}, {}, (0, 0, 0, 0), [])
CLIENT, HOST, ADDRESS = "1.2.3", "4.5.6", "ws://gpu-1:8765"


def greet(**changes: Any) -> m.Greeting | m.Refused:
    """What a host answers to a hello with these changes."""
    hello = structs.replace(handshake.hello(CLIENT, "5.13.0", 430), **changes)
    return handshake.greet(hello, HOST, "5.13.1", "name", 1 << 20, 60.0, DRIVER)


def greeting(**changes: Any) -> m.Greeting:
    """A greeting with these changes."""
    found = greet()
    assert isinstance(found, m.Greeting)
    return structs.replace(found, **changes)


def mismatch(**changes: Any) -> str:
    """What a client says of such a greeting."""
    with pytest.raises(VersionMismatch) as caught:
        handshake.check(greeting(**changes), CLIENT, ADDRESS)
    assert isinstance(caught.value, ProtocolError)
    assert str(caught.value).startswith(f"{ADDRESS}: ")
    return str(caught.value)


def test_a_host_greets_a_client_of_its_own_version() -> None:
    assert handshake.hello(CLIENT, "5.13.0", 430) == m.Hello(m.VERSION, CLIENT, "5.13.0", 430)
    assert greet() == m.Greeting(m.VERSION, HOST, "5.13.1", c.rows(), "name", 1 << 20, 60.0, DRIVER)
    handshake.check(greeting(), CLIENT, ADDRESS)


def test_the_offer_of_a_near_socket_and_the_key_are_passed_on() -> None:
    near = m.Near("/run/near", b"secret", 1 << 21)
    hello = handshake.hello(CLIENT, "5.13.0", 430)
    found = handshake.greet(hello, HOST, "5.13.1", "name", 1 << 20, 60.0, DRIVER, near, b"key")
    assert isinstance(found, m.Greeting) and (found.near, found.key) == (near, b"key")


def test_a_greeting_fits_into_a_message() -> None:
    """With as much as the largest drivers have to tell."""
    driver = structs.replace(
        DRIVER,
        info={f"GL_MAX_SOMETHING_OF_SOME_KIND_{i}": (1 << 31, 1 << 31) for i in range(120)},
        extensions=[f"GL_ARB_an_extension_of_a_long_name_{i}" for i in range(500)],
        complete=[("texture_array", 4, "ni2", 16)] * 2 * 7 * 53,
    )
    m.encode(greeting(driver=driver))


# --- versions of the protocol


@pytest.mark.parametrize(
    ("version", "to_upgrade"), [(m.VERSION - 1, "the client"), (m.VERSION + 1, "the host"), (999, "the host")]
)
def test_a_host_refuses_another_version(version: int, to_upgrade: str) -> None:
    found = greet(version=version)
    assert found == m.Refused(
        "version",
        f"the client speaks version {version} of the protocol (glremote {CLIENT}) and the host version {m.VERSION} "
        f"(glremote {HOST}); upgrade glremote on {to_upgrade}",
        m.VERSION,
    )


@pytest.mark.parametrize(("version", "to_upgrade"), [(m.VERSION - 1, "the host"), (m.VERSION + 1, "the client")])
def test_a_client_refuses_another_version(version: int, to_upgrade: str) -> None:
    text = mismatch(version=version)
    assert text.endswith(f"upgrade glremote on {to_upgrade}")
    assert f"version {m.VERSION} of the protocol (glremote {CLIENT})" in text
    assert f"the host version {version} (glremote {HOST})" in text


def test_the_version_comes_before_the_rows() -> None:
    assert "of the protocol" in mismatch(version=m.VERSION + 1, rows={})


# --- rows of the command table


def test_a_host_may_know_more() -> None:
    handshake.check(greeting(rows=c.rows() | {900: 1, 901: 2}), CLIENT, ADDRESS)


def test_a_row_that_the_host_lacks() -> None:
    rows = {number: row for number, row in c.rows().items() if c.COMMANDS[number] is not c.Render}
    text = mismatch(rows=rows)
    assert "does not hold 1 of this client's commands" in text and "(Render)" in text
    assert text.endswith(f"upgrade glremote on the host (host {HOST}, client {CLIENT})")


def test_many_rows_that_the_host_lacks() -> None:
    text = mismatch(rows={})
    assert f"does not hold {len(c.rows())} of this client's commands" in text
    assert text.count(", ...") == 1 and len(text) < 300
    assert "upgrade glremote on the host" in text


def test_a_row_that_has_changed() -> None:
    """It cannot be told which side has the older row; a host that knows more commands is the newer one."""
    changed = {n: row ^ 1 if c.COMMANDS[n] is c.Render else row for n, row in c.rows().items()}
    text = mismatch(rows=changed)
    assert "does not hold 1 of this client's commands as they are here (Render)" in text
    assert "upgrade glremote on the host" in text
    assert "upgrade glremote on this client" in mismatch(rows=changed | {900: 1})


def test_a_row_that_has_changed_and_one_that_is_missing() -> None:
    rows = {n: row ^ 1 for n, row in c.rows().items() if c.COMMANDS[n] is not c.Render} | {900: 1}
    assert "upgrade glremote on the host" in mismatch(rows=rows)


# --- the version of OpenGL


def test_a_version_of_opengl_that_the_driver_does_not_have() -> None:
    """In moderngl's words: the client raises them as moderngl's ValueError."""
    assert greet(require=460) == m.Refused(
        "require", "Requested OpenGL version 460, got version 450", m.VERSION
    )
    assert isinstance(greet(require=450), m.Greeting)
    assert isinstance(greet(require=330), m.Greeting)


def test_the_version_of_the_protocol_comes_before_that_of_opengl() -> None:
    found = greet(version=m.VERSION + 1, require=999)
    assert isinstance(found, m.Refused) and found.code == "version"
