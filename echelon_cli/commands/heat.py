"""``echelon runs heat``: heat maps of a run's movement, damage and deaths, in the terminal or as PNG."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from echelon.runs import find_run
from echelon.telemetry.heat_maps import heat_files, read_heat
from echelon_cli import output
from echelon_cli.listing import job_json
from echelon_cli.options import JsonFlag, RunArgument, option

if TYPE_CHECKING:
    import numpy as np

SHADES = " .:-=+*#%@"
"""Characters for rising fractions of the largest cell; a cell is two characters wide."""
PNG_CELL = 24
"""Edge of a cell in a PNG [px]."""

Kind = Literal["movement", "damage", "deaths"]


def heat(
    run: RunArgument,
    kind: Annotated[Kind, option("--kind", "Quantity to show.")] = "movement",
    update: Annotated[int | None, option("--update", "Update of the evaluation; default: the newest.")] = None,
    png: Annotated[Path | None, option("--png", "Write a PNG instead of printing.", "FILE")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show where mechs moved, dealt damage or died in an evaluation."""
    paths = find_run(run)
    found = heat_files(paths.heat)
    if not found:
        raise ValueError(f"run {paths.id!r} has no heat maps: it was not evaluated yet, or eval.heat_cells is 0")
    chosen = max(found) if update is None else update
    if chosen not in found:
        raise ValueError(f"update {chosen} has no heat maps, expected one of: {', '.join(map(str, sorted(found)))}")
    grid = read_heat(found[chosen])[kind]
    if png is not None:
        from echelon.atlas.png import encode_png
        from echelon.files import write_output

        write_output(png, encode_png(picture(grid)))
    if as_json:
        total = float(grid.sum())
        output.show_json(job_json(paths, update=chosen, kind=kind, total=total, cells=grid.tolist()))
        return
    if png is not None:
        output.print_line(f"wrote {png}")
        return
    output.print_line(f"{kind} at update {chosen} of {paths.id}: {len(grid)}x{len(grid)} cells, x to the right, y up")
    for line in letters(grid):
        output.print_line(line)
    output.print_line(f"largest cell {grid.max():g} of {grid.sum():g} in total")


def letters(grid: "np.ndarray") -> list[str]:
    """Return a map ``[y, x]`` as lines of text, largest y first; a cell above 0 is never blank."""
    peak = float(grid.max()) or 1.0
    last = len(SHADES) - 1
    lines = []
    for row in grid[::-1]:
        levels = [0 if value <= 0 else max(1, min(last, round(float(value) / peak * last))) for value in row]
        lines.append("".join(SHADES[level] * 2 for level in levels))
    return lines


def picture(grid: "np.ndarray") -> "np.ndarray":
    """Return a map ``[y, x]`` as RGB pixels, black to red to yellow to white, largest y on top."""
    import numpy as np

    fraction = grid / (float(grid.max()) or 1.0)
    # each channel rises over its own third: a black-body ramp
    channels = [np.clip(3.0 * fraction - third, 0.0, 1.0) for third in range(3)]
    pixels = (np.stack(channels, -1) * 255).round().astype(np.uint8)[::-1]
    return np.ascontiguousarray(pixels.repeat(PNG_CELL, 0).repeat(PNG_CELL, 1))
