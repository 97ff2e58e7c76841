"""Keys of the screen one came from, made from its table, and what the words on the screens mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from textual.widget import Widget

from echelon_cli.query import FIELDS, NumberField
from echelon_cli.tui.keys import Key, bindings
from echelon_cli.tui.panels.header import pill
from echelon_cli.tui.panels.log import wrap
from echelon_cli.tui.screens.base import COMMON, BaseScreen
from echelon_cli.tui.theme import GLYPHS_VARIABLE, STATE_ROLES, THEME_VARIABLE, Theme
from echelon_cli.tui.widgets.cells import Span
from echelon_cli.tui.widgets.pager import Pager

STATES: dict[str, str] = {
    "starting": "compiles kernels and prepares maps",
    "running": "trains",
    "stalled": "lives, but has made no progress for long",
    "stopping": "ends its update and saves",
    "completed": "reached its limit",
    "stopped": "was stopped, and saved",
    "failed": "ended by itself with an error",
    "crashed": "died without a word",
    "lost": "belongs to another machine",
}

WORDS: dict[str, str] = {
    "win rate": "share of battles won, over the newest in training; marks are evaluations on seeds training never sees",
    "steps": "decisions of the learner's living mechs",
    "curve and shade": "averaged values, and behind them the values as they were",
    "clip": "gradients longer than this are shortened to it",
    "KL, clipped": "how far an update moved the policy, and how often it was held back",
    "places": "maps of where pilots moved, did damage and died; the brighter, or fuller, a place, the more",
    "explained variance": "1: returns are foreseen; 0: not at all",
    "use over time": "what was used at each update, and what was left; where there is room, all of it",
    "curriculum": "where each lever stands, and its moves, the newest first; zoomed, with steps and why",
    "return by part": "what each reward adds up to, for a mech and an episode",
}

QUERIES: dict[str, str] = {
    "heron quick": "both words, anywhere in name, state, preset, device or opponent",
    "a or b, a | b": "one of them is enough",
    "not a, -a, !a": "the others",
    '(a or b) "c d"': "brackets group; quotes keep text as it is",
    "state:running": f"text in {', '.join(name for name, asked in FIELDS.items() if not isinstance(asked, NumberField))}",
    "state=running": "the whole of it; != for all others",
    "wins>50%": f"figures {', '.join(name for name, asked in FIELDS.items() if isinstance(asked, NumberField))}",
    "steps>=1.5M age<2h": "with k, M, G, %, and s, m, h, d for age; the same after --filter of runs list and jobs",
}
"""What the list of runs is filtered by."""

VARIABLES: dict[str, str] = {
    GLYPHS_VARIABLE: "braille, block or ascii: what curves are drawn with",
    THEME_VARIABLE: "dark or light: which background colours are chosen for",
    "NO_COLOR": "set to anything: no colours at all",
}

KEY_CELLS = 16

TERM_CELLS = 20
"""Columns of keys and of words."""


BESIDE_FROM = 140
"""Columns from which words stand beside the keys."""


class HelpScreen(BaseScreen):
    """Keys and words."""

    KEYS = (
        Key(keys="escape", shown="esc", action="close", label="back", help="leave the help", rank=0),
        Key(keys="up,k", action="scroll(-1)", label="", help="a line up"),
        Key(keys="down,j", action="scroll(1)", label="", help="a line down"),
        Key(keys="pageup", action="page(-1)", label="", help="a page up"),
        Key(keys="pagedown,space", shown="space", action="page(1)", label="more", help="a page down", rank=1),
    )
    BINDINGS = bindings(KEYS)

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__()
        self._keys = keys

    def compose_content(self) -> Iterable[Widget]:
        yield Pager(theme=self.dashboard.terminal_theme, id="lines")

    def prepare(self) -> None:
        self.pager.focus()

    def lay_out(self, width: int, height: int) -> None:
        self.pager.show(help_lines(self._keys, self.dashboard.terminal_theme, width))

    @property
    def pager(self) -> Pager:
        return self.query_one(Pager)

    def action_close(self) -> None:
        self.dashboard.pop_screen()

    def action_scroll(self, by: int) -> None:
        self.pager.scroll(by)

    def action_page(self, by: int) -> None:
        self.pager.scroll(by * self.pager.page)


def help_lines(keys: Sequence[Key], theme: Theme, width: int) -> list[list[Span]]:
    """Return the whole help as lines of at most ``width`` cells; on a wide screen, keys at the left of the words."""
    if width < BESIDE_FROM:
        return [*key_lines(keys, width), [], *word_lines(theme, width), [], *terminal_lines(width)]
    half = width // 2
    left, right = [*key_lines(keys, half), [], *terminal_lines(half)], word_lines(theme, width - half)
    lines = []
    for i in range(max(len(left), len(right))):
        first = left[i] if i < len(left) else []
        gap = half - sum(cell_len(text) for text, _ in first)
        lines.append([*first, (" " * gap, ""), *(right[i] if i < len(right) else [])])
    return lines


def key_lines(keys: Sequence[Key], width: int) -> list[list[Span]]:
    """Return every key of the screen and what it does."""
    lines: list[list[Span]] = [[(" Keys", "title")], []]
    for key in (*keys, *(k for k in COMMON if k not in keys)):
        if key.help:
            lines += _entry((key.listed, "key"), KEY_CELLS, key.help, width)
    return lines


def word_lines(theme: Theme, width: int) -> list[list[Span]]:
    """Return what states, words and queries mean."""
    lines: list[list[Span]] = [[(" States", "title")], []]
    for state in STATE_ROLES:
        lines += _entry(pill(state, theme), TERM_CELLS, STATES[state], width)
    return [*lines, [], *_meanings("Words", WORDS, width), [], *_meanings("Filter of runs", QUERIES, width)]


def terminal_lines(width: int) -> list[list[Span]]:
    """Return the variables that fit the dashboard to a terminal."""
    return _meanings("Terminal", VARIABLES, width)


def _meanings(title: str, meanings: Mapping[str, str], width: int) -> list[list[Span]]:
    lines: list[list[Span]] = [[(f" {title}", "title")], []]
    for word, meaning in meanings.items():
        lines += _entry((word, "bold"), TERM_CELLS, meaning, width)
    return lines


def _entry(name: Span, cells: int, meaning: str, width: int) -> list[list[Span]]:
    """Return a name and its meaning, the meaning in a column of its own."""
    first, *more = wrap(meaning, max(10, width - cells - 3))
    gap = " " * max(1, cells - cell_len(name[0]))
    return [[("  ", ""), name, (gap, ""), (first, "")], *([(" " * (cells + 2) + row, "")] for row in more)]
