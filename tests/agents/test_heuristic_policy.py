"""``HeuristicPolicy``: pilots called one by one act like pilots that act in one batch."""

import numpy as np
import pytest

from echelon.agents.heuristic import SKILLS, HeuristicPolicy, install, script_of
from echelon.config import EnvConfig, WorldConfig
from echelon.env.engine import Engine
from echelon.env.env import EchelonEnv

CFG = EnvConfig(world=WorldConfig(size_x=50, size_y=50, size_z=20))
SEED = 3
TRIGGERS = [4, 6, 7, 8]


@pytest.fixture(scope="module")
def sequential():
    """Actions of ten expert pilots called one by one in each decision of an episode, for two episodes of a seed."""
    env, pilot = EchelonEnv(CFG), HeuristicPolicy(skill="expert")
    episodes = []
    for _ in range(2):
        env.reset(seed=SEED)
        actions_of_decisions, focused = [], 0
        while env.last_outcome is None:
            actions = {aid: pilot.act(env, aid) for aid in env.possible_agents}
            actions_of_decisions.append(np.stack([actions[aid] for aid in env.possible_agents]))
            focused += int((env.engine.batch.numpy("pack_focus") >= 0).sum())
            env.step(actions)
        episodes.append((actions_of_decisions, focused))
    return env, episodes


def test_sequential_calls_match_batched_pilots(sequential):
    env, [(expected, focused), _] = sequential
    batched = Engine(CFG, 1, env.engine.batch.maps, pilots=install, autoreset=False)
    batched.batch["script"].fill_(script_of("expert"))
    batched.batch.set("forced_seed", np.array([SEED], np.int32))
    batched.reset()
    for k, want in enumerate(expected):
        batched.step()
        np.testing.assert_array_equal(batched.batch.numpy("actions")[0], want, err_msg=f"decision {k}")
    batched.close()
    assert focused > 0


def test_second_episode_of_same_seed_is_identical(sequential):
    _, [(first, _), (second, _)] = sequential
    np.testing.assert_array_equal(np.stack(first), np.stack(second))


@pytest.mark.parametrize(("arguments", "named"), [({"skill": "wizard"}, "wizard"), ({"weapon_fire_prob": 1.5}, "1.5")])
def test_heuristic_policy_rejects_invalid_arguments(arguments, named):
    with pytest.raises(ValueError, match=named):
        HeuristicPolicy(**arguments)


def test_heuristic_policies_of_one_environment_control_an_agent_each():
    env = EchelonEnv(EnvConfig(world=WorldConfig(size_x=40, size_y=40, size_z=20)))
    env.reset(seed=SEED)
    pilots = {aid: HeuristicPolicy(float(aid.startswith("blue")), SKILLS[i % 5]) for i, aid in enumerate(env.agents)}
    moved, shots = np.zeros(10), np.zeros(10)
    for _ in range(60):
        actions = {aid: pilot.act(env, aid) for aid, pilot in pilots.items()}
        moved += [np.abs(action[:4]).sum() for action in actions.values()]
        shots += [action[TRIGGERS].any() for action in actions.values()]
        env.step(actions)
    assert (moved > 1).all()
    assert shots[:4].sum() > 0 and shots[5:9].sum() == 0, "scouts switch ECM by a trigger"
    with pytest.raises(ValueError, match="green_7"):
        pilots["blue_0"].act(env, "green_7")
