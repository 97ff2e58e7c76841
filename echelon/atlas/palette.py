"""Colours and letters of materials, teams and markers in pictures of a map.

Colours are sRGB, 0 to 255. The teams and the zone differ in lightness as well as in hue.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from echelon.sim.world import MATERIALS, Material

Rgb = tuple[int, int, int]


@dataclass(frozen=True)
class Swatch:
    """Colour of something in pictures, and its letter in text."""

    colour: Rgb
    letter: str


SWATCHES: dict[Material, Swatch] = {
    Material.AIR: Swatch((24, 26, 30), " "),
    Material.SOLID: Swatch((150, 148, 142), "#"),
    Material.LAVA: Swatch((255, 96, 24), "!"),
    Material.WATER: Swatch((58, 124, 196), "~"),
    Material.DEBRIS_FIELD: Swatch((126, 92, 66), "%"),
    Material.SOLID_DEBRIS: Swatch((102, 86, 78), "&"),
    Material.DIRT: Swatch((116, 98, 70), "."),
    Material.GLASS: Swatch((140, 214, 214), "="),
    Material.REINFORCED: Swatch((92, 98, 132), "@"),
    Material.FOLIAGE: Swatch((70, 132, 58), "*"),
}
"""Swatch of each material."""

BLUE = Swatch((64, 150, 255), "B")
RED = Swatch((255, 70, 70), "R")
TEAMS = (BLUE, RED)
ZONE = Swatch((255, 214, 64), "o")
ZONE_ON_RAMP = Swatch((255, 255, 255), "o")
"""Zone marker of the path-cost view, where low costs are yellow."""
STRANDED = Swatch((136, 44, 78), "x")
"""Walkable cells without a path to the zone."""
COLOURS: NDArray[np.float64] = np.array([SWATCHES[spec.material].colour for spec in MATERIALS], np.float64) / 255
LETTERS = "".join(SWATCHES[spec.material].letter for spec in MATERIALS)

COST_RAMP: tuple[Rgb, ...] = ((253, 231, 100), (94, 201, 98), (33, 145, 140), (59, 82, 139), (68, 1, 84))
"""Colours from low to high path cost."""


def ramp(stops: tuple[Rgb, ...], position: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return interpolated colours [..., 3], 0 to 1, for positions 0 to 1 on a ramp of ``stops``."""
    stop_positions = np.linspace(0.0, 1.0, len(stops))
    table = np.array(stops, np.float64) / 255
    return np.stack([np.interp(position, stop_positions, table[:, c]) for c in range(3)], axis=-1)
