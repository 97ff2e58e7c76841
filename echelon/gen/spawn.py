"""Spawns: a team's formation in a map corner, the square cleared for it, and the required map size.

Positions are box centres before jitter. Formations leave room for a jitter of ``SPAWN_JITTER`` on both axes.
"""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from echelon.config import WorldConfig
from echelon.gen.shapes import Corner, Grid, Rect, block
from echelon.sim.arsenal import CHASSIS, ROSTER
from echelon.sim.world import Material

SPAWN_BORDER = 2.0
"""Distance between formation and map edges [vox]."""
SPAWN_GAP = 1.0
"""Free space between adjacent boxes [vox]."""
SPAWN_JITTER = 0.25
"""Maximum jitter that a reset applies on each axis [vox]."""
SPAWN_MARGIN = 1.0
"""Free space behind the formation [vox]."""
CLEAR_MIN = 25
"""Minimum side of a spawn square on a sufficiently large map [vox]."""
CLEAR_DIVISOR = 4
"""The side of a spawn square is at least the map's smaller side divided by this."""

_SIZES = [CHASSIS[chassis].size for chassis in ROSTER]
ROW_PITCH = max(size[1] for size in _SIZES) + SPAWN_GAP
"""Distance between the rows of two packs [vox]."""


def formation_extent(num_packs: int) -> tuple[float, float]:
    row_width = sum(size[0] for size in _SIZES) + SPAWN_GAP * (len(_SIZES) - 1)
    return SPAWN_BORDER + row_width, SPAWN_BORDER + ROW_PITCH * num_packs - SPAWN_GAP


def required_clear(num_packs: int) -> int:
    """Return the minimum side of a spawn square for a formation [vox]."""
    width, depth = formation_extent(num_packs)
    return ceil(max(width, depth + SPAWN_GAP) + SPAWN_MARGIN)


def spawn_clear(world: WorldConfig, num_packs: int) -> int:
    smaller = min(world.size_x, world.size_y)
    return min(max(CLEAR_MIN, smaller // CLEAR_DIVISOR, required_clear(num_packs)), smaller)


def check_world_fits(world: WorldConfig, num_packs: int) -> None:
    """Raise ``ValueError`` if formations in opposite corners do not fit this world."""
    needed = required_clear(num_packs)
    if min(world.size_x, world.size_y) < needed:
        raise ValueError(
            f"world of {world.size_x}x{world.size_y} is too small to spawn {num_packs} packs per team, "
            f"expected at least {needed}x{needed}"
        )
    extent = formation_extent(num_packs)
    apart = [2 * reach + 2 * SPAWN_JITTER for reach in extent]
    if world.size_x < apart[0] and world.size_y < apart[1]:
        raise ValueError(
            f"world of {world.size_x}x{world.size_y} lets the spawns of {num_packs} packs per team overlap, "
            f"expected size_x >= {ceil(apart[0])} or size_y >= {ceil(apart[1])}"
        )


def formations(world: WorldConfig, corners: tuple[Corner, Corner], num_packs: int) -> NDArray[np.float64]:
    """Return the box centres of both teams in slot order, blue first, shape [10 * packs, 3] [vox].

    With fairness ``path`` the formations on a square map mirror each other across its other diagonal, if both have
    room: each class is then as far from a point of that diagonal as the same class of the other team. Elsewhere they
    are turned by 180 degrees, which makes every class as far from the map's centre.
    """
    both = sum(formation_extent(num_packs)) + 2 * SPAWN_JITTER
    mirrored = world.fairness == "path" and world.size_x == world.size_y and world.size_x >= both
    teams = [formation(world, corner, num_packs, turned=mirrored and corner.is_right) for corner in corners]
    return np.concatenate(teams)


def formation(world: WorldConfig, corner: Corner, num_packs: int, *, turned: bool = False) -> NDArray[np.float64]:
    """Return the box centres of a team in slot order, shape [5 * packs, 3] [vox]; ``turned`` swaps x and y."""
    centres = []
    for row in range(num_packs):
        cursor = SPAWN_BORDER
        for size in _SIZES:
            y = SPAWN_BORDER + ROW_PITCH * row + size[1] / 2
            centres.append((cursor + size[0] / 2, y, size[2] / 2))
            cursor += size[0] + SPAWN_GAP
    out = np.array(centres)
    if turned:
        out[:, :2] = out[:, 1::-1]
    if corner.is_right:
        out[:, 0] = world.size_x - out[:, 0]
    if corner.is_top:
        out[:, 1] = world.size_y - out[:, 1]
    return out


def corner_square(world: WorldConfig, corner: Corner, side: int) -> Rect:
    x0 = world.size_x - side if corner.is_right else 0
    y0 = world.size_y - side if corner.is_top else 0
    return Rect(x0, y0, x0 + side, y0 + side)


def anchor(world: WorldConfig, corner: Corner, side: int) -> tuple[int, int]:
    """Return the column that represents a team's spawn in corridors and routes."""
    inset = max(1, side // 2)
    x = world.size_x - 1 - inset if corner.is_right else inset
    y = world.size_y - 1 - inset if corner.is_top else inset
    return x, y


def clear_spawn(grid: Grid, square: Rect) -> None:
    block(grid, square, (0, grid.shape[0]), Material.AIR)


def boxes_clear(material_blocks: NDArray[np.bool_], centres: NDArray[np.floating]) -> bool:
    """Return whether no jittered box can touch another box, a blocking cell of [Z, Y, X] or the map's edge."""
    half = np.array(_SIZES * (len(centres) // len(_SIZES))) / 2
    reach = half + np.array([SPAWN_JITTER, SPAWN_JITTER, 0.0])
    low, high = centres - reach, centres + reach
    apart = np.any((low[:, None] >= high[None]) | (high[:, None] <= low[None]), axis=2)
    np.fill_diagonal(apart, True)
    corners = zip(np.floor(low).astype(int), np.ceil(high).astype(int), strict=True)
    inside = bool(np.all(low >= 0) and np.all(high <= np.array(material_blocks.shape[::-1])))
    free = (not material_blocks[a[2] : b[2], a[1] : b[1], a[0] : b[0]].any() for a, b in corners)
    return inside and bool(apart.all()) and all(free)
