"""The line that names the pages of a small screen, or the one panel that is seen alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual import events

from echelon_cli.tui.widgets.cells import CellView, Grid

ROOMY = 7
"""Columns beside its name that a page takes where there is room."""


class Tabs(CellView):
    """The pages of a small screen; a click goes there."""

    def __init__(self, pages: Sequence[str], titles: Mapping[str, str], **options: Any) -> None:
        """Show ``pages``; ``titles`` are those of the panels that may stand alone."""
        super().__init__(**options)
        self.pages, self.titles = pages, titles
        self.page, self.zoomed = pages[0], ""
        self._places: list[tuple[int, int, int]] = []

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        x, self._places = 1, []
        if self.zoomed:
            x = grid.put(x, 0, self.titles[self.zoomed], "title") + 2
            grid.put(x, 0, "tab shows the next, escape all", "dim")
            return grid
        roomy = sum(len(name) for name in self.pages) + ROOMY * len(self.pages) <= width
        for number, name in enumerate(self.pages, start=1):
            start = x
            label = f" {number} " if roomy else str(number)
            x = grid.put(x, 0, label, "pill-info" if name == self.page else "key")
            x = grid.put(x + 1, 0, name, "bold" if name == self.page else "dim")
            self._places.append((start, x, number))
            x += 3 if roomy else 1
        return grid

    async def on_click(self, event: events.Click) -> None:
        for start, end, number in self._places:
            if start <= event.x < end:
                await self.run_action(f"screen.page({number})")
