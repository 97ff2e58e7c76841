"""Policies fitted to rows with and without the block of orders."""

from dataclasses import asdict, replace

import pytest
import torch

from echelon import champion
from echelon.config import EnvConfig, ModelConfig
from echelon.env import layout
from echelon.env.layout import END_WIDTH, ORDERS
from echelon.rl.build import build_model
from echelon.rl.fitting import fitted
from echelon.rl.weights import LoadedPolicy, load_policy


def policy_of(env: EnvConfig, **meta) -> LoadedPolicy:
    torch.manual_seed(3)
    model = ModelConfig(kind="suite", recurrence="mingru", action_head="hybrid")
    columns, extras = layout.obs_dim(env), layout.extra_width(env)
    tail = columns - layout.FLAT_OBS_DIM - END_WIDTH - extras
    sizes = {"obs_dim": columns, "action_dim": 18, "map_width": tail, "extra_width": extras}
    meta = {**sizes, "kind": "suite", "model_cfg": asdict(model), "env_cfg": asdict(env), **meta}
    policy = build_model(model, **sizes).eval()
    policy.obs_normalizer.mean.normal_()
    policy.obs_normalizer.set_normalizable(torch.arange(columns) % 3 == 0)
    for parameter in policy.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return LoadedPolicy(policy, meta)


def rows_without_orders(columns: int) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.rand(6, columns) - 0.3


def with_block(rows: torch.Tensor) -> torch.Tensor:
    at = rows.shape[1] - END_WIDTH
    return torch.cat([rows[:, :at], torch.zeros(len(rows), ORDERS.width), rows[:, at:]], 1)


def outputs(policy, rows: torch.Tensor) -> list[torch.Tensor]:
    noise = torch.zeros(len(rows), policy.noise_dim)
    action, _, value, state = policy.sample(rows, policy.initial_state(len(rows)), torch.zeros(len(rows)), noise)
    return [action, value, state.h]


@pytest.mark.parametrize("target", [False, True])
def test_fitted_policies_act_as_before_without_orders(target):
    plain = EnvConfig(observe_target=target)
    wide = replace(plain, observe_orders=True)
    rows = rows_without_orders(layout.obs_dim(plain))
    for own, other in ((plain, wide), (wide, plain)):
        loaded = policy_of(own)
        found = fitted(loaded, layout.obs_dim(other))
        assert found.policy.obs_dim == layout.obs_dim(other) and found.meta["env_cfg"] == asdict(other)
        given = {plain: rows, wide: with_block(rows)}
        for before, after in zip(
            *(outputs(p.policy, given[e]) for p, e in ((loaded, own), (found, other))), strict=True
        ):
            torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)


def test_orders_reach_a_fitted_policy_by_gradient():
    env = EnvConfig()
    policy = fitted(policy_of(env), layout.obs_dim(env) + ORDERS.width).policy.train().requires_grad_(True)
    rows = with_block(rows_without_orders(layout.obs_dim(env)))
    rows[:, -END_WIDTH - ORDERS.width : -END_WIDTH] = 1.0
    sum(x.square().sum() for x in outputs(policy, rows)[1:]).backward()
    assert policy.core.encoder.fusion[0].weight.grad[:, -48:].abs().sum() > 0


def test_champion_is_fitted_and_others_are_left_as_they_are():
    loaded = load_policy(champion.FOLDER)
    columns = loaded.policy.obs_dim
    assert fitted(loaded, columns) is loaded
    back = fitted(fitted(loaded, columns + ORDERS.width), columns)
    for name, value in loaded.policy.state_dict().items():
        torch.testing.assert_close(back.policy.state_dict()[name], value)
    predicting = policy_of(EnvConfig(), predict=True)
    for each, wanted in ((loaded, columns - ORDERS.width), (predicting, predicting.policy.obs_dim + ORDERS.width)):
        assert fitted(each, wanted) is each
