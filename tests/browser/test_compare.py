"""Two matches side by side: one clock, the first difference, what differs at a moment; from the list and from files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from echelon.arena.branch import Brancher, BranchPlan
from echelon.replay.reader import Replay
from echelon.server.catalogue import match_id
from tests.arena.recorded_matches import record_matches, small_game
from tests.browser.conftest import GOLDEN, RUN, SMOKE, served

PAIR = match_id(RUN, "u000001-blue.ecr"), match_id(RUN, "u000002-blue.ecr")
AT = 120
"""Tick at which the branch leaves its original."""
OPENED = "() => echelon.compare.panes !== null && echelon.compare.panes.every((pane) => pane.complete)"
READ = "() => echelon.compare.scan.read === 1"


@pytest.fixture
def second(home: Path) -> Iterator[Path]:
    """The golden match a second time."""
    path = home / RUN / "replays" / "u000002-blue.ecr"
    shutil.copy(GOLDEN, path)
    yield path
    path.unlink()


def test_two_matches_are_chosen_in_the_list_and_share_a_clock(page, address, second):
    page.goto(f"{address}/?quality=low")
    page.locator(".cards > li").nth(1).wait_for()
    page.locator(".cards > li").first.hover()
    page.locator(".card-compare").first.click()
    page.locator(".choose-bar").wait_for(state="visible")
    page.locator(".cards > li.same-map .card").click()
    page.wait_for_function(OPENED)
    page.wait_for_function(READ)
    page.locator(".compare-first", has_text="No difference").wait_for()
    assert page.locator(".compare-shared").inner_text() == "Same map and seed"
    page.evaluate("() => { echelon.compare.playing = false; echelon.compare.seek(3); }")
    page.wait_for_function("() => echelon.compare.panes.every(({ state }) => state.tick === 60)")
    page.wait_for_function("() => location.hash.endsWith('t=3.0')")
    assert page.locator(".compare-table td.differs").count() == 0
    page.keyboard.press("Escape")
    page.locator(".cards").wait_for(state="visible")


@pytest.mark.long
def test_link_of_two_matches_opens_paused(page, address, second):
    page.goto(f"{address}/?a={PAIR[0]}&b={PAIR[1]}&quality=low")
    page.wait_for_function(OPENED)
    page.goto(f"{address}/?quality=low#a={PAIR[0]}&b={PAIR[1]}&t=2.0")
    page.wait_for_function(OPENED)
    assert page.evaluate("() => [echelon.compare.seconds, echelon.compare.playing]") == [2, False]


@pytest.mark.long
def test_branch_is_compared_with_its_original_from_the_moment_it_leaves_it(page, tmp_path):
    source = record_matches(tmp_path / "made", small_game(seconds=16.0), random_mech=False)[0].path
    folder = tmp_path / "home" / RUN / "replays"
    folder.mkdir(parents=True)
    (folder.parent / "spec.json").write_text("{}")
    shutil.copy(source, folder)
    with Replay(source) as replay:
        Brancher(replay, BranchPlan(tick=AT, runs=1)).play([0], folder=folder)
    with served(tmp_path / "home") as address:
        page.goto(f"{address}/?quality=low")
        page.locator(".branch-tree summary").click()
        page.locator(".branch-compare").click()
        page.wait_for_function(OPENED)
        page.wait_for_function(READ)
        assert page.evaluate("() => [echelon.compare.seconds, echelon.compare.playing]") == [AT / 20, False]
        assert page.locator(".compare-shared").inner_text().startswith("Same map")
        page.locator(".compare-first", has_text="First difference at 0:0").wait_for()
        assert page.evaluate("() => echelon.compare.scan.difference.tick") >= AT


@pytest.mark.long
def test_two_files_show_their_differences(page, address):
    page.goto(f"{address}/?quality=low")
    page.locator("input[type=file]").set_input_files([str(GOLDEN), str(SMOKE)])
    page.wait_for_function("() => echelon.compare.panes !== null")
    page.wait_for_function(READ)
    page.evaluate("() => { echelon.compare.playing = false; echelon.compare.seek(4); }")
    page.locator(".compare-first", has_text="First difference at 0:00.0").wait_for()
    page.locator(".compare-table td.differs").first.wait_for()
    assert page.locator(".compare-shared").inner_text().startswith("Different maps")
