"""Pages and their data in Chromium: list, league, live and damaged matches, addresses, settings, words of a result."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from echelon.arena.league import LeagueEntry
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord, Store, league_path
from echelon.replay.match_text import SMALL_CHANGE
from echelon.replay.reader import Replay
from echelon.server.catalogue import match_id
from tests.browser.conftest import DESK, GOLDEN, MATCH, RUN, served_match
from tests.browser.player import (
    DROP,
    FIRST_PICTURE,
    LOADED,
    MOMENTS,
    NO_POINTS,
    cost,
    count_transfers,
    keep_live,
    open_match,
    open_paused,
    pass_frames,
    pause,
    seek,
    state,
)

pytestmark = pytest.mark.long

CARD = f'a.card[href="#match={MATCH}"]'
NOTICE = ".notice"
BUDGET_BYTES = 342_000
"""Most bytes over the wire before the first picture of a match of ten mechs."""


def golden_ends() -> list[int]:
    """Return where each chunk of the golden match ends [bytes]."""
    with Replay(GOLDEN) as replay:
        return [chunk.offset + chunk.length for chunk in replay.chunks]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Moments and curve of the golden match as Python finds them."""
    with Replay(GOLDEN) as replay:
        return replay.timeline()


def drop(page: Any, address: str, data: bytes) -> None:
    page.goto(f"{address}/?quality=low")
    page.wait_for_function("() => typeof echelon !== 'undefined'")
    page.evaluate(DROP, list(data))


def test_failed_match_opens_on_second_click_after_its_error_is_dismissed(page, address):
    index = re.compile(rf"/matches/{MATCH}/index")
    page.route(index, lambda route: route.abort())
    page.goto(f"{address}/?quality=low")
    page.locator(CARD).click()
    problem = page.get_by_role("alert").filter(has_text="Cannot open")
    problem.wait_for(state="visible")
    page.get_by_role("button", name="Dismiss").focus()
    page.keyboard.press("Enter")
    problem.wait_for(state="hidden")
    page.unroute(index)
    page.locator(CARD).click()
    page.wait_for_function("() => echelon.state.match !== null")
    assert not problem.is_visible()


def test_match_without_its_map_names_the_match_and_waits_for_nothing(page, address):
    world = re.compile("/api/v1/worlds/")
    page.route(world, lambda route: route.fulfill(status=422, json={"detail": "the world is missing"}))
    page.goto(f"{address}/?quality=low#match={MATCH}")
    page.wait_for_function("() => echelon.state.match !== null")
    problem = f"Cannot load the map of {state(page, 'match.title')}: The world is missing"
    page.get_by_role("alert").filter(has_text=problem).wait_for(state="visible")
    page.get_by_text("Loading match").wait_for(state="hidden")
    page.wait_for_function("() => echelon.state.tick > 2")


def test_list_follows_a_live_match_and_keeps_card_and_focus(page, address, home):
    ends, data, path = golden_ends(), GOLDEN.read_bytes(), home / RUN / "replays" / "listed.ecr"
    count, ident = len(list(path.parent.glob("*.ecr"))), match_id(RUN, "listed.ecr")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_viewport_size(DESK)
    page.goto(address)
    option = page.locator(f'option[value="{RUN}"]')
    option.filter(has_text=f"({count})").wait_for(state="attached")
    path.write_bytes(data[: ends[1]])
    with keep_live(path):
        option.filter(has_text=f"({count + 1})").wait_for(state="attached")
        card = page.locator(f'a.card[href="#match={ident}"]')
        card.locator("canvas.painted").wait_for(state="attached")
        card.focus()
        time = card.locator(".badge.time").inner_text()
        with path.open("ab") as file:
            file.write(data[ends[1] : ends[3]])
        page.wait_for_function(
            "([name, before]) => document.querySelector(name + ' .badge.time').textContent !== before",
            arg=[f'a.card[href="#match={ident}"]', time],
        )
        pass_frames(page)
        assert card.evaluate("(card) => card === document.activeElement")
        assert len([url for url in asked if url.endswith(ident)]) == 1


def test_newest_match_is_opened_when_it_begins_and_followed_live(page, address, home):
    page.goto(f"{address}/?quality=low#newest={RUN}")
    page.wait_for_function("() => echelon.state.match !== null")
    path = home / RUN / "replays" / "later.ecr"
    ends, data = golden_ends(), GOLDEN.read_bytes()
    path.write_bytes(data[: ends[1]])
    with keep_live(path):
        page.wait_for_function(f"() => echelon.state.match?.id === '{match_id(RUN, 'later.ecr')}'")
        assert state(page, "followNewest") is True and state(page, "match.index.live") is True
        page.keyboard.press("End")
        page.wait_for_function("() => echelon.state.following")
        edge = page.evaluate("() => echelon.control.lastTick(echelon.state.match)")
        with path.open("ab") as file:  # appends like the recorder
            file.write(data[ends[1] : ends[3]])
        page.wait_for_function(f"() => echelon.state.tick > {edge}")


@pytest.mark.parametrize("how", ["dropped", "served"])
def test_damaged_chunk_is_named_and_skipped(page, address, home, tmp_path, how):
    data = bytearray(GOLDEN.read_bytes())
    data[golden_ends()[2] - 24] ^= 4
    damaged = tmp_path / "damaged.ecr"
    damaged.write_bytes(data)
    with ExitStack() as stack:
        if how == "served":
            open_match(page, address, stack.enter_context(served_match(home, damaged)))
        else:
            drop(page, address, bytes(data))
            page.wait_for_function(LOADED)
        end = state(page, "match.index.chunks[2][1]")
        page.evaluate("() => echelon.control.setSpeed(echelon.state, 8)")
        page.wait_for_function(f"() => echelon.state.tick > {end} + 3")
        page.locator(NOTICE).filter(has_text="Damaged file: 0:04–0:06 cannot be read").wait_for(state="attached")
        assert not page.get_by_role("alert").is_visible()
        # the damaged moment itself has no figures
        pause(page)
        page.evaluate("(tick) => echelon.control.seek(echelon.state, tick)", end - 10)
        page.get_by_text("This moment is damaged").wait_for(state="visible")
        page.wait_for_function(NO_POINTS)


def test_truncated_match_is_named_and_has_no_figures_in_the_list(page, address, home, tmp_path):
    truncated = GOLDEN.read_bytes()[: golden_ends()[2] + 20]
    incomplete = tmp_path / "incomplete.ecr"
    incomplete.write_bytes(truncated)
    os.utime(incomplete, (1, 1))  # an unfinished file that was just written is live
    with served_match(home, incomplete):
        page.goto(f"{address}/?quality=low")
        card = page.locator(".card", has_text="incomplete")
        card.wait_for()
        assert card.locator(".card-alive").all_inner_texts() == ["", ""]
        assert card.locator(".card-team b").all_inner_texts() == ["", ""]
        told = page.locator(".badge.time:visible, .card-team.won, .card-moment:visible, .run-head b:visible")
        told.first.wait_for()
        page.get_by_label("Show results").uncheck()
        page.wait_for_function("() => !document.querySelector('.card-team.won')")
        assert told.count() == 0 and card.is_visible()
        page.get_by_label("Show results").check()
    drop(page, address, truncated)
    page.wait_for_function(LOADED)
    text = "Truncated file: recovered first 0:06, result missing"
    page.locator(NOTICE).filter(has_text=text).wait_for(state="attached")


def test_dropped_file_plays_without_server_after_an_invalid_one_is_refused(page, address, found):
    drop(page, address, b"not a replay")
    page.get_by_role("alert").filter(has_text="holiday.ecr").wait_for(state="visible")
    drop(page, address, GOLDEN.read_bytes())
    page.wait_for_function("() => echelon.state.match?.id === 'file' && echelon.state.tick > 2")
    page.wait_for_function(MOMENTS)
    names = ("tick", "kind", "team", "rank", "caption")
    shown, expected = state(page, "match.moments"), found["moments"]
    assert [[moment[name] for name in names] for moment in shown] == [[m[name] for name in names] for m in expected]


COPY = """(tick) => {
  echelon.control.seek(echelon.state, tick);
  [...document.querySelectorAll(".share-row")].find((row) => row.textContent.includes("Copy a link")).click();
  return location.hash;
}"""
"""Copies a link to a moment; returns the address at that time."""


def test_addresses_name_the_current_moment_and_are_followed(page, address):
    open_paused(page, address, MATCH, 20, "&fog=red")
    assert "t=4.0" in page.evaluate(COPY, 80)
    assert "t=5.0" in page.evaluate(COPY, 100)
    page.evaluate(f"() => {{ location.hash = '#match={MATCH}&t=2&mech=6'; }}")
    page.wait_for_function("() => echelon.state.selected === 6")
    assert state(page, "tick") == 40 and state(page, "fog") == "none"
    page.evaluate(f"() => {{ location.hash = '#league'; ({COPY})(80); }}")
    page.wait_for_function("() => echelon.state.page === 'league'")
    assert page.url.endswith("#league")  # navigation wins over the address of a moment


def test_first_picture_needs_few_bytes_and_everything_else_waits_for_it(new_page, address):
    page = new_page(viewport=DESK)
    count = count_transfers(page)
    page.goto(f"{address}/?quality=low#match={MATCH}")
    page.wait_for_function(FIRST_PICTURE)
    page.wait_for_function("() => echelon.state.match.prefetcher.done === echelon.state.match.index.chunks.length")
    page.wait_for_function(MOMENTS)
    first = count(page.evaluate(FIRST_PICTURE))
    after = set(count()) - set(first)
    workers = {url.rsplit("/", 1)[1].partition(".")[0] for url in first if ".worker-" in url}
    assert workers == {"decode", "mesh"}, "the bytes of workers count too"
    assert all(size > 2000 for url, size in first.items() if ".worker-" in url), "with their bodies"
    assert sum(first.values()) < BUDGET_BYTES, first
    assert [url.rpartition("/")[2][0] for url in first if "/chunks/" in url] == ["0"]
    assert not [url for url in first if url.endswith("/runs") or "/matches?" in url]
    assert len([url for url in after if "/chunks/" in url]) == 4


def test_skeleton_is_painted_without_script_style_and_fonts_and_makes_room(new_page, address):
    page = new_page(viewport=DESK)
    held, released = [], []
    page.route("**/assets/*", lambda route: route.continue_() if released else held.append(route))
    page.goto(address, wait_until="commit")
    page.get_by_text("Loading the viewer").wait_for()
    page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length > 0")
    assert any(route.request.url.endswith(".css") for route in held)
    released.append(True)
    for route in held:
        route.continue_()
    page.wait_for_selector(".list-page")
    assert page.locator("#skeleton").count() == 0


def test_settings_are_remembered_and_sound_is_off_until_switched_on(new_page, address):
    page = new_page()
    page.goto(f"{address}/#match={MATCH}")
    page.wait_for_function(LOADED)
    assert page.evaluate("() => echelon.sounds()") == 0 and state(page, "sound") is False
    page.keyboard.press("/")
    dialog = page.get_by_role("dialog", name="Settings")
    dialog.get_by_label("Sound", exact=True).check()
    dialog.get_by_label("Graphics").select_option("low")
    dialog.get_by_label("Minimap (I)").uncheck()
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    page.evaluate("() => { echelon.control.seek(echelon.state, 0); echelon.state.playing = true; }")
    page.wait_for_function("() => echelon.sounds() > 0")
    page.reload()
    page.wait_for_function(LOADED)
    pause(page)
    assert [state(page, name) for name in ("sound", "quality", "showMap")] == [True, "low", False]
    assert cost(page, "tier") == "low"


def test_win_probability_is_that_of_python_and_explained(page, address, found):
    page.set_viewport_size(DESK)
    open_paused(page, address, MATCH, 60)
    page.wait_for_function(
        "() => echelon.state.match.win.points.at(-1)?.tick >= echelon.control.lastTick(echelon.state.match)"
    )
    points = state(page, "match.win.points.map(({ tick, p, low, high }) => [tick, p, low, high])")
    columns = [found["win"][name] for name in ("tick", "blue", "low", "high")]
    curve = {tick: row for tick, *row in zip(*columns, strict=True)}
    assert {tick: values for tick, *values in points} == curve
    chances = [int(text.split()[0]) for text in page.locator(".score-chance").all_inner_texts()]
    assert sum(chances) == 100 and abs(chances[0] / 100 - curve[60][0]) < 0.01
    page.locator(".win-track").hover()
    page.locator(".win-tip.shown", has_text="90 % band").wait_for()
    assert (
        page.locator(".win-now")
        .get_attribute("data-tip")
        .startswith("Win probability of blue, estimated from the state")
    )


def told(caption: str) -> str:
    """Return a caption as the page shows it: without a change of the win probability that decides nothing."""
    change = re.search(r": blue (\d+) % → (\d+) %$", caption)
    return caption[: change.start()] if change and abs(int(change[1]) - int(change[2])) < SMALL_CHANGE else caption


def test_moments_have_their_captions_at_the_key_and_in_the_list(page, address, found):
    moments = found["moments"]
    top = next(moment for moment in moments if moment["rank"] == 1)
    page.set_viewport_size(DESK)
    page.goto(f"{address}/?quality=low")
    page.locator(".card-moment", has_text=told(top["caption"])).first.wait_for()
    open_paused(page, address, MATCH, 0)
    page.wait_for_function(MOMENTS)
    assert page.locator(".win-mark").count() == len(moments) and page.locator(".win-mark.decisive").count() == 1
    for moment in sorted(moments, key=lambda moment: moment["to"]):
        page.keyboard.press("n")
        page.wait_for_function("() => echelon.complete()")
        assert state(page, "tick") >= moment["tick"], "all that the caption tells has happened"
        page.locator(".win-caption.shown", has_text=told(moment["caption"])).wait_for(state="attached")


def test_result_is_a_sentence(page, address):
    page.set_viewport_size(DESK)
    open_paused(page, address, MATCH, 40)
    seek(page, 1e9)
    card = page.locator(".end-card")
    card.wait_for(state="visible")
    sentence = card.locator("h2").inner_text()
    assert re.fullmatch(r"(Red wins|Blue wins|Draw): (zone held|elimination|time up) at 0:\d\d", sentence)
    assert card.locator(".soft").first.inner_text().startswith("zone ")
    result = sentence.rpartition(" at ")[0]
    page.wait_for_function("() => document.querySelector('.win-now').classList.contains('over')")
    assert page.locator(".zone-hold").inner_text() == result  # who leads and holds the zone is over
    assert result.startswith(page.locator(".win-now").inner_text())
    assert page.locator(".score-chance").all_inner_texts() == ["", ""]
    assert "no actions" in card.locator(".coach").inner_text()  # from which mistakes could be measured
    moment = card.locator(".end-moment").first
    minutes, seconds = map(int, moment.inner_text().split()[0].split(":"))
    moment.click()
    card.wait_for(state="hidden")
    assert (60 * minutes + seconds - 2) * 20 <= state(page, "tick")  # playing from 2 s before it
    seek(page, 1e9)
    card.wait_for(state="visible")
    page.keyboard.press("Escape")
    card.wait_for(state="hidden")
    page.get_by_role("button", name="Scoreboard", exact=True).wait_for(state="hidden")


HOSTILE = "<img src=x onerror=alert(1)>"
ROW = ".standings tbody tr"


@pytest.fixture
def league(home: Path) -> Iterator[Path]:
    """A league of three: the first has beaten both others, and a round is unfinished."""
    path = league_path(home)
    labels = {"a/1": "Anvil", "b&2": HOSTILE, "c": "Cinder"}
    with Store(path) as store:
        with store.editing() as made:
            for ident, label in labels.items():
                made.entries[ident] = LeagueEntry(ident, f"/pilots/{label[0]}.pt", "candidate", meta={"label": label})
        first, second, third = labels
        period = store.open_period(RUN, 1, [Fixture(0, first, second, seed=7), Fixture(1, third, first, seed=8)])
        store.record(period, 0, MatchRecord(winner="blue", reason="elimination", score=(3.0, 1.0), seconds=72.0))
        store.record(period, 1, MatchRecord(winner="red", reason="zone_control", score=(2.0, 9.0), seconds=30.0))
        store.close_period(period)
        store.open_period(RUN, 2, [Fixture(0, first, second, seed=9)])
    yield path
    path.unlink()


def test_league_page_shows_standings_keeps_them_at_an_invalid_file_and_polls(page, address, league):
    page.set_viewport_size(DESK)
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
    page.get_by_text(f"Round 2 of {RUN}: 0 of 1 matches").wait_for()
    assert page.get_by_text(HOSTILE).first.is_visible() and page.locator("main img[onerror]").count() == 0
    page.evaluate(DROP, [0] * 9)
    page.get_by_role("alert").filter(has_text="holiday.ecr").wait_for(state="visible")
    assert page.locator(ROW).first.is_visible() and page.locator(".list-page:visible").count() == 1
    with Store(league) as store, store.editing() as made:
        made.entries["d"] = LeagueEntry("d", "/pilots/D.pt", "candidate", meta={"label": "Dross"})
    page.locator(ROW).filter(has_text="Dross").wait_for(state="visible")


def test_missing_league_shows_how_to_start_one(page, address):
    page.goto(f"{address}/#league")
    page.get_by_text("No league here yet").wait_for(state="visible")
    page.get_by_role("link", name="Matches").click()
    page.locator(CARD).wait_for(state="visible")
