"""The gallery: short moderngl programs, each of which shows one technique and draws one picture.

Every module in NAMES has REQUIRE, the OpenGL version that it needs, and `render(ctx)`, which gives a PIL image; the
first line of its docstring is the caption. Beside them lie `geometry` (meshes and matrices) and `drawing` (what nearly
every picture does first and last).
"""

SIZE = (640, 400)  # of every picture

NAMES = (  # in the order of the gallery
    "triangle",
    "indexed_mesh",
    "textured_model",
    "instancing",
    "colour_attachments",
    "multisample",
    "bloom",
    "shadow_map",
    "cube_map",
    "texture_array",
    "volume",
    "uniform_blocks",
    "geometry_shader",
    "tessellation",
    "transform_feedback",
    "compute_image",
    "storage_buffers",
    "indirect",
    "occlusion",
    "tiles",
)
