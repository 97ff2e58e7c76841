"""The theme of the dashboard: glyphs, colours and styles, fitted to the terminal it runs in.

Panels name roles ("good", "dim", "series1"); a ``Theme`` maps a role to a style and a symbol to a character. Background
and text colour are the terminal's own. Accents come from a palette that is distinguishable with any colour vision, and
whatever a colour means is also shown by a word, a symbol or a dash pattern.
"""

import locale
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rich.color import Color
from rich.style import Style

GlyphSet = Literal["braille", "block", "ascii"]
"""Characters that curves are drawn with: 2x4 (braille), 1x2 (block) or 1x3 (ascii) dots per cell."""

Background = Literal["dark", "light"]
GLYPH_SETS: tuple[GlyphSet, ...] = ("braille", "block", "ascii")

GLYPHS_VARIABLE = "ECHELON_GLYPHS"
"""Environment variable that selects the glyphs; otherwise locale and TERM decide."""

THEME_VARIABLE = "ECHELON_THEME"
"""Environment variable that selects the background; otherwise COLORFGBG decides, and dark without it."""

LIGHT_BACKGROUNDS = ("7", "15")

BLOCK_TERMINALS = ("linux", "cygwin")
"""Values of TERM whose fonts have half blocks but no braille."""


@dataclass(frozen=True, kw_only=True)
class Symbols:
    """Characters outside charts, each one cell wide."""

    corners: str = "╭╮╰╯"
    """Top left, top right, bottom left, bottom right."""
    horizontal: str = "─"
    vertical: str = "│"
    bar: str = "▆"
    """Bars in adjacent rows; less than a row high, so that they do not touch."""
    bar_done: str = "━"
    bar_rest: str = "─"
    square: str = "■"
    """Legend marker before a name, in the colour of its bar."""
    mark: str = "◆"
    upper: str = "▀"
    """The upper half of a cell; empty where the font has none."""
    shades: str = " ░▒▓█"
    """Ascending shades, used for heat maps without colour."""
    dot: str = "·"
    ellipsis: str = "…"
    cursor: str = "▸"
    up: str = "▲"
    down: str = "▼"
    states: str = "◦◌●▲◐✔■✖✖?"
    """Run states in the order of ``STATE_ROLES``."""


STATE_ROLES: dict[str, str] = {
    "queued": "info",
    "starting": "info",
    "running": "good",
    "stalled": "warn",
    "stopping": "info",
    "completed": "calm",
    "stopped": "calm",
    "failed": "bad",
    "crashed": "bad",
    "lost": "warn",
}
"""Role of each run state; with the prefix ``pill-`` it is drawn as a filled label."""

SYMBOLS: dict[GlyphSet, Symbols] = {
    "braille": Symbols(),
    "block": Symbols(
        corners="┌┐└┘", bar="▄", bar_done="█", bar_rest="░", mark="♦", ellipsis=".", cursor="►", states="·○♦▲○√■xx?"
    ),
    "ascii": Symbols(
        corners="++++",
        horizontal="-",
        vertical="|",
        bar="#",
        bar_done="=",
        bar_rest="-",
        square="#",
        mark="X",
        upper="",
        shades=" .:-=+*#%@",
        dot="-",
        ellipsis="~",
        cursor=">",
        up="^",
        down="v",
        states=".o*!~+=xx?",
    ),
}

ACCENTS: dict[str, tuple[int, int]] = {
    "good": (79, 23),
    "info": (117, 25),
    "calm": (111, 25),
    "warn": (221, 94),
    "bad": (209, 124),
    "series1": (117, 25),
    "series2": (215, 130),
    "series3": (176, 90),
    "series4": (79, 23),
    "series5": (221, 94),
    "series6": (248, 240),
    "mark": (221, 94),
    "dim": (248, 240),
    "frame": (243, 243),
    "ghost": (243, 245),
    "rule": (209, 124),
    "rest": (243, 245),
    "key": (221, 94),
}
"""Colour of each role on a dark and on a light background, index of the 256-colour table; text has a contrast of at
least 4.5:1."""

HEAT = {"dark": (234, 53, 89, 125, 167, 209, 215, 229), "light": (255, 223, 216, 209, 167, 125, 89, 53)}
"""Colours of ascending heat-map levels; lightness is monotonic."""

HEAT_LEVELS = len(HEAT["dark"])

RUN_ROLES = ("series1", "series2", "series3", "series4", "series5", "series6")
"""Colours of compared runs, in the order they were marked."""

PILLS = ("good", "info", "calm", "warn", "bad")
PILL_TEXT = {"dark": 16, "light": 231}
CURSOR_LINE = {"dark": (231, 24), "light": (16, 153)}

ATTRIBUTES: dict[str, Style] = {
    "": Style(),
    "bold": Style(bold=True),
    "title": Style(bold=True),
    "good": Style(bold=True),
    "bad": Style(bold=True),
    "key": Style(bold=True),
    "series1": Style(bold=True),
    "focus": Style(bold=True),
}
"""Style of a role besides its colour; with NO_COLOR, its whole style."""

FAINT = ("frame", "ghost", "rest")
"""Lines and shades without text, dimmed without colour so that they stay behind curves and values."""


@dataclass(frozen=True)
class Theme:
    """Glyphs and styles for one terminal."""

    glyphs: GlyphSet
    styles: Mapping[str, Style]
    background: Background = "dark"
    colour: bool = True

    @property
    def symbols(self) -> Symbols:
        return SYMBOLS[self.glyphs]

    def style(self, role: str) -> Style:
        """Return the style of a role; an unknown role is plain text."""
        return self.styles.get(role, self.styles[""])

    def state_symbol(self, state: str) -> str:
        return dict(zip(STATE_ROLES, self.symbols.states, strict=True)).get(state, "?")


def make_theme(glyphs: GlyphSet = "braille", background: Background = "dark", *, colour: bool = True) -> Theme:
    styles = dict(ATTRIBUTES)
    accents = {role: inks[background == "light"] for role, inks in ACCENTS.items()}
    for role, number in accents.items():
        styles[role] = styles.get(role, Style()) + (_ink(number) if colour else Style())
    if not colour:
        styles |= {role: Style(dim=True) for role in FAINT}
    styles["focus"] = styles["key"]
    text, back = CURSOR_LINE[background]
    styles["cursor"] = _ink(text, back) + Style(bold=True) if colour else Style(reverse=True)
    for upper, first in enumerate(HEAT[background]):
        for lower, second in enumerate(HEAT[background]):
            styles[heat_role(upper, lower)] = _ink(first, second) if colour else Style()
    for role in PILLS:
        filled = _ink(PILL_TEXT[background], accents[role]) if colour else Style(reverse=True)
        styles[f"pill-{role}"] = filled + Style(bold=True)
    return Theme(glyphs, styles, background, colour)


def heat_role(upper: int, lower: int) -> str:
    """Return the role of a half block whose upper and lower halves have these heat-map levels."""
    return f"heat-{upper}-{lower}"


def detect_theme(environment: Mapping[str, str] | None = None, encoding: str | None = None) -> Theme:
    """Return the theme for the current terminal, from its environment variables and encoding."""
    environment = os.environ if environment is None else environment
    encoding = encoding if encoding is not None else locale.getpreferredencoding(False)
    requested = environment.get(GLYPHS_VARIABLE, "")
    glyphs: GlyphSet = "braille"
    if requested in GLYPH_SETS:
        glyphs = requested  # type: ignore[assignment]
    elif "utf" not in encoding.lower():
        glyphs = "ascii"
    elif environment.get("TERM", "") in BLOCK_TERMINALS:
        glyphs = "block"
    return make_theme(glyphs, background_of(environment), colour="NO_COLOR" not in environment)


def background_of(environment: Mapping[str, str]) -> Background:
    requested = environment.get(THEME_VARIABLE, "")
    if requested in ("dark", "light"):
        return requested  # type: ignore[return-value]
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in LIGHT_BACKGROUNDS else "dark"


def _ink(text: int, back: int | None = None) -> Style:
    return Style(color=Color.from_ansi(text), bgcolor=None if back is None else Color.from_ansi(back))
