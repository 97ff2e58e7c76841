"""Figures as short text for panels and axes: nothing here knows a widget, and no result is longer than it says."""

from __future__ import annotations

import math
import time

from echelon_cli.output import count, duration, percent

__all__ = [
    "age",
    "axis_label",
    "brief",
    "clock",
    "count",
    "duration",
    "large",
    "log_label",
    "measured",
    "percent",
    "short_run_id",
    "signed",
    "speed",
]

LABEL_WIDTH = 6
"""Cells of a label at an axis."""

LABEL_ERROR = 0.03
"""Share of an axis by which a label may be rounded."""

SMALL_SPAN = 2e-3
"""Axes that span less are labelled with exponents."""

NOTHING = 1e-99
SMALLEST = 1e-3
COUNTED_FROM = 1e4
"""Values are 0 below the first, have an exponent below the second, a unit above the third, else decimals."""

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
"""Large figures, three to five dots wide and five high; two dots make a cell."""

FIGURE_ROWS = 3


def age(seconds: float) -> str:
    """Return how long ago something was in at most four characters; it changes at most once a minute."""
    minutes = int(max(0.0, seconds) // 60)
    if minutes < 1:
        return "now"
    if minutes < 60:
        return f"{minutes}m"
    if minutes < 60 * 48:
        return f"{minutes // 60}h"
    days = minutes // 1440
    return f"{days}d" if days < 1000 else f"{days // 365}y"


def brief(seconds: float | None) -> str:
    """Return a time span as a clock shows it: 4:28, 5h02, 2d04; - where there is none."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    whole = max(0, round(seconds))
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}"


def clock(moment: float) -> str:
    """Return a time of day, HH:MM:SS."""
    return time.strftime("%H:%M:%S", time.localtime(moment))


def speed(value: float) -> str:
    """Return steps per second in at most six characters, - where there are none."""
    return count(value) if math.isfinite(value) and value > 0 else "-"


def signed(value: float) -> str:
    """Return a measured value with its sign."""
    return f"+{measured(value)}" if value > 0 else measured(value)


def short_run_id(run_id: str) -> str:
    """Return the two words at the end of a run's id, by which it can be called."""
    words = run_id.split("-")
    return "-".join(words[-2:]) if len(words) >= 4 and words[0].isdigit() else run_id


def measured(value: float) -> str:
    """Return a measured value with three digits in at most seven characters, - where there is none."""
    if not math.isfinite(value):
        return "-"
    size = abs(value)
    if size < NOTHING:
        return "0"
    if size >= COUNTED_FROM:
        return count(value)
    if size < SMALLEST:
        return _exponent(value, 1)
    return f"{value:.{min(4, max(0, 2 - math.floor(math.log10(size))))}f}"


def axis_label(value: float, span: float) -> str:
    """Return a number in at most six characters, precise enough for an axis that spans ``span``."""
    if not math.isfinite(value) or span <= 0:
        return ""
    if abs(value) < span * 1e-6:
        return "0"
    exponents = (_exponent(value, 1), _exponent(value, 0))
    if span < SMALL_SPAN:
        return next((text for text in exponents if len(text) <= LABEL_WIDTH), "")
    big = max(abs(value), span)
    unit, name = next((u for u in UNITS if big >= u[0] * 10 or big >= u[0] > 1e3), (1.0, ""))
    scaled, step = value / unit, span / unit
    for digits in range(max(0, 2 - math.floor(math.log10(step))), -1, -1):
        number = _trim(f"{scaled:.{digits}f}")
        if abs(float(number) - scaled) > LABEL_ERROR * step:
            break
        for text in (number + name, number.replace("0.", ".", 1) + name):
            if len(text) <= LABEL_WIDTH:
                return text
    return next((text for text in exponents if len(text) <= LABEL_WIDTH), "")


def log_label(value: float) -> str:
    """Return a number above 0 in at most six characters, with two digits: labels of a logarithmic axis are apart."""
    if not math.isfinite(value) or value <= 0:
        return ""
    if SMALLEST <= value < COUNTED_FROM:
        return _trim(f"{value:.{max(0, 1 - math.floor(math.log10(value)))}f}").replace("0.", ".", 1)
    return count(value) if value >= COUNTED_FROM else _exponent(value, 0)


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _exponent(value: float, digits: int) -> str:
    """Return 2e-4 or 2.5e-4."""
    mantissa, _, power = f"{value:.{digits}e}".partition("e")
    return f"{_trim(mantissa)}e{int(power)}"


def large(text: str) -> list[str]:
    """Return text as three rows of half blocks; unknown characters are left out."""
    rows = ["", "", "", "", "", ""]
    for char in text:
        glyph = FIGURE_FONT.get(char)
        if glyph is None:
            continue
        lines = [*glyph.split("|"), "." * len(glyph.split("|")[0])]
        rows = [row + line + "." for row, line in zip(rows, lines, strict=True)]
    blocks = {"..": " ", "#.": "▀", ".#": "▄", "##": "█"}
    return ["".join(blocks[a + b] for a, b in zip(rows[i], rows[i + 1], strict=True)) for i in (0, 2, 4)]
