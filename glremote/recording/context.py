"""Stands where mgl.Context stands. Shadow: all state that moderngl's context sets, and what is bound where."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

from moderngl import Error

from glremote.device.remote import RemoteDevice
from glremote.protocol import commands as c

from . import arguments as a
from . import buffers, framebuffers, making_textures, naming, programs, queries, samplers, scopes, vertex_arrays
from .buffers import Buffer
from .faults import is_made
from .framebuffers import Framebuffer
from .objects import Recorded, Seam, check_made, instance
from .programs import Program, ProgramNumber
from .recorder import Recorder
from .state import State
from .textures import Renderbuffer, Texture, TextureArray


class Context(State, Seam):
    """The context of one session. Everything it answers without waiting was in the greeting, or was set here."""

    name = "mgl.Context"
    followed = frozenset((c.EnableOnly, c.Enable, c.Disable, "enable_flags"))

    def __init__(self, device: RemoteDevice) -> None:
        self.device = device
        self.recorder = Recorder(device)
        driver = device.driver
        self.released = False
        self.owners = 1  # of moderngl's contexts that stand on it
        self.version_code = driver.version_code
        self.info_values: dict[str, Any] = dict(driver.info)
        self.limits: dict[str, Any] = dict(driver.limits)
        self.includes: dict[str, str] = {}
        self.extensions: set[str] = set(driver.extensions)
        self.bindings: dict[tuple[str, int], c.Command] = {}
        self.enable_flags = 0
        self._direct: dict[int, c.Command] = {}
        State.__init__(self, driver.state)
        self._complete = frozenset(map(tuple, driver.complete))
        self._glos: Counter[str] = Counter()
        self.numbered: weakref.WeakValueDictionary[tuple[str, int], Recorded] = weakref.WeakValueDictionary()
        self.program_of: weakref.WeakKeyDictionary[Any, Program] = weakref.WeakKeyDictionary()
        """By member: whoever has one can still set it when the program's own object is gone."""
        self.default = self._bound = Framebuffer.default(self, driver.default_framebuffer)
        self.recorder.roots.append(self)

    # --- for the other recording objects

    def number(self, kind: str, thing: Recorded) -> int:
        """The next number of an OpenGL object of this type, for this object."""
        self._glos[kind] += 1
        self.numbered[kind, self._glos[kind]] = thing
        return self._glos[kind]

    def take_for_default(self, framebuffer: Framebuffer, bits: dict[str, int]) -> None:
        """This one stands where a window's framebuffer would: it is number 0, and has bits. See glremote/running.py."""
        framebuffer.glo, framebuffer.screen_bits = 0, bits
        self.default = framebuffer

    def check(self) -> None:
        """Raise, as moderngl does where it needs its framebuffers, when the context was released."""
        if self.released:
            raise Error("the context was released")

    @property
    def bound(self) -> Framebuffer:
        """The framebuffer that is bound on the host."""
        return self._bound

    @bound.setter
    def bound(self, value: Framebuffer) -> None:
        self._bound = value

    def is_complete(self, attachments: list[Any], colors: int) -> bool:
        """Whether the driver's table knows that these attachments, of equal size, make a complete framebuffer."""
        if colors > 8:  # what every driver of OpenGL 3 has (OpenGL 4.6 core, table 23.74)
            return False
        layered = {type(attachment) is TextureArray for attachment in attachments}
        return len(layered) == 1 and all(self._known(attachment) for attachment in attachments)

    def _known(self, attachment: Any) -> bool:
        kind = {Texture: "texture", TextureArray: "texture_array", Renderbuffer: "renderbuffer"}[type(attachment)]
        most = self.info_values["GL_MAX_RENDERBUFFER_SIZE" if kind == "renderbuffer" else "GL_MAX_TEXTURE_SIZE"]
        if attachment.released or not 0 < attachment.width <= most or not 0 < attachment.height <= most:
            return False
        if kind == "texture_array" and not 0 < attachment.layers <= self.info_values["GL_MAX_ARRAY_TEXTURE_LAYERS"]:
            return False
        if kind != "renderbuffer" and attachment.internal_format:
            return False
        dtype = "depth" if attachment.depth else attachment.dtype
        return (kind, attachment.components, dtype, attachment.samples) in self._complete

    def restore(self) -> Iterator[c.Command]:
        """The commands that set all state again; see Recorded.restore."""
        yield c.EnableOnly(self.enable_flags)
        yield from self._direct.values()
        yield from self.setters()
        yield from (binding for binding in self.bindings.values() if self._can_be_bound(binding))
        if not self._bound.released and is_made(self._bound):
            yield c.FramebufferUse(self._bound.handle)

    def _can_be_bound(self, binding: Any) -> bool:
        """Whether what a binding command names (its first field) is still there."""
        thing = self.recorder.objects.get(getattr(binding, binding.__struct_fields__[0]))
        return thing is not None and is_made(thing) and not thing.released

    # --- making

    def buffer(self, data: Any, reserve: Any, dynamic: Any) -> Any:
        """See buffers.py."""
        return buffers.buffer(self, data, reserve, dynamic)

    def texture(self, *arguments: Any) -> Any:
        """See making_textures.py."""
        return making_textures.texture(self, *arguments)

    def texture3d(self, *arguments: Any) -> Any:
        """See making_textures.py."""
        return making_textures.texture3d(self, *arguments)

    def texture_array(self, *arguments: Any) -> Any:
        """See making_textures.py."""
        return making_textures.texture_array(self, *arguments)

    def texture_cube(self, *arguments: Any) -> Any:
        """See making_textures.py."""
        return making_textures.texture_cube(self, *arguments)

    def depth_texture(self, *arguments: Any) -> Any:
        """See making_textures.py."""
        return making_textures.depth_texture(self, *arguments)

    def depth_texture_cube(self, *arguments: Any) -> Any:
        """See making_textures.py."""
        return making_textures.depth_texture_cube(self, *arguments)

    def framebuffer(self, color_attachments: Any, depth_attachment: Any) -> Any:
        """See framebuffers.py."""
        return framebuffers.framebuffer(self, color_attachments, depth_attachment)

    def empty_framebuffer(self, *arguments: Any) -> Any:
        """See framebuffers.py."""
        return framebuffers.empty_framebuffer(self, *arguments)

    def program(self, *arguments: Any) -> Any:
        """See programs.py."""
        return programs.program(self, *arguments)

    def vertex_array(self, *arguments: Any) -> Any:
        """See vertex_arrays.py."""
        return vertex_arrays.vertex_array(self, *arguments)

    def query(self, *arguments: Any) -> Any:
        """See queries.py."""
        return queries.query(self, *arguments)

    def sampler(self) -> Any:
        """See samplers.py."""
        return samplers.sampler(self)

    def scope(self, *arguments: Any) -> Any:
        """See scopes.py."""
        return scopes.scope(self, *arguments)

    def external_buffer(self, glo: Any, size: Any) -> Any:
        """See naming.py."""
        return naming.external_buffer(self, glo, size)

    def external_texture(self, *arguments: Any) -> Any:
        """See naming.py."""
        return naming.external_texture(self, *arguments)

    def detect_framebuffer(self, glo: Any) -> Any:
        """See naming.py."""
        return naming.detect_framebuffer(self, glo)

    def get_label(self, identifier: Any, glo: Any) -> str | None:
        """See naming.py."""
        return naming.get_label(self, identifier, glo)

    def set_label(self, identifier: Any, glo: Any, label: Any) -> None:
        """See naming.py."""
        naming.set_label(self, identifier, glo, label)

    def push_debug_scope(self, source: Any, id: Any, message: Any) -> None:
        """See naming.py."""
        naming.push_debug_scope(self, source, id, message)

    def pop_debug_scope(self) -> None:
        """Leave a debug scope; waits, since it raises what OpenGL says of it."""
        self.recorder.ask(c.PopDebugScope)

    # --- doing

    def enable_only(self, flags: Any) -> None:
        """Enable these of the five features and disable the others."""
        self._enable(c.EnableOnly(a.checked_int32(flags)))

    def enable(self, flags: Any) -> None:
        """Enable features."""
        self._enable(c.Enable(a.checked_int32(flags)))

    def disable(self, flags: Any) -> None:
        """Disable features."""
        self._enable(c.Disable(a.checked_int32(flags)))

    def _enable(self, command: c.Command) -> None:
        self.recorder.record(command)
        self.follow(command)

    def follow(self, command: c.Command) -> None:
        """See Seam.follow."""
        if type(command) is c.Enable:
            self.enable_flags |= command.flags
        elif type(command) is c.Disable:
            self.enable_flags &= ~command.flags
        elif type(command) is c.EnableOnly:
            self.enable_flags = command.flags

    def enable_direct(self, enum: Any) -> None:
        """glEnable."""
        command = c.EnableDirect(a.checked_int32(enum))
        self.recorder.record(command)
        self._direct[command.enum] = command

    def disable_direct(self, enum: Any) -> None:
        """glDisable."""
        command = c.DisableDirect(a.checked_int32(enum))
        self.recorder.record(command)
        self._direct[command.enum] = command

    def finish(self) -> None:
        """Wait until the host has done everything; a fault of anything recorded before is raised here."""
        self.recorder.ask(c.Finish)

    def copy_buffer(self, dst: Any, src: Any, size: Any, read_offset: Any, write_offset: Any) -> None:
        """Copy bytes between buffers on the host."""
        dst, src = instance(dst, Buffer, 1, self), instance(src, Buffer, 2, self)
        size, read_offset, write_offset = a.ssize(size), a.ssize(read_offset), a.ssize(write_offset)
        length = src.length - read_offset if size < 0 else size
        if read_offset < 0 or write_offset < 0:
            raise Error("buffer underflow")
        if read_offset + length > src.length or write_offset + length > dst.length:
            raise Error("buffer overflow")
        dst.ahead.change()
        self.recorder.record(c.CopyBuffer(dst.handle, src.handle, size, read_offset, write_offset))

    def copy_framebuffer(self, dst: Any, src: Any) -> None:
        """Copy the pixels of a framebuffer to another, or to a texture; resolves samples."""
        self.check()
        check_made(dst, self)
        src = instance(src, Framebuffer, 2, self)
        if type(dst) is Framebuffer:
            if dst.draw_buffers != src.draw_buffers:
                raise Error("Destination and source framebuffers have different number of color attachments!")
        elif type(dst) is Texture:
            if dst.samples:
                raise Error("multisample texture targets are not accepted")
            if src.samples:
                raise Error("multisample framebuffer source with texture targets are not accepted")
        else:
            raise Error("the dst must be a Framebuffer or Texture")
        self.recorder.record(c.CopyFramebuffer(dst.handle, src.handle))

    def memory_barrier(self, barriers: Any = 0xFFFFFFFF, by_region: Any = False) -> None:
        """glMemoryBarrier."""
        self.recorder.record(c.MemoryBarrier(a.uint32(barriers), bool(by_region)))

    def clear_samplers(self, start: Any, end: Any) -> None:
        """Unbind the samplers of texture units from `start` up to `end`, -1 being the last."""
        start, end = a.checked_int32(start), a.checked_int32(end)
        self.recorder.record(c.ClearSamplers(start, end))
        most = self.limits["max_texture_units"]
        for unit in range(max(start, 0), most if end == -1 else min(end, most)):
            self.bindings.pop(("sampler", unit), None)

    def clear_errors(self) -> None:
        """Forget all pending OpenGL errors."""
        self.recorder.record(c.ClearErrors())

    def __enter__(self) -> None:
        """A remote context is always its own: there is nothing to make current."""

    def __exit__(self, *_: Any) -> None:
        """There is nothing to restore."""

    def release(self) -> None:
        """End the session, when nobody else has it: the host frees everything. It never raises."""
        self.owners -= 1
        if self.owners <= 0 and not self.released:
            self.released = True
            self.recorder.close()

    # --- uniforms and blocks: how a program's members come here

    def _program(self, glo: int) -> Program:
        found = self.numbered["program", glo]
        assert isinstance(found, Program)
        return found

    def _read_uniform(self, program: int, location: int, gl_type: int, length: int, size: int) -> bytes:
        return self._program(program).values.get(location, bytes(length * size))

    def _write_uniform(self, program: int, location: int, gl_type: int, length: int, size: int, data: Any) -> None:
        found = data if type(data) is bytes else bytes(a.data(data))
        if len(found) != length * size:
            raise Error("invalid uniform size")
        named = program.program if type(program) is ProgramNumber else self._program(program)
        named.write_uniform(location, gl_type, length, size, found)

    def _set_uniform_handle(self, program: int, location: Any, value: Any) -> None:
        self._program(program).set_uniform_handle(a.uint32(location), a.uint64(value, 3))

    def _get_ubo_binding(self, program: int, index: int) -> int:
        return self._program(program).uniform_bindings[index]

    def _set_ubo_binding(self, program: int, index: int, binding: Any) -> None:
        self._program(program).bind_uniform_block(index, a.uint32(binding))

    def _get_storage_block_binding(self, program: int, index: int) -> int:
        return self._program(program).storage_bindings[index]

    def _set_storage_block_binding(self, program: int, index: int, binding: Any) -> None:
        self._program(program).bind_storage_block(index, a.uint32(binding))

    # --- the bound framebuffer, and errors

    @property
    def fbo(self) -> Framebuffer:
        """The bound framebuffer."""
        self.check()
        return self._bound

    @fbo.setter
    def fbo(self, value: Any) -> None:
        self.check()
        check_made(value, self)
        if type(value) is not Framebuffer:
            raise SystemError("error return without exception set")
        self._bound = value

    # --- what the greeting told

    @property
    def info(self) -> dict[str, Any]:
        """A fresh dictionary of the driver's limits and names; one of them is about the framebuffer that is bound."""
        multisampled = self._bound.multisampled and not self._bound.released
        return {**self.info_values, "GL_SAMPLE_BUFFERS": int(multisampled)}

    @property
    def error(self) -> str:
        """The name of one pending OpenGL error; waits."""
        return self.recorder.ask(c.GetError, answer=str)  # type: ignore[no-any-return]

    @property
    def max_samples(self) -> int:
        """Samples of a multisample attachment."""
        return self.limits["max_samples"]  # type: ignore[no-any-return]

    @property
    def max_integer_samples(self) -> int:
        """Samples of an integer multisample attachment."""
        return self.limits["max_integer_samples"]  # type: ignore[no-any-return]

    @property
    def max_texture_units(self) -> int:
        """Texture units of a fragment shader."""
        return self.limits["max_texture_units"]  # type: ignore[no-any-return]

    @property
    def max_anisotropy(self) -> float:
        """The greatest anisotropy."""
        return self.limits["max_anisotropy"]  # type: ignore[no-any-return]

    @property
    def max_label_length(self) -> int | None:
        """Characters of a label."""
        return self.limits["max_label_length"]  # type: ignore[no-any-return]

    @property
    def max_debug_message_length(self) -> int | None:
        """Characters of a debug scope's label."""
        return self.limits["max_debug_message_length"]  # type: ignore[no-any-return]

    @property
    def max_debug_group_stack_depth(self) -> int | None:
        """How deep debug scopes nest."""
        return self.limits["max_debug_group_stack_depth"]  # type: ignore[no-any-return]

    @property
    def _context(self) -> RemoteDevice:
        """At the seam this is the glcontext; here it is the device."""
        return self.device
