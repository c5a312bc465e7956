"""moderngl-window works through `glremote run`: its programs give the same bytes plainly and on a host."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glremote.host.serving import LocalHost, environment

PROGRAMS = Path(__file__).parent
DEADLINE = 100.0

SHADERS = {
    "common.glsl": """
vec3 shade(vec3 colour, vec3 normal) {
    return colour * (0.3 + 0.7 * abs(normalize(normal).z));
}
""",
    "transform.glsl": """
uniform mat4 projection;
uniform mat4 camera;
uniform mat4 model;
""",
    "lit.glsl": """#version 330
#define LAYER 0
#if defined VERTEX_SHADER
#include transform.glsl
in vec3 in_position;
in vec3 in_normal;
in vec2 in_texcoord_0;
out vec3 normal;
out vec2 uv;
void main() {
    gl_Position = projection * camera * model * vec4(in_position, 1.0);
    normal = mat3(model) * in_normal;
    uv = in_texcoord_0;
}
#elif defined FRAGMENT_SHADER
#include common.glsl
uniform sampler2DArray layers;
in vec3 normal;
in vec2 uv;
out vec4 pixel;
void main() { pixel = vec4(shade(texture(layers, vec3(uv, LAYER)).rgb, normal), 1.0); }
#endif
""",
    "around.glsl": """#version 330
#if defined VERTEX_SHADER
#include transform.glsl
in vec3 in_position;
in vec3 in_normal;
out vec3 normal;
void main() { gl_Position = projection * camera * model * vec4(in_position, 1.0); normal = in_normal; }
#elif defined FRAGMENT_SHADER
uniform samplerCube sky;
in vec3 normal;
out vec4 pixel;
void main() { pixel = texture(sky, normal); }
#endif
""",
    "lines.glsl": """#version 330
#if defined VERTEX_SHADER
uniform mat4 projection;
uniform mat4 camera;
in vec3 in_position;
void main() { gl_Position = projection * camera * vec4(in_position, 1.0); }
#elif defined FRAGMENT_SHADER
uniform vec4 colour = vec4(1.0, 1.0, 0.0, 1.0);
out vec4 pixel;
void main() { pixel = colour; }
#endif
""",
    "flat_vertex.glsl": """#version 330
in vec3 in_position;
in vec2 in_texcoord_0;
out vec2 uv;
void main() { gl_Position = vec4(in_position, 1.0); uv = in_texcoord_0; }
""",
    "flat_fragment.glsl": """#version 330
uniform sampler2D picture;
in vec2 uv;
out vec4 pixel;
void main() { pixel = texture(picture, 3.0 * uv); }
""",
    "mover.glsl": """#version 330
in vec3 in_position;
out vec3 moved;
void main() { moved = in_position * 2.0 + 0.25; }
""",
    "adder.glsl": """#version 430
#define STEP 1
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer Numbers { int numbers[]; };
void main() { numbers[gl_GlobalInvocationID.x] += STEP * int(gl_GlobalInvocationID.x); }
""",
}


def picture(path: Path, size: tuple[int, int], seed: int) -> bytes:
    """A picture of coloured blocks, as a file and as the bytes of the file."""
    width, height = size
    blocks = np.random.default_rng(seed).integers(0, 256, (height // 8, width // 8, 4), "u1")
    blocks[..., 3] = 255
    Image.fromarray(blocks.repeat(8, 0).repeat(8, 1)).save(path)
    return path.read_bytes()


def scene(image: str) -> tuple[dict[str, object], bytes]:
    """A glTF scene of two meshes, one textured and one of plain colours, and its buffer."""
    corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], "f4")
    normals = np.array([[0, 0, 1]] * 4, "f4")
    texcoords = np.array([[0, 1], [1, 1], [1, 0], [0, 0]], "f4")
    colours = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1], [1, 1, 0, 1]], "f4")
    indices = np.array([0, 1, 2, 0, 2, 3], "u2")
    parts = [array.tobytes() for array in (corners, normals, texcoords, colours, indices)]
    offsets = [sum(map(len, parts[:n])) for n in range(len(parts))]
    kinds = [(5126, 4, "VEC3"), (5126, 4, "VEC3"), (5126, 4, "VEC2"), (5126, 4, "VEC4"), (5123, 6, "SCALAR")]
    bounds = {"min": [-1, -1, 0], "max": [1, 1, 0]}
    corner = {"POSITION": 0, "NORMAL": 1}
    described: dict[str, object] = {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [0, 1]}],
        "nodes": [
            {"name": "board", "mesh": 0, "children": [2]},
            {"name": "tilted", "mesh": 1, "translation": [0.5, 0.2, 1.0], "rotation": [0.0, 0.38, 0.0, 0.92]},
            {"name": "small", "mesh": 2, "matrix": [0.4, 0, 0, 0, 0, 0.4, 0, 0, 0, 0, 0.4, 0, -0.5, 0.5, 0.7, 1]},
        ],
        "meshes": [
            {"primitives": [{"attributes": {**corner, "TEXCOORD_0": 2}, "indices": 4, "material": 0}]},
            {"primitives": [{"attributes": corner, "indices": 4, "material": 1}]},
            {"primitives": [{"attributes": {"POSITION": 0, "COLOR_0": 3}, "indices": 4, "material": 1}]},
        ],
        "materials": [
            {"name": "image", "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}},
            {"name": "plain", "pbrMetallicRoughness": {"baseColorFactor": [0.2, 0.9, 0.6, 1.0]}, "doubleSided": True},
        ],
        "textures": [{"source": 0, "sampler": 0}],
        "samplers": [{"magFilter": 9729, "minFilter": 9987, "wrapS": 10497, "wrapT": 10497}],
        "images": [{"uri": image}],
        "buffers": [{"byteLength": sum(map(len, parts))}],
        "bufferViews": [
            {"buffer": 0, "byteOffset": offset, "byteLength": len(part)}
            for offset, part in zip(offsets, parts, strict=True)
        ],
        "accessors": [
            {"bufferView": n, "componentType": kind, "count": count, "type": shape} | bounds
            for n, (kind, count, shape) in enumerate(kinds)
        ],
    }
    return described, b"".join(parts)


def glb(described: dict[str, object], data: bytes) -> bytes:
    """A scene as one binary file."""
    text = json.dumps(described).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(data), b"BIN\0") + data
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the programs load."""
    folder = tmp_path_factory.mktemp("resources")
    for name, text in SHADERS.items():
        (folder / name).write_text(text)
    image = picture(folder / "picture.png", (64, 32), 1)
    for name, size in (("layers", (16, 48)), ("face", (32, 32)), ("other", (32, 32))):
        picture(folder / f"{name}.png", size, len(name))
    described, data = scene("picture.png")
    (folder / "scene.bin").write_bytes(data)
    described["buffers"] = [{"byteLength": len(data), "uri": "scene.bin"}]
    (folder / "scene.gltf").write_text(json.dumps(described))
    described, data = scene("data:image/png;base64," + base64.b64encode(image).decode())
    (folder / "scene.glb").write_bytes(glb(described, data))
    return folder


def output(*arguments: str, near: str = "1", token: str | None = None) -> bytes:
    """What a python with these arguments writes."""
    variables = environment(token) | {"GLREMOTE_NEAR": near}
    done = subprocess.run([sys.executable, *arguments], env=variables, capture_output=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize(
    ("program", "arguments", "size"),
    [("window.py", (), 3 * 96 * 64 * 4), ("window.py", ("4",), 3 * 96 * 64 * 4), ("scene.py", (), 6 * 80 * 60 * 8)],
    ids=("window", "samples", "scene"),
)
def test_the_same_bytes(
    program: str, arguments: tuple[str, ...], size: int, folder: Path, served: LocalHost
) -> None:
    called = str(PROGRAMS / program), str(folder), *arguments
    plain = output(*called)
    assert len(plain) > size and len(set(plain[:size])) > 50
    assert b"GL_NO_ERROR" in plain
    for near in ("1", "0"):
        run = "-m", "glremote", "run", "--host", served.url
        assert output(*run, *called, near=near, token=served.token) == plain
