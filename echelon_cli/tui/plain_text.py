"""The dashboard's pictures as plain lines, for scripts, mails and terminals that are no place for a full screen."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import time
from typing import TextIO

from rich.console import Console

from echelon.runs import RunPaths
from echelon_cli.listing import run_row
from echelon_cli.tui.charts.chart import Held, draw_overlay
from echelon_cli.tui.charts.viewport import PLAIN
from echelon_cli.tui.feed.follower import RunFollower, is_long
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.layout import COLUMNS, Place, arrange, is_wide
from echelon_cli.tui.panels import PAGES, PANELS, PLACES
from echelon_cli.tui.panels.comparison import draw_head, strands_of_runs
from echelon_cli.tui.panels.header import LARGE_FROM, SHORT, TALL, Header
from echelon_cli.tui.theme import Look, detect_look, make_look
from echelon_cli.tui.widgets.cells import Grid
from echelon_cli.tui.widgets.run_table import ORDERS, draw_table

MIN_WIDTH = 60
PANEL_ROWS = 14
"""Rows of each panel."""

CHART_ROWS = 18
"""Rows of a chart that stands alone."""


def theme_for_file(file: TextIO) -> Look:
    """Return the look for a file: that of the terminal it is, else plain characters without colour."""
    found = detect_look(encoding=getattr(file, "encoding", "") or "")
    return found if file.isatty() else make_look(found.detail, found.theme, colour=False)


def read_run(paths: RunPaths) -> RunView:
    """Return a run as it is now; one with a long history by samples of it."""
    follower = RunFollower(paths.root)
    follower.poll()
    while follower.behind and not is_long(paths.metrics):
        follower.poll()
    return follower.view()


def draw_runs(paths: Sequence[RunPaths], width: int, look: Look) -> Grid:
    """Return the list of runs."""
    rows = [run_row(one) for one in paths]
    return draw_table(rows, -1, 0, (width, len(rows) + 1), look, time(), ORDERS[0], False)


def draw_run(view: RunView, width: int, look: Look) -> Grid:
    """Return one run with all its panels, beside each other where there is room, else page under page."""
    head = Header(look=look)
    head.set_reactive(Header.view, view)
    rows = TALL if width >= LARGE_FROM else SHORT
    blocks = [head.draw(width, rows)]
    wide = is_wide(width, 3 * PANEL_ROWS)
    for page in ("",) if wide else PAGES:
        mine = [place for place in PLACES if wide or place.page == page]
        blocks.append(_panels(view, mine, width, page, look, wide))
    whole = Grid(width, sum(block.height for block in blocks))
    y = 0
    for block in blocks:
        whole.paste(0, y, block)
        y += block.height
    return whole


def _panels(view: RunView, places: Sequence[Place], width: int, page: str, look: Look, wide: bool) -> Grid:
    lines = sum(place.units for place in places) // COLUMNS if wide else (len(places) + 1) // 2
    grid = Grid(width, PANEL_ROWS * lines)
    for name, region in arrange(width, grid.height, places, wide=wide, page=page).items():
        panel = PANELS[name].make(PANELS[name].title, look=look)
        panel.set_reactive(type(panel).view, view)
        grid.paste(region.x, region.y, panel.draw(region.width, region.height))
    return grid


def draw_comparison(views: Sequence[RunView], panel: str, width: int, look: Look) -> Grid:
    """Return who is who and the first curve of a chart, called by its panel, for each run."""
    head = draw_head(views, width, len(views) + 1, look)
    chart = PANELS[panel].make.keywords["chart"]
    body = draw_overlay(chart, strands_of_runs(chart, views, PLAIN), (width, CHART_ROWS), look, Held(), PLAIN)
    grid = Grid(width, head.height + 1 + body.height)
    grid.paste(0, 0, head)
    grid.paste(0, head.height + 1, body)
    return grid


def show(grid: Grid, look: Look, file: TextIO | None = None) -> None:
    """Print a picture, in colour where its look has any."""
    file = file or sys.stdout
    if not look.colour:
        print(grid.text().rstrip("\n"), file=file)
        return
    console = Console(file=file, width=grid.width + 1, highlight=False, force_terminal=True)
    for y in range(grid.height):
        print(grid.strip(y, look).render(console).rstrip(), file=file)
