"""What a first visitor sees: both teams framed, goal and score in words, readable labels, packs, a card, tooltips."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from echelon.server.catalogue import match_id
from tests.browser.conftest import RUN, TIMEOUT_MS
from tests.browser.player import open_match, open_paused, pass_frames, press_and_wait, settled_picture, state

MATCH = match_id(RUN, "u000001-blue.ecr")
SENTENCE = re.compile(r"(Red|Blue) wins by .+ at 0:\d\d|Draw .*at 0:\d\d")
COVERED = """() => {
  const box = (name) => document.querySelector(name).getBoundingClientRect();
  const { left, top, right, bottom } = echelon.state.insets;
  return [
    left - box(".roster.blue").right, top - box(".score").bottom,
    innerWidth - right - box(".roster.red").left, innerHeight - bottom - box(".timeline").top,
  ];
}"""
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


def test_result_is_a_sentence(page, address):
    open_paused(page, address, MATCH, 40)
    press_and_wait(page, "End")
    page.locator(".banner").wait_for(state="visible")
    assert SENTENCE.fullmatch(page.locator(".banner strong").inner_text())
    assert page.locator(".banner span").inner_text().startswith("zone ")


def test_overlay_has_the_display_resolution_in_every_tier(page, address):
    open_match(page, address, MATCH, quality="lowest")
    size = page.evaluate("() => { const c = document.querySelector('.picture-overlay'); return [c.width, c.height]; }")
    assert size == [960, 600]
    page.evaluate("() => { echelon.state.playing = false; }")
    with_plates = settled_picture(page)
    page.keyboard.press("b")
    assert settled_picture(page) != with_plates


def test_tooltips_are_visible_on_hover_and_keyboard_focus(page, address):
    open_paused(page, address, MATCH, 40)
    page.locator(".tools .button").last.hover()
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


def test_card_of_first_visit_is_closed_for_good(first_visit, address):
    open_paused(first_visit, address, MATCH, 40)
    card = first_visit.locator(".welcome")
    assert "First to 7 zone points" in card.inner_text()
    first_visit.get_by_text("Got it").click()
    card.wait_for(state="hidden")
    first_visit.reload()
    first_visit.wait_for_function("() => echelon.state.match !== null")
    assert not card.is_visible()
