"""Plain-Python rules of weapons and systems control of the skill levels, given a pilot's target.

A new weapon is fired as a gun unless ``tests.oracles.pilot`` lists it as a painter, homing, ballistic or smoke weapon.
"""

from math import atan2, cos, degrees, radians

import numpy as np

from echelon.agents.levels import EwarUse, Level, MissileUse, PaintUse, SmokeUse
from echelon.sim.random import StreamId, uniform01
from tests.oracles import shared as o
from tests.oracles.levels import DT_ACT, Memory, Track, level_of, pack_of
from tests.oracles.pilot import COLUMN, SECONDARY, VENT
from tests.oracles.world import cast, nearest_on

TICKS, DT = 5, 0.05
BY_DAMAGE_PER_HEAT = sorted(sorted(o.GUNS), key=lambda weapon: -o.GUNS[weapon].damage / o.GUNS[weapon].heat)


def aim_bias(level: Level, s, m: int) -> float:
    """Return the aiming bias of a pilot in this second [rad]: a sum of three uniform draws."""
    second = int(np.float32(s.tick) * np.float32(DT))
    draws = sum(uniform01(int(s.seed), StreamId.AGENT, second, m, k) for k in (11, 12, 13))
    return radians(level.aim_sigma_deg) * 2 * (float(draws) - 1.5)


def scout_may_paint(s, m: int, spot) -> bool:
    return any(s.alive[k] and s.chassis[k] == o.SCOUT and o.distance(s.pos[k], spot) <= 12 for k in pack_of(m))


def ams_reloads(s, m: int, spot, arrival_s: float) -> bool:
    """Return whether a friendly missile comes into range of a heavy at ``spot`` in the second before ``arrival_s``."""
    for k in range(o.count(s)):
        for i in np.flatnonzero(np.isin(s.round_weapon[k], list(o.HOMING))) if not o.hostile(s, m, k) else []:
            speed = o.GUNS[int(s.round_weapon[k][i])].speed
            shot_s = max(0.0, o.distance(s.round_pos[k][i], spot) - 5.5) / speed
            if shot_s <= arrival_s < shot_s + 1.0:
                return True
    return False


def ams_protects(memory: Memory, level: Level, s, m: int, spot, speed: float) -> bool:
    for j in range(o.count(s)):
        known = memory.known(level, m, j) if o.hostile(s, m, j) and s.chassis[j] == o.HEAVY else None
        if known and known.age == 0 and not known.shutdown and o.distance(known.pos, spot) <= 5.5:
            if not ams_reloads(s, m, known.pos, max(0.0, o.distance(known.pos, s.pos[m]) - 5.5) / speed):
                return True
    return False


def any_target_in_arc(memory: Memory, level: Level, s, m: int, weapon: int) -> bool:
    gun = o.GUNS[weapon]
    for j in range(o.count(s)):
        known = memory.known(level, m, j) if o.hostile(s, m, j) else None
        if known and known.sees:
            delta = known.pos.astype(float) - s.pos[m]
            in_arc = (delta * [1, 1, 0]) @ o.ahead(s.yaw[m]) >= cos(radians(gun.arc_deg / 2)) * o.flat(delta)
            if o.distance(known.pos, s.pos[m]) <= gun.range and in_arc:
                return True
    return False


def wants(memory: Memory, level: Level, s, m: int, weapon: int, known: Track, awaits_paint: bool) -> bool:
    """Return whether a pilot would fire a weapon at its target, heat and cooldown aside."""
    gun, delta = o.GUNS[weapon], known.pos.astype(float) - s.pos[m]
    d = float(np.linalg.norm(delta))
    error = abs(o.wrap(atan2(delta[1], delta[0]) + aim_bias(level, s, m) - float(s.yaw[m])))
    in_sight = known.age == 0
    sees, paint = known.sees, known.paint > 0
    in_arc = degrees(error) <= gun.arc_deg / 2
    too_near = gun.splash > 0 and d < gun.splash + 1.0
    if weapon in o.PAINTERS:
        fresh = level.paint == PaintUse.FOCUS and paint and known.paint * DT > 1.0
        return level.paint != PaintUse.NEVER and sees and d <= gun.range and in_arc and not fresh
    if weapon in o.HOMING:
        by_paint = level.missiles >= MissileUse.PAINT and paint and s.quality[m] >= 0.7 and d <= gun.range
        by_sight = sees and d <= gun.own_sight and not awaits_paint
        if level.missiles == MissileUse.NEVER or error > radians(90) or too_near or not (by_paint or by_sight):
            return False
        return level.missiles != MissileUse.AVOID_AMS or not ams_protects(memory, level, s, m, known.pos, gun.speed)
    if weapon in o.HITSCAN:
        own = d <= gun.range and sees and in_arc
        return own or (level.fires_at_any_target and any_target_in_arc(memory, level, s, m, weapon))
    if d > gun.range or too_near or error > radians(level.cone_deg) or not in_sight:
        return False
    return weapon not in o.BALLISTIC or sees or not level.needs_sight


def muzzle_blocked(level: Level, s, m: int, weapon: int, spot) -> bool:
    half, to_target = o.MECHS[s.chassis[m]].half[2], np.asarray(spot, float) - s.pos[m]
    if level.muzzle_clearance_vox == 0 or weapon in o.HITSCAN:
        return False
    muzzle = s.pos[m] + np.array([0, 0, half + 0.5 if weapon in o.HOMING else 0.8 * half], np.float32)
    direction = to_target / np.linalg.norm(to_target) + [0, 0, 0.5] if weapon in o.HOMING else spot - muzzle
    end = (muzzle + direction / np.linalg.norm(direction) * level.muzzle_clearance_vox).astype(np.float32)
    return cast(o.SHOTS[s.material], muzzle, end, include_end=True) is not None


def paint_wait(level: Level, s, m: int, known: Track, waited_s: float, new_target: bool) -> tuple[bool, float]:
    """Return whether launches wait for a scout to paint the target, and the time waited after this decision [s]."""
    launchers = [o.GUNS[weapon].timer for weapon in o.CARRIED[int(s.chassis[m])] if weapon in o.HOMING]
    if not launchers:
        return False, waited_s
    unpainted = known.sees and not known.paint
    waits = level.missiles >= MissileUse.AWAIT_PAINT and unpainted and scout_may_paint(s, m, known.pos)
    waited_s = 0.0 if new_target or not waits else waited_s
    awaits = waits and waited_s < 2.0
    return awaits, waited_s + DT_ACT * (awaits and s.cooldown[m, launchers[0]] <= TICKS)


def triggers(
    memory: Memory, s, m: int, known: Track | None, waited_s: float, prob: float, new_target: bool
) -> tuple[dict[int, float], float, set[int]]:
    """Return the trigger and vent columns that a pilot sets, its time waited for paint [s], and the weapons it fires.

    ``waited_s`` is the time before this decision; ``new_target`` says whether the target was chosen in this decision.
    """
    level, chassis = level_of(s, m), int(s.chassis[m])
    # in single precision, because heat is in tenths and a plan may meet its limit exactly
    cap, movement_plan, columns = np.float32(o.MECHS[chassis].heat_cap), np.float32(s.heat[m]), {}
    fired: set[int] = set()
    shoots = uniform01(int(s.seed), StreamId.AGENT, int(s.tick), m, 1) < prob * level.trigger_prob
    hot = movement_plan > np.float32(level.vent_above) * cap
    if known and shoots and not hot:
        awaits_paint, waited_s = paint_wait(level, s, m, known, waited_s, new_target)
        for weapon in BY_DAMAGE_PER_HEAT if level.best_damage_per_heat_first else sorted(o.GUNS):
            slot = o.CARRIED[chassis].get(weapon)
            if slot is None or weapon in o.SMOKES or s.cooldown[m, o.GUNS[weapon].timer] > TICKS:
                continue
            affordable = movement_plan + np.float32(o.GUNS[weapon].heat) <= np.float32(min(level.heat_limit, 1e9)) * cap
            expected = affordable and wants(memory, level, s, m, weapon, known, awaits_paint)
            if expected and not muzzle_blocked(level, s, m, weapon, known.pos):
                columns[COLUMN[slot]] = 1.0
                fired.add(weapon)
                waited_s *= weapon not in o.HOMING
                movement_plan += np.float32(o.GUNS[weapon].heat)
    vent_above = level.vent_firing_above if fired else level.vent_idle_above
    if hot or s.heat[m] > np.float32(min(vent_above, 1e9)) * cap:
        columns[VENT] = 1.0
    return columns, waited_s, fired


def ewar_column(s, m: int, level: Level, contact: bool) -> float:
    mates = [k for k in pack_of(m) if k != m and s.alive[k]]
    quality = np.mean([s.quality[k] for k in mates]) if mates else 1.0
    hot = s.heat[m] / o.MECHS[s.chassis[m]].heat_cap > 0.7
    if level.ewar == EwarUse.OFF or (level.ewar == EwarUse.SILENT and not contact):
        return 0.0
    eccm = (level.ewar == EwarUse.COOL and hot) or (level.ewar >= EwarUse.SUPPORT and quality < 0.7)
    return 0.75 if eccm else 0.25


def segment_distance(point, a, b) -> float:
    """Return the distance of a point from a segment [vox]."""
    a, along = a.astype(float), b.astype(float) - a
    return float(np.linalg.norm(a + along * nearest_on(a, along, point) - point))


def in_the_open(memory: Memory, s, m: int, flow) -> bool:
    """Return whether a near hostile beyond own gun range sees a pilot outside the zone, without cover on its path."""
    # imported here because movement imports the aiming bias from this module
    from tests.oracles.moves import GUN_RANGE, Paths

    level, c, p = level_of(s, m), int(s.chassis[m]), s.pos[m]
    seen = [memory.known(level, m, j) for j in range(o.count(s)) if o.hostile(s, m, j)]
    eyes = sorted((o.distance(known.pos, p), tuple(known.pos)) for known in seen if known and known.sees)
    if o.flat(p[:2] - s.zone[:2]) < s.zone[2] or not eyes or not GUN_RANGE[c] < eyes[0][0] <= 20:
        return False
    paths, foot = Paths(s, flow, c), float(p[2] - o.MECHS[c].half[2])
    for cells in (2, 4, 6, 8):
        ahead_at = paths.ahead(p, foot, cells)
        if ahead_at is None:
            return True
        if (
            cast(o.SIGHT[s.material], np.array(eyes[0][1], np.float32), np.array([*ahead_at, p[2]], np.float32))
            is not None
        ):
            return False
    return True


def deploys_smoke(memory: Memory, s, after, m: int, known: Track | None, flow) -> bool:
    """Return whether a pilot deploys smoke: for defence or on open ground, unless it blinds a packmate."""
    level, p = level_of(s, m), s.pos[m].astype(float)
    if level.smoke == SmokeUse.NEVER:
        return False
    chased = o.is_chased(s, m)
    hurt = s.hp[m] < 0.35 * o.MECHS[s.chassis[m]].hp
    defends = known and known.sees and ((s.was_hit[m] and hurt) or (chased and s.painted[m] > 0))
    if not defends and not (level.smoke == SmokeUse.SCREENING and in_the_open(memory, s, m, flow)):
        return False
    near = known and o.distance(known.pos, p) <= 20
    burst = known.pos.astype(float) if near else p + 20 * o.ahead(s.yaw[m])
    mates = [k for k in pack_of(m) if k != m and s.alive[k] and level_of(s, k) and after.pilot_target[k] >= 0]
    return not any(after.pilot_sees[k] and segment_distance(burst, s.pos[k], after.pilot_spot[k]) <= 3 for k in mates)


def systems(memory: Memory, s, after, m: int, known: Track | None, flow) -> dict[int, float]:
    """Return the action columns of contact display, EWAR, smoke and target preference; ``after`` has the targets."""
    level, j = level_of(s, m), int(after.pilot_target[m])
    columns = {14: 1.0, 17: 1.0}
    if s.chassis[m] == o.SCOUT:
        columns[SECONDARY] = ewar_column(s, m, level, j >= 0)
    if known and level.requests_target:
        columns |= {9 + k: 1.0 for k in range(5) if s.contact[m][k] == j}
    smoke = [slot for weapon, slot in o.CARRIED[int(s.chassis[m])].items() if weapon in o.SMOKES]
    if smoke and deploys_smoke(memory, s, after, m, known, flow):
        columns[COLUMN[smoke[0]]] = 1.0
    return columns
