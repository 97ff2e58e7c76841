"""Reading checkpoints: what makes one valid, the messages about damaged ones, and the search for the newest."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from echelon.rl import checkpoint as checkpoints
from echelon.rl.checkpoint import describe, latest_valid, open_checkpoint, read_best, steps_in
from tests.training.test_checkpoint import save

ABSENT: Any = object()


def change_manifest(folder: Path, **entries: Any) -> None:
    path = folder / "manifest.json"
    row = {**json.loads(path.read_text()), **entries}
    path.write_text(json.dumps({name: value for name, value in row.items() if value is not ABSENT}))


def message(folder: Path) -> str:
    """Return the whole message about a folder that is no valid checkpoint."""
    with pytest.raises(ValueError) as caught:
        open_checkpoint(folder)
    return str(caught.value)


def test_checkpoint_returns_its_parts(tmp_path):
    folder = save(tmp_path, 40).path
    found = open_checkpoint(folder)
    assert (
        found.path == folder and found.step == 40 and found.id == describe(folder / "model.safetensors")["sha256"][:16]
    )
    assert found.weights().keys() == found.weights(torch.device("cpu")).keys() and "core.critic.bias" in found.weights()
    assert found.environment()["alive"].tolist() == [True, False] and found.carry()["h"].shape == (1, 2, 4)
    sizes = [path.stat().st_size for path in folder.iterdir() if path.name != "manifest.json"]
    assert len(sizes) == 5 and found.size_mb() == sum(sizes) / 2**20


def test_weights_are_loaded_to_the_given_device(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "load_tensors", lambda path, device: (path, device))
    found = checkpoints.Checkpoint(path=tmp_path, manifest={})
    for device in ("cuda:1", torch.device("cuda")):
        assert found.weights(device) == (tmp_path / "model.safetensors", device)
    assert found.weights() == (tmp_path / "model.safetensors", "cpu")


def test_folder_without_manifest_is_no_checkpoint(tmp_path):
    assert message(tmp_path / "no") == f"checkpoint {str(tmp_path / 'no')!r} does not exist, expected a step-N folder"
    (tmp_path / "file").touch()
    assert message(tmp_path / "file").endswith("does not exist, expected a step-N folder")
    (tmp_path / "step-1").mkdir()
    expected = "checkpoint 'step-1' has no readable manifest.json: it was not completely saved"
    assert message(tmp_path / "step-1") == expected
    (tmp_path / "step-1" / "manifest.json").write_text("[]")
    assert message(tmp_path / "step-1") == expected


NO_FILES = "checkpoint 'step-1' has a manifest.json that does not list its files"
NO_NAME = "checkpoint 'step-1' has a manifest.json without id and global_step, expected both"


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"format": 1}, "checkpoint 'step-1' has format 1, expected 2"),
        ({"format": ABSENT}, "checkpoint 'step-1' has format None, expected 2"),
        ({"files": ABSENT}, NO_FILES),
        ({"files": ["model.safetensors", "state.json", "env.safetensors", "carry.safetensors"]}, NO_FILES),
        ({"id": ABSENT}, NO_NAME),
        ({"id": 5}, NO_NAME),
        ({"id": ""}, NO_NAME),
        ({"global_step": ABSENT}, NO_NAME),
        ({"global_step": "1"}, NO_NAME),
        ({"global_step": 1.5}, NO_NAME),
        ({"global_step": -1}, NO_NAME),
    ],
)
def test_damaged_manifest_is_named(tmp_path, entries, expected):
    folder = save(tmp_path, 1).path
    change_manifest(folder, **entries)
    assert message(folder) == expected


def test_checkpoint_of_step_zero_is_valid(tmp_path):
    assert open_checkpoint(save(tmp_path, 0).path).step == 0


@pytest.mark.parametrize("missing", [*sorted(checkpoints.CHECKPOINT_FILES)])
def test_manifest_must_list_every_file(tmp_path, missing):
    folder = save(tmp_path, 1).path
    files = open_checkpoint(folder).manifest["files"]
    change_manifest(folder, files={name: row for name, row in files.items() if name != missing})
    assert message(folder) == NO_FILES


@pytest.mark.parametrize(
    "name", ["../x.json", "manifest.json", "a.json\n", "A.json", "x" * 99 + ".json", "env-1234567890.json", "a.pt"]
)
def test_manifest_may_list_only_files_of_checkpoints(tmp_path, name):
    folder = save(tmp_path, 1).path
    files = open_checkpoint(folder).manifest["files"]
    change_manifest(folder, files={**files, name: {}})
    assert message(folder) == (f"checkpoint 'step-1' is damaged: {name[:60]!r} is no name of a file of a checkpoint")


@pytest.mark.parametrize("kind", ["missing", "folder", "longer", "changed"])
def test_file_that_does_not_match_is_named(tmp_path, kind):
    folder = save(tmp_path, 1).path
    path = folder / "state.json"
    data = path.read_bytes()
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(data + b"?" if kind == "longer" else data[:-1] + b"?")
    assert message(folder) == "checkpoint 'step-1' is damaged: state.json does not match its manifest"


@pytest.mark.parametrize("is_missing", [True, False])
@pytest.mark.parametrize("entry", [None, "", "x", 1, []])
def test_file_without_a_readable_entry_does_not_match(tmp_path, entry, is_missing):
    folder = save(tmp_path, 1).path
    change_manifest(folder, files={**open_checkpoint(folder).manifest["files"], "state.json": entry})
    if is_missing:
        (folder / "state.json").unlink()
    assert message(folder) == "checkpoint 'step-1' is damaged: state.json does not match its manifest"


def test_describe_reads_a_file_in_blocks(tmp_path, monkeypatch):
    """A file of gigabytes takes the memory of a block."""
    sizes: list[int] = []

    class File(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            sizes.append(size or 0)
            return super().read(size)

    path = tmp_path / "file"
    monkeypatch.setattr(checkpoints, "READ_BLOCK", 4)
    monkeypatch.setattr(checkpoints, "open_regular", File)
    for data in (b"", b"abcd", b"abcdefghij"):
        path.write_bytes(data)
        assert describe(path) == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    assert set(sizes) == {4}


def test_steps_in_lists_folders_by_number(tmp_path):
    names = ("step-9", "step-10", f"step-{'9' * 18}", "step-0")
    for name in (*names, f"step-{'9' * 19}", "step-", "step-²", "step-1x", ".tmp-step-3", "xstep-4"):
        (tmp_path / name).mkdir()
    (tmp_path / "step-5").touch()
    assert [path.name for path in steps_in(tmp_path)] == [f"step-{'9' * 18}", "step-10", "step-9", "step-0"]
    assert steps_in(tmp_path / "missing") == [] and steps_in(tmp_path / "step-5") == []


def test_latest_valid_names_every_newer_checkpoint_that_it_skips(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, step)
    (tmp_path / "step-3" / "manifest.json").unlink()
    change_manifest(tmp_path / "step-2", format=7)
    notices = (
        "checkpoint 'step-3' has no readable manifest.json: it was not completely saved; falling back to the previous "
        "one",
        "checkpoint 'step-2' has format 7, expected 2; falling back to the previous one",
    )
    found = latest_valid(tmp_path)
    assert found.checkpoint is not None and found.checkpoint.step == 1 and found.notices == notices
    change_manifest(tmp_path / "step-1", format=7)
    found = latest_valid(tmp_path)
    assert found.checkpoint is None and found.notices[:2] == notices and len(found.notices) == 3


def test_error_of_the_system_is_no_reason_to_fall_back(tmp_path, monkeypatch):
    def fail(_: Path) -> None:
        raise OSError(24, "Too many open files")

    save(tmp_path, 1)
    monkeypatch.setattr(checkpoints, "describe", fail)
    with pytest.raises(OSError, match="Too many"):
        latest_valid(tmp_path)


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ('{"checkpoint": "step-7", "id": "a"}', True),
        ('{"checkpoint": "../step-7"}', False),
        ('{"checkpoint": 7}', False),
        ('{"id": "a"}', False),
        ("{}", False),
        ("[", False),
        (None, False),
    ],
)
def test_read_best_returns_only_a_pointer_to_a_checkpoint(tmp_path, text, is_valid):
    if text is not None:
        (tmp_path / "best.json").write_text(text)
    assert read_best(tmp_path) == (json.loads(text) if is_valid else None)


def test_version_notice_names_another_simulation_version_than_todays():
    def notice(**manifest: Any) -> str:
        return checkpoints.Checkpoint(path=Path(), manifest=manifest).version_notice

    now = checkpoints.SIM_VERSION
    assert notice(sim_version=now) == ""
    assert notice(sim_version="x" * 99) == (
        f"saved with simulation version {'x' * 20}, now {now}: matches differ from those before"
    )
    assert notice() == notice(sim_version=1), "checkpoints without one are of the first"
