"""Uniforms and blocks: every type of GLSL, as it begins, as it is set, and as a shader sees it."""

from __future__ import annotations

import math
import struct
from typing import Any

import moderngl
import numpy as np
import pytest

import glremote
from tests.recording.raising import raised

Error = moderngl.Error
SCALARS = {"float": "f", "double": "d", "int": "i", "uint": "I", "bool": "i"}
PREFIXES = {"float": "", "double": "d", "int": "i", "uint": "u", "bool": "b"}
TYPES: dict[str, tuple[str, int, bool]] = {kind: (kind, 1, False) for kind in SCALARS}
"""A type's scalars: of which type, how many, and whether they are a matrix."""
for _kind, _prefix in PREFIXES.items():
    TYPES |= {f"{_prefix}vec{n}": (_kind, n, False) for n in (2, 3, 4)}
    if _kind in ("float", "double"):
        TYPES |= {f"{_prefix}mat{a}x{b}": (_kind, a * b, True) for a in (2, 3, 4) for b in (2, 3, 4)}


def value(name: str, seed: int) -> Any:
    """A value of a type as `Uniform.value` gives it: a number, or a flat tuple."""
    scalar, count, _ = TYPES[name]
    numbers = [(seed * 7 + n * 3) % 11 + seed for n in range(count)]
    made = tuple({"bool": n % 2, "float": n + 0.5, "double": n + 0.1}.get(scalar, n) for n in numbers)
    return made if count > 1 else made[0]


def literal(name: str, of: Any) -> str:
    """It in GLSL."""
    scalar, _, _ = TYPES[name]
    items = of if isinstance(of, tuple) else (of,)
    ends = {"double": "lf", "uint": "u"}
    texts = [("true" if n else "false") if scalar == "bool" else f"{n}{ends.get(scalar, '')}" for n in items]
    return f"{name}({', '.join(texts)})"


def packed(name: str, of: Any) -> bytes:
    """It in bytes."""
    scalar, count, _ = TYPES[name]
    return struct.pack(f"{count}{SCALARS[scalar]}", *(of if isinstance(of, tuple) else (of,)))


def seen(name: str, variable: str) -> str:
    """A float of GLSL that depends on the first and the last of its scalars."""
    _, count, matrix = TYPES[name]
    if matrix:
        columns, rows = int(name[-3]), int(name[-1])
        return f"float({variable}[0][0]) + 100.0 * float({variable}[{columns - 1}][{rows - 1}])"
    if count == 1:
        return f"101.0 * float({variable})"
    return f"float({variable}[0]) + 100.0 * float({variable}[{count - 1}])"


def expected(of: Any) -> float:
    """What the shader sees of it."""
    items = of if isinstance(of, tuple) else (of,)
    return float(items[0] + 100.0 * items[-1])


NAMES = list(TYPES)


def shader(ctx: moderngl.Context) -> Any:
    """A compute shader with a uniform, and an array of three, of every type. It stores what it sees of each."""
    lines = []
    stores = []
    for index, name in enumerate(NAMES):
        lines.append(f"uniform {name} one{index} = {literal(name, value(name, 1))};")
        lines.append(f"uniform {name} many{index}[3];")
        stores.append(f"seen[{2 * index}] = {seen(name, f'one{index}')};")
        stores.append(f"seen[{2 * index + 1}] = {seen(name, f'many{index}[1]')} + {seen(name, f'many{index}[2]')};")
    source = f"""#version 430
        layout(local_size_x=1) in;
        layout(std430, binding=0) buffer Seen {{ float seen[]; }};
        {" ".join(lines)}
        void main() {{ {" ".join(stores)} }}"""
    return ctx.compute_shader(source)


def looked(ctx: moderngl.Context, program: Any) -> list[list[float]]:
    """What the shader sees: of each type the one, and the many."""
    out = ctx.buffer(reserve=8 * len(NAMES))
    out.bind_to_storage_buffer(0)
    program.run()
    ctx.memory_barrier()
    found: list[list[float]] = np.frombuffer(out.read(), "f4").reshape(-1, 2).tolist()
    return found


def test_every_type(ctx: moderngl.Context) -> None:
    program = shader(ctx)
    for index, name in enumerate(NAMES):
        one, many = program[f"one{index}"], program[f"many{index}"]
        scalar, count, matrix = TYPES[name]
        zero = packed(name, (0,) * count)
        assert (one.array_length, one.dimension, one.matrix, one.element_size) == (1, count, matrix, len(zero))
        assert (many.array_length, many.dimension, many.fmt) == (3, count, f"{count}{SCALARS[scalar]}")
        assert one.value == pytest.approx(value(name, 1), rel=1e-14)  # not every driver reads 3.1 as Python does
        assert one.read() == packed(name, one.value)
        assert many.read() == zero * 3
        assert many.value == [0] * 3 if count == 1 else [(0,) * count] * 3
    assert looked(ctx, program) == [[pytest.approx(expected(value(name, 1))), 0] for name in NAMES]
    for index, name in enumerate(NAMES):
        program[f"one{index}"] = value(name, 2)
        program[f"many{index}"] = values = [value(name, 3 + n) for n in range(3)]
        assert (program[f"one{index}"].value, program[f"many{index}"].value) == (value(name, 2), values)
        assert program[f"many{index}"].read() == b"".join(packed(name, item) for item in values)
    assert looked(ctx, program) == [
        [pytest.approx(expected(value(name, 2))), pytest.approx(expected(value(name, 4)) + expected(value(name, 5)))]
        for name in NAMES
    ]
    for index, name in enumerate(NAMES):
        one, many = program[f"one{index}"], program[f"many{index}"]
        one.write(packed(name, value(name, 1)))
        many.write(bytearray(packed(name, value(name, 1)) * 3))
        assert (one.value, many.value) == (value(name, 1), [value(name, 1)] * 3)
        for wrong in (b"", one.read() + b"\0", one.read() * 3):
            assert raised(one.write, wrong) == (Error, "invalid uniform size")
        assert raised(many.write, one.read()) == (Error, "invalid uniform size")
    assert ctx.error == "GL_NO_ERROR"


SMALL = """#version 430
layout(local_size_x=1) in;
struct Lamp { vec3 at; float range[2]; };
uniform float f; uniform int i; uniform uint u; uniform bool b; uniform vec2 v; uniform mat4 m; uniform float a[3];
uniform vec2 w[2]; uniform bvec2 c; uniform Lamp lamps[2]; uniform Lamp lamp; uniform mat2x3 g[2];
layout(std430, binding=0) buffer Seen { float seen[]; };
void main() {
    seen[0] = f + i + u + float(b) + v.x + m[0][0] + a[2] + w[1].y + float(c.y) + lamps[1].at.z + lamps[0].range[1];
    seen[1] = lamp.at.x + lamp.range[1] + lamps[0].at.y + lamps[1].range[1] + g[1][1][1];
}"""


def test_what_is_set_as_what(ctx: moderngl.Context) -> None:
    program: Any = ctx.compute_shader(SMALL)
    for name, given, found in (
        ("f", 1, 1.0),
        ("f", 0.1, struct.unpack("f", struct.pack("f", 0.1))[0]),
        ("f", np.float64(2.5), 2.5),
        ("f", -1e39, -math.inf),
        ("i", -(1 << 31), -(1 << 31)),
        ("i", np.int16(-3), -3),
        ("i", True, 1),
        ("u", (1 << 32) - 1, (1 << 32) - 1),
        ("b", True, 1),
        ("b", 17, 1),
        ("b", False, 0),
        ("c", (256, 0), (1, 0)),
        ("v", [1, 2], (1.0, 2.0)),
        ("v", np.array([3, 4], "f8"), (3.0, 4.0)),
        ("v", iter((5, 6)), (5.0, 6.0)),
        ("m", np.eye(4).ravel(), tuple(np.eye(4).ravel())),
        ("a", range(3), [0.0, 1.0, 2.0]),
        ("w", np.ones((2, 2)), [(1.0, 1.0)] * 2),
        ("w", ((1, 2), [3, 4]), [(1.0, 2.0), (3.0, 4.0)]),
        ("g", [range(6), range(6, 12)], [tuple(range(6)), tuple(range(6, 12))]),
        ("lamps[1].at", (1, 2, 3), (1.0, 2.0, 3.0)),
        ("lamps[0].range", (4, 5), [4.0, 5.0]),
        ("lamp.range", [6, 7], [6.0, 7.0]),
    ):
        program[name] = given
        assert (program[name].value, program[name].value == program.get(name, None).value) == (found, True)
    program["f"].value = math.nan
    assert math.isnan(program["f"].value)
    program["m"].write(np.arange(16, dtype="f4").reshape(4, 4))
    assert program["m"].value == tuple(range(16))
    program["b"].write(struct.pack("f", -0.0))  # a bool is what its bytes are
    assert (program["b"].value, program["b"].read()) == (1, b"\1\0\0\0")
    assert ctx.error == "GL_NO_ERROR"


WRONG: tuple[tuple[type[Exception], str, str, Any], ...] = (
    (struct.error, "required argument is not a float", "f", "x"),
    (struct.error, "required argument is not a float", "f", (1.0,)),
    (struct.error, "required argument is not a float", "f", None),
    (struct.error, "required argument is not an integer", "i", 1.0),
    (struct.error, "'i' format requires -2147483648 <= number <= 2147483647", "i", 1 << 31),
    (struct.error, "argument out of range", "u", -1),
    (struct.error, "pack expected 2 items for packing (got 3)", "v", (1, 2, 3)),
    (struct.error, "pack expected 16 items for packing (got 4)", "m", np.eye(4)),
    (struct.error, "required argument is not a float", "w", [(1, "x"), (1, 2)]),
    (Error, "invalid uniform size", "a", (1, 2)),
    (Error, "invalid uniform size", "w", [(1, 2)] * 3),
    (TypeError, "'int' object is not iterable", "a", 1),
    (KeyError, "'lamps'", "lamps", 1),
)


def test_wrong_values(ctx: moderngl.Context) -> None:
    program: Any = ctx.compute_shader(SMALL)
    for kind, text, name, wrong in WRONG:
        found = raised(program.__setitem__, name, wrong)
        assert found[0] is kind, (name, wrong)
        assert found[1] == text or kind is struct.error  # Python's own texts change with its versions
    for wrong, kind, text in (
        (None, TypeError, "a bytes-like object is required, not 'NoneType'"),
        ("abcd", TypeError, "a bytes-like object is required, not 'str'"),
        (1.0, TypeError, "a bytes-like object is required, not 'float'"),
        (np.zeros(4, "f4")[::2], ValueError, "ndarray is not C-contiguous"),
        (np.zeros(1, "f8"), Error, "invalid uniform size"),
    ):
        assert raised(program["f"].write, wrong)[:1] == (kind,)
        assert raised(program["f"].write, wrong)[1].endswith(text)
    assert [program[name].value for name in ("f", "i", "u", "v")] == [0.0, 0, 0, (0.0, 0.0)]
    assert raised(lambda: program["f"].handle)[0] is NotImplementedError
    assert ctx.error == "GL_NO_ERROR"


# --- samplers and images

SAMPLERS = (
    "sampler1D", "sampler1DArray", "isampler1D", "isampler1DArray", "sampler2D", "isampler2D", "usampler2D",
    "sampler2DArray", "isampler2DArray", "usampler2DArray", "sampler3D", "isampler3D", "usampler3D", "sampler2DShadow",
    "sampler2DMS", "isampler2DMS", "usampler2DMS", "sampler2DMSArray", "isampler2DMSArray", "usampler2DMSArray",
    "samplerCube", "isamplerCube", "usamplerCube", "image2D",
)  # fmt: skip
"""Those that moderngl reads and writes."""


def use(kind: str, name: str) -> str:
    """A float of GLSL that makes it active."""
    if kind == "image2D":
        return f"imageSize({name}).x"
    level = "" if "MS" in kind else ", 0"
    return f"textureSize({name}{level}){'' if kind in ('sampler1D', 'isampler1D') else '.x'}"


def test_samplers(ctx: moderngl.Context) -> None:
    lines = [f"{'layout(rgba8) ' if 'image' in kind else ''}uniform {kind} s{n};" for n, kind in enumerate(SAMPLERS)]
    uses = " + ".join(use(kind, f"s{n}") for n, kind in enumerate(SAMPLERS))
    program: Any = ctx.compute_shader(f"""#version 430
        layout(local_size_x=1) in; layout(std430, binding=0) buffer Seen {{ float seen[]; }};
        {" ".join(lines)} layout(binding=5) uniform sampler2D bound; uniform sampler2D many[3];
        void main() {{ seen[0] = float({uses} + textureSize(bound, 0).x + textureSize(many[seen.length() % 3], 0).x); }}
    """)
    most = ctx.info["GL_MAX_COMBINED_TEXTURE_IMAGE_UNITS"]
    assert (program["bound"].value, program["many"].value) == (5, [0, 0, 0])
    for n, kind in enumerate(SAMPLERS):
        sampler = program[f"s{n}"]
        assert (sampler.value, sampler.fmt) == (0, "1i")
        for unit in (3, 7):
            sampler.value = unit
            assert (sampler.value, sampler.read(), ctx.error) == (unit, struct.pack("i", unit), "GL_NO_ERROR"), kind
        for unit in (-1, most, 1 << 20):
            sampler.value = unit  # OpenGL says no, and nothing changes
            assert (sampler.value, ctx.error, ctx.error) == (7, "GL_INVALID_VALUE", "GL_NO_ERROR"), kind
    program["many"] = 1, 2, most - 1
    assert program["many"].value == [1, 2, most - 1]
    program["many"] = 3, most, 4
    assert (program["many"].value, ctx.error) == ([1, 2, most - 1], "GL_INVALID_VALUE")


def test_types_that_moderngl_overlooks(ctx: moderngl.Context, request: pytest.FixtureRequest) -> None:
    program: Any = ctx.compute_shader("""#version 430
        layout(local_size_x=1) in; layout(std430, binding=0) buffer Seen { float seen[]; };
        uniform samplerCubeShadow shadow; uniform samplerBuffer texels; layout(r32ui) uniform uimage2D image;
        void main() { seen[0] = textureSize(shadow, 0).x + textureSize(texels) + imageSize(image).x; }""")
    for name in ("shadow", "texels", "image"):
        program[name] = 3  # it is not set, and no error either
        assert (ctx.error, program[name].fmt, program[name].array_length) == ("GL_NO_ERROR", "1i", 1)
        assert raised(program[name].write, b"") == (Error, "invalid uniform size")
        if "plain" not in request.node.name:  # where its value is memory that nobody has written
            assert program[name].value == 0


# --- blocks

BLOCKS = """#version 430
layout(local_size_x=1) in;
layout(std140, binding=2) uniform Bound { vec4 one; };
layout(std140) uniform Free { mat4 two; float three; };
layout(std140) uniform Many { vec4 four; } many[2];
layout(std430, binding=1) buffer Out { vec4 seen[]; };
layout(std430) buffer Other { vec4 other[]; };
void main() { seen[0] = one + two[3] * three + many[0].four + many[1].four; seen[1] = other[0]; }
"""


def test_blocks(ctx: moderngl.Context) -> None:
    program: Any = ctx.compute_shader(BLOCKS)
    assert {name: program[name].size for name in program if hasattr(program[name], "size")} == {
        "Bound": 16, "Free": 80, "Many": 16,
    }  # fmt: skip
    assert (program["Bound"].binding, program["Free"].value, program["Out"].value) == (2, 0, 1)
    most = ctx.info["GL_MAX_UNIFORM_BUFFER_BINDINGS"], ctx.info["GL_MAX_SHADER_STORAGE_BUFFER_BINDINGS"]
    for name, limit in (("Bound", most[0]), ("Out", most[1])):
        block = program[name]
        first = block.binding
        for binding in (3, np.int64(4), limit - 1):
            block.binding = binding
            assert (block.binding, block.value) == (binding, binding)
        for binding in (limit, -1, 1 << 31):
            block.value = binding
            assert (block.binding, ctx.error, ctx.error) == (limit - 1, "GL_INVALID_VALUE", "GL_NO_ERROR")
        program[name] = (1 << 32) + first  # taken modulo 2**32
        assert block.binding == first
        for wrong in (None, "1", 1.0, (1,)):
            kind, text = raised(setattr, block, "binding", wrong)
            assert (kind, text) == (TypeError, f"'{type(wrong).__name__}' object cannot be interpreted as an integer")
    assert ctx.error == "GL_NO_ERROR"


def test_what_blocks_read(ctx: moderngl.Context) -> None:
    program: Any = ctx.compute_shader(BLOCKS)
    program["Free"].binding, program["Many"].binding, program["Other"].binding = 3, 4, 6

    def buffer(*numbers: float) -> moderngl.Buffer:
        return ctx.buffer(np.array(numbers, "f4"))

    for binding, numbers in {
        0: (0, 0, 3, 0), 2: (1, 0, 0, 0), 3: (*[0] * 13, 2, 0, 0, 10, 0, 0, 0), 4: (0, 0, 0, 4),
    }.items():  # fmt: skip
        buffer(*numbers).bind_to_uniform_block(binding)
    many = [name for name in program if name.startswith("Many")]
    assert many == ["Many"]  # of an array of blocks moderngl keeps the last
    out = ctx.buffer(reserve=32)
    out.bind_to_storage_buffer(1)
    buffer(5, 6, 7, 8).bind_to_storage_buffer(6)
    program.run()
    ctx.memory_barrier()
    found = np.frombuffer(out.read(), "f4").tolist()
    assert (found[:4], found[4:]) == ([1, 20, 3, 4], [5, 6, 7, 8])
    program["Other"].binding = 7
    buffer(9, 9, 9, 9).bind_to_storage_buffer(7)
    program.run()
    ctx.memory_barrier()
    assert np.frombuffer(out.read(16, 16), "f4").tolist() == [9, 9, 9, 9]
    assert ctx.error == "GL_NO_ERROR"


def test_setting_and_getting_does_not_wait(remote: moderngl.Context) -> None:
    program: Any = remote.compute_shader(SMALL)
    blocks: Any = remote.compute_shader(BLOCKS)
    device: Any = glremote.device(remote)
    before = device.measure().waits
    for n in range(100):
        program["f"] = n
        assert program["f"].value == n
        blocks["Free"].binding = n % 8
        assert blocks["Free"].binding == n % 8
    assert program["m"].read() == bytes(64)
    assert device.measure().waits == before


def test_a_value_that_is_set_again_is_not_sent(remote: Any) -> None:
    program = remote.program(
        vertex_shader="#version 330\nuniform float a; uniform bool b; void main() { gl_Position = vec4(a, b, 0, 1); }"
    )
    device: Any = glremote.device(remote)
    for name, values in (("a", (1.0, 1.0, 2.0, 1.0, 1.0)), ("b", (True, True, False, True, True))):
        sent = []
        for value in values:
            remote.finish()
            before = device.measure().commands
            program[name].value = value
            remote.finish()
            sent.append(device.measure().commands - before - 1)
            assert program[name].value == value
        assert sent == [1, 0, 1, 1, 0]


def test_a_unit_that_is_not_there_is_an_error_each_time(ctx: Any) -> None:
    program = ctx.program(
        vertex_shader="#version 330\nuniform sampler2D a; void main() { gl_Position = texture(a, vec2(0)); }"
    )
    for _ in range(3):
        program["a"].value = 1 << 20
        assert ctx.error == "GL_INVALID_VALUE"
