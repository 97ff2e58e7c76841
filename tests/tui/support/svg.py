"""SVG pictures of a screen, and what an SVG shows as plain rows: characters, and a letter for the style of each cell.

Versions of Textual and Rich differ in how they cut a row into pieces and name their styles, not in what is to be seen.
"""

from __future__ import annotations

import io
import re
import string
from dataclasses import dataclass
from xml.etree import ElementTree

from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME

from echelon_cli.tui.app import Dashboard

THEMES = {"dark": SVG_EXPORT_THEME, "light": DEFAULT_TERMINAL_THEME}
"""What the terminal paints where nothing is asked for, by the background that the dashboard draws for."""

NAME = "screen"
CELL, LINE, BASE = 12.2, 24.4, 20.0
"""Width and height of a cell of the pictures, and where the first row of text stands."""

CLASS = re.compile(rf"\.{NAME}-(r\d+) \{{ (.*?) \}}")
ROW = re.compile(rf"url\(#{NAME}-line-(\d+)\)")
LETTERS = string.ascii_letters + string.digits
PLAIN = " "


def picture(app: Dashboard, title: str) -> str:
    """Return the screen as SVG, on a terminal with the background that the dashboard draws for."""
    width, height = app.size
    console = Console(
        width=width, height=height, file=io.StringIO(), force_terminal=True, color_system="truecolor", record=True,
        legacy_windows=False, safe_box=False, _environ={},
    )  # fmt: skip
    console.print(app.screen._compositor.render_update(full=True, screen_stack=app._background_screens))
    return console.export_svg(title=title, theme=THEMES[app.terminal_theme.background], unique_id=NAME)


@dataclass
class _Cell:
    text: str = " "
    active_screen: str = ""
    back: str = ""


def plain(svg: str) -> str:
    """Return the rows of a picture, below them the same rows with a letter per style, and what the letters mean."""
    styles = {name: " ".join(sorted(words.strip().split(";"))).strip() for name, words in CLASS.findall(svg)}
    cells: dict[tuple[int, int], _Cell] = {}
    for element in ElementTree.fromstring(svg).iter():
        kind, given = element.tag.rpartition("}")[2], element.attrib
        if kind == "rect" and "shape-rendering" in given:
            row, first = round((float(given["y"]) - 1.5) / LINE), round(float(given["x"]) / CELL)
            for x in range(first, first + round(float(given["width"]) / CELL)):
                cells.setdefault((row, x), _Cell()).back = given["fill"]
        elif kind == "text" and (found := ROW.match(given.get("clip-path", ""))):
            row, x = int(found[1]), round(float(given["x"]) / CELL)
            for char in (element.text or "").rstrip("\n"):
                cell = cells.setdefault((row, x), _Cell())
                cell.text, cell.active_screen = char.replace("\xa0", " "), styles[given["class"].rpartition("-")[2]]
                x += cell_len(char)
    return _rows(cells)


def _rows(cells: dict[tuple[int, int], _Cell]) -> str:
    height, width = (1 + max(place[axis] for place in cells) for axis in (0, 1))
    letters: dict[str, str] = {}
    texts, themes = [], []
    for y in range(height):
        row = [cells.get((y, x), _Cell()) for x in range(width)]
        texts.append("".join(cell.text for cell in row).rstrip())
        themes.append("".join(_letter(cell, letters) for cell in row).rstrip())
    meanings = [f"{letter} {style}" for style, letter in letters.items()]
    return "\n".join((*texts, "", *themes, "", *meanings))


def _letter(cell: _Cell, letters: dict[str, str]) -> str:
    if not cell.text.strip() and not cell.back:
        return PLAIN
    style = f"{cell.active_screen} on {cell.back}" if cell.back else cell.active_screen
    return letters.setdefault(style, LETTERS[len(letters)])
