"""The evaluations panel: results of evaluation jobs, then those in training; of a job its win rates so far."""

from collections.abc import Sequence

from echelon.statistics import Estimate
from echelon.telemetry.evaluations import PURPOSES, UNTRAINED, EvaluationRow, evaluation_rows, training_rows
from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.listing import opponent_name
from echelon_cli.output import interval, local_time, percent
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.panels.opponents import EVEN
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, truncate
from echelon_cli.tui.widgets.table import GridColumn, fitting

NAME_CELLS = 8
MAX_NAME_CELLS = 40


class PanelEvaluations(Panel):
    """Results of evaluations, a row per opponent."""

    def note(self) -> str:
        return "mean and sampled actions, 95 % intervals"

    def body(self, width: int, height: int) -> Grid:
        rows = [*evaluation_rows(self.view.snapshot), *training_rows(self.view.snapshot)]
        return draw_evaluations(rows, width, height, self.theme)


def has_evaluations(snapshot: RunSnapshot) -> bool:
    return bool(snapshot.reports or snapshot.evals) or snapshot.is_evaluation


def rate_role(rate: Estimate | None) -> str:
    """Return the role of a win rate: good or bad where its 95 % interval excludes one half."""
    if rate is None:
        return "dim"
    return "good" if rate.low > EVEN else "bad" if rate.high < EVEN else ""


def _rate(rate: Estimate | None) -> str:
    return "-" if rate is None else percent(rate.value)


def _interval(rate: Estimate | None) -> str:
    return "-" if rate is None else interval(rate.low, rate.high)


def _matches(row: EvaluationRow) -> str:
    if row.episodes < row.planned:
        return f"{row.episodes}/{row.planned}"
    return f"{row.episodes}+{row.episodes}" if row.mean and row.sampled else str(row.episodes)


def _dim(row: EvaluationRow) -> str:
    return "dim"


COLUMNS: tuple[GridColumn, ...] = (
    GridColumn("wins", 4, text=lambda row, _: _rate(row.mean), role=lambda row: rate_role(row.mean)),
    GridColumn("interval", 9, text=lambda row, _: _interval(row.mean), role=_dim, rank=1),
    GridColumn("purpose", 9, text=lambda row, _: row.purpose or "-", role=_dim, rank=2),
    GridColumn("sampled", 7, text=lambda row, _: _rate(row.sampled), role=lambda row: rate_role(row.sampled)),
    GridColumn("interval", 9, text=lambda row, _: _interval(row.sampled), role=_dim, rank=3),
    GridColumn("matches", 9, text=lambda row, _: _matches(row), role=lambda row: "", rank=4),
    GridColumn("update", 7, text=lambda row, _: str(row.update or "-"), role=_dim, rank=5),
    GridColumn("when", 11, text=lambda row, _: local_time(row.time)[5:16], role=_dim, rank=6),
    GridColumn("maps", 17, text=lambda row, _: row.maps or "-", role=_dim, rank=7),
)


SAMPLED_COLUMNS = COLUMNS[3:5]


def visible_columns(width: int, rows: Sequence[EvaluationRow]) -> list[GridColumn]:
    """Return the columns that fit beside a name.

    Without evaluations that select checkpoints all are reports; those in training may have no sampled actions.
    """
    has_purposes = any(row.purpose in (PURPOSES["choice"], UNTRAINED) for row in rows)
    visible = [column for column in COLUMNS if has_purposes or column.name != "purpose"]
    if has_purposes and not any(row.sampled for row in rows):
        visible = [column for column in visible if column not in SAMPLED_COLUMNS]
    return fitting(visible, width - NAME_CELLS, 1)


def draw_evaluations(rows: Sequence[EvaluationRow], width: int, height: int, theme: Theme) -> Grid:
    """Return a row per evaluation: opponent, purpose, win rates with intervals, matches, checkpoint, time and maps."""
    grid = Grid(width, height)
    if not rows:
        grid.put(0, 0, truncate("none yet; echelon eval adds them", width, theme.symbols.ellipsis), "dim")
        return grid
    columns = visible_columns(width, rows)
    spare = width - sum(c.width + 1 for c in columns)
    name_width = min(spare, MAX_NAME_CELLS, max(NAME_CELLS, *(len(opponent_name(row.opponent)) for row in rows)))
    fitting = max(0, height - 1)
    grid.put(0, 0, "against" if len(rows) <= fitting else f"{fitting} of {len(rows)}", "dim", limit=name_width)
    rows = rows[:fitting]
    for y, row in enumerate((None, *rows)):
        x = name_width
        if row is not None:
            grid.put(0, y, truncate(opponent_name(row.opponent), name_width, theme.symbols.ellipsis))
        for column in columns:
            x += column.width + 1
            grid.right(x, y, *((column.name, "dim") if row is None else (column.text(row, None), column.role(row))))
    return grid
