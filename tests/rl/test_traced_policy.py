"""Policies that are traced act as they are, bit for bit; those in one batched forward pass as they do one by one."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest
import torch

from echelon.rl import traced_policy
from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.rl.traced_policy import (
    PolicyStack,
    TracedPolicies,
    architecture,
    stack_by_architecture,
    trace_act,
    trace_sample,
)
from tests.device_rules import device_rules
from tests.rl.policies import HIDDEN, OBS_DIM, frozen, observations, small_policy

ROWS = 24
MODELS = ("suite", "hybrid", "without memory", "classic", "mingru", "classic hybrid")


def fresh(name: str, seed: int = 3) -> FlatPolicy:
    return frozen(small_policy(name, seed))


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_traced_policy_matches_policy_bit_for_bit(name, stochastic):
    policy = fresh(name)
    act = trace_act(policy, stochastic=stochastic)
    state = traced_state = policy.initial_state(ROWS)
    torch.manual_seed(4)
    with torch.inference_mode():
        for step, share in enumerate((0.3, 0.0, 1.0, 0.05, 0.6, 0.0)):
            obs, done = observations(ROWS, share=share), (torch.rand(ROWS) < 0.3).float()
            noise = torch.randn(ROWS, policy.noise_dim) if stochastic else None
            expected, state = policy.act(obs, state, done, noise)
            got, traced_state = act(obs, traced_state, done, noise)
            assert torch.equal(got, expected), f"decision {step}, {share:.0%} of the slots filled"
            assert torch.equal(traced_state.h, state.h) and torch.equal(traced_state.c, state.c)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("name", MODELS)
def test_traced_sample_matches_policy_bit_for_bit_in_every_precision(name, dtype):
    policy = small_policy(name)
    sample, state, traced_state = trace_sample(policy, dtype), policy.initial_state(ROWS), policy.initial_state(ROWS)
    torch.manual_seed(4)
    for step, share in enumerate((0.3, 0.0, 1.0, 0.6)):
        obs = observations(ROWS, share=share)
        done, noise = (torch.rand(ROWS) < 0.3).float(), torch.randn(ROWS, policy.noise_dim)
        with torch.inference_mode():
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype is not None):
                *expected, state = policy.sample(obs, state, done, noise)
            *got, traced_state = sample(obs, traced_state, done, noise)
        for value, other in zip((*got, *traced_state), (*expected, *state), strict=True):
            assert torch.equal(value, other), f"step {step}, {share:.0%} of the slots filled"
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(0.01)


def test_tracing_keeps_autocast_of_other_traces():
    assert torch._C._jit_set_autocast_mode(True)
    trace_sample(small_policy("suite"), torch.bfloat16)
    assert torch._C._jit_set_autocast_mode(True)


def test_traced_policy_follows_in_place_weight_changes():
    policy, other = fresh("suite"), fresh("suite")
    act, obs = trace_act(policy, stochastic=False), observations(ROWS, share=0.3)
    state, done = policy.initial_state(ROWS), torch.ones(ROWS)
    before = act(obs, state, done, None)[0].clone()
    for parameter in other.parameters():
        parameter.add_(0.1)
    other.obs_normalizer.shift.fill_(0.2)
    policy.load_state_dict(other.state_dict())
    after = act(obs, state, done, None)[0]
    assert not torch.allclose(before, after) and torch.equal(after, policy.act(obs, state, done)[0])


@pytest.mark.parametrize("stochastic", [False, True])
def test_traced_policies_cache_is_weak_and_serves_any_batch_size(stochastic):
    policy, traced = fresh("suite"), TracedPolicies()
    act = traced.act_function(policy, stochastic=stochastic)
    assert traced.act_function(policy, stochastic=stochastic) is act
    for rows in (1, 3, ROWS):
        obs, state, done = observations(rows, share=0.3), policy.initial_state(rows), torch.ones(rows)
        noise = torch.randn(rows, policy.noise_dim) if stochastic else None
        assert torch.equal(act(obs, state, done, noise)[0], policy.act(obs, state, done, noise)[0])
    reference = weakref.ref(policy)
    del policy, act
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("traced", [False, True])
def test_act_without_done_keeps_the_recurrent_state(traced):
    policy = fresh("classic")
    act = trace_act(policy, stochastic=False) if traced else policy.act
    obs, state = observations(ROWS, share=0.5), policy.initial_state(ROWS)
    with torch.inference_mode():
        _, state = act(obs, state)
        next_action, next_state = act(obs, state)
        same_action, same_state = act(obs, state, torch.zeros(ROWS))
        reset_action, _ = act(obs, state, torch.ones(ROWS))
    assert torch.equal(next_action, same_action) and torch.equal(next_state.h, same_state.h)
    assert not torch.equal(next_action, reset_action)


def test_untraceable_policy_is_used_directly():
    class CustomPolicy(FlatPolicy):
        pass

    policy = CustomPolicy(fresh("suite").core, OBS_DIM)
    assert trace_act(policy, stochastic=False) == policy.act
    elsewhere = fresh("suite").to("meta")
    assert trace_act(elsewhere, stochastic=False) == elsewhere.act


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_policies_of_one_architecture_share_a_trace_with_their_own_weights(name, stochastic, monkeypatch):
    traces: dict = {}
    monkeypatch.setattr(traced_policy, "_traces", traces)
    policies = [fresh(name, seed) for seed in range(3)]
    acts = [trace_act(policy, stochastic=stochastic) for policy in policies]
    assert len(traces) == 1
    obs, done = observations(ROWS, share=0.4), torch.zeros(ROWS)
    got = []
    with torch.inference_mode():
        for policy, act in zip(policies, acts, strict=True):
            state = policy.initial_state(ROWS)
            noise = torch.randn(ROWS, policy.noise_dim) if stochastic else None
            got.append(act(obs, state, done, noise)[0])
            assert torch.equal(got[-1], policy.act(obs, state, done, noise)[0])
    assert not torch.equal(got[0], got[1]) and not torch.equal(got[1], got[2])


def test_architectures_differ_by_structure_and_not_by_weights():
    keys = {name: architecture(fresh(name)) for name in MODELS}
    assert len(set(keys.values())) == len(MODELS)
    assert all(architecture(fresh(name, seed=4)) == keys[name] for name in MODELS)
    for other in (frozen(small_policy("suite", hidden_dim=32)), fresh("suite").train()):
        assert architecture(other) != keys["suite"]


@pytest.mark.parametrize("make", [lambda: torch.zeros(2), lambda: [torch.zeros(2)], lambda: [lambda: 0]])
def test_policy_with_an_attribute_of_unknown_value_shares_no_trace(make):
    first, second = fresh("suite"), fresh("suite")
    first.core.extra = make()
    second.core.extra = make()
    assert architecture(first) != architecture(second)


STACK_ROWS = 5
STACKED = ("hybrid mingru", "mingru", "mingru without memory", "classic mingru")


def inputs(policies: int, noise_dim: int):
    """Return observations, recurrent state, episode starts and noise of all policies."""
    torch.manual_seed(9)
    state = LSTMState(*(torch.randn(policies, 1, STACK_ROWS, HIDDEN) for _ in "hc"))
    starts = (torch.rand(policies, STACK_ROWS) < 0.3).float()
    return torch.rand(policies, STACK_ROWS, OBS_DIM), state, starts, torch.randn(policies, STACK_ROWS, noise_dim)


@pytest.mark.parametrize("amp", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("name", STACKED)
def test_stack_acts_as_its_policies(name, sampled, amp):
    with device_rules():
        policies = [fresh(name, seed) for seed in range(3)]
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

    lstms = [fresh("suite", seed) for seed in range(2)]
    hybrids = [fresh("hybrid mingru", seed) for seed in range(3)]
    custom = CustomPolicy(hybrids[0].core, OBS_DIM)
    policies = [hybrids[0], lstms[0], hybrids[1], custom, lstms[1], fresh("mingru", 0), hybrids[2]]
    assert stack_by_architecture(policies) == [[0, 2, 6], [1], [3], [4], [5]]


def test_policy_alone_acts_as_itself():
    policy = fresh("suite", 1)
    obs, state, done, noise = inputs(1, policy.noise_dim)
    action, after = PolicyStack([policy]).act(obs, state, done, noise)
    own, own_after = policy.act(obs[0], LSTMState(state.h[0], state.c[0]), done[0], noise[0])
    assert torch.equal(action[0], own) and torch.equal(after.h[0], own_after.h) and torch.equal(after.c[0], own_after.c)
