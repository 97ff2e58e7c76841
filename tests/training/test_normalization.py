"""Running statistics of returns and observations."""

from __future__ import annotations

import numpy as np
import torch

from echelon.rl.obs_norm import ObsNormalizer
from echelon.training.normalization import ReturnNormalizer, RunningMeanStd, update_obs_normalizer


def test_running_mean_std_matches_pooled_samples():
    rng = np.random.default_rng(0)
    batches = [rng.normal(3, 5, (n, 2)) for n in (10, 1, 300)]
    rms = RunningMeanStd(epsilon=1e-8, shape=(2,))
    for batch in batches:
        rms.update(torch.from_numpy(batch))
    everything = np.concatenate(batches)
    assert np.allclose(rms.mean.numpy(), everything.mean(0), atol=1e-4)
    assert np.allclose(rms.var.numpy(), everything.var(0, ddof=1), rtol=0.02)


def test_running_mean_std_handles_empty_and_single_batches():
    rms = RunningMeanStd(epsilon=1e-4)
    rms.update(torch.zeros(0))
    assert float(rms.mean) == 0.0 and float(rms.var) == 1.0
    rms.update(torch.tensor([7.0]))
    assert torch.isfinite(rms.var) and abs(float(rms.mean) - 7.0) < 0.01


def test_return_normalizer_scales_and_roundtrips():
    torch.manual_seed(0)
    first, second = ReturnNormalizer(), ReturnNormalizer()
    first.update(torch.randn(500, 4) * 40 + 10)
    out = first.normalize(torch.randn(1000) * 40 + 10)
    assert abs(float(out.mean())) < 0.15 and abs(float(out.std()) - 1) < 0.1
    second.load_state_dict(first.state_dict())
    assert torch.equal(second.normalize(out), first.normalize(out))


def test_running_mean_std_loads_in_place():
    first, second = RunningMeanStd(shape=(2,)), RunningMeanStd(shape=(2,))
    first.update(torch.randn(50, 2) * 3 + 1)
    places = [x.data_ptr() for x in (second.mean, second.var, second.count)]
    second.load_state_dict(first.state_dict())
    assert [x.data_ptr() for x in (second.mean, second.var, second.count)] == places
    assert all(torch.equal(value, first.state_dict()[name]) for name, value in second.state_dict().items())


def test_obs_normalizer_standardizes_living_rows_of_chosen_columns():
    torch.manual_seed(0)
    normalizer = ObsNormalizer(3)
    normalizer.set_normalizable(torch.tensor([True, False, True]))
    obs = torch.randn(50, 8, 3) * 4 + 2
    alive = (torch.rand(50, 8) > 0.3).float()
    obs = obs * alive.unsqueeze(-1)
    update_obs_normalizer(normalizer, obs, alive)
    out = normalizer(obs)[alive.bool()]
    assert torch.allclose(out[:, [0, 2]].mean(0), torch.zeros(2), atol=1e-3)
    assert torch.allclose(out[:, [0, 2]].std(0), torch.ones(2), atol=1e-2)
    assert torch.equal(out[:, 1], obs[alive.bool()][:, 1].clamp(-10, 10))
    again = ObsNormalizer(3)
    again.load_state_dict(normalizer.state_dict())
    assert torch.equal(again(obs), normalizer(obs))
