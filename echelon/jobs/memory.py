"""Least memory of a training run, so that one that cannot fit is refused before anything is allocated."""

from __future__ import annotations

import math

from echelon.actions import action_dim
from echelon.config import PACK_SIZE, RunConfig
from echelon.jobs.usage import has_gpu, machine_memory

GIB = 2**30
VALUE_BYTES = 4
"""Bytes of a value of an observation or action."""
MAX_GPU_BYTES = 1 << 40
"""More memory than a GPU has."""


def least_bytes(config: RunConfig) -> int:
    """Return the bytes of the simulator's arrays, the map pool and the rollout; a run takes more for all else."""
    from warp.types import type_size_in_bytes

    from echelon.env.layout import obs_dim
    from echelon.sim.state import MapBank, all_fields, fields_of, sizes

    env = config.env
    lengths = sizes(env, config.num_envs) | {"B": config.bank_maps, "1": 1}
    arrays = (*all_fields().values(), *fields_of(MapBank).values())
    simulator = sum(
        math.prod(lengths[letter] for letter in field.shape) * type_size_in_bytes(field.dtype) for field in arrays
    )
    # one side learns at least
    rows = config.num_envs * env.num_packs * PACK_SIZE
    rollout = config.ppo.rollout_steps * rows * (obs_dim(env) + action_dim(env.comm_dim)) * VALUE_BYTES
    return config.nproc * (simulator + rollout)


def require_memory(config: RunConfig) -> None:
    """Raise ``ValueError`` for a run that this machine's memory cannot hold."""
    needed, available = least_bytes(config), machine_memory()
    if config.device != "cpu" and has_gpu():
        available += MAX_GPU_BYTES
    if needed > available:
        asked = f"{config.num_envs=}, {config.bank_maps=}, {config.ppo.rollout_steps=}".replace("config.", "")
        limit = f"expected at most {available / GIB:.0f} GiB on this machine; try lower ones"
        raise ValueError(f"run needs at least {needed / GIB:.0f} GiB of memory ({asked}), {limit}")
