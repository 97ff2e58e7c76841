"""The viewer in Chromium: it lists, loads, plays, runs backward, seeks, follows, goes live, and says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from echelon.replay.reader import Replay
from echelon.server.catalogue import match_id
from tests.browser.conftest import GOLDEN, RUN

MATCH = match_id(RUN, "u000001-blue.ecr")
DRAW_CALLS = 25
LONGEST_SETTLING, SETTLING_MS = 60, 100
PICTURE = """() => new Promise((done) => requestAnimationFrame(() => {
  echelon.redraw();  // what is drawn can only be read in the same frame, and a held moment draws nothing by itself
  done(document.querySelector("canvas.picture").toDataURL());
}))"""
DRAWS = "() => echelon.cost().draws"
SCOUT = 4
"""A mech that certainly moves."""


def open_match(page: Any, address: str, more: str = "", quality: str = "low") -> None:
    """Open the golden match and wait until its first moment is whole on the screen; tier "" lets the viewer choose."""
    wish = f"&quality={quality}" if quality else ""
    page.goto(f"{address}/?check=1{wish}#match={MATCH}{more}")
    page.wait_for_function("() => echelon.state.match !== null && echelon.complete()")


def state(page: Any, expression: str) -> Any:
    return page.evaluate(f"() => echelon.state.{expression}")


def hold(page: Any) -> int:
    """Hold the match and wait until nothing is drawn any more; return how many pictures have been drawn."""
    page.keyboard.press("k")
    page.wait_for_function("() => echelon.complete()")
    before, drawn = -1, page.evaluate(DRAWS)
    while drawn != before:
        page.wait_for_timeout(600)
        before, drawn = drawn, page.evaluate(DRAWS)
    return drawn


def settled_picture(page: Any) -> str:
    """Return the canvas as a data URL once it no longer changes: the camera rests and all meshes have come."""
    before = ""
    for _ in range(LONGEST_SETTLING):
        picture = page.evaluate(PICTURE)
        if picture == before:
            return picture
        before = picture
        page.wait_for_timeout(SETTLING_MS)
    raise AssertionError("the picture of a held moment never came to rest")


def test_the_list_shows_the_match_and_opens_it(page, address):
    page.goto(address)
    page.wait_for_function("() => echelon.state.list.matches.length === 1")
    page.get_by_role("link").or_(page.get_by_role("button")).filter(has_text="calm-otter").or_(
        page.locator("[data-key]")
    ).first.click()
    page.wait_for_function("() => echelon.state.match !== null")
    assert MATCH in page.url


def test_a_match_plays_and_holds(page, address):
    open_match(page, address)
    before = state(page, "tick")
    page.wait_for_function(f"() => echelon.state.tick > {before} + 5")
    page.keyboard.press("k")
    assert state(page, "playing") is False
    held = state(page, "tick")
    page.wait_for_timeout(300)
    assert state(page, "tick") == held


def test_it_runs_backward(page, address):
    open_match(page, address)
    page.keyboard.press("5")
    start = state(page, "tick")
    assert start > 40
    page.keyboard.press("r")
    page.wait_for_function(f"() => echelon.state.tick < {start} - 5")
    assert state(page, "speed") < 0


def test_seeking_is_exact_and_forth_and_back_gives_the_same_picture(page, address):
    open_match(page, address)
    page.keyboard.press("k")
    ticks, pictures = [], []
    for digit in ("3", "8", "3"):
        page.keyboard.press(digit)
        page.wait_for_function("() => echelon.complete()")
        ticks.append(state(page, "tick"))
        pictures.append(settled_picture(page))
    assert ticks[0] == ticks[2] != ticks[1]
    assert pictures[0] == pictures[2] != pictures[1]
    page.keyboard.press("End")
    with Replay(GOLDEN) as replay:
        assert state(page, "tick") == pytest.approx(replay.ticks, abs=1)
    page.wait_for_function("() => !echelon.state.playing")  # the end plays no further
    page.keyboard.press("Home")
    assert state(page, "tick") == 0


@pytest.mark.parametrize("quality", ["medium", "lowest"])
def test_whatever_the_tier_forth_and_back_gives_the_same_picture(page, address, quality):
    page.set_viewport_size({"width": 480, "height": 360})
    open_match(page, address, quality=quality)
    page.keyboard.press("k")
    assert page.evaluate("() => echelon.cost().tier") == quality
    pictures = []
    for digit in ("3", "8", "3"):
        page.keyboard.press(digit)
        page.wait_for_function("() => echelon.complete()")
        pictures.append(settled_picture(page))
    assert pictures[0] == pictures[2] != pictures[1]


def test_without_a_gpu_the_picture_is_cheap_and_the_keys_name_its_tier(page, address):
    open_match(page, address, quality="")
    assert page.evaluate("() => echelon.cost().tier") in ("low", "lowest")
    page.keyboard.press("?")
    page.get_by_text("chosen by how fast this machine draws").wait_for(state="visible")


def test_a_held_moment_costs_no_frames_until_something_changes(page, address):
    open_match(page, address)
    drawn = hold(page)
    page.wait_for_timeout(500)
    assert page.evaluate(DRAWS) == drawn
    page.keyboard.press("b")
    page.wait_for_function(f"() => echelon.cost().draws > {drawn}")


def test_a_lost_context_is_said_in_words_and_the_picture_returns(page, address):
    open_match(page, address)
    hold(page)
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


def test_the_first_picture_is_timed(page, address):
    open_match(page, address)
    page.wait_for_function("() => echelon.cost().firstFrameMs > 0")
    assert page.evaluate("() => echelon.cost().draws") > 0


def test_next_and_previous_event_move_the_cursor(page, address):
    open_match(page, address)
    page.keyboard.press("k")
    page.keyboard.press("Home")
    page.keyboard.press("n")
    first = state(page, "tick")
    assert first > 0
    page.keyboard.press("n")
    assert state(page, "tick") >= first
    page.keyboard.press("p")
    page.keyboard.press("p")
    assert state(page, "tick") <= first


def test_a_mech_can_be_followed(page, address):
    open_match(page, address)
    page.keyboard.press("k")
    for _ in range(SCOUT + 1):
        page.keyboard.press(".")
    assert state(page, "selected") >= 0
    page.keyboard.press("f")
    assert state(page, "camera.mode") == "follow"
    places = []
    for digit in ("2", "7"):
        page.keyboard.press(digit)
        page.wait_for_function("() => echelon.complete()")
        followed = state(page, "selected")
        places.append(state(page, "camera.target"))
        assert places[-1] == [state(page, f"match.poses.{axis}[{followed}]") for axis in "xyz"]
    assert places[0] != places[1] and state(page, "camera.mode") == "follow"
    page.keyboard.press("f")
    assert state(page, "camera.mode") == "orbit"


def test_a_deep_link_leads_to_the_moment_and_the_mech(page, address):
    open_match(page, address, "&t=4&mech=6")
    assert state(page, "tick") >= 80
    assert state(page, "selected") == 6


def test_ten_mechs_cost_few_draw_calls(page, address):
    open_match(page, address)
    page.keyboard.press("6")
    page.wait_for_function("() => echelon.complete() && echelon.cost().calls > 3")
    assert page.evaluate("() => echelon.cost().calls") <= DRAW_CALLS


def test_the_keys_are_listed_on_demand(page, address):
    open_match(page, address)
    page.keyboard.press("?")
    page.get_by_text("Play backward, or forward again").first.wait_for(state="visible")
    page.keyboard.press("Escape")
    assert state(page, "showHelp") is False and state(page, "page") == "match"


def test_a_growing_match_is_followed_live(page, address, home):
    with Replay(GOLDEN) as replay:
        ends = [c.offset + c.length for c in replay.chunks]
        ticks = [c.tick1 for c in replay.chunks]
    data, path = GOLDEN.read_bytes(), Path(home) / RUN / "replays" / "growing.ecr"
    path.write_bytes(data[: ends[1]])
    try:
        page.goto(f"{address}/#match={match_id(RUN, 'growing.ecr')}")
        page.wait_for_function("() => echelon.state.match !== null")
        page.keyboard.press("End")
        page.wait_for_function("() => echelon.state.following")
        path.write_bytes(data[: ends[3]])
        page.wait_for_function(f"() => echelon.state.tick > {ticks[1]}")
    finally:
        path.unlink()


def test_an_unknown_match_is_said_in_words(page, address):
    page.goto(f"{address}/#match=0000000000000000")
    page.get_by_role("alert").filter(has_text="match").wait_for(state="visible")


@pytest.mark.parametrize("content", [b"not a replay", b""])
def test_a_foreign_file_is_said_in_words(page, address, content):
    page.goto(address)
    page.wait_for_function("() => typeof echelon !== 'undefined'")
    page.evaluate(
        """(bytes) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], "holiday.ecr"));
          window.dispatchEvent(new DragEvent("drop", { dataTransfer: data }));
        }""",
        list(content),
    )
    page.wait_for_function("() => echelon.state.problem !== ''")
    assert "holiday.ecr" in state(page, "problem")


def test_a_dropped_replay_plays_without_the_server(page, address):
    page.goto(address)
    page.wait_for_function("() => typeof echelon !== 'undefined'")
    page.evaluate(
        """(bytes) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], "mine.ecr"));
          window.dispatchEvent(new DragEvent("drop", { dataTransfer: data }));
        }""",
        list(GOLDEN.read_bytes()),
    )
    page.wait_for_function("() => echelon.state.match !== null && echelon.state.tick > 2")
