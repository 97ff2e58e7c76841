"""Panels of the sweep screen: trials, and configurations with statistics over seeds."""

from rich.cells import cell_len

from echelon.jobs.sweeps.plan import UNCHANGED
from echelon.jobs.sweeps.redteam import RedTeamReport
from echelon.jobs.sweeps.results import SweepResults
from echelon_cli.output import count, interval, percent
from echelon_cli.sweep_tables import estimate_text, metric_text
from echelon_cli.tui.feed.messages import SweepView
from echelon_cli.tui.format import wrap
from echelon_cli.tui.panels.base import SelectionPanel
from echelon_cli.tui.theme import RUN_ROLES, STATE_ROLES, Theme
from echelon_cli.tui.widgets.cells import Grid, draw_share, truncate
from echelon_cli.tui.widgets.table import GridColumn, first_visible, fitting

NAME_CELLS = 22
"""Fewest columns of a trial's options."""
NUMBER_CELLS = 4


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


COLUMNS: tuple[GridColumn, ...] = (
    GridColumn("state", 9, text=lambda row, _: row.state, rank=2),
    GridColumn("share", 5, text=lambda row, r: percent(r.plan.share(row.rung)) if row.rung >= 0 else "", rank=3),
    GridColumn("value", 7, text=lambda row, r: metric_text(r.plan.metric, row.value) if row.rung >= 0 else "", rank=0),
    GridColumn("95 %", 7, text=lambda row, _: interval(row.low, row.high) if row.rung >= 0 else "", rank=1),
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
    """Return a row per trial: number, options, state, rung, value with interval."""
    grid, (width, height), rows = Grid(*size), size, results.trials
    columns = fitting(COLUMNS, width - NUMBER_CELLS - 1 - NAME_CELLS, 1)
    name_end = width - sum(column.width + 1 for column in columns)
    cursor = next((i for i, row in enumerate(rows) if row.number == selected), 0)
    first = first_visible(cursor, len(rows), height - 1)
    grid.put(NUMBER_CELLS + 1, 0, "options", "dim")
    for y, row in enumerate(rows[first : first + height - 1], start=1):
        role = STATE_ROLES.get(row.state, "dim")
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
        results = self.data.results
        return "best attackers, fresh seeds" if results and results.report else f"better: than {UNCHANGED}"

    def results_body(self, results: SweepResults, width: int, height: int) -> Grid:
        return draw_results(results, (width, height), self.theme)


def draw_attack(report: RedTeamReport, size: tuple[int, int], theme: Theme) -> Grid:
    """Return the win rate of the best attacker at each share as bars, each above its interval, origin and start."""
    grid, (width, height) = Grid(*size), size
    for y, point in enumerate(report.curve[: (height + 1) // 3]):
        name, text = f"{percent(point.share)}, {count(point.steps)} steps", "not evaluated yet"
        if point.rates:
            draw_share(grid, 3 * y, name, min(18, width // 2), point.rates.best.value, theme, "series1")
            before = percent(point.before and point.before.best.value)
            text = f"{point.rates}, from {point.name}, {before} before"
        else:
            grid.put(0, 3 * y, truncate(name, width), "dim")
        grid.put(2, 3 * y + 1, truncate(text, width - 2), "dim")
    return grid


def draw_results(results: SweepResults, size: tuple[int, int], theme: Theme) -> Grid:
    """Return two rows per configuration, value with interval and probability of improvement, and a bar per option."""
    if results.report:
        return draw_attack(results.report, size, theme)
    grid, (width, height), plan = Grid(*size), size, results.plan
    if not results.repeated and not results.importance:
        more = f" After the search, the best train with {plan.seeds} seeds each." if plan.repeated else ""
        return grid.centre(wrap(f"No option has shown an effect yet.{more}", max(1, width)))
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
