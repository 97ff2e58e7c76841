"""Panels of bars: where the time goes, what the return is made of, how battles ended."""

from __future__ import annotations

from collections.abc import Sequence

from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.tui.format import count, percent, signed
from echelon_cli.tui.panels.base import Panel, PanelChart
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, Span, truncate

PHASE_ROLES = ("series1", "series2", "series3", "dim")
"""Colours of the phases in the order they are reported."""

SHADES = {"braille": "█▓▒░", "block": "█▓▒░", "ascii": "#=+."}
"""Their characters where there is no colour to tell them apart."""

PHASE_BAR_FROM = 9
"""Rows inside the speed panel from which the phases get a bar beside their figures."""

OUTCOMES: tuple[tuple[str, str, str], ...] = (
    ("won", "win_rate", "good"),
    ("drawn", "draw_rate", "info"),
    ("lost", "loss_rate", "bad"),
)
"""Name, field of an update and role."""


REASON_CELLS = 12
REASON_SHARE = 0.46
"""Widest column of names beside shares, in cells and of the panel."""


class PanelSpeed(PanelChart):
    """Steps per second, and the phases they are spent in."""

    def body(self, width: int, height: int) -> Grid:
        phases = self.view.snapshot.update.phases_s if self.view.snapshot.update else {}
        rows = 0 if height < 4 or not phases else 2 if height >= PHASE_BAR_FROM else 1
        grid = Grid(width, height)
        grid.paste(0, 0, super().body(width, height - rows))
        if rows:
            shares = phase_shares(phases)
            if rows == 2:
                grid.spans(0, height - 2, stacked(shares, width, self.theme))
            draw_phases(grid, height - 1, shares, self.theme)
        return grid


def phase_shares(phases: dict[str, float]) -> list[tuple[str, float]]:
    """Return each phase's share of the time, those that matter little left out."""
    total = sum(seconds for seconds in phases.values() if seconds > 0)
    return [(name, seconds / total) for name, seconds in phases.items() if total > 0 and seconds / total >= 0.01]


def stacked(shares: Sequence[tuple[str, float]], width: int, theme: Theme) -> list[Span]:
    """Return shares as one bar of pieces."""
    edge, done, spans = 0, 0.0, []
    for i, (_, share) in enumerate(shares):
        done += share
        nxt = min(width, round(done * width))
        spans.append((shade(i, theme, theme.symbols.bar) * (nxt - edge), PHASE_ROLES[i % len(PHASE_ROLES)]))
        edge = nxt
    return spans


def shade(index: int, theme: Theme, coloured: str) -> str:
    """Return the character of a phase: the same for all where colours tell them apart."""
    return coloured if theme.colour else SHADES[theme.glyphs][index % len(PHASE_ROLES)]


def draw_phases(grid: Grid, y: int, shares: Sequence[tuple[str, float]], theme: Theme) -> None:
    """Write names and percentages; where not all fit, the largest ones that do."""
    told = [(i, f"{name} {share:.0%}") for i, (name, share) in enumerate(shares)]
    if sum(len(text) + 3 for _, text in told) - 1 > grid.width:
        told.sort(key=lambda item: -shares[item[0]][1])
    x = 0
    for i, text in told:
        if x + len(text) + 2 > grid.width:
            break
        role = PHASE_ROLES[i % len(PHASE_ROLES)]
        x = grid.put(x, y, shade(i, theme, theme.symbols.square), role)
        x = grid.put(x + 1, y, text, "dim") + 1


class PanelRewardTerms(Panel):
    """What each part of the reward adds to the return."""

    def note(self) -> str:
        return "per mech and episode"

    def body(self, width: int, height: int) -> Grid:
        terms = self.view.snapshot.update.reward_terms if self.view.snapshot.update else {}
        return draw_reward_terms(terms, width, height, self.theme)


def draw_reward_terms(terms: dict[str, float], width: int, height: int, theme: Theme) -> Grid:
    """Return bars to both sides of zero; the largest ones where not all fit."""
    grid = Grid(width, height)
    shown = [(name, value) for name, value in terms.items() if value != 0] or list(terms.items())
    if len(shown) > height:
        kept = sorted(shown, key=lambda item: -abs(item[1]))[: height - 1]
        shown = [item for item in shown if item in kept]
        grid.put(0, height - 1, f"and {len(terms) - len(shown)} smaller ones", "dim")
    if not shown:
        return _nothing(grid)
    name_width = min(max(len(name) for name, _ in shown), max(4, width // 3))
    value_width = max(len(signed(value)) for _, value in shown)
    room = width - name_width - value_width - 2
    least, most = min(0.0, *(v for _, v in shown)), max(0.0, *(v for _, v in shown))
    scale = (room - 1) / (most - least) if most > least and room > 1 else 0.0
    zero = name_width + 1 + round(-least * scale)
    for y, (name, value) in enumerate(shown):
        role = "good" if value > 0 else "bad"
        grid.put(0, y, truncate(name, name_width, theme.symbols.cut), "")
        size = max(1, round(abs(value) * scale)) if value else 0
        start = zero + 1 if value > 0 else zero - size
        grid.put(max(name_width + 1, start), y, theme.symbols.bar * size, role, limit=width - value_width)
        grid.put(zero, y, theme.symbols.vertical, "frame")
        grid.right(width, y, signed(value), role)
    return grid


class PanelOutcomes(Panel):
    """How the newest battles went, and why battles end."""

    def note(self) -> str:
        opponent = self.view.opponent
        return f"against {opponent}" if opponent else ""

    def body(self, width: int, height: int) -> Grid:
        return draw_outcomes(self.view.snapshot, width, height, self.theme)


def draw_outcomes(snapshot: RunSnapshot, width: int, height: int, theme: Theme) -> Grid:
    """Return bars for the newest battles, then for the reasons of all."""
    grid = Grid(width, height)
    totals, update = snapshot.episodes, snapshot.update
    if not totals.count or update is None:
        return _nothing(grid, "no battle is over yet")
    rows = [(name, getattr(update, field), role) for name, field, role in OUTCOMES]
    grid.put(0, 0, "newest battles", "dim")
    for y, (name, share, role) in enumerate(rows, start=1):
        _share_row(grid, y, name, share, role, theme)
    if height >= 7:
        grid.put(0, 5, f"how all {count(totals.count)} ended", "dim")
        reasons = sorted(totals.reasons.items(), key=lambda item: -item[1])
        for y, (name, n) in enumerate(reasons[: height - 6], start=6):
            _share_row(grid, y, name.replace("_", " "), n / totals.count, "series1", theme)
    return grid


def _share_row(grid: Grid, y: int, name: str, share: float, role: str, theme: Theme) -> None:
    name_width = min(REASON_CELLS, max(5, round(grid.width * REASON_SHARE)))
    room = grid.width - name_width - 6
    grid.put(0, y, truncate(name, name_width, theme.symbols.cut))
    size = round(max(0.0, min(1.0, share)) * room) if share == share else 0
    grid.put(name_width + 1, y, theme.symbols.line * size, role)
    grid.put(name_width + 1 + size, y, theme.symbols.rest * max(0, room - size), "rest")
    grid.right(grid.width, y, percent(share), role)


def _nothing(grid: Grid, text: str = "no battle is over yet") -> Grid:
    grid.put(max(0, (grid.width - len(text)) // 2), grid.height // 2, text, "dim")
    return grid
