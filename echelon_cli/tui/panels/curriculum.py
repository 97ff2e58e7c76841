"""The curriculum panel: current values of the curriculum parameters, and their changes, newest first."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from echelon.telemetry.events import EventCurriculum
from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.output import count, measured
from echelon_cli.tui.format import wrap
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.panels.opponents import mix_includes
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, Span, ValueRow, draw_values, truncate

SKILL = "skill"
"""The parameter that sets ``opponents.skill``, used only by scripted opponents of the mix."""

DEFAULT_REASON = "schedule"
"""The reason of a change that is not shown."""

HISTORY_ROWS = 6
"""Rows reserved for changes before parameters get extra rows for bars and long names."""

PARAMETER_CELLS = 40
TABLE_FROM = 48

UPDATE_CELLS, STEPS_CELLS, GAP = 6, 14, 2
"""Columns of update and steps in that table, and the gap after the other columns."""

CHANGES_TITLE = "recent changes"

Lines = list[list[Span]]


@dataclass(frozen=True)
class ParameterChange:
    """One change of one curriculum parameter."""

    update: int
    steps: int
    name: str
    before: Any
    after: Any
    reason: str = ""

    @property
    def label(self) -> str:
        return parameter_label(self.name)

    @property
    def values(self) -> str:
        return f"{value_text(self.before)} to {value_text(self.after)}"

    @property
    def shown_reason(self) -> str:
        return "" if self.reason == DEFAULT_REASON else self.reason

    @property
    def text(self) -> str:
        return f"{self.update} {self.label} {self.values}{', ' if self.shown_reason else ''}{self.shown_reason}"


class PanelCurriculum(Panel):
    """Curriculum parameters and their changes."""

    def note(self) -> str:
        changes = len(changes_of(self.view.snapshot))
        return f"{changes} change{'s' * (changes > 1)}" if changes else ""

    def body(self, width: int, height: int) -> Grid:
        snapshot = self.view.snapshot
        return draw_curriculum(parameters_of(snapshot), changes_of(snapshot), width, height, self.theme)


def parameters_of(snapshot: RunSnapshot) -> dict[str, Any]:
    values = dict(snapshot.moves[-1].parameters) if snapshot.moves else {}
    if snapshot.update:
        values |= snapshot.update.curriculum
    return _in_use(values, snapshot)


def changes_of(snapshot: RunSnapshot) -> list[ParameterChange]:
    """Return all known changes, newest first."""
    states = [(event, _in_use(event.parameters, snapshot)) for event in snapshot.moves]
    pairs = pairwise(states)
    changes = [change for (_, before), (event, after) in pairs for change in _differences(event, before, after)]
    return changes[::-1]


def _differences(event: EventCurriculum, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[Any]:
    for name, value in after.items():
        if name in before and before[name] != value:
            yield ParameterChange(event.update, event.global_step, name, before[name], value, event.reason)


def _in_use(values: Mapping[str, Any], snapshot: RunSnapshot) -> dict[str, Any]:
    """Return the parameters that affect the run."""
    has_scripted = mix_includes(snapshot, "scripted")
    return {name: value for name, value in values.items() if name != SKILL or has_scripted}


def draw_curriculum(
    parameters: Mapping[str, Any], changes: Sequence[ParameterChange], width: int, height: int, theme: Theme
) -> Grid:
    """Return name and value of each parameter, with bars for shares where rows allow, and the changes below."""
    grid = Grid(width, height)
    if not parameters:
        grid.put(0, 0, truncate("no parameters", width, theme.symbols.ellipsis), "dim")
        return grid
    entries = change_lines(changes, width)
    reserved = 1 + min(HISTORY_ROWS, sum(len(entry) for entry in entries)) if changes else 0
    rows = [ValueRow(parameter_label(name), value_text(value), _share(value)) for name, value in parameters.items()]
    y = draw_values(grid, rows, min(width, PARAMETER_CELLS), height - reserved - len(rows), theme)
    if changes and y + 2 <= height:
        grid.paste(0, y, draw_changes(entries, width, height - y))
    return grid


def _share(value: Any) -> float:
    return value if isinstance(value, float) and 0 <= value <= 1 else math.nan


def draw_changes(entries: Sequence[Lines], width: int, height: int) -> Grid:
    """Return as many changes as fit below a title, and the number of older ones."""
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


def change_lines(changes: Sequence[ParameterChange], width: int) -> list[Lines]:
    """Return each change as one line of a table, or wrapped where ``width`` is below ``TABLE_FROM``."""
    if width < TABLE_FROM:
        return [[[(line, "")] for line in wrap(change.text, width, indent=1)] for change in changes]
    label_width = max((len(change.label) for change in changes), default=0) + GAP
    values_width = max((len(change.values) for change in changes), default=0) + GAP
    return [
        [
            [
                (f"{change.update:>{UPDATE_CELLS}}  {f'{count(change.steps)} steps':<{STEPS_CELLS}}", "dim"),
                (f"{change.label:<{label_width}}", ""),
                (f"{change.values:<{values_width}}", "series1"),
                (change.shown_reason, "dim"),
            ]
        ]
        for change in changes
    ]


def parameter_label(name: str) -> str:
    return name.replace("_range", "").replace("_", " ")


def value_text(value: Any) -> str:
    """Return the value of a parameter as short text: a number, a range or a name."""
    if isinstance(value, (list, tuple)):
        return "-".join(dict.fromkeys(str(end) for end in value))
    return measured(value) if isinstance(value, float) else str(value)
