"""What leaves the viewer: links that open paused, pictures with names and score, one HTML page, films, notebooks."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from echelon.server.page import show, single_page
from tests.browser.conftest import GOLDEN, MATCH, chromium
from tests.browser.player import DROP, LOADED, MOMENTS, open_match, pass_frames, settle, state

pytestmark = pytest.mark.long

PLACE = "() => [echelon.state.tick, echelon.state.playing, echelon.state.camera, echelon.state.selected]"
ALONE = {".score": True, ".timeline": True, ".roster.blue": False, ".tools": False, ".back": False}
"""What is visible of a match within another page."""


def visible(page: Any, names: Iterable[str]) -> dict[str, bool]:
    return {name: page.locator(name).is_visible() for name in names}


def test_exported_page_has_moments_and_links_without_a_server(page, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(single_page(GOLDEN.read_bytes(), GOLDEN.name, "A match", start="t=3"), encoding="utf-8")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{file.as_uri()}?quality=low")
    page.wait_for_function(LOADED)
    assert (state(page, "tick"), state(page, "playing"), state(page, "problem")) == (60, False, "")
    assert page.title() != "" and not page.locator(".back").is_visible()
    page.wait_for_function(MOMENTS)
    page.keyboard.press("n")
    assert state(page, "tick") != 60
    page.evaluate("() => { location.hash = '#t=4&mech=1'; }")
    page.wait_for_function("() => echelon.state.tick === 80 && echelon.state.selected === 1")
    page.keyboard.press("q")
    copy = page.get_by_text("Copy a link")
    copy.click()
    assert "t=4.0" in page.url and "mech=1" in page.url and "match=" not in page.url
    page.evaluate(DROP, list(GOLDEN.read_bytes()))
    page.get_by_text("have no link").wait_for(state="visible")  # a file that was dropped
    assert not copy.is_visible()
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []


def test_saved_picture_carries_names_score_and_time(page, address):
    image = pytest.importorskip("PIL.Image")
    page.set_viewport_size({"width": 960, "height": 600})
    open_match(page, address, MATCH, "&t=3")
    with page.expect_download() as download:
        page.keyboard.press("z")
    assert download.value.suggested_filename.endswith(".png")
    picture = image.open(download.value.path()).convert("RGB")
    assert picture.size == (960, 600)
    bars = [picture.getpixel((8, y)) for y in (8, 590)]
    assert all(max(colour) < 90 for colour in bars)  # the dark bars at top and bottom
    top = picture.crop((0, 0, 960, 42))
    assert len(top.getcolors(maxcolors=100_000)) > 50  # with text in it


def test_film_has_the_frames_of_its_spans(page, address):
    image = pytest.importorskip("PIL.Image")
    open_match(page, address, MATCH, "&t=3")
    frames, data = page.evaluate(
        """async () => {
          const film = echelon.film({ width: 160, height: 96, fps: 5, format: "gif" }, [[0, 1], [3, 4]]);
          const made = await film.make(() => undefined);
          return [film.frames, Array.from(new Uint8Array(await made.film.arrayBuffer()))];
        }"""
    )
    with image.open(io.BytesIO(bytes(data))) as shown:
        assert (shown.n_frames, shown.size) == (frames, (160, 96)) and frames == 2 * 5 + 8


def test_highlights_of_the_share_menu_show_progress_and_leave_the_cursor(page, address):
    open_match(page, address, MATCH, "&t=3&cam=top")
    settle(page)
    before = page.evaluate(PLACE)
    page.keyboard.press("q")
    page.get_by_text("Highlights as a GIF").click()
    page.get_by_text(re.compile(r"Drawing frame \d+ of \d+")).wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("status").filter(has_text="Cancelled.").wait_for()
    page.get_by_text("Highlights as a video, 20 s").wait_for(state="visible")
    assert page.evaluate(PLACE) == before


def test_embedded_match_has_picture_score_and_player_alone(page, address):
    page.goto(f"{address}/?embed=1&quality=low#match={MATCH}&t=3")
    page.wait_for_function(LOADED)
    assert state(page, "tick") == 60 and state(page, "playing") is False
    assert visible(page, ALONE) == ALONE
    before = page.url
    page.keyboard.press("End")
    page.wait_for_function(LOADED)
    assert state(page, "tick") > 60 and page.url == before  # the page around it keeps its address


def test_video_has_the_frames_of_its_part(tmp_path):
    av = pytest.importorskip("av")
    file = tmp_path / "match.mp4"
    command = [sys.executable, "-m", "echelon_cli.main", "replay", "video", str(GOLDEN)]
    part = ["--from", "3", "--to", "4", "--size", "320x192", "--fps", "4", "--out", str(file), "--json"]
    done = subprocess.run([*command, *part], capture_output=True, text=True, env={**os.environ, "CHROMIUM": chromium()})
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["parts"] == [{"from": 3.0, "to": 4.0}]
    with av.open(str(file)) as shown:
        assert shown.streams.video[0].codec_context.name in ("h264", "vp9")
        frames = [frame.to_image() for frame in shown.decode(shown.streams.video[0])]
    assert len(frames) == result["frames"] >= 4 and {frame.size for frame in frames} == {(320, 192)}
    assert len({frame.tobytes() for frame in frames}) > 2
    assert len(frames[0].crop((0, 40, 320, 150)).getcolors(maxcolors=100_000)) > 200  # the map, not an empty page


def test_notebook_shows_picture_score_and_player_alone(page):
    view = show(GOLDEN, height=400, at=3.0)
    page.set_content(f"<body style='margin: 0'>{view._repr_html_()}</body>")
    frame = next(frame for frame in page.frames if frame != page.main_frame)
    frame.wait_for_function("() => window.echelon && echelon.state.match !== null && echelon.complete()")
    pass_frames(frame)
    assert frame.evaluate("() => [echelon.state.tick, echelon.state.playing]") == [60, False]
    assert visible(frame, ALONE) == ALONE
