"""What screens need of the app: a protocol, so that the app imports screens and no screen imports the app."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from echelon_cli.tui.actions import ActionResult
from echelon_cli.tui.feed.messages import RunsView, RunView
from echelon_cli.tui.feed.thread import Feed
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.viewer_server import ViewerServer


class DashboardApp(Protocol):
    """The app as screens see it; implemented by ``echelon_cli.tui.app.Dashboard``."""

    terminal_theme: Theme
    home: Path
    """Folder of the runs."""
    runs: RunsView
    """The newest run list."""
    run_view: RunView
    """The newest snapshot of the run followed last."""
    feed: Feed
    baseline: Path | None
    """Run that the run screen shows behind its charts; None for the previous run of the preset."""
    draft: tuple[str, Mapping[str, Any]] | None
    """Preset and changes of the new-run form as it was left; None after a start."""
    viewer: ViewerServer

    def open(self, name: str, *args: Any) -> None: ...

    def open_run(self, root: Path) -> None: ...

    def open_runs(self) -> None: ...

    def switch_to_run(self, root: Path) -> None: ...

    def pop_screen(self) -> Any: ...

    def confirm(self, question: str, then: Callable[[], None]) -> None: ...

    def run_command(self, command: Callable[[Path], ActionResult], root: Path) -> None: ...
