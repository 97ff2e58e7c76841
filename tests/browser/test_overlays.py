"""Overlays of a match in Chromium: sensor and jammer ranges, fog of war, effects of late chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from echelon.replay.reader import Replay
from echelon.replay.schema import EventKind, MechFlag
from echelon.server.catalogue import match_id
from tests.browser.conftest import RUN, served_match
from tests.browser.player import DRAW_CALLS, open_paused, pass_frames, pause, seek, settled_picture, state
from tests.replay.golden import REACH

MATCH = match_id(RUN, "reach.ecr")
LONG = 60
"""Frames after which a paused picture has full resolution."""
SILENCE = f"""() => {{
  const {{ store }} = echelon.state.match;
  for (const number of store.loaded()) {{
    const {{ flags }} = store.get(number).mech;
    flags.forEach((bits, i) => (flags[i] = bits & ~{MechFlag.ECM | MechFlag.ECCM:d}));
  }}
  echelon.control.updateCursor(echelon.state);
}}"""
"""Ends all jamming, so that there are no bubbles."""
SHOWING_TICKS = 6
"""Ticks after an event of the previous chunk at which the picture is checked."""


@pytest.fixture(scope="module")
def reach(home: Path) -> Iterator[Path]:
    """The match with sensor ranges in its header, in the served home."""
    with served_match(home, REACH) as path:
        yield path


def open_match(page: Any, address: str, tick: float, more: str = "") -> None:
    """Open the match paused at a tick."""
    page.set_viewport_size({"width": 960, "height": 600})
    open_paused(page, address, MATCH, tick, f"&t={tick / 20}{more}", "low")


def frame_with(*expected: MechFlag, without: MechFlag, team: int | None = None) -> tuple[int, int]:
    """Return a frame's tick and a living mech, optionally of a team, with the wanted flags and without another."""
    with Replay(REACH) as replay:
        teams = [mech["team"] for mech in replay.header["roster"]]
        for n in range(len(replay.chunks)):
            chunk = replay.chunk(n)
            for f in range(1, len(chunk.ticks) - 1):
                for m, flags in enumerate(chunk.frames["flags"][f]):
                    fits = all(flags & flag for flag in (MechFlag.ALIVE, *expected)) and not flags & without
                    if fits and team in (None, teams[m]):
                        return int(chunk.ticks[f]), m
    raise AssertionError("the match has no such moment")


def hit_before_a_border() -> tuple[int, int]:
    """Return the number of a chunk that ends with a hit, and a tick of the next at which its effect is visible."""
    with Replay(REACH) as replay:
        for n in range(1, len(replay.chunks) - 1):
            events = replay.chunk(n).tables["events"]
            span = replay.chunks[n].tick1 - replay.chunks[n].tick0
            late = events["tick"][events["kind"] == EventKind.HIT] > span - SHOWING_TICKS
            if late.any():
                return n, replay.chunks[n + 1].tick0 + SHOWING_TICKS
    raise AssertionError("the match has no hit at the end of a chunk")


def test_bubbles_cost_one_draw_call_and_inspector_lists_ranges(page, address, reach):
    tick, mech = frame_with(MechFlag.ECM, without=MechFlag.SHUTDOWN)
    open_match(page, address, tick, f"&mech={mech}")
    page.locator(".inspector-state", has_text="ECM").wait_for(state="visible")
    page.locator(".inspector-facts", has_text="radar").wait_for(state="visible")
    whole, calls = settled_picture(page), page.evaluate("() => echelon.cost().calls")
    page.evaluate(SILENCE)
    assert settled_picture(page) != whole and page.evaluate("() => echelon.cost().calls") == calls - 1 < DRAW_CALLS


def test_link_toggle_hides_rings_but_not_bubbles(page, address, reach):
    tick, mech = frame_with(MechFlag.ECM, without=MechFlag.SHUTDOWN)
    open_match(page, address, tick, f"&mech={mech}")
    pictures = [settled_picture(page)]
    page.keyboard.press("x")
    pictures.append(settled_picture(page))
    page.evaluate(SILENCE)
    pictures.append(settled_picture(page))
    assert len(set(pictures)) == 3


def test_mech_hidden_by_fog_is_not_described_or_pickable(page, address, reach):
    tick, mech = frame_with(without=MechFlag.SEEN, team=0)
    open_match(page, address, tick)
    look = f"""() => {{
      const {{ state }} = echelon, {{ x, y, z }} = state.match.poses;
      const target = [x[{mech}], y[{mech}], z[{mech}]];
      Object.assign(state.camera, {{ mode: "orbit", target, elevation: 1.2, distance: 14 }});
    }}"""
    page.evaluate(look)
    settled_picture(page)
    page.mouse.click(480, 300)  # centre of the picture
    assert state(page, "selected") == mech
    page.evaluate("() => { echelon.state.fog = 'red'; echelon.control.updateCursor(echelon.state); }")
    page.locator(".inspector-state", has_text="not seen").wait_for(state="visible")
    assert page.locator(".gauge-value").all_inner_texts() == ["–"] * 4
    assert page.locator(".inspector-facts").inner_text() == ""
    page.keyboard.press("m")
    page.locator(".table tbody tr").nth(mech).get_by_text("not seen").wait_for(state="visible")
    page.keyboard.press("m")
    page.evaluate("() => echelon.control.select(echelon.state, -1, false)")
    page.evaluate(look)
    settled_picture(page)
    page.mouse.click(480, 300)
    assert state(page, "selected") != mech


def test_effects_of_late_chunk_are_drawn_on_arrival(page, address, reach):
    before, tick = hit_before_a_border()
    held = []
    chunk = re.compile(rf"/chunks/{before}\b")
    page.route(chunk, lambda route: route.continue_() if held is None else held.append(route))
    open_match(page, address, 0)
    page.evaluate("(tick) => echelon.control.seek(echelon.state, tick)", tick)
    page.wait_for_function("() => echelon.state.match.chunk !== null")
    pass_frames(page, LONG)
    assert not page.evaluate("() => echelon.complete()")
    drawn = page.evaluate("() => echelon.cost().draws")
    routes, held = held, None
    for route in routes:
        route.continue_()
    page.wait_for_function(f"() => echelon.complete() && echelon.cost().draws > {drawn}")
    late = settled_picture(page)
    seek(page, 0)
    settled_picture(page)
    seek(page, tick)
    assert settled_picture(page) == late


def test_failed_chunk_does_not_block_next_moment(page, address, reach):
    before, tick = hit_before_a_border()
    page.route(re.compile(rf"/chunks/{before}\b"), lambda route: route.abort())
    open_match(page, address, 0)
    seek(page, tick)
    pause(page)
    assert state(page, f"match.store.get({before}) === undefined")


LANE_BOXES = """() => {
  const box = (name) => document.querySelector(name).getBoundingClientRect().toJSON();
  return [".lane-names", ".scrub", ".backdrop-key", ".win-name", ".win-track", ".win-now"].map(box);
}"""


def test_player_lanes_are_free_of_text_and_of_their_tips(page, address, reach):
    open_match(page, address, 60)
    assert page.locator(".backdrop-key span").all_inner_texts() == ["score"]
    assert page.locator(".lane-names span").all_inner_texts() == ["blue kills", "red kills", "falls", "overheats"]
    names, scrub, key, win_name, win, win_now = page.evaluate(LANE_BOXES)
    for left, lane, right in ((names, scrub, key), (win_name, win, win_now)):
        assert left["right"] <= lane["left"] and lane["right"] <= right["left"]
    assert scrub["left"] == win["left"] and scrub["width"] == win["width"]  # one axis of time
    for lane, tip in ((".scrub", ".timeline > .tip"), (".win-track", ".win-tip")):
        page.locator(lane).hover()
        page.locator(f"{tip}.shown").wait_for()
        shown, player = (page.locator(name).bounding_box() for name in (tip, ".timeline"))
        assert shown["y"] + shown["height"] <= player["y"]  # on no button
