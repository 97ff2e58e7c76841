"""What a policy reads of the blocks at the end of a row."""

from __future__ import annotations

import pytest
import torch

from echelon.config import EnvConfig, ModelConfig
from echelon.env import layout
from echelon.rl.build import FlatPolicy, build_model

ENV, A = EnvConfig(), 26
WIDE = layout.obs_dim(ENV)
MODEL = ModelConfig(hidden_dim=16, lstm_hidden_dim=16)


def policy_of() -> FlatPolicy:
    torch.manual_seed(0)
    policy = build_model(MODEL, WIDE, A, 40, 121)
    policy.set_normalizable(torch.tensor([row.normalizable for row in layout.columns(ENV)]))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return policy


def test_aiming_columns_reach_only_contacts_that_exist():
    policy, obs = policy_of(), torch.rand(2, WIDE)
    obs[:, 500:520] = obs[:, 640:652] = 1.0
    obs[:, 500] = 0.0
    at = {row.name: row.index for row in layout.columns(ENV)}
    state, done = policy.initial_state(2), torch.zeros(2)
    for column, changes in (("aiming[0].range", True), ("aiming[1].range", False), ("course.path_sin", True)):
        changed = obs.clone()
        changed[1, at[column]] += 0.7
        before, after = (policy.get_value(o, state, done)[0] for o in (obs, changed))
        assert (before[1] != after[1]).item() == changes, column


def test_suite_policy_joins_end_blocks_by_name():
    encoder = policy_of().core.encoder
    assert encoder.contact_encoder.phi[0].in_features == layout.CONTACT_DIM + len(layout.AIMING)
    assert encoder.ego_encoder[0].in_features == layout.EGO_DIM + len(layout.COURSE)
    with pytest.raises(ValueError, match=r"867 columns, expected 706 \+ 40 comms .* \+ 167 at the end"):
        build_model(MODEL, 867, A, 40, 121)
