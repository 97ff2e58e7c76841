"""The panel of what a run used of its machine over time: a chart for each pair of figures, one below the other.

What records do not tell is left out. ``machine`` shows the newest figures.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.tui.charts.chart import AxisState, Chart, Series, draw_chart
from echelon_cli.tui.charts.curves import Curves
from echelon_cli.tui.format import measured, percent
from echelon_cli.tui.panels.base import DASH_COLUMNS, PanelChart
from echelon_cli.tui.panels.machine import MIB_IN_GIB, size
from echelon_cli.tui.widgets.cells import Grid, truncate

MIN_ROWS = 5
"""Rows that a chart gets before there is one more."""

PAIRS_FROM = 28
"""Columns that name both figures of a pair, so that each has its axis; narrower charts show one figure each."""


def gib(value: float) -> str:
    """Return an amount of memory [GiB] in at most six characters."""
    return size(value * MIB_IN_GIB)


def threads(snapshot: RunSnapshot) -> float:
    """Return how many cores the trainer may keep busy, 0 while unknown."""
    return float(snapshot.start.threads) if snapshot.start else 0.0


def memory(metric: str, label: str, **options: Any) -> Series:
    """Return the curve of an amount of memory."""
    return Series(metric=metric, label=label, text=gib, **options)


PAIRS: tuple[Chart, ...] = (
    Chart(
        series=(
            Series(metric="gpu_share", label="GPU", role="good", text=percent),
            memory("gpu_memory_mb", "GPU memory", role="series2", right=True, dash=DASH_COLUMNS, raw=False),
        ),
        bounds=(0.0, 1.0),
    ),
    Chart(
        series=(
            Series(metric="cpu_cores", label="cores", text=measured),
            memory("memory_mb", "memory", role="series2", right=True, dash=DASH_COLUMNS, raw=False),
        ),
        reference=threads,
        reference_label="of",
    ),
    Chart(
        series=(
            memory("memory_free_mb", "free", role="series3"),
            memory("disk_free_mb", "disk free", role="series2", right=True, dash=DASH_COLUMNS, raw=False),
        ),
    ),
)
"""What matters most comes first, and has the room where there is little."""

TOLD: tuple[str, ...] = tuple(series.metric for chart in PAIRS for series in chart.series)
"""Fields of an update that are drawn."""


def has_system_metrics(snapshot: RunSnapshot) -> bool:
    """Say whether the records of a run tell what it uses; unknown counts as yes."""
    update = snapshot.update
    return update is None or any(math.isfinite(getattr(update, name)) for name in TOLD)


def charts_of(curves: Curves, width: int) -> list[Chart]:
    """Return the charts of what is told, in pairs where they fit."""
    found = []
    for pair in PAIRS:
        told = [series for series in pair.series if any(map(math.isfinite, curves.curve(series.metric).mean))]
        if len(told) == 2 and width >= PAIRS_FROM:
            found.append(pair)
            continue
        for series in told:
            is_first = series is pair.series[0]
            alone = replace(series, right=False, dash=0, raw=True)
            found.append(replace(pair, series=(alone,)) if is_first else Chart(series=(alone,)))
    return found


class PanelSystemMetrics(PanelChart):
    """As many charts as there is room for."""

    def __init__(self, title: str, **options: Any) -> None:
        super().__init__(title, PAIRS[0], **options)
        self._axes_by_metric: dict[str, AxisState] = {}
        """Ranges of each chart, by its first figure."""

    def body(self, width: int, height: int) -> Grid:
        grid, view = Grid(width, height), self.view
        charts = charts_of(view.curves, width)
        if not charts:
            grid.put(0, 0, truncate("not told yet", width, self.theme.symbols.cut), "dim")
            return grid
        if self.axes.run != view.id:
            self._axes_by_metric = {}
        shown = charts[: max(1, height // MIN_ROWS)]
        for i, chart in enumerate(shown):
            top, bottom = round(i * height / len(shown)), round((i + 1) * height / len(shown))
            axes = self._axes_by_metric.setdefault(chart.series[0].metric, AxisState(run=view.id))
            area = (width, bottom - top)
            grid.paste(0, top, draw_chart(chart, view.curves, view.snapshot, area, self.theme, axes, self.viewport))
            self.axes = axes if i == 0 else self.axes
        return grid
