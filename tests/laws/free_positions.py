"""Free positions on a map, where a test can place mechs without breaking an invariant."""

import numpy as np

from echelon.sim.world import BLOCKS_MOVE
from tests.laws.invariants import HALF
from tests.sim.flat_field import Scene

TRIES = 60
MARGIN = 0.02


def is_free(solid: np.ndarray, centre: np.ndarray, half: np.ndarray) -> bool:
    """Whether a box lies on the map ``[Z, Y, X]`` and touches no blocking cell."""
    low, top = centre - half, centre + half
    if (low < 0).any() or (top > np.array(solid.shape[::-1])).any():
        return False
    a, b = np.floor(low).astype(int), np.ceil(top).astype(int)
    return not solid[a[2] : b[2], a[1] : b[1], a[0] : b[0]].any()


def free_positions(scene: Scene, rng: np.random.Generator, *, env: int = 0, spread: float = 10.0) -> np.ndarray:
    """Return a position for every mech ``[M, 3]``: near the zone for living mechs if there is room, else unchanged."""
    zone, size = scene["zone"][env], scene["size"][env]
    solid = BLOCKS_MOVE[scene["material"][env]][: size[2], : size[1], : size[0]]
    kinds, alive, places = scene["chassis"][env], scene["alive"][env] == 1, scene["pos"][env].copy()
    for m in np.flatnonzero(alive):
        half = HALF[kinds[m]]
        others = alive.copy()
        others[m] = False
        for _ in range(TRIES):
            at = np.array([*(zone[:2] + rng.uniform(-spread, spread, 2)), half[2] + rng.choice([0.0, 0.0, 1.0, 4.0])])
            at = at.astype(np.float32)
            room = np.abs(at - places[others]) - (half + HALF[kinds[others]])
            if is_free(solid, at, half + MARGIN * np.array([1, 1, 0])) and (room.max(axis=-1) > MARGIN).all():
                places[m] = at
                break
    return places
