"""Key tables: one ``Key`` is a binding, an entry of the key bar and a line of the help; and the key bar itself."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from rich.cells import cell_len
from textual import events
from textual.binding import Binding

from echelon_cli.tui.widgets.cells import CellView, Grid, truncate

NOTICE_S = 6.0
ALL_ROWS = 1_000_000
"""More rows than any list has."""


@dataclass(frozen=True)
class Key:
    """One action bound to one or more keys."""

    keys: str
    """Textual's key names, separated by commas."""
    action: str
    label: str
    """Label in the key bar; empty for keys that only the help lists."""
    help: str
    """Empty where the help of another key covers this one."""
    _: KW_ONLY
    shown: str = ""
    """How the key is written; its first name if empty."""
    rank: int = 5
    """Keys with the highest rank leave a narrow key bar first."""
    always: bool = False
    """Whether it works whichever widget has the focus."""

    @property
    def short_name(self) -> str:
        return self.shown or self.keys.split(",")[0]

    @property
    def names(self) -> str:
        """All keys of the action, as the help writes them."""
        return self.shown or self.keys.replace(",", " ")


def move_keys(noun: str, *, pages: bool = False) -> tuple[Key, ...]:
    """Return the keys that move a cursor through rows: a row, to the ends and, where asked for, a page."""
    page = (Key("pageup", "page(-1)", "", "page up"), Key("pagedown", "page(1)", "", "page down"))
    return (
        Key("up,k", "move(-1)", "", f"previous {noun}"),
        Key("down,j", "move(1)", "", f"next {noun}"),
        *(page if pages else ()),
        Key("home", f"move({-ALL_ROWS})", "", f"first {noun}"),
        Key("end", f"move({ALL_ROWS})", "", f"last {noun}"),
    )


def back_key(help: str, *, label: str = "back", rank: int = 2) -> Key:
    return Key("escape", "back", label, help, shown="esc", rank=rank)


def bindings(keys: Sequence[Key]) -> list[Any]:
    return [Binding(k.keys, k.action, k.label or k.help, show=False, priority=k.always) for k in keys]


class KeyBar(CellView):
    """The bottom line: keys with labels, which can be clicked, after a notice for ``NOTICE_S`` seconds."""

    def __init__(self, keys: Sequence[Key], **options: Any) -> None:
        super().__init__(**options)
        self.keys = [k for k in keys if k.label]
        self._notice: tuple[str, str] | None = None
        self._click_areas: list[tuple[int, int, Key]] = []

    def show_notice(self, text: str, role: str = "info") -> None:
        self._notice = (text, role)
        self.redraw()
        self.set_timer(NOTICE_S, lambda: self._clear_notice(text))

    def _clear_notice(self, text: str) -> None:
        if self._notice and self._notice[0] == text:
            self._notice = None
            self.redraw()

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        self._click_areas, x = [], 1
        if self._notice:
            text, role = self._notice
            x = grid.put(0, 0, truncate(f" {text} ", width, self.theme.symbols.ellipsis), f"pill-{role}") + 1
        for key in visible_keys(self.keys, width - x - 1):
            start = x
            x = grid.put(x, 0, key.short_name, "key")
            x = grid.put(x + 1, 0, key.label, "dim")
            self._click_areas.append((start, x, key))
            x += 2
        return grid

    async def on_click(self, event: events.Click) -> None:
        for start, end, key in self._click_areas:
            if start <= event.x < end:
                await self.run_action(f"screen.{key.action}" if "." not in key.action else key.action)


def visible_keys(keys: Sequence[Key], width: int) -> list[Key]:
    """Return the keys whose labels fit side by side into ``width`` cells; the highest ranks are left out first."""
    visible = list(keys)
    while visible and sum(cell_len(k.short_name) + cell_len(k.label) + 3 for k in visible) - 2 > width:
        visible.remove(max(reversed(visible), key=lambda k: k.rank))
    return visible
