"""Which contact an alert is about: what takes slot 0 of the heavy suite's display while the alert lasts.

The alerts, most urgent first: a missile inbound, somebody about to collide, an ambush (a hostile close behind with
sight), paint that gives missiles a lock, and a reactor or stability that is critical, which is about the nearest hostile.
Only a mech that the viewer knows of is ever shown.
"""

# ruff: noqa: E501
import warp as wp

from echelon.env.display import Display, known_age
from echelon.sim.geometry import cos_sin
from echelon.sim.kernels.fire import HOMING
from echelon.sim.state import ROUNDS_PER_MECH
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

CLEAR = wp.constant(wp.uint8(1))
FAR = wp.constant(1.0e30)


@wp.func
def has_missile_on(
    rules: Rules, e: int, m: int, j: int, round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32)
) -> bool:
    """Whether a missile of j homes on m."""
    for s in range(ROUNDS_PER_MECH):
        if round_target[e, j, s] == m:
            w = round_weapon[e, j, s]
            if w >= 0 and rules.weapon_guidance[wp.max(w, 0)] == HOMING:
                return True
    return False


@wp.func
def contact_time(r: wp.vec3, rv: wp.vec3) -> float:
    """Seconds until something at relative position r closing at rv is here; far off if it is not closing."""
    closing = -wp.dot(rv, r)
    if closing <= 0.0:
        return FAR
    return wp.dot(r, r) / closing


@wp.func
def alerted_contact(
    rules: Rules, d: Display, view: wp.vec4, e: int, m: int, now: int, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32), sight: wp.array3d(dtype=wp.uint8), visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32),
) -> int:
    """The contact that m's most urgent alert is about, -1 none."""
    crash = int(-1)
    soonest = d.collision_s
    ambush = int(-1)
    behind = rules.targeted_range
    threat = int(-1)
    near = float(FAR)
    cs = cos_sin(yaw[e, m])
    for j in range(alive.shape[1]):
        age = known_age(d, view, e, m, j, now, alive, visible, seen)
        hostile = team[e, j] != team[e, m]
        if age >= 0 and hostile and has_missile_on(rules, e, m, j, round_weapon, round_target):
            return j
        if age == 0:
            r = pos[e, j] - pos[e, m]
            distance = wp.length(r)
            t = contact_time(r, vel[e, j] - vel[e, m])
            if t < soonest:
                soonest = t
                crash = j
            if hostile and distance <= behind and sight[e, m, j] == CLEAR and r[0] * cs[0] + r[1] * cs[1] < 0.0:
                behind = distance
                ambush = j
            if hostile and distance < near:
                near = distance
                threat = j
    if crash >= 0:
        return crash
    if ambush >= 0:
        return ambush
    by = painter[e, m]
    if painted[e, m] > 0 and by >= 0:
        if team[e, by] != team[e, m] and known_age(d, view, e, m, by, now, alive, visible, seen) >= 0:
            return by
    hot = heat[e, m] > d.reactor_heat * rules.heat_cap[chassis[e, m]]
    if hot or stability[e, m] < d.low_stability:
        return threat
    return -1
