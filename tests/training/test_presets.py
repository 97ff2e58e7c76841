"""Properties of every preset."""

from __future__ import annotations

from dataclasses import replace

import pytest

from echelon.agents.levels import LEVELS
from echelon.config import RunConfig
from echelon.config.presets import PRESETS, get_preset
from echelon.env.layout import obs_dim
from echelon.jobs.config_layers import resolve
from echelon.rl.weights import load_policy
from echelon.telemetry.events import EventUpdate
from echelon.training.batch_options import Maps
from echelon.training.opponents.pool import assign_sides
from echelon.training.vec_env import VectorEnv
from tests.training.runs import of, run_battle

LEAST_ENVS = 4
BUFFER_BYTES, GPU_BUFFER_BYTES = 256 << 20, 16 << 30
"""Largest size of a rollout's observations; larger on a GPU."""
SHORT = {
    "num_envs": 3, "bank_maps": 1, "bank_refresh_every": 0, "bank_spare": 1, "threads": 1,
    "device": "cpu", "max_updates": 2, "env.max_episode_seconds": 4.0, "ppo.capture": False, "ppo.rollout_steps": 8,
    "ppo.tbptt_chunk_length": 8, "ppo.num_minibatches": 1, "eval.seeds": 1, "eval.every_updates": 0,
    "eval.at_start": False, "eval.record_seeds": 0, "eval.heat_cells": 0, "opponents.past_every_updates": 1,
    "opponents.rating_seeds": 1, "opponents.league.match_opponents": 0,
}  # fmt: skip
"""Settings that reduce a preset to seconds on any machine: fewer and shorter episodes."""


LARGE = ("battle", "gpu", "skirmish", "league")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n in LARGE)) for n in PRESETS])
def test_preset_trains_on_its_opponents(name, tmp_path):
    whole, folder = get_preset(name), tmp_path / "20260101-000000-test-iron-fox"
    folder.mkdir()
    result, events = run_battle(resolve(name, None, SHORT).config, folder)
    first, second = of(events, EventUpdate)
    assert result.reason == "completed" and result.evaluation is not None and result.evaluation.episodes == 2
    assert 0 < first.global_step < second.global_step <= 2 * 3 * 2 * whole.env.team_size * 8
    expected = {n for n in LEVELS if name == "league" or getattr(whole.opponents.mix, n, 0.0) > 0}
    assert set(second.opponents) <= {"self", "past:0", "past:1"} | {f"heuristic:{level}" for level in expected}


@pytest.mark.long
def test_bound_of_the_action_width_is_stored_with_its_progress(tmp_path):
    config = resolve("duel", None, SHORT | {"model.action_head": "hybrid", "model.log_std_end": -1.0}).config
    result, _ = run_battle(config, tmp_path)
    assert result.checkpoint is not None
    assert float(load_policy(result.checkpoint).policy.core.log_std_max) == pytest.approx(-0.75)


@pytest.mark.parametrize("name", PRESETS)
def test_preset_respects_memory_and_observation_rules(name):
    config = get_preset(name)
    assert rollout_bytes(config) <= (GPU_BUFFER_BYTES if config.device == "cuda" else BUFFER_BYTES)
    assert config.max_minutes > 0 and config.env.observe_local_map
    assert config.env.observation_mode == "partial" and config.env.world.fairness == "path"
    assert not config.env.truncation_bootstraps, "a winner is rewarded at the time limit, which is an end"


def rollout_bytes(config: RunConfig) -> int:
    """Return the bytes of a rollout's observations, float32 columns per learner row."""
    rows = config.num_envs * config.env.team_size * (1 + config.opponents.mix.shares["self_play"])
    return round((config.ppo.rollout_steps + 1) * rows * obs_dim(config.env) * 4)


def test_battle_preset_reaches_100v100():
    env = get_preset("battle").env
    assert env.team_size == 100 and env.packs_per_team_range == (2, 20)
    assert get_preset("gpu").env.team_size == get_preset("skirmish").env.team_size == 10


@pytest.mark.parametrize("name", PRESETS)
def test_preset_uses_several_environments(name):
    assert get_preset(name).num_envs >= LEAST_ENVS


def test_batch_rows_are_learners_of_all_environments():
    config = get_preset("quickstart")
    small = replace(config.env, world=replace(config.env.world, size_x=40, size_y=40))
    sides = assign_sides(config.num_envs, config.opponents)
    with VectorEnv(config.num_envs, small, sides=sides, maps=Maps(1)) as env:
        assert env.rows.count == config.num_envs * small.team_size
