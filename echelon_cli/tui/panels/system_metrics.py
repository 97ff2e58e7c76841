"""The system metrics panel: charts of CPU, memory, disk and GPU use over time, one below the other.

Metrics that the records lack are omitted. The machine panel shows the newest values.
"""

import math
from dataclasses import replace
from typing import Any

from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.output import measured, percent
from echelon_cli.tui.charts.chart import AxisState, Chart, Series, draw_chart
from echelon_cli.tui.charts.curves import Curves
from echelon_cli.tui.panels.base import DASH_COLUMNS, PanelChart
from echelon_cli.tui.panels.machine import MIB_IN_GIB, memory_size
from echelon_cli.tui.widgets.cells import Grid, truncate

MIN_ROWS = 5
"""Rows per chart; more charts are shown only where each has as many."""

PAIRS_FROM = 28
"""Columns from which the two metrics of a pair share a chart with two axes; narrower charts show one metric each."""


def gib(value: float) -> str:
    """Return an amount of memory [GiB] in at most six characters."""
    return memory_size(value * MIB_IN_GIB)


def threads(snapshot: RunSnapshot) -> float:
    """Return the number of cores the worker may use, 0 if unknown."""
    return float(snapshot.start.threads) if snapshot.start else 0.0


def memory(metric: str, label: str, **options: Any) -> Series:
    return Series(metric=metric, label=label, format_value=gib, unit="", **options)


PAIRS: tuple[Chart, ...] = (
    Chart(
        series=(
            Series(metric="gpu_share", label="GPU", role="good", format_value=percent),
            memory("gpu_memory_mb", "GPU memory", role="series2", right=True, dash=DASH_COLUMNS, raw=False),
        ),
        bounds=(0.0, 1.0),
    ),
    Chart(
        series=(
            Series(metric="cpu_cores", label="cores", format_value=measured),
            memory("memory_mb", "memory", role="series2", right=True, dash=DASH_COLUMNS, raw=False),
        ),
        reference=threads,
        reference_label="of",
    ),
    Chart(
        series=(
            memory("memory_free_mb", "RAM free", role="series3"),
            memory("disk_free_mb", "disk free", role="series2", right=True, dash=DASH_COLUMNS, raw=False),
        )
    ),
)
"""Charts of two metrics each; the first ones are shown where rows are few."""

CHARTED: tuple[str, ...] = tuple(series.metric for chart in PAIRS for series in chart.series)


def has_system_metrics(snapshot: RunSnapshot) -> bool:
    """Return whether the newest update has any of the metrics; True before the first update."""
    update = snapshot.update
    return update is None or any(math.isfinite(getattr(update, name)) for name in CHARTED)


def charts_of(curves: Curves, width: int) -> list[Chart]:
    charts = []
    for pair in PAIRS:
        known = [series for series in pair.series if any(map(math.isfinite, curves.curve(series.metric).mean))]
        if len(known) == 2 and width >= PAIRS_FROM:
            charts.append(pair)
            continue
        for series in known:
            is_first = series is pair.series[0]
            single = replace(series, right=False, dash=0, raw=True)
            charts.append(replace(pair, series=(single,)) if is_first else Chart(series=(single,)))
    return charts


class PanelSystemMetrics(PanelChart):
    """As many of the charts as the panel has rows for."""

    def __init__(self, title: str, **options: Any) -> None:
        super().__init__(title, PAIRS[0], **options)
        self._axes_by_metric: dict[str, AxisState] = {}
        """Axis state of each chart, by its first metric."""

    def body(self, width: int, height: int) -> Grid:
        grid, view = Grid(width, height), self.view
        charts = charts_of(view.curves, width)
        if not charts:
            grid.put(0, 0, truncate("no data yet", width, self.theme.symbols.ellipsis), "dim")
            return grid
        if self.axes.run != view.id:
            self._axes_by_metric = {}
        shown = charts[: max(1, height // MIN_ROWS)]
        for i, chart in enumerate(shown):
            top, bottom = round(i * height / len(shown)), round((i + 1) * height / len(shown))
            axes = self._axes_by_metric.setdefault(chart.series[0].metric, AxisState(run=view.id))
            area, curves, snapshot = (width, bottom - top), view.curves, view.snapshot
            drawn = draw_chart(chart, curves, snapshot, area, self.theme, axes, self.viewport, self.ghost.curves)
            grid.paste(0, top, drawn)
            self.axes = axes if i == 0 else self.axes
        return grid
