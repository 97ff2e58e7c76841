# type: ignore
"""Searches in the rows that arrays have for an environment; native, as Warp's indexing hides that they are contiguous.

Most mechs have no hit and no round in flight, so kernels look for the next one instead of testing each.
"""

import warp as wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.func_native(
    """
    const wp::int32* x = &wp::index(a, e, 0);
    const wp::int32* y = &wp::index(b, e, 0);
    const wp::int32 end = a.shape[1];
    wp::int32 i = first;
    for (; i + 8 <= end; i += 8) {
        wp::int32 any = 0;
        for (wp::int32 k = i; k < i + 8; ++k)
            any |= x[k] | y[k];
        if (any != 0)
            break;
    }
    while (i < end && (x[i] | y[i]) == 0)
        ++i;
    return i;
    """
)
def next_nonzero(a: wp.array2d(dtype=wp.int32), b: wp.array2d(dtype=wp.int32), e: int, first: int) -> int:
    """Return the first mech from ``first`` on with an entry of ``a`` or ``b`` not 0, else the number of mechs."""
    ...


@wp.func_native(
    """
    const wp::int32* x = &wp::index(a, e, 0);
    const wp::int32 end = a.shape[1];
    wp::int32 count = 0;
    for (wp::int32 i = 0; i < end; ++i)
        count += x[i] == value;
    return count;
    """
)
def count_equal(a: wp.array2d(dtype=wp.int32), e: int, value: int) -> int:
    """Return how many mechs have the entry ``value``."""
    ...


@wp.func_native(
    """
    const wp::int32* x = &wp::index(round_weapon, e, 0, 0);
    wp::int32 i = first;
    for (; i + 8 <= end; i += 8) {
        wp::int32 all = -1;
        for (wp::int32 k = i; k < i + 8; ++k)
            all &= x[k];
        if (all >= 0)
            break;
    }
    while (i < end && x[i] < 0)
        ++i;
    return i;
    """
)
def next_round(round_weapon: wp.array3d(dtype=wp.int32), e: int, first: int, end: int) -> int:
    """Return the first slot in flight from ``first`` to ``end``, ``end`` if there is none; slots of a mech follow."""
    ...


@wp.func_native(
    """
    const wp::vec3* p = &wp::index(pos, e, 0);
    wp::int32 i = first;
    for (; i + 8 <= end; i += 8) {
        wp::int32 any = 0;
        for (wp::int32 k = i; k < i + 8; ++k)
            any |= (wp::abs(p[k][0] - at[0]) < reach[0]) & (wp::abs(p[k][1] - at[1]) < reach[1]);
        if (any != 0)
            break;
    }
    while (i < end && !(wp::abs(p[i][0] - at[0]) < reach[0] && wp::abs(p[i][1] - at[1]) < reach[1]))
        ++i;
    return i;
    """
)
def next_near(pos: wp.array2d(dtype=wp.vec3), e: int, first: int, end: int, at: wp.vec3, reach: wp.vec2) -> int:
    """Return the first mech from ``first`` to ``end`` within ``reach`` x, y [vox] of ``at``, ``end`` if none is."""
    ...


@wp.func_native(
    """
    const wp::int32* living = &wp::index(alive, e, 0);
    const wp::uint8* clear = &wp::index(sight, e, m, 0);
    wp::uint8* visible_row = &wp::index(visible, e, m, 0);
    wp::int32* seen_row = &wp::index(seen, e, m, 0);
    const wp::int32 end = alive.shape[1], own = living[m];
    for (wp::int32 j = 0; j < end; ++j) {
        const bool known = (own == 1) & (living[j] == 1) & ((clear[j] == 1) | (full == 1)) & (j != m);
        visible_row[j] = known;
        seen_row[j] = known ? step : seen_row[j];
    }
    """
)
def see_directly(
    alive: wp.array2d(dtype=wp.int32),
    sight: wp.array3d(dtype=wp.uint8),
    full: int,
    e: int,
    m: int,
    step: int,
    visible: wp.array3d(dtype=wp.uint8),
    seen: wp.array3d(dtype=wp.int32),
):
    """Set the row of mech m in ``visible`` to the living mechs in its sight, and their entry of ``seen`` to ``step``.

    With ``full`` 1 all others are in sight; a dead mech sees none.
    """
    ...


@wp.func_native(
    """
    const wp::int32* living = &wp::index(alive, e, 0);
    const wp::uint8* known = &wp::index(visible, e, m, 0);
    const wp::int32 end = alive.shape[1];
    wp::int32 j = first;
    for (; j + 8 <= end; j += 8) {
        wp::int32 any = 0;
        for (wp::int32 k = j; k < j + 8; ++k)
            any |= (living[k] == 1) & (known[k] == 0);
        if (any != 0)
            break;
    }
    while (j < end && !(living[j] == 1 && known[j] == 0))
        ++j;
    return j;
    """
)
def next_unseen(
    alive: wp.array2d(dtype=wp.int32), visible: wp.array3d(dtype=wp.uint8), e: int, m: int, first: int
) -> int:
    """Return the first living mech from ``first`` on that mech m does not see, else the number of mechs."""
    ...


@wp.func_native(
    """
    const wp::int32* living = &wp::index(alive, e, 0);
    const wp::int32* side = &wp::index(team, e, 0);
    const wp::uint8* clear = &wp::index(sight, e, m, 0);
    const wp::int32 end = alive.shape[1], own = side[m];
    wp::int32 j = first;
    for (; j + 8 <= end; j += 8) {
        wp::int32 any = 0;
        for (wp::int32 k = j; k < j + 8; ++k)
            any |= (living[k] == 1) & (side[k] != own) & (clear[k] == 1);
        if (any != 0)
            break;
    }
    while (j < end && !(living[j] == 1 && side[j] != own && clear[j] == 1))
        ++j;
    return j;
    """
)
def next_hostile_in_sight(
    alive: wp.array2d(dtype=wp.int32),
    team: wp.array2d(dtype=wp.int32),
    sight: wp.array3d(dtype=wp.uint8),
    e: int,
    m: int,
    first: int,
) -> int:
    """Return the first living hostile from ``first`` on with clear sight to mech m, else the number of mechs."""
    ...


@wp.func_native(
    """
    const wp::vec3* p = &wp::index(pos, e, 0);
    const wp::int32* living = &wp::index(alive, e, 0);
    const wp::int32* side = &wp::index(team, e, 0);
    const wp::int32 end = alive.shape[1], own = side[m];
    wp::int32 count = 0;
    for (wp::int32 j = 0; j < end; ++j) {
        const float x = p[j][0] - zone[0], y = p[j][1] - zone[1];
        count += (living[j] == 1) & (side[j] == own) & (j != m) & (wp::sqrt(x * x + y * y) < zone[2]);
    }
    return count;
    """
)
def count_mates_in_circle(
    pos: wp.array2d(dtype=wp.vec3),
    alive: wp.array2d(dtype=wp.int32),
    team: wp.array2d(dtype=wp.int32),
    e: int,
    m: int,
    zone: wp.vec3,
) -> int:
    """Return the number of other living mechs of the team of m in the circle ``zone``: centre x, y and radius [vox]."""
    ...
