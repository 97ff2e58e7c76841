"""Tensors and plain values in safetensors and JSON files."""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file

from echelon.rl.build import build_model
from echelon.rl.tensor_files import (
    MAX_JSON_BYTES,
    join_tensors,
    load_arrays,
    load_metadata,
    load_state,
    load_tensors,
    metadata_of,
    save_packed,
    split_tensors,
)
from echelon.rl.weights import load_policy, policy_from
from tests.arena.policy_files import MODEL, SMALL, policy, shape_of


def test_state_of_tensors_and_plain_values_reads_back(tmp_path):
    shared = torch.arange(12.0)
    tensors = {
        "kinds": [torch.arange(6).to(kind) for kind in (torch.float64, torch.bfloat16, torch.int64, torch.uint8)],
        "views": {"a": shared.view(3, 4).T, "b": shared[2:8], "whole": shared},
        "odd": [torch.tensor(3.0), torch.empty(0, 3), torch.ones(2, requires_grad=True)],
    }
    values = {"plain": [None, True, -1, 2**40, 0.1, 5e-324, math.inf, "é", [], {}], "nested": {"a": {"b": [[1]]}}}
    plain, stored = split_tensors({**tensors, **values, "tuple": (1, (2,))})
    save_file(stored, tmp_path / "state.safetensors")
    (tmp_path / "state.json").write_text(json.dumps(plain))
    found = load_state(tmp_path / "state.json", tmp_path / "state.safetensors")
    assert {name: found[name] for name in values} == values and found["tuple"] == [1, [2]]
    for name, group in tensors.items():
        expected = group.values() if isinstance(group, dict) else group
        read = found[name].values() if isinstance(group, dict) else found[name]
        for a, b in zip(read, expected, strict=True):
            assert a.dtype == b.dtype and torch.equal(a, b), name


def test_packed_arrays_read_back_and_similar_ones_are_small(tmp_path):
    arrays = {
        "floats": np.linspace(1.0, 2.0, 4096, dtype=np.float32).reshape(4, 8, 128),
        "view": np.arange(24, dtype=np.int64).reshape(2, 3, 4).T,
        "flags": np.array([True, False]),
        "empty": np.zeros((0, 3), np.uint16),
        "scalar": np.array(7, np.uint8),
    }
    save_packed(arrays, tmp_path / "a.safetensors")
    for name, found in load_arrays(tmp_path / "a.safetensors").items():
        assert found.dtype == arrays[name].dtype and np.array_equal(found, arrays[name]), name
    assert (tmp_path / "a.safetensors").stat().st_size < 0.7 * arrays["floats"].nbytes


@pytest.mark.parametrize("kind", [("<f4", (5, 4)), ("<f4", (3, 4)), ("|O", (8,)), ("<f4", (-1, 6)), ("S0", (4,)), (3,)])
@pytest.mark.parametrize("stream", [zlib.compress(bytes(96)), b"no stream"])
def test_damaged_packed_arrays_are_named_in_one_line(tmp_path, kind, stream):
    file = tmp_path / "a.safetensors"
    save_arrays({"a": np.frombuffer(stream, np.uint8)}, file, metadata_of({"packed": {"a": kind}}))
    with pytest.raises(ValueError, match=r"file 'a\.safetensors' is damaged: [^\n]+$"):
        load_arrays(file)


DAMAGED = {
    "[1]": "has a list, expected an object",
    '{"a": {"$tensor": "b"}}': "'b'",
    '{"a": {"$tensor": []}}': "",
    "{": "",
}


@pytest.mark.parametrize("text", [*DAMAGED, " " * (MAX_JSON_BYTES + 1)])
def test_damaged_state_is_named_in_one_line(tmp_path, text):
    save_file({"a": torch.ones(1)}, tmp_path / "state.safetensors")
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(ValueError, match=rf"file 'state\.json' .*{DAMAGED.get(text, 'more than')}") as caught:
        load_state(tmp_path / "state.json", tmp_path / "state.safetensors")
    assert "\n" not in str(caught.value)


def test_values_that_look_like_tensors_need_one():
    with pytest.raises(KeyError):
        join_tensors({"$tensor": "a"}, {})
    assert join_tensors({"$tensor": "a", "b": 1}, {}) == {"$tensor": "a", "b": 1}


def test_metadata_is_an_object_in_the_header(tmp_path):
    save_file({"a": torch.ones(1)}, tmp_path / "a.safetensors", metadata_of({"id": "x", "sizes": [1]}))
    assert load_metadata(tmp_path / "a.safetensors") == {"id": "x", "sizes": [1]}
    save_file({"a": torch.ones(1)}, tmp_path / "b.safetensors")
    assert load_metadata(tmp_path / "b.safetensors") == {}
    for text in ("[]", "{"):
        save_file({"a": torch.ones(1)}, tmp_path / "c.safetensors", {"echelon": text})
        with pytest.raises(ValueError, match=r"file 'c\.safetensors' is damaged"):
            load_metadata(tmp_path / "c.safetensors")


def test_header_beyond_its_budget_is_refused(tmp_path):
    path: Path = tmp_path / "a.safetensors"
    for length in (2**20 + 1, 2**63, 100):
        path.write_bytes(length.to_bytes(8, "little") + bytes(50))
        with pytest.raises(ValueError, match=rf"is damaged: its header has {length} bytes"):
            load_tensors(path)


def test_policy_has_the_bytes_of_its_weights():
    meta = {"format": 2, **shape_of(SMALL), "model_cfg": asdict(MODEL)}
    with torch.device("meta"):
        shapes = build_model(MODEL, **shape_of(SMALL)).state_dict()
    weights = {name: torch.zeros(()).expand(own.shape) for name, own in shapes.items()}
    with pytest.raises(ValueError, match=r"weights have \d+ bytes, of which only \d+ are stored"):
        policy_from(meta, weights)


def test_torch_file_without_a_dict_of_weights_is_no_policy(tmp_path):
    for data in ([1], {"format": 2}, {"format": 2, "model_state": [1]}):
        torch.save(data, tmp_path / "a.pt")
        with pytest.raises(ValueError, match=r"is not an exported policy: file 'a\.pt' has no dict model_state"):
            load_policy(tmp_path / "a.pt")
    torch.save(
        {"format": 2, **shape_of(SMALL), "model_cfg": asdict(MODEL), "model_state": policy(1).state_dict()},
        tmp_path / "b.pt",
    )
    assert not load_policy(tmp_path / "b.pt").policy.training


def test_weights_in_a_folder_whose_name_is_no_utf8_load(tmp_path):
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    save_file({"a": torch.arange(3.0)}, folder / "model.safetensors")
    assert load_tensors(folder / "model.safetensors")["a"].tolist() == [0, 1, 2]
    assert load_arrays(folder / "model.safetensors")["a"].tolist() == [0, 1, 2]
