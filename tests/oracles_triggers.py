"""Plain-Python rules of the skill levels: what a pilot fires, emits, throws and prefers, once it has its target."""

from __future__ import annotations

from math import atan2, cos, degrees, radians

import numpy as np

from echelon.agents.levels import Ewar, Level, Missiles, Paint, Smoke
from echelon.sim.random import StreamId, uniform01
from tests.oracles import (
    AUTOCANNON,
    CARRIED,
    FLAMER,
    GAUSS,
    GUNS,
    HEAVY,
    HITSCAN,
    LASER,
    MECHS,
    MISSILE,
    PAINTER,
    SCOUT,
    SMOKE,
    ahead,
    count,
    distance,
    flat,
    hostile,
    living,
    painted_by_pack_of,
    wrap,
)
from tests.oracles_levels import DT_ACT, Known, Memory, level_of, pack_of
from tests.oracles_pilot import COLUMN, SECONDARY, SPECIAL, VENT

TICKS, DT = 5, 0.05
BY_WORTH = (GAUSS, AUTOCANNON, MISSILE, LASER, FLAMER, PAINTER)


def aim_bias(level: Level, s, m: int) -> float:
    """Error of a pilot's aim in this second [rad]: three uniform draws added up."""
    second = int(np.float32(s.tick) * np.float32(DT))
    draws = sum(uniform01(int(s.seed), StreamId.AGENT, second, m, k) for k in (11, 12, 13))
    return radians(level.aim_sigma_deg) * 2 * (float(draws) - 1.5)


def clear(s, a: int, b: int) -> bool:
    return bool(s.sight[a, b] == 1)


def scout_may_paint(s, m: int, spot) -> bool:
    """A scout of the pack is near enough to the target to paint it soon."""
    return any(s.alive[k] and s.chassis[k] == SCOUT and distance(s.pos[k], spot) <= 12 for k in pack_of(m))


def shielded(memory: Memory, level: Level, s, m: int, spot) -> bool:
    """A hostile heavy that the pilot sees covers the target with its anti-missile system."""
    for j in living(s):
        if hostile(s, m, j) and s.chassis[j] == HEAVY and distance(s.pos[j], spot) <= 5.5:
            known = memory.known(level, m, j)
            if known and known.age == 0:
                return True
    return False


def something_offers(memory: Memory, level: Level, s, m: int, weapon: int) -> bool:
    """Any hostile in sight stands in range and arc of a weapon."""
    gun = GUNS[weapon]
    for j in living(s):
        if not hostile(s, m, j) or not clear(s, m, j):
            continue
        delta = s.pos[j].astype(float) - s.pos[m]
        level_dir = delta * [1, 1, 0]
        in_arc = level_dir @ ahead(s.yaw[m]) >= cos(radians(gun.arc_deg / 2)) * flat(delta)
        known = memory.known(level, m, j)
        if distance(s.pos[j], s.pos[m]) <= gun.range and in_arc and known and known.age == 0:
            return True
    return False


def wants(memory: Memory, level: Level, s, m: int, weapon: int, j: int, known: Known, awaited: bool) -> bool:
    """Whether a pilot would fire a weapon at its target, heat and cooldown apart."""
    gun, delta = GUNS[weapon], known.pos.astype(float) - s.pos[m]
    d = float(np.linalg.norm(delta))
    error = abs(wrap(atan2(delta[1], delta[0]) + aim_bias(level, s, m) - float(s.yaw[m])))
    in_sight = known.age == 0
    sees, paint = in_sight and clear(s, m, j), painted_by_pack_of(s, m, j)
    in_arc = degrees(error) <= gun.arc_deg / 2
    too_near = gun.splash > 0 and d < gun.splash + 1.0
    if weapon == PAINTER:
        fresh = level.paint == Paint.FOCUS and paint and s.painted[j] * DT > 1.0
        return level.paint != Paint.NEVER and sees and d <= gun.range and in_arc and not fresh
    if weapon == MISSILE:
        by_paint = level.missiles >= Missiles.PAINT and paint and s.quality[m] >= 0.7 and d <= gun.range
        by_sight = sees and d <= gun.own_sight and not awaited
        if level.missiles == Missiles.NEVER or error > radians(90) or too_near or not (by_paint or by_sight):
            return False
        return level.missiles != Missiles.THRIFTY or not shielded(memory, level, s, m, known.pos)
    if weapon in HITSCAN:
        own = d <= gun.range and sees and in_arc
        return own or (level.opportunist and something_offers(memory, level, s, m, weapon))
    if d > gun.range or too_near or error > radians(level.cone_deg) or not in_sight:
        return False
    return weapon != GAUSS or sees or not level.checks_sight


def triggers(memory: Memory, s, m: int, j: int, known: Known | None, waited_s: float, prob: float):
    """The action columns a pilot pulls, its vent among them, and how long it has waited for paint [s]."""
    level, chassis = level_of(s, m), int(s.chassis[m])
    cap, plan, pulled = MECHS[chassis].heat_cap, float(s.heat[m]), {}
    shoots = uniform01(int(s.seed), StreamId.AGENT, int(s.tick), m, 1) < prob * level.trigger_prob
    hot = plan > level.vent_above * cap
    if known and shoots and not hot:
        sees = known.age == 0 and clear(s, m, j)
        holds = level.missiles >= Missiles.WAITS and not painted_by_pack_of(s, m, j) and sees and waited_s < 2.0
        awaited = holds and scout_may_paint(s, m, known.pos)
        waited_s = waited_s + DT_ACT if awaited else 0.0
        for weapon in BY_WORTH if level.best_first else sorted(BY_WORTH):
            slot = CARRIED[chassis].get(weapon)
            if slot is None or s.cooldown[m, GUNS[weapon].timer] > TICKS:
                continue
            fits = plan + GUNS[weapon].heat <= min(level.heat_limit, 1e9) * cap
            if fits and wants(memory, level, s, m, weapon, j, known, awaited):
                pulled[COLUMN[slot]] = 1.0
                plan += GUNS[weapon].heat
    warm = level.vents_firing if pulled else level.idle_vent
    if hot or s.heat[m] > min(warm, 1e9) * cap:
        pulled[VENT] = 1.0
    return pulled, waited_s


def emission(s, m: int, level: Level, contact: bool) -> float:
    """What a scout's EWAR column is set to."""
    mates = [k for k in pack_of(m) if k != m and s.alive[k]]
    quality = np.mean([s.quality[k] for k in mates]) if mates else 1.0
    hot = s.heat[m] / MECHS[s.chassis[m]].heat_cap > 0.7
    if level.ewar == Ewar.OFF or (level.ewar == Ewar.SILENT and not contact):
        return 0.0
    restores = (level.ewar == Ewar.COOL and hot) or (level.ewar >= Ewar.AIDS and quality < 0.7)
    return 0.75 if restores else 0.25


def throws_smoke(s, m: int, level: Level, j: int, known: Known) -> bool:
    """Smoke goes up when hurt or hunted, or on open ground under fire, unless it would blind a friend."""
    if level.smoke == Smoke.NEVER or known.age != 0 or not clear(s, m, j):
        return False
    if any(k != m and s.alive[k] and clear(s, k, j) for k in pack_of(m)):
        return False
    chased = any(hostile(s, m, k) and MISSILE in s.round_weapon[k][s.round_target[k] == m] for k in range(count(s)))
    hurt = s.hp[m] < 0.35 * MECHS[s.chassis[m]].hp
    outside = flat(s.pos[m][:2] - s.zone[:2]) - s.zone[2]
    open_ground = outside > 8 and distance(known.pos, s.pos[m]) <= 20 and s.was_hit[m]
    covering = level.smoke == Smoke.COVERING and open_ground
    return bool((s.was_hit[m] and hurt) or (chased and s.painted[m] > 0) or covering)


def operates(s, m: int, j: int, known: Known | None) -> dict[int, float]:
    """Action columns besides steering and triggers: display, EWAR, smoke, target preference."""
    level = level_of(s, m)
    columns = {14: 1.0, 17: 1.0}
    if s.chassis[m] == SCOUT:
        columns[SECONDARY] = emission(s, m, level, j >= 0)
    if known is None:
        return columns
    if level.prefers_target:
        columns |= {9 + k: 1.0 for k in range(5) if s.contact[m][k] == j}
    if SMOKE in CARRIED[int(s.chassis[m])] and throws_smoke(s, m, level, j, known):
        columns[SPECIAL] = 1.0
    return columns
