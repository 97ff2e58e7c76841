"""The set encoder: invariance to order and padding, empty sets, gradients."""

from __future__ import annotations

import pytest
import torch

from echelon.rl.deepset import DeepSetEncoder

MODES = ("mean", "sum")


def masked_set(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    mask = (torch.rand(6, 8) > 0.5).float()
    mask[0] = 1.0
    return torch.randn(6, 8, 5), mask


@pytest.mark.parametrize("mode", MODES)
def test_deepset_is_permutation_invariant(mode):
    encoder, (x, mask) = DeepSetEncoder(5, 16, 7, mode), masked_set()
    order = torch.randperm(8)
    assert torch.allclose(encoder(x, mask), encoder(x[:, order], mask[:, order]), atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_deepset_ignores_padding_content(mode):
    encoder, (x, mask) = DeepSetEncoder(5, 16, 7, mode), masked_set()
    loud = torch.where(mask.bool().unsqueeze(-1), x * 1000, x)
    assert torch.allclose(encoder(x, mask), encoder(loud, mask), atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_deepset_empty_set_is_finite_with_zero_gradient(mode):
    encoder = DeepSetEncoder(5, 16, 7, mode)
    x = torch.randn(3, 8, 5, requires_grad=True)
    out = encoder(x, torch.ones(3, 8))
    out.sum().backward()
    assert torch.isfinite(out).all() and x.grad is not None and not x.grad.any()


@pytest.mark.parametrize("mode", MODES)
def test_deepset_gradient_reaches_real_rows_only(mode):
    encoder, (x, mask) = DeepSetEncoder(5, 16, 7, mode), masked_set(1)
    x.requires_grad_()
    encoder(x, mask).square().sum().backward()
    assert not x.grad[mask.bool()].any() and x.grad[~mask.bool()].any()


@pytest.mark.parametrize("mode", MODES)
def test_deepset_packed_and_dense_sums_agree(mode):
    encoder, (x, mask) = DeepSetEncoder(5, 16, 7, mode, key_dim=4), masked_set(2)
    keep = 1 - mask
    for packed, dense in zip(encoder._sum_packed(x, keep, 3), encoder._sum_dense(x, keep, 3), strict=True):
        assert torch.allclose(packed, dense, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_deepset_keys_belong_to_their_slots_and_are_zero_where_empty(mode):
    encoder, (x, mask) = DeepSetEncoder(5, 16, 7, mode, key_dim=4), masked_set(3)
    encoding, keys = encoder.encode_with_keys(x, mask, 3)
    assert torch.equal(encoding, encoder(x, mask))
    expected = encoder.key(encoder.phi(x[:, :3])) * (1 - mask[:, :3]).unsqueeze(-1)
    assert torch.allclose(keys, expected, atol=1e-6)
    keys, all_empty = encoder.encode_with_keys(x, torch.ones_like(mask), 3)[1], torch.zeros_like(expected)
    assert torch.equal(keys, all_empty)
    assert encoder.encode_with_keys(x, mask, 0)[1] is None


def test_deepset_mean_is_independent_of_entity_count():
    encoder = DeepSetEncoder(5, 16, 7)
    x = torch.randn(1, 1, 5).expand(1, 8, 5)
    few, many = torch.ones(1, 8), torch.zeros(1, 8)
    few[0, 0] = 0
    assert torch.allclose(encoder(x, few), encoder(x, many), atol=1e-5)


def test_deepset_rejects_unknown_aggregation():
    with pytest.raises(ValueError, match="median"):
        DeepSetEncoder(5, aggregation="median")
