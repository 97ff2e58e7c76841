"""Every documented option of ``echelon train`` takes effect.

A row of ``OPTIONS`` is an option of the specification, the flag or key that sets it, a value that is no default, and a
sentence about a run with that value, as a function of what the run did. Options whose sentences are about nothing that
another one changes are set in one run, ``TOGETHER``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
import torch

from echelon.config import (
    CurriculumConfig,
    EnvConfig,
    LeagueConfig,
    MixConfig,
    ModelConfig,
    OpponentConfig,
    PPOConfig,
    RunConfig,
    TeacherConfig,
)
from echelon.config.checks import ranges_of
from echelon.env.layout import flat_offsets
from echelon.jobs.config_layers import default_values, resolve
from echelon.rl.checkpoint import open_checkpoint
from echelon.telemetry.events import EventCheckpoint, EventEval, EventUpdate
from echelon.training import loop
from echelon.training.ppo.trainer import PPOTrainer
from echelon.training.session import Session
from echelon.training.vec_env import VectorEnv
from tests.training.runs import of, run

SAVED = {"ppo.ema_decay", "save_every"}
"""Options whose effect is seen in the run folder; other runs have none."""
NOT_NUMBERED = {"seed"}
"""Numbers whose range is checked elsewhere."""


@dataclass
class SmallRun:
    """Results of a small run."""

    config: RunConfig
    events: list[Any]
    metrics: list[dict[str, Any]]
    trainer: PPOTrainer
    first_obs: torch.Tensor
    result: loop.RunResult

    @property
    def updates(self) -> list[EventUpdate]:
        return of(self.events, EventUpdate)


BASE = {
    "num_envs": 4, "max_updates": 2, "total_steps": 10**6, "max_minutes": 0.0, "threads": 1, "device": "cpu",
    "save_every": 100,
    "ppo.gamma": 0.5, "ppo.rollout_steps": 16, "ppo.num_minibatches": 2, "ppo.tbptt_chunk_length": 8,
    "ppo.update_epochs": 2, "ppo.obs_norm": False, "ppo.amp": False, "model.kind": "classic", "model.hidden_dim": 8,
    "model.lstm_hidden_dim": 8, "env.obs_layout": "classic", "eval.seeds": 2, "eval.every_updates": 0,
    "eval.at_start": False, "model.action_head": "gaussian", "teacher.policy": "",
}  # fmt: skip


def play(tmp_path, monkeypatch, **changes: Any) -> SmallRun:
    """Run the base configuration with ``changes`` by key on the fake environment."""
    seen: dict[str, Any] = {"metrics": []}
    keep = PPOTrainer.update

    def update(self, buffer, *args):
        seen.setdefault("first", buffer.obs_rows[0].clone())
        metrics = keep(self, buffer, *args)
        seen["trainer"] = self
        seen["metrics"].append(metrics)
        return metrics

    monkeypatch.setattr(PPOTrainer, "update", update)
    config = resolve("quickstart", None, {**BASE, **changes}).config
    result, events = run(config, tmp_path if SAVED & changes.keys() else None)
    return SmallRun(config, events, seen["metrics"], seen["trainer"], seen["first"], result)


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> SmallRun:
    with pytest.MonkeyPatch.context() as patch:
        return play(tmp_path_factory.mktemp("base"), patch)


Check = Callable[[SmallRun, SmallRun], bool]
OPTIONS: dict[str, tuple[str, Any, Check]] = {
    "seed": ("seed", 3, lambda d, b: not torch.equal(d.first_obs, b.first_obs)),
    "num-envs": ("num_envs", 6, lambda d, b: d.first_obs.shape[0] == 12 and b.first_obs.shape[0] == 8),
    "device": ("device", "cpu", lambda d, b: d.trainer.device.type == "cpu"),
    "steps": ("total_steps", 100, lambda d, b: 100 <= d.result.global_step < b.result.global_step),
    "updates": ("max_updates", 1, lambda d, b: d.result.update == 1 < b.result.update),
    "games": ("max_episodes", 1, lambda d, b: 1 <= d.result.episodes < b.result.episodes),
    "lr": ("ppo.lr", 1e-5, lambda d, b: d.updates[0].lr == 1e-5 != b.updates[0].lr),
    "lr-schedule": ("ppo.lr_schedule", "none", lambda d, b: d.updates[-1].lr == d.updates[0].lr > b.updates[-1].lr),
    "critic-lr-mult": (
        "ppo.critic_lr_mult", 5.0, lambda d, b: math.isclose(
            d.trainer.optimizer.param_groups[1]["lr"], 5 * d.trainer.optimizer.param_groups[0]["lr"])),
    "gamma": ("ppo.gamma", 0.9, lambda d, b: d.config.env.gamma == 0.9 and d.updates[0].value_std > 0
              and d.updates[0].return_std > b.updates[0].return_std),
    "gae-lambda": ("ppo.gae_lambda", 0.0, lambda d, b: d.updates[0].adv_std != b.updates[0].adv_std),
    "clip-coef": ("ppo.clip_coef", 1e-4, lambda d, b: d.updates[0].clipfrac > b.updates[0].clipfrac),
    "ent-coef-start": ("ppo.ent_coef", 0.5, lambda d, b: d.updates[0].ent_coef == 0.5),
    "ent-coef-end": (
        "ppo.ent_coef_end", 0.3, lambda d, b: d.updates[-1].ent_coef > d.updates[0].ent_coef and b.updates[-1].ent_coef
        < b.updates[0].ent_coef),
    "vf-coef": ("ppo.vf_coef", 0.0, lambda d, b: abs(
        d.metrics[0]["loss"] - d.metrics[0]["pg_loss"] + d.updates[0].ent_coef * d.metrics[0]["entropy"]) < 1e-5),
    "max-grad-norm": ("ppo.max_grad_norm", 1e-3, lambda d, b: d.updates[0].grad_clipped_share == 1.0),
    "update-epochs": ("ppo.update_epochs", 3, lambda d, b: (d.updates[0].epochs, b.updates[0].epochs) == (3, 2)),
    "rollout-steps": ("ppo.rollout_steps", 32, lambda d, b: d.updates[0].global_step > 1.5 * b.updates[0].global_step),
    "num-minibatches": ("ppo.num_minibatches", 4, lambda d, b: d.metrics[0]["optimizer_steps"] == 8
                        and b.metrics[0]["optimizer_steps"] == 4),
    "tbptt-chunk-length": ("ppo.tbptt_chunk_length", 4, lambda d, b: d.metrics[0]["loss"] != b.metrics[0]["loss"]),
    "burn-in": ("ppo.burn_in_steps", 6, lambda d, b: d.metrics[0]["vf_loss"] != b.metrics[0]["vf_loss"]),
    "aux-coef": ("ppo.aux_coef", 0.1, lambda d, b: d.metrics[0]["aux_loss"] > 0 == b.metrics[0]["aux_loss"]),
    "target-kl": ("ppo.target_kl", 1e-9, lambda d, b: min(m["epochs"] for m in d.metrics) == 1),
    "kl-lr-target": ("ppo.kl_lr_target", 0.5, lambda d, b: d.trainer.learning_rate.target == 0.5),
    "draw-members": (
        "ppo.draw_members", False, lambda d, b: d.metrics[0]["pg_loss"] != b.metrics[0]["pg_loss"]),
    "recompute-advantages": (
        "ppo.recompute_advantages", True, lambda d, b: d.metrics[0]["pg_loss"] != b.metrics[0]["pg_loss"]),
    "grad-accum-steps": ("ppo.grad_accum_steps", 2, lambda d, b: d.metrics[0]["optimizer_steps"] == 2),
    "amp": ("ppo.amp", True, lambda d, b: d.trainer.gradients.config.amp and not b.trainer.gradients.config.amp),
    "amp-dtype": ("ppo.amp_dtype", "float16", lambda d, b: d.config.ppo.amp_dtype == "float16"),
    "ema-decay": ("ppo.ema_decay", 0.9, lambda d, b: not torch.equal(
        open_checkpoint(d.result.checkpoint).weights()["core.critic.weight"], d.trainer.model.core.critic.weight)),
    "advantage-share": (
        "ppo.advantage_share", 0.3, lambda d, b: d.metrics[0]["pg_loss"] != b.metrics[0]["pg_loss"]),
    "nonfinite-policy": ("ppo.nonfinite_policy", "skip", lambda d, b: d.trainer.config.nonfinite_policy == "skip"),
    "per-role-adv-norm": (
        "ppo.per_role_adv_norm", True, lambda d, b: d.metrics[0]["pg_loss"] != b.metrics[0]["pg_loss"]),
    "obs-norm": ("ppo.obs_norm", True, lambda d, b: bool(d.trainer.model.obs_normalizer.count > 1)
                 and not bool(b.trainer.model.obs_normalizer.count)),
    "value-norm": ("ppo.value_norm", False, lambda d, b: d.metrics[0]["vf_loss"] != b.metrics[0]["vf_loss"]),
    "adam-eps": ("ppo.adam_eps", 0.5, lambda d, b: d.trainer.optimizer.param_groups[0]["eps"] == 0.5),
    "overlap": ("ppo.overlap", True, lambda d, b: d.metrics[-1]["pg_loss"] != b.metrics[-1]["pg_loss"]),
    "activation-checkpointing": (
        "ppo.activation_checkpointing", True, lambda d, b: math.isclose(
            d.metrics[0]["loss"], b.metrics[0]["loss"], abs_tol=1e-4)),
    "eval-after-updates": (
        "eval.every_updates", 1, lambda d, b: [e.update for e in of(d.events, EventEval)][:-1] == [1, 2]),
    "eval-seeds": ("eval.seeds", 3, lambda d, b: [
        {e.episodes for e in of(run.events, EventEval)} for run in (d, b)] == [{6}, {4}]),
    "save-every": ("save_every", 1, lambda d, b: [
        e.update for e in of(d.events, EventCheckpoint) if e.reason == "scheduled"] == [1, 2]),
    "deterministic": ("deterministic", True, lambda d, b: torch.are_deterministic_algorithms_enabled()),
    "hidden": ("model.hidden_dim", 16, lambda d, b: d.trainer.model.core.hidden_dim == 32),
    "recurrence": ("model.recurrence", "mingru", lambda d, b: d.trainer.model.core.mingru is not None),
    "lstm-hidden": ("model.lstm_hidden_dim", 12, lambda d, b: d.trainer.model.lstm_hidden_dim == 12),
}  # fmt: skip


TOGETHER = {
    "seed", "num-envs", "device", "lr", "critic-lr-mult", "adam-eps", "ent-coef-start", "max-grad-norm",
    "update-epochs", "aux-coef", "amp-dtype", "nonfinite-policy", "obs-norm", "eval-seeds",
    "save-every", "hidden", "lstm-hidden",
}  # fmt: skip


@pytest.fixture(scope="module")
def together(tmp_path_factory) -> SmallRun:
    with pytest.MonkeyPatch.context() as patch:
        changes = dict(OPTIONS[option][:2] for option in TOGETHER)
        return play(tmp_path_factory.mktemp("together"), patch, **changes)


@pytest.mark.parametrize("option", OPTIONS)
def test_learner_option_takes_effect(option, base, together, tmp_path, monkeypatch):
    key, value, check = OPTIONS[option]
    try:
        assert check(together if option in TOGETHER else play(tmp_path, monkeypatch, **{key: value}), base)
    finally:
        torch.use_deterministic_algorithms(False)


BATTLE = {
    "num_envs": 1, "bank_maps": 1, "threads": 1, "device": "cpu", "env.world.size_x": 80, "env.world.size_y": 80,
    "ppo.rollout_steps": 4, "ppo.num_minibatches": 1, "ppo.tbptt_chunk_length": 4,
}  # fmt: skip
ENVIRONMENT: dict[str, tuple[dict[str, Any], Callable[[VectorEnv, VectorEnv], bool]]] = {
    "packs-per-team": ({"env.num_packs": 2}, lambda e, b: (e.num_mechs, b.num_mechs) == (20, 10)),
    "size": ({"env.world.size_x": 50, "env.world.size_y": 50}, lambda e, b: edges(e, b) == [50, 80]),
    "mode": ({"env.observation_mode": "full"}, lambda e, b: contacts(e) > contacts(b)),
    "decision-repeat": ({"env.decision_repeat": 1}, lambda e, b: (ticks(e), ticks(b)) == (1, 5)),
    "game-length": ({"env.max_episode_seconds": 0.5}, lambda e, b: bool(twice(e)) and not bool(twice(b))),
    "pack-size": ({"env.min_pack_size": 1, "num_envs": 8}, lambda e, b: present(e) < present(b)),
    "shortest-game": ({"env.min_episode_seconds": 0.5}, lambda e, b: e.sizes.min_steps < b.sizes.min_steps),
    "obs-layout": (
        {"env.obs_layout": "classic", "model.kind": "classic"},
        lambda e, b: e.sizes.obs_dim == 549 != b.sizes.obs_dim,
    ),
}  # fmt: skip


def edges(*envs: VectorEnv) -> list[int]:
    """Return the edges of the maps along x [vox]."""
    return [env.engine.batch.numpy("material").shape[-1] for env in envs]


def contacts(env: VectorEnv) -> int:
    """Return the contacts that the learners see."""
    return int((env.rows.obs[0][:, slice(*flat_offsets()["contact_mask"])] == 0).sum())


def present(env: VectorEnv) -> float:
    return float(env.results.present.float().mean())


def ticks(env: VectorEnv) -> int:
    """Return the simulator ticks of one environment step."""
    before = int(env.engine.batch.numpy("tick")[0])
    env.step()
    return int(env.engine.batch.numpy("tick")[0]) - before


def twice(env: VectorEnv) -> torch.Tensor:
    """Play two steps; return whether the second ended the episode."""
    env.step()
    env.step()
    return env.results.over


@pytest.fixture(scope="module")
def plain():
    with Session(resolve("quickstart", None, BATTLE).config) as session:
        yield session


@pytest.mark.parametrize("option", ENVIRONMENT)
def test_environment_option_takes_effect(option, plain):
    changes, check = ENVIRONMENT[option]
    with Session(resolve("quickstart", None, {**BATTLE, **changes}).config) as session:
        session.collector.reset()
        plain.collector.reset()
        assert check(session.env, plain.env)  # pyright: ignore


def test_every_table_row_is_a_config_key():
    assert {key for key, _, _ in OPTIONS.values()} <= default_values().keys()


def test_every_ppo_field_has_a_row():
    tested = {key for key, _, _ in OPTIONS.values()}
    elsewhere = {"ppo.capture", "ppo.compile", "ppo.empty_cache_every", "ppo.magnet_coef"}
    """Tested in tests/rl/test_models.py, tests/training/test_hardware.py and tests/training/test_ppo.py."""
    assert {f"ppo.{f.name}" for f in fields(PPOConfig)} - tested == elsewhere


@pytest.mark.parametrize(
    "config", [ModelConfig(), PPOConfig(), RunConfig(), TeacherConfig()], ids=lambda c: type(c).__name__
)
def test_every_numeric_field_rejects_values_outside_its_range(config):
    ranges = ranges_of(type(config))
    numbers = {
        f.name for f in fields(config)
        if isinstance(getattr(config, f.name), (int, float)) and not isinstance(getattr(config, f.name), bool)
    }  # fmt: skip
    assert numbers - NOT_NUMBERED == ranges.keys()
    for name, (low, high) in ranges.items():
        for wrong in (low - 1, high + 1, math.nan):
            with pytest.raises(ValueError, match=rf"{name} is .*, expected"):
                replace(config, **{name: wrong})


CENTRAL = {"model": ModelConfig(critic="central")}
VALUE_ATTACK = OpponentConfig(mix=MixConfig(scripted=0.0, champion=1.0), value_attack=1.0)
TEACHER = "expected heuristic:LEVEL, a level of trivial, .*, or policy:PATH$"


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (CurriculumConfig, {"packs_two_at": 2000}, "is 2000, expected at most curriculum.packs_all_at = 1000"),
        (CurriculumConfig, {"team_alpha_end": 1.5}, "team_alpha_end is 1.5, expected 0 to 1, or none"),
        (RunConfig, {"curriculum": CurriculumConfig(maps=True)}, "is 120, expected at most the world's edge, 100"),
        (EnvConfig, {"map_size_range": (70, 60)}, r"map_size_range is \(70, 60\), expected the minimum first"),
        (EnvConfig, {"map_size_range": (40, 101)}, "map_size_range is .*, expected 20 to 100, the capacity"),
        (EnvConfig, {"packs_per_team_range": (1, 2)}, "packs_per_team_range is .*, expected 1 to 1, the capacity"),
        (ModelConfig, {"log_std_end": -1.0}, "log_std_end is -1.0.*hybrid"),
        (ModelConfig, {"action_head": "hybrid", "log_std_end": 1.0}, "is 1.0, expected -20 to model.init_log_std = 0"),
        (OpponentConfig, {"league": LeagueConfig(target="main")}, "expected empty where opponents.mix.league is 0"),
        (OpponentConfig, {"mix": MixConfig(champion=1.0), "value_attack": 1.0}, "1.0, expected 0 unless opponents.mix"),
        (RunConfig, {"opponents": VALUE_ATTACK}, "^opponents.value_attack is 1.0, expected 0 unless env.trunc"),
        (RunConfig, CENTRAL, "^model.critic is 'central', expected 'own' unless env.truncation_boot"),
        *((TeacherConfig, {"policy": name}, f"^teacher.policy is '{name}', {TEACHER}")
          for name in ("heuristic:wizard", "expert", "policy:", "heuristic:")),
    ],
)  # fmt: skip
def test_contradicting_options_are_rejected(config, changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)


def test_burn_in_as_long_as_an_episode_is_rejected():
    env = EnvConfig(max_episode_seconds=10.0)
    last = env.max_steps - 1
    RunConfig(env=env, ppo=PPOConfig(burn_in_steps=last))
    with pytest.raises(
        ValueError, match=f"burn_in_steps is {last + 1}, expected less than the {last + 1} environment steps"
    ):
        RunConfig(env=env, ppo=PPOConfig(burn_in_steps=last + 1))


def test_recommended_ppo_config_values():
    expected = {
        "lr": 3e-4, "lr_schedule": "cosine", "critic_lr_mult": 3.0, "adam_eps": 1e-5, "gamma": 0.995,
        "gae_lambda": 0.95, "clip_coef": 0.2, "ent_coef": 0.05, "ent_coef_end": 0.01, "vf_coef": 0.5,
        "max_grad_norm": 0.5, "update_epochs": 2, "rollout_steps": 2048, "num_minibatches": 8,
        "tbptt_chunk_length": 32, "burn_in_steps": 10, "aux_coef": 0.01, "target_kl": 0.03,
        "recompute_advantages": True, "obs_norm": True, "value_norm": True, "grad_accum_steps": 1, "amp": True,
    }  # fmt: skip
    assert {name: getattr(PPOConfig.recommended(), name) for name in expected} == expected


def test_recommended_ppo_config_trains(small_run):
    options = {**vars(PPOConfig.recommended()), "gamma": 0.5, "rollout_steps": 32}
    assert run(small_run(ppo=options, max_updates=1))[0].update == 1
