"""Films of matches: frames hold what the replay says at their time, and files what was drawn."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("PIL")
from PIL import Image

from echelon.atlas.film import HEADER, LINES, TEAM_COLOURS, Film
from echelon.atlas.motion import Motion, terrain_at
from echelon.atlas.video import encode
from echelon.replay.reader import Replay
from echelon.replay.reel import Span
from tests.replay.golden import FOLDER, SMALL

SIZE = (320, 180)


@pytest.fixture(scope="module")
def replay() -> Iterator[Replay]:
    with Replay(SMALL) as opened:
        yield opened


def near(picture: Image.Image, colour: tuple[int, int, int], box: tuple[float, float, float, float]) -> int:
    """Return the pixels of about a colour within a box."""
    part = np.asarray(picture.crop(tuple(round(v) for v in box)), int)
    return int((np.abs(part - colour).max(axis=2) < 40).sum())


def test_motion_interpolates_between_recorded_frames(replay):
    motion = Motion(replay, 0.0, 4.0)
    frames = replay.chunk(0).frames
    scale = next(c["scale"] for c in replay.header["columns"] if c["name"] == "x")
    hz, first, last = replay.header["tick_hz"], frames["x"][1] * scale, frames["x"][2] * scale
    step = replay.header["frame_ticks"] / hz
    assert motion.at(step).x == pytest.approx(first)
    assert motion.at(1.5 * step).x == pytest.approx((first + last) / 2)
    assert motion.shots == [] or all(shot.start <= shot.end for shot in motion.shots)


def test_film_shows_each_living_mech_in_its_teams_colour(replay):
    film = Film(replay, replay.timeline(), [Span(0.0, 2.0)], SIZE, 5)
    frames = list(film.draw())
    assert len(frames) == film.frames and {frame.size for frame in frames} == {SIZE}
    top = HEADER * SIZE[1] / LINES
    for colour in TEAM_COLOURS:
        assert near(frames[5], colour, (0, top, *SIZE)) > 30
    assert near(frames[5], TEAM_COLOURS[0], (0, 0, SIZE[0] / 2, top)) > 10  # the score and the win probability
    assert np.asarray(frames[0]).tolist() != np.asarray(frames[9]).tolist()


def test_terrain_at_applies_the_changed_voxels(replay):
    with Replay(FOLDER / "edits.ecr") as edited:
        number = next(n for n in range(len(edited.chunks)) if len(edited.chunk(n).tables["base"]["cell"]))
        rows = edited.chunk(number).tables["base"]
        changed = terrain_at(edited, number) != edited.materials().transpose(2, 0, 1)
        assert 0 < changed.sum() <= rows["run"].sum()


@pytest.mark.parametrize("ending", [".gif", ".webp"])
def test_encode_writes_animated_pictures(replay, ending):
    film = Film(replay, replay.timeline(), [Span(0.0, 1.0)], SIZE, 5)
    file = io.BytesIO()
    encode(file, ending, film.draw(), 5, film.samples())
    with Image.open(io.BytesIO(file.getvalue())) as shown:
        assert shown.n_frames >= 5 and shown.size == SIZE
        shown.seek(4)
        whole = shown.convert("RGB")
    drawn = list(film.draw())[4]
    difference = np.abs(np.asarray(whole, int) - np.asarray(drawn, int)).mean()
    assert difference < 12  # few colours, or lossy


@pytest.mark.parametrize(("ending", "name"), [(".mp4", "h264"), (".webm", "vp9")])
def test_encode_writes_streams_of_the_rate(replay, ending, name):
    av = pytest.importorskip("av")
    film = Film(replay, replay.timeline(), [Span(0.0, 1.0)], SIZE, 5)
    file = io.BytesIO()
    encode(file, ending, film.draw(), 5)
    with av.open(io.BytesIO(file.getvalue())) as shown:
        stream = shown.streams.video[0]
        assert (stream.codec_context.name, stream.width, stream.height) == (name, *SIZE)
        assert len(list(shown.decode(stream))) == film.frames
        assert stream.average_rate == 5
