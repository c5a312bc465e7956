"""Meshes and matrices for the samples, in numpy alone.

A matrix is a float32 array of shape (4, 4) that lies in memory as GLSL wants it, column by column: numpy sees it
transposed. So a point is a row, and a product is read from left to right: `model @ look_at(...) @ perspective(...)`.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Point = tuple[float, float, float]


class Mesh(NamedTuple):
    """Triangles, counter-clockwise from outside."""

    vertices: Floats  # (n, 8): position, normal, texture coordinates
    indices: npt.NDArray[np.uint32]  # (m,): three for a triangle


def surface(function: Callable[[Doubles, Doubles], tuple[Doubles, Doubles, Doubles]], columns: int, rows: int) -> Mesh:
    """The surface `x, y, z = function(u, v)`, u and v from 0 to 1, in (columns + 1) * (rows + 1) vertices.

    The front is where u runs to the right and v upwards. u and v are also the texture coordinates.
    """
    u, v = (axis.ravel() for axis in np.meshgrid(np.linspace(0, 1, columns + 1), np.linspace(0, 1, rows + 1)))

    def at(u: Doubles, v: Doubles) -> Doubles:
        return np.stack(np.broadcast_arrays(*function(u, v)), axis=-1).astype(np.float64)

    step = 1e-4
    middle = np.clip(v, step, 1 - step)  # a pole has no normal, the points beside it have
    normals = np.cross(at(u + step, middle) - at(u - step, middle), at(u, middle + step) - at(u, middle - step))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    corner = (np.arange(rows)[:, None] * (columns + 1) + np.arange(columns)).reshape(-1, 1)
    indices = corner + np.array([0, 1, columns + 2, 0, columns + 2, columns + 1])
    return Mesh(np.column_stack([at(u, v), normals, u, v]).astype("f4"), indices.ravel().astype("u4"))


def sphere(radius: float = 1.0, columns: int = 48, rows: int = 24) -> Mesh:
    """A sphere around the origin."""

    def point(u: Doubles, v: Doubles) -> tuple[Doubles, Doubles, Doubles]:
        round_, up = 2 * np.pi * u, np.pi * (v - 0.5)
        return radius * np.cos(up) * np.sin(round_), radius * np.sin(up), radius * np.cos(up) * np.cos(round_)

    return surface(point, columns, rows)


def lathe(profile: Callable[[Doubles], tuple[Doubles, Doubles]], columns: int = 64, rows: int = 64) -> Mesh:
    """A body turned around the y axis; `radius, height = profile(v)`, v from 0 to 1."""

    def point(u: Doubles, v: Doubles) -> tuple[Doubles, Doubles, Doubles]:
        radius, height = profile(v)
        return radius * np.sin(2 * np.pi * u), height, radius * np.cos(2 * np.pi * u)

    return surface(point, columns, rows)


def turned(outline: list[tuple[float, float]], columns: int = 64) -> Mesh:
    """A body turned around the y axis, with an edge at every point (radius, height) of its outline, from below."""

    def side(below: tuple[float, float], above: tuple[float, float]) -> Mesh:
        (r0, y0), (r1, y1) = below, above
        return lathe(lambda v: (r0 + (r1 - r0) * v, y0 + (y1 - y0) * v), columns, 1)

    return join([side(below, above) for below, above in pairwise(outline)])


def torus(radius: float = 1.0, tube: float = 0.4, columns: int = 64, rows: int = 24) -> Mesh:
    """A ring that lies in the plane y = 0."""
    return lathe(lambda v: (radius + tube * np.cos(2 * np.pi * v), tube * np.sin(2 * np.pi * v)), columns, rows)


def torus_knot(p: int = 2, q: int = 3, tube: float = 0.3, columns: int = 256, rows: int = 24) -> Mesh:
    """A tube along the (p, q) torus knot, which goes p times around the z axis; some 3 wide."""

    def path(t: Doubles) -> Doubles:
        radius = 1.0 + 0.45 * np.cos(q * t)
        return np.stack([radius * np.cos(p * t), radius * np.sin(p * t), 0.6 * np.sin(q * t)])

    def point(u: Doubles, v: Doubles) -> tuple[Doubles, Doubles, Doubles]:
        t, turn = 2 * np.pi * u, 2 * np.pi * v
        here, ahead = path(t), path(t + 1e-3)
        along = (ahead - here) / np.linalg.norm(ahead - here, axis=0)
        side = np.cross(along, here + ahead, axis=0)
        side /= np.linalg.norm(side, axis=0)
        x, y, z = here + tube * (np.cos(turn) * side + np.sin(turn) * np.cross(side, along, axis=0))
        return x, y, z

    return surface(point, columns, rows)


def box(width: float = 1.0, height: float = 1.0, depth: float = 1.0) -> Mesh:
    """A box around the origin, with a whole texture on every side."""
    square = surface(lambda u, v: (u - 0.5, v - 0.5, np.full_like(u, 0.5)), 1, 1)
    turns = [rotation(quarter * np.pi / 2, (0, 1, 0)) for quarter in range(4)]
    turns += [rotation(quarter * np.pi / 2, (1, 0, 0)) for quarter in (1, 3)]
    sides = [place(square, turn) for turn in turns]
    mesh = join(sides)
    mesh.vertices[:, :3] *= np.array([width, height, depth], "f4")
    return mesh


def ground(size: float) -> Mesh:
    """A square in the plane y = 0, seen from above."""
    return surface(lambda u, v: (size * (u - 0.5), np.zeros_like(u), size * (0.5 - v)), 1, 1)


def join(meshes: list[Mesh]) -> Mesh:
    """Several meshes as one."""
    starts = np.cumsum([0] + [len(mesh.vertices) for mesh in meshes])
    indices = [mesh.indices + np.uint32(start) for mesh, start in zip(meshes, starts, strict=False)]
    return Mesh(np.concatenate([mesh.vertices for mesh in meshes]), np.concatenate(indices))


def place(mesh: Mesh, matrix: Floats) -> Mesh:
    """The mesh moved by a matrix that turns, moves, and scales evenly."""
    vertices = mesh.vertices.copy()
    vertices[:, :3] = vertices[:, :3] @ matrix[:3, :3] + matrix[3, :3]
    vertices[:, 3:6] = vertices[:, 3:6] @ matrix[:3, :3] / np.cbrt(np.linalg.det(matrix[:3, :3]))
    return Mesh(vertices, mesh.indices)


def scaling(x: float, y: float, z: float) -> Floats:
    """A matrix that scales along the axes."""
    return np.diag([x, y, z, 1.0]).astype("f4")


def translation(x: float, y: float, z: float) -> Floats:
    """A matrix that moves."""
    matrix = np.eye(4, dtype="f4")
    matrix[3, :3] = x, y, z
    return matrix


def rotation(angle: float, axis: Point) -> Floats:
    """A matrix that turns around an axis through the origin, in radians; counter-clockwise seen from its tip."""
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    cross = np.array([[0, z, -y], [-z, 0, x], [y, -x, 0]])
    matrix = np.eye(4)
    matrix[:3, :3] += np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return matrix.astype("f4")


def look_at(eye: Point, target: Point, up: Point = (0.0, 1.0, 0.0)) -> Floats:
    """The world as seen from `eye`: x to the right, y up, and the target on the negative z axis."""
    back = np.subtract(eye, target) / np.linalg.norm(np.subtract(eye, target))
    right = np.cross(up, back) / np.linalg.norm(np.cross(up, back))
    axes = np.stack([right, np.cross(back, right), back], axis=1)
    matrix = np.eye(4)
    matrix[:3, :3] = axes
    matrix[3, :3] = -np.array(eye) @ axes
    return matrix.astype("f4")


def perspective(angle: float, aspect: float, near: float, far: float) -> Floats:
    """From a look_at to clip space, with a vertical angle of view in degrees."""
    scale = 1 / np.tan(np.radians(angle) / 2)
    matrix = np.diag([scale / aspect, scale, (far + near) / (near - far), 0.0])
    matrix[2, 3] = -1
    matrix[3, 2] = 2 * far * near / (near - far)
    return matrix.astype("f4")


def orthographic(width: float, height: float, near: float, far: float) -> Floats:
    """From a look_at to clip space, without foreshortening."""
    matrix = np.diag([2 / width, 2 / height, 2 / (near - far), 1.0])
    matrix[3, 2] = (far + near) / (near - far)
    return matrix.astype("f4")
