# type: ignore
"""Time limit of an episode and the zone score that wins it, functions of the episode's seed."""

import warp as wp

from echelon.config import EnvConfig
from echelon.sim.random import Stream, StreamId
from echelon.sim.rng import STREAM_RUN, below, draw_u32
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

LIMIT = wp.constant(1)
"""Entity of the draw in its random stream; runs draw their first seed at 0."""


@wp.func
def time_limit(rules: Rules, seed: wp.uint32) -> int:
    """Return the decisions after which an episode ends."""
    span = rules.max_decisions - rules.min_decisions + 1
    return rules.min_decisions + below(draw_u32(seed, STREAM_RUN, 0, LIMIT, 0), span)


@wp.func
def winning_score(rules: Rules, seed: wp.uint32) -> float:
    """Return the zone score that wins an episode [s]."""
    return rules.score_to_win * (float(time_limit(rules, seed)) / float(rules.max_decisions))


def limits_of(cfg: EnvConfig, seed: int) -> tuple[int, float, float]:
    """Return ``time_limit`` of an episode in environment steps and [s], and its ``winning_score`` [s]."""
    steps = Stream(seed, StreamId.RUN, entity=int(LIMIT)).integers(cfg.min_steps, cfg.max_steps)
    share = steps / cfg.max_steps
    return steps, cfg.max_episode_seconds * share, cfg.zone_score_to_win * share
