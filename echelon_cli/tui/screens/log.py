"""The whole log of a run: scroll, search, follow; lines that arrive do not move what is being read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from textual.widget import Widget
from textual.widgets import Input

from echelon.runs import RunPaths
from echelon_cli.tui.feed.messages import LogView
from echelon_cli.tui.format import count, short_run_id
from echelon_cli.tui.keys import Key, bindings
from echelon_cli.tui.panels.log import line_role
from echelon_cli.tui.screens.base import BaseScreen
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate
from echelon_cli.tui.widgets.filter import PromptField
from echelon_cli.tui.widgets.pager import Pager, line_text

LEVELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("all lines", ()),
    ("warnings and errors", ("warn", "bad")),
    ("errors", ("bad",)),
)
"""What of a log is shown: its name, and the roles of lines; none is all."""


class LogTitle(CellView):
    """Which log, how long, and where one is in it."""

    def __init__(self, run: str, **options) -> None:
        super().__init__(**options)
        self.run, self.file, self.place = run, "", ""
        self.following = False

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        x = grid.put(1, 0, truncate(short_run_id(self.run), max(8, width // 3), self.theme.symbols.cut), "bold") + 2
        x = grid.put(x, 0, self.file, "dim") + 2
        grid.put(x, 0, self.place, "dim")
        if self.following:
            grid.right(width - 1, 0, " following ", "pill-good")
        return grid


class LogScreen(BaseScreen):
    """The trainer's log, or the supervisor's."""

    KEYS = (
        Key(keys="escape", shown="esc", action="back", label="back", help="leave the search, then the log", rank=2),
        Key(keys="slash", shown="/", action="search", label="search", help="go to lines with these words", rank=2),
        Key(keys="n", action="again(1)", label="next", help="the next line found", rank=5),
        Key(keys="N", action="again(-1)", label="", help="the line found before"),
        Key(keys="f", action="follow", label="follow", help="go to the end and stay there", rank=3),
        Key(keys="e", action="level", label="level", help="all lines, warnings and errors, errors only", rank=4),
        Key(keys="tab", action="other", label="other log", help="the supervisor's log, or the trainer's", rank=6),
        Key(keys="up,k", action="scroll(-1)", label="", help="a line up"),
        Key(keys="down,j", action="scroll(1)", label="", help="a line down"),
        Key(keys="pageup", action="page(-1)", label="", help="a page up"),
        Key(keys="pagedown,space", action="page(1)", label="", help="a page down"),
        Key(keys="home", action="scroll(-1000000)", label="", help="the first line"),
        Key(keys="end", action="follow", label="", help="the last line"),
        Key(keys="left", action="shift(-1)", label="", help="back to the beginning of long lines"),
        Key(keys="right", action="shift(1)", label="more", help="the rest of long lines", rank=7),
    )
    BINDINGS = bindings(KEYS)

    def __init__(self, root: Path) -> None:
        super().__init__()
        paths = RunPaths(root)
        self.root = root
        self.files = [paths.log_trainer, paths.log_supervisor]
        self.level = LEVELS[0]
        self._view = LogView()

    def compose_content(self) -> Iterable[Widget]:
        theme = self.dashboard.terminal_theme
        yield LogTitle(self.root.name, theme=theme, id="title")
        yield PromptField("search", theme=theme, id="filter")
        yield Pager(theme=theme, id="lines")

    def prepare(self) -> None:
        self.pager.focus()
        self.pager.following, self.pager.inset = True, 1
        self.show_log(LogView())

    def resume(self) -> None:
        self._read()

    @property
    def pager(self) -> Pager:
        return self.query_one(Pager)

    def _read(self) -> None:
        self.subscribe(log=self.files[0])

    def show_log(self, view: LogView) -> None:
        """Take the lines as they are now."""
        if view.run and view.run != str(self.files[0]):
            return
        self._view = view
        _, kept = self.level
        roles = [(line, line_role(line)) for line in view.lines]
        lines = [((line, role if role != "dim" else ""),) for line, role in roles if not kept or role in kept]
        nothing = f"no {self.level[0]}" if kept and view.lines else "nothing written yet"
        self.pager.show(lines or [((nothing, "dim"),)], 0 if kept else view.first)
        self._title()

    def _title(self) -> None:
        title, pager = self.query_one(LogTitle), self.pager
        last = min(pager.top + pager.page, pager.first + len(pager.lines))
        title.file = self.files[0].name + (f", {self.level[0]}" if self.level[1] else "")
        title.place = f"line {last} of {count(pager.first + len(pager.lines))}"
        title.following = pager.following
        title.redraw()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.value and not self.pager.search(event.value):
            self.show_notice(f"no line has {event.value!r}", "warn")
        self._title()

    def on_input_submitted(self) -> None:
        self.pager.focus()

    def action_search(self) -> None:
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def action_again(self, by: int) -> None:
        if self.pager.searched and not self.pager.search(self.pager.searched, by):
            self.show_notice(f"no line has {self.pager.searched!r}", "warn")
        self._title()

    def action_follow(self) -> None:
        self.pager.follow()
        self._title()

    def action_level(self) -> None:
        self.level = LEVELS[(LEVELS.index(self.level) + 1) % len(LEVELS)]
        self.pager.following, self.pager.top = True, 0
        self.show_log(self._view)
        self.show_notice(f"shows {self.level[0]}")

    def text_to_copy(self) -> str:
        pager = self.pager
        start = pager.top - pager.first
        return "\n".join(line_text(line).rstrip() for line in pager.lines[start : start + pager.page])

    def action_other(self) -> None:
        self.files.reverse()
        self.pager.following = True
        self.show_log(LogView())
        self._read()

    def action_scroll(self, by: int) -> None:
        self.pager.scroll(by)
        self._title()

    def action_page(self, by: int) -> None:
        self.action_scroll(by * self.pager.page)

    def action_shift(self, by: int) -> None:
        self.pager.shift(by)

    def action_back(self) -> None:
        field = self.query_one(Input)
        if field.display:
            field.value = ""
            field.display = False
            self.pager.search("")
            self.pager.focus()
        else:
            self.dashboard.pop_screen()
