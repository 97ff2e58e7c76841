"""Teamwork: conditions against evaluations and oracles of their own, and a job that continues after a kill."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from echelon.config import PACK_SIZE
from echelon.config.seeds import eval_seeds
from echelon.jobs.evaluations import batch_event, played_parts
from echelon.rl.checkpoint import export_policy_folder, find_checkpoint
from echelon.telemetry.evaluations import rows_of_batches
from echelon.telemetry.log import EventLog
from echelon.training.eval_job import EvalMatches, PlayedPart
from echelon.training.eval_plan import Condition, EvalPart, EvalPlan
from echelon.training.evaluation import make_eval_env
from echelon.training.teamwork import TeamPolicy, TeamworkObserver
from tests.arena.policy_files import SMALL, policy, save

SHORT = replace(SMALL, max_episode_seconds=4.0)
EXPERT, OTHER = "heuristic:expert", "two"
PLAN = EvalPlan(
    target="one", policy="policy", opponents=("heuristic:easy",), seeds=3, batch_seeds=2, weapon_prob=1.0, threads=1,
    mates=(EXPERT, OTHER),
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A job's folder with the copies of two policies."""
    root = tmp_path_factory.mktemp("job")
    for seed, name in enumerate(("policy", PLAN.mate_files[OTHER]), start=1):
        export_policy_folder(find_checkpoint(save(root / f"run-{seed}", seed, env=SHORT)), root / name)
    return root


@pytest.fixture(scope="module")
def whole(folder) -> dict[EvalPart, PlayedPart]:
    return {part.part: part for part in EvalMatches(PLAN, folder).play((), lambda finished: None)}


@pytest.fixture
def batch():
    """Five seeds from both sides after a few steps of random actions, with a dead mech in the first match."""
    env = make_eval_env(SHORT, eval_seeds(5), weapon_prob=1.0, threads=1)
    env.reset()
    torch.manual_seed(0)
    for _ in range(3):
        env.rows.act(torch.rand(env.rows.count, env.sizes.action_dim) * 2 - 1)
        env.step()
    alive = env.engine.batch.numpy("alive").copy()
    alive[0, 1] = 0
    env.engine.batch.set("alive", alive)
    env.engine.run("observe")
    yield env
    env.close()


def team(env, condition: Condition, mate=None, pilot=None) -> TeamPolicy:
    return TeamPolicy(env, pilot or policy(1, env=SHORT), condition, mate, range(5))


def test_team_of_one_pilot_equals_its_evaluation(folder, whole):
    """A whole team is the policy's evaluation, one without its mechs that of the mate, bit for bit."""
    alone = replace(PLAN, mates=())
    assert alone.matches == 2 * 2 * alone.seeds and PLAN.matches == 2 * (1 + 2 * PACK_SIZE) * PLAN.seeds
    scripted, other = replace(alone, target=EXPERT, policy=""), replace(alone, policy=PLAN.mate_files[OTHER])
    titles = ("usual", *(Condition(0, mate).title for mate in PLAN.mates))
    for title, plan in zip(titles, (alone, scripted, other), strict=True):
        matches = EvalMatches(plan, folder)
        matches.env = SHORT
        for part in matches.play([p for p in plan.parts() if not p.deterministic], lambda finished: None):
            found = whole[replace(part.part, condition=title)].results
            assert [replace(result, teamwork=None) for result in found] == list(part.results)


@pytest.mark.parametrize("own", range(PACK_SIZE + 1))
def test_policy_controls_each_roster_position_equally_often(batch, own):
    team(batch, Condition(own, EXPERT), "expert")
    free = (batch.engine.batch.numpy("script")[batch.rows.row_of.numpy() >= 0] == 0).reshape(2, 5, PACK_SIZE)
    assert (free.sum(1) == own).all() and (free.sum(2) == own).all()
    obs, done, pilots = batch.rows.obs[0], torch.ones(batch.rows.count), [policy(seed, env=SHORT) for seed in (1, 2)]
    mixed = team(batch, Condition(own, OTHER), pilots[1], pilots[0])
    mine, theirs = (pilot.act(obs, pilot.initial_state(len(obs)), done)[0] for pilot in pilots)
    found, _ = mixed.act(obs, mixed.initial_state(len(obs), obs.device), done, None)
    assert torch.allclose(found, torch.where(torch.from_numpy(free).reshape(-1, 1), mine, theirs), atol=1e-5)


def test_resumed_job_ends_with_the_teamwork_of_an_undisturbed_one(folder, whole, tmp_path):
    log, found, matches = tmp_path / "matches.jsonl", {}, EvalMatches(PLAN, folder)
    while len(found) < len(whole):
        parts = matches.play(tuple(found), lambda finished: None)
        for _, part in zip(range(9), parts, strict=False):
            found[part.part] = part
            with EventLog(log) as file:
                file.append(batch_event(found, part, PLAN))
        parts.close()
        log.write_bytes(log.read_bytes() + b'{"kind":"eval_batch","batch":0,"oppo')
        found = played_parts(log, PLAN)
    first, second = matches.teamwork(whole)["teamwork"], matches.teamwork(found)["teamwork"]
    assert str(first) == str(second) and [row["condition"] for row in first["conditions"]] == list(PLAN.conditions)
    stats = matches.stats("heuristic:easy", found)
    (row,) = rows_of_batches([batch_event(found, part, PLAN) for part in found.values()])
    assert row.episodes == row.planned == stats.episodes == 6, "the usual condition alone"
    assert np.isnan(stats.sampled_win_rate) and row.mean.value == stats.win_rate


@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_shared_targets_are_measured_against_independent_choices(batch, shared):
    """Mechs with preferences of their own share targets by chance; ``shared`` of the steps all follow the first."""
    rng, watcher = np.random.default_rng(0), TeamworkObserver(batch, 0.25)
    watcher.begin()
    for _ in range(2):
        batch.engine.batch.set("dealt", np.eye(10, dtype=np.float32))
        batch.engine.batch.set("focus", np.full((10, 10), -1, np.int32))
        watcher.before_step(None)
        watcher.after_step()
    preference = rng.uniform(0.2, 3.0, (PACK_SIZE, PACK_SIZE))
    for _ in range(400):
        choices = rng.random((10, PACK_SIZE, PACK_SIZE)) < 0.7
        odds = np.where(choices, preference, 0.0) / rng.exponential(size=choices.shape)
        chosen = (odds == odds.max(-1, keepdims=True)) & choices
        together = chosen[:, :1] & choices
        follows = (rng.random((10, 1, 1)) < shared) & together.any(-1, keepdims=True)
        watcher._choices.append(choices)
        watcher._chosen.append(np.where(follows, together, chosen))
    found = watcher.results()
    ratio = sum(work.shared for work in found) / sum(work.expected for work in found)
    assert abs(ratio - 1) < 0.02 if not shared else ratio > 1.3
    assert 0.9 < sum(work.pairs for work in found) / (10 * 400 * 10) < 1.0
    hits = np.where(np.eye(10), 0.25, -1.0)
    assert [work.contacts for work in found] == [*hits[:5, :5].tolist(), *hits[5:, 5:].tolist()], "blue, then red"
