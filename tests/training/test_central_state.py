"""The central state that critics of teams read, and that runs with it observe and act as those without."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from echelon.config import CurriculumConfig, EnvConfig, WorldConfig
from echelon.sim.arsenal import CHASSIS
from echelon.training.batch_options import Maps, Pilots, Sides
from echelon.training.central_state import MATCH_FEATURES, MECH_FEATURES
from echelon.training.vec_env import VectorEnv
from tests.device_rules import device_rules
from tests.training.runs import battle_run, collected, update

BATTLE = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=6.0, truncation_bootstraps=False)


def test_central_state_equals_a_loop_over_the_simulators_arrays():
    """Columns against plain Python: the own team, then the other; dead mechs are zeros."""
    with VectorEnv(
        3, BATTLE, sides=Sides(["blue", "red", "both"]), maps=Maps(2), pilots=Pilots("medium"), threads=1
    ) as env:
        env.reset()
        env.engine.batch.set("alive", _with_dead(env))
        for _ in range(8):
            env.actions.uniform_(-1, 1)
            env.step()
        out = env.rows.central()
        batch = {n: env.engine.batch.numpy(n) for n in ("alive", "hp", "heat", "stability", "painted", "pos", "vel",
                                                         "yaw", "chassis", "tick", "score", "zone")}  # fmt: skip
        assert (batch["alive"] == 0).any() and batch["score"].any() | (batch["tick"] > 0).all()
        assert len(out) == 4
        for row, (e, team) in enumerate([(0, 0), (1, 1), (2, 0), (2, 1)]):
            order = [*range(5 * team, 5 * team + 5), *range(5 - 5 * team, 10 - 5 * team)]
            expected = [value for m in order for value in _mech(batch, e, m)]
            limits = BATTLE.max_steps * BATTLE.decision_repeat, BATTLE.max_episode_seconds
            scores = [batch["score"][e][side] / limits[1] for side in (team, 1 - team)]
            expected += [batch["tick"][e] / limits[0], *scores, batch["zone"][e][2] / 50]
            np.testing.assert_allclose(out[row].numpy(), expected, rtol=1e-5, atol=1e-6)
            assert len(expected) == 10 * len(MECH_FEATURES) + len(MATCH_FEATURES)


def _with_dead(env: VectorEnv) -> np.ndarray:
    alive = env.engine.batch.numpy("alive").copy()
    alive[1, 3] = 0
    return alive


def _mech(batch: dict, e: int, m: int) -> list[float]:
    if not batch["alive"][e, m]:
        return [0.0] * len(MECH_FEATURES)
    spec = CHASSIS[int(batch["chassis"][e, m])]
    x, y, z = batch["pos"][e, m]
    zone_x, zone_y, _ = batch["zone"][e]
    yaw = float(batch["yaw"][e, m])
    return [
        1.0, batch["hp"][e, m] / spec.hp, batch["heat"][e, m] / spec.heat_cap, batch["stability"][e, m] / 100,
        float(batch["painted"][e, m] > 0), (x - zone_x) / 50, (y - zone_y) / 50, z / 50,
        *(v / 10 for v in batch["vel"][e, m]), math.sin(yaw), math.cos(yaw),
        *(float(kind == spec.chassis) for kind in range(len(CHASSIS))),
    ]  # fmt: skip


@pytest.mark.parametrize("rules", [nullcontext, device_rules])
def test_observations_beside_the_central_state_are_those_of_a_run_without_one(rules):
    tiny, rows = battle_run("scratch", num_envs=2, ppo={"rollout_steps": 8}, curriculum=CurriculumConfig()), []
    for critic in ("own", "central"):
        with rules(), collected(replace(tiny, model=replace(tiny.model, critic=critic)), VectorEnv) as session:
            buffer = session.buffer
            rows.append(buffer.obs_rows[0].clone())
            if buffer.central is not None:
                assert buffer.central.shape[:2] == (9, 2) and bool(buffer.central.any(-1).all())
                assert torch.equal(buffer.central[-1], session.env.rows.central())
                assert update(session)["vf_loss"] > 0
    assert torch.equal(*rows)
