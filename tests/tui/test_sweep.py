"""The sweep screen at any size, and another run behind the charts of the run screen."""

from __future__ import annotations

import pytest

from echelon.jobs.sweeps.results import read_results
from echelon_cli.tui.app import is_sweep
from echelon_cli.tui.panels.sweep import draw_results, draw_trials
from echelon_cli.tui.screens.run import RunScreen
from echelon_cli.tui.screens.sweep import SweepScreen
from echelon_cli.tui.theme import make_theme
from tests.jobs.canned_sweep import make_sweep, variants_of
from tests.tui.support.canned import make_run

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
    text = draw_results(found, (50, 8), THEME).text()
    assert "high lr" in text and "3/3 seeds, better 100% (44-100)" in text
    assert "no lstm · seed 2" in draw_trials(found, -1, SIZES[-1], THEME).text()


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


@pytest.mark.parametrize("size", [(96, 20), (36, 16), (24, 8)])
def test_sweep_panels_fit_any_size(results, size):
    best = results.trials[0]
    trials = draw_trials(results, best.number, size, THEME).text().splitlines()
    assert len(trials) <= size[1] and "options" in trials[0] and f" {best.number} " in trials[1]
    assert best.state == "complete" and results.importance["ppo.lr"] > 0.5
    grid = draw_results(results, size, THEME)
    assert (grid.width, grid.height) == size and grid.text().strip()


async def test_ghost_of_the_previous_run_is_drawn_behind_the_charts(dashboard, home, ended, living):
    async with dashboard(living) as user:
        await user.until("win rate")
        panel = user.app.screen.panels["entropy"]
        assert not panel.ghost.curves.updates
        await user.press("b")
        await user.holds(lambda: panel.ghost.curves.updates, "no ghost on\n")
        assert len(panel.ghost.curves.updates) == 40, "the older run of the same preset"
        await user.press("b")
        assert not panel.ghost.curves.updates
