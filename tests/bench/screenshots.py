"""Screenshots of the viewer for the documents: ``python -m tests.bench.screenshots FOLDER [SCENE ...]``.

Plays the matches of ``SCENES`` between scripted pilots, finds the moment with the highest activity, and takes a
screenshot in headless Chromium as PNG and WebP. Replays are stored in ``FOLDER/replays`` and reused. Matches are the
same on every machine. Not a test.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.find_fight import Fight, Moment, find_fight
from tests.bench.viewer_speed import browsing
from tests.browser.player import SETTLED, open_paused, pass_frames

DESK = (1600, 900)
PHONE = (390, 844)
SMALL_WINDOW = (400, 225)
"""Window sizes [CSS px]."""
QUALITY_STEP = 0.05
"""Reduction of the WebP quality while a file is too large."""
ENCODE = """async ([png, quality]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", quality).split(",")[1];
}"""
SHOW = """([camera, selected, panels]) => {
  const { state, control } = echelon;
  Object.assign(state, panels);
  if (selected >= 0) control.select(state, selected, camera.mode !== "orbit");
  if (camera.mode !== state.camera.mode) control.setCameraMode(state, camera.mode);
  Object.assign(state.camera, camera);
  control.updateCursor(state);
}"""

CURVES = """() => {
  const { match, showPilot } = echelon.state;
  return !showPilot || match.scan.curves?.seconds.at(-1) * match.header.tick_hz >= echelon.control.lastTick(match);
}"""


@dataclass(frozen=True, kw_only=True)
class Battle:
    """A match to be played."""

    packs: int = 1
    """Packs of five per team."""
    size: tuple[int, int]
    """Edge and height of the map [vox]."""
    seed: int
    seconds: float
    levels: tuple[str, str] = ("expert", "hard")
    insight: bool = False
    """Whether policy columns are recorded."""


@dataclass(frozen=True, kw_only=True)
class View:
    """Camera position relative to a fight."""

    mode: str = "orbit"
    side: float = 0.0
    """Direction to the camera from +x, or from behind the followed mech [rad]."""
    elevation: float = 0.6
    """[rad]"""
    distance: float = 40.0
    """[vox]"""
    shift: tuple[float, float] = (0.0, 0.0)
    """Shift of the camera's target from the fight, to the right and away from the camera [vox]."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A screenshot: match, moment, camera and viewer state."""

    battle: Battle
    moment: Moment
    view: View
    selects: bool = False
    """Whether the mech at the centre of the fight is selected."""
    panels: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the viewer's state."""
    window: tuple[int, int] = DESK


FOREST = Battle(size=(100, 20), seed=20, seconds=120.0)
CITY = Battle(packs=4, size=(120, 28), seed=12, seconds=90.0, levels=("expert", "expert"))
TOWERS = Battle(packs=4, size=(120, 28), seed=35, seconds=90.0)
MASS = Battle(packs=20, size=(200, 28), seed=35, seconds=60.0)
KNOWN = Battle(size=(100, 20), seed=27, seconds=90.0, insight=True)
BLOWS = {"hit": 1.0, "kill": 4.0, "launch": 1.0}

SCENES: dict[str, Scene] = {
    "viewer-forest": Scene(
        battle=FOREST, moment=Moment(counts=BLOWS, radius=12.0), view=View(side=-2.1, elevation=0.46, distance=27.0)
    ),
    "viewer-city": Scene(
        battle=TOWERS, moment=Moment(counts=BLOWS, radius=14.0), view=View(side=-2.5, elevation=0.46, distance=36.0)
    ),
    "viewer-battle": Scene(
        battle=MASS, moment=Moment(counts=BLOWS, radius=25.0), view=View(side=-0.8, elevation=0.42, distance=62.0)
    ),
    "viewer-smoke": Scene(
        battle=CITY,
        moment=Moment(counts={"missile": 2.0, "cloud": 0.5, "hit": 0.3}, radius=18.0),
        view=View(side=2.2, elevation=0.5, distance=38.0),
    ),
    "viewer-fog": Scene(
        battle=KNOWN,
        moment=Moment(counts=BLOWS, radius=14.0),
        view=View(side=-2.1, elevation=0.8, distance=40.0, shift=(9.0, 0.0)),
        selects=True,
        panels={"fog": "blue", "showPilot": True},
    ),
    "viewer-follow": Scene(
        battle=KNOWN,
        moment=Moment(counts=BLOWS, radius=14.0, contested=True, rank=1),
        view=View(mode="follow", side=math.pi + 0.4, elevation=0.36, distance=17.5),
        selects=True,
    ),
    "viewer-zone": Scene(
        battle=KNOWN,
        moment=Moment(counts=BLOWS, radius=14.0, contested=True, rank=1),
        view=View(side=-1.2, elevation=0.6, distance=30.0),
    ),
    "viewer-phone": Scene(
        battle=FOREST,
        moment=Moment(counts=BLOWS, radius=12.0),
        view=View(side=-2.1, elevation=0.8, distance=40.0),
        window=PHONE,
    ),
}


def record(battle: Battle, path: Path) -> None:
    """Play a match and record it into ``path``."""
    from echelon.agents.heuristic import script_of
    from echelon.config import EnvConfig
    from echelon.replay.header import TeamInfo
    from echelon.replay.record import MatchInfo, Recorder
    from echelon.training.vec_env import VectorEnv

    base = EnvConfig()
    edge, height = battle.size
    world = replace(base.world, size_x=edge, size_y=edge, size_z=height)
    cfg = replace(base, world=world, num_packs=battle.packs, max_episode_seconds=battle.seconds)
    blue, red = (TeamInfo(name=level, level=level) for level in battle.levels)
    match = MatchInfo(name=path.stem, teams=(blue, red), map_seed=battle.seed)
    policy = "acts" if battle.insight else "none"
    with VectorEnv(1, cfg, learners="none", seeds=[battle.seed], autoreset=False, initial_weapon_prob=1.0) as env:
        scripts = [script_of(level) for level in battle.levels for _ in range(cfg.team_size)]
        env.engine.batch.set("script", np.array([scripts], np.int32))
        env.reset()
        recorder = Recorder(env.engine, [0], path.parent, [match], embed_world=True, policy=policy)
        recorder.begin()
        while not recorder.outcomes:
            env.step()
            recorder.after_step()
        recorder.finish()


def resize(page: Any, window: tuple[int, int]) -> None:
    page.set_viewport_size({"width": window[0], "height": window[1]})


def show(page: Any, address: str, match: str, scene: Scene, fight: Fight) -> None:
    """Show a scene on the page and wait until it is drawn."""
    resize(page, SMALL_WINDOW)  # frames are drawn faster while the camera moves
    page.emulate_media(reduced_motion="reduce")  # the camera moves without animation
    open_paused(page, address, match, fight.tick, quality="finest")
    view = scene.view
    camera: dict[str, Any] = {"mode": view.mode, "elevation": view.elevation, "distance": view.distance}
    camera["azimuth"] = view.side
    if view.mode == "orbit":
        (right, away), sin, cos = view.shift, math.sin(view.side), math.cos(view.side)
        camera["target"] = [fight.x - right * sin - away * cos, fight.y + right * cos - away * sin, fight.z]
    page.evaluate(SHOW, [camera, fight.mech if scene.selects else -1, dict(scene.panels)])
    page.wait_for_function(CURVES)
    page.evaluate(SETTLED)
    resize(page, scene.window)
    pass_frames(page)
    page.evaluate(SETTLED)


def encode(page: Any, png: bytes, max_bytes: int, quality: float) -> bytes:
    """Return a PNG as WebP with at most ``max_bytes`` bytes, at the highest possible quality."""
    made = base64.b64decode(page.evaluate(ENCODE, [base64.b64encode(png).decode(), quality]))
    return made if len(made) <= max_bytes else encode(page, png, max_bytes, quality - QUALITY_STEP)


def take(name: str, folder: Path, *, max_bytes: int = 350_000, quality: float = 0.85) -> dict[str, Any]:
    """Take the screenshot of a scene into ``folder``; return its description."""
    scene = SCENES[name]
    battle = scene.battle
    replays = folder / "replays"
    replays.mkdir(parents=True, exist_ok=True)
    parts = [battle.packs * 10, battle.size[0], battle.seed, *battle.levels, *["insight"] * battle.insight]
    path = replays / f"{'-'.join(map(str, parts))}.ecr"
    if not path.exists():
        record(battle, path)
    fight = find_fight(path, scene.moment)
    with browsing(path) as (page, address, match):
        show(page, address, match, scene, fight)
        png = page.screenshot()
        calls = page.evaluate("() => echelon.cost().calls")
        made = encode(page, png, max_bytes, quality)
    (folder / f"{name}.png").write_bytes(png)
    (folder / f"{name}.webp").write_bytes(made)
    return {"picture": name, "tick": fight.tick, "mech": fight.mech, "draw_calls": calls, "bytes": len(made)}


def main(folder: Path, *names: str) -> None:
    for name in names or SCENES:
        print(json.dumps(take(name, folder)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
