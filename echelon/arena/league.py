"""The league in memory: entries, ratings, promotion and retirement.

Import-light, without policies or simulator. ``store`` keeps it on disk; ``as_dict`` and ``save`` export it;
``matchmaking`` samples opponents.
"""

import hashlib
import json
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Interval

from echelon.arena.glicko2 import DEFAULT_CONSERVATISM, GameResult, Glicko2Config, Glicko2Rating, rate
from echelon.files import reason_of, write_output
from echelon.runs import policy_name
from echelon.state_files import parse_json, read_bounded
from echelon.validation import validated

__all__ = ["SCHEMA_VERSION", "GameResult", "Glicko2Config", "Glicko2Rating", "League", "LeagueEntry", "utc_now"]

SCHEMA_VERSION = 1
KEEP_TOP = 20
MIN_GAMES = 20
ANY_COMMANDER = "commander"
"""Value of ``opponents.league.target`` that samples one of the commanders."""
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
MAX_FILE_BYTES = 32 << 20
"""Largest exported league: 20,000 entries of 600 characters and their numbers take 18 MiB."""
MAX_PARTS = 1_000_000
"""Most values of an exported league, 50 of each of 20,000 entries; one takes up to 150 bytes of memory."""
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


def utc_now() -> str:
    """Return the current UTC time as ``YYYY-MM-DDTHH:MM:SSZ``."""
    return time.strftime(TIME_FORMAT, time.gmtime())


@dataclass
class LeagueEntry:
    """One entry of the league: a scripted level or the policy of a checkpoint."""

    entry_id: str
    ckpt_path: str
    """Path of its checkpoint; empty for a scripted pilot."""
    kind: str
    """A row of ``KINDS``."""
    commander_name: str | None = None
    created_at: str = field(default_factory=utc_now)
    rating: Glicko2Rating = field(default_factory=Glicko2Rating)
    games: Annotated[int, Ge(0)] = 0
    meta: dict[str, Any] = field(default_factory=dict)
    """Additional facts: ``label``, ``level`` of a scripted pilot, ``target`` of an exploiter, ``style``."""

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The stored name, behind it the label of an entry that has become a commander, and both as displayed."""
        known = [str(name) for name in (self.commander_name, self.meta.get("label")) if name] or [self.entry_id]
        return tuple(dict.fromkeys((*known, *map(policy_name, known))))

    def __post_init__(self) -> None:
        check_kind(self.kind, self.entry_id)


def check_kind(kind: str, entry: str) -> None:
    """Raise ``ValueError`` where ``entry`` is of a kind that is not in ``KINDS``."""
    if kind not in KINDS:
        raise ValueError(f"kind of entry {entry!r} is {kind!r}, expected one of: {', '.join(KINDS)}")


def _require_parts(raw: bytes) -> None:
    """Raise ``ValueError`` for the JSON of a league that would take hundreds of megabytes to read."""
    if (parts := sum(map(raw.count, (b",", b"[", b"{")))) > MAX_PARTS:
        raise ValueError(f"it has {parts} values, expected at most {MAX_PARTS}")


@dataclass(frozen=True, kw_only=True)
class LeagueFile:
    """A league as ``League.save`` writes it."""

    schema_version: Literal[1]
    glicko2: dict[str, Any]
    conservatism: Annotated[float, Interval(ge=-1e3, le=1e3)]
    env_signature: dict[str, Any] | None
    entries: list[Any]


class League:
    """Entries by id, and the rules that change their ratings and kinds."""

    def __init__(
        self,
        *,
        glicko2: Glicko2Config | None = None,
        conservatism: float = DEFAULT_CONSERVATISM,
        env_signature: Mapping[str, Any] | None = None,
    ) -> None:
        self.entries: dict[str, LeagueEntry] = {}
        self.glicko2 = glicko2 or Glicko2Config()
        self.conservatism = conservatism
        """Deviations subtracted from the rating when commanders are ranked."""
        self.env_signature = dict(env_signature) if env_signature is not None else None
        """Environment signature that all policies share; set by the first policy."""

    def entry(self, entry_id: str) -> LeagueEntry:
        """Return an entry; ``KeyError`` names an unknown id."""
        if entry_id not in self.entries:
            raise KeyError(f"entry {entry_id!r} is not in the league")
        return self.entries[entry_id]

    def upsert_checkpoint(
        self,
        path: str | Path,
        *,
        kind: str,
        env_signature: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> LeagueEntry:
        """Add the checkpoint at ``path``, or update path and meta of its entry; return the entry.

        A commander keeps its kind. ``ValueError`` where the policy was built for another environment signature.
        """
        check_kind(kind, str(path))
        self.check_signature(env_signature)
        entry_id = entry_id_of(Path(path))
        entry = self.entries.get(entry_id)
        if entry is None:
            initial = Glicko2Rating(self.glicko2.rating, self.glicko2.rd, self.glicko2.vol)
            entry = self.entries[entry_id] = LeagueEntry(entry_id, str(path), kind, rating=initial)
        entry.ckpt_path = str(path)
        if KINDS[entry.kind].may_become_by_adding:
            entry.kind = kind
        entry.meta.update(meta or {})
        if self.env_signature is None and env_signature is not None:
            self.env_signature = dict(env_signature)
        return entry

    def add_scripted(self, level: str) -> LeagueEntry:
        entry_id = f"heuristic:{level}"
        meta = {"level": level, "label": level}
        initial = Glicko2Rating(self.glicko2.rating, self.glicko2.rd, self.glicko2.vol)
        return self.entries.setdefault(entry_id, LeagueEntry(entry_id, "", "heuristic", rating=initial, meta=meta))

    def check_signature(self, signature: Mapping[str, Any] | None) -> None:
        """Raise ``ValueError`` naming the differences from the league's environment signature."""
        if self.env_signature is None or signature is None:
            return
        expected = self.env_signature
        wrong = [
            f"{key} {signature.get(key)!r}, expected {expected.get(key)!r}"
            for key in sorted(signature)
            if signature.get(key) != expected.get(key)
        ]
        if wrong:
            raise ValueError(f"checkpoint was built for another environment than the league's: {'; '.join(wrong)}")

    def top_commanders(self, n: int) -> list[LeagueEntry]:
        """Return the ``n`` best commanders by conservative rating, best first."""
        return self.ranked(e for e in self.entries.values() if KINDS[e.kind].in_top)[: max(0, n)]

    def recent_candidates(self, n: int, *, exclude_id: str | None = None) -> list[LeagueEntry]:
        """Return the ``n`` newest candidates, newest first."""
        found = [e for e in self.entries.values() if KINDS[e.kind].in_recent and e.entry_id != exclude_id]
        return sorted(found, key=lambda e: (e.created_at, e.entry_id), reverse=True)[: max(0, n)]

    def opponent_pool(self, *, exclude_id: str | None = None, commanders: int, candidates: int) -> list[LeagueEntry]:
        """Return possible opponents: best commanders, newest candidates, scripted levels and exploiters.

        Each entry once, without retired entries and ``exclude_id``.
        """
        groups = [
            self.top_commanders(commanders),
            self.recent_candidates(candidates, exclude_id=exclude_id),
            [e for e in self.entries.values() if KINDS[e.kind].always_in_pool],
        ]
        pool = {e.entry_id: e for group in groups for e in group if e.entry_id != exclude_id}
        return list(pool.values())

    def ranked(self, entries: Iterable[LeagueEntry], conservatism: float | None = None) -> list[LeagueEntry]:
        """Return entries by rating minus ``conservatism`` deviations, best first; ties by id."""
        k = self.conservatism if conservatism is None else conservatism
        return sorted(entries, key=lambda e: (-e.rating.conservative_rating(k), e.entry_id))

    def promote_if_topk(self, entry_id: str, *, top_k: int, conservatism: float | None = None) -> bool:
        """Promote a candidate that ranks in the top ``top_k`` of the commanders; return whether it is a commander now.

        ``KeyError`` for an unknown id. Other kinds are not promoted; an exploiter must become a candidate first.
        """
        entry = self.entry(entry_id)
        if not KINDS[entry.kind].may_be_promoted:
            return entry.kind == "commander"
        ranked = [e for e in self.entries.values() if e.kind == "commander" or e is entry]
        if entry in self.ranked(ranked, conservatism)[: max(1, top_k)]:
            entry.kind = "commander"
            entry.commander_name = entry.commander_name or commander_name(entry_id)
        return entry.kind == "commander"

    def retire_commanders(
        self, keep_top: int = KEEP_TOP, min_games: int = MIN_GAMES, conservatism: float | None = None
    ) -> list[LeagueEntry]:
        """Retire the weakest commanders beyond ``keep_top``, by conservative rating; return them, weakest first.

        Commanders with fewer than ``min_games`` games count but stay.
        """
        commanders = [e for e in self.entries.values() if e.kind == "commander"]
        eligible = self.ranked((e for e in commanders if e.games >= min_games), conservatism)
        retired = eligible[::-1][: max(0, len(commanders) - keep_top)]
        for entry in retired:
            entry.kind = "retired"
        return retired

    def apply_rating_period(self, results: Mapping[str, Sequence[GameResult]]) -> None:
        """Update ratings by the results of one period, all from the ratings at its start.

        The result does not depend on order or sides. Unknown ids are ignored; an empty list of results only increases
        the entry's deviation.
        """
        before = {entry_id: entry.rating for entry_id, entry in self.entries.items()}
        after = {}
        for entry_id, games in results.items():
            if entry_id in before:
                frozen = [GameResult(before.get(g.opponent_id or "", g.opponent), g.score) for g in games]
                after[entry_id] = rate(before[entry_id], frozen, self.glicko2)
        for entry_id, rating in after.items():
            self.entries[entry_id].rating = rating
            self.entries[entry_id].games += len(results[entry_id])

    def as_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "glicko2": asdict(self.glicko2),
            "conservatism": self.conservatism,
            "env_signature": self.env_signature,
            "entries": [asdict(entry) for entry in self.entries.values()],
        }

    @classmethod
    def from_dict(cls, row: Any) -> "League":
        """Return the league written by ``as_dict``; ``ValueError`` names the invalid field."""
        exported = validated(LeagueFile, row)
        league = cls(
            glicko2=Glicko2Config.from_dict(exported.glicko2),
            conservatism=exported.conservatism,
            env_signature=exported.env_signature,
        )
        for number, one in enumerate(exported.entries):
            entry = validated(LeagueEntry, one, f"entry {number}: ")
            league.entries[entry.entry_id] = entry
        return league

    def save(self, path: str | Path) -> None:
        """Write the league to a JSON file atomically; ``ValueError`` for one that ``load`` would refuse."""
        raw = (json.dumps(self.as_dict(), ensure_ascii=False) + "\n").encode()
        if len(raw) > MAX_FILE_BYTES:
            raise ValueError(f"league takes {len(raw)} bytes as JSON, expected at most {MAX_FILE_BYTES}")
        _require_parts(raw)
        write_output(Path(path), raw)

    @classmethod
    def load(cls, path: str | Path) -> "League":
        """Read the league written by ``save``; ``ValueError`` where it cannot be read."""
        try:
            raw = read_bounded(path, MAX_FILE_BYTES)
            _require_parts(raw)
            row = parse_json(raw)
        except FileNotFoundError:
            raise ValueError(f"league file {str(path)!r} does not exist") from None
        except (OSError, ValueError) as error:
            raise ValueError(f"league file {str(path)!r} cannot be read: {reason_of(error)}") from None
        try:
            return cls.from_dict(row)
        except ValueError as error:
            raise ValueError(
                f"league file {str(path)!r} holds no league, expected the output of `echelon arena export`: {error}"
            ) from None


def run_entries(league: League, run: str) -> list[LeagueEntry]:
    """Return the entries that a run submitted, retired ones included, exploiters excluded."""
    return [e for e in league.entries.values() if e.meta.get("run") == run and e.kind != "exploiter"]


def find_target(league: League, target: str, seed: int, what: str = "opponents.league.target") -> LeagueEntry:
    """Return the entry that ``what`` names: an entry, the newest of a run, or a commander sampled by ``seed``.

    Raises ``ValueError`` if there is none or more than one.
    """
    if target == ANY_COMMANDER:
        commanders = league.top_commanders(len(league.entries))
        if not commanders:
            raise ValueError(f"{what} is 'commander', but the league has none")
        return random.Random(seed).choice(commanders)
    entries = list(league.entries.values())
    found = [league.entry(i) for i in entries_called(target, {e.entry_id: e.names for e in entries})]
    runs = {e.meta.get("run") for e in found} | {e.meta["run"] for e in entries if target in e.meta.get("run", "")}
    if len(found) != 1 and len(runs) == 1 and (run := runs.pop()):
        found = [max(run_entries(league, run), key=lambda e: e.meta.get("update", 0))]
    if len(found) != 1:
        names = ", ".join(sorted(policy_name(e.name) for e in found or entries)) or "no entry"
        raise ValueError(f"{what} is {target!r}, expected one of: {names}")
    return found[0]
