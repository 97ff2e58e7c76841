"""A match in Chromium, opened, played, sought and flown, and a server that is lost: the tests of the default tier."""

from typing import Any

import pytest

from echelon.replay.reader import Replay
from tests.browser.conftest import DESK, GOLDEN, MATCH, make_home, served, served_session
from tests.browser.player import (
    DRAW_CALLS,
    FLYING,
    NO_POINTS,
    PACED,
    cost,
    open_match,
    open_paused,
    pass_frames,
    seek,
    settled_picture,
    state,
)

UNKNOWN = """() => {
  const { match } = echelon.state;
  match.source.version = "another";  // what was fetched has other addresses
  match.store.chunks.clear();
}"""


def test_match_is_opened_from_the_list_and_plays_until_it_is_paused(page, address):
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("response", lambda response: errors.append(response.url) if response.status >= 400 else None)
    page.goto(address)
    page.locator(f'a.card[href="#match={MATCH}"]').click()
    page.wait_for_function("() => echelon.state.tick > 5")
    assert MATCH in page.url and state(page, "match.id") == MATCH
    assert cost(page, "tier") == "low"  # with a software renderer
    page.evaluate("() => echelon.control.setLoop(echelon.state, 0, 80)")  # so that the match cannot end before the key
    page.keyboard.press("k")
    assert state(page, "playing") is False
    held = state(page, "tick")
    pass_frames(page)
    assert state(page, "tick") == held
    page.evaluate("() => { location.hash = ''; }")
    page.wait_for_function("() => echelon.state.page === 'list' && echelon.state.match === null")
    assert errors == []


@pytest.mark.long
def test_link_opens_moment_and_mech_within_the_draw_call_limit(page, address):
    open_match(page, address, MATCH, "&t=4&mech=6&about=a-1.0-2.0-b")
    assert [state(page, name) for name in ("tick", "playing", "selected")] == [80, False, 6]
    page.locator(".inspector-name", has_text="R2").wait_for(state="visible")
    page.wait_for_function("() => echelon.cost().calls > 3")
    assert cost(page, "calls") <= DRAW_CALLS
    page.keyboard.press(".")
    assert state(page, "selected") not in (-1, 6)


@pytest.mark.long
def test_seek_is_exact_and_repeatable(page, address):
    open_paused(page, address, MATCH, 0)
    ticks, pictures = [], []
    for digit in "383":
        page.keyboard.press(digit)
        page.wait_for_function("() => echelon.complete()")
        ticks.append(state(page, "tick"))
        pictures.append(settled_picture(page))
    assert ticks[0] == ticks[2] != ticks[1]
    assert pictures[0] == pictures[2] != pictures[1]
    page.keyboard.press("End")
    with Replay(GOLDEN) as replay:
        assert state(page, "tick") == pytest.approx(replay.ticks, abs=1)
    page.wait_for_function("() => !echelon.state.playing")  # playback stops at the end
    page.keyboard.press("Home")
    assert state(page, "tick") == 0


@pytest.mark.long
def test_lost_server_stops_playback_only_at_what_is_missing_and_recovery_is_whole(page: Any, tmp_path):
    make_home(tmp_path, GOLDEN)
    with served(tmp_path) as address:
        open_paused(page, address, MATCH, 0)
        page.wait_for_function("() => echelon.state.match.prefetcher.done === echelon.state.match.index.chunks.length")
    banner = page.get_by_role("alert").filter(has_text="The server does not respond")
    banner.filter(has_text="what has been loaded plays on").wait_for(state="visible")
    for tick in (1e9, 40, 90):
        seek(page, tick)
    assert state(page, "interrupted") is False
    page.evaluate(UNKNOWN)
    page.evaluate("() => { echelon.control.seek(echelon.state, 1e9); echelon.state.playing = true; }")
    page.wait_for_function("() => echelon.state.interrupted && !echelon.state.playing")
    page.wait_for_function(NO_POINTS)
    page.get_by_role("button", name="Retry now").wait_for(state="visible")
    page.set_viewport_size(DESK)  # in which the card is seen
    page.evaluate("() => { location.hash = ''; }")
    with served(tmp_path, int(address.rsplit(":", 1)[1])):
        banner.wait_for(state="hidden")
        page.locator("canvas.painted").wait_for(state="visible")
        page.locator(".card-moment:not(:empty)").wait_for(state="visible")


@pytest.mark.long
def test_flown_match_is_paused_by_a_key(page, tmp_path):
    options = {"opponent": "trivial", "size": 40, "seconds": 600.0, "seed": 3}
    with served_session(tmp_path, options) as address:
        page.goto(address)
        page.wait_for_function(FLYING)
        page.locator(".cockpit-gauges").wait_for()
        assert "play=" not in page.url
        for paused in (True, False):
            page.keyboard.press("p")
            page.wait_for_function(PACED, arg=paused)
