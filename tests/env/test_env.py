"""``EchelonEnv`` and ``parallel_env``: public attributes, episodes, validation of inputs."""

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from gymnasium.spaces import Box
from pettingzoo.test import parallel_api_test

from echelon.agents.heuristic import HeuristicPolicy
from echelon.config import DisplayConfig, EnvConfig, WorldConfig, env_signature
from echelon.env.env import BattleWorld, EchelonEnv
from echelon.env.parallel import parallel_env
from echelon.replay.reader import Replay
from echelon.sim.batch import Batch

SMALL = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=10.0)


@pytest.fixture(scope="module")
def env():
    return EchelonEnv(SMALL)


def random_actions(env: EchelonEnv, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {aid: rng.uniform(-1, 1, env.ACTION_DIM).astype(np.float32) for aid in env.possible_agents}


def is_ids(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


ATTRIBUTES = {
    "sim": lambda v: isinstance(v, Batch) and v.num_mechs == 10,
    "world": lambda v: isinstance(v, BattleWorld) and v.voxels.shape == (20, 40, 40) and v.size == (40, 40, 20),
    "blue_ids": lambda v: v == [f"blue_{i}" for i in range(5)],
    "red_ids": lambda v: v == [f"red_{i}" for i in range(5)],
    "possible_agents": lambda v: is_ids(v) and len(v) == 10,
    "agents": lambda v: is_ids(v) and len(v) == 10,
    "num_agents": lambda v: v == 10,
    "max_num_agents": lambda v: v == 10,
    "metadata": lambda v: isinstance(v, dict) and "name" in v,
    "render_mode": lambda v: v is None,
    "observation_space": lambda v: isinstance(v, Box) and v.dtype == np.float32 and v.shape == (994,),
    "action_space": lambda v: isinstance(v, Box) and v.dtype == np.float32 and v.shape == (18,),
    "observation_spaces": lambda v: set(v) == set(AGENTS) and all(isinstance(s, Box) for s in v.values()),
    "action_spaces": lambda v: set(v) == set(AGENTS) and all(isinstance(s, Box) for s in v.values()),
    "ACTION_DIM": lambda v: v == 18,
    "BASE_ACTION_DIM": lambda v: v == 9,
    "TARGET_START": lambda v: v == 9,
    "TARGET_DIM": lambda v: v == 5,
    "EWAR_DIM": lambda v: v == 0,
    "OBS_CTRL_START": lambda v: v == 14,
    "OBS_CTRL_DIM": lambda v: v == 4,
    "OBS_SORT_DIM": lambda v: v == 3,
    "CONTACT_SLOTS": lambda v: v == 5,
    "CONTACT_DIM": lambda v: v == 25,
    "LOCAL_MAP_R": lambda v: v == 5,
    "max_steps": lambda v: v == 40,
    "last_outcome": lambda v: v is None or isinstance(v, dict),
    "last_reset_seed": lambda v: v == 4,
    "team_zone_score": lambda v: {type(score) for score in v.values()} == {float} and set(v) == {"blue", "red"},
    "zone_score_to_win": lambda v: v == 5.0,
    "config": lambda v: v == SMALL,
    "rng": lambda v: isinstance(v, np.random.Generator),
    "stats": lambda v: set(v) == {"blue", "red"} and "bad_obs" in v["blue"],
    "_obs_dim": lambda v: v() == 994,
    "_obs": lambda v: set(v()) == set(AGENTS) and all(row.dtype == np.float32 for row in v().values()),
    "_last_contact_slots": lambda v: set(v) == set(AGENTS) and all(len(slots) == 5 for slots in v.values()),
    "team_hp": lambda v: v()["blue"] == 640.0,
    "get_replay": lambda v: v() is None,
}
"""Public attributes and methods, each with a check of its value after a reset to seed 4."""
AGENTS = [f"{team}_{i}" for team in ("blue", "red") for i in range(5)]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_env_exposes_every_public_attribute(env, name):
    if env.last_reset_seed != 4 or env.last_outcome is not None:
        env.reset(seed=4)
    value = getattr(env, name)
    assert ATTRIBUTES[name](value), f"{name} is {value!r}"


def test_env_observations_fit_the_space_in_both_layouts():
    for changes in ({}, {"obs_layout": "classic"}, {"obs_layout": "classic", "observe_target": True}):
        made = EchelonEnv(replace(SMALL, **changes))
        observations, _ = made.reset(seed=1)
        assert {row.size for row in observations.values()} == {made._obs_dim()} == {made.observation_space.shape[0]}
        for aid, row in made._obs().items():
            np.testing.assert_array_equal(row, observations[aid])
            assert made.observation_space.contains(row)


def test_env_recorded_episode_is_a_complete_replay(tmp_path):
    made = EchelonEnv(SMALL, record=True)
    assert made.get_replay() is None
    rng = np.random.default_rng(0)
    for seed in (3, 8):
        made.reset(seed=seed)
        while made.last_outcome is None:
            made.step(random_actions(made, rng))
        file = tmp_path / f"{seed}.ecr"
        file.write_bytes(made.get_replay())
        with Replay(file) as replay:
            assert replay.header["seed"] == replay.header["map_seed"] == seed
            assert replay.complete and replay.timeline()["outcome"]["reason"] == made.last_outcome["reason"]
    made.reset(seed=9)
    made.step({})
    assert made.get_replay() is not None
    made.close()
    assert made.get_replay() is None


def test_chosen_target_slot_is_observed():
    made = EchelonEnv(replace(SMALL, obs_layout="classic", observe_target=True, observation_mode="full"))
    made.reset(seed=1)
    slots = made._last_contact_slots["blue_2"]
    hostile = next(k for k, aid in enumerate(slots) if aid and aid.startswith("red"))
    prefer = np.zeros(made.ACTION_DIM, np.float32)
    prefer[made.TARGET_START + hostile] = 1.0
    observations, *_, infos = made.step({"blue_2": prefer})
    assert infos["blue_2"]["selected_target_slot"] == hostile
    assert observations["blue_2"][549:].tolist() == [float(k == hostile) for k in range(5)] + [1.0]
    assert not observations["blue_3"][549:].any()


def test_parallel_env_passes_the_pettingzoo_api_test():
    made = parallel_env(SMALL)
    parallel_api_test(made, num_cycles=120)


def test_env_spaces_contain_observations_and_sampled_actions(env):
    rng = np.random.default_rng(0)
    observations, _ = env.reset(seed=5)
    env.action_space.seed(0)
    assert env.action_space.contains(env.action_space.sample())
    while env.last_outcome is None:
        for aid, row in observations.items():
            assert env.observation_spaces[aid].contains(row), aid
            assert row.dtype == np.float32 and row.size == env._obs_dim()
        observations, *_ = env.step(random_actions(env, rng))


def test_same_seed_and_actions_repeat_the_episode(env):
    def play() -> list[np.ndarray]:
        rng = np.random.default_rng(1)
        seen = [np.stack(list(env.reset(seed=9)[0].values()))]
        for _ in range(12):
            observations, rewards, *_ = env.step(random_actions(env, rng))
            seen += [np.stack(list(observations.values())), np.array(list(rewards.values()))]
        return seen

    for a, b in zip(play(), play(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", [0, 1, 17, 19, 80])
def test_wrong_action_size_is_refused_and_changes_nothing(env, size):
    env.reset(seed=0)
    before = env.sim.numpy("actions").copy()
    with pytest.raises(ValueError, match=rf"shape of the action of red_4 is \({size},\), expected \(18,\)"):
        env.step({"red_4": np.zeros(size)})
    assert np.array_equal(env.sim.numpy("actions"), before)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, 1.0, True, "abc", np.nan, [3]])
def test_invalid_seed_is_rejected(env, seed):
    for call in (lambda: env.reset(seed), lambda: EchelonEnv(SMALL, seed=seed)):
        with pytest.raises(ValueError) as refused:
            call()
        assert str(refused.value) == f"seed is {seed!r}, expected an integer from 0 to {2**64 - 1}"
    assert env.reset(np.int64(3)) and env.last_reset_seed == 3


def test_unknown_option_and_wrong_config_type_are_rejected(env):
    with pytest.raises(ValueError, match="option 'speed' does not exist, expected none"):
        env.reset(options={"speed": 2})
    with pytest.raises(ValueError, match="options is 3, expected a dict"):
        env.reset(options=3)
    assert env.reset(options={})
    with pytest.raises(ValueError, match="config is {}, expected an EnvConfig"):
        EchelonEnv({})


WRONG_ACTIONS = {
    "none": None, "words": ["a"] * 18, "ragged": [[1, 2], [3]], "complex": np.zeros(18, complex),
    "dict": {"forward": 1}, "rows": np.zeros((2, 9)), "column": np.zeros((18, 1)), "number": 1.0,
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_ACTIONS.values(), ids=WRONG_ACTIONS.keys())
def test_invalid_action_error_names_the_agent(env, wrong):
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action of red_1 is .*, expected (18 numbers|\(18,\))") as refused:
        env.step({"blue_0": np.zeros(18), "red_1": wrong})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("wrong", [None, [np.zeros(18)] * 10, np.zeros((10, 18))], ids=["none", "list", "array"])
def test_actions_that_are_not_a_dict_are_rejected(env, wrong):
    env.reset(seed=0)
    with pytest.raises(ValueError, match="actions is .*, expected a dict from agent to action") as refused:
        env.step(wrong)
    assert "\n" not in str(refused.value)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_actions_beyond_float32_are_clipped_to_one(env):
    seen = []
    for value in (np.ones(18), np.full(18, 1e300), [2] * 18, np.full(18, 7, np.uint8)):
        env.reset(seed=3)
        seen.append(np.stack(list(env.step({"red_2": value})[0].values())))
        assert env.stats["red"]["bad_actions"] == 0
    assert all(np.array_equal(seen[0], other) for other in seen[1:])


def test_closed_env_rejects_steps_and_can_be_reset():
    made = EchelonEnv(SMALL)
    with pytest.raises(ValueError, match="has not been reset, call reset"):
        made.step({})
    made.reset(seed=0)
    made.close()
    made.close()
    for call in (lambda: made.step({}), lambda: made.world):
        with pytest.raises(ValueError, match="is closed, call reset"):
            call()
    made.reset(seed=0)
    made.step({})


def test_parallel_env_rejects_unknown_agents_and_calls_out_of_order():
    made = parallel_env(SMALL)
    with pytest.raises(ValueError, match="has not been reset, call reset"):
        made.step({})
    made.reset(seed=0)
    for call in (lambda: made.step({"green_9": np.zeros(18)}), lambda: made.observation_space("green_9"),
                 lambda: made.action_space("green_9")):  # fmt: skip
        with pytest.raises(ValueError, match="agent 'green_9' does not exist, expected one of blue_0 .. red_4"):
            call()
    made.close()
    with pytest.raises(ValueError, match="is closed"):
        made.step({})


def test_step_never_modifies_the_callers_actions(env):
    env.reset(seed=0)
    actions_given = np.full(env.ACTION_DIM, 7.5, dtype=np.float32)
    env.step({"blue_0": actions_given})
    assert (actions_given == 7.5).all()


def test_nonfinite_actions_count_as_zero_and_are_reported(env):
    broken = np.zeros(env.ACTION_DIM, dtype=np.float32)
    env.reset(seed=3)
    still, *_ = env.step({})
    broken[:3] = [np.nan, np.inf, -np.inf]
    env.reset(seed=3)
    observations, *_ = env.step({"red_2": broken})
    assert env.stats["red"]["bad_actions"] == 3 and env.stats["blue"]["bad_actions"] == 0
    for aid, row in observations.items():
        np.testing.assert_array_equal(row, still[aid])


def test_finished_episode_has_an_outcome_and_needs_a_reset(env):
    pilot = HeuristicPolicy(1.0)
    env.reset(seed=3)
    while env.last_outcome is None:
        actions = {aid: pilot.act(env, aid) for aid in env.possible_agents}
        _, rewards, terminated, truncated, infos = env.step(actions)
        assert not any(terminated[aid] and truncated[aid] for aid in env.possible_agents)
        for aid in env.possible_agents:
            assert sum(infos[aid]["reward_components"].values()) == pytest.approx(rewards[aid], abs=1e-5)
    assert env.last_outcome["reason"] in ("zone_control", "elimination", "time_up")
    assert all(infos[aid]["outcome"] == env.last_outcome for aid in env.possible_agents)
    with pytest.raises(ValueError, match="call reset"):
        env.step({})


def test_reset_uses_the_map_of_its_seed(env):
    env.reset(seed=11)
    first = env.engine.batch.numpy("material").copy()
    env.reset(seed=12)
    assert (env.engine.batch.numpy("material") != first).any()
    env.reset(seed=11)
    np.testing.assert_array_equal(env.engine.batch.numpy("material"), first)


def test_parallel_env_drops_dead_agents():
    made = parallel_env(SMALL)
    observations, _ = made.reset(seed=0)
    hp = made.env.engine.batch.numpy("hp").copy()
    hp[0, 3] = 0.0
    made.env.engine.batch.set("hp", hp)
    made.step({})
    observations, _, terminated, _, _ = made.step({})
    assert len(observations) in (9, 10)
    assert "blue_3" not in made.agents


def test_env_signature_survives_a_json_round_trip():
    cfg = EnvConfig(map_size_range=(40, 60), display=DisplayConfig(fill="suite"))
    signature = env_signature(cfg)
    assert json.loads(json.dumps(signature)) == signature and signature["map_size_range"] == [40, 60]
    assert signature["display"]["fill"] == "suite" and signature != env_signature(EnvConfig())


def test_env_copy_and_pickle_need_a_closed_simulator():
    made = EchelonEnv(SMALL)
    twin = pickle.loads(pickle.dumps(made))
    first, again = (one.reset(seed=6)[0] for one in (made, twin))
    assert all(np.array_equal(first[aid], again[aid]) for aid in first)
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(ValueError, match=r"is in play, call close\(\)"):
            copied(made)
    made.close()
    later = copy.deepcopy(made).reset(seed=6)[0]
    assert all(np.array_equal(first[aid], later[aid]) for aid in first)
