"""Drawing on a material grid: boxes, stairs, tunnels and rings; map corners, and the four flips of a terrain.

Grids are ``uint8 [z, y, x]``; shapes are clipped to the grid. Arithmetic uses integers or correctly rounded operations,
so that a seed gives the same map on every platform. A corner id has bit 0 set at the right and bit 1 set at the top, so
flips and opposites are exclusive-ors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import cos, floor, pi, sin, sqrt
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from echelon.sim.random import Stream
from echelon.sim.world import Material

Grid: TypeAlias = NDArray[np.uint8]
Span: TypeAlias = tuple[int, int]
Point: TypeAlias = tuple[float, float, float]

STAIR_HEADROOM = 4
"""Cleared layers above each step of a staircase."""
STAIR_SAMPLES = 1.5
"""Steps of a staircase per voxel of horizontal length."""
LINE_SAMPLES = 1.5
"""Cleared squares of a lane per voxel of length."""
WORM_SAMPLES = 2
"""Cleared cubes of a tunnel per voxel of length."""
_RING_BITS = 16
_RING_STEP_DEG = 5


class Rect(NamedTuple):
    """A half-open rectangle of columns."""

    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def width(self) -> int:
        return self.x1 - self.x0

    @property
    def depth(self) -> int:
        return self.y1 - self.y0

    @property
    def area(self) -> int:
        return self.width * self.depth

    @property
    def centre(self) -> tuple[int, int]:
        return self.x0 + self.width // 2, self.y0 + self.depth // 2

    @property
    def x(self) -> Span:
        return self.x0, self.x1

    @property
    def y(self) -> Span:
        return self.y0, self.y1

    def grown(self, margin: int) -> "Rect":
        """Return the rectangle with a margin added on each side; a negative margin shrinks it."""
        return Rect(self.x0 - margin, self.y0 - margin, self.x1 + margin, self.y1 + margin)

    def clipped(self, other: "Rect") -> "Rect":
        return Rect(max(self.x0, other.x0), max(self.y0, other.y0), min(self.x1, other.x1), min(self.y1, other.y1))


class Brush(Protocol):
    """Function that fills a quadrant with a biome."""

    def __call__(self, grid: Grid, rect: Rect, stream: Stream) -> None:
        """Draw into the columns of ``rect``; shapes may extend beyond them."""


def distance(start: Sequence[float], end: Sequence[float]) -> float:
    """Return the length of a line; unlike ``hypot``, sums and square root are correctly rounded."""
    return sqrt(sum((b - a) * (b - a) for a, b in zip(start, end, strict=True)))


def put(grid: Grid, x: Span, y: Span, z: Span, material: int) -> None:
    grid[max(z[0], 0) : max(z[1], 0), max(y[0], 0) : max(y[1], 0), max(x[0], 0) : max(x[1], 0)] = material


def block(grid: Grid, rect: Rect, z: Span, material: int) -> None:
    put(grid, rect.x, rect.y, z, material)


def frame(grid: Grid, rect: Rect, z: Span, material: int) -> None:
    """Fill the outline of a rectangle, one column wide."""
    for edge in (
        Rect(rect.x0, rect.y0, rect.x1, rect.y0 + 1),
        Rect(rect.x0, rect.y1 - 1, rect.x1, rect.y1),
        Rect(rect.x0, rect.y0, rect.x0 + 1, rect.y1),
        Rect(rect.x1 - 1, rect.y0, rect.x1, rect.y1),
    ):
        block(grid, edge, z, material)


def sample_box(rect: Rect, stream: Stream, width: Span, depth: Span) -> Rect:
    """Sample a rectangle within ``rect`` with sides in these inclusive ranges; the smallest must fit."""
    w = stream.integers(width[0], min(width[1], rect.width))
    d = stream.integers(depth[0], min(depth[1], rect.depth))
    x = stream.integers(rect.x0, rect.x1 - w)
    y = stream.integers(rect.y0, rect.y1 - d)
    return Rect(x, y, x + w, y + d)


def centred(x: int, y: int, width: int, depth: int) -> Rect:
    x0, y0 = x - width // 2, y - depth // 2
    return Rect(x0, y0, x0 + width, y0 + depth)


def turned(grid: Grid, rect: Rect, stream: Stream) -> tuple[Grid, Rect]:
    """Return grid and rectangle, with x and y swapped with probability 0.5; the grid is a view."""
    if stream.coin():
        return grid.swapaxes(1, 2), Rect(rect.y0, rect.x0, rect.y1, rect.x1)
    return grid, rect


def stairs(grid: Grid, start: Point, end: Point, width: int) -> None:
    """Build a staircase of solid slabs with cleared headroom between two points."""
    run = distance(start[:2], end[:2])
    steps = max(1, floor(STAIR_SAMPLES * run))
    for i in range(steps + 1):
        x, y, z = (a + (b - a) * i / steps for a, b in zip(start, end, strict=True))
        x_span, y_span, level = _slab(x, width), _slab(y, width), floor(z)
        if level >= 0:
            put(grid, x_span, y_span, (level, level + 1), Material.SOLID)
        put(grid, x_span, y_span, (level + 1, level + 1 + STAIR_HEADROOM), Material.AIR)


def _slab(centre: float, width: int) -> Span:
    """Return the columns along one axis that a step of this width covers."""
    return int(centre - width / 2), int(centre + width / 2 + 1)


def worm(grid: Grid, start: Point, end: Point, radius: int) -> None:
    """Clear a tunnel of overlapping cubes with half size ``radius`` between two points."""
    steps = max(1, floor(WORM_SAMPLES * distance(start, end)))
    for i in range(steps + 1):
        x, y, z = (floor(a + (b - a) * i / steps) for a, b in zip(start, end, strict=True))
        x_span, y_span, z_span = ((c - radius, c + radius + 1) for c in (x, y, z))
        put(grid, x_span, y_span, z_span, Material.AIR)


def _ring_table() -> tuple[tuple[int, int], ...]:
    """Return cosine and sine as rounded fixed-point integers, independent of the math library's last bits."""
    scale = 1 << _RING_BITS
    angles = [2 * pi * i * _RING_STEP_DEG / 360 for i in range(360 // _RING_STEP_DEG)]
    return tuple((round(cos(a) * scale), round(sin(a) * scale)) for a in angles)


_RING = _ring_table()


def ring(radius: int, step_deg: int) -> list[tuple[int, int]]:
    """Return rounded offsets (dx, dy) on a circle, one per ``step_deg`` degrees (a multiple of 5)."""
    half = 1 << (_RING_BITS - 1)
    picks = _RING[:: step_deg // _RING_STEP_DEG]
    return [((radius * c + half) >> _RING_BITS, (radius * s + half) >> _RING_BITS) for c, s in picks]


def carve_line(grid: Grid, start: Span, end: Span, width: int, layers: int) -> None:
    """Clear the lowest ``layers`` layers of a lane between two columns."""
    steps = max(1, floor(LINE_SAMPLES * distance(start, end)))
    for i in range(steps + 1):
        x, y = (a + (b - a) * i / steps for a, b in zip(start, end, strict=True))
        x_span = (floor(x - width / 2), floor(x + width / 2) + 1)
        y_span = (floor(y - width / 2), floor(y + width / 2) + 1)
        put(grid, x_span, y_span, (0, layers), Material.AIR)


class Corner(IntEnum):
    """Map corners and their quadrants."""

    BL = 0
    BR = 1
    TL = 2
    TR = 3

    @property
    def is_right(self) -> bool:
        return bool(self & 1)

    @property
    def is_top(self) -> bool:
        return bool(self & 2)

    @property
    def opposite(self) -> "Corner":
        return Corner(self ^ 3)


@dataclass(frozen=True, kw_only=True)
class Transform:
    """A flip of the map."""

    name: str
    flips: int
    """Bit 0 reverses x, bit 1 reverses y."""

    def grid(self, material: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a grid [Z, Y, X] flipped, as a new contiguous array."""
        x_step = -1 if self.flips & 1 else 1
        y_step = -1 if self.flips & 2 else 1
        return np.ascontiguousarray(material[:, ::y_step, ::x_step])

    def corner(self, corner: Corner) -> Corner:
        return Corner(corner ^ self.flips)


TRANSFORMS: tuple[Transform, ...] = (
    Transform(name="identity", flips=0),
    Transform(name="flip_x", flips=1),
    Transform(name="flip_y", flips=2),
    Transform(name="flip_xy", flips=3),
)
