"""Battles of scripted pilots on a small map, to be recorded."""

from dataclasses import replace
from typing import Any

import numpy as np

from echelon.config import EVAL_SEED_BASE, EnvConfig
from echelon.replay.reader import Replay
from echelon.training.batch_options import Episodes, Pilots, Sides
from echelon.training.vec_env import VectorEnv

SEED = EVAL_SEED_BASE + 3
EDGE, HEIGHT, SECONDS = 36, 12, 15.0


def config(*, edge: int = EDGE, height: int = HEIGHT, **changes: Any) -> EnvConfig:
    base = EnvConfig()
    world = replace(base.world, size_x=edge, size_y=edge, size_z=height)
    return replace(base, **{"world": world, "max_episode_seconds": SECONDS, **changes})


def battle(cfg: EnvConfig, envs: int = 1, *, seed: int = SEED, **options: Any) -> VectorEnv:
    """Return environments with consecutive seeds, each for one episode, whose scripted pilots always fire."""
    episodes = Episodes(seeds=[seed + i for i in range(envs)], autoreset=False)
    return VectorEnv(envs, cfg, sides=Sides("none"), pilots=Pilots(weapon_prob=1.0), episodes=episodes, **options)


def all_frames(replay: Replay) -> dict[str, np.ndarray]:
    """Return the frame columns of a whole match, with ticks of the match."""
    chunks = [replay.chunk(n) for n in range(len(replay.chunks))]
    frames = {
        name: np.concatenate([c.frames[name][1 if n else 0 :] for n, c in enumerate(chunks)])
        for name in chunks[0].frames
    }
    frames["tick"] = np.concatenate([c.ticks[1 if n else 0 :] for n, c in enumerate(chunks)])
    return frames
