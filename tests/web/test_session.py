"""A play session in a page sends what Python's sends, and records matches that Python plays again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.arena.branch import continue_match, make_brancher
from echelon.arena.contest import Pilot
from echelon.arena.named_pilots import choose_pilots
from echelon.arena.verify import verify
from echelon.play.catalogue import Catalogue
from echelon.play.config import TUTORIAL_S
from echelon.play.loading import figures_of
from echelon.play.match import NewMatch, PlayedMatch, TakeOver, begin_match, take_over
from echelon.replay.reader import Replay
from echelon.web import build
from tests.web.in_node import needs_node, run_in_node
from tests.web.test_perception import as_text

SCRIPT = Path(__file__).with_name("session.mjs")
CFG = replace(build.game_config("5v5"), max_episode_seconds=24.0)
TICKS, MOMENT, HELD = 300, 201, 10
"""Ticks of the first match, tick of the take-over, and ticks that an input is held."""
RUNS = 4


def level(name: str) -> Pilot:
    return Pilot(id=name, label=name, level=name)


def frames_of(match: PlayedMatch, inputs: list[np.ndarray], ticks: int) -> list[dict[str, Any]]:
    """Return the frames that a session sends: at once, then after each tick."""
    (seat,) = match.perceptions
    found = [match.frame(seat, -1)]
    for tick in range(ticks):
        if match.over:
            break
        match.tick(inputs[tick // HELD][None])
        found.append(match.frame(seat, tick // HELD))
    return [as_text(frame.model_dump()) for frame in found]


@pytest.mark.long
@needs_node
def test_session_plays_as_python(tmp_path):
    engine = build.web_engine(CFG)
    module, description = build.simulator(engine, lambda done, total: None)
    width, ends = engine.action_dim, round(CFG.max_episode_seconds / CFG.dt_sim)
    (tmp_path / "game.wasm").write_bytes(module)
    (tmp_path / "map.bin").write_bytes(build.map_file(engine, 0))
    engine.close()
    draws = np.random.default_rng(4)
    inputs = [draws.integers(-127, 128, width).astype(np.int8) for _ in range(ends // HELD)]
    for row in inputs:
        row[0] = 127  # into the fight

    def steered(count: int) -> list[dict[str, Any]]:
        rows = ({"t": "input", "seq": i, "action": inputs[i].view(np.uint8).tolist()} for i in range(count))
        return [request for row in rows for request in (row, {"play": HELD})]

    asked = {"tick": MOMENT, "seed": 3, "runs": RUNS}
    requests = [
        {"t": "hello", "version": 5},
        {"t": "start", "opponent": "hard", "mates": "medium", "seed": 0},
        *steered(TICKS // HELD),
        {"t": "start", "tick": MOMENT, "seat": "R2", "pilots": {"blue": "easy"}, "seed": 5},
        *steered((ends - MOMENT) // HELD + 1),
        {"t": "what_if", "id": 1, "source": {"run": "page", "file": 0}, "without": "B1", **asked},
        {"t": "start", "opponent": "still", "seed": 0},
        *steered(1),
        {"play": ends},
        {"t": "leave"},
    ]
    (tmp_path / "job.json").write_text(json.dumps({"description": description, "requests": requests}))
    sent = json.loads(run_in_node(SCRIPT, tmp_path))
    assert not [message for message in sent if message["t"] == "error"]
    *_, tutorial = (i for i, message in enumerate(sent) if message["t"] == "begin")
    played = [message for message in sent[:tutorial] if message["t"] == "frame"]
    assert sent[tutorial]["tutorial"] and sent[tutorial]["header"]["duration_s"] == TUTORIAL_S
    assert sent[-1]["t"] == "state" and sent[-2]["t"] == "frame" and sent[-2]["tick"] > ends, "the limit has ended it"

    native, folder = tmp_path / "native", tmp_path / "continued"
    native.mkdir(), folder.mkdir()
    match = begin_match(NewMatch(env=CFG, seed=0, mates=level("medium"), hostiles=level("hard")), native / "1.ecr", {})
    frames = frames_of(match, inputs, TICKS)
    match.finish()
    assert played[: len(frames)] == frames
    with Replay(native / "1.ecr") as recorded:
        catalogue = Catalogue(tmp_path)
        seat = next(m for m, row in enumerate(recorded.header["roster"]) if row["name"] == "R2")
        cast = choose_pilots(recorded, {"blue": "easy"}, catalogue, (seat,))
        match = take_over(recorded, TakeOver(tick=MOMENT, cast=cast, seed=5), native / "2.ecr", {})
        others = frames_of(match, inputs, ends)
        outcome = match.outcome
        match.finish()
        brancher = make_brancher(
            recorded, catalogue, pilots={}, changes={}, without="B1", window_s=1.0, threads=1, **asked
        )
        found = continue_match(brancher, folder, lambda done, total, text: None)
    assert played[len(frames) :] == others
    ended = [message for message in sent if message["t"] == "ended"]
    figures = {name: values[seat] for name, values in figures_of(native / "2.ecr").items()}
    assert [row["winner"] for row in ended] == ["", outcome.winner] and ended[1]["reason"] == outcome.reason
    assert ended[1]["figures"] == pytest.approx(figures)
    (result,) = (message for message in sent if message["t"] == "what_if")
    for name in ("blue", "red", "draws", "endings", "effect", "notes"):
        assert result[name] == found[name], name
    for name, source in result["replays"].items():
        assert source["file"].split("-")[-1] == found["replays"][name].split("-")[-1]
    paths = sorted(tmp_path.glob("*-against-*.ecr"))
    assert len(paths) >= 4 and all(verify(path).ok for path in paths), [path.name for path in paths]
