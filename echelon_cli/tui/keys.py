"""Keys as a table: one row is a binding, its place in the line of keys, and its line in the help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from textual import events
from textual.binding import Binding

from echelon_cli.tui.widgets.cells import CellView, Grid, truncate

NOTICE_S = 6.0
"""How long a notice stands in the line of keys."""


@dataclass(frozen=True, kw_only=True)
class Key:
    """One thing that can be done with a key."""

    keys: str
    """Names of the keys as Textual calls them, separated by commas."""
    action: str
    label: str
    """What the line of keys calls it; keys without one stand only in the help."""
    help: str
    """Empty where another key's line in the help speaks for it."""
    shown: str = ""
    """How the key is written; its name if empty."""
    rank: int = 5
    """Where there is little room, higher ranks leave the line of keys first."""
    always: bool = False
    """Works whatever has the focus."""

    @property
    def written(self) -> str:
        return self.shown or self.keys.split(",")[0]

    @property
    def listed(self) -> str:
        """How the help writes it: every key that does it."""
        return self.shown or self.keys.replace(",", " ")


def bindings(keys: Sequence[Key]) -> list[Any]:
    """Return the rows as Textual's bindings."""
    return [Binding(k.keys, k.action, k.label or k.help, show=False, priority=k.always) for k in keys]


class KeyBar(CellView):
    """The line of keys at the bottom; a click does what the key does, and notices appear in it."""

    def __init__(self, keys: Sequence[Key], **options: Any) -> None:
        super().__init__(**options)
        self.keys = [k for k in keys if k.label]
        self._notice: tuple[str, str] | None = None
        self._places: list[tuple[int, int, Key]] = []

    def show_notice(self, text: str, role: str = "info") -> None:
        """Show a notice for a while instead of the keys."""
        self._notice = (text, role)
        self.redraw()
        self.set_timer(NOTICE_S, lambda: self._clear_notice(text))

    def _clear_notice(self, text: str) -> None:
        if self._notice and self._notice[0] == text:
            self._notice = None
            self.redraw()

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        self._places = []
        if self._notice:
            text, role = self._notice
            grid.put(0, 0, truncate(f" {text} ", width, self.theme.symbols.cut), f"pill-{role}")
            return grid
        x = 1
        for key in visible_keys(self.keys, width - 2):
            start = x
            x = grid.put(x, 0, key.written, "key")
            x = grid.put(x + 1, 0, key.label, "dim")
            self._places.append((start, x, key))
            x += 2
        return grid

    async def on_click(self, event: events.Click) -> None:
        for start, end, key in self._places:
            if start <= event.x < end:
                await self.run_action(f"screen.{key.action}" if "." not in key.action else key.action)


def visible_keys(keys: Sequence[Key], width: int) -> list[Key]:
    """Return the keys whose names fit side by side, whole; the least important are left out first."""
    keys_left = list(keys)
    while keys_left and sum(cell_len(k.written) + cell_len(k.label) + 3 for k in keys_left) - 2 > width:
        keys_left.remove(max(reversed(keys_left), key=lambda k: k.rank))
    return keys_left
