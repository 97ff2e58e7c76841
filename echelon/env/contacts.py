"""Which mechs fill a pilot's contact slots, and in what order.

Candidates are the visible living others. Three friends come first, then hostiles, then the remaining friends, each
in the pilot's sort order with ties to the lower index; a hostile-only display holds hostiles alone. The slots are
what the target preferences of the next action refer to.
"""

# ruff: noqa: E501
import warp as wp

from echelon.sim.state import CONTACT_SLOTS
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

FRIENDLY_QUOTA = wp.constant(3)
SORT_BIGGEST = wp.constant(1)
SORT_DAMAGED = wp.constant(2)
Ranking = wp.types.vector(length=CONTACT_SLOTS + 1, dtype=wp.int32)
Keys = wp.types.vector(length=CONTACT_SLOTS + 1, dtype=wp.float32)
"""One place more than there are slots, so that a full ranking ends in -1 too."""


@wp.func
def contact_key(rules: Rules, mode: int, c: int, hp: float, distance: float) -> wp.vec2:
    """Sort key of a candidate, smaller first: (class or damage, distance)."""
    if mode == SORT_BIGGEST:
        return wp.vec2(-float(rules.sort_rank[c]), distance)
    if mode == SORT_DAMAGED:
        return wp.vec2(hp / rules.max_hp[c], distance)
    return wp.vec2(0.0, distance)


@wp.func
def goes_before(a: wp.vec2, b: wp.vec2) -> bool:
    """Whether key a comes before key b; equal keys keep the order of their mechs."""
    return a[0] < b[0] or (a[0] == b[0] and a[1] < b[1])


@wp.func
def ranked(
    rules: Rules, e: int, m: int, hostile: bool, mode: int, slots: int, visible: wp.array3d(dtype=wp.uint8),
    team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3),
) -> Ranking:
    """The first candidates of one side in sort order, at most ``slots``; -1 behind the last."""
    who = Ranking(-1)
    primary = Keys(0.0)
    secondary = Keys(0.0)
    n = int(0)
    for j in range(team.shape[1]):
        if visible[e, m, j] == wp.uint8(1) and (team[e, j] != team[e, m]) == hostile:
            key = contact_key(rules, mode, chassis[e, j], hp[e, j], wp.length(pos[e, j] - pos[e, m]))
            if n < slots or goes_before(key, wp.vec2(primary[n - 1], secondary[n - 1])):
                at = wp.min(n, slots - 1)
                while at > 0 and goes_before(key, wp.vec2(primary[at - 1], secondary[at - 1])):
                    who[at] = who[at - 1]
                    primary[at] = primary[at - 1]
                    secondary[at] = secondary[at - 1]
                    at -= 1
                who[at] = j
                primary[at] = key[0]
                secondary[at] = key[1]
                n = wp.min(n + 1, slots)
    return who


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
    foes = ranked(rules, e, m, True, sort_mode[e, m], slots, visible, team, chassis, hp, pos)
    friends = Ranking(-1)
    if hostile_only[e, m] == 0:
        friends = ranked(rules, e, m, False, sort_mode[e, m], slots, visible, team, chassis, hp, pos)
    n = int(0)
    friend = int(0)
    foe = int(0)
    while friend < wp.min(FRIENDLY_QUOTA, slots) and friends[friend] >= 0:
        contact[e, m, n] = friends[friend]
        friend += 1
        n += 1
    while n < slots and foes[foe] >= 0:
        contact[e, m, n] = foes[foe]
        foe += 1
        n += 1
    while n < slots and friends[friend] >= 0:
        contact[e, m, n] = friends[friend]
        friend += 1
        n += 1
    for i in range(n, contact.shape[2]):
        contact[e, m, i] = -1
