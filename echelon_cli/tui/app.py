"""The dashboard app: owns the feed, passes its snapshots to the active screen, and navigates between screens."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from textual.app import App, SystemCommand
from textual.screen import Screen

from echelon.files import atomic_write, error_text, reason_of
from echelon.runs import RunPaths, read_json
from echelon_cli.foreign_text import visible
from echelon_cli.terminal_codes import clipboard, notification
from echelon_cli.tui.actions import ActionResult
from echelon_cli.tui.feed.messages import FeedFailed, RunsView, RunView, ViewChanged
from echelon_cli.tui.feed.thread import POLL_S, Feed
from echelon_cli.tui.keys import bindings
from echelon_cli.tui.screens.base import COMMON_KEYS, BaseScreen
from echelon_cli.tui.screens.run import RunScreen
from echelon_cli.tui.screens.runs import RunsScreen
from echelon_cli.tui.theme import GLYPH_SETS, Background, Theme, detect_theme, make_theme
from echelon_cli.tui.viewer_server import ViewerServer
from echelon_cli.tui.widgets.cells import CellView
from echelon_cli.tui.widgets.compositor import write_to_terminal

TERMINAL_CHECK_S = 2.0

COPY_NAME = "copied.txt"
"""File beside the runs with the text copied last."""

LAZY_SCREENS: dict[str, str] = {
    "compare": "echelon_cli.tui.screens.compare:CompareScreen",
    "confirm": "echelon_cli.tui.screens.confirm:ConfirmScreen",
    "help": "echelon_cli.tui.screens.help:HelpScreen",
    "league": "echelon_cli.tui.screens.league:LeagueScreen",
    "log": "echelon_cli.tui.screens.log:LogScreen",
    "matches": "echelon_cli.tui.screens.matches:MatchesScreen",
    "new_run": "echelon_cli.tui.screens.new_run:NewRunScreen",
    "sweep": "echelon_cli.tui.screens.sweep:SweepScreen",
}
"""Screens imported when first opened, so that the first paint waits only for the run list and the run screen."""


def make_screen(name: str, *args: Any) -> Screen[Any]:
    module, _, cls = LAZY_SCREENS[name].partition(":")
    return getattr(import_module(module), cls)(*args)


def is_sweep(root: Path) -> bool:
    return (read_json(RunPaths(root).spec) or {}).get("kind") == "sweep"


class Dashboard(App[None]):
    """The dashboard on all runs of a folder, opened on the run list or on one run."""

    CSS_PATH = "style.tcss"
    TITLE = "Echelon"
    ALLOW_SELECT = False
    BINDINGS = bindings(COMMON_KEYS)

    def __init__(
        self, home: Path, run: Path | None = None, *, theme: Theme | None = None, poll_s: float = POLL_S
    ) -> None:
        """Show the runs under ``home``; open on the run in folder ``run`` where given."""
        super().__init__(ansi_color=True)
        self.terminal_theme = theme or detect_theme()
        self.theme = f"ansi-{self.terminal_theme.background}"
        self.animation_level = "none"
        self.first_run = run
        self.runs = RunsView(home=str(home))
        self.run_view = RunView()
        self.draft: tuple[str, Mapping[str, Any]] | None = None
        """Preset and changes of the new-run form as it was left; None after a start."""
        self.home = home
        self.viewer = ViewerServer(home)
        self.feed = Feed(self.post_message, home, poll_s)

    def get_default_screen(self) -> Screen:
        return self._screen_of(self.first_run) if self.first_run else RunsScreen()

    def _screen_of(self, root: Path) -> Screen[Any]:
        return make_screen("sweep", root) if is_sweep(root) else RunScreen(root)

    def on_mount(self) -> None:
        self.feed.start()
        # after Ctrl-Z and fg the terminal is empty, and nothing has changed
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self.exit)
            self.set_interval(TERMINAL_CHECK_S, self._exit_without_terminal)

    def _exit_without_terminal(self) -> None:
        """Exit at once if the terminal disappeared without SIGHUP: there is no terminal state to restore."""
        if sys.__stdin__ is None or not sys.__stdin__.isatty():
            os._exit(0)

    def on_unmount(self) -> None:
        self.feed.stop()
        self.viewer.close()

    @property
    def active_screen(self) -> BaseScreen | None:
        """The screen on top; None while its widgets are being mounted or removed."""
        screen = self.screen_stack[-1] if self.screen_stack else None
        return screen if isinstance(screen, BaseScreen) and screen.has_all_widgets else None

    def on_view_changed(self, message: ViewChanged) -> None:
        view, notice = message.view, None
        if isinstance(view, RunsView):
            notice, self.runs = notification_text(self.runs, view), view
        elif isinstance(view, RunView):
            if self.run_view.root == view.root and self.run_view.is_alive and not view.is_alive:
                notice = f"{view.id} {view.state}", view.reason
            self.run_view = view
        if notice:
            write_to_terminal(self, notification(*notice, os.environ))
        if screen := self.active_screen:
            screen.show_view(view)

    def on_feed_failed(self, message: FeedFailed) -> None:
        if screen := self.active_screen:
            screen.show_notice(message.text, "bad")

    def open(self, name: str, *args: Any) -> None:
        self.push_screen(make_screen(name, *args))

    def open_run(self, root: Path) -> None:
        """Show one run: return to its screen where it is directly below, else push a new one."""
        below = self.screen_stack[-2] if len(self.screen_stack) > 1 else None
        if isinstance(below, RunScreen) and below.root == root:
            self.pop_screen()
        else:
            self.push_screen(self._screen_of(root))

    def open_runs(self) -> None:
        """Show the run list: return to the screen below, or push a new list."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            self.push_screen(RunsScreen())

    def switch_to_run(self, root: Path) -> None:
        self.switch_screen(RunScreen(root))

    def action_copy(self, whole: bool) -> None:
        """Copy the name, address or lines the screen stands for, or its whole text, to clipboard and file."""
        screen = self.active_screen
        if screen is None:
            return
        lines = screen.screen_text().split("\n") if whole else screen.lines_to_copy()
        text = "\n".join(visible(line) for line in lines)
        if not text:
            screen.show_notice("nothing to copy on this screen")
            return
        write_to_terminal(self, clipboard(text, os.environ))

        async def save() -> None:
            path = Path(self.runs.home) / COPY_NAME
            try:
                await asyncio.to_thread(atomic_write, path, text + "\n", durable=False)
                outcome = f"also saved to {path}"
            except OSError as error:
                outcome = f"not saved to a file: {reason_of(error)}"
            if screen := self.active_screen:
                screen.show_notice(f"copied {len(text)} characters; {outcome}", "good")

        self.run_worker(save())

    def confirm(self, question: str, then: Callable[[], None]) -> None:
        self.push_screen(
            make_screen("confirm", question, self.terminal_theme), lambda is_yes: then() if is_yes else None
        )

    def run_command(self, command: Callable[[Path], ActionResult], root: Path) -> None:
        """Run a blocking command on a folder in a thread and show its result as a notice."""

        async def work() -> None:
            try:
                text, role = await asyncio.to_thread(command, root)
            except (ValueError, OSError) as error:
                text, role = error_text(error), "bad"
            if screen := self.active_screen:
                screen.show_notice(text, role)

        self.run_worker(work())

    def action_help(self) -> None:
        screen = self.screen
        if isinstance(screen, BaseScreen):
            if screen.IS_HELP:
                self.pop_screen()
            else:
                self.open("help", screen.KEYS)

    def action_leave(self) -> None:
        self.exit()

    def action_glyphs(self) -> None:
        glyphs = GLYPH_SETS[(GLYPH_SETS.index(self.terminal_theme.glyphs) + 1) % len(GLYPH_SETS)]
        self._apply_theme(replace(self.terminal_theme, glyphs=glyphs))

    def action_background(self) -> None:
        background: Background = "light" if self.terminal_theme.background == "dark" else "dark"
        self._apply_theme(make_theme(self.terminal_theme.glyphs, background, colour=not self.no_color))

    def _apply_theme(self, theme: Theme) -> None:
        self.terminal_theme = theme
        self.theme = f"ansi-{theme.background}"
        for screen in self.screen_stack:
            for widget in screen.query(CellView):
                widget.theme = theme
                widget.repaint()

    def get_system_commands(self, screen: Screen) -> Iterable[SystemCommand]:
        keys = (*screen.KEYS, *COMMON_KEYS) if isinstance(screen, BaseScreen) else COMMON_KEYS
        for key in keys:
            if key.label:
                action = key.action if "." in key.action else f"screen.{key.action}"
                yield SystemCommand(key.label, key.help, partial(self.run_action, action))


def notification_text(before: RunsView, after: RunsView) -> tuple[str, str] | None:
    """Return title and message of a terminal's notification for runs that have ended or raised an alert since."""
    earlier = {row.root: row for row in before.rows} if before.loaded else {}
    ended = [row for row in after.rows if not row.is_alive and row.root in earlier and earlier[row.root].is_alive]
    alerts = [row for row in after.rows if row.alert and row.root in earlier and earlier[row.root].alert != row.alert]
    if not ended and not alerts:
        return None
    title = ", ".join([*(f"{row.id} {row.state}" for row in ended), *(f"{row.id}: alert" for row in alerts)])
    return title, "; ".join(text for row in (*ended, *alerts) if (text := row.reason or row.alert))


def show(home: Path, run: Path | None = None) -> int:
    app = Dashboard(home, run)
    app.run()
    return app.return_code or 0
