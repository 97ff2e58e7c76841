"""Base classes of panels: a titled frame, and a frame with one chart."""

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import events
from textual.message import Message
from textual.reactive import reactive

from echelon_cli.tui.charts.chart import AxisState, Chart, draw_chart
from echelon_cli.tui.charts.viewport import Viewport
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.widgets.cells import CellView, Grid, draw_frame
from echelon_cli.tui.widgets.table import first_visible

CONFIDENCE_Z = 1.96
"""Standard errors of a 95 % confidence interval."""

DASH_COLUMNS = 3
PADDING = 2


class Panel(CellView, can_focus=True):
    """A titled box that shows one aspect of a run; subclasses draw its body."""

    view: reactive[RunView] = reactive(RunView(), repaint=False, init=False)
    viewport: reactive[Viewport] = reactive(Viewport(), repaint=False, init=False)

    def __init__(self, title: str, **options: Any) -> None:
        super().__init__(**options)
        self.title = title

    def watch_view(self) -> None:
        self.redraw()

    def watch_viewport(self) -> None:
        self.redraw()

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        has_body = width > 2 * PADDING and height > 2
        body = self.body(width - 2 * PADDING, height - 2) if has_body else None
        draw_frame(grid, self.theme, self.title, focused=self.has_focus, note=self.note())
        if body is not None:
            grid.paste(PADDING, 1, body)
        return grid

    def note(self) -> str:
        """Return the text at the right of the title."""
        return ""

    def body(self, width: int, height: int) -> Grid:
        return Grid(width, height)


class SelectionPanel(Panel):
    """A panel about rows of which one is selected; in a panel that lists them, a click selects another."""

    LISTS_ROWS: ClassVar[bool] = False

    class Selected(Message):
        """A row was clicked."""

        def __init__(self, key: Any) -> None:
            super().__init__()
            self.key = key

    data: Any = None
    selected: Any = None
    keys: Sequence[Any] = ()
    """Keys of all rows in their order."""

    def show(self, data: Any, keys: Sequence[Any], selected: Any) -> None:
        self.data, self.keys, self.selected = data, keys, selected
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        cursor = self.keys.index(self.selected) if self.selected in self.keys else 0
        index = first_visible(cursor, len(self.keys), self.size.height - 3) + event.y - 2
        if self.LISTS_ROWS and event.y >= 2 and index < len(self.keys):
            self.post_message(self.Selected(self.keys[index]))


class PanelChart(Panel):
    """A panel with one chart."""

    class Pointed(Message):
        """A position on the horizontal axis was clicked, or the wheel was turned over it."""

        def __init__(self, position: float, wheel: int = 0) -> None:
            super().__init__()
            self.position = position
            self.wheel = wheel

    def __init__(self, title: str, chart: Chart, **options: Any) -> None:
        super().__init__(title, **options)
        self.chart = chart
        self.axes = AxisState()
        self.ghost = RunView()
        """Another run, drawn behind this one."""

    def note(self) -> str:
        is_smoothed = self.viewport.span > 1 and any(series.smooth for series in self.chart.series)
        notes = ("smoothed" if is_smoothed else "", "log" if any(self.axes.log) else "")
        verdict = self.chart.verdict(self.view.snapshot) if self.chart.verdict else ""
        return verdict or ", ".join(filter(None, notes))

    def body(self, width: int, height: int) -> Grid:
        if self.axes.run != self.view.id:
            self.axes = AxisState(run=self.view.id)
        size, view = (width, height), self.view
        self.axes.empty_text = view.empty_text
        curves, snapshot, ghost = view.curves, view.snapshot, self.ghost
        behind = ghost.curves, ghost.snapshot
        return draw_chart(self.chart, curves, snapshot, size, self.theme, self.axes, self.viewport, *behind)

    def _point(self, event: events.MouseEvent, wheel: int = 0) -> None:
        position = self.axes.position_at(event.x - PADDING)
        if position is not None:
            self.post_message(self.Pointed(position, wheel))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 1:
            self._point(event)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._point(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._point(event, -1)
