"""Base classes of all screens: common keys, the key bar, notices, and the message of a terminal that is too small."""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import Screen
from textual.widget import Widget

from echelon.jobs.status import ALIVE
from echelon_cli.tui import actions
from echelon_cli.tui.feed.messages import View
from echelon_cli.tui.feed.thread import Topic
from echelon_cli.tui.format import wrap
from echelon_cli.tui.keys import Key, KeyBar
from echelon_cli.tui.layout import MIN_SIZE
from echelon_cli.tui.widgets.cells import CellView, Grid, truncate
from echelon_cli.tui.widgets.compositor import screen_text, use_span_updates
from echelon_cli.tui.widgets.pager import Pager
from echelon_cli.tui.widgets.table import RowList

if TYPE_CHECKING:
    from echelon_cli.tui.app import Dashboard

COMMON_KEYS: tuple[Key, ...] = (
    Key("question_mark", "app.help", "help", "keys and terms", shown="?", rank=0),
    Key("q", "app.leave", "quit", "quit; runs continue in the background", rank=1),
    Key("ctrl+c", "app.leave", "", "quit", always=True),
    Key("ctrl+z", "app.suspend_process", "", "", always=True),
    Key("y", "app.copy(False)", "", "copy the name, address or visible lines"),
    Key("Y", "app.copy(True)", "", "copy the whole screen"),
    Key("g", "app.glyphs", "", "switch glyphs: braille, blocks, ASCII"),
    Key("T", "app.background", "", "switch colours for a dark or light background"),
    Key("ctrl+p", "app.command_palette", "", "command palette"),
)

RUN_KEYS: tuple[Key, ...] = (
    Key("s", "stop", "stop", "finish the current update, save and stop the run", rank=3),
    Key("r", "resume", "resume", "resume an ended run from its latest checkpoint", rank=3),
    Key("c", "save", "checkpoint", "save a checkpoint after the current update", rank=6),
    Key("N", "clone", "clone", "configure a new run like this one", rank=8),
    Key("w", "matches", "matches", "recorded matches of the run", rank=6),
)


class TooSmall(CellView):
    """The message shown in a terminal below the minimum size."""

    def draw(self, width: int, height: int) -> Grid:
        columns, rows = MIN_SIZE
        text = f"The dashboard needs {columns} columns and {rows} rows; this terminal has {width} and {height}."
        lines = wrap(text, max(1, width - 2))
        if len(lines) >= height:
            lines = [truncate(f"needs {columns}x{rows}", width)]
        return Grid(width, height).centre(lines, "bold")


class BaseScreen(Screen[None]):
    """A full screen: the widgets of ``compose_content`` above a key bar."""

    AUTO_FOCUS = ""
    KEYS: ClassVar[tuple[Key, ...]] = ()
    IS_HELP: ClassVar[bool] = False
    """Whether the help key closes this screen instead of opening the help."""

    def __init__(self) -> None:
        super().__init__()
        use_span_updates(self)
        self.ready = False
        self._widget_count = 0

    @property
    def dashboard(self) -> "Dashboard":
        return cast("Dashboard", self.app)

    def compose_content(self) -> Iterable[Widget]:
        return ()

    def compose(self) -> ComposeResult:
        with Container(id="content"):
            yield from self.compose_content()
            yield KeyBar((*self.KEYS, *COMMON_KEYS), theme=self.dashboard.terminal_theme, id="keys")
        yield TooSmall(theme=self.dashboard.terminal_theme, id="small")

    def on_mount(self) -> None:
        self.prepare()
        self.ready, self._widget_count = True, self._count_widgets()
        self.relayout()
        self.activate()

    @property
    def has_all_widgets(self) -> bool:
        """Whether every widget is mounted; a screen that is being removed loses them one by one."""
        return self.ready and self._count_widgets() >= self._widget_count

    def _count_widgets(self) -> int:
        return sum(len(part.children) for part in self.children)

    def on_screen_resume(self) -> None:
        if self.ready:
            self.activate()

    def on_resize(self, event: events.Resize) -> None:
        if self.ready:
            self.relayout()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key acts: on a terminal that is too small nobody would see what it does."""
        return not self.has_class("-small") and super().check_action(action, parameters)

    def relayout(self) -> None:
        """Lay the content out for the size of the terminal."""
        width, height = self.app.size
        self.set_class(width < MIN_SIZE[0] or height < MIN_SIZE[1], "-small")
        self.lay_out(width, height)

    def prepare(self) -> None:
        """Initialise the widgets, once, after they are mounted."""

    def activate(self) -> None:
        """Show the data known so far and subscribe to the feed; called whenever the screen comes to the top."""

    def subscribe(self, *topics: Topic) -> None:
        """Subscribe to the feed; ignored while another screen, with its own subscription, is on top."""
        if self.app.screen_stack[-1:] == [self]:
            self.dashboard.feed.subscribe(*topics)

    def lay_out(self, width: int, height: int) -> None: ...

    def lines_to_copy(self) -> list[str]:
        """Return the lines that the copy key copies; a name is quoted for a shell, where it may be inserted."""
        return []

    def screen_text(self) -> str:
        return screen_text(self)

    def show_notice(self, text: str, role: str = "info") -> None:
        self.query_one(KeyBar).show_notice(text, role)

    def action_back(self) -> None:
        self.dashboard.pop_screen()

    def show_view(self, view: View) -> None:
        """Pass a new view to ``show_runs``, ``show_run`` and so on by its topic, where this screen has the method."""
        if show := getattr(self, f"show_{view.topic}", None):
            show(view)


class TableScreen(BaseScreen):
    """A screen with a list of rows."""

    @property
    def table(self) -> Any:
        return self.query_one(RowList)

    def on_row_list_opened(self) -> None:
        self.action_open()

    def action_open(self) -> None: ...

    def action_move(self, by: int) -> None:
        self.table.move(by)

    def action_page(self, by: int) -> None:
        self.table.move(by * self.table.page)


class PagerScreen(BaseScreen):
    """A screen with lines to read."""

    @property
    def pager(self) -> Pager:
        return self.query_one(Pager)

    def action_scroll(self, by: int) -> None:
        self.pager.scroll(by)

    def action_page(self, by: int) -> None:
        self.action_scroll(by * self.pager.page)


class RunActions(BaseScreen):
    """A screen with a selected run and the actions on it."""

    def selected_run(self) -> tuple[Path, str, str] | None:
        return None

    def lines_to_copy(self) -> list[str]:
        run = self.selected_run()
        return [shlex.quote(run[1])] if run else []

    def action_matches(self) -> None:
        run = self.selected_run()
        self.dashboard.open("matches", run[0] if run else None)

    def action_clone(self) -> None:
        run = self.selected_run()
        if run is not None:
            self.dashboard.open("new_run", run[0])

    def action_stop(self) -> None:
        run = self.selected_run()
        if run is None:
            return
        root, name, state = run
        if state and state not in ALIVE:
            self.show_notice(f"{name} is not running: {state}", "warn")
            return
        question = f"Stop {name}? It finishes the current update, saves a checkpoint and exits. It can be resumed."
        if state == "stopping":
            question = f"Stop {name} now? It is already stopping. The current update is lost, the last checkpoint kept."
        self.dashboard.confirm(question, lambda: self.dashboard.run_command(actions.stop, root))

    def action_resume(self) -> None:
        run = self.selected_run()
        if run is None:
            return
        root, name, state = run
        if state in ALIVE:
            self.show_notice(f"{name} is {state}", "warn")
            return
        question = f"Resume {name} from the latest checkpoint?"
        if state == "completed":
            question = f"{name} has reached its limit and would end at once. Resume it anyway?"
        self.dashboard.confirm(question, lambda: self.dashboard.run_command(actions.resume, root))

    def action_save(self) -> None:
        run = self.selected_run()
        if run is not None:
            self.dashboard.run_command(actions.save, run[0])
