"""Themes: contrast, distinguishable colours, glyph sets, and detection of the terminal."""

from itertools import pairwise

import pytest
from rich.color import Color

from echelon_cli.tui import theme as themes
from echelon_cli.tui.screens.help import STATES
from echelon_cli.tui.theme import detect_theme, make_theme
from echelon_cli.tui.widgets.run_table import COLUMNS


def test_every_state_has_symbol_colour_and_description():
    from typing import get_args

    from echelon.jobs.status import State

    for state in get_args(State):
        assert state in themes.STATE_ROLES and state in STATES
        for glyphs in themes.GLYPH_SETS:
            assert make_theme(glyphs).state_symbol(state) != "" and len(make_theme(glyphs).state_symbol(state)) == 1
        assert 2 + len(state) <= next(c.width for c in COLUMNS if c.name == "state")


def luminance(number: int) -> float:
    def linear(part: int) -> float:
        share = part / 255
        return share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = Color.from_ansi(number).get_truecolor()
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


def contrast(a: float, b: float) -> float:
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


GREY_14_PERCENT = 0.0186
"""Luminance of #252525, about the lightest dark terminal background."""


BACKGROUNDS = {"dark": GREY_14_PERCENT, "light": 1.0}
THEMES = pytest.mark.parametrize("background", list(BACKGROUNDS))


def colour(found: Color | None) -> int:
    assert found is not None and found.number is not None
    return found.number


@THEMES
def test_text_has_enough_contrast(background):
    for role, style in make_theme(background=background).styles.items():
        if role.startswith("heat-") or style.color is None:
            continue
        back = BACKGROUNDS[background] if style.bgcolor is None else luminance(colour(style.bgcolor))
        least = 3.0 if role in themes.FAINT else 4.5
        assert contrast(luminance(colour(style.color)), back) >= least, role


@THEMES
def test_roles_use_their_accent_colours(background):
    styles = make_theme(background=background).styles
    plain_rows = {role for role, style in styles.items() if style.color is None}
    assert plain_rows == {"", "bold", "title"}, "these have the text colour of the terminal"
    for role in themes.PILLS:
        assert styles[f"pill-{role}"].bgcolor == styles[role].color
    assert styles["cursor"].bgcolor is not None


@THEMES
def test_heat_levels_differ_in_lightness(background):
    steps = [luminance(number) for number in themes.HEAT[background]]
    assert sorted(steps, reverse=background == "light") == steps
    assert contrast(steps[-1], BACKGROUNDS[background]) >= 4.5 and contrast(steps[0], BACKGROUNDS[background]) < 1.6
    assert all(contrast(a, b) >= 1.15 for a, b in pairwise(steps))


def test_faint_roles_are_dim_without_colour():
    styles = make_theme(colour=False).styles
    assert all(styles[role].dim for role in themes.FAINT)
    assert not any(style.dim for role, style in styles.items() if role not in themes.FAINT), "text is never dimmed"
    assert not any(style.dim for style in make_theme().styles.values())


def test_theme_without_colour_has_no_colours():
    for style in make_theme(colour=False).styles.values():
        assert style.color is None and style.bgcolor is None


@pytest.mark.parametrize(
    ("environment", "encoding", "expected"),
    [
        ({"TERM": "xterm-256color"}, "UTF-8", ("braille", "dark", True)),
        ({"TERM": "linux"}, "UTF-8", ("block", "dark", True)),
        ({"TERM": "xterm"}, "ANSI_X3.4-1968", ("ascii", "dark", True)),
        ({"ECHELON_GLYPHS": "ascii", "NO_COLOR": "1"}, "UTF-8", ("ascii", "dark", False)),
        ({"COLORFGBG": "0;15"}, "UTF-8", ("braille", "light", True)),
        ({"COLORFGBG": "0;15", "ECHELON_THEME": "dark", "ECHELON_GLYPHS": "none"}, "UTF-8", ("braille", "dark", True)),
    ],
)
def test_detect_theme_fits_the_terminal(environment, encoding, expected):
    found = detect_theme(environment, encoding)
    assert (found.glyphs, found.background, found.colour) == expected


def test_ascii_symbols_are_ascii():
    symbols = make_theme("ascii").symbols
    for value in vars(symbols).values():
        for text in value.values() if isinstance(value, dict) else [value]:
            assert text.isascii(), text
