"""The viewer on a phone in portrait: panels cover no controls, and nothing is cut off at the sides."""

from __future__ import annotations

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
"""Stretches a panel to the height of the longest content."""
PLAYER, SCORE = ".timeline", ".score"
PANELS = {".inspector": "", ".charts": "showChart", ".table": "showTable", ".pilot": "showPilot"}


def test_panels_do_not_cover_player_or_score_and_team_names_are_not_cut(fresh_page, address):
    page = fresh_page
    page.set_viewport_size(PHONE)
    open_paused(page, address, MATCH, 60)
    page.evaluate("() => echelon.control.select(echelon.state, 0, false)")
    for shown, flag in PANELS.items():
        if flag:
            page.evaluate(f"() => {{ echelon.state.{flag} = true; }}")
        page.locator(shown).wait_for(state="visible")
        page.evaluate(FILL, shown)
        found = page.evaluate(BOXES, [PLAYER, SCORE, shown])
        left, top, right, bottom = found[shown]
        assert bottom <= found[PLAYER][1] and top >= found[SCORE][3], found
        assert left >= 0 and right <= PHONE["width"]
        if flag:
            page.evaluate(f"() => {{ echelon.state.{flag} = false; }}")
    cut = page.locator(".score-name").evaluate_all("all => all.filter((e) => e.scrollWidth > e.clientWidth).length")
    assert cut == 0
