"""Recovery from failures in Chromium, and what survives updates: moments, links, focus."""

from __future__ import annotations

import re
from typing import Any

import pytest

from echelon.replay.reader import Replay
from echelon.server.catalogue import match_id
from echelon.server.page import single_page
from tests.browser.conftest import GOLDEN, RUN
from tests.browser.player import DROP, keep_live, open_match, pass_frames, pause, press_and_wait, seek, state

MATCH = match_id(RUN, "u000001-blue.ecr")
CARD = f'a[href="#match={MATCH}"]'
LATER_CHUNKS = re.compile(r"/chunks/[1-9]")
COPY = """(tick) => {
  echelon.control.seek(echelon.state, tick);
  [...document.querySelectorAll(".share-row")].find((row) => row.textContent.includes("Copy a link")).click();
  return location.hash;
}"""
WATCHED = """() => {
  window.watched = 0;
  const { observe } = ResizeObserver.prototype;
  ResizeObserver.prototype.observe = function (target) {
    if (target.closest(".pilot .chart")) window.watched++;
    return observe.call(this, target);
  };
}"""
FLATTEN = """() => {
  echelon.state.match.scan.curves.stability.fill(0);
  echelon.state.match.scan.version++;
}"""
"""Remove a line from a chart, so that it is rebuilt."""


def open_low(page: Any, address: str, more: str = "") -> None:
    page.set_viewport_size({"width": 720, "height": 480})
    open_match(page, address, MATCH, more, "low")


def test_failed_match_opens_on_second_click(page, address):
    index = re.compile(rf"/matches/{MATCH}/index")
    page.route(index, lambda route: route.abort())
    page.goto(f"{address}/?quality=low")
    page.locator(CARD).click()
    problem = page.get_by_role("alert").filter(has_text="Cannot open")
    problem.wait_for(state="visible")
    page.unroute(index)
    page.locator(CARD).click()
    page.wait_for_function("() => echelon.state.match !== null")
    assert not problem.is_visible()


def test_error_banner_is_dismissed_by_keyboard(page, address):
    page.goto(f"{address}/#match=0000000000000000")
    problem = page.get_by_role("alert").filter(has_text="Cannot open")
    problem.wait_for(state="visible")
    page.get_by_role("button", name="Dismiss").focus()
    page.keyboard.press("Enter")
    problem.wait_for(state="hidden")


def test_failed_chunk_is_retried(page, address):
    lost: list[str] = []

    def lose_once(route: Any) -> None:
        if route.request.url in lost:
            return route.continue_()
        lost.append(route.request.url)
        return route.abort()

    page.route(LATER_CHUNKS, lose_once)
    open_low(page, address)
    pause(page)
    seek(page, 100)
    assert lost
    page.get_by_role("alert").wait_for(state="hidden")


def test_live_match_update_keeps_card_and_focus(page, address, home):
    with Replay(GOLDEN) as replay:
        ends = [chunk.offset + chunk.length for chunk in replay.chunks]
    data, path = GOLDEN.read_bytes(), home / RUN / "replays" / "listed.ecr"
    path.write_bytes(data[: ends[1]])
    ident = match_id(RUN, "listed.ecr")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with keep_live(path):
        page.goto(address)
        card = page.locator(f'a[href="#match={ident}"]')
        card.locator("canvas.painted").wait_for(state="attached")
        card.focus()
        time = card.locator(".badge.time").inner_text()
        headers = len([url for url in asked if url.endswith(ident)])
        with path.open("ab") as file:
            file.write(data[ends[1] : ends[3]])
        page.wait_for_function(
            "([name, before]) => document.querySelector(name + ' .badge.time').textContent !== before",
            arg=[f'a[href="#match={ident}"]', time],
        )
        pass_frames(page)
        assert card.evaluate("(card) => card === document.activeElement")
        assert len([url for url in asked if url.endswith(ident)]) == headers == 1


def test_run_menu_shows_current_counts(page, address, home):
    path = home / RUN / "replays" / "counted.ecr"
    count = len(list(path.parent.glob("*.ecr")))
    page.goto(address)
    option = page.locator(f'option[value="{RUN}"]')
    option.filter(has_text=f"({count})").wait_for(state="attached")
    path.write_bytes(GOLDEN.read_bytes())
    try:
        option.filter(has_text=f"({count + 1})").wait_for(state="attached")
    finally:
        path.unlink()


def test_link_into_open_match_is_followed(page, address):
    open_low(page, address, "&fog=red")
    pause(page)
    page.evaluate(f"() => {{ location.hash = '#match={MATCH}&t=2&mech=6'; }}")
    page.wait_for_function("() => echelon.state.selected === 6")
    assert state(page, "tick") == 40 and state(page, "fog") == "none"


def test_navigation_wins_over_address_update(page, address):
    open_low(page, address)
    page.evaluate(f"() => {{ location.hash = '#league'; ({COPY})(80); }}")
    page.wait_for_function("() => echelon.state.page === 'league'")
    assert page.url.endswith("#league")


def test_copied_link_names_current_moment(page, address):
    open_low(page, address)
    pause(page)
    assert "t=4.0" in page.evaluate(COPY, 80)
    assert "t=5.0" in page.evaluate(COPY, 100)


def test_exported_page_has_moment_links_and_dropped_file_has_none(page, tmp_path):
    target = tmp_path / "match.html"
    target.write_text(single_page(GOLDEN.read_bytes(), "small.ecr", "A match"), encoding="utf-8")
    page.goto(f"{target.as_uri()}?quality=low#t=3&mech=1")
    page.wait_for_function("() => echelon.state.match !== null && echelon.complete() && echelon.state.tick >= 60")
    pause(page)
    address = page.evaluate(COPY, 100)
    assert "t=5.0" in address and "mech=1" in address and "match=" not in address
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_function("() => echelon.state.match !== null && echelon.state.tick >= 100")
    page.keyboard.press("q")
    copy, none = page.get_by_text("Copy a link"), page.get_by_text("have no link")
    copy.wait_for(state="visible")
    page.evaluate(DROP, list(GOLDEN.read_bytes()))
    none.wait_for(state="visible")
    assert not copy.is_visible()


@pytest.mark.parametrize("key", ["n", "p"])
def test_jumped_to_event_is_announced_while_paused(page, address, key):
    open_low(page, address, "&t=0")
    spoken = page.locator("[aria-live]")
    seek(page, 0 if key == "n" else 1e9)
    assert spoken.inner_text() == ""
    page.keyboard.press(key)
    page.wait_for_function("() => document.querySelector('[aria-live]').children.length > 0")


def test_arrow_keys_step_frames_after_scrub_bar_click(page, address):
    open_low(page, address)
    pause(page)
    page.locator(".match-page input.slider").click(position={"x": 200, "y": 8})
    assert state(page, "tick") > 0
    seek(page, 42)
    pass_frames(page, 2)
    press_and_wait(page, "ArrowRight")
    assert state(page, "tick") == 45
    page.locator(".match-page input.slider").focus()
    press_and_wait(page, "ArrowRight")
    assert state(page, "tick") == 46


def test_reverse_button_matches_reverse_key(page, address):
    open_low(page, address)
    page.evaluate("() => echelon.control.setSpeed(echelon.state, 0.25)")
    page.get_by_role("button", name="Play backward").click()
    assert state(page, "speed") == -0.5
    page.get_by_role("button", name="Play forward").click()
    assert state(page, "speed") == 0.5


def test_rebuilt_chart_has_one_resize_observer(fresh_page, address):
    page = fresh_page
    page.add_init_script(f"({WATCHED})()")
    open_low(page, address, "&mech=3")
    pause(page)
    page.keyboard.press("u")
    legend = page.locator(".pilot .chart:visible .u-legend")
    legend.filter(has_text="stability").wait_for(state="visible")
    page.wait_for_function("() => echelon.state.match.scan.version >= echelon.state.match.index.chunks.length")
    before = page.evaluate("() => window.watched")
    page.evaluate(FLATTEN)
    legend.filter(has_text="stability").wait_for(state="detached")
    assert page.evaluate("() => window.watched") == before
