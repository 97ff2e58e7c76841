"""Plain-Python rules of the skill levels: the desired velocity of a pilot and its throttles."""

from copy import copy
from math import atan2, floor, hypot

import numpy as np

from echelon.actions import Order
from echelon.agents.levels import (
    FIRST_LEVEL,
    JetUse,
    Level,
    RangePolicy,
    Retreat,
    Route,
    StuckRecovery,
    ZoneTactic,
    delay_decisions,
)
from echelon.nav.field import FLOW_GOAL, FLOW_NONE, FLOW_STEP
from echelon.nav.graph import RADII, RADIUS_OF_CHASSIS
from echelon.sim.random import StreamId, uniform01
from tests.oracles import shared as o
from tests.oracles.levels import DT_ACT, Memory, Track, level_of, pack_of
from tests.oracles.triggers import DT, aim_bias

BACKING_OUT, NORMAL = 1, 0
CALM_S = 3.0
FLANK_S = 4.0
GUN_RANGE = [
    max((o.GUNS[w].own_sight or o.GUNS[w].range for w in o.CARRIED[c] if o.GUNS[w].damage > 0), default=0.0)
    for c in range(len(o.MECHS))
]
"""Longest gun range of each class by own sight [vox]."""
NO_LANE, COVERED, FLANK = -1, 0, 1


def unit(v) -> np.ndarray:
    """Return a horizontal direction, zero for none."""
    v = np.asarray(v, float)[:2]
    n = hypot(*v)
    return v / n if n >= 1e-6 else np.zeros(2)


class Paths:
    """The paths of one map for one class: flow codes ``[k, y, x]`` of the shortest path and of the lanes."""

    def __init__(self, s, flow: np.ndarray, chassis: int) -> None:
        self.size = s.size
        layers = flow.reshape(-1, len(RADII) + 2, *flow.shape[1:])[int(s.map_slot)]
        self.code = layers[RADII.index(RADIUS_OF_CHASSIS[chassis])]
        self.lanes = layers[len(RADII) :]

    def level(self, x: int, y: int, foot: float) -> int:
        k = int(np.clip(floor(foot + 0.01), 0, len(self.code) - 1))
        while k > 0 and self.code[k, y, x] == FLOW_NONE:
            k -= 1
        return k

    def ahead(self, p, foot: float, cells: int, lane: int = NO_LANE) -> np.ndarray | None:
        """Return the point ``cells`` steps ahead on a path, None without a path or inside the zone.

        Where a lane does not lead through the cell, the shortest path is used.
        """
        x, y = (int(np.clip(floor(p[i]), 0, self.size[i] - 1)) for i in (0, 1))
        k = self.level(x, y, foot)
        code = self.lanes[lane] if lane != NO_LANE and self.lanes[lane][k, y, x] != FLOW_NONE else self.code
        for _ in range(cells):
            if code[k, y, x] == FLOW_NONE:
                return None
            if code[k, y, x] != FLOW_GOAL:
                dx, dy, dk = FLOW_STEP[code[k, y, x]]
                x, y, k = x + int(dx), y + int(dy), k + int(dk)
        return None if code[k, y, x] == FLOW_GOAL else np.array([x + 0.5, y + 0.5])


def sidestep_side(level: Level, s, m: int) -> float:
    """Return the side of the sidestep, 1 or -1."""
    seconds = float(np.float32(s.tick) * np.float32(DT))
    block = 0
    if level.sidestep_s > 0:
        phase = float(uniform01(int(s.seed), StreamId.AGENT, 0, m, 8))
        block = int(seconds / level.sidestep_s + phase)
        if level.sidestep_random:
            late = float(uniform01(int(s.seed), StreamId.AGENT, block, m, 9))
            block -= seconds / level.sidestep_s + phase - block < 0.6 * late
    if not level.sidestep_random:
        return 1.0 if (block + m) % 2 == 0 else -1.0
    return 1.0 if uniform01(int(s.seed), StreamId.AGENT, block, m, 10) < 0.5 else -1.0


def fighting_distance(level: Level, s, m: int, target_share: float, inside: bool, aims: bool) -> float:
    """Return the desired distance to the target [vox]."""
    c = int(s.chassis[m])
    heat, hp = s.heat[m] / o.MECHS[c].heat_cap, s.hp[m] / o.MECHS[c].hp
    if level.range_policy == RangePolicy.FIXED:
        return 5.5
    d = {o.SCOUT: 9.0, o.LIGHT: 4.0 if heat < 0.5 else 7.0}.get(c, 7.5)
    if c == o.HEAVY and not inside:
        d = 16.0 if level.range_policy == RangePolicy.KITING and aims and s.cooldown[m, 1] == 0 else 11.0
    if level.range_policy >= RangePolicy.ADAPTIVE:
        d += 3.0 * (heat > 0.6) + 3.0 * (hp < 0.4) - 2.0 * (target_share < 0.25)
    return max(3.5, d)


def odds(memory: Memory, s, m: int) -> float:
    own = theirs = 0.0
    for j in range(o.count(s)):
        weight = o.MECHS[s.chassis[j]].tonnage / o.MECHS[s.chassis[j]].hp
        known = memory.known(level_of(s, m), m, j) if o.hostile(s, m, j) else None
        if known and known.age == 0 and o.distance(known.pos, s.pos[m]) < 18:
            theirs += weight * known.hp
        elif not o.hostile(s, m, j) and s.alive[j] and o.distance(s.pos[j], s.pos[m]) < 18:
            own += weight * s.hp[j]
    return own / max(1.0, theirs)


def must_cool(level: Level, s, m: int) -> bool:
    share, heat = s.hp[m] / o.MECHS[s.chassis[m]].hp, s.heat[m] / o.MECHS[s.chassis[m]].heat_cap
    return bool(level.retreat >= Retreat.COOL and share < 0.35 and heat > 0.4)


def begins_retreat(memory: Memory, level: Level, s, m: int, outside: bool, seen: bool) -> bool:
    share = s.hp[m] / o.MECHS[s.chassis[m]].hp
    if level.retreat == Retreat.NEVER or not seen:
        return False
    if level.retreat == Retreat.ONCE:
        return bool(share < 0.2 and outside)
    lost = level.retreat == Retreat.ODDS and outside and odds(memory, s, m) < 0.35
    return must_cool(level, s, m) or lost


def retreat_time_left(before_s: float, breaks: bool) -> float:
    """Return the time left of the one retreat of a battle [s]."""
    if before_s == 0:
        return 3.0 if breaks else 0.0
    if before_s > 0:
        return -1.0 if before_s <= DT_ACT + 1e-4 else before_s - DT_ACT
    return before_s


def walk(level: Level, s, p, path, go: bool) -> np.ndarray:
    centre, radius = s.zone[:2].astype(float), float(s.zone[2])
    d = o.flat(centre - p[:2])
    if not go and d < radius + 4:
        return -path if d < radius + 2 else np.zeros(2)
    if d > radius:
        return path * level.throttle
    if level.zone == ZoneTactic.ENTER or d > 0.8 * radius:
        return unit(centre - p[:2]) * level.throttle * d / radius
    return np.zeros(2)


def manoeuvre(level: Level, s, m: int, spot, expected: float, side: float, path, go: bool) -> np.ndarray:
    """Return the velocity that keeps the fighting distance and sidesteps, inside the zone or on the path to it."""
    p, zone, radius = s.pos[m].astype(float), s.zone[:2].astype(float), float(s.zone[2])
    u = unit(spot[:2] - p[:2])
    radial = np.clip((o.flat(spot - p) - expected) / 2, -1, 1)
    velocity = u * radial + np.array([-u[1], u[0]]) * side * level.sidestep
    if not go:
        return velocity
    if o.flat(p[:2] - zone) >= radius:
        return velocity + (1.5 if s.is_ordered else 0.6) * path
    then = p[:2] + velocity * o.MECHS[s.chassis[m]].speed
    if o.flat(then - zone) > 0.8 * radius:
        inward = unit(zone - p[:2])
        across = np.array([-inward[1], inward[0]])
        return 0.6 * inward + 0.6 * (velocity @ across) * across
    return velocity


def flank_time_left(memory: Memory, s, m: int, flow, left_s: float) -> float:
    """Return the time left on the flank path [s]; it restarts while a hostile covers the shortest path."""
    level, c = level_of(s, m), int(s.chassis[m])
    left_s = 0.0 if memory.now == 0 else max(0.0, left_s - DT_ACT)
    if level.route != Route.FLANKING or o.flat(s.zone[:2] - s.pos[m][:2]) < s.zone[2]:
        return left_s
    point = Paths(s, flow, c).ahead(s.pos[m], float(s.pos[m][2] - o.MECHS[c].half[2]), 12)
    for j in range(o.count(s)) if point is not None else []:
        known = memory.known(level, m, j) if o.hostile(s, m, j) else None
        if known and o.flat(known.pos[:2] - point) <= GUN_RANGE[s.chassis[j]]:
            return FLANK_S
    return left_s


def shortest(s, m: int, flow, lane: int = NO_LANE) -> np.ndarray:
    """Return the direction of the shortest path to the zone, or of a lane; the straight line without a path."""
    c, p = int(s.chassis[m]), s.pos[m]
    point = Paths(s, flow, c).ahead(p, float(p[2] - o.MECHS[c].half[2]), 4, lane)
    return unit((s.zone[:2] if point is None else point) - p[:2].astype(float))


def path_to_zone(s, m: int, flow, flanks: bool) -> np.ndarray:
    route = level_of(s, m).route
    if route == Route.STRAIGHT:
        return unit(s.zone[:2] - s.pos[m][:2].astype(float))
    return shortest(s, m, flow, COVERED if route == Route.COVERED else FLANK if flanks else NO_LANE)


def gathers(s, m: int, waited_s: float) -> bool:
    level, mine = level_of(s, m), int(s.team[m])
    away = [o.flat(s.zone[:2].astype(float) - s.pos[k][:2]) for k in range(o.count(s))]
    alone = s.zone_tonnage[1 - mine] > 0 and not s.zone_tonnage[mine] > 0
    left_s = level.gather_s - waited_s
    if left_s <= 0 or not alone or not s.zone[2] <= away[m] <= s.zone[2] + 20:
        return False
    mates = [k for k in pack_of(m) if k != m and s.alive[k]]
    return any(4 < away[k] - away[m] <= o.MECHS[s.chassis[k]].speed * left_s for k in mates)


def combat_velocity(
    level: Level, s, m: int, known: Track, j: int, path, go: bool, inside: bool, walking: np.ndarray
) -> np.ndarray:
    """Return the desired velocity with target ``j``: it fights, pursues, sidesteps, or keeps ``walking``."""
    p, spot, sees = s.pos[m].astype(float), known.pos.astype(float), known.sees
    d, back, d_zone = o.distance(spot, p), unit(p[:2] - spot[:2]), o.flat(s.zone[:2] - p[:2])
    side = sidestep_side(level, s, m)
    target_share = known.hp / o.MECHS[s.chassis[j]].hp if known.age == 0 else 1.0
    expected = fighting_distance(level, s, m, target_share, inside, sees)
    if level.range_policy == RangePolicy.FIXED:
        return back * 0.3 if d < expected and not (s.chassis[m] == o.HEAVY and inside) else walking
    if sees and d < expected + 5:
        return manoeuvre(level, s, m, spot, expected, side, path, go)
    pursues = not s.is_ordered and level.pursues_unseen and s.pilot_escape_s[m] <= -CALM_S and not sees and go
    if pursues and d < 20 and d_zone < s.zone[2] + 6:
        return -back
    if sees and inside and d < 25:
        return walking + np.array([-back[1], back[0]]) * side * level.sidestep
    return walking


def ordered_place(s, after, m: int) -> np.ndarray:
    """Return the circle that takes the place of the zone for a pilot with an order; zeros without one that it knows."""
    if s.order_kind[m] != Order.FOCUS:
        return s.order_goal[m]
    reached = after.pilot_sees[m] and o.distance(after.pilot_spot[m], s.pos[m]) < 12
    walks = after.pilot_target[m] == s.order_mech[m] and not reached
    return np.array([*after.pilot_spot[m][:2], 1.0]) * walks


def movement_plan(
    memory: Memory, s, after, m: int, flow, retreat_s: float, flank_s: float, waited_s: float
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return the desired velocity, the path, time left of a retreat, time waited; ``after`` has the target."""
    level, c, p = level_of(s, m), int(s.chassis[m]), s.pos[m].astype(float)
    path, s, place = path_to_zone(s, m, flow, flank_s > 0), copy(s), ordered_place(s, after, m)
    s.is_ordered = place[2] > 0
    if s.is_ordered:
        s.zone = np.asarray(place, float)
        path = path if s.order_kind[m] == Order.ADVANCE else unit(place[:2] - p[:2])
    d_zone = o.flat(s.zone[:2] - p[:2])
    inside, team = bool(d_zone < s.zone[2]), int(s.team[m])
    balance = s.zone_tonnage[team] + o.MECHS[c].tonnage * (not inside) - s.zone_tonnage[1 - team]
    go = bool(level.zone != ZoneTactic.BALANCED or s.score[team] < s.score[1 - team] or balance >= -20)
    go = go or bool(s.is_ordered)
    walking, j = walk(level, s, p, path, go), int(after.pilot_target[m])
    velocity = walking
    if not s.is_ordered and level.patrols_zone and go and inside and j < 0 and min(s.zone_tonnage) > 0:
        out = unit(p[:2] - s.zone[:2])
        off = np.clip(0.7 * s.zone[2] - d_zone, -1, 1)
        velocity = unit(out * off + np.array([-out[1], out[0]]) * (-1 if team else 1))
    waited_s = 0.0 if memory.now == 0 else waited_s
    if not s.is_ordered and gathers(s, m, waited_s):
        velocity, waited_s = np.zeros(2), waited_s + DT_ACT
    known = memory.known(level, m, j) if j >= 0 else None
    if known:
        velocity = combat_velocity(level, s, m, known, j, path, go, inside, velocity)
        retreats = begins_retreat(memory, level, s, m, not inside, known.sees)
        if level.retreat == Retreat.ONCE:
            retreat_s = retreat_time_left(retreat_s, retreats)
            retreats = retreat_s > 0
        if retreats and s.is_ordered:
            retreat_s = 3.0 if level.retreat >= Retreat.COOL else retreat_s
        elif retreats:
            back = unit(p[:2] - known.pos.astype(float)[:2])
            velocity = back + np.array([-back[1], back[0]]) * 0.4 * sidestep_side(level, s, m)
            retreat_s = 3.0 if level.retreat >= Retreat.COOL else retreat_s
    if level.retreat >= Retreat.COOL:
        retreat_s = retreat_s if must_cool(level, s, m) else 0.0
        waits = retreat_s > 0 and not (known and known.sees) and not s.is_ordered
        velocity = np.zeros(2) if waits else velocity
    if s.order_kind[m] == Order.RETREAT and not inside:
        velocity = walking
    return velocity / max(1.0, o.flat(velocity)), path, retreat_s, waited_s


def height(s, m: int) -> int:
    """Return the free cells below the feet, six of them at most."""
    x, y = (int(np.clip(floor(s.pos[m][i]), 0, s.size[i] - 1)) for i in (0, 1))
    foot = floor(float(s.pos[m][2]) - o.MECHS[s.chassis[m]].half[2] + 0.01)
    below = [o.MOVES[s.material[z, y, x]] if z < s.size[2] else False for z in range(foot - 1, max(-1, foot - 7), -1)]
    return next((i for i, solid in enumerate(below) if solid), len(below))


def throttles(s, after, m: int) -> np.ndarray:
    """Return the four throttles of a pilot whose commanded velocity is in ``after``."""
    level, yaw, spot = level_of(s, m), float(s.yaw[m]), after.pilot_spot[m].astype(float)
    fights, p = after.pilot_target[m] >= 0, s.pos[m].astype(float)
    near = o.distance(spot, p) if fights else 1e9
    if level.leads_target:
        late = after.pilot_drift[m].astype(float) * (1 + delay_decisions(level, DT_ACT))
        spot = spot + (late - s.vel[m]) * DT_ACT
    behind = level.faces_rear_attacker and s.was_hit[m] and s.hit_dir[m].astype(float) @ o.ahead(yaw) < 0
    if fights and o.distance(spot, p) < (8 if behind else level.face_within_vox):
        bearing = atan2(spot[1] - p[1], spot[0] - p[0]) + aim_bias(level, s, m)
    elif behind:
        bearing = atan2(s.hit_dir[m][1], s.hit_dir[m][0])
    else:
        bearing = atan2(after.pilot_way[m][1], after.pilot_way[m][0])
    velocity = np.array([*after.pilot_move[m].astype(float), 0.0])
    forward, strafe = velocity @ o.ahead(yaw), velocity @ o.left(yaw)
    phase = int(after.pilot_phase[m]) if level.stuck_recovery == StuckRecovery.BACK_OUT else NORMAL
    chased = o.is_chased(s, m)
    shaken = level.jets >= JetUse.TACTICAL and (chased or near < 3)
    flees = level.stuck_recovery == StuckRecovery.FREE_DIRECTION and after.pilot_escape_s[m] > 0
    over = level.jets >= JetUse.OBSTACLES and (after.pilot_stuck_s[m] > 0.5 or after.pilot_hops[m])
    wants = level.jets != JetUse.NEVER and bool(shaken or phase != NORMAL or flees or over)
    apex = height(s, m) + max(0.0, float(s.vel[m][2])) ** 2 / (2 * 9.81)
    jump = float(o.MECHS[s.chassis[m]].jet > 0 and wants and apex < 6)
    if phase != NORMAL and (not jump or s.vel[m][2] <= 0):
        backs = phase == BACKING_OUT and after.pilot_timer_s[m] <= 1.0
        forward, strafe = (-1.0 if backs else 0.0), (0.0 if phase == BACKING_OUT else float(after.pilot_side[m]))
    turn = np.clip(o.wrap(bearing - yaw) / (o.MECHS[s.chassis[m]].yaw_rate * DT_ACT), -1, 1)
    return np.array([forward, strafe, jump, turn])


def level_controlled(s) -> list[int]:
    return [m for m in o.living(s) if s.script[m] >= FIRST_LEVEL]
