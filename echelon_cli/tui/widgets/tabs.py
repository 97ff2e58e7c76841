"""The tab line of a small screen: its pages, or the title of a maximised panel."""

from collections.abc import Mapping, Sequence
from typing import Any

from textual import events

from echelon_cli.tui.widgets.cells import CellView, Grid

WIDE_MARGIN = 7


class Tabs(CellView):
    """The pages of a small screen; a click opens one."""

    def __init__(self, pages: Sequence[str], titles: Mapping[str, str], action: str = "page", **options: Any) -> None:
        super().__init__(**options)
        self.action = action
        self.pages, self.titles = pages, titles
        self.page, self.maximised = pages[0], ""
        self._click_areas: list[tuple[int, int, int]] = []

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        x, self._click_areas = 1, []
        if self.maximised:
            x = grid.put(x, 0, self.titles[self.maximised], "title") + 2
            grid.put(x, 0, "tab next panel, esc all panels", "dim")
            return grid
        is_wide = sum(len(name) for name in self.pages) + WIDE_MARGIN * len(self.pages) <= width
        for number, name in enumerate(self.pages, start=1):
            start = x
            label = f" {number} " if is_wide else str(number)
            x = grid.put(x, 0, label, "pill-info" if name == self.page else "key")
            x = grid.put(x + 1, 0, name, "bold" if name == self.page else "dim")
            self._click_areas.append((start, x, number))
            x += 3 if is_wide else 1
        return grid

    async def on_click(self, event: events.Click) -> None:
        for start, end, number in self._click_areas:
            if start <= event.x < end:
                await self.run_action(f"screen.{self.action}({number})")
