"""Which mechs fill a pilot's contact slots, and where.

Candidates are the visible living others and those remembered. Three friends come first, then hostiles, then the
remaining friends, each in the pilot's sort order with ties to the lower index; a hostile-only display holds hostiles
alone. Contacts keep their slots: one yields to a better of its side only by a margin, and within a side the order of
slots follows the sort order within the same margin. Filling twice in a decision changes nothing. The slots are what the
target preferences of the next action refer to.
"""

# ruff: noqa: E501
import warp as wp

from echelon.actions import TARGET_DIM
from echelon.env.alerts import alarm
from echelon.env.display import Display, confidence, freshness, known_age, viewing
from echelon.sim.state import CONTACT_SLOTS
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

FRIENDLY_QUOTA = wp.constant(3)
NAMEABLE = wp.constant(TARGET_DIM)
"""Slots that target preferences can name."""
SORT_BIGGEST = wp.constant(1)
SORT_DAMAGED = wp.constant(2)
UNRANKED = wp.constant(CONTACT_SLOTS)
Ranking = wp.types.vector(length=CONTACT_SLOTS + 1, dtype=wp.int32)
Keys = wp.types.vector(length=CONTACT_SLOTS + 1, dtype=wp.float32)
"""One place more than there are slots, so that a full ranking ends in -1 too."""
Slots = wp.types.vector(length=CONTACT_SLOTS, dtype=wp.int32)


@wp.struct
class Side:
    """The candidates of one side, ranked, and the slots that side holds; masks have a bit a slot."""

    who: Ranking
    """Mech in each place of the ranking, -1 behind the last."""
    primary: Keys
    secondary: Keys
    n: int
    """Candidates ranked."""
    slot: Ranking
    """Slot of each place, -1 none."""
    place: Slots
    """Place of each slot that the side holds, ``UNRANKED`` where its mech is not among the first."""
    mask: int
    """Slots held."""
    loose: int
    """Those of them whose mech is not ranked."""
    count: int


@wp.func
def contact_key(rules: Rules, mode: int, c: int, hp: float, distance: float, share: float) -> wp.vec2:
    """Sort key of a candidate, smaller first; one that keeps a share of its priority counts as farther, smaller, sounder."""
    if mode == SORT_BIGGEST:
        return wp.vec2(1.0 / float(rules.sort_rank[c]), distance) / share
    if mode == SORT_DAMAGED:
        return wp.vec2(hp / rules.max_hp[c], distance) / share
    return wp.vec2(distance, 0.0) / share


@wp.func
def known_key(
    rules: Rules, d: Display, view: wp.vec4, e: int, m: int, j: int, age: int, now: int, mode: int, chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), trace_pos: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4),
) -> wp.vec2:
    """Sort key of j by what m knows of it: as it is in sight, else as last seen."""
    p = pos[e, j]
    left = hp[e, j]
    if age > 0:
        k = (now - age) % trace_pos.shape[2]
        p = trace_pos[e, j, k]
        left = trace_body[e, j, k][1]
    share = freshness(d, view, age)
    if confidence(d, view, age) < d.faint:
        share *= d.faint
    return contact_key(rules, mode, chassis[e, j], left, wp.length(p - pos[e, m]), share)


@wp.func
def goes_before(a: wp.vec2, b: wp.vec2, margin: float) -> bool:
    """Whether key a comes before key b by a factor; equal keys keep the order of their mechs."""
    return a[0] * margin < b[0] or (a[0] == b[0] and a[1] * margin < b[1])


@wp.func
def ranked(
    rules: Rules, d: Display, view: wp.vec4, e: int, m: int, now: int, hostile: bool, but: int, mode: int, room: int, visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), trace_pos: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4),
) -> Side:
    """The first candidates of one side in sort order without ``but``, at most ``room``, none of them with a slot."""
    side = Side()
    side.who = Ranking(-1)
    side.slot = Ranking(-1)
    n = int(0)
    if room == 0:
        return side
    for j in range(team.shape[1]):
        if (team[e, j] != team[e, m]) == hostile and j != but:
            age = known_age(d, view, e, m, j, now, alive, visible, seen)
            if age >= 0:
                key = known_key(rules, d, view, e, m, j, age, now, mode, chassis, hp, pos, trace_pos, trace_body)
                if n < room or goes_before(key, wp.vec2(side.primary[n - 1], side.secondary[n - 1]), 1.0):
                    at = wp.min(n, room - 1)
                    while at > 0 and goes_before(key, wp.vec2(side.primary[at - 1], side.secondary[at - 1]), 1.0):
                        side.who[at] = side.who[at - 1]
                        side.primary[at] = side.primary[at - 1]
                        side.secondary[at] = side.secondary[at - 1]
                        at -= 1
                    side.who[at] = j
                    side.primary[at] = key[0]
                    side.secondary[at] = key[1]
                    n = wp.min(n + 1, room)
    side.n = n
    return side


@wp.func
def has(mask: int, k: int) -> bool:
    """Whether slot k is in a mask."""
    return ((mask >> k) & 1) == 1


@wp.func
def held_by(side: Side, held: Slots, e: int, m: int, hostile: bool, first: int, slots: int, team: wp.array2d(dtype=wp.int32)) -> Side:
    """The side with the slots that its mechs had."""
    hint = int(0)
    for k in range(first, slots):
        j = held[k]
        if j >= 0 and (team[e, wp.max(j, 0)] != team[e, m]) == hostile:
            found = int(UNRANKED)
            for i in range(side.n):
                # slots mostly follow the ranking, so the next place is likely
                at = hint + i
                if at >= side.n:
                    at -= side.n
                if found == UNRANKED and side.who[at] == j:
                    found = at
                    break
            side.place[k] = found
            side.mask = side.mask | (1 << k)
            side.count += 1
            if found == UNRANKED:
                side.loose = side.loose | (1 << k)
            else:
                side.slot[found] = k
                hint = found + 1
                if hint == side.n:
                    hint = 0
    return side


@wp.func
def last_of(side: Side) -> int:
    """Slot of a side's last in sort order, -1 if it has none; of several that are not ranked, the last slot."""
    if side.loose != 0:
        k = int(CONTACT_SLOTS - 1)
        while not has(side.loose, k):
            k -= 1
        return k
    at = side.n - 1
    while at >= 0 and side.slot[at] < 0:
        at -= 1
    if at < 0:
        return -1
    return side.slot[at]


@wp.func
def without(side: Side, k: int) -> Side:
    """The side after it gave up slot k."""
    if has(side.loose, k):
        side.loose = side.loose - (1 << k)
    else:
        side.slot[side.place[k]] = -1
    side.mask = side.mask - (1 << k)
    side.count -= 1
    return side


@wp.func
def trimmed(side: Side, want: int) -> Side:
    """Take the last of a side from their slots, until it has no more than wanted."""
    while side.count > want:
        side = without(side, last_of(side))
    return side


@wp.func
def free_slot(taken: int, hostile: bool, first: int, zone: int, slots: int, keeps: int) -> int:
    """The slot for a newcomer: friends from the front of their zone, else from the end; hostiles from behind the zone.

    So both sides have slots that target preferences can name, however many friends were there first.
    """
    low = first
    if keeps == 1 and hostile:
        low = zone
    high = slots
    if keeps == 1 and not hostile:
        high = zone
    for k in range(low, high):
        if not has(taken, k):
            return k
    for i in range(slots - first):
        k = first + i
        if not hostile:
            k = slots - 1 - i
        if not has(taken, k):
            return k
    return -1


@wp.func
def seated(side: Side, want: int, others: int, hostile: bool, first: int, zone: int, slots: int, keeps: int) -> Side:
    """Give slots to the first of a ranking who have none, until their side has as many as wanted."""
    at = int(0)
    while side.count < want:
        if side.slot[at] < 0:
            k = free_slot(side.mask | others, hostile, first, zone, slots, keeps)
            side.slot[at] = k
            side.place[k] = at
            side.mask = side.mask | (1 << k)
            side.count += 1
        at += 1
    return side


@wp.func
def raised(side: Side, others: int, first: int, zone: int, slots: int) -> Side:
    """Move hostiles from slots that target preferences cannot name to free ones that they can, the best first."""
    for at in range(side.n):
        k = side.slot[at]
        if k >= NAMEABLE:
            free = free_slot(side.mask | others, True, first, zone, slots, 1)
            if free < 0 or free >= NAMEABLE:
                return side
            side.slot[at] = free
            side.place[free] = at
            side.mask = (side.mask - (1 << k)) | (1 << free)
    return side


@wp.func
def key_at(side: Side, at: int) -> wp.vec2:
    """Sort key of a place."""
    return wp.vec2(side.primary[at], side.secondary[at])


@wp.func
def ordered(side: Side, margin: float, first: int, slots: int) -> Side:
    """Let better ones move up among the slots of their side where the margin allows."""
    at = int(0)
    done = int(0)
    for k in range(first, slots):
        if has(side.mask, k) and not has(side.loose, k):
            while at < side.n and (has(done, at) or side.slot[at] < 0):
                at += 1
            mine = side.place[k]
            if at != mine and goes_before(key_at(side, at), key_at(side, mine), margin):
                other = side.slot[at]
                side.slot[mine] = other
                side.place[other] = mine
                side.slot[at] = k
                side.place[k] = at
                done = done | (1 << at)
            else:
                done = done | (1 << mine)
    return side


@wp.func
def challenged(
    side: Side, held: Slots, rules: Rules, d: Display, view: wp.vec4, e: int, m: int, now: int, mode: int, visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), trace_pos: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4),
) -> Side:
    """Let candidates without a slot replace the last of their side where the margin allows."""
    for at in range(side.n):
        if side.slot[at] < 0:
            k = last_of(side)
            if k < 0:
                return side
            key = wp.vec2(0.0, 0.0)
            if has(side.loose, k):
                age = known_age(d, view, e, m, held[k], now, alive, visible, seen)
                key = known_key(rules, d, view, e, m, held[k], age, now, mode, chassis, hp, pos, trace_pos, trace_body)
            elif side.place[k] > at:
                key = key_at(side, side.place[k])
            if not goes_before(key_at(side, at), key, d.margin):
                return side
            side = without(side, k)
            side.slot[at] = k
            side.place[k] = at
            side.mask = side.mask | (1 << k)
            side.count += 1
    return side


@wp.func
def holder(side: Side, held: Slots, k: int) -> int:
    """Mech that a side has in slot k, -1 none."""
    if not has(side.mask, k):
        return -1
    if has(side.loose, k):
        return held[k]
    return side.who[side.place[k]]


@wp.kernel
def fill_contacts(
    # rules
    rules: Rules, display: Display, suite_slots: wp.array(dtype=wp.int32), suite_alerts: wp.array(dtype=wp.int32),
    # state in
    fresh: wp.array(dtype=wp.int32), decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32), sight: wp.array3d(dtype=wp.uint8), quality: wp.array2d(dtype=wp.float32), jam: wp.array2d(dtype=wp.float32), aid: wp.array2d(dtype=wp.float32), visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32), trace_pos: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4),
    # controls
    sort_mode: wp.array2d(dtype=wp.int32), hostile_only: wp.array2d(dtype=wp.int32),
    # state out
    contact: wp.array3d(dtype=wp.int32),
):
    """Fill the contact slots of one mech; a dead one knows nobody and gets none."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    held = Slots(-1)
    slots = suite_slots[chassis[e, m]] * alive[e, m]
    if slots > 0:
        now = decision[e]
        mode = sort_mode[e, m]
        view = viewing(display, quality[e, m], jam[e, m], aid[e, m])
        first = int(0)
        pin = int(-1)
        if suite_alerts[chassis[e, m]] == 1:
            pin = alarm(rules, display, view, e, m, now, alive, team, chassis, pos, vel, yaw, heat, stability, painted, painter, round_weapon, round_target, sight, visible, seen)
            if pin >= 0:
                held[0] = pin
                first = 1
        room = slots - first
        foes = ranked(rules, display, view, e, m, now, True, pin, mode, room, visible, seen, alive, team, chassis, hp, pos, trace_pos, trace_body)
        wanted = wp.where(hostile_only[e, m] == 0, room, 0)
        friends = ranked(rules, display, view, e, m, now, False, pin, mode, wanted, visible, seen, alive, team, chassis, hp, pos, trace_pos, trace_body)
        if display.keeps == 1:
            for k in range(first, slots):
                j = contact[e, m, k]
                if j >= 0 and j != pin and (hostile_only[e, m] == 0 or team[e, wp.max(j, 0)] != team[e, m]):
                    if known_age(display, view, e, m, j, now, alive, visible, seen) >= 0:
                        held[k] = j
            foes = held_by(foes, held, e, m, True, first, slots, team)
            friends = held_by(friends, held, e, m, False, first, slots, team)
        near = wp.min(FRIENDLY_QUOTA, friends.n)
        zone = first + near
        want_foes = wp.min(foes.n, room - near)
        want_friends = wp.min(friends.n, room - want_foes)
        foes = trimmed(foes, want_foes)
        friends = trimmed(friends, want_friends)
        friends = seated(friends, near, first | foes.mask, False, first, zone, slots, display.keeps)
        foes = seated(foes, want_foes, first | friends.mask, True, first, zone, slots, display.keeps)
        friends = seated(friends, want_friends, first | foes.mask, False, first, zone, slots, display.keeps)
        if display.keeps == 1:
            foes = raised(foes, first | friends.mask, first, zone, slots)
            foes = challenged(foes, held, rules, display, view, e, m, now, mode, visible, seen, alive, chassis, hp, pos, trace_pos, trace_body)
            friends = challenged(friends, held, rules, display, view, e, m, now, mode, visible, seen, alive, chassis, hp, pos, trace_pos, trace_body)
            foes = ordered(foes, display.margin, first, slots)
            friends = ordered(friends, display.margin, first, slots)
        for k in range(first, slots):
            held[k] = wp.max(holder(foes, held, k), holder(friends, held, k))
    for k in range(contact.shape[2]):
        contact[e, m, k] = held[k]
