"""Analysis and sharing in Chromium: fog of war, charts, cameras, overlays, loops, pictures, exported page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from echelon.replay.reader import Replay
from echelon.replay.schema import MechFlag
from echelon.server.catalogue import match_id
from echelon.server.page import single_page
from tests.browser.conftest import RUN, served_match
from tests.browser.player import DRAW_CALLS, keep_live, open_paused, pass_frames, seek, settle, settled_picture, state
from tests.replay.golden import INSIGHT

MATCH = match_id(RUN, "insight.ecr")


@pytest.fixture(scope="module")
def insight(home: Path) -> Iterator[Path]:
    """The match with policy columns in the served home."""
    with served_match(home, INSIGHT) as path:
        yield path


def open_match(page: Any, address: str, tick: int, more: str = "") -> None:
    """Open the match paused at a tick."""
    page.set_viewport_size({"width": 720, "height": 480})
    open_paused(page, address, MATCH, tick, f"&t={tick / 20}{more}", "low")


def unseen_by_red() -> tuple[int, list[int]]:
    """Return a frame's tick at which some living blue mechs are undetected by red, and those mechs."""
    with Replay(INSIGHT) as replay:
        teams = [mech["team"] for mech in replay.header["roster"]]
        for n in range(len(replay.chunks)):
            chunk = replay.chunk(n)
            for f in range(1, len(chunk.ticks) - 1):
                flags = chunk.frames["flags"][f]
                lost = [
                    m
                    for m, team in enumerate(teams)
                    if team == 0 and flags[m] & MechFlag.ALIVE and not flags[m] & MechFlag.SEEN
                ]
                if lost:
                    return int(chunk.ticks[f]), lost
    raise AssertionError("red always detects every mech")


def hidden(page: Any) -> list[int]:
    return page.evaluate("() => [...echelon.state.match.shown].flatMap((share, mech) => share < 0.5 ? [mech] : [])")


def test_fog_of_war_hides_mechs_and_darkens_ground(page, address, insight):
    tick, mechs = unseen_by_red()
    open_match(page, address, tick)
    clear = settled_picture(page)
    page.keyboard.press("g")
    page.keyboard.press("g")
    assert state(page, "fog") == "red"
    settle(page)
    assert hidden(page) == mechs
    page.get_by_text("not seen").first.wait_for(state="attached")  # narrow pages have no rosters
    assert settled_picture(page) != clear
    page.keyboard.press("g")
    assert state(page, "fog") == "none"
    assert settled_picture(page) == clear
    assert hidden(page) == []
    assert page.evaluate("() => echelon.cost().calls") <= DRAW_CALLS


def test_mech_charts_cover_match_and_seek_on_click(page, address, insight):
    open_match(page, address, 40, "&mech=3")
    page.keyboard.press("u")
    charts = page.locator(".pilot .chart:visible")
    charts.nth(2).wait_for(state="visible")
    with Replay(INSIGHT) as replay:
        frames = 1 + sum(len(replay.chunk(n).ticks) - 1 for n in range(len(replay.chunks)))
        seconds = replay.ticks / replay.header["tick_hz"]
    page.wait_for_function(f"() => echelon.state.match.scan.curves.seconds.length === {frames}")
    page.get_by_text("yaw rate").wait_for(state="visible")
    charts.first.locator(".u-over").click(delay=200)  # at the centre; frames are drawn while the button is down
    expected = seconds / 2 * state(page, "match.header.tick_hz")
    page.wait_for_function(f"() => Math.abs(echelon.state.tick - {expected}) < 8")


LEGEND = "() => ['.layer-title', '.layer-ticks'].map((name) => document.querySelector(name).innerText)"


def test_ground_overlays_have_scales_and_teams(page, address, insight):
    open_match(page, address, 60, "&cam=top")
    bare = settled_picture(page)
    seen = {bare}
    titles = {
        "presence": "Time spent within 1 voxel",
        "damage": "Damage taken within 1 voxel",
        "ways": "Distance to zone (5-voxel bands)",
    }
    for layer in titles:
        page.keyboard.press("h")
        assert state(page, "layer") == layer
        page.wait_for_function(
            "() => echelon.state.layer === 'ways'"
            " || echelon.state.match.scan.version >= echelon.state.match.index.chunks.length"
        )
        seen.add(settled_picture(page))
        title, scale = page.evaluate(LEGEND)
        assert title.startswith(titles[layer]) and scale.split()[0] == "0" and float(scale.split()[2]) > 0
        if layer == "damage":
            page.locator(".layer-side", has_text="Red").click()
            seen.add(settled_picture(page))
    assert len(seen) == 5
    page.keyboard.press("h")
    page.locator(".layer-legend").wait_for(state="hidden")
    assert settled_picture(page) == bare


FORGET = """() => {
  const { store } = echelon.state.match;
  for (const number of store.loaded()) store.get(number).insight.sees.fill(0);
}"""


@pytest.mark.long
def test_first_person_shows_what_the_pilot_perceives(page, address, insight):
    open_match(page, address, 80, "&mech=2&cam=first")
    page.locator(".mode", has_text="First person: what B3 perceives").wait_for()
    whole = settled_picture(page)
    rows = page.locator(".table tbody")
    page.keyboard.press("m")
    page.evaluate(FORGET)
    page.evaluate("() => echelon.redraw()")
    assert settled_picture(page) != whole  # its contacts are gone from picture and scope
    assert "not seen" not in rows.inner_text()  # other panels keep to the chosen fog of war


def test_camera_modes_change_view_and_return(page, address, insight):
    open_match(page, address, 80, "&mech=2")
    seen = {settled_picture(page)}
    for key, mode in (("v", "first"), ("e", "free"), ("t", "top")):
        page.keyboard.press(key)
        assert state(page, "camera.mode") == mode
        seen.add(settled_picture(page))
        page.keyboard.press("o")
        assert state(page, "camera.mode") == "orbit"
    assert len(seen) == 4


@pytest.mark.long
def test_gait_depends_only_on_moment(page, address, insight):
    open_match(page, address, 120, "&mech=2&cam=follow")
    seek(page, 90)
    first = settled_picture(page)
    for tick in range(0, 90, 15):
        seek(page, tick)
        pass_frames(page, 1)
    seek(page, 90)
    assert settled_picture(page) == first


def test_loop_repeats_and_is_restored_from_address(page, address, insight):
    open_match(page, address, 40)
    page.keyboard.press("[")
    seek(page, 60)
    page.keyboard.press("]")
    assert state(page, "loop") == pytest.approx([40, 60], abs=1)
    page.evaluate("() => { echelon.state.layer = 'damage'; }")
    page.wait_for_function("() => location.hash.includes('ab=') && location.hash.includes('layer=damage')")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_function("() => echelon.state.match !== null && echelon.state.loop !== null")
    assert state(page, "loop") == pytest.approx([40, 60], abs=2) and state(page, "layer") == "damage"
    page.evaluate("() => { echelon.state.playing = true; echelon.control.seek(echelon.state, 58); }")
    page.wait_for_function("() => echelon.state.tick < 50")


def test_picture_is_saved(page, address, insight):
    open_match(page, address, 100)
    with page.expect_download() as found:
        page.keyboard.press("z")
    data = Path(found.value.path()).read_bytes()
    assert found.value.suggested_filename.endswith(".png") and data.startswith(b"\x89PNG") and len(data) > 10_000


def test_newest_match_opens_when_it_begins(page, address, home, insight):
    page.goto(f"{address}/?quality=low#newest={RUN}")
    page.wait_for_function("() => echelon.state.match !== null")
    path = home / RUN / "replays" / "later.ecr"
    data = INSIGHT.read_bytes()
    with Replay(INSIGHT) as replay:
        end = replay.chunks[1].offset + replay.chunks[1].length
    path.write_bytes(data[:end])
    with keep_live(path):
        page.wait_for_function(f"() => echelon.state.match.id === '{match_id(RUN, 'later.ecr')}'")
        assert state(page, "followNewest") is True


def test_exported_page_opens_without_server(page, tmp_path):
    target = tmp_path / "match.html"
    target.write_text(single_page(INSIGHT.read_bytes(), "insight.ecr", "A match"), encoding="utf-8")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{target.as_uri()}?quality=low#t=3&mech=1")
    page.wait_for_function("() => echelon.state.match !== null && echelon.complete() && echelon.state.tick >= 60")
    assert state(page, "selected") == 1 and state(page, "problem") == ""
    assert page.title() != "" and not page.locator(".back").is_visible()
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
