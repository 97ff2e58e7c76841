"""Replays of evaluations: which ones, how many are remaining, and disk errors."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from echelon.actions import CHANCES
from echelon.config import EVAL_SEED_BASE, EnvConfig, EvalConfig, WorldConfig
from echelon.config.seeds import eval_seeds
from echelon.replay.header import TeamInfo
from echelon.replay.reader import Replay
from echelon.telemetry.events import EventAlert, EventEval, EventMatch
from echelon.training import recording
from echelon.training.evaluation import StatelessPolicy, make_eval_env, play_and_summarize
from echelon.training.recording import UNUSED_S, Recording, RecordingPlan, prune_replays
from tests.replay.synthetic import write_match
from tests.training.conftest import GAMMA, make_small_run
from tests.training.runs import of, run, run_battle

BATTLE = EnvConfig(world=WorldConfig(size_x=36, size_y=36, size_z=12), max_episode_seconds=2.0, gamma=GAMMA)
"""A match on a small map that lasts two seconds."""


def played(folder: Path, **evaluation) -> list:
    """Return the events of a run that evaluates its policy before and after one update."""
    chosen = EvalConfig(**{"seeds": 2, "every_updates": 0, "at_start": True, **evaluation})
    config = replace(make_small_run(num_envs=2, bank_maps=1, total_steps=1), env=BATTLE, eval=chosen)
    return run_battle(config, folder)[1]


def figures(events: list) -> list[tuple[float, ...]]:
    return [(e.win_rate, e.mean_return, e.mean_hp_margin) for e in of(events, EventEval)]


def test_evaluations_are_recorded_from_both_sides(tmp_path):
    events = played(tmp_path)
    evaluations, matches = of(events, EventEval), of(events, EventMatch)
    first = [match for match in matches if match.update == 0]
    assert len(evaluations) == 2 and len(matches) == 4
    assert [(m.blue, m.red) for m in first] == [("untrained", "medium"), ("medium", "untrained")]
    assert {m.seed for m in matches} == set(eval_seeds(1, "choice"))
    for match in matches:
        with Replay(tmp_path / match.path) as replay:
            assert replay.complete and replay.header["seed"] == match.seed
            assert replay.header["update"] == match.update and replay.header["run"] == tmp_path.name
            assert [team["name"] for team in replay.header["teams"]] == [match.blue, match.red]
            winner = replay.timeline()["outcome"]["winner"]
            assert match.winner == ("blue", "red", "draw")[winner]
            assert replay.materials().size == 36 * 36 * 12
    assert len(list((tmp_path / "replays" / "worlds").iterdir())) == 1
    unrecorded = played(tmp_path / "0", record_seeds=0)
    assert not of(unrecorded, EventMatch) and figures(unrecorded) == figures(events)
    assert not (tmp_path / "0" / "replays").exists()


def test_no_recording_without_run_folder_or_engine(small_run, tmp_path):
    config = small_run(total_steps=200, eval=EvalConfig(seeds=2, every_updates=0))
    for folder in (None, tmp_path):
        events = run(config, folder)[1]
        assert of(events, EventEval) and not of(events, EventMatch)


def test_unwritable_replays_are_reported_and_run_continues(tmp_path):
    for name in ("replays", "heat"):
        (tmp_path / name).write_text("a file where a folder should be")
    events = played(tmp_path)
    assert len(of(events, EventEval)) == 2 and not of(events, EventMatch)
    alerts = [alert.message for alert in of(events, EventAlert)]
    assert len(alerts) == 2 and all("matches could not be recorded" in a and "heat map" in a for a in alerts)


EXPECTED = 1.5
"""Value estimate of ``Idle``."""


class Idle(StatelessPolicy):
    """A policy that does nothing."""

    def act(self, obs, state, done, noise=None):
        return torch.zeros(len(obs), 18), state

    def estimate(self, obs, state, done):
        return torch.full((len(obs),), EXPECTED), torch.full((len(obs), len(CHANCES)), 0.5)


def test_evaluation_records_planned_matches(tmp_path):
    seeds = [EVAL_SEED_BASE, EVAL_SEED_BASE + 1]
    teams = {"policy": TeamInfo(name="idle"), "opponent": TeamInfo(name="medium")}
    plan = RecordingPlan(folder=tmp_path, seeds=seeds, count=2, prefix="eval", **teams)
    env = make_eval_env(BATTLE, seeds, skill="medium", weapon_prob=1.0, threads=1)
    recording = Recording(env, plan)
    stats = play_and_summarize(Idle(), env, BATTLE, observers=[recording])  # type: ignore[arg-type]
    matches = recording.finish()
    env.close()
    played = [(seed, side) for side in ("blue", "red") for seed in seeds]
    assert [match.path for match in matches] == [f"{tmp_path.name}/eval-s{seed}-{side}.ecr" for seed, side in played]
    verdicts = {
        (seed, side): "draw" if match.winner == "draw" else "win" if match.winner == side else "loss"
        for (seed, side), match in zip(played, matches, strict=True)
    }
    assert verdicts == {(seed, ("blue", "red")[side]): verdict for seed, side, verdict in stats.outcomes}
    for number, path in enumerate(recording.paths):
        with Replay(path) as replay:
            value = replay.chunk(0).frames["value"][1] / 100
            chance = replay.chunk(0).frames["chance"][1].reshape(len(value), len(CHANCES)) / 100
        assert (chance == np.where(value > 0, 0.5, 0.0)[:, None]).all()
        policy_values = value[: len(value) // 2] if number < len(seeds) else value[len(value) // 2 :]
        assert policy_values.tolist() == [EXPECTED] * len(policy_values) and value.sum() == EXPECTED * len(
            policy_values
        )


def old(path: Path, age: float) -> Path:
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_prune_replays_keeps_newest_and_their_worlds(tmp_path):
    worlds = tmp_path / "worlds"
    for update in range(5):
        old(write_match(tmp_path / f"u{update:06d}-s1-blue.ecr", 1, worlds=worlds), 100 - update)
    manual = write_match(tmp_path / "eval-s1-blue.ecr", 1, worlds=worlds)
    stray = worlds / f"{'0' * 64}.zz"
    stray.write_bytes(b"x")
    prune_replays(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.glob("*.ecr")) == [
        manual.name, "u000003-s1-blue.ecr", "u000004-s1-blue.ecr",
    ]  # fmt: skip
    assert stray.exists(), "a match about to start may need it"
    old(stray, 2 * UNUSED_S)
    prune_replays(tmp_path, 1)
    assert not stray.exists() and len(list(worlds.iterdir())) == 1
    with Replay(manual) as replay:
        assert replay.world


@pytest.mark.parametrize("fault", ["too many open files", "newer version", "damaged"])
def test_prune_replays_keeps_all_worlds_while_a_replay_cannot_be_read(tmp_path, monkeypatch, fault):
    """An unreadable replay counted as one without a world, and its world was deleted."""
    for update in range(2):
        old(write_match(tmp_path / f"u{update:06d}-s1-blue.ecr", 1, worlds=tmp_path / "worlds"), 100 - update)
    (world,) = (tmp_path / "worlds").iterdir()
    old(world, 2 * UNUSED_S)
    remaining = tmp_path / "u000001-s1-blue.ecr"
    if fault == "too many open files":
        monkeypatch.setattr(recording, "Replay", FailingReplay)
    elif fault == "newer version":
        remaining.write_bytes(remaining.read_bytes()[:4] + b"\xff" + remaining.read_bytes()[5:])
    else:
        remaining.write_bytes(remaining.read_bytes()[:40])
    assert [path.name for path in prune_replays(tmp_path, 1)] == ["u000000-s1-blue.ecr"]
    assert world.exists()


class FailingReplay(Replay):
    def __init__(self, path):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
