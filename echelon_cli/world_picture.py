"""Drawing of a world in the terminal: coloured half blocks with a legend, or letters without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from echelon_cli import output

if TYPE_CHECKING:
    from rich.text import Text

    from echelon.atlas.render import Pixels
    from echelon.atlas.scene import Scene
    from echelon.atlas.views import Key, MapView

UPPER_HALF = "▀"
LEGEND_WIDTH = 28
"""Width of a legend beside the drawing [columns]."""
MIN_LINES = 8
MARGIN_LINES = 3
"""Lines reserved for the title and the next prompt."""
PLAIN_COLUMNS = 100
"""Width of a drawing written into a pipe [columns]."""
SWATCH = "██ "
NORTH_NOTE = "x to the right, y up"


def show_picture(title: str, scene: Scene, sheet: MapView, *, plain: bool = False, width: int | None = None) -> None:
    """Print a view of a world: in colour on a colour terminal, else in letters."""
    console = output.console()
    if plain or console.no_color or console.color_system is None:
        _show_letters(title, scene, sheet, width)
    else:
        _show_colours(title, scene, sheet, width)


def _show_letters(title: str, scene: Scene, sheet: MapView, width: int | None) -> None:
    from echelon.atlas.render import letters

    x, y, z = scene.size
    columns = min(width or (output.console().width if output.console().is_terminal else PLAIN_COLUMNS), 2 * x)
    # a letter is twice as high as it is wide
    rows = max(1, round(columns * y / x / 2))
    output.print_line(f"{title}: {x}x{y}x{z}, {NORTH_NOTE}, scale {x / columns:.3g} voxels")
    for line in letters(scene, sheet, columns, rows):
        output.print_line(line.rstrip())
    for look, meaning in sheet.legend:
        output.print_line(f"{look.letter if look.letter.strip() else 'blank'}  {meaning}")


def _show_colours(title: str, scene: Scene, sheet: MapView, width: int | None) -> None:
    from rich.table import Table

    from echelon.atlas.render import fit_size, pixels

    console = output.console()
    x, y, z = scene.size
    legend_beside = console.width >= 2 * LEGEND_WIDTH and width is None
    available = console.width - (LEGEND_WIDTH if legend_beside else 0)
    lines = max(console.height - MARGIN_LINES, MIN_LINES)
    columns, rows = fit_size((x, y), available, 2 * lines) if width is None else (width, max(1, round(width * y / x)))
    picture = half_blocks(pixels(scene, sheet, columns, rows + rows % 2))
    legend = _legend(sheet.legend, f"{x}x{y}x{z}", NORTH_NOTE, f"scale {x / columns:.3g} voxels")
    output.print_line(title, style="bold")
    if legend_beside:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_row(picture, legend)
        output.print_rendered(grid)
    else:
        output.print_rendered(picture, soft_wrap=True)
        output.print_rendered(legend)


def half_blocks(pixels: Pixels) -> Text:
    """Return pixels [rows, columns, 3] as text: two rows per line, runs of equal characters joined."""
    from rich.style import Style
    from rich.text import Text

    text = Text(no_wrap=True, end="")
    height = len(pixels) - len(pixels) % 2
    for row in range(0, height, 2):
        pairs = [(*above, *below) for above, below in zip(pixels[row].tolist(), pixels[row + 1].tolist(), strict=True)]
        start = 0
        for at in range(1, len(pairs) + 1):
            if at == len(pairs) or pairs[at] != pairs[start]:
                style = Style(color=_hex(pairs[start][:3]), bgcolor=_hex(pairs[start][3:]))
                text.append(UPPER_HALF * (at - start), style)
                start = at
        if row + 2 < height:
            text.append("\n")
    return text


def _legend(key: tuple[Key, ...], *notes: str) -> Text:
    from rich.text import Text

    text = Text()
    for look, meaning in key:
        text.append(SWATCH, _hex(look.colour))
        text.append(f"{meaning}\n")
    for note in notes:
        text.append(f"{note}\n", "dim")
    return text


def _hex(colour: tuple[int, ...]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
