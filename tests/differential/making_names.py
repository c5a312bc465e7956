"""The part of making random programs that is about OpenGL's own names and numbers, and what this driver lacks.

Labels, debug scopes, other objects for what OpenGL has one of, handles of bindless textures, mesh shaders. Knows: what
each call takes, and which names mean something. Does not know: how the objects behind the names are made.
"""

from __future__ import annotations

from .leaving_out import left_out
from .making import Never, Small, Thing
from .making_drawings import MakingDrawings
from .making_images import BYTES
from .shaders import SHADERS

LABELS = ("'a name'", "None", "''", "'größer'", "'until here\\0and no further'", "'x' * 256", "'x' * 257")
LABELLED = (
    "buffer", "texture", "texture3d", "texture_array", "texture_cube", "renderbuffer", "framebuffer", "program",
    "compute", "vertex_array", "sampler",
)  # fmt: skip


class MakingNames(MakingDrawings):
    """What goes by OpenGL's names. Each rule appends a step or a few."""

    def living(self, *kinds: str) -> Thing | None:
        """One object of these kinds that was not released."""
        found = self.having(*kinds)
        return self.pick(found) if found and left_out("names of released objects") else None

    def bound_is_known(self) -> bool:
        """Whether OpenGL has the framebuffer that moderngl takes for bound: it binds it again and again."""
        return not any(target.released for target in self.targets) and left_out("names of released objects")

    @staticmethod
    def size_is_found(framebuffer: Thing) -> bool:
        """Whether moderngl finds how large a framebuffer is."""
        textures = [part for part in framebuffer.parts if part.kind.startswith("texture")]
        odd = any(part.samples or part.kind != "texture" for part in textures)
        return not odd and left_out("sizes of framebuffers")

    # --- labels and debug scopes

    def label(self) -> None:
        """Set a label, and read it."""
        thing = self.living(*LABELLED)
        if thing is not None:
            if self.number(0, 2):
                self.put(f"{thing.name}.label", self.pick(LABELS))
            self.line(f"{thing.name}.label")

    def debug_scope(self) -> None:
        """Be in a debug scope; or enter one, or leave one, without the other."""
        group, source = self.pick(("None", "7", "2**32 + 1")), self.pick(("'application'", "'external'", "'other'"))
        arguments, _ = self.arguments(self.pick(("'outer'", "''", "'x' * 5000")), group, source=source)
        deep = "[attempt(ctx.mglo.push_debug_scope, 0x824A, number, 'deep') for number in range(70)][-8:]"
        self.line(self.pick((
            f"with ctx.debug_scope({arguments}): ctx.disable(moderngl.BLEND)",
            f"with ctx.debug_scope({arguments}): ctx.enable_direct(1)",
            f"ctx.debug_scope({arguments}).__enter__()", "ctx.mglo.push_debug_scope(0x824B, 2, b'by hand')",
            "ctx.mglo.push_debug_scope(7, 2, 'of no source')", "ctx.mglo.pop_debug_scope()", deep,
        )))  # fmt: skip

    # --- other objects for what OpenGL has one of

    def external_buffer(self) -> None:
        """Another object for a buffer: of its bytes, or, for one step, of more than it has."""
        thing = self.living("buffer")
        if thing is None:
            return
        size, glo = thing.size[0], Never(f"{thing.name}.glo")
        if not self.number(0, 2):
            call = self.pick(("read()", "write(b'ab', 100)", "clear()", "size", "orphan()", "dynamic", "release()"))
            claimed = self.pick(("1000", "2**31", "0", "-1", "2**32 + 4"))
            self.line(f"ctx.external_buffer({thing.name}.glo, {claimed}).{call}")
            return
        size = self.number(1, size) if left_out("vertices beyond") else size
        self.make(self.new("buffer", size=(size,), of=thing), "ctx.external_buffer", glo, Never(str(size)))

    def external_texture(self) -> None:
        """Another object for a texture: as it is, or, for one step, as something else."""
        thing = self.living("texture")
        if thing is None or thing.samples or thing.depth:
            return
        glo = f"{thing.name}.glo"
        if self.number(0, 1) or not left_out("pixel transfers beyond"):
            new = self.new(
                "texture", size=thing.size, components=thing.components, dtype=thing.dtype, pixel=thing.pixel, of=thing
            )  # fmt: skip
            more = Small(str(thing.size)), Never(str(thing.components)), Never("0"), Never(repr(thing.dtype))
            self.make(new, "ctx.external_texture", Never(glo), *more)
            return
        dtype, components = self.pick(tuple(BYTES)), self.number(1, 4)
        size = self.pick(("(64, 64)", "(100, 8)", "(8, 64)"))  # less would not hold what OpenGL writes
        call = self.pick(("read()", "read(1)", "filter", "swizzle", "build_mipmaps(5)", "write(b'')", "size"))
        self.line(f"ctx.external_texture({glo}, {size}, {components}, 0, {dtype!r}).{call}")

    def detect_framebuffer(self) -> None:
        """Another object for a framebuffer."""
        thing = self.living("framebuffer")
        if self.bound_is_known() and all(map(self.size_is_found, self.targets)):
            self.line("ctx.detect_framebuffer().size")
        self.line(f"ctx.detect_framebuffer({self.pick(('0', repr('a'), '2**32', '2**64', '1.5'))}).samples")
        if thing is not None and self.size_is_found(thing):
            new = self.new("framebuffer", size=thing.size, samples=thing.samples, parts=thing.parts, of=thing)
            self.make(new, "ctx.detect_framebuffer", Never(f"{thing.name}.glo"))

    # --- what this driver lacks

    def handle(self) -> None:
        """A bindless texture's handle, and a uniform that is set to one."""
        thing = self.any_of("texture", "texture3d", "texture_array", "texture_cube")
        if thing is not None and left_out("handles"):
            resident, _ = self.arguments(self.pick(("True", "False", "5")))
            self.line(f"type({thing.name}.get_handle({resident}))")
        program = self.living("program")
        values = program and SHADERS[program.shaders].uniforms
        if program is not None and values:
            member = f"{program.name}[{self.pick(tuple(values))!r}]"
            self.put(f"{member}.handle", self.pick(("5", "0", "2**64 + 1")))
            self.line(f"{member}.handle")

    def mesh(self) -> None:
        """Draw with a mesh shader, which no program here has."""
        program, buffer = self.living("program"), self.some("buffer", self.buffer)
        if program is not None and buffer is not None:
            name = f"{program.name}.draw_mesh_tasks"
            self.pick((
                lambda: self.call(name, Small("0"), Small("1")),
                lambda: self.call(f"{name}_indirect", buffer.name, Small("0"), Small("1"), Small("0")),
                lambda: self.call(f"{name}_indirect_count", buffer.name, Small("0"), Small("4"), Small("1")),
            ))()  # fmt: skip
