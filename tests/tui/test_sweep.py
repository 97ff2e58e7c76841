"""The sweep screen at any size, and another run behind the charts of the run screen."""

from dataclasses import replace
from typing import get_args

import pytest

from echelon.jobs.labels import BASELINE, change_labels
from echelon.jobs.status import State
from echelon.jobs.sweeps.results import read_results
from echelon.statistics import Estimate
from echelon_cli.output import count
from echelon_cli.sweep_tables import NO_BEST
from echelon_cli.tui.app import is_sweep
from echelon_cli.tui.feed.messages import SweepView
from echelon_cli.tui.panels.sweep import draw_results, draw_trials
from echelon_cli.tui.screens.run import RunScreen
from echelon_cli.tui.screens.sweep import SweepScreen, SweepTitle
from echelon_cli.tui.theme import make_theme
from tests.jobs.canned_sweep import make_sweep, variants_of
from tests.jobs.test_redteam import make_redteam
from tests.tui.support.canned import alive, make_run

THEME = make_theme()
SIZES = [(160, 48), (60, 20)]


@pytest.fixture
def results(home):
    return read_results(make_sweep(home))


def test_sweep_of_listed_variants_shows_statistics_over_seeds(home):
    found = read_results(make_sweep(home, **variants_of(seeds=3)))
    assert [f.name for f in found.repeated] == ["high lr", "unchanged", "no lstm"], "best first, equal ones as listed"
    assert found.repeated[1].improvement is None
    assert found.repeated[0].improvement == pytest.approx((1.0, 0.4385, 1.0), abs=1e-4)
    text = draw_results(found, (60, 8), THEME).text()
    assert "high lr" in text and "3/3 seeds, better 100% (44% to 100%), from seeds 0 1 2" in text
    assert "no lstm · seed 2" in draw_trials(found, -1, SIZES[-1], THEME).text()


def test_sweep_that_has_ended_has_no_running_trial_and_names_those_that_are_missing(home):
    paths = make_sweep(home, most=15, ended=False)
    stopped = read_results(paths)
    with alive(paths):
        living = [row.state for row in read_results(paths).trials]
    assert living[:3] == ["stopped", "running", "queued"]
    assert {*living, *(row.state for row in read_results(make_sweep(home, "x")).trials)} <= {
        *get_args(State),
        "pruned",
    }, "words of the run's own screen"
    assert [row.state for row in stopped.trials[:3]] == ["stopped", "stopped", "queued"]
    text = draw_trials(stopped, -1, (100, 60), THEME).text()
    assert f"and {stopped.planned - len(stopped.trials)} more" in text
    title = SweepTitle()
    title.view = SweepView(id="x", state="stopped", results=stopped)
    total = count(sum(row.global_step for row in stopped.trials))
    assert f"{total} steps" in title.draw(100, 2).text(), "the steps of the rows"


def test_best_configuration_is_claimed_only_above_all_intervals(results):
    high, low, wide = (Estimate(0.8, 0.7, 0.9), Estimate(0.4, 0.3, 0.5), Estimate(0.4, 0.3, 0.75))
    exact, row, title = Estimate(0.8, float("nan"), float("nan")), results.trials[0], SweepTitle()
    clear, unclear = ((high, low), (exact, low), (high,)), ((high, low, wide), (low, low), (exact, exact))
    for estimates in (*clear, *unclear):
        scores = tuple(replace(results.repeated[0], score=estimate) for estimate in estimates)
        rows = tuple(replace(row, params={"n": n}, **estimate._asdict()) for n, estimate in enumerate(estimates))
        for found in (replace(results, repeated=scores), replace(results, repeated=(), trials=rows)):
            title.view = SweepView(id="x", state="completed", results=found)
            assert (results.best if estimates in clear else NO_BEST) in title.draw(100, 2).text()


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_sweep_screen_shows_every_page(dashboard, home, size):
    paths = make_sweep(home)
    async with dashboard(paths, size=size) as user:
        await user.until("brave-otter", "completed", "24 of 24", "best", "complete")
        if size[0] < 160:
            await user.press("2")
        await user.until("unchanged", "seeds", "ppo.lr")


@pytest.mark.long
async def test_sweep_is_opened_from_the_list_and_its_trials_from_it(dashboard, home):
    paths = make_sweep(home, most=6, ended=False)
    trial = read_results(paths).trials[0]
    make_run(home, trial.run, updates=5, ended="completed")
    async with dashboard() as user:
        await user.press("2")
        await user.until("brave-otter")
        table = user.app.screen.table
        table.move(-100)
        while not is_sweep(table.row.root):
            table.move(1)
        await user.press("enter")
        await user.holds(lambda: isinstance(user.app.screen, SweepScreen))
        await user.until("queued")
        await user.press("home", "enter")
        await user.holds(lambda: isinstance(user.app.screen, RunScreen))
        await user.press("escape")
        await user.holds(lambda: isinstance(user.app.screen, SweepScreen))
        await user.press("s")
        await user.until("not running")


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_red_team_screen_shows_the_curve_and_the_strongest_attacker(dashboard, home, size):
    paths = make_redteam()
    async with dashboard(paths, size=size) as user:
        await user.until("attacks on champion", "training added most from ")
        if size[0] < 160:
            await user.press("2")
        await user.until("25%, 250 steps", "100%, 1000 steps", "70% (60-80) sampled, 50% mean, from ")


def test_red_team_panel_fits_any_size_and_says_what_is_not_measured(home):
    found = read_results(make_redteam(most=8))
    assert found.report and found.report.strongest is None
    title = SweepTitle()
    title.view = SweepView(results=found)
    assert any(each.rates for each in found.report.attackers) and "training added most" in title.draw(80, 2).text()
    for size in ((40, 12), (20, 4), (9, 2)):
        lines = draw_results(found, size, THEME).text().splitlines()
        assert len(lines) <= size[1] and max(map(len, lines)) <= size[0]
    assert "not evaluated yet" in draw_results(found, (40, 12), THEME).text()


@pytest.mark.parametrize("size", [(96, 20), (36, 16), (24, 8)])
def test_sweep_panels_fit_any_size(results, size):
    best = results.trials[0]
    trials = draw_trials(results, best.number, size, THEME).text().splitlines()
    assert len(trials) <= size[1] and "options" in trials[0] and f" {best.number} " in trials[1]
    assert best.state == "completed" and results.importance["ppo.lr"] > 0.5
    grid = draw_results(results, size, THEME)
    assert (grid.width, grid.height) == size and grid.text().strip()


async def test_baseline_is_drawn_behind_the_charts_and_hidden_again(dashboard, ended, living):
    async with dashboard(living) as user:
        await user.until("win rate")
        panel = user.app.screen.panels["entropy"]
        assert not panel.ghost.curves.updates
        await user.press("b")
        await user.until("no other run is the baseline")
        change_labels(ended, add=[BASELINE])
        await user.press("b")
        await user.holds(lambda: panel.ghost.curves.updates, "no ghost on\n")
        assert len(panel.ghost.curves.updates) == 40
        await user.press("b")
        assert not panel.ghost.curves.updates
