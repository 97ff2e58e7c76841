"""The new-run form: preset, common options, then all options in folded groups with a search; and the start."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textual import events
from textual.widget import Widget
from textual.widgets import Input

from echelon.files import error_text
from echelon.runs import RunPaths
from echelon_cli.tui import actions
from echelon_cli.tui.format import wrap
from echelon_cli.tui.keys import Key, back_key, bindings, move_keys
from echelon_cli.tui.screens.base import BaseScreen
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate
from echelon_cli.tui.widgets.filter import PromptField
from echelon_cli.tui.widgets.table import first_visible

PRESET = "preset"
"""First row of the form."""

RUN = "run"
"""Group of the options without a section."""

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
"""Common options, first in the form; they are in their groups as well."""

HELP = {
    PRESET: "Configuration that the run starts from; enter or p takes the next one.",
    "opponents.mix": "Profile of opponents: scripted, self, past, league or exploiter.",
}

VALUE_CELLS, DESCRIPTION_CELLS = 20, 40
"""Columns of values, and the fewest remaining ones in which rows have descriptions."""

HELP_ROWS = 4
"""Rows below the form with the description of the selected row."""


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
        return value_text(self.changes.get(name, self.values.get(name, "")))

    def with_text(self, name: str, text: str) -> dict[str, Any]:
        """Return the changes after a row was edited; ``ValueError`` for text that is no assignment."""
        from echelon.jobs.config_layers import parse_assignment

        kept = {key: value for key, value in self.changes.items() if key != name}
        return kept | dict([parse_assignment(f"{name}={text}")] if text.strip() else [])

    @property
    def count(self) -> str:
        number = len(self.changes)
        return f"{number} change{'s' * (number != 1)}" if number else "no changes"


def value_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class FormRow:
    """One row of the form: an option, or the heading of a group."""

    name: str
    group: tuple[str, ...] = ()
    """Options of the group that the row is the heading of."""


def form_rows(draft: RunDraft, unfolded: Collection[str], query: str) -> list[FormRow]:
    """Return preset and common options, then every group, with its options where it is unfolded; or what is found."""
    words = query.lower().split()
    if words:
        texts = {name: f"{name} {draft.descriptions.get(name, '')}".lower() for name in (PRESET, *draft.values)}
        found = [name for name, text in texts.items() if all(word in text for word in words)]
        return [FormRow(name) for name in sorted(found, key=lambda name: not all(word in name for word in words))]
    rows = [FormRow(name) for name in (PRESET, *OPTIONS)]
    groups: dict[str, list[str]] = {}
    for name in draft.values:
        if name != PRESET:
            groups.setdefault(name.partition(".")[0] if "." in name else RUN, []).append(name)
    for group, names in groups.items():
        rows.append(FormRow(group, tuple(names)))
        rows += [FormRow(name) for name in names if group in unfolded]
    return rows


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


def draw_form(
    draft: RunDraft,
    rows: Sequence[FormRow],
    cursor: int,
    unfolded: Collection[str],
    size: tuple[int, int],
    theme: Theme,
) -> Grid:
    """Return the rows around the cursor, and the description of the selected one below them."""
    grid = Grid(*size)
    ellipsis, listed = theme.symbols.ellipsis, max(1, grid.height - HELP_ROWS)
    if not rows:
        return grid.centre(["no option matches; esc shows all"])
    names = min(grid.width // 2, max(len(row.name) for row in rows) + 5)
    top, end = first_visible(cursor, len(rows), listed), names + VALUE_CELLS
    for y, row in enumerate(rows[top : top + listed]):
        if row.group:
            changed = len(draft.changes.keys() & set(row.group))
            fold = theme.symbols.down if row.name in unfolded else theme.symbols.cursor
            grid.put(2, y, f"{fold} {row.name}", "title")
            grid.put(names, y, f"{len(row.group)} options" + (f", {changed} changed" if changed else ""), "dim")
        else:
            indent = 2 * any(above.group for above in rows[: top + y])
            grid.put(2 + indent, y, truncate(row.name, names - 3 - indent, ellipsis))
            role = "series1" if row.name in draft.changes else ""
            grid.put(names, y, truncate(draft.text(row.name), VALUE_CELLS - 1, ellipsis), role)
            if grid.width - end >= DESCRIPTION_CELLS:
                grid.put(end, y, truncate(draft.descriptions.get(row.name, ""), grid.width - end - 2, ellipsis), "dim")
    grid.put(0, cursor - top, theme.symbols.cursor)
    grid.fill(cursor - top, "cursor")
    selected = rows[cursor]
    text = draft.descriptions.get(selected.name, "") or (f"Options of {selected.name}." if selected.group else "")
    for y, line in enumerate(wrap(text, max(1, grid.width - 4))[: HELP_ROWS - 1], start=min(len(rows), listed) + 1):
        grid.put(2, y, line, "dim")
    return grid


class Form(CellView, can_focus=True):
    """The rows of the form with the cursor."""

    draft = RunDraft()
    cursor = 0
    search = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.unfolded: set[str] = set()

    @property
    def rows(self) -> list[FormRow]:
        return form_rows(self.draft, self.unfolded, self.search)

    @property
    def row(self) -> FormRow:
        rows = self.rows
        return rows[min(self.cursor, len(rows) - 1)] if rows else FormRow("")

    def move(self, by: int) -> None:
        self.cursor = max(0, min(len(self.rows) - 1, self.cursor + by))
        self.redraw()

    def fold(self) -> None:
        """Unfold or fold the selected group."""
        self.unfolded ^= {self.row.name}
        self.redraw()

    def find(self, query: str) -> None:
        self.search, self.cursor = query, 0
        self.redraw()

    def draw(self, width: int, height: int) -> Grid:
        return draw_form(self.draft, self.rows, self.cursor, self.unfolded, (width, height), self.theme)

    def on_click(self, event: events.Click) -> None:
        listed = max(1, self.size.height - HELP_ROWS)
        if event.y < min(len(self.rows), listed):
            self.cursor = first_visible(self.cursor, len(self.rows), listed) + event.y
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
        Key("ctrl+s", "start", "start", "start the run", shown="^s", rank=1),
        Key("enter", "edit", "edit", "edit the value, or unfold the group", rank=2),
        Key("slash", "find", "find", "find options by words", shown="/", rank=3),
        Key("p", "preset", "preset", "next preset", rank=5),
        Key("u", "undo", "undo", "reset the row to the preset", rank=6),
        Key("U", "reset", "", "reset every option to the preset"),
        *move_keys("option", pages=True),
    )
    BINDINGS = bindings(KEYS)

    def __init__(self, cloned: Path | None = None) -> None:
        """Show the form as it was left, or with the options of the run in the folder ``cloned``."""
        super().__init__()
        self._cloned = cloned
        self._finds = False
        """Whether the text field searches, rather than edits a value."""

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

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._finds:
            self.form.find(event.value)

    def on_input_submitted(self) -> None:
        draft = self.form.draft
        if self._finds:
            self._close_field()
            return
        try:
            changes = draft.with_text(self.form.row.name, self.field.value)
        except ValueError as error:
            self.show_notice(str(error), "bad")
            return
        self._change(draft.preset, changes)

    def action_edit(self) -> None:
        row, name = self.form.row, self.form.row.name
        if name == PRESET:
            self.action_preset()
        if row.group:
            self.form.fold()
        if name in ("", PRESET) or row.group:
            return
        self._open_field(name, self.form.draft.text(name))
        self.show_notice(f"{name}: type a value; enter applies it, esc cancels")

    def _open_field(self, prompt: str, value: str, *, finds: bool = False) -> None:
        self._finds = finds
        self.field.prompt, self.field.value = prompt, value
        self.field.display = True
        self.field.focus()

    def action_find(self) -> None:
        self._open_field("find", self.form.search, finds=True)

    def action_page(self, by: int) -> None:
        self.form.move(by * max(1, self.form.size.height - HELP_ROWS))

    def action_preset(self) -> None:
        from echelon.config.presets import PRESETS

        names, draft = list(PRESETS), self.form.draft
        if draft.preset in names:
            self._change(names[(names.index(draft.preset) + 1) % len(names)], draft.changes)

    def action_undo(self) -> None:
        draft = self.form.draft
        self._change(draft.preset, draft.with_text(self.form.row.name, ""))

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
        elif self.form.search:
            self.form.find("")
        else:
            super().action_back()
