"""Battles are equal, bit for bit, where tasks are spread over as many threads as on CUDA, and launched one by one."""

from collections import Counter

import numpy as np
import pytest
import warp as wp

from echelon.env.engine import Engine
from echelon.sim.state import Paths
from echelon.sim.structs import fields_of
from tests.parity.thread_orders import CASES, battle, engine_of, spread_over_threads

BATTLES = ("quick", "quick-classic", pytest.param("two-hundred", marks=pytest.mark.long))
"""Cases that are played spread over threads, and on CUDA."""


def play_eagerly(engine: Engine) -> None:
    backend = engine.batch.backend

    def run(name: str) -> None:
        program = engine.program(name)
        backend.load(program)
        for launch in program:
            dims, values = backend.bind(launch, backend.shards[0])
            block = launch.block_on(backend.device)
            wp.launch(launch.kernel, dim=dims, inputs=values, device=backend.device, block_dim=block)

    engine.run = run


def played(
    fought: Counter[str], device: str = "cpu", *, case: str = "quick", eager: bool = False
) -> tuple[list[dict[str, str]], np.ndarray]:
    """Return the hashes of a battle's arrays at each comparison, and the edit log of a recorded environment."""
    engine = engine_of(CASES[case], device)
    engine.record([engine.batch.num_envs - 1])
    if eager:
        play_eagerly(engine)
    hashes = list(battle(CASES[case], engine, fought))
    edits = engine.batch.numpy("edit_log")[0, : engine.batch.numpy("edit_count")[0]].copy()
    return hashes, edits


def differing(found: list[dict[str, str]], expected: list[dict[str, str]]) -> list[str]:
    """Return the first comparison that differs and the names of its arrays, without those of the spread layout."""
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        if names := sorted(n for n in other if one[n] != other[n] and n not in fields_of(Paths)):
            return [f"comparison {index}", *names]
    return []


@pytest.mark.parametrize("case", BATTLES)
def test_battle_spread_over_threads_or_launched_one_by_one_is_equal(case):
    fought: Counter[str] = Counter()
    hashes, edits = played(fought, case=case)
    assert fought["shots"] and fought["dead"] and len(edits), "no battle was fought"
    with spread_over_threads():
        spread_hashes, spread_edits = played(Counter(), case=case, eager=True)
    assert differing(spread_hashes, hashes) == []
    np.testing.assert_array_equal(spread_edits, edits)
