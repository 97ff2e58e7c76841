"""Contact slots that each suite reserves for what its pilots need: threats, newcomers, who aims at them, whom they support.

A suite's row of ``echelon.env.layout`` says what every slot is for. Slots of one rule are filled together, in the order of
the row: whom they held stays while the rule still wants it and nobody better comes by the margin; what a rule leaves
empty goes to the rest, hostiles first. Filling twice in a decision changes nothing. ``contacts`` has the quotas.
"""

# ruff: noqa: E501
from __future__ import annotations

import numpy as np
import warp as wp
from numpy.typing import NDArray

from echelon.config import PACK_SIZE, EnvConfig
from echelon.env import display
from echelon.env import quota_allocation as contacts
from echelon.env.alerts import alerted_contact, has_missile_on
from echelon.env.display import Display, known_age, sensor_view
from echelon.env.observe.contacts import painted_for
from echelon.env.quota_allocation import Slots, contact_key, goes_before, weight_of
from echelon.env.suites import FillRule
from echelon.sim.backend import Launch, in_phase
from echelon.sim.geometry import cos_sin, xy_length
from echelon.sim.state import CONTACT_SLOTS, Field
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

REST, SORTED, THREAT, NEWEST = (wp.constant(int(r)) for r in list(FillRule)[:4])
AIMING, FRIENDS, OBJECTIVE, ALERT = (wp.constant(int(r)) for r in list(FillRule)[4:8])
FIRE_LINE, DESIGNATED, ALLIES = (wp.constant(int(r)) for r in list(FillRule)[8:])
PACK = wp.constant(PACK_SIZE)
CLEAR = wp.constant(wp.uint8(1))
UNFIT = wp.constant(-1.0)
"""Group of a mech that a rule does not want."""

FIELDS: dict[str, Field] = {
    "known_since": Field(wp.int32, "EMM", "decision since which mech 1 has known of mech 2 without a gap, -1 if it does not"),
}


def by_suite(cfg: EnvConfig) -> bool:
    """Whether suites fill their slots their own way."""
    return cfg.obs_layout == "suite" and cfg.display.fill == "suite"


def fields(cfg: EnvConfig) -> dict[str, Field]:
    """Return what filling keeps; quotas need nothing."""
    return FIELDS if by_suite(cfg) else {}


def slot_rules(cfg: EnvConfig) -> NDArray[np.int32]:
    """Return what each contact slot of each chassis is for ``[4, CONTACT_SLOTS]``; those beyond its row are for the rest."""
    rules = np.full((len(display.CLASS_SUITES), CONTACT_SLOTS), int(FillRule.REST), np.int32)
    for c, spec in enumerate(display.suites(cfg)):
        row = np.repeat([int(rule) for rule, _ in spec.fill], [slots for _, slots in spec.fill])
        rules[c, : len(row)] = row
    return rules


def filled(cfg: EnvConfig, fresh: str) -> list[Launch]:
    """Return the launches that fill contact slots where array ``fresh`` says so."""
    given = {"fresh": fresh}
    if not by_suite(cfg):
        return in_phase("sensing", [Launch(contacts.allocate_by_quota, "EM", given)])
    return in_phase("sensing", [Launch(update_known_since, "EM", given), Launch(allocate_by_suite, "EM", given)])


@wp.kernel
def update_known_since(
    # rules
    display: Display,
    # state in
    fresh: wp.array(dtype=wp.int32), decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), quality: wp.array2d(dtype=wp.float32), jam: wp.array2d(dtype=wp.float32), aid: wp.array2d(dtype=wp.float32), visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32),
    # state out
    known_since: wp.array3d(dtype=wp.int32),
):
    """Note since when a mech knows of each other one."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    now = decision[e]
    view = sensor_view(display, quality[e, m], jam[e, m], aid[e, m])
    for j in range(alive.shape[1]):
        if alive[e, m] == 0 or known_age(display, view, e, m, j, now, alive, visible, seen) < 0:
            known_since[e, m, j] = -1
        elif now == 0 or known_since[e, m, j] < 0:
            known_since[e, m, j] = now


@wp.func
def aims_at(rules: Rules, d: Display, e: int, m: int, j: int, age: int, pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32)) -> bool:
    """Whether j is after m: a missile of its homes on it, its paint is on it, or it is in sight and faces it."""
    if has_missile_on(rules, e, m, j, round_weapon, round_target) or (painted[e, m] > 0 and painter[e, m] == j):
        return True
    if age > 0:
        return False
    r = pos[e, m] - pos[e, j]
    cs = cos_sin(yaw[e, j])
    return r[0] * cs[0] + r[1] * cs[1] >= d.aim_cos * xy_length(r)


@wp.func
def leads(e: int, m: int, j: int, alive: wp.array2d(dtype=wp.int32)) -> bool:
    """Whether j is the first living mech of m's pack."""
    first = m - m % PACK
    for k in range(first, first + PACK):
        if alive[e, k] == 1:
            return k == j
    return False


@wp.func
def place_of(
    rule: int, rules: Rules, d: Display, view: wp.vec4, e: int, m: int, j: int, now: int, mode: int, only: int, pin: int, zone: wp.array(dtype=wp.vec3), threat: wp.array(dtype=wp.float32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), focus: wp.array2d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32), sight: wp.array3d(dtype=wp.uint8), visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32), known_since: wp.array3d(dtype=wp.int32), trace_pos: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4),
) -> wp.vec3:
    """Group and sort key of j under a rule, smaller first; the group of whom the rule does not want is ``UNFIT``."""
    unfit = wp.vec3(UNFIT, 0.0, 0.0)
    age = known_age(d, view, e, m, j, now, alive, visible, seen)
    if age < 0:
        return unfit
    if rule == ALERT:
        return wp.vec3(wp.where(j == pin, 0.0, UNFIT), 0.0, 0.0)
    hostile = team[e, j] != team[e, m]
    friendly_rule = rule == FRIENDS or rule == ALLIES
    either = rule == REST or rule == SORTED or rule == NEWEST
    if hostile == friendly_rule and not either or (only == 1 and not hostile):
        return unfit
    at = pos[e, j]
    health = hp[e, j]
    if age > 0:
        k = (now - age) % trace_pos.shape[1]
        at = trace_pos[e, k, j]
        health = trace_body[e, k, j][1]
    c = chassis[e, j]
    distance = wp.length(at - pos[e, m])
    weight = weight_of(d, view, age)
    if rule == NEWEST:
        return wp.vec3(0.0, float(now - known_since[e, m, j]), distance)
    if rule == FRIENDS:
        return wp.vec3(wp.where(leads(e, m, j, alive), 0.0, 1.0), weight * distance, 0.0)
    if rule == OBJECTIVE:
        return wp.vec3(0.0, weight * xy_length(wp.vec3(at[0] - zone[e][0], at[1] - zone[e][1], 0.0)), distance)
    if rule == DESIGNATED:
        marked = painted[e, j] > 0 and painted_for(e, m, painter[e, j], team, pack)
        group = wp.where(focus[e, m] == j, 0.0, wp.where(marked, 1.0, UNFIT))
        return wp.vec3(group, weight * distance, 0.0)
    if rule == FIRE_LINE and (age > 0 or sight[e, m, j] != CLEAR):
        return unfit
    if rule == AIMING and not aims_at(rules, d, e, m, j, age, pos, yaw, painted, painter, round_weapon, round_target):
        return unfit
    if rule == THREAT or rule == FIRE_LINE or rule == AIMING:
        return wp.vec3(0.0, weight * distance / threat[c], distance)
    key = contact_key(rules, mode, c, health, distance, weight)
    return wp.vec3(wp.where(rule == REST and not hostile, 1.0, 0.0), key[0], key[1])


@wp.func
def earlier(a: wp.vec3, b: wp.vec3, margin: float) -> bool:
    """Whether a comes before b: in a group before it, or in the same one by a factor."""
    if a[0] != b[0]:
        return a[0] < b[0]
    return goes_before(wp.vec2(a[1], a[2]), wp.vec2(b[1], b[2]), margin)


@wp.func
def slot_of(held: Slots, j: int) -> int:
    """Slot that j has, -1 none."""
    for k in range(CONTACT_SLOTS):
        if held[k] == j:
            return k
    return -1


@wp.func
def run_of(slot_rule: wp.array2d(dtype=wp.int32), c: int, first: int, slots: int) -> int:
    """Mask of the slots from ``first`` on that have its rule."""
    mask = int(0)
    for k in range(first, slots):
        if slot_rule[c, k] != slot_rule[c, first]:
            return mask
        mask = mask | (1 << k)
    return mask


@wp.func
def lowest(mask: int) -> int:
    """The first slot of a mask that is not empty."""
    k = int(0)
    while ((mask >> k) & 1) == 0:
        k += 1
    return k


@wp.func
def spare(held: Slots, slots: int) -> int:
    """Mask of the slots that nobody has."""
    mask = int(0)
    for k in range(slots):
        if held[k] < 0:
            mask = mask | (1 << k)
    return mask


@wp.func
def kept(held: Slots, mine: int, slots: int, keeps: int, e: int, m: int, contact: wp.array3d(dtype=wp.int32)) -> Slots:
    """Let whoever had a slot of the mask keep it for now, unless another rule has given it one."""
    out = Slots(-1)
    for k in range(slots):
        out[k] = held[k]
    for k in range(slots):
        if ((mine >> k) & 1) == 1 and keeps == 1:
            j = contact[e, m, k]
            if j >= 0 and slot_of(out, j) < 0:
                out[k] = j
    return out


@wp.func
def settled(
    held: Slots, mine: int, rule: int, slots: int, rules: Rules, d: Display, view: wp.vec4, e: int, m: int, now: int, mode: int, only: int, pin: int, zone: wp.array(dtype=wp.vec3), threat: wp.array(dtype=wp.float32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), focus: wp.array2d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32), sight: wp.array3d(dtype=wp.uint8), visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32), known_since: wp.array3d(dtype=wp.int32), trace_pos: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4),
) -> Slots:
    """Fill the slots of the mask: whom the rule does not want goes, free ones get the best, better ones replace the last."""
    out = Slots(-1)
    for k in range(slots):
        out[k] = held[k]
    for _ in range(2 * CONTACT_SLOTS + 1):
        best = int(-1)
        worst = int(-1)
        best_key = wp.vec3(0.0, 0.0, 0.0)
        worst_key = wp.vec3(0.0, 0.0, 0.0)
        for j in range(alive.shape[1]):
            k = slot_of(out, j)
            own = k >= 0 and ((mine >> wp.max(k, 0)) & 1) == 1
            if k < 0 or own:
                key = place_of(rule, rules, d, view, e, m, j, now, mode, only, pin, zone, threat, alive, team, pack, chassis, hp, pos, yaw, painted, painter, focus, round_weapon, round_target, sight, visible, seen, known_since, trace_pos, trace_body)
                if own and key[0] < 0.0:
                    out[k] = -1
                elif own and (worst < 0 or not earlier(key, worst_key, 1.0)):
                    worst = k
                    worst_key = key
                elif not own and key[0] >= 0.0 and (best < 0 or earlier(key, best_key, 1.0)):
                    best = j
                    best_key = key
        free = spare(out, slots) & mine
        if best < 0:
            return out
        if free != 0:
            out[lowest(free)] = best
        elif worst >= 0 and earlier(best_key, worst_key, d.margin):
            out[worst] = best
        else:
            return out
    return out


@wp.kernel
def allocate_by_suite(
    # rules
    rules: Rules, display: Display, suite_slots: wp.array(dtype=wp.int32), suite_alerts: wp.array(dtype=wp.int32), alert_slots: wp.array(dtype=wp.int32), slot_rule: wp.array2d(dtype=wp.int32), threat: wp.array(dtype=wp.float32),
    # world
    zone: wp.array(dtype=wp.vec3),
    # state in
    fresh: wp.array(dtype=wp.int32), decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), focus: wp.array2d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32), sight: wp.array3d(dtype=wp.uint8), quality: wp.array2d(dtype=wp.float32), jam: wp.array2d(dtype=wp.float32), aid: wp.array2d(dtype=wp.float32), visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32), known_since: wp.array3d(dtype=wp.int32), trace_pos: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4),
    # controls
    sort_mode: wp.array2d(dtype=wp.int32), hostile_only: wp.array2d(dtype=wp.int32),
    # state out
    contact: wp.array3d(dtype=wp.int32),
):
    """Fill the contact slots of one mech run by run, the rest last; a dead one gets none."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    c = chassis[e, m]
    held = Slots(-1)
    slots = suite_slots[c] * alive[e, m]
    now = decision[e]
    view = sensor_view(display, quality[e, m], jam[e, m], aid[e, m])
    pin = int(-1)
    if suite_alerts[c] * alive[e, m] == 1:
        pin = alerted_contact(rules, display, view, e, m, now, alive, team, chassis, pos, vel, yaw, heat, stability, painted, painter, round_weapon, round_target, sight, visible, seen)
        if pin >= 0:
            slots = alert_slots[c]
    first = int(0)
    while first < slots:
        rule = slot_rule[c, first]
        mine = run_of(slot_rule, c, first, slots)
        if rule != REST:
            held = kept(held, mine, slots, display.keeps, e, m, contact)
            held = settled(held, mine, rule, slots, rules, display, view, e, m, now, sort_mode[e, m], hostile_only[e, m], pin, zone, threat, alive, team, pack, chassis, hp, pos, yaw, painted, painter, focus, round_weapon, round_target, sight, visible, seen, known_since, trace_pos, trace_body)
        while first < slots and (mine >> first) != 0:
            first += 1
    rest = spare(held, slots)
    held = kept(held, rest, slots, display.keeps, e, m, contact)
    held = settled(held, rest, REST, slots, rules, display, view, e, m, now, sort_mode[e, m], hostile_only[e, m], pin, zone, threat, alive, team, pack, chassis, hp, pos, yaw, painted, painter, focus, round_weapon, round_target, sight, visible, seen, known_since, trace_pos, trace_body)
    for k in range(contact.shape[2]):
        contact[e, m, k] = held[k]
