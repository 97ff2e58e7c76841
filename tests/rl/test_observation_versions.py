"""Policies of different observation versions: what they read of a row, and growth from an earlier version."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from echelon.config import EnvConfig, ModelConfig
from echelon.env import layout
from echelon.rl.build import FlatPolicy, build_model
from echelon.rl.lstm_state import LSTMState
from echelon.rl.weights import check_readable, check_weights, grow_weights, version_of

OLD, NEW, A, B = EnvConfig(), layout.newest(EnvConfig()), 26, 5
NARROW, WIDE = layout.obs_dim(OLD), layout.obs_dim(NEW)
MODELS = {
    "suite": ModelConfig(hidden_dim=16, lstm_hidden_dim=16),
    "hybrid": ModelConfig(hidden_dim=16, lstm_hidden_dim=16, action_head="hybrid"),
    "flat": ModelConfig(kind="classic", hidden_dim=16, lstm_hidden_dim=16),
}


def policy_of(cfg: EnvConfig, model: ModelConfig, seed: int = 0, **options) -> FlatPolicy:
    torch.manual_seed(seed)
    policy = build_model(model, layout.obs_dim(cfg), A, 40, 121, obs_version=cfg.obs_version, **options)
    policy.set_normalizable(torch.tensor([row.normalizable for row in layout.columns(cfg)]))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return policy


def rows(*lead: int) -> torch.Tensor:
    """Return rows of the newest version with random masks."""
    obs = torch.rand(*lead, WIDE)
    obs[..., 500:520] = (torch.rand(*lead, 20) > 0.5).float()
    obs[..., 640:652] = (torch.rand(*lead, 12) > 0.5).float()
    return obs


@pytest.mark.parametrize("name", MODELS)
def test_grown_policy_plays_as_before_and_learns_from_new_columns(name):
    old = policy_of(OLD, MODELS[name], predict=True)
    old.obs_normalizer.mean.uniform_(-1, 1)
    old.obs_normalizer.var.uniform_(0.5, 2)
    old.obs_normalizer.refresh()
    new = policy_of(NEW, MODELS[name], seed=1, predict=True)
    new.load_state_dict(grow_weights(new, old.state_dict()))
    new.set_normalizable(torch.tensor([row.normalizable for row in layout.columns(NEW)]))
    obs, state, done = rows(B), LSTMState(torch.randn(1, B, 16), torch.randn(1, B, 16)), torch.zeros(B)
    before = old.get_action_and_value(obs[:, :NARROW], state, done, torch.rand(B, A) - 0.5)
    after = new.get_action_and_value(obs, state, done, before[0])
    for expected, found in zip(before[:4:3], after[:4:3], strict=True):
        assert torch.allclose(expected, found, atol=1e-5)
    assert torch.allclose(before[1], after[1], atol=1e-4) and torch.allclose(before[4].h, after[4].h, atol=1e-5)
    shown = obs.clone().requires_grad_(True)
    new.get_action_and_value(shown, state, done, before[0])[3].sum().backward()
    assert shown.grad is not None and not shown.grad[:, NARROW:].any(), "new columns have no effect yet"
    grown = [p.grad for k, p in new.named_parameters() if p.shape != dict(old.named_parameters())[k].shape]
    grown = [gradient for gradient in grown if gradient is not None]
    assert grown and all(gradient[:, -1].any() for gradient in grown), "new columns are learned from"


def test_aiming_columns_reach_only_contacts_that_exist():
    policy, obs = policy_of(NEW, MODELS["suite"]), rows(2)
    obs[:, 500:520] = 1.0
    obs[:, 500] = 0.0
    at = {row.name: row.index for row in layout.columns(NEW)}
    state, done = policy.initial_state(2), torch.zeros(2)
    for column, changes in (("aiming[0].range", True), ("aiming[1].range", False), ("course.path_sin", True)):
        changed = obs.clone()
        changed[1, at[column]] += 0.7
        before, after = (policy.get_value(o, state, done)[0] for o in (obs, changed))
        assert (before[1] != after[1]).item() == changes, column


def test_suite_policy_joins_version_blocks_by_name():
    names = {block.name for blocks in layout.VERSION_BLOCKS for block in blocks}
    encoder = policy_of(NEW, MODELS["suite"]).core.encoder
    assert names == {"aiming", "course"}
    assert encoder.contact_encoder.phi[0].in_features == layout.CONTACT_DIM + len(layout.AIMING)
    assert encoder.ego_encoder[0].in_features == layout.EGO_DIM + len(layout.COURSE)
    with pytest.raises(ValueError, match=r"867 columns, expected 706 \+ 40 comms .* \+ 167 of version 2"):
        build_model(MODELS["suite"], 867, A, 40, 121, obs_version=2)


@pytest.mark.parametrize("value", [0, 3, "2", None, 1.5, 10**30, [2]])
def test_unknown_observation_version_is_rejected(value):
    with pytest.raises(ValueError, match=r"checkpoint has obs_version .*, expected an integer from 1 to 2"):
        version_of({"obs_version": value})


def test_policy_reads_rows_of_its_version_and_later():
    sizes = {"obs_dim": NARROW, "action_dim": A}
    assert version_of(sizes) == 1, "checkpoints without the key are of the first version"
    for cfg in (OLD, NEW):
        check_readable(sizes, cfg, layout.obs_dim(cfg), A)
    newer = {"obs_dim": WIDE, "obs_version": 2, "action_dim": A}
    check_readable(newer, NEW, WIDE, A)
    with pytest.raises(ValueError, match=r"version 2, expected at most version 1; try --set env.obs_version=2"):
        check_readable(newer, OLD, NARROW, A)
    with pytest.raises(ValueError, match="does not fit: obs_dim 866, expected 867"):
        check_readable({**sizes, "obs_dim": 866}, NEW, WIDE, A)
    blind = replace(NEW, observe_local_map=False)
    with pytest.raises(ValueError, match="does not fit: obs_dim 867, expected 746"):
        check_readable(sizes, blind, layout.obs_dim(blind), A)


def test_growing_leaves_weights_of_another_shape_to_the_check():
    old, new = policy_of(OLD, MODELS["suite"]), policy_of(NEW, replace(MODELS["suite"], hidden_dim=8))
    with pytest.raises(ValueError, match="weights do not fit the model"):
        check_weights(new, grow_weights(new, old.state_dict()))
