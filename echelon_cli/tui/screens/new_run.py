"""The new-run form: preset, every configuration option with value, source and description, and the start of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from textual import events
from textual.widget import Widget
from textual.widgets import Input

from echelon.files import error_text
from echelon.runs import RunPaths
from echelon_cli.tui import actions
from echelon_cli.tui.format import wrap
from echelon_cli.tui.keys import Key, bindings
from echelon_cli.tui.screens.base import BaseScreen
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate
from echelon_cli.tui.widgets.filter import PromptField

HELP_ROWS = 3
"""Rows below the list for the description of the selected option."""

VALUE_SHARE = 0.3
VALUE_CELLS = 22
SOURCE_CELLS = 8
"""Columns of values (as a share of a narrow list, and in a list with descriptions) and of their sources."""

DESCRIPTION_CELLS = 40
"""Remaining columns from which every row has its description."""

COMMON: tuple[str, ...] = (
    "seed",
    "device",
    "total_steps",
    "max_minutes",
    "num_envs",
    "start_from",
    "teacher.policy",
    "ppo.lr",
    "ppo.gamma",
    "ppo.ent_coef",
    "ppo.rollout_steps",
    "model.kind",
    "env.num_packs",
    "env.world.size_x",
    "env.world.size_y",
    "eval.every_updates",
)
"""Options at the top of the list; the others follow in the order of the configuration."""


@dataclass(frozen=True)
class RunDraft:
    """A configuration being edited."""

    preset: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)

    def row(self, key: str) -> tuple[str, str, str]:
        """Return key, value and source of an option as text."""
        value = self.values.get(key)
        return key, value_text(value), self.provenance.get(key, "default")


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

    resolved = resolve(preset, None, changes)
    values = {key: resolved.values[key] for key in dict.fromkeys((*COMMON, *resolved.values))}
    return RunDraft(preset, dict(changes), values, resolved.provenance, field_descriptions())


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


def draw_options(
    draft: RunDraft, keys: Sequence[str], cursor: int, top: int, size: tuple[int, int], theme: Theme
) -> Grid:
    """Return the rows of the options from ``top`` on, and the description of the selected one below them."""
    grid = Grid(*size)
    width, rows = grid.width, grid.height - HELP_ROWS
    value_cells = round(VALUE_SHARE * width)
    key_cells = width - value_cells - SOURCE_CELLS - 6
    longest = max((cell_len(key) for key in draft.values), default=0)
    description_cells = width - (longest + VALUE_CELLS + SOURCE_CELLS + 10)
    if description_cells >= DESCRIPTION_CELLS:
        key_cells, value_cells = longest, VALUE_CELLS
    end = 6 + key_cells + value_cells + SOURCE_CELLS if description_cells >= DESCRIPTION_CELLS else width - 1
    for y, key in enumerate(keys[top : top + rows]):
        name, value, source = draft.row(key)
        changed = source != "default"
        grid.put(2, y, truncate(name, key_cells, theme.symbols.ellipsis))
        grid.put(4 + key_cells, y, truncate(value, value_cells, theme.symbols.ellipsis), "series1" if changed else "")
        grid.right(
            end, y, truncate(source, SOURCE_CELLS, theme.symbols.ellipsis), "mark" if source == "--set" else "dim"
        )
        if description_cells >= DESCRIPTION_CELLS:
            description = truncate(draft.descriptions.get(key, ""), width - end - 3, theme.symbols.ellipsis)
            grid.put(end + 2, y, description, "dim")
        if top + y == cursor:
            grid.put(0, y, theme.symbols.cursor)
            grid.fill(y, "cursor")
    if 0 <= cursor < len(keys):
        lines = wrap(draft.descriptions.get(keys[cursor], ""), max(1, width - 4))
        for y, line in enumerate(lines[: HELP_ROWS - 1], start=rows + 1):
            grid.put(2, y, line, "dim")
    return grid


class OptionTable(CellView, can_focus=True):
    """The list of options with its cursor."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.draft = RunDraft()
        self.query_text = ""
        self.cursor, self._top = 0, 0

    @property
    def keys(self) -> list[str]:
        """Options whose name, value or description contains every word of the filter."""
        words = self.query_text.lower().split()
        d = self.draft
        return [
            key
            for key in d.values
            if all(word in f"{key} {value_text(d.values[key])} {d.descriptions.get(key, '')}".lower() for word in words)
        ]

    @property
    def key(self) -> str:
        """The selected option, empty without one."""
        keys = self.keys
        return keys[self.cursor] if self.cursor < len(keys) else ""

    @property
    def page(self) -> int:
        return max(1, self.size.height - HELP_ROWS)

    def move(self, by: int) -> None:
        """Move the cursor by ``by`` options."""
        self.cursor = max(0, min(len(self.keys) - 1, self.cursor + by))
        self.redraw()

    def draw(self, width: int, height: int) -> Grid:
        keys = self.keys
        if not keys:
            grid = Grid(width, height)
            text = f"no option matches {self.query_text!r}" if self.draft.values else "loading presets"
            grid.put(2, height // 2, truncate(text, width - 4, self.theme.symbols.ellipsis), "dim")
            return grid
        self.cursor = max(0, min(len(keys) - 1, self.cursor))
        self._top = max(self.cursor - self.page + 1, min(self._top, self.cursor, max(0, len(keys) - self.page)))
        return draw_options(self.draft, keys, self.cursor, self._top, (width, height), self.theme)

    def on_click(self, event: events.Click) -> None:
        if event.y < min(self.page, len(self.keys) - self._top):
            self.cursor = self._top + event.y
            self.redraw()

    def on_mouse_scroll_down(self) -> None:
        self.move(1)

    def on_mouse_scroll_up(self) -> None:
        self.move(-1)


class NewRunTitle(CellView):
    """The line above the list: preset and number of changes."""

    draft = RunDraft()
    filtered = ""
    """Filter and number of options that match it; empty without a filter."""

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        x = grid.put(1, 0, "new run", "bold") + 2
        x = grid.put(x, 0, f"preset {self.draft.preset or '-'}", "series1") + 2
        count = len(self.draft.changes)
        x = grid.put(x, 0, f"{count} change{'s' * (count != 1)}" if count else "no changes", "dim") + 2
        grid.put(x, 0, truncate(self.filtered, max(0, width - x - 1), self.theme.symbols.ellipsis), "warn")
        return grid


class NewRunScreen(BaseScreen):
    """A form with every configuration option."""

    KEYS = (
        Key(
            keys="escape",
            shown="esc",
            action="back",
            label="back",
            help="close; changes stay for the next time",
            rank=2,
        ),
        Key(keys="ctrl+s", shown="^s", action="start", label="start", help="start the run", rank=1),
        Key(keys="enter", action="edit", label="edit", help="edit the value", rank=2),
        Key(keys="slash", shown="/", action="filter", label="filter", help="filter options by words", rank=4),
        Key(keys="p", action="preset", label="preset", help="next preset", rank=5),
        Key(keys="u", action="undo", label="undo", help="reset the option to the preset", rank=6),
        Key(keys="U", action="reset", label="", help="reset every option to the preset"),
        Key(keys="up,k", action="move(-1)", label="", help="previous option"),
        Key(keys="down,j", action="move(1)", label="", help="next option"),
        Key(keys="pageup", action="page(-1)", label="", help="page up"),
        Key(keys="pagedown", action="page(1)", label="", help="page down"),
        Key(keys="home", action="move(-1000000)", label="", help="first option"),
        Key(keys="end", action="move(1000000)", label="", help="last option"),
    )
    BINDINGS = bindings(KEYS)

    def __init__(self, cloned: Path | None = None) -> None:
        """Show the form as it was left, or with the options of the run in the folder ``cloned``."""
        super().__init__()
        self._editing = ""
        """The option being edited; empty while the field is the filter."""
        self._cloned = cloned

    def compose_content(self) -> Iterable[Widget]:
        theme = self.dashboard.terminal_theme
        yield NewRunTitle(theme=theme, id="title")
        yield PromptField("filter", theme=theme, id="filter")
        yield OptionTable(theme=theme, id="lines")

    def prepare(self) -> None:
        self.options.focus()
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
    def options(self) -> OptionTable:
        return self.query_one(OptionTable)

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
            self.options.draft, self.dashboard.draft = draft, (draft.preset, draft.changes)
            self.options.redraw()
            self._close_field()
            self._update_title()

        self.run_worker(work(), exclusive=True)

    def _open_field(self, editing: str, value: str, hint: str) -> None:
        self._editing = editing
        self.field.placeholder, self.field.prompt = hint, editing or "filter"
        self.field.display = True
        self.field.value = value
        self.field.focus()

    def _update_title(self) -> None:
        title, options = self.query_one(NewRunTitle), self.options
        title.draft = options.draft
        matching = f"filter {options.query_text!r}: {len(options.keys)} of {len(options.draft.values)} options"
        title.filtered = matching if options.query_text else ""
        title.redraw()

    def _close_field(self) -> None:
        """Return to the list; a filter that is applied stays on the screen."""
        self._editing = ""
        self.field.prompt, self.field.value = "filter", self.options.query_text
        self.field.display = bool(self.options.query_text)
        self.options.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if not self._editing and self.field.display and event.value != self.options.query_text:
            self.options.query_text = event.value
            self.options.cursor = 0
            self.options.redraw()
            self._update_title()

    def on_input_submitted(self) -> None:
        if not self._editing:
            self._close_field()
            return
        from echelon.jobs.config_layers import parse_assignment

        draft = self.options.draft
        key, value = parse_assignment(f"{self._editing}={self.field.value}")
        self._change(draft.preset, {**draft.changes, key: value})

    def action_edit(self) -> None:
        key = self.options.key
        if key:
            self._open_field(key, self.options.draft.row(key)[1], key)
            self.show_notice(f"{key}: type a value; enter applies it, esc cancels")

    def action_filter(self) -> None:
        self._open_field("", self.options.query_text, "words of name, value or description")

    def action_preset(self) -> None:
        from echelon.config.presets import PRESETS

        names, draft = list(PRESETS), self.options.draft
        if draft.preset in names:
            self._change(names[(names.index(draft.preset) + 1) % len(names)], draft.changes)
            if len(names) == 1:
                self.show_notice(f"{names[0]} is the only preset")

    def action_undo(self) -> None:
        draft = self.options.draft
        self._change(draft.preset, {key: value for key, value in draft.changes.items() if key != self.options.key})

    def action_reset(self) -> None:
        self._change(self.options.draft.preset, {})

    def action_move(self, by: int) -> None:
        self.options.move(by)

    def action_page(self, by: int) -> None:
        self.options.move(by * self.options.page)

    def action_start(self) -> None:
        draft = self.options.draft
        if not draft.preset:
            return
        count = len(draft.changes)
        changes = f" and {count} change{'s' * (count > 1)}" if count else ""
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
        if self._editing:
            self._close_field()
        elif self.field.display:
            self.options.query_text = self.field.value = ""
            self._close_field()
            self._update_title()
            self.options.redraw()
        else:
            self.dashboard.pop_screen()
