"""The interpreter: commands become calls of moderngl's C objects.

Knows: for each command the one call that it records, in four tables, one line each. Does not know: sessions, epochs or
how an answer travels. The objects are those at moderngl's seam, by their handles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from glremote.protocol import commands as c
from glremote.protocol.buffers import kept_by
from glremote.protocol.messages import value_bytes
from glremote.protocol.reflection import fingerprint
from glremote.protocol.stacks import Stack

from . import bounds
from .checked import Checked
from .deadlines import Deadlines
from .keeping import Kept
from .limits import Limits, Usage
from .making import Making
from .objects import Image
from .progress import Progress
from .readbacks import LEAST, Readbacks
from .reading import PIECE, Reading
from .reflecting import reflect

FOR_ROOM = 0.1
"""Seconds for which we wait at a time for a read that is on its way, so that another can be begun."""
Part = tuple[int, Callable[[memoryview], Any]]
"""Of an answer: its size in bytes, and what writes them."""


class Answers(Protocol):
    """Where answers go."""

    def value(self, ticket: int, value: Any) -> None:
        """The answer of an Ask."""
        ...

    def data(self, ticket: int, total: int, parts: Iterable[Part], of: c.Fetch | None = None) -> None:
        """The answer of a Fetch, `total` bytes in parts; what writing one raises is the answer."""
        ...

    def error(self, ticket: int, error: Exception) -> None:
        """The exception that an Ask or a Fetch is answered with."""
        ...

    def goes_on(self, command: c.Command) -> bool:
        """Whether there is something to be run behind the command that runs now."""
        ...


class OtherReflection(Exception):
    """What the client knows of a program is not so."""


class Interpreter(Making, Reading, Checked):
    """Runs commands on one context; what is asked for goes to `answers`.

    `overlaps`: the driver goes on while it reads pixels back, so that what follows a read is worth being begun first.
    `is_gpu`: it is no software renderer.
    """

    def __init__(
        self,
        context: Any,
        stack: Stack,
        answers: Answers,
        overlaps: bool = False,
        is_gpu: bool = False,
        limits: Limits | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        super().__init__(context, stack)
        self.answers = answers
        self.usage = Usage(limits or Limits())
        self.deadlines = deadlines or Deadlines(self.usage.limits)
        self.overlaps = overlaps
        self.readbacks = Readbacks(context, self.gl)
        self.progress = Progress(self.gl, self.deadlines.buffers, at_work=is_gpu)

    def run_buffer(self, start: int) -> None:
        """Run the commands of `buffer` from one on; `at` is the last that was begun. Raises as `run`."""
        run, buffer = self.run, self.buffer
        for at in range(start, len(buffer)):
            self.at = at
            run(buffer[at])

    def run(self, command: c.Command) -> None:
        """Run one command. Raises what moderngl raises, unless an answer can carry it."""
        if self.unwritten:
            self.settle(command)
        kind = type(command)
        if (does := DOES.get(kind)) is not None:
            does(self, command)
        elif (makes := MAKES.get(kind)) is not None:
            self._make(command, makes)  # type: ignore[arg-type]
        elif (fetches := FETCHES.get(kind)) is not None:
            self._fetch(command, fetches)  # type: ignore[arg-type]
        elif (asks := ASKS.get(kind)) is not None:
            try:
                value = asks(self, command)
            except Exception as error:
                self.answers.error(command.ticket, error)  # type: ignore[attr-defined]
            else:
                self.answers.value(command.ticket, value)  # type: ignore[attr-defined]
        else:
            FREES[kind](self, command)

    def _make(self, command: c.Make, makes: Callable[[Interpreter, Any], Any]) -> None:
        self.usage.add(command)
        try:
            made = makes(self, command)
        except BaseException:
            self.usage.take_back(command.handle)
            raise
        self._keep(command, made)

    def _keep(self, command: c.Make, made: Any) -> None:
        """What moderngl gave: an object, or a tuple that begins with it and ends with OpenGL's name of it."""
        handle = self.last_made = command.handle
        if type(made) is tuple:
            made, *_, self.names[handle] = made
        self[handle] = made
        if (extent := getattr(command, "extent", None)) is not None and handle not in self.unsure:
            self.images[handle] = Image(extent[0], extent[1], (getattr(command, "dtype", ""),))

    def _fetch(self, command: c.Fetch, fetches: Callable[[Interpreter, Any, memoryview], Any]) -> None:
        began, on_its_way = self.deadlines.reads.begin(), False
        try:
            if command.size >= LEAST and self.overlaps and isinstance(command, c.ReadFramebuffer):
                on_its_way = self._begin(command, began)
            if not on_its_way:
                self._read(command, fetches)
        finally:
            if not on_its_way:
                self.deadlines.reads.end(began)

    def _read(self, command: c.Fetch, fetches: Callable[[Interpreter, Any, memoryview], Any]) -> None:
        self.progress.catch_up()
        size = command.size
        if size <= PIECE:
            parts: Iterable[Part] = ((size, lambda memory: fetches(self, command, memory)),)
        else:
            parts = [(piece.size, partial(fetches, self, piece)) for piece in self.pieces(command)]
        self.answers.data(command.ticket, size, parts, command)

    def _begin(self, command: c.ReadFramebuffer, began: float) -> bool:
        """Whether the read is on its way, since others follow; `deliver` answers it, and ends its time."""
        dtypes, at = self.framebuffer(command.framebuffer).dtypes, command.attachment
        if not 0 <= at < len(dtypes) or dtypes[at] != command.dtype:  # a driver may convert otherwise there
            return False
        if not self._is_whole(command) or not self.answers.goes_on(command):
            return False
        try:
            while not self.readbacks.begin(command, self[command.framebuffer], began):
                if not self.readbacks:
                    return False
                self.deliver(FOR_ROOM)
        except Exception as error:
            self.answers.error(command.ticket, error)
            self.deadlines.reads.end(began)
        return True

    def deliver(self, seconds: float) -> bool:
        """Answer the oldest read that is on its way, if its pixels are there within so many seconds."""
        found = self.readbacks.arrived(seconds)
        if found is None:
            return False
        pixels = found.pixels
        pieces = [pixels[start : start + PIECE] for start in range(0, len(pixels), PIECE)]
        parts = [(len(piece), partial(_copy, piece)) for piece in pieces]
        self.answers.data(found.command.ticket, len(pixels), parts, found.command)
        self.readbacks.done(found)
        self.deadlines.reads.end(found.began)
        return True

    def make_program(self, k: c.MakeProgram) -> Any:
        began = self.deadlines.programs.begin()
        try:
            return super().make_program(k)
        finally:
            self.deadlines.programs.end(began)

    def begin_epoch(self) -> None:
        """After a fault: end what was begun and whose end was dropped. The client takes it for ended too."""
        for query, end in self.begun.items():
            getattr(query, end)()
        self.begun.clear()

    def begin(self, query: Any, begin: str, end: str) -> None:
        getattr(query, begin)()
        self.begun[query] = end

    def end(self, query: Any, end: str) -> None:
        getattr(query, end)()
        self.begun.pop(query, None)

    def finish(self, k: c.Finish) -> None:
        self.progress.catch_up()
        self.context.finish()

    def result(self, query: int, of: str) -> Any:
        self.progress.catch_up()
        return getattr(self[query], of)

    def detected(self, k: c.DetectedFramebuffer) -> tuple[int, int, int]:
        framebuffer = self[k.framebuffer]
        mask = framebuffer.color_mask
        return (*framebuffer.viewport[2:], 1 if mask and mask[0] in (True, False) else len(mask))

    def reflect_program(self, k: c.ReflectProgram | c.CheckReflection) -> Any:
        self.failure(k.program)
        return reflect(self.context, self.names[k.program], *self.members[k.program])

    def check_reflection(self, k: c.CheckReflection) -> None:
        if fingerprint(value_bytes(self.reflect_program(k))) != k.hash:
            raise OtherReflection("the driver has other members, or others of their facts, than the client knows")

    def orphan(self, k: c.BufferOrphan) -> None:
        if k.length > 0:
            self.usage.resize(k.buffer, k.length, "BufferOrphan")
        super().orphan(k)

    def copy_framebuffer(self, k: c.CopyFramebuffer) -> None:
        to_texture = type(self[k.dst]).__name__ != "Framebuffer"
        if to_texture and not self.gl.can_copy_colors(self.name(k.src)):
            return  # after its depths were read there are none to be read, and Mesa's drivers die of it
        self.context.copy_framebuffer(self[k.dst], self[k.src])
        if to_texture:  # it is another image then, also of another size
            texture = self.name(k.dst)
            self.no_image(texture)
            self.unsure.update(handle for handle, name in self.names.items() if name == texture)

    def keep(self, k: c.KeepCommands) -> Kept:
        assert isinstance(self.stack, Stack)
        others = [thing for thing in self.values() if isinstance(thing, Kept)]
        return Kept(kept_by(k, self.buffer), self.stack, others)

    def replay(self, k: c.Replay) -> None:
        stack, kept = self.stack, self[k.commands]
        self.stack = kept
        try:
            kept.run(self.run)
        finally:
            self.stack = stack

    def release(self, k: c.Release) -> None:
        self.unsure.add(k.object)
        self.usage.release(k.object)
        if self.names.get(k.object) in self.indices:
            # A buffer that is deleted leaves the vertex array that is bound, which then reads indices from address 0;
            # others keep it for as long as they are there (OpenGL 4.6, 5.1.2).
            self.gl.bind_no_vertex_array()
        if (thing := self.get(k.object)) is not None:
            if hasattr(thing, "release"):  # a query and a scope of moderngl's have nothing to release
                thing.release()
            if type(thing).__name__ == "Framebuffer":
                self.framebuffers.pop(self.name(k.object), None)

    def forget(self, k: c.Forget) -> None:
        for kept in (self, self.names, self.members, self.images, self.failures):
            kept.pop(k.object, None)
        self.unsure.discard(k.object)
        self.indexed.discard(k.object)
        self.usage.forget(k.object)


def _copy(source: memoryview, memory: memoryview) -> None:
    memory[:] = source


def describe(error: BaseException) -> tuple[str, str]:
    """The type and text of an exception, as an answer or a fault carries them."""
    return type(error).__name__, str(error)


def _set(attribute: str) -> Callable[[Interpreter, Any], None]:
    return lambda i, k: setattr(i.context, attribute, k.value)


def _set_on(field: str, attribute: str) -> Callable[[Interpreter, Any], None]:
    return lambda i, k: setattr(i[getattr(k, field)], attribute, k.value)


def _within(does: Callable[[Interpreter, Any], Any], *fields: str) -> Callable[[Interpreter, Any], Any]:
    """What a command does, once its offsets, sizes and viewports are found to be within bounds."""

    def checked(interpreter: Interpreter, command: Any) -> Any:
        for name in fields:
            if name == "viewport":
                bounds.area(command.viewport)
            else:
                bounds.offsets(getattr(command, name))
        return does(interpreter, command)

    return checked


MAKES: dict[type[c.Command], Callable[[Interpreter, Any], Any]] = {
    c.MakeBuffer: Interpreter.make_buffer,
    c.MakeTexture: Interpreter.make_texture,
    c.MakeDepthTexture: Interpreter.make_depth_texture,
    c.MakeTexture3D: lambda i, k: i.make_volume(i.context.texture3d, k),
    c.MakeTextureArray: lambda i, k: i.make_volume(i.context.texture_array, k),
    c.MakeTextureCube: Interpreter.make_cube,
    c.MakeDepthTextureCube: Interpreter.make_depth_cube,
    c.MakeRenderbuffer: Interpreter.make_renderbuffer,
    c.MakeDepthRenderbuffer: Interpreter.make_depth_renderbuffer,
    c.MakeFramebuffer: Interpreter.make_framebuffer,
    c.MakeEmptyFramebuffer: lambda i, k: i.told(
        k.handle, lambda: i.context.empty_framebuffer(k.extent, k.layers, k.samples)
    ),
    c.MakeDetectedFramebuffer: lambda i, k: i.context.detect_framebuffer(i.name(k.framebuffer)),
    c.MakeExternalBuffer: lambda i, k: i.context.external_buffer(i.name(k.buffer), k.size & 0xFFFFFFFF),
    c.MakeExternalTexture: Interpreter.make_external_texture,
    c.MakeProgram: Interpreter.make_program,
    c.MakeVertexArray: Interpreter.make_vertex_array,
    c.MakeQuery: lambda i, k: i.context.query(k.samples, k.any_samples, k.time, k.primitives),
    c.MakeSampler: lambda i, k: i.context.sampler(),
    c.MakeScope: Interpreter.make_scope,
    c.KeepCommands: Interpreter.keep,
}

DOES: dict[type[c.Command], Callable[[Interpreter, Any], Any]] = {
    c.EnableOnly: lambda i, k: i.context.enable_only(k.flags),
    c.Enable: lambda i, k: i.context.enable(k.flags),
    c.Disable: lambda i, k: i.context.disable(k.flags),
    c.EnableDirect: lambda i, k: i.context.enable_direct(k.enum),
    c.DisableDirect: lambda i, k: i.context.disable_direct(k.enum),
    c.LineWidth: _set("line_width"),
    c.PointSize: _set("point_size"),
    c.DepthFunc: _set("depth_func"),
    c.BlendFunc: _set("blend_func"),
    c.BlendEquation: _set("blend_equation"),
    c.DepthClampRange: _set("depth_clamp_range"),
    c.Multisample: _set("multisample"),
    c.ProvokingVertex: _set("provoking_vertex"),
    c.PolygonOffset: _set("polygon_offset"),
    c.DefaultTextureUnit: _set("default_texture_unit"),
    c.Wireframe: _set("wireframe"),
    c.FrontFace: _set("front_face"),
    c.CullFace: _set("cull_face"),
    c.PatchVertices: _set("patch_vertices"),
    c.MemoryBarrier: lambda i, k: i.context.memory_barrier(k.barriers, k.by_region),
    c.ClearSamplers: lambda i, k: i.context.clear_samplers(k.start, k.end),
    c.ClearErrors: lambda i, k: i.context.clear_errors(),
    c.CopyBuffer: _within(
        lambda i, k: i.context.copy_buffer(i[k.dst], i[k.src], k.size, k.read_offset, k.write_offset),
        "size", "read_offset", "write_offset",
    ),
    c.CopyFramebuffer: Interpreter.copy_framebuffer,
    c.BufferWrite: Interpreter.write_buffer,
    c.BufferWriteChunks: Interpreter.write_chunks,
    c.BufferClear: _within(lambda i, k: i[k.buffer].clear(k.length, k.offset, i.data(k.chunk)), "length", "offset"),
    c.BufferOrphan: Interpreter.orphan,
    c.BufferBindUniformBlock: _within(
        lambda i, k: i[k.buffer].bind_to_uniform_block(k.binding, k.offset, k.length), "offset", "length"
    ),
    c.BufferBindStorageBuffer: _within(
        lambda i, k: i[k.buffer].bind_to_storage_buffer(k.binding, k.offset, k.length), "offset", "length"
    ),
    c.TextureWrite: _within(
        lambda i, k: i[k.texture].write(i.data(k.data), k.viewport, k.level, k.alignment), "viewport"
    ),
    c.VolumeWrite: _within(
        lambda i, k: i[k.texture].write(i.data(k.data), k.viewport, k.alignment), "viewport"
    ),
    c.TextureCubeWrite: _within(
        lambda i, k: i[k.texture].write(k.face, i.data(k.data), k.viewport, k.alignment), "viewport"
    ),
    c.TextureWriteFrom: _within(
        lambda i, k: i[k.texture].write(i[k.buffer], k.viewport, k.level, k.alignment), "viewport"
    ),
    c.VolumeWriteFrom: _within(
        lambda i, k: i[k.texture].write(i[k.buffer], k.viewport, k.alignment), "viewport"
    ),
    c.TextureCubeWriteFrom: _within(
        lambda i, k: i[k.texture].write(k.face, i[k.buffer], k.viewport, k.alignment), "viewport"
    ),
    c.TextureReadInto: _within(
        lambda i, k: i[k.texture].read_into(i[k.buffer], k.level, k.alignment, k.write_offset), "write_offset"
    ),
    c.VolumeReadInto: _within(
        lambda i, k: i[k.texture].read_into(i[k.buffer], k.alignment, k.write_offset), "write_offset"
    ),
    c.TextureCubeReadInto: _within(
        lambda i, k: i[k.texture].read_into(i[k.buffer], k.face, k.alignment, k.write_offset), "write_offset"
    ),
    c.TextureUse: lambda i, k: i[k.texture].use(k.location),
    c.TextureBindToImage: lambda i, k: i[k.texture].bind(k.unit, k.read, k.write, k.level, k.format),
    c.TextureBuildMipmaps: lambda i, k: i[k.texture].build_mipmaps(k.base, k.max_level),
    c.TextureRepeatX: _set_on("texture", "repeat_x"),
    c.TextureRepeatY: _set_on("texture", "repeat_y"),
    c.TextureRepeatZ: _set_on("texture", "repeat_z"),
    c.TextureFilter: _set_on("texture", "filter"),
    c.TextureSwizzle: _set_on("texture", "swizzle"),
    c.TextureAnisotropy: _set_on("texture", "anisotropy"),
    c.TextureCompareFunc: _set_on("texture", "compare_func"),
    c.FramebufferClear: lambda i, k: i[k.framebuffer].clear(k.red, k.green, k.blue, k.alpha, k.depth, k.viewport),
    c.FramebufferUse: lambda i, k: i[k.framebuffer].use(),
    c.FramebufferViewport: _set_on("framebuffer", "viewport"),
    c.FramebufferScissor: _set_on("framebuffer", "scissor"),
    c.FramebufferColorMask: lambda i, k: setattr(
        i[k.framebuffer], "color_mask", k.value[0] if len(k.value) == 1 else k.value
    ),
    c.FramebufferDepthMask: _set_on("framebuffer", "depth_mask"),
    c.FramebufferReadInto: Interpreter.read_framebuffer_into,
    c.CheckReflection: Interpreter.check_reflection,
    c.SetUniform: Interpreter.set_uniform,
    c.SetUniformBlockBinding: lambda i, k: i.context._set_ubo_binding(i.name(k.program), k.index, k.binding),
    c.SetStorageBlockBinding: lambda i, k: i.context._set_storage_block_binding(i.name(k.program), k.index, k.binding),
    c.SetUniformHandle: lambda i, k: i.context._set_uniform_handle(i.name(k.program), k.location, k.value),
    c.DrawMeshTasks: lambda i, k: i[k.program].draw_mesh_tasks(k.first, k.count),
    c.DrawMeshTasksIndirect: Interpreter.draw_mesh_tasks_indirect,
    c.DrawMeshTasksIndirectCount: Interpreter.draw_mesh_tasks_indirect_count,
    c.RunCompute: lambda i, k: i[k.program].run(k.x, k.y, k.z),
    c.RunComputeIndirect: Interpreter.run_indirect,
    c.Render: lambda i, k: i[k.vertex_array].render(k.mode, k.vertices, k.first, k.instances),
    c.RenderIndirect: Interpreter.render_indirect,
    c.Transform: lambda i, k: i[k.vertex_array].transform(
        [i[handle] for handle in k.outputs], k.mode, k.vertices, k.first, k.instances, k.buffer_offset
    ),
    c.VertexArrayBind: Interpreter.bind_attribute,
    c.VertexArrayIndexBuffer: Interpreter.set_index_buffer,
    c.VertexArrayVertices: _set_on("vertex_array", "vertices"),
    c.VertexArrayInstances: _set_on("vertex_array", "instances"),
    c.QueryBegin: lambda i, k: i.begin(i[k.query], "begin", "end"),
    c.QueryEnd: lambda i, k: i.end(i[k.query], "end"),
    c.QueryBeginRender: lambda i, k: i.begin(i[k.query], "begin_render", "end_render"),
    c.QueryEndRender: lambda i, k: i.end(i[k.query], "end_render"),
    c.SamplerUse: lambda i, k: i[k.sampler].use(k.location),
    c.SamplerClear: lambda i, k: i[k.sampler].clear(k.location),
    c.SamplerRepeatX: _set_on("sampler", "repeat_x"),
    c.SamplerRepeatY: _set_on("sampler", "repeat_y"),
    c.SamplerRepeatZ: _set_on("sampler", "repeat_z"),
    c.SamplerFilter: _set_on("sampler", "filter"),
    c.SamplerCompareFunc: _set_on("sampler", "compare_func"),
    c.SamplerAnisotropy: _set_on("sampler", "anisotropy"),
    c.SamplerBorderColor: _set_on("sampler", "border_color"),
    c.SamplerMinLod: _set_on("sampler", "min_lod"),
    c.SamplerMaxLod: _set_on("sampler", "max_lod"),
    c.ScopeBegin: lambda i, k: i[k.scope].begin(),
    c.ScopeEnd: lambda i, k: i[k.scope].end(),
    c.Replay: Interpreter.replay,
}

ASKS: dict[type[c.Command], Callable[[Interpreter, Any], Any]] = {
    c.GetError: lambda i, k: i.context.error,
    c.Finish: Interpreter.finish,
    c.SetLabel: lambda i, k: i.context.set_label(k.identifier, i.name(k.object), k.label),
    c.GetLabel: lambda i, k: i.context.get_label(k.identifier, i.name(k.object)),
    c.PushDebugScope: lambda i, k: i.context.push_debug_scope(k.source, k.id, k.message),
    c.PopDebugScope: lambda i, k: i.context.pop_debug_scope(),
    c.DetectedFramebuffer: Interpreter.detected,
    c.CheckFramebuffer: lambda i, k: i.failure(k.framebuffer),
    c.FramebufferBits: lambda i, k: i[k.framebuffer].bits,
    c.ReflectProgram: Interpreter.reflect_program,
    c.TextureGetHandle: lambda i, k: i[k.texture].get_handle(k.resident),
    c.QuerySamples: lambda i, k: i.result(k.query, "samples"),
    c.QueryPrimitives: lambda i, k: i.result(k.query, "primitives"),
    c.QueryElapsed: lambda i, k: i.result(k.query, "elapsed"),
}

FETCHES: dict[type[c.Command], Callable[[Interpreter, Any, memoryview], Any]] = {
    c.ReadBuffer: Interpreter.read_buffer,
    c.ReadBufferChunks: Interpreter.read_chunks,
    c.ReadTexture: lambda i, k, memory: i.read_texture(k.texture, memory, k.level, k.alignment),
    c.ReadVolume: lambda i, k, memory: i.read_texture(k.texture, memory, k.alignment),
    c.ReadTextureCube: lambda i, k, memory: i.read_texture(k.texture, memory, k.face, k.alignment),
    c.ReadFramebuffer: Interpreter.read_framebuffer,
}

FREES: dict[type[c.Command], Callable[[Interpreter, Any], None]] = {
    c.Release: Interpreter.release,
    c.Forget: Interpreter.forget,
}
