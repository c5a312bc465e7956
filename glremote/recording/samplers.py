"""Stands where mgl.Sampler stands. Shadow: the parameters of sampling, which textures have too.

Knows: what a parameter of sampling may be, what its getter gives, how it is set again. Does not know: textures, texels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import moderngl
from moderngl import LINEAR, Error

from glremote.protocol import commands as c

from . import arguments as a
from .objects import Recorded

if TYPE_CHECKING:
    from .context import Context

Parameter = Any
"""The command that sets a parameter: its class, with the fields (handle, value)."""
COMPARISONS = frozenset(("<=", "<", ">=", ">", "==", "!=", "0", "1"))


class Sampled(Recorded):
    """What has parameters of sampling.

    They are kept by command: `initial` as OpenGL begins, `given` as they were set since, in the order of setting, since
    some set what others set too (a border colour the repeats).
    """

    def __init__(self, context: Context, initial: dict[Parameter, Any]) -> None:
        super().__init__(context)
        self.initial = initial
        self.given: dict[Parameter, Any] = {}

    def value(self, parameter: Parameter) -> Any:
        """What the parameter's getter gives."""
        return self.given[parameter] if parameter in self.given else self.initial[parameter]

    def give(self, parameter: Parameter, value: Any) -> None:
        """Set a parameter, on the host and in the shadow."""
        if not self.has(parameter, value):
            self.recorder.record(parameter(self.handle, value))
        self.keep(parameter, value)

    def has(self, parameter: Parameter, value: Any) -> bool:
        """Whether OpenGL has this value for certain: then setting it again changes nothing, and is not recorded."""
        return False

    def keep(self, parameter: Parameter, value: Any) -> None:
        """Set a parameter in the shadow, where another command has set it on the host."""
        self.given.pop(parameter, None)
        self.given[parameter] = value

    def restore(self) -> Iterator[c.Command]:
        """See Recorded.restore."""
        if not self.released:
            for parameter, value in self.given.items():
                yield parameter(self.handle, value)


def repeat(parameter: Parameter, axis: str) -> property:
    """`repeat_x` and the like: exactly True or False."""

    def get(self: Sampled) -> bool:
        return self.value(parameter)  # type: ignore[no-any-return]

    def put(self: Sampled, value: Any) -> None:
        if value is not True and value is not False:
            raise Error(f"invalid value for texture_{axis}")
        self.give(parameter, value)

    return property(get, put, doc=f"Whether it repeats beyond its edges along {axis}.")


def filtering(parameter: Parameter) -> property:
    """`filter`: two enumerants of OpenGL, which the getter gives back even where OpenGL refused them."""

    def get(self: Sampled) -> tuple[int, int]:
        return self.value(parameter)  # type: ignore[no-any-return]

    def put(self: Sampled, value: Any) -> None:
        found = a.numbers(value, (2,))
        if found is None:
            raise Error("invalid filter")
        self.give(parameter, found)

    return property(get, put, doc="The filters for minifying and for magnifying.")


def real(parameter: Parameter, name: str, limit: str = "") -> property:
    """A float, rounded to single precision; with a `limit` of the context's clamped to 1.0 ... limit.

    What is no number is set as -1.0, and then raises what Python raises of C code that overlooks an exception.
    """

    def get(self: Sampled) -> float:
        return self.value(parameter)  # type: ignore[no-any-return]

    def put(self: Sampled, value: Any) -> None:
        greatest = self.context.limits[limit] if limit else None
        if greatest == 0:  # the driver cannot do it: moderngl does not even look at the value
            return
        error = None
        try:
            number = a.real(value)
        except Exception as caught:
            number, error = -1.0, caught
        if greatest is not None:
            number = min(number if number > 1.0 else 1.0, greatest)
        self.give(parameter, a.float32(number))
        if error is not None:
            setter = vars(getattr(moderngl, self.name.removeprefix("mgl.")))[name].fset
            try:
                raise SystemError(f"{setter!r} returned a result with an exception set") from error
            finally:
                del error  # or this frame and the exception would keep each other, and the object that is set

    return property(get, put, doc=f"{name}, a float.")



def comparison(text: str) -> str:
    """A comparison as its getter gives it: "?" for one that there is not, which means none."""
    return text if text in COMPARISONS else "?"


BEGINS: dict[Parameter, Any] = {
    c.SamplerRepeatX: True,
    c.SamplerRepeatY: True,
    c.SamplerRepeatZ: True,
    c.SamplerCompareFunc: "?",
    c.SamplerAnisotropy: 1.0,
    c.SamplerMinLod: -1000.0,
    c.SamplerMaxLod: 1000.0,
}
"""What OpenGL gives a new sampler (OpenGL 4.6 core, table 23.18), where a setter sets just that."""


class Sampler(Sampled):
    """A sampler object."""

    name = "mgl.Sampler"

    def has(self, parameter: Parameter, value: Any) -> bool:
        """See Sampled.has. A border colour sets the repeats too, and 0.0 may be -0.0."""
        if not parameter.skips or not self.recorder.skips or self.released:
            return False
        if value == 0.0 or c.SamplerBorderColor in self.given:
            return False
        return bool(self.given.get(parameter, BEGINS[parameter]) == value)

    def __init__(self, context: Context) -> None:
        initial = {
            c.SamplerRepeatX: True,
            c.SamplerRepeatY: True,
            c.SamplerRepeatZ: True,
            c.SamplerFilter: (LINEAR, LINEAR),
            c.SamplerCompareFunc: "?",
            c.SamplerAnisotropy: 0.0,
            c.SamplerBorderColor: (0.0, 0.0, 0.0, 0.0),
            c.SamplerMinLod: -1000.0,
            c.SamplerMaxLod: 1000.0,
        }
        super().__init__(context, initial)
        self.glo = context.number("sampler", self)

    def use(self, location: Any) -> None:
        """Bind it to a texture unit."""
        self._bind(c.SamplerUse, location)

    def clear(self, location: Any) -> None:
        """Leave a texture unit without a sampler."""
        self._bind(c.SamplerClear, location)

    def _bind(self, kind: Any, location: Any) -> None:
        unit = a.uint32(location)
        command = kind(self.handle, unit)
        self.recorder.record(command)
        self.context.bindings["sampler", unit] = command

    repeat_x = repeat(c.SamplerRepeatX, "x")
    repeat_y = repeat(c.SamplerRepeatY, "y")
    repeat_z = repeat(c.SamplerRepeatZ, "z")
    filter = filtering(c.SamplerFilter)
    anisotropy = real(c.SamplerAnisotropy, "anisotropy", "max_anisotropy")
    min_lod = real(c.SamplerMinLod, "min_lod")
    max_lod = real(c.SamplerMaxLod, "max_lod")

    @property
    def compare_func(self) -> str:
        """The comparison with depth, "?" for none."""
        return self.value(c.SamplerCompareFunc)  # type: ignore[no-any-return]

    @compare_func.setter
    def compare_func(self, value: Any) -> None:
        try:
            text = a.c_string(value)
        except (TypeError, UnicodeEncodeError):
            raise Error("invalid compare function") from None
        self.give(c.SamplerCompareFunc, comparison(text))

    @property
    def border_color(self) -> tuple[float, float, float, float]:
        """Red, green, blue and alpha beyond the edges; setting it ends repeating."""
        return self.value(c.SamplerBorderColor)  # type: ignore[no-any-return]

    @border_color.setter
    def border_color(self, value: Any) -> None:
        try:
            color = tuple(map(a.float32, value))
        except Exception:
            color = ()
        if len(color) != 4:
            raise Error("invalid border color")
        self.give(c.SamplerBorderColor, color)


def sampler(context: Context) -> tuple[Sampler, int]:
    """`Context.sampler` of the seam: the object and its glo."""
    made = Sampler(context)
    context.recorder.make(made, c.MakeSampler(made.handle))
    return made, made.glo
