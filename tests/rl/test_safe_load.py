"""Reading ``torch.save`` files: the values that torch reads, and little memory for hostile ones."""

from __future__ import annotations

import io
import os
import pickle
import resource
import zipfile
from collections import OrderedDict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from echelon.rl.build import build_model
from echelon.rl.safe_load import (
    MAX_DIRECTORY_BYTES,
    MAX_OPCODES,
    MAX_PICKLE_BYTES,
    load_arrays,
    load_plain,
    load_tensors,
)
from echelon.rl.weights import load_policy, policy_from
from tests.arena.policy_files import MODEL, SMALL, policy, shape_of

BUDGET_BYTES = 256 << 20
ORDERED = b"ccollections\nOrderedDict\nq\x01)q\x02"


def write(path: Path, structure: bytes, parts: dict[str, bytes] | None = None, name: str = "data.pkl") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for part, content in {name: structure, "byteorder": b"little", "version": b"3\n", **(parts or {})}.items():
            archive.writestr(f"a/{part}", content)
    return path


def values(middle: bytes, before: bytes = b"") -> bytes:
    """Return the pickle of a dict with a list of the values that ``middle`` makes."""
    return b"\x80\x02}X\x01\0\0\0a" + before + b"](" + middle + b"es."


def tensor(count: int, *, size: int, stride: int = 1, offset: int = 0) -> bytes:
    """Return the pickle of a dict with a tensor of ``data/0``, which has ``count`` 32-bit numbers."""
    number = b"J%b"
    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu" + number % int.to_bytes(
        count, 4, "little"
    )
    shape = b"".join(
        number % int.to_bytes(n, 4, "little") + end for n, end in ((offset, b""), (size, b"\x85"), (stride, b"\x85"))
    )
    made = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"tQ" + shape + b"\x89ccollections\nOrderedDict\n)RtR"
    return b"\x80\x02}X\x01\0\0\0a" + made + b"s."


def refusal(path: Path, load: Any = load_plain) -> str:
    """Return the message about a file, read by a process that can have only the budget more than this one."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + BUDGET_BYTES, now + BUDGET_BYTES))
            load(path)
            text = "was read"
        except ValueError as error:
            text = str(error)
        except BaseException as error:
            text = f"{type(error).__name__} is no refusal"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def test_reads_what_torch_reads(tmp_path):
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16)
    shared = torch.arange(12.0)
    state = {
        "kinds": {str(kind): torch.arange(6).to(kind) for kind in (*kinds, torch.int8, torch.uint8, torch.bool)},
        "views": [shared[2:8].view(2, 3).T, shared.view(3, 4)[1:, 1]],
        "odd": [torch.tensor(3.0), torch.empty(0, 3), torch.ones(2, requires_grad=True)],
        "plain": [None, True, False, -1, 300, 70000, 2**40, 2**127 - 1, 0.5, "é", (), (1,), (1, 2, 3, 4), [], {}],
        "names": OrderedDict(a=1, b=(1, 2)),
        3: {0: {"step": 1}},
    }
    torch.save(state, tmp_path / "a.pt")
    found, expected = load_plain(tmp_path / "a.pt"), torch.load(tmp_path / "a.pt", weights_only=True)
    pairs = [("", found, expected)]
    for name, a, b in pairs:
        assert type(a) is type(b), name
        if isinstance(b, torch.Tensor):
            assert torch.equal(a, b), name
            assert (a.dtype, a.stride(), a.requires_grad) == (b.dtype, b.stride(), b.requires_grad), name
        elif isinstance(b, dict):
            assert list(a) == list(b), name
            pairs.extend((f"{name}/{key}", a[key], b[key]) for key in b)
        elif isinstance(b, list | tuple):
            assert len(a) == len(b), name
            pairs.extend((f"{name}/{i}", *both) for i, both in enumerate(zip(a, b, strict=True)))
        else:
            assert a == b, name
    assert found["views"][0].untyped_storage().data_ptr() == found["views"][1].untyped_storage().data_ptr()


def test_attributes_of_a_state_dict_are_dropped(tmp_path):
    torch.save({"model_state": torch.nn.Linear(2, 1).state_dict()}, tmp_path / "a.pt")
    found = load_plain(tmp_path / "a.pt")["model_state"]
    assert type(found) is OrderedDict and list(found) == ["weight", "bias"] and not vars(found)


BOMBS = {
    "a large bytearray": (
        values(b"cbuiltins\nbytearray\n\x8a\x05" + (6 * 10**9).to_bytes(5, "little") + b"\x85R"),
        "unsafe",
    ),
    "as many dicts as fit": (values(b"}" * (MAX_PICKLE_BYTES - 100)), "instructions"),
    "ordered dicts": (values(b"h\x01h\x02R" * MAX_OPCODES, ORDERED + b"R"), "instructions"),
    "remembered dicts": (values(b"".join(b"}r" + n.to_bytes(4, "little") for n in range(MAX_OPCODES))), "instructions"),
    "copies of a list": (values(b"h\x01h\x03R" * 1000, ORDERED + b"0(" + b"]" * 9 + b"t\x85q\x03"), "instruction POP"),
    "a deep key": (b"\x80\x02}(" + b")" + b"\x85" * 200_000 + b"Nu.", "key that is a tuple"),
    "an array beyond its bytes": (tensor(500_000_000, size=500_000_000), "has 4 bytes"),
    "an expanded tensor": (tensor(1, size=500_000_000, stride=0), "larger than the stored"),
    "a tensor outside": (tensor(1, size=1, offset=1), "larger than the stored"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_hostile_structure_takes_little_memory(tmp_path, name):
    structure, expected = BOMBS[name]
    found = refusal(write(tmp_path / "a.pt", structure, {"data/0": bytes(4)}))
    assert expected in found


def test_arguments_of_a_dict_are_refused(tmp_path):
    structure = values(b"h\x01h\x02R" * 3, b"ccollections\nOrderedDict\nq\x01]\x85q\x02R")
    assert "damaged" in refusal(write(tmp_path / "a.pt", structure))


def test_structure_has_one_name_in_one_case(tmp_path):
    plain = pickle.dumps({"a": 1}, 2)
    assert load_plain(write(tmp_path / "a.pt", plain)) == {"a": 1}
    assert "'a/data.pkl'" in refusal(write(tmp_path / "b.pt", values(b"N" * 40_000_000), name="DATA.PKL"))
    assert "'a/data.pkl'" in refusal(write(tmp_path / "c.pt", plain, {"DATA.PKL": plain}))
    assert "no name twice" in refusal(write(tmp_path / "d.pt", plain, {"data/a": b"", "data/A": b""}))


def test_parts_are_few_and_do_not_overlap(tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a/version", "3\n")
        archive.writestr("a/data.pkl", pickle.dumps({"a": 1}, 2))
        first = archive.infolist()[1]
        archive.filelist.extend([first] * (MAX_DIRECTORY_BYTES // 50))
        archive._didModify = True
    (tmp_path / "a.pt").write_bytes(content.getvalue())
    assert "list of parts" in refusal(tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "b.pt", "w") as archive:
        archive.writestr("a/version", "3\n")
        archive.writestr("a/data.pkl", pickle.dumps({"a": 1}, 2))
        archive.writestr("a/data/0", bytes(5000))
        archive.filelist.extend([archive.infolist()[2]] * 9)
    assert "parts overlap" in refusal(tmp_path / "b.pt")


def test_policy_has_the_bytes_of_its_weights(tmp_path):
    meta = {"format": 1, **shape_of(SMALL), "model_cfg": asdict(MODEL)}
    with torch.device("meta"):
        shapes = build_model(MODEL, **{k: v for k, v in shape_of(SMALL).items() if k != "obs_version"}).state_dict()
    weights = {name: torch.zeros(()).expand(own.shape) for name, own in shapes.items()}
    torch.save({**meta, "model_state": weights}, tmp_path / "a.pt")
    assert "larger than the stored" in refusal(tmp_path / "a.pt", load_policy)
    with pytest.raises(ValueError, match=r"weights have \d+ bytes, of which only \d+ are stored"):
        policy_from(meta, weights)
    torch.save({**meta, "model_state": policy(1).state_dict()}, tmp_path / "b.pt")
    assert load_policy(tmp_path / "b.pt").policy.state_dict().keys() == shapes.keys()


def test_weights_in_a_folder_whose_name_is_no_utf8_load(tmp_path):
    """The library takes names that are UTF-8 only; whole files were called damaged."""
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    save_file({"a": torch.arange(3.0)}, folder / "model.safetensors")
    assert load_tensors(folder / "model.safetensors")["a"].tolist() == [0, 1, 2]
    assert load_arrays(folder / "model.safetensors")["a"].tolist() == [0, 1, 2]
