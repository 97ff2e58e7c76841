"""Which map a seed stands for where sizes and packs vary: both are drawn from the seed within ranges.

So which map is played follows from seeds alone, whenever and wherever it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from echelon.config import MIN_MAP_EDGE, EnvConfig, WorldConfig
from echelon.config.ranges import require_span
from echelon.gen.cache import cached_map, load_map, map_path
from echelon.gen.generate import GeneratedMap, check_world_fits, generate
from echelon.sim.random import Stream, StreamId

SAMPLING_SUBSTREAM = 1
"""Sub-stream of a map's seed from which its size and packs are drawn."""
Span = tuple[int, int]
"""Least and most, both included."""


@dataclass(frozen=True)
class MapSpec:
    """A map to be made: everything it depends on."""

    world: WorldConfig
    seed: int
    num_packs: int
    zone_radius_vox: float
    cache: bool = True
    """Whether the disk cache may be read and written."""

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


@dataclass(frozen=True)
class MapRanges:
    """Within what the maps of a batch differ."""

    size: Span
    """Edge along x [vox]; y keeps its share of it."""
    packs: Span
    """Packs per team."""

    @classmethod
    def of(cls, cfg: EnvConfig) -> MapRanges:
        """Return the ranges of a configuration, which without any are a single size and number of packs."""
        edge, packs = cfg.world.size_x, cfg.num_packs
        size_range, packs_range = cfg.map_size_range or (edge, edge), cfg.packs_per_team_range or (packs, packs)
        return cls((size_range[0], size_range[1]), (packs_range[0], packs_range[1]))

    def check(self, cfg: EnvConfig) -> None:
        """Raise ``ValueError`` where a range is reversed, beyond ``cfg``'s capacity, or too small for its packs."""
        require_span(self.size, "map_size_range", MIN_MAP_EDGE, cfg.world.size_x)
        require_span(self.packs, "packs_per_team_range", 1, cfg.num_packs)
        check_world_fits(resized_world(cfg.world, self.size[0]), self.packs[1])


def resized_world(world: WorldConfig, edge: int) -> WorldConfig:
    """Return the world with another edge along x [vox], of the same proportions seen from above."""
    across = max(MIN_MAP_EDGE, round(edge * world.size_y / world.size_x))
    return replace(world, size_x=edge, size_y=across)


def sample_map_spec(cfg: EnvConfig, seed: int, ranges: MapRanges) -> MapSpec:
    """Return the map of a seed: size and packs are draws of the seed within ``ranges``."""
    draws = Stream(seed, StreamId.MAP, entity=SAMPLING_SUBSTREAM)
    edge, packs = draws.integers(*ranges.size), draws.integers(*ranges.packs)
    return MapSpec(resized_world(cfg.world, edge), seed, packs, cfg.zone_radius_vox)
