"""What the calls of a block set in the shadows, whether it was so before or not: a replay sets the same again.

Knows: Python's attributes, and dictionaries. Does not know: what they mean.

While a shadow is traced its attributes stand aside, where `Seam.__getattr__` finds them: so what its own dictionary has
in the end was set meanwhile. Of each dictionary that it holds a copy takes the place, and notes what is changed.
"""

from __future__ import annotations

from typing import Any

ASIDE = "aside"
"""The attribute that has the others of a shadow while it is traced."""
GONE: Any = object()
NEVER_AGAIN = frozenset(("released", "life"))
"""What is released in a block is released once."""


class Noted(dict[Any, Any]):
    """A copy of a dictionary that notes what is set and (GONE) taken out: the last of each key, in order."""

    def __init__(self, original: dict[Any, Any]) -> None:
        super().__init__(original)
        self.notes: dict[Any, Any] = {}

    def __setitem__(self, key: Any, value: Any) -> None:
        self._note(key, value)
        super().__setitem__(key, value)

    def pop(self, key: Any, *default: Any) -> Any:
        """As dict.pop; what is not there is noted too, since it may be there the next time."""
        self._note(key, GONE)
        return super().pop(key, *default)

    def _note(self, key: Any, value: Any) -> None:
        self.notes.pop(key, None)
        self.notes[key] = value

    def apply(self, original: dict[Any, Any]) -> None:
        """Do the same to the one that this was a copy of; what is set last comes last, as samplers have it."""
        for key, value in self.notes.items():
            original.pop(key, None)
            if value is not GONE:
                original[key] = value


class Trace:
    """Of one shadow, from now until `end`. What it calls `followed` it sees to itself: see Seam.follow."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.changed: dict[str, Any] = {}
        own = vars(thing)
        self._aside = {name: value for name, value in own.items() if not hasattr(type(thing), name)}
        self.noted = {name: Noted(value) for name, value in self._aside.items() if type(value) is dict}
        own[ASIDE] = self._aside | self.noted  # first, since a finaliser may look
        for name in self._aside:
            del own[name]

    def end(self) -> bool:
        """Put everything in its place again, with what was set; whether anything was."""
        own, followed = vars(self.thing), self.thing.followed | NEVER_AGAIN
        self.changed = {name: own[name] for name in self._aside if name in own and name not in followed}
        for name, value in self._aside.items():
            own.setdefault(name, value)
        del own[ASIDE]
        for name, noted in self.noted.items():
            noted.apply(self._aside[name])
            for key in followed:
                noted.notes.pop(key, None)
        self.noted = {name: noted for name, noted in self.noted.items() if noted.notes}
        self._aside.clear()
        return bool(self.changed or self.noted)

    def apply(self) -> None:
        """Set the same again."""
        own = vars(self.thing)
        own.update(self.changed)
        for name, noted in self.noted.items():
            noted.apply(own[name])
