"""Packed observations give the scores and gradients of whole ones, whatever their slots hold."""

from __future__ import annotations

import pytest
import torch

from echelon.config import ModelConfig
from echelon.env.layout import flat_offsets
from echelon.rl.build import FlatPolicy, build_model
from echelon.rl.deepset import NO_SLOT, PADDING_SET, Compacted
from echelon.rl.packed_obs import PackedRows
from echelon.rl.regime import DEVICE, set_regime
from tests.rl.policies import ACTIONS, ENTITIES, OBS_DIM, observations, small_policy

STEPS, ROWS = 6, 5
MODELS = ("hybrid mingru", "suite")


def fresh(model: str) -> FlatPolicy:
    """Return a policy whose normalizer scales and hides columns of every block."""
    policy = small_policy(model)
    policy.obs_normalizer.mean.normal_()
    policy.obs_normalizer.var.uniform_(0.5, 2.0)
    visible = torch.rand(OBS_DIM) < 0.8
    for name in ENTITIES:
        visible[slice(*flat_offsets()[name])] = True
    policy.set_normalizable(torch.rand(OBS_DIM) < 0.5, (~visible).nonzero().flatten().tolist())
    return policy


def rollout(share: float) -> torch.Tensor:
    """Return observations ``[T, N, D]`` with this share of the slots filled, some columns beyond the clipping."""
    return observations(STEPS, ROWS, share=share, scale=4.0)


def scores_and_gradients(policy: FlatPolicy, obs: torch.Tensor | PackedRows) -> list[torch.Tensor]:
    torch.manual_seed(2)
    length, rows = obs.shape[:2]
    actions, noise = torch.rand(length, rows, ACTIONS) * 2 - 1, torch.randn(length, rows, ACTIONS)
    dones = (torch.rand(length, rows) < 0.2).float()
    scores = policy.score_sequence(obs, actions, dones, policy.initial_state(rows), noise)
    loss = scores.logprobs.mean() + scores.values.mean() + 0.1 * scores.entropies.mean()
    gradients = torch.autograd.grad(loss, list(policy.parameters()), allow_unused=True)
    return [scores.logprobs, scores.values, scores.entropies, *(g for g in gradients if g is not None)]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("model", MODELS)
def test_packed_rows_score_as_dense_observations(model, share):
    policy = fresh(model)
    obs = rollout(share)
    packed = policy.packed(obs)
    assert packed is not None
    index = packed.index[1:5, [3, 0, 4]]
    got = scores_and_gradients(policy, PackedRows(packed, index))
    set_regime(policy, DEVICE)
    expected = scores_and_gradients(policy, obs[1:5, [3, 0, 4]])
    for mine, dense in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, dense, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("model", MODELS)
def test_rows_of_a_fixed_number_score_as_dense_observations(model, share):
    policy = fresh(model)
    obs = rollout(share)
    set_regime(policy, DEVICE)
    expected = scores_and_gradients(policy, obs)
    room = {name: int(of.sum()) + 7 for name, of in policy.count_entities(obs).items()}
    with policy.packing_into(room):
        got = scores_and_gradients(policy, obs)
    for mine, dense in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, dense, rtol=1e-4, atol=1e-5)


def test_entities_are_compacted_in_order_and_the_last_ones_lost():
    real = torch.rand(40, 5, generator=torch.Generator().manual_seed(0)) < 0.4
    sets, slots = real.nonzero(as_tuple=True)
    for rows in (len(sets) + 3, len(sets) + 200, len(sets), len(sets) - 4):
        at, count = Compacted.of(real, rows), min(rows, len(sets))
        assert torch.equal(at.sets[:count], sets[:count]) and torch.equal(at.slots[:count], slots[:count])
        assert (at.sets[count:] == -1).all() and (at.slots[count:] == NO_SLOT).all()
        lengths = torch.bincount(sets[:count], minlength=40)
        sizes = at.offsets.diff()
        assert torch.equal(sizes[:40], lengths) and at.offsets[-1] == rows and sizes[40:].sum() == rows - count
        assert sizes[40:].max() <= PADDING_SET, "no set of padding is long"


def test_packed_rows_are_sliced_as_observations():
    policy = fresh("hybrid mingru")
    packed = policy.packed(rollout(0.4))
    rows = PackedRows(packed, packed.index)
    part, whole = rows[2:4, 1:3].gather(), rows.gather()
    assert rows[2:4, 1:3].shape == (2, 2)
    assert torch.equal(part.ego_state, whole.ego_state[2:4, 1:3])
    assert part.contacts.chosen.tolist() == rows.index[2:4, 1:3].flatten().tolist()
    assert torch.equal(part.contacts.sizes(), whole.contacts.sizes().view(rows.shape)[2:4, 1:3].flatten())


def test_packed_rollout_keeps_its_content_when_the_buffer_is_overwritten():
    policy = fresh("hybrid mingru")
    obs = rollout(0.4)
    packed = policy.packed(obs)
    before = packed.gather(packed.index)
    obs.zero_()
    after = packed.gather(packed.index)
    assert torch.equal(before.ego_state, after.ego_state)
    assert torch.equal(before.contacts.features, after.contacts.features)


def test_flat_layout_is_not_packed():
    classic = build_model(ModelConfig(kind="classic"), 50, ACTIONS)
    assert classic.packed(torch.zeros(2, 3, 50)) is None


def test_policy_of_double_precision_takes_the_plain_path():
    policy, obs = fresh("hybrid mingru"), rollout(0.4)[0]
    state = policy.initial_state(ROWS)
    expected = policy.act(obs, state)[0]
    double = policy.double()
    assert double.packed(rollout(0.4).double()) is None
    got = double.act(obs.double(), type(state)(state.h.double(), state.c.double()))[0]
    torch.testing.assert_close(got.float(), expected, rtol=1e-3, atol=1e-4)
