"""Checkpoints: atomic writes, plain values only, strict loading."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import multiprocessing
import os
import resource
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from echelon.config import ModelConfig
from echelon.rl.build import build_model
from echelon.rl.checkpoint import latest_valid, open_checkpoint
from echelon.rl.weights import check_dimensions, load_policy, load_weights, policy_from
from echelon.training import checkpoint as checkpoints
from echelon.training.weights import export_checkpoint, write_export

CONFIG = ModelConfig(kind="classic", hidden_dim=4, lstm_hidden_dim=4)
CHILD_LIMIT_S = 60.0
SHAPE = {"obs_dim": 5, "action_dim": 3, "map_width": 0}


def save(folder: Path, step: int) -> checkpoints.Checkpoint:
    torch.manual_seed(step)
    model = build_model(CONFIG, 5, 3)
    return checkpoints.save_checkpoint(
        folder,
        weights=model.state_dict(),
        state={"counters": {"update": step, "elo": math.inf}, "rng": torch.get_rng_state()},
        environment={"hp": np.arange(6, dtype=np.uint64), "alive": np.array([True, False])},
        carry={"h": torch.ones(1, 2, 4)},
        manifest={"global_step": step, "model_cfg": vars(CONFIG).copy(), **SHAPE},
    )


@pytest.mark.parametrize("key", ["obs_dim", "action_dim", "map_width", "extra_width"])
def test_policy_with_too_many_columns_is_refused_before_they_are_listed(tmp_path, key):
    """A manifest with 2^31 actions took 22 GB."""
    saved = save(tmp_path, 1)
    with pytest.raises(ValueError, match=r"it has 16777216 columns, expected at most 1048576"):
        policy_from({**saved.manifest, key: 1 << 24}, saved.weights())


def test_checkpoint_of_large_holes_is_damaged(tmp_path, monkeypatch):
    """A terabyte of zeros in a file that the manifest lists was hashed for hours."""
    save(tmp_path, 1)
    file, manifest = tmp_path / "step-1" / "env.safetensors", tmp_path / "step-1" / "manifest.json"
    os.truncate(file, 1 << 20)
    listed = json.loads(manifest.read_text())
    listed["files"][file.name] = {"size": 1 << 20, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    manifest.write_text(json.dumps(listed))
    assert open_checkpoint(tmp_path / "step-1").step == 1
    monkeypatch.setattr("echelon.files.MAX_HOLES", 1 << 16)
    with pytest.raises(ValueError, match=r"is damaged: env\.safetensors does not match its manifest"):
        open_checkpoint(tmp_path / "step-1")


FAULT_POINTS = (
    "save.begin",
    "save.weights",
    "save.state",
    "save.environment",
    "save.before_manifest",
    "save.half_manifest",
    "save.before_rename",
    "save.moved_away",
    "save.after_rename",
    "save.before_prune",
)
"""Points of a save, in order; ``save.moved_away`` only where the system cannot exchange two folders."""
SAVE_POINTS = [point for point in FAULT_POINTS if point != "save.moved_away"]


@pytest.mark.parametrize("point", SAVE_POINTS)
def test_kill_at_any_fault_point_leaves_valid_checkpoint(tmp_path, point):
    save(tmp_path, 1)

    def save_and_prune():
        save(tmp_path, 2)
        checkpoints.prune(tmp_path, 3)

    assert exit_code_with_fault(save_and_prune, point) == -9
    found = latest_valid(tmp_path)
    renamed = point in ("save.after_rename", "save.before_prune")
    assert found.checkpoint is not None and found.checkpoint.step == (2 if renamed else 1)
    assert save(tmp_path, 3).step == 3
    assert not list(tmp_path.glob(".tmp-*"))


def exit_code_with_fault(work: Callable[[], object], point: str) -> int | None:
    """Run ``work`` in a fork that is killed at a fault point; return its exit code."""

    def killed() -> None:
        os.environ["ECHELON_FAULT"] = point
        work()

    child = multiprocessing.get_context("fork").Process(target=killed)
    child.start()
    child.join(CHILD_LIMIT_S)
    return child.exitcode


@pytest.mark.parametrize("point", FAULT_POINTS)
def test_kill_while_saving_step_again_by_two_renames_keeps_step(tmp_path, point):
    save(tmp_path, 1)
    save(tmp_path, 7)

    def save_again():
        checkpoints.exchange = lambda *_: False
        save(tmp_path, 7)
        checkpoints.prune(tmp_path, 3)

    assert exit_code_with_fault(save_again, point) == -9
    checkpoints.recover(tmp_path)
    found = latest_valid(tmp_path)
    assert found.checkpoint is not None and found.checkpoint.step == 7 and found.notices == ()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-1", "step-7"]


def test_recover_prefers_new_folder_and_deletes_only_incomplete_ones(tmp_path):
    old, new = save(tmp_path / "old", 7).path, save(tmp_path / "new", 7).path
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (new / "new").touch()
    os.rename(old, folder / ".tmp-old-step-7")
    os.rename(new, folder / ".tmp-step-7")
    (folder / ".tmp-step-8").mkdir()
    assert checkpoints.recover(folder) == [folder / "step-7"]
    assert (folder / "step-7" / "new").exists() and [p.name for p in folder.iterdir()] == ["step-7"]


@pytest.mark.parametrize(
    "name", [".tmp-", ".tmp-.", ".tmp-..", ".tmp-old-", ".tmp-old-..", ".tmp-best", ".tmp-step-7\n"]
)
def test_recover_leaves_folders_of_other_names(tmp_path, name):
    """``checkpoints/.tmp-..`` must not take the place of the run."""
    run = tmp_path / "run"
    folder = run / "checkpoints"
    saved = save(folder, 7).path
    os.rename(save(tmp_path / "other", 8).path, folder / name)
    (run / "spec.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    assert checkpoints.recover(folder) == []
    assert sorted(tmp_path.rglob("*")) == before and saved.is_dir()


def test_recover_keeps_folder_that_cannot_be_read(tmp_path, monkeypatch):
    os.rename(save(tmp_path, 7).path, tmp_path / ".tmp-step-7")

    def unreadable(_: Path) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "open_checkpoint", unreadable)
        assert checkpoints.recover(tmp_path) == []
    assert checkpoints.recover(tmp_path) == [tmp_path / "step-7"]


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["save_packed", "describe"])
def test_failed_save_keeps_previous_checkpoint_and_no_leftovers(tmp_path, monkeypatch, call, fault):
    def fail(*_: object) -> None:
        raise fault

    save(tmp_path, 1)
    monkeypatch.setattr(checkpoints, call, fail)
    with pytest.raises(type(fault)):
        save(tmp_path, 2)
    assert [p.name for p in tmp_path.iterdir()] == ["step-1"]


@pytest.mark.parametrize("limit", [100, 700, 1_000, 1_400, 2_000])
def test_save_without_room_raises_os_error_and_leaves_nothing(tmp_path, limit):
    """A file size limit stands for a full disk: it stops the libraries that write the files themselves too."""
    save(tmp_path, 1)
    with file_size_limit(limit), pytest.raises(OSError) as caught:
        save(tmp_path, 2)
    assert caught.value.errno == errno.EFBIG
    assert [p.name for p in tmp_path.iterdir()] == ["step-1"] and save(tmp_path, 2).step == 2


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Limit the size of files that this process writes [bytes]."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("text", "number"), [("I/O error: No space left on device (os error 28)", 28), ("invalid header", errno.EIO)]
)
def test_errors_of_the_library_are_errors_of_the_system(tmp_path, monkeypatch, text, number):
    def fail(*_: object) -> None:
        raise SafetensorError(text)

    monkeypatch.setattr(checkpoints, "save_tensors", fail)
    with pytest.raises(OSError) as caught:
        save(tmp_path, 1)
    assert (caught.value.errno, caught.value.strerror) == (number, os.strerror(number))
    assert isinstance(caught.value.__cause__, SafetensorError) and list(tmp_path.iterdir()) == []


def record_points(monkeypatch, seen=lambda name: None) -> list[str]:
    """Return the list of the fault points that are passed; ``seen`` is called at each."""
    passed: list[str] = []

    def point(name: str) -> None:
        passed.append(name)
        seen(name)

    monkeypatch.setattr(checkpoints, "fault_point", point)
    return passed


def test_save_and_prune_pass_every_fault_point_in_order(tmp_path, monkeypatch):
    passed = record_points(monkeypatch)
    monkeypatch.setattr(checkpoints, "exchange", lambda *_: False)
    save(tmp_path, 1)
    assert passed == [point for point in FAULT_POINTS if point not in ("save.moved_away", "save.before_prune")]
    passed.clear()
    save(tmp_path, 1)
    checkpoints.prune(tmp_path, 3)
    assert passed == list(FAULT_POINTS)


def test_files_exist_from_their_fault_point_on(tmp_path, monkeypatch):
    found = {}

    def look(name: str) -> None:
        folder = tmp_path / ".tmp-step-1"
        found[name] = {path.name: path.stat().st_size for path in folder.iterdir()} if folder.exists() else None

    record_points(monkeypatch, look)
    sizes = {path.name: path.stat().st_size for path in save(tmp_path, 1).path.iterdir()}
    manifest = sizes.pop("manifest.json")
    assert found["save.begin"] == {} and found["save.weights"].keys() == {"model.safetensors"}
    assert found["save.state"].keys() == sizes.keys() - {"env.safetensors"}
    assert found["save.environment"] == found["save.before_manifest"] == sizes
    assert found["save.half_manifest"] == {**sizes, "manifest.json": manifest // 2}
    assert found["save.before_rename"] == {**sizes, "manifest.json": manifest}
    assert found["save.after_rename"] is None


@pytest.mark.parametrize("atomic", [True, False], ids=["exchange", "two renames"])
def test_save_syncs_files_then_manifest_then_names(tmp_path, monkeypatch, atomic):
    if not atomic:
        monkeypatch.setattr(checkpoints, "exchange", lambda *_: False)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    folder = tmp_path / "checkpoints"
    files = (
        "carry.safetensors",
        "env.safetensors",
        "model.safetensors",
        "state.json",
        "state.safetensors",
        "manifest.json",
    )
    building = folder / ".tmp-step-1"
    inside = [*(str(building / name) for name in files), str(building)]
    save(folder, 1)
    assert synced == [str(tmp_path), *inside, str(folder)]
    synced.clear()
    save(folder, 1)
    exchanged = atomic and checkpoints.exchange(folder, folder)
    assert synced == [*inside, *[str(folder)] * (1 if exchanged else 2)]
    assert [p.name for p in folder.iterdir()] == ["step-1"]


def test_manifest_lists_every_file_and_what_it_was_given(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "time", types.SimpleNamespace(time=lambda: 12.5))
    saved = save(tmp_path, 3)
    files = {path.name: checkpoints.describe(path) for path in saved.path.iterdir() if path.name != "manifest.json"}
    assert saved.path == tmp_path / "step-3" and saved.manifest == {
        "global_step": 3, "model_cfg": vars(CONFIG), **SHAPE, "format": 2,
        "id": files["model.safetensors"]["sha256"][:16], "created_at": 12.5, "files": files,
    }  # fmt: skip
    text = (saved.path / "manifest.json").read_text()
    assert text == json.dumps(saved.manifest, indent=1) + "\n"
    assert open_checkpoint(saved.path) == saved


def test_save_stores_parts_of_all_ranks_as_contiguous_copies(tmp_path):
    other = checkpoints.RankPart(
        environment={"hp": np.arange(6).reshape(2, 3).T}, carry={"h": torch.arange(6.0).reshape(2, 3).T},
        rng={"torch": 5}, opponents={"pool": [1]},
    )  # fmt: skip
    weight = torch.arange(6.0).reshape(2, 3).T.requires_grad_()
    saved = checkpoints.save_checkpoint(
        tmp_path, weights={"w": weight}, state={"update": 1}, environment={"hp": np.ones((4, 4))[:, ::2]},
        carry={"h": weight[1:]}, manifest={"global_step": 1}, others=(other, other),
    )  # fmt: skip
    assert torch.equal(saved.weights()["w"], weight) and torch.equal(saved.carry()["h"], weight[1:])
    assert saved.environment()["hp"].tolist() == [[1.0, 1.0]] * 4
    for rank in (1, 2):
        assert saved.environment(rank)["hp"].tolist() == [[0, 3], [1, 4], [2, 5]]
        assert saved.carry(rank)["h"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert saved.state() == {"update": 1, "ranks": [{"rng": {"torch": 5}, "opponents": {"pool": [1]}}] * 2}


def test_recover_keeps_a_valid_step_and_replaces_a_damaged_one(tmp_path):
    for step in (1, 2):
        other = save(tmp_path / "other", step).path
        (other / "other").touch()
        os.rename(other, tmp_path / f".tmp-old-step-{step}")
        save(tmp_path / "own", step)
    os.rename(tmp_path / "own" / "step-1", tmp_path / "step-1")
    os.rename(tmp_path / "own" / "step-2", tmp_path / "step-2")
    (tmp_path / "step-2" / "state.json").write_bytes(b"")
    assert checkpoints.recover(tmp_path) == [tmp_path / "step-2"]
    assert not (tmp_path / "step-1" / "other").exists() and (tmp_path / "step-2" / "other").exists()
    assert not list(tmp_path.glob(".tmp-*")) and checkpoints.recover(tmp_path) == []


def test_recover_syncs_the_name_that_it_restores(tmp_path, monkeypatch):
    synced = []
    os.rename(save(tmp_path, 7).path, tmp_path / ".tmp-step-7")
    (tmp_path / ".tmp-step-8").mkdir()
    monkeypatch.setattr(checkpoints, "fsync", synced.append)
    assert checkpoints.recover(tmp_path) == [tmp_path / "step-7"] and synced == [tmp_path]


def test_prune_ignores_what_it_cannot_delete(tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(16, "Device or resource busy")

    (tmp_path / "step-1").mkdir()
    monkeypatch.setattr(os, "rmdir", fail)
    assert checkpoints.prune(tmp_path, 0) == [tmp_path / "step-1"]


def test_prune_keeps_newest_and_best(tmp_path):
    best = save(tmp_path, 1)
    checkpoints.mark_best(tmp_path, best, {"win_rate": 0.6})
    for step in (2, 3, 4):
        save(tmp_path, step)
    assert checkpoints.prune(tmp_path, 4) == [] and checkpoints.prune(tmp_path, 2) == [tmp_path / "step-2"]
    assert sorted(p.name for p in tmp_path.glob("step-*")) == ["step-1", "step-3", "step-4"]
    assert checkpoints.read_best(tmp_path) == {"checkpoint": "step-1", "id": best.id, "eval": {"win_rate": 0.6}}


def test_load_weights_is_strict_and_names_every_difference():
    model = build_model(CONFIG, 5, 3)
    weights = model.state_dict()
    weights["surplus.weight"] = torch.zeros(1)
    del weights["core.critic.bias"]
    weights["core.actor_mean.bias"] = torch.zeros(9)
    with pytest.raises(ValueError, match=r"missing core\.critic\.bias.*surplus\.weight.*actor_mean\.bias is \[9\]"):
        load_weights(model, weights)


def test_check_dimensions_rejects_mismatch():
    with pytest.raises(ValueError, match="obs_dim 5, expected 867"):
        check_dimensions(SHAPE, obs_dim=867, action_dim=3)


@pytest.mark.parametrize("size", [math.inf, math.nan, 1e400, "x", None])
def test_sizes_that_are_no_numbers_do_not_describe_a_model(size):
    with pytest.raises(ValueError, match="checkpoint does not describe its model"):
        policy_from({"model_cfg": {}, **SHAPE, "obs_dim": size, "action_dim": 18}, {})


def test_load_policy_from_folder_run_and_exported_file(tmp_path):
    run = tmp_path / "run"
    saved = save(run / "checkpoints", 5)
    export_checkpoint(saved, tmp_path / "policy.safetensors")
    torch.save({**saved.manifest, "model_state": saved.weights()}, tmp_path / "policy.pt")
    obs, policies = torch.randn(2, 5), []
    for source in (saved.path, run, tmp_path / "policy.safetensors", tmp_path / "policy.pt"):
        loaded = load_policy(source)
        assert loaded.meta["id"] == saved.id and not loaded.policy.training
        policies.append(loaded.policy.get_value(obs, loaded.policy.initial_state(2), torch.zeros(2))[0])
    assert all(torch.equal(policies[0], values) for values in policies[1:])
    with pytest.raises(ValueError, match=r"is 'policy\.pt', expected a name that ends in \.safetensors"):
        export_checkpoint(saved, tmp_path / "policy.pt")


@pytest.mark.parametrize("name", ["policy.safetensors", "policy.pt"])
def test_exported_policy_of_another_format_is_refused(tmp_path, name):
    saved = save(tmp_path / "run", 5)
    meta = {**saved.manifest, "format": 1}
    if name.endswith(".pt"):
        torch.save({**meta, "model_state": saved.weights()}, tmp_path / name)
    else:
        write_export(meta, saved.weights(), tmp_path / name)
    with pytest.raises(ValueError, match=rf"^exported policy '.*{name}' has format 1, expected 2$"):
        load_policy(tmp_path / name)


class Payload:
    """A pickle payload that runs code."""

    def __reduce__(self):
        return (os.mkdir, (os.environ["PAYLOAD_FOLDER"],))


def test_hostile_file_is_rejected_without_running_its_payload(tmp_path, monkeypatch):
    monkeypatch.setenv("PAYLOAD_FOLDER", str(tmp_path / "owned"))
    torch.save({"format": 2, "model_state": Payload()}, tmp_path / "evil.pt")
    with pytest.raises(ValueError, match=r"evil\.pt.* has more than tensors and plain values; nothing in it was run"):
        load_policy(tmp_path / "evil.pt")
    assert not (tmp_path / "owned").exists()
