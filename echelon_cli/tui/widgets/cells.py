"""A grid of characters with roles, and the widget that repaints only the cells of it that changed.

Everything the dashboard shows is drawn into a ``Grid`` by a pure function and compared with what stands on the screen;
only runs of changed cells are sent to the terminal. What is drawn belongs to panels and screens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from textual import events
from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from echelon_cli.tui.theme import Theme, make_theme

BRIDGE = 5
"""Changed runs with fewer equal cells than this between them are sent as one: moving the cursor costs as much."""

NEVER_SHOWN = "\N{REPLACEMENT CHARACTER}"
"""Stands for control characters, which must not reach the terminal."""

Span = tuple[str, str]
"""Text and its role."""


@lru_cache(4096)
def sanitize(text: str) -> str:
    """Return the text with every character that would move the cursor replaced."""
    return text if text.isprintable() else "".join(c if c.isprintable() else NEVER_SHOWN for c in text)


def truncate(text: str, width: int, cut: str = "…") -> str:
    """Return the text in at most ``width`` cells, with ``cut`` at its end where something is missing."""
    text = sanitize(text)
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return text
    while text and cell_len(text) > width - 1:
        text = text[:-1]
    return text + cut


class Grid:
    """Rows of cells; a wide character occupies its cell and an empty one."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = max(0, width), max(0, height)
        self.chars = [[" "] * self.width for _ in range(self.height)]
        self.roles = [[""] * self.width for _ in range(self.height)]

    def put(self, x: int, y: int, text: str, role: str = "", *, limit: int | None = None) -> int:
        """Write text at a cell, cut at ``limit`` or the right edge; return the column after it."""
        end = self.width if limit is None else min(self.width, limit)
        if not 0 <= y < self.height:
            return x
        chars, roles = self.chars[y], self.roles[y]
        for char in sanitize(text):
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
        """Write one text after another; return the column after the last."""
        for text, role in spans:
            x = self.put(x, y, text, role, limit=limit)
        return x

    def right(self, x: int, y: int, text: str, role: str = "") -> None:
        """Write text so that it ends before column ``x``."""
        self.put(x - cell_len(sanitize(text)), y, text, role)

    def fill(self, y: int, role: str) -> None:
        """Give a whole row one role."""
        if 0 <= y < self.height:
            self.roles[y] = [role] * self.width

    def paste(self, x: int, y: int, other: Grid) -> None:
        """Copy another grid onto this one, cut at the edges."""
        for row in range(min(other.height, self.height - y)):
            wide = max(0, min(other.width, self.width - x))
            self.chars[y + row][x : x + wide] = other.chars[row][:wide]
            self.roles[y + row][x : x + wide] = other.roles[row][:wide]

    def text(self) -> str:
        """Return the characters alone, a line per row, without blanks at the ends."""
        return "\n".join("".join(row).rstrip() for row in self.chars)

    def strip(self, y: int, theme: Theme) -> Strip:
        """Return a row as the terminal gets it."""
        segments = []
        for role, cells in groupby(range(self.width), key=self.roles[y].__getitem__):
            segments.append(Segment("".join(self.chars[y][x] for x in cells), theme.style(role)))
        return Strip(segments, self.width)

    def changes(self, before: Grid) -> list[Region]:
        """Return the runs of cells that differ from a grid of the same size."""
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
    """Return ascending columns as half-open runs; those with small gaps are joined."""
    found: list[tuple[int, int]] = []
    for x in columns:
        if found and x - found[-1][1] < bridge:
            found[-1] = (found[-1][0], x + 1)
        else:
            found.append((x, x + 1))
    return found


def draw_frame(grid: Grid, theme: Theme, title: str = "", *, focused: bool = False, note: str = "") -> None:
    """Draw a border along the edge, with a title at its left and, where it fits whole, a note at its right."""
    s, role = theme.symbols, "focus" if focused else "frame"
    if grid.width < 2 or grid.height < 2:
        return
    top_left, top_right, bottom_left, bottom_right = s.corners
    grid.put(0, 0, top_left + s.horizontal * (grid.width - 2) + top_right, role)
    grid.put(0, grid.height - 1, bottom_left + s.horizontal * (grid.width - 2) + bottom_right, role)
    for y in range(1, grid.height - 1):
        grid.put(0, y, s.vertical, role)
        grid.put(grid.width - 1, y, s.vertical, role)
    room = grid.width - 2
    if title and room > 2:
        shown = truncate(title, room - 2, s.cut)
        grid.put(1, 0, f" {shown} ", "focus" if focused else "title")
        room -= cell_len(shown) + 3
    if note and cell_len(sanitize(note)) + 3 <= room:
        grid.right(grid.width - 2, 0, f" {note} ", "dim")


class CellView(Widget):
    """A widget whose ``draw`` returns a grid; ``redraw`` repaints what changed since the last one."""

    def __init__(self, *, theme: Theme | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.theme = theme or make_theme()
        self._grid = Grid(0, 0)

    def draw(self, width: int, height: int) -> Grid:
        """Return what is to be seen now."""
        return Grid(width, height)

    def redraw(self) -> None:
        """Draw anew and repaint the difference; nothing where nothing changed or nothing is seen."""
        width, height = self.size
        if not width or not height or not self.is_attached:
            return
        before, self._grid = self._grid, self.draw(width, height)
        if (before.width, before.height) != (width, height):
            self.refresh()
        elif changed := self._grid.changes(before):
            self.refresh(*changed)

    def repaint(self) -> None:
        """Draw anew and repaint everything, as after a change of look."""
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


class SpanUpdate(ChopsUpdate):
    """Changed spans of the screen, each sent from its first cell on."""

    def render_segments(self, console: Console) -> str:
        """Return the bytes for the terminal; unlike the base class, cells left of a span are not sent again."""
        sent: list[str] = []
        for y, x1, x2 in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                left, right = max(x, x1), min(end, x2)
                if strip is not None and left < right:
                    sent.append(f"\x1b[{y + 1};{left + 1}H{strip.crop(left - x, right - x).render(console)}")
        return "".join(sent)


class SpanCompositor(Compositor):
    """A compositor whose partial updates are as small as the spans that changed."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """Return what changed since the last update, None where nothing did."""
        update = super().render_partial_update()
        return None if update is None else SpanUpdate(update.chops, update.spans, update.chop_ends)
