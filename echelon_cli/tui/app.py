"""The dashboard's app: owns the feed, hands its pictures to the screen that is seen, and moves between screens.

``Dashboard`` is a factory of screens over one data source; tests run it on canned folders. What a panel shows and how
files are read lie elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from textual.app import App, SystemCommand
from textual.screen import Screen

from echelon_cli.tui.actions import ActionResult
from echelon_cli.tui.clipboard import save_copy, sequence
from echelon_cli.tui.feed.messages import (
    FeedFailed,
    LeagueChanged,
    LogChanged,
    MatchesChanged,
    RunChanged,
    RunsChanged,
    RunsView,
    RunView,
)
from echelon_cli.tui.feed.thread import POLL_S, Feed
from echelon_cli.tui.keys import bindings
from echelon_cli.tui.screens.base import COMMON, BaseScreen
from echelon_cli.tui.screens.run import RunScreen
from echelon_cli.tui.screens.runs import RunsScreen
from echelon_cli.tui.theme import GLYPH_SETS, Theme, detect_theme, make_theme
from echelon_cli.tui.viewer_server import ViewerServer
from echelon_cli.tui.widgets.cells import CellView

TERMINAL_CHECK_S = 2.0
"""Time between looks whether the terminal is still there."""


class Dashboard(App[None]):
    """All runs of a folder, or one of them."""

    CSS_PATH = "style.tcss"
    TITLE = "Echelon"
    ALLOW_SELECT = False
    BINDINGS = bindings(COMMON)

    def __init__(
        self, home: Path, run: Path | None = None, *, theme: Theme | None = None, poll_s: float = POLL_S
    ) -> None:
        """Show the runs under ``home``, or at first the one in folder ``run``."""
        super().__init__(ansi_color=True)
        self.terminal_theme = theme or detect_theme()
        self.theme = f"ansi-{self.terminal_theme.background}"
        self.animation_level = "none"
        self.first_run = run
        self.runs = RunsView(home=str(home))
        self.run_view = RunView()
        self.home = home
        self.viewer = ViewerServer(home)
        self.feed = Feed(self.post_message, home, poll_s)

    def get_default_screen(self) -> Screen:
        return RunScreen(self.first_run) if self.first_run else RunsScreen()

    def on_mount(self) -> None:
        self.feed.start()
        if not self.is_headless:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
            self.set_interval(TERMINAL_CHECK_S, self._leave_without_terminal)

    def _leave_without_terminal(self) -> None:
        """End where the terminal is gone and nobody said so: there is nothing left to restore."""
        if sys.__stdin__ is None or not sys.__stdin__.isatty():
            os._exit(0)

    def on_unmount(self) -> None:
        self.feed.stop()
        self.viewer.close()

    @property
    def active_screen(self) -> BaseScreen | None:
        """The screen that is seen, None before its widgets are there and after they are gone."""
        screen = self.screen_stack[-1] if self.screen_stack else None
        return screen if isinstance(screen, BaseScreen) and screen.has_all_widgets else None

    def on_runs_changed(self, message: RunsChanged) -> None:
        self.runs = message.view
        if active_screen := self.active_screen:
            active_screen.show_runs(message.view)

    def on_run_changed(self, message: RunChanged) -> None:
        self.run_view = message.view
        if active_screen := self.active_screen:
            active_screen.show_run(message.view)

    def on_log_changed(self, message: LogChanged) -> None:
        if active_screen := self.active_screen:
            active_screen.show_log(message.view)

    def on_matches_changed(self, message: MatchesChanged) -> None:
        if active_screen := self.active_screen:
            active_screen.show_matches(message.view)

    def on_league_changed(self, message: LeagueChanged) -> None:
        if active_screen := self.active_screen:
            active_screen.show_league(message.view)

    def on_feed_failed(self, message: FeedFailed) -> None:
        if active_screen := self.active_screen:
            active_screen.show_notice(message.text, "bad")

    def open_run(self, root: Path) -> None:
        """Show one run: the one that was left open beneath, or a new screen."""
        below = self.screen_stack[-2] if len(self.screen_stack) > 1 else None
        if isinstance(below, RunScreen) and below.root == root:
            self.pop_screen()
        else:
            self.push_screen(RunScreen(root))

    def open_runs(self) -> None:
        """Show all runs: those one came from, or a new list."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            self.push_screen(RunsScreen())

    def open_log(self, root: Path) -> None:
        """Show the log of a run."""
        from echelon_cli.tui.screens.log import LogScreen

        self.push_screen(LogScreen(root))

    def open_new(self) -> None:
        """Show the form of a run to be started."""
        from echelon_cli.tui.screens.new_run import NewRunScreen

        self.push_screen(NewRunScreen())

    def switch_to_run(self, root: Path) -> None:
        """Show a run instead of the screen on top."""
        self.switch_screen(RunScreen(root))

    def open_matches(self, root: Path | None) -> None:
        """Show the recorded matches of a run, or of all."""
        from echelon_cli.tui.screens.matches import MatchesScreen

        self.push_screen(MatchesScreen(root))

    def open_league(self) -> None:
        """Show the league of these runs."""
        from echelon_cli.tui.screens.league import LeagueScreen

        self.push_screen(LeagueScreen())

    def action_copy(self, whole: bool) -> None:
        """Copy what the screen stands for, or all that is to be read on it."""
        active_screen = self.active_screen
        if active_screen is None:
            return
        text = active_screen.text() if whole else active_screen.text_to_copy()
        if not text:
            active_screen.show_notice("there is nothing to copy here")
            return
        if self._driver is not None:
            self._driver.write(sequence(text, os.environ))

        async def work() -> None:
            try:
                place = await asyncio.to_thread(save_copy, Path(self.runs.home), text)
            except OSError as error:
                place = f"no file: {error.strerror}"
            if active_screen := self.active_screen:
                active_screen.show_notice(f"copied {len(text)} characters; also in {place}", "good")

        self.run_worker(work())

    def compare(self, roots: tuple[Path, ...]) -> None:
        """Show several runs over each other."""
        from echelon_cli.tui.screens.compare import CompareScreen

        self.push_screen(CompareScreen(roots))

    def ask(self, question: str, then: Callable[[], None]) -> None:
        """Ask, and go on if the answer is yes."""
        from echelon_cli.tui.screens.confirm import ConfirmScreen

        self.push_screen(ConfirmScreen(question, self.terminal_theme), lambda yes: then() if yes else None)

    def act(self, what: Callable[[Path], ActionResult], root: Path) -> None:
        """Do something to a run on a thread, and say what came of it."""

        async def work() -> None:
            text, role = await asyncio.to_thread(what, root)
            if active_screen := self.active_screen:
                active_screen.show_notice(text, role)

        self.run_worker(work())

    def action_help(self) -> None:
        from echelon_cli.tui.screens.help import HelpScreen

        if isinstance(self.screen, HelpScreen):
            self.pop_screen()
        elif isinstance(self.screen, BaseScreen):
            self.push_screen(HelpScreen(self.screen.KEYS))

    def action_leave(self) -> None:
        self.exit()

    def action_glyphs(self) -> None:
        self._apply_theme(
            replace(
                self.terminal_theme,
                glyphs=GLYPH_SETS[(GLYPH_SETS.index(self.terminal_theme.glyphs) + 1) % len(GLYPH_SETS)],
            )
        )

    def action_background(self) -> None:
        background = "light" if self.terminal_theme.background == "dark" else "dark"
        self._apply_theme(make_theme(self.terminal_theme.glyphs, background, colour=not self.no_color))

    def _apply_theme(self, theme: Theme) -> None:
        self.terminal_theme = theme
        self.theme = f"ansi-{theme.background}"
        for screen in self.screen_stack:
            for widget in screen.query(CellView):
                widget.theme = theme
                widget.repaint()

    def get_system_commands(self, screen: Screen) -> Iterable[SystemCommand]:
        """Offer what the keys of the screen do under their names."""
        keys = (*screen.KEYS, *COMMON) if isinstance(screen, BaseScreen) else COMMON
        for key in keys:
            if key.label:
                action = key.action if "." in key.action else f"screen.{key.action}"
                yield SystemCommand(key.label, key.help, partial(self.run_action, action))


def show(home: Path, run: Path | None = None) -> int:
    """Run the dashboard on this terminal until somebody leaves it, or it fails; return the exit code."""
    app = Dashboard(home, run)
    app.run()
    return app.return_code or 0
