"""Takes every picture of the documents into ``docs/pictures``: ``python -m tests.bench.pictures [NAME ...]``.

Matches are recorded by ``echelon sim`` from fixed seeds, shown at the kill with the most kills around it, and drawn by
headless Chromium; dashboards are those of the canned runs of the tests. Not a test: ``just pictures`` runs it.
"""

import asyncio
import base64
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from echelon.replay.reader import Replay
from echelon.replay.schema import EventKind
from echelon.server.catalogue import match_id
from echelon_cli.tui.theme import make_theme
from tests.bench.viewer_speed import browsing
from tests.browser.conftest import FLAGS, RUN, VISITED, chromium, served_session
from tests.browser.player import LOADED, PACED, PAUSED, SETTLED, open_paused, pass_frames
from tests.browser.test_play import begin_when_drawn, fly_by_keys
from tests.tui.support.captures import canned_home, capture

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
DESK = {"width": 1600, "height": 900}
SMALL = {"width": 400, "height": 225}
"""Window while the camera moves: a software renderer draws it faster."""
MAX_BYTES, QUALITY, QUALITY_STEP = 350_000, 0.85, 0.05
TERMINAL = (160, 48)
ENCODE = """async ([png, quality]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", quality).split(",")[1];
}"""
SHOW = """(camera) => {
  const { state, control } = echelon;
  Object.assign(state.camera, camera);
  control.updateCursor(state);
}"""


@dataclass(frozen=True)
class Scene:
    """A moment of a match between scripted pilots, seen from a camera."""

    match: tuple[str, ...]
    """Options of ``echelon sim``."""
    azimuth: float
    elevation: float
    """Direction to the camera [rad]."""
    distance: float
    """[vox]"""
    near_s: float = 2.0
    """Time around the kill in which other kills count [s]."""


def match(seed: int, *options: str) -> tuple[str, ...]:
    return ("--blue", "expert", "--red", "expert", "--seed", str(seed), *options)


SCENES = {
    "viewer-city": Scene(match(35, "--packs", "4", "--size", "120", "--height", "28"), -2.5, 0.42, 38.0),
    "viewer-forest": Scene(match(20, "--size", "100", "--height", "20"), -2.1, 0.46, 30.0),
}
DASHBOARDS = {"dashboard-run": "run"}
PLAYED = "play"


def record(scene: Scene, folder: Path) -> Path:
    """Play a match and return its recording."""
    command = [sys.executable, "-m", "echelon_cli.main", "sim", *scene.match, "--matches", "1", "--no-swap"]
    home = {**os.environ, "ECHELON_HOME": str(folder)}
    subprocess.run([*command, "--record", "all"], check=True, stdout=subprocess.DEVNULL, env=home)
    return next(folder.rglob("*.ecr"))


def busiest_kill(path: Path, near_s: float) -> tuple[int, list[float]]:
    """Return the tick of the kill with the most kills around it, and the victim's position [vox]."""
    with Replay(path) as replay:
        markers = np.asarray(replay.timeline()["markers"])
        kills = markers[markers[:, 1] == EventKind.KILL]
        near = np.abs(kills[:, :1] - kills[:, 0]) < near_s * replay.header["tick_hz"]
        tick, victim = (int(kills[near.sum(1).argmax()][column]) for column in (0, 3))
        scale = {column["name"]: float(column["scale"]) for column in replay.header["columns"]}
        chunk = next(c for c in map(replay.chunk, range(len(replay.chunks))) if c.ticks[-1] >= tick)
        frame = int(np.searchsorted(chunk.ticks, tick).clip(0, len(chunk.ticks) - 1))
        return tick, [float(chunk.frames[axis][frame, victim]) * scale[axis] for axis in "xyz"]


def save(page: Any, name: str, png: bytes) -> None:
    """Write a PNG as WebP, at the highest quality that stays below ``MAX_BYTES``."""
    quality, made = QUALITY, b""
    while not made or len(made) > MAX_BYTES:
        made = base64.b64decode(page.evaluate(ENCODE, [base64.b64encode(png).decode(), quality]))
        quality -= QUALITY_STEP
    (FOLDER / f"{name}.webp").write_bytes(made)
    print(f"{name}.webp {len(made) / 1000:.0f} kB", flush=True)


def take_scene(name: str, scene: Scene) -> None:
    with TemporaryDirectory() as made:
        path = record(scene, Path(made))
        tick, position = busiest_kill(path, scene.near_s)
        with browsing(path) as (page, address, key):
            page.add_init_script(VISITED)
            page.set_viewport_size(SMALL)
            page.emulate_media(reduced_motion="reduce")
            open_paused(page, address, key, tick, quality="finest")
            camera = {"mode": "orbit", "azimuth": scene.azimuth, "elevation": scene.elevation}
            camera |= {"distance": scene.distance, "target": position}
            page.evaluate(SHOW, camera)
            page.evaluate(SETTLED)
            page.set_viewport_size(DESK)
            pass_frames(page)
            page.evaluate(SETTLED)
            save(page, name, page.screenshot())


def take_dashboards(names: list[str]) -> None:
    with TemporaryDirectory() as made, canned_home(Path(made)) as run:
        scenes = {name: capture(Path(made), run, DASHBOARDS[name], TERMINAL, make_theme()) for name in names}
        pictures = {name: asyncio.run(scene)[1] for name, scene in scenes.items()}
    with chromium_page() as page:
        for name, svg in pictures.items():
            page.set_content(f"<body style='margin:0;width:1600px'>{svg}</body>")
            save(page, name, page.locator("svg").screenshot())


def take_play(page: Any, address: str, key: str) -> None:
    """Take the pictures of playing: the take-over dialog, what-if, the cockpit, and the tree of branches."""
    page.goto(address)
    page.wait_for_function("() => echelon.play.phase === 'ready' && echelon.state.list.matches.length > 0")
    page.evaluate("(match) => { location.hash = `#match=${match}&t=6`; }", key)
    page.wait_for_function(PAUSED)
    page.wait_for_function(LOADED)
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelectorAll(\"[aria-label='Mech to fly'] option\").length > 0")
    save(page, "play-take-over", page.screenshot())
    page.keyboard.press("Escape")
    page.keyboard.press(";")
    page.get_by_role("button", name="Ask from").click()
    page.wait_for_function("() => echelon.state.match.ghosts?.length === 3")
    page.evaluate("() => echelon.control.seekBy(echelon.state, 3)")
    page.wait_for_function("() => echelon.complete()")
    save(page, "play-what-if", page.screenshot())
    page.keyboard.press("Escape")
    page.evaluate("() => echelon.control.seekBy(echelon.state, -3)")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Take over", exact=True).click()
    begin_when_drawn(page)
    flown = page.evaluate("() => echelon.state.tick") + 60
    fly_by_keys(page, lambda: page.evaluate("(tick) => echelon.state.tick > tick || !echelon.play.alive", flown))
    page.keyboard.press("p")
    page.wait_for_function(PACED, arg=True)
    # neither the card of the pause nor the latency of software rendering
    page.evaluate("() => { document.querySelector('.cockpit-card').style.visibility = 'hidden'; }")
    page.evaluate("() => { echelon.play.latency = 0; }")
    save(page, "play-cockpit", page.screenshot())
    page.get_by_role("button", name="Leave the match").click()
    page.wait_for_function("() => document.querySelectorAll('.card.branch').length >= 3")
    page.wait_for_function("() => !document.querySelector('.map:not(.painted)') && !document.getAnimations().length")
    save(page, "play-branches", page.screenshot())


@contextmanager
def chromium_page() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS)).new_page(viewport=DESK)
        page.add_init_script(VISITED)
        page.set_default_timeout(240_000)
        yield page


def main(names: list[str]) -> None:
    wanted = names or [*SCENES, *DASHBOARDS, PLAYED]
    for name in SCENES.keys() & set(wanted):
        take_scene(name, SCENES[name])
    if dashboards := [name for name in DASHBOARDS if name in wanted]:
        take_dashboards(dashboards)
    if PLAYED in wanted:
        with TemporaryDirectory() as made, chromium_page() as page:
            path = record(Scene(match(9, "--size", "64", "--seconds", "40"), 0.0, math.pi / 4, 40.0), Path(made))
            home = Path(made) / "home"
            shutil.copytree(path.parent, home / RUN / "replays")  # with the worlds beside it
            (home / RUN / "spec.json").write_text("{}")
            with served_session(home, {"idle": True, "speed": 1.0}) as address:
                take_play(page, address, match_id(RUN, path.name))


if __name__ == "__main__":
    main(sys.argv[1:])
