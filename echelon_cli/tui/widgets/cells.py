"""``Grid``, a grid of characters with roles, and ``CellView``, a widget that repaints only its changed cells.

Everything the dashboard shows is drawn into a grid by a pure function and compared with the previous grid; only runs of
changed cells are sent to the terminal.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from echelon_cli.foreign_text import visible
from echelon_cli.output import percent
from echelon_cli.tui.theme import Theme, make_theme

BRIDGE = 5
"""Changed runs separated by fewer equal cells are sent as one: moving the cursor costs about as many bytes."""

CHARS_PER_CELL = 4
"""Characters that are considered per cell of a truncated text; combining characters have no cell of their own."""

Span = tuple[str, str]


def truncate(text: str, width: int, ellipsis: str = "…") -> str:
    """Return the text in at most ``width`` cells, ended by ``ellipsis`` where it is longer."""
    if width <= 0:
        return ""
    considered = CHARS_PER_CELL * (width + 1)
    whole, text = len(text) <= considered, visible(text[:considered])
    if whole and cell_len(text) <= width:
        return text
    while text and cell_len(text) > width - 1:
        text = text[:-1]
    return text + ellipsis


class Grid:
    """Rows of cells; a character two cells wide is followed by an empty one."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = max(0, width), max(0, height)
        self.chars = [[" "] * self.width for _ in range(self.height)]
        self.roles = [[""] * self.width for _ in range(self.height)]

    def put(self, x: int, y: int, text: str, role: str = "", *, limit: int | None = None) -> int:
        """Write text from a cell, clipped at ``limit`` or the right edge; return the column after it."""
        end = self.width if limit is None else min(self.width, limit)
        if not 0 <= y < self.height:
            return x
        chars, roles = self.chars[y], self.roles[y]
        for char in visible(text):
            size = 1 if char.isascii() else cell_len(char)
            if size == 0:
                continue
            if x + size > end:
                break
            if x >= 0:
                chars[x], roles[x] = char, role
                if size == 2:
                    chars[x + 1], roles[x + 1] = "", role
            x += size
        return x

    def spans(self, x: int, y: int, spans: Iterable[Span], *, limit: int | None = None) -> int:
        """Write spans one after another; return the column after the last."""
        for text, role in spans:
            x = self.put(x, y, text, role, limit=limit)
        return x

    def right(self, x: int, y: int, text: str, role: str = "") -> None:
        """Write text right-aligned, ending before column ``x``."""
        self.put(x - cell_len(visible(text)), y, text, role)

    def centre(self, lines: Sequence[str], role: str = "dim") -> "Grid":
        """Write lines in the middle and return the grid."""
        for y, line in enumerate(lines, start=max(0, (self.height - len(lines)) // 2)):
            self.put(max(0, (self.width - cell_len(line)) // 2), y, line, role)
        return self

    def fill(self, y: int, role: str) -> None:
        if 0 <= y < self.height:
            self.roles[y] = [role] * self.width

    def paste(self, x: int, y: int, other: "Grid") -> None:
        """Copy another grid onto this one, clipped at the edges."""
        for row in range(min(other.height, self.height - y)):
            columns = max(0, min(other.width, self.width - x))
            self.chars[y + row][x : x + columns] = other.chars[row][:columns]
            self.roles[y + row][x : x + columns] = other.roles[row][:columns]

    def text(self) -> str:
        """Return the characters, one line per row, without trailing blanks."""
        return "\n".join("".join(row).rstrip() for row in self.chars)

    def strip(self, y: int, theme: Theme) -> Strip:
        """Return a row as Textual renders it."""
        segments = []
        for role, cells in groupby(range(self.width), key=self.roles[y].__getitem__):
            segments.append(Segment("".join(self.chars[y][x] for x in cells), theme.style(role)))
        return Strip(segments, self.width)

    def changes(self, before: "Grid") -> list[Region]:
        """Return one-row regions that contain all cells that differ from a grid of the same size."""
        regions = []
        for y in range(self.height):
            if self.chars[y] == before.chars[y] and self.roles[y] == before.roles[y]:
                continue
            old, new = (
                zip(before.chars[y], before.roles[y], strict=True),
                zip(self.chars[y], self.roles[y], strict=True),
            )
            differing_keys = [x for x, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
            regions += [Region(x1, y, x2 - x1, 1) for x1, x2 in runs(differing_keys)]
        return regions


def runs(columns: Sequence[int], bridge: int = BRIDGE) -> list[tuple[int, int]]:
    """Return ascending columns as half-open runs, joined over gaps smaller than ``bridge``."""
    found: list[tuple[int, int]] = []
    for x in columns:
        if found and x - found[-1][1] < bridge:
            found[-1] = (found[-1][0], x + 1)
        else:
            found.append((x, x + 1))
    return found


def draw_frame(grid: Grid, theme: Theme, title: str = "", *, focused: bool = False, note: str = "") -> None:
    """Draw a border with a title at the left and, where it fits, a note at the right."""
    s, role = theme.symbols, "focus" if focused else "frame"
    if grid.width < 2 or grid.height < 2:
        return
    top_left, top_right, bottom_left, bottom_right = s.corners
    grid.put(0, 0, top_left + s.horizontal * (grid.width - 2) + top_right, role)
    grid.put(0, grid.height - 1, bottom_left + s.horizontal * (grid.width - 2) + bottom_right, role)
    for y in range(1, grid.height - 1):
        grid.put(0, y, s.vertical, role)
        grid.put(grid.width - 1, y, s.vertical, role)
    free = grid.width - 2
    if title and free > 2:
        shown = truncate(title, free - 2, s.ellipsis)
        grid.put(1, 0, f" {shown} ", "focus" if focused else "title")
        free -= cell_len(shown) + 3
    if note and cell_len(visible(note)) + 3 <= free:
        grid.right(grid.width - 2, 0, f" {note} ", "dim")


def share_bar(share: float, width: int, theme: Theme, role: str = "series1", rest_role: str = "rest") -> list[Span]:
    """Return a thin bar of ``width`` cells, filled to ``share`` (clamped to 0..1)."""
    filled = round(max(0.0, min(1.0, share)) * width) if share == share else 0
    return [(theme.symbols.bar_done * filled, role), (theme.symbols.bar_rest * max(0, width - filled), rest_role)]


class ValueRow(NamedTuple):
    """A label with its value."""

    label: str
    text: str
    share: float = math.nan
    """Share of a total, for a bar below; NaN for none."""
    role: str = "series1"


def draw_values(grid: Grid, rows: Sequence[ValueRow], columns: int, spare: int, theme: Theme) -> int:
    """Draw values in the first columns and return the row after them.

    As long as there are ``spare`` rows, a long label gets one of its own, and a share a bar.
    """
    y, ellipsis = 0, theme.symbols.ellipsis
    for row in rows:
        text = truncate(row.text, columns, ellipsis)
        free = columns - len(text) - 1
        if len(row.label) > free and spare > 0:
            grid.put(0, y, truncate(row.label, columns, ellipsis))
            y, spare = y + 1, spare - 1
        else:
            grid.put(0, y, truncate(row.label, free, ellipsis))
        grid.right(columns, y, text, row.role)
        y += 1
        if spare > 0 and row.share == row.share:
            grid.spans(0, y, share_bar(row.share, columns, theme))
            y, spare = y + 1, spare - 1
    return y


def draw_share(grid: Grid, y: int, name: str, name_width: int, share: float, theme: Theme, role: str) -> None:
    """Draw a name, and a share as a bar and in percent."""
    grid.put(0, y, truncate(name, name_width, theme.symbols.ellipsis))
    grid.spans(name_width + 1, y, share_bar(share, grid.width - name_width - 6, theme, role))
    grid.right(grid.width, y, percent(share), role)


class CellView(Widget):
    """A widget drawn into a grid by ``draw``; ``redraw`` repaints the cells that have changed."""

    def __init__(self, *, theme: Theme | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.theme = theme or make_theme()
        self._grid = Grid(0, 0)

    def draw(self, width: int, height: int) -> Grid:
        return Grid(width, height)

    def redraw(self) -> None:
        """Draw and repaint the changed cells, if the widget is visible."""
        width, height = self.size
        if not width or not height or not self.is_attached:
            return
        before, self._grid = self._grid, self.draw(width, height)
        if (before.width, before.height) != (width, height):
            self.refresh()
        elif changed := self._grid.changes(before):
            self.refresh(*changed)

    def repaint(self) -> None:
        """Draw and repaint every cell, as after a change of the theme."""
        self._grid = Grid(0, 0)
        self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        self.redraw()

    def on_show(self, event: events.Show) -> None:
        self.redraw()

    def render_line(self, y: int) -> Strip:
        if (self._grid.width, self._grid.height) != self.size:
            self._grid = self.draw(*self.size)
        return self._grid.strip(y, self.theme) if y < self._grid.height else Strip.blank(self.size.width)
