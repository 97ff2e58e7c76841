"""Dots, lines and their characters: a canvas of layers that turns into cells in braille, half blocks or ASCII.

A cell shows its topmost layer's colour; equals that meet in it take turns, so that none hides another. Knows no charts,
numbers or axes, only dots.
"""

from __future__ import annotations

from collections.abc import Iterator

from echelon_cli.tui.theme import GlyphSet

DOTS: dict[GlyphSet, tuple[int, int]] = {"braille": (2, 4), "block": (1, 2), "ascii": (1, 3)}
"""Columns and rows of dots in a cell."""

BRAILLE_BASE = 0x2800
BRAILLE_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bit of the dot in each column and row, top to bottom."""


def _column_bits(bits: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the bits of the dots from one row of a cell's column to another, by both."""
    rows = range(len(bits))
    return tuple(tuple(sum(bits[first : last + 1]) for last in rows) for first in rows)


COLUMN_BITS: dict[GlyphSet, tuple[tuple[tuple[int, ...], ...], ...]] = {
    glyphs: tuple(map(_column_bits, BRAILLE_BITS if glyphs == "braille" else (tuple(1 << y for y in range(rows)),)))
    for glyphs, (_, rows) in DOTS.items()
}
"""Bits of a stretch of dots within a cell, by column, first and last row."""

BLOCK_CHARS = " ▀▄█"
"""By bits: upper half, lower half."""

ASCII_CHARS = " '-\"_:=|"
"""By bits: top, middle, bottom."""


ALTERNATION_CELLS = 2
"""Cells in a row that have one colour where equals lie on each other."""


class Canvas:
    """Layers of dots; a later layer lies over an earlier one."""

    def __init__(self, width: int, height: int, glyphs: GlyphSet) -> None:
        """Make an empty canvas of ``width`` x ``height`` cells."""
        self.glyphs: GlyphSet = glyphs
        self.columns, self.rows = DOTS[glyphs]
        self.cells_wide, self.cells_high = width, height
        self.width, self.height = width * self.columns, height * self.rows
        self.column_bits = COLUMN_BITS[glyphs]
        self._layers: list[Layer] = []

    def layer(self, role: str, *, alone: bool = False, equal: bool = False) -> Layer:
        """Add a layer; one drawn ``alone`` vanishes from cells that a later layer uses, ``equal`` ones take turns."""
        self._layers.append(Layer(self, role, alone, equal))
        return self._layers[-1]

    def cells(self) -> Iterator[tuple[int, int, str, str]]:
        """Yield column, row, character and role of every cell that is not empty."""
        top: dict[int, tuple[int, Layer]] = {}
        met: dict[int, list[Layer]] = {}
        for layer in self._layers:
            for place, bits in layer.cells.items():
                below = top.get(place)
                kept = 0 if below is None or below[1].alone else below[0]
                if layer.equal and below is not None and below[1].equal:
                    met.setdefault(place, [below[1]]).append(layer)
                top[place] = (bits | kept, layer)
        for place, (bits, layer) in top.items():
            x, y = place % self.cells_wide, place // self.cells_wide
            if layer.equal and place in met:
                layer = met[place][x // ALTERNATION_CELLS % len(met[place])]
            yield x, y, self.char(bits), layer.role

    def char(self, bits: int) -> str:
        """Return the character with these dots."""
        if self.glyphs == "braille":
            return chr(BRAILLE_BASE + bits)
        return BLOCK_CHARS[bits] if self.glyphs == "block" else ASCII_CHARS[bits]


class Layer:
    """Where one thing is drawn; dots outside the canvas are lost."""

    def __init__(self, canvas: Canvas, role: str, alone: bool, equal: bool) -> None:
        self.role, self.alone, self.equal = role, alone, equal
        self.cells: dict[int, int] = {}
        """Bits of every cell that is not empty, by its number."""
        self._canvas = canvas

    def dot(self, x: int, y: int) -> None:
        """Set a dot."""
        self.vertical(x, y, y)

    def vertical(self, x: int, y1: int, y2: int) -> None:
        """Set the dots of a column from ``y1`` to ``y2``, both included and in any order."""
        c, cells = self._canvas, self.cells
        first, last = (y1, y2) if y1 <= y2 else (y2, y1)
        first, last = max(first, 0), min(last, c.height - 1)
        if not 0 <= x < c.width or first > last:
            return
        (top, above), (bottom, below) = divmod(first, c.rows), divmod(last, c.rows)
        column, column_bits = x // c.columns, c.column_bits[x % c.columns]
        for row in range(top, bottom + 1):
            place = row * c.cells_wide + column
            bits = column_bits[above if row == top else 0][below if row == bottom else -1]
            cells[place] = cells.get(place, 0) | bits

    def horizontal(self, y: int, every: int) -> None:
        """Set every so many dots of a row."""
        for x in range(0, self._canvas.width, every):
            self.dot(x, y)

    def line(self, x1: int, y1: int, x2: int, y2: int, *, dash: int = 0) -> None:
        """Draw from left to right; with ``dash``, every other stretch of so many columns is left out.

        Each column gets the dots between the heights at its two edges, so that a steep line has no holes.
        """
        wide = max(1, x2 - x1)
        for x in range(x1, x2 + 1):
            before, after = max(0.0, x - x1 - 0.5), min(float(x2 - x1), x - x1 + 0.5)
            if not dash or (x // dash) % 2 == 0:
                self.vertical(x, round(y1 + (y2 - y1) * before / wide), round(y1 + (y2 - y1) * after / wide))
