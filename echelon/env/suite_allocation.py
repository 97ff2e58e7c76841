# type: ignore
"""Contact slots by suite rules (``env.display.fill=suite``).

Each suite's row in ``echelon.env.suites`` gives every slot a ``FillRule``. Slots of one rule are filled together, in
the order of the row. A contact keeps its slot while the rule accepts it and no better one comes by the margin; slots
that a rule leaves empty are filled by REST. Allocating twice in a step changes nothing.
"""

import warp as wp

from echelon.config import EnvConfig
from echelon.env import quota_allocation
from echelon.env.contact_order import age_penalty, alerted_contact, has_missile_on, precedes, sort_key
from echelon.env.display import DisplayRules, Suites, allocates_by_suite, known_age, make_viewer
from echelon.env.observe.contacts import painter_is_packmate
from echelon.env.quota_allocation import ContactObserver, Slots
from echelon.env.suites import FillRule
from echelon.sim.backend import Launch, in_phase
from echelon.sim.geometry import cos_sin, xy_length
from echelon.sim.state import CONTACT_SLOTS, PACK, Controls, Episode, Mechs, Rounds, Senses, Tracks, World
from echelon.sim.structs import Field
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

REST, SORTED, THREAT, NEWEST = (wp.constant(int(r)) for r in list(FillRule)[:4])
AIMING, FRIENDS, OBJECTIVE, ALERT = (wp.constant(int(r)) for r in list(FillRule)[4:8])
FIRE_LINE, DESIGNATED, ALLIES = (wp.constant(int(r)) for r in list(FillRule)[8:])
CLEAR = wp.constant(wp.uint8(1))
REJECTED = wp.constant(-1.0)
"""Group of a mech that a rule does not accept."""

FIELDS: dict[str, Field] = {
    "known_since": Field(
        wp.int32, "EMM", "step since which mech 1 has known of mech 2 without a gap, -1 if it does not"
    )
}


@wp.struct
class SlotRequest:
    """One rule to fill slots by, with the observer's filter."""

    rule: int
    mask: int
    """Slots to fill."""
    end: int
    """Slots of the display."""
    hostile_only: int
    alerted: int
    """Mech of the most urgent alert, -1 none."""


@wp.struct
class Battle:
    """What the rules of suites read beside the observer's contacts."""

    world: World
    suites: Suites
    controls: Controls
    rounds: Rounds
    known_since: wp.array3d(dtype=wp.int32)


def fields(cfg: EnvConfig) -> dict[str, Field]:
    return FIELDS if allocates_by_suite(cfg) else {}


def allocation_launches(cfg: EnvConfig, fresh: str) -> list[Launch]:
    given = {"fresh": fresh}
    if not allocates_by_suite(cfg):
        return in_phase("sensing", [Launch(quota_allocation.allocate_by_quota, "EM", given)])
    return in_phase("sensing", [Launch(update_known_since, "EM", given), Launch(allocate_by_suite, "EM", given)])


@wp.kernel
def update_known_since(
    display: DisplayRules,
    episode: Episode,
    mechs: Mechs,
    senses: Senses,
    fresh: wp.array(dtype=wp.int32),
    known_since_out: wp.array3d(dtype=wp.int32),
):
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    step = episode.decision[e]
    viewer = make_viewer(display, senses, e, m, step)
    for j in range(mechs.alive.shape[1]):
        if mechs.alive[e, m] == 0 or known_age(display, viewer, mechs, senses, j) < 0:
            known_since_out[e, m, j] = -1
        elif step == 0 or known_since_out[e, m, j] < 0:
            known_since_out[e, m, j] = step


@wp.func
def aims_at(o: ContactObserver, rounds: Rounds, j: int, age: int) -> bool:
    """Whether mech j attacks the observer: by a missile in flight, by paint, or by facing it in sight."""
    e = o.viewer.env
    m = o.viewer.mech
    if has_missile_on(o.rules, rounds, e, j, m) or (o.mechs.painted[e, m] > 0 and o.mechs.painter[e, m] == j):
        return True
    if age > 0:
        return False
    r = o.mechs.pos[e, m] - o.mechs.pos[e, j]
    cs = cos_sin(o.mechs.yaw[e, j])
    return r[0] * cs[0] + r[1] * cs[1] >= o.display.aim_cos * xy_length(r)


@wp.func
def is_pack_leader(mechs: Mechs, e: int, m: int, j: int) -> bool:
    first = m - m % PACK
    for k in range(first, first + PACK):
        if mechs.alive[e, k] == 1:
            return k == j
    return False


@wp.func
def rule_accepts_side(rule: int, hostile: bool, hostile_only: int) -> bool:
    """Whether a rule takes mechs of a side, with the observer's filter."""
    if rule == REST or rule == SORTED or rule == NEWEST:
        return hostile or hostile_only == 0
    if rule == FRIENDS or rule == ALLIES:
        return not hostile and hostile_only == 0
    return hostile


@wp.func
def contact_key(request: SlotRequest, o: ContactObserver, b: Battle, j: int) -> wp.vec3:
    """Return (group, primary key, secondary key) of mech j under a rule, lower first; group REJECTED excludes it."""
    e = o.viewer.env
    m = o.viewer.mech
    rule = request.rule
    rejected = wp.vec3(REJECTED, 0.0, 0.0)
    age = known_age(o.display, o.viewer, o.mechs, o.senses, j)
    if age < 0:
        return rejected
    if rule == ALERT:
        return wp.vec3(wp.where(j == request.alerted, 0.0, REJECTED), 0.0, 0.0)
    hostile = o.mechs.team[e, j] != o.mechs.team[e, m]
    if not rule_accepts_side(rule, hostile, request.hostile_only):
        return rejected
    pos = o.mechs.pos[e, j]
    hp = o.mechs.hp[e, j]
    if age > 0:
        k = (o.viewer.step - age) % o.tracks.trace_pos.shape[1]
        pos = o.tracks.trace_pos[e, k, j]
        hp = o.tracks.trace_body[e, k, j][1]
    c = o.mechs.chassis[e, j]
    distance = wp.length(pos - o.mechs.pos[e, m])
    penalty = age_penalty(o.display, o.viewer, age)
    if rule == NEWEST:
        return wp.vec3(0.0, float(o.viewer.step - b.known_since[e, m, j]), distance)
    if rule == FRIENDS:
        return wp.vec3(wp.where(is_pack_leader(o.mechs, e, m, j), 0.0, 1.0), penalty * distance, 0.0)
    if rule == OBJECTIVE:
        zone = b.world.zone[e]
        return wp.vec3(0.0, penalty * xy_length(wp.vec3(pos[0] - zone[0], pos[1] - zone[1], 0.0)), distance)
    if rule == DESIGNATED:
        painted = o.mechs.painted[e, j] > 0 and painter_is_packmate(o.mechs, e, m, o.mechs.painter[e, j])
        group = wp.where(b.controls.focus[e, m] == j, 0.0, wp.where(painted, 1.0, REJECTED))
        return wp.vec3(group, penalty * distance, 0.0)
    if rule == FIRE_LINE and (age > 0 or o.senses.sight[e, m, j] != CLEAR):
        return rejected
    if rule == AIMING and not aims_at(o, b.rounds, j, age):
        return rejected
    if rule == THREAT or rule == FIRE_LINE or rule == AIMING:
        return wp.vec3(0.0, penalty * distance / b.suites.threat[c], distance)
    key = sort_key(o.rules, o.sort_mode, c, hp, distance, penalty)
    return wp.vec3(wp.where(rule == REST and not hostile, 1.0, 0.0), key[0], key[1])


@wp.func
def group_precedes(a: wp.vec3, b: wp.vec3, margin: float) -> bool:
    """Whether key ``a`` comes before ``b``: in an earlier group, or in the same one and better by a factor."""
    if a[0] != b[0]:
        return a[0] < b[0]
    return precedes(wp.vec2(a[1], a[2]), wp.vec2(b[1], b[2]), margin)


@wp.func
def slot_of(slots: Slots, j: int) -> int:
    for k in range(CONTACT_SLOTS):
        if slots[k] == j:
            return k
    return -1


@wp.func
def run_of_rule(slot_rule: wp.array2d(dtype=wp.int32), c: int, first: int, end: int) -> int:
    """Return the mask of the consecutive slots from ``first`` on that have the rule of ``first``."""
    mask = int(0)
    for k in range(first, end):
        if slot_rule[c, k] != slot_rule[c, first]:
            return mask
        mask = mask | (1 << k)
    return mask


@wp.func
def lowest_bit(mask: int) -> int:
    k = int(0)
    while ((mask >> k) & 1) == 0:
        k += 1
    return k


@wp.func
def empty_slots(slots: Slots, end: int) -> int:
    mask = int(0)
    for k in range(end):
        if slots[k] < 0:
            mask = mask | (1 << k)
    return mask


@wp.func
def keep_previous(request: SlotRequest, o: ContactObserver, contact: wp.array3d(dtype=wp.int32), slots: Slots):
    """Return the slots with the previous contacts of the requested ones, unless they have a slot already."""
    filled = Slots(-1)
    for k in range(request.end):
        filled[k] = slots[k]
    for k in range(request.end):
        if ((request.mask >> k) & 1) == 1 and o.display.keeps_slots == 1:
            j = contact[o.viewer.env, o.viewer.mech, k]
            if j >= 0 and slot_of(filled, j) < 0:
                filled[k] = j
    return filled


@wp.func
def fill_by_rule(request: SlotRequest, o: ContactObserver, b: Battle, slots: Slots) -> Slots:
    """Return the slots with the requested ones filled: drop rejected mechs, fill empty slots, replace worse mechs."""
    filled = keep_previous(request, o, b.controls.contact, slots)
    for _ in range(2 * CONTACT_SLOTS + 1):
        best = int(-1)
        worst = int(-1)
        best_key = wp.vec3(0.0, 0.0, 0.0)
        worst_key = wp.vec3(0.0, 0.0, 0.0)
        for j in range(o.mechs.alive.shape[1]):
            k = slot_of(filled, j)
            inside = k >= 0 and ((request.mask >> wp.max(k, 0)) & 1) == 1
            if k < 0 or inside:
                key = contact_key(request, o, b, j)
                if inside and key[0] < 0.0:
                    filled[k] = -1
                elif inside and (worst < 0 or not group_precedes(key, worst_key, 1.0)):
                    worst = k
                    worst_key = key
                elif not inside and key[0] >= 0.0 and (best < 0 or group_precedes(key, best_key, 1.0)):
                    best = j
                    best_key = key
        free = empty_slots(filled, request.end) & request.mask
        if best < 0:
            return filled
        if free != 0:
            filled[lowest_bit(free)] = best
        elif worst >= 0 and group_precedes(best_key, worst_key, o.display.better):
            filled[worst] = best
        else:
            return filled
    return filled


@wp.kernel
def allocate_by_suite(
    rules: Rules,
    display: DisplayRules,
    suites: Suites,
    world: World,
    episode: Episode,
    mechs: Mechs,
    controls: Controls,
    rounds: Rounds,
    senses: Senses,
    tracks: Tracks,
    fresh: wp.array(dtype=wp.int32),
    known_since: wp.array3d(dtype=wp.int32),
    controls_out: Controls,
):
    """Fill the contact slots of one mech, one run of equal rules after another, REST last; a dead mech gets none."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    c = mechs.chassis[e, m]
    slots = Slots(-1)
    viewer = make_viewer(display, senses, e, m, episode.decision[e])
    o = ContactObserver(rules, display, viewer, mechs, senses, tracks, controls.sort_mode[e, m])
    b = Battle(world, suites, controls, rounds, known_since)
    request = SlotRequest(REST, 0, suites.suite_slots[c] * mechs.alive[e, m], controls.hostile_only[e, m], -1)
    if suites.suite_alerts[c] * mechs.alive[e, m] == 1:
        request.alerted = alerted_contact(rules, display, viewer, mechs, rounds, senses)
        if request.alerted >= 0:
            request.end = suites.alert_slots[c]
    end = request.end
    first = int(0)
    while first < end:
        request.rule = suites.slot_rule[c, first]
        request.mask = run_of_rule(suites.slot_rule, c, first, end)
        if request.rule != REST:
            slots = fill_by_rule(request, o, b, slots)
        while first < end and (request.mask >> first) != 0:
            first += 1
    request.rule = REST
    request.mask = empty_slots(slots, end)
    slots = fill_by_rule(request, o, b, slots)
    for k in range(controls_out.contact.shape[2]):
        controls_out.contact[e, m, k] = slots[k]
