"""What a policy reads of a row: the blocks at its end by name, and no column that ``model.hidden_columns`` hides."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
import torch

from echelon.config import EnvConfig, ModelConfig, RunConfig
from echelon.env import layout
from echelon.rl.build import build_model
from echelon.rl.lstm_state import LSTMState
from echelon.rl.weights import load_policy
from echelon.training.weights import export_policy_weights

ENV = EnvConfig()
SMALL = ModelConfig(hidden_dim=16, lstm_hidden_dim=16)
WIDTHS = {"map_width": 121, "extra_width": 0}


def run_of(hidden: str, **model) -> RunConfig:
    return RunConfig(env=ENV, model=replace(SMALL, hidden_columns=hidden, **model))


def policy_of(run: RunConfig):
    torch.manual_seed(3)
    policy = build_model(run.model, layout.obs_dim(run.env), 18, *WIDTHS.values())
    columns = torch.tensor([column.normalizable for column in layout.columns(run.env)])
    policy.set_normalizable(columns, layout.hidden_columns(run))
    policy.obs_normalizer.mean.uniform_(-1, 1)
    policy.obs_normalizer.refresh()
    return policy


def gradient(policy, obs: torch.Tensor) -> torch.Tensor:
    """Return which columns ``[D] bool`` of ``obs [B, D]`` move the value or the action's log-probability."""
    obs = obs.clone().requires_grad_(True)
    state = LSTMState(*(torch.zeros(1, len(obs), 16) for _ in "hc"))
    _, logprob, _, value, _ = policy.get_action_and_value(obs, state, torch.zeros(len(obs)), torch.zeros(len(obs), 18))
    (found,) = torch.autograd.grad((logprob + value).sum(), obs)
    return found.abs().sum(0) > 0


@pytest.mark.parametrize("hidden", ["course", "aiming.bearing_* ego.hull", "local_map", "aiming.range course.path_*"])
def test_only_hidden_columns_lose_their_influence(hidden):
    run = run_of(hidden)
    columns = torch.zeros(layout.obs_dim(ENV), dtype=torch.bool)
    columns[layout.hidden_columns(run)] = True
    obs = 0.1 + 0.8 * torch.rand(4, layout.obs_dim(ENV))
    for mask in layout.ENTITY_MASKS:
        obs[:, slice(*layout.flat_offsets()[mask])] = 0.0
    whole, without = gradient(policy_of(run_of("")), obs), gradient(policy_of(run), obs)
    assert whole[columns].all() and not without[columns].any()
    assert torch.equal(without[~columns], whole[~columns])


def test_stored_policy_keeps_its_hidden_columns(tmp_path):
    run = run_of("course aiming.own_target")
    policy = policy_of(run)
    meta = {
        "kind": "suite", "obs_dim": layout.obs_dim(ENV), "action_dim": 18, **WIDTHS,
        "model_cfg": asdict(run.model),
    }  # fmt: skip
    export_policy_weights(policy, meta, tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors").policy
    obs, done = torch.rand(3, layout.obs_dim(ENV)), torch.zeros(3)
    changed = obs.clone()
    changed[:, layout.hidden_columns(run)] += 0.5
    values = [p.get_value(o, p.initial_state(3), done)[0] for p in (policy, loaded) for o in (obs, changed)]
    assert all(torch.equal(values[0], value) for value in values[1:])


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        ("course.pat", "model.hidden_columns is 'course.pat', expected a name that 'echelon config observation' lists"),
        ("contact_mask", "model.hidden_columns is 'contact_mask.padding', expected columns without masks"),
    ],
)
def test_unknown_columns_and_masks_are_refused(hidden, message):
    with pytest.raises(ValueError) as refused:
        layout.hidden_columns(run_of(hidden))
    assert message in str(refused.value)


def test_aiming_columns_reach_only_contacts_that_exist():
    policy, obs = policy_of(run_of("")), torch.rand(2, layout.obs_dim(ENV))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
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
    encoder = policy_of(run_of("")).core.encoder
    assert encoder.contact_encoder.phi[0].in_features == layout.CONTACT_DIM + len(layout.AIMING)
    assert encoder.ego_encoder[0].in_features == layout.EGO_DIM + len(layout.COURSE)
    with pytest.raises(ValueError, match=r"827 columns, expected 706 \+ 121 map .* \+ 167 at the end"):
        build_model(SMALL, 827, 18, 121)
