"""SVG exports of a screen, and their content as plain rows: characters, and a letter for the style of each cell.

The plain rows do not depend on how a version of Textual or Rich splits rows into segments and names styles.
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
from echelon_cli.tui.widgets.compositor import full_update

THEMES = {"dark": SVG_EXPORT_THEME, "light": DEFAULT_TERMINAL_THEME}
"""Rich terminal theme by background of the dashboard's theme."""

NAME = "screen"
CELL, LINE, BASE = 12.2, 24.4, 20.0
"""Width and height of a cell in the SVG, and the baseline of the first row."""

CLASS = re.compile(rf"\.{NAME}-(r\d+) \{{ (.*?) \}}")
ROW = re.compile(rf"url\(#{NAME}-line-(\d+)\)")
LETTERS = string.ascii_letters + string.digits
PLAIN = " "


def screen_svg(app: Dashboard, title: str) -> str:
    width, height = app.size
    console = Console(
        width=width, height=height, file=io.StringIO(), force_terminal=True, color_system="truecolor", record=True,
        legacy_windows=False, safe_box=False, _environ={},
    )  # fmt: skip
    console.print(full_update(app))
    return console.export_svg(title=title, theme=THEMES[app.terminal_theme.background], unique_id=NAME)


@dataclass
class _Cell:
    text: str = " "
    foreground: str = ""
    background: str = ""


def plain_rows(svg: str) -> str:
    """Return the rows of an SVG, then the same rows with a letter per style, then the meaning of the letters."""
    styles = {name: " ".join(sorted(words.strip().split(";"))).strip() for name, words in CLASS.findall(svg)}
    cells: dict[tuple[int, int], _Cell] = {}
    for element in ElementTree.fromstring(svg).iter():
        kind, given = element.tag.rpartition("}")[2], element.attrib
        if kind == "rect" and "shape-rendering" in given:
            row, first = round((float(given["y"]) - 1.5) / LINE), round(float(given["x"]) / CELL)
            for x in range(first, first + round(float(given["width"]) / CELL)):
                cells.setdefault((row, x), _Cell()).background = given["fill"]
        elif kind == "text" and (found := ROW.match(given.get("clip-path", ""))):
            row, x = int(found[1]), round(float(given["x"]) / CELL)
            for char in (element.text or "").rstrip("\n"):
                cell = cells.setdefault((row, x), _Cell())
                cell.text, cell.foreground = char.replace("\xa0", " "), styles[given["class"].rpartition("-")[2]]
                x += cell_len(char)
    return _rows(cells)


def _rows(cells: dict[tuple[int, int], _Cell]) -> str:
    height, width = (1 + max(place[axis] for place in cells) for axis in (0, 1))
    letters: dict[str, str] = {}
    texts, style_rows = [], []
    for y in range(height):
        row = [cells.get((y, x), _Cell()) for x in range(width)]
        texts.append("".join(cell.text for cell in row).rstrip())
        style_rows.append("".join(_letter(cell, letters) for cell in row).rstrip())
    meanings = [f"{letter} {style}" for style, letter in letters.items()]
    return "\n".join((*texts, "", *style_rows, "", *meanings))


def _letter(cell: _Cell, letters: dict[str, str]) -> str:
    if not cell.text.strip() and not cell.background:
        return PLAIN
    style = f"{cell.foreground} on {cell.background}" if cell.background else cell.foreground
    return letters.setdefault(style, LETTERS[len(letters)])
