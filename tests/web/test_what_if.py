"""Continuations in a page have the seeds and the statistics of those of Python."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from echelon.arena.branch import SEED_MASK, Continuation, effect, summarise
from echelon.sim.random import StreamId, draw_u32
from tests.web.in_node import BUNDLER, NODE, run_in_node

SCRIPT = Path(__file__).with_name("summarise.mjs")
RUNS = 41


def drawn(draws: np.random.Generator) -> list[Continuation]:
    """Return continuations, of which some differ only in their number."""
    return [
        Continuation(
            number=i,
            seed=0,
            winner=int(draws.integers(3)),
            reason=str(draws.choice(["elimination", "time_up"])),
            tick=400,
            score=(float(draws.integers(2)), 0.5),
            hp=(float(draws.integers(2)), 1.0),
            alive=(1, 1),
        )
        for i in range(RUNS)
    ]


@pytest.mark.skipif(NODE is None or not BUNDLER.exists(), reason="needs Node and npm ci in viewer/")
def test_seeds_and_statistics_are_those_of_python(tmp_path):
    draws = np.random.default_rng(6)
    rows, others = drawn(draws), drawn(draws)
    seeds = draws.integers(2**31, size=(20, 3)).tolist()
    job = {"rows": [asdict(row) for row in rows], "others": [asdict(row) for row in others], "seeds": seeds}
    (tmp_path / "job.json").write_text(json.dumps(job))
    found = json.loads(run_in_node(SCRIPT, tmp_path))
    expected = summarise(rows)
    assert found["seeds"] == [draw_u32(seed, StreamId.RUN, tick, 0, n) & SEED_MASK for seed, tick, n in seeds]
    assert found["typical"] == expected["typical"] and found["endings"] == expected["endings"]
    assert found["draws"] == expected["draws"]
    for side in ("blue", "red"):
        assert found[side] == pytest.approx(expected[side], rel=1e-14)
    assert found["effect"] == {"side": "red", **effect(rows, others, 1)}
