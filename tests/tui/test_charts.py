"""Charts as characters: legend, axes, curves, marks, reference lines, stable ranges."""

import itertools
import random
from dataclasses import replace
from functools import lru_cache

import pytest

from echelon.telemetry.events import EventEval
from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.output import measured, percent
from echelon_cli.tui.charts.canvas import BACKGROUND_CHARS
from echelon_cli.tui.charts.chart import AxisState, Chart, Series, draw_chart, position_label
from echelon_cli.tui.charts.curves import Curves, History
from echelon_cli.tui.charts.viewport import Viewport
from echelon_cli.tui.panels import PANELS
from echelon_cli.tui.theme import GLYPH_SETS, make_theme
from tests.tui.support.canned import eval_event, update_event

THEME = make_theme()
SIZE = (36, 12)


@lru_cache
def curves_of(updates: int, seed: int = 1) -> Curves:
    history, rng = History(), random.Random(seed)
    for number in range(1, updates + 1):
        history.add(update_event(number, rng))
    return history.curves()


def rows(chart: Chart, curves: Curves, snapshot: RunSnapshot | None = None, axes: AxisState | None = None, **options):
    grid = draw_chart(chart, curves, snapshot or RunSnapshot(), SIZE, THEME, axes or AxisState(), **options)
    return grid, grid.text().splitlines()


def roles(grid) -> set[str]:
    return {role for line in grid.roles for role in line}


RISING = Chart(series=(Series(metric="explained_variance", label="explained"),))


def test_chart_shows_newest_value_and_axis_ranges():
    _, lines = rows(RISING, curves_of(200))
    assert lines[0].startswith("explained 0.9")
    assert lines[1].split()[0] == "1" and lines[-2].split()[0] == "0"
    assert lines[-1].split() == ["0", "3.8M", "steps"]


def test_legend_uses_newest_update_and_keeps_labels_that_fit():
    wins = PANELS["wins"].chart
    update = update_event(60, random.Random(1))
    snapshot = RunSnapshot(update=replace(update, win_rate=0.375))
    _, lines = rows(wins, curves_of(60), snapshot)
    assert lines[0] == "training mix 38%"
    losses = PANELS["losses"].chart
    grid = draw_chart(losses, curves_of(60), RunSnapshot(), (22, 8), THEME, AxisState())
    head = grid.text().splitlines()[0]
    assert head.startswith("value 0.") and head.endswith("  policy") and grid.roles[0][len(head) - 1] == "series2"


def test_legend_shows_units_where_all_entries_fit():
    curves, kl = curves_of(60), PANELS["kl"].chart

    def head(width: int, chart: Chart = kl) -> str:
        return draw_chart(chart, curves, RunSnapshot(), (width, 8), THEME, AxisState()).text().splitlines()[0]

    assert " nats  clipped " in head(36)
    assert "nats" not in head(26) and "clipped " in head(26)
    assert head(36, Chart(series=(Series(metric="peak_memory_mb", label="peak"),))) == "peak 0.889 GiB"
    assert head(36, Chart(series=(Series(metric="elapsed_s", label="time", unit="sec"),))).endswith(" sec")


def test_legend_shows_counts_without_decimals():
    snapshot = RunSnapshot(update=replace(update_event(60, random.Random(1)), maps_used=3))
    _, lines = rows(Chart(series=(Series(metric="maps_used", label="maps"),)), curves_of(60), snapshot)
    assert lines[0] == "maps 3"


COUNT = Series(metric="maps_used", label="maps")


def test_counts_are_whole_unless_the_series_has_a_format():
    update = replace(update_event(60, random.Random(1)), maps_used=3, win_rate=0.25)

    def head(*series: Series) -> str:
        chart = Chart(series=series, format_value=percent)
        return rows(chart, curves_of(60), RunSnapshot(update=update))[1][0]

    assert head(COUNT) == "maps 3" and head(replace(COUNT, format_value=measured)) == "maps 3.00"
    assert head(Series(metric="win_rate", label="wins"), COUNT) == "wins 25%  maps 3"


@pytest.mark.parametrize("height", [5, 9, 12, 20])
@pytest.mark.parametrize("counts", [(0, 0), (0, 1), (0, 2), (3, 4), (0, 3), (0, 5), (7, 7), (64, 65), (0, 9), (0, 25)])
def test_axis_of_counts_has_whole_labels(counts, height):
    history, rng = History(), random.Random(1)
    for number in range(1, 50):
        history.add(replace(update_event(number, rng), map_stalls=counts[number % 2], win_rate=0.5))
    series = (Series(metric="win_rate", label="wins"), Series(metric="map_stalls", label="stalls", right=True))
    axes = AxisState()
    draw = draw_chart(Chart(series=series), history.curves(), RunSnapshot(), (60, height), THEME, axes)
    labels = [line[54:].strip() for line in draw.text().splitlines()[1:-1] if line[54:].strip()]
    assert len(labels) >= 2 and all(label.lstrip("-").isdigit() for label in labels), labels
    assert axes.right[0] <= counts[0] and counts[1] <= axes.right[1]
    distances = {int(high) - int(low) for high, low in itertools.pairwise(labels)}
    assert len(distances) == 1, f"labels {labels} are evenly spaced"


@pytest.mark.parametrize(("signed", "low"), [(False, "0"), (True, "-1")])
def test_axis_of_zeros_is_below_zero_only_where_values_may_be(signed, low):
    chart = Chart(series=(Series(metric="nonfinite", label="count", signed=signed),))
    axes, curves = AxisState(), curves_of(9)
    for _ in range(2):
        _, lines = rows(chart, curves, axes=axes)
        assert lines[0] == "count 0" and lines[1].split()[0] == "1" and lines[-2].split()[0] == low


def test_dense_evaluations_draw_only_the_newest_interval():
    wins = PANELS["wins"].chart

    def bars(evaluations: int) -> int:
        step = 200 // evaluations
        evals = tuple(eval_event(step * n, 0.5) for n in range(1, evaluations + 1))
        _, lines = rows(wins, curves_of(200), RunSnapshot(evals=evals))
        return len({x for line in lines for x, char in enumerate(line) if char == THEME.symbols.vertical})

    assert bars(4) >= 3 and bars(20) <= 1


@pytest.mark.parametrize("glyphs", GLYPH_SETS)
def test_curve_differs_from_its_band_without_colour(glyphs):
    curves, snapshot = curves_of(200), RunSnapshot(evals=(eval_event(20, 0.5), eval_event(180, 0.6)))
    for name, curve in (("wins", "mark"), ("return", "series1")):
        theme = make_theme(glyphs, colour=False)
        grid = draw_chart(PANELS[name].chart, curves, snapshot, (60, 16), theme, AxisState())
        cells = [(role, char) for y in range(1, 14) for role, char in zip(grid.roles[y], grid.chars[y], strict=True)]
        assert {char for role, char in cells if role == "ghost"} == {BACKGROUND_CHARS[glyphs]}
        shown = {char for role, char in cells if role == curve}
        assert shown and BACKGROUND_CHARS[glyphs] not in shown


def test_rising_curve_is_drawn_rising():
    grid, _ = rows(RISING, curves_of(200))
    curve = [(x, y) for y in range(1, 11) for x in range(7, 36) if grid.roles[y][x] == "series1"]
    assert min(curve)[1] > 6 and max(curve)[1] <= 2


def test_empty_chart_shows_no_update_yet():
    _, lines = rows(RISING, Curves())
    assert any("no update yet" in line for line in lines)


def test_position_label_of_one_is_singular():
    assert [position_label(value, Viewport(x_axis="steps")) for value in (1, 2)] == ["1 step", "2 steps"]


@pytest.mark.parametrize(("x_axis", "end"), [("time", "3m45s"), ("episodes", "5000 episodes"), ("steps", "3.4M steps")])
def test_x_axis_counts_steps_time_or_episodes(x_axis, end):
    _, lines = rows(RISING, curves_of(180), viewport=Viewport(x_axis=x_axis))
    assert lines[-1].endswith(end)


def test_one_more_update_changes_few_cells():
    history, rng, axes = History(), random.Random(1), AxisState()
    changed = []
    before = None
    for number in range(1, 200):
        history.add(update_event(number, rng))
        grid = draw_chart(RISING, history.curves(), RunSnapshot(), SIZE, THEME, axes)
        if before is not None:
            changed.append(sum(region.width for region in grid.changes(before)))
        before = grid
    assert sorted(changed)[len(changed) // 2] < 12, "half of all updates change a dozen cells at most"


@pytest.mark.parametrize(("value", "label", "is_drawn"), [(0.5, "clip 0.5", True), (1e6, "clip 1M", False)])
def test_reference_is_labelled_and_drawn_as_a_dotted_line_unless_it_is_distant(value, label, is_drawn):
    series = (Series(metric="grad_norm", label="mean"),)
    chart = Chart(series=series, reference=lambda snapshot: value, reference_label="clip")
    grid, lines = rows(chart, curves_of(100))
    drawn = sum(line.count("rule") for line in grid.roles[1:])
    assert label in lines[0] and (drawn > 7 if is_drawn else drawn == 0)


def test_second_y_axis_is_labelled_on_the_right_in_its_colour():
    rate = Series(metric="lr", label="step size", role="series2", right=True)
    grid, lines = rows(Chart(series=(Series(metric="entropy", label="entropy"), rate)), curves_of(100))
    assert lines[1].split()[0] in ("15.75", "16")
    assert grid.roles[1][31] == "series2" and grid.roles[1][5] == "series1"


def test_evaluations_are_marked_with_their_interval():
    chart = PANELS["wins"].chart
    snapshot = RunSnapshot(evals=(eval_event(0, 0.05), eval_event(100, 0.5)))
    grid, lines = rows(chart, curves_of(100), snapshot)
    marks = [(x, y) for y, line in enumerate(lines) for x, char in enumerate(line) if char == THEME.symbols.mark]
    assert len(marks) == 2
    (first, low), (last, middle) = sorted(marks)
    assert first == 7 and last > 25
    assert low >= 10 and middle in (5, 6)
    assert "eval 50%" in lines[0]


def test_evaluation_before_first_update_is_marked():
    chart = PANELS["wins"].chart
    untrained = EventEval(update=0, global_step=0, opponent="x", episodes=80, win_rate=0.0)
    _, lines = rows(chart, Curves(), RunSnapshot(evals=(untrained,)))
    assert any(THEME.symbols.mark in line for line in lines)


@pytest.mark.parametrize(("high", "top"), [(0.05, "20%"), (0.35, "40%"), (0.66, "100%")])
def test_axis_of_shares_shrinks_while_all_of_them_are_small(high, top):
    events = tuple(replace(eval_event(number, 0.0), win_high=high) for number in (1, 2))
    curves = replace(curves_of(20), metrics={})
    _, lines = rows(PANELS["wins"].chart, curves, RunSnapshot(evals=events))
    assert lines[1].split()[0] == top


def test_second_curve_is_dashed_without_colour():
    dashed = Series(metric="grad_norm_max", label="max", role="series2", dash=3, raw=False)
    chart, curves = Chart(series=(Series(metric="grad_norm", label="mean", raw=False), dashed)), curves_of(200)

    def cells(theme) -> int:
        grid = draw_chart(chart, curves, RunSnapshot(), (120, 20), theme, AxisState())
        return sum(role == "series2" for line in grid.roles[1:] for role in line)

    assert cells(make_theme(colour=False)) < 0.8 * cells(THEME)
