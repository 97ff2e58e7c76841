"""Bytes before the first picture, allocations of a resize, remembered settings and sound in Chromium."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.server.catalogue import match_id
from tests.browser.conftest import GOLDEN, RUN, TIMEOUT_MS
from tests.browser.player import (
    DROP,
    FIRST_PICTURE,
    LOADED,
    count_transfers,
    open_match,
    open_paused,
    pause,
    settle,
    state,
)

MATCH = match_id(RUN, "u000001-blue.ecr")
BUDGET_BYTES = 320_000
"""Most bytes over the wire before the first picture of a match of ten mechs."""
ALLOCATIONS = """() => {
  const canvas = document.querySelector("canvas.picture");
  window.allocations = [];
  for (const side of ["width", "height"]) {
    const { get, set } = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, side);
    Object.defineProperty(canvas, side, {
      get() { return get.call(this); },
      set(value) { window.allocations.push(side); set.call(this, value); },
    });
  }
}"""


@pytest.fixture
def wire(browser: Any) -> Any:
    """A page without a cache from earlier tests and the function that returns its responses' bytes by address."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    made = context.new_page()
    made.set_default_timeout(TIMEOUT_MS)
    yield made, count_transfers(made)
    context.close()


def test_first_picture_of_ten_mechs_stays_within_its_bytes(wire, address):
    page, count = wire
    page.goto(f"{address}/?quality=low#match={MATCH}")
    page.wait_for_function(LOADED)
    sizes = count(page.evaluate(FIRST_PICTURE))
    workers = {url.rsplit("/", 1)[1].partition(".")[0] for url in sizes if ".worker-" in url}
    assert workers == {"decode", "mesh"}, "the bytes of workers count too"
    assert all(size > 2000 for url, size in sizes.items() if ".worker-" in url), "with their bodies"
    assert sum(sizes.values()) < BUDGET_BYTES, sizes


def test_first_picture_needs_one_chunk_and_everything_else_waits_for_it(wire, address):
    page, count = wire
    page.goto(f"{address}/?quality=low#match={MATCH}")
    page.wait_for_function("() => echelon.state.match?.prefetcher.done === echelon.state.match?.index.chunks.length")
    page.wait_for_function("() => echelon.state.match.moments.length > 0")
    first = count(page.evaluate(FIRST_PICTURE))
    after = set(count()) - set(first)
    assert [url.rpartition("/")[2][0] for url in first if "/chunks/" in url] == ["0"]
    assert not [url for url in first if url.endswith("/runs") or "/matches?" in url]
    assert len([u for u in after if "/chunks/" in u]) == 4


@pytest.mark.long
def test_resize_allocates_the_buffer_once(fresh_page, address):
    page = fresh_page
    open_paused(page, address, MATCH, 60, "", "low")
    page.evaluate("() => echelon.control.setCameraMode(echelon.state, 'orbit')")
    settle(page)
    page.evaluate(ALLOCATIONS)
    page.set_viewport_size({"width": 800, "height": 520})
    page.wait_for_function("() => window.allocations.length > 0")
    settle(page)
    assert sorted(page.evaluate("() => window.allocations")) == ["height", "width"]


@pytest.mark.long
def test_settings_are_remembered_and_sound_is_off_until_switched_on(fresh_page, address):
    page = fresh_page
    page.goto(f"{address}/#match={MATCH}")
    page.wait_for_function(LOADED)
    assert page.evaluate("() => echelon.sounds()") == 0 and state(page, "sound") is False
    page.keyboard.press("/")
    dialog = page.get_by_role("dialog", name="Settings")
    dialog.get_by_label("Sound", exact=True).check()
    dialog.get_by_label("Graphics").select_option("low")
    dialog.get_by_label("Minimap (I)").uncheck()
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    page.evaluate("() => { echelon.control.seek(echelon.state, 0); echelon.state.playing = true; }")
    page.wait_for_function("() => echelon.sounds() > 0")
    page.reload()
    page.wait_for_function(LOADED)
    pause(page)
    assert [state(page, name) for name in ("sound", "quality", "showMap")] == [True, "low", False]
    assert page.evaluate("() => echelon.cost().tier") == "low"


@pytest.mark.long
def test_dropped_file_has_the_moments_that_the_server_finds(page, address):
    open_match(page, address, MATCH, quality="low")
    page.wait_for_function("() => echelon.state.match.moments.length > 0")
    expected = state(page, "match.moments")
    page.goto(f"{address}/?quality=low")
    page.evaluate(DROP, list(GOLDEN.read_bytes()))
    page.wait_for_function("() => echelon.state.match?.id === 'file' && echelon.state.match.moments.length > 0")
    names = ("tick", "kind", "team", "rank", "caption")
    found = state(page, "match.moments")
    assert [[m[n] for n in names] for m in found] == [[m[n] for n in names] for m in expected]


@pytest.mark.long
def test_opening_matches_logs_no_error(page, address):
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("response", lambda response: errors.append(response.url) if response.status >= 400 else None)
    page.goto(address)
    for _ in range(2):
        page.locator(f'a[href="#match={MATCH}"]').click()
        page.wait_for_function(LOADED)
        page.evaluate("() => { location.hash = ''; }")
        page.wait_for_function("() => echelon.state.match === null")
    assert errors == []
