"""The header of the run screen: state, win rate, return, speed and progress of a run."""

from __future__ import annotations

import math

from rich.cells import cell_len
from textual.reactive import reactive

from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.listing import ALERT_LIFETIME_S
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.format import FIGURE_ROWS, brief, count, duration, large, measured, percent, short_run_id, speed
from echelon_cli.tui.panels.opponents import display_name
from echelon_cli.tui.theme import STATE_ROLES, Theme
from echelon_cli.tui.widgets.cells import CellView, Grid, Span, share_bar, truncate

TALL = 7
"""Rows of the header with large figures: title, gap, labels, three rows of figures, progress bar."""

SHORT = 2
"""Rows of the header without large figures."""

LARGE_FROM = 100
"""Columns from which figures can be large."""

EVALUATION_FROM = 76
"""Columns from which the short header shows the newest evaluation."""

STARTING = "compiling kernels, preparing maps"
"""Activity of a run that has no records yet."""

RECENT = "recent episodes"


class Header(CellView):
    """State and headline figures of a run."""

    view: reactive[RunView] = reactive(RunView(), repaint=False, init=False)

    def watch_view(self) -> None:
        self.redraw()

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        _draw_title(grid, self.view, self.theme, with_time=height < TALL)
        if height >= TALL and width >= LARGE_FROM:
            _draw_large_figures(grid, self.view, self.theme)
            _draw_progress(grid, height - 1, self.view, self.theme)
        elif height >= SHORT:
            _draw_figures(grid, self.view, self.theme)
        return grid


def pill(state: str, theme: Theme) -> Span:
    """Return a state as a filled label."""
    return f" {theme.state_symbol(state)} {state} ", f"pill-{STATE_ROLES.get(state, 'info')}"


def _draw_title(grid: Grid, view: RunView, theme: Theme, *, with_time: bool) -> None:
    """Draw state, name and subtitle, and at the right the remaining time or the number of alerts."""
    x = grid.spans(0, 0, [pill(view.state or "starting", theme), (" ", "")])
    x = grid.put(x, 0, view.id if grid.width >= LARGE_FROM else short_run_id(view.id), "bold") + 2
    right = grid.width
    if with_time and (remaining := time_left(view)):
        right -= len(remaining) + 1
        grid.put(right, 0, remaining, "bold")
    elif view.snapshot.alerts:
        text = f"{theme.symbols.up} {len(view.snapshot.alerts)} alert{'s' * (len(view.snapshot.alerts) > 1)}"
        right -= len(text) + 1
        grid.put(right, 0, text, "warn")
    parts, role = subtitle(view)
    columns = right - x - 2
    divider = f" {theme.symbols.dot} "
    while len(parts) > 1 and cell_len(divider.join(parts)) > columns:
        parts = parts[:-1]
    grid.put(x, 0, truncate(divider.join(parts), columns, theme.symbols.ellipsis), role)


def subtitle(view: RunView) -> tuple[list[str], str]:
    """Return what describes the run, most important part first, and its role; a problem replaces everything else."""
    if view.problem:
        return [view.problem], "bad"
    if view.reason:
        return [view.reason], "bad" if view.state in ("failed", "crashed") else "warn"
    start, alerts = view.snapshot.start, view.snapshot.alerts
    if view.is_alive and alerts and alerts[-1].level != "info":
        if view.snapshot.last_time - alerts[-1].time < ALERT_LIFETIME_S:
            return [alerts[-1].message], "warn"
    if view.behind:
        return ["loading records"], "dim"
    if start is None:
        activity = STARTING if view.state == "starting" else ""
        return [part for part in (view.preset, activity) if part], "dim"
    parts = [view.preset, f"against {view.opponent}" if view.opponent else "", start.device]
    parts += [f"{start.num_envs} environments", f"{count(start.parameters)} parameters" if start.parameters else ""]
    return [part for part in parts if part], "dim"


def time_left(view: RunView) -> str:
    """Return the remaining time, or how long an ended run took; empty while unknown."""
    snapshot = view.snapshot
    if snapshot.is_evaluation and not view.is_alive:
        return f"took {duration(sum(batch.duration_s for batch in snapshot.batches))}"
    if not view.is_alive:
        return f"took {duration(snapshot.update.elapsed_s)}" if snapshot.update else ""
    return f"{duration(snapshot.eta_s)} left" if snapshot.eta_s is not None else ""


Figure = tuple[str, str, tuple[str, ...], str]
"""Label, value, notes of which the first that fits is shown, and role."""


def _figures(view: RunView) -> tuple[Figure, ...]:
    """Return the four headline figures."""
    update, snapshot = view.snapshot.update, view.snapshot
    ended = not view.is_alive and bool(view.state)
    if snapshot.is_evaluation:
        return _evaluation_figures(snapshot, ended)
    elapsed = update.elapsed_s if ended and update else snapshot.eta_s
    return (
        ("win rate", percent(update.win_rate) if update else "-", _evaluation_notes(view), "good"),
        ("return", measured(update.avg_return) if update else "-", (RECENT,), "series1"),
        ("steps/s", speed(update.steps_per_s) if update else "-", (f"{count(snapshot.global_step)} steps",), "series1"),
        ("took" if ended else "time left", brief(elapsed), (f"update {update.update}" if update else "",), ""),
    )


def _matches(snapshot: RunSnapshot) -> tuple[int, int]:
    """Return the matches that an evaluation job has played, and all of its matches; 0 and 0 while unknown."""
    return (snapshot.batches[-1].played, snapshot.batches[-1].matches) if snapshot.batches else (0, 0)


def _evaluation_figures(snapshot: RunSnapshot, ended: bool) -> tuple[Figure, ...]:
    """Return the headline figures of an evaluation job."""
    (played, matches), seconds = _matches(snapshot), sum(batch.duration_s for batch in snapshot.batches)
    wins, notes = "-", ("",)
    if snapshot.batches:
        last = snapshot.batches[-1]
        actions = "mean" if last.deterministic else "sampled"
        wins, notes = percent(last.win_rate), (f"{actions}, against {display_name(last.opponent)}", actions)
    return (
        ("win rate", wins, notes, "good"),
        ("matches", count(played), (f"of {count(matches)}",), "series1"),
        ("matches/s", measured(played / seconds) if seconds > 0 else "-", ("",), "series1"),
        ("took" if ended else "time left", brief(seconds if ended else snapshot.eta_s), ("",), ""),
    )


def _draw_large_figures(grid: Grid, view: RunView, theme: Theme) -> None:
    """Draw the four headline figures in large digits below their labels."""
    figures = _figures(view)
    width = grid.width // len(figures)
    for i, (label, value, notes, role) in enumerate(figures):
        x = i * width + 1
        end = grid.put(x, 2, label, "bold")
        note = next((note for note in notes if cell_len(note) <= x + width - end - 3), "")
        grid.put(end + 2, 2, note, "dim")
        if theme.glyphs == "ascii":
            grid.put(x, 4, value, role)
            continue
        for row, text in enumerate(large(value)[:FIGURE_ROWS]):
            grid.put(x, 3 + row, text, role, limit=x + width - 1)


def _evaluation_notes(view: RunView) -> tuple[str, ...]:
    """Return the newest evaluation as text, longest variant first."""
    if not view.snapshot.evals:
        return (RECENT,)
    last = view.snapshot.evals[-1]
    short = f"eval {percent(last.win_rate)}"
    if not (math.isfinite(last.win_low) and math.isfinite(last.win_high)):
        return (short,)
    return (f"{short} ({percent(last.win_low)} to {percent(last.win_high)})", short)


def _draw_progress(grid: Grid, y: int, view: RunView, theme: Theme) -> None:
    """Draw the progress bar across the screen, with the limits of the run at its right."""
    snapshot = view.snapshot
    text = percent(snapshot.progress)
    if snapshot.is_evaluation:
        text += f" of {count(_matches(snapshot)[1])} matches"
    elif snapshot.start:
        limit = f" or {snapshot.start.max_minutes:g} min" if snapshot.start.max_minutes else ""
        text += f" of {count(snapshot.start.total_steps)} steps{limit}"
    width = grid.width - len(text) - 4
    grid.spans(1, y, [*share_bar(snapshot.progress, width, theme), ("  ", ""), (text, "dim")])


def _draw_figures(grid: Grid, view: RunView, theme: Theme) -> None:
    """Draw the headline figures in one line, and the progress bar in the remaining columns."""
    snapshot = view.snapshot
    names = ("win rate", "matches", "matches/s") if snapshot.is_evaluation else ("win rate", "steps/s", "return")
    figures = {label: (value, role) for label, value, _, role in _figures(view)}
    spans: list[Span] = [(" ", "")]
    for name in names:
        spans += [figures[name], (f" {name}  ", "dim")]
    if snapshot.evals and not snapshot.is_evaluation and grid.width >= EVALUATION_FROM:
        spans += [(percent(snapshot.evals[-1].win_rate), "mark"), (" eval  ", "dim")]
    x = grid.spans(0, 1, spans)
    width = grid.width - x - 6
    if width >= 4:
        x = grid.spans(x, 1, share_bar(snapshot.progress, width, theme))
    grid.right(grid.width - 1, 1, percent(snapshot.progress), "bold")
