"""The head of the run screen: state, win rate and speed first, so that a glance is enough."""

from __future__ import annotations

import math

from rich.cells import cell_len
from textual.reactive import reactive

from echelon_cli.listing import ALERT_LIFETIME_S
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.format import FIGURE_ROWS, brief, count, duration, large, measured, percent, short_run_id, speed
from echelon_cli.tui.theme import STATE_ROLES, Theme
from echelon_cli.tui.widgets.cells import CellView, Grid, Span, truncate

TALL = 7
"""Rows of the head with large figures: a title, a gap, names, figures and a bar."""

SHORT = 2
"""Rows without."""

STARTING = "compiles kernels and prepares maps"
"""What a run does before it says anything."""

LARGE_FROM = 100
"""Columns from which figures can be large."""


class Header(CellView):
    """Who, in which state, how far, how fast, how well."""

    view: reactive[RunView] = reactive(RunView(), repaint=False, init=False)

    def watch_view(self) -> None:
        self.redraw()

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        _title(grid, self.view, self.theme, with_left=height < TALL)
        if height >= TALL and width >= LARGE_FROM:
            _tiles(grid, self.view, self.theme)
            _progress(grid, height - 1, self.view, self.theme)
        elif height >= SHORT:
            _line(grid, self.view, self.theme)
        return grid


def pill(state: str, theme: Theme) -> Span:
    """Return a state as a filled label."""
    return f" {theme.state_symbol(state)} {state} ", f"pill-{STATE_ROLES.get(state, 'info')}"


def _title(grid: Grid, view: RunView, theme: Theme, *, with_left: bool) -> None:
    """Write state, name and what the run is; the reason of a bad end takes the place of the last."""
    x = grid.spans(0, 0, [pill(view.state or "starting", theme), (" ", "")])
    x = grid.put(x, 0, view.id if grid.width >= LARGE_FROM else short_run_id(view.id), "bold") + 2
    right = grid.width
    if with_left and (left := time_left(view)):
        right -= len(left) + 1
        grid.put(right, 0, left, "bold")
    elif view.snapshot.alerts:
        text = f"{theme.symbols.up} {len(view.snapshot.alerts)} alert{'s' * (len(view.snapshot.alerts) > 1)}"
        right -= len(text) + 1
        grid.put(right, 0, text, "warn")
    parts, role = subtitle(view)
    room = right - x - 2
    divider = f" {theme.symbols.dot} "
    while len(parts) > 1 and cell_len(divider.join(parts)) > room:
        parts = parts[:-1]
    grid.put(x, 0, truncate(divider.join(parts), room, theme.symbols.cut), role)


def subtitle(view: RunView) -> tuple[list[str], str]:
    """Return what goes on with the run: trouble first, then what it trains on, the most important part first."""
    if view.problem:
        return [view.problem], "bad"
    if view.reason:
        return [view.reason], "bad" if view.state in ("failed", "crashed") else "warn"
    start, alerts = view.snapshot.start, view.snapshot.alerts
    if view.is_alive and alerts and alerts[-1].level != "info":
        if view.snapshot.last_time - alerts[-1].time < ALERT_LIFETIME_S:
            return [alerts[-1].message], "warn"
    if view.behind:
        return ["reading its records"], "dim"
    if start is None:
        doing = STARTING if view.state == "starting" else ""
        return [part for part in (view.preset, doing) if part], "dim"
    parts = [view.preset, f"against {view.opponent}" if view.opponent else "", start.device]
    parts += [f"{start.num_envs} battles", f"{count(start.parameters)} parameters"]
    return [part for part in parts if part], "dim"


def time_left(view: RunView) -> str:
    """Return the time to the end, or how long it took; empty while unknown."""
    snapshot = view.snapshot
    if not view.is_alive:
        return f"took {duration(snapshot.update.elapsed_s)}" if snapshot.update else ""
    return f"{duration(snapshot.eta_s)} left" if snapshot.eta_s is not None else ""


def _tiles(grid: Grid, view: RunView, theme: Theme) -> None:
    """Draw the four figures that matter large, each under its name."""
    update, snapshot = view.snapshot.update, view.snapshot
    done = not view.is_alive and bool(view.state)
    win = percent(update.win_rate) if update else "-"
    tiles = (
        ("win rate", win, _eval_notes(view), "good"),
        ("return", measured(update.avg_return) if update else "-", ("newest episodes",), "series1"),
        (
            "steps/s",
            speed(update.steps_per_s) if update else "-",
            (f"{count(view.snapshot.global_step)} steps",),
            "series1",
        ),
        (
            "took" if done else "time left",
            brief(update.elapsed_s if done and update else snapshot.eta_s),
            (f"update {update.update}" if update else "",),
            "",
        ),
    )
    width = grid.width // len(tiles)
    for i, (name, value, notes, role) in enumerate(tiles):
        x = i * width + 1
        end = grid.put(x, 2, name, "bold")
        note = next((note for note in notes if cell_len(note) <= x + width - end - 3), "")
        grid.put(end + 2, 2, note, "dim")
        if theme.glyphs == "ascii":
            grid.put(x, 4, value, role)
            continue
        for row, text in enumerate(large(value)[:FIGURE_ROWS]):
            grid.put(x, 3 + row, text, role, limit=x + width - 1)


def _eval_notes(view: RunView) -> tuple[str, ...]:
    """Return what the newest evaluation says, the most telling first."""
    if not view.snapshot.evals:
        return ("newest episodes",)
    last = view.snapshot.evals[-1]
    short = f"eval {percent(last.win_rate)}"
    if not (math.isfinite(last.win_low) and math.isfinite(last.win_high)):
        return (short,)
    return (f"{short} ({percent(last.win_low)} to {percent(last.win_high)})", short)


def _bar(share: float, width: int, theme: Theme) -> list[Span]:
    size = round(max(0.0, min(1.0, share)) * width)
    return [(theme.symbols.line * size, "series1"), (theme.symbols.rest * (width - size), "rest")]


def _progress(grid: Grid, y: int, view: RunView, theme: Theme) -> None:
    """Draw the bar across the screen, with what it counts at its right."""
    snapshot = view.snapshot
    text = percent(snapshot.progress)
    if snapshot.start:
        limit = f" or {snapshot.start.max_minutes:g} min" if snapshot.start.max_minutes else ""
        text += f" of {count(snapshot.start.total_steps)} steps{limit}"
    room = grid.width - len(text) - 4
    grid.spans(1, y, [*_bar(snapshot.progress, room, theme), ("  ", ""), (text, "dim")])


def _line(grid: Grid, view: RunView, theme: Theme) -> None:
    """Write the figures in one line, and the bar in the room that is left."""
    update, snapshot = view.snapshot.update, view.snapshot
    spans: list[Span] = [
        (" ", ""),
        (percent(update.win_rate) if update else "-", "good"),
        (" wins  ", "dim"),
        (speed(update.steps_per_s) if update else "-", "series1"),
        (" steps/s  ", "dim"),
        (measured(update.avg_return) if update else "-", "series1"),
        (" return  ", "dim"),
    ]
    if snapshot.evals and grid.width >= 76:
        spans += [(percent(snapshot.evals[-1].win_rate), "mark"), (" eval  ", "dim")]
    x = grid.spans(0, 1, spans)
    done = f" {percent(snapshot.progress)}"
    room = grid.width - x - 6
    if room >= 4:
        x = grid.spans(x, 1, _bar(snapshot.progress, room, theme))
    grid.right(grid.width - 1, 1, done.strip(), "bold")
