"""Rendering cost of the viewer in headless Chromium with software rendering.

Usage: ``python -m tests.bench.viewer_speed FILE.ecr [QUALITY | first [VISITS]]``.

Prints one JSON object: script time of a frame to its last draw submission (median of ``FRAMES`` while it plays), draw
calls and triangles as counted by three.js, time from seek to the displayed frame, and time to fetch and decode a chunk.
With ``first``: bytes over the wire by kind of file and time to the first complete picture, in the automatic quality;
every visit has a new browser profile without a cache. Not a test: run it on an idle machine.
"""

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from echelon.server.catalogue import match_id
from tests.browser.conftest import FLAGS, RUN, TIMEOUT_MS, chromium, served
from tests.browser.player import FIRST_PICTURE, count_transfers, open_match

FRAMES = 300
SEEKS = 20
WINDOW = {"width": 1280, "height": 720}
TIME_FRAMES = """(() => {
  const asked = window.requestAnimationFrame.bind(window);
  window.frameTimes = [];
  window.requestAnimationFrame = (act) => asked((now) => {
    const [began, drawn] = [performance.now(), window.echelon?.cost().draws];
    act(now);
    if (window.echelon && echelon.cost().draws > drawn) window.frameTimes.push(performance.now() - began);
  });
})()"""
PLAY = """() => {
  window.frameTimes.length = 0;
  const last = echelon.control.lastTick(echelon.state.match);
  echelon.control.setLoop(echelon.state, last * 0.4, last * 0.9);
  echelon.control.seek(echelon.state, last * 0.4);
  echelon.state.playing = true;
}"""
SEEK = """async (share) => {
  echelon.state.playing = false;
  await echelon.settled();
  const [began, drawn] = [performance.now(), echelon.cost().draws];
  echelon.control.seek(echelon.state, share * echelon.control.lastTick(echelon.state.match));
  while (!echelon.state.match.chunk || echelon.cost().draws === drawn) await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""
CHUNKS = """async () => {
  const times = [];
  const { source, index } = echelon.state.match;
  for (let number = 0; number < index.chunks.length; number++) {
    const began = performance.now();
    await source.chunk(number);
    times.push(performance.now() - began);
  }
  return times;
}"""


def median(values: list[float]) -> float:
    return round(sorted(values)[len(values) // 2], 2)


def measure(page: Any, address: str, match: str, quality: str) -> dict[str, Any]:
    """Measure one match at a quality tier; times are in ms."""
    page.add_init_script(TIME_FRAMES)
    open_match(page, address, match, quality=quality)
    page.wait_for_function("() => echelon.cost().firstFrameMs > 0")
    page.evaluate(PLAY)
    page.wait_for_function(f"() => window.frameTimes.length >= {FRAMES}")
    frames = page.evaluate("() => window.frameTimes")
    cost = page.evaluate("() => echelon.cost()")
    seeks = [page.evaluate(SEEK, (7 * k % SEEKS) / SEEKS) for k in range(SEEKS)]
    return {
        "mechs": page.evaluate("() => echelon.state.match.header.mechs"),
        "tier": cost["tier"],
        "first_picture_ms": round(cost["firstFrameMs"]),
        "script_ms": median(frames),
        "draw_calls": cost["calls"],
        "triangles": cost["triangles"],
        "seek_ms": median(seeks),
        "chunk_ms": median(page.evaluate(CHUNKS)),
    }


@contextmanager
def browsing(path: Path, *flags: str) -> Iterator[tuple[Any, str, str]]:
    """Serve one replay; return a page of headless Chromium, the server's address and the match id."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder:
        replays = Path(folder) / RUN / "replays"
        replays.mkdir(parents=True)
        (replays.parent / "spec.json").write_text("{}")
        shutil.copy(path, replays / "measured.ecr")
        worlds = path.parent / "worlds"
        if worlds.is_dir():
            shutil.copytree(worlds, replays / "worlds")
        with served(Path(folder)) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS, *flags])
            page = browser.new_page(viewport=WINDOW)
            page.set_default_timeout(TIMEOUT_MS * 5)
            yield page, address, match_id(RUN, "measured.ecr")
            browser.close()


def kind_of(url: str) -> str:
    """Return the kind of a file by its address: fonts, match or page."""
    return "fonts" if url.endswith(".woff2") else "match" if "/api/" in url else "page"


def visit(browser: Any, address: str, match: str) -> tuple[Counter[str], float]:
    """Open a match in a new profile; return its bytes by kind and the time to the first complete picture [ms]."""
    context = browser.new_context(viewport=WINDOW)
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    count = count_transfers(page)
    page.goto(f"{address}/#match={match}")
    page.wait_for_function("() => window.echelon && echelon.cost().firstFrameMs > 0")
    milliseconds = page.evaluate("() => echelon.cost().firstFrameMs")
    sizes: Counter[str] = Counter()
    for url, size in count(page.evaluate(FIRST_PICTURE)).items():
        sizes[kind_of(url)] += size
    context.close()
    return sizes, round(milliseconds)


def first_visits(page: Any, address: str, match: str, visits: int) -> dict[str, Any]:
    sizes, times = zip(*(visit(page.context.browser, address, match) for _ in range(visits)), strict=True)
    return {"bytes": sizes[0] | {"all": sizes[0].total()}, "ms": times, "median_ms": median(list(times))}


def main(path: Path, quality: str = "low", visits: int = 5) -> None:
    with browsing(path) as (page, address, match):
        is_first = quality == "first"
        found = first_visits(page, address, match, visits) if is_first else measure(page, address, match, quality)
        print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3], *map(int, sys.argv[3:4]))
