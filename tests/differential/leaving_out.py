"""What random programs leave out, by name: what plain moderngl leaves undefined.

Knows: names and reasons. Does not know: how programs are made; the rules name what they leave out.
"""

from __future__ import annotations

UNDEFINED = {
    "elapsed": "a time is another in each run: only its type is looked at",
    "glo": "OpenGL's number; here it is the client's own",
    "new images": "what an image holds that nobody wrote: each gets data, or is cleared as part of a framebuffer",
    "new buffers": "what a buffer holds that was reserved or orphaned: it is cleared at once",
    "feedback": "drawing to an image that is sampled: no image that may be bound to a unit is drawn to",
    "kinds of images": "an integer image sampled as floats, or a colour as a shadow: units are kept by kind",
    "kinds of outputs": "floats drawn to an integer image, or the reverse",
    "vertices beyond": "vertices and indices that the buffers do not have",
    "blocks without buffers": "a uniform block whose buffer is too short or not there",
    "huge formats": "vertices of 2**31 bytes and more, which moderngl counts in an int that overflows",
    "an image twice": "an image at two attachments of a framebuffer",
    "an image onto itself": "a framebuffer copied to a texture that is part of it",
    "unwritten outputs": "attachments that a fragment shader does not write, or that there is no fragment shader for",
    "half-made framebuffers": "plain moderngl leaves one bound where making one fails: another is bound at once",
    "2**31 samples": "moderngl takes them for none, and OpenGL makes something else of it",
    "own output": "a transform into a buffer that feeds it",
    "no barrier": "what a compute shader wrote, before a barrier",
    "sizes": "what is too large to be made in a moment",
    "arrays of released objects": "drawing what was fed from a buffer that was released: the driver may keep it or not",
    "writes outside": "read_into at a negative offset writes before the memory in plain moderngl",
    "pixel transfers beyond": "a texture written from, or read into, a buffer that is too short",
    "depth as colours": "depth read with several components: what is behind the depths is not written",
    "released contexts": "what needs OpenGL, once the context is released, and no framebuffer, which moderngl looks at",
    "components beyond": "fewer or more components to read than 0 to 4: moderngl looks beyond a table",
    "names of released objects": "OpenGL gives them to others; here they are nobody's, and raise ForeignName",
    "sizes of framebuffers": "of layers or samples: detect_framebuffer tells of a texture that happens to be bound",
    "handles": "what number a driver gives a bindless texture: only its type is looked at",
    "released programs": "what a released program's members say: its number may be another program's",
}
"""What plain moderngl, or OpenGL, leaves undefined."""

def left_out(name: str) -> bool:
    """True; where a rule leaves something out it says by this which row of UNDEFINED it is."""
    return bool(UNDEFINED[name])


NOT_USED = {
    ".glo": UNDEFINED["glo"],
    "Context.__exit__": "what was current before, or nothing, is again: then plain moderngl has no OpenGL to call",
}
"""What no rule uses, as type.name, or .name of every type; and why."""
