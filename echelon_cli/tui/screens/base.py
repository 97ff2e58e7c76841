"""What all screens share: their keys as a table, the line of keys, notices, and what a tiny terminal shows instead."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import Screen
from textual.widget import Widget

from echelon_cli.tui import actions
from echelon_cli.tui.feed.messages import LeagueView, LogView, MatchesView, RunsView, RunView
from echelon_cli.tui.keys import Key, KeyBar
from echelon_cli.tui.layout import MIN_SIZE
from echelon_cli.tui.panels.log import wrap
from echelon_cli.tui.widgets.cells import CellView, Grid, SpanCompositor, truncate

if TYPE_CHECKING:
    from echelon_cli.tui.app import Dashboard

COMMON: tuple[Key, ...] = (
    Key(keys="question_mark", shown="?", action="app.help", label="help", help="keys and words", rank=0),
    Key(keys="q", action="app.leave", label="quit", help="leave; runs go on in the background", rank=1),
    Key(keys="ctrl+c", action="app.leave", label="", help="the same", always=True),
    Key(keys="y", action="app.copy(False)", label="", help="copy the name, the address or the lines that are seen"),
    Key(keys="Y", action="app.copy(True)", label="", help="copy all that stands on the screen"),
    Key(keys="g", action="app.glyphs", label="", help="draw with braille, blocks or ASCII"),
    Key(keys="T", action="app.background", label="", help="colours for a dark or a light background"),
    Key(keys="ctrl+p", action="app.command_palette", label="", help="every command by name"),
)
"""Keys of every screen."""

RUN_KEYS: tuple[Key, ...] = (
    Key(keys="s", action="stop", label="stop", help="stop the run: it ends its update and saves", rank=3),
    Key(keys="r", action="resume", label="resume", help="let an ended run go on from its newest checkpoint", rank=3),
    Key(keys="c", action="save", label="save", help="save a checkpoint after this update", rank=6),
    Key(keys="w", action="matches", label="watch", help="recorded matches of the run, to watch one", rank=6),
)
"""Keys of screens with a chosen run."""


class TooSmall(CellView):
    """What is said where nothing else fits."""

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        text = (
            f"The dashboard needs {MIN_SIZE[0]} columns and {MIN_SIZE[1]} rows; this terminal has {width} and {height}."
        )
        lines = wrap(text, max(1, width - 2))
        if len(lines) >= height:
            lines = [truncate(f"needs {MIN_SIZE[0]}x{MIN_SIZE[1]}", width)]
        for y, line in enumerate(lines, start=max(0, (height - len(lines)) // 2)):
            grid.put(max(0, (width - len(line)) // 2), y, line, "bold")
        return grid


class BaseScreen(Screen[None]):
    """A full screen; ``compose_content`` yields its widgets."""

    AUTO_FOCUS = ""
    KEYS: ClassVar[tuple[Key, ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self._compositor = SpanCompositor()
        self.ready = False
        """Whether its widgets were there once."""
        self._widgets = 0

    @property
    def dashboard(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def compose_content(self) -> Iterable[Widget]:
        """Yield what stands above the line of keys."""
        return ()

    def compose(self) -> ComposeResult:
        with Container(id="content"):
            yield from self.compose_content()
            yield KeyBar((*self.KEYS, *COMMON), theme=self.dashboard.terminal_theme, id="keys")
        yield TooSmall(theme=self.dashboard.terminal_theme, id="small")

    def on_mount(self) -> None:
        self.prepare()
        self.ready, self._widgets = True, self._count()
        self.relayout()
        self.resume()

    @property
    def has_all_widgets(self) -> bool:
        """Whether its widgets are there; a screen that goes loses them one by one."""
        return self.ready and self._count() >= self._widgets

    def _count(self) -> int:
        return sum(len(part.children) for part in self.children)

    def on_screen_resume(self) -> None:
        if self.ready:
            self.resume()

    def on_resize(self, event: events.Resize) -> None:
        if self.ready:
            self.relayout()

    def relayout(self) -> None:
        """Fit the screen into the terminal."""
        width, height = self.app.size
        self.set_class(width < MIN_SIZE[0] or height < MIN_SIZE[1], "-small")
        self.lay_out(width, height)

    def prepare(self) -> None:
        """Prepare the widgets, once they are there."""

    def resume(self) -> None:
        """Show what is known by now and ask the feed for more, whenever the screen comes to the top."""

    def subscribe(self, run: Path | None = None, *, runs: bool = False, **wanted: Any) -> None:
        """Ask the feed for what this screen shows; nothing while another one, which asks for its own, covers it."""
        if self.app.screen_stack[-1:] == [self]:
            self.dashboard.feed.watch(run, runs=runs, **wanted)

    def lay_out(self, width: int, height: int) -> None:
        """Fit the content into a screen of this size."""

    def text_to_copy(self) -> str:
        """Return what is copied of this screen."""
        return ""

    def text(self) -> str:
        """Return what stands on the screen, line by line."""
        strips = self._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    def show_notice(self, text: str, role: str = "info") -> None:
        """Show a notice for a while."""
        self.query_one(KeyBar).show_notice(text, role)

    def show_runs(self, view: RunsView) -> None:
        """Take a new list of runs."""

    def show_run(self, view: RunView) -> None:
        """Take a new picture of a run."""

    def show_log(self, view: LogView) -> None:
        """Take the lines of a log as they are now."""

    def show_matches(self, view: MatchesView) -> None:
        """Take a new list of matches."""

    def show_league(self, view: LeagueView) -> None:
        """Take the league as it is now."""


class RunActions(BaseScreen):
    """A screen with a chosen run, and what can be done to it."""

    def selected_run(self) -> tuple[Path, str, str] | None:
        """Return folder, id and state of the chosen run."""
        return None

    def text_to_copy(self) -> str:
        run = self.selected_run()
        return run[1] if run else ""

    def action_matches(self) -> None:
        run = self.selected_run()
        self.dashboard.open_matches(run[0] if run else None)

    def action_stop(self) -> None:
        run = self.selected_run()
        if run is None:
            return
        root, name, state = run
        if state == "stopping":
            question = f"{name} is stopping already. Ask again, so that it gives up its update and keeps the last save?"
        else:
            question = f"Stop {name}? It finishes its update, saves and ends; resume lets it go on."
        self.dashboard.ask(question, lambda: self.dashboard.act(actions.stop, root))

    def action_resume(self) -> None:
        run = self.selected_run()
        if run is None:
            return
        root, name, state = run
        question = f"Resume {name} from its newest checkpoint?"
        if state == "completed":
            question = f"{name} has reached its limit and would end at once. Resume it all the same?"
        self.dashboard.ask(question, lambda: self.dashboard.act(actions.resume, root))

    def action_save(self) -> None:
        run = self.selected_run()
        if run is not None:
            self.dashboard.act(actions.save, run[0])
