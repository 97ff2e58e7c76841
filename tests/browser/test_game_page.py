"""The page in which the whole game plays, from a static host in a folder of its own, and without a network."""

import importlib.util
import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from echelon import champion
from echelon.arena.verify import verify
from echelon.replay.reader import Replay
from echelon.web import build, matches
from tests.browser.conftest import DESK, GOLDEN, WAIT_S
from tests.browser.player import DROP, FLYING, LOADED, seek
from tests.browser.test_layout import CUT, PHONES

READY = "() => window.echelon?.play.phase === 'ready'"
FLOWN = "([began, ticks]) => echelon.play.live.tick >= began + ticks"
KEPT = """async () => {
  const offline = (await caches.keys()).find((name) => !name.startsWith("echelon matches"));
  return offline ? (await (await caches.open(offline)).keys()).length : 0;
}"""
FLOWN_ROWS = "(count) => echelon.state.list.matches.filter((row) => row.run === 'page').length === count"
"""Whether the list has ``count`` matches that were flown in the page."""
THUMBS = [
    ".cockpit-tools .button",
    ".cockpit-tiles .button",
    ".cockpit-weapon:not(:has(.automatic))",
    ".cockpit-orders",
]
"""What a pilot taps."""
TICKS = 30
"""Least ticks that a match is flown."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class Host:
    """A host of static files, which can be stopped."""

    def __init__(self, root: Path) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(WAIT_S)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host whose folder ``games/mech`` has a page with one game, two maps and one match."""
    for module, name, value in ((build, "MAPS", 2), (matches, "SKILLS", ("trivial",)), (matches, "SEEDS", 1)):
        monkeypatch.setattr(module, name, value)
    build.build(tmp_path / "site/games/mech", ["5v5"], champion.FOLDER, "otter", lambda text: None)
    made = Host(tmp_path / "site")
    yield made
    made.stop()


def fly(page: Any) -> None:
    """Fly a while, and leave the match."""
    page.wait_for_function(FLYING)
    page.keyboard.down("w")
    page.wait_for_function("() => echelon.play.session.note === ''")
    page.wait_for_function(FLOWN, arg=[page.evaluate("() => echelon.play.live.tick"), TICKS])
    page.keyboard.up("w")
    page.get_by_role("button", name="Leave the match").click()
    page.wait_for_function("() => echelon.state.page === 'list'")


def verdict(page: Any) -> str:
    """Let the page play the open match again; return what it tells."""
    page.evaluate("() => { echelon.state.showShare = true; }")
    page.get_by_role("button", name="Verify: ").click()
    told = page.locator(".share-row span").get_by_text(re.compile(r"\(strict\)|Not verified"))
    told.wait_for()
    return told.inner_text()


def newest(page: Any, count: int) -> dict[str, Any]:
    """Wait until ``count`` matches of the session are listed; return the newest one's row."""
    page.wait_for_function(FLOWN_ROWS, arg=count)
    return page.evaluate("() => echelon.state.list.matches[0]")


def open_recording(page: Any, run: str, file: str) -> None:
    """Open a listed match."""
    page.wait_for_function("(file) => echelon.state.list.matches.some((row) => row.file === file)", arg=file)
    name = "([run, file]) => echelon.state.list.matches.find((row) => row.run === run && row.file === file).id"
    page.evaluate("(id) => { location.hash = `#match=${id}`; }", page.evaluate(name, [run, file]))
    page.wait_for_function(f"(file) => ({LOADED})() && echelon.state.match.file === file", arg=file)
    page.evaluate("() => { echelon.state.playing = false; }")


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs ziglang (extra web)")
def test_page_plays_records_verifies_and_works_offline(new_page, host, tmp_path):
    page = new_page(viewport=DESK)
    page.goto(f"{host.address}/games/mech/?quality=low")
    page.wait_for_function(READY)
    page.locator(".start-form").get_by_role("button", name="trivial").first.click()
    fly(page)

    flown = newest(page, 1)["file"]
    assert re.fullmatch(r"easy-and-human-against-trivial-\d{8}-\d{6}\.ecr", flown)
    page.reload()
    page.wait_for_function(READY)
    open_recording(page, "page", flown)  # which the browser has kept
    told = verdict(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the replay").click()
    assert download.value.suggested_filename == flown
    shutil.copy(download.value.path(), tmp_path / flown)
    with Replay(tmp_path / flown) as replay:
        assert replay.ticks >= TICKS and replay.header["teams"][0]["name"] == "easy and human"
        assert f": {replay.ticks / replay.header['tick_hz']:.1f} s, all {len(replay.chunks)} chunks" in told
    assert told.startswith("Equal bit for bit (strict)") and verify(tmp_path / flown).ok

    open_recording(page, "recorded", "otter-against-trivial.ecr")
    seek(page, page.evaluate("() => echelon.state.match.index.chunks.at(-1)[1] - 60"))
    page.keyboard.press(";")
    page.wait_for_function("() => echelon.play.whatIf?.result || echelon.play.whatIf?.problem")
    assert page.evaluate("() => echelon.play.whatIf.problem") == ""
    assert page.evaluate("() => echelon.play.whatIf.result.runs") == 64
    page.keyboard.press("Escape")
    last = page.evaluate("() => echelon.state.tick")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Take over", exact=True).click()
    page.get_by_role("button", name=re.compile("Again from 0:")).click()  # at the end, after 10 s without an input
    page.wait_for_function("() => echelon.play.ended === null")
    assert page.evaluate("() => echelon.play.beginning") == last - last % 5
    page.get_by_role("button", name="Leave", exact=True).click()
    assert newest(page, 6)["parent"]["match"] == page.evaluate("() => echelon.state.list.matches[1].id")
    assert page.evaluate("() => echelon.state.list.matches[1].parent.match") == "recorded-0"

    page.evaluate(DROP, list(GOLDEN.read_bytes()))
    page.wait_for_function(f"() => ({LOADED})() && echelon.state.match.file === 'holiday.ecr'")
    told = verdict(page)
    assert "which this page cannot play; verify it with `echelon replay verify`" in told, told

    phone = new_page(viewport=PHONES["portrait"], has_touch=True, is_mobile=True)
    phone.goto(f"{host.address}/games/mech/?quality=low")
    phone.wait_for_function(READY)
    phone.locator(".start-form").get_by_role("button", name="trivial").first.tap()
    phone.wait_for_function("() => echelon.play.live?.tick > 0 && document.querySelector('.cockpit-card').hidden")
    assert "left thumb walks" in phone.locator(".cockpit-hint").inner_text()
    for name, size in PHONES.items():
        phone.set_viewport_size(size)
        assert phone.evaluate(CUT, THUMBS) == [], name
    phone.close()

    index = page.evaluate("async () => (await (await fetch('game.json')).json()).files")
    page.wait_for_function(f"async (count) => (await ({KEPT})()) > count", arg=len(index))
    host.stop()
    page.goto(f"{host.address}/games/mech/?quality=low")
    page.wait_for_function(READY)
    page.locator(".start-form").get_by_role("button", name="otter", exact=True).first.click()
    page.wait_for_function(FLYING)
    page.wait_for_function("() => echelon.play.live.match.header.teams[1].name === 'otter'")
