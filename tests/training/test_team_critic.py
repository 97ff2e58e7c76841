"""Critics of teams: what values read, and how training uses, saves and exports them."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.config import CurriculumConfig, RunConfig
from echelon.rl.host_program import has_program
from echelon.rl.regime import DEVICE
from echelon.rl.weights import load_policy
from echelon.training.central_state import MATCH_FEATURES, MECH_FEATURES
from echelon.training.ppo.critic import CriticTrainer, TeamCritic
from echelon.training.ppo.host.program import trains_by_program
from echelon.training.vec_env import VectorEnv
from tests.training.conftest import make_small_run
from tests.training.runs import assert_resumes_exactly, battle_run, collected, update
from tests.training.transfer_counter import counting

F, G, PACK = len(MECH_FEATURES), len(MATCH_FEATURES), 5


def critic_of(packs: int = 1) -> TeamCritic:
    torch.manual_seed(0)
    return TeamCritic(2 * PACK * packs * F + G, 2 * PACK * packs)


def states(mechs: torch.Tensor, match: torch.Tensor) -> torch.Tensor:
    return torch.cat([mechs.flatten(1), match], 1)


def central(**changes) -> RunConfig:
    config = make_small_run(**changes)
    env = replace(config.env, truncation_bootstraps=False)
    return replace(config, env=env, model=replace(config.model, critic="central"))


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(PACK)), st.permutations(range(PACK)), st.lists(st.booleans(), min_size=10, max_size=10))
def test_values_follow_the_order_of_mates_and_not_that_of_others(mates, others, alive):
    critic, mechs, match = critic_of(), torch.randn(2, 2, PACK, F), torch.randn(2, G)
    mechs *= torch.tensor(alive).view(2, PACK, 1)
    turned = torch.stack([mechs[:, 0, mates], mechs[:, 1, others]], 1)
    before, after = critic(states(mechs, match)), critic(states(turned, match))
    torch.testing.assert_close(before[:, mates], after, rtol=1e-4, atol=1e-5)


def test_dead_and_absent_mechs_are_not_read():
    one, two = critic_of(1), critic_of(2)
    two.load_state_dict(one.state_dict())
    mechs, match = torch.randn(3, 2, PACK, F), torch.randn(3, G)
    mechs[:, 0, 2] = mechs[:, 1, 4] = 0.0
    absent = torch.zeros(3, 2, PACK, F)
    padded = two(states(torch.cat([mechs, absent], 2), match))
    alive = mechs[:, 0, :, 0] != 0
    torch.testing.assert_close(padded[:, :PACK][alive], one(states(mechs, match))[alive])
    assert two(torch.zeros(1, 4 * PACK * F + G)).isfinite().all()


def test_advantages_are_those_of_the_critic_and_the_policy_trains_a_value_of_its_own():
    with collected(central()) as session:
        trainer, buffer, policy = session.trainer, session.buffer, session.policy
        critic = trainer.critic.critic
        trainer._compute_gae(buffer)
        for t, rows in ((0, slice(0, 2)), (5, slice(6, 8))):
            team = rows.start // buffer.team_size
            values = critic(buffer.central[t, team : team + 1])
            torch.testing.assert_close(buffer.values[t, rows], values[0])
            torch.testing.assert_close(buffer.advantages[t, rows], buffer.returns[t, rows] - values[0])
        parameters = (*policy.parameters(), *critic.parameters())
        before = [p.clone() for p in parameters]
        update(session)
        assert not any(torch.equal(p, old) for p, old in zip(parameters, before, strict=True))


def test_critic_learns_the_returns_and_survives_those_that_are_not_finite():
    with collected(central(num_envs=8, ppo={"update_epochs": 4})) as session:
        trainer, buffer, errors = session.trainer, session.buffer, []
        for step in range(40):
            trainer.critic.value(buffer)
            errors.append(float((buffer.alive * (buffer.values - buffer.returns)).square().mean()))
            returns = buffer.returns if step != 20 else buffer.returns * torch.inf
            trainer.critic.train(buffer, returns, lambda x: x, 3e-3)
        assert errors[-1] < 0.3 * errors[0]


def test_values_and_training_read_nothing_from_a_device():
    with collected(central()) as session:
        buffer, trainer, config = session.buffer, session.trainer, session.config.ppo
        critic = CriticTrainer(trainer.critic.critic, config, DEVICE, session.pool, session.group)
        with counting() as transfers:
            critic.value(buffer)
            critic.train(buffer, buffer.returns, trainer._scaled, 1e-3)
        assert transfers.faults == [] and transfers.reads == 0


def test_run_resumes_bit_exact_and_its_policy_has_no_critic(tmp_path):
    assert_resumes_exactly(central(num_envs=4, total_steps=10**6, max_updates=4), tmp_path, 2)
    with collected(make_small_run()) as session:
        assert load_policy(tmp_path / "whole").policy.state_dict().keys() == session.policy.state_dict().keys()


def test_programs_play_and_train_a_policy_beside_a_critic():
    tiny = battle_run("scratch", num_envs=2, ppo={"rollout_steps": 8}, curriculum=CurriculumConfig())
    with collected(replace(tiny, model=replace(tiny.model, critic="central")), VectorEnv) as session:
        policy = session.policy
        assert has_program(policy) and trains_by_program(policy, session.config.ppo)
        assert update(session)["vf_loss"] > 0 and session.buffer.advantages.isfinite().all()
