"""The run list as a table: columns, sorting and drawing as pure functions, and the widget with the cursor."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from textual.reactive import reactive

from echelon.jobs.labels import BASELINE, NO_DIFFERENCE, PROGRESS_KEYS, variant_names
from echelon.statistics import mean_of_seeds
from echelon_cli.listing import RunRow, opponent_name
from echelon_cli.output import count, interval, measured, percent
from echelon_cli.query import Query, config_of, parse
from echelon_cli.tui.feed.messages import RunsView
from echelon_cli.tui.format import Evaluated, age, difference, short_run_id, speed
from echelon_cli.tui.theme import RUN_ROLES, STATE_ROLES, Theme
from echelon_cli.tui.widgets.cells import Grid, share_bar, truncate
from echelon_cli.tui.widgets.table import GridColumn, RowList, fitting

STATE_SORT_ORDER = (
    "stalled",
    "stopping",
    "running",
    "starting",
    "queued",
    "crashed",
    "failed",
    "lost",
    "stopped",
    "completed",
)
"""States in the order of a sorted list: those that need attention first."""

BAR_CELLS = 8

NAME_CELLS = 41
"""Most columns of a run's name before the status column gets the rest."""

MAX_VARIANTS = 200
"""Most runs of a group whose configurations are read to name its variants."""

NO_VARIANT = PROGRESS_KEYS | {"seed"}
"""Fields in which the runs of one row may differ."""

EMPTY_STATE = (
    "no runs yet",
    "",
    "n  starts a run; in a shell: echelon train",
    "",
    "Training continues in the background after you quit.",
    "The first start compiles kernels for under a minute.",
    "Curves follow, then matches after the first evaluation.",
)


GAP = 2

NARROW = 100
"""Columns of the terminal below which the gaps are one cell, and progress has no bar."""

NARROW_CELLS = {"progress": BAR_CELLS, "policy": 24}


def _figure(
    name: str, width: int, field: str, show: Callable[[Any], str], role: str = "", **options: Any
) -> GridColumn:
    """Return a column of numbers, the largest first and missing ones last; ``role`` is that of a run that is alive."""
    return GridColumn(
        name,
        width,
        text=lambda row, now: show(getattr(row, field)),
        role=lambda row: role if row.is_alive else "dim" if role == "series1" else "",
        key=lambda row: -value if math.isfinite(value := getattr(row, field)) else math.inf,
        **options,
    )


COLUMNS: tuple[GridColumn, ...] = (
    GridColumn(
        "state",
        11,
        right=False,
        text=lambda row, now: row.state,
        role=lambda row: STATE_ROLES.get(row.state, ""),
        key=lambda row: STATE_SORT_ORDER.index(row.state) if row.state in STATE_SORT_ORDER else 0,
    ),
    GridColumn("run", 15, right=False, text=lambda row, now: row.id, key=lambda row: row.id.lower()),
    GridColumn("preset", 11, right=False, rank=11, text=lambda row, now: row.preset, key=lambda row: row.preset),
    _figure("progress", BAR_CELLS + 5, "progress", percent, rank=2),
    _figure("steps", 6, "steps", count, rank=12),
    _figure("steps/s", 7, "steps_per_s", speed, "series1", rank=4),
    _figure("return", 7, "avg_return", measured, rank=6),
    _figure("training", 8, "win_rate", percent, "series1", rank=3),
    _figure("eval", 5, "eval_rate", percent, "good"),
    GridColumn("interval", 8, text=lambda row, now: interval(row.eval_low, row.eval_high)),
    GridColumn(
        "against",
        8,
        right=False,
        text=lambda row, now: opponent_name(row.opponent) if math.isfinite(row.eval_rate) else "-",
        key=lambda row: row.opponent,
    ),
    _figure("ladder", 6, "ladder", percent, rank=5),
    GridColumn(
        "age",
        4,
        rank=1,
        text=lambda row, now: age(now - row.created) if row.created > 0 else "-",
        role=lambda row: "dim",
        key=lambda row: -row.created,
    ),
    GridColumn(
        "status",
        24,
        right=False,
        rank=10,
        text=lambda row, now: "" if row.status == row.done else row.status,
        role=lambda row: STATE_ROLES.get(row.state, "") if row.reason else "warn" if row.alert else "dim",
    ),
)

KIND = GridColumn("kind", 6, right=False, rank=4, text=lambda row, now: row.kind)
POLICY = GridColumn("policy", 28, right=False, text=lambda row, now: row.policy or "-", key=lambda row: row.policy)
DONE = GridColumn("done", 20, right=False, rank=2, text=lambda row, now: row.done or "-")

VIEWS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "training": (("train", ""), ()),
    "evals": (
        ("eval",),
        ("state", "run", "policy", "progress", "eval", "interval", "against", "done", "age", "status"),
    ),
    "sweeps": (("sweep",), ("state", "run", "progress", "done", "age", "status")),
    "trials": ((), ()),
    "league": (("arena", "shard"), ("state", "run", "kind", "progress", "done", "age", "status")),
    "matches": ((), ("state", "run", "kind", "done", "age", "status")),
}
"""Views of the list: kinds of jobs, and names of columns; without kinds all others, without names all of training."""

VARIANT_COLUMNS: tuple[GridColumn, ...] = (*COLUMNS[:-1], replace(COLUMNS[-1], width=18, rank=1))
"""The same for a group that is shown alone: what differs among its runs precedes speed and progress."""

COLUMNS_BY_NAME = {column.name: column for column in (*COLUMNS, KIND, POLICY, DONE)}

SORT_COLUMNS: tuple[str, ...] = ("age", "state", "progress", "steps/s", "eval", "ladder", "training", "return", "run")
"""Columns the list can be sorted by, in the order the key cycles through them."""


def visible_columns(width: int, columns: Sequence[GridColumn] = COLUMNS) -> list[GridColumn]:
    if width < NARROW:
        columns = [replace(column, width=NARROW_CELLS.get(column.name, column.width)) for column in columns]
    return fitting(columns, width - 3, gap_of(width))


def gap_of(width: int) -> int:
    return 1 if width < NARROW else GAP


def sort_rows(rows: Sequence[RunRow], order: str, is_reversed: bool) -> list[RunRow]:
    """Return the rows sorted by a column, missing values last unless reversed; the baseline is always first."""
    ordered = sorted(rows, key=COLUMNS_BY_NAME[order].key, reverse=is_reversed)
    return sorted(ordered, key=lambda row: BASELINE not in row.tags)


def collapse_seeds(rows: Sequence[RunRow]) -> dict[RunRow, list[Path]]:
    """Return a row for the runs that differ only in their seed, and their folders.

    It has means, that of win rates in equal evaluations with its t-interval, and the state that needs most attention.
    """
    found: dict[str, list[RunRow]] = {}
    for row in rows:
        config = config_of(row.root)
        alike = repr(sorted((key, value) for key, value in config.items() if key not in NO_VARIANT))
        found.setdefault(alike if config else str(row.root), []).append(row)
    return {_mean_row(same) if len(same) > 1 else same[0]: [row.root for row in same] for same in found.values()}


def _mean_row(rows: Sequence[RunRow]) -> RunRow:
    first = next((row for row in rows if math.isfinite(row.eval_rate)), rows[0])
    alike = [
        row.eval_rate for row in rows if evaluated(row)[3:] == evaluated(first)[3:] and math.isfinite(row.eval_rate)
    ]
    win_rate, seeds = (
        mean_of_seeds(alike, are_rates=True),
        sorted(str(config_of(row.root).get("seed", "-")) for row in rows),
    )
    means = {
        name: sum(known) / len(known)
        if (known := [x for row in rows if math.isfinite(x := getattr(row, name))])
        else math.nan
        for name in ("progress", "steps_per_s", "avg_return", "win_rate", "ladder")
    }
    return replace(
        first,
        id=f"{len(rows)} seeds of {first.preset}",
        state=min((row.state for row in rows), key=STATE_SORT_ORDER.index),
        reason="",
        alert=next((row.alert for row in rows if row.alert), ""),
        steps=sum(row.steps for row in rows) // len(rows),
        eval_rate=win_rate.value,
        eval_low=win_rate.low,
        eval_high=win_rate.high,
        tags=tuple({tag for row in rows for tag in row.tags}),
        notes=f"seeds {' '.join(seeds)}, {len(alike)} evaluated",
        **means,
    )


def by_view(rows: Sequence[RunRow], known: Sequence[RunRow]) -> dict[str, list[RunRow]]:
    """Return the rows of each view of the list; trials are the runs in the group of a sweep among ``known`` runs."""
    sweeps, views = {short_run_id(row.id) for row in known if row.kind == "sweep"}, {name: [] for name in VIEWS}
    for row in rows:
        views["trials" if row.kind == "train" and row.group in sweeps else view_of(row)].append(row)
    return views


def view_of(row: RunRow) -> str:
    """Return the view of the list that shows the kind of a run."""
    return next((name for name, (kinds, _) in VIEWS.items() if row.kind in kinds), "matches")


def columns_of(rows: Sequence[RunRow]) -> list[GridColumn]:
    """Return the columns for runs of one view, beside the baseline with the difference from it."""
    names = VIEWS[view_of(rows[0])][1] if rows else ()
    columns = VARIANT_COLUMNS if any(row.variant for row in rows) else COLUMNS
    found = [COLUMNS_BY_NAME[name] for name in names] or list(columns)
    pinned = next((row for row in rows if BASELINE in row.tags), None)
    if pinned is not None and not names:
        against = evaluated(pinned)
        column = GridColumn(
            "diff",
            7,
            rank=5,
            text=lambda row, now: difference(evaluated(row), against)[0] if row.root != pinned.root else "",
            role=lambda row: difference(evaluated(row), against)[1],
        )
        found.insert([column.name for column in found].index("against") + 1, column)
    return found


def evaluated(row: RunRow) -> Evaluated:
    return row.eval_rate, row.eval_low, row.eval_high, row.opponent, row.game


def draw_table(
    rows: Sequence[RunRow],
    cursor: int,
    top: int,
    size: tuple[int, int],
    theme: Theme,
    now: float,
    order: str,
    is_reversed: bool,
    marked: Sequence[Path] = (),
) -> Grid:
    """Return the heading and the rows from ``top`` on, with the cursor, the baseline and the numbers of marked runs."""
    grid = Grid(*size)
    columns, gap = visible_columns(grid.width, columns_of(rows)), gap_of(grid.width)
    spare = grid.width - 3 - sum(c.width + gap for c in columns)
    last = next((name for name in ("done", "status") if name in {column.name for column in columns}), "")
    full = NAME_CELLS - COLUMNS_BY_NAME["run"].width
    extra = {"run": spare if not last else full if spare >= full else 0}
    extra[last] = spare - extra["run"]
    cells, x = [], 2
    for column in columns:
        wide = column.width + extra.get(column.name, 0)
        cells.append((column, x, wide))
        x += wide + gap
    for column, x, wide in cells:
        arrow = (theme.symbols.up if is_reversed else theme.symbols.down) if column.name == order else ""
        title = column.name + arrow
        column.put(grid, (x, 0, wide), title, "title" if arrow else "dim")
    for y, row in enumerate(rows[top : top + grid.height - 1], start=1):
        for column, x, wide in cells:
            _cell(grid, column, row, (x, y, wide), theme, now)
        if BASELINE in row.tags:
            grid.put(1, y, theme.symbols.mark, "mark")
        elif row.root in marked:
            grid.put(1, y, str(list(marked).index(row.root) + 1), "mark")
        if top + y - 1 == cursor:
            grid.put(0, y, theme.symbols.cursor)
            grid.fill(y, "cursor")
    return grid


def _cell(grid: Grid, column: GridColumn, row: RunRow, cell: tuple[int, int, int], theme: Theme, now: float) -> None:
    x, y, wide = cell
    text, role = column.text(row, now), column.role(row)
    if column.name == "state":
        text = f"{theme.state_symbol(row.state)} {text}"
    elif column.name == "run" and cell_len(text) > wide:
        text = short_run_id(row.id)
    elif column.name == "progress" and wide > BAR_CELLS:
        grid.spans(x, y, share_bar(row.progress, BAR_CELLS, theme))
    text = truncate(text, wide, theme.symbols.ellipsis)
    column.put(grid, cell, text, role)


class RunTable(RowList):
    """The table with its query, order and marked runs."""

    view: reactive[RunsView] = reactive(RunsView(), repaint=False, init=False)
    query_text: reactive[str] = reactive("", repaint=False, init=False)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.order, self.is_reversed = SORT_COLUMNS[0], False
        self.problem = ""
        """Error message of the query; empty where it is valid."""
        self.marked: list[Path] = []
        self.view_name, self.counts = next(iter(VIEWS)), dict.fromkeys(VIEWS, 0)
        self.is_collapsed = False
        """Whether the runs that differ only in their seed have one row."""
        self.seeds: dict[Path, list[Path]] = {}
        """Folders of such runs, by that of their row."""
        self._variants: dict[Path, str] = {}
        """Names of the runs of the group that is shown alone."""
        self._query: Query = parse("")

    def key_of(self, row: RunRow) -> Path:
        return row.root

    def watch_view(self) -> None:
        self.sort()

    def watch_query_text(self) -> None:
        self._query = parse(self.query_text)
        self.sort()

    def sort(self, order: str | None = None, *, is_reversed: bool | None = None) -> None:
        at = max(0, self.cursor)
        self.order = order or self.order
        self.is_reversed = self.is_reversed if is_reversed is None else is_reversed
        rows, self.problem = self._query.filter_rows(self.view.rows, self.view.now)
        views = by_view(rows, self.view.rows)
        self.counts = {name: len(found) for name, found in views.items()}
        if not self.counts[self.view_name]:
            self.view_name = next((name for name in VIEWS if self.counts[name]), next(iter(VIEWS)))
        collapsed = collapse_seeds(views[self.view_name]) if self.is_collapsed else {}
        self.seeds = {row.root: roots for row, roots in collapsed.items() if len(roots) > 1}
        self.rows = sort_rows(self._with_variants([*collapsed] or views[self.view_name]), self.order, self.is_reversed)
        if not any(row.root == self._key for row in self.rows):
            self.go(at)
        self.redraw()

    def show_view(self, name: str) -> None:
        """Show another view, with its first run selected."""
        self.view_name = name
        self.sort()
        self.go(0)

    def _with_variants(self, rows: Sequence[RunRow]) -> list[RunRow]:
        """Return the rows, of a single group with what differs among their configurations."""
        is_group = 1 < len(rows) <= MAX_VARIANTS and rows[0].group and len({row.group for row in rows}) == 1
        if not is_group:
            return list(rows)
        roots = frozenset(row.root for row in rows)
        if self._variants.keys() != roots:
            left_out = NO_VARIANT if self.is_collapsed else ()
            configs = [{k: v for k, v in config_of(row.root).items() if k not in left_out} for row in rows]
            names = variant_names(configs)
            shown = ["" if name == NO_DIFFERENCE else name for name in names]
            self._variants = dict(zip((row.root for row in rows), shown, strict=True))
        return [replace(row, variant=self._variants[row.root]) for row in rows]

    @property
    def compared(self) -> tuple[Path, ...]:
        """The runs of a comparison of the marked ones."""
        return self.compared_with(self.marked)

    def compared_with(self, roots: Sequence[Path]) -> tuple[Path, ...]:
        """Return the runs of a comparison in its order: the baseline, then ``roots``."""
        pinned = [row.root for row in self.view.rows if BASELINE in row.tags]
        return tuple(dict.fromkeys((*pinned, *roots)))

    def mark(self) -> bool:
        """Toggle the mark of the current run and move to the next; return False where no more can be marked."""
        row = self.row
        if row is None:
            return True
        roots = self.seeds.get(row.root, [row.root])
        if row.root in self.marked:
            self.marked = [root for root in self.marked if root not in roots]
        elif len({*self.compared, *roots}) <= len(RUN_ROLES):
            self.marked += [root for root in roots if root not in self.marked]
        else:
            return False
        self.move(1)
        return True

    def draw(self, width: int, height: int) -> Grid:
        if not self.rows:
            return self._empty(width, height)
        return draw_table(
            self.rows,
            self.cursor,
            self.scrolled_top(),
            (width, height),
            self.theme,
            self.view.now,
            self.order,
            self.is_reversed,
            self.compared,
        )

    def _empty(self, width: int, height: int) -> Grid:
        lines = EMPTY_STATE if self.view.loaded else ("loading runs",)
        if self.view.rows:
            lines = (f"no run matches {self.query_text!r}", "", "esc shows all runs")
        return Grid(width, height).centre(lines)
