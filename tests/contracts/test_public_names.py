"""Names that programs outside the repository import: each exists with its parameters, fields or value.

A row lists the leading parameters of a callable or the leading fields of a dataclass; later parameters must have
defaults, so that a call with the listed ones still works.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
OBS_STATE_DONE = "obs lstm_state done"
SEQUENCE = "obs_seq actions_seq dones_seq init_state"

CALLABLES: dict[str, str] = {
    "echelon.rl.lstm_state:LSTMState": "h c",
    "echelon.rl.model:LSTMState": "h c",
    "echelon.rl.model:ActorCriticLSTM": "obs_dim action_dim hidden_dim lstm_hidden_dim",
    "echelon.rl.model:ActorCriticLSTM.initial_state": "self batch_size device",
    "echelon.rl.model:ActorCriticLSTM.get_action_and_value": f"self {OBS_STATE_DONE} action",
    "echelon.rl.model:ActorCriticLSTM.get_value": f"self {OBS_STATE_DONE}",
    "echelon.rl.model:ActorCriticLSTM.evaluate_actions_sequence": f"self {SEQUENCE}",
    "echelon.rl.model:ActorCriticLSTM.get_chunk_values": f"self {SEQUENCE}",
    "echelon.rl.suite:build_suite_descriptor": "spec",
    "echelon.rl.suite:get_suite_for_role": "mech_class command_role",
    "echelon.rl.suite:DeepSetEncoder": "entity_dim",
    "echelon.rl.suite_model:SuiteObservation": (
        "contacts contact_mask squad squad_mask ego_state suite_descriptor panel_stats"
    ),
    "echelon.rl.suite_model:flat_obs_to_suite_obs": (
        "flat_obs max_contacts contact_dim max_squad squad_dim ego_dim panel_dim"
    ),
    "echelon.rl.suite_model:CombatSuiteActorCritic": (
        "action_dim contact_dim squad_dim ego_dim panel_dim hidden_dim lstm_hidden_dim max_contacts max_squad"
    ),
    "echelon.rl.suite_model:CombatSuiteActorCritic.initial_state": "self batch_size device",
    "echelon.rl.suite_model:CombatSuiteActorCritic.get_action_and_value": f"self {OBS_STATE_DONE} action",
    "echelon.rl.suite_model:CombatSuiteActorCritic.get_value": f"self {OBS_STATE_DONE}",
    "echelon.rl.suite_model:CombatSuiteActorCritic.evaluate_actions_sequence": f"self {SEQUENCE}",
    "echelon.training.rollout:RolloutBuffer.create": "num_steps num_agents obs_dim action_dim device",
    "echelon.training.rollout:RolloutBuffer.compute_gae": "self next_value next_done gamma gae_lambda next_alive",
    "echelon.training.spatial:SpatialAccumulator": "grid_size",
    "echelon.training.spatial:SpatialAccumulator.to_images": "self",
    "echelon.training.vec_env:VectorEnv": "num_envs env_cfg",
    "echelon.training.vec_env:VectorEnv.set_curriculum": "self",
    "echelon.training.vec_env:VectorEnv.get_curriculum": "self",
    "echelon.training.vec_env:VectorEnv.close": "self",
    "echelon.training.ppo:PPOTrainer": "model config device",
    "echelon.training.ppo:PPOTrainer.update": "self buffer init_state",
    "echelon.training.normalization:RunningMeanStd": "epsilon",
    "echelon.training.normalization:ReturnNormalizer": "",
    "echelon.training.normalization:ReturnNormalizer.update": "self returns",
    "echelon.training.normalization:ReturnNormalizer.normalize": "self x",
    "echelon.training.normalization:ReturnNormalizer.state_dict": "self",
    "echelon.training.normalization:ReturnNormalizer.load_state_dict": "self state",
    "echelon.training.evaluation:EvalStats": "win_rate mean_hp_margin mean_episode_length episodes",
    "echelon.training.evaluation:evaluate_vs_heuristic": "model env_cfg episodes seeds device save_replay",
    "echelon.training:evaluate_ladder": (
        "policy env_cfg seeds levels weapon_prob device threads deterministic make_env tell"
    ),
    "echelon.training:evaluate_policy": "policy env_cfg seeds",
    "echelon.training:load_policy": "path device",
    "echelon.training:env_config_of": "meta",
    "echelon.training:PolicyPilot": "policy deterministic seed",
    "echelon.agents.heuristic:HeuristicPolicy": "weapon_fire_prob skill",
    "echelon.agents.heuristic:HeuristicPolicy.act": "self env agent_id",
    "echelon.arena.glicko2:GameResult": "opponent score",
    "echelon.arena.glicko2:Glicko2Config": "",
    "echelon.arena.glicko2:Glicko2Rating": "rating rd vol",
    "echelon.arena.glicko2:expected_score": "player opponent",
    "echelon.arena.glicko2:rate": "player results",
    "echelon.arena.league:Glicko2Rating": "rating rd vol",
    "echelon.arena.league:League": "",
    "echelon.arena.league:League.apply_rating_period": "self results",
    "echelon.arena.league:League.as_dict": "self",
    "echelon.arena.league:League.from_dict": "row",
    "echelon.arena.league:League.load": "path",
    "echelon.arena.league:League.promote_if_topk": "self entry_id top_k",
    "echelon.arena.league:League.recent_candidates": "self n exclude_id",
    "echelon.arena.league:League.retire_commanders": "self keep_top min_games",
    "echelon.arena.league:League.save": "self path",
    "echelon.arena.league:League.top_commanders": "self n",
    "echelon.arena.league:League.upsert_checkpoint": "self path kind",
    "echelon.arena.league:LeagueEntry": "entry_id ckpt_path kind commander_name created_at rating games meta",
    "echelon.arena.match:LoadedPolicy": "policy meta",
    "echelon.arena.match:MatchOutcome": "winner hp seed",
    "echelon.arena.match:load_policy": "path device",
    "echelon.arena.match:play_match": "env_cfg blue_policy red_policy seed device max_steps",
    "echelon.arena.policies:LRUPolicyCache": "max_size",
    "echelon.env.parallel:parallel_env": "",
    "echelon.run_data:load": "name",
    "echelon.tasks:register": "",
    "echelon.training.api:evaluate": "policy opponent seeds env deterministic device maps",
    "echelon.training.task_env:make_vec": "task num_envs battles opponent",
    "echelon.training.task_env:TaskVectorEnv": "battles config opponent side maps seed device threads autoreset",
    "echelon.training.task_parallel:parallel_env": "task opponent",
}
"""Leading parameters by module and name; parameters after them have defaults."""

VALUES: dict[str, Any] = {
    "echelon.actions:ACTION_DIM": 18,
    "echelon.rl.suite:SUITE_DESCRIPTOR_DIM": 14,
    "echelon.rl.suite_model:FLAT_OBS_DIM": 706,
}

NAMES = (
    "echelon.actions:ActionIndex", "echelon.rl.suite:COMBAT_SUITES", "echelon.rl.suite:CombatSuiteSpec",
    "echelon.rl.suite:SuiteType", "echelon.training:EvalStats", "echelon.training:PPOConfig",
    "echelon.training:PPOTrainer", "echelon.training:PolicyAgent", "echelon.training:ReturnNormalizer",
    "echelon.training:RolloutBuffer", "echelon.training:RunningMeanStd", "echelon.training:SpatialAccumulator",
    "echelon.training:VectorEnv", "echelon.training:evaluate_vs_heuristic",
)  # fmt: skip

MODEL_ATTRIBUTES = ("encoder lstm actor_mean actor_logstd critic obs_dim action_dim hidden_dim lstm_hidden_dim").split()


def find(reference: str) -> Any:
    """Return the object at ``module:name.attribute``."""
    module, _, path = reference.partition(":")
    found = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("reference", CALLABLES)
def test_public_callable_keeps_its_leading_parameters(reference):
    expected, parameters = CALLABLES[reference].split(), list(inspect.signature(find(reference)).parameters.values())
    assert [p.name for p in parameters[: len(expected)]] == expected
    for parameter in parameters[len(expected) :]:
        is_variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        assert is_variadic or parameter.default is not parameter.empty, f"{parameter.name} has no default"


@pytest.mark.parametrize("reference", VALUES)
def test_public_constant_keeps_its_value(reference):
    assert find(reference) == VALUES[reference]


@pytest.mark.parametrize("reference", NAMES)
def test_public_name_is_importable(reference):
    assert find(reference) is not None


def test_models_and_results_keep_their_kinds():
    from echelon.arena.glicko2 import Glicko2Rating
    from echelon.arena.league import League, LeagueEntry
    from echelon.rl.model import ActorCriticLSTM, LSTMState
    from echelon.rl.suite_model import SuiteObservation

    model = ActorCriticLSTM(6, 3)
    assert [name for name in MODEL_ATTRIBUTES if not hasattr(model, name)] == []
    assert isinstance(model.initial_state(2), tuple) and LSTMState is find("echelon.rl.lstm_state:LSTMState")
    assert dataclasses.is_dataclass(SuiteObservation) and dataclasses.is_dataclass(LeagueEntry)
    assert League().entries == {} and Glicko2Rating() == Glicko2Rating(1500, 350, 0.06)


def test_no_two_public_classes_have_one_name():
    names = Counter(
        node.name
        for top in ("echelon", "echelon_cli")
        for path in (ROOT / top).rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []
