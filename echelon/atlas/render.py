"""Rendering of a view at any size: pixels for terminals, letters without colour, and PNG files.

Markers (zone and spawns) are drawn last and at the resolution of the picture, so that they stay sharp. Row 0 of a
picture is the top of the map.
"""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from echelon.atlas import palette
from echelon.atlas.scene import Scene
from echelon.atlas.views import MapView, sunlight
from echelon.sim.arsenal import CHASSIS
from echelon.sim.world import Material

PNG_PIXELS = 1000
"""Target length of the longer edge of a PNG file [px]."""
PNG_PER_VOXEL = (2, 16)
"""Minimum and maximum PNG pixels per voxel edge."""
MAX_PER_VOXEL = 2
"""Maximum terminal pixels per voxel edge."""
RIM_VOX = 0.45
"""Half width of the zone's outline [vox]."""
OUTLINE_VOX = 0.35
"""Width of the dark outline of markers [vox]."""
ZONE_WASH = 0.14
"""Opacity of the zone's colour over its area."""
LIT_EDGE, DARK_EDGE = 1.16, 0.74
"""Brightness of voxel edges toward the light and away from it, where the neighbour is lower."""
GRAIN = 0.035
"""Amplitude of the random brightness of columns."""
GROUND = palette.SWATCHES[Material.DIRT].letter
GROUND_WEIGHT = 0.4
"""Weight of ground cells when the most common letter of a block is chosen."""
Pixels = NDArray[np.uint8]


def fit_size(size: tuple[int, int], columns: int, rows: int) -> tuple[int, int]:
    """Return width and height in pixels at which a map of ``size`` (x, y) fits ``columns`` and ``rows``."""
    x, y = size
    scale = min(columns / x, rows / y)
    scale = min(float(int(scale)), MAX_PER_VOXEL) if scale >= 1 else scale
    return max(1, int(x * scale)), max(1, int(y * scale))


def pixels(scene: Scene, view: MapView, width: int, height: int) -> Pixels:
    """Return the view as pixels ``uint8 [height, width, 3]``, each the mean of the area it covers."""
    lit = view.colour * (sunlight(view.height)[..., None] if view.lit else 1.0)
    tall = np.einsum("ry,yxc->rxc", _weights(lit.shape[0], height), lit)
    picture = np.clip(np.einsum("kx,rxc->rkc", _weights(lit.shape[1], width), tall), 0.0, 1.0)
    x, y = _pixel_centres(scene, width, height)
    _draw_marks(picture, scene, view.zone, x, y, scene.size[0] / width)
    return _bytes(picture[::-1])


def letters(scene: Scene, view: MapView, width: int, height: int) -> list[str]:
    """Return the view as lines of text, top line first, each letter the most common of the area it covers."""
    rows, columns = _index_ranges(scene.size[1], height), _index_ranges(scene.size[0], width)
    grid = np.array([[_most_common(view.letter[a:b, c:d]) for c, d in columns] for a, b in rows], dtype="<U1").reshape(
        height, width
    )
    x, y = _pixel_centres(scene, width, height)
    step = max(scene.size[0] / width, scene.size[1] / height)
    grid[np.abs(np.hypot(x - scene.zone[0], y - scene.zone[1]) - scene.zone[2]) < step / 2] = view.zone.letter
    for (px, py, _), team in zip(scene.starts.tolist(), scene.team.tolist(), strict=True):
        row = min(int(py * height / scene.size[1]), height - 1)
        grid[row, min(int(px * width / scene.size[0]), width - 1)] = palette.TEAMS[team].letter
    return ["".join(line) for line in grid[::-1]]


def png(scene: Scene, view: MapView) -> bytes:
    """Return the view as a PNG file with shadows, edges, zone and spawns."""
    x, y, _ = scene.size
    low, high = PNG_PER_VOXEL
    per_voxel = min(max(PNG_PIXELS // max(x, y), low), high)
    picture = _fine(view, per_voxel)
    at_x, at_y = _pixel_centres(scene, x * per_voxel, y * per_voxel)
    _draw_marks(picture, scene, view.zone, at_x, at_y, 1 / per_voxel)
    file = io.BytesIO()
    Image.fromarray(_bytes(picture[::-1])).save(file, "PNG", optimize=True)
    return file.getvalue()


def _fine(view: MapView, per_voxel: int) -> NDArray[np.float64]:
    """Return colours 0 to 1 with light, shadow and edges, bottom row first."""
    colour = view.colour * (1.0 + GRAIN * np.random.default_rng(0).uniform(-1.0, 1.0, view.height.shape))[..., None]
    fine = np.repeat(np.repeat(colour, per_voxel, axis=0), per_voxel, axis=1)
    if view.lit:
        fine *= (sunlight(view.height, per_voxel) * _edge_light(view.height, per_voxel))[..., None]
    return np.clip(fine, 0.0, 1.0)


def _draw_marks(
    picture: NDArray[np.float64],
    scene: Scene,
    zone: palette.Swatch,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    step: float,
) -> None:
    """Draw zone and spawns into ``picture``; ``x`` and ``y`` are pixel centres and ``step`` their distance [vox]."""
    cx, cy, r = scene.zone
    outside = np.hypot(x - cx, y - cy) - r
    _blend(picture, zone.colour, ZONE_WASH * _coverage(outside, step))
    rim = np.abs(outside) - max(RIM_VOX, step / 2)
    if step < OUTLINE_VOX:
        _blend(picture, (0, 0, 0), _coverage(rim - OUTLINE_VOX, step))
    _blend(picture, zone.colour, _coverage(rim, step))
    sizes = np.array([spec.size for spec in CHASSIS])[scene.chassis]
    for position, size, team in zip(scene.starts, sizes, scene.team.tolist(), strict=True):
        half = np.maximum(size[:2] / 2, step / 2)
        outside = np.maximum(np.abs(x - position[0]) - half[0], np.abs(y - position[1]) - half[1])
        if step < OUTLINE_VOX:
            _blend(picture, (0, 0, 0), _coverage(outside - OUTLINE_VOX, step))
        _blend(picture, palette.TEAMS[team].colour, _coverage(outside, step))


def _coverage(outside: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Return the fraction of each pixel within a shape, from the distance to it; 0 or 1 for coarse pixels."""
    fraction = np.clip(0.5 - outside / step, 0.0, 1.0)
    return fraction if step < 0.5 else (fraction >= 0.5).astype(np.float64)


def _blend(picture: NDArray[np.float64], colour: palette.Rgb, opacity: NDArray[np.float64]) -> None:
    rows, columns = np.nonzero(opacity)
    if not len(rows):
        return
    weight = opacity[rows, columns, None]
    picture[rows, columns] = picture[rows, columns] * (1 - weight) + np.array(colour) / 255 * weight


def _pixel_centres(scene: Scene, width: int, height: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x and y of the pixel centres [vox], each [height, width], bottom row first."""
    x = (np.arange(width) + 0.5) * scene.size[0] / width
    y = (np.arange(height) + 0.5) * scene.size[1] / height
    grid_x, grid_y = np.meshgrid(x, y)
    return grid_x, grid_y


def _index_ranges(size: int, count: int) -> list[tuple[int, int]]:
    """Return the half-open index ranges of ``count`` equal parts of ``size``, each at least one wide."""
    ends = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    return [(a, max(b, a + 1)) for a, b in ends]


def _weights(size: int, count: int) -> NDArray[np.float64]:
    """Return the weights [count, size] of ``size`` cells in ``count`` pixels of equal width."""
    edges = np.arange(count + 1) * size / count
    low = np.maximum(edges[:-1, None], np.arange(size))
    high = np.minimum(edges[1:, None], np.arange(1, size + 1))
    overlap = np.maximum(high - low, 0.0)
    return overlap / overlap.sum(axis=1, keepdims=True)


def _most_common(block: NDArray[np.str_]) -> str:
    """Return the most common letter of a block; ground has a lower weight, so that narrow walls stay visible."""
    characters, counts = np.unique(block, return_counts=True)
    weight = np.where(characters == GROUND, GROUND_WEIGHT, 1.0) * counts
    return str(characters[np.argmax(weight)])


def _edge_light(height: NDArray[np.int64], per_voxel: int) -> NDArray[np.float64]:
    """Return the brightness [Y * p, X * p] of voxel edges above a lower neighbour, p pixels per voxel."""
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


def _bytes(picture: NDArray[np.float64]) -> Pixels:
    return np.rint(picture * 255).astype(np.uint8)
