"""Films of the viewer's picture, drawn frame by frame in a headless browser (extra ``browser``)."""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

    from echelon.replay.reader import Replay
    from echelon.replay.reel import Span

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
"""Software rendering works on every machine."""
FRAME_MS = 120_000
"""Longest wait for the first picture [ms]."""
QUALITY = 0.92
"""Of the JPEG pictures that the browser returns."""
START = """([width, height, fps]) => { window.film = echelon.film({ width, height, fps, gif: false }, []); }"""
FRAME = """async ([second, cut, quality]) => {
  await window.film.draw(second, cut);
  return window.film.canvas.toDataURL("image/jpeg", quality).split(",")[1];
}"""
LOADED = "() => echelon.state.match !== null && echelon.complete()"


def viewer_frames(
    replay: Replay, spans: Sequence[Span], size: tuple[int, int], fps: int
) -> tuple[Iterator[Image], Callable[[], list[Image]], int]:
    """Return the viewer's pictures of spans of a match, a function that draws samples, and their number."""
    from echelon.atlas.film import HOLD_S

    if importlib.util.find_spec("playwright") is None:
        raise ValueError("Playwright is not installed, expected for --view viewer; "
                         'try pip install "echelon[browser]"')  # fmt: skip
    times = [
        (span.start + (number + 1) / fps, number == 0)
        for span in spans
        for number in range(max(1, round((span.end - span.start) * fps)))
    ]
    held = round(HOLD_S * fps)

    def samples() -> list[Image]:
        return list(_drawn(replay, [(sum(span) / 2, True) for span in spans], size, fps))

    def frames() -> Iterator[Image]:
        last = None
        for last in _drawn(replay, times, size, fps):
            yield last
        if last is not None:
            yield from (last for _ in range(held))

    return frames(), samples, len(times) + held


def _drawn(replay: Replay, times: Sequence[tuple[float, bool]], size: tuple[int, int], fps: int) -> Iterator[Image]:
    """Yield the pictures of some seconds; a flag tells whether the camera cuts there."""
    import base64

    from PIL import Image
    from playwright.sync_api import Error, sync_playwright

    from echelon.replay.embed import embed_world
    from echelon.server.page import single_page

    browser_path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    page_text = single_page(embed_world(replay), replay.path.name, "film", start="t=0")
    try:
        with tempfile.TemporaryDirectory(prefix="echelon-film-") as folder, sync_playwright() as playwright:
            file = Path(folder) / "film.html"
            file.write_text(page_text, encoding="utf-8", errors="backslashreplace")
            browser = playwright.chromium.launch(executable_path=browser_path, args=list(FLAGS))
            page = browser.new_page(viewport={"width": 480, "height": 320})
            page.set_default_timeout(FRAME_MS)
            page.goto(file.as_uri())
            page.wait_for_function(LOADED)
            page.evaluate(START, [*size, fps])
            for second, cut in times:
                data = base64.b64decode(page.evaluate(FRAME, [second, cut, QUALITY]))
                yield Image.open(io.BytesIO(data)).convert("RGB")
            browser.close()
    except Error as error:
        cause = str(error).splitlines()[0]
        raise ValueError(
            f"the browser cannot draw the match: {cause}; set CHROMIUM to its path, or try --view map"
        ) from None
