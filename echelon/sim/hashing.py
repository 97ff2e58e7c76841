"""A fingerprint of one environment's battle: equal hashes mean equal state, bit for bit.

It covers what the next tick depends on, voxels included, and leaves out who the environment is: its place in the
batch, its map's place in the bank, and orders for later episodes. So the same seed and actions hash alike in any
batch, on any number of threads.
"""

from __future__ import annotations

import hashlib

import numpy as np

from echelon.sim.batch import Batch
from echelon.sim.state import STATE, TRACKS, WORLD

NOT_STATE = frozenset(
    ("env_index", "episode", "forced_seed", "forced_slot", "withhold", "map_slot", "packs", "order")
)  # fmt: skip
"""Fields that say where and how often an environment plays, and the movement order, drawn afresh each tick."""
REMEMBERED = ("contact", "seen", *TRACKS)
"""What fills the contact slots that the next target preferences refer to, in the batch of an engine."""
WHERE_SET = frozenset(("withheld",))
"""Fields that count only where they are not 0, so that a whole game hashes as it did before there were parts of one."""
ROUND_FIELDS = ("round_pos", "round_vel", "round_age", "round_target")
"""Fields of a round, meaningless where none flies."""
CLOUD_FIELDS = ("cloud_pos",)
"""Fields of a smoke cloud, meaningless where there is none."""


def state_hash(batch: Batch, env: int, *, displays: bool = False) -> str:
    """Return the sha256, in hex, of everything that environment ``env`` of ``batch`` will play on from.

    Its pilots choose targets by the slots of their displays, which ``displays`` adds; the battle itself, given its
    controls, does not depend on them.
    """
    digest = hashlib.sha256()
    there = dict.fromkeys(ROUND_FIELDS, _of(batch, "round_weapon", env) >= 0)
    there |= dict.fromkeys(CLOUD_FIELDS, _of(batch, "cloud_ticks", env) > 0)
    for name in (*WORLD, *STATE, *(REMEMBERED if displays else ())):
        if name in NOT_STATE:
            continue
        values = _of(batch, name, env)
        if name in WHERE_SET and not values.any():
            continue
        if name in there:
            values = values[there[name]]
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def _of(batch: Batch, name: str, env: int) -> np.ndarray:
    return batch[name][env : env + 1].numpy()
