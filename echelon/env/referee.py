"""Scores the zone, decides when an episode ends and who won, and keeps each episode's record.

``terminated`` and ``truncated`` are never merged: a zone win or an elimination terminates everyone, the time limit
truncates the living and leaves the dead terminated.
"""

# ruff: noqa: E501
import warp as wp

from echelon.sim.geometry import xy_length
from echelon.sim.state import Field
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

REASONS = ("", "zone_control", "elimination", "time_up")
WINNERS = ("blue", "red", "draw")
ZONE_CONTROL = wp.constant(1)
ELIMINATION = wp.constant(2)
TIME_UP = wp.constant(3)
DRAW = wp.constant(2)
MARGIN = wp.constant(1.0e-3)
"""Least difference of scores or hit points that decides."""
NO_WINNER = wp.constant(-1)
SCORE_ROUNDING = wp.constant(1.0e-4)
"""Slack for the rounding of summed scores [s]."""

FIELDS: dict[str, Field] = {
    "over": Field(wp.int32, "E", "1 if the episode ended in this decision"),
    "cut": Field(wp.int32, "E", "1 if it ended by the time limit"),
    "ended": Field(wp.int32, "E", "1 from the end of an episode until the next begins"),
    "winner": Field(wp.int32, "E", "0 blue, 1 red, 2 draw, -1 undecided"),
    "reason": Field(wp.int32, "E", "index into REASONS"),
    "terminated": Field(wp.int32, "EM", "1 if the agent's episode ended for good"),
    "truncated": Field(wp.int32, "EM", "1 if the time limit cut a living agent off"),
    "engaged": Field(wp.int32, "EM", "ticks for which the mech counts as engaged"),
    "done_count": Field(wp.int32, "E", "episodes finished"),
    "done_seed": Field(wp.uint32, "E", "seed of the last finished episode"),
    "done_length": Field(wp.int32, "E", "its decisions"),
    "done_winner": Field(wp.int32, "E", "its winner"),
    "done_reason": Field(wp.int32, "E", "its reason"),
    "done_hp": Field(wp.vec2, "E", "hit points left of blue and red"),
    "done_score": Field(wp.vec2, "E", "zone scores of blue and red"),
    "done_return": Field(wp.float32, "EM", "sum of rewards"),
    "done_terms": Field(wp.float32, "EMR", "sum of each reward term"),
    "done_alive": Field(wp.int32, "EM", "1 if it survived"),
    "done_present": Field(wp.int32, "EM", "1 if it took part"),
    "sum_return": Field(wp.float32, "EM", "sum of rewards so far"),
    "sum_terms": Field(wp.float32, "EMR", "sum of each reward term so far"),
}


@wp.func
def in_zone(zone: wp.vec3, pos: wp.vec3) -> bool:
    """Whether a mech's centre is inside the zone circle, at any height."""
    return xy_length(wp.vec3(pos[0] - zone[0], pos[1] - zone[1], 0.0)) < zone[2]


@wp.func
def zone_ticks(rules: Rules, tonnage: wp.vec2) -> wp.vec2:
    """Zone tick of blue and red from their tonnage inside."""
    b = tonnage[0]
    r = tonnage[1]
    if b > 0.0 and r > 0.0:
        f = rules.contested_floor
        lead = (b - r) / (b + r)
        return wp.vec2(f + (1.0 - f) * wp.max(0.0, lead), f + (1.0 - f) * wp.max(0.0, -lead))
    out = wp.vec2(0.0, 0.0)
    if b > 0.0:
        out[0] = 1.0
    if r > 0.0:
        out[1] = 1.0
    return out


@wp.func
def higher(a: wp.vec2, margin: float) -> int:
    """Index of the larger entry, or NO_WINNER within the margin."""
    if a[0] > a[1] + margin:
        return 0
    if a[1] > a[0] + margin:
        return 1
    return NO_WINNER


@wp.func
def judge(score: wp.vec2, hp: wp.vec2) -> int:
    """Winner by score, then by hit points, then a draw."""
    w = higher(score, MARGIN)
    if w == NO_WINNER:
        w = higher(hp, MARGIN)
    if w == NO_WINNER:
        w = DRAW
    return w


@wp.kernel
def update_outcome(
    # rules
    rules: Rules,
    # world
    zone: wp.array(dtype=wp.vec3),
    # state in
    alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), hp: wp.array2d(dtype=wp.float32), seed: wp.array(dtype=wp.uint32),
    # state out
    decision: wp.array(dtype=wp.int32), score: wp.array(dtype=wp.vec2), zone_tick: wp.array(dtype=wp.vec2), zone_tonnage: wp.array(dtype=wp.vec2), over: wp.array(dtype=wp.int32), cut: wp.array(dtype=wp.int32), ended: wp.array(dtype=wp.int32), winner: wp.array(dtype=wp.int32), reason: wp.array(dtype=wp.int32),
    # events
    done_count: wp.array(dtype=wp.int32), done_seed: wp.array(dtype=wp.uint32), done_length: wp.array(dtype=wp.int32), done_winner: wp.array(dtype=wp.int32), done_reason: wp.array(dtype=wp.int32), done_hp: wp.array(dtype=wp.vec2), done_score: wp.array(dtype=wp.vec2),
):
    """Score the zone for one decision, then check the ends in order: score, elimination, time."""
    e = wp.tid()
    over[e] = 0
    cut[e] = 0
    if ended[e] == 1:
        return
    tonnage = wp.vec2(0.0, 0.0)
    left = wp.vec2(0.0, 0.0)
    living = wp.vec2(0.0, 0.0)
    for m in range(alive.shape[1]):
        if alive[e, m] == 1:
            t = team[e, m]
            left[t] = left[t] + hp[e, m]
            living[t] = living[t] + 1.0
            if in_zone(zone[e], pos[e, m]):
                tonnage[t] = tonnage[t] + rules.tonnage[chassis[e, m]]
    ticks = zone_ticks(rules, tonnage)
    points = score[e] + ticks * rules.dt_act
    zone_tonnage[e] = tonnage
    zone_tick[e] = ticks
    score[e] = points
    decision[e] = decision[e] + 1
    why = int(0)
    who = int(NO_WINNER)
    if points[0] >= rules.score_to_win - SCORE_ROUNDING or points[1] >= rules.score_to_win - SCORE_ROUNDING:
        why = ZONE_CONTROL
        who = judge(points, left)
    elif living[0] == 0.0 or living[1] == 0.0:
        why = ELIMINATION
        who = higher(living, 0.0)
        if who == NO_WINNER:
            who = DRAW
    elif decision[e] >= rules.max_decisions:
        why = TIME_UP
        who = judge(points, left)
    winner[e] = who
    reason[e] = why
    if why > 0:
        over[e] = 1
        ended[e] = 1
        cut[e] = wp.where(why == TIME_UP, 1, 0)
        done_count[e] = done_count[e] + 1
        done_seed[e] = seed[e]
        done_length[e] = decision[e]
        done_winner[e] = who
        done_reason[e] = why
        done_hp[e] = left
        done_score[e] = points


@wp.kernel
def set_done_flags(
    # rules
    rules: Rules,
    # state in
    present: wp.array2d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), over: wp.array(dtype=wp.int32), cut: wp.array(dtype=wp.int32), fired: wp.array2d(dtype=wp.int32), was_hit: wp.array2d(dtype=wp.int32),
    # state out
    terminated: wp.array2d(dtype=wp.int32), truncated: wp.array2d(dtype=wp.int32), engaged: wp.array2d(dtype=wp.int32),
):
    """Set each agent's flags, never both, and note who is in a fight."""
    e, m = wp.tid()
    gone = 1 - alive[e, m]
    terminated[e, m] = gone
    truncated[e, m] = 0
    if over[e] == 1:
        truncated[e, m] = cut[e] * alive[e, m]
        terminated[e, m] = 1 - truncated[e, m]
    engaged[e, m] = wp.max(0, engaged[e, m] - rules.ticks_per_decision)
    if fired[e, m] != 0 or was_hit[e, m] == 1:
        engaged[e, m] = rules.engaged_ticks


@wp.kernel
def accumulate_returns(
    # state in
    over: wp.array(dtype=wp.int32), present: wp.array2d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), reward: wp.array2d(dtype=wp.float32), terms: wp.array3d(dtype=wp.float32),
    # events
    sum_return: wp.array2d(dtype=wp.float32), sum_terms: wp.array3d(dtype=wp.float32), done_return: wp.array2d(dtype=wp.float32), done_terms: wp.array3d(dtype=wp.float32), done_alive: wp.array2d(dtype=wp.int32), done_present: wp.array2d(dtype=wp.int32),
):
    """Add this decision's rewards to the episode's sums; at its end, file them and start afresh."""
    e, m = wp.tid()
    total = sum_return[e, m] + reward[e, m]
    sum_return[e, m] = total * float(1 - over[e])
    if over[e] == 1:
        done_return[e, m] = total
        done_alive[e, m] = alive[e, m]
        done_present[e, m] = present[e, m]
    for i in range(terms.shape[2]):
        part = sum_terms[e, m, i] + terms[e, m, i]
        sum_terms[e, m, i] = part * float(1 - over[e])
        if over[e] == 1:
            done_terms[e, m, i] = part


@wp.kernel
def reset_returns(
    # state in
    fresh: wp.array(dtype=wp.int32),
    # state out
    ended: wp.array(dtype=wp.int32), engaged: wp.array2d(dtype=wp.int32), sum_return: wp.array2d(dtype=wp.float32), sum_terms: wp.array3d(dtype=wp.float32),
):
    """Zero what an episode sums up, where one begins."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    if m == 0:
        ended[e] = 0
    engaged[e, m] = 0
    sum_return[e, m] = 0.0
    for i in range(sum_terms.shape[2]):
        sum_terms[e, m, i] = 0.0
