"""The machine panel: the newest CPU, memory, disk and GPU use of a run."""

import math

from echelon.telemetry.events import EventUpdate
from echelon_cli.output import count, duration, percent
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, ValueRow, draw_values, truncate

MIB_IN_GIB = 1024.0

DISK_WARN_MB = 2048.0


class PanelMachine(Panel):
    """The newest system metrics, with bars where the total is known and rows allow."""

    def body(self, width: int, height: int) -> Grid:
        update, start = self.view.snapshot.update, self.view.snapshot.start
        return draw_machine(update, start.threads if start else 0, width, height, self.theme)


def machine_rows(update: EventUpdate, threads: int) -> list[ValueRow]:
    """Return the known system metrics; ``threads`` is the number of cores the worker may use, 0 if unknown."""
    memory = update.memory_mb / (update.memory_mb + update.memory_free_mb)
    cores = f"{update.cpu_cores:.1f} of {threads}" if threads else f"{update.cpu_cores:.1f}"
    disk_role = "warn" if update.disk_free_mb < DISK_WARN_MB else "series1"
    rows = [
        (update.cpu_cores, ValueRow("cores", cores, update.cpu_cores / threads if threads else math.nan)),
        (update.memory_mb, ValueRow("memory", memory_size(update.memory_mb), memory)),
        (update.memory_free_mb, ValueRow("RAM free", memory_size(update.memory_free_mb))),
        (update.disk_free_mb, ValueRow("disk free", memory_size(update.disk_free_mb), role=disk_role)),
        (update.gpu_share, ValueRow("GPU busy", percent(update.gpu_share), update.gpu_share)),
        (update.gpu_memory_mb, ValueRow("GPU memory", memory_size(update.gpu_memory_mb))),
        (update.peak_memory_mb or math.nan, ValueRow("peak memory", memory_size(update.peak_memory_mb))),
        (update.maps_used or math.nan, ValueRow("map waits", count(update.map_stalls))),
        (update.map_wait_s or math.nan, ValueRow("wait time", duration(update.map_wait_s))),
    ]
    return [row for value, row in rows if math.isfinite(value)]


def memory_size(mib: float) -> str:
    """Return an amount of memory [MiB] in at most six characters: 812M, 14.6G."""
    if not math.isfinite(mib):
        return "-"
    if mib < MIB_IN_GIB:
        return f"{mib:.0f}M"
    gib = mib / MIB_IN_GIB
    return f"{gib:.1f}G" if gib < 100 else f"{gib:.0f}G"


def draw_machine(update: EventUpdate | None, threads: int, width: int, height: int, theme: Theme) -> Grid:
    grid = Grid(width, height)
    rows = machine_rows(update, threads) if update is not None else []
    if not rows:
        grid.put(0, 0, truncate("no data yet", width, theme.symbols.ellipsis), "dim")
    draw_values(grid, rows, width, height - len(rows), theme)
    return grid
