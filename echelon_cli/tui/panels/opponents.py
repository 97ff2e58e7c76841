"""The panel of opponents: who is met in how many battles, and how often the learner wins against each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from echelon.arena.intervals import wilson_interval
from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.tui.format import percent
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, truncate

NAME_SHARE = 0.4
"""Share of the columns that names get at most."""

SHARE_CELLS = 4
WON_CELLS = 5
"""Columns of how often an opponent is met, and how often it is beaten."""

LEAST_BAR = 4

WORDS = {"self": "itself"}
"""Opponents whose name says little."""

SCRIPTED = "heuristic:"
EVEN = 0.5
"""Share of battles won against an equal."""


@dataclass(frozen=True)
class OpponentStats:
    """One opponent, or several of a kind together."""

    name: str
    met: float
    """Share of the environments it is met in now."""
    won: float
    """Share of the battles against it that were won in the whole run; not a number where there was none."""
    battles: int


class PanelOpponents(Panel):
    """Whom the learner meets."""

    def note(self) -> str:
        return "met now, and beaten so far"

    def body(self, width: int, height: int) -> Grid:
        return draw_opponents(opponent_stats(self.view.snapshot), width, height, self.theme)


def mix_includes(snapshot: RunSnapshot, *kinds: str, unknown: bool = True) -> bool:
    """Say whether a run meets opponents of these kinds, names of ``MixConfig``; ``unknown`` where it does not tell."""
    opponents = {} if snapshot.start is None else snapshot.start.config.get("opponents", {})
    mix = opponents.get("mix")
    return unknown if mix is None else any(mix.get(kind, 0.0) > 0 for kind in kinds)


def opponent_stats(snapshot: RunSnapshot) -> list[OpponentStats]:
    """Return every opponent of the run, those met most first."""
    met = snapshot.update.opponents if snapshot.update else {}
    against, places = snapshot.episodes.against, sum(met.values())
    found = []
    for name in {**against, **met}:
        wins, draws, losses = against.get(name, (0, 0, 0))
        battles = wins + draws + losses
        share = met.get(name, 0) / places if places else 0.0
        found.append(OpponentStats(name, share, wins / battles if battles else math.nan, battles))
    return sorted(found, key=lambda opponent: (-opponent.met, -opponent.battles, opponent.name))


def group_snapshots(opponents: Iterable[OpponentStats]) -> list[OpponentStats]:
    """Return opponents with all past selves as one."""
    kinds: dict[str, list[OpponentStats]] = {}
    for opponent in opponents:
        kind, _, number = opponent.name.partition(":")
        kinds.setdefault(kind if number.isdigit() else opponent.name, []).append(opponent)
    return [_together(kind, found) for kind, found in kinds.items()]


def _together(kind: str, opponents: list[OpponentStats]) -> OpponentStats:
    if len(opponents) == 1:
        return opponents[0]
    battles = sum(opponent.battles for opponent in opponents)
    wins = sum(opponent.won * opponent.battles for opponent in opponents if opponent.battles)
    met = sum(opponent.met for opponent in opponents)
    return OpponentStats(f"{len(opponents)} of {kind}", met, wins / battles if battles else math.nan, battles)


def draw_opponents(opponents: list[OpponentStats], width: int, height: int, theme: Theme) -> Grid:
    """Return a row for each: name, a bar of how often it is met, and the share of battles won against it."""
    grid = Grid(width, height)
    shown = opponents if len(opponents) < height else group_snapshots(opponents)
    if not shown:
        grid.put(0, 0, truncate("not told yet", width, theme.symbols.cut), "dim")
        return grid
    left_out = len(shown) - (height - 1)
    if left_out > 0:
        shown = shown[: height - 2]
        grid.put(0, height - 1, f"and {left_out + 1} more", "dim")
    names = [title(opponent.name) for opponent in shown]
    name_width = min(max(len(name) for name in names), round(width * NAME_SHARE))
    bar = width - name_width - SHARE_CELLS - WON_CELLS - 2
    at_share = width - WON_CELLS
    grid.right(at_share, 0, "met", "dim")
    grid.right(width, 0, "won", "dim")
    for y, (name, opponent) in enumerate(zip(names, shown, strict=True), start=1):
        grid.put(0, y, truncate(name, name_width, theme.symbols.cut))
        if bar >= LEAST_BAR:
            size = round(opponent.met * bar)
            spans = [(theme.symbols.line * size, "series1"), (theme.symbols.rest * (bar - size), "rest")]
            grid.spans(name_width + 1, y, spans)
        grid.right(at_share, y, percent(opponent.met), "series1")
        grid.right(width, y, percent(opponent.won), win_rate_role(opponent))
    return grid


def win_rate_role(opponent: OpponentStats) -> str:
    """Return the role of a share of battles won: whether it is beyond doubt more or less than half of them."""
    if not opponent.battles:
        return "dim"
    low, high = wilson_interval(round(opponent.won * opponent.battles), opponent.battles)
    return "good" if low > EVEN else "bad" if high < EVEN else ""


def title(name: str) -> str:
    """Return what a row calls an opponent."""
    return WORDS.get(name, name.removeprefix(SCRIPTED).replace(":", " "))
