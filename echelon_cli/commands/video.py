"""``echelon replay video``: a match's highlights as a video, which the viewer makes in a headless browser."""

import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from echelon.files import output_file
from echelon.replay.find import find_replay
from echelon_cli import options, output
from echelon_cli.matches import MatchArgument
from echelon_cli.options import option

if TYPE_CHECKING:
    from echelon.replay.reader import Replay

SIZE = re.compile(r"(\d{1,4})x(\d{1,4})")
SIDES = (160, 1920)
"""Least and most width and height [px]."""
RATES = (1, 60)
LENGTHS = (2.0, 600.0)
"""Least and most length of a video [s]."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-accelerated-2d-canvas")
"""Software rendering works on every machine; frames are then read from memory, not back from the drawing process."""
PICTURE_MS = 120_000
"""Longest wait for the first picture [ms]."""
READY = "() => echelon.state.match !== null && echelon.complete() && !echelon.state.awaitsPicture"
MAKE = """async ([shape, part]) => {
  const film = echelon.film(shape, part);
  const made = await film.make((frame) => showFrame(frame, film.frames));
  const link = document.createElement("a");
  link.download = "film";
  link.href = URL.createObjectURL(made.film);
  link.click();
  return film.spans;
}"""


Span = tuple[float, float]
"""Start and end of a part of a match [s]."""


class Shape(NamedTuple):
    """Size and rate of a video."""

    width: int
    """[px]"""
    height: int
    """[px]"""
    fps: int


SHAPES = {".mp4": Shape(1280, 720, 30), ".webm": Shape(1280, 720, 30), ".gif": Shape(640, 360, 12)}
"""Defaults by ending of the file."""


def video(
    match: MatchArgument,
    out: Annotated[
        Path | None, option("--out", "Output file: .mp4, .webm or .gif; default: NAME.mp4.", "FILE", short="-o")
    ] = None,
    length: Annotated[float, option("--length", "Length of the highlights [s].")] = 20.0,
    start: Annotated[
        float | None, option("--from", "Start of a part [s], no highlights; default: 0 with --to.")
    ] = None,
    end: Annotated[float | None, option("--to", "End of that part [s]; default: the end of the match.")] = None,
    size: Annotated[str | None, option("--size", "Size [px]; default: 1280x720, for GIF 640x360.", "WxH")] = None,
    fps: Annotated[int | None, option("--fps", "Frames per second; default: 30, for GIF 12.")] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write the highlights of a match as a video. 20 s around its most important moments, with names and score."""
    from echelon.replay.reader import Replay

    path = find_replay(match)
    target = out or Path(f"{path.stem}.mp4")
    if target.suffix not in SHAPES:
        raise typer.BadParameter(f"--out is {str(target)!r}, expected a name that ends in {', '.join(SHAPES)}")
    shape = SHAPES[target.suffix]
    if size is not None:
        shape = Shape(*_size(size), shape.fps)
    shape = shape._replace(fps=shape.fps if fps is None else fps)
    _check("--fps", shape.fps, RATES)
    _check("--length", length, LENGTHS)
    if target.exists() and not force:
        raise ValueError(f"file {str(target)!r} already exists; try another --out or --force")
    with Replay(path) as replay, output.waiting("reading", quiet=as_json) as show:
        if not replay.chunks:
            raise ValueError(f"replay {str(path)!r} has no frames, expected a recorded match")
        part = length if start is None and end is None else [_part(replay, start, end)]
        with tempfile.TemporaryDirectory(prefix="echelon-film-") as folder:
            made = Path(folder) / f"film{target.suffix}"
            frames, spans = film(replay, part, shape, made, show)
            with output_file(target) as file, open(made, "rb") as source:
                shutil.copyfileobj(source, file)
    parts = [{"from": round(first, 2), "to": round(last, 2)} for first, last in spans]
    if as_json:
        output.show_json({"file": str(target), "bytes": target.stat().st_size, "frames": frames, "parts": parts})
    else:
        output.print_line(f"{target}: {frames / shape.fps:.0f} s, {output.size(target.stat().st_size)}")


def film(
    replay: "Replay", part: float | list[Span], shape: Shape, target: Path, show: Callable[[str], None]
) -> tuple[int, list[Span]]:
    """Write a film in the format of the file's ending; return the number of its frames and what it shows.

    ``part`` is the length of the highlights [s], or the spans to show.
    """
    from echelon.replay.embed import embed_world
    from echelon.server.page import single_page

    if importlib.util.find_spec("playwright") is None:
        raise ValueError('Playwright is not installed, expected for videos; try pip install "echelon[browser]"')
    from playwright.sync_api import Error, sync_playwright

    browser_path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    file = target.with_suffix(".html")
    text = single_page(embed_world(replay), replay.path.name, "film", start="t=0")
    file.write_text(text, encoding="utf-8", errors="backslashreplace")
    count = 0

    def show_frame(frame: int, frames: int) -> None:
        nonlocal count
        count = frames
        show(f"frame {frame} of {frames}")

    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_path, args=list(FLAGS))
            page = browser.new_page(viewport={"width": 480, "height": 320})
            page.set_default_timeout(PICTURE_MS)
            page.expose_function("showFrame", show_frame)
            page.goto(file.as_uri())
            page.wait_for_function(READY)
            with page.expect_download(timeout=0) as download:
                spans = page.evaluate(MAKE, [{**shape._asdict(), "format": target.suffix.removeprefix(".")}, part])
            download.value.save_as(target)
            browser.close()
    except Error as error:
        cause = str(error).splitlines()[0]
        raise ValueError(f"the browser cannot film the match: {cause}; set CHROMIUM to the path of another") from None
    return count, spans


def _part(replay: "Replay", start: float | None, end: float | None) -> Span:
    seconds = replay.ticks / float(replay.header["tick_hz"])
    first, last = max(0.0, start or 0.0), min(seconds, seconds if end is None else end)
    if last - first < 1 / RATES[1] or last - first > LENGTHS[1]:
        raise ValueError(
            f"part is {first:g} to {last:g} s, expected at most {LENGTHS[1]:g} s within the match of {seconds:g} s"
        )
    return first, last


def _size(text: str) -> tuple[int, int]:
    """Return width and height of "1280x720"; encoders need even ones."""
    found = SIZE.fullmatch(text)
    width, height = (int(found[1]), int(found[2])) if found else (0, 0)
    if not (SIDES[0] <= min(width, height) and max(width, height) <= SIDES[1]) or width % 2 or height % 2:
        raise typer.BadParameter(f"--size is {text!r}, expected even numbers of {SIDES[0]} to {SIDES[1]}, as 1280x720")
    return width, height


def _check(name: str, value: float, limits: tuple[float, float]) -> None:
    if not limits[0] <= value <= limits[1]:
        raise typer.BadParameter(f"{name} is {value:g}, expected {limits[0]:g} to {limits[1]:g}")
