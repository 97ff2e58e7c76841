"""Benchmark tasks and the environments that they name: Gymnasium, PettingZoo, opponents, curriculum, evaluation."""

from __future__ import annotations

import copy
import os
import pickle
import re
import runpy
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils import env_checker
from gymnasium.vector import AutoresetMode
from pettingzoo.test import parallel_api_test, parallel_seed_test

import echelon
from echelon import tasks
from echelon.env.gym_vector import LENT
from echelon.env.parallel import EchelonParallelEnv
from echelon.training import task_env
from echelon.training.opponents.fixed import find_opponents
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.task_env import TaskVectorEnv, make_vec
from echelon.training.task_parallel import parallel_env
from tests.arena.policy_files import SMALL, loaded, save

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
STEPS = SMALL.max_steps


@pytest.fixture(scope="module")
def envs():
    made = TaskVectorEnv(3, SMALL, opponent="easy", maps=2)
    yield made
    made.close()


def play(envs: TaskVectorEnv, steps: int, seed: int = 0):
    """Play random actions and yield the result of every step."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        yield envs.step(rng.uniform(-1, 1, envs.action_space.shape).astype(np.float32))


IMPORTS = {"import gymnasium, echelon": True, "import echelon": False, "import echelon, gymnasium, echelon.tasks": True}
"""Imports, and whether they register the tasks."""


@pytest.mark.parametrize(("imports", "is_registered"), IMPORTS.items())
def test_importing_echelon_registers_the_tasks_where_gymnasium_is_imported(imports, is_registered):
    code = f"""{imports}; import sys
found = sys.modules.get("gymnasium")
assert bool(found and "echelon/5v5-easy-v1" in found.registry) is {is_registered}
assert bool(found) is {is_registered} and "torch" not in sys.modules and "echelon.training" not in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_gymnasium_makes_registered_tasks():
    tasks.register()
    tasks.register()
    made = gymnasium.make_vec("echelon/5v5-easy-v1", num_envs=10, maps=1)
    assert isinstance(made, TaskVectorEnv) and made.num_envs == 10 and made.batch.num_envs == 2
    assert made.spec.id == "echelon/5v5-easy-v1" and made.config == echelon.TASKS["5v5-easy-v1"].config()
    assert made.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    made.reset(seed=1)
    assert made.opponents == ["heuristic:easy"] * 2
    made.close()


@pytest.mark.long
def test_gymnasium_finds_tasks_by_their_module():
    script = "import gymnasium; print(gymnasium.make_vec('echelon.tasks:echelon/5v5-trivial-v1', maps=1).num_envs)"
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "5", done.stderr


def test_task_page_states_every_task():
    rows = re.findall(r"^\| `echelon/(\S+)` \| (\d+) against \d+ \| (\d+)x\d+x20 \| `(\w+)`", PAGE, re.MULTILINE)
    assert {row[0] for row in rows} == tasks.TASKS.keys()
    for name, mechs, edge, opponent in rows:
        task = tasks.TASKS[name]
        config = task.config()
        assert (config.team_size, config.world.size_x, task.opponent) == (int(mechs), int(edge), opponent)
        assert (config.max_episode_seconds, config.dt_act, config.world.fairness) == (60.0, 0.25, "path")
        assert (config.world.size_y, config.world.size_z) == (int(edge), 20)


@pytest.mark.long
def test_programs_of_the_task_page_run(tmp_path, capsys):
    tasks.register()
    for number, program in enumerate(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)):
        path = tmp_path / f"program_{number}.py"
        path.write_text(program, encoding="utf-8")
        runpy.run_path(str(path))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("(10, 994)") and printed[1].startswith("0% (0% to ")
    assert printed[2].startswith("['") and "'blue_" in printed[3]


def test_seed_of_a_reset_determines_battles_and_opponents(envs):
    """The other checks of Gymnasium are those of ``EchelonVectorEnv``, whose methods these are."""
    env_checker.check_reset_seed_determinism(envs)


def test_infos_have_plain_arrays_in_every_step(envs):
    envs.reset(seed=2)
    seen = np.zeros(envs.num_envs, bool)
    alive = np.ones(envs.num_envs, bool)
    for observations, _, terminated, truncated, infos in play(envs, STEPS + 3):
        for name, kind in (("alive", bool), ("acted", bool), ("outcome", np.int8), ("_outcome", bool)):
            assert infos[name].shape == (envs.num_envs,) and infos[name].dtype == kind
        assert np.array_equal(infos["acted"], alive)
        alive = infos["alive"]
        assert not observations[~alive][:, :500].any() and observations[alive].any(1).all()
        ended = infos["_outcome"]
        assert np.array_equal(ended, terminated | truncated) and not infos["outcome"][~ended].any()
        if ended.any():
            signs = {"blue": 1, "draw": 0, "red": -1}
            assert infos["outcome"][ended].tolist() == [signs[w] for w in infos["final_info"]["winner"][ended]]
            seen |= ended
    assert seen.all()


def rewards_by_battle(mode: str, opponent: object) -> tuple[list[list], set[str]]:
    """Return the rewards of each battle's steps, without those in which it is reset, and the opponents seen."""
    made = TaskVectorEnv(2, SMALL, opponent=opponent, maps=2, autoreset=mode)
    made.reset(seed=3)
    streams, names = [[], []], set()
    while min(map(len, streams)) < 2 * STEPS:
        _, rewards, _, _, infos = made.step(np.full(made.action_space.shape, 0.1, np.float32))
        names |= set(made.opponents)
        for battle, of_battle in enumerate(streams):
            if infos["acted"][made.battle_of == battle].any():
                of_battle.append(rewards[made.battle_of == battle].tolist())
        if mode == "DISABLED" and infos["_outcome"].any():
            made.reset(options={"reset_mask": infos["_outcome"]})
    made.close()
    return [of_battle[: 2 * STEPS] for of_battle in streams], names


@pytest.mark.long
def test_autoreset_modes_play_the_same_battles_against_levels_and_policies(tmp_path, monkeypatch):
    """Policies take the mean: the battles of a batch sample from one sequence, and one that pauses uses it too."""
    monkeypatch.setattr(task_env, "OpponentRunner", partial(OpponentRunner, deterministic=True))
    save(tmp_path, 1)
    mix = {"easy": 1.0, str(tmp_path): 1.0}
    (same, names), *others = (rewards_by_battle(mode, mix) for mode in ("SAME_STEP", "DISABLED", "NEXT_STEP"))
    assert [same, same] == [rewards for rewards, _ in others] and names == {"heuristic:easy", str(tmp_path)}


def test_observations_are_written_again_only_when_they_are_released():
    made = TaskVectorEnv(1, SMALL, opponent="easy", maps=1)
    held = [made.reset(seed=0)[0]]
    copies, addresses = [held[0].copy()], set()
    for observations, *_ in play(made, 8):
        held.append(torch.from_numpy(observations[1:3]))
        copies.append(observations.copy()[1:3])
        del observations
    assert all(np.array_equal(rows, copied) for rows, copied in zip(held, copies, strict=True))
    del held[1:]
    addresses = {observations.ctypes.data for observations, *_ in play(made, 8)}
    assert len(addresses) <= LENT
    made.close()
    assert np.array_equal(held[0], copies[0])


def test_opponents_are_sampled_by_weight_and_seed():
    episodes = [(e, i) for e in range(40) for i in range(10)]
    drawn, again = (find_opponents({"easy": 1, "hard": 3}).source(5).draw_many(episodes) for _ in range(2))
    assert 0.68 < Counter(drawn)["heuristic:hard"] / 400 < 0.82 and drawn == again
    assert find_opponents("heuristic:hard") == find_opponents("hard")
    named = find_opponents(loaded(1, env=SMALL))
    assert list(named.policies) == ["policy"] and named.single_level is None


def test_curriculum_changes_opponents_of_later_battles_and_maps():
    made = TaskVectorEnv(2, SMALL, opponent="trivial", maps=2)
    made.reset(seed=1)
    made.set_curriculum(opponent={"medium": 1.0}, weapon_prob=0.5, map_size_range=(30, 40))
    assert made.opponents == ["heuristic:trivial"] * 2
    known = made.get_curriculum()
    assert (known["opponent"], known["weapon_prob"]) == ({"heuristic:medium": 1.0}, 0.5)
    assert known["map_size_range"] == (30, 40)
    list(play(made, STEPS))
    assert made.opponents == ["heuristic:medium"] * 2
    for change, text in (
        ({"skill": "easy"}, "skill is 'easy', expected none; try opponent"),
        ({"opponent": "champion"}, "opponent is 'champion', expected scripted levels"),
        ({"weapon_prob": 2.0}, "weapon_prob is 2.0, expected 0 to 1"),
    ):
        with pytest.raises(ValueError, match=text):
            made.set_curriculum(**change)
    made.close()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"task": "5v5-simple-v1"}, "task '5v5-simple-v1' does not exist, expected one of 5v5-trivial-v1"),
        ({"opponent": "nosuch"}, "opponent is 'nosuch', expected a checkpoint, a run or a league entry.*nor is it a"),
        ({"opponent": "heuristic:nosuch"}, "opponent is 'heuristic:nosuch', expected a scripted level of trivial"),
        ({"opponent": {}}, "opponent is {}, expected a name, or weights by name"),
        ({"opponent": {"easy": 0}}, "weight of opponent 'easy' is 0, expected a number above 0"),
        ({"side": "both"}, "side is 'both', expected one of blue, red"),
        ({"battles": 0}, "battles is 0, expected an integer from 1"),
        ({"num_envs": 7}, "num_envs is 7, expected a multiple of 5"),
        ({"num_envs": 20, "battles": 2}, "num_envs is 20, expected 10, or battles without it"),
    ],
)
def test_invalid_task_options_are_rejected(options, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=text) as refused:
        make_vec(**{"task": SMALL, **options})
    assert "\n" not in str(refused.value)


def test_policy_of_another_game_is_rejected(tmp_path):
    other = loaded(1, env=SMALL)
    other.meta["env_cfg"] = {"obs_layout": "classic"}
    with pytest.raises(ValueError, match="opponent 'policy' has another observation layout"):
        make_vec(SMALL, opponent=other)


def test_self_play_controls_both_teams():
    made = make_vec(SMALL, opponent="self", maps=1)
    assert made.num_envs == 10 and made.agents[0] == "blue_0" and made.agents[-1] == "red_4"
    made.reset(seed=0)
    *_, (_, _, _, _, infos) = play(made, STEPS)
    outcome = infos["outcome"]
    assert (outcome[:5] == -outcome[5:]).all() and made.opponents == ["self"]
    made.close()


def test_red_side_sees_its_own_outcome():
    blue, red = (TaskVectorEnv(2, SMALL, opponent="hard", side=side, maps=2) for side in ("blue", "red"))
    for made in (blue, red):
        made.reset(seed=4)
        still = np.zeros(made.action_space.shape, np.float32)
        lost = []
        for _ in range(STEPS):
            infos = made.step(still)[4]
            lost += infos["outcome"][infos["_outcome"]].tolist()
        assert lost and set(lost) == {-1}
        made.close()


def test_task_parallel_env_passes_the_pettingzoo_tests():
    made = parallel_env(SMALL, opponent="easy", maps=2)
    parallel_api_test(made, num_cycles=2 * STEPS)
    made.close()
    parallel_seed_test(lambda: parallel_env(SMALL, opponent={"easy": 1, "trivial": 1}, maps=2), num_cycles=10)


def test_task_parallel_env_reports_the_outcome_and_drops_dead_agents():
    made = parallel_env(SMALL, opponent="hard", maps=2)
    made.reset(seed=0)
    hp = made.envs.engine.batch.numpy("hp").copy()
    hp[0, 3] = 0.0
    made.envs.engine.batch.set("hp", hp)
    terminated = made.step({})[2]
    assert terminated["blue_3"] and "blue_3" not in made.agents
    while made.agents:
        *_, infos = made.step({})
    assert {info["outcome"] for info in infos.values()} <= {-1, 0, 1} and infos
    assert made.step({}) == ({}, {}, {}, {}, {})
    with pytest.raises(ValueError, match="agent 'red_0' does not exist, expected one of blue_0 .. blue_4"):
        made.step({"red_0": np.zeros(18)})
    with pytest.raises(ValueError, match=r"action of blue_0 has shape \(2,\), expected \(18,\)"):
        made.reset(seed=0) and made.step({"blue_0": np.zeros(2)})
    made.close()


def test_parallel_env_without_opponent_is_self_play():
    made = parallel_env(SMALL)
    assert isinstance(made, EchelonParallelEnv) and len(made.possible_agents) == 10
    with pytest.raises(ValueError, match="option 'maps' does not exist in self-play"):
        parallel_env("5v5-self-v1", maps=2)


def test_evaluate_takes_functions_and_policies_as_opponents(tmp_path):
    save(tmp_path, 1)
    shapes = set()

    def act(observations, first):
        shapes.add((observations.shape[0], bool(first.all())))
        return np.zeros((len(observations), 18))

    stats = echelon.evaluate(act, "hard", env=SMALL, seeds=2)
    assert stats.episodes == 4 and stats.win_rate == 0.0 and shapes == {(20, True), (20, False)}
    both = echelon.evaluate(tmp_path, tmp_path, seeds=1, deterministic=False)
    assert both.episodes == 2
    with pytest.raises(ValueError, match="env is None, expected a configuration or a task"):
        echelon.evaluate(act, "easy")
    with pytest.raises(ValueError, match="expected a single one for an evaluation"):
        echelon.evaluate(tmp_path, {"easy": 1, "hard": 1})


def test_environments_with_arrays_of_the_simulator_refuse_copies_but_their_factories_travel():
    made = [echelon.make_vec(SMALL, battles=1, maps=1), parallel_env(SMALL, opponent="easy", maps=1)]
    for env in (*made, made[0].batch):
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(ValueError, match="cannot be copied or pickled; pass a function that makes it"):
                copied(env)
    for env in made:
        env.close()
    factory = pickle.loads(pickle.dumps(partial(echelon.make_vec, SMALL, battles=1, maps=1)))
    assert factory().reset(seed=1)[0].shape[0] == SMALL.team_size
