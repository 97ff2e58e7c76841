"""Voxel rays: exact 3-D grid traversal over bit planes, and the smoke test.

A plane holds one 64-bit word per column (see ``echelon.sim.world``), so a step along z is a shift and a step along
x or y is one load. Rays are cast from the lower to the higher mech index, which makes sight symmetric.
Traversal after Amanatides and Woo (1987); exact ties prefer z, then y, then x.
"""

import warp as wp

from echelon.sim.geometry import EPS_DIV
from echelon.sim.state import Smoke

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

FAR = wp.constant(1.0e30)
SHORTEST_SMOKED = wp.constant(3.0e-5)
"""Segments shorter than this are clear of smoke [vox]."""
PAST_END = wp.constant(1.0e-3)
"""A ray that overshoots its end by this much missed the end cell at a corner and counts as clear [vox]."""


@wp.func
def column_bit(plane: wp.array3d(dtype=wp.uint64), e: int, x: int, y: int, z: int) -> bool:
    """Whether bit z of a column is set; the cell must lie inside the grid."""
    return ((plane[e, y, x] >> wp.uint64(z)) & wp.uint64(1)) != wp.uint64(0)


@wp.func
def inside(size: wp.vec3i, x: int, y: int, z: int) -> bool:
    """Whether a cell lies inside the grid."""
    return x >= 0 and y >= 0 and z >= 0 and x < size[0] and y < size[1] and z < size[2]


@wp.func
def blocks(plane: wp.array3d(dtype=wp.uint64), e: int, size: wp.vec3i, x: int, y: int, z: int) -> bool:
    """Whether a cell ends a ray: set in ``plane`` or outside the grid."""
    if not inside(size, x, y, z):
        return True
    return column_bit(plane, e, x, y, z)


@wp.func
def first_face(start: wp.float32, u: wp.float32, cell: int) -> wp.float32:
    """Return the distance along the ray to the first cell face on one axis."""
    if wp.abs(u) <= EPS_DIV:
        return FAR
    if u > 0.0:
        return (float(cell + 1) - start) / u
    return (float(cell) - start) / u


@wp.func
def face_step(u: wp.float32) -> wp.float32:
    """Return the distance along the ray between cell faces on one axis."""
    if wp.abs(u) <= EPS_DIV:
        return FAR
    return 1.0 / wp.abs(u)


@wp.func
def sign_step(u: wp.float32) -> int:
    """Return the direction of cell steps on one axis, 1 or -1."""
    if u > 0.0:
        return 1
    return -1


@wp.func
def cast_ray(
    plane: wp.array3d(dtype=wp.uint64), e: int, size: wp.vec3i, start: wp.vec3, end: wp.vec3, include_end: bool
) -> wp.vec4:
    """Trace a segment; return (t, x, y, z) of the cell that blocks it.

    ``t`` is the distance [vox] at which that cell is entered, or -1 if the segment is clear. A cell outside the grid
    means that the ray left the grid. The start cell is never tested, the end cell only with ``include_end``.
    """
    delta = end - start
    length = wp.sqrt(delta[0] * delta[0] + delta[1] * delta[1] + delta[2] * delta[2])
    clear = wp.vec4(-1.0, 0.0, 0.0, 0.0)
    if length <= EPS_DIV:
        return clear
    u = delta / length
    x = int(wp.floor(start[0]))
    y = int(wp.floor(start[1]))
    z = int(wp.floor(start[2]))
    ex = int(wp.floor(end[0]))
    ey = int(wp.floor(end[1]))
    ez = int(wp.floor(end[2]))
    if x == ex and y == ey and z == ez:
        if include_end and blocks(plane, e, size, x, y, z):
            return wp.vec4(0.0, float(x), float(y), float(z))
        return clear
    face = wp.vec3(first_face(start[0], u[0], x), first_face(start[1], u[1], y), first_face(start[2], u[2], z))
    step = wp.vec3(face_step(u[0]), face_step(u[1]), face_step(u[2]))
    limit = int(2.0 * length) + size[0] + size[1] + size[2] + 2
    t = float(0.0)
    for _i in range(limit):
        if face[0] < face[1] and face[0] < face[2]:
            t = face[0]
            x += sign_step(u[0])
            face[0] = t + step[0]
        elif face[1] < face[2]:
            t = face[1]
            y += sign_step(u[1])
            face[1] = t + step[1]
        else:
            t = face[2]
            z += sign_step(u[2])
            face[2] = t + step[2]
        if t > length + PAST_END:
            return clear
        at_end = x == ex and y == ey and z == ez
        if at_end and not include_end:
            return clear
        if blocks(plane, e, size, x, y, z):
            return wp.vec4(t, float(x), float(y), float(z))
        if at_end:
            return clear
    return wp.vec4(length, -1.0, -1.0, -1.0)


@wp.func
def sight_clear(plane: wp.array3d(dtype=wp.uint64), e: int, size: wp.vec3i, a: wp.vec3, b: wp.vec3) -> bool:
    """Whether no terrain blocks the segment between two points; the end cells are not tested."""
    return cast_ray(plane, e, size, a, b, False)[0] < 0.0


@wp.func
def smoke_blocks(smoke: Smoke, e: int, radius: float, a: wp.vec3, b: wp.vec3) -> bool:
    """Whether a live smoke cloud of environment e intersects the segment from a to b."""
    d = b - a
    if smoke.clouds[e] == 0 or wp.length(d) < SHORTEST_SMOKED:
        return False
    for m in range(smoke.cloud_ticks.shape[1]):
        for q in range(smoke.cloud_ticks.shape[2]):
            if smoke.cloud_ticks[e, m, q] > 0:
                t = wp.clamp(wp.dot(smoke.cloud_pos[e, m, q] - a, d) / wp.max(wp.dot(d, d), EPS_DIV), 0.0, 1.0)
                if wp.length(a + d * t - smoke.cloud_pos[e, m, q]) <= radius:
                    return True
    return False
