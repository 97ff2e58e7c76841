"""Panel layout: pure functions from the size of the screen to the region of each panel.

A wide screen shows all panels in rows, a smaller one a page at a time; a maximised panel fills the screen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from textual.geometry import Region

WIDE_SIZE = (120, 32)
COLUMNS = 8

PAGE_COLUMNS = ((120, 4), (0, 2))
"""Minimum width in cells, and the panels side by side on a page from that width."""

MIN_SIZE = (60, 20)


@dataclass(frozen=True)
class Slot:
    """Position and size of one panel in the layout."""

    name: str
    page: str
    span: int = 2
    """Width on a wide screen, in grid columns of ``COLUMNS``."""
    max_rows: int = 0
    """Most rows of a panel that is alone in its row on a wide screen; 0 for its share."""
    weight: int = 1
    """Share of the rows of a panel that is alone in its row on a wide screen."""


def is_wide(width: int, height: int) -> bool:
    return width >= WIDE_SIZE[0] and height >= WIDE_SIZE[1]


def arrange(
    width: int,
    height: int,
    slots: Sequence[Slot],
    *,
    wide: bool,
    page: str = "",
    maximised: str = "",
    hidden: frozenset[str] = frozenset(),
) -> dict[str, Region]:
    """Return the region of every visible panel in ``width`` x ``height`` cells.

    ``wide`` shows all that are not ``hidden``, else only those of ``page``; ``maximised`` names a panel shown alone.
    """
    if width <= 0 or height <= 0:
        return {}
    if maximised:
        return {maximised: Region(0, 0, width, height)}
    shown = [slot for slot in slots if slot.name not in hidden]
    rows = wide_rows(shown) if wide else _page_rows([slot for slot in shown if slot.page == page], width)
    regions: dict[str, Region] = {}
    for row, (top, bottom) in zip(rows, _heights([row[0] for row in rows], height), strict=True):
        for slot, (left, right) in zip(row, _shares([slot.span for slot in row], width), strict=True):
            regions[slot.name] = Region(left, top, right - left, bottom - top)
    return regions


def wide_rows(slots: Sequence[Slot]) -> list[list[Slot]]:
    """Fill rows of ``COLUMNS``; a row that is less than half full takes panels from the end of the row above."""
    rows: list[list[Slot]] = []
    for slot in slots:
        if not rows or _span(rows[-1]) + slot.span > COLUMNS:
            rows.append([])
        rows[-1].append(slot)
    for above, row in zip(rows, rows[1:], strict=False):
        if _span(row) < COLUMNS / 2:
            while _span(row) + above[-1].span <= _span(above) - above[-1].span:
                row.insert(0, above.pop())
    return rows


def _page_rows(slots: Sequence[Slot], width: int) -> list[list[Slot]]:
    equal = [Slot(slot.name, slot.page, 1) for slot in slots]
    columns = next(n for min_width, n in PAGE_COLUMNS if width >= min_width)
    return [equal[i : i + columns] for i in range(0, len(equal), columns)]


def _span(row: Sequence[Slot]) -> int:
    return sum(slot.span for slot in row)


def _heights(first: Sequence[Slot], height: int) -> list[tuple[int, int]]:
    """Divide ``height`` by weight among rows of panels, given by their first panel; a maximum leaves excess."""
    share = height // max(1, len(first))
    fixed = [min(slot.max_rows, share) for slot in first]
    weights = [slot.weight for slot in first if not slot.max_rows]
    others = _shares(weights, height - sum(fixed)) if 0 in fixed else []
    sizes = iter([bottom - top for top, bottom in others])
    if not others:
        return _shares([1] * len(first), height)
    edges = [0]
    for rows in fixed:
        edges.append(edges[-1] + (rows or next(sizes)))
    return list(zip(edges, edges[1:], strict=False))


def even_slots(slots: Sequence[Slot], hidden: frozenset[str], width: int) -> list[Slot]:
    """Return the slots that are not hidden with equal widths, as many side by side as are readable."""
    shown = [slot for slot in slots if slot.name not in hidden]
    columns = next(n for min_width, n in PAGE_COLUMNS if width >= min_width)
    per_row = min(columns, max(1, len(shown)))
    return [Slot(slot.name, slot.page, COLUMNS // per_row) for slot in shown]


def _shares(weights: Sequence[int], size: int) -> list[tuple[int, int]]:
    total, edges = sum(weights), [0]
    for i in range(len(weights)):
        edges.append(round(size * sum(weights[: i + 1]) / total))
    return list(zip(edges, edges[1:], strict=False))
