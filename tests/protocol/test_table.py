"""The command table: numbers, frozen rows, one recorder and one interpreter of each command, encoding, PROTOCOL.md."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glremote
from glremote.host import interpreter
from glremote.protocol import buffers, devices, messages, reflection, session, stacks
from glremote.protocol import commands as c
from glremote.protocol.stacks import Span
from tests.protocol import strategies, test_messages
from tests.protocol.strategies import SETTINGS

PACKAGE = Path(glremote.__file__).parent
ROOT = PACKAGE.parent
FROZEN = Path(c.__file__).with_name("rows.txt")
VERBS = (c.Make, c.Do, c.Free, c.Ask, c.Fetch)
TABLES: dict[type[c.Command], dict[type[c.Command], Any]] = {
    c.Make: interpreter.MAKES,
    c.Do: interpreter.DOES,
    c.Ask: interpreter.ASKS,
    c.Fetch: interpreter.FETCHES,
    c.Free: interpreter.FREES,
}
every = pytest.mark.parametrize("kind", c.COMMANDS.values(), ids=lambda kind: kind.__name__)


# --- the classes


def test_numbers_are_unique() -> None:
    numbers = Counter(leaf.__struct_config__.tag for verb in VERBS for leaf in verb.__subclasses__())
    assert [number for number, count in numbers.items() if count > 1] == []
    assert sorted(numbers) == sorted(c.COMMANDS)  # type: ignore[type-var]


@every
def test_a_command_says_what_it_is(kind: type[c.Command]) -> None:
    (verb,) = kind.__bases__
    assert verb in VERBS, "its base class must be its verb"
    assert "__doc__" in vars(kind) and kind.__doc__, "it needs a docstring: the call that it records"
    assert set(c.hints(kind)) == set(kind.__struct_fields__), "every field needs a type"
    assert all(hint is not Any for hint in c.hints(kind).values())
    assert (kind.makes in c.KINDS) == issubclass(kind, c.Make), "a Make says what kind of object it makes"


def test_every_kind_of_object_is_made() -> None:
    assert {kind.makes for kind in c.COMMANDS.values() if issubclass(kind, c.Make)} == set(c.KINDS)


# --- frozen rows


def test_rows_are_frozen() -> None:
    """A number means the same for ever: hosts of other versions go by it."""
    lines = FROZEN.read_text().splitlines()
    rows = {number: c.row(kind) for number, kind in c.COMMANDS.items()}
    frozen: dict[int, str] = {}
    for line in lines:
        number = int(line.removeprefix(c.RETIRED).split()[0])
        assert number not in frozen, f"{FROZEN.name} has number {number} twice"
        frozen[number] = line
    for number, line in frozen.items():
        if line.startswith(c.RETIRED):
            assert number not in rows, f"number {number} was used before, and no number is used twice; take another"
        elif number not in rows:
            pytest.fail(f'a command is gone: put "{c.RETIRED}" before its line in {FROZEN}, which stays there:\n{line}')
        else:
            assert rows[number] == line, (
                f"a row has changed, and clients and hosts of other versions know the old one. Give the changed "
                f'command a number of its own, put "{c.RETIRED}" before the old line in {FROZEN}, and append the new '
                "one."
            )
    added = [row for number, row in sorted(rows.items()) if number not in frozen]
    assert not added, "commands were added: append to {}:\n{}".format(FROZEN, "\n".join(added))


def test_hashes_are_those_of_the_rows() -> None:
    assert c.rows().keys() == c.COMMANDS.keys()
    for number, kind in c.COMMANDS.items():
        assert c.rows()[number] == int.from_bytes(hashlib.sha256(c.row(kind).encode()).digest()[:4], "big")


# --- recorded once, interpreted once


def recorded(path: Path) -> set[str]:
    """The commands that a module of recording/ names where it records: not in an annotation, not in a `restore`."""
    tree = ast.parse(path.read_text())
    aliases: set[str] = set()
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "glremote.protocol":
            aliases.update(a.asname or a.name for a in node.names if a.name == "commands")
        elif isinstance(node, ast.ImportFrom) and node.module == "glremote.protocol.commands":
            names.update({a.asname or a.name: a.name for a in node.names})
    found = set()
    for node in values(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            found.add(node.attr)
        elif isinstance(node, ast.Name) and node.id in names:
            found.add(names[node.id])
    return found & {kind.__name__ for kind in c.COMMANDS.values()}


def values(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those below it, annotations and functions called `restore` apart."""
    if isinstance(node, ast.FunctionDef) and node.name == "restore":
        return
    yield node
    for name, child in ast.iter_fields(node):
        if name not in ("annotation", "returns"):
            for item in child if isinstance(child, list) else [child]:
                if isinstance(item, ast.AST):
                    yield from values(item)


def test_every_command_is_recorded_by_one_module() -> None:
    """One call of the seam, one command, one place that records it; `restore` sets again what was recorded."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted((PACKAGE / "recording").glob("*.py")):
        for name in recorded(path):
            places[name].append(path.name)
    for kind in c.COMMANDS.values():
        where = places[kind.__name__]
        assert where, f"{kind.__name__} is recorded nowhere in glremote/recording"
        assert len(where) == 1, f"{kind.__name__} is recorded in {' and '.join(where)}; one module must do it"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_every_command_is_in_the_table_of_its_verb(verb: type[c.Command]) -> None:
    assert set(TABLES[verb]) == {kind for kind in c.COMMANDS.values() if issubclass(kind, verb)}


def test_every_command_is_interpreted_once() -> None:
    """In a dictionary that is written twice the second entry wins, and says nothing."""
    tree = ast.parse((PACKAGE / "host" / "interpreter.py").read_text())
    tables = [n.value for n in tree.body if isinstance(n, ast.AnnAssign) and isinstance(n.value, ast.Dict)]
    keys = Counter(key.attr for table in tables for key in table.keys if isinstance(key, ast.Attribute))
    assert keys == Counter({kind.__name__: 1 for kind in c.COMMANDS.values()})


# --- encoding


@every
@settings(SETTINGS, max_examples=20)
@given(data=st.data())
def test_no_command_fails_to_encode(kind: type[c.Command], data: st.DataObject) -> None:
    command = data.draw(strategies.commands(kind))
    (decoded,) = buffers.decode(buffers.encode([command]))
    assert decoded == command and type(decoded) is kind
    for name in kind.__struct_fields__:
        assert type(getattr(decoded, name)) is type(getattr(command, name))
    assert buffers.encode([decoded]) == buffers.encode([command])


@SETTINGS
@given(st.lists(strategies.every_command(), max_size=20))
def test_no_buffer_fails_to_encode(commands: list[c.Command]) -> None:
    assert buffers.decode(buffers.encode(commands)) == commands


@SETTINGS
@given(strategies.every_command())
def test_the_text_of_a_command_is_one_line(command: c.Command) -> None:
    line = buffers.text(command)
    assert line.startswith(f"{type(command).__name__}(") and line.isprintable() and len(line) <= 200
    assert len(buffers.text(command, 30)) <= 30


def test_not_a_number_and_infinity_keep_their_bits() -> None:
    for bits in ("7ff8000000000000", "7ff8000000000001", "fff0000000000000", "8000000000000000", "0000000000000001"):
        body = bytes.fromhex("919206cb" + bits)
        assert buffers.encode(buffers.decode(body)) == body


# --- PROTOCOL.md


def block(name: str) -> str:
    """The block of PROTOCOL.md that stands between two marks."""
    text = (ROOT / "protocol" / "PROTOCOL.md").read_text("utf-8")
    begin, end = f"<!-- {name} -->\n```text\n", "\n```\n<!-- end -->"
    assert begin in text, f"PROTOCOL.md has no block {begin!r}"
    return text.split(begin)[1].split(end)[0]


def record(kind: Any) -> str:
    """A message or a part of one on one line: its number, if it has one, its name and its fields."""
    number, _, rest = c.row(kind).split(" ", 2)
    return rest if number == "None" else f"{number} {rest}"


MESSAGES = sorted(messages.AnyMessage.__args__, key=lambda kind: kind.__struct_config__.tag)
RECORDS = [
    Span, c.VertexAttribute, c.VertexContent, messages.Near, reflection.Driver, reflection.Reflection,
    reflection.Attribute, *reflection.Member.__args__,
]  # fmt: skip
LIMITS = {
    "the head of a message": messages.LARGEST_HEAD,
    "the body of a message": messages.LARGEST_BODY,
    "a packet": messages.LARGEST_PACKET,
    "a command buffer, encoded": buffers.LARGEST,
    "the spans of a command buffer": buffers.LARGEST_DATA,
    "a read": buffers.LARGEST_FETCH,
    "alignment of a span": stacks.ALIGNMENT,
    "credit in messages": session.CREDIT_MESSAGES,
    "credit in bytes": session.CREDIT_BYTES,
    "messages until an acknowledgement": session.ACKNOWLEDGE_MESSAGES,
}
BLOCKS = {
    "commands": [c.row(kind) for _, kind in sorted(c.COMMANDS.items())],
    "messages": [record(kind) for kind in MESSAGES],
    "records": [record(kind) for kind in RECORDS],
    "report": [record(kind) for kind in (devices.HostReport, devices.Device)],
    "limits": [f"{name:<35}{value:>11}" for name, value in LIMITS.items()],
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_document_agrees_with_the_code(name: str) -> None:
    expected = "\n".join(BLOCKS[name])
    assert block(name) == expected, f"the block <!-- {name} --> of protocol/PROTOCOL.md must be:\n\n{expected}\n"


def test_the_document_has_the_example_of_the_tests() -> None:
    shown = "".join(line.partition("#")[0] for line in block("example").splitlines())
    assert bytes.fromhex(shown) == bytes.fromhex(test_messages.EXAMPLE.replace(" ", ""))


def test_the_document_speaks_of_this_version() -> None:
    text = (ROOT / "protocol" / "PROTOCOL.md").read_text("utf-8")
    assert text.startswith(f"# The protocol, version {messages.VERSION}\n")
