"""The compare screen: marked runs, overlaid charts, configuration differences."""

from dataclasses import replace

import pytest

from echelon.telemetry.events import EventStart
from echelon_cli.output import percent
from echelon_cli.tui.charts.chart import AxisState, Chart, Series, draw_overlay
from echelon_cli.tui.charts.viewport import Viewport
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.format import LABEL_WIDTH
from echelon_cli.tui.layout import WIDE_SIZE
from echelon_cli.tui.panels import chart_of
from echelon_cli.tui.panels.comparison import (
    FIGURES,
    PanelDifference,
    differences,
    differing_keys,
    draw_compare_header,
    draw_difference,
    headline_figures,
    run_marks,
    run_traces,
)
from echelon_cli.tui.plain_text import draw_comparison
from echelon_cli.tui.screens.compare import CONFIG, TITLES, CompareScreen
from echelon_cli.tui.screens.runs import RunsScreen
from echelon_cli.tui.theme import RUN_ROLES, make_theme
from tests.tui.support.canned import make_run
from tests.tui.test_panels import canned_view

THEME = make_theme()


async def test_compare_screen_overlays_and_follows_marked_runs(dashboard, home, living, ended):
    async with dashboard() as user:
        await user.until("heron", "jackal")
        await user.press("m")
        await user.until("mark two or more runs", "? help")
        await user.press("home", "space", "space", "m")
        assert isinstance(user.app.screen, CompareScreen)
        text = await user.until("win rate", "no difference", "completed", "running")
        lines = text.splitlines()
        assert {line.split()[1].split("-")[-1] for line in lines[1:3]} == {"jackal", "heron"}
        assert any("1 0." in line and "2 0." in line for line in lines), "each legend has both runs"
        await user.press("plus")
        await user.holds(lambda: user.app.screen.viewport.window is not None)
        await user.press("escape")
        assert isinstance(user.app.screen, RunsScreen)
        await user.press("space")
        await user.press("m")
        await user.until("mark two or more runs")


async def test_marking_stops_at_the_number_of_run_colours(dashboard, home):
    for number in range(len(RUN_ROLES) + 1):
        make_run(home, f"20260101-12000{number}-quickstart-iron-fox{number}", updates=2, ended="stopped")
    async with dashboard() as user:
        await user.until("fox6")
        await user.press("home", *["space"] * (len(RUN_ROLES) + 1))
        await user.until("can be compared")


@pytest.mark.parametrize("size", [(160, 48), (60, 20)], ids=str)
async def test_compare_screen_shows_every_panel_uncut(dashboard, living, ended, size):
    async with dashboard(size=size) as user:
        await user.until("jackal")
        await user.press("home", "space", "space", "m")
        screen = user.app.screen
        seen = set()
        for number in range(1, len(CompareScreen.PAGES) + 1):
            await user.press(str(number))
            for name, panel in screen.panels.items():
                if panel.display:
                    seen.add(name)
                    assert screen.region.contains_region(panel.region), name
        # equal configurations have no panel beside the charts
        assert seen == set(screen.panels) - ({CONFIG} if size[0] >= WIDE_SIZE[0] else set())


def test_compared_counts_are_whole():
    chart = Chart(series=(Series(metric="maps_used", label="maps"),), format_value=percent)
    (trace,) = run_traces(chart, [canned_view(20)], Viewport())
    assert trace.series.value_text(69.0, percent) == "69"


def test_compared_win_rate_names_its_measure_and_marks_evaluations():
    assert TITLES["wins"] == "win rate: training mix" and {"entropy", "gradient norm: mean"} <= set(TITLES.values())
    views = [canned_view(20), canned_view(20)]
    assert all(view.snapshot.evals for view in views)
    chart = chart_of("wins")
    for theme, marks in ((THEME, {THEME.symbols.mark}), (make_theme("ascii", "dark", colour=False), {"1", "2"})):
        traces, marked = run_traces(chart, views, Viewport()), run_marks(chart, views)
        grid = draw_overlay(chart, traces, (60, 14), theme, AxisState(), Viewport(), marked)
        plot = "".join(char for row in grid.chars[1:-1] for char in row[LABEL_WIDTH + 1 :])
        assert marks & set(plot) and "eval" in grid.text().splitlines()[0]
        found = {grid.roles[y][x] for y in range(1, 13) for x in range(60) if grid.chars[y][x] in marks}
        assert found & set(RUN_ROLES[:2])
    assert "win rate: training mix" in draw_comparison(views, "wins", 80, THEME).text()


def test_runs_whose_records_are_read_are_loading_and_ended_ones_wait_for_nothing():
    assert RunView().empty_text == RunView(state="completed", behind=True).empty_text == "loading records"
    assert RunView(state="stopped").empty_text == "no update" and RunView(state="running").empty_text == "no update yet"
    panel = PanelDifference("configuration", chart_of("wins"), theme=THEME)
    panel.runs = (canned_view(), RunView(id="x"))
    assert "loading records" in panel.body(60, 5).text()


def test_compare_header_drops_whole_columns():
    view = canned_view()
    for width in (60, 80, 160, 200):
        grid = draw_compare_header([view], width, 2, THEME)
        head, row = grid.text().splitlines()
        assert {"state", "eval", "interval", "against"} <= set(head.split())
        assert head.index("state") <= len("    20260101-120000-quickstart-amber-jackal  "), "close to the name"
        shown = [name for name, _ in FIGURES if name in head.split()]
        assert shown == [name for name, _ in FIGURES][: len(shown)]
        for name in set(shown) - {"diff"}:
            end = f"{head} ".index(f" {name} ") + 1 + len(name)
            assert row[:end].endswith(headline_figures(view)[name]), f"{name} is aligned with its heading"
    last = view.snapshot.evaluation
    report = replace(last, purpose="report", is_best=False, win_rate=last.win_rate + 0.25)
    found = replace(view.snapshot, best=last, evals=(*view.snapshot.evals, report))
    shown = headline_figures(replace(view, snapshot=found))
    assert shown["best"] == shown["eval"] == percent(report.win_rate), "both are of the newest checkpoint"
    assert all(text == "-" for name, text in headline_figures(RunView(id="x")).items() if name != "steps")


def test_config_differences_need_every_run_started():
    one, other = (EventStart(device="cpu", config={"seed": seed}) for seed in (1, 2))
    assert differences([one, one]) == {} and differences([one, other]) == {"seed": [1, 2]}
    assert differences([one, None]) is None and differences([]) is None
    text = draw_difference([one, other], 150, 6, THEME).text().splitlines()
    assert max(map(len, text)) < 30, "values are close to their keys"


def test_config_differences_list_only_differing_keys():
    a, b = {"x": 1, "ppo.lr": 1e-3, "new": 4}, {"x": 1, "ppo.lr": 5e-4}
    assert differing_keys([a, b]) == {"new": [4, None], "ppo.lr": [1e-3, 5e-4]}
    starts = [EventStart(device="cpu", config={"x": 1, "ppo": {"lr": lr}}) for lr in (1e-3, 5e-4)]
    text = draw_difference(starts, 50, 6, THEME).text()
    assert "ppo.lr" in text and "0.001" in text and "0.0005" in text and "x" not in text.split()
    assert "no difference" in draw_difference(starts[:1] * 2, 50, 6, THEME).text()
    assert "once every run has started" in draw_difference([starts[0], None], 50, 6, THEME).text()
    many = [EventStart(device="cpu", config={f"k{i}": side for i in range(20)}) for side in (1, 2)]
    assert "and 16 more" in draw_difference(many, 50, 6, THEME).text()
