"""The system metrics panel: charts shown, legends, units, and runs without metrics."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from echelon.telemetry.events import EventUpdate
from echelon.telemetry.snapshot import SnapshotBuilder
from echelon_cli.tui.charts.curves import History
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.panels import PANELS, unneeded_panels
from echelon_cli.tui.panels.system_metrics import MIN_ROWS, PAIRS, PAIRS_FROM, PanelSystemMetrics, charts_of
from echelon_cli.tui.theme import make_theme
from tests.tui.support.canned import start_event, update_event

THEME = make_theme()
GPU = {"gpu_share": 0.93, "gpu_memory_mb": 20480.0}


def updates(count: int = 60, **changes: float) -> list[EventUpdate]:
    rng = random.Random(1)
    return [replace(update_event(number, rng), **changes) for number in range(1, count + 1)]


def viewed(events: list[EventUpdate], name: str = "a") -> RunView:
    history = History()
    for event in events:
        history.add(event)
    builder = SnapshotBuilder([start_event(), *events])
    return RunView(id=name, root=Path(name), snapshot=builder.snapshot(), curves=history.curves())


def panel() -> PanelSystemMetrics:
    made = PANELS["system_metrics"].make("system metrics", theme=THEME)
    assert isinstance(made, PanelSystemMetrics)
    return made


def drawn(view: RunView, width: int, height: int, widget: PanelSystemMetrics | None = None) -> str:
    widget = widget or panel()
    widget.set_reactive(PanelSystemMetrics.view, view)
    return widget.body(width, height).text()


def labels(events: list[EventUpdate], width: int) -> list[list[str]]:
    return [[series.label for series in chart.series] for chart in charts_of(viewed(events).curves, width)]


def test_metrics_are_paired_when_two_axes_fit():
    assert labels(updates(), PAIRS_FROM) == [["cores", "memory"], ["RAM free", "disk free"]]
    assert labels(updates(), PAIRS_FROM - 1) == [["cores"], ["memory"], ["RAM free"], ["disk free"]]
    assert labels(updates(**GPU), PAIRS_FROM)[0] == ["GPU", "GPU memory"]


def test_unknown_system_metrics_are_omitted():
    silent = updates(memory_mb=float("nan"), disk_free_mb=float("nan"))
    assert labels(silent, PAIRS_FROM) == [["cores"], ["RAM free"]]
    only_memory = updates(cpu_cores=float("nan"), memory_free_mb=float("nan"), disk_free_mb=float("nan"))
    (chart,) = charts_of(viewed(only_memory).curves, 60)
    assert not chart.series[0].right and chart.reference is None
    text = drawn(viewed(only_memory), 60, 8)
    assert text.startswith("memory ") and " of " not in text and any("⠀" < char <= "⣿" for char in text)


def test_system_legend_shows_units_and_core_count():
    first = drawn(viewed(updates()), 60, 2 * MIN_ROWS).splitlines()
    assert first[0].startswith("cores 1.88") and "of 2" in first[0] and first[0].split()[-1] == "844M"
    assert "RAM free 11.2G" in first[MIN_ROWS] and "disk free 50.8G" in first[MIN_ROWS]
    text = drawn(viewed(updates(**GPU)), 60, MIN_ROWS)
    assert text.startswith("GPU 93%") and "GPU memory 20.0G" in text and "cores" not in text


@pytest.mark.parametrize(("height", "charts"), [(5, 1), (9, 1), (10, 2), (15, 3), (40, 3)])
def test_system_panel_is_filled_with_charts_that_fit(height, charts):
    lines = drawn(viewed(updates(**GPU)), 60, height).splitlines()
    assert sum(line.split()[0] in ("GPU", "cores", "RAM") for line in lines if line.strip()) == charts
    assert len(lines) == height


def test_narrowest_pair_labels_both_metrics():
    widget = panel()
    widget.set_reactive(PanelSystemMetrics.view, viewed(updates()))
    grid = widget.body(PAIRS_FROM, MIN_ROWS)
    head = grid.text().splitlines()[0]
    assert head.startswith("cores") and head.endswith("memory")
    assert grid.roles[0][head.index("memory")] == "series2"


def test_memory_axis_is_in_gib():
    lines = drawn(viewed(updates(memory_free_mb=10240.0, disk_free_mb=51200.0, cpu_cores=float("nan"))), 60, 20)
    assert "50" in lines and "51.2k" not in lines and "10.2k" not in lines


def test_system_panel_is_unneeded_without_metrics():
    silent = {name: float("nan") for chart in PAIRS for name in (series.metric for series in chart.series)}
    assert "system_metrics" in unneeded_panels(viewed(updates(5, **silent)))
    assert "system_metrics" not in unneeded_panels(viewed(updates(5)))
    assert "system_metrics" not in unneeded_panels(RunView(snapshot=SnapshotBuilder([start_event()]).snapshot())), (
        "unknown before the first update"
    )
    assert "no data yet" in drawn(viewed(updates(5, **silent)), 30, 6)


def test_axis_ranges_reset_for_another_run():
    widget = panel()
    many = viewed(updates(cpu_cores=60.0), "many cores")
    assert "60" in drawn(many, 60, 8, widget)
    after = drawn(viewed(updates(), "few cores"), 60, 8, widget)
    assert after == drawn(viewed(updates(), "few cores"), 60, 8)


def test_mouse_column_maps_to_axis_position():
    widget = panel()
    drawn(viewed(updates()), 60, 20, widget)
    first, after = widget.axes.columns
    assert widget.axes.position_at(first) is not None and widget.axes.position_at(after) is None
