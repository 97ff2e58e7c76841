"""Arranged scenes in Chromium: mechs behind a wall, and a battle of 200 mechs that know all others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.replay.columns import Layout
from echelon.replay.header import header_tables
from echelon.replay.policy_columns import PolicyColumns
from echelon.replay.schema import COLUMNS, MechFlag
from echelon.replay.writer import MatchWriter, world_payload
from echelon.server.catalogue import match_id
from echelon.sim.world import Material
from tests.browser.conftest import RUN
from tests.browser.player import DRAW_CALLS, open_paused, settle, settled_picture
from tests.replay import synthetic

EDGE, HEIGHT, FRAME_COUNT = 60, 10, 9
BATTLE, CONTACTS, MOST_LINKS = 200, 20, 8
WALL = slice(22, 24), slice(8, 32)
"""x and y of the wall; the mech behind it stands at (30, 20)."""
POLICY = PolicyColumns(actions=("forward",), terms=("terminal",), contacts=CONTACTS)

pytestmark = pytest.mark.long


def write_scene(path: Path, places: list[tuple[float, float]], wall: bool, **columns: Any) -> None:
    """Write two seconds in which medium mechs stand still, the first half blue; ``columns`` are stored values."""
    count = len(places)
    roster = [
        {"team": side, "pack": k // 5, "chassis": 2, "name": f"{'BR'[side]}{k + 1}", "present": True}
        for side in (0, 1)
        for k in range(count // 2)
    ]
    described = [column.to_header() for column in (*COLUMNS, *POLICY.columns(count))]
    tables = {**header_tables(), "columns": described}
    head = synthetic.header(mechs=count, roster=roster, zone=[50.0, 50.0, 4.0], **POLICY.to_header())
    material = np.zeros((HEIGHT, EDGE, EDGE), np.uint8)
    material[0, 0, 0] = Material.SOLID  # so that there is terrain to draw
    if wall:
        material[0:8, WALL[1], WALL[0]] = Material.SOLID
    layout = Layout(described, count)
    rows = np.zeros((FRAME_COUNT, layout.width), np.int64)
    frames = layout.split(rows)
    still = {
        "tick": np.arange(FRAME_COUNT)[:, None] * 5, "x": [int(x * 16) for x, _ in places],
        "y": [int(y * 16) for _, y in places], "z": int(1.5 * 16), "hp": 150, "leg_hp": 75, "stability": 100,
        "flags": int(MechFlag.ALIVE), "focus": -1, "painter": -1, "contact": -1, "sees": 255,
    }  # fmt: skip
    for name, value in {**still, **columns}.items():
        frames[name][:] = value
    writer = MatchWriter(path, {**head, **tables}, world_payload(material))
    writer.chunk(rows, {})
    writer.close(winner=0, reason="elimination")


@pytest.fixture(scope="module")
def scenes(home: Path) -> Iterator[dict[str, str]]:
    """Ids of the scenes in the served home: ``wall`` and ``battle``."""
    folder = home / RUN / "replays"
    contacts = [(m + k + 1) % BATTLE for m in range(BATTLE) for k in range(CONTACTS)]
    grid = [(8.0 + 3 * (m % 14), 6.0 + 3 * (m // 14)) for m in range(BATTLE)]
    write_scene(folder / "wall.ecr", [(30.0, 20.0), (55.0, 55.0)], wall=True)
    targets = [BATTLE - 1 - m for m in range(BATTLE)]
    write_scene(folder / "battle.ecr", grid, wall=False, contact=contacts, focus=targets, painter=targets, flags=17)
    yield {name: match_id(RUN, f"{name}.ecr") for name in ("wall", "battle")}
    for name in ("wall", "battle"):
        (folder / f"{name}.ecr").unlink()


def look(page: Any, azimuth: float, target: tuple[float, float, float] = (30, 20, 1.5), distance: float = 24) -> None:
    """Put the orbit camera around a target, low above the ground, and wait until it rests."""
    page.evaluate(
        """([target, azimuth, distance]) => {
          const { state } = echelon;
          Object.assign(state, { showBars: false, showLinks: false });
          Object.assign(state.camera, { mode: "orbit", target, azimuth, elevation: 0.1, distance });
        }""",
        [list(target), azimuth, distance],
    )
    settle(page)


COLOURED = """() => new Promise((done) => requestAnimationFrame(() => {
  echelon.redraw();
  const from = document.querySelector("canvas.picture"), into = document.createElement("canvas");
  [into.width, into.height] = [from.width, from.height];
  const brush = into.getContext("2d");
  brush.drawImage(from, 0, 0);
  const sides = [into.width, into.height];
  const [left, top, right, bottom] = [0.4, 0.3, 0.6, 0.65].map((at, k) => Math.round(at * sides[k % 2]));
  const { data } = brush.getImageData(left, top, right - left, bottom - top);
  let blue = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i + 2] > 120 && data[i + 2] > 1.6 * data[i]) blue++;
  done(blue / (data.length / 4));
}))"""
"""Share of blue pixels in the middle of the picture."""
BEHIND, BEFORE = np.pi, 0.0
"""Azimuth of a camera behind the wall, and of one on the mech's side."""
VISIBLE_SHARE = 0.01


def test_mech_behind_wall_is_a_silhouette(page, address, scenes):
    open_paused(page, address, scenes["wall"], 10)
    look(page, BEHIND)
    assert page.evaluate(COLOURED) > VISIBLE_SHARE
    page.evaluate("() => { echelon.state.fog = 'red'; }")  # red has not detected it
    page.wait_for_function("() => echelon.state.match.shown[0] === 0")
    settle(page)
    assert page.evaluate(COLOURED) < VISIBLE_SHARE / 10


def test_terrain_is_cut_away_before_selected_mech_in_orbit(page, address, scenes):
    open_paused(page, address, scenes["wall"], 10)
    look(page, BEHIND)
    silhouette = page.evaluate(COLOURED)
    page.evaluate("() => echelon.control.select(echelon.state, 0, false)")
    settle(page)
    cut = page.evaluate(COLOURED)
    look(page, BEFORE)
    whole = page.evaluate(COLOURED)
    # through the gap its model is seen as from the free side, not the even screen of its silhouette
    assert abs(cut - whole) < abs(silhouette - whole)


STROKES = """() => new Promise((done) => requestAnimationFrame(() => {
  const brush = document.querySelector("canvas.picture-overlay").getContext("2d");
  const strokes = [], stroke = brush.stroke;
  brush.stroke = function (...path) {
    strokes.push([String(this.strokeStyle), this.getLineDash().length, this.lineWidth]);
    return stroke.apply(this, path);
  };
  echelon.redraw();
  delete brush.stroke;
  done(strokes);
}))"""
RADAR, AIM, WATCHED = "255, 243, 176", "255, 224, 138", "242, 246, 250"


def lines(page: Any) -> tuple[int, int]:
    """Return how many links and rings the overlay draws."""
    strokes = page.evaluate(STROKES)
    rings = sum(RADAR in style for style, _, _ in strokes)
    links = sum(RADAR not in style and (dashes > 0 or AIM in style or WATCHED in style) for style, dashes, _ in strokes)
    return links, rings


def test_battle_of_200_has_few_lines_and_no_rings_but_the_selections(page, address, scenes):
    page.set_viewport_size({"width": 1280, "height": 720})
    open_paused(page, address, scenes["battle"], 10)
    settle(page)
    assert lines(page) == (0, 0)
    assert page.locator(".pack-row").count() == BATTLE // 5
    page.evaluate("() => echelon.control.select(echelon.state, 42, false)")
    settle(page)
    links, rings = lines(page)
    assert 0 < links <= MOST_LINKS and rings <= 1
    assert page.evaluate("() => echelon.cost().calls") <= DRAW_CALLS
    before = settled_picture(page)
    page.keyboard.press("x")
    assert lines(page) == (0, 0) and settled_picture(page) != before
