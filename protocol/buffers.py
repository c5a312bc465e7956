"""Command buffers: a list of commands as bytes, and the check of all of it before any of it runs.

Knows: the table of commands, and which handles live. Does not know: what a command does.

Encoded, a command buffer is one MessagePack array of commands, each an array of its number and its fields. It is
accepted whole or refused whole: `decode` checks every type, `Checker.check` every handle (through the buffer's own
makes and frees), span and size. A buffer that is refused ends its session, since no client of ours sends one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import takewhile
from typing import Any, get_args

import msgspec

from .commands import (
    COMMANDS,
    DEFAULT_FRAMEBUFFER,
    AnyCommand,
    Command,
    Do,
    Fetch,
    Forget,
    Free,
    KeepCommands,
    Make,
    Replay,
    hints,
)
from .errors import ProtocolError
from .stacks import Span, Stack

LARGEST = 1 << 20
"""Bytes that the commands of one buffer may take, encoded."""
LARGEST_DATA = 16 << 20
"""Bytes that the spans of one buffer may take together; what is larger goes in consecutive buffers."""
LARGEST_FETCH = 1 << 30
"""Bytes that one Fetch may ask for."""

_encoder = msgspec.msgpack.Encoder()


@cache
def _decoder() -> msgspec.msgpack.Decoder[list[Command]]:
    """Made when it is first needed: a client never decodes commands, and it takes longer than opening a session."""
    return msgspec.msgpack.Decoder(list[AnyCommand])


def prepare() -> None:
    """Do now what `decode` needs: a host does it while it waits for a client."""
    _decoder()


def encode(commands: Sequence[Command]) -> bytes:
    """The bytes of a command buffer. Cannot fail on what recording/ recorded: it gave every field its exact type."""
    return _encoder.encode(commands)


def decode(body: bytes | memoryview) -> list[Command]:
    """The commands of a buffer; ProtocolError says which field of which command is not what the table says."""
    if len(body) > LARGEST:
        raise ProtocolError(f"a command buffer of {len(body)} bytes; the greatest has {LARGEST}")
    try:
        return _decoder().decode(body)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"not a command buffer: {error}") from None
    except RecursionError:
        raise ProtocolError("not a command buffer: nested too deeply") from None


def text(command: Command, longest: int = 200) -> str:
    """A command on one line, for traces and faults; long values are cut."""
    shown = []
    for name in command.__struct_fields__:
        value = getattr(command, name)
        piece = f"{len(value)} bytes" if isinstance(value, bytes) else repr(value)
        shown.append(f"{name}={piece if len(piece) <= 60 else piece[:57] + '...'}")
    line = f"{type(command).__name__}({', '.join(shown)})"
    return line if len(line) <= longest else line[: longest - 3] + "..."


def kept_by(keep: KeepCommands, commands: Iterable[Command]) -> list[Do]:
    """Those of a buffer's commands that one of them keeps; ProtocolError where it may not."""
    before = list(takewhile(lambda command: command is not keep, commands))
    kept = [command for command in before if isinstance(command, Do)]
    for command in before:
        if not isinstance(command, Do | Free) or isinstance(command, Replay):
            raise ProtocolError(f"{type(command).__name__} stands before it, which is never kept")
    if len(kept) != keep.count:
        raise ProtocolError(f"{len(kept)} commands stand before it to be kept")
    return kept


class Checker:
    """Which handles live, of which kind; and whether a buffer names only those, and only spans and sizes that exist."""

    def __init__(self, stack: Stack, largest_fetch: int = LARGEST_FETCH, most_handles: int | None = None) -> None:
        self.kinds: dict[int, str] = {DEFAULT_FRAMEBUFFER: "framebuffer"}
        self.stack = stack
        self.largest_fetch = largest_fetch
        self.most_handles = most_handles
        self._tests = _every_test()
        self.data = 0
        """Bytes of the spans of the buffer that was checked last."""
        self._commands: Sequence[Command] = ()  # of the buffer that is checked
        self._kept: dict[int, frozenset[int]] = {}  # which handles kept commands name, by their own
        self._broken: set[int] = set()  # kept commands that name a handle that has gone

    def check(self, commands: Sequence[Command]) -> None:
        """Raise ProtocolError, naming the command, unless all of the buffer may run. The handles it makes then live."""
        self.data = 0
        self._commands = commands
        living, every_test = self.kinds, self._tests
        for index, command in enumerate(commands):
            handles, tests = every_test[type(command)]
            try:
                for name, kinds in handles:
                    handle = getattr(command, name)
                    if living.get(handle) not in kinds:
                        self.handle(handle, kinds)
                for test in tests:
                    test(self, command)
            except ProtocolError as error:
                raise ProtocolError(f"command {index} of the buffer, {text(command)}: {error}") from None

    def handle(self, handle: int, kinds: frozenset[str]) -> None:
        kind = self.kinds.get(handle)
        if kind not in kinds:
            raise ProtocolError(f"handle {handle} is {kind or 'unknown'}, not {' or '.join(sorted(kinds))}")

    def span(self, span: Span) -> None:
        self.stack.view(span)
        self.data += span.size
        if self.data > LARGEST_DATA:
            raise ProtocolError(f"the spans of the buffer have more than {LARGEST_DATA} bytes together")

    def make(self, command: Command) -> None:
        handle = command.handle  # type: ignore[attr-defined]
        if handle in self.kinds:
            raise ProtocolError(f"handle {handle} is in use")
        if self.most_handles is not None and len(self.kinds) > self.most_handles:
            raise ProtocolError(f"more than {self.most_handles} handles live")
        self.kinds[handle] = command.makes

    def forget(self, command: Command) -> None:
        handle: int = command.object  # type: ignore[attr-defined]
        del self.kinds[handle]
        self._kept.pop(handle, None)
        self._broken.discard(handle)
        self._broken.update(kept for kept, handles in self._kept.items() if handle in handles)

    def keep(self, command: KeepCommands) -> None:
        handles = frozenset(Names(kept_by(command, self._commands)).handles)
        self._kept[command.handle] = handles
        if not handles <= self.kinds.keys():  # forgotten before the end of the buffer
            self._broken.add(command.handle)

    def replay(self, command: Replay) -> None:
        if command.commands in self._broken:
            raise ProtocolError("the kept commands name an object that was forgotten since")

    def fetch(self, command: Command) -> None:
        if command.size > self.largest_fetch:  # type: ignore[attr-defined]
            raise ProtocolError(f"a read of more than {self.largest_fetch} bytes")


class Names(Checker):
    """What commands name: `handles`, each with the first command that names it, and `spans`."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self.handles: dict[int, Command] = {}
        self.spans: set[Span] = set()
        for self._command in commands:
            for test in _field_tests(type(self._command)):
                test(self, self._command)

    def handle(self, handle: int, kinds: frozenset[str]) -> None:
        self.handles.setdefault(handle, self._command)

    def span(self, span: Span) -> None:
        self.spans.add(span)


Test = Callable[[Checker, Any], None]


def _kinds(hint: Any) -> frozenset[str] | None:
    """Of which kinds the object must be that a value of this type names, if it is a handle."""
    return (hint.__metadata__[0].extra or {}).get("kinds") if hasattr(hint, "__metadata__") else None


def _value_test(hint: Any) -> Test | None:
    """What to test of a value of this type, or None: read off its annotation, through tuples, unions and structs."""
    if hasattr(hint, "__metadata__"):
        kinds = _kinds(hint)
        return None if kinds is None else lambda checker, value: checker.handle(value, kinds)
    if hint is Span:
        return lambda checker, value: checker.span(value)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        tests = _field_tests(hint)
        return (lambda checker, value: [test(checker, value) for test in tests]) if tests else None  # type: ignore[return-value]
    arguments = get_args(hint)
    if type(None) in arguments:
        (inner,) = (_value_test(a) for a in arguments if a is not type(None)) if len(arguments) == 2 else (None,)
        return inner and (lambda checker, value: None if value is None else inner(checker, value))
    if getattr(hint, "__origin__", None) is tuple:
        inners = [_value_test(a) for a in arguments if a is not Ellipsis]
        if arguments[-1] is Ellipsis and inners[0]:
            each = inners[0]
            return lambda checker, value: [each(checker, v) for v in value]  # type: ignore[return-value]
        known = [(i, inner) for i, inner in enumerate(inners) if inner]
        return (lambda checker, value: [inner(checker, value[i]) for i, inner in known]) if known else None  # type: ignore[return-value]
    return None


def _field_test(name: str, hint: Any) -> Test | None:
    inner = _value_test(hint)
    return inner and (lambda checker, owner: inner(checker, getattr(owner, name)))


@cache
def _field_tests(struct: type[msgspec.Struct]) -> list[Test]:
    return [test for name, hint in hints(struct).items() if (test := _field_test(name, hint))]


Tests = tuple[list[tuple[str, frozenset[str]]], list[Test]]
"""Of a command: the fields that are handles, each with what they may name, which are most; and all the others'."""


def _tests(command: type[Command]) -> Tests:
    fields = hints(command).items()
    handles = [(name, kinds) for name, hint in fields if (kinds := _kinds(hint))]
    others = {name: hint for name, hint in fields if not _kinds(hint)}
    tests = [test for name, hint in others.items() if (test := _field_test(name, hint))]
    if issubclass(command, Make):
        tests.append(Checker.make)
    if issubclass(command, Fetch):
        tests.append(Checker.fetch)
    if command is Forget:
        tests.append(Checker.forget)
    if command is KeepCommands:
        tests.append(Checker.keep)
    if command is Replay:
        tests.append(Checker.replay)
    return handles, tests


@cache
def _every_test() -> dict[type[Command], Tests]:
    """By command. As with the decoder: only a host needs them."""
    return {command: _tests(command) for command in COMMANDS.values()}
