"""The panel of the curriculum: where its levers stand, and which of them moved when, the newest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from echelon.telemetry.events import EventCurriculum
from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.tui.format import count, measured
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.panels.log import wrap
from echelon_cli.tui.panels.opponents import mix_includes
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, Span, truncate

SKILL = "skill"
"""The lever that sets the level of the scripted pilots of ``opponents.skill``, and of nobody else."""

DEFAULT_REASON = "schedule"
"""The reason that goes without saying."""

HISTORY_ROWS = 6
"""Rows that moves get before levers get rows of their own for bars and long names."""

PARAMETER_CELLS = 40
"""Most columns between a lever's name and its value."""

TABLE_FROM = 48
"""Columns from which moves are a table."""

UPDATE_CELLS, STEPS_CELLS, GAP = 6, 14, 2
"""Columns of that table, and between those that are as wide as what stands in them."""

CHANGES_TITLE = "moves, by update"

Lines = list[list[Span]]


@dataclass(frozen=True)
class ParameterChange:
    """One lever moved."""

    update: int
    steps: int
    name: str
    before: Any
    after: Any
    reason: str = ""

    @property
    def lever(self) -> str:
        return parameter_label(self.name)

    @property
    def change(self) -> str:
        return f"{value_text(self.before)} to {value_text(self.after)}"

    @property
    def why(self) -> str:
        return "" if self.reason == DEFAULT_REASON else self.reason

    @property
    def words(self) -> str:
        return f"{self.update} {self.lever} {self.change}{', ' if self.why else ''}{self.why}"


class PanelCurriculum(Panel):
    """The levers that make the task harder, where they stand, and how they got there."""

    def note(self) -> str:
        moved = len(changes_of(self.view.snapshot))
        return f"{moved} move{'s' * (moved > 1)}" if moved else ""

    def body(self, width: int, height: int) -> Grid:
        snapshot = self.view.snapshot
        return draw_curriculum(parameters_of(snapshot), changes_of(snapshot), width, height, self.theme)


def parameters_of(snapshot: RunSnapshot) -> dict[str, Any]:
    """Return the newest value of every lever that matters to a run."""
    levers = dict(snapshot.moves[-1].levers) if snapshot.moves else {}
    if snapshot.update:
        levers |= snapshot.update.curriculum
    return _relevant(levers, snapshot)


def changes_of(snapshot: RunSnapshot) -> list[ParameterChange]:
    """Return every move that is known, the newest first."""
    told = [(event, _relevant(event.levers, snapshot)) for event in snapshot.moves]
    found = [move for (_, before), (event, after) in pairwise(told) for move in _changes_between(event, before, after)]
    return found[::-1]


def _changes_between(
    event: EventCurriculum, before: dict[str, Any], after: dict[str, Any]
) -> Iterable[ParameterChange]:
    for name, value in after.items():
        if name in before and before[name] != value:
            yield ParameterChange(event.update, event.global_step, name, before[name], value, event.reason)


def _relevant(levers: dict[str, Any], snapshot: RunSnapshot) -> dict[str, Any]:
    """Return levers without those that nobody meets; one of several values is as many levers."""
    found: dict[str, Any] = {}
    for name, value in levers.items():
        if name == SKILL and not mix_includes(snapshot, "scripted"):
            continue
        found |= {f"{key} ({name})": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
    return found


def draw_curriculum(
    levers: dict[str, Any], moves: Sequence[ParameterChange], width: int, height: int, theme: Theme
) -> Grid:
    """Return each lever's name and value, below a share its bar where there is room, and below them the moves."""
    grid, cut = Grid(width, height), theme.symbols.cut
    if not levers:
        grid.put(0, 0, truncate("nothing moves", width, cut), "dim")
        return grid
    entries = history(moves, width)
    wanted = 1 + min(HISTORY_ROWS, sum(len(entry) for entry in entries)) if moves else 0
    y, wide = 0, min(width, PARAMETER_CELLS)
    rows = [(parameter_label(name), truncate(value_text(value), wide, cut), value) for name, value in levers.items()]
    spare = height - wanted - len(rows)
    for name, shown, value in rows:
        beside = wide - len(shown) - 1
        if len(name) > beside and spare > 0:
            grid.put(0, y, truncate(name, wide, cut))
            y, spare = y + 1, spare - 1
        else:
            grid.put(0, y, truncate(name, beside, cut))
        grid.right(wide, y, shown, "series1")
        y += 1
        if spare > 0 and isinstance(value, float) and 0 <= value <= 1:
            size = round(value * wide)
            grid.spans(0, y, [(theme.symbols.line * size, "series1"), (theme.symbols.rest * (wide - size), "rest")])
            y, spare = y + 1, spare - 1
    if moves and y + 2 <= height:
        grid.paste(0, y, draw_changes(entries, width, height - y))
    return grid


def draw_changes(entries: Sequence[Lines], width: int, height: int) -> Grid:
    """Return as many moves as fit under their title, and how many older ones there are."""
    grid = Grid(width, height)
    grid.put(0, 0, CHANGES_TITLE, "dim")
    y = 1
    for i, entry in enumerate(entries):
        is_last = i + 1 == len(entries)
        if y + len(entry) + (not is_last) > height:
            if y < height:
                grid.put(0, y, f"and {len(entries) - i} older", "dim")
            break
        for line in entry:
            grid.spans(0, y, line)
            y += 1
    return grid


def history(moves: Sequence[ParameterChange], width: int) -> list[Lines]:
    """Return every move as one line of a table, or as words in as many lines as they take."""
    if width < TABLE_FROM:
        return [[[(line, "")] for line in wrap(move.words, width, indent=1)] for move in moves]
    wide = {part: max((len(getattr(move, part)) for move in moves), default=0) + GAP for part in ("lever", "change")}
    return [
        [
            [
                (f"{move.update:>{UPDATE_CELLS}}  {f'{count(move.steps)} steps':<{STEPS_CELLS}}", "dim"),
                (f"{move.lever:<{wide['lever']}}", ""),
                (f"{move.change:<{wide['change']}}", "series1"),
                (move.why, "dim"),
            ]
        ]
        for move in moves
    ]


def parameter_label(name: str) -> str:
    """Return a lever's name as words."""
    return name.replace("_range", "").replace("_", " ")


def value_text(value: Any) -> str:
    """Return a lever's value in a few letters: a number, a range, names, or a name."""
    if isinstance(value, (list, tuple)):
        if any(isinstance(part, str) for part in value) or not value:
            return ", ".join(map(str, value)) or "none"
        return "-".join(str(end) for end in dict.fromkeys(value))
    return measured(value) if isinstance(value, float) else str(value)
