"""Brushes of natural biomes: vegetation, rock, water, lava, sand and caves.

Keyword arguments are the parameters of a brush: inclusive ranges of sides and heights [vox], fractions of the area,
probabilities. Heights count cells from the ground, so a height of 4 fills layers 0 to 3.
"""

from __future__ import annotations

from echelon.gen.shapes import Grid, Rect, Span, block, centred, put, ring, sample_box, stairs, turned, worm
from echelon.sim.random import Stream
from echelon.sim.world import Material


def _rocks(grid: Grid, rect: Rect, stream: Stream, count: int, side: Span, height: Span) -> None:
    """Draw solid boulders."""
    for _ in range(count):
        rock = sample_box(rect, stream, side, side)
        if rock is None:
            return
        block(grid, rock, (0, stream.integers(*height)), Material.SOLID)


def forest_park(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    tree_share: float = 0.05,
    trunk_side: Span = (1, 2),
    trunk_height: Span = (3, 7),
    canopy_from: int = 4,
    canopy_z: Span = (3, 5),
    rock_share: float = 0.01,
    rock_side: Span = (3, 5),
    rock_height: Span = (2, 3),
) -> None:
    """Draw trees whose canopies block sight but not movement, and some rocks."""
    for _ in range(int(tree_share * rect.area)):
        side = stream.integers(*trunk_side)
        trunk = sample_box(rect, stream, (side, side), (side, side))
        if trunk is None:
            continue
        top = stream.integers(*trunk_height)
        block(grid, trunk, (0, top), Material.SOLID)
        if top >= canopy_from:
            block(grid, trunk.grown(1), canopy_z, Material.FOLIAGE)
    _rocks(grid, rect, stream, int(rock_share * rect.area), rock_side, rock_height)


def barrens(
    grid: Grid, rect: Rect, stream: Stream, *, share: float = 0.02, side: Span = (2, 4), height: Span = (1, 2)
) -> None:
    """Draw low rocks on open ground."""
    _rocks(grid, rect, stream, int(share * rect.area), side, height)


def sunken_canal(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    canal_width: Span = (8, 13),
    bank: int = 2,
    blocks: Span = (10, 19),
    block_side: int = 4,
    block_height: Span = (4, 9),
    bridges: Span = (2, 3),
    bridge_width: int = 4,
    bridge_z: Span = (4, 7),
    bridge_inset: int = 5,
) -> None:
    """Draw a canal of water with blocks on its banks and bridges across it."""
    grid, rect = turned(grid, rect, stream)
    half = stream.integers(*canal_width) // 2
    middle = rect.centre[1]
    canal = (max(middle - half, rect.y0), min(middle + half, rect.y1))
    put(grid, rect.x, canal, (0, 1), Material.WATER)
    put(grid, rect.x, canal, (1, grid.shape[0]), Material.AIR)
    for _ in range(stream.integers(*blocks)):
        house = sample_box(rect, stream, (block_side, block_side), (block_side, block_side))
        top = stream.integers(*block_height)
        if house is not None and abs(house.y0 - middle) > half + bank:
            block(grid, house, (0, top), Material.SOLID)
    for _ in range(stream.integers(*bridges)):
        x = stream.integers(rect.x0 + bridge_inset, rect.x1 - bridge_inset - bridge_width)
        z = stream.integers(*bridge_z)
        span = (middle - half - bank, middle + half + bank)
        put(grid, (x, x + bridge_width), span, (z, z + 1), Material.SOLID)


def geo_front(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    ceiling: int = 10,
    sky: int = 3,
    main_radius: int = 3,
    main_z: int = 2,
    tunnels: Span = (5, 9),
    tunnel_radius: int = 2,
    tunnel_roof: int = 4,
    pools: Span = (3, 5),
    pool_side: int = 4,
) -> None:
    """Draw a solid mass with a cross of main tunnels, winding side tunnels and lava pools."""
    top = stream.integers(ceiling, grid.shape[0] - sky)
    block(grid, rect, (0, top), Material.SOLID)
    x, y = rect.centre
    worm(grid, (rect.x0, y, main_z), (rect.x1 - 1, y, main_z), main_radius)
    worm(grid, (x, rect.y0, main_z), (x, rect.y1 - 1, main_z), main_radius)
    for _ in range(stream.integers(*tunnels)):
        ends = [
            (
                stream.integers(rect.x0, rect.x1 - 1),
                stream.integers(rect.y0, rect.y1 - 1),
                stream.integers(1, top - tunnel_roof),
            )
            for _ in range(2)
        ]
        worm(grid, ends[0], ends[1], tunnel_radius)
    for _ in range(stream.integers(*pools)):
        pool = sample_box(rect, stream, (pool_side, pool_side), (pool_side, pool_side))
        if pool is not None:
            block(grid, pool, (0, 1), Material.LAVA)


def glass_desert(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    pillars: Span = (10, 19),
    pillar_side: Span = (2, 5),
    pillar_height: Span = (5, 11),
    walls: Span = (5, 9),
    wall_side: Span = (1, 8),
) -> None:
    """Draw glass pillars and low glass walls: cover against movement and shots, not against sight."""
    for _ in range(stream.integers(*pillars)):
        pillar = sample_box(rect, stream, pillar_side, pillar_side)
        top = stream.integers(*pillar_height)
        if pillar is not None:
            block(grid, pillar, (0, top), Material.GLASS)
    for _ in range(stream.integers(*walls)):
        wall = sample_box(rect, stream, wall_side, wall_side)
        if wall is not None:
            block(grid, wall, (0, 1), Material.GLASS)


def dense_jungle(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    share: float = 0.15,
    height: Span = (4, 7),
    canopy_margin: int = 2,
    canopy_z: Span = (3, 6),
) -> None:
    """Draw many thin trunks under a closed canopy."""
    for _ in range(int(share * rect.area)):
        trunk = sample_box(rect, stream, (1, 1), (1, 1))
        top = stream.integers(*height)
        if trunk is not None:
            block(grid, trunk, (0, top), Material.SOLID)
            block(grid, trunk.grown(canopy_margin), canopy_z, Material.FOLIAGE)


def mining_pit(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    rim: int = 10,
    margin: int = 2,
    terrace: int = 4,
    slope: int = 2,
    step_deg: int = 5,
    clear_side: int = 5,
    floor_side: int = 9,
    stair_width: int = 4,
) -> None:
    """Draw a plateau with a terraced pit in it and stairs down to its floor."""
    block(grid, rect, (0, rim), Material.SOLID)
    x, y = rect.centre
    max_radius = min(rect.width, rect.depth) // 2 - margin
    for radius in range(max_radius, terrace, -terrace):
        floor_z = rim - (max_radius - radius) // slope
        for dx, dy in ring(radius, step_deg):
            block(grid, centred(x + dx, y + dy, clear_side, clear_side), (floor_z, rim + 1), Material.AIR)
    block(grid, centred(x, y, floor_side, floor_side), (0, rim + 1), Material.AIR)
    stairs(grid, (x + max_radius, y, rim), (x, y, 0), stair_width)


def volcanic_ridge(
    grid: Grid,
    rect: Rect,
    stream: Stream,
    *,
    spine_width: int = 8,
    spine_height: int = 4,
    strips: Span = (2, 3),
    strip_width: int = 3,
    strip_length: int = 12,
) -> None:
    """Draw a long ridge with strips of lava running out from under it."""
    grid, rect = turned(grid, rect, stream)
    middle = rect.centre[1]
    spine = (middle - spine_width // 2, middle - spine_width // 2 + spine_width)
    put(grid, rect.x, spine, (0, spine_height), Material.SOLID)
    for _ in range(stream.integers(*strips)):
        x = stream.integers(rect.x0, rect.x1 - strip_width)
        y = middle - strip_length // 2
        put(grid, (x, x + strip_width), (y, y + strip_length), (0, 1), Material.LAVA)
