"""Plain-Python rules of the skill levels: what a pilot fires, emits, throws and prefers, once it has its target."""

from __future__ import annotations

from math import atan2, cos, degrees, radians

import numpy as np

from echelon.agents.levels import EwarUse, Level, MissileUse, PaintUse, SmokeUse
from echelon.sim.random import StreamId, uniform01
from tests.oracles.levels import DT_ACT, Memory, Track, level_of, pack_of
from tests.oracles.pilot import COLUMN, SECONDARY, SPECIAL, VENT
from tests.oracles.shared import (
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
    SHOTS,
    SMOKE,
    ahead,
    count,
    distance,
    flat,
    hostile,
    wrap,
)
from tests.oracles.world import SIGHT, cast, nearest_on

TICKS, DT = 5, 0.05
BY_WORTH = (GAUSS, AUTOCANNON, MISSILE, LASER, FLAMER, PAINTER)


def aim_bias(level: Level, s, m: int) -> float:
    """Error of a pilot's aim in this second [rad]: three uniform draws added up."""
    second = int(np.float32(s.tick) * np.float32(DT))
    draws = sum(uniform01(int(s.seed), StreamId.AGENT, second, m, k) for k in (11, 12, 13))
    return radians(level.aim_sigma_deg) * 2 * (float(draws) - 1.5)


def scout_may_paint(s, m: int, spot) -> bool:
    """A scout of the pack is near enough to the target to paint it soon."""
    return any(s.alive[k] and s.chassis[k] == SCOUT and distance(s.pos[k], spot) <= 12 for k in pack_of(m))


def drawn(s, m: int, spot, arrives_s: float) -> bool:
    """A missile of the own side comes within reach of a heavy at ``spot`` in the second before ``arrives_s``."""
    for k in range(count(s)):
        for i in np.flatnonzero(s.round_weapon[k] == MISSILE) if not hostile(s, m, k) else []:
            there_s = max(0.0, distance(s.round_pos[k][i], spot) - 5.5) / 12.0
            if there_s <= arrives_s < there_s + 1.0:
                return True
    return False


def shielded(memory: Memory, level: Level, s, m: int, spot) -> bool:
    """A hostile heavy that the pilot perceives covers the target with an anti-missile system that is likely ready."""
    for j in range(count(s)):
        known = memory.known(level, m, j) if hostile(s, m, j) and s.chassis[j] == HEAVY else None
        if known and known.age == 0 and not known.shutdown and distance(known.pos, spot) <= 5.5:
            if not drawn(s, m, known.pos, max(0.0, distance(known.pos, s.pos[m]) - 5.5) / 12.0):
                return True
    return False


def something_offers(memory: Memory, level: Level, s, m: int, weapon: int) -> bool:
    """Any hostile in sight stands in range and arc of a weapon."""
    gun = GUNS[weapon]
    for j in range(count(s)):
        known = memory.known(level, m, j) if hostile(s, m, j) else None
        if known and known.sees:
            delta = known.pos.astype(float) - s.pos[m]
            in_arc = (delta * [1, 1, 0]) @ ahead(s.yaw[m]) >= cos(radians(gun.arc_deg / 2)) * flat(delta)
            if distance(known.pos, s.pos[m]) <= gun.range and in_arc:
                return True
    return False


def wants(memory: Memory, level: Level, s, m: int, weapon: int, j: int, known: Track, awaited: bool) -> bool:
    """Whether a pilot would fire a weapon at its target, heat and cooldown apart."""
    gun, delta = GUNS[weapon], known.pos.astype(float) - s.pos[m]
    d = float(np.linalg.norm(delta))
    error = abs(wrap(atan2(delta[1], delta[0]) + aim_bias(level, s, m) - float(s.yaw[m])))
    in_sight = known.age == 0
    sees, paint = known.sees, known.paint > 0
    in_arc = degrees(error) <= gun.arc_deg / 2
    too_near = gun.splash > 0 and d < gun.splash + 1.0
    if weapon == PAINTER:
        fresh = level.paint == PaintUse.FOCUS and paint and known.paint * DT > 1.0
        return level.paint != PaintUse.NEVER and sees and d <= gun.range and in_arc and not fresh
    if weapon == MISSILE:
        by_paint = level.missiles >= MissileUse.PAINT and paint and s.quality[m] >= 0.7 and d <= gun.range
        by_sight = sees and d <= gun.own_sight and not awaited
        if level.missiles == MissileUse.NEVER or error > radians(90) or too_near or not (by_paint or by_sight):
            return False
        return level.missiles != MissileUse.AVOID_AMS or not shielded(memory, level, s, m, known.pos)
    if weapon in HITSCAN:
        own = d <= gun.range and sees and in_arc
        return own or (level.fires_at_any_target and something_offers(memory, level, s, m, weapon))
    if d > gun.range or too_near or error > radians(level.cone_deg) or not in_sight:
        return False
    return weapon != GAUSS or sees or not level.needs_sight


def barred(level: Level, s, m: int, weapon: int, spot) -> bool:
    """A cell that stops rounds lies right before the muzzle."""
    half, to_target = MECHS[s.chassis[m]].half[2], np.asarray(spot, float) - s.pos[m]
    if level.muzzle_clearance_vox == 0 or weapon in (*HITSCAN, PAINTER):
        return False
    muzzle = s.pos[m] + np.array([0, 0, half + 0.5 if weapon == MISSILE else 0.8 * half], np.float32)
    way = to_target / np.linalg.norm(to_target) + [0, 0, 0.5] if weapon == MISSILE else spot - muzzle
    end = (muzzle + way / np.linalg.norm(way) * level.muzzle_clearance_vox).astype(np.float32)
    return cast(SHOTS[s.material], muzzle, end, include_end=True) is not None


def triggers(memory: Memory, s, m: int, j: int, known: Track | None, waited_s: float, prob: float, anew: bool):
    """The action columns a pilot pulls, its vent among them, and how long it has waited for paint [s].

    ``waited_s`` is how long before this decision, and ``anew`` says whether the target was chosen just now.
    """
    level, chassis = level_of(s, m), int(s.chassis[m])
    # in single precision: heat comes in tenths, and a plan may meet its limit exactly
    cap, plan, pulled = np.float32(MECHS[chassis].heat_cap), np.float32(s.heat[m]), {}
    shoots = uniform01(int(s.seed), StreamId.AGENT, int(s.tick), m, 1) < prob * level.trigger_prob
    hot = plan > np.float32(level.vent_above) * cap
    if known and shoots and not hot:
        by_sight_only = known.sees and not known.paint
        waits = level.missiles >= MissileUse.AWAIT_PAINT and by_sight_only and scout_may_paint(s, m, known.pos)
        waited_s *= waits and not anew
        awaited = waits and waited_s < 2.0
        waited_s += DT_ACT * (awaited and s.cooldown[m, GUNS[MISSILE].timer] <= TICKS)
        for weapon in BY_WORTH if level.best_damage_per_heat_first else sorted(BY_WORTH):
            slot = CARRIED[chassis].get(weapon)
            if slot is None or s.cooldown[m, GUNS[weapon].timer] > TICKS:
                continue
            fits = plan + np.float32(GUNS[weapon].heat) <= np.float32(min(level.heat_limit, 1e9)) * cap
            wanted = fits and wants(memory, level, s, m, weapon, j, known, awaited)
            if wanted and not barred(level, s, m, weapon, known.pos):
                pulled[COLUMN[slot]] = 1.0
                waited_s *= weapon != MISSILE
                plan += np.float32(GUNS[weapon].heat)
    warm = level.vent_firing_above if pulled else level.vent_idle_above
    if hot or s.heat[m] > np.float32(min(warm, 1e9)) * cap:
        pulled[VENT] = 1.0
    return pulled, waited_s


def emission(s, m: int, level: Level, contact: bool) -> float:
    """What a scout's EWAR column is set to."""
    mates = [k for k in pack_of(m) if k != m and s.alive[k]]
    quality = np.mean([s.quality[k] for k in mates]) if mates else 1.0
    hot = s.heat[m] / MECHS[s.chassis[m]].heat_cap > 0.7
    if level.ewar == EwarUse.OFF or (level.ewar == EwarUse.SILENT and not contact):
        return 0.0
    restores = (level.ewar == EwarUse.COOL and hot) or (level.ewar >= EwarUse.SUPPORT and quality < 0.7)
    return 0.75 if restores else 0.25


def gap(point, a, b) -> float:
    """Distance of a point from a segment."""
    a, way = a.astype(float), b.astype(float) - a
    return float(np.linalg.norm(a + way * nearest_on(a, way, point) - point))


def in_the_open(memory: Memory, s, m: int, flow) -> bool:
    """Outside the zone, a hostile out of reach has sight from within 20, and the way ahead leads to no cover soon."""
    # a cycle otherwise: movement asks this module where pilots aim
    from tests.oracles.moves import SHOOTS_AS_FAR, Ways

    level, c, p = level_of(s, m), int(s.chassis[m]), s.pos[m]
    seen = [memory.known(level, m, j) for j in range(count(s)) if hostile(s, m, j)]
    eyes = sorted((distance(known.pos, p), tuple(known.pos)) for known in seen if known and known.sees)
    if flat(p[:2] - s.zone[:2]) < s.zone[2] or not eyes or not SHOOTS_AS_FAR[c] < eyes[0][0] <= 20:
        return False
    ways, foot = Ways(s, flow, c), float(p[2] - MECHS[c].half[2])
    for cells in (2, 4, 6, 8):
        ahead_at = ways.ahead(p, foot, cells)
        if ahead_at is None:
            return True
        if (
            cast(SIGHT[s.material], np.array(eyes[0][1], np.float32), np.array([*ahead_at, p[2]], np.float32))
            is not None
        ):
            return False
    return True


def throws_smoke(memory: Memory, s, told, m: int, known: Track | None, flow) -> bool:
    """Smoke goes up when hurt or hunted, or where the way is open to fire, unless it would blind a friend."""
    level, p = level_of(s, m), s.pos[m].astype(float)
    if level.smoke == SmokeUse.NEVER:
        return False
    chased = any(hostile(s, m, k) and MISSILE in s.round_weapon[k][s.round_target[k] == m] for k in range(count(s)))
    hurt = s.hp[m] < 0.35 * MECHS[s.chassis[m]].hp
    defends = known and known.sees and ((s.was_hit[m] and hurt) or (chased and s.painted[m] > 0))
    if not defends and not (level.smoke == SmokeUse.SCREENING and in_the_open(memory, s, m, flow)):
        return False
    near = known and distance(known.pos, p) <= 20
    burst = known.pos.astype(float) if near else p + 20 * ahead(s.yaw[m])
    mates = [k for k in pack_of(m) if k != m and s.alive[k] and level_of(s, k) and told.pilot_target[k] >= 0]
    return not any(told.pilot_sees[k] and gap(burst, s.pos[k], told.pilot_spot[k]) <= 3 for k in mates)


def operates(memory: Memory, s, told, m: int, known: Track | None, flow) -> dict[int, float]:
    """Action columns besides steering and triggers: display, EWAR, smoke, target preference."""
    level, j = level_of(s, m), int(told.pilot_target[m])
    columns = {14: 1.0, 17: 1.0}
    if s.chassis[m] == SCOUT:
        columns[SECONDARY] = emission(s, m, level, j >= 0)
    if known and level.requests_target:
        columns |= {9 + k: 1.0 for k in range(5) if s.contact[m][k] == j}
    if SMOKE in CARRIED[int(s.chassis[m])] and throws_smoke(memory, s, told, m, known, flow):
        columns[SPECIAL] = 1.0
    return columns
