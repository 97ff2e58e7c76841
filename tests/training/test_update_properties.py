"""Properties of whole updates: terminal rewards, logged statistics, chunks and minibatches."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch

from echelon.telemetry.events import EventUpdate
from echelon.training.ppo.actor import Actor
from echelon.training.ppo.collect import CollectedEpisodes, Collector, RolloutParts
from echelon.training.ppo.execution import make_steps
from echelon.training.rollout import RolloutBuffer, plan_minibatches, rollout_statistics
from echelon.training.runtime.devices import read_scalars
from echelon.training.session import Session
from tests.training.fakes import FakeEnv
from tests.training.runs import of, run


def test_terminal_reward_changes_advantages_before_death():
    """Death is no boundary: the terminal reward of a dead mech reaches the steps before its death."""
    advantages = []
    for reward in (0.0, 1.0):
        buffer = RolloutBuffer.create(6, 1, 1, 1)
        buffer.alive[3:] = 0.0
        buffer.rewards[5] = reward
        buffer.compute_gae(torch.zeros(1), torch.ones(1), 0.99, 0.95)
        advantages.append(buffer.advantages[:3, 0].clone())
    assert (advantages[1] > advantages[0]).all()


def statistics(buffer: RolloutBuffer) -> dict:
    return read_scalars(rollout_statistics(buffer))[1]


def test_rollout_statistics_exclude_absent_and_dead_mechs():
    """Rows without a mech have undefined values, and dead mechs have no advantage."""
    torch.manual_seed(0)
    few, many = RolloutBuffer.create(20, 4, 1, 1), RolloutBuffer.create(20, 7, 1, 1)
    for name in ("values", "returns", "rewards", "advantages"):
        getattr(few, name).normal_()
        getattr(many, name).fill_(1e6)[:, :4] = getattr(few, name)
    many.present[:, 4:] = many.alive[:, 4:] = 0.0
    assert statistics(many) == pytest.approx(statistics(few), abs=1e-5)
    before = statistics(few)
    few.advantages[5:, 0], few.alive[5:, 0] = 1e6, 0.0
    after = statistics(few)
    assert after["adv_std"] < 2 and after["value_std"] == before["value_std"]
    assert after["dead_share"] == pytest.approx(15 / 80)


def test_collector_and_policy_reject_wrong_observation_width(small_run):
    env = FakeEnv(2)
    env.sizes = replace(env.sizes, obs_dim=6)
    with Session(small_run(), None, FakeEnv) as session:
        actor = Actor(env, session.policy, session.config.ppo, session.device)
        parts = RolloutParts(actor, session.buffer, CollectedEpisodes(2))
        with pytest.raises(AssertionError, match="differ in rows or columns"):
            Collector(parts, make_steps(parts))
        with pytest.raises(ValueError, match="4 columns, expected 5"):
            session.policy.get_value(torch.zeros(2, 4), session.policy.initial_state(2), torch.zeros(2))


def test_chunk_length_32_gives_four_minibatches(small_run):
    config = small_run(ppo={"rollout_steps": 128, "tbptt_chunk_length": 32, "num_minibatches": 4, "update_epochs": 1})
    with Session(config, None, FakeEnv) as session:
        session.collector.reset()
        session.collector.collect()
        session.collector.bootstrap(0.95)
        metrics = session.trainer.update(session.buffer, session.collector.start_state, session.collector.chunk_states)
        assert metrics["optimizer_steps"] == 4


def test_minibatch_count_is_independent_of_shuffle():
    """Ranks shuffle separately and average gradients once per minibatch."""
    for steps, rows, length, expected in product((7, 16, 20, 36), (1, 5), (3, 8, 16), (1, 2, 5)):
        counts = set()
        for seed in range(10):
            torch.manual_seed(seed)
            plan, seen = plan_minibatches(steps, rows, length, expected), torch.zeros(steps, rows)
            for units in plan:
                assert len({u.end - u.first for u in units}) == 1, "recurrent states of one minibatch keep step"
                for u in units:
                    seen[u.first : u.end, u.rows] += 1
            assert (seen == 1).all(), "every unit exactly once"
            counts.add(len(plan))
        assert len(counts) == 1, (steps, rows, length, expected)


def test_equal_chunks_follow_shuffled_order():
    torch.manual_seed(3)
    plan = plan_minibatches(48, 4, 8, 3)
    torch.manual_seed(3)
    assert [u.chunk for units in plan for u in units] == torch.randperm(6).tolist()
    assert [len(units) for units in plan] == [2, 2, 2]


@pytest.mark.slow
def test_short_chunks_learn_as_well_as_long_ones(small_run):
    final = {}
    for length, batches in ((32, 8), (128, 2)):
        ppo = {"rollout_steps": 128, "tbptt_chunk_length": length, "num_minibatches": batches, "lr": 5e-3}
        _, events = run(small_run(num_envs=16, total_steps=60_000, ppo=ppo))
        final[length] = of(events, EventUpdate)[-1].avg_return
    assert final[32] >= final[128] - 0.2 * abs(final[128]), final
