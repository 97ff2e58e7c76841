"""The league page in Chromium: standings and rounds."""

from __future__ import annotations

import pytest

from echelon.arena.league import LeagueEntry
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord, Store, league_path
from echelon.server.catalogue import match_id
from tests.browser.conftest import RUN
from tests.browser.player import DROP

MATCH = match_id(RUN, "u000001-blue.ecr")
HOSTILE = "<img src=x onerror=alert(1)>"
PILOTS = {"a/1": "Anvil", "b&2": HOSTILE, "c": "Cinder"}
ROW = ".standings tbody tr"


@pytest.fixture
def league(home):
    """A league of three: the first has beaten both others, and a round is unfinished."""
    path = league_path(home)
    with Store(path) as store:
        with store.editing() as made:
            for ident, label in PILOTS.items():
                made.entries[ident] = LeagueEntry(ident, f"/pilots/{label[0]}.pt", "candidate", meta={"label": label})
        first, second, third = PILOTS
        period = store.open_period(RUN, 1, [Fixture(0, first, second, seed=7), Fixture(1, third, first, seed=8)])
        store.record(period, 0, MatchRecord(winner="blue", reason="elimination", score=(3.0, 1.0), seconds=72.0))
        store.record(period, 1, MatchRecord(winner="red", reason="zone_control", score=(2.0, 9.0), seconds=30.0))
        store.close_period(period)
        store.open_period(RUN, 2, [Fixture(0, first, second, seed=9)])
    yield path
    path.unlink()


def test_league_page_shows_standings_and_polls(page, address, league):
    page.goto(f"{address}/#league")
    page.locator(ROW).nth(2).wait_for(state="visible")
    assert page.locator(ROW).first.get_attribute("data-entry") == "a/1"
    marks = page.locator(f"{ROW} .dot").evaluate_all("dots => dots.map((dot) => dot.getBoundingClientRect().x)")
    assert marks[0] > marks[1] and marks[0] > marks[2]  # stronger entries are further right
    spans = page.locator(f"{ROW} .scale").evaluate_all(
        "cells => cells.map((cell) => [...cell.querySelectorAll('.interval, .dot')])"
        ".map((marks) => marks.map((e) => e.getBoundingClientRect()))"
        ".map(([bar, dot]) => bar.width > 0 && bar.left <= dot.left && dot.right <= bar.right)"
    )
    assert spans == [True] * 3  # every rating lies within its interval
    assert page.get_by_text(f"Round 2 of {RUN}: 0 of 1 matches").is_visible()
    assert page.get_by_text(HOSTILE).first.is_visible() and page.locator("main img").count() == 0
    with Store(league) as store, store.editing() as made:
        made.entries["d"] = LeagueEntry("d", "/pilots/D.pt", "candidate", meta={"label": "Dross"})
    page.locator(ROW).filter(has_text="Dross").wait_for(state="visible")


def test_invalid_file_dropped_on_league_keeps_page(page, address, league):
    page.goto(f"{address}/#league")
    page.locator(ROW).first.wait_for(state="visible")
    page.evaluate(DROP, [0] * 9)
    page.get_by_role("alert").filter(has_text="holiday.ecr").wait_for(state="visible")
    assert page.locator(ROW).first.is_visible() and page.locator(".list-page:visible").count() == 1


def test_missing_league_shows_how_to_start_one(page, address):
    page.goto(f"{address}/#league")
    page.get_by_text("No league here yet").wait_for(state="visible")
    page.get_by_role("link", name="Matches").click()
    page.locator(f'a[href="#match={MATCH}"]').wait_for(state="visible")
