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
from echelon.env.alerts import alerted_contact
from echelon.env.display import Display, confidence, known_age, priority_share, sensor_view
from echelon.sim.state import CONTACT_SLOTS
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

FRIENDLY_QUOTA = wp.constant(3)
NAMEABLE = wp.constant(TARGET_DIM)
"""Slots that target preferences can name."""
SORT_BIGGEST = wp.constant(1)
SORT_DAMAGED = wp.constant(2)
UNRANKED = wp.constant(CONTACT_SLOTS)
SLACK = wp.constant(1.0e-6)
"""Rounding of a confidence: whole seconds of age make some that stand exactly at the limit."""
Ranking = wp.types.vector(length=CONTACT_SLOTS + 1, dtype=wp.int32)
Keys = wp.types.vector(length=CONTACT_SLOTS + 1, dtype=wp.float32)
"""One place more than there are slots, so that a full ranking ends in -1 too."""
Slots = wp.types.vector(length=CONTACT_SLOTS, dtype=wp.int32)


SlotOfPlace = wp.types.vector(length=CONTACT_SLOTS + 1, dtype=wp.int8)
PlaceOfSlot = wp.types.vector(length=CONTACT_SLOTS, dtype=wp.int8)


@wp.struct
class Side:
    """The candidates of one side in sort order."""

    who: Ranking
    """Mech in each place, -1 behind the last."""
    primary: Keys
    secondary: Keys
    n: int
    """Candidates ranked."""


@wp.struct
class Seats:
    """The slots that one side holds; masks have a bit a slot."""

    slot: SlotOfPlace
    """Slot of each place in the side's ranking, -1 none."""
    place: PlaceOfSlot
    """Place of each slot that the side holds, ``UNRANKED`` where its mech is not among the first."""
    mask: int
    """Slots held."""
    loose: int
    """Those of them whose mech is not ranked."""
    count: int


@wp.func
def contact_key(rules: Rules, mode: int, c: int, hp: float, distance: float, weight: float) -> wp.vec2:
    """Sort key of a candidate, smaller first; one of less priority weighs as much more as if it were farther."""
    if mode == SORT_BIGGEST:
        return weight * wp.vec2(1.0 / float(rules.sort_rank[c]), distance)
    if mode == SORT_DAMAGED:
        return weight * wp.vec2(hp / rules.max_hp[c], distance)
    return wp.vec2(weight * distance, 0.0)


@wp.func
def weight_of(d: Display, view: wp.vec4, age: int) -> float:
    """One over the share of its priority that a track of this age keeps."""
    share = priority_share(d, view, age)
    if confidence(d, view, age) < d.faint - SLACK:
        share *= d.faint
    return 1.0 / share


@wp.func
def known_key(
    rules: Rules, d: Display, view: wp.vec4, e: int, m: int, j: int, age: int, now: int, mode: int, chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), trace_pos: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4),
) -> wp.vec2:
    """Sort key of j by what m knows of it: as it is in sight, else as last seen."""
    if age == 0:
        return contact_key(rules, mode, chassis[e, j], hp[e, j], wp.length(pos[e, j] - pos[e, m]), weight_of(d, view, 0))
    k = (now - age) % trace_pos.shape[1]
    distance = wp.length(trace_pos[e, k, j] - pos[e, m])
    return contact_key(rules, mode, chassis[e, j], trace_body[e, k, j][1], distance, weight_of(d, view, age))


@wp.func
def goes_before(a: wp.vec2, b: wp.vec2, margin: float) -> bool:
    """Whether key a comes before key b by a factor; equal keys keep the order of their mechs."""
    return a[0] * margin < b[0] or (a[0] == b[0] and a[1] * margin < b[1])


@wp.func
def ranked(
    rules: Rules, d: Display, view: wp.vec4, e: int, m: int, now: int, hostile: bool, but: int, mode: int, room: int, visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), trace_pos: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4),
) -> Side:
    """The first candidates of one side in sort order without ``but``, at most ``room``."""
    side = Side()
    side.who = Ranking(-1)
    n = int(0)
    if room == 0:
        return side
    here = pos[e, m]
    weight = weight_of(d, view, 0)
    for j in range(team.shape[1]):
        if (team[e, j] != team[e, m]) == hostile and j != but:
            age = known_age(d, view, e, m, j, now, alive, visible, seen)
            if age >= 0:
                key = wp.vec2(0.0, 0.0)
                if age == 0:
                    key = contact_key(rules, mode, chassis[e, j], hp[e, j], wp.length(pos[e, j] - here), weight)
                else:
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
def held_by(side: Side, held: Slots, e: int, m: int, hostile: bool, first: int, slots: int, team: wp.array2d(dtype=wp.int32)) -> Seats:
    """The slots that a side's mechs had."""
    seats = Seats()
    seats.slot = SlotOfPlace(wp.int8(-1))
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
            seats.place[k] = wp.int8(found)
            seats.mask = seats.mask | (1 << k)
            seats.count += 1
            if found == UNRANKED:
                seats.loose = seats.loose | (1 << k)
            else:
                seats.slot[found] = wp.int8(k)
                hint = found + 1
                if hint == side.n:
                    hint = 0
    return seats


@wp.func
def last_of(side: Side, seats: Seats) -> int:
    """Slot of a side's last in sort order, -1 if it has none; of several that are not ranked, the last slot."""
    if seats.loose != 0:
        k = int(CONTACT_SLOTS - 1)
        while not has(seats.loose, k):
            k -= 1
        return k
    at = side.n - 1
    while at >= 0 and int(seats.slot[at]) < 0:
        at -= 1
    if at < 0:
        return -1
    return int(seats.slot[at])


@wp.func
def without(seats: Seats, k: int) -> Seats:
    """The side after it gave up slot k."""
    if has(seats.loose, k):
        seats.loose = seats.loose - (1 << k)
    else:
        seats.slot[int(seats.place[k])] = wp.int8(-1)
    seats.mask = seats.mask - (1 << k)
    seats.count -= 1
    return seats


@wp.func
def trimmed(side: Side, seats: Seats, want: int) -> Seats:
    """Take the last of a side from their slots, until it has no more than wanted."""
    while seats.count > want:
        seats = without(seats, last_of(side, seats))
    return seats


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
def seated(seats: Seats, want: int, others: int, hostile: bool, first: int, zone: int, slots: int, keeps: int) -> Seats:
    """Give slots to the first of a ranking who have none, until their side has as many as wanted."""
    at = int(0)
    while seats.count < want:
        if int(seats.slot[at]) < 0:
            k = free_slot(seats.mask | others, hostile, first, zone, slots, keeps)
            seats.slot[at] = wp.int8(k)
            seats.place[k] = wp.int8(at)
            seats.mask = seats.mask | (1 << k)
            seats.count += 1
        at += 1
    return seats


@wp.func
def raised(side: Side, seats: Seats, others: int, first: int, zone: int, slots: int) -> Seats:
    """Move hostiles from slots that target preferences cannot name to free ones that they can, the best first."""
    for at in range(side.n):
        k = int(seats.slot[at])
        if k >= NAMEABLE:
            free = free_slot(seats.mask | others, True, first, zone, slots, 1)
            if free < 0 or free >= NAMEABLE:
                return seats
            seats.slot[at] = wp.int8(free)
            seats.place[free] = wp.int8(at)
            seats.mask = (seats.mask - (1 << k)) | (1 << free)
    return seats


@wp.func
def key_at(side: Side, at: int) -> wp.vec2:
    """Sort key of a place."""
    return wp.vec2(side.primary[at], side.secondary[at])


@wp.func
def ordered(side: Side, seats: Seats, margin: float, first: int, slots: int) -> Seats:
    """Let better ones move up among the slots of their side where the margin allows."""
    at = int(0)
    done = int(0)
    for k in range(first, slots):
        if has(seats.mask, k) and not has(seats.loose, k):
            while at < side.n and (has(done, at) or int(seats.slot[at]) < 0):
                at += 1
            mine = int(seats.place[k])
            if at != mine and goes_before(key_at(side, at), key_at(side, mine), margin):
                other = int(seats.slot[at])
                seats.slot[mine] = wp.int8(other)
                seats.place[other] = wp.int8(mine)
                seats.slot[at] = wp.int8(k)
                seats.place[k] = wp.int8(at)
                done = done | (1 << at)
            else:
                done = done | (1 << mine)
    return seats


@wp.func
def challenged(
    side: Side, seats: Seats, held: Slots, rules: Rules, d: Display, view: wp.vec4, e: int, m: int, now: int, mode: int, visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), trace_pos: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4),
) -> Seats:
    """Let candidates without a slot replace the last of their side where the margin allows."""
    for at in range(side.n):
        if int(seats.slot[at]) < 0:
            k = last_of(side, seats)
            if k < 0:
                return seats
            key = wp.vec2(0.0, 0.0)
            if has(seats.loose, k):
                age = known_age(d, view, e, m, held[k], now, alive, visible, seen)
                key = known_key(rules, d, view, e, m, held[k], age, now, mode, chassis, hp, pos, trace_pos, trace_body)
            elif int(seats.place[k]) > at:
                key = key_at(side, int(seats.place[k]))
            if not goes_before(key_at(side, at), key, d.margin):
                return seats
            seats = without(seats, k)
            seats.slot[at] = wp.int8(k)
            seats.place[k] = wp.int8(at)
            seats.mask = seats.mask | (1 << k)
            seats.count += 1
    return seats


@wp.func
def holder(side: Side, seats: Seats, held: Slots, k: int) -> int:
    """Mech that a side has in slot k, -1 none."""
    if not has(seats.mask, k):
        return -1
    if has(seats.loose, k):
        return held[k]
    return side.who[int(seats.place[k])]


@wp.kernel
def allocate_by_quota(
    # rules
    rules: Rules, display: Display, suite_slots: wp.array(dtype=wp.int32), suite_alerts: wp.array(dtype=wp.int32), alert_slots: wp.array(dtype=wp.int32),
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
    now = decision[e]
    view = sensor_view(display, quality[e, m], jam[e, m], aid[e, m])
    pin = int(-1)
    if suite_alerts[chassis[e, m]] * alive[e, m] == 1:
        pin = alerted_contact(rules, display, view, e, m, now, alive, team, chassis, pos, vel, yaw, heat, stability, painted, painter, round_weapon, round_target, sight, visible, seen)
        if pin >= 0:
            slots = alert_slots[chassis[e, m]]
    if slots > 0:
        mode = sort_mode[e, m]
        first = wp.where(pin >= 0, 1, 0)
        if pin >= 0:
            held[0] = pin
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
        foe_seats = held_by(foes, held, e, m, True, first, slots, team)
        friend_seats = held_by(friends, held, e, m, False, first, slots, team)
        near = wp.min(FRIENDLY_QUOTA, friends.n)
        zone = first + near
        want_foes = wp.min(foes.n, room - near)
        want_friends = wp.min(friends.n, room - want_foes)
        foe_seats = trimmed(foes, foe_seats, want_foes)
        friend_seats = trimmed(friends, friend_seats, want_friends)
        friend_seats = seated(friend_seats, near, first | foe_seats.mask, False, first, zone, slots, display.keeps)
        foe_seats = seated(foe_seats, want_foes, first | friend_seats.mask, True, first, zone, slots, display.keeps)
        friend_seats = seated(friend_seats, want_friends, first | foe_seats.mask, False, first, zone, slots, display.keeps)
        if display.keeps == 1:
            foe_seats = raised(foes, foe_seats, first | friend_seats.mask, first, zone, slots)
            foe_seats = challenged(foes, foe_seats, held, rules, display, view, e, m, now, mode, visible, seen, alive, chassis, hp, pos, trace_pos, trace_body)
            friend_seats = challenged(friends, friend_seats, held, rules, display, view, e, m, now, mode, visible, seen, alive, chassis, hp, pos, trace_pos, trace_body)
            foe_seats = ordered(foes, foe_seats, display.margin, first, slots)
            friend_seats = ordered(friends, friend_seats, display.margin, first, slots)
        for k in range(first, slots):
            held[k] = wp.max(holder(foes, foe_seats, held, k), holder(friends, friend_seats, held, k))
    for k in range(contact.shape[2]):
        contact[e, m, k] = held[k]
