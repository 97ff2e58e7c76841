"""The viewport of charts: window, crosshair, log scale, smoothing, overlays, keys, mouse, panel search."""

import itertools
import re

import pytest
from textual import events

from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.tui.charts.canvas import DOTS
from echelon_cli.tui.charts.chart import AxisState, Chart, Series, draw_chart, draw_overlay
from echelon_cli.tui.charts.curves import Curves
from echelon_cli.tui.charts.plot import Trace
from echelon_cli.tui.charts.viewport import (
    DEFAULT_VIEWPORT,
    SMOOTHING_SPANS,
    Viewport,
    move_crosshair,
    next_smoothing,
    next_x_axis,
    pan,
    zoom,
)
from echelon_cli.tui.panels import COMPARED, chart_of
from echelon_cli.tui.theme import make_theme
from echelon_cli.tui.widgets.filter import matching
from tests.tui.test_charts import RISING, SIZE, THEME, curves_of, rows
from tests.tui.test_panels import canned_view

COLOURS = ("series1", "series2")
VIEWPORTS = (
    DEFAULT_VIEWPORT,
    Viewport(window=(1e6, 1.1e6), crosshair=1.05e6),
    Viewport(log=True),
    Viewport(crosshair=0.0),
)


@pytest.mark.parametrize("name", COMPARED)
def test_crosshair_at_the_newest_value_shows_what_the_chart_shows_without_it(name):
    view = canned_view(60)
    newest = view.curves.positions["steps"][-1]
    shown = []
    for viewport in (Viewport(), Viewport(crosshair=newest)):
        grid = draw_chart(chart_of(name), view.curves, view.snapshot, (120, 12), THEME, AxisState(), viewport)
        shown.append(set(re.findall(r"[\d.e%k-]+(?= |$)", grid.text().splitlines()[0])))
    assert shown[1] and shown[1] <= shown[0], "raw values, not smoothed ones"


def test_schedules_are_not_smoothed():
    (lr,) = (series for series in chart_of("entropy").series if series.metric == "lr")
    curve = curves_of(60).curve("lr")
    assert Trace(lr, curve, ()).smoothed(12.0) == curve.mean != curve.smooth


def test_window_shows_its_range_and_rescales():
    axes = AxisState()
    _, whole = rows(RISING, curves_of(200), axes=axes)
    window = (3_000_000.0, 3_600_000.0)
    _, part = rows(RISING, curves_of(200), axes=axes, viewport=Viewport(window=window))
    assert part[-1].split() == ["3M", "3.6M", "steps"]
    assert float(part[-2].split()[0]) > 0.5 > float(whole[-2].split()[0] or 0)
    _, again = rows(RISING, curves_of(200), axes=axes)
    assert again == whole


def test_crosshair_shows_values_at_its_position():
    curves = curves_of(200)
    grid, lines = rows(RISING, curves, viewport=Viewport(crosshair=curves.positions["steps"][20]))
    assert lines[0] == f"explained {curves.curve('explained_variance').mean[20]:.3f}", "not smoothed"
    columns = {x for y in range(1, 11) for x in range(36) if grid.roles[y][x] == "key"}
    assert len(columns) == 1 and "378k" in lines[-1]
    assert max(columns) == pytest.approx(7 + 29 * 378 / 4000, abs=1)


def test_log_scale_applies_only_to_positive_axes():
    policy = Series(metric="pg_loss", label="policy", role="series2", right=True)
    chart, axes = Chart(series=(Series(metric="grad_norm", label="mean"), policy)), AxisState()
    _, linear = rows(chart, curves_of(200), axes=axes)
    _, lines = rows(chart, curves_of(200), axes=axes, viewport=Viewport(log=True))
    assert axes.log == (True, False)
    assert float(lines[1].split()[0]) / float(lines[-2].split()[0]) > 2
    assert lines[1].split()[-1] == linear[1].split()[-1], "the policy loss is negative at times"
    bounded = Chart(series=(Series(metric="win_rate", label="wins"),), bounds=(0.0, 1.0))
    assert rows(bounded, curves_of(200), viewport=Viewport(log=True))[1] == rows(bounded, curves_of(200))[1]


def test_unsmoothed_chart_shows_newest_value():
    curves = curves_of(120)
    newest = curves.curve("explained_variance").mean[-1]
    assert rows(RISING, curves, viewport=Viewport(span=1.0))[1][0] == f"explained {newest:.3f}"


def test_overlay_draws_each_run_in_its_colour():
    chart = Chart(series=(Series(metric="explained_variance", label="explained"),))
    runs = (
        ("A", COLOURS[0], curves_of(200), "explained_variance"), ("B", COLOURS[1], curves_of(80, seed=2), "win_rate"),
    )  # fmt: skip
    traces = [
        Trace(Series(metric=metric, label=label, role=role, raw=False), c.curve(metric), c.positions["steps"])
        for label, role, c, metric in runs
    ]
    grid = draw_overlay(chart, traces, SIZE, THEME, AxisState())
    lines = grid.text().splitlines()
    assert lines[0].startswith("A 0.9") and "B 0." in lines[0]
    ends = {role: max(x for line in grid.roles[1:-1] for x, r in enumerate(line) if r == role) for role in COLOURS}
    assert ends["series2"] < ends["series1"], "the shorter run ends earlier"
    assert "no update yet" in draw_overlay(chart, [], SIZE, THEME, AxisState()).text()


def test_zoom_and_pan_stay_on_the_axis():
    end = 100.0
    near = zoom(DEFAULT_VIEWPORT, end, 1)
    assert near.window == (50.0, 100.0), "without a crosshair the newest values stay visible"
    around = zoom(Viewport(crosshair=25.0), end, 2)
    assert around.window is not None and around.window[1] - around.window[0] == 25.0
    assert (25.0 - around.window[0]) / 25.0 == pytest.approx(0.25)
    assert zoom(near, end, -1).window is None
    assert pan(near, end, -1).window == (37.5, 87.5)
    assert pan(near, end, 9).window == (50.0, 100.0) and pan(near, end, -99).window == (0.0, 50.0)
    deep = zoom(DEFAULT_VIEWPORT, end, 40)
    assert deep.window is not None and deep.window[1] - deep.window[0] == pytest.approx(end / 256)


def test_crosshair_stays_in_window_and_is_cleared_with_the_axis():
    viewport = move_crosshair(Viewport(window=(50.0, 100.0)), 100.0, at=10.0)
    assert viewport.crosshair == 50.0
    assert move_crosshair(viewport, 100.0, 64).crosshair == 100.0
    assert next_x_axis(viewport) == Viewport(x_axis="time")
    assert {next_smoothing(Viewport(span=span)).span for span in SMOOTHING_SPANS} == set(SMOOTHING_SPANS)


@pytest.mark.parametrize("viewport", VIEWPORTS, ids=str)
@pytest.mark.parametrize("size", [(200, 60), (60, 16), (24, 6), (12, 4), (3, 2), (1, 1), (0, 0)], ids=str)
def test_chart_fits_any_size_in_any_viewport(viewport, size):
    for curves, glyphs in itertools.product((curves_of(50), Curves()), DOTS):
        grid = draw_chart(RISING, curves, RunSnapshot(), size, make_theme(glyphs), AxisState(), viewport)
        assert (grid.width, grid.height) == size
        assert glyphs != "ascii" or grid.text().isascii()


async def test_viewport_is_shared_by_all_charts(dashboard, living):
    async with dashboard(living) as user:
        await user.until("1.1M steps")
        await user.press("plus")
        await user.until("550k")
        assert user.text.count("550k") >= 8, "all charts show the same part"
        await user.press("shift+left")
        await user.until("412k", "962k steps")
        await user.press("0")
        await user.holds(lambda: "550k" not in user.text)
        await user.press("v", *["left"] * 8)
        await user.until("943k")
        at_cross = user.text
        await user.press("left")
        await user.holds(lambda: user.text != at_cross)
        await user.press("escape")
        await user.holds(lambda: "926k" not in user.text)
        await user.press("L")
        await user.until(" log ")


async def test_mouse_sets_crosshair_and_wheel_zooms(dashboard, living):
    async with dashboard(living) as user:
        await user.until("1.1M steps")
        await user.pilot.click("#panel-return", offset=(20, 4))
        await user.holds(lambda: user.app.screen.viewport.crosshair is not None)
        panel = user.app.screen.query_one("#panel-return")
        panel.post_message(events.MouseScrollUp(panel, 20, 4, 0, -1, 0, False, False, False, 60, 14))
        await user.holds(lambda: user.app.screen.viewport.window is not None)


@pytest.mark.parametrize("size", [(160, 48), (60, 20)], ids=str)
async def test_panel_search_matches_words_and_patterns(dashboard, living, size):
    async with dashboard(living, size=size) as user:
        await user.until("win rate")
        await user.press("slash", *"clip|elo")
        await user.holds(lambda: "gradient norm" in user.text or "KL and clipping" in user.text)
        text = await user.until("KL and clipping", "rating")
        assert "win rate " not in text.split("KL and clipping")[0].splitlines()[-1] and "outcomes" not in text
        await user.press("enter")
        assert "clip|elo" in user.text, "the filter stays visible"
        await user.press("escape")
        await user.holds(lambda: "win rate " in user.text and "clip|elo" not in user.text)


def test_filter_treats_invalid_regex_as_literal():
    words = {"kl": "KL and clipping approx_kl", "odd": "what [it is", "wins": "win rate"}
    assert matching(words, "") == set(words)
    assert matching(words, "KL APPROX") == {"kl"} and matching(words, "[it") == {"odd"}
    assert matching(words, "win|clip") == {"kl", "wins"} and not matching(words, "nothing")
