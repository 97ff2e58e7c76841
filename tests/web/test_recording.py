"""A page records matches as Python does, and the native command verifies them."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.arena.verify import verify
from echelon.replay import record, schema
from echelon.replay.codec import parse_head, unpack_map, unpack_payload
from echelon.replay.header import TeamInfo
from echelon.web import build
from tests.web.in_node import Begin, compiled_game, needs_node, run_in_node, write_game
from tests.web.test_simulator import match

SCRIPT = Path(__file__).with_name("record.mjs")
MAP_SEED, SEED = 11, 5
SEATS, SEATED = [0, 7], 50
"""Mechs with inputs, and the steps of the match that has any."""
TEAMS = TeamInfo(name="blue", level="expert"), TeamInfo(name="you", policy="human")
ABOUT: dict[str, Any] = {
    "created": 1234.5,
    "teams": [team.to_header() for team in TEAMS],
    "map_seed": MAP_SEED,
    "about": {"run": "play", "more": 1},
}


def records_of(data: bytes) -> list[tuple[int, tuple[int, int], Any]]:
    """Return kind, ticks and payload of each record; of headers and indices the values, since 1.0 is 1 in a page."""
    at, found = len(schema.MAGIC), []
    while at < len(data):
        head = parse_head(data[at:], at)
        payload: Any = unpack_payload(head, data[at + schema.HEAD.size :][: head.stored])
        if head.kind in (schema.RecordType.HEADER, schema.RecordType.INDEX):
            payload = unpack_map(payload, head.kind)
        found.append((head.kind, (head.tick0, head.tick1), payload))
        at += head.length
    return found


@pytest.mark.long
@needs_node
@pytest.mark.parametrize("steps", [None, SEATED], ids=["whole match", "with inputs"])
def test_recording_of_a_page_is_that_of_python(tmp_path, monkeypatch, steps):
    monkeypatch.setattr(record, "FETCH_INTERVAL_S", 0.0)
    monkeypatch.setattr(time, "time", lambda: ABOUT["created"])
    engine = match(build.game_config("5v5"), MAP_SEED, SEED, "expert", "hard")
    scripts = engine.batch.numpy("script")[0].tolist()
    begin = Begin(build.map_file(engine, MAP_SEED), SEED, scripts)
    info = record.MatchInfo(name="native", teams=TEAMS, map_seed=MAP_SEED, about=ABOUT["about"])
    recorder = record.Recorder(engine, [0], tmp_path, [info], embed_world=True, policy="actions")
    engine.reset()
    recorder.begin()
    drawn = np.random.default_rng(1).integers(-127, 128, (SEATED, 5, len(SEATS), engine.action_dim), np.int8)
    inputs: list[list[Any] | None] = []
    while not engine.batch.numpy("ended")[0] and len(inputs) != steps:
        engine.run("decision")
        if steps is not None:
            recorder.add_inputs(SEATS, drawn[len(inputs)])
        inputs.append(None if steps is None else drawn[len(inputs)].reshape(5, -1).tolist())
        recorder.after_step()
    (native,) = recorder.finish()
    write_game(tmp_path, compiled_game(engine.cfg), begin, about=ABOUT, seats=SEATS, inputs=inputs)
    run_in_node(SCRIPT, tmp_path)
    page = tmp_path / "match.ecr"
    expected, found = (records_of(path.read_bytes()) for path in (native, page))
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    for (kind, ticks, wanted), (_, _, got) in zip(expected[:-2], found[:-2], strict=True):
        assert got == wanted, f"{schema.RecordType(kind).name} at {ticks}"
    kinds = {row[0] for row in found}
    assert {schema.RecordType.STATE, *([] if steps is None else [schema.RecordType.SEAT])} <= kinds
    assert list(found[0][2]) == list(expected[0][2]), "entries of the header are in order"
    index, wanted = found[-2][2], expected[-2][2]
    assert index["outcome"] == wanted["outcome"]
    assert index["t"][1:3] == wanted["t"][1:3] and index["t"][1][0] > 0
    assert steps is not None or (index["outcome"]["winner"] >= 0 and verify(page).ok)
