"""Recordings of demonstrations: written and read, continued after a crash, and hostile files."""

import json
import os
import random
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from echelon import demos
from echelon import demos as writer_module
from echelon.config import EnvConfig
from echelon.demos import ARRAYS, NO_EPISODE, Counts, DemoSide, DemoWriter, Manifest, read_manifest, shapes
from echelon.rl.checkpoint import describe
from tests.hostile_values import damage, mutate

OBS_DIM, ACTION_DIM, STEPS, ROWS = 7, 3, 6, 4


def request(**changes) -> Manifest:
    fields = {
        "obs_dim": OBS_DIM, "action_dim": ACTION_DIM, "env": EnvConfig(), "policy": DemoSide(name="heuristic:expert"),
        "opponent": DemoSide(name="heuristic:hard"), "weapon_prob": 1.0, "first_seed": 0, "matches": 4,
        "versions": {"echelon": "0"},
    }  # fmt: skip
    return Manifest(**{**fields, **changes})


def wave(seed: int) -> dict[str, np.ndarray]:
    """Return the arrays of two matches; the side of the rows wins the first, whose last step is missing."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, shape in shapes(STEPS, ROWS, obs_dim=OBS_DIM, action_dim=ACTION_DIM).items():
        low, high = max(-2, ARRAYS[name].low), min(2, ARRAYS[name].high + 1)
        arrays[name] = rng.integers(low, high, shape).astype(ARRAYS[name].dtype)
    arrays["episodes"][:] = 2 * seed + np.arange(ROWS) // 2
    arrays["outcomes"][:] = [1, 1, -1, -1]
    arrays["alive"][:] = 1
    arrays["episodes"][-1, :2], arrays["alive"][-1, :2] = NO_EPISODE, 0
    return arrays


def recorded(folder: Path, waves: int = 2) -> Path:
    writer = DemoWriter(folder, request())
    for number in range(waves):
        writer.append(wave(number))
    return folder


def test_recording_returns_what_was_written_in_order(tmp_path):
    found = demos.load(recorded(tmp_path / "new" / "demos"))
    assert len(found) == 2 and found.manifest.is_complete and found.manifest.env == EnvConfig()
    assert found.manifest.counts == Counts(episodes=4, steps=22, agent_steps=44, wins=2, losses=2)
    for number, shard in enumerate(found):
        for name, values in wave(number).items():
            assert shard[name].dtype == values.dtype and np.array_equal(shard[name], values), name


def test_interrupted_recording_is_partial_and_continues(tmp_path):
    recorded(tmp_path, waves=1)
    with pytest.raises(ValueError, match="has 2 of 4 matches, expected all; run the same `echelon demos record` again"):
        demos.load(tmp_path)
    assert len(demos.load(tmp_path, partial=True)) == 1
    assert DemoWriter(tmp_path, request()).recorded == 2


@pytest.mark.parametrize("name", ["shard-00001.safetensors", "manifest.json"])
def test_crash_within_a_wave_leaves_the_waves_before(tmp_path, monkeypatch, name):
    """The manifest lists whole shards only, and the next attempt replaces the rest."""
    recorded(tmp_path, waves=1)
    before = demos.load(tmp_path, partial=True)
    real = writer_module.atomic_write

    def crash(path, data, **options):
        if path.name == name:
            raise OSError("power failure")
        real(path, data, **options)

    monkeypatch.setattr(writer_module, "atomic_write", crash)
    with pytest.raises(OSError, match="power failure"):
        DemoWriter(tmp_path, request()).append(wave(1))
    monkeypatch.undo()
    assert demos.load(tmp_path, partial=True).manifest == before.manifest
    DemoWriter(tmp_path, request()).append(wave(1))
    assert [np.array_equal(shard["obs"], wave(n)["obs"]) for n, shard in enumerate(demos.load(tmp_path))] == [
        True,
        True,
    ]


def test_folder_of_another_request_is_rejected(tmp_path):
    recorded(tmp_path, waves=1)
    for changes, named in (
        ({"matches": 6}, "matches"), ({"opponent": DemoSide(name="heuristic:easy")}, "opponent"),
        ({"env": EnvConfig(num_packs=2), "first_seed": 2}, "env, first_seed"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"has demonstrations with another {named}, expected the same request"):
            DemoWriter(tmp_path, request(**changes))
    other = tmp_path / "other"
    other.mkdir()
    (other / "spec.json").write_text("{}")
    with pytest.raises(ValueError, match="has 'spec.json', expected an empty folder"):
        DemoWriter(other, request())
    assert DemoWriter(tmp_path, replace(request(), versions={"echelon": "1"})).recorded == 2


def test_damaged_shards_are_named(tmp_path):
    folder = recorded(tmp_path)
    shard = folder / "shard-00001.safetensors"
    whole = shard.read_bytes()
    for data in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
        shard.write_bytes(data)
        with pytest.raises(ValueError, match="'shard-00001.safetensors' is damaged: its hash differs"):
            list(demos.load(folder))
    shard.unlink()
    with pytest.raises(ValueError, match="'shard-00001.safetensors' cannot be read: no such file"):
        list(demos.load(folder))
    assert np.array_equal(demos.load(folder).shard(0)["obs"], wave(0)["obs"])


@pytest.mark.parametrize(
    ("arrays", "named"),
    [
        ({"obs": np.zeros((STEPS, ROWS, OBS_DIM), np.float32)}, "obs"),
        ({"actions": np.zeros((STEPS, ROWS, ACTION_DIM + 1), np.int8)}, "actions"),
        ({"alive": np.zeros((STEPS, ROWS + 1), np.uint8)}, "alive"),
        ({"outcomes": None}, "outcomes"),
        ({"episodes": None}, "obs"),
        ({"episodes": np.zeros(STEPS, np.int32)}, "obs"),
        ({name: values[:0] for name, values in wave(0).items()}, "obs"),
    ],
)  # fmt: skip
def test_shard_that_contradicts_its_manifest_is_rejected(tmp_path, arrays, named):
    folder = recorded(tmp_path)
    shard = folder / "shard-00000.safetensors"
    save_file({name: a for name, a in {**load_file(shard), **arrays}.items() if a is not None}, shard)
    values = json.loads((folder / "manifest.json").read_text())
    values["shards"][0] = describe(shard)["sha256"]
    (folder / "manifest.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=f"shard 'shard-00000.safetensors' has {named} .*, expected "):
        demos.load(folder).shard(0)


IMPOSSIBLE = ({"world": {"size_x": 10**9}}, {"num_packs": 10**6}, {"max_episode_seconds": "NaN"}, {"unknown": 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 1}, "format is 1, expected 2"),
        ({"obs_dim": 0}, "obs_dim is 0, expected at least 1"),
        ({"surprise": 1}, "surprise "),
        ({"counts": {"episodes": 10**400}}, "counts.episodes"),
        ({"shards": [{"file": "../../etc/passwd"}]}, "shards.0"),
        ({"weapon_prob": float("nan")}, "weapon_prob is .*, expected at (least 0|most 1)"),
        ({"weapon_prob": -0.1}, "weapon_prob is .*, expected at (least 0|most 1)"),
        *(({"env": {**asdict(EnvConfig()), **changes}}, r"is damaged: env\.") for changes in IMPOSSIBLE),
    ],
)  # fmt: skip
def test_hostile_manifest_is_one_line_error(tmp_path, change, message):
    file = recorded(tmp_path) / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ValueError, match=message) as error:
        demos.load(tmp_path)
    assert "\n" not in str(error.value)


def test_mutated_manifests_and_shards_raise_value_errors_only(tmp_path):
    rng = random.Random(5)
    folder = recorded(tmp_path)
    files = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    text = files[folder / "manifest.json"]
    for attempt in range(45):
        (folder / "manifest.json").write_bytes(text)
        if attempt % 3 == 0:
            path = rng.choice(list(files))
            path.write_bytes(damage(files[path], rng))
        else:
            (folder / "manifest.json").write_text(json.dumps(mutate(json.loads(text), rng)))
        try:
            found = demos.load(folder, partial=True)
            for number in range(min(3, len(found))):
                found.shard(number)
            assert found.manifest.env is not None
        except ValueError as error:
            assert str(error)
        for path, data in files.items():
            path.write_bytes(data)


def test_manifest_that_is_no_file_or_too_large_is_rejected(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="has no manifest.json, expected a recording"):
        read_manifest(tmp_path)
    os.mkfifo(tmp_path / "manifest.json")
    with pytest.raises(ValueError, match="cannot be read: .*no regular file"):
        read_manifest(tmp_path)
    (tmp_path / "manifest.json").unlink()
    recorded(tmp_path / "demos")
    monkeypatch.setattr("echelon.demos.MAX_MANIFEST_BYTES", 100)
    with pytest.raises(ValueError, match="more than 100 bytes"):
        read_manifest(tmp_path / "demos")


def rewritten(folder: Path, name: str, change) -> Path:
    """Change an array of the first shard, with the hash of its new file in the manifest."""
    file = recorded(folder) / "shard-00000.safetensors"
    arrays = load_file(file)
    change(arrays[name])
    save_file(arrays, file)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["shards"][0] = describe(file)["sha256"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


INVALID = [
    ("obs", np.nan), ("obs", np.inf), ("obs", -np.inf), ("rewards", np.nan), ("rewards", 1e30), ("dones", 2),
    ("alive", 255), ("episodes", -2), ("outcomes", 2), ("outcomes", -128), ("actions", -128),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), INVALID)
def test_shard_with_an_invalid_value_is_refused(tmp_path, name, value):
    found = demos.load(rewritten(tmp_path, name, lambda array: np.put(array, 5, value)))
    with pytest.raises(ValueError, match=f"shard 'shard-00000.safetensors' has {name} outside "):
        found.shard(0)
    assert found.shard(1)["episodes"].min() == -1


def test_shard_with_mechs_alive_after_their_match_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has mechs alive after the end of their match, expected none"):
        demos.load(rewritten(tmp_path, "alive", lambda array: array.fill(1))).shard(0)


def test_file_is_no_recording(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"has no manifest.json, expected a recording"):
        demos.load(tmp_path / "file")
