"""Panels of the sweep screen: trials; configurations with statistics over seeds; values over each option."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from rich.cells import cell_len

from echelon.jobs.sweeps.plan import RATES, UNCHANGED
from echelon.jobs.sweeps.results import SweepResults, TrialRow
from echelon.statistics import Estimate
from echelon_cli.output import count, interval, measured
from echelon_cli.sweep_tables import metric_text
from echelon_cli.tui.charts.axis import Range, data_range, round_range
from echelon_cli.tui.feed.messages import SweepView
from echelon_cli.tui.format import LABEL_WIDTH, short_run_id, wrap
from echelon_cli.tui.panels.base import SelectionPanel
from echelon_cli.tui.theme import RUN_ROLES, Theme
from echelon_cli.tui.widgets.cells import Grid, draw_share, truncate
from echelon_cli.tui.widgets.table import GridColumn, first_visible

NAME_CELLS = 14
NUMBER_CELLS = 4
PLOT_SIZE = (38, 8)
"""Fewest columns and rows of a plot of values over an option."""
STATE_ROLES = {"running": "good", "completed": "info", "failed": "bad", "stopped": "", "pruned": "dim", "queued": "dim"}


class SweepPanel(SelectionPanel):
    """A panel about a sweep, with one trial selected."""

    data = SweepView()

    def results_body(self, results: SweepResults, width: int, height: int) -> Grid:
        return Grid(width, height)

    def body(self, width: int, height: int) -> Grid:
        results = self.data.results
        if results is not None and results.trials:
            return self.results_body(results, width, height)
        text = self.data.problem or ("no trial yet" if self.data.loaded else "loading the sweep")
        return Grid(width, height).centre(wrap(text, max(1, width)), "bad" if self.data.problem else "dim")


DETAIL_RANK = 4
"""Rank from which columns are dropped where the options do not fit beside them."""

COLUMNS: tuple[GridColumn, ...] = (
    GridColumn("state", 9, text=lambda row, _: row.state, rank=2),
    GridColumn("rung", 5, text=lambda row, r: f"{row.rung + 1}/{r.plan.rungs}" if row.rung >= 0 else "", rank=3),
    GridColumn("steps", 6, text=lambda row, _: count(row.global_step) if row.rung >= 0 else "", rank=4),
    GridColumn("value", 7, text=lambda row, r: metric_text(r.plan.metric, row.value) if row.rung >= 0 else "", rank=0),
    GridColumn("95 %", 7, text=lambda row, _: interval(row.low, row.high) if row.rung >= 0 else "", rank=1),
    GridColumn("run", 16, text=lambda row, _: short_run_id(row.run), rank=5),
)


class PanelTrials(SweepPanel):
    """All trials, best first."""

    LISTS_ROWS = True

    def note(self) -> str:
        results = self.data.results
        return results.plan.metric.replace("_", " ") if results else ""

    def results_body(self, results: SweepResults, width: int, height: int) -> Grid:
        return draw_trials(results, self.selected, (width, height), self.theme)


def draw_trials(results: SweepResults, selected: int, size: tuple[int, int], theme: Theme) -> Grid:
    """Return a row per trial: number, options, state, rung, steps, value with interval, run."""
    grid, (width, height), rows = Grid(*size), size, results.trials
    columns = list(COLUMNS)
    longest = max((cell_len(row.name) for row in rows), default=0)
    while len(columns) > 1:
        first_dropped = max(columns, key=lambda column: column.rank)
        needed = longest if first_dropped.rank >= DETAIL_RANK else NAME_CELLS
        if NUMBER_CELLS + 1 + needed + sum(column.width + 1 for column in columns) <= width:
            break
        columns.remove(first_dropped)
    name_end = width - sum(column.width + 1 for column in columns)
    cursor = next((i for i, row in enumerate(rows) if row.number == selected), 0)
    first = first_visible(cursor, len(rows), height - 1)
    grid.put(NUMBER_CELLS + 1, 0, "options", "dim")
    for y, row in enumerate(rows[first : first + height - 1], start=1):
        role = STATE_ROLES.get(row.state, "")
        text = truncate(f"{row.name}: {row.message}" if row.message else row.name, name_end - NUMBER_CELLS - 1)
        grid.right(NUMBER_CELLS, y, str(row.number), "dim")
        grid.put(NUMBER_CELLS + 1, y, text, "dim" if role == "dim" else "")
        x = name_end
        for column in columns:
            x += column.width + 1
            grid.right(x, 0, column.name, "dim")
            grid.right(x, y, column.text(row, results), role if column.name in ("state", "value") else "dim")
        if first + y - 1 == cursor:
            grid.put(0, y, theme.symbols.cursor)
            grid.fill(y, "cursor")
    if (more := results.planned - len(rows)) > 0 and len(rows) + 1 < height:
        grid.put(NUMBER_CELLS + 1, len(rows) + 1, f"and {more} more, chosen as the sweep goes on", "dim", limit=width)
    return grid


class PanelResults(SweepPanel):
    """Configurations that are trained with several seeds, and the importance of options."""

    def note(self) -> str:
        return f"better: than {UNCHANGED}"

    def results_body(self, results: SweepResults, width: int, height: int) -> Grid:
        return draw_results(results, (width, height), self.theme)


def draw_results(results: SweepResults, size: tuple[int, int], theme: Theme) -> Grid:
    """Return two rows per configuration, value with interval and probability of improvement, and a bar per option."""
    grid, (width, height), plan = Grid(*size), size, results.plan
    if not results.repeated and not results.importance:
        more = f" After the search, the best train with {plan.seeds} seeds each." if plan.repeated else ""
        text = f"No option has shown an effect yet.{more}"
        for row, line in enumerate(wrap(text, max(1, width))[:height]):
            grid.put(0, row, line, "dim")
        return grid
    y, ellipsis = 0, theme.symbols.ellipsis
    for number, each in enumerate(results.repeated):
        role, value = RUN_ROLES[number % len(RUN_ROLES)], estimate_text(plan.metric, each.score)
        detail = f"{len(each.scores)}/{plan.seeds} seeds"
        if each.improvement is not None:
            detail += f", better {estimate_text('win_rate', each.improvement)}"
        detail += f", from seeds {' '.join(map(str, sorted(each.scores)))}" if each.scores else ""
        grid.put(0, y, theme.symbols.square, role)
        grid.put(2, y, truncate(each.name, width - 4 - cell_len(value), ellipsis))
        grid.right(width, y, value, role)
        grid.put(2, y + 1, truncate(detail, width - 2, ellipsis), "dim")
        y += 2
    name_width = min(max(map(len, results.importance), default=0), width // 2)
    if results.importance:
        grid.put(0, y + 1, f"variance at {count(plan.rung_steps[0])} steps explained by", "dim")
    for row, (key, value) in enumerate(list(results.importance.items())[: max(0, height - y - 2)], y + 2):
        draw_share(grid, row, key, name_width, value, theme, "series1")
    return grid


def estimate_text(metric: str, estimate: Estimate | None) -> str:
    """Return an estimate with its interval, ``-`` where there is none."""
    if estimate is None:
        return "-"
    value = metric_text(metric, estimate.value)
    if estimate.low != estimate.low:
        return value
    if metric in RATES:
        return f"{value} ({interval(estimate.low, estimate.high)})"
    return f"{value} ({measured(estimate.low)} to {measured(estimate.high)})"


class PanelOptions(SweepPanel):
    """The value of each trial over each option, the option that explains most first."""

    def note(self) -> str:
        s = self.theme.symbols
        return f"{s.mark} selected, {s.square} whole length, {s.dot} shorter"

    def results_body(self, results: SweepResults, width: int, height: int) -> Grid:
        return draw_options(results, self.selected, (width, height), self.theme)


def draw_options(results: SweepResults, selected: int, size: tuple[int, int], theme: Theme) -> Grid:
    """Return a plot of values over each option, as many as fit."""
    grid, (width, height), plan = Grid(*size), size, results.plan
    rows = [row for row in results.trials if row.params and math.isfinite(row.value)]
    keys = sorted(plan.vary, key=lambda key: -results.importance.get(key, 0.0))
    across = max(1, min(len(keys), width // PLOT_SIZE[0]))
    down = max(1, min(-(-len(keys) // across), height // PLOT_SIZE[1]))
    bounds = round_range(*(data_range([row.value for row in rows]) or (0.0, 1.0)))
    # trials that were trained longest are drawn over the others, the selected one over all
    rows.sort(key=lambda row: (row.number == selected, row.rung))
    for i, key in enumerate(keys[: across * down]):
        plot = Grid(width // across - 2, height // down)
        _draw_option(plot, results, rows, key, bounds, selected, theme)
        grid.paste(i % across * (width // across), i // across * plot.height, plot)
    return grid


def _draw_option(
    grid: Grid, results: SweepResults, rows: Sequence[TrialRow], key: str, bounds: Range, selected: int, theme: Theme
) -> None:
    """Draw the value of each trial over one option; a place per choice, a linear or logarithmic axis for numbers."""
    metric, left, bottom = results.plan.metric, LABEL_WIDTH + 1, grid.height - 2
    across, ticks = _axis_of(key, results.plan.vary[key], rows)
    grid.put(left, 0, truncate(key, grid.width - left, theme.symbols.ellipsis), "title")
    for value, y in ((bounds[1], 1), (bounds[0], bottom)):
        grid.right(LABEL_WIDTH, y, metric_text(metric, value), "dim")
    for y in range(1, bottom + 1):
        grid.put(left, y, theme.symbols.vertical, "frame")
    columns = grid.width - left - 2
    for text, share in ticks:
        x = left + 1 + round(share * columns) - round(share * len(text))
        grid.put(x, bottom + 1, text, "dim")
    for row in rows:
        if key in row.params:
            share = (bounds[1] - row.value) / (bounds[1] - bounds[0])
            x, y = left + 1 + round(across(row.params[key]) * columns), 1 + round(share * (bottom - 1))
            is_whole = row.rung == results.plan.last_rung
            symbol = theme.symbols.square if is_whole else theme.symbols.dot
            role = "mark" if row.number == selected else "series1" if is_whole else ""
            grid.put(x, y, theme.symbols.mark if row.number == selected else symbol, role)


def _axis_of(key: str, spec: str, rows: Sequence[TrialRow]) -> tuple[Callable[[Any], float], list[tuple[str, float]]]:
    """Return the place of a value on the axis of an option, 0 to 1, and its labels with their places."""
    bounds, *options = spec.split(":")
    low, is_range, high = bounds.partition("..")
    if not is_range:
        choices = sorted({str(row.params[key]) for row in rows if key in row.params})
        places = {choice: (i + 0.5) / len(choices) for i, choice in enumerate(choices)}
        return lambda value: places[str(value)], list(places.items())
    scale = math.log10 if "log" in options else float
    first, last = scale(float(low)), scale(float(high))
    return lambda value: (scale(value) - first) / (last - first), [(low.strip(), 0.0), (high.strip(), 1.0)]
