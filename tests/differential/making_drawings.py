"""The part of making random programs that is about drawing: programs, uniforms, vertex arrays, transforms, compute.

Knows: what each call takes, and whether OpenGL says what comes of a drawing. Does not know: the context's state.
"""

from __future__ import annotations

from .leaving_out import left_out
from .making import Argument, Never, Small, Thing
from .making_images import INTEGER_TYPES, MakingImages
from .shaders import BROKEN, COMPUTE, LAYOUTS, SHADERS


class MakingDrawings(MakingImages):
    """What draws and computes. Each rule appends a step or a few."""

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
        value = self.pick(values[name if self.number(0, 4) else self.pick(tuple(values))])  # or another's
        careful = thing.shaders in ("textured", "blocks") and left_out("kinds of images")
        argument = Never(value) if careful else value
        self.pick((
            lambda: self.put(member, argument),
            lambda: self.put(f"{member}.value", argument),
            lambda: self.line(f"{member}.value"),
            lambda: self.line(f"{member}.read()") if name[0].islower() else None,
            lambda: self.call(f"{member}.write", f"{member}.read()") if name[0].islower() and not careful else None,
            lambda: self.line(f"properties({thing.name})"),
            lambda: self.line(f"{member}.binding"),
            lambda: self.line(f"{thing.name}[{self.pick(('a', 'nothing', 'gl_VertexID'))!r}]"),
            lambda: self.line(f"{thing.name}.get({self.pick(('a', 'nothing', name))!r}, 5)"),
        ))()  # fmt: skip

    def vertex_array(self) -> Thing | None:
        """A vertex array that feeds all attributes of a program."""
        program = self.some("program", self.program)
        if program is None:
            return None
        attributes = SHADERS[program.shaders].attributes
        size = sum(int(text[0]) * (8 if text.endswith("8") else 4) for text in attributes.values())
        layout = " ".join(attributes.values())
        if program.shaders in LAYOUTS and self.one_in(3):
            layout, size = self.pick(LAYOUTS[program.shaders]), size + 8
        buffers = [buffer for buffer in self.having("buffer") if buffer.size[0] >= size]
        buffer = self.pick(buffers) if buffers and self.number(0, 2) else self.vertices()
        if buffer is None:
            return None
        names = ", ".join(map(repr, attributes))
        content = f"[({buffer.name}, {layout!r}, {names})]" if attributes else "[]"
        if attributes and self.one_in(4):
            layout = layout.split("/")[0] + self.pick(("/v", " /v", "/i", "/r"))
            content = f"[({buffer.name}, {layout!r}, {names})]"
        elif attributes and self.one_in(4):
            content = f"[{buffer.name}.bind({names})]"
        elif len(attributes) == 2 and self.one_in(3):
            content = "[" + ", ".join(f"({buffer.name}, {form!r}, {name!r})" for name, form in attributes.items()) + "]"
        count = buffer.size[0] // size if size else 4
        thing = self.new("vertex_array", shaders=program.shaders, parts=(program, buffer), size=(count,))
        if attributes and self.one_in(6):
            call = self.pick(("ctx.vertex_array", "ctx.simple_vertex_array"))
            return self.make(thing, call, program.name, buffer.name, *map(repr, attributes))
        if self.one_in(4) and left_out("vertices beyond"):
            index = self.new("indices", size=(3,))
            numbers = ", ".join(str(self.number(0, count - 1)) for _ in range(3))
            self.line(f"{index.name} = ctx.buffer(integers({numbers}))")
            thing.name += "i"
            thing.given["indexed"] = 3
            element = Never(self.pick(("4", "4", "2", "1"))) if count > 0 else Never("4")
            more: dict[str, Argument] = {"index_buffer": Never(index.name), "index_element_size": element}
            return self.make(thing, "ctx.vertex_array", program.name, content, **more)
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
            name, value = self.pick((
                ("vertices", "1"), ("vertices", "2"), ("instances", "2"), ("mode", "0"), ("subroutines", "()"),
            ))  # fmt: skip
            self.put(f"{thing.name}.{name}", Small(value) if name in ("vertices", "instances") else value)
            self.line(f"{thing.name}.{name}")
        scope = self.any_of("scope")
        if thing is not None and scope is not None and self.one_in(3):
            self.line(f"{thing.name}.scope = {scope.name}")
            self.targets = [*self.targets, *self.having("framebuffer", released=True)]

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
        if any(image.object in self.sampled for image in images) and left_out("feedback"):
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
        fed = {part.object for part in thing.parts}
        outputs = [buffer for buffer in self.having("buffer") if buffer.object not in fed and left_out("own output")]
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
        self.line(f"{shader}.get({self.pick(('add', 'level', 'nothing'))!r}, 5)")
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
            groups = self.lines[-1].split()[0]
            self.call(f"{shader}.run_indirect", Never(groups), Never(self.pick(("4", "0", "8"))))
        else:
            self.call(f"{shader}.run", Small(self.pick(("1", "2", "4"))), Small(self.pick(("1", "2"))), Small("1"))
        if left_out("no barrier"):
            self.line("ctx.memory_barrier()")
        self.line(f"{target}.read()")
