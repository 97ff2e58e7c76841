"""Central critics (MAPPO): what the value reads, that actions do not, resumes, and the central state itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from echelon.config import CurriculumConfig, EnvConfig, RunConfig, WorldConfig
from echelon.rl.weights import load_policy
from echelon.sim.arsenal import CHASSIS
from echelon.telemetry.events import EventUpdate
from echelon.training.batch_options import Maps, Pilots, Sides
from echelon.training.central_state import MATCH_FEATURES, MECH_FEATURES, central_dim
from echelon.training.vec_env import VectorEnv
from tests.training.conftest import make_small_run
from tests.training.fakes import MECHS, OBS_DIM
from tests.training.runs import assert_resumes_exactly, battle_run, collected, of, run, update

BATTLE = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=6.0, truncation_bootstraps=False)


def central(**changes) -> RunConfig:
    config = make_small_run(**changes)
    env = replace(config.env, truncation_bootstraps=False)
    return replace(config, env=env, model=replace(config.model, critic="central"))


def test_value_reads_the_central_state_and_nothing_else():
    with collected(central()) as session:
        buffer, policy = session.buffer, session.policy
        assert buffer.obs_rows.shape[-1] == OBS_DIM + MECHS + 1 == policy.obs_dim + policy.central_dim
        rows, done = buffer.obs_rows[3], torch.zeros(session.env.rows.count)
        state = policy.initial_state(session.env.rows.count)
        value, _ = policy.get_value(rows, state, done)
        other = rows.clone()
        other[:, :OBS_DIM] += 1.0
        assert torch.equal(policy.get_value(other, state, done)[0], value)
        other[:, OBS_DIM:] += 1.0
        assert not torch.isclose(policy.get_value(other, state, done)[0], value).any()
        torch.testing.assert_close(buffer.values[3], value)
        assert not policy.get_value(rows[:, :OBS_DIM], state, done)[0].any(), "no value without the central state"


def test_actions_do_not_read_the_central_state():
    with collected(central()) as session:
        rows, policy = session.buffer.obs_rows[3], session.policy
        state, done = policy.initial_state(session.env.rows.count), torch.zeros(session.env.rows.count)
        noise = torch.randn(session.env.rows.count, policy.noise_dim)
        for draw in (None, noise):
            whole, own = (policy.act(obs, state, done, draw)[0] for obs in (rows, rows[:, :OBS_DIM]))
            assert torch.equal(whole, own)
        with pytest.raises(ValueError, match=f"{OBS_DIM + 1} columns, expected {OBS_DIM}"):
            policy.act(rows[:, : OBS_DIM + 1], state, done)


def test_update_trains_the_central_critic_and_leaves_the_own_one():
    with collected(central(ppo={"critic_lr_mult": 2.0})) as session:
        before = {name: value.clone() for name, value in session.policy.state_dict().items()}
        metrics = update(session)
        changed = {n for n, value in session.policy.state_dict().items() if not torch.equal(value, before[n])}
        assert {n for n in before if n.startswith("central.")} <= changed and "core.actor_mean.weight" in changed
        assert not {n for n in changed if n.startswith("core.critic.")} and math.isfinite(metrics["loss"])
        base, critic = session.trainer.optimizer.param_groups
        sizes = [sum(p.numel() for p in group["params"]) for group in (base, critic)]
        own = sum(p.numel() for n, p in session.policy.named_parameters() if "critic" in n.split("."))
        assert sizes[1] == own and critic["lr_mult"] == 2.0


def test_central_critic_learns_the_returns():
    updates = of(run(central(num_envs=16, total_steps=6_000, ppo={"lr": 5e-3}))[1], EventUpdate)
    assert updates[-1].vf_loss < 0.2 * updates[0].vf_loss


def test_run_with_central_critic_resumes_bit_exact_and_its_policy_loads(tmp_path):
    assert_resumes_exactly(central(num_envs=4, total_steps=10**6, max_updates=4), tmp_path, 2)
    loaded = load_policy(tmp_path / "whole")
    assert loaded.meta["central_dim"] == loaded.policy.central_dim == MECHS + 1
    obs = torch.rand(3, OBS_DIM)
    assert loaded.policy.act(obs, loaded.policy.initial_state(3))[0].shape == (3, 3)


def test_central_state_equals_a_loop_over_the_simulators_arrays():
    """Columns against plain Python: the own mech first, its team, the other team; dead mechs are zeros."""
    with VectorEnv(
        3, BATTLE, sides=Sides(["blue", "red", "both"]), maps=Maps(2), pilots=Pilots("medium"), threads=1
    ) as env:
        out = torch.zeros(env.rows.count, central_dim(BATTLE))
        env.reset()
        env.engine.batch.set("alive", _with_dead(env))
        for _ in range(8):
            env.actions.uniform_(-1, 1)
            env.step()
        env.rows.write_central(out)
        batch = {n: env.engine.batch.numpy(n) for n in ("alive", "hp", "heat", "stability", "painted", "pos", "vel",
                                                         "yaw", "chassis", "tick", "score", "zone")}  # fmt: skip
        assert (batch["alive"] == 0).any() and batch["score"].any() | (batch["tick"] > 0).all()
        for row, agent in enumerate(env.rows.agent.tolist()):
            e, own = divmod(agent, 10)
            team = own // 5
            order = [own, *(m for m in range(5 * team, 5 * team + 5) if m != own), *range(5 - 5 * team, 10 - 5 * team)]
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


def test_battle_run_trains_with_a_central_critic():
    """Observations of a run with a central critic are those of one without: the rows are wider, nothing else."""
    tiny, rows = battle_run("scratch", num_envs=2, ppo={"rollout_steps": 8}, curriculum=CurriculumConfig()), []
    for critic in ("own", "central"):
        with collected(replace(tiny, model=replace(tiny.model, critic=critic)), VectorEnv) as session:
            rows.append(session.buffer.obs_rows[0, :, : session.env.sizes.obs_dim].clone())
            if critic == "central":
                extra = session.buffer.obs_rows[..., session.env.sizes.obs_dim :]
                assert extra.shape[-1] == session.env.sizes.central_dim and bool(extra.any(-1).all())
                assert update(session)["vf_loss"] > 0
    assert torch.equal(rows[0], rows[1])
