"""The log screen: scroll, search, filter and follow a log; new lines do not move what is being read."""

from collections.abc import Iterable
from pathlib import Path

from textual.widget import Widget
from textual.widgets import Input

from echelon.runs import RunPaths
from echelon_cli.output import count
from echelon_cli.tui.feed.messages import LogView
from echelon_cli.tui.format import short_run_id
from echelon_cli.tui.keys import ALL_ROWS, Key, back_key, bindings
from echelon_cli.tui.panels.log import line_role
from echelon_cli.tui.screens.base import PagerScreen
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate
from echelon_cli.tui.widgets.filter import PromptField
from echelon_cli.tui.widgets.pager import Pager, line_text

LEVELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("all lines", ()),
    ("warnings and errors", ("warn", "bad")),
    ("errors", ("bad",)),
)
"""Name of each level filter, and the roles of the lines it keeps; no roles keep all."""


class LogTitle(CellView):
    """The line above the log: run, file, position, and whether it is followed."""

    def __init__(self, run: str, **options) -> None:
        super().__init__(**options)
        self.run, self.file, self.position = run, "", ""
        self.following = False

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        x = (
            grid.put(1, 0, truncate(short_run_id(self.run), max(8, width // 3), self.theme.symbols.ellipsis), "bold")
            + 2
        )
        x = grid.put(x, 0, self.file, "dim") + 2
        grid.put(x, 0, self.position, "dim")
        if self.following:
            grid.right(width - 1, 0, " following ", "pill-good")
        return grid


class LogScreen(PagerScreen):
    """The worker's or the supervisor's log of a run."""

    KEYS = (
        back_key("close the search, then the log"),
        Key("slash", "search", "search", "search the log", shown="/", rank=2),
        Key("n", "again(1)", "next", "next match", rank=5),
        Key("N", "again(-1)", "", "previous match"),
        Key("f", "follow", "follow", "jump to the end and follow it", rank=3),
        Key("e", "level", "level", "all lines, warnings and errors, or errors", rank=4),
        Key("tab", "other", "other log", "switch between worker and supervisor log", rank=6),
        Key("up,k", "scroll(-1)", "", "line up"),
        Key("down,j", "scroll(1)", "", "line down"),
        Key("pageup", "page(-1)", "", "page up"),
        Key("pagedown,space", "page(1)", "", "page down"),
        Key("home", f"scroll({-ALL_ROWS})", "", "first line"),
        Key("end", "follow", "", "last line"),
        Key("left", "shift(-1)", "", "scroll long lines left"),
        Key("right", "shift(1)", "scroll", "scroll long lines right", rank=7),
    )
    BINDINGS = bindings(KEYS)

    def __init__(self, root: Path) -> None:
        super().__init__()
        paths = RunPaths(root)
        self.root = root
        self.files = [paths.log_worker, paths.log_supervisor]
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

    def activate(self) -> None:
        self._subscribe_log()

    def _subscribe_log(self) -> None:
        self.subscribe(("log", self.files[0]))

    def show_log(self, view: LogView) -> None:
        if view.path and view.path != str(self.files[0]):
            return
        self._view = view
        _, levels = self.level
        roles = [(line, line_role(line)) for line in view.lines]
        lines = [((line, role if role != "dim" else ""),) for line, role in roles if not levels or role in levels]
        empty = f"no {self.level[0]}" if levels and view.lines else "log is empty"
        self.pager.show(lines or [((empty, "dim"),)], 0 if levels else view.first)
        self._update_title()

    def _update_title(self) -> None:
        title, pager = self.query_one(LogTitle), self.pager
        last = min(pager.top + pager.page, pager.first + len(pager.lines))
        title.file = self.files[0].name + (f", {self.level[0]}" if self.level[1] else "")
        title.position = f"line {last} of {count(pager.first + len(pager.lines))}"
        title.following = pager.following
        title.redraw()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.value and not self.pager.search(event.value):
            self.show_notice(f"no match for {event.value!r}", "warn")
        self._update_title()

    def on_input_submitted(self) -> None:
        self.pager.focus()

    def action_search(self) -> None:
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def action_again(self, by: int) -> None:
        if self.pager.searched and not self.pager.search(self.pager.searched, by):
            self.show_notice(f"no match for {self.pager.searched!r}", "warn")
        self._update_title()

    def action_follow(self) -> None:
        self.pager.follow()
        self._update_title()

    def action_level(self) -> None:
        self.level = LEVELS[(LEVELS.index(self.level) + 1) % len(LEVELS)]
        self.pager.following, self.pager.top = True, 0
        self.show_log(self._view)
        self.show_notice(f"showing {self.level[0]}")

    def lines_to_copy(self) -> list[str]:
        pager = self.pager
        start = pager.top - pager.first
        return [line_text(line).rstrip() for line in pager.lines[start : start + pager.page]]

    def action_other(self) -> None:
        self.files.reverse()
        self.pager.following = True
        self.show_log(LogView())
        self._subscribe_log()

    def action_scroll(self, by: int) -> None:
        super().action_scroll(by)
        self._update_title()

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
            super().action_back()
