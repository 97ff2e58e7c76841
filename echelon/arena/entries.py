"""Kinds of league entries, their ids, and names of commanders."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MANIFEST = "manifest.json"
"""File that marks a checkpoint folder; its size and time identify the entry."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Rules for entries of one kind."""

    summary: str
    in_top: bool = False
    """Whether it belongs to the commanders."""
    in_recent: bool = False
    """Whether it belongs to the newest candidates."""
    always_in_pool: bool = False
    """Whether every opponent pool contains it, whatever its rating."""
    plays: bool = True
    """Whether it takes part in rounds."""
    may_be_promoted: bool = False
    may_become_by_adding: bool = False
    """Whether adding the entry again under another kind changes its kind."""


KINDS: dict[str, Kind] = {
    "candidate": Kind(
        summary="a policy that was submitted", in_recent=True, may_be_promoted=True, may_become_by_adding=True
    ),
    "commander": Kind(summary="promoted, the hall of fame", in_top=True),
    "exploiter": Kind(summary="trained against named targets", always_in_pool=True, may_become_by_adding=True),
    "heuristic": Kind(summary="a scripted level; never retires", always_in_pool=True),
    "retired": Kind(summary="kept for history only", plays=False, may_become_by_adding=True),
}

ADJECTIVES = (
    "Ashen Bitter Cobalt Distant Errant Frozen Granite Hollow Jagged Lonely Molten Pale Relentless Sable Unbroken"
).split()
NOUNS = (
    "Anvil Beacon Cinder Dagger Echo Furnace Gale Harrow Lantern Mantle Piston Rampart Sickle Talon Vanguard"
).split()
TAG_FACTOR = 2654435761
"""Multiplier of Knuth's multiplicative hash, which spreads neighbouring seeds over all tags."""
TAG_RANGE = 1 << 16
SEED_BYTES = 4


def entry_id_of(path: Path) -> str:
    """Return ``stem:size:mtime`` of a checkpoint; ``ValueError`` where it does not exist.

    Size [bytes] and mtime [s] of a checkpoint folder are those of its manifest, which lists the content of every file.
    """
    file = path / MANIFEST if path.is_dir() else path
    try:
        info = file.stat()
    except OSError:
        expected = "a step-N folder or an exported file"
        raise ValueError(f"checkpoint {str(path)!r} does not exist, expected {expected}") from None
    stem = path.name if path.is_dir() else path.stem
    return f"{stem}:{info.st_size}:{int(info.st_mtime)}"


def commander_name(entry_id: str) -> str:
    seed = int.from_bytes(hashlib.sha256(entry_id.encode()).digest()[:SEED_BYTES], "big")
    adjective = ADJECTIVES[seed % len(ADJECTIVES)]
    noun = NOUNS[seed // len(ADJECTIVES) % len(NOUNS)]
    return f"{adjective} {noun} #{seed * TAG_FACTOR % TAG_RANGE:04x}"


def entries_called(name: str, names_of: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the ids of the entries that have this id, level or name, and if there is none this part of one.

    ``names_of`` has the names of each entry by id: a promoted one keeps the name that it had before.
    """
    exact = [i for i, names in names_of.items() if name in (i, *names) or i == f"heuristic:{name}"]
    part = name.lower()
    return exact or [i for i, names in names_of.items() if part and any(part in known.lower() for known in (i, *names))]
