"""Demonstrations: what a policy observed, did and achieved in recorded matches, as data to learn from.

A recording is a folder of safetensors shards and ``manifest.json``, which lists them with their hashes and is written
after them; after a crash at any time all shards of the manifest are whole. A shard has T consecutive environment steps
of N learner rows, from the matches of one wave, which start together. Rows whose match has ended are zeros with episode
-1. ``load`` reads a recording of any origin, ``echelon.training.demonstrations`` makes one (``echelon demos record``).

Shapes: ``T step, N learner row, D observation, A action``.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray
from safetensors.numpy import save

from echelon.actions import QUANTISATION_LEVELS
from echelon.config import EnvConfig
from echelon.config.checks import STRICT, Fraction, require, require_fields
from echelon.files import atomic_write, make_folder, reason_of
from echelon.rl.checkpoint import describe
from echelon.rl.tensor_files import load_arrays
from echelon.state_files import parse_json, read_bounded
from echelon.validation import validated

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
MAX_SHARD_BYTES = 64 * 10**6
"""Largest file of a shard; one is read at a time."""
MAX_MANIFEST_BYTES = 16 << 20
"""Largest manifest, of some 100,000 shards."""
HEADER_BYTES = 4096
"""Bytes reserved for the header of a shard; it has some 700."""
SHARD_NAME = re.compile(r"shard-[0-9]{5,9}\.safetensors")
MAX_COUNT = 10**15
Width = Annotated[int, Interval(ge=1, le=1 << 16)]
"""Columns of observations or actions."""
Steps = Annotated[int, Interval(ge=1, le=10**6)]
"""Steps or rows of a shard."""
Count = Annotated[int, Interval(ge=0, le=MAX_COUNT)]
NO_EPISODE = -1
"""Episode of a row whose match has ended."""
OUTCOMES = {"win": 1, "draw": 0, "loss": -1}
"""Values of the array ``outcomes``, from the side of the row."""
ObsDtype = Literal["float16", "float32"]

ARRAYS: dict[str, tuple[str, str]] = {
    "obs": ("TND", ""),
    "actions": ("TNA", "int8"),
    "rewards": ("TN", "float32"),
    "dones": ("TN", "uint8"),
    "alive": ("TN", "uint8"),
    "episodes": ("TN", "int32"),
    "outcomes": ("TN", "int8"),
}
"""Axes and type of every array of a shard; the type of ``obs`` is in the manifest.

``actions`` are in units of 1/127, exactly what the simulator reads. ``dones`` is 1 in the last step of an episode,
``alive`` where the mech was alive at the start of the step. ``episodes`` numbers the matches of the recording,
``outcomes`` says how the row's match ended.
"""
MAX_VALUE = 1e6
"""Greatest observation and reward; those of recordings are a few units."""
RANGES: dict[str, tuple[float, float]] = {
    "obs": (-MAX_VALUE, MAX_VALUE),
    "actions": (-QUANTISATION_LEVELS, QUANTISATION_LEVELS),
    "rewards": (-MAX_VALUE, MAX_VALUE),
    "dones": (0, 1),
    "alive": (0, 1),
    "episodes": (NO_EPISODE, MAX_COUNT),
    "outcomes": (min(OUTCOMES.values()), max(OUTCOMES.values())),
}
"""Least and greatest value of every array; NaN is outside."""


@dataclass(frozen=True, kw_only=True)
class ShardEntry:
    """One shard in a manifest."""

    __pydantic_config__ = STRICT

    file: str
    size: Annotated[int, Interval(ge=1, le=MAX_SHARD_BYTES)]
    """[bytes]"""
    sha256: str
    steps: Steps
    """T"""
    rows: Steps
    """N"""
    first_step: int
    """Environment step of its first row within the wave's matches."""
    first_episode: int
    """Number of the first match of its wave."""

    def __post_init__(self) -> None:
        require(bool(SHARD_NAME.fullmatch(self.file)), "shard file", self.file[:60], "shard-NNNNN.safetensors")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Totals of a recording."""

    __pydantic_config__ = STRICT

    episodes: Count = 0
    steps: Count = 0
    """Environment steps of all episodes."""
    agent_steps: Count = 0
    """Steps of living mechs: samples of an action."""
    wins: Count = 0
    draws: Count = 0
    losses: Count = 0

    @classmethod
    def of(cls, outcomes: Sequence[str], *, steps: int, agent_steps: int) -> "Counts":
        """Return the totals of matches with these outcomes, keys of ``OUTCOMES``."""
        wins, draws, losses = (outcomes.count(name) for name in OUTCOMES)
        return cls(episodes=len(outcomes), steps=steps, agent_steps=agent_steps, wins=wins, draws=draws, losses=losses)

    def __add__(self, other: "Counts") -> "Counts":
        own, more = asdict(self), asdict(other)
        return Counts(**{name: value + more[name] for name, value in own.items()})


@dataclass(frozen=True, kw_only=True)
class DemoSide:
    """Who controls one side of the matches."""

    __pydantic_config__ = STRICT

    name: str
    checkpoint: str = ""
    """Id of its checkpoint; empty for a scripted level."""
    samples: bool = False
    """Whether a policy samples its actions instead of taking their mean."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Content of ``manifest.json``."""

    __pydantic_config__ = STRICT

    format: int = FORMAT_VERSION
    obs_dim: Width
    action_dim: Width
    obs_dtype: ObsDtype
    """Type in which observations are stored."""
    config: dict[str, Any]
    """Configuration of the environment."""
    policy: DemoSide
    """The recorded side, which plays blue and red in turn."""
    opponent: DemoSide
    weapon_prob: Fraction
    """Trigger probability of scripted pilots."""
    first_seed: Count
    """Seed of the first two matches; every seed is played from both sides."""
    matches: Count
    """Matches requested."""
    versions: dict[str, str]
    """Versions of the software that recorded."""
    counts: Counts = field(default_factory=Counts)
    shards: list[ShardEntry] = field(default_factory=list)

    def __post_init__(self) -> None:
        require_fields(self, "")
        require(self.format == FORMAT_VERSION, "format", self.format, str(FORMAT_VERSION))
        names = [shard.file for shard in self.shards]
        require(len(names) == len(set(names)), "shards", len(names), "files that differ")

    @property
    def is_complete(self) -> bool:
        return self.counts.episodes >= self.matches

    @property
    def env(self) -> EnvConfig:
        """Return the configuration of the environment; ``ValueError`` where this version cannot read it."""
        try:
            return validated(EnvConfig, self.config)
        except ValueError as error:
            raise ValueError(f"demonstrations do not describe their environment: {error}") from None

    def request(self) -> dict[str, Any]:
        """Return what was asked for: equal requests record equal data."""
        return {name: value for name, value in asdict(self).items() if name not in ("counts", "shards", "versions")}

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a recording; ``ValueError`` in one line where it is missing or damaged."""
    try:
        values = parse_json(read_bounded(folder / MANIFEST, MAX_MANIFEST_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{str(folder)!r} has no {MANIFEST}, expected a recording of demonstrations") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{MANIFEST} of {str(folder)!r} cannot be read: {reason_of(error)}") from None
    try:
        return validated(Manifest, values)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{MANIFEST} of {str(folder)!r} is damaged: {error}") from None


def empty_arrays(*, steps: int, rows: int, obs_dim: int, action_dim: int, obs_dtype: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a shard as zeros, by name."""
    sizes = {"T": steps, "N": rows, "D": obs_dim, "A": action_dim}
    return {name: np.zeros([sizes[axis] for axis in axes], kind or obs_dtype) for name, (axes, kind) in ARRAYS.items()}


def bytes_per_row(obs_dim: int, action_dim: int, obs_dtype: str) -> int:
    """Return the bytes of one row of one step in all arrays."""
    widths = {"TND": obs_dim, "TNA": action_dim, "TN": 1}
    return sum(widths[axes] * np.dtype(kind or obs_dtype).itemsize for axes, kind in ARRAYS.values())


@dataclass(frozen=True, kw_only=True)
class Shard:
    """T steps of N rows; ``ARRAYS`` says what the arrays mean."""

    entry: ShardEntry
    obs: NDArray[np.floating]
    """[T, N, D]"""
    actions: NDArray[np.int8]
    """[T, N, A], in units of 1/127"""
    rewards: NDArray[np.float32]
    """[T, N]"""
    dones: NDArray[np.uint8]
    """[T, N]"""
    alive: NDArray[np.uint8]
    """[T, N]"""
    episodes: NDArray[np.int32]
    """[T, N]"""
    outcomes: NDArray[np.int8]
    """[T, N]"""

    def float_actions(self) -> NDArray[np.float32]:
        """Return the actions ``[T, N, A]`` in [-1, 1]."""
        return self.actions.astype(np.float32) / np.float32(QUANTISATION_LEVELS)


@dataclass(frozen=True)
class Demonstrations:
    """A recording; iterating loads and checks one shard at a time."""

    folder: Path
    manifest: Manifest

    def __len__(self) -> int:
        return len(self.manifest.shards)

    def __iter__(self) -> Iterator[Shard]:
        return (self.shard(number) for number in range(len(self)))

    def shard(self, number: int) -> Shard:
        """Return a shard; ``ValueError`` naming its file where it is missing, damaged or not as the manifest says."""
        entry, manifest = self.manifest.shards[number], self.manifest
        self.check(number)
        arrays = load_arrays(self.folder / entry.file)
        sizes = {"T": entry.steps, "N": entry.rows, "D": manifest.obs_dim, "A": manifest.action_dim}
        for name, (axes, kind) in ARRAYS.items():
            expected = (tuple(sizes[axis] for axis in axes), kind or manifest.obs_dtype)
            found = (arrays[name].shape, arrays[name].dtype.name) if name in arrays else None
            if found != expected:
                raise ValueError(f"shard {entry.file!r} has {name} {found}, expected {expected}")
            values, (low, high) = arrays[name], RANGES[name]
            if not (low <= float(values.min()) and float(values.max()) <= high):
                raise ValueError(f"shard {entry.file!r} has {name} outside {low:g} to {high:g}")
        if arrays["alive"][arrays["episodes"] == NO_EPISODE].any():
            raise ValueError(f"shard {entry.file!r} has mechs alive after the end of their match, expected none")
        return Shard(entry=entry, **{name: arrays[name] for name in ARRAYS})

    def check(self, number: int) -> None:
        """Raise ``ValueError`` unless a shard's file has the size and hash of the manifest."""
        entry = self.manifest.shards[number]
        path = self.folder / entry.file
        actual = path.stat().st_size if path.is_file() else -1
        if actual != entry.size:
            state = "is missing" if actual < 0 else f"has {actual} bytes"
            raise ValueError(f"shard {entry.file!r} {state}, expected {entry.size} bytes")
        if describe(path)["sha256"] != entry.sha256:
            raise ValueError(f"shard {entry.file!r} is damaged: its hash differs from the manifest's")


def load(path: Path | str, *, partial: bool = False) -> Demonstrations:
    """Return the recording in the folder ``path``; shards are read when they are used.

    Raises ``ValueError`` where there is none, it is damaged, or, unless ``partial``, not all its matches are recorded.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    _ = manifest.env  # raises ``ValueError`` where this version has no such environment
    if not (manifest.is_complete or partial):
        raise ValueError(
            f"{str(folder)!r} has {manifest.counts.episodes} of {manifest.matches} matches, expected all; run the same "
            "`echelon demos record` again to continue"
        )
    return Demonstrations(folder, manifest)


class DemoWriter:
    """Appends waves of matches to a recording; it continues one of the same request."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open or create ``folder`` for the request of ``manifest``; ``ValueError`` where it has another recording."""
        self.folder, self.manifest = folder, manifest
        if (folder / MANIFEST).exists():
            stored = read_manifest(folder)
            own, other = manifest.request(), stored.request()
            if differing := [name for name, value in own.items() if other[name] != value]:
                raise ValueError(
                    f"{str(folder)!r} has demonstrations with another {', '.join(differing)}, expected the same "
                    "request to continue; try an empty folder"
                )
            self.manifest = stored
        elif folder.exists() and any(folder.iterdir()):
            leftover = [path for path in folder.iterdir() if not path.name.startswith((".", "shard-"))]
            if leftover:
                raise ValueError(f"{str(folder)!r} has {leftover[0].name!r}, expected an empty folder")
        make_folder(folder)

    @property
    def recorded(self) -> int:
        return self.manifest.counts.episodes

    def append(self, arrays: Mapping[str, NDArray[np.generic]], counts: Counts) -> None:
        """Write a wave, arrays ``[T, N, ...]`` as in ``ARRAYS``, and list it; ``OSError`` changes nothing."""
        manifest = self.manifest
        steps, rows = arrays["episodes"].shape
        row = bytes_per_row(manifest.obs_dim, manifest.action_dim, manifest.obs_dtype)
        span = (MAX_SHARD_BYTES - HEADER_BYTES) // (row * rows)
        if span < 1:
            raise ValueError(f"one step of {rows} mechs has more than {MAX_SHARD_BYTES} bytes, expected fewer mechs")
        entries = []
        for first in range(0, steps, span):
            part = {name: np.ascontiguousarray(arrays[name][first : first + span]) for name in ARRAYS}
            file = f"shard-{len(manifest.shards) + len(entries):05d}.safetensors"
            atomic_write(self.folder / file, save(part))
            entries.append(
                ShardEntry(
                    file=file,
                    steps=len(part["episodes"]),
                    rows=rows,
                    first_step=first,
                    first_episode=self.recorded,
                    **describe(self.folder / file),
                )
            )
        listed = replace(manifest, counts=manifest.counts + counts, shards=[*manifest.shards, *entries])
        atomic_write(self.folder / MANIFEST, listed.to_json())
        self.manifest = listed
