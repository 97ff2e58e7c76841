"""What a run uses of its machine: cores, memory, disk and accelerator, as the newest update says."""

from __future__ import annotations

import math

from echelon.telemetry.events import EventUpdate
from echelon_cli.tui.format import count, duration, percent
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, truncate

Row = tuple[str, str, float]
"""Name, value in words, and the share of what there is, not a number where there is no bar."""

MIB_IN_GIB = 1024.0

DISK_WARN_MB = 2048.0
"""Less room than this is written as a warning."""


class PanelMachine(Panel):
    """The newest figures, each with a bar where there is room and something to compare it with."""

    def body(self, width: int, height: int) -> Grid:
        update, start = self.view.snapshot.update, self.view.snapshot.start
        return draw_machine(update, start.threads if start else 0, width, height, self.theme)


def rows_of(update: EventUpdate, threads: int) -> list[Row]:
    """Return what is known of the use of the machine; ``threads`` is how many cores the trainer may keep busy."""
    memory = update.memory_mb / (update.memory_mb + update.memory_free_mb)
    cores = f"{update.cpu_cores:.1f} of {threads}" if threads else f"{update.cpu_cores:.1f}"
    rows: list[tuple[str, str, float, float]] = [
        ("cores", cores, update.cpu_cores / threads if threads else math.nan, update.cpu_cores),
        ("memory", size(update.memory_mb), memory, update.memory_mb),
        ("free", size(update.memory_free_mb), math.nan, update.memory_free_mb),
        ("disk free", size(update.disk_free_mb), math.nan, update.disk_free_mb),
        ("GPU busy", percent(update.gpu_share), update.gpu_share, update.gpu_share),
        ("GPU memory", size(update.gpu_memory_mb), math.nan, update.gpu_memory_mb),
        ("peak", size(update.peak_memory_mb), math.nan, update.peak_memory_mb or math.nan),
        ("map waits", count(update.map_stalls), math.nan, update.maps_used or math.nan),
        ("waited", duration(update.map_wait_s), math.nan, update.map_wait_s or math.nan),
    ]
    return [(name, text, share) for name, text, share, value in rows if math.isfinite(value)]


def size(mib: float) -> str:
    """Return an amount of memory in at most six characters: 812M, 14.6G."""
    if not math.isfinite(mib):
        return "-"
    if mib < MIB_IN_GIB:
        return f"{mib:.0f}M"
    gib = mib / MIB_IN_GIB
    return f"{gib:.1f}G" if gib < 100 else f"{gib:.0f}G"


def draw_machine(update: EventUpdate | None, threads: int, width: int, height: int, theme: Theme) -> Grid:
    """Return the figures, on two rows with a bar where there is room."""
    grid = Grid(width, height)
    rows = rows_of(update, threads) if update is not None else []
    if not rows:
        grid.put(0, 0, truncate("not told yet", width, theme.symbols.cut), "dim")
        return grid
    spare = height - len(rows)
    y = 0
    for name, text, share in rows:
        low = name == "disk free" and update is not None and update.disk_free_mb < DISK_WARN_MB
        grid.put(0, y, truncate(name, width - len(text) - 1, theme.symbols.cut), "")
        grid.right(width, y, text, "warn" if low else "series1")
        y += 1
        if math.isfinite(share) and spare > 0:
            done = round(max(0.0, min(1.0, share)) * width)
            grid.spans(0, y, [(theme.symbols.line * done, "series1"), (theme.symbols.rest * (width - done), "rest")])
            y, spare = y + 1, spare - 1
    return grid
