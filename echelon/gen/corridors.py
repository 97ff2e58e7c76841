"""Lanes carved through the terrain: a ring around the objective, and a main and a flank lane per team."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from echelon.gen.objective import Zone
from echelon.gen.shapes import Grid, Span, carve_line, distance
from echelon.sim.random import Stream

WIDTH_PERCENT = 6
"""Width of a lane as a percentage of the map's smaller side."""
WIDTH_RANGE = (4, 8)
"""Limits of that width [vox]."""
WIDTH_DIVISOR = 4
"""A lane is never wider than the smaller side over this."""
RING_WIDTHS = 1.25
"""Lane widths between the zone's edge and the ring."""
RING_MIN = 3
"""Least half side of the ring [vox]."""
RING_SHARE = 0.35
"""Largest half side of the ring as a share of the smaller side."""
FLANK_WIDTHS = (1.5, 2.5)
"""How far a flank lane is shifted off the main lane [lane widths]."""


@dataclass(frozen=True, kw_only=True)
class Corridor:
    """One carved lane, as the recipe records it."""

    kind: str
    width: int
    points: tuple[tuple[int, int], ...]

    def record(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def lane_width(size_x: int, size_y: int) -> int:
    """Return the width of lanes on a map of that size [vox]."""
    smaller = min(size_x, size_y)
    width = (WIDTH_PERCENT * smaller + 50) // 100
    return min(max(width, WIDTH_RANGE[0]), WIDTH_RANGE[1], max(2, smaller // WIDTH_DIVISOR))


def plan_corridors(
    size: tuple[int, int], zone: Zone, starts: tuple[tuple[int, int], tuple[int, int]], stream: Stream
) -> tuple[Corridor, ...]:
    """Lay out ring, main lanes and flank lanes; ``starts`` are the anchors of blue and red."""
    width = lane_width(*size)
    centre = (int(zone.cx), int(zone.cy))
    corridors = [Corridor(kind="objective_ring", width=width, points=_ring(size, zone, width))]
    for team, start, sign in (("blue", starts[0], -1), ("red", starts[1], 1)):
        corridors.append(Corridor(kind=f"{team}_main", width=width, points=(start, centre)))
        shift = stream.uniform(*FLANK_WIDTHS) * width * sign * (1 if stream.coin() else -1)
        corridors.append(Corridor(kind=f"{team}_flank", width=width, points=_shifted(size, start, centre, shift)))
    return tuple(corridors)


def carve_corridors(grid: Grid, corridors: tuple[Corridor, ...], layers: int) -> None:
    """Clear every lane from the ground to ``layers`` high."""
    for corridor in corridors:
        for start, end in zip(corridor.points[:-1], corridor.points[1:], strict=True):
            carve_line(grid, start, end, corridor.width, layers)


def _ring(size: tuple[int, int], zone: Zone, width: int) -> tuple[Span, ...]:
    """Return the closed square around the zone."""
    most = max(RING_MIN, int(RING_SHARE * min(size)))
    half = min(max(round(zone.r + RING_WIDTHS * width), RING_MIN), most)
    x0, x1 = (_inside(size[0], round(zone.cx + s * half)) for s in (-1, 1))
    y0, y1 = (_inside(size[1], round(zone.cy + s * half)) for s in (-1, 1))
    return (x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)


def _shifted(size: tuple[int, int], start: Span, end: Span, shift: float) -> tuple[Span, ...]:
    """Return a line moved sideways, its ends kept on the map."""
    length = max(distance(start, end), 1.0)
    normal = (-(end[1] - start[1]) / length, (end[0] - start[0]) / length)
    return tuple(
        (_inside(size[0], round(x + shift * normal[0])), _inside(size[1], round(y + shift * normal[1])))
        for x, y in (start, end)
    )


def _inside(size: int, value: int) -> int:
    return min(max(value, 1), size - 2)
