"""Observations that kernels write as bfloat16: those of float32, rounded, and an update that hardly differs."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
import warp as wp

from echelon.config import ModelConfig
from echelon.env import layout
from echelon.training import session as sessions
from echelon.training.runtime.devices import observation_dtype
from tests.device_rules import device_rules
from tests.env.battle import Battle
from tests.training.test_device_rollout import session

HALF_STEP = 2.0**-9
"""Largest relative error of rounding to bfloat16, which has 8 bits of mantissa."""
SUITE = ModelConfig(hidden_dim=16, lstm_hidden_dim=16, action_head="hybrid", recurrence="mingru")


def observed(obs_dtype: torch.dtype, **env) -> tuple[torch.Tensor, Battle]:
    """Return the observations ``[N, D]`` of a battle after some steps, and the battle."""
    battle = Battle(size=40, seed=3, **env)
    rows = torch.full(battle.rows.shape, -1.0, dtype=obs_dtype)
    battle.engine.attach(wp.from_torch(rows), wp.from_torch(torch.zeros_like(rows)))
    for _ in range(4):
        battle.engine.step()
    return rows[0], battle


@pytest.mark.parametrize("env", [{}, {"obs_layout": "classic"}], ids=["suite", "classic"])
def test_observations_of_bfloat16_are_those_of_float32_rounded(env):
    (exact, battle), (narrow, _) = (observed(dtype, **env) for dtype in (torch.float32, torch.bfloat16))
    columns = layout.columns(battle.cfg)
    derived = torch.tensor([column.name.startswith("aiming") for column in columns])
    assert exact.abs().sum() > 0 and torch.equal(narrow[:, ~derived], exact[:, ~derived].bfloat16())
    # range and bearing are computed from three rounded columns: their errors, and the rounding of the result
    torch.testing.assert_close(narrow[:, derived].float(), exact[:, derived], rtol=4 * HALF_STEP, atol=4 * HALF_STEP)


def test_nonfinite_observations_of_bfloat16_are_replaced_and_counted():
    battle = Battle(size=40)
    rows = torch.zeros(battle.rows.shape, dtype=torch.bfloat16)
    battle.engine.attach(wp.from_torch(rows), wp.from_torch(torch.zeros_like(rows)))
    pos = battle["pos"].copy()
    pos[0, 0] = float("nan")
    battle.put("pos", pos)
    battle.engine.run("observe")
    assert rows.isfinite().all() and battle["bad_obs"][0, 0] > 0


def updated(obs_dtype: torch.dtype) -> tuple[dict[str, torch.Tensor], dict[str, float], list[torch.Tensor]]:
    """Return the second rollout of a session, the metrics of its update, and weights and statistics after it."""
    with (
        device_rules(),
        mock.patch.object(sessions, "observation_dtype", lambda *_: obs_dtype),
        session(model=SUITE, steps=16) as s,
    ):
        s.policy.set_normalizable(s.env.sizes.normalizable)
        s.begin()
        for _ in range(2):
            s.set_progress()
            s.collector.collect()
            s.collector.bootstrap(0.95)
            rollout = {name: getattr(s.buffer, name).clone() for name in ("obs_rows", "actions", "values", "alive")}
            metrics = s.trainer.update(s.buffer, s.collector.start_state, s.collector.chunk_states)
            s.trainer.update_obs_normalizer(s.buffer)
        assert s.buffer.obs_rows.dtype is s.env.rows.final_obs.dtype is obs_dtype
        normalizer = s.policy.obs_normalizer
        assert normalizer.mean.dtype is torch.float64
        return rollout, metrics, [*s.policy.parameters(), normalizer.mean, normalizer.var.sqrt()]


def test_update_from_bfloat16_observations_is_close_to_that_of_float32():
    (exact, metrics, weights), (narrow, own, others) = (updated(dtype) for dtype in (torch.float32, torch.bfloat16))
    assert torch.equal(narrow["alive"], exact["alive"])
    # features of the network have an error of about HALF_STEP, of columns in units of their standard deviation
    for name, values in exact.items():
        torch.testing.assert_close(narrow[name].float(), values, rtol=8 * HALF_STEP, atol=8 * HALF_STEP, msg=name)
    for name in ("loss", "grad_norm", "explained_variance", "return_std"):
        assert own[name] == pytest.approx(metrics[name], rel=0.02), name
    # Adam moves a weight by at most its learning rate a step, here 8 steps of 3e-3, also where a gradient is small
    for mine, other in zip(others, weights, strict=True):
        torch.testing.assert_close(mine, other, rtol=0.01, atol=2e-3)
    assert any(not torch.equal(mine, other) for mine, other in zip(others, weights, strict=True))


@pytest.mark.parametrize(
    ("device", "amp", "requested", "expected"),
    [
        ("cuda", True, "bfloat16", torch.bfloat16),
        ("cuda", True, "float16", torch.float32),
        ("cuda", False, "bfloat16", torch.float32),
        ("cpu", True, "bfloat16", torch.float32),
    ],
)
def test_observations_are_bfloat16_where_a_gpu_computes_in_it(device, amp, requested, expected):
    assert observation_dtype(torch.device(device), amp, requested) is expected
