"""The layout in Chromium: first visits, desktops, phones in both orientations, sizes of text, tooltips, focus."""

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import DESK, MATCH, served_match
from tests.browser.player import (
    MOMENTS,
    open_match,
    open_paused,
    overlay_calls,
    pass_frames,
    seek,
    select,
    settle,
    state,
)

pytestmark = pytest.mark.slow

SPREAD = Path(__file__).parents[2] / "docs" / "replays" / "champion-beats-expert-by-elimination.ecr"
"""A match whose teams start far apart, on a map of 100 voxels."""
LEAGUE = SPREAD.with_name("league-exploiter.ecr")
FIGHTS = 460
"""A tick of that match at which both teams fight."""
PHONES: Any = {"portrait": {"width": 390, "height": 844}, "landscape": {"width": 844, "height": 390}}
ZOOMED: Any = {"width": 640, "height": 400}
"""The window of a desktop of 1280x800 at 200 %."""
LEAST_TEXT_PX, LEAST_TARGET_PX, RETICLE_PX = 11, 38, 15
HELP = ".help:not(.pilot-controls)"
FREE_AREA = """() => {
  const box = (name) => document.querySelector(name).getBoundingClientRect();
  const { left, top, right, bottom } = echelon.state.insets;
  return [
    left - box(".roster.blue").right, top - box(".score").bottom,
    innerWidth - right - box(".roster.red").left, innerHeight - bottom - box(".timeline").top,
  ];
}"""
"""Gaps between the panels and the part of the picture that counts as free."""
LOST_ROWS = "() => [...document.querySelectorAll('.roster-list')].map((e) => e.scrollHeight - e.clientHeight)"
OVER_SCORE = """() => {
  const box = (name) => document.querySelector(name).getBoundingClientRect();
  const score = box(".score");
  const beside = (b) => b.left >= score.right || b.right <= score.left;
  const apart = (b) => beside(b) || b.top >= score.bottom || b.bottom <= score.top;
  return [".tools", ".corner", ".roster.blue", ".roster.red"].filter((name) => !apart(box(name)));
}"""
LINES = """() => {
  const bottoms = [];
  for (const part of document.querySelectorAll(".score-line, .clock, .score-figures, .zone-hold")) {
    const { top, bottom, width } = part.getBoundingClientRect();
    if (width > 0 && part.innerText !== "" && !bottoms.some((other) => top < other - 3)) bottoms.push(bottom);
  }
  return bottoms;
}"""
"""Lower edges of the lines of the score bar, from the top."""
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
COLUMNS = {"portrait": (1, 3, 4, 5, 6, 7, 8), "landscape": (1, *range(3, 11))}
"""Columns of the scoreboard that are shown on phones."""
COLOUR = "(element) => getComputedStyle(element).color"
STRETCH = """(name) => {
  const more = document.createElement("p");
  more.className = "stretch";
  more.style.height = "2000px";
  document.querySelector(`${name} .overlay-body`)?.append(more);
}"""
"""Stretches a panel to the height of the longest content."""
SHRINK = "() => document.querySelectorAll('.stretch').forEach((more) => more.remove())"
PANELS = {
    "showTable": ".table", "showPilot": ".pilot", "showChart": ".charts", "showHelp": HELP, "showShare": ".share",
    "showSettings": ".settings:not(.takeover)", "showEnd": ".end-card",
}  # fmt: skip
BESIDE_THE_PLAYER = ("showTable", "showPilot", "showChart")
"""Panels that cover neither score nor player in portrait."""
FOCUSED = "(name) => document.querySelector(name).contains(document.activeElement)"


def sides(page: Any, name: str) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of the first element of a selector."""
    box = page.locator(name).first.bounding_box()
    return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]


def around(x: float, y: float, wide: float, high: float) -> tuple[float, float, float, float]:
    return x - wide, y - high, x + wide, y + high


def labels(page: Any) -> tuple[list[Any], list[Any]]:
    """Return the boxes of the overlay's labels, and its texts and numbers with the height of the font and place."""
    boxes, words = [], []
    for call in overlay_calls(page, "roundRect", "fillText"):
        if call["name"] == "roundRect":
            x, y, width, height, *_ = call["values"]
            boxes.append((x, y, x + width, y + height))
        else:
            text, x, y, *_ = call["values"]
            words.append((text, float(re.search(r"([\d.]+)px", call["font"])[1]), x, y))
    return boxes, words


def instruments(page: Any) -> list[Any]:
    """Return the boxes of the reticle, with its strokes, and of the scope's range on the overlay."""
    boxes = []
    for call in overlay_calls(page, "arc", "fillText"):
        if call["name"] == "arc" and call["values"][2] == RETICLE_PX:
            boxes.append(around(*call["values"][:2], 22, 22))
        elif re.match(r"radar|[0-9.]+ vox$", str(call["values"][0])):
            boxes.append(around(*call["values"][1:3], call["wide"] / 2, 6))
    return boxes


def are_apart(a: Any, b: Any) -> bool:
    return a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_first_picture_is_the_directors_and_in_words(page, address):
    page.set_viewport_size(DESK)
    open_paused(page, address, MATCH, 40)
    assert state(page, "camera.mode") == "director"
    assert (
        page.locator(".clock-total").get_attribute("data-tip").startswith("First to 7 zone points or last team alive")
    )
    page.locator(".zone-hold:not(:empty)").wait_for()
    assert page.locator(".score-alive").all_inner_texts() == ["5 alive", "5 alive"]
    assert page.locator(".roster-title").first.inner_text() == "bot: scripted"
    pass_frames(page)
    assert all(abs(gap) < 1 for gap in page.evaluate(FREE_AREA))
    overlay = page.locator(".picture-overlay")
    assert overlay.evaluate("({ width, height }) => ({ width, height })") == DESK  # its text is sharp in every tier


def test_panels_of_a_desktop_cover_nothing(page, address):
    page.set_viewport_size(DESK)
    open_paused(page, address, MATCH, 40, "&mech=7")
    page.locator(".inspector").wait_for(state="visible")
    assert page.locator(".mech-row").count() == 10
    assert max(page.evaluate(LOST_ROWS)) <= 1
    assert page.locator(".backdrop-key span").all_inner_texts() == ["score"]
    assert page.locator(".lane-names span").all_inner_texts() == ["blue kills", "red kills", "falls", "overheats"]
    lanes = [(".lane-names", ".scrub", ".backdrop-key"), (".win-name", ".win-track", ".win-now")]
    for name, lane, key in ([sides(page, part) for part in row] for row in lanes):
        assert name[2] <= lane[0] and lane[2] <= key[0]
    assert sides(page, ".scrub")[::2] == sides(page, ".win-track")[::2]  # one axis of time
    for lane, tip in ((".scrub", ".timeline > .tip"), (".win-track", ".win-tip")):
        page.locator(lane).hover()
        page.locator(f"{tip}.shown").wait_for()
        assert sides(page, tip)[3] <= sides(page, ".timeline")[1]  # on no button
    page.evaluate("() => { echelon.state.showChart = echelon.state.showHelp = true; }")
    page.locator(HELP).wait_for(state="visible")
    for width in (800, 1000, 1024, 1280):
        page.set_viewport_size({"width": width, "height": 620})
        pass_frames(page, 5)  # the bar follows the width of the page
        assert len(page.evaluate(LINES)) == 2, width
        assert page.evaluate(OVER_SCORE) == [], width
        assert page.evaluate(SMALL, LEAST_TEXT_PX) == [], width


def test_tooltips_are_visible_on_hover_and_keyboard_focus(page, address):
    page.set_viewport_size({"width": 800, "height": 520})
    open_paused(page, address, MATCH, 40)
    page.get_by_role("button", name="Shortcuts (?)").hover()
    page.locator(".tooltip", has_text="Shortcuts (?)").wait_for(state="visible")
    page.mouse.move(400, 300)
    page.locator(".tooltip").wait_for(state="hidden")
    page.locator(".back").focus()
    page.keyboard.press("Tab")
    page.locator(".tooltip").wait_for(state="visible")


def test_focus_moves_into_dialogs_and_back(page, address):
    open_paused(page, address, MATCH, 60)
    page.get_by_role("button", name="Shortcuts (?)").focus()
    page.keyboard.press("Enter")
    page.locator(HELP).wait_for(state="visible")
    page.wait_for_function(FOCUSED, arg=HELP)
    assert page.locator(HELP).get_attribute("aria-modal") == "true"
    for key in ("Tab", "Tab", "Shift+Tab", "Shift+Tab", "Shift+Tab"):
        page.keyboard.press(key)
        assert page.evaluate(FOCUSED, HELP)
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.activeElement?.getAttribute('aria-label') === 'Shortcuts (?)'")
    assert state(page, "showHelp") is False and state(page, "page") == "match"


def test_damage_keeps_off_labels_and_captions(page, address, home):
    page.set_viewport_size(DESK)
    drawn = 0
    with served_match(home, LEAGUE) as match:
        open_paused(page, address, match, FIGHTS)
        for tick in range(FIGHTS - 20, FIGHTS + 60, 16):
            seek(page, tick)
            settle(page)
            boxes, words = labels(page)
            covered = state(page, "covered.map(({ left, top, right, bottom }) => [left, top, right, bottom])")
            for text, pixels, x, y in words:
                if text.isdigit():  # damage keeps off labels and captions
                    drawn += 1
                    number = around(x, y, pixels * 0.3 * len(text), pixels * 0.45)
                    assert all(are_apart(number, box) for box in [*boxes, *covered]), f"{text} at {tick}"
    assert drawn > 2


def test_opening_names_every_mech_in_the_free_part_of_the_picture(new_page, address, home):
    page = new_page(visited=False)
    with served_match(home, SPREAD) as match:
        for size in (DESK, *PHONES.values()):
            page.set_viewport_size(size)
            open_paused(page, address, match, 60)
            assert page.locator(".welcome").is_visible()
            settle(page)
            boxes, words = labels(page)
            assert {mech["name"] for mech in state(page, "match.header.roster")} <= {text for text, *_ in words}
            assert min(pixels for _, pixels, *_ in words) >= LEAST_TEXT_PX
            edges = state(page, "insets")
            for left, top, right, bottom in boxes:
                assert left >= edges["left"] and right <= size["width"] - edges["right"]
                assert top >= edges["top"] and bottom <= size["height"] - edges["bottom"]
            assert all(are_apart(a, b) for a, b in combinations(boxes, 2)), "labels overlap"


def test_card_of_first_visit_is_closed_for_good(new_page, address):
    page = new_page(visited=False)
    open_paused(page, address, MATCH, 40)
    card = page.locator(".welcome")
    assert "First to 7 zone points" in card.inner_text()
    page.get_by_text("Watch the decisive moment").click()
    page.wait_for_function("""() => {
      const { match, tick, playing } = echelon.state;
      const top = match.moments.find(({ rank }) => rank === 1);
      return playing && Math.abs(tick - top.tick) < 4 * match.header.tick_hz;
    }""")
    page.get_by_text("Got it").click()
    card.wait_for(state="hidden")
    page.reload()
    page.wait_for_function("() => echelon.state.match !== null")
    assert not card.is_visible()


def test_reduced_motion_does_not_autoplay(new_page, address):
    page = new_page(reduced_motion="reduce")
    open_match(page, address, MATCH)
    pass_frames(page)
    assert (state(page, "playing"), state(page, "tick")) == (False, 0)


@pytest.fixture(params=PHONES)
def phone(request: pytest.FixtureRequest, page: Any, address: str) -> Any:
    page.set_viewport_size(PHONES[request.param])
    open_paused(page, address, MATCH, 60)
    return page


def test_phone_cuts_nothing_and_targets_fit_thumbs(phone):
    pass_frames(phone, 10)
    insets, (width, height) = state(phone, "insets"), state(phone, "window")
    assert width - insets["left"] - insets["right"] > 0.7 * width
    assert height - insets["top"] - insets["bottom"] > 0.3 * height
    assert sides(phone, ".roster")[1] >= sides(phone, ".score")[3]
    select(phone, 2)
    phone.locator(".inspector").wait_for(state="visible")
    pass_frames(phone, 5)
    names = [
        ".time-now", ".time-end", ".timeline .play", ".score-name", ".score-points", ".clock", ".zone-hold", ".back",
        TOOLS, ".mech-row", ".inspector", ".gauge-value", ".inspector-facts", ".scrub", ".win-track",
    ]  # fmt: skip
    assert phone.evaluate(CUT, names) == []
    assert min(phone.evaluate(TARGETS)) >= LEAST_TARGET_PX
    assert phone.evaluate(SMALL, LEAST_TEXT_PX) == []
    assert len(phone.evaluate(LINES)) == (3 if width < 500 else 2)
    cut = "all => all.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent)"
    assert phone.locator(".score-name, .zone-hold").evaluate_all(cut) == []
    if width > height:
        phone.set_viewport_size(ZOOMED)
        pass_frames(phone, 5)
        names = [name for name in names if name not in (TOOLS, ".controls .button")]
        assert phone.evaluate(CUT, names) == []
        assert phone.locator(".score-name, .zone-hold, .inspector-facts").evaluate_all(cut) == []


def test_phone_panels_lie_inside_the_window_beside_the_player(phone):
    width, height = phone.viewport_size["width"], phone.viewport_size["height"]
    select(phone, 0)
    for flag, name in PANELS.items():
        if flag == "showEnd":
            seek(phone, state(phone, "match.index.chunks.at(-1)[1]"))
        phone.evaluate(f"() => {{ echelon.state.{flag} = true; }}")
        panel = phone.locator(name)
        panel.wait_for(state="visible")
        pass_frames(phone, 3)
        sheet = phone.locator(".inspector")
        if name == ".pilot" and sheet.is_visible():  # no strip of the sheet is seen around it
            above, below = sides(phone, name)[1], sides(phone, name)[3]
            assert sides(phone, ".inspector")[1] >= below or above <= sides(phone, ".inspector")[3] <= below
        phone.evaluate(STRETCH, name)
        left, top, right, bottom = sides(phone, name)
        assert left >= 0 and top >= 0 and right <= width and bottom <= height, flag
        if height > width and flag in BESIDE_THE_PLAYER:
            assert top >= sides(phone, ".score")[3] and bottom <= sides(phone, ".timeline")[1], flag
        phone.evaluate(SHRINK)
        phone.evaluate(f"() => {{ echelon.state.{flag} = false; }}")
        panel.wait_for(state="hidden")


def test_phone_scoreboard_shows_all_its_values(phone):
    phone.keyboard.press("m")
    phone.locator(".table").wait_for(state="visible")
    columns = COLUMNS["portrait" if phone.viewport_size["width"] < 500 else "landscape"]
    assert phone.evaluate(CUT, [f".table tr > :nth-child({number})" for number in columns]) == []
    body = phone.locator(".table .overlay-body")
    assert body.evaluate("(element) => element.scrollWidth - element.clientWidth") <= 0
    assert phone.evaluate(SMALL, LEAST_TEXT_PX) == []
    blue, red = (phone.locator(f".table .{team} th").first for team in ("blue", "red"))
    assert blue.evaluate(COLOUR) != red.evaluate(COLOUR)


def test_phone_note_and_caption_leave_the_instruments_of_the_first_person_free(phone):
    phone.wait_for_function(MOMENTS)
    seek(phone, state(phone, "match.moments[1].tick"))
    phone.evaluate("() => echelon.control.select(echelon.state, 2, true)")
    phone.keyboard.press("v")
    phone.locator(".mode").wait_for(state="visible")
    settle(phone)
    boxes = instruments(phone)
    assert len(boxes) == 2
    for name in (".mode", ".win-caption.shown", ".inspector", ".score"):
        if phone.locator(name).is_visible():
            assert all(are_apart(sides(phone, name), box) for box in boxes), name


def test_tap_shows_what_the_win_probability_rests_on(new_page, address):
    page = new_page(viewport=PHONES["portrait"], has_touch=True, is_mobile=True)
    open_paused(page, address, MATCH, 60)
    page.wait_for_function("() => echelon.state.match.win.at(echelon.state.tick) !== null")
    for name in (".score-chance", ".win-now"):
        page.locator(name).first.tap()
        page.locator(".tooltip", has_text="Win probability of blue, estimated").wait_for(state="visible")
        assert page.locator(name).first.get_attribute("tabindex") == "0"
        page.locator(".clock").tap()
        page.locator(".tooltip").wait_for(state="hidden")
