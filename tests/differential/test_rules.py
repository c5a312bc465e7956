"""The rules of random programs, all together, use all that moderngl has; what they do not use has a reason.

Programs are read, not run: an object's name begins with its kind.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict

import _moderngl
import moderngl
import pytest

from .leaving_out import NOT_USED
from .programs import RULES, MakingAll
from .running import MEMBERS, PROPERTIES

KINDS = {
    "ctx": moderngl.Context, "buffer": moderngl.Buffer, "texture": moderngl.Texture, "texture3d": moderngl.Texture3D,
    "texture_array": moderngl.TextureArray, "texture_cube": moderngl.TextureCube, "query": moderngl.Query,
    "renderbuffer": moderngl.Renderbuffer, "framebuffer": moderngl.Framebuffer, "program": moderngl.Program,
    "compute": moderngl.ComputeShader, "vertex_array": moderngl.VertexArray, "sampler": moderngl.Sampler,
    "scope": moderngl.Scope,
}  # fmt: skip
TIMES = 500
"""How often each rule is taken: the rarest of what it may do is among it then."""


def public(kind: type) -> set[str]:
    """What a program may use of a type."""
    constants = {name for name, value in vars(kind).items() if isinstance(value, int | tuple)}
    return {name for name in vars(kind) if not name.startswith("_") or name in ("__enter__", "__exit__")} - constants


@pytest.fixture(scope="module")
def used() -> dict[str, set[str]]:
    """What random programs use, by kind."""
    found = defaultdict(set)
    for seed in range(TIMES):
        making = MakingAll(random.Random(seed).randint)
        for rule in RULES:
            getattr(making, rule)()
        making.end()
        for line in making.lines:
            for kind, name in re.findall(r"\b([a-z][a-z3_]*?)(?<![0-9])(?:\d+i?)?\.(\w+)", line):
                found[kind].add(name)
            found["member"].update(re.findall(r"\]\.(\w+)", line))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_used(kind: str, used: dict[str, set[str]]) -> None:
    type_ = KINDS[kind]
    there = used[kind] | set(PROPERTIES.get(type_, ()))
    reasons = {name.partition(".")[2] for name in NOT_USED if name.partition(".")[0] in ("", type_.__name__)}
    assert public(type_) - there - reasons == set(), "write a rule, or say in NOT_USED why there is none"


def test_every_member_is_used(used: dict[str, set[str]]) -> None:
    for type_ in (_moderngl.Uniform, _moderngl.UniformBlock, _moderngl.StorageBlock):
        assert public(type_) - used["member"] - set(MEMBERS[type_.__name__]) - {"mglo"} == set()
