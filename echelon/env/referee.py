# type: ignore
"""The referee: zone scores, the end of an episode, its winner, and its statistics.

``terminated`` and ``truncated`` are never both set: a zone win or an elimination terminates every agent, the time limit
truncates the living and terminates the dead.
"""

import warp as wp

from echelon.sim.episode_draws import time_limit, winning_score
from echelon.sim.geometry import xy_length
from echelon.sim.state import Episode, Events, Mechs, World
from echelon.sim.structs import Field, array_struct, fields_of
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

REASONS = ("", "zone_control", "elimination", "time_up")
WINNERS = ("blue", "red", "draw")
ZONE_CONTROL, ELIMINATION, TIME_UP = wp.constant(1), wp.constant(2), wp.constant(3)
"""Indices into REASONS."""
DRAW = wp.constant(2)
NO_WINNER = wp.constant(-1)
DECISIVE_MARGIN = wp.constant(1.0e-3)
"""Least difference of scores or hit points that decides."""
SCORE_ROUNDING = wp.constant(1.0e-4)
"""Tolerance for the rounding of summed scores [s]."""


@array_struct
class StepOutcome:
    """State of the match at the end of an environment step."""

    over = Field(wp.int32, "E", "1 if the episode ended in this step")
    timed_out = Field(wp.int32, "E", "1 if it ended by the time limit in this step")
    ended = Field(wp.int32, "E", "1 from the end of an episode until the next reset")
    winner = Field(wp.int32, "E", "0 blue, 1 red, 2 draw, -1 undecided")
    reason = Field(wp.int32, "E", "index into REASONS")
    terminated = Field(wp.int32, "EM", "1 if the agent's episode terminated")
    truncated = Field(wp.int32, "EM", "1 if the time limit ended the episode of a living agent")
    engaged = Field(wp.int32, "EM", "ticks for which the mech still counts as in a fight")


@array_struct
class EpisodeArrays:
    """Returns of the running episode and statistics of the last finished one."""

    done_count = Field(wp.int32, "E", "episodes finished")
    done_seed = Field(wp.uint32, "E", "seed of the last finished episode")
    done_length = Field(wp.int32, "E", "its steps")
    done_winner = Field(wp.int32, "E", "its winner")
    done_reason = Field(wp.int32, "E", "its reason")
    done_hp = Field(wp.vec2, "E", "remaining hit points of blue and red")
    done_score = Field(wp.vec2, "E", "zone scores of blue and red")
    done_return = Field(wp.float32, "EM", "sum of rewards")
    done_terms = Field(wp.float32, "EMR", "sum of each reward term")
    done_alive = Field(wp.int32, "EM", "1 if the mech survived")
    done_present = Field(wp.int32, "EM", "1 if the mech took part")
    sum_return = Field(wp.float32, "EM", "sum of rewards so far")
    sum_terms = Field(wp.float32, "EMR", "sum of each reward term so far")


FIELDS: dict[str, Field] = {**fields_of(StepOutcome), **fields_of(EpisodeArrays)}


@wp.func
def in_zone(zone: wp.vec3, pos: wp.vec3) -> bool:
    return xy_length(wp.vec3(pos[0] - zone[0], pos[1] - zone[1], 0.0)) < zone[2]


@wp.func
def zone_ticks(rules: Rules, tonnage: wp.vec2) -> wp.vec2:
    """Return the zone ticks of blue and red, each 0 to 1, from their tonnage inside."""
    b = tonnage[0]
    r = tonnage[1]
    if b > 0.0 and r > 0.0:
        f = rules.contested_floor
        lead = (b - r) / (b + r)
        return wp.vec2(f + (1.0 - f) * wp.max(0.0, lead), f + (1.0 - f) * wp.max(0.0, -lead))
    ticks = wp.vec2(0.0, 0.0)
    if b > 0.0:
        ticks[0] = 1.0
    if r > 0.0:
        ticks[1] = 1.0
    return ticks


@wp.func
def index_of_larger(a: wp.vec2, margin: float) -> int:
    """Return the index of the larger entry, NO_WINNER within the margin."""
    if a[0] > a[1] + margin:
        return 0
    if a[1] > a[0] + margin:
        return 1
    return NO_WINNER


@wp.func
def winner_of(score: wp.vec2, hp: wp.vec2) -> int:
    """Return the winner by score, then by hit points, else DRAW."""
    winner = index_of_larger(score, DECISIVE_MARGIN)
    if winner == NO_WINNER:
        winner = index_of_larger(hp, DECISIVE_MARGIN)
    if winner == NO_WINNER:
        winner = DRAW
    return winner


@wp.func
def verdict(rules: Rules, seed: wp.uint32, score: wp.vec2, hp: wp.vec2, living: wp.vec2, step: int) -> wp.vec2i:
    """Return (reason, winner) of the match, (0, NO_WINNER) while it goes on; checks score, elimination, time."""
    target = winning_score(rules, seed) - SCORE_ROUNDING
    if score[0] >= target or score[1] >= target:
        return wp.vec2i(ZONE_CONTROL, winner_of(score, hp))
    if living[0] == 0.0 or living[1] == 0.0:
        survivor = index_of_larger(living, 0.0)
        if survivor == NO_WINNER:
            survivor = DRAW
        return wp.vec2i(ELIMINATION, survivor)
    if step >= time_limit(rules, seed):
        return wp.vec2i(TIME_UP, winner_of(score, hp))
    return wp.vec2i(0, NO_WINNER)


@wp.kernel
def update_outcome(
    rules: Rules,
    world: World,
    episode: Episode,
    mechs: Mechs,
    outcome: StepOutcome,
    episode_out: Episode,
    outcome_out: StepOutcome,
    stats_out: EpisodeArrays,
):
    """Add the zone scores of one environment step and decide whether the episode is over."""
    e = wp.tid()
    outcome_out.over[e] = 0
    outcome_out.timed_out[e] = 0
    if outcome.ended[e] == 1:
        return
    tonnage = wp.vec2(0.0, 0.0)
    hp = wp.vec2(0.0, 0.0)
    living = wp.vec2(0.0, 0.0)
    for m in range(mechs.alive.shape[1]):
        if mechs.alive[e, m] == 1:
            t = mechs.team[e, m]
            hp[t] = hp[t] + mechs.hp[e, m]
            living[t] = living[t] + 1.0
            if in_zone(world.zone[e], mechs.pos[e, m]):
                tonnage[t] = tonnage[t] + rules.chassis[mechs.chassis[e, m]].tonnage
    ticks = zone_ticks(rules, tonnage)
    score = episode.score[e] + ticks * rules.dt_act
    step = episode.decision[e] + 1
    episode_out.zone_tonnage[e] = tonnage
    episode_out.zone_tick[e] = ticks
    episode_out.score[e] = score
    episode_out.decision[e] = step
    found = verdict(rules, episode.seed[e], score, hp, living, step)
    reason = found[0]
    outcome_out.reason[e] = reason
    outcome_out.winner[e] = found[1]
    if reason > 0:
        outcome_out.over[e] = 1
        outcome_out.ended[e] = 1
        outcome_out.timed_out[e] = wp.where(reason == TIME_UP, 1, 0)
        stats_out.done_count[e] = stats_out.done_count[e] + 1
        stats_out.done_seed[e] = episode.seed[e]
        stats_out.done_length[e] = step
        stats_out.done_winner[e] = found[1]
        stats_out.done_reason[e] = reason
        stats_out.done_hp[e] = hp
        stats_out.done_score[e] = score


@wp.kernel
def set_done_flags(rules: Rules, mechs: Mechs, events: Events, outcome: StepOutcome, outcome_out: StepOutcome):
    """Set each agent's termination flags, and update whether it is in a fight."""
    e, m = wp.tid()
    truncated = int(0)
    terminated = 1 - mechs.alive[e, m]
    if outcome.over[e] == 1:
        truncated = outcome.timed_out[e] * mechs.alive[e, m]
        terminated = 1 - truncated
    outcome_out.terminated[e, m] = terminated
    outcome_out.truncated[e, m] = truncated
    engaged = wp.max(0, outcome.engaged[e, m] - rules.ticks_per_decision)
    if events.fired[e, m] != 0 or events.was_hit[e, m] == 1:
        engaged = rules.engaged_ticks
    outcome_out.engaged[e, m] = engaged


@wp.kernel
def accumulate_returns(
    mechs: Mechs,
    outcome: StepOutcome,
    stats: EpisodeArrays,
    reward: wp.array2d(dtype=wp.float32),
    terms: wp.array3d(dtype=wp.float32),
    stats_out: EpisodeArrays,
):
    """Add the step's rewards to the episode's sums; at the end of an episode store the sums and clear them."""
    e, m = wp.tid()
    over = outcome.over[e]
    total = stats.sum_return[e, m] + reward[e, m]
    stats_out.sum_return[e, m] = total * float(1 - over)
    if over == 1:
        stats_out.done_return[e, m] = total
        stats_out.done_alive[e, m] = mechs.alive[e, m]
        stats_out.done_present[e, m] = mechs.present[e, m]
    for i in range(terms.shape[2]):
        term = stats.sum_terms[e, m, i] + terms[e, m, i]
        stats_out.sum_terms[e, m, i] = term * float(1 - over)
        if over == 1:
            stats_out.done_terms[e, m, i] = term


@wp.kernel
def reset_returns(fresh: wp.array(dtype=wp.int32), outcome_out: StepOutcome, stats_out: EpisodeArrays):
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    if m == 0:
        outcome_out.ended[e] = 0
    outcome_out.engaged[e, m] = 0
    stats_out.sum_return[e, m] = 0.0
    for i in range(stats_out.sum_terms.shape[2]):
        stats_out.sum_terms[e, m, i] = 0.0
