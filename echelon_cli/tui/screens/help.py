"""The help screen: keys of the screen below, run states, terms, the query language, environment variables."""

from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from textual.widget import Widget

from echelon_cli.query import FIELDS, NumberField
from echelon_cli.tui.format import wrap
from echelon_cli.tui.keys import Key, back_key, bindings
from echelon_cli.tui.panels import PANELS
from echelon_cli.tui.panels.header import pill
from echelon_cli.tui.screens.base import COMMON_KEYS, PagerScreen
from echelon_cli.tui.theme import GLYPHS_VARIABLE, STATE_ROLES, THEME_VARIABLE, Theme
from echelon_cli.tui.widgets.cells import Span
from echelon_cli.tui.widgets.pager import Pager

STATES: dict[str, str] = {
    "queued": "waits for its device (echelon runs queue)",
    "starting": "compiling kernels and preparing maps",
    "running": "training",
    "stalled": "alive, no recent progress",
    "stopping": "finishing the update, then saving",
    "completed": "reached its limit",
    "stopped": "stopped and saved",
    "failed": "exited with an error",
    "crashed": "terminated without an exit record",
    "lost": "unknown: started on another host",
}

TERMS: dict[str, str] = {
    "steps": "learner agent-steps",
    "curve and shade": "smoothed values; behind them the range of the values",
    **{spec.title: spec.help for spec in PANELS.values() if spec.help},
}

QUERIES: dict[str, str] = {
    "heron quick": "both words, anywhere in name, state, preset, device or opponent",
    "-a": "without a",
    '"c d"': "quotes keep words together",
    "state:running": f"text in {', '.join(name for name, kind in FIELDS.items() if not isinstance(kind, NumberField))}",
    "state=running": "exact match; != excludes",
    "eval>50%": f"numbers: {', '.join(name for name, kind in FIELDS.items() if isinstance(kind, NumberField))}",
    "steps>=1.5M age<2h": "units k, M, G, % and for age s, m, h, d; also for --filter of runs list",
}

VARIABLES: dict[str, str] = {
    GLYPHS_VARIABLE: "braille, block or ascii: glyphs of the curves",
    THEME_VARIABLE: "dark or light: background of the terminal",
    "NO_COLOR": "any value: no colours",
}

KEY_CELLS = 16
TERM_CELLS = 20
TWO_COLUMNS_FROM = 140


class HelpScreen(PagerScreen):
    """Keys and terms."""

    IS_HELP = True

    KEYS = (
        back_key("close the help", rank=0),
        Key("up,k", "scroll(-1)", "", "line up"),
        Key("down,j", "scroll(1)", "", "line down"),
        Key("pageup", "page(-1)", "", "page up"),
        Key("pagedown,space", "page(1)", "more", "page down", shown="space", rank=1),
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


def help_lines(keys: Sequence[Key], theme: Theme, width: int) -> list[list[Span]]:
    """Return the help as lines of at most ``width`` cells, in two columns on a wide screen."""
    if width < TWO_COLUMNS_FROM:
        return [*key_lines(keys, width), [], *term_lines(theme, width), [], *terminal_lines(width)]
    half = width // 2
    left, right = [*key_lines(keys, half), [], *terminal_lines(half)], term_lines(theme, width - half)
    lines = []
    for i in range(max(len(left), len(right))):
        first = left[i] if i < len(left) else []
        gap = half - sum(cell_len(text) for text, _ in first)
        lines.append([*first, (" " * gap, ""), *(right[i] if i < len(right) else [])])
    return lines


def key_lines(keys: Sequence[Key], width: int) -> list[list[Span]]:
    lines: list[list[Span]] = [[(" Keys", "title")], []]
    for key in (*keys, *(k for k in COMMON_KEYS if k not in keys)):
        if key.help:
            lines += _entry((key.names, "key"), KEY_CELLS, key.help, width)
    return lines


def term_lines(theme: Theme, width: int) -> list[list[Span]]:
    lines: list[list[Span]] = [[(" States", "title")], []]
    for state in STATE_ROLES:
        lines += _entry(pill(state, theme), TERM_CELLS, STATES[state], width)
    return [*lines, [], *_entries("Terms", TERMS, width), [], *_entries("Run filter", QUERIES, width)]


def terminal_lines(width: int) -> list[list[Span]]:
    return _entries("Environment", VARIABLES, width)


def _entries(title: str, entries: Mapping[str, str], width: int) -> list[list[Span]]:
    lines: list[list[Span]] = [[(f" {title}", "title")], []]
    for name, text in entries.items():
        lines += _entry((name, "bold"), TERM_CELLS, text, width)
    return lines


def _entry(name: Span, name_width: int, text: str, width: int) -> list[list[Span]]:
    """Return a name and its description, wrapped into a column of its own."""
    first, *more = wrap(text, max(10, width - name_width - 3))
    gap = " " * max(1, name_width - cell_len(name[0]))
    return [[("  ", ""), name, (gap, ""), (first, "")], *([(" " * (name_width + 2) + row, "")] for row in more)]
