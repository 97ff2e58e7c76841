"""A page plays recorded matches again: it verifies them, and goes to their exact state at a moment."""

import json
from pathlib import Path

import numpy as np
import pytest

from echelon.actions import Order
from echelon.arena.verify import verify
from echelon.env.seats import Seats
from echelon.replay import schema
from echelon.replay.codec import pack_map, pack_record
from echelon.replay.extra_records import pack_state, read_state, state_heads
from echelon.replay.reader import Replay
from echelon.replay.record import MatchInfo, Recorder
from echelon.version import SIM_VERSION
from echelon.web import build
from tests.web.in_node import Begin, compiled_game, needs_node, run_in_node, write_game
from tests.web.test_simulator import match

SCRIPT = Path(__file__).with_name("replay.mjs")
MAP_SEED, SEED, SEAT, STEPS = 13, 6, 0, 88
ORDERED, MOMENT = 10, 55
"""Steps before which an order is given, and at whose end the moment is; a state is 15 steps before."""


def other_version(data: bytes, replay: Replay) -> bytes:
    """Return a file whose header has another simulation version."""
    header = pack_record(schema.RecordType.HEADER, pack_map({**replay.header, "sim_version": SIM_VERSION + 1}))
    return schema.MAGIC + header + data[replay.chunks[0].offset :]


@pytest.mark.long
@needs_node
def test_page_verifies_matches_and_plays_on_from_a_moment(tmp_path):
    engine = match(build.game_config("5v5"), MAP_SEED, SEED, "expert", "expert")
    scripts = engine.batch.numpy("script")[0].tolist()
    begin = Begin(build.map_file(engine, MAP_SEED), SEED, scripts)
    inputs = np.random.default_rng(2).integers(-127, 128, (STEPS, 5, 1, engine.action_dim), np.int8)
    names, state, edits, dead = ("good", "forged", "watched"), b"", 0, np.zeros(0, bool)
    for name in names:
        info = MatchInfo(name=name, map_seed=MAP_SEED)
        columns = "acts" if name == "watched" else "actions"
        recorder = Recorder(engine, [0], tmp_path, [info], embed_world=True, policy=columns)
        engine.clear()
        engine.reset()
        recorder.begin()
        for step, given in enumerate(inputs):
            if step == ORDERED:
                engine.give_orders({(0, SEAT + 1): (Order.RETREAT, -1)})
            engine.run("pilots")
            dead = engine.batch.numpy("alive")[0] == 0
            if name == "watched":  # recorded as 0
                engine.batch.numpy("actions")[0, dead] = -1.0
            Seats(engine, [SEAT]).step(given)
            recorder.add_inputs([SEAT], -given if name == "forged" and step == MOMENT else given)
            recorder.after_step()
            if name == "good" and step + 1 == MOMENT:
                arrays = engine.match_state(0)
                state, edits = pack_state(arrays, SIM_VERSION), len(arrays["edit_cell"])
        recorder.finish()
    good = tmp_path / "good.ecr"
    with Replay(good) as replay:
        tick = MOMENT * replay.header["frame_ticks"]
        (tmp_path / "foreign.ecr").write_bytes(other_version(good.read_bytes(), replay))
    files = [*(f"{name}.ecr" for name in names), "foreign.ecr"]
    write_game(tmp_path, compiled_game(engine.cfg), begin, files=files, branch={"tick": tick, "steps": 20})
    fine, forged, watched, foreign = json.loads(run_in_node(SCRIPT, tmp_path))
    assert fine == f"Equal bit for bit (strict): {STEPS / 4:.1f} s, all {-(-STEPS // 8)} chunks"
    assert watched == fine and dead.any()
    assert forged.startswith(f"differs (strict): chunk {MOMENT // 8}, tick {tick + 5}, ")
    assert f"simulation version {SIM_VERSION + 1}" in foreign and "echelon replay verify" in foreign
    branch = tmp_path / "branch.ecr"
    with Replay(branch) as replay:
        first = read_state(replay, state_heads(replay)[0])
        assert first.tick == replay.chunks[0].tick0 == tick and edits > 0
        assert pack_state(first.arrays, SIM_VERSION) == state
    assert verify(branch).ok
