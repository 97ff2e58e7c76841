"""With which characters and colours the dashboard draws, fitted to the terminal it runs in.

Panels name roles ("good", "dim", "series1"); a ``Theme`` turns a role into a style and a symbol into a character. The
terminal's own background and text colour are kept; accents come from a palette that people with any kind of colour
vision can tell apart, and whatever a colour says is said by a word, a symbol or a dash pattern too.
"""

from __future__ import annotations

import locale
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rich.color import Color
from rich.style import Style

GlyphSet = Literal["braille", "block", "ascii"]
"""How finely curves are drawn: 2x4, 1x2 or 1x3 dots a character."""

Background = Literal["dark", "light"]
"""The terminal's background."""

GLYPH_SETS: tuple[GlyphSet, ...] = ("braille", "block", "ascii")

GLYPHS_VARIABLE = "ECHELON_GLYPHS"
"""``braille``, ``block`` or ``ascii``; else the locale and TERM decide."""

THEME_VARIABLE = "ECHELON_THEME"
"""``dark`` or ``light``; else COLORFGBG decides, and dark where it is silent."""

LIGHT_BACKGROUNDS = ("7", "15")
"""Background colours in COLORFGBG that are light."""

BLOCK_TERMINALS = ("linux", "cygwin")
"""Terminals whose fonts have half blocks but no braille."""


@dataclass(frozen=True, kw_only=True)
class Symbols:
    """Characters outside charts; each is one cell wide."""

    corners: str = "╭╮╰╯"
    """Top left, top right, bottom left, bottom right."""
    horizontal: str = "─"
    vertical: str = "│"
    bar: str = "▆"
    """Bars that stand above each other; lower than a row, so that they do not touch."""
    line: str = "━"
    """The done part of a thin bar."""
    rest: str = "─"
    """The part of a thin bar that is not done."""
    square: str = "■"
    """Stands before a name in the colour it has in a bar."""
    mark: str = "◆"
    upper: str = "▀"
    """The upper half of a cell; empty where there is none."""
    shades: str = " ░▒▓█"
    """Rising shares, where colours do not tell them."""
    dot: str = "·"
    cut: str = "…"
    cursor: str = "▸"
    up: str = "▲"
    down: str = "▼"
    states: Mapping[str, str] | None = None


UNICODE_SYMBOLS = Symbols(
    states={
        "starting": "◌",
        "running": "●",
        "stalled": "▲",
        "stopping": "◐",
        "completed": "✔",
        "stopped": "■",
        "failed": "✖",
        "crashed": "✖",
        "lost": "?",
    }
)

CODEPAGE_SYMBOLS = Symbols(
    corners="┌┐└┘",
    bar="▄",
    line="█",
    rest="░",
    mark="♦",
    cut=".",
    cursor="►",
    states={
        "starting": "○",
        "running": "♦",
        "stalled": "▲",
        "stopping": "○",
        "completed": "√",
        "stopped": "■",
        "failed": "x",
        "crashed": "x",
        "lost": "?",
    },
)
"""What the fonts of text consoles have."""

PLAIN = Symbols(
    corners="++++",
    horizontal="-",
    vertical="|",
    bar="#",
    line="=",
    rest="-",
    square="#",
    mark="X",
    upper="",
    shades=" .:-=+*#%@",
    dot="-",
    cut="~",
    cursor=">",
    up="^",
    down="v",
    states={
        "starting": "o",
        "running": "*",
        "stalled": "!",
        "stopping": "~",
        "completed": "+",
        "stopped": "=",
        "failed": "x",
        "crashed": "x",
        "lost": "?",
    },
)

SYMBOLS: dict[GlyphSet, Symbols] = {"braille": UNICODE_SYMBOLS, "block": CODEPAGE_SYMBOLS, "ascii": PLAIN}

STATE_ROLES: dict[str, str] = {
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
"""The role in which a state is written; ``pill-`` before it is the same as a filled label."""

DARK_ACCENTS: dict[str, int] = {
    "good": 79,
    "info": 117,
    "calm": 111,
    "warn": 221,
    "bad": 209,
    "series1": 117,
    "series2": 215,
    "series3": 176,
    "series4": 79,
    "series5": 221,
    "series6": 248,
    "mark": 221,
    "dim": 248,
    "frame": 243,
    "ghost": 243,
    "rule": 209,
    "rest": 243,
    "key": 221,
}
"""Colour of each role on a dark background, as a number of the 256-colour table; text has 4.5:1 and more."""

LIGHT_ACCENTS: dict[str, int] = {
    "good": 23,
    "info": 25,
    "calm": 25,
    "warn": 94,
    "bad": 124,
    "series1": 25,
    "series2": 130,
    "series3": 90,
    "series4": 23,
    "series5": 94,
    "series6": 240,
    "mark": 94,
    "dim": 240,
    "frame": 243,
    "ghost": 245,
    "rule": 124,
    "rest": 245,
    "key": 94,
}
"""The same on a light background."""

HEAT = {"dark": (234, 53, 89, 125, 167, 209, 215, 229), "light": (255, 223, 216, 209, 167, 125, 89, 53)}
"""Colours of rising shares of the fullest place of a heat map; their lightness rises, or falls, all the way."""

HEAT_LEVELS = len(HEAT["dark"])

RUN_ROLES = ("series1", "series2", "series3", "series4", "series5", "series6")
"""Colours of runs that are compared, in the order they were chosen."""

PILLS = ("good", "info", "calm", "warn", "bad")
PILL_TEXT = {"dark": 16, "light": 231}
"""Text on a filled label: black on bright, white on deep."""

CURSOR_LINE = {"dark": (231, 24), "light": (16, 153)}
"""Text and background of the chosen row."""

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
"""What a role looks like beside its colour; with NO_COLOR, all it looks like."""

FAINT = ("frame", "ghost", "rest")
"""Lines and shades without text, which stay behind curves and figures where no colour keeps them there."""


@dataclass(frozen=True)
class Theme:
    """The characters and styles of one terminal."""

    glyphs: GlyphSet
    styles: Mapping[str, Style]
    background: Background = "dark"
    colour: bool = True

    @property
    def symbols(self) -> Symbols:
        return SYMBOLS[self.glyphs]

    def style(self, role: str) -> Style:
        """Return how a role is drawn; an unknown one as plain text."""
        return self.styles.get(role, self.styles[""])

    def state_symbol(self, state: str) -> str:
        return (self.symbols.states or {}).get(state, "?")


def make_theme(glyphs: GlyphSet = "braille", background: Background = "dark", *, colour: bool = True) -> Theme:
    """Return the look of a terminal with these abilities."""
    styles = dict(ATTRIBUTES)
    accents = DARK_ACCENTS if background == "dark" else LIGHT_ACCENTS
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
    """Return the role of a half block whose halves have these levels of heat."""
    return f"heat-{upper}-{lower}"


def detect_theme(environment: Mapping[str, str] | None = None, encoding: str | None = None) -> Theme:
    """Return the look that fits this terminal."""
    environment = os.environ if environment is None else environment
    encoding = encoding if encoding is not None else locale.getpreferredencoding(False)
    asked = environment.get(GLYPHS_VARIABLE, "")
    glyphs: GlyphSet = "braille"
    if asked in GLYPH_SETS:
        glyphs = asked  # type: ignore[assignment]
    elif "utf" not in encoding.lower():
        glyphs = "ascii"
    elif environment.get("TERM", "") in BLOCK_TERMINALS:
        glyphs = "block"
    return make_theme(glyphs, background_of(environment), colour="NO_COLOR" not in environment)


def background_of(environment: Mapping[str, str]) -> Background:
    """Return whether the terminal's background is said to be dark or light."""
    asked = environment.get(THEME_VARIABLE, "")
    if asked in ("dark", "light"):
        return asked  # type: ignore[return-value]
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in LIGHT_BACKGROUNDS else "dark"


def _ink(text: int, back: int | None = None) -> Style:
    return Style(color=Color.from_ansi(text), bgcolor=None if back is None else Color.from_ansi(back))
