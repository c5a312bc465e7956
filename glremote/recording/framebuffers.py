"""Stands where mgl.Framebuffer stands. Shadow: viewport, scissor and masks; which one is bound is the context's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moderngl import Error

from glremote.protocol import commands as c

from . import arguments as a
from .buffers import Buffer
from .objects import Recorded, check_made, type_name
from .textures import Renderbuffer, Texture, TextureArray

if TYPE_CHECKING:
    from .context import Context

Rect = tuple[int, int, int, int]
ALL = (True, True, True, True)


class Framebuffer(Recorded):
    """A framebuffer of `width` x `height` pixels with `draw_buffers` colour attachments."""

    name = "mgl.Framebuffer"
    uses = c.FramebufferUse
    screen_bits: dict[str, int] | None = None
    """Of the one that stands where a window's framebuffer would: see glremote/running.py."""

    def __init__(self, context: Context, size: tuple[int, int], samples: int, draw_buffers: int, depth: bool) -> None:
        super().__init__(context)
        self.glo = context.number("framebuffer", self)
        self.begin((0, 0, *size), samples, draw_buffers, depth)

    def begin(self, area: Rect, samples: int, draw_buffers: int, depth: bool) -> None:
        """What the shadow says of a fresh one."""
        self.width, self.height = area[2:]
        self.samples = samples
        self.multisampled = samples > 0
        self.draw_buffers = draw_buffers
        self._area = area
        self._viewport = area
        self._scissor: Rect | None = None
        self._color_masks: list[c.Mask] = [ALL] * draw_buffers
        self._depth_mask = self._first_depth_mask = depth

    @classmethod
    def default(cls, context: Context, area: Rect) -> Framebuffer:
        """The framebuffer that the context begins with; no command makes it."""
        made = cls.__new__(cls)
        made.context, made.recorder, made.released, made.life = context, context.recorder, False, None
        made.handle, made.glo = c.DEFAULT_FRAMEBUFFER, 0
        made.begin(area, 0, 1, True)
        return made

    @classmethod
    def detected(cls, context: Context, handle: int, glo: int) -> Framebuffer:
        """Another object for the framebuffer of that name; `begin` follows."""
        made = cls.__new__(cls)
        made.context, made.recorder, made.released, made.life = context, context.recorder, False, None
        made.handle, made.glo = handle, glo
        return made

    def release(self) -> None:
        """Free the OpenGL object; the second call does nothing, nor does any for number 0."""
        if self.glo:
            super().release()

    def clear(self, red: Any, green: Any, blue: Any, alpha: Any, depth: Any, viewport: Any) -> None:
        """Clear all attachments, within the viewport given, else within the scissor."""
        self.context.check()
        red, green, blue, alpha, depth = map(a.real, (red, green, blue, alpha, depth))
        area = None
        if viewport is not None and (area := a.rect(viewport)) is None:
            raise Error("wrong values in the viewport")
        self.recorder.record(c.FramebufferClear(self.handle, red, green, blue, alpha, depth, area))

    def use(self) -> None:
        """Bind it, with its viewport, scissor and masks."""
        self.context.check()
        self.recorder.record(self.uses(self.handle))
        self.context.bound = self

    def read_into(
        self,
        data: Any,
        viewport: Any,
        components: Any,
        attachment: Any,
        alignment: Any,
        clamp: Any,
        dtype: Any,
        write_offset: Any,
    ) -> int:
        """Read pixels into writable memory or a buffer; the number of bytes. `attachment` -1 is the depth."""
        self.context.check()
        components, attachment, alignment = a.int32(components), a.int32(attachment), a.int32(alignment)
        clamp, dtype, write_offset = bool(clamp), a.text(dtype, 7), a.ssize(write_offset)
        alignment = a.alignment(alignment)
        if dtype not in a.SIZES:
            raise Error("invalid dtype")
        area = None
        if viewport is not None and (area := a.rect(viewport)) is None:
            raise Error("wrong values in the viewport")
        width, height = area[2:] if area else (self.width, self.height)
        size = a.image_size(width, height, 1, (1 if attachment == -1 else components) * a.SIZES[dtype], alignment)
        fields = (area, components & 0xFFFFFFFF, attachment, alignment, clamp, dtype)
        check_made(data, self.context)
        if type(data) is Buffer:
            self.recorder.record(c.FramebufferReadInto(self.handle, data.handle, *fields, write_offset))
            data.ahead.fill(data)
            return size
        memory = a.writable(data)
        if write_offset < 0 or len(memory) < write_offset + size:  # moderngl writes before the memory's beginning
            raise Error("the buffer is too small")
        sink = memory[write_offset : write_offset + size]
        self.recorder.fetch(c.ReadFramebuffer, size, self.handle, *fields, sink=sink)
        return size

    @property
    def viewport(self) -> Rect:
        """x, y, width, height in pixels."""
        return self._viewport

    @viewport.setter
    def viewport(self, value: Any) -> None:
        self.context.check()
        area = a.rect(value)
        if area is None:
            raise Error("wrong values in the viewport")
        self.recorder.record(c.FramebufferViewport(self.handle, area))
        self._viewport = area

    @property
    def scissor(self) -> Rect:
        """x, y, width, height in pixels; all of it when there is none."""
        return self._scissor or (0, 0, self.width, self.height)

    @scissor.setter
    def scissor(self, value: Any) -> None:
        self.context.check()
        area = None
        if value is not None and (area := a.rect(value)) is None:
            raise Error("wrong values in the scissor")
        self.recorder.record(c.FramebufferScissor(self.handle, area))
        self._scissor = area

    @property
    def color_mask(self) -> Any:
        """One mask of 4 bools, or a tuple of them where there is not just one attachment."""
        return self._color_masks[0] if self.draw_buffers == 1 else tuple(self._color_masks)

    @color_mask.setter
    def color_mask(self, value: Any) -> None:
        self.context.check()
        masks = list(self._color_masks)
        if self.draw_buffers == 1:
            masks[0] = _mask(value)
        else:
            items = _items(value)
            if len(items) > 64:
                raise Error(f"too many color masks ({len(items)}), the maximum is 64")
            try:
                for index, item in enumerate(items):
                    mask = _mask(item)
                    if index < len(masks):
                        masks[index] = mask
            except Error:  # those before it are set
                self._set_color_masks(masks)
                raise
        self._set_color_masks(masks)

    def _set_color_masks(self, masks: list[c.Mask]) -> None:
        if masks:
            self.recorder.record(c.FramebufferColorMask(self.handle, tuple(masks)))
        self._color_masks = masks

    @property
    def depth_mask(self) -> bool:
        """Whether depth is written."""
        return self._depth_mask

    @depth_mask.setter
    def depth_mask(self, value: Any) -> None:
        self.context.check()
        if value is not True and value is not False:
            raise Error(f"the depth_mask must be a bool not {type_name(value)}")
        self.recorder.record(c.FramebufferDepthMask(self.handle, value))
        self._depth_mask = value

    @property
    def bits(self) -> dict[str, int]:
        """Bits of the default framebuffer's channels; waits, unless it is the screen of `glremote run`."""
        self.context.check()
        if self.screen_bits is not None:
            return dict(self.screen_bits)
        if self.handle != c.DEFAULT_FRAMEBUFFER:
            raise Error("only the default_framebuffer have bits")
        return self.recorder.ask(c.FramebufferBits, self.handle, answer=dict[str, int])  # type: ignore[no-any-return]

    def restore(self) -> Iterator[c.Command]:
        """See Recorded.restore."""
        if self._viewport != self._area:
            yield c.FramebufferViewport(self.handle, self._viewport)
        if self._scissor is not None:
            yield c.FramebufferScissor(self.handle, self._scissor)
        if self._color_masks != [ALL] * self.draw_buffers:
            yield c.FramebufferColorMask(self.handle, tuple(self._color_masks))
        if self._depth_mask != self._first_depth_mask:
            yield c.FramebufferDepthMask(self.handle, self._depth_mask)


def _mask(value: Any) -> c.Mask:
    items = _items(value)
    if len(items) != 4:
        raise Error("invalid color mask")
    try:
        return tuple(map(bool, items))  # type: ignore[return-value]
    except Exception:
        raise Error("invalid color mask") from None


def _items(value: Any) -> tuple[Any, ...]:
    try:
        return tuple(value)
    except Exception:
        raise Error("invalid color mask") from None


def framebuffer(context: Context, color_attachments: Any, depth_attachment: Any) -> tuple[Framebuffer, Any, int, int]:
    """`Context.framebuffer` of the seam: the object, its size, samples and glo.

    Waits only where the driver's table of complete framebuffers does not know the attachments.
    """
    context.check()
    colors = tuple(color_attachments) if hasattr(color_attachments, "__getitem__") else (color_attachments,)
    known: tuple[int, int, int] | None = None
    for attachment in colors:
        known = _fitting(context, attachment, known, depth=False, otherwise="invalid color attachment")
    if depth_attachment is not None:
        known = _fitting(context, depth_attachment, known, depth=True, otherwise="invalid depth attachment")
    if known is None:
        raise Error("missing attachments")
    width, height, samples = known
    made = Framebuffer(context, (width, height), samples, len(colors), depth_attachment is not None)
    depth_handle = None if depth_attachment is None else depth_attachment.handle
    attachments = [*colors] if depth_attachment is None else [*colors, depth_attachment]
    context.recorder.make(made, c.MakeFramebuffer(made.handle, tuple(x.handle for x in colors), depth_handle))
    if not context.is_complete(attachments, len(colors)):
        context.recorder.ask(c.CheckFramebuffer, made.handle)
    return made, (width, height), samples, made.glo


def _fitting(
    context: Context, attachment: Any, known: tuple[int, int, int] | None, *, depth: bool, otherwise: str
) -> tuple[int, int, int]:
    """Width, height and samples of an attachment that fits those before it."""
    check_made(attachment, context)
    if type(attachment) not in (Texture, TextureArray, Renderbuffer) or attachment.depth != depth:
        raise Error(otherwise)
    found = (attachment.width, attachment.height, attachment.samples)
    if not found[0] or not found[1] or (known is not None and known != found):
        raise Error(otherwise)
    return found


def empty_framebuffer(context: Context, size: Any, layers: Any = 0, samples: Any = 0) -> tuple[Any, Any, int, int]:
    """`Context.empty_framebuffer` of the seam: the object, its size, samples and glo. Waits: the driver decides."""
    context.check()
    width, height = a.extent(size, 2)
    layers, samples = a.uint32(layers), a.uint32(samples)
    made = Framebuffer(context, (width, height), samples, 0, False)
    context.recorder.make(made, c.MakeEmptyFramebuffer(made.handle, (width, height), layers, samples))
    context.recorder.ask(c.CheckFramebuffer, made.handle)
    return made, (made.width, made.height), a.int32(samples), made.glo
