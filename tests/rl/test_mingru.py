"""MinGRU against a plain-Python oracle: outputs, gradients, episode starts, one step and whole policies."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from echelon.config import ModelConfig
from echelon.rl.build import build_model
from echelon.rl.lstm_state import LSTMState
from echelon.rl.recurrent import LONGEST_MEMORY, SHORTEST_MEMORY, MinGRU, scan_stepwise
from echelon.rl.weights import policy_from

T, B, F, H = 32, 5, 7, 6
PATTERNS = ("none", "starts", "scattered", "every step")


def starts(pattern: str) -> torch.Tensor:
    """Return episode starts ``[T, B]``."""
    d = torch.zeros(T, B, dtype=torch.float64)
    if pattern == "starts":
        d[0] = 1
    if pattern == "scattered":
        d[3, 1] = d[3, 2] = d[17, 1] = d[18, 1] = d[0, 4] = d[T - 1, 0] = 1
    if pattern == "every step":
        d[:] = 1
    return d


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def oracle(gates, dones, memory):
    """Return outputs ``[T, B, H]`` and the last memory ``[B, H]`` of ``gates [T, B, 3 H]``, number by number."""
    outputs, last = np.zeros(gates.shape[:2] + memory.shape[1:]), np.array(memory, dtype=np.float64)
    for t in range(len(gates)):
        for b in range(gates.shape[1]):
            for h in range(memory.shape[1]):
                update, output, candidate = (float(gates[t, b, part * memory.shape[1] + h]) for part in range(3))
                before = 0.0 if dones[t, b] else last[b, h]
                last[b, h] = (1.0 - sigmoid(update)) * before + sigmoid(update) * candidate
                outputs[t, b, h] = (1.0 - sigmoid(output)) * candidate + sigmoid(output) * last[b, h]
    return outputs, last


def inputs(steps: int = T, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    gates = torch.randn(steps, B, 3 * H, generator=generator, dtype=torch.float64) * 2
    memory = torch.randn(B, H, generator=generator, dtype=torch.float64)
    return gates.to(dtype).requires_grad_(), memory.to(dtype).requires_grad_()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_scan_matches_oracle(pattern):
    (gates, memory), dones = inputs(), starts(pattern)
    expected, last = oracle(gates.detach().numpy(), dones, memory.detach().numpy())
    outputs, after = scan_stepwise(gates, (1.0 - dones.float()).unsqueeze(-1), memory)
    np.testing.assert_allclose(outputs.detach(), expected, atol=1e-5)
    np.testing.assert_allclose(after.detach(), last, atol=1e-5)


def test_scan_gradient_matches_central_differences_of_oracle():
    (gates, memory), dones, nudge = inputs(4, torch.float64), starts("scattered")[2:6], 1e-6
    weights = torch.linspace(-1, 1, 4 * B * H, dtype=torch.float64).view(4, B, H)

    def loss(g, m) -> float:
        outputs, last = oracle(g, dones, m)
        return float((outputs * weights.numpy()).sum() + (last**2).sum())

    outputs, last = scan_stepwise(gates, (1.0 - dones).unsqueeze(-1), memory)
    found = torch.autograd.grad((outputs * weights).sum() + last.square().sum(), (gates, memory))
    plain = [gates.detach().numpy().copy(), memory.detach().numpy().copy()]
    rng = np.random.default_rng(0)
    for part, gradient in enumerate(found):
        for flat in rng.choice(plain[part].size, 24, replace=False):
            at = np.unravel_index(flat, plain[part].shape)
            change = []
            for sign in (1, -1):
                moved = [array.copy() for array in plain]
                moved[part][at] += sign * nudge
                change.append(loss(*moved))
            assert float(gradient[at]) == pytest.approx((change[0] - change[1]) / (2 * nudge), abs=1e-6)


def test_episode_start_within_a_chunk_forgets_exactly():
    torch.manual_seed(0)
    gru, x, dones = MinGRU(F, H), torch.randn(T, B, F, requires_grad=True), starts("none").float()
    dones[9] = 1
    full = LSTMState(torch.full((1, B, H), 1e30), torch.zeros(1, B, H))
    whole, end = gru(x, dones, full)
    fresh, fresh_end = gru(x[9:], torch.zeros(T - 9, B), LSTMState(*torch.zeros(2, 1, B, H)))
    assert torch.equal(whole[9:], fresh) and all(torch.equal(a, b) for a, b in zip(end, fresh_end, strict=True))
    (gradient,) = torch.autograd.grad(whole[9:].sum() + end.h.sum(), x)
    assert not gradient[:9].any() and gradient[9:].any()


def test_chunk_equals_steps_and_leaves_unused_memory_empty():
    torch.manual_seed(0)
    gru, x, state = MinGRU(F, H), torch.randn(T, B, F), LSTMState(*torch.zeros(2, 1, B, H))
    y, end = gru(x, torch.zeros(T, B), state)
    for t in range(T):
        single, state = gru.step(x[t], state)
        torch.testing.assert_close(single, y[t], atol=1e-5, rtol=0)
    for part, expected in zip(end, state, strict=True):
        torch.testing.assert_close(part, expected, atol=1e-5, rtol=0)
    assert end.h.any() and not end.c.any()


def test_initial_time_constants_are_spread_and_weights_orthogonal():
    layer = MinGRU(H, H).layers[0]
    share = torch.sigmoid(layer.bias[:H])
    torch.testing.assert_close(1 / share[[0, -1]], torch.tensor([SHORTEST_MEMORY, LONGEST_MEMORY]))
    assert (share.diff() < 0).all() and not layer.bias[H:].any()
    for weight in layer.weight.chunk(3):
        torch.testing.assert_close(weight.T @ weight, torch.eye(H), atol=1e-5, rtol=0)


def test_checkpoint_metadata_decides_recurrence():
    sizes = {"obs_dim": 5, "action_dim": 3, "map_width": 0}
    for recurrence, part in (("lstm", "core.lstm.weight_hh_l0"), ("mingru", "core.mingru.layers.0.weight")):
        config = {"kind": "classic", "hidden_dim": 4, "lstm_hidden_dim": 4, "recurrence": recurrence}
        weights = build_model(ModelConfig(**config), 5, 3).state_dict()
        assert part in weights
        loaded = policy_from({"model_cfg": config, **sizes}, weights).state_dict()
        assert all(torch.equal(loaded[name], tensor) for name, tensor in weights.items())
    with pytest.raises(ValueError, match="missing core.lstm"):
        policy_from({"model_cfg": {"kind": "classic", "hidden_dim": 4, "lstm_hidden_dim": 4}, **sizes}, weights)
