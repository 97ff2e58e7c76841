"""The heat map panel: positions of movement, damage and deaths in the newest evaluation, side by side."""

from collections.abc import Sequence

from echelon_cli.tui.feed.messages import HeatMaps
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.theme import HEAT_LEVELS, Theme, heat_role
from echelon_cli.tui.widgets.cells import Grid, truncate

Map = Sequence[Sequence[float]]
"""Counts ``[y][x]``, y upwards."""

GAP = 2
MIN_CELLS = 5
EMPTY_TEXT = "no evaluation yet"


class PanelHeatMaps(Panel):
    """Heat maps of movement, damage and deaths."""

    def note(self) -> str:
        maps = self.view.heat_maps
        return f"update {maps.update}" if maps else ""

    def body(self, width: int, height: int) -> Grid:
        return draw_heat_maps(self.view.heat_maps, width, height, self.theme)


def draw_heat_maps(heat_maps: HeatMaps | None, width: int, height: int, theme: Theme) -> Grid:
    """Return the maps below their names: movement first, the others where columns allow."""
    grid = Grid(width, height)
    maps = {kind: cells for kind, cells in heat_maps.maps.items() if cells} if heat_maps else {}
    if not maps:
        return grid.centre([truncate(EMPTY_TEXT, width, theme.symbols.ellipsis)])
    has_halves = theme.colour and bool(theme.symbols.upper)
    rows_per_line, columns_per_cell = (2, 1) if has_halves else (1, 2)
    edge = rows_per_line * (height - 1)
    while edge > MIN_CELLS and edge * columns_per_cell > width:
        edge -= 1
    if edge < MIN_CELLS:
        grid.put(0, 0, truncate("too small: press z", width, theme.symbols.ellipsis), "dim")
        return grid
    x = 0
    for kind, cells in maps.items():
        size = _size(len(cells), edge)
        if x + size * columns_per_cell > width:
            break
        grid.put(x, 0, truncate(kind, size * columns_per_cell, theme.symbols.ellipsis), "dim")
        levels = levels_of(resampled(cells, size), HEAT_LEVELS if has_halves else len(theme.symbols.shades))
        (_draw_halves if has_halves else _draw_shades)(grid, x, levels, theme)
        x += size * columns_per_cell + GAP
    return grid


def _size(cells: int, edge: int) -> int:
    """Return the edge length of the drawn map: the largest whole multiple of its cells that fits, else ``edge``."""
    return cells * (edge // cells) if edge >= cells else edge


def resampled(cells: Map, size: int) -> list[list[float]]:
    """Return a square map with ``size`` cells along an edge, each the mean of the cells it covers."""
    edge = len(cells)
    spans = [(i * edge // size, max(i * edge // size + 1, (i + 1) * edge // size)) for i in range(size)]

    def mean(rows: Map, left: int, right: int) -> float:
        return sum(sum(row[left:right]) for row in rows) / (len(rows) * (right - left))

    return [[mean(cells[low:high], left, right) for left, right in spans] for low, high in spans]


def levels_of(cells: Map, levels: int) -> list[list[int]]:
    """Return each cell relative to the largest, 0 to ``levels - 1``; only empty cells get 0."""
    largest = max((value for row in cells for value in row), default=0.0)
    last = levels - 1
    return [
        [0 if value <= 0 or largest <= 0 else max(1, min(last, round(value / largest * last))) for value in row]
        for row in cells
    ]


def _draw_halves(grid: Grid, x: int, levels: list[list[int]], theme: Theme) -> None:
    """Draw two rows of a map per line as half blocks, the largest y on top."""
    rows = levels[::-1]
    for y in range(0, len(rows), 2):
        lower = rows[y + 1] if y + 1 < len(rows) else [0] * len(rows[y])
        for i, (first, second) in enumerate(zip(rows[y], lower, strict=True)):
            grid.put(x + i, 1 + y // 2, theme.symbols.upper, heat_role(first, second))


def _draw_shades(grid: Grid, x: int, levels: list[list[int]], theme: Theme) -> None:
    """Draw one row of a map per line as shades two columns wide, the largest y on top."""
    for y, row in enumerate(levels[::-1], start=1):
        grid.put(x, y, "".join(theme.symbols.shades[level] * 2 for level in row))
