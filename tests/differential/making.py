"""Makes random programs: lines of Python, most of them right, that use what the lines before have made.

Knows: moderngl's calls and what they take. `Making` holds what the lines so far have made, as far as that decides what
is defined. A rule is one of its methods, which appends a step or a few; RULES says how often each is taken. One step in
six is spoiled: one of its arguments becomes a wrong one. Does not know: what a program comes to.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st

from .leaving_out import left_out
from .shaders import BROKEN, COMPUTE, SHADERS

T = TypeVar("T")
SPOILED = 6
"""One step of so many is spoiled."""

WRONG = (
    "None", "-1", "0", "1", "2", "3", "5", "1.5", "float('nan')", "float('inf')", "True", "'a'", "''", "b''",
    "b'abc'", "()", "(1,)", "(1, 2)", "(1, 2, 3)", "[1, 2, 3, 4]", "(1.5, 2, 3, 4)", "(1, 2, 3, 4, 5, 6)",
    "(-1, 0, 2, 2)", "(1, 1, 100, 100)", "('a', 'b')", "(None, None)", "2**31 - 1", "2**31", "2**32", "2**32 + 1", "-2**31",
    "-2**31 - 1", "2**63", "-2**63", "2**64", "10**30", "np.float32(1)", "np.int8(2)", "np.bool_(True)", "np.zeros(16, 'u1')",
    "np.zeros((4, 4), 'f4')[:, ::2]", "np.arange(4)", "bytearray(16)", "memoryview(bytes(16))[::2]", "object", "ctx",
    "range(4)", "{}", "{1: 2}", "'f1'", "'f9'", "iter((1, 2))", "'\\0'", "'\\ud800'",
)  # fmt: skip
"""What an argument becomes when its step is spoiled."""
SMALL_WRONG = (
    "None", "-1", "0", "1.5", "True", "'a'", "b'ab'", "()", "(1,)", "(0, 0)", "(-1, 4)", "(4, 4, 4)", "[4, 4]", "np.int32(2)",
    "(1.5, 2)", "(2, None)", "'44'", "2**32 + 1", "2**63", "-2**31", "{}", "range(1, 3)",
)  # fmt: skip
"""The same where a large number would take long, or much memory."""
SIZES = ((4, 4), (5, 3), (1, 1), (8, 2))
FLOAT_TYPES = ("f1", "f2", "f4", "nu1", "nu2", "ni1", "ni2")
INTEGER_TYPES = ("u1", "u2", "u4", "i1", "i2", "i4")
COLOR_TYPES = ("f1", "f1", "f1", "f2", "f4", "nu2", "u1", "u4", "i2")
"""Of what is drawn to."""
BYTES = {"f1": 1, "f2": 2, "f4": 4, "u1": 1, "u2": 2, "u4": 4, "i1": 1, "i2": 2, "i4": 4} | {
    "nu1": 1, "nu2": 2, "ni1": 1, "ni2": 2,
}  # fmt: skip
UNITS = {"texture": 0, "texture_array": 1, "texture3d": 2, "texture_cube": 3}
"""Where the textures of each kind are bound that the shaders look at; depth textures are bound to DEPTH_UNIT."""
DEPTH_UNIT = 4
ENUMS = ("0x0B90", "0x8642", "0x0C11", "0x0BE2", "0x8DB9", "0x3000", "0x809E", "0x0BD0")
"""For `enable_direct`: features of OpenGL that moderngl does not name."""


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
    released: bool = False
    given: dict[str, Any] = field(default_factory=dict)


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
        self.lines: list[str] = []
        self.things: list[Thing] = []
        self.targets: list[Thing] = []  # framebuffers of which one is bound
        self.sampled: set[str] = set()  # textures that may be bound to a unit

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
        """One object of these kinds: rarely one that was released; None where there is none."""
        found = self.having(*kinds, released=self.one_in(20))
        return self.pick(found) if found else None

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
        right = not places or not self.one_in(SPOILED)
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

    # --- buffers

    def buffer(self) -> Thing | None:
        """A buffer with some bytes."""
        size = self.pick((16, 48, 64, 80, 160, 7))
        made = self.new("buffer", size=(size,))
        if self.one_in(3) and left_out("new buffers"):
            found = self.make(made, "ctx.buffer", reserve=Small(str(size)), dynamic=self.pick(("True", "False")))
            self.line(f"{made.name}.clear()")
            return found
        return self.make(made, "ctx.buffer", self.bytes(size))

    def vertices(self) -> Thing | None:
        """A buffer with floats for attributes."""
        count = self.pick((15, 30, 20))
        values = ", ".join(str(value) for value in (self.number(-4, 4) / 4 for _ in range(count)))
        return self.make(self.new("buffer", size=(4 * count,)), "ctx.buffer", Never(f"floats({values})"))

    def buffer_call(self) -> None:
        """Read, write, copy, clear or bind."""
        thing = self.some("buffer", self.buffer)
        if thing is None:
            return
        name, size = thing.name, thing.size[0]
        offset = self.number(0, size)
        count = self.number(0, size - offset)
        chunk, chunks = self.number(1, 4), self.number(1, 3)
        start, step = self.number(0, size - 1), self.pick((4, 5, -4, -7, 16))
        into = self.any_of("buffer") or thing
        self.pick((
            lambda: self.call(f"{name}.read"),
            lambda: self.call(f"{name}.read", str(count), str(offset)),
            lambda: self.call(f"{name}.write", self.bytes(count), str(offset)),
            lambda: self.call(f"{name}.write", "floats(1, 2, 3)", offset="0"),
            lambda: self.into(f"{name}.read_into", size, size=str(count), offset=str(offset)),
            lambda: self.call(f"{name}.write_chunks", self.bytes(chunk * chunks), str(start), str(step), Small(str(chunks))),
            lambda: self.call(f"{name}.read_chunks", Small(str(chunk)), str(start), str(step), Small(str(chunks))),
            lambda: self.into(
                f"{name}.read_chunks_into", size, Small(str(chunk)), str(start), str(step), Small(str(chunks))
            ),
            lambda: self.call(f"{name}.clear"),
            lambda: self.call(f"{name}.clear", str(count), str(offset), chunk=self.pick(("b'ab'", "None", "b'abc'"))),
            lambda: self.orphan(thing),
            lambda: self.call(f"{name}.bind_to_uniform_block", self.pick(("0", "4", "100")), Small("0"), Small("-1")),
            lambda: self.call(f"{name}.bind_to_storage_buffer", self.pick(("0", "5", "100")), Small("0"), Small("-1")),
            lambda: self.call("ctx.copy_buffer", into.name, name),
            lambda: self.call(
                "ctx.copy_buffer", into.name, name, str(count), read_offset=str(offset), write_offset=str(offset)
            ),
            lambda: self.call(f"{name}.bind", "'a'", layout="'1f'"),
            lambda: self.call(f"{name}.assign", "1"),
        ))()  # fmt: skip

    def orphan(self, thing: Thing) -> None:
        """New memory, of the same size or a larger one, which is cleared at once."""
        if left_out("vertices beyond") and self.call(f"{thing.name}.orphan", Small(self.pick(("-1", "0", "200")))):
            thing.size = (thing.size[0] if "200" not in self.lines[-1] else 200,)
        self.line(f"{thing.name}.clear()")

    def into(self, target: str, length: int, *arguments: Argument, **more: Argument) -> None:
        """A step that reads into memory, and one that looks at it."""
        memory = f"memory{len(self.lines)}"
        self.line(f"{memory} = bytearray({self.pick((length, 256, 256, 3))})")
        more["write_offset"] = Never(self.pick(("0", "0", "1", "8"))) if left_out("writes outside") else "0"
        self.call(target, Never(memory) if self.number(0, 3) else self.pick(("bytes(64)", memory)), *arguments, **more)
        self.line(memory)

    # --- textures

    def texture(self) -> Thing | None:
        """A texture of one of the four kinds, with data."""
        return self.pick((self.flat_texture, self.flat_texture, self.volume, self.cube, self.depth, self.depth_cube))()

    def flat_texture(self, size: tuple[int, int] | None = None) -> Thing | None:
        size = size or self.pick(SIZES)
        dtype = self.pick(COLOR_TYPES if self.number(0, 2) else FLOAT_TYPES + INTEGER_TYPES)
        components, alignment = self.number(1, 4), self.pick((1, 1, 2, 4, 8))
        thing = self.new("texture", size=size, components=components, dtype=dtype, pixel=components * BYTES[dtype])
        data = self.bytes(size_of(size, thing.pixel, alignment))
        return self.make(
            thing, "ctx.texture", Small(str(size)), str(components), data, alignment=str(alignment), dtype=repr(dtype)
        )

    def multisampled(self, size: tuple[int, int] | None = None, samples: int = 4) -> Thing | None:
        size = size or self.pick(SIZES)
        thing = self.new("texture", size=size, components=4, dtype="f1", pixel=4, samples=samples)
        return self.make(thing, "ctx.texture", Small(str(size)), Small("4"), samples=Small(str(samples)))

    def volume(self) -> Thing | None:
        kind = self.pick(("texture3d", "texture_array"))
        size, dtype = (*self.pick(SIZES), self.number(1, 3)), self.pick(FLOAT_TYPES + INTEGER_TYPES)
        components, alignment = self.number(1, 4), self.pick((1, 1, 2, 4, 8))
        thing = self.new(kind, size=size, components=components, dtype=dtype, pixel=components * BYTES[dtype])
        data = self.bytes(size_of(size, thing.pixel, alignment))
        return self.make(
            thing, f"ctx.{kind}", Small(str(size)), str(components), data, alignment=str(alignment), dtype=repr(dtype)
        )

    def cube(self) -> Thing | None:
        width, dtype = self.pick((1, 4, 3)), self.pick(FLOAT_TYPES + INTEGER_TYPES)
        components, alignment = self.number(1, 4), self.pick((1, 1, 2, 4, 8))
        size = (width, width)
        thing = self.new("texture_cube", size=size, components=components, dtype=dtype, pixel=components * BYTES[dtype])
        data = self.bytes(6 * size_of(size, thing.pixel, alignment))
        return self.make(
            thing, "ctx.texture_cube", Small(str(size)), str(components), data, alignment=str(alignment), dtype=repr(dtype)
        )

    def depth(self, size: tuple[int, int] | None = None) -> Thing | None:
        size = size or self.pick(SIZES)
        thing = self.new("texture", size=size, components=1, dtype="f4", pixel=4, depth=True)
        return self.make(thing, "ctx.depth_texture", Small(str(size)), self.bytes(size_of(size, 4, 4)))

    def depth_cube(self) -> Thing | None:
        thing = self.new("texture_cube", size=(4, 4), components=1, dtype="f4", pixel=4, depth=True)
        return self.make(thing, "ctx.depth_texture_cube", Small("(4, 4)"), self.bytes(6 * 64))

    def texture_call(self) -> None:
        """Read, write, or make levels."""
        thing = self.any_of("texture", "texture", "texture3d", "texture_array", "texture_cube") or self.texture()
        if thing is None:
            return
        name = thing.name
        face = [str(self.number(0, 5))] if thing.kind == "texture_cube" else []
        level = {"level": str(self.number(0, 1))} if thing.kind == "texture" else {}
        alignment = self.pick((1, 1, 2, 4, 8))
        data = self.bytes(size_of(thing.size, thing.pixel, alignment))
        area, whole = self.area(thing)
        part = self.bytes(size_of(area, thing.pixel, alignment))
        self.pick((
            lambda: self.call(f"{name}.read", *face),
            lambda: self.call(f"{name}.read", *face, **level, alignment=str(alignment)),
            lambda: self.call(f"{name}.write", *face, data, alignment=str(alignment)),
            lambda: self.call(f"{name}.write", *face, part, whole, alignment=str(alignment)),
            lambda: self.call(f"{name}.write", *face, part, whole, alignment=str(alignment)),
            lambda: self.into(f"{name}.read_into", 64, *face, alignment=str(alignment)),
            lambda: self.through_buffer(thing, face),
            lambda: self.mipmaps(thing),
        ))()  # fmt: skip

    def area(self, thing: Thing) -> tuple[tuple[int, ...], str]:
        """The size of a part of a texture, and the part as an argument."""
        corner = [self.number(0, side - 1) for side in thing.size]
        size = tuple(self.number(1, side - at) for side, at in zip(thing.size, corner, strict=True))
        if not any(corner) and self.number(0, 1):
            return size, str(size)
        return size, str((*corner, *size))

    def through_buffer(self, thing: Thing, face: list[str]) -> None:
        """A texture is written from a buffer, or read into one, that is long enough."""
        size = size_of(thing.size, thing.pixel, 1)
        long_enough = [buffer for buffer in self.having("buffer") if buffer.size[0] >= size]
        if long_enough and left_out("pixel transfers beyond"):
            buffer = self.pick(long_enough).name
            if self.number(0, 1):
                self.line(f"{thing.name}.write({', '.join([*face, buffer])})")
            else:
                self.line(f"{thing.name}.read_into({', '.join([buffer, *face])})")

    def mipmaps(self, thing: Thing) -> None:
        """All levels: of a chain with holes OpenGL leaves much open."""
        if thing.dtype in FLOAT_TYPES:
            self.call(f"{thing.name}.build_mipmaps", *self.pick(([], ["0", "1000"])))
            thing.levels = 1000

    def texture_set(self) -> None:
        """Set a parameter of sampling."""
        thing = self.any_of("texture", "texture3d", "texture_array", "texture_cube", "sampler") or self.texture()
        if thing is None:
            return
        name, values = self.pick((
            ("repeat_x", ("True", "False")), ("repeat_y", ("True", "False")), ("repeat_z", ("True", "False")),
            ("filter", ("(moderngl.NEAREST, moderngl.NEAREST)", "(9729, 9729)", "(9987, 9729)", "(9984, 9728)")),
            ("swizzle", ("'RGBA'", "'BGR'", "'0'", "'01aR'", "'AAAA'")), ("anisotropy", ("1.0", "4", "1000.0")),
            ("compare_func", ("'<='", "'>'", "'0'", "'1'", "'!='")), ("border_color", ("(1, 0.5, 0, 1)",)),
            ("min_lod", ("0.0", "-5", "1.5")), ("max_lod", ("0", "3.5")),
        ))  # fmt: skip
        value = self.pick(values)
        careful = name == "compare_func" and left_out("kinds of images")
        self.put(f"{thing.name}.{name}", Never(value) if careful else value)
        if self.number(0, 1):
            self.line(f"{thing.name}.{name}")

    def texture_use(self) -> None:
        """Bind to the unit of its kind."""
        kinds = ("texture", "texture3d", "texture_array", "texture_cube")
        thing = self.any_of(*kinds) or self.texture()
        if thing is None or thing.kind not in UNITS:
            return
        unit = DEPTH_UNIT if thing.depth and thing.kind == "texture" else UNITS[thing.kind]
        if thing.dtype not in FLOAT_TYPES or thing.samples or thing.kind == "texture_cube" and thing.depth:
            unit = 7  # which no shader looks at
        self.sampled.add(thing.name)
        if self.one_in(8):
            self.call(f"{thing.name}.use", Small(str(unit)))
        else:
            self.line(f"{thing.name}.use({unit})")

    def image(self) -> None:
        """Bind to an image unit, which the compute shaders look at only where they bind it themselves."""
        thing = self.any_of("texture", "texture3d", "texture_array", "texture_cube")
        if thing is not None and not thing.depth:
            self.call(f"{thing.name}.bind_to_image", "3", read=self.pick(("True", "False")), level="0", format="0")

    def sampler(self) -> Thing | None:
        """A sampler object."""
        return self.make(
            self.new("sampler"), "ctx.sampler", repeat_x=self.pick(("True", "False")),
            filter=self.pick(("None", "(9728, 9728)", "(9984, 9728)")), anisotropy=self.pick(("1.0", "2.0")),
            border_color=self.pick(("None", "(0.5, 1, 0, 1)")), min_lod=self.pick(("-1000.0", "0")),
        )  # fmt: skip

    def sampler_use(self) -> None:
        """Bind a sampler, or unbind it."""
        thing = self.some("sampler", self.sampler)
        if thing is not None:
            method = self.pick(("use", "use", "clear", "assign"))
            self.line(f"{thing.name}.{method}({self.number(0, 3)})")
        if self.one_in(4):
            self.call("ctx.clear_samplers", *self.pick(([], [Small("1")], [Small("0"), Small("3")])))

    # --- framebuffers

    def renderbuffer(self, size: tuple[int, int] | None = None, samples: int = 0) -> Thing | None:
        """A renderbuffer for colours."""
        size, dtype, components = size or self.pick(SIZES), self.pick(COLOR_TYPES), self.number(1, 4)
        thing = self.new("renderbuffer", size=size, components=components, dtype=dtype, samples=samples)
        return self.make(
            thing, "ctx.renderbuffer", Small(str(size)), str(components), samples=str(samples), dtype=repr(dtype)
        )

    def depth_renderbuffer(self, size: tuple[int, int] | None = None, samples: int = 0) -> Thing | None:
        """A renderbuffer for depth."""
        size = size or self.pick(SIZES)
        thing = self.new("renderbuffer", size=size, components=1, dtype="f4", samples=samples, depth=True)
        return self.make(thing, "ctx.depth_renderbuffer", Small(str(size)), samples=str(samples))

    def framebuffer(self) -> Thing | None:
        """A framebuffer of attachments that fit, which are cleared."""
        size, samples = self.pick(SIZES), self.pick((0, 0, 0, 4))
        colors: list[Thing | None] = []
        for _ in range(self.pick((1, 1, 1, 2, 0))):
            colors.append(self.color(size, samples, colors))
        with_depth = not colors or not self.number(0, 2)
        depth = self.depth_image(size, samples) if with_depth else None
        if None in colors or (with_depth and depth is None):
            return None
        parts = (*colors, depth) if depth else tuple(colors)
        thing = self.new("framebuffer", size=size, samples=samples, parts=parts)
        names = [part.name for part in colors if part is not None]
        listed = names[0] if len(names) == 1 and self.one_in(3) else f"[{', '.join(names)}]"
        found = self.make(thing, "ctx.framebuffer", listed, *([depth.name] if depth else []))
        if found is None:
            self.home()
        if left_out("new images"):
            self.line(f"{thing.name}.clear({self.pick(('', '0.25, 0.5, 0.75, 1.0', '1.0, depth=0.5'))})")
        return found

    def color(self, size: tuple[int, int], samples: int, others: list[Thing | None]) -> Thing | None:
        """An image to draw to, beside others."""
        there = [
            thing for thing in self.having("texture", "renderbuffer")
            if thing.size == size and thing.samples == samples and not thing.depth and thing.name not in self.sampled
            and thing.dtype in COLOR_TYPES and thing not in others and left_out("an image twice")
        ]  # fmt: skip
        if there and self.number(0, 1):
            return self.pick(there)
        if samples:
            return self.pick((self.multisampled, self.renderbuffer))(size, samples)
        return self.pick((self.flat_texture, self.renderbuffer))(size)

    def depth_image(self, size: tuple[int, int], samples: int) -> Thing | None:
        """A depth image to draw to."""
        if samples or self.number(0, 1):
            return self.depth_renderbuffer(size, samples)
        return self.depth(size)

    def odd_framebuffer(self) -> None:
        """A framebuffer of any attachments, which mostly do not fit; or none."""
        images = self.having("texture", "renderbuffer", "texture_array", "texture_cube", released=True)
        size = self.pick(SIZES)
        self.pick((
            lambda: self.line(f"ctx.framebuffer([{', '.join(self.pick(images).name for _ in range(2))}])"),
            lambda: self.line(f"ctx.framebuffer({self.pick(images).name}, {self.pick(images).name})"),
            lambda: self.line(f"ctx.framebuffer(depth_attachment={self.pick(images).name})"),
            lambda: self.line("ctx.framebuffer()"),
        ) if images and left_out("new images") else (
            lambda: self.call("ctx.simple_framebuffer", Small(str(size)), samples=Small("0")),
            lambda: self.call("ctx.empty_framebuffer", Small(str(size)), layers=Small("0"), samples=Small("0")),
        ))()  # fmt: skip
        self.home()

    def home(self) -> None:
        """A framebuffer is made and bound, where making one may have failed."""
        thing = self.new("framebuffer", size=(4, 4))
        thing.parts = (Thing(f"{thing.name}.color_attachments[0]", "renderbuffer", (4, 4), 4, 4, "f1"),)
        if left_out("half-made framebuffers"):
            self.lines += [
                f"{thing.name} = ctx.framebuffer([ctx.renderbuffer((4, 4))])", f"{thing.name}.clear()",
                f"{thing.name}.use()",
            ]  # fmt: skip
        self.things.append(thing)
        self.targets = [thing]

    def framebuffer_call(self) -> None:
        """Use, clear, read, copy."""
        thing = self.some("framebuffer", self.framebuffer)
        if thing is None:
            return
        name = thing.name
        area, part = self.area(thing)
        image = self.pick(thing.parts)
        attachment = -1 if image.depth else self.number(0, 1)
        components = Never("1") if image.depth and left_out("depth as colours") else Small(str(image.components))
        dtype = repr(image.dtype)
        other = self.pick(self.having("framebuffer"))
        color = ", ".join(self.pick(("0", "0.5", "1", "0.1", "2.5", "-1")) for _ in range(4))
        self.pick((
            lambda: self.use(thing),
            lambda: self.use(thing),
            lambda: self.call(f"{name}.clear", *color.split(", ")),
            lambda: self.call(f"{name}.clear", viewport=part, color=f"({color})", depth="0.25"),
            lambda: self.call("ctx.clear", *color.split(", ")),
            lambda: self.call(f"{name}.read", components=components, dtype=dtype),
            lambda: self.call(
                f"{name}.read", self.pick((part, "None")), components, attachment=Never(str(attachment)),
                alignment=self.pick(("1", "4")), dtype=dtype, clamp=self.pick(("False", "True")),
            ),
            lambda: self.into(
                f"{name}.read_into", 64, part, components, attachment=Never(str(attachment)), dtype=dtype
            ),
            lambda: self.read_into_buffer(thing, image),
            lambda: self.copy(thing, other),
        ))()  # fmt: skip

    def use(self, thing: Thing) -> None:
        """Bind it."""
        self.line(f"{thing.name}.use()")
        if not thing.released:
            self.targets = [thing]

    def read_into_buffer(self, thing: Thing, image: Thing) -> None:
        """Pixels go to a buffer that is long enough."""
        size = size_of(thing.size, image.components * BYTES[image.dtype], 1)
        for buffer in self.having("buffer"):
            if buffer.size[0] >= size and not image.depth and left_out("pixel transfers beyond"):
                more = f"components={image.components}, dtype={image.dtype!r}"
                self.line(f"{thing.name}.read_into({buffer.name}, {more})")
                return

    def copy(self, thing: Thing, other: Thing) -> None:
        """Copy pixels between framebuffers, or to a texture."""
        texture = self.any_of("texture")
        if texture is not None and texture.name not in self.sampled and not self.number(0, 2):
            self.call("ctx.copy_framebuffer", texture.name, thing.name)
        elif {part.name for part in thing.parts}.isdisjoint(part.name for part in other.parts):
            self.call("ctx.copy_framebuffer", other.name, thing.name)

    def framebuffer_set(self) -> None:
        """Viewport, scissor and masks: of a framebuffer, or of the one that is bound."""
        thing = self.some("framebuffer", self.framebuffer)
        if thing is None:
            return
        name, values = self.pick((
            ("viewport", ("(0, 0, 4, 4)", "(1, 1, 2, 2)", "(-1, 0, 8, 3)")),
            ("scissor", ("(1, 0, 2, 2)", "None", "(0, 0, 1, 100)", "(0, 0, 0, 0)")),
            ("depth_mask", ("True", "False")),
            ("color_mask", ("(True, False, True, True)", "((True, False, True, True), (False, False, True, True))")),
        ))  # fmt: skip
        owner = self.pick((thing.name, thing.name, "ctx")) if name in ("viewport", "scissor") else thing.name
        value = self.pick(values)
        self.put(f"{owner}.{name}", Never(value) if name == "color_mask" else value)
        if self.number(0, 1):
            self.line(f"{owner}.{name}")

    # --- programs

    def program(self) -> Thing | None:
        """One of the handful."""
        key = self.pick(tuple(SHADERS))
        thing = self.new("program", shaders=key)
        return self.make(thing, "ctx.program", Never(f"**{key.upper()}"))

    def broken(self) -> None:
        """A program that cannot be made."""
        self.line(self.pick(BROKEN))

    def uniform(self) -> None:
        """Set, read or write a member."""
        thing = self.some("program", self.program)
        if thing is None or (thing.released and left_out("released programs")):
            return
        values = SHADERS[thing.shaders].uniforms
        if not values:
            return
        name = self.pick(tuple(values))
        member = f"{thing.name}[{name!r}]"
        value = self.pick(values[name])
        careful = thing.shaders in ("textured", "blocks") and left_out("kinds of images")
        argument = Never(value) if careful else value
        self.pick((
            lambda: self.put(member, argument),
            lambda: self.put(f"{member}.value", argument),
            lambda: self.line(f"{member}.value"),
            lambda: self.line(f"{member}.read()") if name[0].islower() else None,
            lambda: self.call(f"{member}.write", f"{member}.read()") if name[0].islower() and not careful else None,
            lambda: self.line(f"properties({thing.name})"),
            lambda: self.line(f"{thing.name}[{self.pick(('a', 'nothing', 'gl_VertexID'))!r}]"),
        ))()  # fmt: skip

    def vertex_array(self) -> Thing | None:
        """A vertex array that feeds all attributes of a program."""
        program = self.some("program", self.program)
        if program is None:
            return None
        attributes = SHADERS[program.shaders].attributes
        size = 4 * sum(int(text[0]) for text in attributes.values())
        buffers = [buffer for buffer in self.having("buffer") if buffer.size[0] >= size]
        buffer = self.pick(buffers) if buffers and self.number(0, 2) else self.vertices()
        if buffer is None:
            return None
        names = ", ".join(map(repr, attributes))
        layout = " ".join(attributes.values())
        content = f"[({buffer.name}, {layout!r}, {names})]" if attributes else "[]"
        if attributes and self.one_in(4):
            layout = layout + self.pick(("/v", " /v", "/i", "/r"))
            content = f"[({buffer.name}, {layout!r}, {names})]"
        elif attributes and self.one_in(4):
            content = f"[{buffer.name}.bind({names})]"
        elif len(attributes) == 2 and self.one_in(3):
            content = "[" + ", ".join(f"({buffer.name}, {form!r}, {name!r})" for name, form in attributes.items()) + "]"
        count = buffer.size[0] // size if size else 4
        thing = self.new("vertex_array", shaders=program.shaders, parts=(program, buffer), size=(count,))
        if attributes and self.one_in(6):
            return self.make(thing, "ctx.vertex_array", program.name, buffer.name, *map(repr, attributes))
        if self.one_in(4) and left_out("vertices beyond"):
            index = self.new("indices", size=(3,))
            self.line(f"{index.name} = ctx.buffer(integers({', '.join(str(self.number(0, count - 1)) for _ in range(3))}))")
            thing.name += "i"
            thing.given["indexed"] = 3
            element = Never(self.pick(("4", "4", "2", "1"))) if count > 0 else Never("4")
            return self.make(
                thing, "ctx.vertex_array", program.name, content, index_buffer=Never(index.name), index_element_size=element
            )
        more = self.pick(({}, {}, {"mode": "moderngl.POINTS"}, {"skip_errors": "True"}))
        return self.make(thing, "ctx.vertex_array", program.name, content, **more)

    def odd_vertex_array(self) -> None:
        """A vertex array with a wrong format or wrong attributes."""
        program, buffer = self.any_of("program"), self.any_of("buffer")
        if program is None or buffer is None:
            return
        layout = self.pick(("2f", "3f 2f", "9q", "2f/i/v", "", "f1 x", "2f8", "3f /x", "f 1x2", "999f"))
        names = self.pick(("'position'", "'a', 'b'", "'nothing'", "0", "'position', 'shade'", "0, 1", "7"))
        more = self.pick(({}, {"skip_errors": "True"}, {"index_buffer": "5"}, {"index_element_size": "3"}))
        self.call("ctx.vertex_array", program.name, f"[({buffer.name}, {layout!r}, {names})]", **more)

    def vertex_array_set(self) -> None:
        """The numbers of vertices and instances."""
        thing = self.some("vertex_array", self.vertex_array)
        if thing is not None:
            name, value = self.pick((("vertices", "1"), ("vertices", "2"), ("instances", "2"), ("mode", "0")))
            self.put(f"{thing.name}.{name}", Small(value) if name != "mode" else value)
            self.line(f"{thing.name}.{name}")

    def render(self) -> None:
        """Draw."""
        thing = self.some("vertex_array", self.vertex_array)
        if thing is None or not self.drawable(thing):
            return
        if thing.shaders == "blocks" and left_out("blocks without buffers"):
            self.line(f"blocks{len(self.lines)} = ctx.buffer(floats({', '.join(str(n / 8) for n in range(12))}))")
            name = self.lines[-1].split()[0]
            self.line(f"{name}.bind_to_uniform_block(1)")
            self.line(f"{name}.bind_to_storage_buffer(2)")
        mode = self.pick(SHADERS[thing.shaders].modes)
        count = thing.given.get("indexed") or thing.size[0]
        first = self.number(0, max(0, count - 1))
        vertices = str(self.number(0, max(0, count - first)))
        few = Never(vertices if first or thing.shaders else "-1")
        if not SHADERS[thing.shaders].attributes:
            few, first = Never(self.pick(("3", "4"))), 0
        if self.one_in(3) and SHADERS[thing.shaders].attributes and not thing.given:
            self.call(f"{thing.name}.render", mode)
        else:
            instances = Small(self.pick(("-1", "1", "2", "0")))
            self.call(f"{thing.name}.render", mode, vertices=few, first=Never(str(first)), instances=instances)

    def drawable(self, thing: Thing) -> bool:
        """Whether OpenGL says what comes of drawing it now."""
        if any(part.released for part in thing.parts) and left_out("arrays of released objects"):
            return False
        images = [part for target in self.targets for part in target.parts]
        if any(image.name in self.sampled for image in images) and left_out("feedback"):
            return False
        integer = {image.dtype in INTEGER_TYPES for image in images if not image.depth}
        signed = any(image.dtype[0] == "i" for image in images)
        shaders = SHADERS[thing.shaders]
        most = max((sum(not part.depth for part in target.parts) for target in self.targets), default=0)
        if most > shaders.outputs and left_out("unwritten outputs"):
            return False
        return integer <= {shaders.integer} and not signed and left_out("kinds of outputs")

    def indirect(self) -> None:
        """Draw by records in a buffer."""
        thing = self.some("vertex_array", self.vertex_array)
        if thing is None or thing.shaders == "blocks" or not self.drawable(thing) or thing.size[0] < 1:
            return
        name = f"records{len(self.lines)}"
        one = f"{min(3, thing.given.get('indexed', thing.size[0]))}, {self.pick((1, 2))}, 0, 0, 0"
        self.line(f"{name} = ctx.buffer(integers({one}, {one}))")
        mode = self.pick(SHADERS[thing.shaders].modes)
        self.call(f"{thing.name}.render_indirect", Never(name), mode, count=Never(self.pick(("-1", "1", "2", "0"))))

    def transform(self) -> None:
        """Capture varyings."""
        thing = self.some("vertex_array", self.vertex_array)
        if thing is None or any(part.released for part in thing.parts) or thing.shaders == "blocks":
            return
        outputs = [buffer for buffer in self.having("buffer") if buffer not in thing.parts and left_out("own output")]
        if not outputs:
            return
        given = ", ".join(self.pick(outputs).name for _ in range(self.pick((1, 1, 1, 2))))
        given = f"[{given}]" if "," in given or self.number(0, 1) else given
        count = Never(str(self.number(0, max(0, thing.given.get("indexed") or thing.size[0]))))
        if not self.number(0, 2):
            self.call(f"{thing.name}.transform", Never(given), self.pick(SHADERS[thing.shaders].modes), vertices=count)
        elif not thing.given:
            self.call(f"{thing.name}.transform", Never(given), buffer_offset=Never(self.pick(("0", "0", "4", "8"))))

    def feed(self) -> None:
        """`VertexArray.bind`: feed one attribute from another buffer that is long enough."""
        thing, buffer = self.any_of("vertex_array"), self.any_of("buffer")
        if thing is None or buffer is None:
            return
        if buffer.size[0] >= 16 * max(1, thing.size[0]) and left_out("vertices beyond"):
            arguments = (Never("0"), "'f'", buffer.name, self.pick(("'2f'", "'1f'", "'2f4'", "'f1'")))
            thing.parts = (*thing.parts, buffer)
            self.call(f"{thing.name}.bind", *arguments, offset=Never("0"), stride=Never("8"), divisor=Never("0"))

    # --- compute

    def compute(self) -> None:
        """Run a compute shader on a buffer or a texture of its own, and wait for what it wrote."""
        key = self.pick(tuple(COMPUTE))
        shader, target = f"compute{len(self.lines)}", f"computed{len(self.lines)}"
        self.things.append(Thing(shader, "compute"))
        self.line(f"{shader} = ctx.compute_shader(COMPUTE[{key!r}])")
        if key == "numbers":
            self.line(f"{target} = ctx.buffer(data(64, 3))")
            self.line(f"{target}.bind_to_storage_buffer(3)")
            self.put(f"{shader}['add']", self.pick(("5", "2**32 - 1")))
        else:
            self.line(f"{target} = ctx.texture((4, 4), 4, data(64, 3))")
            self.line(f"{target}.bind_to_image(0)")
            self.put(f"{shader}['level']", "0.75")
        if self.one_in(3):
            self.line(f"groups{len(self.lines)} = ctx.buffer(integers(0, 2, 1, 1, 0))")
            self.call(f"{shader}.run_indirect", Never(f"groups{len(self.lines) - 1}"), Never(self.pick(("4", "0", "8"))))
        else:
            self.call(f"{shader}.run", Small(self.pick(("1", "2", "4"))), Small(self.pick(("1", "2"))), Small("1"))
        if left_out("no barrier"):
            self.line("ctx.memory_barrier()")
        self.line(f"{target}.read()")

    # --- queries, scopes, state

    def query(self) -> Thing | None:
        """A query of what can be counted exactly."""
        flags = self.pick(({"samples": "True"}, {"primitives": "True"}, {"any_samples": "True"}, {}))
        return self.make(self.new("query"), "ctx.query", **flags)

    def query_call(self) -> None:
        """Begin, end, ask."""
        thing = self.some("query", self.query)
        if thing is None:
            return
        elapsed = f"type({thing.name}.elapsed)" if left_out("elapsed") else ""
        self.line(self.pick((
            f"{thing.name}.__enter__()", f"{thing.name}.__enter__()", f"{thing.name}.__exit__(None, None, None)",
            f"{thing.name}.__exit__(None, None, None)", f"{thing.name}.samples", f"{thing.name}.primitives", elapsed,
            f"{thing.name}.crender.__enter__()", f"{thing.name}.crender.__exit__(None, None, None)",
        )))  # fmt: skip

    def scope(self) -> Thing | None:
        """A scope that binds a few things."""
        framebuffer = self.some("framebuffer", self.framebuffer)
        if framebuffer is None:
            return None
        more: dict[str, Argument] = {}
        texture, buffer, sampler = self.any_of("texture"), self.any_of("buffer"), self.any_of("sampler")
        if texture is not None and texture not in framebuffer.parts and not self.number(0, 2):
            more["textures"] = f"[({texture.name}, 7)]"
            self.sampled.add(texture.name)
        if buffer is not None and not self.number(0, 2):
            more["uniform_buffers"] = f"[({buffer.name}, 5)]"
        if buffer is not None and not self.number(0, 2):
            more["storage_buffers"] = f"(({buffer.name}, 6),)"
        if sampler is not None and not self.number(0, 2):
            more["samplers"] = f"[{sampler.name}.assign(7)]"
        thing = self.new("scope", parts=(framebuffer,))
        flags = self.pick(("None", "0", "moderngl.DEPTH_TEST", "moderngl.BLEND | moderngl.CULL_FACE"))
        return self.make(thing, "ctx.scope", framebuffer.name, flags, **more)

    def scope_call(self) -> None:
        """Enter or leave it."""
        thing = self.some("scope", self.scope)
        if thing is not None:
            self.line(self.pick((f"{thing.name}.__enter__()", f"{thing.name}.__exit__(None, None, None)")))
            self.targets = [*self.targets, *thing.parts, *self.having("framebuffer", released=True)]

    def state(self) -> None:
        """Set the context's state."""
        name, values = self.pick((
            ("line_width", ("1.0", "2", "0", "-1.0", "3.5")), ("point_size", ("1.0", "4", "0")),
            ("patch_vertices", ("3", "4", "1", "33")), ("depth_func", ("'<'", "'>='", "'1'", "'=='", "'!='")),
            ("blend_func", ("(1, 1)", "moderngl.DEFAULT_BLENDING", "(770, 771, 1, 0)", "(5, 5)")),
            ("blend_equation", ("moderngl.MAX", "(32774, 32778)", "moderngl.FUNC_REVERSE_SUBTRACT", "7")),
            ("depth_clamp_range", ("None", "(0.0, 1.0)", "(0.25, 0.5)")), ("multisample", ("True", "False")),
            ("provoking_vertex", ("moderngl.FIRST_VERTEX_CONVENTION", "moderngl.LAST_VERTEX_CONVENTION")),
            ("polygon_offset", ("(0.0, 0.0)", "(1.0, 2.0)", "[1, -1]")), ("wireframe", ("True", "False")),
            ("front_face", ("'cw'", "'ccw'")), ("cull_face", ("'front'", "'back'", "'front_and_back'")),
            ("default_texture_unit", ("8", "9")), ("gc_mode", ("None", "'auto'", "'context_gc'")),
        ))  # fmt: skip
        value = self.pick(values)
        careful = name in ("line_width", "default_texture_unit", "gc_mode")
        self.put(f"ctx.{name}", Small(value) if careful else value)
        if self.number(0, 1):
            self.line(f"ctx.{name}")

    def flags(self) -> None:
        """Enable and disable."""
        flags = self.pick((
            "moderngl.BLEND", "moderngl.DEPTH_TEST", "moderngl.CULL_FACE", "moderngl.RASTERIZER_DISCARD",
            "moderngl.PROGRAM_POINT_SIZE", "moderngl.NOTHING", "moderngl.BLEND | moderngl.DEPTH_TEST", "0x40000000",
        ))  # fmt: skip
        self.pick((
            lambda: self.call(f"ctx.{self.pick(('enable', 'disable', 'enable_only'))}", flags),
            lambda: self.call(f"ctx.{self.pick(('enable', 'disable'))}_direct", self.pick(ENUMS)),
        ))()  # fmt: skip

    def look(self) -> None:
        """Look at the context, or at an object."""
        names = [thing.name for thing in self.things if thing.kind not in ("scope",)]
        self.line(self.pick((
            "ctx.error", "ctx.error", "ctx.finish()", "ctx.clear_errors()", "properties(ctx)", "ctx.gc()",
            "len(ctx.objects)", "ctx.fbo", "ctx.memory_barrier(1)",
            *((f"properties({self.pick(names)})", f"contents({self.pick(names)})") if names else ()),
        )))  # fmt: skip

    def release(self) -> None:
        """Release an object, or drop it."""
        thing = self.any_of(
            "buffer", "texture", "texture3d", "texture_array", "texture_cube", "renderbuffer", "framebuffer", "sampler",
            "vertex_array", "program", "scope",
        )  # fmt: skip
        if thing is not None and not self.number(0, 1):
            self.line(f"{thing.name}.release()")
            for other in self.things:
                other.released = other.released or other is thing or thing in other.parts

    def end(self) -> None:
        """Look at everything: errors first, since looking makes new ones."""
        self.lines += ["ctx.error", "ctx.error", "properties(ctx)"]
        for thing in self.things:
            if thing.kind == "program" and thing.released and left_out("released programs"):
                continue
            if thing.kind != "scope" and thing.name.isidentifier():
                self.line(f"properties({thing.name})")
            if thing.kind in (*UNITS, "framebuffer", "buffer"):
                self.line(f"contents({thing.name})")
        self.lines += ["ctx.error", "ctx.finish()"]


def size_of(size: Sequence[int], pixel: int, alignment: int) -> int:
    """Bytes of an image."""
    width, height, *layers = size
    return -(-width * pixel // alignment) * alignment * height * (layers[0] if layers else 1)


RULES: tuple[Callable[[Making], Any], ...] = (
    Making.buffer, Making.vertices, *[Making.buffer_call] * 4,
    *[Making.texture] * 2, *[Making.texture_call] * 4, *[Making.texture_set] * 2, *[Making.texture_use] * 3,
    Making.image, Making.sampler, Making.sampler_use,
    Making.renderbuffer, *[Making.framebuffer] * 2, Making.odd_framebuffer, *[Making.framebuffer_call] * 5,
    *[Making.framebuffer_set] * 2,
    Making.program, Making.broken, *[Making.uniform] * 3, *[Making.vertex_array] * 2, Making.odd_vertex_array,
    Making.vertex_array_set, *[Making.render] * 6, Making.indirect, *[Making.transform] * 3, Making.feed, Making.compute,
    Making.query, *[Making.query_call] * 3, Making.scope, *[Making.scope_call] * 2,
    *[Making.state] * 2, *[Making.flags] * 2, *[Making.look] * 3, Making.release,
)  # fmt: skip


@st.composite
def programs(draw: Callable[[st.SearchStrategy[Any]], Any], least: int, most: int) -> list[str]:
    """A random program of that many rules, as hypothesis draws it."""
    making = Making(lambda first, last: draw(st.integers(first, last)))  # type: ignore[no-any-return]
    for rule in draw(st.lists(st.sampled_from(RULES), min_size=least, max_size=most)):
        rule(making)
    making.end()
    return making.lines


def random_program(seed: int, rules: int) -> list[str]:
    """The same without hypothesis: it is made much faster, and never like another."""
    making = Making(random.Random(seed).randint)
    for _ in range(rules):
        making.pick(RULES)(making)
    making.end()
    return making.lines
