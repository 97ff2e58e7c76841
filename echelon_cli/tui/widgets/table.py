"""Tables: columns that leave a narrow table by rank, and a list of rows with a cursor."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from textual import events
from textual.message import Message

from echelon_cli.tui.widgets.cells import CellView, Grid


@dataclass(frozen=True)
class GridColumn:
    """One column of a table of the dashboard."""

    name: str
    width: int
    _: KW_ONLY
    text: Callable[[Any, Any], str]
    """Returns the text of a cell, from the row and what the table passes for all rows, such as the current time."""
    role: Callable[[Any], str] = lambda row: ""
    right: bool = True
    rank: int = 0
    """Columns with the highest rank are dropped first in a narrow table."""
    key: Callable[[Any], Any] = lambda row: 0
    """Ascending sort key."""

    def put(self, grid: Grid, cell: tuple[int, int, int], text: str, role: str = "") -> None:
        """Write text into a cell: first column, row and width."""
        x, y, width = cell
        if self.right:
            grid.right(x + width, y, text, role)
        else:
            grid.put(x, y, text, role, limit=x + width)


def fitting(columns: Sequence[GridColumn], width: int, gap: int) -> list[GridColumn]:
    """Return the columns that fit side by side, each with a gap, into ``width`` cells; at least one."""
    visible = list(columns)
    while len(visible) > 1 and sum(c.width + gap for c in visible) > width:
        visible.remove(max(visible, key=lambda c: c.rank))
    return visible


def first_visible(index: int, rows: int, visible: int) -> int:
    """Return the first of ``visible`` rows to draw out of ``rows``, so that row ``index`` is among them."""
    return max(0, min(index - visible // 2, rows - visible))


class RowList(CellView, can_focus=True):
    """Rows below a heading, with a cursor that stays on its row when rows are added, filtered or sorted."""

    class Selected(Message):
        """The cursor moved to another row, or there is none."""

    class Opened(Message):
        """A row was double-clicked."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.rows: Sequence[Any] = ()
        self._key: Any = None
        self._top = 0

    @abstractmethod
    def key_of(self, row: Any) -> Any:
        """Return what identifies a row."""

    @property
    def cursor(self) -> int:
        """Row index of the cursor; -1 in an empty list."""
        return next((i for i, row in enumerate(self.rows) if self.key_of(row) == self._key), 0 if self.rows else -1)

    @property
    def row(self) -> Any:
        """The row under the cursor; None in an empty list."""
        return self.rows[self.cursor] if self.rows else None

    @property
    def page(self) -> int:
        return max(1, self.size.height - 1)

    def go(self, index: int) -> None:
        """Move the cursor to the row nearest to an index."""
        key = self.key_of(self.rows[max(0, min(len(self.rows) - 1, index))]) if self.rows else None
        if key != self._key:
            self._key = key
            self.post_message(self.Selected())
        self.redraw()

    def move(self, by: int) -> None:
        self.go(self.cursor + by)

    def scrolled_top(self) -> int:
        """Return the first visible row, scrolled so that the cursor is visible."""
        cursor = self.cursor
        self._top = max(cursor - self.page + 1, min(self._top, cursor, max(0, len(self.rows) - self.page)))
        return self._top

    def on_click(self, event: events.Click) -> None:
        index = self._top + event.y - 1
        if event.y >= 1 and index < len(self.rows):
            self.go(index)
            if event.chain == 2:
                self.post_message(self.Opened())

    def on_mouse_scroll_down(self) -> None:
        self.move(1)

    def on_mouse_scroll_up(self) -> None:
        self.move(-1)
