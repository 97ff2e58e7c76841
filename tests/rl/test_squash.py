"""The squashed Gaussian: one epsilon, density, entropy, gradients."""

from __future__ import annotations

import math

import torch
from torch.distributions import Normal

from echelon.rl import squash


def test_log_prob_of_extreme_actions_is_finite():
    for edge in (1.0, -1.0, 1 - 1e-7, -(1 - 1e-7)):
        value = squash.log_prob(torch.zeros(1, 3), torch.zeros(1, 3), torch.full((1, 3), edge))
        assert torch.isfinite(value).all()
    assert abs(float(squash.unsquash(torch.tensor(1.0)))) <= 7.2545


def test_log_prob_of_stored_saturated_action_is_reproducible():
    torch.manual_seed(0)
    mean, log_std = torch.randn(64, 18), torch.full((64, 18), math.log(20.0))
    action = squash.sample(mean, log_std, torch.randn(64, 18))
    first, again = squash.log_prob(mean, log_std, action), squash.log_prob(mean, log_std, action.clone())
    assert torch.equal(first, again) and torch.isfinite(first).all()
    assert action.abs().max() < 1.0


def test_log_prob_matches_change_of_variables():
    torch.manual_seed(0)
    mean, log_std = torch.randn(100, 4) * 0.3, torch.full((100, 4), -0.5)
    action = squash.sample(mean, log_std, torch.randn(100, 4))
    u = torch.atanh(action)
    expected = (Normal(mean, log_std.exp()).log_prob(u) - torch.log(1 - action**2)).sum(-1)
    assert torch.allclose(squash.log_prob(mean, log_std, action), expected, atol=1e-4)


def test_entropy_estimate_matches_monte_carlo():
    torch.manual_seed(0)
    draws = 100_000
    mean, log_std = torch.tensor([[0.4, -0.2]]).expand(draws, 2), torch.tensor([[-0.3, 0.1]]).expand(draws, 2)
    estimate = squash.entropy(mean, log_std, torch.randn(draws, 2))
    gaussian = Normal(mean, log_std.exp()).entropy().sum(-1)
    assert (estimate <= gaussian).all()
    action = squash.sample(mean, log_std, torch.randn(draws, 2))
    monte_carlo = -squash.log_prob(mean, log_std, action).mean()
    assert abs(estimate.mean() - monte_carlo) <= 0.02 * abs(monte_carlo)


def test_distribution_stays_float32_under_autocast():
    mean = torch.randn(4, 3).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        action = squash.sample(mean, mean, torch.randn(4, 3))
        assert squash.log_prob(mean, mean, action).dtype == torch.float32
        assert squash.entropy(mean, mean, torch.randn(4, 3)).dtype == torch.float32


def test_log_prob_and_entropy_gradients_match_numeric_ones():
    torch.manual_seed(0)
    mean = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    log_std = (torch.randn(3, 4, dtype=torch.float64) * 0.2).requires_grad_()
    action = torch.rand(3, 4, dtype=torch.float64) * 1.6 - 0.8
    noise = torch.randn(3, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda m, s: squash.log_prob(m, s, action), (mean, log_std))
    assert torch.autograd.gradcheck(lambda m, s: squash.entropy(m, s, noise), (mean, log_std))
