"""The new-run form: preset, the most used options, one line for all others, and the start of the run."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textual import events
from textual.widget import Widget

from echelon.files import error_text
from echelon.runs import RunPaths
from echelon_cli.tui import actions
from echelon_cli.tui.format import wrap
from echelon_cli.tui.keys import Key, back_key, bindings, move_keys
from echelon_cli.tui.screens.base import BaseScreen
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate
from echelon_cli.tui.widgets.filter import PromptField

PRESET, OTHERS = "preset", "others"
"""First and last row of the form."""

OPTIONS = (
    "seed",
    "device",
    "total_steps",
    "max_minutes",
    "num_envs",
    "start_from",
    "opponents.mix",
    "ppo.lr",
    "ppo.ent_coef",
    "model.kind",
    "env.num_packs",
    "eval.every_updates",
)
"""Options with a row of their own; the last row has the others as KEY=VALUE."""

ROWS = (PRESET, *OPTIONS, OTHERS)

HELP = {
    PRESET: "Configuration that the run starts from; enter or p takes the next one.",
    OTHERS: "Other options as KEY=VALUE, separated by blanks; echelon config show lists them.",
    "opponents.mix": "Profile of opponents: scripted, self, past, league or exploiter.",
}

NAME_CELLS, VALUE_CELLS = 20, 24
DESCRIPTION_CELLS = 50
"""Columns of names and values, and the fewest remaining ones in which rows have descriptions."""


@dataclass(frozen=True)
class RunDraft:
    """A configuration being edited."""

    preset: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return the value of a row as it is typed."""
        if name == PRESET:
            return self.preset
        if name == OTHERS:
            changes = {key: value for key, value in self.changes.items() if key not in OPTIONS}
            return shlex.join(f"{key}={value_text(value)}" for key, value in changes.items())
        return value_text(self.changes.get(name, self.values.get(name, "")))

    def with_text(self, name: str, text: str) -> dict[str, Any]:
        """Return the changes after a row was edited; ``ValueError`` for text that is no assignment."""
        from echelon.jobs.config_layers import parse_assignment

        is_kept = (lambda key: key in OPTIONS) if name == OTHERS else (lambda key: key != name)
        assigned = shlex.split(text) if name == OTHERS else [f"{name}={text}"] if text.strip() else []
        return {key: value for key, value in self.changes.items() if is_kept(key)} | dict(
            parse_assignment(assignment) for assignment in assigned
        )

    @property
    def count(self) -> str:
        number = len(self.changes)
        return f"{number} change{'s' * (number != 1)}" if number else "no changes"


def value_text(value: Any) -> str:
    """Return a value as it is typed in the form."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def make_draft(preset: str, changes: Mapping[str, Any]) -> RunDraft:
    """Return the configuration of a preset with changes; ``ValueError`` with the reason if it is invalid."""
    from echelon.jobs.config_layers import field_descriptions, resolve

    return RunDraft(preset, dict(changes), resolve(preset, None, changes).values, field_descriptions() | HELP)


def cloned_changes(root: Path) -> tuple[str, dict[str, Any]]:
    """Return the preset of a run and its values that differ from it; fields that no longer exist are left out."""
    from echelon.config.presets import PRESETS
    from echelon.jobs.config_layers import DEFAULT_PRESET, flatten, resolve
    from echelon.jobs.spec import read_spec

    spec = read_spec(RunPaths(root))
    if spec.kind != "train":
        raise ValueError(f"run {root.name!r} is of kind {spec.kind!r}, expected a training run")
    stored = flatten(spec.config)
    preset = stored.get("preset") if stored.get("preset") in PRESETS else DEFAULT_PRESET
    values = resolve(str(preset), None, {}).values
    same = {key for key, value in values.items() if key not in stored or repr(stored[key]) == repr(value)}
    return str(preset), {key: stored[key] for key in values if key not in same and key != "preset"}


def draw_form(draft: RunDraft, cursor: int, size: tuple[int, int], theme: Theme) -> Grid:
    """Return a row per option, and the description of the selected one below them."""
    grid = Grid(*size)
    ellipsis = theme.symbols.ellipsis
    for y, name in enumerate(ROWS):
        is_changed = name in (PRESET, OTHERS) or name in draft.changes
        value_end = grid.width - 1 if name == OTHERS else 2 + NAME_CELLS + VALUE_CELLS
        value = truncate(draft.text(name), value_end - 2 - NAME_CELLS, ellipsis)
        grid.put(2, y, name)
        grid.put(2 + NAME_CELLS, y, value, "series1" if is_changed else "")
        if name != OTHERS and grid.width - value_end >= DESCRIPTION_CELLS:
            description = draft.descriptions.get(name, "")
            grid.put(value_end + 1, y, truncate(description, grid.width - value_end - 2, ellipsis), "dim")
    grid.put(0, cursor, theme.symbols.cursor)
    grid.fill(cursor, "cursor")
    lines = wrap(draft.descriptions.get(ROWS[cursor], ""), max(1, grid.width - 4))
    for y, line in enumerate(lines, start=len(ROWS) + 1):
        grid.put(2, y, line, "dim")
    return grid


class Form(CellView, can_focus=True):
    """The rows of the form with the cursor."""

    draft = RunDraft()
    cursor = 0

    @property
    def name_of_row(self) -> str:
        return ROWS[self.cursor]

    def move(self, by: int) -> None:
        self.cursor = max(0, min(len(ROWS) - 1, self.cursor + by))
        self.redraw()

    def draw(self, width: int, height: int) -> Grid:
        return draw_form(self.draft, self.cursor, (width, height), self.theme)

    def on_click(self, event: events.Click) -> None:
        if event.y < len(ROWS):
            self.cursor = event.y
            self.redraw()


class NewRunTitle(CellView):
    """The line above the form: preset and number of changes."""

    draft = RunDraft()

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        texts = [("new run", "bold"), (f"preset {self.draft.preset or '-'}", "series1"), (self.draft.count, "dim")]
        x = 1
        for text, role in texts:
            x = grid.put(x, 0, text, role) + 2
        return grid


class NewRunScreen(BaseScreen):
    """A form for the configuration of a run."""

    KEYS = (
        back_key("close; changes stay for the next time"),
        Key(keys="ctrl+s", shown="^s", action="start", label="start", help="start the run", rank=1),
        Key(keys="enter", action="edit", label="edit", help="edit the value", rank=2),
        Key(keys="p", action="preset", label="preset", help="next preset", rank=5),
        Key(keys="u", action="undo", label="undo", help="reset the row to the preset", rank=6),
        Key(keys="U", action="reset", label="", help="reset every option to the preset"),
        *move_keys("option"),
    )
    BINDINGS = bindings(KEYS)

    def __init__(self, cloned: Path | None = None) -> None:
        """Show the form as it was left, or with the options of the run in the folder ``cloned``."""
        super().__init__()
        self._cloned = cloned

    def compose_content(self) -> Iterable[Widget]:
        theme = self.dashboard.terminal_theme
        yield NewRunTitle(theme=theme, id="title")
        yield PromptField("", theme=theme, id="filter")
        yield Form(theme=theme, id="lines")

    def prepare(self) -> None:
        self.form.focus()
        from echelon.config.presets import PRESETS

        preset, changes = self.dashboard.draft or (next(iter(PRESETS)), {})
        if self._cloned is not None:
            try:
                preset, changes = cloned_changes(self._cloned)
            except (ValueError, OSError) as error:
                self.show_notice(error_text(error), "bad")
        elif changes:
            self.show_notice("the changes of last time; U resets them")
        self._change(preset, changes)

    @property
    def form(self) -> Form:
        return self.query_one(Form)

    @property
    def field(self) -> PromptField:
        return self.query_one(PromptField)

    def _change(self, preset: str, changes: Mapping[str, Any]) -> None:
        """Apply a preset and changes; invalid ones are reported and not applied."""
        from echelon.jobs.config_layers import SET

        async def work() -> None:
            try:
                draft = await asyncio.to_thread(make_draft, preset, changes)
            except ValueError as error:
                self.show_notice(str(error).replace(f" (from {SET})", ""), "bad")
                return
            self.form.draft = self.query_one(NewRunTitle).draft = draft
            self.dashboard.draft = draft.preset, draft.changes
            self._close_field()
            self.form.redraw()
            self.query_one(NewRunTitle).redraw()

        self.run_worker(work(), exclusive=True)

    def _close_field(self) -> None:
        self.field.display = False
        self.form.focus()

    def on_input_submitted(self) -> None:
        draft = self.form.draft
        try:
            changes = draft.with_text(self.form.name_of_row, self.field.value)
        except ValueError as error:
            self.show_notice(str(error), "bad")
            return
        self._change(draft.preset, changes)

    def action_edit(self) -> None:
        name = self.form.name_of_row
        if name == PRESET:
            self.action_preset()
            return
        self.field.prompt, self.field.value = name, self.form.draft.text(name)
        self.field.display = True
        self.field.focus()
        self.show_notice(f"{name}: type a value; enter applies it, esc cancels")

    def action_preset(self) -> None:
        from echelon.config.presets import PRESETS

        names, draft = list(PRESETS), self.form.draft
        if draft.preset in names:
            self._change(names[(names.index(draft.preset) + 1) % len(names)], draft.changes)

    def action_undo(self) -> None:
        draft = self.form.draft
        self._change(draft.preset, draft.with_text(self.form.name_of_row, ""))

    def action_reset(self) -> None:
        self._change(self.form.draft.preset, {})

    def action_move(self, by: int) -> None:
        self.form.move(by)

    def action_start(self) -> None:
        draft = self.form.draft
        if not draft.preset:
            return
        changes = f" and {draft.count}" if draft.changes else ""
        question = f"Start a run with preset {draft.preset}{changes}? It continues in the background after you quit."
        self.dashboard.confirm(question, lambda: self._start(draft))

    def _start(self, draft: RunDraft) -> None:
        async def work() -> None:
            self.show_notice("starting the run")
            root, (text, role) = await asyncio.to_thread(
                actions.start, self.dashboard.home, draft.preset, dict(draft.changes)
            )
            if root is None:
                self.show_notice(text, role)
                return
            self.dashboard.draft = None
            self.dashboard.switch_to_run(root)

        self.run_worker(work())

    def action_back(self) -> None:
        if self.field.display:
            self._close_field()
        else:
            super().action_back()
