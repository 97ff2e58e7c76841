"""Views of a world from above: a colour, a letter and a height per column, and light and shadow.

A view is a function that returns a ``MapView``; ``render`` scales it and draws markers. Row 0 of every array is the
bottom of the map. Light comes from the upper left, as on printed maps.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from echelon.atlas import palette
from echelon.atlas.scene import Scene
from echelon.atlas.statistics import top_height, top_material
from echelon.nav.field import ZoneField
from echelon.sim.world import BLOCKS_MOVE, Material

ALL_BUT_AIR = np.arange(len(palette.COLOURS)) != Material.AIR
SUN_SLOPE = 2.0
"""Descent of the sun's rays per voxel of horizontal distance."""
SHADOW = 0.66
"""Brightness factor in a cast shadow."""
CREVICE = 0.38
"""Maximum darkening of a column by higher neighbours."""
CREVICE_VOX = 4.0
"""Height difference of a neighbour at which its darkening is at the maximum [vox]."""
LOWEST, HIGHEST = 0.96, 1.24
"""Brightness of the lowest and the highest columns."""
FADED = 0.42
"""Brightness factor of terrain that is not walkable in the path-cost view."""
MAX_COST_PERCENTILE = 98.0
"""Percentile of the path cost at which the colour ramp ends; outliers do not compress the scale."""
NEIGHBOURS = tuple((dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0))

Key = tuple[palette.Swatch, str]


@dataclass(frozen=True, kw_only=True)
class MapView:
    """A view of a map: a colour, letter and height per column; arrays are [Y, X]."""

    colour: NDArray[np.float64]
    """Red, green and blue, 0 to 1, without light, shape [Y, X, 3]."""
    letter: NDArray[np.str_]
    """Character of each column."""
    height: NDArray[np.int64]
    """Height that casts shadows [vox]."""
    key: tuple[Key, ...]
    """Legend of colours and letters, without markers."""
    lit: bool = True
    """Whether light and shadow are applied."""
    zone: palette.Swatch = palette.ZONE
    """Marker of the capture zone."""

    @property
    def legend(self) -> tuple[Key, ...]:
        return (*self.key, (self.zone, "capture zone"), (palette.BLUE, "blue spawns"), (palette.RED, "red spawns"))


def terrain(scene: Scene) -> MapView:
    return _top_view(scene.material)


def path_cost(scene: Scene, field: ZoneField) -> MapView:
    """Return the view of the lowest path cost to the zone of each column, for the footprint of ``field``."""
    cost = field.cost_grid().min(axis=0).astype(np.float64)
    walkable: NDArray[np.bool_] = np.asarray((field.graph.index >= 0).any(axis=0))
    reached: NDArray[np.bool_] = np.asarray(np.isfinite(cost))
    far = float(np.percentile(cost[reached], MAX_COST_PERCENTILE)) if reached.any() else 1.0
    position = np.clip(np.where(reached, cost, 0.0) / max(far, 1.0), 0.0, 1.0)
    grey = _top_view(scene.material).colour.mean(axis=2, keepdims=True) * FADED
    colour = np.where(walkable[..., None], np.array(palette.STRANDED.colour) / 255, np.repeat(grey, 3, axis=2))
    colour = np.where(reached[..., None], palette.ramp(palette.COST_RAMP, position), colour)
    letter = np.where(walkable, palette.STRANDED.letter, "#")
    letter = np.where(reached, np.array(list("0123456789"))[(position * 9).astype(np.int64)], letter)
    stops = ((palette.COST_RAMP[0], "0", 0.0), (palette.COST_RAMP[2], "4", 0.5), (palette.COST_RAMP[-1], "9", 1.0))
    dark = round(FADED / 2 * 255)
    key = (
        *((palette.Swatch(rgb, sign), f"path cost {far * part:.0f} to the zone") for rgb, sign, part in stops),
        (palette.Swatch(palette.STRANDED.colour, palette.STRANDED.letter), "no path to the zone"),
        (palette.Swatch((dark, dark, dark), "#"), "not walkable"),
    )
    flat = np.zeros_like(scene.material[0], np.int64)
    return MapView(colour=colour, letter=letter, height=flat, key=key, lit=False, zone=palette.ZONE_ON_RAMP)


def sunlight(height: NDArray[np.integer], per_voxel: int = 1) -> NDArray[np.float64]:
    """Return the brightness, about 1, of columns of these heights [vox], with ``per_voxel`` samples per voxel edge."""
    fine = np.kron(height, np.ones((per_voxel, per_voxel), np.int64)).astype(np.float32)
    top = float(height.max(initial=0))
    shaded = np.zeros(fine.shape, bool)
    steps = int(np.ceil(top / SUN_SLOPE * per_voxel)) if height.min(initial=0) < top else 0
    for step in range(1, min(steps, *fine.shape) + 1):
        fall = np.float32(step * SUN_SLOPE / per_voxel)
        shaded[:-step, step:] |= fine[step:, :-step] > fine[:-step, step:] + fall
    tone = LOWEST + (HIGHEST - LOWEST) * np.minimum(height / max(top, 1.0), 1.0)
    light = np.kron(tone * (1.0 - CREVICE * ambient_occlusion(height)), np.ones((per_voxel, per_voxel)))
    return np.asarray(light * np.where(shaded, SHADOW, 1.0), np.float64)


def ambient_occlusion(height: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the darkening, 0 to 1, of each column by its eight neighbours."""
    padded = np.pad(height, 1, mode="edge")
    rows, columns = height.shape
    occlusion = np.zeros(height.shape)
    for dy, dx in NEIGHBOURS:
        near = padded[1 + dy : 1 + dy + rows, 1 + dx : 1 + dx + columns]
        occlusion += np.clip((near - height) / CREVICE_VOX, 0.0, 1.0)
    return occlusion / len(NEIGHBOURS)


def _top_view(material: NDArray[np.uint8]) -> MapView:
    """Return the view of the top materials of a grid [Z, Y, X]."""
    top = top_material(material)
    height = top_height(material, ALL_BUT_AIR)
    # water, lava and debris of the ground layer do not raise a mech
    height = np.where(BLOCKS_MOVE[top] | (height > 1), height, 0)
    return MapView(
        colour=palette.COLOURS[top], letter=np.array(list(palette.LETTERS))[top], height=height, key=_material_key(top)
    )


def _material_key(shown: NDArray[np.uint8]) -> tuple[Key, ...]:
    kinds = [Material(int(kind)) for kind in np.unique(shown) if kind != Material.AIR]
    return tuple((palette.SWATCHES[kind], kind.name.lower().replace("_", " ")) for kind in kinds)
