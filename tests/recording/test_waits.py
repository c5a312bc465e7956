"""Which entries of the seam wait for the host: each is called, and WAITS has those that do, with the reason."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import GetSetDescriptorType, MethodDescriptorType
from typing import Any

import moderngl
import pytest

import glremote
from glremote.recording import known
from tests.test_seam import RECORDING, entries, objects, settable

READ = "what it returns is the host's"
OPENGL = "moderngl asks OpenGL for errors there, and raises them at the call"
WAITS: dict[str, str] = {
    "Buffer.read": READ, "Buffer.read_into": READ, "Buffer.read_chunks": READ, "Buffer.read_chunks_into": READ,
    "Framebuffer.read_into": READ, "Framebuffer.bits": READ,
    "Texture.read": READ, "Texture.read_into": READ, "Texture.get_handle": READ,
    "Texture3D.read": READ, "Texture3D.read_into": READ, "Texture3D.get_handle": READ,
    "TextureArray.read": READ, "TextureArray.read_into": READ, "TextureArray.get_handle": READ,
    "TextureCube.read": READ, "TextureCube.read_into": READ, "TextureCube.get_handle": READ,
    "Query.samples": READ, "Query.primitives": READ, "Query.elapsed": READ,
    "Context.error": READ,
    "Context.finish": "it returns when all is done",
    "Context.detect_framebuffer": READ,
    "Context.get_label": READ, "Context.set_label": OPENGL,
    "Context.push_debug_scope": OPENGL, "Context.pop_debug_scope": OPENGL,
    "Context.empty_framebuffer": "whether it is complete only the driver knows",
}  # fmt: skip
"""Not among them: Context.program, which waits the first time, and Context.framebuffer, of what the greeting tells."""

VERTEX = "#version 330\nin vec4 position; uniform float k; void main() { gl_Position = position * k; }"
FRAGMENT = "#version 330\nout vec4 pixel; void main() { pixel = vec4(1.0); }"
SOURCES = (VERTEX, FRAGMENT, None, None, None, None, None, None)
BUFFER, APPLICATION = 0x82E0, 0x824A

Call = Callable[[Any, Any], Any]
"""The object, and one of every kind beside it."""

TEXTURE: dict[str, Call] = {
    "use": lambda o, x: o.use(0), "bind": lambda o, x: o.bind(0, True, True, 0, 0),
    "build_mipmaps": lambda o, x: o.build_mipmaps(0, 1000), "get_handle": lambda o, x: o.get_handle(True),
}  # fmt: skip
CALLS: dict[str, dict[str, Call]] = {
    "Buffer": {
        "write": lambda o, x: o.write(b"abcd", 0),
        "read": lambda o, x: o.read(4, 0),
        "read_into": lambda o, x: o.read_into(bytearray(4), 4, 0, 0),
        "write_chunks": lambda o, x: o.write_chunks(b"abcd", 0, 8, 2),
        "read_chunks": lambda o, x: o.read_chunks(2, 0, 8, 2),
        "read_chunks_into": lambda o, x: o.read_chunks_into(bytearray(4), 2, 0, 8, 2, 0),
        "clear": lambda o, x: o.clear(-1, 0, None),
        "orphan": lambda o, x: o.orphan(-1),
        "size": lambda o, x: o.size(),
        "bind_to_uniform_block": lambda o, x: o.bind_to_uniform_block(0, 0, -1),
        "bind_to_storage_buffer": lambda o, x: o.bind_to_storage_buffer(0, 0, -1),
    },
    "Context": {
        "enable_only": lambda o, x: o.enable_only(0),
        "enable": lambda o, x: o.enable(1),
        "disable": lambda o, x: o.disable(1),
        "enable_direct": lambda o, x: o.enable_direct(0x0B44),
        "disable_direct": lambda o, x: o.disable_direct(0x0B44),
        "finish": lambda o, x: o.finish(),
        "copy_buffer": lambda o, x: o.copy_buffer(x["Buffer"], x["Buffer"], 4, 0, 8),
        "copy_framebuffer": lambda o, x: o.copy_framebuffer(x["Framebuffer"], x["Framebuffer"]),
        "detect_framebuffer": lambda o, x: o.detect_framebuffer(x["Framebuffer"].glo),
        "clear_samplers": lambda o, x: o.clear_samplers(0, -1),
        "buffer": lambda o, x: o.buffer(b"abcd", 0, False),
        "external_buffer": lambda o, x: o.external_buffer(x["Buffer"].glo, 4),
        "texture": lambda o, x: o.texture((2, 2), 4, None, 0, 1, "f1", 0, False),
        "texture3d": lambda o, x: o.texture3d((2, 2, 2), 4, None, 1, "f1"),
        "texture_array": lambda o, x: o.texture_array((2, 2, 2), 4, None, 1, "f1"),
        "texture_cube": lambda o, x: o.texture_cube((2, 2), 4, None, 1, "f1", 0),
        "depth_texture": lambda o, x: o.depth_texture((2, 2), None, 0, 4, False),
        "depth_texture_cube": lambda o, x: o.depth_texture_cube((2, 2), None, 4),
        "external_texture": lambda o, x: o.external_texture(x["Texture"].glo, (4, 4), 4, 0, "f1"),
        "vertex_array": lambda o, x: o.vertex_array(x["Program"], (), None, 4),
        "program": lambda o, x: o.program(*SOURCES, (), {}, True),
        "framebuffer": lambda o, x: o.framebuffer((x["Texture"],), None),
        "empty_framebuffer": lambda o, x: o.empty_framebuffer((4, 4), 0, 0),
        "query": lambda o, x: o.query(True, True, True, True),
        "sampler": lambda o, x: o.sampler(),
        "scope": lambda o, x: o.scope(x["Framebuffer"], 0, (), (), (), ()),
        "memory_barrier": lambda o, x: o.memory_barrier(),
        "get_label": lambda o, x: o.get_label(BUFFER, x["Buffer"].glo),
        "set_label": lambda o, x: o.set_label(BUFFER, x["Buffer"].glo, "a label"),
        "push_debug_scope": lambda o, x: o.push_debug_scope(APPLICATION, 1, "a scope"),
        "pop_debug_scope": lambda o, x: o.pop_debug_scope(),
        "clear_errors": lambda o, x: o.clear_errors(),
        "__enter__": lambda o, x: o.__enter__(),
        "__exit__": lambda o, x: o.__exit__(None, None, None),
        "_get_ubo_binding": lambda o, x: x["block"].binding,
        "_set_ubo_binding": lambda o, x: setattr(x["block"], "binding", 1),
        "_get_storage_block_binding": lambda o, x: x["storage"].binding,
        "_set_storage_block_binding": lambda o, x: setattr(x["storage"], "binding", 1),
        "_write_uniform": lambda o, x: setattr(x["uniform"], "value", 2.0),
        "_read_uniform": lambda o, x: x["uniform"].value,
        "_set_uniform_handle": lambda o, x: setattr(x["uniform"], "handle", 0),
    },
    "Framebuffer": {
        "clear": lambda o, x: o.clear(0.0, 0.0, 0.0, 0.0, 1.0, None),
        "use": lambda o, x: o.use(),
        "read_into": lambda o, x: o.read_into(bytearray(64), None, 4, 0, 1, False, "f1", 0),
        "bits": lambda o, x: x["Context"].detect_framebuffer(0)[0].bits,
    },
    "Program": {
        "run": lambda o, x: x["compute"].run(1, 1, 1),
        "run_indirect": lambda o, x: x["compute"].run_indirect(x["Buffer"]),
        "draw_mesh_tasks": lambda o, x: o.draw_mesh_tasks(0, 0),
        "draw_mesh_tasks_indirect": lambda o, x: o.draw_mesh_tasks_indirect(x["Buffer"], 0, 0, 0),
        "draw_mesh_tasks_indirect_count": lambda o, x: o.draw_mesh_tasks_indirect_count(x["Buffer"], 0, 0, 0),
    },
    "Query": {
        "begin": lambda o, x: o.begin(),
        "end": lambda o, x: o.end(),
        "begin_render": lambda o, x: o.begin_render(),
        "end_render": lambda o, x: o.end_render(),
    },
    "Renderbuffer": {},
    "Sampler": {"use": lambda o, x: o.use(0), "clear": lambda o, x: o.clear(0)},
    "Scope": {"begin": lambda o, x: o.begin(), "end": lambda o, x: o.end()},
    "Texture": TEXTURE
    | {
        "write": lambda o, x: o.write(bytes(64), None, 0, 1),
        "read": lambda o, x: o.read(0, 1),
        "read_into": lambda o, x: o.read_into(bytearray(64), 0, 1, 0),
    },
    "Texture3D": TEXTURE
    | {
        "write": lambda o, x: o.write(bytes(256), None, 1),
        "read": lambda o, x: o.read(1),
        "read_into": lambda o, x: o.read_into(bytearray(256), 1, 0),
    },
    "TextureArray": TEXTURE
    | {
        "write": lambda o, x: o.write(bytes(256), None, 1),
        "read": lambda o, x: o.read(1),
        "read_into": lambda o, x: o.read_into(bytearray(256), 1, 0),
    },
    "TextureCube": TEXTURE
    | {
        "write": lambda o, x: o.write(0, bytes(64), None, 1),
        "read": lambda o, x: o.read(0, 1),
        "read_into": lambda o, x: o.read_into(bytearray(64), 0, 1, 0),
    },
    "VertexArray": {
        "render": lambda o, x: o.render(4, 3, 0, 1),
        "render_indirect": lambda o, x: o.render_indirect(x["Buffer"], 4, 1, 0),
        "transform": lambda o, x: o.transform([x["Buffer"]], 0, 1, 0, 1, 0),
        "bind": lambda o, x: o.bind(0, "f", x["Buffer"], "4f", 0, 16, 0, False),
    },
}
"""Methods, but for `release`, which is called last."""

VALUES: dict[str, Any] = {
    "line_width": 2.0, "point_size": 2.0, "depth_func": "<", "depth_clamp_range": None, "blend_func": (1, 0),
    "blend_equation": 0x8006, "multisample": True, "provoking_vertex": 0x8E4D, "polygon_offset": (0.0, 0.0),
    "default_texture_unit": 3, "wireframe": False, "front_face": "cw", "cull_face": "back", "patch_vertices": 4,
    "viewport": (0, 0, 2, 2), "scissor": None, "color_mask": (True,) * 4, "depth_mask": True, "repeat_x": False,
    "repeat_y": False, "repeat_z": False, "filter": (9728, 9728), "swizzle": "BGRA", "compare_func": "<=",
    "anisotropy": 1.0, "border_color": (0.0,) * 4, "min_lod": 0.0, "max_lod": 1.0, "vertices": 3, "instances": 2,
}  # fmt: skip
"""What is set, before it is got."""


@pytest.fixture
def every(remote: moderngl.Context) -> dict[str, Any]:
    """One object of each type of the seam, and what else a call needs."""
    found = objects(remote)
    found["Query"] = remote.query().mglo
    remote.program(VERTEX, FRAGMENT)
    found["compute"] = remote.compute_shader("#version 430\nlayout(local_size_x=1) in; void main() {}").mglo
    found["transform"] = remote.program(
        "#version 330\nin float v; out float w; void main() { w = v; }", varyings=("w",)
    )
    rich: Any = remote.program(
        """#version 430
        in vec4 p; uniform float k; layout(std140) uniform Block { vec4 a; }; layout(std430) buffer Store { vec4 b; };
        void main() { gl_Position = p * k + a + b; }""",
        FRAGMENT,
    )
    found |= {"uniform": rich["k"], "block": rich["Block"], "storage": rich["Store"]}
    return found


@pytest.mark.parametrize("kind", RECORDING)
def test_nothing_waits_that_need_not(kind: str, every: dict[str, Any], remote: Any, new_context: Any) -> None:
    traffic = glremote.device(remote).traffic
    original = objects(new_context("plain", 430))[kind]
    thing, waited = every[kind], set()

    def counted(entry: str, call: Callable[[], Any]) -> None:
        before = traffic.waits
        with contextlib.suppress(moderngl.Error, NotImplementedError, SystemError, TypeError, AttributeError):
            call()  # what is refused waits no less
        if traffic.waits != before:
            waited.add(f"{kind}.{entry}")

    methods: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for name, behind in entries(type(original)):
        if isinstance(behind, MethodDescriptorType):
            methods[name] = behind
        elif isinstance(behind, GetSetDescriptorType):
            properties[name] = behind
    for name, call in CALLS[kind].items():
        counted(name, lambda call=call: call(thing, every))  # type: ignore[misc]
    assert set(CALLS[kind]) - set(properties) == set(methods) - {"release"}, "not called here, or not there"
    for name, descriptor in properties.items():
        if settable(descriptor) and name in VALUES:
            counted(name, lambda name=name: setattr(thing, name, VALUES[name]))  # type: ignore[misc]
        counted(name, lambda name=name: getattr(thing, name))  # type: ignore[misc]
    counted("release", thing.release if kind not in ("Query", "Context") else lambda: None)
    assert waited == {entry for entry in WAITS if entry.startswith(f"{kind}.")}
    assert known.SEEN
