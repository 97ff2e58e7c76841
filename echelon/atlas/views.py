"""Views of a world from above: a colour, a letter and a height for every column, and the light that falls on them.

A view is a function that returns a ``MapView``; ``picture`` scales sheets and puts marks on them. Row 0 of every array is
the bottom of the map. Light comes from the upper left, as on printed maps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from echelon.atlas.palette import (
    BLUE,
    COLOURS,
    COST_RAMP,
    HEIGHT_RAMP,
    LETTERS,
    RED,
    STRANDED,
    SWATCHES,
    ZONE,
    ZONE_ON_RAMP,
    Rgb,
    Swatch,
    ramp,
)
from echelon.atlas.scene import Scene
from echelon.atlas.statistics import top_height, top_material
from echelon.nav.field import ZoneField
from echelon.sim.world import BLOCKS_MOVE, Material

ALL_BUT_AIR = np.arange(len(COLOURS)) != Material.AIR
DIGITS = ".123456789abcdefghijklmnopqrstuvwxyz" + "^" * 64
"""Letters of heights, from the ground on."""
SUN_SLOPE = 2.0
"""How far the sun's ray falls per voxel of its way over the map."""
SHADOW = 0.66
"""Brightness in a cast shadow."""
CREVICE = 0.38
"""How much darker a column is whose neighbours all stand well above it."""
CREVICE_VOX = 4.0
"""Height of a neighbour above which it takes no more light [vox]."""
LOWEST, HIGHEST = 0.96, 1.24
"""Brightness of the lowest and of the highest columns."""
BELOW_THE_CUT = 0.5
"""Brightness of what lies below the layer of a slice."""
FADED = 0.42
"""Brightness of terrain that nobody can stand on, where ways are shown."""
FARTHEST = 98.0
"""Percentile of the cost at which the ramp ends, so that one remote ledge does not use it up."""
NEIGHBOURS = tuple((dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0))

Key = tuple[Swatch, str]


@dataclass(frozen=True, kw_only=True)
class MapView:
    """A view of a map's columns; arrays are [Y, X]."""

    colour: NDArray[np.float64]
    """Red, green and blue 0 to 1, shape [Y, X, 3], unlit."""
    letter: NDArray[np.str_]
    """One character per column."""
    height: NDArray[np.int64]
    """Height that casts shadows [vox]."""
    key: tuple[Key, ...]
    """What colours and letters mean, but for the marks."""
    lit: bool = True
    """Whether light and shadow may change the colours."""
    zone: Swatch = ZONE
    """How the capture zone is marked."""

    @property
    def legend(self) -> tuple[Key, ...]:
        """What colours, letters and marks mean."""
        return (*self.key, (self.zone, "capture zone"), (BLUE, "blue spawns"), (RED, "red spawns"))


def terrain(scene: Scene) -> MapView:
    """Show what each column is topped with, shaded by height."""
    return _topped(scene.material)


def heights(scene: Scene) -> MapView:
    """Show how high each column is."""
    height = top_height(scene.material, BLOCKS_MOVE)
    most = max(int(height.max()), 1)
    levels = sorted({0, most // 4, most // 2, most * 3 // 4, most})
    shown = ramp(HEIGHT_RAMP, np.array(levels) / most)
    key = tuple((Swatch(_rgb(c), DIGITS[z]), f"{z} high") for z, c in zip(levels, shown, strict=True))
    return MapView(colour=ramp(HEIGHT_RAMP, height / most), letter=_digits(height), height=height, key=key)


def layer(scene: Scene, z: int) -> MapView:
    """Show a slice: what fills layer ``z`` and, dark, what is seen below it; ``ValueError`` off the map."""
    depth = scene.size[2]
    if not 0 <= z < depth:
        raise ValueError(f"layer is {z}, wanted 0 to {depth - 1}")
    below = _topped(scene.material[: z + 1])
    cut = scene.material[z]
    filled = cut != Material.AIR
    colour = np.where(filled[..., None], COLOURS[cut], below.colour * BELOW_THE_CUT)
    key = (*_material_key(cut), (Swatch(_rgb(COLOURS[Material.DIRT] * BELOW_THE_CUT), " "), "open, and what is below"))
    return MapView(colour=colour, letter=_letters(cut), height=np.where(filled, z + 1, 0), key=key, lit=False)


def ways(scene: Scene, field: ZoneField) -> MapView:
    """Show where one footprint can stand and how far from the zone it is there, by the lowest cost of each column."""
    cost = field.cost_grid().min(axis=0).astype(np.float64)
    stands: NDArray[np.bool_] = np.asarray((field.graph.index >= 0).any(axis=0))
    reached: NDArray[np.bool_] = np.asarray(np.isfinite(cost))
    far = float(np.percentile(cost[reached], FARTHEST)) if reached.any() else 1.0
    share = np.clip(np.where(reached, cost, 0.0) / max(far, 1.0), 0.0, 1.0)
    grey = _topped(scene.material).colour.mean(axis=2, keepdims=True) * FADED
    colour = np.where(stands[..., None], np.array(STRANDED.colour) / 255, np.repeat(grey, 3, axis=2))
    colour = np.where(reached[..., None], ramp(COST_RAMP, share), colour)
    letter = np.where(stands, STRANDED.letter, "#")
    letter = np.where(reached, np.array(list("0123456789"))[(share * 9).astype(np.int64)], letter)
    stops = ((COST_RAMP[0], "0", 0.0), (COST_RAMP[2], "4", 0.5), (COST_RAMP[-1], "9", 1.0))
    key = (
        *((Swatch(rgb, sign), f"{far * part:.0f} to walk to the zone") for rgb, sign, part in stops),
        (Swatch(STRANDED.colour, STRANDED.letter), "no way to the zone"),
        (Swatch(_rgb(np.full(3, FADED / 2)), "#"), "no place to stand"),
    )
    flat = np.zeros_like(scene.material[0], np.int64)
    return MapView(colour=colour, letter=letter, height=flat, key=key, lit=False, zone=ZONE_ON_RAMP)


def sunlight(height: NDArray[np.integer], per_voxel: int = 1) -> NDArray[np.float64]:
    """Return the brightness of columns of this height [vox], ``per_voxel`` samples along an edge; about 1."""
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
    """Return the share of light that the eight neighbours of each column take from it."""
    padded = np.pad(height, 1, mode="edge")
    rows, columns = height.shape
    taken = np.zeros(height.shape)
    for dy, dx in NEIGHBOURS:
        near = padded[1 + dy : 1 + dy + rows, 1 + dx : 1 + dx + columns]
        taken += np.clip((near - height) / CREVICE_VOX, 0.0, 1.0)
    return taken / len(NEIGHBOURS)


def _topped(material: NDArray[np.uint8]) -> MapView:
    top = top_material(material)
    height = top_height(material, ALL_BUT_AIR)
    # the ground layer is what mechs stand in, not on
    height = np.where(BLOCKS_MOVE[top] | (height > 1), height, 0)
    return MapView(colour=COLOURS[top], letter=_letters(top), height=height, key=_material_key(top))


def _letters(material: NDArray[np.uint8]) -> NDArray[np.str_]:
    return np.array(list(LETTERS))[material]


def _digits(level: NDArray[np.int64]) -> NDArray[np.str_]:
    return np.array(list(DIGITS))[level]


def _material_key(shown: NDArray[np.uint8]) -> tuple[Key, ...]:
    kinds = [Material(int(kind)) for kind in np.unique(shown) if kind != Material.AIR]
    return tuple((SWATCHES[kind], kind.name.lower().replace("_", " ")) for kind in kinds)


def _rgb(colour: NDArray[np.floating]) -> Rgb:
    red, green, blue = (round(float(c) * 255) for c in colour)
    return red, green, blue
