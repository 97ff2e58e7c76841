"""Baselines train on the game and against the opponent of their task, and examples are recorded as they train."""

import json
import shlex

import pytest

from echelon.jobs.config_layers import parse_assignment, resolve
from echelon.tasks import find_task
from tests.bench import baselines

PROGRAM = """
import sys
import numpy as np
import echelon
envs = echelon.make_vec("5v5-trivial-v1", battles=2, maps=1, threads=1)
envs.reset(seed=int(sys.argv[1]))
battles, acted, returns = 0, 0, []
rewards = np.zeros(10)
while battles < 2:
    _, reward, _, _, infos = envs.step(np.zeros((10, 18), np.float32))
    rewards += reward
    acted += int(infos["acted"].sum())
    ended = infos["_outcome"]
    battles += ended.sum() // 5
    returns += rewards[ended].tolist()
    rewards[ended] = 0
envs.close()
print(acted, np.mean(returns))
for _ in range(2):
    echelon.evaluate(lambda o, first: np.zeros((len(o), 18)), "trivial", env="5v5-trivial-v1", seeds=1)
"""


@pytest.mark.parametrize("learner", [name for name in baselines.NAMES if name not in baselines.STEPS_OPTION])
def test_a_variant_trains_on_the_game_and_opponent_of_its_task(learner):
    words = shlex.split(baselines.train_words(learner, "easy", 3))
    config = resolve(words[2], None, dict(map(parse_assignment, words[4::2]))).config
    assert config.seed == 3
    assert config.env == find_task(baselines.task("easy")).config()
    assert config.opponents.mix.shares["scripted"] == 1.0
    assert config.opponents.skill == config.eval.skill == "easy"
    assert (config.total_steps, config.max_minutes) == (baselines.STEPS, 0)


def test_record_counts_steps_of_the_living_and_battles(tmp_path, monkeypatch, capsys):
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setattr(baselines, "PER_ROW", 2)
    monkeypatch.setattr(baselines.TaskVectorEnv, "step", baselines.TaskVectorEnv.step)
    monkeypatch.setattr(baselines.echelon, "evaluate", baselines.echelon.evaluate)
    monkeypatch.setattr(baselines.sys, "argv", [])
    baselines.record(tmp_path / "out.json", str(tmp_path / "program.py"), ["5"])
    acted, returned = capsys.readouterr().out.split()
    found = json.loads((tmp_path / "out.json").read_text())
    ((step, battles, wins, mean_return),) = found["curve"]
    assert (step, battles, wins) == (int(acted), 2, 0) and found["steps"] == step
    assert mean_return == pytest.approx(float(returned), abs=1e-3)
    assert found["mean"] == found["sampled"] == 0.0
