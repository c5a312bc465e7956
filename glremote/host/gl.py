"""Raw OpenGL, for what moderngl has no call for: the one door to it.

Knows: functions by name, through the loader of moderngl's own context. Each method here restores all state that it
touches, unless it says so, and leaves glGetError as it was. Does not know: commands or handles.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, byref, c_char_p, c_float, c_int32, c_ssize_t, c_ubyte, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

RENDERBUFFER = 0x8D41
TEXTURE_2D_MULTISAMPLE = 0x9100

_DRAW_FRAMEBUFFER = 0x8CA9
_DRAW_FRAMEBUFFER_BINDING = 0x8CA6
_READ_FRAMEBUFFER = 0x8CA8
_READ_FRAMEBUFFER_BINDING = 0x8CAA
_READ_BUFFER = 0x0C02
_ATTACHMENT_OBJECT_TYPE = 0x8CD0
_FRAMEBUFFER_COMPLETE = 0x8CD5
_COLOR_ATTACHMENT0 = 0x8CE0
_DEPTH_ATTACHMENT = 0x8D00
_ATTACHMENT_COMPONENT_TYPE = 0x8211
_INVALID_ENUM = 0x0500
_INVALID_VALUE = 0x0501
_INVALID_OPERATION = 0x0502
_INVALID_FRAMEBUFFER_OPERATION = 0x0506
_NOTHING = 0xFFFFFFFF  # no enumerant, and no set of bits
_INT = 0x1404
_UNSIGNED_INT = 0x1405
_COLOR = 0x1800
_DEPTH = 0x1801
_COLOR_BUFFER_BIT = 0x4000
_SCISSOR_TEST = 0x0C11
_RASTERIZER_DISCARD = 0x8C89
_COLOR_WRITEMASK = 0x0C23
_DEPTH_WRITEMASK = 0x0B72

_COPY_WRITE_BUFFER = 0x8F37  # its binding has the same number
_DYNAMIC_STORAGE, _CLIENT_STORAGE = 0x100, 0x200
_MAP_READ, _MAP_PERSISTENT, _MAP_COHERENT = 0x1, 0x40, 0x80
_SYNC_GPU_COMMANDS_COMPLETE = 0x9117
_SYNC_FLUSH_COMMANDS = 0x1
_TIMEOUT_EXPIRED = 0x911B
_NUM_DEVICE_UUIDS = 0x9596
_DEVICE_UUID = 0x9597

_enum = _name = c_uint32
_FUNCTIONS: dict[str, tuple[Any, ...]] = {  # the result, then the arguments
    "glBindBuffer": (None, _enum, _name),
    "glBindFramebuffer": (None, _enum, _name),
    "glBindVertexArray": (None, _name),
    "glBufferStorage": (None, _enum, c_ssize_t, c_void_p, c_uint32),
    "glBufferSubData": (None, _enum, c_ssize_t, c_ssize_t, c_char_p),
    "glCheckFramebufferStatus": (_enum, _enum),
    "glClear": (None, c_uint32),
    "glClearBufferfv": (None, _enum, c_int32, c_void_p),
    "glClearBufferiv": (None, _enum, c_int32, c_void_p),
    "glClearBufferuiv": (None, _enum, c_int32, c_void_p),
    "glClientWaitSync": (_enum, c_void_p, c_uint32, c_uint64),
    "glColorMaski": (None, c_uint32, c_ubyte, c_ubyte, c_ubyte, c_ubyte),
    "glDeleteBuffers": (None, c_int32, c_void_p),
    "glDeleteSync": (None, c_void_p),
    "glDepthMask": (None, c_ubyte),
    "glDisable": (None, _enum),
    "glEnable": (None, _enum),
    "glEndConditionalRender": (None,),
    "glEndTransformFeedback": (None,),
    "glFenceSync": (c_void_p, _enum, c_uint32),
    "glFramebufferRenderbuffer": (None, _enum, _enum, _enum, _name),
    "glFramebufferTexture2D": (None, _enum, _enum, _enum, _name, c_int32),
    "glGenBuffers": (None, c_int32, c_void_p),
    "glGenFramebuffers": (None, c_int32, c_void_p),
    "glGetBooleani_v": (None, _enum, c_uint32, c_void_p),
    "glGetBooleanv": (None, _enum, c_void_p),
    "glGetFramebufferAttachmentParameteriv": (None, _enum, _enum, _enum, c_void_p),
    "glGetError": (_enum,),
    "glGetIntegerv": (None, _enum, c_void_p),
    "glGetUnsignedBytei_vEXT": (None, _enum, c_uint32, c_void_p),
    "glIsEnabled": (c_ubyte, _enum),
    "glMapBufferRange": (c_void_p, _enum, c_ssize_t, c_ssize_t, c_uint32),
}


class PixelBuffer(NamedTuple):
    """A buffer whose memory is mapped for as long as it lives: OpenGL's name of it, and the memory."""

    name: int
    memory: memoryview


class OpenGL:
    """The functions of one context (moderngl's C object), which must be current in the calling thread."""

    def __init__(self, context: Any) -> None:
        self._load = context._context.load_opengl_function
        self._framebuffer = 0

    def __getattr__(self, name: str) -> Any:
        """A function, loaded at its first use."""
        function = CFUNCTYPE(*_FUNCTIONS[name])(self._load(name))
        setattr(self, name, function)
        return function

    @contextmanager
    def errors_apart(self) -> Iterator[None]:
        """What is called inside may fail, and nobody hears of it; an error that was pending before is pending again.

        OpenGL has no call that sets an error, so the same is caused again. GL_OUT_OF_MEMORY cannot be, and is lost.
        """
        pending = self.glGetError()
        yield
        self.glGetError()
        if pending == _INVALID_ENUM:
            self.glEnable(_NOTHING)
        elif pending == _INVALID_VALUE:
            self.glClear(_NOTHING)
        elif pending == _INVALID_OPERATION:
            self._cause_invalid_operation()
        elif pending == _INVALID_FRAMEBUFFER_OPERATION:
            with self._drawing():  # to nothing
                self.glClear(_COLOR_BUFFER_BIT)

    def zero(self, target: int, name: int) -> None:
        """Zero all samples of an image that can be drawn to; one that cannot be is left as it is.

        target: RENDERBUFFER or TEXTURE_2D_MULTISAMPLE; name: OpenGL's. What is drawn under a condition
        (glBeginConditionalRender) must have been ended: it would hold for this too.
        """
        with self._drawing():
            for attachment, clear in (_COLOR_ATTACHMENT0, self._clear_color), (_DEPTH_ATTACHMENT, self._clear_depth):
                self._attach(attachment, target, name)
                drawable = self.glCheckFramebufferStatus(_DRAW_FRAMEBUFFER) == _FRAMEBUFFER_COMPLETE
                if drawable:
                    clear()
                self._attach(attachment, target, 0)
                if drawable:
                    return

    def bind_no_vertex_array(self) -> None:
        """Until moderngl binds the next, as it does for each draw."""
        self.glBindVertexArray(0)

    def can_copy_colors(self, framebuffer: int) -> bool:
        """Whether glCopyTexImage2D would find colours in a framebuffer, by OpenGL's name of it.

        Where it would not, its error is left behind: GL_INVALID_OPERATION (OpenGL 4.6, 18.2.1).
        """
        bound, buffer, kind = c_int32(), c_int32(), c_int32()
        self.glGetIntegerv(_READ_FRAMEBUFFER_BINDING, byref(bound))
        self.glBindFramebuffer(_READ_FRAMEBUFFER, framebuffer)
        self.glGetIntegerv(_READ_BUFFER, byref(buffer))
        if not framebuffer:  # whose images are the system's, not attached
            kind = buffer
        elif buffer.value:
            self.glGetFramebufferAttachmentParameteriv(
                _READ_FRAMEBUFFER, buffer.value, _ATTACHMENT_OBJECT_TYPE, byref(kind)
            )
        self.glBindFramebuffer(_READ_FRAMEBUFFER, bound.value)
        if not kind.value:
            self._cause_invalid_operation()
        return bool(kind.value)

    def _cause_invalid_operation(self) -> None:
        self.glEndTransformFeedback()  # none is active: moderngl's begins and ends in one call

    def pixel_buffer(self, size: int) -> PixelBuffer | None:
        """A new buffer that we read while OpenGL has it; None where it cannot be had.

        Needs OpenGL 4.4 or GL_ARB_buffer_storage.
        """
        name, bound, address = c_uint32(), c_int32(), None
        with self.errors_apart():
            self.glGetIntegerv(_COPY_WRITE_BUFFER, byref(bound))
            self.glGenBuffers(1, byref(name))
            self.glBindBuffer(_COPY_WRITE_BUFFER, name)
            flags = _MAP_READ | _MAP_PERSISTENT | _MAP_COHERENT  # not for writing: that makes reading slow
            self.glBufferStorage(_COPY_WRITE_BUFFER, size, None, flags | _DYNAMIC_STORAGE | _CLIENT_STORAGE)
            if not self.glGetError():
                address = self.glMapBufferRange(_COPY_WRITE_BUFFER, 0, size, flags)
            self.glBindBuffer(_COPY_WRITE_BUFFER, bound.value)
            if not address:
                self.glDeleteBuffers(1, byref(name))
                return None
        return PixelBuffer(name.value, memoryview((c_ubyte * size).from_address(address)).cast("B"))

    def write(self, buffer: PixelBuffer, data: bytes, offset: int) -> None:
        """Write into a pixel buffer, behind what was called before."""
        bound = c_int32()
        self.glGetIntegerv(_COPY_WRITE_BUFFER, byref(bound))
        self.glBindBuffer(_COPY_WRITE_BUFFER, buffer.name)
        self.glBufferSubData(_COPY_WRITE_BUFFER, offset, len(data), data)
        self.glBindBuffer(_COPY_WRITE_BUFFER, bound.value)

    def delete(self, buffer: PixelBuffer) -> None:
        """Delete a pixel buffer; its memory is gone."""
        buffer.memory.release()
        self.glDeleteBuffers(1, byref(c_uint32(buffer.name)))

    def fence(self) -> int:
        """A fence behind all that was called so far, which is on its way to the GPU then."""
        fence = int(self.glFenceSync(_SYNC_GPU_COMMANDS_COMPLETE, 0))
        self.glClientWaitSync(fence, _SYNC_FLUSH_COMMANDS, 0)
        return fence

    def passed(self, fence: int, seconds: float) -> bool:
        """Whether the GPU passes a fence within so many seconds; one that it has passed is gone."""
        if self.glClientWaitSync(fence, 0, int(seconds * 1e9)) == _TIMEOUT_EXPIRED:
            return False
        self.glDeleteSync(fence)
        return True

    def device_uuid(self) -> bytes | None:
        """16 bytes by which other interfaces know the GPU too, if it is one alone.

        Needs GL_EXT_memory_object.
        """
        count, found = c_int32(), (c_ubyte * 16)()
        with self.errors_apart():
            self.glGetIntegerv(_NUM_DEVICE_UUIDS, byref(count))
            if count.value != 1:
                return None
            self.glGetUnsignedBytei_vEXT(_DEVICE_UUID, 0, byref(found))
        return bytes(found)

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """A framebuffer of our own, with nothing that would keep a clear from its pixels."""
        bound, color, depth = c_int32(), (c_ubyte * 4)(), c_ubyte()
        self.glGetIntegerv(_DRAW_FRAMEBUFFER_BINDING, byref(bound))
        self.glGetBooleani_v(_COLOR_WRITEMASK, 0, byref(color))
        self.glGetBooleanv(_DEPTH_WRITEMASK, byref(depth))
        enabled = [flag for flag in (_SCISSOR_TEST, _RASTERIZER_DISCARD) if self.glIsEnabled(flag)]
        if not self._framebuffer:
            made = c_uint32()
            self.glGenFramebuffers(1, byref(made))
            self._framebuffer = made.value
        self.glBindFramebuffer(_DRAW_FRAMEBUFFER, self._framebuffer)
        self.glColorMaski(0, 1, 1, 1, 1)
        self.glDepthMask(1)
        for flag in enabled:
            self.glDisable(flag)
        try:
            yield
        finally:
            for flag in enabled:
                self.glEnable(flag)
            self.glDepthMask(depth)
            self.glColorMaski(0, *color)
            self.glBindFramebuffer(_DRAW_FRAMEBUFFER, bound.value)

    def _attach(self, attachment: int, target: int, name: int) -> None:
        if target == RENDERBUFFER:
            self.glFramebufferRenderbuffer(_DRAW_FRAMEBUFFER, attachment, target, name)
        else:
            self.glFramebufferTexture2D(_DRAW_FRAMEBUFFER, attachment, target, name, 0)

    def _clear_color(self) -> None:
        kind = c_int32()
        self.glGetFramebufferAttachmentParameteriv(
            _DRAW_FRAMEBUFFER, _COLOR_ATTACHMENT0, _ATTACHMENT_COMPONENT_TYPE, byref(kind)
        )
        clears = {_INT: self.glClearBufferiv, _UNSIGNED_INT: self.glClearBufferuiv}
        clears.get(kind.value, self.glClearBufferfv)(_COLOR, 0, byref((c_int32 * 4)()))

    def _clear_depth(self) -> None:
        self.glClearBufferfv(_DEPTH, 0, byref(c_float()))
