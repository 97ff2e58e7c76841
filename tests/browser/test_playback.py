"""Keys of the player, pictures that depend on the moment alone, and chunks that are late or lost, in Chromium."""

import re
from collections.abc import Iterable
from typing import Any

import pytest

from echelon.replay.reader import Replay
from echelon.replay.schema import EventKind
from echelon.server.catalogue import match_id
from tests.browser.conftest import DESK, MATCH, RUN, SMOKE
from tests.browser.player import (
    DRAW_CALLS,
    cost,
    open_match,
    open_paused,
    pass_frames,
    seek,
    settle,
    settled_picture,
    state,
)
from tests.replay.golden import INSIGHT, REACH

pytestmark = pytest.mark.long

WATCH_SIZE = """() => {
  window.changed = [];
  const watch = new MutationObserver((found) => changed.push(...found.map(({ attributeName }) => attributeName)));
  watch.observe(document.querySelector("canvas.picture"), { attributeFilter: ["width", "height"] });
}"""
LOSE_CONTEXT = """() => {
  window.loss = document.querySelector("canvas.picture").getContext("webgl2").getExtension("WEBGL_lose_context");
  window.loss.loseContext();
}"""
LOOK = """(target) => {
  Object.assign(echelon.state.camera, { mode: "orbit", target, azimuth: -1.57, elevation: 0.5, distance: 16 });
}"""
CLOUD_TICKS = 200
SHOWING_TICKS = 6
"""Ticks after an event of the previous chunk at which the picture is checked."""
LONG = 30
"""Frames after which a picture that waits for nothing is complete."""


class Withheld:
    """Requests of some chunks, kept until they are continued."""

    def __init__(self, page: Any, *chunks: int) -> None:
        self._chunks, self._routes = set(chunks), []
        page.route("**/chunks/*", self._handle)

    def _handle(self, route: Any) -> None:
        if self._number(route) in self._chunks:
            self._routes.append(route)
        else:
            route.continue_()

    @staticmethod
    def _number(route: Any) -> int:
        return int(re.search(r"/chunks/(\d+)", route.request.url)[1])

    def release(self, chunk: int) -> None:
        self._chunks.remove(chunk)
        for route in self._routes:
            if self._number(route) == chunk:
                route.continue_()


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


def bursts() -> list[tuple[int, float, float, float]]:
    """Return burst tick and centre of every cloud of the smoke match, in time order."""
    with Replay(SMOKE) as replay:
        rows = [(ref.tick0, replay.chunk(n).tables["clouds"]) for n, ref in enumerate(replay.chunks)]
    return sorted(
        {
            (int(tick0 + tick), x / 8, y / 8, z / 8)
            for tick0, clouds in rows
            for tick, x, y, z in zip(*(clouds[name] for name in ("tick", "x", "y", "z")), strict=True)
        }
    )


def assert_repeatable(page: Any, tick: float, others: Iterable[float]) -> None:
    """Check that a moment has the same picture before and after others have been shown, unlike the last of them."""
    seek(page, tick)
    first = settled_picture(page)
    for other in others:
        seek(page, other)
        pass_frames(page, 1)
    assert settled_picture(page) != first
    seek(page, tick)
    assert settled_picture(page) == first


@pytest.mark.parametrize("quality", ["low", "medium"])
def test_cloud_looks_same_after_playing_and_seeking(page, address, quality):
    burst, *place = bursts()[0]
    middle = burst + CLOUD_TICKS // 2 + 0.5
    open_paused(page, address, match_id(RUN, SMOKE.name), middle, quality=quality)
    assert cost(page, "tier") == quality
    page.evaluate(LOOK, place)
    settle(page)
    living = sum(start <= middle < start + CLOUD_TICKS for start, *_ in bursts())
    assert cost(page, "clouds") == living > 0 and cost(page, "calls") <= DRAW_CALLS
    assert_repeatable(page, middle, [burst + 30, burst + 110, burst - 10])
    seek(page, burst - 10)
    settle(page)
    assert cost(page, "clouds") == 0


def test_gait_depends_only_on_moment(page, address):
    open_paused(page, address, match_id(RUN, INSIGHT.name), 120, "&mech=2&cam=follow")
    assert_repeatable(page, 90, (15, 60))


def test_camera_modes_change_view_and_return(page, address):
    open_paused(page, address, match_id(RUN, INSIGHT.name), 80, "&mech=2")
    page.keyboard.press("o")
    seen = {settled_picture(page)}
    for key, mode in (("v", "first"), ("e", "free"), ("t", "top")):
        page.keyboard.press(key)
        assert state(page, "camera.mode") == mode
        seen.add(settled_picture(page))
        page.keyboard.press("o")
        assert state(page, "camera.mode") == "orbit"
    assert len(seen) == 4
    page.keyboard.press("f")
    places = []
    for tick in (40, 140):
        seek(page, tick)
        pass_frames(page, 2)
        places.append(state(page, "camera.target"))
        assert places[-1] == [state(page, f"match.poses.{axis}[2]") for axis in "xyz"]
    assert places[0] != places[1] and state(page, "camera.mode") == "follow"


def test_match_plays_backward_by_key_and_button(page, address):
    open_paused(page, address, MATCH, 80)
    page.keyboard.press("r")
    page.wait_for_function("() => echelon.state.tick < 75")
    assert state(page, "speed") < 0
    page.evaluate("() => echelon.control.setSpeed(echelon.state, 0.25)")
    for name, speed in (("Play backward", -0.5), ("Play forward", 0.5)):
        page.get_by_role("button", name=name).dispatch_event("click")
        assert state(page, "speed") == speed


@pytest.mark.parametrize(("following", "preceding"), [("n", "Shift+N"), ("Shift+P", "p")], ids=["moments", "events"])
def test_keys_of_moments_and_events_move_cursor_and_are_announced(page, address, following, preceding):
    open_paused(page, address, MATCH, 0)
    assert page.locator("[aria-live]").inner_text() == ""
    spoken = page.locator(".win-caption[role=status]" if following == "n" else "[aria-live] > *").first
    before = spoken.text_content() if following == "n" else None
    page.keyboard.press(following)
    first = state(page, "tick")
    assert first > 0
    pass_frames(page, 2)  # the caption is drawn
    spoken.wait_for(state="attached")
    assert spoken.text_content() not in ("", before)
    page.keyboard.press(following)
    assert state(page, "tick") >= first
    page.keyboard.press(preceding)
    page.keyboard.press(preceding)
    assert state(page, "tick") <= first


def test_arrow_keys_step_frames_after_scrub_bar_click(page, address):
    open_paused(page, address, MATCH, 0)
    slider = page.locator(".match-page input.slider")
    slider.click(position={"x": 200, "y": 8})
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 9, box["y"] + 8)
    page.mouse.down()
    page.evaluate("() => { echelon.state.playing = true; }")
    for x in (box["width"] - 1, 200):  # held at the end, playback neither stops nor shows its card
        page.mouse.move(box["x"] + x, box["y"] + 8)
        pass_frames(page, 2)
        assert state(page, "held") and state(page, "playing") and not state(page, "showEnd")
    page.mouse.up()
    assert not state(page, "held") and state(page, "tick") > 0
    page.evaluate("() => { echelon.state.playing = false; }")
    seek(page, 42)
    pass_frames(page, 2)
    for tick in (45, 46):
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => echelon.complete()")
        assert state(page, "tick") == tick
        slider.focus()


def test_loop_repeats_and_is_in_the_address(page, address):
    open_paused(page, address, MATCH, 40)
    page.keyboard.press("[")
    seek(page, 60)
    page.keyboard.press("]")
    assert state(page, "loop") == pytest.approx([40, 60], abs=1)
    page.wait_for_function("() => location.hash.includes('ab=')")
    page.evaluate("() => { echelon.state.playing = true; echelon.control.seek(echelon.state, 58); }")
    page.wait_for_function("() => echelon.state.tick < 50")


def test_resize_allocates_the_buffer_once(page, address):
    open_paused(page, address, MATCH, 60, "&cam=top")
    settle(page)
    page.evaluate(WATCH_SIZE)
    page.set_viewport_size({"width": 400, "height": 260})
    page.wait_for_function("() => changed.length > 0")
    settle(page)
    assert sorted(page.evaluate("() => changed")) == ["height", "width"]


def test_lost_webgl_context_is_reported_and_restored(page, address):
    open_paused(page, address, MATCH, 60)
    before = settled_picture(page)
    page.evaluate(LOSE_CONTEXT)
    message = page.get_by_role("alert").filter(has_text="interrupted")
    message.wait_for(state="visible")
    page.evaluate("() => window.loss.restoreContext()")
    message.wait_for(state="hidden")
    assert settled_picture(page) == before


def test_panels_show_nothing_before_first_chunk(page, address):
    withheld = Withheld(page, 0)
    page.set_viewport_size(DESK)
    page.goto(f"{address}/?quality=low#match={MATCH}")
    rows = page.locator(".roster.red .mech-row")
    rows.nth(4).wait_for(state="attached")
    page.keyboard.press("m")
    pass_frames(page)
    assert not rows.nth(4).is_visible() and page.locator(".mech-row.dead").count() == 0
    assert page.get_by_text("destroyed").count() == 0
    assert state(page, "tick") == 0  # playback waits for the first picture
    withheld.release(0)
    page.wait_for_function("() => echelon.complete() && echelon.state.tick > 2")
    page.locator(".roster.red .mech-points:not(:empty)").first.wait_for(state="visible")


def test_late_chunks_are_drawn_on_arrival_and_nothing_before(page, address):
    before, tick = hit_before_a_border()
    withheld = Withheld(page, before, before + 1)
    open_paused(page, address, match_id(RUN, REACH.name), 0, "&cam=top")
    settle(page)
    drawn = cost(page, "draws")
    pass_frames(page)
    assert cost(page, "draws") == drawn
    page.evaluate("(tick) => echelon.control.seek(echelon.state, tick)", tick)
    pass_frames(page)
    assert state(page, "match.chunk") is None and cost(page, "draws") == drawn
    withheld.release(before + 1)
    page.wait_for_function("() => echelon.state.match.chunk !== null")
    pass_frames(page, LONG)
    assert not page.evaluate("() => echelon.complete()")  # without the effects of the chunk before
    drawn = cost(page, "draws")
    withheld.release(before)
    page.wait_for_function(f"() => echelon.complete() && echelon.cost().draws > {drawn}")
    assert_repeatable(page, tick, [0])


def test_failed_chunk_blocks_no_later_moment_and_is_retried(page, address):
    before, tick = hit_before_a_border()
    chunk = re.compile(rf"/chunks/{before}\b")
    page.route(chunk, lambda route: route.abort())
    open_match(page, address, match_id(RUN, REACH.name), "&t=0")
    seek(page, tick)
    assert state(page, f"match.store.get({before}) === undefined")
    page.unroute(chunk)
    page.wait_for_function(f"() => echelon.state.match.store.get({before}) !== undefined")
    page.get_by_role("alert").wait_for(state="hidden")
