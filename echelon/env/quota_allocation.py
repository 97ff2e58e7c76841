# type: ignore
"""Contact slots by quotas (``env.display.fill=quotas``, and the classic layout).

Candidates are all living mechs that the observer sees or remembers. The first three friends in sort order get slots,
then hostiles, then the remaining friends; with a hostile-only display only hostiles. Ties go to the lower index.

Contacts keep their slots: a candidate without one replaces the worst contact of its side if its sort key is better by
the margin, the best candidate first. A side ranks at most as many candidates as there are slots; contacts among them
change their order by the same margin, the others stay in their slot until they are replaced. Allocating twice in a step
changes nothing. Target preferences of the next action refer to the slots.
"""

import warp as wp

from echelon.actions import TARGET_DIM
from echelon.env.contact_order import age_penalty, alerted_contact, precedes, sort_key, track_key
from echelon.env.display import DisplayRules, Suites, Viewer, known_age, make_viewer
from echelon.sim.state import CONTACT_SLOTS, Controls, Mechs, Rounds, Senses, Tracks
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

FRIENDLY_QUOTA = wp.constant(3)
HALF, LOW_HALF = wp.constant(wp.uint64(32)), wp.constant(wp.uint64(0xFFFFFFFF))
SELECTABLE = wp.constant(TARGET_DIM)
"""Slots that target preferences can select."""
UNRANKED = wp.constant(CONTACT_SLOTS)
Ranking = wp.types.vector(length=CONTACT_SLOTS + 1, dtype=wp.int32)
"""One entry more than there are slots, so that a full ranking ends in -1 too."""
Keys = wp.types.vector(length=CONTACT_SLOTS, dtype=wp.uint64)
"""Sort keys as numbers in the same order (``pack_key``)."""
Slots = wp.types.vector(length=CONTACT_SLOTS, dtype=wp.int32)
"""Mech of each contact slot, -1 empty."""
SlotOfRank = wp.types.vector(length=CONTACT_SLOTS + 1, dtype=wp.int8)
RankOfSlot = wp.types.vector(length=CONTACT_SLOTS, dtype=wp.int8)


@wp.struct
class Candidates:
    """The best candidates of one side in sort order."""

    mech: Ranking
    """Mech of each rank, -1 after the last."""
    key: Keys
    count: int
    """Candidates ranked."""


@wp.struct
class SideSlots:
    """The slots of one side; masks have a bit per slot."""

    slot: SlotOfRank
    """Slot of each rank of the side's candidates, -1 none."""
    rank: RankOfSlot
    """Rank of each slot's mech, from ``UNRANKED`` on if it is not among the best."""
    mask: int
    """Slots of this side."""
    unranked: int
    """Slots of this side whose mech is not among the best."""
    count: int


@wp.struct
class SlotRange:
    """The slots to fill: ``first`` to ``end``; friends are placed before ``friends_end`` while there is room."""

    first: int
    friends_end: int
    end: int
    keeps: int
    """1 if contacts keep their slots, which separates friends from hostiles."""


@wp.struct
class ContactObserver:
    """An observer with all that its contacts are sorted by."""

    rules: Rules
    display: DisplayRules
    viewer: Viewer
    mechs: Mechs
    senses: Senses
    tracks: Tracks
    sort_mode: int


@wp.func
def pack_key(key: wp.vec2) -> wp.uint64:
    """Return a sort key, whose parts are not negative, as a number: of floats of one sign the bits have the order."""
    return (wp.uint64(wp.cast(key[0], wp.uint32)) << HALF) | wp.uint64(wp.cast(key[1], wp.uint32))


@wp.func
def key_at(side: Candidates, at: int) -> wp.vec2:
    bits = side.key[at]
    return wp.vec2(wp.cast(wp.uint32(bits >> HALF), wp.float32), wp.cast(wp.uint32(bits & LOW_HALF), wp.float32))


@wp.func
def remembered_key(o: ContactObserver, j: int, age: int) -> wp.vec2:
    return track_key(o.rules, o.display, o.viewer, o.mechs, o.tracks, j, age, o.sort_mode)


@wp.func
def rank_candidates(o: ContactObserver, hostile: bool, excluded: int, limit: int) -> Candidates:
    """Return the best ``limit`` candidates of one side in sort order, without mech ``excluded``."""
    # vectors of their own, since reading an element of a struct's vector copies the vector
    ranked = Ranking(-1)
    keys = Keys()
    n = int(0)
    e = o.viewer.env
    m = o.viewer.mech
    here = o.mechs.pos[e, m]
    penalty = age_penalty(o.display, o.viewer, 0)
    team = o.mechs.team[e, m]
    for j in range(wp.where(limit > 0, o.mechs.team.shape[1], 0)):
        if (o.mechs.team[e, j] != team) == hostile and j != excluded:
            age = known_age(o.display, o.viewer, o.mechs, o.senses, j)
            if age >= 0:
                key = wp.vec2(0.0, 0.0)
                if age == 0:
                    distance = wp.length(o.mechs.pos[e, j] - here)
                    key = sort_key(o.rules, o.sort_mode, o.mechs.chassis[e, j], o.mechs.hp[e, j], distance, penalty)
                else:
                    key = remembered_key(o, j, age)
                bits = pack_key(key)
                if n < limit or bits < keys[n - 1]:
                    at = wp.min(n, limit - 1)
                    while at > 0 and bits < keys[at - 1]:
                        ranked[at] = ranked[at - 1]
                        keys[at] = keys[at - 1]
                        at -= 1
                    ranked[at] = j
                    keys[at] = bits
                    n = wp.min(n + 1, limit)
    side = Candidates()
    side.mech = ranked
    side.key = keys
    side.count = n
    return side


@wp.func
def has_bit(mask: int, k: int) -> bool:
    return ((mask >> k) & 1) == 1


@wp.func
def slots_of_side(side: Candidates, o: ContactObserver, previous: Slots, hostile: bool, r: SlotRange) -> SideSlots:
    """Return the slots that mechs of one side hold in ``previous``."""
    e = o.viewer.env
    owned = SideSlots()
    owned.slot = SlotOfRank(wp.int8(-1))
    hint = int(0)
    for k in range(r.first, r.end):
        j = previous[k]
        if j >= 0 and (o.mechs.team[e, wp.max(j, 0)] != o.mechs.team[e, o.viewer.mech]) == hostile:
            found = int(UNRANKED)
            for i in range(side.count):
                # slots mostly follow the ranking: try the rank after the last one found first
                at = hint + i
                if at >= side.count:
                    at -= side.count
                if found == UNRANKED and side.mech[at] == j:
                    found = at
                    break
            owned.rank[k] = wp.int8(found)
            owned.mask = owned.mask | (1 << k)
            owned.count += 1
            if found == UNRANKED:
                owned.unranked = owned.unranked | (1 << k)
            else:
                owned.slot[found] = wp.int8(k)
                hint = found + 1
                if hint == side.count:
                    hint = 0
    return owned


@wp.func
def order_unranked(owned: SideSlots, previous: Slots, o: ContactObserver) -> SideSlots:
    """Rank the unranked mechs of a side from ``UNRANKED`` on, the best first, equal ones by index."""
    if (owned.unranked & (owned.unranked - 1)) == 0:
        return owned
    keys = Keys()
    for k in range(CONTACT_SLOTS):
        if has_bit(owned.unranked, k):
            j = previous[k]
            keys[k] = pack_key(remembered_key(o, j, known_age(o.display, o.viewer, o.mechs, o.senses, j)))
            for q in range(k):
                if has_bit(owned.unranked, q):
                    worse = int(q)
                    if keys[q] < keys[k] or (keys[q] == keys[k] and previous[q] < j):
                        worse = k
                    owned.rank[worse] = owned.rank[worse] + wp.int8(1)
    return owned


@wp.func
def worst_slot(side: Candidates, owned: SideSlots) -> int:
    """Return the slot of a side's worst mech, -1 if it has none."""
    if owned.unranked != 0:
        worst = int(-1)
        for k in range(CONTACT_SLOTS):
            if has_bit(owned.unranked, k) and (worst < 0 or owned.rank[k] > owned.rank[wp.max(worst, 0)]):
                worst = k
        return worst
    at = side.count - 1
    while at >= 0 and int(owned.slot[at]) < 0:
        at -= 1
    if at < 0:
        return -1
    return int(owned.slot[at])


@wp.func
def release_slot(owned: SideSlots, k: int) -> SideSlots:
    if has_bit(owned.unranked, k):
        owned.unranked = owned.unranked - (1 << k)
    else:
        owned.slot[int(owned.rank[k])] = wp.int8(-1)
    owned.mask = owned.mask - (1 << k)
    owned.count -= 1
    return owned


@wp.func
def take_slot(owned: SideSlots, at: int, k: int) -> SideSlots:
    owned.slot[at] = wp.int8(k)
    owned.rank[k] = wp.int8(at)
    owned.mask = owned.mask | (1 << k)
    owned.count += 1
    return owned


@wp.func
def trim_slots(side: Candidates, owned: SideSlots, limit: int) -> SideSlots:
    """Release the slots of a side's worst mechs until it has at most ``limit``."""
    while owned.count > limit:
        owned = release_slot(owned, worst_slot(side, owned))
    return owned


@wp.func
def free_slot(taken: int, hostile: bool, r: SlotRange) -> int:
    """Return a free slot for a new contact, -1 if there is none.

    Friends fill the front of the range, then its end; hostiles follow the friends' part. Both sides so have slots that
    target preferences can select.
    """
    low = r.first
    if r.keeps == 1 and hostile:
        low = r.friends_end
    high = r.end
    if r.keeps == 1 and not hostile:
        high = r.friends_end
    for k in range(low, high):
        if not has_bit(taken, k):
            return k
    for i in range(r.end - r.first):
        k = r.first + i
        if not hostile:
            k = r.end - 1 - i
        if not has_bit(taken, k):
            return k
    return -1


@wp.func
def fill_slots(owned: SideSlots, count: int, taken: int, hostile: bool, r: SlotRange) -> SideSlots:
    """Give free slots to the best candidates without one until the side has ``count``; ``taken`` is excluded."""
    at = int(0)
    while owned.count < count:
        if int(owned.slot[at]) < 0:
            owned = take_slot(owned, at, free_slot(owned.mask | taken, hostile, r))
        at += 1
    return owned


@wp.func
def move_to_selectable(side: Candidates, owned: SideSlots, taken: int, r: SlotRange) -> SideSlots:
    """Move hostiles, the best first, to free slots that target preferences can select."""
    for at in range(side.count):
        k = int(owned.slot[at])
        if k >= SELECTABLE:
            free = free_slot(owned.mask | taken, True, r)
            if free < 0 or free >= SELECTABLE:
                return owned
            owned.slot[at] = wp.int8(free)
            owned.rank[free] = wp.int8(at)
            owned.mask = (owned.mask - (1 << k)) | (1 << free)
    return owned


@wp.func
def reorder_slots(side: Candidates, owned: SideSlots, margin: float, r: SlotRange) -> SideSlots:
    """Exchange slots within a side where a later mech is better by the margin."""
    at = int(0)
    done = int(0)
    for k in range(r.first, r.end):
        if has_bit(owned.mask, k) and not has_bit(owned.unranked, k):
            while at < side.count and (has_bit(done, at) or int(owned.slot[at]) < 0):
                at += 1
            current = int(owned.rank[k])
            if at != current and precedes(key_at(side, at), key_at(side, current), margin):
                other = int(owned.slot[at])
                owned.slot[current] = wp.int8(other)
                owned.rank[other] = wp.int8(current)
                owned.slot[at] = wp.int8(k)
                owned.rank[k] = wp.int8(at)
                done = done | (1 << at)
            else:
                done = done | (1 << current)
    return owned


@wp.func
def replace_worse(side: Candidates, owned: SideSlots, previous: Slots, o: ContactObserver) -> SideSlots:
    """Give the worst slots of a side to candidates without a slot that are better by the margin."""
    for at in range(side.count):
        if int(owned.slot[at]) < 0:
            k = worst_slot(side, owned)
            if k < 0:
                return owned
            key = wp.vec2(0.0, 0.0)
            if has_bit(owned.unranked, k):
                key = remembered_key(o, previous[k], known_age(o.display, o.viewer, o.mechs, o.senses, previous[k]))
            elif int(owned.rank[k]) > at:
                key = key_at(side, int(owned.rank[k]))
            if not precedes(key_at(side, at), key, o.display.better):
                return owned
            owned = take_slot(release_slot(owned, k), at, k)
    return owned


@wp.func
def mech_in_slot(side: Candidates, owned: SideSlots, previous: Slots, k: int) -> int:
    """Return the mech that a side has in slot ``k``, -1 none."""
    if not has_bit(owned.mask, k):
        return -1
    if has_bit(owned.unranked, k):
        return previous[k]
    return side.mech[int(owned.rank[k])]


@wp.func
def known_contacts(o: ContactObserver, controls: Controls, first: int, end: int, alerted: int) -> Slots:
    """Return the contacts in slots ``first`` to ``end`` that may stay: known, not filtered, not the alerted one."""
    e = o.viewer.env
    m = o.viewer.mech
    previous = Slots(-1)
    for k in range(first, end):
        j = controls.contact[e, m, k]
        if j >= 0 and j != alerted:
            hostile = o.mechs.team[e, wp.max(j, 0)] != o.mechs.team[e, m]
            known = known_age(o.display, o.viewer, o.mechs, o.senses, j) >= 0
            if known and (controls.hostile_only[e, m] == 0 or hostile):
                previous[k] = j
    return previous


@wp.func
def allocate(o: ContactObserver, controls: Controls, slots: int, alerted: int) -> Slots:
    """Return the contacts of an observer with ``slots`` slots; the alerted mech, -1 none, is in slot 0."""
    # also the mask of the slots that the alert takes
    first = wp.where(alerted >= 0, 1, 0)
    free = slots - first
    hostiles = rank_candidates(o, True, alerted, free)
    friend_limit = wp.where(controls.hostile_only[o.viewer.env, o.viewer.mech] == 0, free, 0)
    friends = rank_candidates(o, False, alerted, friend_limit)
    previous = Slots(-1)
    if o.display.keeps_slots == 1:
        previous = known_contacts(o, controls, first, slots, alerted)
    quota = wp.min(FRIENDLY_QUOTA, friends.count)
    r = SlotRange(first, first + quota, slots, o.display.keeps_slots)
    hostile_slots = slots_of_side(hostiles, o, previous, True, r)
    friend_slots = slots_of_side(friends, o, previous, False, r)
    hostile_slots = order_unranked(hostile_slots, previous, o)
    friend_slots = order_unranked(friend_slots, previous, o)
    hostile_count = wp.min(hostiles.count, free - quota)
    friend_count = wp.min(friends.count, free - hostile_count)
    hostile_slots = trim_slots(hostiles, hostile_slots, hostile_count)
    friend_slots = trim_slots(friends, friend_slots, friend_count)
    friend_slots = fill_slots(friend_slots, quota, first | hostile_slots.mask, False, r)
    hostile_slots = fill_slots(hostile_slots, hostile_count, first | friend_slots.mask, True, r)
    friend_slots = fill_slots(friend_slots, friend_count, first | hostile_slots.mask, False, r)
    if o.display.keeps_slots == 1:
        hostile_slots = move_to_selectable(hostiles, hostile_slots, first | friend_slots.mask, r)
        hostile_slots = replace_worse(hostiles, hostile_slots, previous, o)
        friend_slots = replace_worse(friends, friend_slots, previous, o)
        hostile_slots = reorder_slots(hostiles, hostile_slots, o.display.better, r)
        friend_slots = reorder_slots(friends, friend_slots, o.display.better, r)
    filled = Slots(-1)
    if alerted >= 0:
        filled[0] = alerted
    for k in range(first, slots):
        hostile = mech_in_slot(hostiles, hostile_slots, previous, k)
        filled[k] = wp.max(hostile, mech_in_slot(friends, friend_slots, previous, k))
    return filled


@wp.kernel
def allocate_by_quota(
    rules: Rules,
    display: DisplayRules,
    suites: Suites,
    decision: wp.array(dtype=wp.int32),
    mechs: Mechs,
    controls: Controls,
    rounds: Rounds,
    senses: Senses,
    tracks: Tracks,
    fresh: wp.array(dtype=wp.int32),
    contact_out: wp.array3d(dtype=wp.int32),
):
    """Fill the contact slots of one mech; a dead one gets none."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    c = mechs.chassis[e, m]
    slots = suites.suite_slots[c] * mechs.alive[e, m]
    viewer = make_viewer(display, senses, e, m, decision[e])
    alerted = int(-1)
    if suites.suite_alerts[c] * mechs.alive[e, m] == 1:
        alerted = alerted_contact(rules, display, viewer, mechs, rounds, senses)
        if alerted >= 0:
            slots = suites.alert_slots[c]
    filled = Slots(-1)
    if slots > 0:
        o = ContactObserver(rules, display, viewer, mechs, senses, tracks, controls.sort_mode[e, m])
        filled = allocate(o, controls, slots, alerted)
    for k in range(contact_out.shape[2]):
        contact_out[e, m, k] = filled[k]
