"""The frame around every panel, and the panel that holds a chart."""

from __future__ import annotations

from typing import Any

from textual.reactive import reactive

from echelon_cli.tui.cells import CellView, Grid, frame
from echelon_cli.tui.charts import Chart, Held, draw_chart
from echelon_cli.tui.curves import Along
from echelon_cli.tui.messages import RunView


class Panel(CellView, can_focus=True):
    """A titled box that shows one thing about a run; a subclass draws its inside."""

    view: reactive[RunView] = reactive(RunView(), repaint=False, init=False)
    along: reactive[Along] = reactive("steps", repaint=False, init=False)
    """What charts count along their horizontal axis."""

    def __init__(self, title: str, **options: Any) -> None:
        super().__init__(**options)
        self.title = title

    def watch_view(self) -> None:
        self.redraw()

    def watch_along(self) -> None:
        self.redraw()

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        frame(grid, self.look, self.title, focused=self.has_focus, note=self.note())
        if width > 4 and height > 2:
            grid.paste(2, 1, self.body(width - 4, height - 2))
        return grid

    def note(self) -> str:
        """Return what stands at the right of the title."""
        return ""

    def body(self, width: int, height: int) -> Grid:
        """Return the inside."""
        return Grid(width, height)


class PanelChart(Panel):
    """A panel with one chart."""

    def __init__(self, title: str, chart: Chart, **options: Any) -> None:
        super().__init__(title, **options)
        self.chart = chart
        self.held = Held()

    def body(self, width: int, height: int) -> Grid:
        if self.held.run != self.view.id:
            self.held = Held(run=self.view.id)
        size, view = (width, height), self.view
        return draw_chart(self.chart, view.curves, view.snapshot, size, self.look, self.held, self.along)
