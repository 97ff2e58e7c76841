"""Corridors carved through the terrain: a ring around the capture zone, and a main and a flank lane per team."""

from dataclasses import asdict, dataclass
from typing import Any

from echelon.gen.objective import Zone
from echelon.gen.shapes import Grid, Span, carve_line, distance
from echelon.sim.random import Stream

WIDTH_PERCENT = 6
"""Lane width as a percentage of the map's smaller side."""
WIDTH_RANGE = (4, 8)
"""Minimum and maximum lane width [vox]."""
WIDTH_DIVISOR = 4
"""A lane is at most the map's smaller side divided by this."""
RING_WIDTHS = 1.25
"""Distance between the zone's edge and the ring [lane widths]."""
RING_MIN = 3
"""Minimum half side of the ring [vox]."""
RING_SHARE = 0.35
"""Maximum half side of the ring as a fraction of the map's smaller side."""
FLANK_WIDTHS = (1.5, 2.5)
"""Range of the distance between flank lane and main lane [lane widths]."""


@dataclass(frozen=True, kw_only=True)
class Corridor:
    """A carved lane, as stored in the recipe."""

    kind: str
    width: int
    points: tuple[tuple[int, int], ...]

    def record(self) -> dict[str, Any]:
        return asdict(self)


def lane_width(size_x: int, size_y: int) -> int:
    """Return the lane width on a map of this size [vox]."""
    smaller = min(size_x, size_y)
    width = (WIDTH_PERCENT * smaller + 50) // 100
    return min(max(width, WIDTH_RANGE[0]), WIDTH_RANGE[1], max(2, smaller // WIDTH_DIVISOR))


def plan_corridors(
    size: tuple[int, int], zone: Zone, starts: tuple[tuple[int, int], tuple[int, int]], stream: Stream
) -> tuple[Corridor, ...]:
    """Return ring, main lanes and flank lanes; ``starts`` are the spawn columns of blue and red."""
    width = lane_width(*size)
    centre = (int(zone.cx), int(zone.cy))
    corridors = [Corridor(kind="objective_ring", width=width, points=_ring(size, zone, width))]
    for team, start, sign in (("blue", starts[0], -1), ("red", starts[1], 1)):
        corridors.append(Corridor(kind=f"{team}_main", width=width, points=(start, centre)))
        shift = stream.uniform(*FLANK_WIDTHS) * width * sign * (1 if stream.coin() else -1)
        corridors.append(Corridor(kind=f"{team}_flank", width=width, points=_shifted(size, start, centre, shift)))
    return tuple(corridors)


def carve_corridors(grid: Grid, corridors: tuple[Corridor, ...], layers: int) -> None:
    for corridor in corridors:
        for start, end in zip(corridor.points[:-1], corridor.points[1:], strict=True):
            carve_line(grid, start, end, corridor.width, layers)


def _ring(size: tuple[int, int], zone: Zone, width: int) -> tuple[Span, ...]:
    limit = max(RING_MIN, int(RING_SHARE * min(size)))
    half = min(max(round(zone.r + RING_WIDTHS * width), RING_MIN), limit)
    x0, x1 = (_clamped(size[0], round(zone.cx + s * half)) for s in (-1, 1))
    y0, y1 = (_clamped(size[1], round(zone.cy + s * half)) for s in (-1, 1))
    return (x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)


def _shifted(size: tuple[int, int], start: Span, end: Span, shift: float) -> tuple[Span, ...]:
    length = max(distance(start, end), 1.0)
    normal = (-(end[1] - start[1]) / length, (end[0] - start[0]) / length)
    return tuple(
        (_clamped(size[0], round(x + shift * normal[0])), _clamped(size[1], round(y + shift * normal[1])))
        for x, y in (start, end)
    )


def _clamped(size: int, value: int) -> int:
    return min(max(value, 1), size - 2)
