"""What goes wrong on the way and comes right again, and what is not lost meanwhile: moments, links, focus, clips."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from echelon.replay.reader import Replay
from echelon.server.catalogue import match_id
from echelon.server.page import single_page
from tests.browser.conftest import GOLDEN, RUN
from tests.browser.player import hold, kept_live, open_held, open_match, pass_frames, press_and_wait, seek, state

MATCH = match_id(RUN, "u000001-blue.ecr")
CARD = f'a[href="#match={MATCH}"]'
LATER_CHUNKS = re.compile(r"/chunks/[1-9]")
DROP = """(bytes) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], "holiday.ecr"));
  window.dispatchEvent(new DragEvent("drop", { dataTransfer: data }));
}"""
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
  echelon.state.match.sweep.curves.stability.fill(0);
  echelon.state.match.sweep.version++;
}"""
"""Take a line from a chart, so that it is built anew."""


def open_low(page: Any, address: str, more: str = "") -> None:
    page.set_viewport_size({"width": 720, "height": 480})
    open_match(page, address, MATCH, more, "lowest")


def test_a_match_that_could_not_be_opened_is_opened_by_the_same_card(page, address):
    index = re.compile(rf"/matches/{MATCH}/index")
    page.route(index, lambda route: route.abort())
    page.goto(f"{address}/?quality=lowest")
    page.locator(CARD).click()
    problem = page.get_by_role("alert").filter(has_text="Cannot open")
    problem.wait_for(state="visible")
    page.unroute(index)
    page.locator(CARD).click()
    page.wait_for_function("() => echelon.state.match !== null")
    assert not problem.is_visible()


def test_what_is_wrong_can_be_dismissed_by_keys(page, address):
    page.goto(f"{address}/#match=0000000000000000")
    problem = page.get_by_role("alert").filter(has_text="Cannot open")
    problem.wait_for(state="visible")
    page.get_by_role("button", name="Dismiss").focus()
    page.keyboard.press("Enter")
    problem.wait_for(state="hidden")


def test_a_lost_chunk_of_a_finished_match_comes_after_all(page, address):
    lost: list[str] = []

    def lose_once(route: Any) -> None:
        if route.request.url in lost:
            return route.continue_()
        lost.append(route.request.url)
        return route.abort()

    page.route(LATER_CHUNKS, lose_once)
    open_low(page, address)
    hold(page)
    seek(page, 100)
    assert lost
    page.get_by_role("alert").wait_for(state="hidden")


def test_news_of_a_live_match_leave_its_card_and_the_focus_where_they_are(page, address, home):
    with Replay(GOLDEN) as replay:
        ends = [chunk.offset + chunk.length for chunk in replay.chunks]
    data, path = GOLDEN.read_bytes(), home / RUN / "replays" / "listed.ecr"
    path.write_bytes(data[: ends[1]])
    ident = match_id(RUN, "listed.ecr")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with kept_live(path):
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


def test_the_menu_of_runs_counts_what_is_there(page, address, home):
    page.goto(address)
    option = page.locator(f'option[value="{RUN}"]')
    option.wait_for(state="attached")
    before = int(option.inner_text().rsplit("(", 1)[1].rstrip(")"))
    path = home / RUN / "replays" / "counted.ecr"
    path.write_bytes(GOLDEN.read_bytes())
    try:
        option.filter(has_text=f"({before + 1})").wait_for(state="attached")
    finally:
        path.unlink()


def test_a_link_into_the_open_match_is_followed(page, address):
    open_low(page, address, "&fog=red")
    hold(page)
    page.evaluate(f"() => {{ location.hash = '#match={MATCH}&t=2&mech=6'; }}")
    page.wait_for_function("() => echelon.state.selected === 6")
    assert state(page, "tick") == 40 and state(page, "fog") == "none"


def test_an_address_that_leads_away_is_followed_before_it_is_written(page, address):
    open_low(page, address)
    page.evaluate(f"() => {{ location.hash = '#league'; ({COPY})(80); }}")
    page.wait_for_function("() => echelon.state.page === 'league'")
    assert page.url.endswith("#league")


def test_a_copied_link_is_of_the_moment_it_was_copied_at(page, address):
    open_low(page, address)
    hold(page)
    assert "t=4.0" in page.evaluate(COPY, 80)
    assert "t=5.0" in page.evaluate(COPY, 100)


def test_an_exported_page_has_links_to_its_moments_and_a_dropped_file_has_none(page, tmp_path):
    target = tmp_path / "match.html"
    target.write_text(single_page(GOLDEN.read_bytes(), "small.ecr", "A match"), encoding="utf-8")
    page.goto(f"{target.as_uri()}?quality=lowest#t=3&mech=1")
    page.wait_for_function("() => echelon.state.match !== null && echelon.complete() && echelon.state.tick >= 60")
    hold(page)
    address = page.evaluate(COPY, 100)
    assert "t=5.0" in address and "mech=1" in address and "match=" not in address
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_function("() => echelon.state.match !== null && echelon.state.tick >= 100")
    page.keyboard.press("q")
    copy, none = page.get_by_text("Copy a link"), page.get_by_text("there is no link to it")
    copy.wait_for(state="visible")
    page.evaluate(DROP, list(GOLDEN.read_bytes()))
    none.wait_for(state="visible")
    assert not copy.is_visible()


@pytest.mark.parametrize("key", ["n", "p"])
def test_the_event_that_is_gone_to_is_spoken_while_the_match_is_held(page, address, key):
    open_low(page, address)
    hold(page)
    spoken = page.locator("[aria-live]")
    seek(page, 0 if key == "n" else 1e9)
    assert spoken.inner_text() == ""
    page.keyboard.press(key)
    page.wait_for_function("() => document.querySelector('[aria-live]').children.length > 0")


def test_after_a_click_on_the_scrub_bar_the_arrows_are_the_players(page, address):
    open_low(page, address)
    hold(page)
    page.locator("input.slider").click(position={"x": 200, "y": 8})
    assert state(page, "tick") > 0
    seek(page, 42)
    pass_frames(page, 2)
    press_and_wait(page, "ArrowRight")
    assert state(page, "tick") == 45
    page.locator("input.slider").focus()
    press_and_wait(page, "ArrowRight")
    assert state(page, "tick") == 46


def test_the_button_turns_round_as_its_key_does(page, address):
    open_low(page, address)
    page.evaluate("() => echelon.control.setSpeed(echelon.state, 0.25)")
    page.get_by_role("button", name="Play backward").click()
    assert state(page, "speed") == -0.5
    page.get_by_role("button", name="Play forward").click()
    assert state(page, "speed") == 0.5


def test_a_chart_that_is_built_anew_is_watched_once(page, address):
    page.add_init_script(f"({WATCHED})()")
    open_low(page, address, "&mech=3")
    hold(page)
    page.keyboard.press("u")
    legend = page.locator(".pilot .chart:visible .u-legend")
    legend.filter(has_text="stability").wait_for(state="visible")
    page.wait_for_function("() => echelon.state.match.sweep.version >= echelon.state.match.index.chunks.length")
    before = page.evaluate("() => window.watched")
    page.evaluate(FLATTEN)
    legend.filter(has_text="stability").wait_for(state="detached")
    assert page.evaluate("() => window.watched") == before


def test_a_clip_is_saved_when_its_match_is_left(page, address):
    open_held(page, address, MATCH, 20, "", "lowest")
    page.keyboard.press("q")
    page.get_by_text("Record a clip").click()
    page.get_by_text("Stop and save").wait_for(state="visible")
    page.evaluate("() => { echelon.state.playing = true; }")
    page.get_by_text(re.compile(r"\([1-9]\d* s\)")).wait_for(state="visible")
    with page.expect_download() as found:
        page.evaluate("() => { location.hash = ''; }")
    assert "-1.0s." in found.value.suggested_filename
    assert Path(found.value.path()).stat().st_size > 0
