"""glremote.images: what `array`, `image` and `request` give for every kind of source, and what they refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import moderngl
import numpy as np
import numpy.typing as npt
import pytest

import glremote
from glremote import images

RED, GREEN, BLUE, WHITE = (255, 0, 0, 255), (0, 255, 0, 255), (0, 0, 255, 255), (255, 255, 255, 255)


def numbers(dtype: str, *shape: int) -> npt.NDArray[Any]:
    """Different values that every type and every driver keeps exactly, in OpenGL's order."""
    values = np.arange(np.prod(shape)).reshape(shape) % 101
    return (values / 4 if dtype in ("f2", "f4") else values).astype(images.DTYPES[dtype])


def corners(ctx: moderngl.Context) -> moderngl.Framebuffer:
    """4 x 2 pixels, as one sees them: a row of red, red, green, green above one of blue, blue, white, white."""
    framebuffer = ctx.simple_framebuffer((4, 2))
    for x, y, colour in ((0, 1, RED), (2, 1, GREEN), (0, 0, BLUE), (2, 0, WHITE)):
        framebuffer.clear(color=tuple(value / 255 for value in colour), viewport=(x, y, 2, 1))  # type: ignore[arg-type]
    return framebuffer


# --- framebuffers


def test_framebuffer_array_has_the_top_row_first(ctx: moderngl.Context) -> None:
    pixels = images.array(corners(ctx))
    assert pixels.dtype == np.uint8
    assert pixels.tolist() == [[list(c) for c in row] for row in ([RED, RED, GREEN, GREEN], [BLUE, BLUE, WHITE, WHITE])]
    assert pixels.flags.writeable and pixels.flags.c_contiguous and pixels.flags.owndata


def test_framebuffer_array_in_the_order_of_opengl(ctx: moderngl.Context) -> None:
    framebuffer = corners(ctx)
    raw = images.array(framebuffer, flip=False)
    assert raw.tobytes() == framebuffer.read(components=4)
    assert raw.flags.writeable and raw.flags.owndata
    assert np.array_equal(raw[::-1], images.array(framebuffer))


def test_framebuffer_viewport_counts_from_the_bottom_left(ctx: moderngl.Context) -> None:
    framebuffer = corners(ctx)
    assert images.array(framebuffer, viewport=(1, 0, 2, 1)).tolist() == [[list(BLUE), list(WHITE)]]
    assert images.array(framebuffer, viewport=(1, 1)).tolist() == [[list(BLUE)]]
    assert images.array(framebuffer, viewport=[3, 0, 1, 2]).tolist() == [[list(GREEN)], [list(WHITE)]]


def test_framebuffer_components_and_conversion(ctx: moderngl.Context) -> None:
    framebuffer = corners(ctx)
    assert images.array(framebuffer, components=3).shape == (2, 4, 3)
    assert images.array(framebuffer, components=1).tolist() == [[255, 255, 0, 0], [0, 0, 255, 255]]
    floats = images.array(framebuffer, dtype="f4")
    assert floats.dtype == np.float32 and floats[0, 0].tolist() == [1.0, 0.0, 0.0, 1.0]


def test_framebuffer_of_every_type(ctx: moderngl.Context) -> None:
    for dtype, components in itertools.product(images.DTYPES, (1, 2, 4)):
        values = numbers(dtype, 3, 5, components)
        texture = ctx.texture((5, 3), components, values.tobytes(), dtype=dtype)
        try:
            framebuffer = ctx.framebuffer([texture])
        except moderngl.Error:  # OpenGL leaves it to the driver to draw to signed, normalised integers
            assert dtype in ("ni1", "ni2")
            continue
        pixels = images.array(framebuffer)
        assert pixels.dtype == images.DTYPES[dtype]
        assert np.array_equal(pixels, values[::-1].squeeze()), (dtype, components)


def test_framebuffer_attachments(ctx: moderngl.Context) -> None:
    colour, number = ctx.texture((3, 2), 2), ctx.renderbuffer((3, 2), 1, dtype="f4")
    depth = ctx.depth_renderbuffer((3, 2))
    framebuffer = ctx.framebuffer([colour, number], depth)
    framebuffer.clear(0.2, 1.0, depth=0.25)
    assert images.array(framebuffer).tolist() == [[[51, 255]] * 3] * 2
    assert images.array(framebuffer, attachment=1).tolist() == [[np.float32(0.2)] * 3] * 2
    depths = images.array(framebuffer, attachment=-1)
    assert depths.dtype == np.float32 and depths.shape == (2, 3) and np.allclose(depths, 0.25, atol=1e-6)
    assert images.image(framebuffer, attachment=-1).mode == "F"
    assert images.array(framebuffer, attachment=-1, dtype="f2").dtype == np.float16


def test_framebuffer_whose_attachments_nobody_knows(new_context: Callable[[str], moderngl.Context]) -> None:
    ctx = new_context("plain")  # a remote context does not detect framebuffers yet
    known = corners(ctx)
    framebuffer = ctx.detect_framebuffer(known.glo)
    assert not framebuffer.color_attachments
    assert np.array_equal(images.array(framebuffer), images.array(known))
    assert images.image(framebuffer).mode == "RGBA"


# --- textures


def test_texture_of_every_type(ctx: moderngl.Context) -> None:
    for dtype, components in itertools.product(images.DTYPES, (1, 2, 3, 4)):
        values = numbers(dtype, 3, 5, components)
        pixels = images.array(ctx.texture((5, 3), components, values.tobytes(), dtype=dtype))
        assert pixels.dtype == images.DTYPES[dtype]
        assert pixels.shape == ((3, 5) if components == 1 else (3, 5, components))
        assert np.array_equal(pixels, values[::-1].squeeze()), (dtype, components)
        assert pixels.flags.writeable and pixels.flags.c_contiguous


def test_texture_levels(ctx: moderngl.Context) -> None:
    texture = ctx.texture((6, 3), 1, bytes([40] * 18))
    texture.build_mipmaps()
    assert [images.array(texture, level=level).shape for level in range(3)] == [(3, 6), (1, 3), (1, 1)]
    assert images.image(texture, level=1).size == (3, 1)
    with pytest.raises(ValueError, match="level=3: a texture of 6 x 3 has levels 0 to 2"):
        images.array(texture, level=3)


def test_depth_texture(ctx: moderngl.Context) -> None:
    values = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    texture = ctx.depth_texture((3, 2), values.tobytes())
    assert np.allclose(images.array(texture), values[::-1], atol=1e-6)
    picture = images.image(texture)
    assert picture.mode == "F" and picture.getpixel((2, 0)) == 1.0


def test_layers(ctx: moderngl.Context) -> None:
    for make, components in itertools.product((ctx.texture_array, ctx.texture3d), (1, 3)):
        values = numbers("u1", 4, 2, 3, components)
        texture = make((3, 2, 4), components, values.tobytes())
        expected = values[:, ::-1].squeeze()
        assert np.array_equal(images.array(texture), expected)
        assert np.array_equal(images.array(texture, layer=2), expected[2])
        assert np.array_equal(images.array(texture, layer=2, flip=False), values[2].squeeze())
        assert np.array_equal(np.asarray(images.image(texture, layer=3)), expected[3])
        with pytest.raises(ValueError, match="layer=4"):
            images.array(texture, layer=4)
        with pytest.raises(ValueError, match="more than one picture: pass one of its layers, 0 to 3"):
            images.image(texture)


def test_cube_faces_are_as_opengl_has_them(ctx: moderngl.Context) -> None:
    values = numbers("f4", 6, 2, 2, 3)
    cube = ctx.texture_cube((2, 2), 3, values.tobytes(), dtype="f4")
    assert np.array_equal(images.array(cube), values)
    assert np.array_equal(images.array(cube, flip=True), values[:, ::-1])
    for face in range(6):
        assert np.array_equal(images.array(cube, face=face), values[face])
    assert images.image(cube, face=5).size == (2, 2)
    for call in (images.image, images.request):
        with pytest.raises(ValueError, match="face=None: one face of a TextureCube is 0 to 5"):
            call(cube)


def test_whole_cube_is_one_wait(remote: moderngl.Context) -> None:
    cube = remote.texture_cube((2, 2), 4)
    before = glremote.device(remote).measure().waits
    assert images.array(cube).shape == (6, 2, 2, 4)
    assert glremote.device(remote).measure().waits == before + 1


def test_top_row_of_a_face_is_up(ctx: moderngl.Context) -> None:
    """What one sees looking along +x and a little upwards is the top row of face 0."""
    faces = np.zeros((6, 2, 2, 4), np.uint8)
    faces[0, 0], faces[0, 1] = RED, BLUE
    ctx.texture_cube((2, 2), 4, faces.tobytes()).use()
    program = ctx.program(
        """
        #version 330
        void main() { gl_Position = vec4(4.0 * vec2(gl_VertexID & 1, gl_VertexID >> 1) - 1.0, 0.0, 1.0); }
        """,
        """
        #version 330
        uniform samplerCube sky;
        out vec4 pixel;
        void main() { pixel = texture(sky, vec3(1.0, 0.5, 0.0)); }
        """,
    )
    framebuffer = ctx.simple_framebuffer((1, 1))
    framebuffer.use()
    ctx.vertex_array(program, []).render(vertices=3)
    assert images.array(framebuffer).tolist() == [[list(RED)]]


def test_depth_cube(ctx: moderngl.Context) -> None:
    values = np.linspace(0, 1, 24, dtype=np.float32).reshape(6, 2, 2)
    cube = ctx.depth_texture_cube((2, 2), values.tobytes())
    assert np.allclose(images.array(cube), values, atol=1e-6)
    assert images.image(cube, face=1).mode == "F"


# --- buffers


def test_buffer(ctx: moderngl.Context) -> None:
    buffer = ctx.buffer(np.arange(12, dtype=np.float32).tobytes())
    assert images.array(buffer).dtype == np.uint8 and images.array(buffer).shape == (48,)
    assert images.array(buffer, dtype="float32").tolist() == list(range(12))
    assert images.array(buffer, dtype=np.float32, shape=(3, -1))[2].tolist() == [8, 9, 10, 11]
    assert images.array(buffer, dtype="f4", size=8, offset=4).tolist() == [1, 2]
    assert images.array(buffer, dtype="f4", size=8, offset=4, shape=[2, 1]).shape == (2, 1)
    vertices = images.array(buffer, dtype=[("position", "f4", 3), ("weight", "f4")])
    assert vertices["weight"].tolist() == [3, 7, 11]
    assert vertices.flags.writeable


def test_buffer_refusals(ctx: moderngl.Context) -> None:
    buffer = ctx.buffer(reserve=10)
    with pytest.raises(ValueError, match="10 bytes are no whole number of float32, which has 4 bytes"):
        images.array(buffer, dtype="f4")
    with pytest.raises(ValueError, match="size=8, offset=4: not within a buffer of 10 bytes"):
        images.array(buffer, size=8, offset=4)
    with pytest.raises(ValueError, match="cannot reshape"):
        images.array(buffer, shape=(3, 4))
    with pytest.raises(TypeError, match="a Buffer has no width and height"):
        images.image(buffer)


# --- pictures


def test_image_is_the_right_way_up(ctx: moderngl.Context) -> None:
    framebuffer = corners(ctx)
    for source in (framebuffer, ctx.texture((4, 2), 4, framebuffer.read(components=4))):
        picture = images.image(source)
        assert picture.mode == "RGBA" and picture.size == (4, 2)
        assert [picture.getpixel(place) for place in ((0, 0), (3, 0), (0, 1), (3, 1))] == [RED, GREEN, BLUE, WHITE]
    assert images.image(framebuffer, flip=False).getpixel((0, 0)) == BLUE


def test_modes(ctx: moderngl.Context) -> None:
    for dtype, (components, mode) in itertools.product(images.WHITE, enumerate(("L", "LA", "RGB", "RGBA"), 1)):
        values = np.full((2, 2, components), images.WHITE[dtype], images.DTYPES[dtype])
        values[0] = 0
        picture = images.image(ctx.texture((2, 2), components, values.tobytes(), dtype=dtype))
        assert picture.mode == mode
        pixels = np.asarray(picture).reshape(2, 2, components)
        assert pixels[:, 0].tolist() == [[255] * components, [0] * components], (dtype, mode)


def test_modes_of_framebuffers(ctx: moderngl.Context) -> None:
    for components, mode in ((1, "L"), (2, "LA"), (3, "RGB"), (4, "RGBA")):
        framebuffer = ctx.simple_framebuffer((2, 2), components)
        assert images.image(framebuffer).mode == mode
        assert images.image(framebuffer, components=3).mode == "RGB"


def test_floats_are_clipped_and_rounded_the_same_everywhere(ctx: moderngl.Context) -> None:
    """By numpy (a texture) and by the driver (a framebuffer); at one half OpenGL leaves the way open."""
    values = np.array([[-1.0, 0.0, 0.1, 0.5, 0.998, 1.0, 7.0, np.inf, -np.inf]], np.float32)
    texture = ctx.texture((9, 1), 1, values.tobytes(), dtype="f4")
    expected = [[0, 0, 26, 128, 254, 255, 255, 255, 0]]
    assert np.asarray(images.image(texture)).tolist() == expected
    drawn = np.asarray(images.image(ctx.framebuffer([texture])))
    assert np.delete(drawn, 3, axis=1).tolist() == np.delete(expected, 3, axis=1).tolist()
    assert drawn[0, 3] in (127, 128)


def test_nan_is_black(ctx: moderngl.Context) -> None:
    texture = ctx.texture((1, 1), 1, np.array([np.nan], np.float32).tobytes(), dtype="f4")
    assert images.image(texture).getpixel((0, 0)) == 0


def test_sixteen_bits_round(ctx: moderngl.Context) -> None:
    values = np.array([0, 128, 129, 385, 386, 32768, 65535], np.uint16)
    texture = ctx.texture((7, 1), 1, values.tobytes(), dtype="nu2", alignment=1)
    assert np.asarray(images.image(texture)).tolist() == [np.rint(values / 257).astype(int).tolist()]


def test_integers_that_are_no_colours(ctx: moderngl.Context) -> None:
    for dtype in ("u4", "i1", "i2", "i4"):
        texture = ctx.texture((2, 2), 4, dtype=dtype)
        for source in (texture, ctx.framebuffer([texture])):
            with pytest.raises(ValueError, match=f"integers of dtype '{dtype}' are no colours"):
                images.image(source)


# --- bad input


def test_multisample(ctx: moderngl.Context) -> None:
    if ctx.max_samples < 2:
        pytest.skip("this driver has no multisample")
    texture = ctx.texture((2, 2), 4, samples=2)
    for call, source in itertools.product((images.array, images.image), (texture, ctx.framebuffer([texture]))):
        kind = type(source).__name__
        with pytest.raises(ValueError, match=rf"a {kind} with 2 samples a pixel .* with ctx\.copy_framebuffer"):
            call(source)


def test_things_that_cannot_be_read(ctx: moderngl.Context) -> None:
    for call in (images.array, images.image, images.request):
        with pytest.raises(TypeError, match="pass the framebuffer that it is attached to"):
            call(ctx.renderbuffer((2, 2)))
        with pytest.raises(TypeError, match=r"expected a moderngl Framebuffer, Texture, .* not Sampler"):
            call(ctx.sampler())
        with pytest.raises(TypeError, match="not bytes"):
            call(b"pixels")


def test_options_that_do_not_fit(ctx: moderngl.Context) -> None:
    framebuffer = ctx.simple_framebuffer((4, 2))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"attachment": 1}, "attachment=1: the framebuffer has 1 colour attachments"),
        ({"attachment": -2}, "attachment=-2"),
        ({"components": 5}, "components=5: must be 1 to 4"),
        ({"components": 0}, "components=0"),
        ({"attachment": -1, "components": 3}, "components=3: must be 1, of a depth attachment"),
        ({"dtype": "f3"}, "dtype='f3' is none of moderngl's types: f1, f2"),
        ({"dtype": np.float32}, "is none of moderngl's types"),
        ({"dtype": "u1"}, "OpenGL does not convert an attachment of dtype 'f1' to 'u1'"),
        ({"viewport": (2, 0, 3, 1)}, r"viewport=\(2, 0, 3, 1\): .* within 4 x 2"),
        ({"viewport": (0, -1, 3, 1)}, "viewport="),
        ({"viewport": (1, 2, 3)}, "viewport="),
    ]
    for options, text in wrong:
        with pytest.raises(ValueError, match=text):
            images.array(framebuffer, **options)


def test_framebuffer_without_depth(ctx: moderngl.Context) -> None:
    with pytest.raises(ValueError, match="attachment=-1: the framebuffer has no depth attachment"):
        images.array(ctx.framebuffer([ctx.texture((2, 2), 4)]), attachment=-1)


def test_options_of_another_kind(ctx: moderngl.Context) -> None:
    with pytest.raises(TypeError, match="a Framebuffer is read without layer=; it takes attachment, viewport"):
        images.array(ctx.simple_framebuffer((2, 2)), layer=0)
    with pytest.raises(TypeError, match="a Texture is read without dtype="):
        images.array(ctx.texture((2, 2), 4), dtype="f4")
    with pytest.raises(TypeError, match="a TextureCube is read without level="):
        images.array(ctx.texture_cube((2, 2), 4), level=1)
    with pytest.raises(TypeError, match="a Buffer is read without flip="):
        images.array(ctx.buffer(reserve=4), flip=True)


# --- requests


def test_request_is_what_array_asks_for(ctx: moderngl.Context) -> None:
    framebuffer = corners(ctx)
    request = images.request(framebuffer, viewport=(2, 2), components=3)
    data = request.source.read(**request.arguments)
    assert len(data) == request.size == 12
    assert np.array_equal(request.decode(memoryview(data)), images.array(framebuffer, viewport=(2, 2), components=3))
    with pytest.raises(ValueError, match="cannot reshape"):
        request.decode(data[:9])
    with pytest.raises(TypeError, match="wrong"):
        images.request(framebuffer, wrong=1)
