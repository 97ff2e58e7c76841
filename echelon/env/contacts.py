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
UNRANKED = wp.constant(CONTACT_SLOTS + 1)
Ranking = wp.types.vector(length=CONTACT_SLOTS + 1, dtype=wp.int32)
Keys = wp.types.vector(length=CONTACT_SLOTS + 1, dtype=wp.float32)
"""One place more than there are slots, so that a full ranking ends in -1 too."""
Slots = wp.types.vector(length=CONTACT_SLOTS, dtype=wp.int32)


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
    rules: Rules, d: Display, view: wp.vec4, e: int, m: int, now: int, hostile: bool, but: int, mode: int, slots: int, visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), trace_pos: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4),
) -> Ranking:
    """The first candidates of one side in sort order without ``but``, at most ``slots``; -1 behind the last."""
    who = Ranking(-1)
    primary = Keys(0.0)
    secondary = Keys(0.0)
    n = int(0)
    if slots == 0:
        return who
    for j in range(team.shape[1]):
        if (team[e, j] != team[e, m]) == hostile and j != but:
            age = known_age(d, view, e, m, j, now, alive, visible, seen)
            if age >= 0:
                key = known_key(rules, d, view, e, m, j, age, now, mode, chassis, hp, pos, trace_pos, trace_body)
                if n < slots or goes_before(key, wp.vec2(primary[n - 1], secondary[n - 1]), 1.0):
                    at = wp.min(n, slots - 1)
                    while at > 0 and goes_before(key, wp.vec2(primary[at - 1], secondary[at - 1]), 1.0):
                        who[at] = who[at - 1]
                        primary[at] = primary[at - 1]
                        secondary[at] = secondary[at - 1]
                        at -= 1
                    who[at] = j
                    primary[at] = key[0]
                    secondary[at] = key[1]
                    n = wp.min(n + 1, slots)
    return who


@wp.func
def length_of(ranking: Ranking) -> int:
    """Mechs in a ranking."""
    n = int(0)
    while ranking[n] >= 0:
        n += 1
    return n


@wp.func
def place_of(ranking: Ranking, j: int) -> int:
    """Place of j in a ranking, ``UNRANKED`` if it is not among the first."""
    for i in range(CONTACT_SLOTS):
        if ranking[i] == j:
            return i
        if ranking[i] < 0:
            return UNRANKED
    return UNRANKED


@wp.func
def slot_of(held: Slots, j: int) -> int:
    """Slot of j, -1 if it has none."""
    for k in range(CONTACT_SLOTS):
        if held[k] == j:
            return k
    return -1


@wp.func
def count_of(held: Slots, e: int, m: int, hostile: bool, first: int, team: wp.array2d(dtype=wp.int32)) -> int:
    """Slots from ``first`` that one side has."""
    n = int(0)
    for k in range(first, CONTACT_SLOTS):
        if held[k] >= 0 and (team[e, wp.max(held[k], 0)] != team[e, m]) == hostile:
            n += 1
    return n


@wp.func
def last_of(held: Slots, ranking: Ranking, e: int, m: int, hostile: bool, first: int, team: wp.array2d(dtype=wp.int32)) -> int:
    """Slot of a side's last in sort order, -1 if it has none; of several that are not ranked, the last slot."""
    worst = int(-1)
    found = int(-1)
    for k in range(first, CONTACT_SLOTS):
        if held[k] >= 0 and (team[e, wp.max(held[k], 0)] != team[e, m]) == hostile:
            place = place_of(ranking, held[k])
            if place >= worst:
                worst = place
                found = k
    return found


@wp.func
def free_slot(held: Slots, hostile: bool, first: int, zone: int, slots: int, keeps: int) -> int:
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
        if held[k] < 0:
            return k
    for i in range(slots - first):
        k = first + i
        if not hostile:
            k = slots - 1 - i
        if held[k] < 0:
            return k
    return -1


@wp.func
def trimmed(held: Slots, ranking: Ranking, want: int, e: int, m: int, hostile: bool, first: int, team: wp.array2d(dtype=wp.int32)) -> Slots:
    """Take the last of a side from their slots, until it has no more than wanted."""
    n = count_of(held, e, m, hostile, first, team)
    while n > want:
        held[last_of(held, ranking, e, m, hostile, first, team)] = -1
        n -= 1
    return held


@wp.func
def seated(held: Slots, ranking: Ranking, want: int, e: int, m: int, hostile: bool, first: int, zone: int, slots: int, keeps: int, team: wp.array2d(dtype=wp.int32)) -> Slots:
    """Give slots to the first of a ranking who have none, until their side has as many as wanted."""
    at = int(0)
    n = count_of(held, e, m, hostile, first, team)
    while n < want:
        if slot_of(held, ranking[at]) < 0:
            k = free_slot(held, hostile, first, zone, slots, keeps)
            held[k] = ranking[at]
            n += 1
        at += 1
    return held


@wp.func
def raised(held: Slots, e: int, m: int, first: int, zone: int, slots: int, team: wp.array2d(dtype=wp.int32)) -> Slots:
    """Move hostiles from slots that target preferences cannot name to free ones that they can."""
    for k in range(NAMEABLE, slots):
        j = held[k]
        if j >= 0 and team[e, wp.max(j, 0)] != team[e, m]:
            free = free_slot(held, True, first, zone, slots, 1)
            if free >= 0 and free < NAMEABLE:
                held[free] = j
                held[k] = -1
    return held


@wp.func
def settled(
    held: Slots, ranking: Ranking, rules: Rules, d: Display, view: wp.vec4, e: int, m: int, now: int, hostile: bool, first: int, mode: int, visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), trace_pos: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4),
) -> Slots:
    """Let candidates without a slot replace the last of their side, and better ones move up, where the margin allows."""
    out = int(0)
    while ranking[out] >= 0:
        j = ranking[out]
        if slot_of(held, j) < 0:
            k = last_of(held, ranking, e, m, hostile, first, team)
            if k < 0:
                break
            i = held[k]
            if place_of(ranking, i) < out:
                break
            a = known_key(rules, d, view, e, m, j, known_age(d, view, e, m, j, now, alive, visible, seen), now, mode, chassis, hp, pos, trace_pos, trace_body)
            b = known_key(rules, d, view, e, m, i, known_age(d, view, e, m, i, now, alive, visible, seen), now, mode, chassis, hp, pos, trace_pos, trace_body)
            if not goes_before(a, b, d.margin):
                break
            held[k] = j
        out += 1
    at = int(0)
    done = int(0)
    for k in range(first, CONTACT_SLOTS):
        i = held[k]
        if i >= 0 and (team[e, wp.max(i, 0)] != team[e, m]) == hostile:
            while ranking[at] >= 0 and (((done >> at) & 1) == 1 or slot_of(held, ranking[at]) < 0):
                at += 1
            j = ranking[at]
            if j < 0 or j == i:
                done = done | (1 << at)
            else:
                a = known_key(rules, d, view, e, m, j, known_age(d, view, e, m, j, now, alive, visible, seen), now, mode, chassis, hp, pos, trace_pos, trace_body)
                b = known_key(rules, d, view, e, m, i, known_age(d, view, e, m, i, now, alive, visible, seen), now, mode, chassis, hp, pos, trace_pos, trace_body)
                if goes_before(a, b, d.margin):
                    other = slot_of(held, j)
                    held[other] = i
                    held[k] = j
                    done = done | (1 << at)
                else:
                    done = done | (1 << place_of(ranking, i))
    return held


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
        friends = Ranking(-1)
        if hostile_only[e, m] == 0:
            friends = ranked(rules, display, view, e, m, now, False, pin, mode, room, visible, seen, alive, team, chassis, hp, pos, trace_pos, trace_body)
        if display.keeps == 1:
            for k in range(first, slots):
                j = contact[e, m, k]
                if j >= 0 and j != pin and (hostile_only[e, m] == 0 or team[e, wp.max(j, 0)] != team[e, m]):
                    if known_age(display, view, e, m, j, now, alive, visible, seen) >= 0:
                        held[k] = j
        near = wp.min(FRIENDLY_QUOTA, length_of(friends))
        want_foes = wp.min(length_of(foes), room - near)
        want_friends = wp.min(length_of(friends), room - want_foes)
        held = trimmed(held, foes, want_foes, e, m, True, first, team)
        held = trimmed(held, friends, want_friends, e, m, False, first, team)
        zone = first + near
        held = seated(held, friends, near, e, m, False, first, zone, slots, display.keeps, team)
        held = seated(held, foes, want_foes, e, m, True, first, zone, slots, display.keeps, team)
        held = seated(held, friends, want_friends, e, m, False, first, zone, slots, display.keeps, team)
        if display.keeps == 1:
            held = raised(held, e, m, first, zone, slots, team)
            held = settled(held, foes, rules, display, view, e, m, now, True, first, mode, visible, seen, alive, team, chassis, hp, pos, trace_pos, trace_body)
            held = settled(held, friends, rules, display, view, e, m, now, False, first, mode, visible, seen, alive, team, chassis, hp, pos, trace_pos, trace_body)
    for k in range(contact.shape[2]):
        contact[e, m, k] = held[k]
