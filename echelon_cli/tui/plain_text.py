"""Dashboard output as plain lines of text, for ``echelon dash --once`` and ``echelon runs compare --chart``."""

import sys
from collections.abc import Sequence
from time import time
from typing import TextIO

from rich.console import Console

from echelon.runs import RunPaths
from echelon_cli.listing import run_row
from echelon_cli.tui.charts.chart import AxisState, draw_overlay
from echelon_cli.tui.charts.viewport import DEFAULT_VIEWPORT
from echelon_cli.tui.feed.follower import RunFollower
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.layout import Slot, arrange, is_wide, wide_rows
from echelon_cli.tui.panels import PAGES, PANELS, SLOTS, chart_of, compared_title, slots_of
from echelon_cli.tui.panels.comparison import draw_compare_header, run_marks, run_traces
from echelon_cli.tui.panels.header import ROWS, HeaderPanel
from echelon_cli.tui.theme import Theme, detect_theme, make_theme
from echelon_cli.tui.widgets.cells import Grid
from echelon_cli.tui.widgets.run_table import SORT_COLUMNS, by_view, draw_table, sort_rows

MIN_WIDTH = 60
PANEL_ROWS = 14
CHART_ROWS = 18


def theme_for_file(file: TextIO) -> Theme:
    """Return the theme for a file: that of the terminal, or one without colour where it is no terminal."""
    theme = detect_theme(encoding=getattr(file, "encoding", "") or "")
    return theme if file.isatty() else make_theme(theme.glyphs, theme.background, colour=False)


def read_run(paths: RunPaths) -> RunView:
    """Return the current state of a run."""
    follower = RunFollower(paths.root)
    follower.poll()
    while follower.behind:
        follower.poll()
    return follower.view


def draw_runs(paths: Sequence[RunPaths], width: int, theme: Theme) -> Grid:
    """Return a table of the runs for each kind of job."""
    rows, order = [run_row(run) for run in paths], SORT_COLUMNS[0]
    views = [sort_rows(view, order, False) for view in by_view(rows, rows).values() if view]
    grid, y = Grid(width, len(rows) + 2 * len(views) - 1), 0
    for view in views:
        grid.paste(0, y, draw_table(view, -1, 0, (width, len(view) + 1), theme, time(), order, False))
        y += len(view) + 2
    return grid


def draw_run(view: RunView, width: int, theme: Theme) -> Grid:
    """Return a run with all its panels: all at once in a wide output, else page below page."""
    head = HeaderPanel(theme=theme)
    head.set_reactive(HeaderPanel.view, view)
    blocks = [head.draw(width, ROWS)]
    wide = is_wide(width, 3 * PANEL_ROWS) or slots_of(view) is not SLOTS
    for page in ("",) if wide else PAGES:
        slots = [slot for slot in slots_of(view) if wide or slot.page == page]
        blocks.append(_panels(view, slots, width, page, theme, wide))
    output = Grid(width, sum(block.height for block in blocks))
    y = 0
    for block in blocks:
        output.paste(0, y, block)
        y += block.height
    return output


def _panels(view: RunView, slots: Sequence[Slot], width: int, page: str, theme: Theme, wide: bool) -> Grid:
    rows = sum(row[0].weight for row in wide_rows(slots)) if wide else (len(slots) + 1) // 2
    grid = Grid(width, PANEL_ROWS * rows)
    for name, region in arrange(width, grid.height, slots, wide=wide, page=page).items():
        panel = PANELS[name].make(PANELS[name].title, theme=theme)
        panel.set_reactive(type(panel).view, view)
        grid.paste(region.x, region.y, panel.draw(region.width, region.height))
    return grid


def draw_comparison(views: Sequence[RunView], panel: str, width: int, theme: Theme) -> Grid:
    head = draw_compare_header(views, width, len(views) + 1, theme)
    chart, size = chart_of(panel), (width, CHART_ROWS)
    traces, marked = run_traces(chart, views, DEFAULT_VIEWPORT), run_marks(chart, views)
    body = draw_overlay(chart, traces, size, theme, AxisState(), DEFAULT_VIEWPORT, marked)
    grid = Grid(width, head.height + 2 + body.height)
    grid.paste(0, 0, head)
    grid.put(0, head.height + 1, compared_title(panel), "title")
    grid.paste(0, head.height + 2, body)
    return grid


def show(grid: Grid, theme: Theme, file: TextIO | None = None) -> None:
    file = file or sys.stdout
    if not theme.colour:
        print(grid.text().rstrip("\n"), file=file)
        return
    console = Console(file=file, width=grid.width + 1, highlight=False, force_terminal=True)
    for y in range(grid.height):
        print(grid.strip(y, theme).render(console).rstrip(), file=file)
