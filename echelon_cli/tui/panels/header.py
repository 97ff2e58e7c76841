"""The header of the run screen: state, newest and best evaluation, training win rate, speed and progress of a run."""

import math
from dataclasses import dataclass

from rich.cells import cell_len
from textual.reactive import reactive

from echelon.jobs.kinds import has_plan
from echelon.telemetry.evaluations import UNTRAINED, evaluation_rows
from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.listing import ALERT_LIFETIME_S, opponent_name
from echelon_cli.output import count, duration, interval, measured, percent
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.format import short_run_id, speed
from echelon_cli.tui.panels.win_rate import next_evaluation_text
from echelon_cli.tui.theme import STATE_ROLES, Theme
from echelon_cli.tui.widgets.cells import CellView, Grid, Span, share_bar, truncate

ROWS = 2
FULL_ID_FROM = 120
MIN_BAR = 6
MIN_SUBTITLE = 20
BAR_FROM = 70

SHORT_NOTE = 2
"""Variant of the first figure's note for which other figures are dropped."""

STARTING = "compiling kernels, preparing maps"
"""Activity of a run that has no records yet."""


class HeaderPanel(CellView):
    """State and headline figures of a run."""

    view: reactive[RunView] = reactive(RunView(), repaint=False, init=False)

    def watch_view(self) -> None:
        self.redraw()

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        _draw_title(grid, self.view, self.theme)
        _draw_figures(grid, self.view, self.theme)
        return grid


def pill(state: str, theme: Theme) -> Span:
    return f" {theme.state_symbol(state)} {state} ", f"pill-{STATE_ROLES.get(state, 'info')}"


def _draw_title(grid: Grid, view: RunView, theme: Theme) -> None:
    """Draw state, name and subtitle, and at the right the remaining time or the number of alerts."""
    x = grid.spans(0, 0, [pill(view.state or "starting", theme), (" ", "")])
    x = grid.put(x, 0, view.id if grid.width >= FULL_ID_FROM else short_run_id(view.id), "bold") + 2
    right = grid.width
    if remaining := time_left(view):
        right -= len(remaining) + 1
        grid.put(right, 0, remaining, "bold")
    if alerts := len(view.snapshot.alerts):
        text = f"{theme.symbols.up} {alerts} alert{'s' * (alerts > 1)}"
        if right - len(text) - 2 > x + MIN_SUBTITLE:
            right -= len(text) + 2
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
    if view.behind:
        return ["loading records"], "dim"
    if view.reason:
        return [view.reason], "bad" if view.state in ("failed", "crashed") else "warn"
    start, alerts = view.snapshot.start, view.snapshot.alerts
    if view.is_alive and alerts and alerts[-1].level != "info":
        if view.snapshot.last_time - alerts[-1].time < ALERT_LIFETIME_S:
            return [alerts[-1].message], "warn"
    if start is None:
        activity = STARTING if view.state == "starting" else ""
        return [part for part in (view.preset, activity) if part], "dim"
    parts = [view.preset, view.snapshot.method if view.is_alive else "", start.device]
    parts += [f"{start.num_envs} environments", f"{count(start.parameters)} parameters" if start.parameters else ""]
    return [part for part in parts if part], "dim"


def time_left(view: RunView) -> str:
    """Return the remaining time or what the run does instead, or how long an ended run took; empty while unknown."""
    snapshot = view.snapshot
    if snapshot.is_evaluation and not view.is_alive:
        return f"took {duration(sum(batch.duration_s for batch in snapshot.batches))}"
    if not view.is_alive:
        return f"took {duration(snapshot.update.elapsed_s)}" if snapshot.update else ""
    left = f"{duration(snapshot.eta_s)} left" if snapshot.eta_s else ""
    return snapshot.activity or left


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One headline figure."""

    label: str
    value: str
    notes: tuple[str, ...] = ("",)
    """Variants of the note, longest first, of which the first that fits is shown."""
    role: str = ""
    rank: int = 0
    """Figures with the highest rank are dropped first."""


def _figures(view: RunView) -> tuple[Figure, ...]:
    update, snapshot = view.snapshot.update, view.snapshot
    if snapshot.is_evaluation:
        return _job_figures(snapshot)
    if view.kind != "train":
        played = snapshot.round
        text = f"round {played.round} of {played.rounds}, {played.played} of {played.matches} matches" if played else ""
        return (Figure(label=text, value=view.kind, role="bold"),)
    win_rate, per_s = (update.win_rate, update.steps_per_s) if update else (math.nan, math.nan)
    battles = f", {update.battles} battles" if update and update.battles else ""
    return (
        *_evaluation_figures(view),
        Figure(label=f"training mix{battles}", value=percent(win_rate), role="series1", rank=4),
        Figure(label="steps/s", value=speed(per_s) if update else "-", role="series1", rank=2),
    )


def _evaluation_figures(view: RunView) -> tuple[Figure, ...]:
    """Return the newest evaluation of a trained policy, and the one that chose the best checkpoint."""
    last, best = view.snapshot.evaluation, view.snapshot.other_best
    if last is None:
        upcoming = next_evaluation_text(view)
        note = f"evaluation at {upcoming}" if upcoming and not view.snapshot.activity else ""
        return (Figure(label="", value=UNTRAINED, notes=(note,), role="bold"),)
    bounds, at = f"{interval(last.win_low, last.win_high)}%", f"at {count(last.global_step)}"
    opponent = f"against {opponent_name(last.opponent)}"
    against = f"{bounds} {opponent}"
    matches = f"{bounds} of {count(last.episodes)} matches {opponent} {at} steps"
    notes = (matches, f"{against} {at} steps", f"{against} {at}", against, bounds)
    newest = Figure(label="eval", value=percent(last.win_rate), notes=notes, role="mark")
    return (newest, Figure(label="best", value=percent(best.win_rate), role="mark", rank=1)) if best else (newest,)


def _job_figures(snapshot: RunSnapshot) -> tuple[Figure, ...]:
    """Return the win rate against the present opponent, with mean actions where they play, and what has been played."""
    seconds, played, matches = sum(batch.duration_s for batch in snapshot.batches), 0, 0
    wins: tuple[Figure, ...] = (Figure(label="win rate", value="-", role="mark"),)
    if snapshot.batches:
        last = snapshot.batches[-1]
        row = next(row for row in evaluation_rows(snapshot) if row.opponent == last.opponent)
        played, matches = last.played, last.matches
        against, rates = f"against {opponent_name(row.opponent)}", {"mean": row.mean, "sampled": row.sampled}
        (actions, won), *others = ((name, rate) for name, rate in rates.items() if rate)
        bounds = f"{interval(won.low, won.high)}%"
        whole = f"{bounds} of {count(row.episodes)} matches {against}"
        notes = f"{whole}, {actions} actions", whole, f"{bounds} {against}"
        wins = (
            Figure(label="win rate", value=percent(won.value), notes=notes, role="mark"),
            *(Figure(label=name, value=percent(rate.value), role="mark") for name, rate in others),
        )
    rate = measured(played / seconds) if seconds > 0 else "-"
    return (
        *wins,
        Figure(label=f"of {count(matches)} played", value=count(played), role="series1", rank=1),
        Figure(label="matches/s", value=rate, role="series1", rank=2),
    )


def _draw_figures(grid: Grid, view: RunView, theme: Theme) -> None:
    """Draw the headline figures in one line, and the progress bar in the remaining columns."""
    text = progress_text(view.snapshot, grid.width) if has_plan(view.kind) else ""
    figures = list(_figures(view))
    columns = grid.width - len(text) - 3 - (MIN_BAR if grid.width >= BAR_FROM else 0)
    while len(figures) > 1 and _columns(figures, len(figures[0].notes) > 1) > columns:
        figures.remove(max(figures, key=lambda figure: figure.rank))
    spans: list[Span] = [(" ", "")]
    for number, figure in enumerate(figures):
        spans += [(figure.value, figure.role), (f" {figure.label}", "dim")]
        if number == 0:
            spare = columns - _columns(figures, False)
            note = next((note for note in figure.notes if cell_len(note) < spare), "")
            spans.append((f" {note}".rstrip(), "dim"))
        spans.append(("  ", ""))
    x = grid.spans(0, 1, spans)
    width = grid.width - x - len(text) - 2
    if text and width >= MIN_BAR - 2:
        grid.spans(x, 1, share_bar(view.snapshot.progress, width, theme))
    grid.right(grid.width - 1, 1, text, "bold")


def progress_text(snapshot: RunSnapshot, width: int) -> str:
    """Return the share of the plan that is done; on a wide screen with the plan."""
    text = percent(snapshot.progress)
    if width < FULL_ID_FROM or snapshot.start is None or snapshot.is_evaluation:
        return text
    limit = f" or {snapshot.start.max_minutes:g} min" if snapshot.start.max_minutes else ""
    update, steps = snapshot.update.update if snapshot.update else 0, count(snapshot.global_step)
    return f"update {update}, {steps} of {count(snapshot.start.total_steps)} steps{limit}, {text}"


def _columns(figures: list[Figure], with_note: bool) -> int:
    """Return the columns that figures take in the header, the first one with a note of the second length."""
    note = cell_len(figures[0].notes[min(SHORT_NOTE, len(figures[0].notes) - 1)]) + 1 if with_note else 0
    return 1 + note + sum(cell_len(figure.value) + cell_len(figure.label) + 3 for figure in figures)
