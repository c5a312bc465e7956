"""What every recording object is: a handle, a recorder, and a shadow of the state that its setters set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from moderngl import Error

from glremote.protocol.commands import Command, Release

from .arguments import c_name
from .faults import NEVER, Fault, is_made
from .lives import Life
from .recorder import Recorder
from .traces import ASIDE

if TYPE_CHECKING:
    from .context import Context

T = TypeVar("T", bound="Recorded")


class Seam:
    """Stands where one of moderngl's C objects stands: `name` is its type's name, as moderngl's error texts show it."""

    name = "mgl.Object"
    followed: ClassVar[frozenset[Any]] = frozenset()
    """Commands whose effect on the shadow depends on what it was, and the attributes that they set; see follow."""

    def follow(self, command: Command) -> None:
        """A replay runs this command, one of `followed`: do to the shadow what the call does that records it."""

    if not TYPE_CHECKING:  # type checkers would believe in any attribute

        def __getattr__(self, name: str) -> Any:
            """What stands aside while it is traced: see traces.py."""
            try:
                return self.__dict__[ASIDE][name]
            except KeyError:
                raise AttributeError(f"'{self.name}' object has no attribute '{name}'") from None

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle '{self.name}' object")


class Recorded(Seam):
    """What the host has an object for.

    Its `handle` names it on the host, its `glo` in the program: moderngl's number of an OpenGL object, here a number of
    the client's for each type.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.recorder: Recorder = context.recorder
        self.handle = self.recorder.handle()
        self.released = False
        self.life: Life | None = None  # once the host has heard of it

    def release(self) -> None:
        """Free the OpenGL object; the second call does nothing."""
        if not self.released:
            self.released = True
            if self.life is not None:
                self.recorder.free(Release(self.handle))

    def restore(self) -> Iterator[Command]:
        """The commands that set again what the setters have set; for the first buffer of an epoch."""
        return iter(())

    def never_made(self, fault: Fault) -> None:
        """The command that was to make this object did not run: every use of it raises from now on."""
        self.__dict__[NEVER] = fault
        if (life := self.__dict__["life"]) is not None:
            life.cancel()
        self.__class__ = _never_made(type(self))


def _never_made(kind: type[Recorded]) -> type[Recorded]:
    class NeverMade(kind):  # type: ignore[misc, valid-type]
        """An object whose making was dropped: touching it raises what says why."""

        def __getattribute__(self, name: str) -> Any:
            if name in ("release", "__class__", "__dict__"):
                return object.__getattribute__(self, name)
            raise never_made_error(self)

        def __setattr__(self, name: str, value: Any) -> None:
            raise never_made_error(self)

        def release(self) -> None:
            """Nothing is there to be freed."""

    NeverMade.name = kind.name
    return NeverMade


def never_made_error(thing: Recorded) -> Fault:
    """What using an object that was never made raises."""
    return Fault(f"this {type(thing).name.removeprefix('mgl.')} was never made: {thing.__dict__[NEVER]}")


def check_made(thing: Any, context: Context | None = None) -> None:
    """Raise, naming the fault, if this is an object that was never made; whoever takes one as an argument asks.

    With a context: also if it is of another, whose objects this one's session does not have.
    """
    if isinstance(thing, Recorded):
        if not is_made(thing):
            raise never_made_error(thing)
        if context is not None and thing.context is not context:
            raise Error(f"the {thing.name.removeprefix('mgl.')} belongs to a different context")


def type_name(thing: Any) -> str:
    """A type's name as moderngl's C code shows it in its error texts."""
    return thing.name if isinstance(thing, Seam) else c_name(type(thing))


def instance(value: Any, kind: type[T], position: int, context: Context | None = None) -> T:
    """`O!`: an argument of exactly this recording type; `position` counts the arguments of the seam's call from 1.

    With a context: one of that context.
    """
    check_made(value)
    if type(value) is not kind:
        raise TypeError(f"argument {position} must be {kind.name}, not {'None' if value is None else type_name(value)}")
    check_made(value, context)
    return value
