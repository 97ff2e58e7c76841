"""Demonstrations: what a policy observed, did and achieved in recorded matches, as data to learn from.

A recording is a folder of safetensors shards and ``manifest.json``, which lists their hashes and is written after them;
after a crash at any time all shards of the manifest are whole. A shard has the T environment steps of N learner rows
of a wave, matches that start together. Rows whose match has ended are zeros with episode -1. ``load`` reads a recording
of any origin, ``echelon.training.demonstrations`` makes one (``echelon demos record``).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

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

FORMAT_VERSION = 2
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 16 << 20
"""Largest manifest, of some 200,000 shards."""
MAX_COUNT = 10**15
Width = Annotated[int, Interval(ge=1, le=1 << 16)]
"""Columns of observations or actions."""
Count = Annotated[int, Interval(ge=0, le=MAX_COUNT)]
NO_EPISODE = -1
"""Episode of a row whose match has ended."""
OUTCOMES = {"win": 1, "draw": 0, "loss": -1}
"""Values of the array ``outcomes``, from the side of the row."""
MAX_VALUE = 1e6
"""Greatest observation and reward; those of recordings are a few units."""


class Array(NamedTuple):
    """An array ``[T, N]`` of a shard, or ``[T, N, width]``."""

    dtype: str
    low: float
    """Least value; NaN is outside."""
    high: float
    width: str = ""
    """Field of the manifest with the number of its columns."""


ARRAYS = {
    "obs": Array("float16", -MAX_VALUE, MAX_VALUE, "obs_dim"),
    "actions": Array("int8", -QUANTISATION_LEVELS, QUANTISATION_LEVELS, "action_dim"),
    "rewards": Array("float32", -MAX_VALUE, MAX_VALUE),
    "dones": Array("uint8", 0, 1),
    "alive": Array("uint8", 0, 1),
    "episodes": Array("int32", NO_EPISODE, MAX_COUNT),
    "outcomes": Array("int8", min(OUTCOMES.values()), max(OUTCOMES.values())),
}
"""Arrays of a shard.

``actions`` are in units of 1/127, exactly what the simulator reads. ``dones`` is 1 in the last step of an episode,
``alive`` where the mech was alive at the start of the step. ``episodes`` numbers the matches of the recording,
``outcomes`` says how the row's match ended.
"""
Arrays = Mapping[str, NDArray[Any]]


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
    def of(cls, arrays: Arrays) -> "Counts":
        """Return the totals of a shard."""
        episodes = arrays["episodes"]
        matches = [episodes == number for number in np.unique(episodes[episodes != NO_EPISODE])]
        outcomes = [int(arrays["outcomes"][match][0]) for match in matches]
        wins, draws, losses = (outcomes.count(value) for value in OUTCOMES.values())
        steps, agent_steps = sum(int(match.any(1).sum()) for match in matches), int(arrays["alive"].sum())
        return cls(episodes=len(matches), steps=steps, agent_steps=agent_steps, wins=wins, draws=draws, losses=losses)

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{name: value + getattr(other, name) for name, value in asdict(self).items()})


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
    env: EnvConfig
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
    shards: list[str] = field(default_factory=list)
    """Hash of each shard's file (SHA-256)."""

    def __post_init__(self) -> None:
        require_fields(self, "")
        require(self.format == FORMAT_VERSION, "format", self.format, str(FORMAT_VERSION))

    @property
    def is_complete(self) -> bool:
        return self.counts.episodes >= self.matches

    def request(self) -> dict[str, Any]:
        """Return what was asked for: equal requests record equal data."""
        return {name: value for name, value in asdict(self).items() if name not in ("counts", "shards", "versions")}


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a recording; ``ValueError`` in one line where it is missing or damaged."""
    try:
        values = parse_json(read_bounded(folder / MANIFEST, MAX_MANIFEST_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{str(folder)!r} has no {MANIFEST}, expected a recording of demonstrations") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{MANIFEST} of {str(folder)!r} cannot be read: {reason_of(error)}") from None
    return validated(Manifest, values, f"{MANIFEST} of {str(folder)!r} is damaged: ")


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:05d}.safetensors"


def shapes(steps: int, rows: int, **widths: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array of a shard, by name."""
    return {name: (steps, rows, *([widths[kind.width]] if kind.width else [])) for name, kind in ARRAYS.items()}


def empty_arrays(*, steps: int, rows: int, obs_dim: int, action_dim: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a shard as zeros, by name."""
    sizes = shapes(steps, rows, obs_dim=obs_dim, action_dim=action_dim)
    return {name: np.zeros(shape, ARRAYS[name].dtype) for name, shape in sizes.items()}


@dataclass(frozen=True)
class Demonstrations:
    """A recording; iterating loads and checks the arrays of one shard at a time."""

    folder: Path
    manifest: Manifest

    def __len__(self) -> int:
        return len(self.manifest.shards)

    def __iter__(self) -> Iterator[Arrays]:
        return (self.shard(number) for number in range(len(self)))

    def shard(self, number: int) -> Arrays:
        """Return the arrays of a shard; ``ValueError`` naming its file where it is missing, damaged or invalid."""
        path = shard_path(self.folder, number)
        shard = f"shard {path.name!r}"
        try:
            found = describe(path)["sha256"]
        except OSError as error:
            raise ValueError(f"{shard} cannot be read: {reason_of(error)}") from None
        if found != self.manifest.shards[number]:
            raise ValueError(f"{shard} is damaged: its hash differs from the manifest's")
        arrays = load_arrays(path)
        steps, rows = (*arrays.get("episodes", np.zeros(0)).shape, 0, 0)[:2]
        widths = {"obs_dim": self.manifest.obs_dim, "action_dim": self.manifest.action_dim}
        for name, shape in shapes(steps, rows, **widths).items():
            values, kind = arrays.get(name, np.zeros(0)), ARRAYS[name]
            if (values.shape, values.dtype.name) != (shape, kind.dtype) or not values.size:
                raise ValueError(f"{shard} has {name} {values.shape} {values.dtype}, expected {shape} {kind.dtype}")
            if not (kind.low <= float(values.min()) and float(values.max()) <= kind.high):
                raise ValueError(f"{shard} has {name} outside {kind.low:g} to {kind.high:g}")
        if arrays["alive"][arrays["episodes"] == NO_EPISODE].any():
            raise ValueError(f"{shard} has mechs alive after the end of their match, expected none")
        return arrays


def load(path: Path | str, *, partial: bool = False) -> Demonstrations:
    """Return the recording in the folder ``path``; shards are read when they are used.

    Raises ``ValueError`` where there is none, it is damaged, or, unless ``partial``, not all its matches are recorded.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
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

    def append(self, arrays: Arrays) -> None:
        """Write the arrays of a wave as a shard and list it; ``OSError`` changes nothing."""
        path = shard_path(self.folder, len(self.manifest.shards))
        atomic_write(path, save({name: np.ascontiguousarray(arrays[name]) for name in ARRAYS}))
        shards = [*self.manifest.shards, describe(path)["sha256"]]
        listed = replace(self.manifest, counts=self.manifest.counts + Counts.of(arrays), shards=shards)
        atomic_write(self.folder / MANIFEST, json.dumps(asdict(listed), indent=1) + "\n")
        self.manifest = listed
