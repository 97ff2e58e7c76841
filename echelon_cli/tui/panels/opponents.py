"""The opponents panel: the current share of each opponent, and the recent and whole-run win rates against it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from echelon.statistics import wilson_interval
from echelon.telemetry.snapshot import RECENT_BATTLES, RunSnapshot
from echelon_cli.listing import opponent_name
from echelon_cli.output import percent
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, share_bar, truncate

NAME_SHARE = 0.4
SHARE_CELLS = 6
RATE_COLUMNS = (("recent", 7), ("whole run", 10))
"""Columns of the shares, and name and width of those of the win rates."""

WHOLE_FROM = 34
MIN_BAR = 4

EVEN = 0.5


@dataclass(frozen=True)
class OpponentStats:
    """One opponent, or several snapshots as one."""

    name: str
    share: float
    """Share of the environments with this opponent now."""
    win_rate: float
    """Win rate of the newest battles against it; NaN before the first battle."""
    battles: int
    """Battles that the win rate is taken over."""
    whole: float = math.nan
    """Win rate of all battles against it."""
    whole_battles: int = 0


class PanelOpponents(Panel):
    """Opponents sampled, and the win rate against each."""

    def note(self) -> str:
        return f"share now; win rate, recent: newest {RECENT_BATTLES} battles each"

    def body(self, width: int, height: int) -> Grid:
        return draw_opponents(opponent_stats(self.view.snapshot), width, height, self.theme)


def mix_includes(snapshot: RunSnapshot, *kinds: str, unknown: bool = True) -> bool:
    """Return whether the opponent mix has any of these kinds (fields of ``MixConfig``); ``unknown`` without a mix."""
    config = {} if snapshot.start is None else snapshot.start.config.get("opponents", {})
    mix = config.get("mix")
    return unknown if mix is None else any(mix.get(kind, 0.0) > 0 for kind in kinds)


def opponent_stats(snapshot: RunSnapshot) -> list[OpponentStats]:
    """Return all opponents of the run, the largest current share first."""
    environments = snapshot.update.opponents if snapshot.update else {}
    results, total = snapshot.episodes.against, sum(environments.values())
    found = []
    for name in {**results, **environments}:
        battles = sum(results.get(name, (0,)))
        share = environments.get(name, 0) / total if total else 0.0
        whole = snapshot.episodes.whole.get(name, (0, 0, 0))
        rates = [counts[0] / sum(counts) if sum(counts) else math.nan for counts in (results.get(name, (0,)), whole)]
        found.append(OpponentStats(name, share, rates[0], battles, rates[1], sum(whole)))
    return sorted(found, key=lambda opponent: (-opponent.share, -opponent.battles, opponent.name))


def group_snapshots(opponents: Iterable[OpponentStats]) -> list[OpponentStats]:
    """Return the opponents with all past snapshots of a kind combined."""
    kinds: dict[str, list[OpponentStats]] = {}
    for opponent in opponents:
        kind, _, number = opponent.name.partition(":")
        kinds.setdefault(kind if number.isdigit() else opponent.name, []).append(opponent)
    return [_combined(kind, members) for kind, members in kinds.items()]


def _combined(kind: str, members: list[OpponentStats]) -> OpponentStats:
    if len(members) == 1:
        return members[0]
    rates, counts = [], []
    for rate, battles in (("win_rate", "battles"), ("whole", "whole_battles")):
        counts.append(sum(getattr(opponent, battles) for opponent in members))
        wins = sum(getattr(o, rate) * getattr(o, battles) for o in members if getattr(o, battles))
        rates.append(wins / counts[-1] if counts[-1] else math.nan)
    share = sum(opponent.share for opponent in members)
    return OpponentStats(f"{len(members)} of {kind}", share, rates[0], counts[0], rates[1], counts[1])


def draw_opponents(opponents: list[OpponentStats], width: int, height: int, theme: Theme) -> Grid:
    """Return a row per opponent: name, bar and share of environments, win rate."""
    grid = Grid(width, height)
    shown = opponents if len(opponents) < height else group_snapshots(opponents)
    if not shown:
        grid.put(0, 0, truncate("no data yet", width, theme.symbols.ellipsis), "dim")
        return grid
    excess = len(shown) - (height - 1)
    if excess > 0:
        shown = shown[: height - 2]
        grid.put(0, height - 1, f"and {excess + 1} more", "dim")
    names = [opponent_name(opponent.name) for opponent in shown]
    columns = RATE_COLUMNS[: 2 if width >= WHOLE_FROM else 1]
    rate_cells = sum(cells for _, cells in columns)
    share_end = width - rate_cells
    name_width = min(max(len(name) for name in names), round(width * NAME_SHARE), share_end - SHARE_CELLS)
    bar_width = share_end - SHARE_CELLS - name_width - 1
    recent_end = share_end + columns[0][1]
    for x, name in zip((share_end, recent_end, width), ("share", *(name for name, _ in columns)), strict=False):
        grid.right(x, 0, name, "dim")
    for y, (name, opponent) in enumerate(zip(names, shown, strict=True), start=1):
        grid.put(0, y, truncate(name, name_width, theme.symbols.ellipsis))
        if bar_width >= MIN_BAR:
            grid.spans(name_width + 1, y, share_bar(opponent.share, bar_width, theme))
        grid.right(share_end, y, percent(opponent.share), "series1")
        grid.right(recent_end, y, percent(opponent.win_rate), win_rate_role(opponent.win_rate, opponent.battles))
        if len(columns) > 1:
            grid.right(width, y, percent(opponent.whole), win_rate_role(opponent.whole, opponent.whole_battles))
    return grid


def win_rate_role(rate: float, battles: int) -> str:
    """Return the role of a win rate: good or bad where its 95 % interval excludes one half."""
    if not battles:
        return "dim"
    low, high = wilson_interval(round(rate * battles), battles)
    return "good" if low > EVEN else "bad" if high < EVEN else ""
