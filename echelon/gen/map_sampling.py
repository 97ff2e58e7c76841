"""Map size and packs per team of a seed, sampled within configured ranges.

The map of a seed depends only on the seed and the ranges, not on when or where it is generated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from echelon.config import MIN_MAP_EDGE, EnvConfig, WorldConfig
from echelon.config.checks import require_span
from echelon.gen.cache import cached_map, load_map, map_path
from echelon.gen.generate import GeneratedMap, check_world_fits, generate
from echelon.sim.random import Stream, StreamId

SAMPLING_SUBSTREAM = 1
"""Sub-stream of a map's seed for sampling size and packs."""
Span = tuple[int, int]
"""Minimum and maximum, both included."""


@dataclass(frozen=True)
class MapSpec:
    """A map to be generated: everything that it depends on."""

    world: WorldConfig
    seed: int
    num_packs: int
    zone_radius_vox: float
    cache: bool = True
    """Whether to use the disk cache."""

    def load_cached(self) -> GeneratedMap | None:
        if not self.cache:
            return None
        path = map_path(self.world, self.seed, num_packs=self.num_packs, zone_radius_vox=self.zone_radius_vox)
        return load_map(path)

    def generate(self) -> GeneratedMap:
        function = cached_map if self.cache else generate
        return function(self.world, self.seed, num_packs=self.num_packs, zone_radius_vox=self.zone_radius_vox)


@dataclass(frozen=True)
class MapRanges:
    """Ranges of map size and packs in a batch."""

    size: Span
    """Edge along x [vox]; the edge along y keeps its ratio."""
    packs: Span
    """Packs per team."""

    @classmethod
    def of(cls, cfg: EnvConfig) -> MapRanges:
        """Return the ranges of a configuration; without ranges, size and packs are fixed."""
        edge, packs = cfg.world.size_x, cfg.num_packs
        size_range, packs_range = cfg.map_size_range or (edge, edge), cfg.packs_per_team_range or (packs, packs)
        return cls((size_range[0], size_range[1]), (packs_range[0], packs_range[1]))

    def check(self, cfg: EnvConfig) -> None:
        """Raise ``ValueError`` for a range that is reversed, exceeds the capacity of ``cfg``, or is too small."""
        require_span(self.size, "map_size_range", MIN_MAP_EDGE, cfg.world.size_x)
        require_span(self.packs, "packs_per_team_range", 1, cfg.num_packs)
        check_world_fits(resized_world(cfg.world, self.size[0]), self.packs[1])


def resized_world(world: WorldConfig, edge: int) -> WorldConfig:
    size_y = max(MIN_MAP_EDGE, round(edge * world.size_y / world.size_x))
    return replace(world, size_x=edge, size_y=size_y)


def sample_map_spec(cfg: EnvConfig, seed: int, ranges: MapRanges) -> MapSpec:
    """Return the specification of a seed's map, with size and packs sampled within ``ranges``."""
    draws = Stream(seed, StreamId.MAP, entity=SAMPLING_SUBSTREAM)
    edge, packs = draws.integers(*ranges.size), draws.integers(*ranges.packs)
    return MapSpec(resized_world(cfg.world, edge), seed, packs, cfg.zone_radius_vox)
