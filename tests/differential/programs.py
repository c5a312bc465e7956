"""Random programs, whole: with queries, scopes and the context's state, and with a look at everything at the end.

Knows: how often each rule is taken. Does not know: what a program comes to.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from .leaving_out import left_out
from .making import Argument, Small, Thing
from .making_images import UNITS
from .making_names import MakingNames

ENUMS = ("0x0B90", "0x8642", "0x0C11", "0x0BE2", "0x8DB9", "0x3000", "0x809E", "0x0BD0")
"""For `enable_direct`: features of OpenGL that moderngl does not name."""


class MakingAll(MakingNames):
    """All rules."""

    # --- queries, scopes, state

    def query(self) -> Thing | None:
        """A query of what can be counted exactly."""
        flags = self.pick(({"samples": "True"}, {"primitives": "True"}, {"any_samples": "True"}, {"time": "True"}, {}))
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
        images = {part.object for part in framebuffer.parts}
        if texture is not None and texture.object not in images and not self.number(0, 2):
            more["textures"] = f"[({texture.name}, 7)]"
            self.sampled.add(texture.object)
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

    def scene(self) -> None:
        """Draw a few times to one framebuffer, with other state each time."""
        framebuffer, array = self.framebuffer(), self.vertex_array()
        if framebuffer is None or array is None:
            return
        self.use(framebuffer)
        flags = self.pick(("BLEND", "DEPTH_TEST", "CULL_FACE", "BLEND | moderngl.DEPTH_TEST", "NOTHING"))
        self.line(f"ctx.enable(moderngl.{flags})")
        for _ in range(self.number(1, 3)):
            self.pick((self.state, self.state, self.framebuffer_set, self.uniform, self.texture_set))()
            if array.shaders == "textured":
                for rule in (self.texture, self.texture_use, self.texture_set, self.sampler_use):
                    rule()
            self.pick((self.render, self.render, self.indirect))()
        self.line(f"contents({framebuffer.name})")

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
        names = [thing.name for thing in self.things if thing.kind != "scope" and not self.unclear(thing)]
        self.line(self.pick((
            "ctx.error", "ctx.error", "ctx.finish()", "ctx.clear_errors()", "properties(ctx)", "ctx.gc()",
            "ctx.core_profile_check()", "ctx.__enter__()", "ctx.info" if self.bound_is_known() else "ctx.fbo",
            "len(ctx.objects)", "ctx.fbo",
            "ctx.memory_barrier(1)", "ctx.includes['it'] = 'void main() {}'",
            *((f"properties({self.pick(names)})", f"contents({self.pick(names)})") if names else ()),
        )))  # fmt: skip

    def release(self) -> None:
        """Release an object, or drop it."""
        thing = self.any_of(
            "buffer", "texture", "texture3d", "texture_array", "texture_cube", "renderbuffer", "framebuffer", "sampler",
            "vertex_array", "program", "compute", "scope",
        )  # fmt: skip
        if thing is not None and not self.number(0, 1):
            self.line(self.pick((f"{thing.name}.release()", f"{thing.name}.release()", f"del {thing.name}")))
            frees = not thing.of or thing.kind == "framebuffer"
            gone = [thing, *(other for other in self.things if frees and other.object == thing.object)]
            for other in self.things:
                other.released = other.released or other in gone or any(part in gone for part in other.parts)

    @staticmethod
    def unclear(thing: Thing) -> bool:
        """Whether nobody knows what it says of itself."""
        return thing.kind in ("program", "compute") and thing.released and left_out("released programs")

    def end(self) -> None:
        """Look at everything: errors first, since looking makes new ones."""
        self.lines += ["ctx.error", "ctx.error", "properties(ctx)"]
        for thing in self.things:
            if self.unclear(thing):
                continue
            if thing.kind != "scope" and thing.name.isidentifier():
                self.line(f"properties({thing.name})")
            if thing.kind in (*UNITS, "framebuffer", "buffer"):
                self.line(f"contents({thing.name})")
        self.lines += ["ctx.error", "ctx.finish()"]
        if self.one_in(4) and left_out("released contexts"):
            self.lines += ["ctx.release()", "ctx.release()", "ctx.fbo", "ctx.clear()", "ctx.error", "ctx.buffer(b'a')"]
            for thing in self.having("framebuffer"):
                self.lines += [f"{thing.name}.{call}" for call in ("use()", "clear()", "read()", "viewport", "samples")]
                self.lines += [f"{thing.name}.scissor = None", f"{thing.name}.depth_mask = True"]
            self.lines += [f"{thing.name}.__enter__()" for thing in self.having("scope")]


RULES = {
    "buffer": 1, "vertices": 1, "buffer_call": 4, "texture": 2, "texture_call": 4, "texture_set": 2,
    "texture_use": 3, "image": 1, "sampler": 1, "sampler_use": 1, "renderbuffer": 1, "framebuffer": 2, "layered": 1,
    "odd_framebuffer": 1, "framebuffer_call": 5, "framebuffer_set": 2, "program": 1, "broken": 1, "uniform": 3,
    "vertex_array": 2, "odd_vertex_array": 1, "vertex_array_set": 1, "render": 6, "indirect": 1, "transform": 3,
    "feed": 1, "compute": 1, "query": 1, "query_call": 3, "scope": 1, "scope_call": 2, "scene": 4, "state": 2,
    "flags": 2, "look": 3, "release": 1,
    "label": 2, "debug_scope": 1, "external_buffer": 1, "external_texture": 1, "detect_framebuffer": 1, "handle": 1,
    "mesh": 1,
}  # fmt: skip
"""How often each rule is taken, beside the others."""
TICKETS = tuple(rule for rule, often in RULES.items() for _ in range(often))


@st.composite
def programs(draw: Callable[[st.SearchStrategy[Any]], Any], least: int, most: int) -> list[str]:
    """A random program of that many rules, as hypothesis draws it."""
    making = MakingAll(lambda first, last: draw(st.integers(first, last)))
    for rule in draw(st.lists(st.sampled_from(TICKETS), min_size=least, max_size=most)):
        getattr(making, rule)()
    making.end()
    return making.lines


def random_program(seed: int) -> list[str]:
    """The same without hypothesis: it is made much faster, and never like another."""
    number = random.Random(seed).randint
    making = MakingAll(number)
    for _ in range(number(5, 60)):
        getattr(making, making.pick(TICKETS))()
    making.end()
    return making.lines
