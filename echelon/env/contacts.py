"""Which mechs fill a pilot's contact slots, and in what order.

Candidates are the visible living others. Three friends come first, then hostiles, then the remaining friends, each
in the pilot's sort order with ties to the lower index; a hostile-only display holds hostiles alone. The slots are
what the target preferences of the next action refer to.
"""

# ruff: noqa: E501
import warp as wp

from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

FRIENDLY_QUOTA = wp.constant(3)
SORT_BIGGEST = wp.constant(1)
SORT_DAMAGED = wp.constant(2)


@wp.func
def contact_key(rules: Rules, mode: int, c: int, hp: float, distance: float) -> wp.vec2:
    """Sort key of a candidate, smaller first: (class or damage, distance)."""
    if mode == SORT_BIGGEST:
        return wp.vec2(-float(rules.sort_rank[c]), distance)
    if mode == SORT_DAMAGED:
        return wp.vec2(hp / rules.max_hp[c], distance)
    return wp.vec2(0.0, distance)


@wp.func
def key_after(a: wp.vec3, b: wp.vec3) -> bool:
    """Whether key a = (class, distance, index) comes after key b."""
    if a[0] != b[0]:
        return a[0] > b[0]
    if a[1] != b[1]:
        return a[1] > b[1]
    return a[2] > b[2]


@wp.func
def next_contact(
    rules: Rules, e: int, m: int, hostile: bool, mode: int, last: wp.vec3, visible: wp.array3d(dtype=wp.uint8),
    team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3),
) -> wp.vec3:
    """The first candidate after ``last`` in sort order, as its key; index -1 if there is none."""
    best = wp.vec3(0.0, 0.0, -1.0)
    for j in range(team.shape[1]):
        if visible[e, m, j] == wp.uint8(1) and (team[e, j] != team[e, m]) == hostile:
            k = contact_key(rules, mode, chassis[e, j], hp[e, j], wp.length(pos[e, j] - pos[e, m]))
            key = wp.vec3(k[0], k[1], float(j))
            if key_after(key, last) and (best[2] < 0.0 or key_after(best, key)):
                best = key
    return best


@wp.kernel
def fill_contacts(
    # rules
    rules: Rules, suite_slots: wp.array(dtype=wp.int32),
    # state in
    fresh: wp.array(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), visible: wp.array3d(dtype=wp.uint8),
    # controls
    sort_mode: wp.array2d(dtype=wp.int32), hostile_only: wp.array2d(dtype=wp.int32),
    # state out
    contact: wp.array3d(dtype=wp.int32),
):
    """Fill the contact slots of one mech; a dead one sees nothing and gets none."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    slots = suite_slots[chassis[e, m]]
    mode = sort_mode[e, m]
    n = int(0)
    start = wp.vec3(-1.0e30, -1.0e30, -1.0)
    friend = start
    more_friends = hostile_only[e, m] == 0
    while more_friends and n < wp.min(FRIENDLY_QUOTA, slots):
        found = next_contact(rules, e, m, False, mode, friend, visible, team, chassis, hp, pos)
        if found[2] < 0.0:
            more_friends = False
        else:
            friend = found
            contact[e, m, n] = int(found[2])
            n += 1
    foe = start
    more_foes = bool(True)
    while more_foes and n < slots:
        found = next_contact(rules, e, m, True, mode, foe, visible, team, chassis, hp, pos)
        if found[2] < 0.0:
            more_foes = False
        else:
            foe = found
            contact[e, m, n] = int(found[2])
            n += 1
    while more_friends and n < slots:
        found = next_contact(rules, e, m, False, mode, friend, visible, team, chassis, hp, pos)
        if found[2] < 0.0:
            more_friends = False
        else:
            friend = found
            contact[e, m, n] = int(found[2])
            n += 1
    for i in range(n, contact.shape[2]):
        contact[e, m, i] = -1
