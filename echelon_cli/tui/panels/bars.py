"""Panels with bars: speed with its phases, reward terms, outcomes of battles."""

from collections.abc import Mapping, Sequence

from echelon.replay.match_text import ending_text
from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.output import count
from echelon_cli.tui.format import signed
from echelon_cli.tui.panels.base import Panel, PanelChart
from echelon_cli.tui.theme import GlyphSet, Theme
from echelon_cli.tui.widgets.cells import Grid, Span, draw_share, truncate

PHASE_ROLES = ("series1", "series2", "series3", "dim")
"""Roles of the phases, in the order they are reported."""

PHASE_SHADES: dict[GlyphSet, str] = {"braille": "█▓▒░", "block": "█▓▒░", "ascii": "#=+."}

PHASE_BAR_FROM = 9
"""Rows of the panel's body from which the phases have a bar above their legend."""

MIN_PHASE_SHARE = 0.01

OUTCOMES: tuple[tuple[str, str, str], ...] = (
    ("won", "win_rate", "good"),
    ("drawn", "draw_rate", "info"),
    ("lost", "loss_rate", "bad"),
)

REASON_CELLS = 12
REASON_SHARE = 0.46
"""Widest column of names beside shares: in cells, and as a share of the panel."""

NO_BATTLES = "no battle has ended yet"


class PanelSpeed(PanelChart):
    """Steps per second, and the time spent in each phase of an update."""

    def body(self, width: int, height: int) -> Grid:
        phases = self.view.snapshot.update.phases_s if self.view.snapshot.update else {}
        rows = 0 if height < 4 or not phases else 2 if height >= PHASE_BAR_FROM else 1
        grid = Grid(width, height)
        grid.paste(0, 0, super().body(width, height - rows))
        if rows:
            shares = phase_shares(phases)
            if rows == 2:
                grid.spans(0, height - 2, stacked_bar(shares, width, self.theme))
            draw_phase_legend(grid, height - 1, shares, self.theme)
        return grid


def phase_shares(phases: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return each phase's share of the time, without those below ``MIN_PHASE_SHARE``."""
    total = sum(seconds for seconds in phases.values() if seconds > 0)
    if total <= 0:
        return []
    return [(name, seconds / total) for name, seconds in phases.items() if seconds / total >= MIN_PHASE_SHARE]


def stacked_bar(shares: Sequence[tuple[str, float]], width: int, theme: Theme) -> list[Span]:
    start, total, spans = 0, 0.0, []
    for i, (_, share) in enumerate(shares):
        total += share
        end = min(width, round(total * width))
        spans.append((phase_char(i, theme, theme.symbols.bar) * (end - start), PHASE_ROLES[i % len(PHASE_ROLES)]))
        start = end
    return spans


def phase_char(index: int, theme: Theme, coloured: str) -> str:
    """Return the character of a phase: ``coloured`` for all phases, or a shade in a theme without colour."""
    return coloured if theme.colour else PHASE_SHADES[theme.glyphs][index % len(PHASE_ROLES)]


def draw_phase_legend(grid: Grid, y: int, shares: Sequence[tuple[str, float]], theme: Theme) -> None:
    """Draw names and percentages; where not all fit, those of the largest phases."""
    entries = [(i, f"{name} {share:.0%}") for i, (name, share) in enumerate(shares)]
    if sum(len(text) + 3 for _, text in entries) - 1 > grid.width:
        entries.sort(key=lambda entry: -shares[entry[0]][1])
    x = 0
    for i, text in entries:
        if x + len(text) + 2 > grid.width:
            break
        role = PHASE_ROLES[i % len(PHASE_ROLES)]
        x = grid.put(x, y, phase_char(i, theme, theme.symbols.square), role)
        x = grid.put(x + 1, y, text, "dim") + 1


class PanelRewardTerms(Panel):
    """The contribution of each reward term to the return."""

    def note(self) -> str:
        return "per mech and episode"

    def body(self, width: int, height: int) -> Grid:
        terms = self.view.snapshot.update.reward_terms if self.view.snapshot.update else {}
        return draw_reward_terms(terms, width, height, self.theme)


def draw_reward_terms(terms: Mapping[str, float], width: int, height: int, theme: Theme) -> Grid:
    """Return a bar per term to either side of zero; terms that are zero are named below, or the number left out."""
    grid = Grid(width, height)
    shown = [(name, value) for name, value in terms.items() if value != 0]
    zero = [name for name, value in terms.items() if value == 0]
    footer = f"0: {', '.join(zero)}" if zero else ""
    if len(shown) + bool(footer) > height:
        largest = sorted(shown, key=lambda item: -abs(item[1]))[: height - 1]
        shown = [item for item in shown if item in largest]
        footer = f"and {len(terms) - len(shown)} smaller"
    grid.put(0, height - 1, truncate(footer, width, theme.symbols.ellipsis), "dim")
    if not terms:
        return grid.centre([NO_BATTLES])
    if not shown:
        return grid
    name_width = min(max(len(name) for name, _ in shown), max(4, width // 3))
    value_width = max(len(signed(value)) for _, value in shown)
    bar_width = width - name_width - value_width - 2
    lowest, highest = min(0.0, *(v for _, v in shown)), max(0.0, *(v for _, v in shown))
    scale = (bar_width - 1) / (highest - lowest) if highest > lowest and bar_width > 1 else 0.0
    axis = name_width + 1 + round(-lowest * scale)
    for y, (name, value) in enumerate(shown):
        role = "good" if value > 0 else "bad"
        grid.put(0, y, truncate(name, name_width, theme.symbols.ellipsis), "")
        size = max(1, round(abs(value) * scale)) if value else 0
        start = axis + 1 if value > 0 else axis - size
        grid.put(max(name_width + 1, start), y, theme.symbols.bar * size, role, limit=width - value_width)
        grid.put(axis, y, theme.symbols.vertical, "frame")
        grid.right(width, y, signed(value), role)
    return grid


class PanelOutcomes(Panel):
    """Outcomes of recent battles, and the reasons for which battles end."""

    def note(self) -> str:
        return "current mix of opponents" if self.view.snapshot.update else ""

    def body(self, width: int, height: int) -> Grid:
        return draw_outcomes(self.view.snapshot, width, height, self.theme)


def draw_outcomes(snapshot: RunSnapshot, width: int, height: int, theme: Theme) -> Grid:
    """Return bars for the outcomes of recent battles and, below, for the end reasons of all battles."""
    grid = Grid(width, height)
    totals, update = snapshot.episodes, snapshot.update
    if not totals.count or update is None:
        return grid.centre([NO_BATTLES])
    rows = [(name, getattr(update, field), role) for name, field, role in OUTCOMES]
    name_width = min(REASON_CELLS, max(5, round(width * REASON_SHARE)))
    grid.put(0, 0, f"newest {update.battles} battles" if update.battles else "recent battles", "dim")
    for y, (name, share, role) in enumerate(rows, start=1):
        draw_share(grid, y, name, name_width, share, theme, role)
    if height >= 7:
        grid.put(0, 5, f"end reasons of {count(totals.count)} battle{'s' * (totals.count > 1)}", "dim")
        reasons = sorted(totals.reasons.items(), key=lambda item: -item[1])
        for y, (name, n) in enumerate(reasons[: height - 6], start=6):
            draw_share(grid, y, ending_text(name), name_width, n / totals.count, theme, "series1")
    return grid
