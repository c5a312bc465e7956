"""Random programs: lines of Python, most of them right, that use what the lines before have made.

`Making` is a program while it is made: how it chooses, how a line is written, and what the lines so far have made, as
far as that decides what is defined. Knows: which arguments are wrong; steps are spoiled by them. Does
not know: moderngl's calls, which making_images.py, making_drawings.py and programs.py do, in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
SPOILED = (6, 3, 50)
"""One step of so many is spoiled, in one program or another."""

WRONG = (
    "None", "-1", "0", "1", "2", "3", "5", "1.5", "float('nan')", "float('inf')", "True", "'a'", "''", "b''",
    "b'abc'", "()", "(1,)", "(1, 2)", "(1, 2, 3)", "[1, 2, 3, 4]", "(1.5, 2, 3, 4)", "(1, 2, 3, 4, 5, 6)",
    "(-1, 0, 2, 2)", "(1, 1, 100, 100)", "('a', 'b')", "(None, None)", "2**31 - 1", "2**31", "2**32", "2**32 + 1",
    "-2**31", "-2**31 - 1", "2**63", "-2**63", "2**64", "10**30", "np.float32(1)", "np.int8(2)", "np.bool_(True)",
    "np.zeros(16, 'u1')",
    "np.zeros((4, 4), 'f4')[:, ::2]", "np.arange(4)", "bytearray(16)", "memoryview(bytes(16))[::2]", "object", "ctx",
    "range(4)", "{}", "{1: 2}", "'f1'", "'f9'", "iter((1, 2))", "'\\0'", "'\\ud800'",
)  # fmt: skip
"""What an argument becomes when its step is spoiled."""
SMALL_WRONG = (
    "None", "-1", "0", "1.5", "True", "'a'", "b'ab'", "()", "(1,)", "(0, 0)", "(-1, 4)", "(4, 4, 4)", "[4, 4]",
    "np.int32(2)", "(1.5, 2)", "(2, None)", "'44'", "2**32 + 1", "2**63", "-2**32", "{}", "range(1, 3)",
)  # fmt: skip
"""The same where a large number would take long, or much memory."""


@dataclass
class Thing:
    """An object that a line made, as far as it is known."""

    name: str
    kind: str
    size: tuple[int, ...] = ()
    pixel: int = 0
    components: int = 0
    dtype: str = ""
    samples: int = 0
    depth: bool = False
    levels: int = 1
    shaders: str = ""
    parts: tuple[Thing, ...] = ()
    of: Thing | None = None
    """What OpenGL has one of, and moderngl two."""
    released: bool = False
    given: dict[str, Any] = field(default_factory=dict)

    @property
    def object(self) -> str:
        """The name of the first that stands for the same of OpenGL's objects."""
        return self.of.object if self.of else self.name


@dataclass
class Small:
    """An argument that is spoiled by SMALL_WRONG only."""

    text: str


@dataclass
class Never:
    """An argument that is never spoiled."""

    text: str


Argument = str | Small | Never


class Making:
    """A program while it is made. `number` chooses one: from the first number given to the second."""

    def __init__(self, number: Callable[[int, int], int]) -> None:
        self.number = number
        self.spoiled = self.pick(SPOILED)
        self.lines: list[str] = []
        self.things: list[Thing] = []
        self.targets: list[Thing] = []  # framebuffers of which one is bound
        self.sampled: set[str] = set()  # the objects of textures that may be bound to a unit

    # --- choosing

    def pick(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[self.number(0, len(items) - 1)]

    def one_in(self, number: int) -> bool:
        """True once in so many times."""
        return self.number(0, number - 1) == number - 1

    def having(self, *kinds: str, released: bool = False) -> list[Thing]:
        """Objects of these kinds."""
        return [thing for thing in self.things if thing.kind in kinds and (released or not thing.released)]

    def any_of(self, *kinds: str) -> Thing | None:
        """One object of these kinds, often the last; rarely one that was released. None where there is none."""
        found = self.having(*kinds, released=self.one_in(20))
        if not found:
            return None
        return found[-1] if self.number(0, 1) else self.pick(found)

    def some(self, kind: str, make: Callable[[], Thing | None]) -> Thing | None:
        """One object of a kind, which is made where there is none."""
        return self.any_of(kind) or make()

    # --- writing lines

    def line(self, text: str) -> None:
        """Append a step."""
        self.lines.append(text)

    def arguments(self, *arguments: Argument, **more: Argument) -> tuple[str, bool]:
        """Arguments as they stand in a call, and whether they are right."""
        given: list[tuple[str, Argument]] = [("", argument) for argument in arguments]
        given += [(f"{name}=", argument) for name, argument in more.items()]
        texts = [(name, a if isinstance(a, str) else a.text) for name, a in given]
        places = [place for place, (_, argument) in enumerate(given) if not isinstance(argument, Never)]
        right = not places or not self.one_in(self.spoiled)
        if not right:
            place = self.pick(places)
            texts[place] = texts[place][0], self.wrong(isinstance(given[place][1], Small))
        return ", ".join(name + text for name, text in texts), right

    def wrong(self, small: bool) -> str:
        """A wrong value, or an object of another kind."""
        if not small and self.things and self.one_in(4):
            return self.pick(self.things).name
        return self.pick(SMALL_WRONG if small else WRONG)

    def call(self, target: str, *arguments: Argument, **more: Argument) -> bool:
        """A step that calls; whether it is right."""
        text, right = self.arguments(*arguments, **more)
        self.line(f"{target}({text})")
        return right

    def make(self, thing: Thing, target: str, *arguments: Argument, **more: Argument) -> Thing | None:
        """A step that makes something; None where it was spoiled."""
        text, right = self.arguments(*arguments, **more)
        self.line(f"{thing.name} = {target}({text})")
        if right:
            self.things.append(thing)
            return thing
        return None

    def put(self, target: str, value: Argument) -> bool:
        """A step that sets; whether it is right."""
        text, right = self.arguments(value)
        self.line(f"{target} = {text}")
        return right

    def new(self, kind: str, **known: Any) -> Thing:
        """A new name."""
        return Thing(f"{kind}{len(self.lines)}", kind, **known)

    def bytes(self, size: int) -> str:
        """Something with so many bytes."""
        seed = self.number(0, 9)
        form = self.pick(("{}", "{}", "bytearray({})", "memoryview({})", "np.frombuffer({}, 'u1')"))
        return form.format(f"data({size}, {seed})")
