"""The machine panel: the newest CPU, memory, disk and GPU use of a run."""

from __future__ import annotations

import math

from echelon.telemetry.events import EventUpdate
from echelon_cli.output import count, duration, percent
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, share_bar, truncate

Row = tuple[str, str, float]
"""Name, formatted value, and the share of the total for a bar; NaN without a bar."""

MIB_IN_GIB = 1024.0

DISK_WARN_MB = 2048.0


class PanelMachine(Panel):
    """The newest system metrics, with bars where the total is known and rows allow."""

    def body(self, width: int, height: int) -> Grid:
        update, start = self.view.snapshot.update, self.view.snapshot.start
        return draw_machine(update, start.threads if start else 0, width, height, self.theme)


def machine_rows(update: EventUpdate, threads: int) -> list[Row]:
    """Return the known system metrics; ``threads`` is the number of cores the trainer may use, 0 if unknown."""
    memory = update.memory_mb / (update.memory_mb + update.memory_free_mb)
    cores = f"{update.cpu_cores:.1f} of {threads}" if threads else f"{update.cpu_cores:.1f}"
    rows: list[tuple[str, str, float, float]] = [
        ("cores", cores, update.cpu_cores / threads if threads else math.nan, update.cpu_cores),
        ("memory", memory_size(update.memory_mb), memory, update.memory_mb),
        ("RAM free", memory_size(update.memory_free_mb), math.nan, update.memory_free_mb),
        ("disk free", memory_size(update.disk_free_mb), math.nan, update.disk_free_mb),
        ("GPU busy", percent(update.gpu_share), update.gpu_share, update.gpu_share),
        ("GPU memory", memory_size(update.gpu_memory_mb), math.nan, update.gpu_memory_mb),
        ("peak memory", memory_size(update.peak_memory_mb), math.nan, update.peak_memory_mb or math.nan),
        ("map waits", count(update.map_stalls), math.nan, update.maps_used or math.nan),
        ("wait time", duration(update.map_wait_s), math.nan, update.map_wait_s or math.nan),
    ]
    return [(name, text, share) for name, text, share, value in rows if math.isfinite(value)]


def memory_size(mib: float) -> str:
    """Return an amount of memory [MiB] in at most six characters: 812M, 14.6G."""
    if not math.isfinite(mib):
        return "-"
    if mib < MIB_IN_GIB:
        return f"{mib:.0f}M"
    gib = mib / MIB_IN_GIB
    return f"{gib:.1f}G" if gib < 100 else f"{gib:.0f}G"


def draw_machine(update: EventUpdate | None, threads: int, width: int, height: int, theme: Theme) -> Grid:
    """Return a row per metric, with a bar below it where rows allow."""
    grid = Grid(width, height)
    rows = machine_rows(update, threads) if update is not None else []
    if not rows:
        grid.put(0, 0, truncate("no data yet", width, theme.symbols.ellipsis), "dim")
        return grid
    spare = height - len(rows)
    y = 0
    for name, text, share in rows:
        is_low = name == "disk free" and update is not None and update.disk_free_mb < DISK_WARN_MB
        grid.put(0, y, truncate(name, width - len(text) - 1, theme.symbols.ellipsis), "")
        grid.right(width, y, text, "warn" if is_low else "series1")
        y += 1
        if math.isfinite(share) and spare > 0:
            grid.spans(0, y, share_bar(share, width, theme))
            y, spare = y + 1, spare - 1
    return grid
