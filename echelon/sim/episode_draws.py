# type: ignore
"""What the seed of an episode decides: its time limit, the zone score that wins it, and the rosters of its packs."""

import warp as wp

from echelon.config import EnvConfig
from echelon.sim.random import Stream, StreamId
from echelon.sim.rng import STREAM_RUN, below, draw_u32
from echelon.sim.state import PACK
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

LIMIT, SIZE, RANK = wp.constant(1), wp.constant(2), wp.constant(3)
"""Entities of the draws in their random stream; runs draw their first seed at 0."""


@wp.func
def time_limit(rules: Rules, seed: wp.uint32) -> int:
    """Return the decisions after which an episode ends."""
    span = rules.max_decisions - rules.min_decisions + 1
    return rules.min_decisions + below(draw_u32(seed, STREAM_RUN, 0, LIMIT, 0), span)


@wp.func
def winning_score(rules: Rules, seed: wp.uint32) -> float:
    """Return the zone score that wins an episode [s]."""
    return rules.score_to_win * (float(time_limit(rules, seed)) / float(rules.max_decisions))


@wp.func
def takes_part(rules: Rules, seed: wp.uint32, position: int) -> int:
    """Return whether the mech at this position of every pack is in an episode: as many as drawn, by drawn ranks."""
    size = rules.min_pack_size + below(draw_u32(seed, STREAM_RUN, 0, SIZE, 0), PACK - rules.min_pack_size + 1)
    own, rank = draw_u32(seed, STREAM_RUN, 0, RANK, position), int(0)
    for i in range(PACK):
        other = draw_u32(seed, STREAM_RUN, 0, RANK, i)
        if other < own or (other == own and i < position):
            rank += 1
    return int(rank < size)


def limits_of(cfg: EnvConfig, seed: int) -> tuple[int, float, float]:
    """Return ``time_limit`` of an episode in environment steps and [s], and its ``winning_score`` [s]."""
    steps = Stream(seed, StreamId.RUN, entity=int(LIMIT)).integers(cfg.min_steps, cfg.max_steps)
    share = steps / cfg.max_steps
    return steps, cfg.max_episode_seconds * share, cfg.zone_score_to_win * share
