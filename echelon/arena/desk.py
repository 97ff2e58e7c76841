"""The league's desk: all that a run asks of a league. It takes and returns plain values, so it may stand elsewhere.

A submitted policy lies beside the league, where it outlives its run. It is rated by matches against entries of near
rating, played into the league as an arena job would play them, so that a crash neither loses nor duplicates one.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from echelon.arena.batches import BatchPlayer
from echelon.arena.config import ArenaConfig
from echelon.arena.league import LeagueEntry, run_entries
from echelon.arena.rounds import RoundCallbacks, play_rounds
from echelon.arena.standings import RETIRED, matches, pair_results, rating_shift, standings
from echelon.arena.store import FOLDER, Store, add_default_levels
from echelon.arena.submit import league_env_config, submit
from echelon.config import EnvConfig
from echelon.files import error_text, make_folder, write_output

SIDES = ("blue", "red")
WIN, DRAW, LOSS = 1.0, 0.5, 0.0
"""Score of a match."""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A policy for the league."""

    run: str
    update: int
    policy: bytes
    """Contents of its file."""
    kind: str = "candidate"
    target: str = ""
    """Entry that an exploiter was trained against."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Additional facts of the entry."""
    retired: Mapping[str, bool] = field(default_factory=dict)
    """Whether each exploiter of the run has retired, by entry id."""
    env: EnvConfig
    """Game of the run, and of the league if it has none."""
    matches: ArenaConfig | None
    """Matches that rate it; None leaves rating to arena jobs."""

    @property
    def short_name(self) -> str:
        return "-".join(self.run.split("-")[-2:])


class LeagueDesk:
    """The desk of a league file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def join(self, signature: dict[str, Any]) -> None:
        """Create a missing league; ``ValueError`` if it is of another game than the environment signature."""
        with Store(self.path) as store:
            add_default_levels(store)
            store.league().check_signature(signature)

    def read(self, run: str) -> tuple[dict[str, Any], dict[str, list[int]]]:
        """Return the league, and wins, draws and losses of the run's entries in its matches by opponent."""
        with Store(self.path) as store:
            league, results = store.league(), {}
            own = {entry.entry_id for entry in run_entries(league, run)}
            for (one, other), counts in pair_results(store).items():
                if one in own and other not in own:
                    results[other] = [a + b for a, b in zip(results.get(other, [0, 0, 0]), counts, strict=True)]
            return league.as_dict(), results

    def submit(
        self, submission: Submission, should_stop: Callable[[], bool] = lambda: False
    ) -> tuple[dict[str, Any] | None, list[str]]:
        """Enter a policy, have it rated, and return the fields of its record ``league``, and warnings.

        The same policy of an update again is the same entry, whose missing matches are played. The fields are None if
        the league cannot be written.
        """
        warnings: list[str] = []
        callbacks = RoundCallbacks(should_stop=should_stop, on_warning=warnings.append)
        try:
            with Store(self.path) as store:
                self._rate_levels(store, submission, callbacks)
                twin = self._twin(submission)
                entry = self._add_entry(store, submission, twin)
                job = f"{submission.run} u{submission.update}{twin}"
                self._rate_entry(store, submission, entry, job, callbacks)
                _note_retired(store, submission.retired)
                return _facts(store, entry.entry_id, job), warnings
        except (OSError, ValueError) as error:
            return None, [*warnings, f"snapshot could not be submitted to the league: {error_text(error)}"]

    def locate(self, path: str) -> str:
        """Return where a policy of the league can be read."""
        return path

    def player(self, folder: Path) -> BatchPlayer | None:
        """Return what plays the matches; None plays them here."""
        return None

    def _file(self, given: Submission, twin: str = "") -> Path:
        return self.path.parent / FOLDER / f"{given.short_name}-u{given.update:06d}{twin}.safetensors"

    def _twin(self, given: Submission) -> str:
        """Return a suffix for a policy that a resumed run submits for an update with another one, which stays."""
        path = self._file(given)
        is_new = not path.is_file() or path.read_bytes() == given.policy
        return "" if is_new else f"-{hashlib.sha256(given.policy).hexdigest()[:8]}"

    def _add_entry(self, store: Store, given: Submission, twin: str) -> LeagueEntry:
        """Write the policy beside the league and enter it."""
        path = self._file(given, twin)
        make_folder(path.parent)
        if not path.is_file() or path.read_bytes() != given.policy:
            write_output(path, given.policy)
        label = f"{given.short_name} u{given.update}"
        return submit(store, path, kind=given.kind, label=label, target=given.target, facts=given.facts)

    def _rate_levels(self, store: Store, given: Submission, callbacks: RoundCallbacks) -> None:
        """Play the scripted levels against each other if the league has no games yet.

        They are the scale: while all of them have the initial rating, opponents of near rating would be arbitrary.
        """
        entries = store.league().entries.values()
        if given.matches and all(e.kind == "heuristic" and not e.games for e in entries):
            league_env_config(store, given.env)
            config = replace(given.matches, scheme="round-robin", promote_top=0)
            self._play(store, f"{given.run} founding", config, callbacks)

    def _rate_entry(
        self, store: Store, given: Submission, entry: LeagueEntry, job: str, callbacks: RoundCallbacks
    ) -> None:
        if not given.matches:
            return
        config = replace(given.matches, only=(entry.entry_id,))
        # rounds that an earlier session of this run left unfinished come first: their matches are already planned
        unfinished = [p.job for p in store.periods() if not p.closed and p.job.startswith(f"{given.run} ")]
        with torch.random.fork_rng(devices=[]):
            for name in dict.fromkeys([*unfinished, job]):
                if not self._play(store, name, config, callbacks):
                    return

    def _play(self, store: Store, job: str, config: ArenaConfig, callbacks: RoundCallbacks) -> bool:
        folder = self.path.parent / FOLDER
        player = self.player(folder)
        config = replace(config, device=player.device) if player else config
        return play_rounds(store, job, config, folder, callbacks, player=player)


def _note_retired(store: Store, found: Mapping[str, bool]) -> None:
    """Note in the league which exploiters a run beats, for its standings."""
    if not found:
        return
    with store.editing() as league:
        for entry_id, is_retired in found.items():
            if entry_id in league.entries:
                league.entries[entry_id].meta[RETIRED] = is_retired


def _facts(store: Store, entry_id: str, job: str) -> dict[str, Any]:
    """Return rating, rank and match results of a submission, as fields of ``EventLeague``."""
    entry = store.league().entry(entry_id)
    ranking = [row["id"] for row in standings(store)]
    return {
        "name": entry.name,
        "entry": entry_id,
        "entry_kind": entry.kind,
        "rating": entry.rating.rating + rating_shift(store),
        "rd": entry.rating.rd,
        "games": entry.games,
        "rank": ranking.index(entry_id) + 1 if entry_id in ranking else 0,
        "ranked": len(ranking),
        "promoted": entry.kind == "commander",
        "results": _match_results(store, entry_id, job),
    }


def _match_results(store: Store, entry_id: str, job: str) -> dict[str, dict[str, float]]:
    """Return ``games`` and ``score`` of an entry in the matches of a job, by opponent name."""
    results: dict[str, dict[str, float]] = {}
    for match in matches(store, entry=entry_id):
        if match["job"] != job or match["state"] != "played":
            continue
        side, other = SIDES if match["blue"] == entry_id else SIDES[::-1]
        row = results.setdefault(match[f"{other}_name"], {"games": 0.0, "score": 0.0})
        row["games"] += 1
        row["score"] += DRAW if match["winner"] == "draw" else WIN if match["winner"] == side else LOSS
    return results
