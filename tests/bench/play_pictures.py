"""Pictures of playing for the documents: ``python -m tests.bench.play_pictures FOLDER [WxH ...]``.

Records a match between scripted pilots, and takes screenshots of the take-over dialog, the what-if panel with its
ghosts, the tree of branches and the cockpit in headless Chromium, as PNG and, at the first size, as WebP. Not a test.
"""

from __future__ import annotations

import base64
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from echelon.server.catalogue import match_id
from tests.arena.recorded_matches import record_matches, small_game
from tests.bench.screenshots import ENCODE
from tests.browser.conftest import FLAGS, RUN, VISITED, chromium
from tests.browser.player import LOADED, pass_frames
from tests.browser.test_play import PACED, begin_when_drawn, fly_by_keys, served_session

SIZES = ((1440, 900), (1280, 720), (390, 844))
"""Window sizes [CSS px]."""
TICK_HZ = 20
SECONDS, MOMENT_S, LATER_S, FLOWN_S = 40.0, 6, 3, 3
"""Length of the match, moment of the take-over, time from it to the picture with ghosts, and flown time [s]."""
WEBP_QUALITY = 0.8


class Camera:
    """Takes pictures of a page at all sizes."""

    def __init__(self, page: Any, folder: Path, sizes: tuple[tuple[int, int], ...]) -> None:
        self.page, self._folder, self._sizes = page, folder, sizes

    def take(self, name: str) -> None:
        """Save pictures with a name; the window has the first size afterwards."""
        for width, height in (*self._sizes[1:], self._sizes[0]):
            self.page.set_viewport_size({"width": width, "height": height})
            pass_frames(self.page)
            self.page.screenshot(path=self._folder / f"{name}-{width}x{height}.png")
        width, height = self._sizes[0]
        data = base64.b64encode((self._folder / f"{name}-{width}x{height}.png").read_bytes()).decode()
        image = base64.b64decode(self.page.evaluate(ENCODE, [data, WEBP_QUALITY]))
        (self._folder / f"{name}.webp").write_bytes(image)


def take_pictures(page: Any, address: str, match: str, camera: Camera) -> None:
    """Take all pictures of a match that a session can play on."""
    page.goto(address)
    page.wait_for_function("() => echelon.play.phase === 'ready' && echelon.state.list.matches.length > 0")
    page.evaluate("([match, at]) => { location.hash = `#match=${match}&t=${at}`; }", [match, MOMENT_S])
    page.wait_for_function(LOADED)
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelectorAll(\"[aria-label='Mech to fly'] option\").length > 0")
    camera.take("play-take-over")
    page.keyboard.press("Escape")
    page.keyboard.press(";")
    page.get_by_role("button", name="Ask from").click()
    page.wait_for_function("() => echelon.state.match.ghosts?.length === 3")
    page.evaluate("(seconds) => echelon.control.seekBy(echelon.state, seconds)", LATER_S)
    page.wait_for_function("() => echelon.complete()")
    camera.take("play-what-if")
    page.keyboard.press("Escape")
    page.evaluate("(seconds) => echelon.control.seekBy(echelon.state, -seconds)", LATER_S)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Take over", exact=True).click()
    begin_when_drawn(page)
    for _ in range(2):
        page.keyboard.press("[")  # a slow machine draws few pictures in a second
    flown = page.evaluate("() => echelon.state.tick") + TICK_HZ * FLOWN_S
    fly_by_keys(page, lambda: page.evaluate("(tick) => echelon.state.tick > tick || !echelon.play.alive", flown))
    page.keyboard.press("p")
    page.wait_for_function(PACED, arg=True)
    # neither the card of the pause nor the latency, which is that of software rendering in slow motion
    page.evaluate("() => { document.querySelector('.cockpit-card').style.visibility = 'hidden'; }")
    page.evaluate("() => { echelon.play.latency = 0; }")
    camera.take("play-cockpit")
    page.get_by_role("button", name="Leave the match").click()
    page.wait_for_function("() => document.querySelectorAll('.branch-tree li li').length >= 3")
    page.evaluate("() => document.querySelector('.branch-tree').open = true")
    camera.take("play-branches")


def main(folder: Path, sizes: tuple[tuple[int, int], ...]) -> None:
    """Take the pictures of a match at these sizes."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as made:
        home = Path(made) / "home"
        game = small_game(size=64, seconds=SECONDS)
        (match,) = record_matches(Path(made) / "match", game, levels=("medium", "hard"), random_mech=False)
        shutil.copytree(match.path.parent, home / RUN / "replays")
        (home / RUN / "spec.json").write_text("{}")
        with served_session(home, {"idle": True, "speed": 1.0}) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
            page = browser.new_page(viewport={"width": sizes[0][0], "height": sizes[0][1]})
            page.add_init_script(VISITED)
            page.set_default_timeout(240_000)
            take_pictures(page, address, match_id(RUN, match.path.name), Camera(page, folder, sizes))


if __name__ == "__main__":
    named = tuple((int(width), int(height)) for width, _, height in (size.partition("x") for size in sys.argv[2:]))
    main(Path(sys.argv[1]), named or SIZES)
