"""Where panels stand: a pure function from the size of the screen to their places.

A wide screen shows all of them; a smaller one a page at a time; a zoomed panel has everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.geometry import Region

WIDE_SIZE = (120, 32)
"""Columns and rows from which all panels are shown at once."""

COLUMNS = 8
"""Units that a row of the wide arrangement is divided into."""

PAGE_COLUMNS = ((120, 4), (0, 2))
"""Panels beside each other on a page, by the width from which it holds."""

MIN_SIZE = (60, 20)
"""Smallest terminal, in columns and rows, that the dashboard fits into."""


@dataclass(frozen=True)
class Slot:
    """What the arrangement needs to know of a panel."""

    name: str
    page: str
    units: int = 2
    """Of ``COLUMNS``, on a wide screen."""
    most: int = 0
    """Rows that are enough for it on a wide screen, where it has a line of its own; 0 takes its share."""


def is_wide(width: int, height: int) -> bool:
    """Whether all panels fit at once."""
    return width >= WIDE_SIZE[0] and height >= WIDE_SIZE[1]


def arrange(
    width: int,
    height: int,
    places: Sequence[Slot],
    *,
    wide: bool,
    page: str = "",
    zoomed: str = "",
    hidden: frozenset[str] = frozenset(),
) -> dict[str, Region]:
    """Return the region of every panel that is to be seen in ``width`` x ``height`` cells.

    ``wide`` shows all that are not hidden; else those of ``page``.
    """
    if width <= 0 or height <= 0:
        return {}
    if zoomed:
        return {zoomed: Region(0, 0, width, height)}
    shown = [p for p in places if p.name not in hidden]
    rows: list[list[Slot]] = [[]]
    if wide:
        for place in shown:
            if sum(p.units for p in rows[-1]) + place.units > COLUMNS:
                rows.append([])
            rows[-1].append(place)
    else:
        mine = [Slot(p.name, p.page, 1) for p in shown if p.page == page]
        columns = next(n for least, n in PAGE_COLUMNS if width >= least)
        rows = [mine[i : i + columns] for i in range(0, len(mine), columns)]
    rows = [row for row in rows if row]
    found: dict[str, Region] = {}
    for row, (top, bottom) in zip(rows, _heights([row[0].most for row in rows], height), strict=True):
        for place, (left, right) in zip(row, _shares([p.units for p in row], width), strict=True):
            found[place.name] = Region(left, top, right - left, bottom - top)
    return found


def _heights(most: Sequence[int], height: int) -> list[tuple[int, int]]:
    """Divide rows of the screen evenly among lines of panels; what is more than enough for one goes to the others."""
    share = height // max(1, len(most))
    fixed = [min(rows, share) for rows in most]
    others = _shares([1] * fixed.count(0), height - sum(fixed)) if 0 in fixed else []
    sizes = iter([bottom - top for top, bottom in others])
    if not others:
        return _shares([1] * len(most), height)
    edges = [0]
    for rows in fixed:
        edges.append(edges[-1] + (rows or next(sizes)))
    return list(zip(edges, edges[1:], strict=False))


def even_slots(places: Sequence[Slot], hidden: frozenset[str], width: int) -> list[Slot]:
    """Return the places of a few panels with equal widths, as many beside each other as are readable."""
    shown = [place for place in places if place.name not in hidden]
    most = next(n for least, n in PAGE_COLUMNS if width >= least)
    beside = min(most, max(1, len(shown)))
    return [Slot(place.name, place.page, COLUMNS // beside) for place in shown]


def _shares(weights: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Divide ``size`` cells among weights without gap or overlap."""
    total, edges = sum(weights), [0]
    for i in range(len(weights)):
        edges.append(round(size * sum(weights[: i + 1]) / total))
    return list(zip(edges, edges[1:], strict=False))
