"""What a first visitor sees: both teams framed, goal and score in words, readable labels, packs, a card, tooltips."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from echelon.replay.schema import EventKind
from echelon.server.catalogue import match_id
from tests.browser.conftest import RUN, TIMEOUT_MS, served_match
from tests.browser.player import (
    open_match,
    open_paused,
    pass_frames,
    press_and_wait,
    seek,
    settle,
    settled_picture,
    state,
)

MATCH = match_id(RUN, "u000001-blue.ecr")
SPREAD = Path(__file__).parents[2] / "docs" / "replays" / "champion-beats-expert-by-elimination.ecr"
"""A match whose teams start far apart, on a map of 100 voxels."""
LEAGUE = SPREAD.with_name("league-exploiter.ecr")
DISAGREES = 460
"""A tick of that match at which blue leads in points and red is the favourite."""
LEAST_TEXT_PX = 11
AFTER_OPENING = 100
"""A tick after the opening shot, which has the normal speed."""
SENTENCE = re.compile(r"(Red|Blue) wins by .+ at 0:\d\d|Draw .*at 0:\d\d")
COVERED = """() => {
  const box = (name) => document.querySelector(name).getBoundingClientRect();
  const { left, top, right, bottom } = echelon.state.insets;
  return [
    left - box(".roster.blue").right, top - box(".score").bottom,
    innerWidth - right - box(".roster.red").left, innerHeight - bottom - box(".timeline").top,
  ];
}"""
LABELS = """() => new Promise((done) => requestAnimationFrame(() => {
  const brush = document.querySelector("canvas.picture-overlay").getContext("2d");
  const { roundRect, fillText } = brush, boxes = [], words = [];
  brush.roundRect = function (x, y, width, height, ...more) {
    boxes.push([x, y, x + width, y + height]);
    return roundRect.call(this, x, y, width, height, ...more);
  };
  brush.fillText = function (text, ...more) {
    words.push([text, Number(/([\\d.]+)px/.exec(this.font)[1]), ...more]);
    return fillText.call(this, text, ...more);
  };
  echelon.redraw();
  delete brush.roundRect;
  delete brush.fillText;
  done([boxes, words]);
}))"""
"""Boxes of the frames of labels, and their texts and numbers with the height of the font and place."""
LOST_ROWS = "() => [...document.querySelectorAll('.roster-list')].map((e) => e.scrollHeight - e.clientHeight)"


def test_first_picture_is_the_directors_and_in_words(page, address):
    page.set_viewport_size({"width": 1280, "height": 720})
    open_paused(page, address, MATCH, 40)
    assert state(page, "camera.mode") == "director"
    assert page.locator(".goal").inner_text().startswith("First to 7 zone points or last team alive")
    page.locator(".zone-hold:not(:empty)").wait_for()
    assert page.locator(".score-alive").all_inner_texts() == ["5 alive", "5 alive"]
    assert page.locator(".roster-title").first.inner_text() == "bot: scripted"
    pass_frames(page)
    assert all(abs(gap) < 1 for gap in page.evaluate(COVERED))  # the free part of the picture is what panels leave


def test_roster_keeps_its_rows_when_a_mech_is_selected(page, address):
    page.set_viewport_size({"width": 1280, "height": 720})
    open_paused(page, address, MATCH, 40)
    page.evaluate("() => echelon.control.select(echelon.state, 7, false)")
    page.locator(".inspector").wait_for(state="visible")
    assert page.locator(".mech-row").count() == 10
    assert max(page.evaluate(LOST_ROWS)) <= 1


@pytest.mark.long
def test_director_is_slow_at_kills_fast_without_fights_and_can_be_left(page, address):
    open_paused(page, address, MATCH, 40, quality="low")
    kill = page.evaluate(f"() => echelon.state.match.markers.find(({{ kind }}) => kind === {EventKind.KILL:d}).tick")
    seek(page, kill - 5)
    page.locator("option", has_text="Auto 0.5×").wait_for(state="attached")
    page.evaluate("() => { for (const side of echelon.state.match.index.series.damage) side.fill(0); }")
    page.evaluate("() => { echelon.state.match.markers = []; }")
    seek(page, AFTER_OPENING)
    page.locator("option", has_text="Auto 2×").wait_for(state="attached")
    page.keyboard.press("e")
    assert state(page, "camera.mode") == "free" and page.evaluate("() => echelon.control.pace(echelon.state)") == 1


@pytest.mark.long
def test_result_is_a_sentence(page, address):
    open_paused(page, address, MATCH, 40)
    press_and_wait(page, "End")
    page.locator(".banner").wait_for(state="visible")
    assert SENTENCE.fullmatch(page.locator(".banner strong").inner_text())
    assert page.locator(".banner span").inner_text().startswith("zone ")
    result = page.locator(".banner strong").inner_text().rpartition(" at ")[0]
    page.wait_for_function("() => document.querySelector('.win-now').classList.contains('over')")
    assert page.locator(".zone-hold").inner_text() == result  # who leads and holds the zone is over
    assert result.startswith(page.locator(".win-now").inner_text())
    assert page.locator(".score-chance").all_inner_texts() == ["", ""]


@pytest.mark.long
def test_reason_is_in_words_where_points_and_probability_disagree(page, address, home):
    with served_match(home, LEAGUE):
        open_paused(page, address, match_id(RUN, LEAGUE.name), DISAGREES, quality="low")
        page.wait_for_function("() => echelon.state.match.win.at(echelon.state.tick) !== null")
        page.locator(".why", has_text="Red ahead in hit points").wait_for(state="visible")
    assert page.locator(".zone-hold").inner_text().startswith("Blue leads by 2.7 points")
    assert page.locator(".rule").inner_text() == "first to 30 zone points"


@pytest.mark.long
def test_damage_numbers_keep_off_labels_and_captions(page, address, home):
    page.set_viewport_size({"width": 1280, "height": 720})
    drawn = 0
    with served_match(home, LEAGUE):
        open_paused(page, address, match_id(RUN, LEAGUE.name), DISAGREES, quality="low")
        for tick in range(DISAGREES - 20, DISAGREES + 60, 8):
            seek(page, tick)
            settle(page)
            boxes, words = page.evaluate(LABELS)
            covered = state(page, "covered.map(({ left, top, right, bottom }) => [left, top, right, bottom])")
            for text, pixels, x, y in words:
                if not text.isdigit():
                    continue
                drawn += 1
                half = pixels * 0.6 * len(text) / 2, pixels * 0.45
                for left, top, right, bottom in [*boxes, *covered]:
                    apart = x - half[0] >= right or x + half[0] <= left
                    assert apart or y - half[1] >= bottom or y + half[1] <= top, f"{text} at {tick}"
    assert drawn > 5


@pytest.mark.long
def test_overlay_has_the_display_resolution_in_every_tier(page, address):
    open_match(page, address, MATCH, quality="low")
    size = page.evaluate("() => { const c = document.querySelector('.picture-overlay'); return [c.width, c.height]; }")
    assert size == [960, 600]
    page.evaluate("() => { echelon.state.playing = false; }")
    with_plates = settled_picture(page)
    page.keyboard.press("b")
    assert settled_picture(page) != with_plates


@pytest.mark.long
def test_tooltips_are_visible_on_hover_and_keyboard_focus(page, address):
    open_paused(page, address, MATCH, 40)
    page.get_by_role("button", name="Shortcuts (?)").hover()
    page.locator(".tooltip", has_text="Shortcuts (?)").wait_for(state="visible")
    page.mouse.move(480, 300)
    page.locator(".tooltip").wait_for(state="hidden")
    for _ in range(2):  # the picture, then the first button
        page.keyboard.press("Tab")
    page.locator(".tooltip").wait_for(state="visible")


@pytest.fixture
def first_visit(browser: Any) -> Iterator[Any]:
    """A page of a browser that has never seen a match."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    made = context.new_page()
    made.set_default_timeout(TIMEOUT_MS)
    yield made
    context.close()


@pytest.mark.long
@pytest.mark.parametrize("size", [(1280, 720), (844, 390), (390, 844)], ids=["desktop", "landscape", "portrait"])
def test_opening_names_every_mech_in_the_free_part_of_the_picture(first_visit, address, home, size):
    width, height = size
    first_visit.set_viewport_size({"width": width, "height": height})
    with served_match(home, SPREAD):
        open_paused(first_visit, address, match_id(RUN, SPREAD.name), 60, quality="low")
    assert first_visit.locator(".welcome").is_visible()
    settle(first_visit)
    boxes, words = first_visit.evaluate(LABELS)
    names = {mech["name"] for mech in state(first_visit, "match.header.roster")}
    assert names <= {text for text, *_ in words}
    assert min(pixels for _, pixels, *_ in words) >= LEAST_TEXT_PX
    edges = state(first_visit, "insets")
    for left, top, right, bottom in boxes:
        assert left >= edges["left"] and right <= width - edges["right"]
        assert top >= edges["top"] and bottom <= height - edges["bottom"]
    for a, b in combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], "labels overlap"


@pytest.mark.long
def test_card_of_first_visit_is_closed_for_good(first_visit, address):
    open_paused(first_visit, address, MATCH, 40)
    card = first_visit.locator(".welcome")
    assert "First to 7 zone points" in card.inner_text()
    first_visit.get_by_text("Watch the decisive moment").click()
    first_visit.wait_for_function("""() => {
      const { match, tick, playing } = echelon.state;
      const top = match.moments.find(({ rank }) => rank === 1);
      return playing && Math.abs(tick - top.tick) < 4 * match.header.tick_hz;
    }""")
    first_visit.get_by_text("Got it").click()
    card.wait_for(state="hidden")
    first_visit.reload()
    first_visit.wait_for_function("() => echelon.state.match !== null")
    assert not card.is_visible()
