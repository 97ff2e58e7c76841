"""A canvas of dots in layers, rendered to cells in braille, half blocks or ASCII.

A cell takes the colour of its topmost layer; layers that alternate share the cells in which they overlap.
"""

from collections.abc import Iterator

from echelon_cli.tui.theme import GlyphSet

DOTS: dict[GlyphSet, tuple[int, int]] = {"braille": (2, 4), "block": (1, 2), "ascii": (1, 3)}
BRAILLE_BASE = 0x2800
BRAILLE_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bit of the dot in each column and row, top to bottom."""


def _column_bits(bits: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the bits of a run of dots in one dot column of a cell, by first and last row."""
    rows = range(len(bits))
    return tuple(tuple(sum(bits[first : last + 1]) for last in rows) for first in rows)


COLUMN_BITS: dict[GlyphSet, tuple[tuple[tuple[int, ...], ...], ...]] = {
    glyphs: tuple(map(_column_bits, BRAILLE_BITS if glyphs == "braille" else (tuple(1 << y for y in range(rows)),)))
    for glyphs, (_, rows) in DOTS.items()
}
"""Bits of a vertical run of dots in a cell, by dot column, first row and last row."""

BLOCK_CHARS = " ▀▄█"
"""By bits: upper half, lower half."""

ASCII_CHARS = " '-\"_:=|"
"""By bits: top, middle, bottom."""


BACKGROUND_CHARS: dict[GlyphSet, str] = {"braille": "⠡", "block": "░", "ascii": "."}
"""Character of a background, which any curve on it differs from without colour."""

ALTERNATION_CELLS = 2
"""Adjacent cells that one layer colours where alternating layers overlap."""


class Raster:
    """Size of a canvas, in cells and in dots."""

    def __init__(self, width: int, height: int, glyphs: GlyphSet) -> None:
        """Divide ``width`` x ``height`` cells into the dots of ``glyphs``."""
        self.glyphs: GlyphSet = glyphs
        self.columns, self.rows = DOTS[glyphs]
        self.cells_wide = width
        self.width, self.height = width * self.columns, height * self.rows
        self.column_bits = COLUMN_BITS[glyphs]


class Canvas(Raster):
    """Layers of dots; later layers are drawn over earlier ones."""

    def __init__(self, width: int, height: int, glyphs: GlyphSet) -> None:
        """Create an empty canvas of ``width`` x ``height`` cells."""
        super().__init__(width, height, glyphs)
        # layers that knew their canvas would be reference cycles, which stay in memory until they are collected
        self._raster = Raster(width, height, glyphs)
        self._layers: list[Layer] = []

    def layer(self, role: str, *, is_background: bool = False, alternates: bool = False) -> "Layer":
        """Add a layer; a background layer is invisible in cells of later layers, alternating ones share theirs."""
        self._layers.append(Layer(self._raster, role, is_background, alternates))
        return self._layers[-1]

    def cells(self) -> Iterator[tuple[int, int, str, str]]:
        """Yield column, row, character and role of every cell with a dot."""
        top: dict[int, tuple[int, Layer]] = {}
        overlaps: dict[int, list[Layer]] = {}
        for layer in self._layers:
            for cell, bits in layer.cells.items():
                below = top.get(cell)
                lower_bits = 0 if below is None or below[1].is_background else below[0]
                if layer.alternates and below is not None and below[1].alternates:
                    overlaps.setdefault(cell, [below[1]]).append(layer)
                top[cell] = (bits | lower_bits, layer)
        for cell, (bits, layer) in top.items():
            x, y = cell % self.cells_wide, cell // self.cells_wide
            if layer.alternates and cell in overlaps:
                layer = overlaps[cell][x // ALTERNATION_CELLS % len(overlaps[cell])]
            yield x, y, BACKGROUND_CHARS[self.glyphs] if layer.is_background else self.char(bits), layer.role

    def char(self, bits: int) -> str:
        if self.glyphs == "braille":
            return chr(BRAILLE_BASE + bits)
        return BLOCK_CHARS[bits] if self.glyphs == "block" else ASCII_CHARS[bits]


class Layer:
    """Dots of one role; those outside the canvas are ignored."""

    def __init__(self, raster: Raster, role: str, is_background: bool, alternates: bool) -> None:
        self.role, self.is_background, self.alternates = role, is_background, alternates
        self.cells: dict[int, int] = {}
        """Bits of every cell with a dot, by ``row * cells_wide + column``."""
        self._raster = raster

    def dot(self, x: int, y: int) -> None:
        self.vertical(x, y, y)

    def vertical(self, x: int, y1: int, y2: int) -> None:
        """Set the dots of a column from ``y1`` to ``y2``, inclusive and in any order."""
        c, cells = self._raster, self.cells
        first, last = (y1, y2) if y1 <= y2 else (y2, y1)
        first, last = max(first, 0), min(last, c.height - 1)
        if not 0 <= x < c.width or first > last:
            return
        (top, above), (bottom, below) = divmod(first, c.rows), divmod(last, c.rows)
        column, column_bits = x // c.columns, c.column_bits[x % c.columns]
        for row in range(top, bottom + 1):
            cell = row * c.cells_wide + column
            bits = column_bits[above if row == top else 0][below if row == bottom else -1]
            cells[cell] = cells.get(cell, 0) | bits

    def horizontal(self, y: int, every: int) -> None:
        for x in range(0, self._raster.width, every):
            self.dot(x, y)

    def line(self, x1: int, y1: int, x2: int, y2: int, *, dash: int = 0) -> None:
        """Draw a line from left to right; with ``dash``, alternate stretches of that many columns are left out.

        Each column gets all dots between the line's heights at its two edges, so that steep lines have no gaps.
        """
        wide = max(1, x2 - x1)
        for x in range(x1, x2 + 1):
            before, after = max(0.0, x - x1 - 0.5), min(float(x2 - x1), x - x1 + 0.5)
            if not dash or (x // dash) % 2 == 0:
                self.vertical(x, round(y1 + (y2 - y1) * before / wide), round(y1 + (y2 - y1) * after / wide))
