"""The panel of a run's place in the league: its newest rating with its doubt, its rank, and who of it was promoted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from echelon.telemetry.events import EventLeague
from echelon_cli.tui.charts.axis import data_range
from echelon_cli.tui.charts.chart import AxisState, Chart, Series, draw_overlay
from echelon_cli.tui.charts.curves import Curve, Curves
from echelon_cli.tui.charts.plot import Trace
from echelon_cli.tui.charts.viewport import Viewport
from echelon_cli.tui.panels.base import CONFIDENCE_Z, Panel
from echelon_cli.tui.panels.log import wrap
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid

HISTORY = Chart(series=(Series(metric="rating", label="rating", role="good"),), text="{:.0f}".format)

CHART_ROWS = 5
"""Rows from which ratings are drawn below the words."""


class PanelLeagueRating(Panel):
    """How what the run submitted stands in the league."""

    def note(self) -> str:
        told = self.view.snapshot.leagues
        return told[-1].entry_kind if told else ""

    def body(self, width: int, height: int) -> Grid:
        view = self.view
        return draw_league_rating(view.snapshot.leagues, view.curves, (width, height), self.theme, self.viewport)


def draw_league_rating(
    told: Sequence[EventLeague], curves: Curves, size: tuple[int, int], theme: Theme, viewport: Viewport
) -> Grid:
    """Return the newest rating in words, and all of them as a curve where there is room."""
    grid, (width, height) = Grid(*size), size
    if not told:
        for y, line in enumerate(wrap("not in a league", width)[:height]):
            grid.put(0, y, line, "dim")
        return grid
    newest = told[-1]
    x = grid.put(0, 0, f"{newest.rating:.0f}", "good")
    doubt = f"{'±' if theme.glyphs == 'braille' else '+-'}{CONFIDENCE_Z * newest.rd:.0f}"
    grid.put(x + 1, 0, doubt if x + 1 + len(doubt) <= width else "", "dim")
    lines = [line for text in words(told) for line in wrap(text, width)]
    for y, line in enumerate(lines[: height - 1], start=1):
        grid.put(0, y, line, "dim")
    room = height - 1 - len(lines)
    if room >= CHART_ROWS and len(told) > 1:
        grid.paste(0, height - room, draw_ratings(told, curves, (width, room), theme, viewport))
    return grid


def words(told: Sequence[EventLeague]) -> list[str]:
    """Return rank, name and the last promotion, each in a few words."""
    newest, promoted = told[-1], next((event for event in reversed(told) if event.promoted), None)
    rank = [f"rank {newest.rank} of {newest.ranked}"] if newest.rank else []
    return [*rank, newest.name, f"promoted at update {promoted.update}" if promoted else "none promoted yet"]


def draw_ratings(
    told: Sequence[EventLeague], curves: Curves, size: tuple[int, int], theme: Theme, viewport: Viewport
) -> Grid:
    """Return the rating of each snapshot that joined, with its 95 % interval behind it."""
    mean = tuple(event.rating for event in told)
    low, high = (tuple(event.rating + sign * CONFIDENCE_Z * event.rd for event in told) for sign in (-1, 1))
    places = tuple(curves.position(event.update, viewport.x_axis) for event in told)
    trace = Trace(label="rating", role="good", curve=Curve(low=low, mean=mean, high=high, smooth=mean), places=places)
    # a rating alone would fill the chart with its noise: what is drawn is how it compares with its doubt
    return draw_overlay(replace(HISTORY, bounds=data_range([*low, *high])), [trace], size, theme, AxisState(), viewport)
