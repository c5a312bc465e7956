"""The state of a context that moderngl sets one by one: line width, blending, culling and the like. Each is shadowed.

Knows: what each setter takes, in moderngl's words, and what its getter gives. Does not know: objects, or what is bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import moderngl
from moderngl import Error

from glremote.protocol import commands as c

from . import arguments as a
from .recorder import Recorder

FIRST_VERTEX_CONVENTION, LAST_VERTEX_CONVENTION = 0x8E4D, 0x8E4E
COMPARE_FUNCS = ("<=", "<", ">=", ">", "==", "!=", "0", "1")
FRONT_FACES = ("cw", "ccw")
CULL_FACES = ("front", "back", "front_and_back")


class State:
    """The part of a recording context that holds it. `initial`: what a fresh context of this driver has, by name."""

    recorder: Recorder
    info_values: dict[str, Any]
    limits: dict[str, Any]

    def __init__(self, initial: dict[str, Any]) -> None:
        self._state: dict[type[c.Command], c.Command] = {}  # the last setter of each kind
        self._values: dict[str, Any] = {
            **initial,
            "polygon_offset": (0.0, 0.0),
            "wireframe": False,
            "front_face": "ccw",
            "cull_face": "front_and_back",  # moderngl never initialises it, and shows this
            "default_texture_unit": self.limits["default_texture_unit"],
            "depth_func": "<=",
            "depth_clamp_range": None,
            "multisample": True,
            "provoking_vertex": LAST_VERTEX_CONVENTION,
        }

    def setters(self) -> Iterator[c.Command]:
        """The last command of each setter, in the order in which they were first called."""
        yield from self._state.values()

    def _set(self, command: c.Command, name: str | None = None, value: Any = None) -> None:
        self.recorder.record(command)
        self._state[type(command)] = command
        if name is not None:
            self._values[name] = value

    @property
    def line_width(self) -> float:
        """Pixels."""
        return float(self._values["line_width"])

    @line_width.setter
    def line_width(self, value: Any) -> None:
        width = a.float32(value)
        self._positive(c.LineWidth(width), "line_width", width)

    @property
    def point_size(self) -> float:
        """Pixels."""
        return float(self._values["point_size"])

    @point_size.setter
    def point_size(self, value: Any) -> None:
        size = a.float32(value)
        self._positive(c.PointSize(size), "point_size", size)

    def _positive(self, command: c.Command, name: str, value: Any) -> None:
        """OpenGL refuses what is not greater than zero, and keeps what it had."""
        if value <= 0:
            self.recorder.record(command)
        else:
            self._set(command, name, value)

    @property
    def patch_vertices(self) -> int:
        """Vertices of a patch."""
        return int(self._values["patch_vertices"])

    @patch_vertices.setter
    def patch_vertices(self, value: Any) -> None:
        count = a.long(value)
        if not count:
            raise SystemError("error return without exception set")
        if 0 < count <= self.info_values.get("GL_MAX_PATCH_VERTICES", 32):
            self._set(c.PatchVertices(count), "patch_vertices", count)
        else:
            self.recorder.record(c.PatchVertices(count))

    @property
    def depth_func(self) -> str:
        """As it was set; "<=" before."""
        return str(self._values["depth_func"])

    @depth_func.setter
    def depth_func(self, value: Any) -> None:
        text = a.c_string(value)
        if text not in COMPARE_FUNCS:
            raise SystemError("error return without exception set")
        self._set(c.DepthFunc(text), "depth_func", text)

    @property
    def depth_clamp_range(self) -> tuple[float, float] | None:
        """Near and far, None while depth is not clamped."""
        return self._values["depth_clamp_range"]  # type: ignore[no-any-return]

    @depth_clamp_range.setter
    def depth_clamp_range(self, value: Any) -> None:
        error, found = None, None
        if value is not None:
            if type(value) is not tuple or len(value) != 2:
                raise SystemError("error return without exception set")
            found = [-1.0, -1.0]
            for index, item in enumerate(value):
                try:
                    found[index] = a.real(item)
                except Exception as caught:
                    error = caught
        near_far = None if found is None else (found[0], found[1])
        self._set(c.DepthClampRange(near_far), "depth_clamp_range", near_far)
        if error is not None:  # moderngl overlooks it, and Python does not
            setter = vars(moderngl.Context)["depth_clamp_range"].fset
            try:
                raise SystemError(f"{setter!r} returned a result with an exception set") from error
            finally:
                del error  # see `real` in samplers.py

    @property
    def blend_func(self) -> tuple[int, int]:
        """moderngl's C code does not follow what is set, and shows its first value."""
        return (0x0302, 0x0303)

    @blend_func.setter
    def blend_func(self, value: Any) -> None:
        found = a.numbers(value, (2, 4))
        if found is None:
            raise Error("invalid blend func")
        self._set(c.BlendFunc((*found, *found) if len(found) == 2 else found))  # type: ignore[arg-type]

    @property
    def blend_equation(self) -> tuple[int, int]:
        """moderngl's C code does not follow what is set, and shows its first value."""
        return (0x8006, 0x8006)

    @blend_equation.setter
    def blend_equation(self, value: Any) -> None:
        found = a.numbers((value,) if isinstance(value, int) else value, (1, 2))
        if found is None:
            raise Error("invalid blend equation")
        self._set(c.BlendEquation((*found, *found) if len(found) == 1 else found))  # type: ignore[arg-type]

    @property
    def multisample(self) -> bool:
        """Whether multisample rasterisation is on."""
        return bool(self._values["multisample"])

    @multisample.setter
    def multisample(self, value: Any) -> None:
        if value is not True and value is not False:
            raise SystemError("error return without exception set")
        self._set(c.Multisample(value), "multisample", value)

    @property
    def provoking_vertex(self) -> int:
        """FIRST_VERTEX_CONVENTION or LAST_VERTEX_CONVENTION."""
        return int(self._values["provoking_vertex"])

    @provoking_vertex.setter
    def provoking_vertex(self, value: Any) -> None:
        convention = a.long(value)
        if convention not in (FIRST_VERTEX_CONVENTION, LAST_VERTEX_CONVENTION):
            raise SystemError("error return without exception set")
        self._set(c.ProvokingVertex(convention), "provoking_vertex", convention)

    @property
    def polygon_offset(self) -> tuple[float, float]:
        """Factor and units."""
        return self._values["polygon_offset"]  # type: ignore[no-any-return]

    @polygon_offset.setter
    def polygon_offset(self, value: Any) -> None:
        if type(value) is not tuple or len(value) != 2:
            raise SystemError("error return without exception set")
        offset = (a.float32(value[0]), a.float32(value[1]))
        self._set(c.PolygonOffset(offset), "polygon_offset", offset)

    @property
    def default_texture_unit(self) -> int:
        """The unit that moderngl uses for its own binding of textures."""
        return int(self._values["default_texture_unit"])

    @default_texture_unit.setter
    def default_texture_unit(self, value: Any) -> None:
        unit = a.long(value)
        self._set(c.DefaultTextureUnit(unit), "default_texture_unit", unit)

    @property
    def wireframe(self) -> bool:
        """Whether polygons are drawn as lines."""
        return bool(self._values["wireframe"])

    @wireframe.setter
    def wireframe(self, value: Any) -> None:
        if value is not True and value is not False:
            raise Error("invalid value for wireframe")
        self._set(c.Wireframe(value), "wireframe", value)

    @property
    def front_face(self) -> str:
        """ "cw" or "ccw"."""
        return str(self._values["front_face"])

    @front_face.setter
    def front_face(self, value: Any) -> None:
        text = a.c_string(value)
        if text not in FRONT_FACES:
            raise Error("invalid front_face")
        self._set(c.FrontFace(text), "front_face", text)

    @property
    def cull_face(self) -> str:
        """ "front", "back" or "front_and_back"."""
        return str(self._values["cull_face"])

    @cull_face.setter
    def cull_face(self, value: Any) -> None:
        text = a.c_string(value)
        if text not in CULL_FACES:
            raise Error("invalid cull_face")
        self._set(c.CullFace(text), "cull_face", text)
