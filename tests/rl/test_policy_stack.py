"""Policies that act in one batched forward pass act as they do one by one."""

from __future__ import annotations

import warnings

import pytest
import torch

from echelon.config import ModelConfig
from echelon.env.layout import END_WIDTH, FLAT_OBS_DIM
from echelon.rl.build import FlatPolicy, build_model
from echelon.rl.lstm_state import LSTMState
from echelon.rl.traced_policy import PolicyStack, stack_by_architecture
from tests.device_rules import device_rules

WIDTH = FLAT_OBS_DIM + END_WIDTH
ROWS, HIDDEN = 5, 24
MODELS = {
    "hybrid": {"action_head": "hybrid", "recurrence": "mingru"},
    "gaussian": {"recurrence": "mingru"},
    "no memory": {"recurrence": "mingru", "memory": False},
    "classic": {"recurrence": "mingru", "kind": "classic"},
}


def fresh(seed: int, **model) -> FlatPolicy:
    """Return a policy whose weights and normalizer follow from a seed."""
    torch.manual_seed(seed)
    config = ModelConfig(hidden_dim=16, lstm_hidden_dim=HIDDEN, **model)
    policy = build_model(config, WIDTH, 26)
    for parameter in policy.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    policy.obs_normalizer.scale.uniform_(0.5, 2.0)
    return policy.eval().requires_grad_(False)


def inputs(policies: int, noise_dim: int):
    """Return observations, recurrent state, episode starts and noise of all policies."""
    torch.manual_seed(9)
    state = LSTMState(*(torch.randn(policies, 1, ROWS, HIDDEN) for _ in "hc"))
    starts = (torch.rand(policies, ROWS) < 0.3).float()
    return torch.rand(policies, ROWS, WIDTH), state, starts, torch.randn(policies, ROWS, noise_dim)


@pytest.mark.parametrize("amp", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_stack_acts_as_its_policies(name, sampled, amp):
    with device_rules():
        policies = [fresh(seed, **MODELS[name]) for seed in range(3)]
    assert stack_by_architecture(policies) == [[0, 1, 2]]
    obs, state, done, noise = inputs(len(policies), policies[0].noise_dim)
    draw = noise if sampled else None
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=amp):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an operation that is not mapped, but run policy by policy, says so
            action, after = PolicyStack(policies).act(obs, state, done, draw)
        for g, policy in enumerate(policies):
            before = LSTMState(state.h[g], state.c[g])
            own, own_after = policy.act(obs[g], before, done[g], None if draw is None else draw[g])
            tolerance = 3e-2 if amp else 1e-5
            torch.testing.assert_close(after.h[g], own_after.h, rtol=tolerance, atol=tolerance)
            torch.testing.assert_close(after.c[g], own_after.c, rtol=tolerance, atol=tolerance)
            if not amp:  # there a rounded logit may make another choice
                torch.testing.assert_close(action[g], own, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(action[0], action[1])


def test_only_policies_of_one_known_architecture_share_a_stack():
    class CustomPolicy(FlatPolicy):
        pass

    lstms = [fresh(seed) for seed in range(2)]
    hybrids = [fresh(seed, **MODELS["hybrid"]) for seed in range(3)]
    custom = CustomPolicy(hybrids[0].core, WIDTH)
    policies = [hybrids[0], lstms[0], hybrids[1], custom, lstms[1], fresh(0, **MODELS["gaussian"]), hybrids[2]]
    assert stack_by_architecture(policies) == [[0, 2, 6], [1], [3], [4], [5]]


def test_policy_alone_acts_as_itself():
    policy = fresh(1)
    obs, state, done, noise = inputs(1, policy.noise_dim)
    action, after = PolicyStack([policy]).act(obs, state, done, noise)
    own, own_after = policy.act(obs[0], LSTMState(state.h[0], state.c[0]), done[0], noise[0])
    assert torch.equal(action[0], own) and torch.equal(after.h[0], own_after.h) and torch.equal(after.c[0], own_after.c)
