"""The league page in Chromium: standings, filters, paging, head-to-head results, and links to replays."""

from __future__ import annotations

import pytest

from echelon.arena.league import LeagueEntry
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord, Store, league_path
from echelon.server.catalogue import match_id
from tests.browser.conftest import RUN

NAME = "u000001-blue.ecr"
MATCH = match_id(RUN, NAME)
HOSTILE = "<img src=x onerror=alert(1)>"
PILOTS = {"a/1": "Anvil", "b&2": HOSTILE, "c": "Cinder"}
ROW = ".standings tbody tr"


@pytest.fixture
def league(home):
    """A league of three: the first has beaten both others, one match has a replay, and a round is unfinished."""
    path = league_path(home)
    with Store(path) as store:
        with store.editing() as made:
            for ident, label in PILOTS.items():
                made.entries[ident] = LeagueEntry(ident, f"/pilots/{label[0]}.pt", "candidate", meta={"label": label})
        first, second, third = PILOTS
        period = store.open_period(RUN, 1, [Fixture(0, first, second, seed=7), Fixture(1, third, first, seed=8)])
        store.record(period, 0, MatchRecord(winner="blue", reason="elimination", score=(3.0, 1.0), seconds=72.0))
        store.record(period, 1, MatchRecord(winner="red", reason="zone_control", score=(2.0, 9.0), seconds=30.0))
        store.set_replay(period, 0, f"replays/{NAME}")
        store.close_period(period)
        store.open_period(RUN, 2, [Fixture(0, first, second, seed=9)])
    yield path
    path.unlink()


def test_league_page_shows_standings_and_opens_replay(page, address, league):
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

    page.locator(ROW).filter(has_text="Cinder").locator("a").click()
    page.wait_for_function("() => document.querySelectorAll('.match-row').length === 1")
    assert page.locator(".match-row .watch").count() == 0 and page.get_by_text("zone held, 0:30").is_visible()
    page.get_by_text("all matches").click()
    page.wait_for_function("() => document.querySelectorAll('.match-row').length === 2")

    page.locator(".match-row .watch").click()
    page.wait_for_function(f"() => echelon.state.match?.id === '{MATCH}'")
    page.keyboard.press("Escape")
    page.locator(ROW).first.wait_for(state="visible")
    assert page.url.endswith("#league")


def test_league_update_keeps_focus(page, address, league):
    page.goto(f"{address}/#league")
    link = page.locator(ROW).filter(has_text="Cinder").locator("a")
    link.focus()
    with Store(league) as store, store.editing() as made:
        made.entries["d"] = LeagueEntry("d", "/pilots/D.pt", "candidate", meta={"label": "Dross"})
    page.locator(ROW).filter(has_text="Dross").wait_for(state="visible")
    assert page.evaluate("() => document.activeElement.textContent") == "Cinder"


def test_invalid_file_dropped_on_league_keeps_page(page, address, league):
    page.goto(f"{address}/#league")
    page.locator(ROW).first.wait_for(state="visible")
    page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(9)], "holiday.ecr"));
          window.dispatchEvent(new DragEvent("drop", { dataTransfer: data }));
        }"""
    )
    page.get_by_role("alert").filter(has_text="holiday.ecr").wait_for(state="visible")
    assert page.locator(ROW).first.is_visible() and page.locator(".list-page:visible").count() == 1


MANY = 456
"""Matches of the long league: more than one page, and no multiple of the page size."""
COUNT = "() => document.querySelectorAll('.match-row').length"


@pytest.fixture
def long_league(home):
    """A league of four and many matches; three beat each other in a cycle, the fourth draws all its matches."""
    path = league_path(home)
    names = ("Anvil", "Birch", "Cinder", "Dross")
    fixtures = [(one, other) for one in names for other in names if one != other]
    with Store(path) as store:
        with store.editing() as made:
            for name in names:
                made.entries[name] = LeagueEntry(name, "", "candidate", meta={"label": name})
        store.open_period(RUN, 1, [Fixture(n, *fixtures[n % 12], seed=n) for n in range(MANY)])
        with store.writing() as db:
            db.execute("UPDATE matches SET state = 'played', winner = 'draw', reason = 'time_up', seconds = 9")
            for one, other in zip(names[:3], (*names[1:3], names[0]), strict=True):
                db.execute("UPDATE matches SET winner = 'blue' WHERE blue = ? AND red = ?", (one, other))
                db.execute("UPDATE matches SET winner = 'red' WHERE blue = ? AND red = ?", (other, one))
    yield path
    path.unlink()


def test_league_matches_load_by_scrolling(page, address, long_league):
    page.goto(f"{address}/#league")
    page.locator(".match-row").nth(99).wait_for(state="attached")
    assert page.evaluate(COUNT) == 100 and page.get_by_text(f"100 of {MANY}").is_visible()
    page.wait_for_function(
        """(many) => {
          const bouts = document.querySelectorAll(".match-row");
          bouts[bouts.length - 1].scrollIntoView();
          return bouts.length >= many;
        }""",
        arg=MANY,
    )
    page.wait_for_function("() => echelon.state.league.ended")
    assert page.locator(".league-matches .more").is_hidden()
    seeds = page.locator(".match-row .small").evaluate_all(
        "all => all.map((e) => /seed ([0-9]+)/.exec(e.textContent)?.[1])"
    )
    assert [int(seed) for seed in seeds if seed] == list(range(MANY - 1, -1, -1))


def test_league_filters_survive_paging_and_reload(page, address, long_league):
    page.goto(f"{address}/#league")
    page.get_by_label("Pilot", exact=True).select_option("Anvil")
    page.get_by_label("Outcome", exact=True).select_option("draw")
    page.get_by_text("76 of 76").wait_for(state="visible")
    assert page.url.endswith("#league=Anvil&outcome=draw")
    page.reload()
    page.get_by_text("76 of 76").wait_for(state="visible")
    assert page.get_by_label("Outcome", exact=True).input_value() == "draw"
    page.get_by_label("Outcome", exact=True).select_option("")
    page.get_by_text("100 of 228").wait_for(state="visible")
    page.locator(".match-row").last.scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelectorAll('.match-row').length > 100")
    teams = page.locator(".match-row").evaluate_all("all => all.map((e) => e.textContent)")
    assert all("Anvil" in team for team in teams)


def test_head_to_head_colours_significant_pairs_and_links_to_matches(page, address, long_league):
    page.goto(f"{address}/#league")
    cell = page.locator(".pairs td a")
    cell.first.wait_for(state="visible")
    assert cell.count() == 12 and page.locator(".pairs td.won").count() == page.locator(".pairs td.lost").count() == 3
    assert page.locator(".pairs td.open").count() == 6  # all drawn: inconclusive, so not coloured
    assert page.get_by_text("Anvil beats Birch beats Cinder beats Anvil").is_visible()
    colours = {kind: page.locator(f".pairs td.{kind}").evaluate_all("all => all.map((e) => e.style.background)")
               for kind in ("won", "lost", "open")}  # fmt: skip
    assert (
        all(len(set(found)) == 1 for found in colours.values()) and len({found[0] for found in colours.values()}) == 3
    )
    page.get_by_label("Anvil against Birch", exact=False).click()
    page.get_by_text("76 of 76").wait_for(state="visible")
    assert page.get_by_role("heading", name="Anvil against Birch").is_visible()
    assert page.locator(".match-row").filter(has_text="Cinder").count() == 0
    page.get_by_text("all matches").click()
    page.get_by_text(f"100 of {MANY}").wait_for(state="visible")


def test_missing_league_shows_how_to_start_one(page, address):
    page.goto(f"{address}/#league")
    page.get_by_text("No league here yet").wait_for(state="visible")
    page.get_by_role("link", name="Matches").click()
    page.locator(f'a[href="#match={MATCH}"]').wait_for(state="visible")
