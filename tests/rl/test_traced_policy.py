"""A traced policy equals its policy bit for bit, for any observation and after weight changes."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from echelon.config import ModelConfig
from echelon.env.layout import END_WIDTH, FLAT_OBS_DIM, flat_offsets
from echelon.rl import traced_policy
from echelon.rl.build import FlatPolicy, build_model
from echelon.rl.traced_policy import TracedPolicies, architecture, trace_act, trace_sample

ROWS, ACTIONS, COMMS = 24, 18, 40
OBS_DIM = FLAT_OBS_DIM + COMMS + END_WIDTH
MODELS = {
    "suite": ModelConfig(hidden_dim=16, lstm_hidden_dim=32),
    "hybrid": ModelConfig(hidden_dim=16, lstm_hidden_dim=32, action_head="hybrid"),
    "without memory": ModelConfig(hidden_dim=16, lstm_hidden_dim=32, memory=False),
    "classic": ModelConfig(kind="classic", hidden_dim=16, lstm_hidden_dim=32),
    "mingru": ModelConfig(hidden_dim=16, lstm_hidden_dim=32, recurrence="mingru"),
    "classic hybrid": ModelConfig(kind="classic", hidden_dim=16, lstm_hidden_dim=32, action_head="hybrid"),
}


def fresh(model: ModelConfig) -> FlatPolicy:
    torch.manual_seed(3)
    return build_model(model, OBS_DIM, ACTIONS, COMMS).eval().requires_grad_(False)


def observations(share: float) -> torch.Tensor:
    """Return observations ``[ROWS, D]`` in which this share of the entity slots is filled."""
    obs = torch.randn(ROWS, OBS_DIM)
    for name in ("contact_mask", "squad_mask"):
        first, end = flat_offsets()[name]
        obs[:, first:end] = (torch.rand(ROWS, end - first) >= share).float()
    return obs


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_traced_policy_matches_policy_bit_for_bit(name, stochastic):
    policy = fresh(MODELS[name])
    act, state, traced_state = (
        trace_act(policy, stochastic=stochastic),
        policy.initial_state(ROWS),
        policy.initial_state(ROWS),
    )
    torch.manual_seed(4)
    with torch.inference_mode():
        for step, share in enumerate((0.3, 0.0, 1.0, 0.05, 0.6, 0.0)):
            obs, done = observations(share), (torch.rand(ROWS) < 0.3).float()
            noise = torch.randn(ROWS, policy.noise_dim) if stochastic else None
            expected, state = policy.act(obs, state, done, noise)
            got, traced_state = act(obs, traced_state, done, noise)
            assert torch.equal(got, expected), f"decision {step}, {share:.0%} of the slots filled"
            assert torch.equal(traced_state.h, state.h) and torch.equal(traced_state.c, state.c)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("central_dim", [0, 12])
@pytest.mark.parametrize("name", MODELS)
def test_traced_sample_matches_policy_bit_for_bit_in_every_precision(name, central_dim, dtype):
    policy = learner(MODELS[name], central_dim)
    sample, state, traced_state = trace_sample(policy, dtype), policy.initial_state(ROWS), policy.initial_state(ROWS)
    torch.manual_seed(4)
    for step, share in enumerate((0.3, 0.0, 1.0, 0.6)):
        obs = torch.cat([observations(share), torch.randn(ROWS, central_dim)], -1)
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
    trace_sample(learner(MODELS["suite"], 0), torch.bfloat16)
    assert torch._C._jit_set_autocast_mode(True)


def learner(model: ModelConfig, central_dim: int) -> FlatPolicy:
    torch.manual_seed(3)
    return build_model(model, OBS_DIM, ACTIONS, COMMS, central_dim=central_dim).train()


def test_traced_policy_follows_in_place_weight_changes():
    policy, other = fresh(MODELS["suite"]), fresh(MODELS["suite"])
    act, obs, state, done = (
        trace_act(policy, stochastic=False),
        observations(0.3),
        policy.initial_state(ROWS),
        torch.ones(ROWS),
    )
    before = act(obs, state, done, None)[0].clone()
    for parameter in other.parameters():
        parameter.add_(0.1)
    other.obs_normalizer.shift.fill_(0.2)
    policy.load_state_dict(other.state_dict())
    after = act(obs, state, done, None)[0]
    assert not torch.allclose(before, after) and torch.equal(after, policy.act(obs, state, done)[0])


@pytest.mark.parametrize("stochastic", [False, True])
def test_traced_policies_cache_is_weak_and_serves_any_batch_size(stochastic):
    policy, traced = fresh(MODELS["suite"]), TracedPolicies()
    act = traced.act_function(policy, stochastic=stochastic)
    assert traced.act_function(policy, stochastic=stochastic) is act
    for rows in (1, 3, ROWS):
        obs, state, done = observations(0.3)[:rows], policy.initial_state(rows), torch.ones(rows)
        noise = torch.randn(rows, policy.noise_dim) if stochastic else None
        assert torch.equal(act(obs, state, done, noise)[0], policy.act(obs, state, done, noise)[0])
    reference = weakref.ref(policy)
    del policy, act
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("traced", [False, True])
def test_act_without_done_keeps_the_recurrent_state(traced):
    policy = fresh(MODELS["classic"])
    act = trace_act(policy, stochastic=False) if traced else policy.act
    obs, state = observations(0.5), policy.initial_state(ROWS)
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

    policy = CustomPolicy(fresh(MODELS["suite"]).core, OBS_DIM)
    assert trace_act(policy, stochastic=False) == policy.act
    elsewhere = fresh(MODELS["suite"]).to("meta")
    assert trace_act(elsewhere, stochastic=False) == elsewhere.act


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_policies_of_one_architecture_share_a_trace_with_their_own_weights(name, stochastic, monkeypatch):
    traces: dict = {}
    monkeypatch.setattr(traced_policy, "_traces", traces)
    policies = [fresh(MODELS[name]) for _ in range(3)]
    for number, policy in enumerate(policies):
        for parameter in policy.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1 * number)
        for buffer in policy.buffers():
            if buffer.is_floating_point():
                buffer.mul_(1.0 + 0.01 * number)
    acts = [trace_act(policy, stochastic=stochastic) for policy in policies]
    assert len(traces) == 1
    obs, done = observations(0.4), torch.zeros(ROWS)
    got = []
    with torch.inference_mode():
        for policy, act in zip(policies, acts, strict=True):
            state = policy.initial_state(ROWS)
            noise = torch.randn(ROWS, policy.noise_dim) if stochastic else None
            got.append(act(obs, state, done, noise)[0])
            assert torch.equal(got[-1], policy.act(obs, state, done, noise)[0])
    assert not torch.equal(got[0], got[1]) and not torch.equal(got[1], got[2])


def test_architectures_differ_by_structure_and_not_by_weights():
    keys = {name: architecture(fresh(model)) for name, model in MODELS.items()}
    assert len(set(keys.values())) == len(MODELS)
    assert all(architecture(fresh(model)) == keys[name] for name, model in MODELS.items())
    wider = ModelConfig(hidden_dim=32, lstm_hidden_dim=32)
    assert architecture(fresh(wider)) != keys["suite"]
    training = fresh(MODELS["suite"]).train()
    assert architecture(training) != keys["suite"]


@pytest.mark.parametrize("make", [lambda: torch.zeros(2), lambda: [torch.zeros(2)], lambda: [lambda: 0]])
def test_policy_with_an_attribute_of_unknown_value_shares_no_trace(make):
    first, second = fresh(MODELS["suite"]), fresh(MODELS["suite"])
    first.core.extra = make()
    second.core.extra = make()
    assert architecture(first) != architecture(second)
