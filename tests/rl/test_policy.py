"""Everything that acts on batches has the signature of ``Actor.act``."""

from __future__ import annotations

import inspect

import pytest
import torch

from echelon.config import ModelConfig
from echelon.rl.build import FlatPolicy, build_model
from echelon.rl.model import ActorCriticLSTM
from echelon.rl.policy import Actor
from echelon.rl.suite_model import CombatSuiteActorCritic
from echelon.rl.traced_policy import TracedPolicy

ACTORS = (ActorCriticLSTM, CombatSuiteActorCritic, FlatPolicy, TracedPolicy)


def small_policy() -> FlatPolicy:
    torch.manual_seed(0)
    return build_model(ModelConfig(kind="classic", hidden_dim=8, lstm_hidden_dim=8), 6, 4).eval()


@pytest.mark.parametrize("actor", ACTORS)
def test_actor_has_the_common_act_signature(actor):
    expected = [(p.name, p.default) for p in inspect.signature(Actor.act).parameters.values()]
    assert [(p.name, p.default) for p in inspect.signature(actor.act).parameters.values()] == expected


@pytest.mark.parametrize("traced", [False, True])
def test_act_without_done_keeps_the_recurrent_state(traced):
    policy = small_policy()
    actor: Actor = TracedPolicy(policy, stochastic=False) if traced else policy
    observations, state = torch.randn(5, 6), policy.initial_state(5)
    with torch.inference_mode():
        _, state = actor.act(observations, state)
        next_action, next_state = actor.act(observations, state)
        same_action, same_state = actor.act(observations, state, torch.zeros(5))
        reset_action, _ = actor.act(observations, state, torch.ones(5))
    assert torch.equal(next_action, same_action) and torch.equal(next_state.h, same_state.h)
    assert not torch.equal(next_action, reset_action)
