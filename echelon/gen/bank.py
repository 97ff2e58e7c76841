"""The map bank: many prepared maps, stacked into arrays that a reset can copy from.

Maps are generated in worker processes and cached on disk. Moving the arrays to a device is the simulator's
business; jitter and facing of the spawns are applied there from the episode's seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

from echelon.config import WorldConfig
from echelon.gen.cache import cached_map, load_map, map_path
from echelon.gen.generate import GeneratedMap, check_world_fits, generate
from echelon.nav.field import FLOW_NONE
from echelon.nav.graph import RADII
from echelon.sim.world import BLOCKS_MOVE, BLOCKS_SIGHT, STOPS_SHOT, bit_plane

Progress = Callable[[int, int], None]
"""Called with the number of maps that are ready and the number wanted."""


@dataclass(frozen=True, kw_only=True)
class MapBank:
    """B maps at the capacity X, Y, Z; M mechs, R footprint radii. What lies outside a map's size is empty."""

    material: NDArray[np.uint8]
    """Material ids, shape [B, Z, Y, X]."""
    move_plane: NDArray[np.uint64]
    """Bit z set where a cell blocks movement, shape [B, Y, X]."""
    sight_plane: NDArray[np.uint64]
    """Bit z set where a cell blocks sight, shape [B, Y, X]."""
    shot_plane: NDArray[np.uint64]
    """Bit z set where a cell stops projectiles, shape [B, Y, X]."""
    size: NDArray[np.int32]
    """Size (x, y, z) of each map [vox], shape [B, 3]."""
    zone: NDArray[np.float32]
    """Capture zone (cx, cy, r) [vox], shape [B, 3]."""
    spawn: NDArray[np.float32]
    """Box centres before jitter [vox], blue in the first half, zero for absent mechs, shape [B, M, 3]."""
    flow: NDArray[np.uint8]
    """Next-step codes of ``echelon.nav.field`` per radius, shape [B, R, Z + 1, Y, X]."""
    num_packs: NDArray[np.int32]
    """Packs per team on each map, shape [B]."""
    map_seed: NDArray[np.int64]
    """Seed of each map, shape [B]."""
    recipe_hashes: tuple[str, ...]
    """Recipe hash of each map."""

    @property
    def count(self) -> int:
        """Number of maps."""
        return len(self.material)


def build_bank(
    world: WorldConfig,
    seeds: Sequence[int],
    *,
    num_packs: int,
    zone_radius_vox: float,
    workers: int = 0,
    progress: Progress | None = None,
    cache: bool = True,
) -> MapBank:
    """Prepare the maps of these seeds, in their order.

    ``workers`` processes generate what is not cached; with 1 or 0 that happens in this process. Raises
    ``ValueError`` for no seeds, and for a world that cannot hold the spawns.
    """
    if not len(seeds):
        raise ValueError("seeds is empty, wanted at least one map")
    check_world_fits(world, num_packs)
    jobs = [_Job(world, int(seed), num_packs, zone_radius_vox, cache) for seed in seeds]
    maps: dict[int, GeneratedMap] = {}
    for slot, made in _produce(jobs, workers):
        maps[slot] = made
        if progress is not None:
            progress(len(maps), len(jobs))
    return stack_maps([maps[slot] for slot in range(len(jobs))])


@dataclass(frozen=True)
class _Job:
    world: WorldConfig
    seed: int
    num_packs: int
    zone_radius_vox: float
    cache: bool

    def load(self) -> GeneratedMap | None:
        """Read the map from the cache, if it is there."""
        if not self.cache:
            return None
        path = map_path(self.world, self.seed, num_packs=self.num_packs, zone_radius_vox=self.zone_radius_vox)
        return load_map(path)

    def make(self) -> GeneratedMap:
        """Generate the map, through the cache if wanted."""
        make = cached_map if self.cache else generate
        return make(self.world, self.seed, num_packs=self.num_packs, zone_radius_vox=self.zone_radius_vox)


def _produce(jobs: Sequence[_Job], workers: int) -> Iterator[tuple[int, GeneratedMap]]:
    """Yield (slot, map) as maps become ready; cached ones first, so that no process starts for them."""
    missing: list[int] = []
    for slot, job in enumerate(jobs):
        found = job.load()
        if found is None:
            missing.append(slot)
        else:
            yield slot, found
    if workers <= 1 or len(missing) <= 1:
        for slot in missing:
            yield slot, jobs[slot].make()
        return
    # Spawned, not forked: the parent may hold threads of torch and Warp.
    with ProcessPoolExecutor(min(workers, len(missing)), mp_context=get_context("spawn")) as pool:
        slots = {pool.submit(jobs[slot].make): slot for slot in missing}
        for done in as_completed(slots):
            yield slots[done], done.result()


def stack_maps(
    maps: Sequence[GeneratedMap], *, capacity: tuple[int, int, int] | None = None, packs: int | None = None
) -> MapBank:
    """Stack maps of any sizes at a capacity (x, y, z) [vox] and ``packs`` per team; by default the largest of each.

    Raises ``ValueError`` for a map beyond the capacity.
    """
    sizes = np.array([m.size for m in maps], dtype=np.int32)
    teams = np.array([len(m.spawn) // 2 for m in maps])
    num_packs = np.array([m.recipe["generator"]["num_packs"] for m in maps], dtype=np.int32)
    limit = tuple(int(v) for v in sizes.max(axis=0)) if capacity is None else capacity
    pack_limit = int(num_packs.max()) if packs is None else packs
    if (sizes > np.array(limit)).any() or (num_packs > pack_limit).any():
        raise ValueError(
            f"maps reach {tuple(sizes.max(axis=0).tolist())} vox and {num_packs.max()} packs, "
            f"wanted at most {limit} and {pack_limit}"
        )
    x_max, y_max, z_max = limit
    team_max = pack_limit * int(teams[0] // num_packs[0])
    count = len(maps)
    material = np.zeros((count, z_max, y_max, x_max), dtype=np.uint8)
    flow = np.full((count, len(RADII), z_max + 1, y_max, x_max), FLOW_NONE, dtype=np.uint8)
    spawn = np.zeros((count, 2 * team_max, 3), dtype=np.float32)
    for slot, (m, team) in enumerate(zip(maps, teams.tolist(), strict=True)):
        x, y, z = m.size
        material[slot, :z, :y, :x] = m.material
        flow[slot, :, : z + 1, :y, :x] = m.flow
        spawn[slot, :team] = m.spawn[:team]
        spawn[slot, team_max : team_max + team] = m.spawn[team:]
    return MapBank(
        material=material,
        move_plane=np.stack([bit_plane(grid, BLOCKS_MOVE) for grid in material]),
        sight_plane=np.stack([bit_plane(grid, BLOCKS_SIGHT) for grid in material]),
        shot_plane=np.stack([bit_plane(grid, STOPS_SHOT) for grid in material]),
        size=sizes,
        zone=np.array([m.zone for m in maps], dtype=np.float32),
        spawn=spawn,
        flow=flow,
        num_packs=num_packs,
        map_seed=np.array([m.map_seed for m in maps], dtype=np.int64),
        recipe_hashes=tuple(m.hashes["recipe"] for m in maps),
    )
