"""Ablations: the variants of a preset, and that each of them trains."""

from __future__ import annotations

import pytest

from echelon.config.ablations import ABLATIONS, BASELINES
from echelon.env import layout
from echelon.jobs.config_layers import ConfigError, resolve
from echelon.jobs.sweeps.plan import UNCHANGED, variants_of
from echelon.telemetry.events import EventCurriculum, EventUpdate
from tests.training.runs import of, run_battle

MIXED = {"curriculum.team_alpha_end": 0.7}
"""Settings that the standard preset needs for all ablations to have an effect."""
SMALL = {
    **MIXED, "opponents.mix.scripted": 1.0,
    "num_envs": 2, "bank_maps": 1, "bank_refresh_every": 0, "threads": 1, "device": "cpu", "max_minutes": 0.0,
    "max_updates": 2, "env.world.size_x": 30, "env.world.size_y": 30, "env.world.size_z": 16,
    "env.max_episode_seconds": 6.0, "curriculum.map_small_min": 24, "curriculum.map_small_max": 26,
    "curriculum.map_large_min": 28, "curriculum.map_large_max": 30, "ppo.rollout_steps": 8,
    "ppo.tbptt_chunk_length": 8, "ppo.num_minibatches": 1, "eval.seeds": 1, "eval.every_updates": 100,
    "eval.at_start": False, "eval.record_seeds": 0,
}  # fmt: skip
"""The standard preset with everything that can be ablated, reduced to a second."""


@pytest.fixture(scope="module")
def unablated():
    return run_battle(resolve("scratch", None, SMALL).config)


def hidden(run):
    return len(layout.hidden_columns(run))


EFFECTS = {
    "lstm": lambda run, parameters: run.model.memory is False,
    "curriculum": lambda run, parameters: parameters.keys() == {"weapon_prob", "team_alpha"},
    "team-mixing": lambda run, parameters: "team_alpha" not in parameters and run.env.reward.team_alpha == 1.0,
    "shaping": lambda run, parameters: run.env.reward.approach_mode == "off",
    "local-map": lambda run, parameters: not run.env.observe_local_map,
    "aiming": lambda run, parameters: hidden(run) == 6 * layout.MAX_CONTACTS,
    "targets": lambda run, parameters: hidden(run) == 2 * layout.MAX_CONTACTS,
    "zone": lambda run, parameters: hidden(run) == 4,
    "path": lambda run, parameters: hidden(run) == 3,
    "obs-norm": lambda run, parameters: not run.ppo.obs_norm,
    "entropy": lambda run, parameters: run.ppo.ent_coef == 0,
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n != "lstm")) for n in ABLATIONS])
def test_ablated_run_trains(name, unablated):
    changes = variants("scratch", SMALL, name)[f"no {name}"]
    config = resolve("scratch", None, {**SMALL, **{k: "none" if v is None else v for k, v in changes.items()}}).config
    result, events = run_battle(config)
    updates = of(events, EventUpdate)
    assert result.update == 2 and result.evaluation is not None and result.evaluation.episodes == 2
    parameters = next((e.parameters for e in of(events, EventCurriculum)), {})
    assert EFFECTS[name](config, parameters)
    before = of(unablated[1], EventUpdate)
    # shares fall and statistics begin with the second update
    assert updates[1].loss != before[1].loss, "the ablation has no effect"


def variants(preset, overrides, *words):
    """Return the changes of each variant by name."""
    return {each.name: each.params for each in variants_of(resolve(preset, None, overrides), words)}


def test_variants_begin_with_the_unchanged_configuration():
    plan = variants("scratch", MIXED, "ablations")
    assert list(plan) == [UNCHANGED, *(f"no {name}" for name in ABLATIONS)] and plan[UNCHANGED] == {}


def test_variants_skip_ablations_without_effect_unless_named():
    assert "no team-mixing" not in variants("quickstart", {}, "ablations")
    with pytest.raises(ConfigError, match="'team-mixing' changes nothing: this configuration has no reward shared"):
        variants("quickstart", {}, "team-mixing")
    with pytest.raises(ConfigError, match="'path' changes nothing"):
        variants("quickstart", {"env.obs_layout": "classic", "model.kind": "classic"}, "path")
    with pytest.raises(ConfigError, match="ablation 'lst' does not exist, did you mean 'lstm'"):
        variants(None, {}, "lst")


def test_variants_accept_assignments():
    found = variants("quickstart", {}, "ppo.lr=1e-4,env.num_packs=2")
    assert found == {UNCHANGED: {}, "ppo.lr=1e-4,env.num_packs=2": {"ppo.lr": 1e-4, "env.num_packs": 2}}


def test_baselines_are_variants_that_differ_from_their_configuration():
    assert variants("scratch", {}, "baselines") == {
        UNCHANGED: {},
        "feed-forward-ppo": {"model.memory": False},
        "mappo": {"model.critic": "central"},
        "imitation-alone": {"teacher.policy": "heuristic:expert", "teacher.imitation": 1.0},
    }
    taught = variants("standard", {}, "baselines")
    assert list(taught) == [UNCHANGED, *BASELINES]
    assert all(taught[name]["teacher.policy"] == "" for name in BASELINES if name != "imitation-alone")
    with pytest.raises(ConfigError, match="'recurrent-ppo' changes nothing: this configuration is recurrent PPO"):
        variants("scratch", {}, "recurrent-ppo")
