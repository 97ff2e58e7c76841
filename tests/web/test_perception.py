"""Perception and controls of a play session in TypeScript are those of Python, byte for byte."""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.arena.contest import Pilot
from echelon.play.match import NewMatch, PlayedMatch, begin_match
from echelon.web.play_tables import play_tables
from tests.arena.recorded_matches import small_game
from tests.web.in_node import BUNDLER, NODE, run_in_node

FOLDER = Path(__file__).parent
SENSED = FOLDER.parents[1] / "viewer" / "src" / "game" / "sensed_arrays.ts"
SEED, TICKS = 4, 230
STEERED = ("actions", "drive", "trigger", "vent", "focus", "focus_slot", "ecm", "eccm")
"""Arrays that the controls of a seat write."""
LEVEL = Pilot(id="hard", label="hard", level="hard")


def sensed_names() -> list[str]:
    """Return the arrays that the session reads."""
    declared = re.search(r"const NAMES = \[(.*?)\]", SENSED.read_text(encoding="utf-8"), re.S)
    assert declared is not None
    return [*re.findall(r'"(\w+)"', declared[1]), "sight_plane"]


class Watched:
    """A match with the arrays at the points at which its perception read them."""

    def __init__(self, match: PlayedMatch, mech: int) -> None:
        self.match, self.mech = match, mech
        engine = match.engine
        names = sensed_names()
        self.arrays = {name: engine.batch[name].numpy() for name in names if name in engine.batch.backend.arrays}
        self.arrays["obs"] = match._observations[None]
        for name, dtype, shape in (("known", np.int32, 1), ("known_at", np.float32, 3), ("hold", np.int32, 7)):
            self.arrays.setdefault(name, np.zeros((1, engine.num_mechs, shape), dtype))
        self.known, self.changes, self.parts, self.steps, self.frames = {}, [], [], [], []
        self.snapshot()

    def snapshot(self) -> None:
        """Keep the arrays that have changed since the last snapshot."""
        now = {name: values.tobytes() for name, values in self.arrays.items()}
        changed = [name for name, data in now.items() if self.known.get(name) != data]
        self.parts += [now[name] for name in changed]
        self.changes.append(changed)
        self.known = now

    def tick(self, inputs: np.ndarray, watch: bool) -> None:
        match, perception = self.match, self.match.perceptions[self.mech]
        collect = type(perception).collect_events

        def collected() -> None:
            self.snapshot()
            collect(perception)

        controls, steered = match._controls, ""
        write = type(controls)._write_controls

        def written(levels: np.ndarray) -> None:
            nonlocal steered
            self.snapshot()
            write(controls, levels)
            steered = hashlib.sha256(b"".join(self.arrays[name].tobytes() for name in STEERED)).hexdigest()

        perception.collect_events = collected  # type: ignore[method-assign]
        controls._write_controls = written  # type: ignore[method-assign]
        match.tick(inputs)
        watched = -1
        if watch:
            match.watch(self.mech, 1)
            watched = match.perceptions[self.mech].mech
        frame = match.perceptions[self.mech].frame(7).model_dump()
        self.snapshot()  # with the answer about the triggers
        self.frames.append({**frame, "marks": self.arrays["known"].reshape(-1).tolist(), "steered": steered})
        ends = match.now % match.engine.cfg.decision_repeat == 0
        row = {"seat": self.mech, "ends": ends, "watch": watched, "inputs": inputs.reshape(-1).tolist()}
        self.steps.append(row)

    def replayed(self, folder: Path) -> list[dict[str, Any]]:
        layout = {
            name: {"dtype": values.dtype.name, "shape": values.shape, "bytes": values.nbytes}
            for name, values in self.arrays.items()
        }
        description = {"arrays": layout, "play": play_tables(self.match.engine)}
        (folder / "job.json").write_text(
            json.dumps({"description": description, "steps": self.steps, "steered": STEERED, "changes": self.changes})
        )
        (folder / "inputs.bin").write_bytes(b"".join(self.parts))
        return json.loads(run_in_node(FOLDER / "perceive.mjs", folder))


def as_text(frame: dict[str, Any]) -> dict[str, Any]:
    return {k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in frame.items()}


@pytest.mark.skipif(NODE is None or not BUNDLER.exists(), reason="needs Node and npm ci in viewer/")
def test_frames_are_those_of_python(tmp_path):
    plan = NewMatch(env=small_game(size=60, seconds=40.0), seed=SEED, mates=LEVEL, hostiles=LEVEL)
    match = begin_match(plan, tmp_path / "seen.ecr", {})
    mech, batch = next(iter(match.perceptions)), match.engine.batch
    watched, draws = Watched(match, mech), np.random.default_rng(5)
    width, inputs = len(match.engine.action_names), np.zeros((len(match.seats), 0), np.int8)
    has_watched = False
    batch.row("cloud_ticks", 0)[mech, 0] = TICKS  # nobody throws smoke
    batch.row("cloud_pos", 0)[mech, 0] = batch.row("pos", 0)[mech] + (1.0, 0.0, 3.0)
    while match.now < TICKS and not match.over:
        if match.now % 10 == 0:
            inputs = draws.integers(-127, 128, (len(match.seats), width)).astype(np.int8)
        if match.now == TICKS // 2:
            batch.row("hp", 0)[mech] = 1.0
            batch.row("pos", 0)[mech] = batch.row("pos", 0)[-1] + (0.0, 0.0, 5.0)  # a hostile's
        dead = batch.row("alive", 0)[mech] == 0
        watched.tick(inputs, watch=bool(dead and not has_watched))
        has_watched |= bool(dead)
    try:
        found = watched.replayed(tmp_path)
    finally:
        match.finish()
    assert len(found) == len(watched.frames) >= 200 and has_watched
    filled = {name for frame in watched.frames for name, value in frame.items() if value}
    assert filled >= {"contacts", "rounds", "events", "clouds", "edits", "senses"}
    for native, played in zip(watched.frames, found, strict=True):
        assert played == as_text(native), native["tick"]
