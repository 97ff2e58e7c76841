"""First steps of the terrain: quadrants, their biomes, and the ground layer."""

from __future__ import annotations

from echelon.gen.biomes import BIOMES
from echelon.gen.shapes import Grid, Rect
from echelon.gen.transforms import Corner
from echelon.sim.random import Stream
from echelon.sim.world import Material

SPLIT_JITTER_DIVISOR = 10
"""Maximum distance of the split point from the map's centre is the size divided by this."""


def split_quadrants(size_x: int, size_y: int, stream: Stream) -> tuple[Rect, ...]:
    jitter_x, jitter_y = size_x // SPLIT_JITTER_DIVISOR, size_y // SPLIT_JITTER_DIVISOR
    x = size_x // 2 + stream.integers(-jitter_x, jitter_x)
    y = size_y // 2 + stream.integers(-jitter_y, jitter_y)
    return Rect(0, 0, x, y), Rect(x, 0, size_x, y), Rect(0, y, x, size_y), Rect(x, y, size_x, size_y)


def choose_biomes(stream: Stream) -> tuple[str, ...]:
    names = list(BIOMES)
    return tuple(names[i] for i in stream.permutation(len(names))[: len(Corner)])


def lay_ground(grid: Grid) -> None:
    ground = grid[0]
    ground[ground == Material.AIR] = Material.DIRT
