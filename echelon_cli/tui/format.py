"""Number, time and text formatting for panels and axes; each function states the maximum width of its result."""

import math

from echelon.runs import short_run_id as short_run_id
from echelon_cli.output import COUNTED_FROM, SMALLEST, count, exponent, local_time, measured, trim

LABEL_WIDTH = 6

LABEL_ERROR = 0.03
"""Largest rounding error of an axis label, as a share of the axis."""

SMALL_SPAN = 2e-3

UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))

FIGURE_FONT: dict[str, str] = {
    "0": "###|#.#|#.#|#.#|###",
    "1": ".#.|##.|.#.|.#.|###",
    "2": "###|..#|###|#..|###",
    "3": "###|..#|###|..#|###",
    "4": "#.#|#.#|###|..#|..#",
    "5": "###|#..|###|..#|###",
    "6": "###|#..|###|#.#|###",
    "7": "###|..#|..#|..#|..#",
    "8": "###|#.#|###|#.#|###",
    "9": "###|#.#|###|..#|###",
    "-": "...|...|###|...|...",
    ".": ".|.|.|.|#",
    ":": ".|#|.|#|.",
    "%": "#.#|..#|.#.|#..|#.#",
    "k": "#..|#.#|##.|#.#|#.#",
    "M": "#...#|##.##|#.#.#|#...#|#...#",
    "G": "###|#..|#.#|#.#|###",
    "d": "..#|..#|###|#.#|###",
    "h": "#..|#..|###|#.#|#.#",
    " ": ".|.|.|.|.",
}
"""Large digits, three to five dots wide and five dots high; a cell holds two dots above each other."""

FIGURE_ROWS = 3


def age(seconds: float) -> str:
    """Return an age in at most four characters, rounded down to a minute or more: now, 5m, 3h, 2d."""
    minutes = int(max(0.0, seconds) // 60)
    if minutes < 1:
        return "now"
    if minutes < 60:
        return f"{minutes}m"
    if minutes < 60 * 48:
        return f"{minutes // 60}h"
    days = minutes // 1440
    return f"{days}d" if days < 1000 else f"{days // 365}y"


Evaluated = tuple[float, float, float, str, str]
"""Win rate, low, high, opponent and game of an evaluation."""


def difference(own: Evaluated | None, other: Evaluated | None) -> tuple[str, str]:
    """Return by how many percentage points an evaluation is better than another, with its 95 % interval and its role.

    The role is dim within the interval; the text is empty where opponents or games differ or a win rate is missing.
    """
    if own is None or other is None or own[3:] != other[3:] or not math.isfinite(own[0] - other[0]):
        return "", "dim"
    points, width = own[0] - other[0], math.hypot(own[2] - own[1], other[2] - other[1]) / 2
    return f"{100 * points:+.0f}±{100 * width:.0f}", "dim" if not abs(
        points
    ) > width else "good" if points > 0 else "bad"


def clock(moment: float) -> str:
    return local_time(moment)[-8:]


def speed(value: float) -> str:
    """Return steps per second in at most six characters; - for none."""
    return count(value) if math.isfinite(value) and value > 0 else "-"


def signed(value: float) -> str:
    return f"+{measured(value)}" if value > 0 else measured(value)


def integer_text(value: float) -> str:
    """Return a whole number without decimals, another value as ``measured`` does."""
    return (
        f"{value:.0f}"
        if math.isfinite(value) and value == round(value) and abs(value) < COUNTED_FROM
        else measured(value)
    )


def axis_label(value: float, span: float) -> str:
    """Return an axis label in at most ``LABEL_WIDTH`` characters, precise enough for an axis that spans ``span``."""
    if not math.isfinite(value) or span <= 0:
        return ""
    if abs(value) < span * 1e-6:
        return "0"
    exponents = (exponent(value, 1), exponent(value, 0))
    if span < SMALL_SPAN:
        return next((text for text in exponents if len(text) <= LABEL_WIDTH), "")
    big = max(abs(value), span)
    unit, name = next((u for u in UNITS if big >= u[0] * 10 or big >= u[0] > 1e3), (1.0, ""))
    scaled, step = value / unit, span / unit
    for digits in range(max(0, 2 - math.floor(math.log10(step))), -1, -1):
        number = trim(f"{scaled:.{digits}f}")
        if abs(float(number) - scaled) > LABEL_ERROR * step:
            break
        for text in (number + name, number.replace("0.", ".", 1) + name):
            if len(text) <= LABEL_WIDTH:
                return text
    return next((text for text in exponents if len(text) <= LABEL_WIDTH), "")


def log_label(value: float) -> str:
    """Return the label of a positive number on a logarithmic axis: two digits, at most ``LABEL_WIDTH`` characters."""
    if not math.isfinite(value) or value <= 0:
        return ""
    if SMALLEST <= value < COUNTED_FROM:
        return trim(f"{value:.{max(0, 1 - math.floor(math.log10(value)))}f}").replace("0.", ".", 1)
    return count(value) if value >= COUNTED_FROM else exponent(value, 0)


def large(text: str) -> list[str]:
    """Return text as three rows of half blocks; characters without a glyph are omitted."""
    rows = ["", "", "", "", "", ""]
    for char in text:
        glyph = FIGURE_FONT.get(char)
        if glyph is None:
            continue
        lines = [*glyph.split("|"), "." * len(glyph.split("|")[0])]
        rows = [row + line + "." for row, line in zip(rows, lines, strict=True)]
    blocks = {"..": " ", "#.": "▀", ".#": "▄", "##": "█"}
    return ["".join(blocks[a + b] for a, b in zip(rows[i], rows[i + 1], strict=True)) for i in (0, 2, 4)]


def wrap(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Return text in lines of at most ``width`` characters, broken between words where possible.

    Lines after the first are indented by ``indent`` blanks.
    """
    lines, line = [], ""
    margin = " " * min(indent, max(0, width - indent))
    for word in text.split():
        if line.strip() and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = margin
        line = f"{line} {word}" if line.strip() else f"{line}{word}"
        while len(line) > width > 0:
            lines.append(line[:width])
            line = margin + line[width:]
    return [*lines, line] if line.strip() else lines
