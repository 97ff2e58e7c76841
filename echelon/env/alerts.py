"""Alerts: which contact takes slot 0 of the heavy suite's display.

In order of urgency: a missile in flight at the observer, an imminent collision, an ambush (a hostile close behind with
line of sight), paint that gives missiles a lock, and critical heat or stability, which points at the nearest hostile.
Only mechs that the observer knows of are ever shown.
"""

import warp as wp

from echelon.env.display import DisplayRules, Viewer, known_age
from echelon.sim.geometry import cos_sin
from echelon.sim.kernels.fire import HOMING
from echelon.sim.state import ROUNDS_PER_MECH, Mechs, Rounds, Senses
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

CLEAR = wp.constant(wp.uint8(1))
FAR = wp.constant(1.0e30)


@wp.struct
class Threats:
    """Candidates for an alert among the mechs in sight, -1 for none."""

    colliding: int
    ambusher: int
    nearest_hostile: int


@wp.func
def has_missile_on(rules: Rules, rounds: Rounds, e: int, shooter: int, target: int) -> bool:
    """Whether a missile of ``shooter`` homes on ``target``."""
    for s in range(ROUNDS_PER_MECH):
        if rounds.round_target[e, shooter, s] == target:
            w = rounds.round_weapon[e, shooter, s]
            if w >= 0 and rules.weapons[wp.max(w, 0)].guidance == HOMING:
                return True
    return False


@wp.func
def contact_time(r: wp.vec3, rv: wp.vec3) -> float:
    """Return the seconds until contact at relative position ``r`` and velocity ``rv``; FAR if not approaching."""
    closing = -wp.dot(rv, r)
    if closing <= 0.0:
        return FAR
    return wp.dot(r, r) / closing


@wp.func
def alerted_contact(rules: Rules, d: DisplayRules, viewer: Viewer, mechs: Mechs, rounds: Rounds, senses: Senses) -> int:
    """Return the mech that the observer's most urgent alert is about, -1 for none."""
    e = viewer.env
    m = viewer.mech
    threats = Threats(-1, -1, -1)
    soonest = d.collision_s
    behind = rules.targeted_range
    near = float(FAR)
    cs = cos_sin(mechs.yaw[e, m])
    for j in range(mechs.alive.shape[1]):
        age = known_age(d, viewer, mechs, senses, j)
        hostile = mechs.team[e, j] != mechs.team[e, m]
        if age >= 0 and hostile and has_missile_on(rules, rounds, e, j, m):
            return j
        if age == 0:
            r = mechs.pos[e, j] - mechs.pos[e, m]
            distance = wp.length(r)
            t = contact_time(r, mechs.vel[e, j] - mechs.vel[e, m])
            if t < soonest:
                soonest = t
                threats.colliding = j
            rear = r[0] * cs[0] + r[1] * cs[1] < 0.0
            if hostile and distance <= behind and senses.sight[e, m, j] == CLEAR and rear:
                behind = distance
                threats.ambusher = j
            if hostile and distance < near:
                near = distance
                threats.nearest_hostile = j
    if threats.colliding >= 0:
        return threats.colliding
    if threats.ambusher >= 0:
        return threats.ambusher
    painter = mechs.painter[e, m]
    if mechs.painted[e, m] > 0 and painter >= 0:
        if mechs.team[e, painter] != mechs.team[e, m] and known_age(d, viewer, mechs, senses, painter) >= 0:
            return painter
    hot = mechs.heat[e, m] > d.reactor_heat * rules.chassis[mechs.chassis[e, m]].heat_cap
    if hot or mechs.stability[e, m] < d.low_stability:
        return threats.nearest_hostile
    return -1
