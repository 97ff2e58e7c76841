"""Scores of actions with written-out gradients against the same formulas, differentiated automatically.

In float64: in float32 the automatic gradient of a saturated draw is that of a difference of nearly equal numbers.
"""

from __future__ import annotations

import pytest
import torch

from echelon.rl.action_columns import take
from echelon.rl.action_distribution import (
    GAUSSIAN,
    HYBRID,
    UNAVAILABLE,
    ActionDistribution,
    ActionLayout,
    ActionParameters,
)
from echelon.rl.action_score import take_columns

A, ROWS = 26, 40


def parameters(layout: ActionLayout) -> ActionParameters:
    """Return random parameters, some of them extreme; some choices are unavailable."""
    location = 2.0 * torch.randn(ROWS, A, dtype=torch.float64)
    location[:4] *= 20.0
    log_std = 0.5 * torch.randn(ROWS, A, dtype=torch.float64) - 0.5
    logits = None
    if layout.selectors:
        logits = layout.stack([2.0 * torch.randn(ROWS, len(s.codes), dtype=torch.float64) for s in layout.selectors])
        logits[::3, 0, :2] = UNAVAILABLE
    return ActionParameters(*(x if x is None else x.requires_grad_() for x in (location, log_std, logits)))


@pytest.mark.parametrize("layout", [GAUSSIAN, HYBRID])
def test_score_gradients_match_automatic_ones(layout):
    torch.manual_seed(3)
    distribution, given = ActionDistribution(A, layout), parameters(layout)
    noise = torch.randn(ROWS, distribution.noise_dim, dtype=torch.float64)
    action = distribution.sample(given, noise).detach()
    action[5:8] = torch.rand(3, A, dtype=torch.float64) * 2 - 1
    action[8] = 1.0
    weights = torch.randn(4, ROWS, dtype=torch.float64)
    results = []
    for written in (True, False):
        if written:
            logprob, entropies = distribution.score(given, action, noise)
        else:
            logprob, entropies = distribution.log_prob(given, action), distribution.entropy(given, noise)
        loss = sum((w * x).sum() for w, x in zip(weights, (logprob, *entropies), strict=True))
        inputs = [x for x in given if x is not None]
        results.append([logprob, *entropies, *torch.autograd.grad(loss, inputs, allow_unused=True)])
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


def test_take_columns_has_the_values_and_gradient_of_slices():
    x = torch.randn(3, 4, A, requires_grad=True)
    for runs in (((0, 4), (18, 26)), ((5, 9),), ((0, A),)):
        got, expected = take_columns(x, runs), take(x, runs)
        weight = torch.randn_like(expected)
        assert torch.equal(got, expected)
        gradients = [torch.autograd.grad((weight * y).sum(), x)[0] for y in (got, expected)]
        assert torch.equal(*gradients)
