"""Exported policies match their policies: actions and recurrent state, over steps and resets."""

from __future__ import annotations

import json
import os

import pytest
import torch

from echelon import load_policy
from echelon.config import ModelConfig
from echelon.env import layout
from echelon.rl.build import build_model
from echelon.rl.regime import EXPORTED, sharing_weights
from echelon.rl.weights import LoadedPolicy
from echelon.training import export
from echelon.training.export import checked_rows, export_policy, largest_difference
from echelon.training.policy_agent import env_config_of

MODELS = [
    ("suite", "gaussian"),
    ("classic", "gaussian"),
    ("suite", "hybrid"),
    ("classic", "hybrid"),
    ("classic", "mingru"),
]
HEADS = {"gaussian": {}, "hybrid": {"action_head": "hybrid"}, "mingru": {"recurrence": "mingru"}}


def loaded(kind: str = "suite", head: str = "gaussian", seed: int = 0) -> LoadedPolicy:
    """Return a policy whose weights and normalizer differ from their initial values."""
    torch.manual_seed(seed)
    policy = build_model(ModelConfig(kind=kind, **HEADS[head]), 994, 18, 121)
    policy.set_normalizable(torch.ones(994, dtype=torch.bool))
    policy.obs_normalizer.mean.uniform_(-0.5, 0.5)
    policy.obs_normalizer.refresh()
    for parameter in policy.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    return LoadedPolicy(policy.eval().requires_grad_(False), {"id": "feed", "update": 7, "surplus": object()})


@pytest.mark.parametrize(("kind", "head"), MODELS)
def test_torchscript_export_matches_policy_and_carries_description(tmp_path, kind, head):
    source, path = loaded(kind, head), tmp_path / "policy.pt"
    assert export_policy(source, path, "torchscript") < 1e-5
    files = {"echelon.json": ""}
    step = torch.jit.load(str(path), _extra_files=files)
    assert json.loads(files["echelon.json"])["obs_dim"] == 994 and json.loads(files["echelon.json"])["id"] == "feed"
    state, obs = source.policy.initial_state(11), torch.rand(11, 994)
    expected, after = source.policy.act(obs, state, torch.zeros(11))
    action, h, c = step(obs, state.h, state.c, torch.zeros(11))
    assert torch.allclose(action, expected, atol=1e-5)
    assert torch.allclose(h, after.h, atol=1e-5) and torch.allclose(c, after.c, atol=1e-5)


@pytest.mark.parametrize(("kind", "head"), MODELS)
def test_onnx_export_matches_policy(tmp_path, kind, head):
    onnx = pytest.importorskip("onnx", reason="onnx is an extra")
    pytest.importorskip("onnxscript", reason="onnxscript is an extra")
    path = tmp_path / "policy.onnx"
    assert export_policy(loaded(kind, head), path, "onnx") < 1e-5
    model = onnx.load(str(path))
    onnx.checker.check_model(model)
    assert json.loads({p.key: p.value for p in model.metadata_props}["echelon"])["action_dim"] == 18
    assert [i.name for i in model.graph.input] == list(export.INPUTS)


def test_largest_difference_detects_another_policy():
    first, second = loaded(), loaded(seed=1)
    steps, rows = [export.PolicyStep(x.policy) for x in (first, second)], checked_rows(first)
    assert largest_difference(steps[0], steps[0], rows, 128) == 0.0
    assert largest_difference(steps[0], steps[1], rows, 128) > 0.01


def test_largest_difference_detects_missing_state_reset(tmp_path):
    source = loaded()
    step = export.PolicyStep(source.policy)

    def without_resets(obs, h, c, done):
        return step(obs, h, c, torch.zeros_like(done))

    assert largest_difference(step, without_resets, checked_rows(source), 128) > 0.01


def test_export_is_compared_on_a_recorded_match_in_which_every_column_moves():
    champion = load_policy("champion")
    rows = checked_rows(champion)
    recorded, moved = rows.chunk(2, 1)
    low, high = layout.bounds(env_config_of(champion.meta))
    assert (recorded >= torch.from_numpy(low)).all() and (recorded <= torch.from_numpy(high)).all()
    assert (recorded[..., layout.flat_offsets()["contact_mask"][0]] < 1).any(), "mechs are seen"
    assert (moved.flatten(0, 1).std(0) > 0).all() and (recorded.flatten(0, 1).std(0) > 0).sum() > 200
    step = export.PolicyStep(champion.policy)
    for column in range(9, 15):

        def other(*inputs):
            action, h, c = step(*inputs)
            action[:, column] += 0.01  # noqa: B023 - called before the next column
            return action, h, c

        assert largest_difference(step, other, rows, champion.policy.lstm_hidden_dim) > 0.005, column


@pytest.mark.parametrize("head", ["gaussian", "hybrid"])
def test_exported_regime_chooses_the_targets_of_the_policy_on_any_mask(head):
    source = loaded("suite", head)
    rows, step = checked_rows(source), export.PolicyStep(source.policy)
    exported = export.PolicyStep(sharing_weights(source.policy, EXPORTED))
    assert largest_difference(step, exported, rows, 128) < 1e-5


def test_failed_export_leaves_no_file(tmp_path, monkeypatch):
    other = export.PolicyStep(loaded(seed=1).policy)
    monkeypatch.setitem(export.FORMATS, "torchscript", (export.write_torchscript, lambda _: other))
    with pytest.raises(ValueError, match="differs from its policy by"):
        export_policy(loaded(), tmp_path / "policy.pt", "torchscript")
    assert list(tmp_path.iterdir()) == []


def test_export_names_unknown_format_and_missing_package(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="'keras', expected one of torchscript, onnx"):
        export_policy(loaded(), tmp_path / "policy", "keras")
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ValueError, match=r"echelon\[onnx\]"):
        export_policy(loaded(), tmp_path / "policy", "onnx")


@pytest.mark.parametrize("fault", [28, 5])
def test_export_without_space_names_the_file_and_leaves_none(tmp_path, monkeypatch, fault):
    """The writer of torch ended the process with a stack of C++."""

    def fail(_: int) -> None:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"policy\.ts"):
        export_policy(loaded(), tmp_path / "policy.ts", "torchscript")
    assert list(tmp_path.iterdir()) == []


def test_export_into_a_folder_whose_name_is_no_utf8(tmp_path):
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    assert export_policy(loaded(), folder / "policy.ts", "torchscript") < 1e-5
