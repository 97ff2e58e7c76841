"""The map bank: many prepared maps, stacked into arrays that a reset can copy from.

Maps are generated in worker processes and cached on disk. Moving the arrays to a device is the simulator's
business; jitter and facing of the spawns are applied there from the episode's seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, fields
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import EnvConfig, WorldConfig
from echelon.gen.generate import GeneratedMap, check_world_fits
from echelon.gen.map_sampling import MapRanges, MapSpec, sample_map_spec
from echelon.nav.field import FLOW_NONE
from echelon.nav.lanes import NUM_LAYERS
from echelon.sim.world import BLOCKS_MOVE, BLOCKS_SIGHT, STOPS_SHOT, bit_plane

Progress = Callable[[int, int], None]
"""Called with the number of maps that are ready and the number wanted."""


@dataclass(frozen=True, kw_only=True)
class MapBank:
    """B maps at the capacity X, Y, Z; M mechs, L layers of ways. What lies outside a map's size is empty."""

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
    """Next-step codes of ``echelon.nav.field`` per radius and ``Lane``, shape [B, L, Z + 1, Y, X]."""
    num_packs: NDArray[np.int32]
    """Packs per team on each map, shape [B]."""
    map_seed: NDArray[np.int64]
    """Seed of each map, shape [B]."""
    recipe_hashes: tuple[str, ...]
    """Recipe hash of each map; empty places have none."""

    @property
    def count(self) -> int:
        """Number of places for maps."""
        return len(self.material)

    def take(self, slots: Sequence[int]) -> MapBank:
        """Return a bank of these maps in this order; a map may come more than once."""
        at = list(slots)
        arrays = {f.name: getattr(self, f.name)[at] for f in fields(self) if f.name != "recipe_hashes"}
        return MapBank(**arrays, recipe_hashes=tuple(self.recipe_hashes[i] for i in at))


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
    orders = [MapSpec(world, int(seed), num_packs, zone_radius_vox, cache) for seed in seeds]
    return stack_maps(generate_maps(orders, workers=workers, progress=progress))


def build_bank_for(
    cfg: EnvConfig, seeds: Sequence[int], *, workers: int = 0, progress: Progress | None = None
) -> MapBank:
    """Prepare the maps of these seeds at the capacity of ``cfg``; where it has ranges, each seed draws its own size.

    Raises ``ValueError`` for no seeds, and for a size that cannot hold the spawns.
    """
    if not len(seeds):
        raise ValueError("seeds is empty, wanted at least one map")
    ranges = MapRanges.of(cfg)
    ranges.check(cfg)
    orders = [sample_map_spec(cfg, int(seed), ranges) for seed in seeds]
    return stack_maps_for(cfg, generate_maps(orders, workers=workers, progress=progress))


def generate_maps(
    orders: Sequence[MapSpec], *, workers: int = 0, progress: Progress | None = None
) -> list[GeneratedMap]:
    """Return the maps ordered, in their order, from the cache or made by ``workers`` processes."""
    maps: dict[int, GeneratedMap] = {}
    for slot, made in _produce(orders, workers):
        maps[slot] = made
        if progress is not None:
            progress(len(maps), len(orders))
    return [maps[slot] for slot in range(len(orders))]


def stack_maps_for(cfg: EnvConfig, maps: Sequence[GeneratedMap], *, places: int = 0) -> MapBank:
    """Stack maps at the capacity of ``cfg``."""
    world = cfg.world
    capacity = (world.size_x, world.size_y, world.size_z)
    return stack_maps(maps, capacity=capacity, packs=cfg.num_packs, places=places)


def _produce(jobs: Sequence[MapSpec], workers: int) -> Iterator[tuple[int, GeneratedMap]]:
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
    maps: Sequence[GeneratedMap],
    *,
    capacity: tuple[int, int, int] | None = None,
    packs: int | None = None,
    places: int = 0,
) -> MapBank:
    """Stack maps of any sizes at a capacity (x, y, z) [vox] and ``packs`` per team; by default the largest of each.

    The bank has ``places`` for maps, at least one for each of ``maps``; those left over are empty. Raises
    ``ValueError`` for a map beyond the capacity.
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
    count = max(len(maps), places)
    material = np.zeros((count, z_max, y_max, x_max), dtype=np.uint8)
    flow = np.full((count, NUM_LAYERS, z_max + 1, y_max, x_max), FLOW_NONE, dtype=np.uint8)
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
        size=_with_places(sizes, count),
        zone=_with_places(np.array([m.zone for m in maps], dtype=np.float32), count),
        spawn=spawn,
        flow=flow,
        num_packs=_with_places(num_packs, count),
        map_seed=_with_places(np.array([m.map_seed for m in maps], dtype=np.int64), count),
        recipe_hashes=tuple(m.hashes["recipe"] for m in maps),
    )


def _with_places(rows: NDArray[Any], count: int) -> NDArray[Any]:
    """Return ``rows`` with zeros after them, ``count`` altogether."""
    empty = np.zeros((count - len(rows), *rows.shape[1:]), rows.dtype)
    return np.concatenate([rows, empty])
