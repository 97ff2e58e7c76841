"""A fingerprint of one environment's battle: equal hashes mean equal state, bit for bit.

It covers what the next tick depends on, voxels included, but neither the environment's index in the batch, nor its
map's slot in the bank, nor settings of later episodes. So the same seed and actions give the same hash in any batch and
on any number of threads.
"""

import hashlib

import numpy as np

from echelon.arena.reconstruct import CLOUD_FIELDS, NOT_STATE, ROUND_FIELDS
from echelon.sim.batch import Batch
from echelon.sim.state import STATE, TRACKS, WORLD

DISPLAY_STATE = ("contact", "seen", *TRACKS)
"""Contact slots, to which the next target preferences refer, and what they depend on; in the batch of an engine."""
HASHED_UNLESS_ZERO = frozenset(("withheld",))
"""Fields left out while they are 0, so that hashes of games without disabled mechanics are those before the field."""


def state_hash(batch: Batch, env: int, *, displays: bool = False) -> str:
    """Return the sha256, in hex, of everything that the next ticks of environment ``env`` depend on.

    ``displays`` adds the contact slots, by which pilots choose targets; the battle itself, given its controls, does not
    depend on them.
    """
    digest = hashlib.sha256()
    live = dict.fromkeys(ROUND_FIELDS, _of(batch, "round_weapon", env) >= 0)
    live |= dict.fromkeys(CLOUD_FIELDS, _of(batch, "cloud_ticks", env) > 0)
    for name in (*WORLD, *STATE, *(DISPLAY_STATE if displays else ())):
        if name in NOT_STATE:
            continue
        values = _of(batch, name, env)
        if name in HASHED_UNLESS_ZERO and not values.any():
            continue
        if name in live:
            values = values[live[name]]
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def _of(batch: Batch, name: str, env: int) -> np.ndarray:
    return batch[name][env : env + 1].numpy()
