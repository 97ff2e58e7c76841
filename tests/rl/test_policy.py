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
from echelon.rl.traced_policy import trace_act

ACTS = (ActorCriticLSTM.act, CombatSuiteActorCritic.act, FlatPolicy.act)


def small_policy() -> FlatPolicy:
    torch.manual_seed(0)
    return build_model(ModelConfig(kind="classic", hidden_dim=8, lstm_hidden_dim=8), 6, 4).eval()


def test_actors_have_the_common_act_signature():
    def signature(act):
        return [(p.name, p.default) for p in inspect.signature(act).parameters.values() if p.name != "self"]

    for act in (*ACTS, trace_act(small_policy(), stochastic=False)):
        assert signature(act) == signature(Actor.act)


@pytest.mark.parametrize("traced", [False, True])
def test_act_without_done_keeps_the_recurrent_state(traced):
    policy = small_policy()
    act = trace_act(policy, stochastic=False) if traced else policy.act
    observations, state = torch.randn(5, 6), policy.initial_state(5)
    with torch.inference_mode():
        _, state = act(observations, state)
        next_action, next_state = act(observations, state)
        same_action, same_state = act(observations, state, torch.zeros(5))
        reset_action, _ = act(observations, state, torch.ones(5))
    assert torch.equal(next_action, same_action) and torch.equal(next_state.h, same_state.h)
    assert not torch.equal(next_action, reset_action)
