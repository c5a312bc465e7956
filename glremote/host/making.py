"""How objects are made: each from its command, and none with what OpenGL left in its memory.

Knows: the Make commands, and what a new object's memory is zeroed with. Does not know: what is done with objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glremote.protocol import commands as c
from glremote.protocol.stacks import Span

from . import bounds
from .gl import RENDERBUFFER, TEXTURE_2D_MULTISAMPLE
from .objects import NO_IMAGE, Image, NotThere, Objects, size_of
from .zeroing import zero_buffer, zeros


class Making(Objects):
    """The methods of making.py."""

    def make_buffer(self, k: c.MakeBuffer) -> Any:
        if k.data is not None:
            return self.context.buffer(self.data(k.data), 0, k.dynamic)
        bounds.offsets(k.reserve)
        made = self.context.buffer(None, k.reserve, k.dynamic)
        self.unwritten[k.handle] = 0
        return made

    def orphan(self, k: c.BufferOrphan) -> None:
        bounds.offsets(k.length)
        self[k.buffer].orphan(k.length)
        self.unwritten[k.buffer] = 0

    def write_buffer(self, k: c.BufferWrite) -> None:
        bounds.offsets(k.offset)
        self[k.buffer].write(self.data(k.data), k.offset)
        if k.buffer in self.unwritten:
            self.unwritten[k.buffer] = max(self.unwritten[k.buffer], k.offset + k.data.size)

    def settle(self, command: c.Command) -> None:
        """Zero what new buffers do not have yet, unless the command goes on with writing one: to do both is in vain."""
        writes = command.buffer if isinstance(command, c.BufferWrite) else 0
        for handle, end in list(self.unwritten.items()):
            if handle != writes or command.offset > end:  # type: ignore[attr-defined]
                zero_buffer(self[handle], end)
                del self.unwritten[handle]

    def pixels(self, span: Span | None, images: int, extent: tuple[int, ...], pixel: int, alignment: int) -> Any:
        """The bytes of a new texture: of the span, or zeros, since what OpenGL leaves there is not ours to show."""
        bounds.alignment(alignment)
        if span is not None:
            return self.data(span)
        width, height, *depth = extent
        size = (width * pixel + alignment - 1) // alignment * alignment * height * (depth[0] if depth else 1) * images
        return zeros(size)

    def make_texture(self, k: c.MakeTexture) -> Any:
        extent = extent_of(k)

        def make(data: Any) -> Any:
            return self.context.texture(
                extent, k.components, data, k.samples, k.alignment, k.dtype, k.internal_format, False
            )

        if k.samples:
            return self.zeroed(TEXTURE_2D_MULTISAMPLE, make(None))
        return make(self.pixels(k.data, 1, extent, k.components * size_of(k.dtype), k.alignment))

    def make_depth_texture(self, k: c.MakeDepthTexture) -> Any:
        extent = extent_of(k)
        bounds.alignment(k.alignment)
        if k.samples:
            made = self.context.depth_texture(extent, None, k.samples, k.alignment, False)
            return self.zeroed(TEXTURE_2D_MULTISAMPLE, made)
        data = self.pixels(k.data, 1, extent, 4, k.alignment)
        return self.context.depth_texture(extent, data, 0, k.alignment, False)

    def make_volume(self, make: Callable[..., Any], k: Any) -> Any:
        extent = extent_of(k)
        data = self.pixels(k.data, 1, extent, k.components * size_of(k.dtype), k.alignment)
        return make(extent, k.components, data, k.alignment, k.dtype)

    def make_cube(self, k: c.MakeTextureCube) -> Any:
        extent = extent_of(k)
        data = self.pixels(k.data, 6, extent, k.components * size_of(k.dtype), k.alignment)
        return self.context.texture_cube(extent, k.components, data, k.alignment, k.dtype, k.internal_format)

    def make_external_texture(self, k: c.MakeExternalTexture) -> Any:
        bounds.most(k.components, 4, "components")
        self.unsure.add(k.handle)
        return self.context.external_texture(self.name(k.texture), extent_of(k), k.components, k.samples, k.dtype)

    def zeroed(self, target: int, made: Any) -> Any:
        """What moderngl made, an object and OpenGL's name of it, all of its samples zeros."""
        held = [query for query, end in self.begun.items() if end == "end_render"]
        if held:  # the condition of a conditional rendering would hold for this too
            self._zero_unconditionally(target, made[-1], held)
        else:
            self.gl.zero(target, made[-1])
        return made

    def _zero_unconditionally(self, target: int, name: int, held: list[Any]) -> None:
        """Of the queries that moderngl takes for conditions OpenGL has one at most, and none where it refused them."""
        with self.gl.errors_apart():
            for query in held:
                query.end_render()
                if query is held[0]:
                    had_one = not self.gl.glGetError()
            self.gl.zero(target, name)
            for query in held:
                query.begin_render()
            if not had_one:
                self.gl.glEndConditionalRender()

    def make_depth_cube(self, k: c.MakeDepthTextureCube) -> Any:
        extent = extent_of(k)
        return self.context.depth_texture_cube(extent, self.pixels(k.data, 6, extent, 4, k.alignment), k.alignment)

    def make_renderbuffer(self, k: c.MakeRenderbuffer) -> Any:
        made = self.context.texture(extent_of(k), k.components, None, k.samples, 1, k.dtype, 0, True)
        return self.zeroed(RENDERBUFFER, made)

    def make_depth_renderbuffer(self, k: c.MakeDepthRenderbuffer) -> Any:
        return self.zeroed(RENDERBUFFER, self.context.depth_texture(extent_of(k), None, k.samples, 1, True))

    def make_framebuffer(self, k: c.MakeFramebuffer) -> Any:
        bounds.most(len(k.color_attachments), bounds.MOST_ATTACHMENTS, "colour attachments")
        depth = None if k.depth_attachment is None else self[k.depth_attachment]
        colors = tuple(self[handle] for handle in k.color_attachments)
        handles = [*k.color_attachments, *([] if k.depth_attachment is None else [k.depth_attachment])]
        images = [self.images.get(handle, NO_IMAGE) for handle in handles] or [NO_IMAGE]
        width, height = min(image.width for image in images), min(image.height for image in images)
        dtypes = tuple("".join(image.dtypes) for image in images[: len(colors)])
        made = self.told(k.handle, lambda: self.context.framebuffer(colors, depth))
        if type(made) is tuple:
            self.framebuffers[made[-1]] = Image(width, height, dtypes, tuple(handles))
        return made

    def make_program(self, k: c.MakeProgram) -> Any:
        bounds.most(len(k.varyings), bounds.MOST_VARYINGS, "varyings")

        def make() -> Any:
            try:
                made = self.context.program(*k.sources, k.varyings, k.fragment_outputs, k.interleaved)
            except Exception as error:
                head, line, log = str(error).partition("=\n")
                if any(k.sources) or (log.replace("\n", "").isprintable() and log.isascii()):
                    raise
                # NVIDIA has nothing to say of no sources, and moderngl passes on memory that was not written
                raise type(error)(f"{head}{line}\n") from None
            _, members, _, geometry, _ = made
            self.members[k.handle] = (members, geometry)
            return made

        return self.told(k.handle, make)

    def told(self, handle: int, make: Callable[[], Any]) -> Any:
        """Make something whose failure is told by the Ask that follows, since moderngl raises at the call."""
        try:
            return make()
        except Exception as error:
            self.failures[handle] = error
            return Failed(handle)

    def failure(self, handle: int) -> None:
        if (error := self.failures.pop(handle, None)) is not None:
            raise error

    def make_vertex_array(self, k: c.MakeVertexArray) -> Any:
        for item in k.content:
            bounds.vertex_format(item.format)
            bounds.attributes(item.attributes)
        content = tuple((self[item.buffer], item.format, *item.attributes) for item in k.content)
        index = None if k.index_buffer is None else self[k.index_buffer]
        array = self.context.vertex_array(self[k.program], content, index, k.index_element_size)
        if k.index_buffer is not None:
            self.indexed.add(k.handle)
            self.indices.add(self.name(k.index_buffer))
        return array

    def make_scope(self, k: c.MakeScope) -> Any:
        def bound(pairs: Any) -> Any:
            return tuple((self[handle], location) for handle, location in pairs)

        return self.context.scope(
            self[k.framebuffer],
            k.enable_flags,
            bound(k.textures),
            bound(k.uniform_buffers),
            bound(k.storage_buffers),
            (),
        )


def extent_of(k: Any) -> tuple[int, ...]:
    """The extent of an image that a command makes."""
    return tuple(map(bounds.side, k.extent))


class Failed:
    """Stands for a program or a framebuffer that could not be made; nothing can be done with it."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __getattr__(self, name: str) -> Any:
        raise NotThere(f"the object with handle {self.handle} could not be made")

    def release(self) -> None:
        """There is nothing to release."""
