"""The league panel of a run: the rating of its newest snapshot with its 95 % interval, rank and last promotion."""

from collections.abc import Sequence
from dataclasses import replace

from echelon.runs import policy_name
from echelon.telemetry.events import EventLeague
from echelon_cli.listing import opponent_name
from echelon_cli.tui.charts.axis import data_range
from echelon_cli.tui.charts.chart import AxisState, Chart, Series, draw_overlay
from echelon_cli.tui.charts.curves import Curve, Curves
from echelon_cli.tui.charts.plot import Trace
from echelon_cli.tui.charts.viewport import Viewport
from echelon_cli.tui.format import wrap
from echelon_cli.tui.panels.base import CONFIDENCE_Z, Panel
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid

RATING_CHART = Chart(series=(Series(metric="", label="rating", role="good"),), format_value="{:.0f}".format)

CHART_ROWS = 5


class PanelLeagueRating(Panel):
    """Rating and rank of the snapshots that the run submitted to the league."""

    def note(self) -> str:
        events = self.view.snapshot.leagues
        return events[-1].entry_kind if events else ""

    def body(self, width: int, height: int) -> Grid:
        view = self.view
        return draw_league_rating(view.snapshot.leagues, view.curves, (width, height), self.theme, self.viewport)


def plus_minus(theme: Theme) -> str:
    return "±" if theme.glyphs == "braille" else "+-"


def draw_league_rating(
    events: Sequence[EventLeague], curves: Curves, size: tuple[int, int], theme: Theme, viewport: Viewport
) -> Grid:
    """Return the newest rating, rank and promotion as text and, where rows allow, the history as a chart."""
    grid, (width, height) = Grid(*size), size
    if not events:
        for y, line in enumerate(wrap("not in a league", width)[:height]):
            grid.put(0, y, line, "dim")
        return grid
    newest = events[-1]
    x = grid.put(0, 0, f"{newest.rating:.0f}", "good")
    interval = f"{plus_minus(theme)}{CONFIDENCE_Z * newest.rd:.0f}"
    grid.put(x + 1, 0, interval if x + 1 + len(interval) <= width else "", "dim")
    lines = [line for text in summary_lines(events) for line in wrap(text, width)]
    for y, line in enumerate(lines[: height - 1], start=1):
        grid.put(0, y, line, "dim")
    chart_rows = height - 1 - len(lines)
    if chart_rows >= CHART_ROWS and len(events) > 1:
        ratings = [(event.rating, event.rd) for event in events]
        positions = [curves.position(event.update, viewport.x_axis) for event in events]
        grid.paste(0, height - chart_rows, draw_ratings(ratings, positions, (width, chart_rows), theme, viewport))
    return grid


def summary_lines(events: Sequence[EventLeague]) -> list[str]:
    newest, promoted = events[-1], next((event for event in reversed(events) if event.promoted), None)
    rank = [f"rank {newest.rank} of {newest.ranked}"] if newest.rank else []
    return [
        *rank,
        policy_name(newest.name),
        f"promoted at update {promoted.update}" if promoted else "none promoted yet",
        *([f"retired: {', '.join(map(opponent_name, newest.retired))}"] if newest.retired else []),
    ]


def draw_ratings(
    ratings: Sequence[tuple[float, float]],
    positions: Sequence[float],
    size: tuple[int, int],
    theme: Theme,
    viewport: Viewport,
) -> Grid:
    """Return a chart of ratings, each with its standard error, and their 95 % intervals."""
    mean = tuple(rating for rating, _ in ratings)
    low, high = (tuple(rating + sign * CONFIDENCE_Z * error for rating, error in ratings) for sign in (-1, 1))
    curve = Curve(low=low, mean=mean, high=high, smooth=mean)
    trace = Trace(RATING_CHART.series[0], curve, tuple(positions))
    # the range of the means alone would fill the chart with noise: the axis spans the intervals
    chart = replace(RATING_CHART, bounds=data_range([*low, *high]))
    return draw_overlay(chart, [trace], size, theme, AxisState(), viewport)
