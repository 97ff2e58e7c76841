"""The order of contacts: sort keys by the observer's sort mode and by the age of a track, lower first."""

import warp as wp

from echelon.env.display import DisplayRules, Viewer, confidence, priority_share
from echelon.sim.state import Mechs, Tracks
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
