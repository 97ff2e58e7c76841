"""The page names damaged files, a lost server and slow drawing in Chromium, and recovers from them."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from typing import Any

import pytest

from echelon.replay.reader import Replay
from echelon.server.catalogue import match_id
from tests.browser.conftest import GOLDEN, RUN, served, served_match
from tests.browser.player import DROP, open_match, pass_frames, pause, seek, state

pytestmark = pytest.mark.long
NOTICE = ".notice"
DAMAGED_CHUNK = 2
PLAYED = "(tick) => echelon.state.tick > tick"
SLOW_FRAMES = """(() => {
  window.requestAnimationFrame = (act) => setTimeout(() => act(performance.now()), 160);
})()"""
"""Six frames a second."""
UNKNOWN = """() => {
  const { match } = echelon.state;
  match.source.version = "another";  // what was fetched has other addresses
  match.store.chunks.clear();
}"""
POINTS = "() => [...document.querySelectorAll('.score-points')].map((element) => element.textContent)"


def chunk_ends() -> list[int]:
    with Replay(GOLDEN) as replay:
        return [chunk.offset + chunk.length for chunk in replay.chunks]


def drop(page: Any, address: str, data: bytes) -> None:
    page.goto(f"{address}/?quality=low")
    page.evaluate(DROP, list(data))
    page.wait_for_function("() => echelon.state.match !== null && echelon.complete()")


def test_truncated_file_is_named_while_it_is_open(page, address):
    end = chunk_ends()[2]
    drop(page, address, GOLDEN.read_bytes()[: end + 20])
    text = "Truncated file: recovered first 0:06, result missing"
    assert text in page.locator(NOTICE).inner_text()
    page.evaluate("() => echelon.control.setSpeed(echelon.state, 16)")
    page.wait_for_function("() => !echelon.state.playing")
    pass_frames(page)
    assert text in page.locator(NOTICE).inner_text()


def test_list_shows_no_figures_of_a_match_without_a_result(page, address, home, tmp_path):
    incomplete = tmp_path / "incomplete.ecr"
    incomplete.write_bytes(GOLDEN.read_bytes()[: chunk_ends()[2] + 20])
    with served_match(home, incomplete) as path:
        os.utime(path, (1, 1))  # an unfinished file that was just written is live
        page.goto(address)
        card = page.locator(".card", has_text="incomplete")
        card.wait_for()
        assert card.locator(".card-alive").all_inner_texts() == ["", ""]
        assert card.locator(".card-team b").all_inner_texts() == ["", ""]


@pytest.mark.parametrize("how", ["dropped", "served"])
def test_damaged_chunk_is_named_and_skipped(page, address, home, tmp_path, how):
    data = bytearray(GOLDEN.read_bytes())
    data[chunk_ends()[DAMAGED_CHUNK] - 24] ^= 4
    damaged = tmp_path / "damaged.ecr"
    damaged.write_bytes(data)
    with ExitStack() as stack:
        if how == "served":
            stack.enter_context(served_match(home, damaged))
            open_match(page, address, match_id(RUN, damaged.name), quality="low")
        else:
            drop(page, address, bytes(data))
        end = page.evaluate(f"() => echelon.state.match.index.chunks[{DAMAGED_CHUNK}][1]")
        page.evaluate("() => { echelon.control.setSpeed(echelon.state, 8); }")
        page.wait_for_function(PLAYED, arg=end + 5)
        page.locator(NOTICE).filter(has_text="Damaged file: 0:04–0:06 cannot be read").wait_for(state="visible")
        assert not page.get_by_role("alert").is_visible()
        # the damaged moment itself has no figures
        pause(page)
        page.evaluate(f"() => echelon.control.seek(echelon.state, {end} - 10)")
        page.get_by_text("This moment is damaged").wait_for(state="visible")
        page.wait_for_function(f"() => ({POINTS})().every((text) => text === '–')")


def test_lost_server_stops_playback_and_recovery_is_whole(page, tmp_path):
    replays = tmp_path / RUN / "replays"
    replays.mkdir(parents=True)
    (tmp_path / RUN / "spec.json").write_text("{}")
    shutil.copy(GOLDEN, replays / "match.ecr")
    match = match_id(RUN, "match.ecr")
    with served(tmp_path) as address:
        port = int(address.rsplit(":", 1)[1])
        open_match(page, address, match, quality="low")
        pause(page)
    banner = page.get_by_role("alert").filter(has_text="The server does not respond")
    banner.wait_for(state="visible")
    page.evaluate(UNKNOWN)
    page.evaluate("() => { echelon.control.seek(echelon.state, 1e9); echelon.state.playing = true; }")
    page.wait_for_function("() => echelon.state.interrupted && !echelon.state.playing")
    page.wait_for_function(f"() => ({POINTS})().every((text) => text === '–')")
    page.get_by_role("button", name="Retry now").wait_for(state="visible")
    page.evaluate("() => { location.hash = ''; }")
    with served(tmp_path, port):
        banner.wait_for(state="hidden")
        page.locator("canvas.painted").wait_for(state="visible")
        page.locator(".card-moment:not(:empty)").wait_for(state="visible")


def test_small_match_plays_on_without_server(page, tmp_path):
    replays = tmp_path / RUN / "replays"
    replays.mkdir(parents=True)
    (tmp_path / RUN / "spec.json").write_text("{}")
    shutil.copy(GOLDEN, replays / "match.ecr")
    with served(tmp_path) as address:
        open_match(page, address, match_id(RUN, "match.ecr"), quality="low")
        pause(page)
        page.wait_for_function("() => echelon.state.match.prefetcher.done === echelon.state.match.index.chunks.length")
    page.get_by_role("alert").filter(has_text="what has been loaded plays on").wait_for(state="visible")
    for tick in (1e9, 40, 90):
        seek(page, tick)
    assert state(page, "interrupted") is False


def test_slow_drawing_is_named_and_skips_frames(fresh_page, address):
    page = fresh_page
    page.add_init_script(SLOW_FRAMES)
    open_match(page, address, match_id(RUN, "u000001-blue.ecr"), quality="low")
    notice = page.locator(NOTICE).filter(has_text="Drawing at")
    notice.filter(has_text="fps, frames are skipped").wait_for(state="visible")
    pause(page)
    notice.wait_for(state="hidden")
