# type: ignore
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
    return ((plane[e, y, x] >> wp.uint64(z)) & wp.uint64(1)) != wp.uint64(0)


@wp.func
def inside(size: wp.vec3i, x: int, y: int, z: int) -> bool:
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


@wp.func_native(
    """
    #ifdef __CUDA_ARCH__
    return 0;
    #else
    const float slack = 0.02f, shortest = 2.0f;
    const int u = wp::abs(b[0] - a[0]) >= wp::abs(b[1] - a[1]) ? 0 : 1, v = 1 - u;
    const float du = b[u] - a[u], slope_v = (b[v] - a[v]) / du, slope_z = (b[2] - a[2]) / du;
    const float low = du > 0.0f ? a[u] : b[u], high = du > 0.0f ? b[u] : a[u];
    const bool in_map = low >= slack && high + slack < static_cast<float>(size[u]);
    if (!(in_map && high - low >= shortest && wp::abs(slope_z) <= 1.0f))
        return 0;
    const float at_v = a[v] - slope_v * a[u], at_z = a[2] - slope_z * a[u];
    const float reach_v = slack + 0.5f * wp::abs(slope_v), reach_z = slack + 0.5f * wp::abs(slope_z);
    const wp::int32 top_v = size[v] - 1, top_z = size[2] - 1;
    const wp::int32 step_u = plane.strides[2 - u] / 8, step_v = plane.strides[2 - v] / 8;
    const wp::uint64* words = &wp::index(plane, e, 0, 0);
    const wp::int32 start = static_cast<wp::int32>(low), end = static_cast<wp::int32>(high);
    const wp::int32 first = static_cast<wp::int32>(low - slack), last = static_cast<wp::int32>(high + slack);
    wp::uint64 doubtful = 0;
    for (wp::int32 base = first; base <= last; base += 8) {
        wp::uint64 blocked = 0;
        #pragma clang loop vectorize_width(8) interleave_count(1)
        for (wp::int32 k = 0; k < 8; ++k) {
            const wp::int32 i = base + k < last ? base + k : last;
            const float middle = static_cast<float>(i) + 0.5f;
            const float mid_v = at_v + slope_v * middle, mid_z = at_z + slope_z * middle;
            const wp::int32 v0 = static_cast<wp::int32>(mid_v - reach_v + 1.0f) - 1;
            const wp::int32 v1 = static_cast<wp::int32>(mid_v + reach_v);
            const wp::int32 z0 = static_cast<wp::int32>(mid_z - reach_z + 1.0f) - 1;
            const wp::int32 z1 = static_cast<wp::int32>(mid_z + reach_z);
            const bool outside = (v0 < 0) | (v1 > top_v) | (z0 < 0) | (z1 > top_z) | (v1 - v0 > 1);
            const wp::int32 cell_v = static_cast<wp::int32>(mid_v), cell_z = static_cast<wp::int32>(mid_z);
            const float in_v = mid_v - static_cast<float>(cell_v), in_z = mid_z - static_cast<float>(cell_z);
            const bool sure = !outside & (wp::abs(in_v - 0.5f) < 0.5f - slack) & (wp::abs(in_z - 0.5f) < 0.5f - slack)
                & (i > start) & (i < end);
            const wp::uint64 word0 = words[i * step_u + (outside ? 0 : v0) * step_v];
            const wp::uint64 word1 = words[i * step_u + (outside ? 0 : v1) * step_v];
            const wp::uint64 band = (wp::uint64(2) << ((z1 - z0) & 63)) - 1;
            doubtful |= outside ? 1 : ((word0 | word1) >> (z0 & 63)) & band;
            blocked |= sure ? ((cell_v == v0 ? word0 : word1) >> (cell_z & 63)) & 1 : 0;
        }
        if (blocked)
            return -1;
    }
    return doubtful ? 0 : 1;
    #endif
    """
)
def sure_sight(plane: wp.array3d(dtype=wp.uint64), e: int, size: wp.vec3i, a: wp.vec3, b: wp.vec3) -> int:
    """Return 1 if the segment between two points is clear of terrain by a margin, -1 if it is blocked by one, else 0.

    Native, as one vector loop over the columns along the longer horizontal axis. The segment is clear if the heights
    that it has over each column, in the one or two cells that it crosses, are free; it is blocked if the cell is set
    that it has in the middle of a column between its end cells. The margin exceeds what rounding in ``cast_ray`` can
    move a ray. A segment that is short, steep or at the edge of the map is not sure, and none is on CUDA.
    """
    ...


@wp.func
def sight_clear(plane: wp.array3d(dtype=wp.uint64), e: int, size: wp.vec3i, a: wp.vec3, b: wp.vec3) -> bool:
    """Whether no terrain blocks the segment between two points; the end cells are not tested."""
    sure = sure_sight(plane, e, size, a, b)
    if sure != 0:
        return sure > 0
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
