"""Policies stored with messages between mechs act and learn on without them, as before where no message came."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from echelon.actions import ACTION_DIM
from echelon.config import EnvConfig, PPOConfig
from echelon.env import layout
from echelon.rl.build import FlatPolicy, build_model
from echelon.rl.checkpoint import STATE, export_policy_folder, find_checkpoint, open_checkpoint
from echelon.rl.messages import FIELDS
from echelon.rl.weights import load_policy
from echelon.training.checkpoint import save_checkpoint
from echelon.training.ppo.optimizer import make_optimizer
from echelon.training.starting_point import initial_weights
from echelon.training.weights import export_checkpoint, write_export
from tests.arena.policy_files import MODEL

WORDS, FIRST = 8, 706
"""Words of a message, and the first column of those of five mechs in a row of the former game."""
HEARD = 5 * WORDS
ENV = EnvConfig(observe_target=True)


class Before(nn.Module):
    """A policy of the former game, whose encoder joins the encoded messages before the local map."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        config = replace(MODEL, action_head="hybrid", recurrence="mingru")
        columns, extras = layout.obs_dim(ENV), layout.extra_width(ENV)
        tail = columns - layout.FLAT_OBS_DIM - layout.END_WIDTH - extras
        sizes: dict[str, Any] = {"action_dim": ACTION_DIM + WORDS, "map_width": tail, "extra_width": extras}
        self.policy = build_model(config, columns, **sizes).eval()
        env_cfg = {**asdict(ENV), **dict(zip(FIELDS, (WORDS, True, True), strict=True))}
        self.meta = {**sizes, "obs_dim": columns + HEARD, "comm_width": HEARD, "kind": "suite", "update": 3,
                     "model_cfg": asdict(config), "env_cfg": env_cfg, "args": {"env": env_cfg}}  # fmt: skip
        self.words, self.at = nn.Linear(HEARD, 32), 2 * config.hidden_dim + 32 + 14 + 8
        core: Any = self.policy.core
        fusion = core.encoder.fusion
        fusion[0] = nn.Linear(fusion[0].in_features + 32, 128)
        fusion.register_forward_pre_hook(self.join)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.2)
        self.policy.obs_normalizer.mean.normal_()
        self.policy.obs_normalizer.set_normalizable(torch.arange(columns) > 900)

    def join(self, _module: nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        (x,) = inputs
        return (torch.cat([x[:, : self.at], self.words(self.heard).relu(), x[:, self.at :]], 1),)

    def act(self, rows: torch.Tensor) -> list[torch.Tensor]:
        self.heard = rows[:, FIRST : FIRST + HEARD]
        return outputs(self.policy, without(rows))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the parameters by their former names, in their former order."""
        found = {}
        for name, value in self.policy.named_parameters():
            if name == "core.encoder.map_encoder.0.weight":
                found |= {f"core.encoder.comms_encoder.0.{key}": x for key, x in self.words.named_parameters()}
            found[name] = value
        return found

    def save(self, folder: Path) -> Path:
        """Write a checkpoint of the former game; the first moments of the optimizer are the parameters."""
        weights = self.policy.state_dict() | self.tensors()
        for key, value in (("mean", 0), ("var", 1), ("normalizable", False), ("scale", 1), ("shift", 0)):
            x = weights[f"obs_normalizer.{key}"]
            weights[f"obs_normalizer.{key}"] = torch.cat([x[:FIRST], x.new_full((HEARD,), value), x[FIRST:]])
        names = sorted(self.tensors(), key=lambda name: "critic" in name)
        moments = {"step": torch.tensor(5.0), "exp_avg_sq": torch.tensor(0.0)}
        adam = {str(i): {**moments, "exp_avg": self.tensors()[name]} for i, name in enumerate(names)}
        return save_checkpoint(
            folder, weights=weights, state={"trainer": {"optimizer": {"adam": adam}, "updates": 3}}, environment={},
            carry={"h": torch.zeros(1)}, manifest={**self.meta, "global_step": 7},
        ).path  # fmt: skip


def without(rows: torch.Tensor) -> torch.Tensor:
    return torch.cat([rows[:, :FIRST], rows[:, FIRST + HEARD :]], 1)


def outputs(policy: FlatPolicy, rows: torch.Tensor) -> list[torch.Tensor]:
    state, done = policy.initial_state(len(rows)), torch.zeros(len(rows))
    action, after = policy.act(rows, state, done)
    return [action[:, :ACTION_DIM], after.h, policy.get_value(rows, state, done)[0]]


def test_policy_with_messages_acts_as_before_where_none_came(tmp_path):
    before = Before()
    path = before.save(tmp_path)
    rows = torch.rand(6, before.meta["obs_dim"]) - 0.3
    silent = rows.clone()
    silent[:, FIRST : FIRST + HEARD] = 0.0
    heard, expected = before.act(rows), before.act(silent)
    assert not torch.allclose(heard[1], expected[1], atol=1e-2), "messages had an effect"
    export_policy_folder(open_checkpoint(path), tmp_path / "folder", files={"model.safetensors", STATE})
    export_checkpoint(open_checkpoint(path), tmp_path / "file.safetensors")
    write_export({**before.meta, "format": 2}, load_file(path / "model.safetensors"), tmp_path / "old.safetensors")
    for each in (path, tmp_path / "folder", tmp_path / "file.safetensors", tmp_path / "old.safetensors"):
        loaded = load_policy(each)
        assert loaded.meta["env_cfg"] == asdict(ENV) == loaded.meta["args"]["env"] and "comm_width" not in loaded.meta
        assert loaded.policy.obs_dim == loaded.meta["obs_dim"] == layout.obs_dim(ENV)
        assert loaded.policy.action_dim == loaded.meta["action_dim"] == ACTION_DIM
        for found, wanted in zip(outputs(loaded.policy, without(rows)), expected, strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    assert find_checkpoint(tmp_path / "folder").messages is None, "an exported folder has no columns of messages"


def test_moments_of_a_policy_with_messages_fit_its_parameters(tmp_path):
    before = Before()
    weights, state = initial_weights(before.save(tmp_path), layout.obs_dim(ENV), ACTION_DIM)
    policy = load_policy(tmp_path / "step-7").policy
    groups = make_optimizer(policy, PPOConfig()).param_groups
    ordered = [parameter for group in groups for parameter in group["params"]]
    names = {id(parameter): name for name, parameter in policy.named_parameters()}
    assert state["updates"] == 3 and len(ordered) == len(state["optimizer"]["adam"]) == len(names)
    for number, parameter in enumerate(ordered):
        row, name = state["optimizer"]["adam"][str(number)], names[id(parameter)]
        bias_is_shifted = name == "core.encoder.fusion.0.bias"
        wanted = before.tensors()[name] if bias_is_shifted else weights[name]
        assert row["step"] == 5 and torch.equal(row["exp_avg"], wanted), name


def test_weights_of_another_model_are_refused_in_one_line(tmp_path):
    before = Before()
    stored = load_file(before.save(tmp_path) / "model.safetensors")
    del stored["core.encoder.comms_encoder.0.bias"]
    write_export({**before.meta, "format": 2}, stored, tmp_path / "torn.safetensors")
    with pytest.raises(ValueError, match=r"'torn.safetensors' is damaged: .*comms_encoder") as refused:
        load_policy(tmp_path / "torn.safetensors")
    assert "\n" not in str(refused.value)
