"""The dashboard's pictures as plain lines, for scripts, mails and terminals that are no place for a full screen."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import time
from typing import TextIO

from rich.console import Console

from echelon.runs import RunPaths
from echelon_cli.listing import run_row
from echelon_cli.tui.charts.chart import AxisState, draw_overlay
from echelon_cli.tui.charts.viewport import PLAIN
from echelon_cli.tui.feed.follower import RunFollower, is_long
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.layout import COLUMNS, Slot, arrange, is_wide
from echelon_cli.tui.panels import PAGES, PANELS, SLOTS
from echelon_cli.tui.panels.comparison import draw_compare_header, run_traces
from echelon_cli.tui.panels.header import LARGE_FROM, SHORT, TALL, Header
from echelon_cli.tui.theme import Theme, detect_theme, make_theme
from echelon_cli.tui.widgets.cells import Grid
from echelon_cli.tui.widgets.run_table import SORT_COLUMNS, draw_table

MIN_WIDTH = 60
PANEL_ROWS = 14
"""Rows of each panel."""

CHART_ROWS = 18
"""Rows of a chart that stands alone."""


def theme_for_file(file: TextIO) -> Theme:
    """Return the look for a file: that of the terminal it is, else plain characters without colour."""
    found = detect_theme(encoding=getattr(file, "encoding", "") or "")
    return found if file.isatty() else make_theme(found.glyphs, found.background, colour=False)


def read_run(paths: RunPaths) -> RunView:
    """Return a run as it is now; one with a long history by samples of it."""
    follower = RunFollower(paths.root)
    follower.poll()
    while follower.behind and not is_long(paths.metrics):
        follower.poll()
    return follower.view()


def draw_runs(paths: Sequence[RunPaths], width: int, theme: Theme) -> Grid:
    """Return the list of runs."""
    rows = [run_row(one) for one in paths]
    return draw_table(rows, -1, 0, (width, len(rows) + 1), theme, time(), SORT_COLUMNS[0], False)


def draw_run(view: RunView, width: int, theme: Theme) -> Grid:
    """Return one run with all its panels, beside each other where there is room, else page under page."""
    head = Header(theme=theme)
    head.set_reactive(Header.view, view)
    rows = TALL if width >= LARGE_FROM else SHORT
    blocks = [head.draw(width, rows)]
    wide = is_wide(width, 3 * PANEL_ROWS)
    for page in ("",) if wide else PAGES:
        mine = [place for place in SLOTS if wide or place.page == page]
        blocks.append(_panels(view, mine, width, page, theme, wide))
    whole = Grid(width, sum(block.height for block in blocks))
    y = 0
    for block in blocks:
        whole.paste(0, y, block)
        y += block.height
    return whole


def _panels(view: RunView, places: Sequence[Slot], width: int, page: str, theme: Theme, wide: bool) -> Grid:
    lines = sum(place.units for place in places) // COLUMNS if wide else (len(places) + 1) // 2
    grid = Grid(width, PANEL_ROWS * lines)
    for name, region in arrange(width, grid.height, places, wide=wide, page=page).items():
        panel = PANELS[name].make(PANELS[name].title, theme=theme)
        panel.set_reactive(type(panel).view, view)
        grid.paste(region.x, region.y, panel.draw(region.width, region.height))
    return grid


def draw_comparison(views: Sequence[RunView], panel: str, width: int, theme: Theme) -> Grid:
    """Return who is who and the first curve of a chart, called by its panel, for each run."""
    head = draw_compare_header(views, width, len(views) + 1, theme)
    chart = PANELS[panel].make.keywords["chart"]
    body = draw_overlay(chart, run_traces(chart, views, PLAIN), (width, CHART_ROWS), theme, AxisState(), PLAIN)
    grid = Grid(width, head.height + 1 + body.height)
    grid.paste(0, 0, head)
    grid.paste(0, head.height + 1, body)
    return grid


def show(grid: Grid, theme: Theme, file: TextIO | None = None) -> None:
    """Print a picture, in colour where its look has any."""
    file = file or sys.stdout
    if not theme.colour:
        print(grid.text().rstrip("\n"), file=file)
        return
    console = Console(file=file, width=grid.width + 1, highlight=False, force_terminal=True)
    for y in range(grid.height):
        print(grid.strip(y, theme).render(console).rstrip(), file=file)
