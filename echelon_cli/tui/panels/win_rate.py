"""The win-rate panel, which leads the run screen: one large chart, and the figures of a run beside it."""

from __future__ import annotations

import math

from echelon.telemetry.events import EventEval
from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.listing import opponent_name
from echelon_cli.output import count, interval, percent
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.format import FIGURE_ROWS, brief, difference, large, short_run_id, speed
from echelon_cli.tui.panels.base import PanelChart
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, truncate

FIGURES_FROM = (70, 8)
"""Columns and rows of the panel's body from which figures are beside the chart."""

FIGURE_CELLS = 31
LABEL_CELLS = 10

UNTRAINED = "untrained"

Row = tuple[str, str, str]
"""Label, value and role of a figure."""


class PanelWinRate(PanelChart):
    """Win rate in evaluations with its 95 % interval, over that in training."""

    def body(self, width: int, height: int) -> Grid:
        if width < FIGURES_FROM[0] or height < FIGURES_FROM[1]:
            return super().body(width, height)
        grid = Grid(width, height)
        grid.paste(FIGURE_CELLS, 0, super().body(width - FIGURE_CELLS, height))
        if any(self.axes.columns):
            first, after = self.axes.columns
            self.axes.columns = first + FIGURE_CELLS, after + FIGURE_CELLS
        _draw_evaluation(grid, self.view.snapshot, self.theme)
        rows = figure_rows(self.view, self.ghost)
        for y, (label, value, role) in enumerate(rows, start=FIGURE_ROWS + 3):
            grid.put(0, y, label, "dim")
            grid.put(LABEL_CELLS, y, value, role, limit=FIGURE_CELLS - 1)
        return grid


def _draw_evaluation(grid: Grid, snapshot: RunSnapshot, theme: Theme) -> None:
    """Draw the newest evaluation of a trained policy in large digits, its opponent above and its interval below it."""
    last = snapshot.evaluation
    if last is None:
        grid.put(0, 0, "no evaluation of a trained", "dim")
        grid.put(0, 1, "policy yet", "dim")
        grid.put(0, 3, UNTRAINED, "bold")
        return
    against = f"wins against {opponent_name(last.opponent)}"
    grid.put(0, 0, truncate(against, FIGURE_CELLS - 1, theme.symbols.ellipsis), "dim")
    for row, text in enumerate(
        large(percent(last.win_rate)) if theme.glyphs != "ascii" else ("", percent(last.win_rate))
    ):
        grid.put(0, 1 + row, text, "mark")
    grid.put(0, FIGURE_ROWS + 1, f"{interval(last.win_low, last.win_high)}% at {count(last.global_step)} steps", "dim")


def next_evaluation_text(snapshot: RunSnapshot) -> str:
    """Return update and time of the next evaluation in training; empty where none is expected."""
    if (found := snapshot.next_evaluation) is None:
        return ""
    update, seconds = found
    return f"update {update}" + (f", in {brief(seconds)}" if math.isfinite(seconds) else "")


def evaluated(event: EventEval) -> tuple[float, float, float, str]:
    """Return win rate, interval and opponent of an evaluation."""
    return event.win_rate, event.win_low, event.win_high, event.opponent


def figure_rows(view: RunView, baseline: RunView) -> list[Row]:
    """Return the figures below the newest evaluation, most important first."""
    snapshot, update, best = view.snapshot, view.snapshot.update, view.snapshot.best
    rows: list[Row] = []
    if upcoming := next_evaluation_text(snapshot) if view.is_alive else "":
        rows.append(("next", upcoming, "bold"))
    if best is not None and snapshot.is_trained(best):
        rows.append(("best", f"{percent(best.win_rate)} at {count(best.global_step)}", "mark"))
    if (other := baseline.snapshot.evaluation) is not None:
        own = snapshot.evaluation
        points, role = difference(evaluated(own), evaluated(other)) if own else ("", "")
        rows.append(("behind", f"{percent(other.win_rate)} {short_run_id(baseline.id)}", "dim"))
        rows += [("difference", f"{points} points", role)] if points else []
    if update is not None:
        rows.append(("training", f"{percent(update.win_rate)} in the mix", "series1"))
        rows.append(("speed", f"{speed(update.steps_per_s)} steps/s", "series1"))
    return rows
