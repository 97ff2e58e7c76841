"""Rollouts played beside the update of the one before: how old their weights are, and that none is lost."""

from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest
import torch

from echelon.telemetry.events import EventCheckpoint, EventUpdate
from echelon.training.ppo.collect import Collector
from echelon.training.ppo.optimizer import LR_FACTOR_RATIO, LR_FACTOR_START, LearningRate
from echelon.training.ppo.rollouts import Rollouts
from echelon.training.ppo.trainer import PPOTrainer
from tests.device_rules import device_rules
from tests.training.runs import assert_equal_updates, assert_equal_weights, battle_run, of, run, run_battle, weights
from tests.training.support import model_of, trainer_of

OVERLAP = {"overlap": True, "num_minibatches": 1, "update_epochs": 1}


@contextmanager
def watched():
    """Yield the weights and teacher's part of each rollout, and the same with its age of each update, as they begin."""
    played, learned = [], []
    collect, begin, finish = Collector.collect, PPOTrainer.begin, PPOTrainer.finish

    def sum_of(policy) -> float:
        return sum(float(p.detach().double().sum()) for p in policy.parameters())

    def watched_collect(self, *args):
        played.append((sum_of(self.actor.policy), self.teaching))
        return collect(self, *args)

    def watched_begin(self, buffer, *args):
        learned.append([sum_of(self.model), self.teaching, buffer.updates_behind])
        return begin(self, buffer, *args)

    def watched_finish(self, begun):
        metrics = finish(self, begun)
        learned[-1].append(metrics["approx_kl"])
        return metrics

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Collector, "collect", watched_collect)
        patch.setattr(PPOTrainer, "begin", watched_begin)
        patch.setattr(PPOTrainer, "finish", watched_finish)
        yield played, learned


def test_rollout_beside_an_update_is_one_update_old(small_run, tmp_path):
    with watched() as (played, learned):
        result, events = run(
            small_run({**OVERLAP, "lr": 0.3}, max_updates=8, total_steps=10**6, save_every=4), tmp_path
        )
    assert result.update == len(played) == len(learned) == 8
    assert [update[2] for update in learned] == [0, 1, 1, 1, 0, 1, 1, 1], "nothing waits where the run is saved"
    before = [update[0] for update in learned]
    assert [rollout[0] for rollout in played] == [before[k] for k in (0, 0, 1, 2, 4, 4, 5, 6)]
    assert [update[3] == pytest.approx(0.0, abs=1e-6) for update in learned] == [not update[2] for update in learned]
    assert [event.reason for event in of(events, EventCheckpoint)] == ["scheduled", "scheduled", "best"]


def test_overlap_on_a_device_equals_that_on_a_cpu():
    """The teacher's part in an update is that of its rollout, also where the imitation ends between them."""
    found = []
    for rules in (nullcontext, device_rules):
        with rules(), watched() as (played, learned):
            _, events = run_battle(battle_run(ppo={**OVERLAP, "num_minibatches": 2}, max_updates=5))
        assert [rollout[1] for rollout in played] == [update[1] for update in learned]
        assert [update[1].imitates for update in learned] == [True, True, False, False, False]
        found.append([(u.loss, u.entropy, u.episodes, u.global_step) for u in of(events, EventUpdate)])
    assert [tuple(pytest.approx(value, rel=1e-2) for value in row) for row in found[0]] == found[1]


def test_killed_run_continues_exactly_from_its_checkpoint(small_run, tmp_path):
    config = small_run(OVERLAP, max_updates=7, total_steps=10**6, save_every=3)
    whole, expected = run(config, tmp_path / "whole")
    seen = []

    def wants_checkpoint() -> bool:
        seen.append(0)
        if len(seen) == 5:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "killed", want_checkpoint=wants_checkpoint)
    torch.manual_seed(999)
    resumed, events = run(config, tmp_path / "killed", resume="latest")
    assert_equal_updates([e for e in expected if getattr(e, "update", 0) > 3], events)
    assert_equal_weights(weights(whole), weights(resumed))


def test_stopped_run_trains_on_the_rollout_that_waits_and_a_requested_checkpoint_waits_for_it(small_run, tmp_path):
    config = small_run(OVERLAP, total_steps=10**6, save_every=100)
    requests = iter([False, True] + [False] * 100)
    with watched() as (played, learned):
        result, events = run(config, tmp_path, stop_after=5, want_checkpoint=lambda: next(requests))
    assert result.reason == "stopped" and result.update == len(played) == len(learned) == 6
    saved = [(event.update, event.reason) for event in of(events, EventCheckpoint)]
    assert saved == [(3, "requested"), (6, "stop")]
    again, _ = run(replace(config, max_updates=9), tmp_path, resume="latest")
    assert again.update == 9


def test_target_of_the_divergence_is_twice_as_large_for_an_old_rollout():
    trainer = trainer_of(model_of(), lr=1e-3, kl_lr_target=0.02)
    rate, factors = LearningRate(trainer.optimizer, trainer.config, trainer.device), []
    rate.begin(2, updates_behind=1)
    for kl in (0.009, 0.014, 0.03, 0.1):  # half of the target and its double are 0.01 and 0.04, then 0.015 and 0.06
        rate.follow(torch.tensor(kl))
        factors.append(float(rate.factor) / LR_FACTOR_START)
    assert factors == pytest.approx([LR_FACTOR_RATIO**power for power in (1, 2, 2, 1)])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_cuda_update_beside_a_rollout_equals_one_on_the_same_stream():
    found = []
    for own_stream in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not own_stream:
                patch.setattr(Rollouts, "_stream", property(lambda _: None, lambda _, stream: None), raising=False)
            config = battle_run(ppo={**OVERLAP, "capture": True}, device="cuda", num_envs=64, max_updates=8)
            _, events = run_battle(config)
        found.append([(u.loss, u.entropy, u.episodes, u.global_step) for u in of(events, EventUpdate)])
    assert [tuple(pytest.approx(value, rel=1e-3) for value in row) for row in found[0]] == found[1]
