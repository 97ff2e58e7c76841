"""Plays the same programs natively and, compiled to WebAssembly, in Node."""

import hashlib
import importlib.util
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from echelon.arena.reconstruct import CLOUD_FIELDS, NOT_STATE, ROUND_FIELDS
from echelon.sim.batch import Batch
from echelon.sim.state import STATE, WORLD
from tests.state_hash import HASHED_UNLESS_ZERO

PLAY = Path(__file__).with_name("play.mjs")

NODE = shutil.which("node")
COMPILER = importlib.util.find_spec("ziglang")
needs_node = pytest.mark.skipif(NODE is None or COMPILER is None, reason="needs Node and ziglang (extra web)")


class Played(NamedTuple):
    state: list[str]
    """State hash, as ``tests.state_hash``, after each program."""
    arrays: list[str]
    """Digest of all arrays then."""
    seconds: float
    """Duration of all programs but the first."""


class Compiled(NamedTuple):
    module: bytes
    arrays: Sequence[str]


def play_in_node(
    folder: Path, compiled: Compiled, batch: Batch, programs: Sequence[str], each: Mapping[str, np.ndarray] = {}
) -> Played:
    """Run ``programs`` one after the other from the arrays of ``batch``.

    ``each`` has arrays to set before all but the first, with the program as first axis.
    """
    module, arrays = compiled
    size = {name: batch.numpy(name).nbytes for name in arrays}
    live = dict.fromkeys(ROUND_FIELDS, ("round_weapon", 0)) | dict.fromkeys(CLOUD_FIELDS, ("cloud_ticks", 1))
    hashed = [
        {
            "name": name,
            "size": size[name],
            "rare": name in HASHED_UNLESS_ZERO,
            "live": {"name": live[name][0], "least": live[name][1], "count": size[live[name][0]] // 4}
            if name in live
            else None,
        }
        for name in (*WORLD, *STATE)
        if name not in NOT_STATE and name in size
    ]
    rows = [{"name": name, "size": count} for name, count in size.items()]
    job: dict[str, Any] = {
        "first": rows,
        "programs": programs,
        "each": [{"name": name, "size": size[name]} for name in each],
        "digests": [hashed, rows],
    }
    later = b"".join(values[i].tobytes() for i in range(len(programs) - 1) for values in each.values())
    (folder / "job.json").write_text(json.dumps(job))
    (folder / "inputs.bin").write_bytes(b"".join(batch.numpy(name).tobytes() for name in arrays) + later)
    (folder / "game.wasm").write_bytes(module)
    done = subprocess.run(["node", str(PLAY), str(folder)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    state, whole = zip(*found["digests"], strict=True)
    return Played(list(state), list(whole), found["seconds"])


def digest_of(batch: Batch, arrays: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for name in arrays:
        digest.update(name.encode())
        digest.update(batch.numpy(name).tobytes())
    return digest.hexdigest()


def first_difference(native: Sequence[str], played: Sequence[str]) -> int | None:
    """Return the first index at which two equally long sequences differ."""
    pairs = zip(native, played, strict=True)
    return next((i for i, (one, other) in enumerate(pairs) if one != other), None)
