"""The part of making random programs that is about memory: buffers, textures, samplers, framebuffers.

Knows: what each call takes, and what of it is defined. Does not know: programs, or what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from .leaving_out import left_out
from .making import Argument, Making, Never, Small, Thing

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


class MakingImages(Making):
    """What holds bytes, texels and pixels. Each rule appends a step or a few."""

    # --- buffers

    def buffer(self) -> Thing | None:
        """A buffer with some bytes."""
        size = self.pick((16, 48, 64, 80, 160, 7))
        made = self.new("buffer", size=(size,))
        if self.one_in(3) and left_out("new buffers"):
            found = self.make(made, "ctx.buffer", reserve=Never(str(size)), dynamic=self.pick(("True", "False")))
            self.line(f"{made.name}.clear()")
            return found
        return self.make(made, "ctx.buffer", self.bytes(size))

    def vertices(self) -> Thing | None:
        """A buffer with floats for attributes."""
        count = self.pick((20, 30, 40))
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
        chunked: tuple[Argument, ...] = (str(start), str(step), Small(str(chunks)))
        into = self.any_of("buffer") or thing
        self.pick((
            lambda: self.call(f"{name}.read"),
            lambda: self.call(f"{name}.read", str(count), str(offset)),
            lambda: self.call(f"{name}.write", self.bytes(count), str(offset)),
            lambda: self.call(f"{name}.write", "floats(1, 2, 3)", offset="0"),
            lambda: self.into(f"{name}.read_into", size, size=str(count), offset=str(offset)),
            lambda: self.call(f"{name}.write_chunks", self.bytes(chunk * chunks), *chunked),
            lambda: self.call(f"{name}.read_chunks", Small(str(chunk)), *chunked),
            lambda: self.into(f"{name}.read_chunks_into", size, Small(str(chunk)), *chunked),
            lambda: self.call(f"{name}.clear"),
            lambda: self.call(f"{name}.clear", str(count), str(offset), chunk=self.pick(("b'ab'", "None", "b'abc'"))),
            lambda: self.orphan(thing),
            lambda: self.call(f"{name}.bind_to_uniform_block", self.pick(("0", "4", "100")), *self.range()),
            lambda: self.call(f"{name}.bind_to_storage_buffer", self.pick(("0", "5", "100")), *self.range()),
            lambda: self.call("ctx.copy_buffer", into.name, name),
            lambda: self.call(
                "ctx.copy_buffer", into.name, name, str(count), read_offset=str(offset), write_offset=str(offset)
            ),
            lambda: self.call(f"{name}.bind", "'a'", layout="'1f'"),
            lambda: self.call(f"{name}.assign", "1"),
        ))()  # fmt: skip

    def range(self) -> tuple[Argument, Argument]:
        """An offset and a size for a binding that no shader reads from."""
        return Small(self.pick(("0", "0", "16", "256", "3"))), Small(self.pick(("-1", "-1", "16", "0", "1000")))

    def orphan(self, thing: Thing) -> None:
        """New memory, of the same size or a larger one, which is cleared at once."""
        size = self.pick(("-1", "0", "200", "None", "1.5"))
        self.line(f"{thing.name}.orphan({size})")
        if size == "200" and left_out("vertices beyond"):
            thing.size = (200,)
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
        more: dict[str, Argument] = {"alignment": str(alignment), "dtype": repr(dtype)}
        if dtype == "f1" and components == 4 and self.one_in(4):
            more["internal_format"] = self.pick(("0x8C43", "0x8058", "0"))  # sRGB and plain
        if not self.one_in(5):
            return self.make(thing, "ctx.texture", Small(str(size)), str(components), data, **more)
        found = self.make(thing, "ctx.texture", Small(str(size)), str(components), **more)
        if left_out("new images"):
            self.line(f"{thing.name}.write({data}, alignment={alignment})")
        return found

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
        more: dict[str, Argument] = {"alignment": str(alignment), "dtype": repr(dtype)}
        return self.make(thing, "ctx.texture_cube", Small(str(size)), str(components), data, **more)

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
        if thing.dtype not in FLOAT_TYPES or thing.samples or (thing.kind == "texture_cube" and thing.depth):
            unit = 7  # which no shader looks at
        self.sampled.add(thing.object)
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
            thing, "ctx.renderbuffer", Small(str(size)), str(components), samples=Small(str(samples)), dtype=repr(dtype)
        )

    def depth_renderbuffer(self, size: tuple[int, int] | None = None, samples: int = 0) -> Thing | None:
        """A renderbuffer for depth."""
        size = size or self.pick(SIZES)
        thing = self.new("renderbuffer", size=size, components=1, dtype="f4", samples=samples, depth=True)
        return self.make(thing, "ctx.depth_renderbuffer", Small(str(size)), samples=Small(str(samples)))

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
        objects = {thing.object for thing in others if thing}
        there = [
            thing for thing in self.having("texture", "renderbuffer")
            if thing.size == size and thing.samples == samples and not thing.depth and thing.object not in self.sampled
            and thing.dtype in COLOR_TYPES and thing.object not in objects and left_out("an image twice")
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

    def layered(self) -> None:
        """A framebuffer of a texture array, of which the first layer is drawn to."""
        for image in self.having("texture_array"):
            if image.object not in self.sampled and image.dtype in COLOR_TYPES:
                thing = self.new("framebuffer", size=image.size[:2], parts=(image,))
                self.line(f"{thing.name} = ctx.framebuffer([{image.name}])")
                self.line(f"{thing.name}.clear(0.5, 0.25)")
                self.home()
                self.things.append(thing)
                return

    def odd_framebuffer(self) -> None:
        """A framebuffer of any attachments, which mostly do not fit; or none."""
        images = self.having("texture", "renderbuffer", "texture_array", "texture_cube", released=True)
        size = self.pick(SIZES)
        self.pick((
            lambda: self.line(f"ctx.framebuffer([{', '.join(self.pick(images).name for _ in range(2))}])"),
            lambda: self.line(f"ctx.framebuffer({self.pick(images).name}, {self.pick(images).name})"),
            lambda: self.line(f"ctx.framebuffer(depth_attachment={self.pick(images).name})"),
            lambda: self.line("ctx.framebuffer()"),
        ) if images and self.number(0, 2) and left_out("new images") else (
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
        _, part = self.area(thing)
        image = self.pick(thing.parts)
        attachment = -1 if image.depth else self.number(0, 1)
        components = Never(str(image.components))
        if not image.depth and left_out("depth as colours") and left_out("components beyond"):
            components = Never(self.pick((str(image.components), "1", "2", "3", "4", "None", "2**32 + 3", "'a'")))
        dtype = repr(image.dtype)
        other = self.pick([*self.having("framebuffer"), thing])
        color = ", ".join(self.pick(("0", "0.5", "1", "0.1", "2.5", "-1")) for _ in range(4))
        self.pick((
            lambda: self.use(thing),
            lambda: self.use(thing),
            lambda: self.call(f"{name}.clear", *color.split(", ")),
            lambda: self.call(f"{name}.clear", viewport=part, color=f"({color})", depth="0.25"),
            lambda: self.call("ctx.clear", *color.split(", ")),
            lambda: self.call("ctx.clear", color=f"[{color}]", viewport=self.pick((part, "None", "(2, 2)"))),
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
                more = f"components={image.components}, dtype={image.dtype!r}, alignment={self.pick((1, 1, 3))}"
                more += f", write_offset={self.number(0, buffer.size[0] - size)}"
                self.line(f"{thing.name}.read_into({buffer.name}, {more})")
                return

    def copy(self, thing: Thing, other: Thing) -> None:
        """Copy pixels between framebuffers, or to a texture."""
        texture, parts = self.any_of("texture"), {part.object for part in thing.parts}
        own = texture is not None and texture.object in parts and left_out("an image onto itself")
        if texture is not None and not own and texture.object not in self.sampled and not self.number(0, 2):
            self.call("ctx.copy_framebuffer", texture.name, thing.name)
        elif parts.isdisjoint(part.object for part in other.parts):
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


def size_of(size: Sequence[int], pixel: int, alignment: int) -> int:
    """Bytes of an image."""
    width, height, *layers = size
    return -(-width * pixel // alignment) * alignment * height * (layers[0] if layers else 1)
