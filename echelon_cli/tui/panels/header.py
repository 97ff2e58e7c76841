"""The header of the run screen: state, newest and best evaluation, training win rate, speed and progress of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.cells import cell_len
from textual.reactive import reactive

from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.listing import ALERT_LIFETIME_S, opponent_name
from echelon_cli.output import count, duration, interval, measured, percent
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.format import FIGURE_ROWS, brief, large, short_run_id, speed
from echelon_cli.tui.theme import STATE_ROLES, Theme
from echelon_cli.tui.widgets.cells import CellView, Grid, Span, share_bar, truncate

TALL = 7
"""Rows of the header with large figures: title, labels, three rows of figures, notes, progress bar."""

SHORT = 2
LARGE_FROM = 120
MIN_BAR = 6
BAR_FROM = 70

SHORT_NOTE = 1
"""Variant of the first figure's note for which the short header drops other figures."""

HIDDEN = 9
"""Rank of a figure that the short header has elsewhere."""

STARTING = "compiling kernels, preparing maps"
"""Activity of a run that has no records yet."""

TRAINING = "training win rate"
CURRENT_MIX = "current mix"
"""The win rate of training battles depends on the opponents sampled, so it is shown with this note."""


class HeaderPanel(CellView):
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
    parts = [view.preset, start.device]
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


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One headline figure."""

    label: str
    value: str
    notes: tuple[str, ...] = ("",)
    """Variants of the note, longest first, of which the first that fits is shown."""
    role: str = ""
    short: str = ""
    """Label in the short header."""
    weight: int = 2
    """Share of the columns of the tall header."""
    rank: int = 0
    """Figures with the highest rank are dropped first from the short header."""


def _figures(view: RunView) -> tuple[Figure, ...]:
    update, snapshot = view.snapshot.update, view.snapshot
    ended = not view.is_alive and bool(view.state)
    if snapshot.is_evaluation:
        return _job_figures(snapshot, ended)
    elapsed = update.elapsed_s if ended and update else snapshot.eta_s
    return (
        *_evaluation_figures(snapshot),
        Figure(
            label=TRAINING,
            value=percent(update.win_rate) if update else "-",
            notes=(CURRENT_MIX,),
            role="series1",
            short="training mix",
            rank=4,
        ),
        Figure(
            label="steps/s",
            value=speed(update.steps_per_s) if update else "-",
            notes=(f"{count(snapshot.global_step)} steps",),
            role="series1",
            short="steps/s",
            rank=2,
        ),
        Figure(
            label="took" if ended else "time left",
            value=brief(elapsed),
            notes=(f"update {update.update}" if update else "",),
            rank=HIDDEN,
        ),
    )


def _evaluation_figures(snapshot: RunSnapshot) -> tuple[Figure, Figure]:
    """Return the newest evaluation in training, and the one that chose the best checkpoint."""
    last, best = snapshot.evals[-1] if snapshot.evals else None, snapshot.best
    newest = Figure(
        label="evaluation, 95 % interval", value="-", notes=("none yet",), role="good", short="eval", weight=3
    )
    if last is not None:
        bounds, at = f"{interval(last.win_low, last.win_high)}%", f"at {count(last.global_step)}"
        against = f"{bounds} against {opponent_name(last.opponent)}"
        notes = (f"{against} {at} steps", f"{against} {at}", against, bounds)
        newest = replace(newest, value=percent(last.win_rate), notes=notes)
    chosen = Figure(label="best checkpoint", value="-", role="mark", short="best", weight=3, rank=1)
    if best is not None:
        bounds, at = f"{interval(best.win_low, best.win_high)}%", f"at {count(best.global_step)} steps"
        folder = f"step-{best.global_step}"
        chosen = replace(chosen, value=percent(best.win_rate), notes=(f"{bounds} {at}: {folder}", f"{bounds} {at}", at))
    return newest, chosen


def _matches(snapshot: RunSnapshot) -> tuple[int, int]:
    """Return the matches that an evaluation job has played, and all of its matches; 0 and 0 while unknown."""
    return (snapshot.batches[-1].played, snapshot.batches[-1].matches) if snapshot.batches else (0, 0)


def _job_figures(snapshot: RunSnapshot, ended: bool) -> tuple[Figure, ...]:
    (played, matches), seconds = _matches(snapshot), sum(batch.duration_s for batch in snapshot.batches)
    wins, notes = "-", ("",)
    if snapshot.batches:
        last = snapshot.batches[-1]
        bounds = f"{interval(last.win_low, last.win_high)}% against {opponent_name(last.opponent)}"
        wins, notes = (
            percent(last.win_rate),
            (f"{bounds}, {'mean' if last.deterministic else 'sampled'} actions", bounds),
        )
    rate = measured(played / seconds) if seconds > 0 else "-"
    return (
        Figure(label="win rate", value=wins, notes=notes, role="good", short="win rate", weight=3),
        Figure(label="matches", value=count(played), notes=(f"of {count(matches)}",), role="series1", short="matches"),
        Figure(label="matches/s", value=rate, role="series1", short="matches/s"),
        Figure(label="took" if ended else "time left", value=brief(seconds if ended else snapshot.eta_s), rank=HIDDEN),
    )


def _fitting(notes: tuple[str, ...], columns: int) -> str:
    return next((note for note in notes if cell_len(note) <= columns), "")


def _draw_large_figures(grid: Grid, view: RunView, theme: Theme) -> None:
    """Draw the headline figures in large digits between their labels and notes."""
    figures = _figures(view)
    unit, x = grid.width / sum(figure.weight for figure in figures), 1.0
    for figure in figures:
        at, end = round(x), round(x + figure.weight * unit) - 2
        grid.put(at, 1, figure.label, "bold")
        grid.put(at, 5, _fitting(figure.notes, end - at), "dim")
        x += figure.weight * unit
        if theme.glyphs == "ascii":
            grid.put(at, 3, figure.value, figure.role)
            continue
        for row, text in enumerate(large(figure.value)[:FIGURE_ROWS]):
            grid.put(at, 2 + row, text, figure.role, limit=end + 1)


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
    progress, figures = view.snapshot.progress, [figure for figure in _figures(view) if figure.rank < HIDDEN]
    columns = grid.width - 7 - (MIN_BAR if grid.width >= BAR_FROM else 0)
    while len(figures) > 1 and _columns(figures, len(figures[0].notes) > 1) > columns:
        figures.remove(max(figures, key=lambda figure: figure.rank))
    spans: list[Span] = [(" ", "")]
    for number, figure in enumerate(figures):
        spans += [(figure.value, figure.role), (f" {figure.short}", "dim")]
        if number == 0:
            spare = columns - _columns(figures, False)
            spans.append((f" {_fitting(figure.notes, spare - 1)}".rstrip(), "dim"))
        spans.append(("  ", ""))
    x = grid.spans(0, 1, spans)
    width = grid.width - x - 6
    if width >= MIN_BAR - 2:
        grid.spans(x, 1, share_bar(progress, width, theme))
    grid.right(grid.width - 1, 1, percent(progress), "bold")


def _columns(figures: list[Figure], with_note: bool) -> int:
    """Return the columns that figures take in the short header, the first one with a note of the second length."""
    note = cell_len(figures[0].notes[min(SHORT_NOTE, len(figures[0].notes) - 1)]) + 1 if with_note else 0
    return 1 + note + sum(cell_len(figure.value) + cell_len(figure.short) + 3 for figure in figures)
