"""``echelon replay video``: a match's highlights as a video file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from echelon_cli import output
from echelon_cli.matches import MatchArgument, find_replay
from echelon_cli.options import JsonFlag, one_of

if TYPE_CHECKING:
    from echelon.replay.reader import Replay
    from echelon.replay.reel import Span

SIZE = re.compile(r"(\d{1,4})x(\d{1,4})")
SIDES = (160, 1920)
"""Least and most width and height [px]."""
RATES = (1, 60)
LENGTHS = (2.0, 600.0)
"""Least and most length of a video [s]."""
PICTURE_BYTES = 2**29
"""Most bytes of the frames of a GIF, all of which are in memory."""
PROGRESS = 10
"""Frames between two reports of progress."""
Frames = tuple[Iterable, Callable[[], list], int]


def video(
    match: MatchArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Output file: .mp4, .webm, .gif or .webp; default: NAME.mp4."),
    ] = None,
    view: Annotated[
        str,
        typer.Option(
            "--view",
            metavar="map|viewer",
            help="Picture: from above, fast (map), or the viewer's in headless Chromium (viewer).",
            autocompletion=one_of("map", "viewer"),
        ),
    ] = "map",
    length: Annotated[float, typer.Option("--length", help="Length of the highlights [s].")] = 20.0,
    start: Annotated[
        float | None, typer.Option("--from", help="Start of a part instead of highlights [s]; default: 0 with --to.")
    ] = None,
    end: Annotated[
        float | None, typer.Option("--to", help="End of that part [s]; default: the end of the match.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="WxH", help="Width and height [px]; default: 1280x720, of GIF and WebP less."),
    ] = None,
    fps: Annotated[
        int | None, typer.Option("--fps", help="Frames per second; default: 30, of GIF and WebP 12.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Write the highlights of a match as a video. 20 s around its most important moments, with names and score."""
    from echelon.atlas.video import FORMATS, encode, require_libraries
    from echelon.files import output_file
    from echelon.replay.reader import Replay

    path = find_replay(match)
    target = out or Path(f"{path.stem}.mp4")
    if target.suffix not in FORMATS:
        raise typer.BadParameter(f"--out is {str(target)!r}, expected a name that ends in {', '.join(FORMATS)}")
    if view not in VIEWS:
        raise typer.BadParameter(f"--view is {view!r}, expected {' or '.join(VIEWS)}")
    kind = FORMATS[target.suffix]
    shape, rate = _size(size) if size else kind.size, kind.fps if fps is None else fps
    _check("--fps", rate, RATES)
    _check("--length", length, LENGTHS)
    require_libraries(target.suffix)
    if target.exists() and not force:
        raise ValueError(f"file {str(target)!r} already exists; try another --out or --force")
    with Replay(path) as replay, output.waiting("reading", quiet=as_json) as show:
        if not replay.chunks:
            raise ValueError(f"replay {str(path)!r} has no frames, expected a recorded match")
        moments = replay.timeline()
        spans = _spans(replay, moments, length, start, end)
        frames, samples, count = VIEWS[view](replay, moments, spans, shape, rate)
        if not kind.encoder and count * shape[0] * shape[1] > PICTURE_BYTES:
            raise ValueError(f"{count} frames of {shape[0]}x{shape[1]} are too many for {target.suffix}; try .mp4")

        def shown() -> Iterator:
            for number, frame in enumerate(frames):
                if number % PROGRESS == 0:
                    show(f"drawing frame {number + 1} of {count}")
                yield frame

        with output_file(target) as file:
            encode(file, target.suffix, shown(), rate, () if kind.encoder else samples())
    parts = [{"from": round(span.start, 2), "to": round(span.end, 2)} for span in spans]
    if as_json:
        output.show_json({"file": str(target), "bytes": target.stat().st_size, "frames": count, "parts": parts})
    else:
        output.print_line(f"{target}: {count / rate:.0f} s, {target.stat().st_size / 1024:.0f}K")
    return output.DONE


def _map_frames(replay: Replay, moments: dict, spans: list[Span], size: tuple[int, int], fps: int) -> Frames:
    """Return frames seen from above, a function that draws samples of their colours, and their number."""
    from echelon.atlas.film import Film

    film = Film(replay, moments, spans, size, fps)
    return film.draw(), film.samples, film.frames


def _viewer_frames(replay: Replay, moments: dict, spans: list[Span], size: tuple[int, int], fps: int) -> Frames:
    """Return frames of the viewer's picture, as ``_map_frames``."""
    from echelon_cli.viewer_film import viewer_frames

    return viewer_frames(replay, spans, size, fps)


VIEWS = {"map": _map_frames, "viewer": _viewer_frames}


def _spans(replay: Replay, moments: dict, length: float, start: float | None, end: float | None) -> list[Span]:
    """Return the parts of a match to show: highlights, or one from ``start`` to ``end``."""
    from echelon.atlas.film import HOLD_S
    from echelon.replay.reel import Span, choose_spans

    seconds = replay.ticks / float(replay.header["tick_hz"])
    if start is None and end is None:
        return choose_spans(moments["moments"], seconds, max(1.0, length - HOLD_S))
    first, last = max(0.0, start or 0.0), min(seconds, seconds if end is None else end)
    if last - first < 1 / RATES[1] or last - first > LENGTHS[1]:
        raise ValueError(
            f"part is {first:g} to {last:g} s, expected at most {LENGTHS[1]:g} s within the match of {seconds:g} s"
        )
    return [Span(first, last)]


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
