"""Rows of the reviews that are about whole updates: who is paid, what is logged, how chunks are made."""

from __future__ import annotations

import pytest
import torch

from echelon.telemetry.events import EventUpdate
from echelon.training.collect import Collector
from echelon.training.rollout import RolloutBuffer
from echelon.training.session import Session
from tests.training.fakes import FakeEnv
from tests.training.test_loop import of, run


def test_the_dead_share_in_what_the_end_pays_and_their_earlier_advantages_change():
    """Death is no boundary: what the end pays a dead mech reaches the steps before its death."""
    advantages = []
    for pay in (0.0, 1.0):
        buffer = RolloutBuffer.create(6, 1, 1, 1)
        buffer.alive[3:] = 0.0
        buffer.rewards[5] = pay
        buffer.compute_gae(torch.zeros(1), torch.ones(1), 0.99, 0.95)
        advantages.append(buffer.advantages[:3, 0].clone())
    assert (advantages[1] > advantages[0]).all()


def test_the_spread_of_advantages_values_returns_and_rewards_is_logged_and_does_not_jump(small_run):
    _, events = run(small_run(total_steps=3000))
    updates = of(events, EventUpdate)
    for name in ("adv_std", "value_std", "return_std", "reward_std"):
        series = [getattr(u, name) for u in updates]
        assert min(series) > 0
        assert all(b < 10 * a and a < 10 * b for a, b in zip(series[1:], series[2:], strict=False)), name


def test_a_malformed_observation_is_refused_before_it_is_stored(small_run):
    env = FakeEnv(2)
    env.obs_dim = 6
    with Session(small_run(), None, FakeEnv) as session:
        with pytest.raises(AssertionError, match="differ in rows or columns"):
            Collector(env, session.policy, session.buffer, chunk_length=8, gamma=0.9, truncation_bootstraps=True,
                      amp=False)  # fmt: skip
        with pytest.raises(ValueError, match="4 columns, expected 5"):
            session.policy.get_value(torch.zeros(2, 4), session.policy.initial_state(2), torch.zeros(2))


def test_chunks_of_32_make_their_share_of_minibatches(small_run):
    config = small_run(ppo={"rollout_steps": 128, "tbptt_chunk_length": 32, "num_minibatches": 4, "update_epochs": 1})
    with Session(config, None, FakeEnv) as session:
        session.collector.reset()
        session.collector.collect()
        session.collector.bootstrap(0.95)
        metrics = session.trainer.update(session.buffer, session.collector.start_state, session.collector.chunk_states)
        assert metrics["optimizer_steps"] == 4


@pytest.mark.slow
def test_chunks_learn_no_worse_than_whole_sequences(small_run):
    final = {}
    for length, batches in ((32, 8), (128, 2)):
        ppo = {"rollout_steps": 128, "tbptt_chunk_length": length, "num_minibatches": batches, "lr": 5e-3}
        _, events = run(small_run(num_envs=16, total_steps=60_000, ppo=ppo))
        final[length] = of(events, EventUpdate)[-1].avg_return
    assert final[32] >= final[128] - 0.2 * abs(final[128]), final
