"""The viewer on a phone in portrait: panels cover no controls, and nothing is cut off at the sides."""

from __future__ import annotations

import pytest

from echelon.server.catalogue import match_id
from tests.browser.conftest import RUN
from tests.browser.player import open_paused

MATCH = match_id(RUN, "u000001-blue.ecr")
PHONE = {"width": 390, "height": 844}
BOXES = """(names) => Object.fromEntries(names.map((name) => {
  const box = [...document.querySelectorAll(name)].find((e) => e.getClientRects().length > 0)?.getBoundingClientRect();
  return [name, box ? [box.left, box.top, box.right, box.bottom] : null];
}))"""
FILL = """(name) => {
  const more = document.createElement("p");
  more.style.height = "2000px";
  document.querySelector(`${name} .overlay-body`)?.append(more);
}"""
PLAYER, SCORE = ".timeline", ".score"


def boxes(page, *names):
    return page.evaluate(BOXES, list(names))


@pytest.mark.parametrize(
    "panel", ["showChart", "showTable", "showPilot", "inspector"], ids=["curves", "table", "pilot", "inspector"]
)
def test_panels_do_not_cover_player_or_score(page, address, panel):
    page.set_viewport_size(PHONE)
    open_paused(page, address, MATCH, 60)
    page.evaluate("() => echelon.control.select(echelon.state, 0, false)")
    shown = {"showChart": ".charts", "showTable": ".table", "showPilot": ".pilot", "inspector": ".inspector"}[panel]
    if panel != "inspector":
        page.evaluate(f"() => {{ echelon.state.{panel} = true; }}")
    page.locator(shown).wait_for(state="visible")
    # stretch the panel to the height of the longest content
    page.evaluate(FILL, shown)
    found = boxes(page, PLAYER, SCORE, shown)
    left, top, right, bottom = found[shown]
    assert bottom <= found[PLAYER][1] and top >= found[SCORE][3], found
    assert left >= 0 and right <= PHONE["width"]


def test_team_names_are_not_cut(page, address):
    page.set_viewport_size(PHONE)
    open_paused(page, address, MATCH, 60)
    cut = page.locator(".score-name").evaluate_all("all => all.filter((e) => e.scrollWidth > e.clientWidth).length")
    assert cut == 0
