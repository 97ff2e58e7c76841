"""A pager: lines that can be scrolled, searched and followed while they grow without moving what is being read."""

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len

from echelon_cli.foreign_text import visible
from echelon_cli.tui.widgets.cells import CellView, Grid, Span

SIDE_STEP = 20


class Pager(CellView, can_focus=True):
    """Numbered lines of styled text; the numbers stay the same when older lines are dropped."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.first = 0
        self.lines: Sequence[Sequence[Span]] = ()
        self.top = 0
        self.side = 0
        self.inset = 0
        """Blank columns at the left and at the right edge."""
        self.following = False
        self.searched = ""
        self.found = -1

    @property
    def page(self) -> int:
        return max(1, self.size.height)

    @property
    def last_top(self) -> int:
        """Number of the first visible line when the last line is visible."""
        return max(self.first, self.first + len(self.lines) - self.page)

    def show(self, lines: Sequence[Sequence[Span]], first: int = 0) -> None:
        self.lines, self.first = lines, first
        self.top = self.last_top if self.following else max(self.top, first)
        self.redraw()

    def scroll(self, by: int) -> None:
        """Scroll by ``by`` lines; reaching the end starts following, scrolling up stops it."""
        self.top = max(self.first, min(self.last_top, self.top + by))
        self.following = self.following and by > 0 or self.top >= self.last_top and by > 0
        self.redraw()

    def shift(self, by: int) -> None:
        self.side = max(0, self.side + by * SIDE_STEP)
        self.redraw()

    def follow(self) -> None:
        self.following, self.top = True, self.last_top
        self.redraw()

    def search(self, text: str, by: int = 0) -> bool:
        """Jump to the first, next (``by`` > 0) or previous (< 0) line with ``text``; return whether there is one."""
        self.searched = text
        if not text:
            self.found = -1
            self.redraw()
            return True
        size = len(self.lines)
        start = (self.found if self.found >= self.first and by else self.top) - self.first
        offsets = range(1, size + 1) if by > 0 else range(-1, -size - 1, -1) if by < 0 else range(size)
        for offset in offsets:
            index = (start + offset) % size if size else 0
            if text.lower() in line_text(self.lines[index]).lower():
                self.found = self.first + index
                self.following = False
                if not self.top <= self.found < self.top + self.page:
                    self.top = max(self.first, min(self.last_top, self.found - self.page // 2))
                self.redraw()
                return True
        self.found = -1
        self.redraw()
        return False

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        if self.following:
            self.top = max(self.first, self.first + len(self.lines) - height)
        start = max(0, self.top - self.first)
        for y, line in enumerate(self.lines[start : start + height]):
            self._draw_line(grid, y, line)
            self._highlight(grid, y, line)
            if self.top + y == self.found:
                grid.fill(y, "cursor")
        return grid

    def _draw_line(self, grid: Grid, y: int, line: Sequence[Span]) -> None:
        """Draw the visible part of a line, with an ellipsis at an edge where it continues."""
        left, right = self.inset, grid.width - self.inset
        end = grid.spans(left - self.side, y, line, limit=right)
        if self.side and end > left:
            grid.put(0, y, " " * left)
            grid.put(left, y, self.theme.symbols.ellipsis, "dim")
        if left - self.side + cell_len(line_text(line)) > right:
            grid.put(right - 1, y, self.theme.symbols.ellipsis, "dim")

    def _highlight(self, grid: Grid, y: int, line: Sequence[Span]) -> None:
        text, searched = line_text(line).lower(), self.searched.lower()
        at = text.find(searched) if searched else -1
        while at >= 0:
            start = self.inset + at - self.side
            for x in range(max(0, start), min(grid.width, start + len(searched))):
                grid.roles[y][x] = "pill-warn"
            at = text.find(searched, at + len(searched))

    def on_mouse_scroll_down(self) -> None:
        self.scroll(3)

    def on_mouse_scroll_up(self) -> None:
        self.scroll(-3)


def line_text(line: Sequence[Span]) -> str:
    return "".join(visible(text) for text, _ in line)
