"""The viewer in Chromium: list, loading, playback, seeking, following, live matches, errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from echelon.replay.reader import Replay
from echelon.server.catalogue import match_id
from tests.browser import player
from tests.browser.conftest import GOLDEN, RUN
from tests.browser.player import DRAW_CALLS, draws_at_rest, keep_live, pause, press_and_wait, settled_picture, state

MATCH = match_id(RUN, "u000001-blue.ecr")
LATER_CHUNKS = re.compile(r"/chunks/[1-9]")
SCOUT = 4
"""A mech that moves in the golden match."""


def open_match(page: Any, address: str, more: str = "", quality: str = "low") -> None:
    """Open the match in a small window, which is drawn quickly."""
    page.set_viewport_size({"width": 480, "height": 360})
    player.open_match(page, address, MATCH, more, quality)


def drop(page: Any, address: str, content: bytes) -> None:
    page.goto(address)
    page.wait_for_function("() => typeof echelon !== 'undefined'")
    page.evaluate(player.DROP, list(content))


def test_match_list_opens_match(page, address):
    page.goto(address)
    page.locator(f'a[href="#match={MATCH}"]').click()
    page.wait_for_function("() => echelon.state.match !== null")
    assert MATCH in page.url and state(page, "match.id") == MATCH


def test_panels_show_nothing_before_first_chunk(page, address):
    held = []  # chunk requests are held until they are continued below
    page.route("**/chunks/*", lambda route: route.continue_() if held is None else held.append(route))
    page.set_viewport_size({"width": 1200, "height": 700})
    page.goto(f"{address}/?quality=low#match={MATCH}")
    page.locator(".roster.red .mech-row").nth(4).wait_for(state="visible")
    page.keyboard.press("m")
    page.locator(".table").wait_for(state="visible")
    player.pass_frames(page)
    assert page.get_by_text("destroyed").count() == 0 and page.locator(".mech-row.dead").count() == 0
    assert state(page, "tick") == 0  # playback waits for the first picture
    routes, held = held, None
    for route in routes:
        route.continue_()
    page.wait_for_function("() => echelon.complete() && echelon.state.tick > 2")
    page.locator(".roster.red .mech-points:not(:empty)").first.wait_for(state="visible")


def test_match_plays_and_pauses(page, address):
    open_match(page, address)
    before = state(page, "tick")
    page.wait_for_function(f"() => echelon.state.tick > {before} + 5")
    page.evaluate("() => echelon.control.setLoop(echelon.state, 0, 80)")  # so that the match cannot end before the key
    page.keyboard.press("k")
    assert state(page, "playing") is False
    held = state(page, "tick")
    player.pass_frames(page)
    assert state(page, "tick") == held


def test_match_plays_backward(page, address):
    open_match(page, address)
    press_and_wait(page, "5")
    start = state(page, "tick")
    assert start > 40
    page.keyboard.press("r")
    page.wait_for_function(f"() => echelon.state.tick < {start} - 5")
    assert state(page, "speed") < 0


def test_seek_is_exact_and_repeatable(page, address):
    open_match(page, address)
    pause(page)
    ticks, pictures = [], []
    for digit in ("3", "8", "3"):
        press_and_wait(page, digit)
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


def test_nothing_is_drawn_while_chunk_is_loading(page, address):
    held = []  # requests of all chunks but the first, continued below
    page.route(LATER_CHUNKS, lambda route: route.continue_() if held is None else held.append(route))
    player.open_paused(page, address, MATCH, 0, "&cam=top")  # the director would wait for later chunks
    before, drawn = settled_picture(page), draws_at_rest(page)
    page.keyboard.press("8")
    player.pass_frames(page)
    assert state(page, "match.chunk") is None and held
    assert page.evaluate("() => echelon.cost().draws") == drawn
    routes, held = held, None
    for route in routes:
        route.continue_()
    page.wait_for_function("() => echelon.complete()")
    assert settled_picture(page) != before


@pytest.mark.long
def test_seek_is_repeatable_with_patterns(page, address):
    page.set_viewport_size({"width": 480, "height": 360})
    open_match(page, address, quality="medium")
    pause(page)
    assert page.evaluate("() => echelon.cost().tier") == "medium"
    pictures = []
    for digit in ("3", "8", "3"):
        press_and_wait(page, digit)
        pictures.append(settled_picture(page))
    assert pictures[0] == pictures[2] != pictures[1]


def test_software_renderer_starts_in_low_tier_and_shortcuts_name_it(page, address):
    open_match(page, address, quality="")
    assert page.evaluate("() => echelon.cost().tier") == "low" and page.evaluate("() => echelon.cost().draws") > 0
    page.keyboard.press("?")
    page.get_by_text("Reverse playback").first.wait_for(state="visible")
    page.get_by_text("(auto)").wait_for(state="visible")
    page.keyboard.press("Escape")
    assert state(page, "showHelp") is False and state(page, "page") == "match"


def test_paused_match_draws_nothing_until_change(page, address):
    open_match(page, address)
    pause(page)
    drawn = draws_at_rest(page)
    player.pass_frames(page)
    assert page.evaluate("() => echelon.cost().draws") == drawn
    page.keyboard.press("b")
    page.wait_for_function(f"() => echelon.cost().draws > {drawn}")


def test_lost_webgl_context_is_reported_and_restored(page, address):
    open_match(page, address)
    pause(page)
    before = settled_picture(page)
    page.evaluate(
        """() => {
          const context = document.querySelector("canvas.picture").getContext("webgl2");
          window.loss = context.getExtension("WEBGL_lose_context");
          window.loss.loseContext();
        }"""
    )
    message = page.get_by_role("alert").filter(has_text="interrupted")
    message.wait_for(state="visible")
    page.evaluate("() => window.loss.restoreContext()")
    message.wait_for(state="hidden")
    assert settled_picture(page) == before


@pytest.mark.parametrize(("following", "preceding"), [("n", "Shift+N"), ("Shift+P", "p")], ids=["moments", "events"])
def test_keys_of_moments_and_events_move_cursor(page, address, following, preceding):
    open_match(page, address)
    pause(page)
    page.keyboard.press("Home")
    page.keyboard.press(following)
    first = state(page, "tick")
    assert first > 0
    page.keyboard.press(following)
    assert state(page, "tick") >= first
    page.keyboard.press(preceding)
    page.keyboard.press(preceding)
    assert state(page, "tick") <= first


def test_follow_camera_tracks_mech(page, address):
    open_match(page, address)
    pause(page)
    for _ in range(SCOUT + 1):
        page.keyboard.press(".")
    assert state(page, "selected") >= 0
    page.keyboard.press("f")
    assert state(page, "camera.mode") == "follow"
    places = []
    for digit in ("2", "7"):
        press_and_wait(page, digit)
        followed = state(page, "selected")
        places.append(state(page, "camera.target"))
        assert places[-1] == [state(page, f"match.poses.{axis}[{followed}]") for axis in "xyz"]
    assert places[0] != places[1] and state(page, "camera.mode") == "follow"
    page.keyboard.press("f")
    assert state(page, "camera.mode") == "orbit"


def test_deep_link_opens_moment_and_mech_within_the_draw_call_limit(page, address):
    open_match(page, address, "&t=4&mech=6")
    assert state(page, "tick") >= 80
    assert state(page, "selected") == 6
    page.wait_for_function("() => echelon.cost().calls > 3")
    assert page.evaluate("() => echelon.cost().calls") <= DRAW_CALLS


def test_growing_match_is_followed_live(page, address, home):
    with Replay(GOLDEN) as replay:
        ends = [c.offset + c.length for c in replay.chunks]
        ticks = [c.tick1 for c in replay.chunks]
    data, path = GOLDEN.read_bytes(), Path(home) / RUN / "replays" / "growing.ecr"
    path.write_bytes(data[: ends[1]])
    with keep_live(path):
        page.goto(f"{address}/?quality=low#match={match_id(RUN, 'growing.ecr')}")
        page.wait_for_function("() => echelon.state.match?.index.live")
        page.keyboard.press("End")
        page.wait_for_function("() => echelon.state.following")
        with path.open("ab") as file:  # appends like the recorder
            file.write(data[ends[1] : ends[3]])
        page.wait_for_function(f"() => echelon.state.tick > {ticks[1]}")


@pytest.mark.parametrize("content", [b"not a replay", b""])
def test_invalid_file_shows_error(page, address, content):
    drop(page, address, content)
    page.get_by_role("alert").filter(has_text="holiday.ecr").wait_for(state="visible")


def test_dropped_replay_plays_without_server(page, address):
    drop(page, address, GOLDEN.read_bytes())
    page.wait_for_function("() => echelon.state.match !== null && echelon.state.tick > 2")
    assert state(page, "match.id") == "file"


def test_score_bar_covers_no_controls(page, address):
    player.open_paused(page, address, MATCH, 40)
    page.locator(".score").wait_for(state="visible")
    meet = """() => {
      const box = (name) => document.querySelector(name).getBoundingClientRect();
      const score = box(".score");
      const beside = (b) => b.left >= score.right || b.right <= score.left;
      const apart = (b) => beside(b) || b.top >= score.bottom || b.bottom <= score.top;
      return [".tools", ".corner", ".roster.blue", ".roster.red"].filter((name) => !apart(box(name)));
    }"""
    for width in (800, 1000, 1024, 1280):
        page.set_viewport_size({"width": width, "height": 620})
        player.pass_frames(page)  # the bar follows the width of the page
        assert page.evaluate(meet) == [], width
