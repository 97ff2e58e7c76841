"""Phones in both orientations, dialogs, reduced motion and sizes of text in Chromium."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.server.catalogue import match_id
from tests.browser.conftest import RUN, TIMEOUT_MS, VISITED
from tests.browser.player import open_match, open_paused, pass_frames, seek, settle, state

MATCH = match_id(RUN, "u000001-blue.ecr")
pytestmark = pytest.mark.long
PHONES = {"portrait": {"width": 390, "height": 844}, "landscape": {"width": 844, "height": 390}}
LEAST_TEXT_PX, LEAST_TARGET_PX = 11, 38
CUT = """(names) => names.flatMap((name) => [...document.querySelectorAll(name)]).filter((element) => {
  const box = element.getBoundingClientRect();
  const top = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
  const inside = box.left >= 0 && box.top >= 0 && box.right <= innerWidth + 0.5 && box.bottom <= innerHeight + 0.5;
  return box.width === 0 || !inside || !(element.contains(top) || top?.contains(element));
}).map((element) => element.className)"""
"""Elements that are hidden, beyond the window or covered."""
SMALL = """(least) => [...document.querySelectorAll("body *")].filter((element) => {
  const texts = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  return texts.length > 0 && element.getClientRects().length > 0
    && parseFloat(getComputedStyle(element).fontSize) < least;
}).map((element) => `${element.className}: ${element.textContent}`)"""
TOOLS = ".tools .button:not([aria-label^=Minimap], [aria-label^=Fullscreen])"
"""Without those that phones do not have, or have among the settings."""
TARGETS = """() => [".mech-row", ".controls .button", ".tools .button", ".back"].flatMap(
  (name) => [...document.querySelectorAll(name)]
).map((element) => {
  const { width, height } = element.getBoundingClientRect();
  return Math.min(width, height);
}).filter((size) => size > 0)"""
HELP = ".help:not(.pilot-controls)"
COLUMNS = {"portrait": (1, 4, 5, 6, 7, 8), "landscape": range(1, 10)}
"""Columns of the table of all mechs that are shown; in portrait names have the colour of the team."""
COLOUR = "(element) => getComputedStyle(element).color"
INSTRUMENTS = """() => new Promise((done) => requestAnimationFrame(() => {
  const brush = document.querySelector("canvas.picture-overlay").getContext("2d");
  const { arc, fillText } = brush, boxes = [];
  const add = (x, y, wide, high) => boxes.push([x - wide, y - high, x + wide, y + high]);
  brush.arc = function (x, y, radius, ...more) {
    if (radius === 15) add(x, y, 22, 22);  // the reticle, with its strokes
    return arc.call(this, x, y, radius, ...more);
  };
  brush.fillText = function (text, x, y, ...more) {
    if (/^(radar|[0-9.]+ vox$)/.test(text)) add(x, y, this.measureText(text).width / 2, 6);  // the scope's range
    return fillText.call(this, text, x, y, ...more);
  };
  echelon.redraw();
  delete brush.arc;
  delete brush.fillText;
  done(boxes);
}))"""
"""Boxes of the reticle and of the scope's range on the overlay."""
FOCUSED = "(name) => document.querySelector(name).contains(document.activeElement)"


@pytest.fixture(params=PHONES)
def phone(request: pytest.FixtureRequest, page: Any, address: str) -> Any:
    page.set_viewport_size(PHONES[request.param])
    open_paused(page, address, MATCH, 60, "", "low")
    return page


def test_phone_cuts_nothing_and_targets_fit_thumbs(phone):
    phone.evaluate("() => echelon.control.select(echelon.state, 2, false)")
    phone.locator(".inspector").wait_for(state="visible")
    pass_frames(phone)
    names = [
        ".time-now", ".time-end", ".timeline .play", ".score-name", ".score-points", ".clock", ".zone-hold", ".back",
        TOOLS, ".mech-row", ".inspector", ".gauge-value", ".inspector-facts", ".scrub", ".win-track",
    ]  # fmt: skip
    assert phone.evaluate(CUT, names) == []
    assert min(phone.evaluate(TARGETS)) >= LEAST_TARGET_PX
    assert phone.evaluate(SMALL, LEAST_TEXT_PX) == []


def test_phone_frames_the_match_between_strips_and_player(phone):
    pass_frames(phone, 10)
    insets, (width, height) = state(phone, "insets"), state(phone, "window")
    assert width - insets["left"] - insets["right"] > 0.7 * width
    assert height - insets["top"] - insets["bottom"] > 0.3 * height
    strip = phone.locator(".roster").first.bounding_box()
    assert strip["y"] >= phone.locator(".score").bounding_box()["y"] + phone.locator(".score").bounding_box()["height"]


def test_phone_dialogs_lie_inside_the_window(phone):
    for flag in ("showHelp", "showShare", "showPilot", "showTable", "showChart"):
        phone.evaluate(f"() => {{ echelon.control.selectAny(echelon.state); echelon.state.{flag} = true; }}")
        dialog = phone.locator("[role=dialog]:visible")
        dialog.wait_for(state="visible")
        box, size = dialog.bounding_box(), phone.viewport_size
        assert box["x"] >= 0 and box["x"] + box["width"] <= size["width"], flag
        assert box["y"] >= 0 and box["y"] + box["height"] <= size["height"], flag
        phone.evaluate(f"() => {{ echelon.state.{flag} = false; }}")
        dialog.wait_for(state="hidden")


def test_phone_table_shows_all_its_values(phone):
    phone.keyboard.press("m")
    phone.locator(".table").wait_for(state="visible")
    columns = COLUMNS["portrait" if phone.viewport_size["width"] < 500 else "landscape"]
    assert phone.evaluate(CUT, [f".table tr > :nth-child({number})" for number in columns]) == []
    body = phone.locator(".table .overlay-body")
    assert body.evaluate("(element) => element.scrollWidth - element.clientWidth") <= 0
    assert phone.evaluate(SMALL, LEAST_TEXT_PX) == []
    blue, red = (phone.locator(f".table tr.{team} td").first for team in ("blue", "red"))
    assert blue.evaluate(COLOUR) != red.evaluate(COLOUR)


def test_phone_note_and_caption_leave_the_instruments_of_the_first_person_free(phone):
    phone.wait_for_function("() => echelon.state.match.moments.length > 1")
    seek(phone, state(phone, "match.moments[1].tick"))
    phone.evaluate("() => echelon.control.select(echelon.state, 2, true)")
    phone.keyboard.press("v")
    phone.locator(".mode").wait_for(state="visible")
    settle(phone)
    boxes = phone.evaluate(INSTRUMENTS)
    assert len(boxes) == 2
    for name in (".mode", ".win-caption.shown", ".inspector", ".score"):
        if not phone.locator(name).is_visible():
            continue
        box = phone.locator(name).bounding_box()
        for left, top, right, bottom in boxes:
            apart = box["x"] >= right or box["x"] + box["width"] <= left
            assert apart or box["y"] >= bottom or box["y"] + box["height"] <= top, name


def test_phone_analysis_leaves_no_strip_of_the_sheet(phone):
    phone.evaluate("() => echelon.control.select(echelon.state, 2, false)")
    phone.locator(".inspector").wait_for(state="visible")
    phone.keyboard.press("u")
    panel = phone.locator(".pilot")
    panel.wait_for(state="visible")
    pass_frames(phone)
    sheet = phone.locator(".inspector")
    box = sheet.bounding_box() if sheet.is_visible() else None
    below = panel.bounding_box()["y"] + panel.bounding_box()["height"]
    assert box is None or box["y"] >= below or box["y"] + box["height"] <= below


def test_tap_shows_what_the_win_probability_rests_on(browser, address):
    context = browser.new_context(viewport=PHONES["portrait"], has_touch=True, is_mobile=True)
    context.add_init_script(VISITED)
    try:
        made = context.new_page()
        made.set_default_timeout(TIMEOUT_MS)
        open_paused(made, address, MATCH, 60, "", "low")
        made.wait_for_function("() => echelon.state.match.win.at(echelon.state.tick) !== null")
        for name in (".score-chance", ".win-now"):
            made.locator(name).first.tap()
            made.locator(".tooltip", has_text="Win probability, estimated").wait_for(state="visible")
            assert made.locator(name).first.get_attribute("tabindex") == "0"
            made.locator(".clock").tap()
            made.locator(".tooltip").wait_for(state="hidden")
    finally:
        context.close()


@pytest.mark.parametrize("width", [960, 1440])
def test_text_has_11_pixels_on_desktops(page, address, width):
    page.set_viewport_size({"width": width, "height": 760})
    open_paused(page, address, MATCH, 60, "&mech=1", "low")
    page.evaluate("() => { echelon.state.showChart = echelon.state.showHelp = true; }")
    page.locator(HELP).wait_for(state="visible")
    assert page.evaluate(SMALL, LEAST_TEXT_PX) == []


def test_focus_moves_into_dialogs_and_back(page, address):
    open_paused(page, address, MATCH, 60, "", "low")
    opener = page.get_by_role("button", name="Shortcuts (?)")
    opener.focus()
    page.keyboard.press("Enter")
    page.locator(HELP).wait_for(state="visible")
    page.wait_for_function(FOCUSED, arg=HELP)
    assert page.locator(HELP).get_attribute("aria-modal") == "true"
    for key in ("Tab", "Tab", "Shift+Tab", "Shift+Tab", "Shift+Tab"):
        page.keyboard.press(key)
        assert page.evaluate(FOCUSED, HELP)
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.activeElement?.getAttribute('aria-label') === 'Shortcuts (?)'")


def test_reduced_motion_does_not_autoplay(browser, address):
    context = browser.new_context(viewport={"width": 640, "height": 480}, reduced_motion="reduce")
    try:
        made = context.new_page()
        made.set_default_timeout(TIMEOUT_MS)
        open_match(made, address, MATCH, quality="low")
        pass_frames(made)
        assert (state(made, "playing"), state(made, "tick")) == (False, 0)
    finally:
        context.close()
