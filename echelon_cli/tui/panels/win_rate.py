"""The win-rate panel, which leads the run screen: one large chart, and the figures of a run beside it."""

import math

from echelon.telemetry.evaluations import UNTRAINED
from echelon.telemetry.snapshot import EVALUATING, RunSnapshot
from echelon_cli.listing import game_of, opponent_name
from echelon_cli.output import count, duration, interval, percent
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.format import FIGURE_ROWS, Evaluated, difference, large, short_run_id, speed
from echelon_cli.tui.panels.base import PanelChart
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, truncate

FIGURES_FROM = (70, 8)
"""Columns and rows of the panel's body from which figures are beside the chart."""

FIGURE_CELLS = 33
LABEL_CELLS = 10

SLOWER = 2
"""Factor by which updates may become slower than those so far; a run that would then end first may end first."""

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
        _draw_evaluation(grid, self.view, self.theme)
        rows = figure_rows(self.view, self.ghost)
        for y, (label, value, role) in enumerate(rows, start=FIGURE_ROWS + 3):
            grid.put(0, y, label, "dim")
            grid.put(LABEL_CELLS, y, value, role, limit=FIGURE_CELLS - 1)
        return grid


def _draw_evaluation(grid: Grid, view: RunView, theme: Theme) -> None:
    """Draw the newest evaluation of a trained policy in large digits, its opponent above and its interval below it."""
    last = view.snapshot.evaluation
    if last is None:
        grid.put(0, 0, *((UNTRAINED, "bold") if view.snapshot.start else (view.empty_text, "dim")))
        return
    against = f"wins against {opponent_name(last.opponent)}"
    grid.put(0, 0, truncate(against, FIGURE_CELLS - 1, theme.symbols.ellipsis), "dim")
    for row, text in enumerate(
        large(percent(last.win_rate)) if theme.glyphs != "ascii" else ("", percent(last.win_rate))
    ):
        grid.put(0, 1 + row, text, "mark")
    below = f"{interval(last.win_low, last.win_high)}% of {last.episodes} matches at {count(last.global_step)}"
    grid.put(0, FIGURE_ROWS + 1, below, "dim")


def next_evaluation_text(view: RunView) -> str:
    """Return update and time of the next evaluation in training, now while one runs; empty where none is expected."""
    snapshot = view.snapshot
    if not view.is_alive or (found := snapshot.next_evaluation) is None:
        return ""
    if snapshot.activity == EVALUATING:
        return "now"
    update, seconds = found
    if update and not (snapshot.eta_s is not None and seconds * SLOWER < snapshot.eta_s):
        return f"update {update} or the end"
    at = f"update {update}" if update else "the end"
    return f"{at}, in {duration(seconds)}" if math.isfinite(seconds) else at


def evaluated(snapshot: RunSnapshot) -> Evaluated | None:
    """Return the newest evaluation of a trained policy; None without one."""
    if (event := snapshot.evaluation) is None:
        return None
    game = game_of(snapshot.start.config) if snapshot.start else ""
    return event.win_rate, event.win_low, event.win_high, event.opponent, game


def figure_rows(view: RunView, baseline: RunView) -> list[Row]:
    """Return the figures below the newest evaluation, most important first."""
    snapshot, update = view.snapshot, view.snapshot.update
    rows: list[Row] = []
    if upcoming := next_evaluation_text(view):
        rows.append(("next", upcoming, "bold"))
    if best := snapshot.other_best:
        rows.append(("best", f"{percent(best.win_rate)} at {count(best.global_step)}", "mark"))
    if (other := baseline.snapshot.evaluation) is not None:
        points, role = difference(evaluated(snapshot), evaluated(baseline.snapshot))
        rows.append(("baseline", f"{percent(other.win_rate)} {short_run_id(baseline.id)}", "dim"))
        if snapshot.evaluation is not None:
            rows.append(("diff", f"{points} points" if points else "other game", role))
    if update is not None:
        battles = f" of {update.battles} battles" if update.battles else " in the mix"
        rows.append(("training", f"{percent(update.win_rate)}{battles}", "series1"))
        rows.append(("speed", f"{speed(update.steps_per_s)} steps/s", "series1"))
    return rows
