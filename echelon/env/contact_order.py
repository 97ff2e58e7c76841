# type: ignore
"""The order of contacts, and alerts.

Sort keys depend on the observer's sort mode and on the age of a track, lower first. An alert is the contact that takes
slot 0 of the heavy suite's display. In order of urgency: a missile in flight at the observer, an imminent collision, an
ambush (a hostile close behind with line of sight), paint that gives missiles a lock, and critical heat or stability,
which points at the nearest hostile. Only mechs that the observer knows of are ever shown.
"""

import warp as wp

from echelon.env.display import DisplayRules, Viewer, confidence, known_age, priority_share
from echelon.sim.geometry import cos_sin
from echelon.sim.kernels.fire import HOMING
from echelon.sim.state import ROUNDS_PER_MECH, Mechs, Rounds, Senses, Tracks
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


SORT_BIGGEST = wp.constant(1)
SORT_DAMAGED = wp.constant(2)
ROUNDING = wp.constant(1.0e-6)
"""Rounding of a confidence: ages of whole seconds can be exactly at the faint limit."""


@wp.func
def sort_key(rules: Rules, mode: int, c: int, hp: float, distance: float, penalty: float) -> wp.vec2:
    """Return the sort key (primary, secondary) of a candidate, lower first; ``penalty`` multiplies both."""
    if mode == SORT_BIGGEST:
        return penalty * wp.vec2(1.0 / float(rules.chassis[c].sort_rank), distance)
    if mode == SORT_DAMAGED:
        return penalty * wp.vec2(hp / rules.chassis[c].hp, distance)
    return wp.vec2(penalty * distance, 0.0)


@wp.func
def age_penalty(d: DisplayRules, viewer: Viewer, age: int) -> float:
    """Return the factor on the sort key of a track of this age [steps], at least 1."""
    share = priority_share(d, viewer, age)
    if confidence(d, viewer, age) < d.faint - ROUNDING:
        share *= d.faint
    return 1.0 / share


@wp.func
def track_key(
    rules: Rules, d: DisplayRules, viewer: Viewer, mechs: Mechs, tracks: Tracks, j: int, age: int, mode: int
) -> wp.vec2:
    """Return the sort key of mech j by what the observer knows of it: its current or its last seen state."""
    e = viewer.env
    penalty = age_penalty(d, viewer, age)
    own_pos = mechs.pos[e, viewer.mech]
    c = mechs.chassis[e, j]
    if age == 0:
        return sort_key(rules, mode, c, mechs.hp[e, j], wp.length(mechs.pos[e, j] - own_pos), penalty)
    k = (viewer.step - age) % tracks.trace_pos.shape[1]
    distance = wp.length(tracks.trace_pos[e, k, j] - own_pos)
    return sort_key(rules, mode, c, tracks.trace_body[e, k, j][1], distance, penalty)


@wp.func
def precedes(a: wp.vec2, b: wp.vec2, margin: float) -> bool:
    """Whether key ``a`` is better than ``b`` by a factor; of equal primary keys the secondary ones decide."""
    return a[0] * margin < b[0] or (a[0] == b[0] and a[1] * margin < b[1])


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
    behind = rules.targeted_vox
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
