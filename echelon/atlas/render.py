"""Pictures of a sheet at any size: pixels for a terminal's half blocks, letters without colour, and PNG files.

Marks (zone and spawns) are drawn last and at the picture's own resolution, so that they stay sharp. Row 0 of every
picture is the top of the map.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from echelon.atlas import palette
from echelon.atlas.png import encode_png
from echelon.atlas.scene import Scene
from echelon.atlas.views import MapView, sunlight
from echelon.sim.arsenal import CHASSIS
from echelon.sim.world import Material

PNG_PIXELS = 1000
"""Longest edge aimed at in a PNG file."""
PNG_PER_VOXEL = (2, 16)
"""Least and most pixels along the edge of a voxel."""
MOST_PER_VOXEL = 2
"""Most terminal pixels along the edge of a voxel."""
RIM_VOX = 0.45
"""Half the width of the zone's rim [vox]."""
OUTLINE_VOX = 0.35
"""Width of the dark line around the box of a mech [vox]."""
ZONE_WASH = 0.14
"""How much of its colour the zone lends to what lies in it."""
LIT_EDGE, DARK_EDGE = 1.16, 0.74
"""Brightness of a voxel's edges toward the light and away from it, where the neighbour is lower."""
GRAIN = 0.035
"""How much neighbouring voxels of one material differ in brightness."""
GROUND = palette.SWATCHES[Material.DIRT].letter
GROUND_WEIGHT = 0.4
"""What a letter's worth of ground counts beside one of anything else."""
Pixels = NDArray[np.uint8]


def fit_size(size: tuple[int, int], columns: int, rows: int) -> tuple[int, int]:
    """Return the width and height in pixels of a map of ``size`` (x, y) that fits ``columns`` and ``rows``."""
    x, y = size
    share = min(columns / x, rows / y)
    share = min(float(int(share)), MOST_PER_VOXEL) if share >= 1 else share
    return max(1, int(x * share)), max(1, int(y * share))


def pixels(scene: Scene, sheet: MapView, width: int, height: int) -> Pixels:
    """Return the sheet as a picture ``uint8 [height, width, 3]``, every pixel the mean of what it covers."""
    lit = sheet.colour * (sunlight(sheet.height)[..., None] if sheet.lit else 1.0)
    picture = np.clip(_averaged(lit, height, width), 0.0, 1.0)
    x, y = _places(scene, width, height)
    _draw_marks(picture, scene, sheet.zone, x, y, scene.size[0] / width)
    return _bytes(picture[::-1])


def letters(scene: Scene, sheet: MapView, width: int, height: int) -> list[str]:
    """Return the sheet as lines of text, top line first; every letter stands for most of what it covers."""
    rows, columns = _edges(scene.size[1], height), _edges(scene.size[0], width)
    grid = np.array([[_most_common(sheet.letter[a:b, c:d]) for c, d in columns] for a, b in rows], dtype="<U1").reshape(
        height, width
    )
    x, y = _places(scene, width, height)
    step = max(scene.size[0] / width, scene.size[1] / height)
    grid[np.abs(np.hypot(x - scene.zone[0], y - scene.zone[1]) - scene.zone[2]) < step / 2] = sheet.zone.letter
    for (px, py, _), team in zip(scene.starts.tolist(), scene.team.tolist(), strict=True):
        row = min(int(py * height / scene.size[1]), height - 1)
        grid[row, min(int(px * width / scene.size[0]), width - 1)] = palette.TEAMS[team].letter
    return ["".join(line) for line in grid[::-1]]


def png(scene: Scene, sheet: MapView) -> bytes:
    """Return the sheet as a PNG file, with shadows, edges, zone and spawns."""
    x, y, _ = scene.size
    low, high = PNG_PER_VOXEL
    per_voxel = min(max(PNG_PIXELS // max(x, y), low), high)
    colour = sheet.colour * _grain(sheet.height.shape)[..., None]
    fine = np.repeat(np.repeat(colour, per_voxel, axis=0), per_voxel, axis=1)
    if sheet.lit:
        fine *= (sunlight(sheet.height, per_voxel) * _edge_light(sheet.height, per_voxel))[..., None]
    picture = np.clip(fine, 0.0, 1.0)
    at_x, at_y = _places(scene, x * per_voxel, y * per_voxel)
    _draw_marks(picture, scene, sheet.zone, at_x, at_y, 1 / per_voxel)
    return encode_png(_bytes(picture[::-1]))


def _draw_marks(
    picture: NDArray[np.float64],
    scene: Scene,
    zone: palette.Swatch,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    step: float,
) -> None:
    """Draw zone and spawns, in place; ``x`` and ``y`` are the pixels' centres and ``step`` their distance [vox]."""
    cx, cy, r = scene.zone
    away = np.hypot(x - cx, y - cy) - r
    _blend(picture, zone.colour, ZONE_WASH * _cover(away, step))
    rim = np.abs(away) - max(RIM_VOX, step / 2)
    if step < OUTLINE_VOX:
        _blend(picture, (0, 0, 0), _cover(rim - OUTLINE_VOX, step))
    _blend(picture, zone.colour, _cover(rim, step))
    sizes = np.array([spec.size for spec in CHASSIS])[scene.chassis]
    for place, size, team in zip(scene.starts, sizes, scene.team.tolist(), strict=True):
        half = np.maximum(size[:2] / 2, step / 2)
        outside = np.maximum(np.abs(x - place[0]) - half[0], np.abs(y - place[1]) - half[1])
        if step < OUTLINE_VOX:
            _blend(picture, (0, 0, 0), _cover(outside - OUTLINE_VOX, step))
        _blend(picture, palette.TEAMS[team].colour, _cover(outside, step))


def _cover(outside: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Return how much of each pixel a shape covers, from the distance to it; whole pixels where they are coarse."""
    share = np.clip(0.5 - outside / step, 0.0, 1.0)
    return share if step < 0.5 else (share >= 0.5).astype(np.float64)


def _blend(picture: NDArray[np.float64], colour: palette.Rgb, share: NDArray[np.float64]) -> None:
    rows, columns = np.nonzero(share)
    if not len(rows):
        return
    weight = share[rows, columns, None]
    picture[rows, columns] = picture[rows, columns] * (1 - weight) + np.array(colour) / 255 * weight


def _places(scene: Scene, width: int, height: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x and y of each pixel's centre [vox], both [height, width], bottom row first."""
    x = (np.arange(width) + 0.5) * scene.size[0] / width
    y = (np.arange(height) + 0.5) * scene.size[1] / height
    grid_x, grid_y = np.meshgrid(x, y)
    return grid_x, grid_y


def _edges(size: int, count: int) -> list[tuple[int, int]]:
    """Return the columns that each of ``count`` equal parts of ``size`` begins and ends with; at least one each."""
    ends = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    return [(a, max(b, a + 1)) for a, b in ends]


def _averaged(colour: NDArray[np.float64], rows: int, columns: int) -> NDArray[np.float64]:
    """Return ``colour`` [Y, X, 3] at [rows, columns, 3], each pixel the mean over the area it covers."""
    wide = np.einsum("ry,yxc->rxc", _weights(colour.shape[0], rows), colour)
    return np.einsum("kx,rxc->rkc", _weights(colour.shape[1], columns), wide)


def _weights(size: int, count: int) -> NDArray[np.float64]:
    """Return the share that each of ``size`` columns has in each of ``count`` pixels, [count, size]."""
    edges = np.arange(count + 1) * size / count
    low = np.maximum(edges[:-1, None], np.arange(size))
    high = np.minimum(edges[1:, None], np.arange(1, size + 1))
    shared = np.maximum(high - low, 0.0)
    return shared / shared.sum(axis=1, keepdims=True)


def _most_common(block: NDArray[np.str_]) -> str:
    """Return the letter that fills most of a block; open ground counts less, so that posts and walls stay."""
    found, counts = np.unique(block, return_counts=True)
    weight = np.where(found == GROUND, GROUND_WEIGHT, 1.0) * counts
    return str(found[np.argmax(weight)])


def _edge_light(height: NDArray[np.int64], per_voxel: int) -> NDArray[np.float64]:
    """Return the brightness of the outermost pixels of voxels that stand above a neighbour, [Y * p, X * p]."""
    rows, columns = height.shape
    light = np.ones((rows, per_voxel, columns, per_voxel))
    padded = np.pad(height, 1, mode="edge")
    left, right = padded[1:-1, :-2], padded[1:-1, 2:]
    under, over = padded[:-2, 1:-1], padded[2:, 1:-1]
    light[:, :, :, 0] *= np.where(height > left, LIT_EDGE, 1.0)[:, None, :]
    light[:, -1] *= np.where(height > over, LIT_EDGE, 1.0)[..., None]
    light[:, :, :, -1] *= np.where(height > right, DARK_EDGE, 1.0)[:, None, :]
    light[:, 0] *= np.where(height > under, DARK_EDGE, 1.0)[..., None]
    return light.reshape(rows * per_voxel, columns * per_voxel)


def _grain(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return brightness that differs a little from column to column, the same for every map."""
    return 1.0 + GRAIN * np.random.default_rng(0).uniform(-1.0, 1.0, shape)


def _bytes(picture: NDArray[np.float64]) -> Pixels:
    return np.rint(picture * 255).astype(np.uint8)
