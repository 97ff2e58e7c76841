"""The panel of places: heat maps of the newest evaluation, as many beside each other as fit."""

from __future__ import annotations

from collections.abc import Sequence

from echelon_cli.tui.feed.messages import HeatMaps
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.theme import HEAT_LEVELS, Theme, heat_role
from echelon_cli.tui.widgets.cells import Grid, truncate

Map = Sequence[Sequence[float]]
"""Counts ``[y][x]``, y upwards."""

GAP = 2
"""Columns between two maps."""

MIN_CELLS = 5
"""Maps with fewer cells along an edge say nothing."""

EMPTY = "after an evaluation"


class PanelHeatMaps(Panel):
    """Where pilots moved, did damage and died."""

    def note(self) -> str:
        return f"update {self.view.heat.update}" if self.view.heat else ""

    def body(self, width: int, height: int) -> Grid:
        return draw_heat_maps(self.view.heat, width, height, self.theme)


def draw_heat_maps(heat: HeatMaps | None, width: int, height: int, theme: Theme) -> Grid:
    """Return the maps under their names: movement first, the others where there is room for them."""
    grid = Grid(width, height)
    maps = {kind: cells for kind, cells in heat.maps.items() if cells} if heat else {}
    if not maps:
        grid.put(max(0, (width - len(EMPTY)) // 2), height // 2, truncate(EMPTY, width, theme.symbols.cut), "dim")
        return grid
    halves = theme.colour and bool(theme.symbols.upper)
    tall, wide = (2, 1) if halves else (1, 2)  # cells of a map in a row, columns of a cell
    edge = tall * (height - 1)
    while edge > MIN_CELLS and edge * wide > width:
        edge -= 1
    if edge < MIN_CELLS:
        grid.put(0, 0, truncate("too small for a map: z", width, theme.symbols.cut), "dim")
        return grid
    x = 0
    for kind, cells in maps.items():
        size = _size(len(cells), edge)
        if x + size * wide > width:
            break
        grid.put(x, 0, truncate(kind, size * wide, theme.symbols.cut), "dim")
        levels = levels_of(resampled(cells, size), HEAT_LEVELS if halves else len(theme.symbols.shades))
        (_draw_halves if halves else _draw_shades)(grid, x, levels, theme)
        x += size * wide + GAP
    return grid


def _size(cells: int, edge: int) -> int:
    """Return along how many cells a map is drawn: a whole multiple of its own where it fits, else what fits."""
    return cells * (edge // cells) if edge >= cells else edge


def resampled(cells: Map, size: int) -> list[list[float]]:
    """Return a square map with ``size`` cells along an edge: each takes the mean of what it covers."""
    edge = len(cells)
    spans = [(i * edge // size, max(i * edge // size + 1, (i + 1) * edge // size)) for i in range(size)]

    def mean(rows: Map, left: int, right: int) -> float:
        return sum(sum(row[left:right]) for row in rows) / (len(rows) * (right - left))

    return [[mean(cells[low:high], left, right) for left, right in spans] for low, high in spans]


def levels_of(cells: Map, levels: int) -> list[list[int]]:
    """Return each cell as a share of the fullest, 0 to ``levels - 1``; what is not empty never looks so."""
    most = max((value for row in cells for value in row), default=0.0)
    last = levels - 1
    return [
        [0 if value <= 0 or most <= 0 else max(1, min(last, round(value / most * last))) for value in row]
        for row in cells
    ]


def _draw_halves(grid: Grid, x: int, levels: list[list[int]], theme: Theme) -> None:
    """Draw two rows of a map into each row of cells, the largest y on top."""
    rows = levels[::-1]
    for y in range(0, len(rows), 2):
        lower = rows[y + 1] if y + 1 < len(rows) else [0] * len(rows[y])
        for i, (first, second) in enumerate(zip(rows[y], lower, strict=True)):
            grid.put(x + i, 1 + y // 2, theme.symbols.upper, heat_role(first, second))


def _draw_shades(grid: Grid, x: int, levels: list[list[int]], theme: Theme) -> None:
    """Draw a row of a map into each row, a cell two columns wide, the largest y on top."""
    for y, row in enumerate(levels[::-1], start=1):
        grid.put(x, y, "".join(theme.symbols.shades[level] * 2 for level in row))
